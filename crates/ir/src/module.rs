//! Modules, functions, regions and instructions: the language as data.
//!
//! A [`Module`] has buffers and functions. A [`Function`] is SSA in structured regions: its body is a region, some
//! instructions hold further regions, and there is no other control flow. Everything of a function lies in arenas in
//! the order of the text, which [`FunctionWriter`](crate::write::FunctionWriter), the only way to make a function, keeps.
//!
//! **Equality.** `Module` is `Eq + Hash` by what it means: names of values and labels and the places they came from
//! ([`DebugInfo`]) take no part. Names of buffers and functions do; hosts bind buffers by name.
//!
//! **Scope.** A value is seen from its definition to the end of its region, nested regions included. The parameters
//! of a `while` and the values of its test are seen in its body too.

use std::fmt;
use std::hash::{Hash, Hasher};
use std::ops::Range;

use crate::arena::{Arena, Buffer, Func, Handle, Inst, Region, Value, Values};
use crate::op::{Op, OpForm, TypePattern};
use crate::types::{Access, Const, Len, Need, Order, Scope, Space, Type};

/// A program: what a device loads.
#[derive(Clone, PartialEq, Eq, Hash, Debug, Default)]
pub struct Module {
    /// What it asks of a device, in order, each once.
    pub needs: Vec<Need>,
    /// Its buffers.
    pub buffers: Arena<Buffer, BufferDecl>,
    /// Its functions and imports; a call names an earlier one.
    pub functions: Arena<Func, Function>,
}

impl Module {
    /// The buffer of that name.
    pub fn buffer(&self, name: &str) -> Option<Buffer> {
        self.buffers.iter().find(|(_, b)| b.name == name).map(|(handle, _)| handle)
    }

    /// The function of that name.
    pub fn function(&self, name: &str) -> Option<Func> {
        self.functions.iter().find(|(_, f)| f.name == name).map(|(handle, _)| handle)
    }

    /// Its kernels, in order.
    pub fn kernels(&self) -> impl Iterator<Item = Func> {
        self.functions.iter().filter(|(_, f)| f.kind == FunctionKind::Kernel).map(|(handle, _)| handle)
    }

    /// Its imports, in order: the functions that it calls and does not define. A device loads a module only after
    /// [`link`](crate::link::link) has bound all of them.
    pub fn imports(&self) -> impl Iterator<Item = Func> {
        self.functions.iter().filter(|(_, f)| f.is_import()).map(|(handle, _)| handle)
    }

    /// Chooses a kernel to compile or run: the kernel of the given name or, if no name is given, the module's only kernel.
    pub fn choose_kernel(&self, name: Option<&str>) -> Result<Func, NoKernel> {
        let have = || self.kernels().map(|kernel| self.functions[kernel].name.clone()).collect();
        match name.map(|name| (name, self.function(name))) {
            Some((_, Some(func))) if self.functions[func].kind == FunctionKind::Kernel => Ok(func),
            Some((name, Some(_))) => Err(NoKernel::Function { name: name.into() }),
            Some((name, None)) => Err(NoKernel::Missing { name: name.into(), have: have() }),
            None => {
                let mut kernels = self.kernels();
                let only = kernels.next().filter(|_| kernels.next().is_none());
                only.ok_or_else(|| NoKernel::Unnamed { have: have() })
            }
        }
    }
}

/// Why no kernel could be chosen from a module.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum NoKernel {
    /// The module has no function of the given name.
    #[error("the module has no kernel {name:?}; it has {}", listed(have))]
    Missing {
        /// The name that was asked for.
        name: String,
        /// The names of the module's kernels.
        have: Vec<String>,
    },
    /// The function of the given name is not a kernel.
    #[error("`{name}` is not a kernel")]
    Function {
        /// The name that was asked for.
        name: String,
    },
    /// No name was given, and the module does not have exactly one kernel.
    #[error("{}", unnamed(have))]
    Unnamed {
        /// The names of the module's kernels.
        have: Vec<String>,
    },
}

fn listed(names: &[String]) -> String {
    if names.is_empty() { "none".into() } else { names.join(", ") }
}

fn unnamed(have: &[String]) -> String {
    match have {
        [] => "the module has no kernel".into(),
        have => format!("the module has {} kernels, so one must be named: {}", have.len(), listed(have)),
    }
}

