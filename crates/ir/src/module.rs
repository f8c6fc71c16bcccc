//! Modules, functions, regions and instructions: the language as data.
//!
//! A [`Module`] has buffers and functions. A [`Function`] is SSA in structured regions: its body is a region, some
//! instructions hold further regions, and there is no other control flow. Everything of a function lies in arenas in
//! the order of the text, which [`FunctionWriter`](crate::write::FunctionWriter), the only way to make a function,
//! keeps.
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

/// A program: the unit that is validated, linked and loaded onto a device.
#[derive(Clone, PartialEq, Eq, Hash, Debug, Default)]
pub struct Module {
    /// The features that the module needs of a device, in order and without duplicates.
    pub needs: Vec<Need>,
    /// The module's buffers.
    pub buffers: Arena<Buffer, BufferDecl>,
    /// The module's functions and imports. A call may only name a function that comes before its own.
    pub functions: Arena<Func, Function>,
}

impl Module {
    /// Returns the buffer with the given name.
    pub fn buffer(&self, name: &str) -> Option<Buffer> {
        self.buffers.iter().find(|(_, b)| b.name == name).map(|(handle, _)| handle)
    }

    /// Returns the function or import with the given name.
    pub fn function(&self, name: &str) -> Option<Func> {
        self.functions.iter().find(|(_, f)| f.name == name).map(|(handle, _)| handle)
    }

    /// Iterates over the module's kernels, in order.
    pub fn kernels(&self) -> impl Iterator<Item = Func> {
        self.functions.iter().filter(|(_, f)| f.kind == FunctionKind::Kernel).map(|(handle, _)| handle)
    }

    /// Iterates over the module's imports, in order: the functions that it calls and does not define. A device loads a
    /// module only after
    /// [`link`](crate::link::link) has bound all of them.
    pub fn imports(&self) -> impl Iterator<Item = Func> {
        self.functions.iter().filter(|(_, f)| f.is_import()).map(|(handle, _)| handle)
    }

    /// Removes the imports that no function of the module calls.
    pub fn remove_unused_imports(&mut self) {
        let nodes = self.functions.iter().flat_map(|(_, function)| function.insts());
        let called: Vec<Func> = nodes
            .filter_map(|(_, node)| if let Attr::Call(func) = node.attr { Some(func) } else { None })
            .collect();
        let mut kept = Arena::new();
        let mut handles = Vec::with_capacity(self.functions.len());
        for (func, function) in self.functions.iter() {
            let stays = !function.is_import() || called.contains(&func);
            handles.push(stays.then(|| kept.push(function.clone())));
        }
        for (_, function) in kept.iter_mut() {
            for (_, node) in function.insts.iter_mut() {
                if let Attr::Call(func) = &mut node.attr {
                    *func = handles.get(func.index()).copied().flatten().unwrap_or(*func);
                }
            }
        }
        self.functions = kept;
    }

    /// Chooses a kernel to compile or run: the kernel of the given name or, if no name is given, the module's only
    /// kernel.
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
    /// The name by which hosts bind the buffer.
    pub name: String,
    /// The type of the buffer's elements.
    pub elem: Type,
    /// How many elements the buffer has.
    pub len: Len,
    /// The memory in which the buffer lies.
    pub space: Space,
    /// What kernels may do with the buffer.
    pub access: Access,
    /// Where the text declares the buffer.
    pub place: TextPlace,
}

/// How a function is used: whether it can be launched or only called, and whether the module has its body.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum FunctionKind {
    /// A kernel, which is launched. It has no parameters and no results.
    Kernel,
    /// A function, which is called.
    Function,
    /// A function that is called here and defined in a library: `import fn`. Its body is an empty region without a
    /// terminator.
    Import(ImportFlow),
}

/// The control flow in which an import may be called.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum ImportFlow {
    /// Any control flow: each lane calls the import on its own.
    Any,
    /// Only control flow that all lanes of a group share, which the validator checks: `import uniform fn`.
    Uniform,
}

/// A function: arenas of values, instructions and regions, and the region in which execution starts.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct Function {
    /// The name that calls and launches use.
    pub name: String,
    /// How the function is used.
    pub kind: FunctionKind,
    /// The function's parameters.
    pub params: Values,
    /// The types of the function's results.
    pub results: Vec<Type>,
    /// The region in which execution starts.
    pub body: Region,
    pub(crate) values: Arena<Value, Type>,
    pub(crate) insts: Arena<Inst, Node>,
    pub(crate) regions: Arena<Region, RegionData>,
    /// Names and positions from the source text, for diagnostics and printing.
    pub debug: DebugInfo,
}

impl Function {
    /// Returns whether the module only declares the function and a library defines it.
    pub fn is_import(&self) -> bool {
        matches!(self.kind, FunctionKind::Import(_))
    }

    /// Returns the types of the function's parameters.
    pub fn param_types(&self) -> Vec<Type> {
        self.params.iter().map(|param| self.values[param]).collect()
    }

    /// Returns the type of a value.
    pub fn ty(&self, value: Value) -> Type {
        self.values[value]
    }

    /// Returns the type of an operand.
    pub fn operand_ty(&self, operand: Operand) -> Type {
        match operand {
            Operand::Value(value) => self.values[value],
            Operand::Const(c) => c.ty(),
        }
    }

    /// Returns an instruction by its handle.
    pub fn inst(&self, inst: Inst) -> &Node {
        &self.insts[inst]
    }

    /// Returns a region by its handle.
    pub fn region(&self, region: Region) -> &RegionData {
        &self.regions[region]
    }

