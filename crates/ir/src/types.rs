//! The small words of the language: types, constants, orders, scopes, spaces.
//!
//! Each enum is written once with the word that the text uses for each of its values; `Display` and `FromStr`
//! both come from that list.

use std::fmt;
use std::str::FromStr;

/// Declares an enum whose values have one spelling in the text.
macro_rules! words {
    ($($(#[$doc:meta])* $name:ident { $($(#[$vdoc:meta])* $variant:ident $word:literal,)* })*) => {$(
        $(#[$doc])*
        #[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
        pub enum $name {
            $($(#[$vdoc])* #[doc = concat!("\n\nWritten `", $word, "`.")] $variant,)*
        }

        impl $name {
            /// Every value, in order.
            pub const ALL: &[$name] = &[$($name::$variant),*];

            /// How the text spells it.
            pub const fn word(self) -> &'static str {
                match self { $($name::$variant => $word),* }
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.pad(self.word())
            }
        }

        impl FromStr for $name {
            type Err = ();
            fn from_str(word: &str) -> Result<Self, ()> {
                Self::ALL.iter().copied().find(|v| v.word() == word).ok_or(())
            }
        }
    )*};
}

words! {
    /// The type of a value.
    Type {
        /// 32 bits, unsigned.
        U32 "u32",
        /// 32 bits, two's complement.
        I32 "i32",
        /// 64 bits, unsigned.
        U64 "u64",
        /// IEEE 754 single precision.
        F32 "f32",
        /// True or false; not a type of memory.
        Bool "bool",
    }

    /// What an atomic access or a fence orders.
    Order {
        /// The access alone is atomic.
        Relaxed "relaxed",
        /// What follows stays behind it.
        Acquire "acquire",
        /// What precedes stays before it.
        Release "release",
        /// Both.
        AcqRel "acq_rel",
        /// Both, and one total order over all such fences. Fences only.
        SeqCst "seq_cst",
    }

    /// Who takes part in an order. A wider scope includes the narrower ones.
    Scope {
        /// The lanes of one group.
        Group "group",
        /// All lanes of the launch.
        Device "device",
        /// All lanes and the host.
        System "system",
    }

    /// Where a buffer lies.
    Space {
        /// Device memory, seen by all groups.
        Global "global",
        /// A group's own memory, zero when the group starts.
        Shared "shared",
        /// Words that the host reads and writes while the kernel runs. Each has one writer.
        Host "host",
    }

    /// What a kernel may do with a buffer.
    Access {
        /// Loads only; nobody writes it during the launch, unless it lies in host space.
        Read "read",
        /// Stores only.
        Write "write",
        /// Anything.
        ReadWrite "read_write",
    }

    /// What a module asks of a device beyond the language's own promises.
    Need {
        /// Subgroups of one group progress independently of each other.
        Subgroups "independent_subgroups",
    }
}

impl Type {
    /// Its size in bits; a `bool` counts as one.
    pub const fn bits(self) -> u32 {
        match self {
            Type::Bool => 1,
            Type::U32 | Type::I32 | Type::F32 => 32,
            Type::U64 => 64,
        }
    }

    /// The bytes that it takes up in memory; a `bool` is not a type of memory and counts as one.
    pub const fn bytes(self) -> u32 {
        self.bits().div_ceil(8)
    }
}

impl Access {
    /// Whether loads are allowed.
    pub const fn reads(self) -> bool {
        !matches!(self, Access::Write)
    }

    /// Whether stores are allowed.
    pub const fn writes(self) -> bool {
        !matches!(self, Access::Read)
    }
}

impl Order {
    /// Whether it keeps what follows behind it.
    pub const fn acquires(self) -> bool {
        matches!(self, Order::Acquire | Order::AcqRel | Order::SeqCst)
    }

    /// Whether it keeps what precedes before it.
    pub const fn releases(self) -> bool {
        matches!(self, Order::Release | Order::AcqRel | Order::SeqCst)
    }
}

/// How many elements a buffer has.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Len {
    /// As many as the module says.
    Fixed(u64),
    /// As many as are bound at launch; `len` reads the number. Written `?`.
    Launch,
}

impl fmt::Display for Len {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Len::Fixed(n) => write!(f, "{n}"),
            Len::Launch => f.write_str("?"),
        }
    }
}

