//! The basic vocabulary of the language: types, constants, orders, scopes and spaces.
//!
//! Each enum is written once with the word that the text uses for each of its values; `Display` and `FromStr`
//! both come from that list.

use std::fmt;
use std::str::FromStr;

/// Declares enums each of whose variants has one spelling in the text.
macro_rules! words {
    ($($(#[$doc:meta])* $name:ident { $($(#[$vdoc:meta])* $variant:ident $word:literal,)* })*) => {$(
        $(#[$doc])*
        #[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
        pub enum $name {
            $($(#[$vdoc])* #[doc = concat!("\n\nWritten `", $word, "`.")] $variant,)*
        }

        impl $name {
            /// Every variant, in the order of declaration.
            pub const ALL: &[$name] = &[$($name::$variant),*];

            /// Returns the word that the text uses.
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
        /// An unsigned integer of 32 bits.
        U32 "u32",
        /// A signed integer of 32 bits in two's complement.
        I32 "i32",
        /// An unsigned integer of 64 bits.
        U64 "u64",
        /// A floating-point number of IEEE 754 single precision.
        F32 "f32",
        /// A truth value. Buffers cannot hold it.
        Bool "bool",
    }

    /// How an atomic access or a fence orders the accesses around it.
    Order {
        /// The access is atomic and orders nothing else.
        Relaxed "relaxed",
        /// Accesses that follow in the program stay behind it.
        Acquire "acquire",
        /// Accesses that precede in the program stay before it.
        Release "release",
        /// It both acquires and releases.
        AcqRel "acq_rel",
        /// It both acquires and releases, and there is one total order of all such fences. Only fences may have it.
        SeqCst "seq_cst",
    }

    /// Which lanes an order holds for. A wider scope includes the narrower ones.
    Scope {
        /// The lanes of one group.
        Group "group",
        /// All lanes of the launch.
        Device "device",
        /// All lanes and the host.
        System "system",
    }

    /// The memory in which a buffer lies.
    Space {
        /// Device memory, which all groups see.
        Global "global",
        /// The memory of one group, which is zero when the group starts.
        Shared "shared",
        /// Words that the host reads and writes while the kernel runs. Each word has one writer.
        Host "host",
    }

    /// What a kernel may do with a buffer.
    Access {
        /// Kernels only load. Nobody writes the buffer during the launch, unless it lies in host space.
        Read "read",
        /// Kernels only store.
        Write "write",
        /// Kernels load, store and modify.
        ReadWrite "read_write",
    }

    /// A feature that a module needs of a device beyond what the language promises.
    Need {
        /// The subgroups of a group make progress independently of each other.
        Subgroups "independent_subgroups",
    }
}

impl Type {
    /// Returns the size of the type in bits. A `bool` has one bit.
    pub const fn bits(self) -> u32 {
        match self {
            Type::Bool => 1,
            Type::U32 | Type::I32 | Type::F32 => 32,
            Type::U64 => 64,
        }
    }

    /// Returns the size of the type in bytes. A `bool` counts as one byte, although buffers cannot hold it.
    pub const fn bytes(self) -> u32 {
        self.bits().div_ceil(8)
    }
}

impl Access {
    /// Returns whether kernels may load.
    pub const fn reads(self) -> bool {
        !matches!(self, Access::Write)
    }

    /// Returns whether kernels may store.
    pub const fn writes(self) -> bool {
        !matches!(self, Access::Read)
    }
}

impl Order {
    /// Returns whether accesses that follow stay behind an access or fence of this order.
    pub const fn acquires(self) -> bool {
        matches!(self, Order::Acquire | Order::AcqRel | Order::SeqCst)
    }

    /// Returns whether accesses that precede stay before an access or fence of this order.
    pub const fn releases(self) -> bool {
        matches!(self, Order::Release | Order::AcqRel | Order::SeqCst)
    }
}

/// How many elements a buffer has.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Len {
    /// The module states the number of elements.
    Fixed(u64),
    /// The launch decides the number of elements, and `len` reads it. The text writes `?`.
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

/// A constant. Two constants are equal if their types and their bits are equal, so floats compare by their bits.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct Const {
    ty: Type,
    bits: u64,
}

impl Const {
    /// Creates a constant from a type and bits. Bits beyond the type's width are dropped.
    pub const fn new(ty: Type, bits: u64) -> Self {
        let mask = match ty {
            Type::U64 => u64::MAX,
            Type::Bool => 1,
            _ => u32::MAX as u64,
        };
        Const { ty, bits: bits & mask }
    }

    /// Returns the constant of a type whose bits are all zero.
    pub const fn zero(ty: Type) -> Self {
        Const { ty, bits: 0 }
    }

    /// Returns the type of the constant.
    pub const fn ty(self) -> Type {
        self.ty
    }

    /// Returns the bits of the constant, extended with zeros to 64 bits.
    pub const fn bits(self) -> u64 {
        self.bits
    }
}

impl fmt::Debug for Const {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{self}")
    }
}

/// Prints the constant as the text spells it: `7`, `7i32`, `7u64`, `0.5`, `inf`, `nan`, `true`. Every float that is
/// printed parses to the same bits.
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

/// The bits that every NaN has where a program can observe the bits of a float.
pub const NAN: u32 = 0x7fc0_0000;

/// A Rust type that stands for a type of the language.
pub trait Scalar: Copy + 'static {
    /// The type of the language that the Rust type stands for.
    const TYPE: Type;
    /// Returns the value as a constant of that type.
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

/// Declares the classes of types that rows of the op table range over, and a trait for each class, which is a bound of
/// the builder's methods.
macro_rules! classes {
    ($($(#[$doc:meta])* $name:ident { $($rust:ty, $ty:ident;)* })*) => {
        /// A set of types that an operand may have.
        #[derive(Clone, Copy, PartialEq, Eq, Debug)]
        pub enum TypeClass { $($(#[$doc])* $name,)* }

        impl TypeClass {
            /// Returns the types in the class.
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
    /// Integers that can be the counter of a loop.
    Count { u32, U32; i32, I32; }
}

impl TypeClass {
    /// Returns whether a type is in the class.
    pub fn has(self, ty: Type) -> bool {
        self.types().contains(&ty)
    }
}
