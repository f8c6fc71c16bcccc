//! The op table, which defines every operation of the language in one place.
//!
//! A row gives the op's name in Rust and in the text, its operands and results with their types, its effect and its
//! meaning. The [`Op`] enum, [`OpRow`]s, the builder's methods, the type rules, printer, parser and the tables of
//! `docs/ir.md` are all made from it. A row that ranges over several types binds one type variable `T`; in the
//! memory rows `T` is the element type of the buffer. An op's *form* is how the text writes what is not an operand.

use std::collections::HashMap;
use std::sync::LazyLock;

use crate::types::{Type, TypeClass};

/// Hands the whole table to another macro.
macro_rules! op_table {
    ($with:ident) => {
        $with! {
plain "Arithmetic" {
    Add      add     [T: Num]  (a: T, b: T) -> (T)         Pure "a + b. Integers wrap; `f32` is never contracted into a multiply-add.";
    Sub      sub     [T: Num]  (a: T, b: T) -> (T)         Pure "a − b. Integers wrap.";
    Mul      mul     [T: Num]  (a: T, b: T) -> (T)         Pure "a × b. Integers wrap.";
    Div      div     [T: Num]  (a: T, b: T) -> (T)         Pure "a / b. Integers truncate toward zero; x / 0 is 0; the least `i32` divided by −1 is itself. `f32` as IEEE 754 has it.";
    Rem      rem     [T: Int]  (a: T, b: T) -> (T)         Pure "a − (a / b) × b, with the sign of a; x rem 0 is 0; the least `i32` rem −1 is 0.";
    MulHi    mul_hi  [T: Int]  (a: T, b: T) -> (T)         Pure "The high half of the full product.";
    Min      min     [T: Num]  (a: T, b: T) -> (T)         Pure "The lesser. `f32`: NaN if either is, and −0 < +0.";
    Max      max     [T: Num]  (a: T, b: T) -> (T)         Pure "The greater. `f32`: NaN if either is, and −0 < +0.";
    Neg      neg     [T: Signed] (a: T) -> (T)             Pure "−a. The least `i32` is its own negative.";
    Abs      abs     [T: Signed] (a: T) -> (T)             Pure "|a|. The least `i32` is its own absolute value.";
    Fma      fma     (a: f32, b: f32, c: f32) -> (f32)     Pure "a × b + c, rounded once.";
    Sqrt     sqrt    (a: f32) -> (f32)                     Pure "The square root, correctly rounded; NaN below zero.";
    Floor    floor   (a: f32) -> (f32)                     Pure "Rounded toward −∞.";
    Ceil     ceil    (a: f32) -> (f32)                     Pure "Rounded toward +∞.";
    Trunc    trunc   (a: f32) -> (f32)                     Pure "Rounded toward zero.";
    Nearest  nearest (a: f32) -> (f32)                     Pure "Rounded to the nearest integer, ties to even.";
}
plain "Bits" {
    And      and     [T: Bits] (a: T, b: T) -> (T)         Pure "Bit by bit.";
    Or       or      [T: Bits] (a: T, b: T) -> (T)         Pure "Bit by bit.";
    Xor      xor     [T: Bits] (a: T, b: T) -> (T)         Pure "Bit by bit.";
    Not      not     [T: Bits] (a: T) -> (T)               Pure "Every bit turned over.";
    Shl      shl     [T: Int]  (a: T, by: u32) -> (T)      Pure "Shifted left; only the low 5 (or, for `u64`, 6) bits of `by` count.";
    Shr      shr     [T: Int]  (a: T, by: u32) -> (T)      Pure "Shifted right, `i32` with its sign; `by` as in `shl`.";
    Rotl     rotl    [T: Int]  (a: T, by: u32) -> (T)      Pure "Rotated left; `by` as in `shl`.";
    Rotr     rotr    [T: Int]  (a: T, by: u32) -> (T)      Pure "Rotated right; `by` as in `shl`.";
    Popcount popcount [T: Int] (a: T) -> (u32)             Pure "How many bits are one.";
    Clz      clz     [T: Int]  (a: T) -> (u32)             Pure "How many zeros above the highest one; the width if there is none.";
    Ctz      ctz     [T: Int]  (a: T) -> (u32)             Pure "How many zeros below the lowest one; the width if there is none.";
}
plain "Comparison" {
    Eq       eq      [T: Any]  (a: T, b: T) -> (bool)      Pure "a = b. NaN equals nothing; −0 equals +0.";
    Ne       ne      [T: Any]  (a: T, b: T) -> (bool)      Pure "Not a = b.";
    Lt       lt      [T: Num]  (a: T, b: T) -> (bool)      Pure "a < b; false with NaN.";
    Le       le      [T: Num]  (a: T, b: T) -> (bool)      Pure "a ≤ b; false with NaN.";
    Gt       gt      [T: Num]  (a: T, b: T) -> (bool)      Pure "a > b; false with NaN.";
    Ge       ge      [T: Num]  (a: T, b: T) -> (bool)      Pure "a ≥ b; false with NaN.";
    Select   select  [T: Any]  (c: bool, a: T, b: T) -> (T) Pure "a if c, else b. Both are computed.";
}
typed "Conversion" {
    Cast     cast    [T: Any]    (a: T) -> (To)            Pure "`cast f32 %x`. Integers wrap or extend (`i32` with its sign); to `f32` rounds to nearest even; `f32` to an integer truncates and saturates, NaN gives 0; `bool` gives 0 or 1. There is no cast to `bool`: compare with zero.";
    Bitcast  bitcast [T: Word32] (a: T) -> (To)            Pure "`bitcast u32 %x`. The same 32 bits; a NaN gives 0x7fc00000.";
}
plain "Geometry" {
    Lane     lane    () -> (u32)                           Pure "This lane's number in its group.";
    Group    group   () -> (u32)                           Pure "This group's number.";
    Lanes    lanes   () -> (u32)                           Pure "Lanes in a group.";
    Groups   groups  () -> (u32)                           Pure "Groups in the launch.";
    Subgroup subgroup () -> (u32)                          Pure "This subgroup's number in its group: lane / subgroup_size.";
    Sublane  sublane () -> (u32)                           Pure "This lane's number in its subgroup: lane rem subgroup_size.";
    SubgroupSize subgroup_size () -> (u32)                 Pure "Lanes in a subgroup, at most 32; the last subgroup of a group may have fewer.";
}
buffer "Memory" {
    Len      len     () -> (u32)                           Pure "`len @b`. How many elements the buffer has.";
}
place "Memory" {
    Load     load    [T: Num] (at: u32) -> (T)             Read "`load @b[%i]`. Out of range gives 0. Assumes that nobody writes the word meanwhile.";
    LoadByte load_byte [T: Num] (at: u32, byte: u32) -> (u32) Read "`load_byte @b[%i], %k`. Byte `byte` of element `at`, the least significant byte first; 0 if the element or the byte is out of range. The bytes of a NaN are those of 0x7fc00000. In the memory model it is a `load` of the whole element.";
    Store    store   [T: Num] (at: u32, value: T) -> ()    Write "`store @b[%i], %v`. Out of range does nothing.";
}
wide "Memory" {
    LoadWide  load_wide  [T: Num] (at: u32) -> (T)         Atomic "`%p, %q = load_wide relaxed system @b[%i]`. The 16 bytes that hold element `at`: four elements of 32 bits or two of 64. One access where the device can; each element by itself is atomic, the whole is not. All zero unless all are in range.";
    StoreWide store_wide [T: Num] (at: u32, value: T) -> () Atomic "`store_wide relaxed group @b[%i], %p, %q`. Likewise; nothing is stored unless all are in range.";
}
atomic "Atomics" {
    AtomicLoad  atomic_load  [T: Num] (at: u32) -> (T)           Atomic "`atomic_load acquire system @b[%i]`. A load, never an add of zero. Relaxed or acquire.";
    AtomicStore atomic_store [T: Num] (at: u32, value: T) -> ()  Atomic "`atomic_store release device @b[%i], %v`. Relaxed or release.";
    AtomicAdd   atomic_add   [T: Int] (at: u32, value: T) -> (T) Atomic "Adds, wrapping; the old value is the result.";
    AtomicSub   atomic_sub   [T: Int] (at: u32, value: T) -> (T) Atomic "Subtracts, wrapping; the old value is the result.";
    AtomicAnd   atomic_and   [T: Int] (at: u32, value: T) -> (T) Atomic "The old value is the result.";
    AtomicOr    atomic_or    [T: Int] (at: u32, value: T) -> (T) Atomic "The old value is the result.";
    AtomicXor   atomic_xor   [T: Int] (at: u32, value: T) -> (T) Atomic "The old value is the result.";
    AtomicMin   atomic_min   [T: Int] (at: u32, value: T) -> (T) Atomic "The old value is the result.";
    AtomicMax   atomic_max   [T: Int] (at: u32, value: T) -> (T) Atomic "The old value is the result.";
    AtomicExchange atomic_exchange [T: Num] (at: u32, value: T) -> (T) Atomic "Stores; the old value is the result.";
    AtomicCas   atomic_cas   [T: Int] (at: u32, expected: T, desired: T) -> (T) Atomic "Stores `desired` if the word is `expected`; the old value is the result.";
}
fence "Atomics" {
    Fence    fence   () -> ()                              Atomic "`fence acq_rel system`. Orders the accesses around it; `seq_cst` also orders all such fences. Not relaxed.";
}
plain "Group" {
    Barrier  barrier () -> ()                              Sync "Waits for every lane of the group, and orders their memory among them.";
    GroupBroadcast group_broadcast [T: Any] (value: T, from: u32) -> (T) Sync "The value of lane `from` (0 if there is none), the same in every lane. It is a barrier. `from` is the same in every lane.";
    Ballot   ballot  (p: bool) -> (u32)                    Sync "Bit k says whether p holds in lane k of the subgroup.";
    Any      any     (p: bool) -> (bool)                   Sync "Whether p holds in some lane of the subgroup.";
    All      all     (p: bool) -> (bool)                   Sync "Whether p holds in every lane of the subgroup.";
    Shuffle  shuffle [T: Any] (value: T, from: u32) -> (T) Sync "The value of lane `from` of the subgroup; 0 if there is none.";
    Broadcast broadcast [T: Any] (value: T, from: u32) -> (T) Sync "As `shuffle`, with `from` the same in every lane, so that the result is too.";
    ReduceAdd reduce_add [T: Int] (value: T) -> (T)        Sync "The wrapping sum over the subgroup.";
    ReduceAnd reduce_and [T: Int] (value: T) -> (T)        Sync "The conjunction over the subgroup.";
    ReduceOr  reduce_or  [T: Int] (value: T) -> (T)        Sync "The disjunction over the subgroup.";
    ReduceXor reduce_xor [T: Int] (value: T) -> (T)        Sync "The exclusive or over the subgroup.";
    ReduceMin reduce_min [T: Num] (value: T) -> (T)        Sync "The least of the subgroup, as `min` has it.";
    ReduceMax reduce_max [T: Num] (value: T) -> (T)        Sync "The greatest of the subgroup, as `max` has it.";
    Elect    elect   () -> (bool)                          Sync "True in the subgroup's lane 0 alone.";
}
plain "Time and faults" {
    Clock    clock   () -> (u64)                           World "The device's clock in nanoseconds. Monotonic on one group.";
    Backoff  backoff (ns: u32) -> ()                       World "Lets others run: sleeps at most `ns` nanoseconds and may return early. A poll loop ends with it.";
    Wake     wake    () -> ()                              World "Ends the `backoff` of every group of the launch that sleeps, and keeps groups awake that were about to sleep. Does nothing on devices where groups do not sleep.";
    Trap     trap    (code: u32) -> ()                     World "Ends the launch as a device fault. For tests of recovery.";
    Fault    fault   (code: u32) -> ()                     World "Records a fault and goes on; the launch reports the first.";
}
copy "Asynchronous copies" {
    AsyncLoad async_load (to: u32, from: u32, count: u32, tag: u32) -> () World "`async_load @to[%i], @from[%j], %count, %tag`. Starts a copy of `count` elements between buffers of one element type; nothing is copied unless all are in range.";
}
plain "Asynchronous copies" {
    AsyncWait async_wait (tag: u32) -> ()                  World "Waits for this lane's copies of that tag.";
}
control "Control" {
    If       if       (c: bool) -> ()   Control "`%r: u32 = if %c { … yield %a } else { … yield %b }`. Without results the `else` may be missing.";
    Switch   switch   (on: u32) -> ()   Control "`switch %x { case 0 { … } case 1, 7 { … } default { … } }`. Exactly one region runs.";
    Block    block    () -> ()          Control "`%r: u32 = block ^out { … break ^out %a … yield %b }`. A region that `break` can leave.";
    Loop     loop     [T: Count] (from: T, to: T, step: T) -> () Control "`%s: u32 = loop ^l %i = %from to %to step %n with %acc = %init { … yield %next }`. Runs ⌈(to − from) / step⌉ times if from < to, else not at all; a step of 0 or less gives none. The carried values end as the results.";
    While    while    () -> ()          Control "`%r: u32 = while ^l with %x = %init { … yield %c } do { … yield %next }`. The body sees what the test computed. The carried values end as the results.";
    Forever  forever  () -> ()          Control "`%r: u32 = forever ^l with %x = %init { … yield %next }`. Left by `break` or `return`.";
    Yield    yield    () -> ()          Control "Ends a region: its values are the region's results or the loop's next carried values. Not written when it has none.";
    Break    break    () -> ()          Control "`break ^l %a`. Leaves a loop or block with these results.";
    Continue continue () -> ()          Control "`continue ^l %a`. Goes to the loop's next iteration with these carried values.";
    Return   return   () -> ()          Control "Leaves the function. Not written at the end of a function without results.";
    Call     call     () -> ()          Control "`%r = call f(%a, %b)`. The function is declared before.";
}
        }
    };
}
pub(crate) use op_table;