/// A constant. Two are equal if their types and bits are, so floats compare by bits.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct Const {
    ty: Type,
    bits: u64,
}

impl Const {
    /// The constant of a type with these bits; bits beyond the type's width are dropped.
    pub const fn new(ty: Type, bits: u64) -> Self {
        let mask = match ty {
            Type::U64 => u64::MAX,
            Type::Bool => 1,
            _ => u32::MAX as u64,
        };
        Const { ty, bits: bits & mask }
    }

    /// The zero of a type.
    pub const fn zero(ty: Type) -> Self {
        Const { ty, bits: 0 }
    }

    /// Its type.
    pub const fn ty(self) -> Type {
        self.ty
    }

    /// Its bits, zero-extended.
    pub const fn bits(self) -> u64 {
        self.bits
    }
}

impl fmt::Debug for Const {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{self}")
    }
}

/// As the text spells it: `7`, `7i32`, `7u64`, `0.5`, `inf`, `nan`, `true`. Every float reads back to the same bits.
impl fmt::Display for Const {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.ty {
            Type::U32 => write!(f, "{}", self.bits),
            Type::I32 => write!(f, "{}i32", self.bits as u32 as i32),
            Type::U64 => write!(f, "{}u64", self.bits),
            Type::Bool => write!(f, "{}", self.bits == 1),
            Type::F32 => match f32::from_bits(self.bits as u32) {
                _ if self.bits as u32 == NAN => f.write_str("nan"),
                x if x.is_nan() => write!(f, "nan:{:#010x}", self.bits),
                x => write!(f, "{x:?}"),
            },
        }
    }
}

/// The bits that a NaN has wherever the language lets them be seen.
pub const NAN: u32 = 0x7fc0_0000;

/// The Rust types that are types of the language.
pub trait Scalar: Copy + 'static {
    /// The type it stands for.
    const TYPE: Type;
    /// The constant of that type.
    fn constant(self) -> Const;
}

/// Implements `Scalar` for types whose bits come from an expression.
macro_rules! scalars {
    ($($rust:ty, $ty:ident, |$x:ident| $bits:expr;)*) => {$(
        impl Scalar for $rust {
            const TYPE: Type = Type::$ty;
            fn constant(self) -> Const {
                let $x = self;
                Const::new(Type::$ty, $bits)
            }
        }
        impl From<$rust> for Const {
            fn from(x: $rust) -> Const {
                x.constant()
            }
        }
    )*};
}

scalars! {
    u32, U32, |x| x.into();
    i32, I32, |x| (x as u32).into();
    u64, U64, |x| x;
    f32, F32, |x| x.to_bits().into();
    bool, Bool, |x| x.into();
}

/// Sets of types that a row of the op table ranges over; in Rust, bounds of the builder's methods.
macro_rules! classes {
    ($($(#[$doc:meta])* $name:ident { $($rust:ty, $ty:ident;)* })*) => {
        /// A set of types that an operand may have.
        #[derive(Clone, Copy, PartialEq, Eq, Debug)]
        pub enum TypeClass { $($(#[$doc])* $name,)* }

        impl TypeClass {
            /// The types in it.
            pub const fn types(self) -> &'static [Type] {
                match self { $(TypeClass::$name => &[$(Type::$ty),*],)* }
            }
        }

        $(
            $(#[$doc])*
            pub trait $name: Scalar {}
            $(impl $name for $rust {})*
        )*
    };
}

classes! {
    /// Every type.
    Any { u32, U32; i32, I32; u64, U64; f32, F32; bool, Bool; }
    /// Numbers, which are also the types of memory.
    Num { u32, U32; i32, I32; u64, U64; f32, F32; }
    /// Integers.
    Int { u32, U32; i32, I32; u64, U64; }
    /// Integers and truth values.
    Bits { u32, U32; i32, I32; u64, U64; bool, Bool; }
    /// Numbers with a sign.
    Signed { i32, I32; f32, F32; }
    /// Types of 32 bits.
    Word32 { u32, U32; i32, I32; f32, F32; }
    /// Integers that count loops.
    Count { u32, U32; i32, I32; }
}

impl TypeClass {
    /// Whether a type is in it.
    pub fn has(self, ty: Type) -> bool {
        self.types().contains(&ty)
    }
}
