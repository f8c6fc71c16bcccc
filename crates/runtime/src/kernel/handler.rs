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
use std::ops::Deref;
use std::rc::Rc;

use pelton_ir::builder::{Arg, Buf, Builder, FunctionBuilder, Val};
use pelton_ir::module::{BufferDecl, Module, TextPlace};
use pelton_ir::op::Op;
use pelton_ir::text::{self, ColorMode};
use pelton_ir::types::{Access, Len, Num, Order, Scope, Space, Type};

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

/// What tasks of an opcode do. [`Spec::handler`](super::Spec::handler) gives it a name and an opcode.
///
/// Both kinds of handlers are written by a closure. The closure runs once, when the handler is made, and leaves a function of the language.
/// It names regions of the workspace as it needs them; [`assemble`](super::assemble) looks them up in the `Spec`.
///
/// ```
/// use pelton::{Handler, Spec};
///
/// let spec = Spec::default()
///     .handler("double", Handler::lane_wide(|task| task.finish(task.arg(0) * 2)))
///     .handler("lanes", Handler::group_wide(|group| group.finish(group.body().lanes())));
/// let double = spec.opcode("double")?;
/// # Ok::<(), pelton::kernel::UnknownOpcode>(())
/// ```
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct Handler {
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

/// The name of a function that a closure wrote, until the handler gets a name. No text can spell it.
const UNNAMED: &str = "";

impl Handler {
    /// A handler that one lane runs, written by a closure. Without [`finish`](HandlerBody::finish) its result is 0.
    pub fn lane_wide(build: impl for<'b> FnOnce(HandlerBody<'b>)) -> Self {
        let mut m = Builder::new();
        m.buffer::<u32>(ARG, Len::Fixed(ARGS.into()), Space::Global, Access::Read);
        let error: Rc<RefCell<Option<String>>> = Rc::default();
        m.function::<(), u32>(UNNAMED, |f, ()| {
            build(HandlerBody { f, error: error.clone() });
            f.lit(0)
        });
        let mut module = m.finish();
        restrict_access(&mut module);
        Handler { error: error.take(), ..Handler::from_module(module) }
    }

    /// A handler that all lanes of a group run together, written by a closure. Lane 0 gives the result, which is 0 without
    /// [`finish`](HandlerBody::finish).
    pub fn group_wide(build: impl for<'b> FnOnce(GroupHandlerBody<'b>)) -> Self {
        Handler::lane_wide(|body| build(GroupHandlerBody(body))).width(Width::Group)
    }

    /// A handler from text. Its function is the one that has the name which the handler gets in the `Spec`.
    pub fn from_text(source: &str) -> Self {
        match text::parse(source) {
            Ok(module) => Handler::from_module(module),
            Err(list) => {
                let error = Some(format!(
                    "its text is wrong\n{}",
                    text::render_diagnostics("text", source, &list, ColorMode::Plain)
                ));
                Handler { error, ..Handler::from_module(Module::default()) }
            }
        }
    }

    /// A handler that one lane runs, from a module. Its function is the one that has the name which the handler gets in the `Spec`.
    pub fn from_module(module: Module) -> Self {
        let (width, visible, class) = Default::default();
        Handler { width, visible, class, module, error: None, may_trap: false }
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

/// Declares regions that a handler only loads from as read, so that it can name regions that are only read.
fn restrict_access(module: &mut Module) {
    let reads = |op: Op| matches!(op, Op::Load | Op::LoadWide | Op::Len);
    let nodes = module.functions.iter().flat_map(|(_, function)| function.insts());
    let written: Vec<_> = nodes.filter(|(_, node)| !reads(node.op)).filter_map(|(_, n)| n.buffer()).collect();
    let regions = module.buffers.iter().filter(|(_, decl)| decl.space == Space::Global).map(|(at, _)| at);
    for region in regions.filter(|region| !written.contains(region)).collect::<Vec<_>>() {
        module.buffers[region].access = Access::Read;
    }
}

/// A handler of a [`Spec`](super::Spec), with the name and the opcode by which tasks ask for it.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct NamedHandler {
    /// The opcode of its tasks.
    pub op: Opcode,
    /// The name of the opcode, and of the handler's function.
    pub name: String,
    /// What its tasks do.
    pub handler: Handler,
}

impl NamedHandler {
    pub(super) fn new(op: Opcode, name: String, mut handler: Handler) -> Self {
        let functions = &mut handler.module.functions;
        let unnamed = functions.iter().find(|(_, function)| function.name == UNNAMED).map(|(at, _)| at);
        if let Some(at) = unnamed {
            functions[at].name.clone_from(&name);
        }
        NamedHandler { op, name, handler }
    }
}

impl Deref for NamedHandler {
    type Target = Handler;
    fn deref(&self) -> &Handler {
        &self.handler
    }
}

/// The handler that a closure writes: the task that it is for, and the tenant's regions.
#[derive(Clone)]
pub struct HandlerBody<'b> {
    f: &'b FunctionBuilder<'b>,
    error: Rc<RefCell<Option<String>>>,
}

/// The group-wide handler that a closure writes. It has everything that a [`HandlerBody`] has, and buffers that the lanes of the group
/// share.
#[derive(Clone)]
pub struct GroupHandlerBody<'b>(HandlerBody<'b>);

impl<'b> Deref for GroupHandlerBody<'b> {
    type Target = HandlerBody<'b>;
    fn deref(&self) -> &HandlerBody<'b> {
        &self.0
    }
}

impl GroupHandlerBody<'_> {
    /// A buffer of the handler's own that the lanes of the group share. Its elements are zero when a task begins.
    pub fn shared<T: Num>(&self, name: &str, len: u32) -> Buf<T> {
        self.0.buffer(name, Len::Fixed(len.into()), Space::Shared)
    }
}

impl<'b> HandlerBody<'b> {
    /// The function in the making: control flow, arithmetic, everything that the language has.
    pub fn body(&self) -> &'b FunctionBuilder<'b> {
        self.f
    }

    /// An argument of the task.
    pub fn arg(&self, index: u32) -> Val<'b, u32> {
        self.f.load(self.region::<u32>(ARG).at(index))
    }

    /// A region of the tenant's workspace, or with the name `observable` its observables. A `Spec` without such a region, or with one of
    /// another type, is refused by [`assemble`](super::assemble).
    pub fn region<T: Num>(&self, name: &str) -> Buf<T> {
        self.buffer(name, Len::Launch, Space::Global)
    }

    /// The buffer of that name, which is declared when it is first named.
    fn buffer<T: Num>(&self, name: &str, len: Len, space: Space) -> Buf<T> {
        if let Some(known) = self.f.buffer(name) {
            return known;
        }
        let others = [
            (self.f.buffer::<u32>(name).is_some(), Type::U32),
            (self.f.buffer::<i32>(name).is_some(), Type::I32),
            (self.f.buffer::<u64>(name).is_some(), Type::U64),
            (self.f.buffer::<f32>(name).is_some(), Type::F32),
        ];
        if let Some((_, other)) = others.iter().find(|(declared, _)| *declared) {
            let what = format!("it names region {name:?} with elements of {other} and of {}", T::TYPE);
            self.error.borrow_mut().get_or_insert(what);
        }
        let (elem, access, place) = (T::TYPE, Access::ReadWrite, TextPlace::default());
        Buf::from_handle(self.f.declare(BufferDecl { name: name.into(), elem, len, space, access, place }))
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