/// How the text writes those parts of an instruction that are not operands.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum OpForm {
    /// `add %a, %b`
    Plain,
    /// `cast f32 %a`
    Typed,
    /// `len @b`
    Buffer,
    /// `load @b[%i]`, where the first operand is the index.
    Place,
    /// `load_wide relaxed system @b[%i]`, with as many results or stored values as fit into 16 bytes.
    Wide,
    /// `atomic_add relaxed device @b[%i], %v`
    Atomic,
    /// `fence acq_rel system`
    Fence,
    /// `async_load @to[%i], @from[%j], %count, %tag`
    Copy,
    /// Every control op has a form of its own.
    Control,
}

/// The side effect of an op, which decides what passes may do with it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum OpEffect {
    /// The op has no effect, so it may be moved, merged and removed.
    Pure,
    /// The op reads memory. It may be removed, and merged with another if nothing writes in between.
    Read,
    /// The op writes memory.
    Write,
    /// The op reads or writes memory with an order.
    Atomic,
    /// The op waits for other lanes.
    Sync,
    /// The op reads the clock, lets time pass, copies in the background, or reports a fault.
    World,
    /// The op decides which instruction runs next.
    Control,
}

/// The type of an operand or a result, as a row of the op table gives it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum TypePattern {
    /// The type variable of the row.
    T,
    /// The type that the instruction names.
    To,
    /// A fixed type.
    Is(Type),
}

