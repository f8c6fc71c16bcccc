//! How the tables are written: rows of words, and rows of numbered names.

/// A row of a layout: one word, or several of one meaning.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct WordRow<M> {
    /// What it is called.
    pub name: &'static str,
    /// The number of its first word.
    pub first: u32,
    /// How many words it has; [`UNBOUNDED`] if as many as there are.
    pub count: u32,
    /// What sets it apart from the other rows of its table: who writes it, or where it is used.
    pub mark: M,
    /// What it means.
    pub doc: &'static str,
}

/// The count of a row that goes on to the end of its buffer.
pub const UNBOUNDED: u32 = u32::MAX;

impl<M> WordRow<M> {
    /// Whether it has the word of that number.
    pub const fn contains(&self, word: u32) -> bool {
        word >= self.first && word - self.first < self.count
    }
}

/// The name of a word by the rows of its table.
pub(crate) fn word_name<M>(table: &[WordRow<M>], word: u32) -> &'static str {
    table.iter().find(|row| row.contains(word)).map_or("unassigned", |row| row.name)
}

/// Declares the words of a layout: a constant each, and the table of them all.
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

/// One, unless a row says how many.
macro_rules! count {
    () => {
        1
    };
    ($count:expr) => {
        $count
    };
}
pub(crate) use count;

/// Declares an enum whose values have a number on the wire and a name.
macro_rules! codes {
    ($(#[$doc:meta])* $name:ident $noun:literal { $($(#[$meta:meta])* $variant:ident $code:literal $word:literal $text:literal;)* }) => {
        $(#[$doc])*
        #[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
        #[repr(u32)]
        pub enum $name { $(#[doc = $text] $(#[$meta])* $variant = $code,)* }

        impl $name {
            /// Every value, in order.
            pub const ALL: &[$name] = &[$($name::$variant),*];

            /// Its number on the wire.
            pub const fn code(self) -> u32 {
                self as u32
            }

            /// The value of that number.
            pub const fn from_code(code: u32) -> Option<$name> {
                match code { $($code => Some($name::$variant),)* _ => None }
            }

            /// What it is called.
            pub const fn name(self) -> &'static str {
                match self { $($name::$variant => $word),* }
            }

            /// What it means.
            pub const fn doc(self) -> &'static str {
                match self { $($name::$variant => $text),* }
            }
        }

        impl std::fmt::Display for $name {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.pad(self.name())
            }
        }

        /// By its name, in capitals or not.
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
