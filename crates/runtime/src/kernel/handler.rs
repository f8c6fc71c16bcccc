//! What a task does: a function of the language.
//!
//! A handler is an ordinary module, so it is checked, printed and tested like any other. Its function has no parameters
//! and gives the result, a `u32`. It reads the task's arguments from `arg`, and names regions of the workspace as
//! buffers of unknown length; which tenant's piece that is, and whether an index is in it, is the kernel's business:
//!
//! ```text
//! buffer arg: [u32; 12] global read
//! buffer data: [u32; ?] global read_write
//!
//! fn add() -> u32 {
//!   %at = load @arg[0]
//!   %by = load @arg[1]
//!   %old = atomic_add relaxed device @data[%at], %by
//!   return %old
//! }
//! ```
//!
//! A *lane-wide* handler is run by one lane, beside others of its window. A *group-wide* one is run by all lanes of a group
//! together: it may use barriers, subgroup ops and shared buffers, which are zero when a task begins, and lane 0 gives the result. A
//! lane-wide handler may not have shared buffers. `fault` ends the task as a fault with the first code recorded; the function still
//! runs to its end. `trap` would end the kernel for every tenant, so it is refused.

use std::cell::RefCell;
use std::rc::Rc;

use pelton_ir::builder::{Arg, Body, Buf, Builder, Val};
use pelton_ir::module::Module;
use pelton_ir::text;
use pelton_ir::types::{Access, Len, Num, Order, Scope, Space, Type};

use super::tenant::Region;
use crate::protocol::{Opcode, slot};

/// The buffer that holds a task's arguments.
pub const ARG: &str = "arg";
/// The buffer that holds a tenant's observables.
pub const OBSERVABLE: &str = "observable";
/// How many arguments a task has.
pub const ARGS: u32 = slot::ARGS as u32;

/// Who runs a task.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub enum Width {
    /// One lane.
    #[default]
    Lane,
    /// All lanes of a group together.
    Group,
}

/// What of a task others may look at when it is done.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub enum Visible {
    /// What it wrote.
    #[default]
    Memory,
    /// Its result alone.
    Result,
}

/// Whether a task may run again after a device was lost.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub enum Class {
    /// Running it twice is not running it once.
    #[default]
    Once,
    /// Running it again changes nothing.
    Idempotent,
}

/// What tasks of an opcode do.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct Handler {
    /// Its opcode.
    pub op: Opcode,
    /// The name of the opcode, and of the function.
    pub name: String,
    /// Who runs it.
    pub width: Width,
    /// What others may look at.
    pub visible: Visible,
    /// Whether it may run again.
    pub class: Class,
    /// The function and the buffers it names.
    pub module: Module,
    /// What went wrong while it was written.
    pub(super) error: Option<String>,
    /// Whether it may end the kernel.
    pub(super) may_trap: bool,
}

impl Handler {
    /// A handler from Rust. It can name these regions.
    pub fn new(op: Opcode, regions: &[Region], build: impl for<'b> FnOnce(Slot<'b>)) -> Self {
        Draft::new(op).regions(regions).build(build)
    }

    /// A handler from text: the function of that name.
    pub fn text(op: Opcode, name: impl Into<String>, source: &str) -> Self {
        let name = name.into();
        let (module, error) = match text::parse(source) {
            Ok(module) => (module, None),
            Err(list) => (Module::default(), Some(text::render(&name, source, &list, false))),
        };
        Handler { error, ..Handler::of(op, name, module) }
    }

    pub(super) fn of(op: Opcode, name: String, module: Module) -> Self {
        let (width, visible, class) = Default::default();
        Handler { op, name, width, visible, class, module, error: None, may_trap: false }
    }

    /// Sets what the opcode is called.
    pub fn name(mut self, name: impl Into<String>) -> Self {
        let name = name.into();
        let last = self.module.functions.iter().map(|(f, _)| f).next_back();
        if let Some(f) = last {
            self.module.functions[f].name.clone_from(&name);
        }
        Handler { name, ..self }
    }

    /// Sets who runs it.
    pub fn width(self, width: Width) -> Self {
        Handler { width, ..self }
    }

    /// Sets what others may look at when it is done.
    pub fn visible(self, visible: Visible) -> Self {
        Handler { visible, ..self }
    }

    /// Lets it end the kernel with `trap`: for tests of how sessions end.
    #[cfg(feature = "inject")]
    pub fn may_trap(self) -> Self {
        Handler { may_trap: true, ..self }
    }

    /// Sets whether it may run again.
    pub fn class(self, class: Class) -> Self {
        Handler { class, ..self }
    }
}