/// A row of the op table.
#[derive(Debug)]
pub struct OpRow {
    /// The op that the row describes.
    pub op: Op,
    /// The name of the op in the text.
    pub name: &'static str,
    /// The chapter of the manual that lists the op.
    pub chapter: &'static str,
    /// How the text writes the op.
    pub form: OpForm,
    /// The types that `T` may stand for, if the row has a type variable.
    pub class: Option<TypeClass>,
    /// The names and types of the operands. Control ops may have further operands that are not listed.
    pub args: &'static [(&'static str, TypePattern)],
    /// The types of the results. The instructions of control ops state their result types themselves.
    pub results: &'static [TypePattern],
    /// The side effect of the op.
    pub effect: OpEffect,
    /// What the op means, as the manual prints it.
    pub doc: &'static str,
}

/// Turns a type word of a row into its pattern.
macro_rules! pat {
    (T) => {
        TypePattern::T
    };
    (To) => {
        TypePattern::To
    };
    (u32) => {
        TypePattern::Is(Type::U32)
    };
    (u64) => {
        TypePattern::Is(Type::U64)
    };
    (f32) => {
        TypePattern::Is(Type::F32)
    };
    (bool) => {
        TypePattern::Is(Type::Bool)
    };
}

/// Turns a form's word into its value.
macro_rules! form {
    (plain) => {
        OpForm::Plain
    };
    (typed) => {
        OpForm::Typed
    };
    (buffer) => {
        OpForm::Buffer
    };
    (place) => {
        OpForm::Place
    };
    (wide) => {
        OpForm::Wide
    };
    (atomic) => {
        OpForm::Atomic
    };
    (fence) => {
        OpForm::Fence
    };
    (copy) => {
        OpForm::Copy
    };
    (control) => {
        OpForm::Control
    };
}