/// A buffer's declaration: `buffer name: [u32; 64] global read_write`.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct BufferDecl {
    /// What hosts call it.
    pub name: String,
    /// The type of its elements.
    pub elem: Type,
    /// How many there are.
    pub len: Len,
    /// Where it lies.
    pub space: Space,
    /// What kernels may do with it.
    pub access: Access,
    /// Where the text declares it.
    pub place: TextPlace,
}

/// Whether a function can be launched or only called, and whether the module has its body.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum FunctionKind {
    /// Launched; no parameters, no results.
    Kernel,
    /// Called.
    Function,
    /// Called, but defined elsewhere: `import fn`. Its body is an empty region without an end.
    Import(ImportFlow),
}

/// The control flow in which calls of an import may stand.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum ImportFlow {
    /// Any: each lane calls for itself.
    Any,
    /// Only flow that all lanes of a group share, which the validator checks: `import uniform fn`.
    Uniform,
}

/// A function: arenas of values, instructions and regions, and the region it starts in.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct Function {
    /// What calls and launches name.
    pub name: String,
    /// How it is used.
    pub kind: FunctionKind,
    /// Its parameters.
    pub params: Values,
    /// The types of its results.
    pub results: Vec<Type>,
    /// Its body.
    pub body: Region,
    pub(crate) values: Arena<Value, Type>,
    pub(crate) insts: Arena<Inst, Node>,
    pub(crate) regions: Arena<Region, RegionData>,
    /// Names and places, for people.
    pub debug: DebugInfo,
}

impl Function {
    /// Whether the module only declares it.
    pub fn is_import(&self) -> bool {
        matches!(self.kind, FunctionKind::Import(_))
    }

    /// The types of its parameters.
    pub fn param_types(&self) -> Vec<Type> {
        self.params.iter().map(|param| self.values[param]).collect()
    }

    /// The type of a value.
    pub fn ty(&self, value: Value) -> Type {
        self.values[value]
    }

    /// The type of an operand.
    pub fn operand_ty(&self, operand: Operand) -> Type {
        match operand {
            Operand::Value(value) => self.values[value],
            Operand::Const(c) => c.ty(),
        }
    }

    /// An instruction.
    pub fn inst(&self, inst: Inst) -> &Node {
        &self.insts[inst]
    }

    /// A region.
    pub fn region(&self, region: Region) -> &RegionData {
        &self.regions[region]
    }

    /// The instructions of the body's regions, all of them, in the order of the text.
    pub fn insts(&self) -> impl DoubleEndedIterator<Item = (Inst, &Node)> + ExactSizeIterator {
        self.insts.iter()
    }

    /// All values with their types, in order.
    pub fn values(&self) -> impl DoubleEndedIterator<Item = (Value, Type)> + ExactSizeIterator {
        self.values.iter().map(|(value, ty)| (value, *ty))
    }

    /// How many regions there are.
    pub fn region_count(&self) -> usize {
        self.regions.len()
    }
}

/// An instruction.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct Node {
    /// What it does.
    pub op: Op,
    /// What it names besides operands.
    pub attr: Attr,
    /// Its operands: first the row's fixed ones, then those that vary (initial carried values, results of a jump).
    pub args: Vec<Operand>,
    /// Its results.
    pub results: Values,
    /// Its regions: `if` then and else; `switch` the cases and last the default; `while` test and body.
    pub regions: Vec<Region>,
}

impl Node {
    /// The buffer it accesses first: of a copy, where to.
    pub fn buffer(&self) -> Option<Buffer> {
        match self.attr {
            Attr::Buffer(b) | Attr::Atomic(b, ..) | Attr::Copy { to: b, .. } => Some(b),
            _ => None,
        }
    }

    /// The initial values that a loop carries; none for other ops.
    pub fn carried(&self) -> &[Operand] {
        if self.op.is_loop() { &self.args[self.op.row().args.len()..] } else { &[] }
    }
}

/// What an instruction names besides its operands.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub enum Attr {
    /// Nothing.
    None,
    /// The type to convert to.
    Type(Type),
    /// A buffer.
    Buffer(Buffer),
    /// A buffer, and how the access is ordered.
    Atomic(Buffer, Order, Scope),
    /// What a fence orders.
    Fence(Order, Scope),
    /// Where a copy goes and comes from.
    #[allow(missing_docs)]
    Copy { to: Buffer, from: Buffer },
    /// The function that is called.
    Call(Func),
    /// The loop or block that a jump leaves or repeats.
    Target(Inst),
    /// The values of a switch's cases, one list a region; the default has none.
    Cases(Vec<Vec<u32>>),
}