/// A handler about to be written in Rust: what it can name.
#[derive(Debug)]
pub struct Draft {
    op: Opcode,
    name: String,
    module: Module,
    width: Width,
}

impl Draft {
    /// A handler that can name `arg` and `observable`.
    pub fn new(op: Opcode) -> Self {
        let mut m = Builder::new();
        m.buffer::<u32>(ARG, Len::Fixed(ARGS.into()), Space::Global, Access::Read);
        m.buffer::<u32>(OBSERVABLE, Len::Launch, Space::Global, Access::ReadWrite);
        Draft { op, name: format!("op{}", op.code()), module: m.finish(), width: Width::Lane }
    }

    /// What the opcode is called.
    pub fn name(self, name: impl Into<String>) -> Self {
        Draft { name: name.into(), ..self }
    }

    /// Who runs it.
    pub fn width(self, width: Width) -> Self {
        Draft { width, ..self }
    }

    /// It can name these regions.
    pub fn regions(self, regions: &[Region]) -> Self {
        regions
            .iter()
            .fold(self, |draft, r| draft.buffer(&r.name, r.elem, Len::Launch, Space::Global, r.access))
    }

    /// It has a buffer of its own that a group shares.
    pub fn shared(self, name: &str, elem: Type, len: u32) -> Self {
        self.buffer(name, elem, Len::Fixed(len.into()), Space::Shared, Access::ReadWrite)
    }

    fn buffer(mut self, name: &str, elem: Type, len: Len, space: Space, access: Access) -> Self {
        let mut m = Builder::from(std::mem::take(&mut self.module));
        match elem {
            Type::I32 => drop(m.buffer::<i32>(name, len, space, access)),
            Type::U64 => drop(m.buffer::<u64>(name, len, space, access)),
            Type::F32 => drop(m.buffer::<f32>(name, len, space, access)),
            Type::U32 | Type::Bool => drop(m.buffer::<u32>(name, len, space, access)),
        }
        self.module = m.finish();
        self
    }

    /// Writes it. Without [`Slot::finish`] its result is 0.
    pub fn build(self, build: impl for<'b> FnOnce(Slot<'b>)) -> Handler {
        let Draft { op, name, module, width } = self;
        let mut m = Builder::from(module);
        let error: Rc<RefCell<Option<String>>> = Rc::default();
        m.function::<(), u32>(name.clone(), |f, ()| {
            build(Slot { f, error: error.clone() });
            f.lit(0)
        });
        Handler { width, error: error.take(), ..Handler::of(op, name, m.finish()) }
    }
}

/// The task that a handler is written for.
#[derive(Clone)]
pub struct Slot<'b> {
    f: &'b Body<'b>,
    error: Rc<RefCell<Option<String>>>,
}

impl<'b> Slot<'b> {
    /// The function in the making: control flow, arithmetic, everything that the language has.
    pub fn body(&self) -> &'b Body<'b> {
        self.f
    }

    /// An argument of the task.
    pub fn arg(&self, index: u32) -> Val<'b, u32> {
        self.f.load(self.region::<u32>(ARG).at(index))
    }

    /// A region of the tenant's workspace, or a shared buffer of the handler. A name that is not there, or holds another
    /// type, is an error of [`assemble`](super::assemble).
    pub fn region<T: Num>(&self, name: &str) -> Buf<T> {
        self.f.buffer(name).unwrap_or_else(|| {
            let what = format!("it names {name:?} as a region of {}, and there is none", T::TYPE);
            self.error.borrow_mut().get_or_insert(what);
            Buf::of(pelton_ir::arena::Handle::new(0))
        })
    }

    /// The tenant's `data`.
    pub fn data(&self) -> Buf<u32> {
        self.region("data")
    }

    /// Adds to an element of `data`; the old value is the result.
    pub fn atomic_add(&self, at: impl Arg<'b, u32>, by: impl Arg<'b, u32>) -> Val<'b, u32> {
        self.f.atomic_add(Order::Relaxed, Scope::Device, self.data().at(at), by)
    }

    /// An element of `data`.
    pub fn load(&self, at: impl Arg<'b, u32>) -> Val<'b, u32> {
        self.f.load(self.data().at(at))
    }

    /// Stores an element of `data`.
    pub fn store(&self, at: impl Arg<'b, u32>, value: impl Arg<'b, u32>) {
        self.f.store(self.data().at(at), value);
    }

    /// Ends the task as a fault, once the handler has run to its end. Codes of one's own start at 0x100.
    pub fn fault(&self, code: impl Arg<'b, u32>) {
        self.f.fault(code);
    }

    /// Ends the task with this result.
    pub fn finish(&self, result: impl Arg<'b, u32>) {
        self.f.ret(self.f.value::<u32>(result.operand()));
    }
}
