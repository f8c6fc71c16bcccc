//! The macros and types from which the tables of the protocol are made: rows of words, and rows of numbered names.

/// One row of a layout: a word, or several consecutive words with the same meaning.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct WordRow<M> {
    /// The name of the row, which is also the name of its constant.
    pub name: &'static str,
    /// The number of the row's first word.
    pub first: u32,
    /// How many words the row has. A row that goes on to the end of its buffer has [`UNBOUNDED`].
    pub count: u32,
    /// What distinguishes the row from others of its table, such as who writes it or where it is used.
    pub mark: M,
    /// What the row means, in one or more sentences.
    pub doc: &'static str,
}

/// The count of a row that goes on to the end of its buffer.
pub const UNBOUNDED: u32 = u32::MAX;

impl<M> WordRow<M> {
    /// Returns whether the word with this number belongs to the row.
    pub const fn contains(&self, word: u32) -> bool {
        word >= self.first && word - self.first < self.count
    }
}

/// Returns the name of the row that a word belongs to, or "unassigned".
pub(crate) fn word_name<M>(table: &[WordRow<M>], word: u32) -> &'static str {
    table.iter().find(|row| row.contains(word)).map_or("unassigned", |row| row.name)
}

/// Declares the words of a layout: one constant per row, and the table of all rows.
macro_rules! words {
    ($(#[$doc:meta])* $mark:ident; $($name:ident $first:literal $([$count:expr])? $kind:ident $text:literal;)*) => {
        $(#[doc = $text] pub const $name: u32 = $first;)*

        $(#[$doc])*
        pub const TABLE: &[$crate::protocol::WordRow<$mark>] = &[$($crate::protocol::WordRow {
            name: stringify!($name),
            first: $first,
            count: $crate::protocol::table::count!($($count)?),
            mark: $mark::$kind,
            doc: $text,
        },)*];
    };
}
pub(crate) use words;

/// Expands to the number of words that a row states, or to one.
macro_rules! count {
    () => {
        1
    };
    ($count:expr) => {
        $count
    };
}
pub(crate) use count;

/// Declares an enum whose values have a number on the wire and a name. The literal after the enum's name is what
/// errors call it.
macro_rules! codes {
    ($(#[$doc:meta])* $name:ident $noun:literal { $($(#[$meta:meta])* $variant:ident $code:literal $word:literal $text:literal;)* }) => {
        $(#[$doc])*
        #[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
        #[repr(u32)]
        pub enum $name { $(#[doc = $text] $(#[$meta])* $variant = $code,)* }

        impl $name {
            /// Every value, in the order of the table.
            pub const ALL: &[$name] = &[$($name::$variant),*];

            /// Returns the number of this value on the wire.
            pub const fn code(self) -> u32 {
                self as u32
            }

            /// Returns the value with this number on the wire, or `None` if there is none.
            pub const fn from_code(code: u32) -> Option<$name> {
                match code { $($code => Some($name::$variant),)* _ => None }
            }

            /// Returns the name of this value.
            pub const fn name(self) -> &'static str {
                match self { $($name::$variant => $word),* }
            }

            /// Returns what this value means.
            pub const fn doc(self) -> &'static str {
                match self { $($name::$variant => $text),* }
            }
        }

        impl std::fmt::Display for $name {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.pad(self.name())
            }
        }

        /// Parses a value from its name. Upper and lower case are the same.
        impl std::str::FromStr for $name {
            type Err = $crate::protocol::Malformed;
            fn from_str(word: &str) -> Result<Self, Self::Err> {
                Self::ALL.iter().copied().find(|value| value.name().eq_ignore_ascii_case(word)).ok_or_else(|| {
                    $crate::protocol::Malformed::Name { what: $noun, found: word.into() }
                })
            }
        }
    };
}
pub(crate) use codes;