/// A region: instructions, of which the last ends it.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct RegionData {
    /// A loop's counter and carried values.
    pub params: Values,
    /// Its instructions, in order.
    pub insts: Vec<Inst>,
}

/// What an instruction computes with.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub enum Operand {
    /// A value of the function.
    Value(Value),
    /// A constant.
    Const(Const),
}

impl Operand {
    /// The value, if it is one.
    pub fn value(self) -> Option<Value> {
        match self {
            Operand::Value(value) => Some(value),
            Operand::Const(_) => None,
        }
    }

    /// The constant, if it is one.
    pub fn constant(self) -> Option<Const> {
        match self {
            Operand::Const(c) => Some(c),
            Operand::Value(_) => None,
        }
    }
}

impl From<Value> for Operand {
    fn from(value: Value) -> Self {
        Operand::Value(value)
    }
}

impl<C: Into<Const>> From<C> for Operand {
    fn from(c: C) -> Self {
        Operand::Const(c.into())
    }
}

impl fmt::Debug for Operand {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Operand::Value(value) => write!(f, "{value}"),
            Operand::Const(c) => write!(f, "{c}"),
        }
    }
}

/// A stretch of source text in bytes. Takes no part in equality.
#[derive(Clone, Copy, Debug, Default)]
pub struct TextPlace {
    /// The first byte.
    pub start: u32,
    /// The byte after the last; equal to `start` if there is no text.
    pub end: u32,
}

impl TextPlace {
    /// As a range of the text.
    pub fn range(self) -> Range<usize> {
        self.start as usize..self.end as usize
    }
}

impl PartialEq for TextPlace {
    fn eq(&self, _: &Self) -> bool {
        true
    }
}

impl Eq for TextPlace {}

impl Hash for TextPlace {
    fn hash<H: Hasher>(&self, _: &mut H) {}
}

/// What a function's text called things and where it said them. Takes no part in equality; may be empty.
#[derive(Clone, Debug, Default)]
pub struct DebugInfo {
    /// Names of values, without sigil, by index; an empty one is none.
    pub values: Vec<Box<str>>,
    /// Names of labels, by instruction, in order.
    pub labels: Vec<(Inst, Box<str>)>,
    /// Where each instruction stands, by index.
    pub places: Vec<TextPlace>,
    /// Where each region ends (its closing brace), by index.
    pub ends: Vec<TextPlace>,
    /// Where the function's head stands.
    pub head: TextPlace,
}

impl DebugInfo {
    /// The name of a value, if the text gave one.
    pub fn value(&self, value: Value) -> Option<&str> {
        self.values.get(value.index()).map(|name| &**name).filter(|name| !name.is_empty())
    }

    /// The name of a label, if the text gave one.
    pub fn label(&self, inst: Inst) -> Option<&str> {
        let at = self.labels.binary_search_by_key(&inst, |(inst, _)| *inst).ok()?;
        Some(&self.labels[at].1)
    }

    /// Where an instruction stands, if it came from text.
    pub fn place(&self, inst: Inst) -> Option<TextPlace> {
        self.places.get(inst.index()).copied()
    }
}

impl PartialEq for DebugInfo {
    fn eq(&self, _: &Self) -> bool {
        true
    }
}

impl Eq for DebugInfo {}

impl Hash for DebugInfo {
    fn hash<H: Hasher>(&self, _: &mut H) {}
}

/// How many elements of a type 16 bytes hold: what a wide access moves.
pub fn elements_per_wide(elem: Type) -> usize {
    if elem.bits() == 64 { 2 } else { 4 }
}

impl Module {
    /// What `T` stands for in an instruction: the element type of its buffer, or else the type of the first operand
    /// that the row gives type `T`.
    pub fn type_argument(&self, node: &Node, function: &Function) -> Option<Type> {
        let row = node.op.row();
        match row.form {
            OpForm::Place | OpForm::Wide | OpForm::Atomic => {
                node.buffer().and_then(|b| self.buffers.get(b)).map(|b| b.elem)
            }
            _ => {
                let at = row.args.iter().position(|(_, pat)| *pat == TypePattern::T)?;
                node.args.get(at).map(|arg| function.operand_ty(*arg))
            }
        }
    }
}

/// An instruction of a module: where something went wrong.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Site {
    /// Its function.
    pub func: Func,
    /// The instruction.
    pub inst: Inst,
}