    /// Iterates over all instructions of the function, in the order of the text.
    pub fn insts(&self) -> impl DoubleEndedIterator<Item = (Inst, &Node)> + ExactSizeIterator {
        self.insts.iter()
    }

    /// Iterates over all values with their types, in the order of the text.
    pub fn values(&self) -> impl DoubleEndedIterator<Item = (Value, Type)> + ExactSizeIterator {
        self.values.iter().map(|(value, ty)| (value, *ty))
    }

    /// Returns how many regions the function has.
    pub fn region_count(&self) -> usize {
        self.regions.len()
    }
}

/// The content of an instruction.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct Node {
    /// The operation that the instruction performs.
    pub op: Op,
    /// What the instruction names besides its operands.
    pub attr: Attr,
    /// The operands: first those that the op's row fixes, then those that vary in number, such as the initial carried
    /// values of a loop or the values of a jump.
    pub args: Vec<Operand>,
    /// The values that the instruction defines.
    pub results: Values,
    /// The regions of the instruction: of an `if` the then-region and the else-region, of a `switch` its cases and then
    /// its default, of a `while` its test and its body.
    pub regions: Vec<Region>,
}

impl Node {
    /// Returns the buffer that the instruction accesses; of a copy, the buffer that is copied to.
    pub fn buffer(&self) -> Option<Buffer> {
        match self.attr {
            Attr::Buffer(b) | Attr::Atomic(b, ..) | Attr::Copy { to: b, .. } => Some(b),
            _ => None,
        }
    }

    /// Returns the initial values of what a loop carries, and an empty slice for every other op.
    pub fn carried(&self) -> &[Operand] {
        if self.op.is_loop() { &self.args[self.op.row().args.len()..] } else { &[] }
    }
}

/// What an instruction names besides its operands.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub enum Attr {
    /// The instruction names nothing.
    None,
    /// The type to convert to.
    Type(Type),
    /// The buffer that is accessed.
    Buffer(Buffer),
    /// The buffer that is accessed, and how the access is ordered.
    Atomic(Buffer, Order, Scope),
    /// The order and scope of a fence.
    Fence(Order, Scope),
    /// The buffers that a copy writes and reads.
    #[allow(missing_docs)]
    Copy { to: Buffer, from: Buffer },
    /// The function that is called.
    Call(Func),
    /// The loop or block that a jump leaves or repeats.
    Target(Inst),
    /// The values of the cases of a switch, one list per region. The default has no list.
    Cases(Vec<Vec<u32>>),
}

/// The content of a region: instructions, of which the last is the terminator.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct RegionData {
    /// The region's parameters: the counter and the carried values of a loop.
    pub params: Values,
    /// The region's instructions, in order.
    pub insts: Vec<Inst>,
}

/// An operand of an instruction.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub enum Operand {
    /// A value of the function.
    Value(Value),
    /// A constant.
    Const(Const),
}

impl Operand {
    /// Returns the value, unless the operand is a constant.
    pub fn value(self) -> Option<Value> {
        match self {
            Operand::Value(value) => Some(value),
            Operand::Const(_) => None,
        }
    }

    /// Returns the constant, unless the operand is a value.
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

/// A range of bytes in a source text. All places compare equal, so that two modules that differ only in their layout
/// are equal.
#[derive(Clone, Copy, Debug, Default)]
pub struct TextPlace {
    /// The offset of the first byte.
    pub start: u32,
    /// The offset after the last byte. It equals `start` if the place is empty.
    pub end: u32,
}

impl TextPlace {
    /// Returns the place as a range that slices the text.
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

/// The names and positions that a function has in its source text. It is empty for functions that did not come from
/// text. All values compare equal, so that two functions that differ only in names and layout are equal.
#[derive(Clone, Debug, Default)]
pub struct DebugInfo {
    /// The names of values without the sigil, by value index. An empty name means that the value has none.
    pub values: Vec<Box<str>>,
    /// The names of labels with the instructions that they name, in the order of instructions.
    pub labels: Vec<(Inst, Box<str>)>,
    /// The place of each instruction, by instruction index.
    pub places: Vec<TextPlace>,
    /// The place of the closing brace of each region, by region index.
    pub ends: Vec<TextPlace>,
    /// The place of the function's head.
    pub head: TextPlace,
}

impl DebugInfo {
    /// Returns the name of a value, if the text gives it one.
    pub fn value(&self, value: Value) -> Option<&str> {
        self.values.get(value.index()).map(|name| &**name).filter(|name| !name.is_empty())
    }

    /// Returns the name of a loop's or block's label, if the text gives it one.
    pub fn label(&self, inst: Inst) -> Option<&str> {
        let at = self.labels.binary_search_by_key(&inst, |(inst, _)| *inst).ok()?;
        Some(&self.labels[at].1)
    }

    /// Returns the place of an instruction, if it came from text.
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

/// Returns how many elements of a type a wide access moves, which is how many fit into 16 bytes.
pub fn elements_per_wide(elem: Type) -> usize {
    if elem.bits() == 64 { 2 } else { 4 }
}

impl Module {
    /// Returns the type that the `T` of an op's row stands for in an instruction: the element type of the buffer that
    /// is accessed, or else the type of the first operand whose pattern is `T`.
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

/// An instruction of a module, identified by its function and its handle there. Errors and reports name sites.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Site {
    /// The function that has the instruction.
    pub func: Func,
    /// The instruction.
    pub inst: Inst,
}