/// The class of a row that names one.
macro_rules! class {
    () => {
        None
    };
    ($class:ident) => {
        Some(TypeClass::$class)
    };
}

macro_rules! rows {
    ($($form:ident $chapter:literal {
        $($op:ident $name:ident $([T: $class:ident])? ($($arg:ident: $pat:ident),*) -> ($($res:ident),*)
            $effect:ident $doc:literal;)*
    })*) => {
        /// An operation of the language.
        #[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
        #[repr(u8)]
        pub enum Op { $($(#[doc = $doc] $op,)*)* }

        /// Every row, in the order of [`Op`].
        pub const TABLE: &[OpRow] = &[$($(OpRow {
            op: Op::$op,
            name: stringify!($name),
            chapter: $chapter,
            form: form!($form),
            class: class!($($class)?),
            args: &[$((stringify!($arg), pat!($pat))),*],
            results: &[$(pat!($res)),*],
            effect: OpEffect::$effect,
            doc: $doc,
        },)*)*];
    };
}
op_table!(rows);

impl Op {
    /// Returns the row of the op table that describes the op.
    pub fn row(self) -> &'static OpRow {
        &TABLE[self as usize]
    }

    /// Returns the op with the given name in the text.
    pub fn from_name(name: &str) -> Option<Op> {
        static NAMES: LazyLock<HashMap<&str, Op>> =
            LazyLock::new(|| TABLE.iter().map(|row| (row.name, row.op)).collect());
        NAMES.get(name).copied()
    }

    /// Returns the side effect of the op.
    pub fn effect(self) -> OpEffect {
        self.row().effect
    }

    /// Returns whether the op is a terminator: it ends its region and can stand nowhere else.
    pub fn is_terminator(self) -> bool {
        matches!(self, Op::Yield | Op::Break | Op::Continue | Op::Return)
    }

    /// Returns whether the op is a loop, which `continue` may name.
    pub fn is_loop(self) -> bool {
        matches!(self, Op::Loop | Op::While | Op::Forever)
    }

    /// Returns whether instructions of the op have regions.
    pub fn has_regions(self) -> bool {
        self.is_loop() || matches!(self, Op::If | Op::Switch | Op::Block)
    }

    /// Returns whether the op reads and writes a word in one atomic step.
    pub fn is_read_modify_write(self) -> bool {
        self.row().form == OpForm::Atomic && !matches!(self, Op::AtomicLoad | Op::AtomicStore)
    }
}
