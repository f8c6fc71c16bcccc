//! Handlers: functions of the language that the tasks of an opcode run.
//!
//! A handler is an ordinary module, so it is checked, printed and tested like any other. Its function has no parameters
//! and returns the result, a `u32`. It reads the task's arguments from the buffer `arg`, and declares regions of the
//! workspace as buffers of unknown length. The kernel makes sure that each access stays within the piece of the region
//! that belongs to the task's tenant:
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
//! Where the `Spec` gives tasks a payload or a reply, a handler reads the one and writes the other like regions. Their
//! lengths in bytes are verbs, which a handler imports:
//!
//! ```text
//! import fn payload_len() -> u32
//! import fn reply_len(%bytes: u32)
//! buffer payload: [u32; ?] global read
//! buffer reply: [u32; ?] global read_write
//! ```
//!
//! `len @payload` gives the number of words that hold the payload of this task, and `len @reply` how many words its
//! reply may have. A reply is zero when a task begins, and empty unless the handler says its length. In a group-wide
//! handler, `reply_len` is imported as `uniform`, and lane 0 says the length.
//!
//! A *lane-wide* handler is run by one lane, beside other tasks of its window. A *group-wide* handler is run by all
//! lanes of a group together: it may use barriers, subgroup operations and shared buffers, which are zero when a task
//! begins, and lane 0 returns the result. A lane-wide handler may not have shared buffers. `fault` makes the task end
//! with a fault, whose code is the first one that was recorded; the function still runs to its end. `trap` would end
//! the kernel for every tenant, so it is refused.
//!
//! A handler that imports `yield_now` or `requeue` is *resumable*: its tasks can take several steps, each of which is
//! one call of the function. [`handler_steps`](super::handler_steps) says how such handlers are written.

use std::cell::{Cell, RefCell};
use std::ops::Deref;
use std::rc::Rc;

use pelton_ir::builder::{Arg, Buf, Builder, Callee, FunctionBuilder, Val};
use pelton_ir::module::{BufferDecl, ImportFlow, Module, TextPlace};
use pelton_ir::op::Op;
use pelton_ir::text::{self, ColorMode};
use pelton_ir::types::{Access, Len, Num, Order, Scope, Space, Type};

use super::import::{PAYLOAD_LEN, REPLY_LEN};
use crate::protocol::{FaultCode, Opcode, slot};

/// The name of the buffer from which handlers read the task's arguments.
pub const ARG: &str = "arg";
/// The name of the buffer that holds the observables of the task's tenant.
pub const OBSERVABLE: &str = "observable";
/// The name of the buffer that a task keeps between its steps.
pub const FRAME: &str = "frame";
/// The most words that a frame may have.
pub const MAX_FRAME_WORDS: u32 = 256;
/// The name of the buffer from which handlers read the task's payload.
pub const PAYLOAD: &str = "payload";
/// The name of the buffer to which handlers write the task's reply.
pub const REPLY: &str = "reply";
/// The number of arguments of a task.
pub const ARGS: u32 = slot::ARGS as u32;

/// How many lanes run one task of a handler.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub enum Width {
    /// One lane runs the task, beside lanes that run other tasks.
    #[default]
    Lane,
    /// All lanes of a group run the task together.
    Group,
}

/// Which effects of a task are visible to others when it has ended.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub enum Visible {
    /// Everything that the task wrote, and its result.
    #[default]
    Memory,
    /// Only the result of the task. What it wrote may become visible later.
    Result,
}

/// Whether a task that had begun when a device was lost may begin again. It has an effect only in sessions that
/// [recover](super::spec::Recovery).
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub enum Class {
    /// A task begins again, because whatever it did was lost with the device.
    #[default]
    Restart,
    /// A task never begins twice, because its effects may outlive the device. If the device is lost after the task has
    /// begun and before it has ended, the task ends as [lost](crate::TaskError::Lost). Such a task says in the host's memory
    /// that it begins, so it costs more than others, always runs in a window, and cannot be in a packed slot.
    Once,
    /// A task may run any number of times, because running it again changes nothing. So far this is the same as
    /// [`Restart`](Class::Restart).
    Idempotent,
    /// Tasks may run in any order: whatever the order is, what they leave in memory is the same, and only their results may
    /// differ. A task begins again as with [`Restart`](Class::Restart). Where tasks run side by side, only such handlers may
    /// write [kept](super::Retention::Kept) regions: after a loss, tasks that have ended since the last checkpoint run once more to
    /// restore these, in any order. So what they write there must depend on nothing but their arguments, their payload, kept
    /// regions, and what the [hook](crate::Session::on_recovery) writes.
    Commuting,
}

/// What the tasks of an opcode do. [`Spec::handler`](super::Spec::handler) gives the handler a name and an opcode.
///
/// Lane-wide and group-wide handlers are both written by a closure. The closure runs once, when the handler is made,
/// and builds a function of the language. It names the regions of the workspace that it needs, and
/// [`assemble`](super::assemble) looks them up in the `Spec`.
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
    /// How many lanes run one task.
    pub width: Width,
    /// Which effects of a task are visible to others when it has ended.
    pub visible: Visible,
    /// Whether a task that had begun when the device was lost begins again.
    pub class: Class,
    /// The handler's function, and the buffers that it names.
    pub module: Module,
    /// What went wrong while the handler was made.
    pub(super) error: Option<String>,
    /// Whether tasks that an older version of the handler has begun go on with this one.
    pub takes_over: bool,
    /// Whether the handler may end the kernel with `trap`.
    pub(super) may_trap: bool,
}

/// The name of a function that a closure wrote, until the handler gets its name. No function in a text can have it.
const UNNAMED: &str = "";

impl Handler {
    /// Makes a handler that one lane runs. The closure writes its function. If it does not call
    /// [`finish`](HandlerBody::finish), the result of a task is 0.
    pub fn lane_wide(build: impl for<'b> FnOnce(HandlerBody<'b>)) -> Self {
        Handler::from_closure(Width::Lane, build)
    }

    /// Makes a handler that all lanes of a group run together. The closure writes its function. Lane 0 returns the
    /// result of a task, which is 0 if the closure does not call [`finish`](HandlerBody::finish).
    pub fn group_wide(build: impl for<'b> FnOnce(GroupHandlerBody<'b>)) -> Self {
        Handler::from_closure(Width::Group, |body| build(GroupHandlerBody(body)))
    }

    /// Makes a handler of a width, whose function the closure writes.
    fn from_closure(width: Width, build: impl for<'b> FnOnce(HandlerBody<'b>)) -> Self {
        let mut m = Builder::new();
        let verbs = HandlerVerbs::import(&mut m, width);
        m.buffer::<u32>(ARG, Len::Fixed(ARGS.into()), Space::Global, Access::Read);
        let notes: Rc<BodyNotes> = Rc::default();
        m.function::<(), u32>(UNNAMED, |f, ()| {
            build(HandlerBody { f, width, verbs, notes: notes.clone() });
            f.lit(0)
        });
        let mut module = m.finish();
        module.remove_unused_imports();
        restrict_access(&mut module);
        notes.size_frame(&mut module);
        Handler { error: notes.error.take(), width, ..Handler::from_module(module) }
    }

    /// Makes a handler from the text of a module. One lane runs it, unless [`width`](Handler::width()) says otherwise.
    /// The function with the handler's name in the `Spec` is the one that runs. A mistake in the text is reported when
    /// the `Spec` is assembled.
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

    /// Makes a handler from a module. One lane runs it, unless [`width`](Handler::width()) says otherwise. The function
    /// with the handler's name in the `Spec` is the one that runs.
    pub fn from_module(module: Module) -> Self {
        let (width, visible, class) = Default::default();
        Handler { width, visible, class, module, error: None, takes_over: false, may_trap: false }
    }

    /// Sets how many lanes run one task of this handler.
    pub fn width(self, width: Width) -> Self {
        Handler { width, ..self }
    }

    /// Sets which effects of a task are visible to others when it has ended.
    pub fn visible(self, visible: Visible) -> Self {
        Handler { visible, ..self }
    }

    /// Sets whether this handler takes over the resumable tasks that an older version has begun, when
    /// [`Session::replace`](crate::Session::replace) puts it in the place of that version. The tasks then go on with this
    /// handler at their next step, so their frames must mean the same to both versions.
    ///
    /// By default it does not, and the older version is replaced only when all tasks that it has begun have ended.
    pub fn takes_over(self, takes_over: bool) -> Self {
        Handler { takes_over, ..self }
    }

    /// Lets the handler end the kernel with `trap`, for tests of how sessions end.
    #[cfg(feature = "inject")]
    pub fn may_trap(self) -> Self {
        Handler { may_trap: true, ..self }
    }

    /// Sets whether a task that had begun when the device was lost begins again. See [`Class`].
    pub fn class(self, class: Class) -> Self {
        Handler { class, ..self }
    }
}

/// The verbs that a closure can call, as imports of its module.
#[derive(Clone, Copy)]
struct HandlerVerbs {
    payload_len: Callee<(), u32>,
    reply_len: Callee<u32, ()>,
}

impl HandlerVerbs {
    /// Imports the verbs for a handler of a width.
    fn import(m: &mut Builder, width: Width) -> Self {
        let flow = match width {
            Width::Lane => ImportFlow::Any,
            Width::Group => ImportFlow::Uniform,
        };
        HandlerVerbs {
            payload_len: m.import(PAYLOAD_LEN, ImportFlow::Any),
            reply_len: m.import(REPLY_LEN, flow),
        }
    }
}

/// Declares the regions that a handler only loads from as read-only, so that it may name regions that cannot be
/// written.
fn restrict_access(module: &mut Module) {
    let reads = |op: Op| matches!(op, Op::Load | Op::LoadByte | Op::LoadWide | Op::AtomicLoad | Op::Len);
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
    /// The opcode of the handler's tasks.
    pub op: Opcode,
    /// The name of the opcode, and of the handler's function.
    pub name: String,
    /// What the tasks do.
    pub handler: Handler,
}

impl NamedHandler {
    /// Makes a handler that stands in for a resumable handler that was removed. It ends each task of that opcode with the
    /// fault UNKNOWN. Its name has a dot, so that no handler of a user has it.
    pub(crate) fn stand_in(removed: &NamedHandler) -> Self {
        let end = |task: &HandlerBody<'_>| {
            task.fault(FaultCode::UNKNOWN.code());
            // A handler is resumable if it calls this anywhere, and this one has to be, like the removed one.
            task.f.when(task.f.lit(false), || task.yield_now());
        };
        let handler = match removed.width {
            Width::Lane => Handler::lane_wide(|task| end(&task)),
            Width::Group => Handler::group_wide(|group| end(&group)),
        };
        NamedHandler::new(removed.op, format!("removed.{}", removed.op.code()), handler)
    }

    /// Names a handler. The function gets the same name if a closure wrote it.
    pub(crate) fn new(op: Opcode, name: String, mut handler: Handler) -> Self {
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

/// What the closure of [`Handler::lane_wide`] is given to write a handler: access to the task's arguments, to the
/// regions of its tenant, and to the [body](HandlerBody::body) of the function.
#[derive(Clone)]
pub struct HandlerBody<'b> {
    pub(super) f: &'b FunctionBuilder<'b>,
    pub(super) width: Width,
    verbs: HandlerVerbs,
    pub(super) notes: Rc<BodyNotes>,
}

/// What is noted while a closure writes a handler.
#[derive(Default)]
pub(super) struct BodyNotes {
    /// The first mistake.
    error: RefCell<Option<String>>,
    /// How many steps were written.
    pub steps: Cell<u32>,
    /// How many words of the frame have a use, apart from the number of the step.
    pub frame_words: Cell<u32>,
}

impl BodyNotes {
    /// Gives the frame of a module as many words as have a use.
    fn size_frame(&self, module: &mut Module) {
        let frame = module.buffers.iter().find(|(_, decl)| decl.name == FRAME).map(|(at, _)| at);
        if let Some(frame) = frame {
            module.buffers[frame].len = Len::Fixed(u64::from(self.frame_words.get()) + 1);
        }
    }
}

/// What the closure of [`Handler::group_wide`] is given to write a handler. It has everything that a [`HandlerBody`]
/// has, and also buffers that the lanes of the group share.
#[derive(Clone)]
pub struct GroupHandlerBody<'b>(HandlerBody<'b>);

impl<'b> Deref for GroupHandlerBody<'b> {
    type Target = HandlerBody<'b>;
    fn deref(&self) -> &HandlerBody<'b> {
        &self.0
    }
}

impl GroupHandlerBody<'_> {
    /// Returns a buffer that the lanes of the group share, and declares it when it is first named. Its elements are
    /// zero when a task begins.
    pub fn shared<T: Num>(&self, name: &str, len: u32) -> Buf<T> {
        self.0.buffer(name, Len::Fixed(len.into()), Space::Shared)
    }
}

impl<'b> HandlerBody<'b> {
    /// Returns the body of the function, with the control flow, the arithmetic and everything else that the language
    /// has.
    pub fn body(&self) -> &'b FunctionBuilder<'b> {
        self.f
    }

    /// Loads an argument of the task. An index past the last argument gives 0.
    pub fn arg(&self, index: u32) -> Val<'b, u32> {
        self.f.load(self.region::<u32>(ARG).at(index))
    }

    /// Returns the payload of the task as words. Its length depends on the task; an access beyond it is a fault. If the
    /// `Spec` has no payloads, [`assemble`](super::assemble) refuses the handler.
    pub fn payload(&self) -> Buf<u32> {
        self.region(PAYLOAD)
    }

    /// Returns how many bytes the payload of the task has.
    pub fn payload_len(&self) -> Val<'b, u32> {
        self.f.call(self.verbs.payload_len, ())
    }

    /// Loads a byte of the task's payload.
    pub fn payload_byte(&self, at: impl Arg<'b, u32>) -> Val<'b, u32> {
        let at = self.f.value::<u32>(at.operand());
        self.f.load_byte(self.payload().at(at >> 2), at & 3)
    }

    /// Returns the reply of the task as words, which are zero when the task begins. If the `Spec` has no replies,
    /// [`assemble`](super::assemble) refuses the handler.
    pub fn reply(&self) -> Buf<u32> {
        self.region(REPLY)
    }

    /// Says how many bytes the reply of the task has. Without this, the reply is empty. More bytes than the `Spec`
    /// allows are a fault. In a group-wide handler, all lanes call this together, and lane 0 says the length.
    pub fn set_reply_len(&self, bytes: impl Arg<'b, u32>) {
        self.f.call(self.verbs.reply_len, self.f.value::<u32>(bytes.operand()));
    }

    /// Returns a region of the tenant's workspace, or the tenant's observables if the name is `observable`. If the
    /// `Spec` has no such region, or one of another type, [`assemble`](super::assemble) refuses it.
    pub fn region<T: Num>(&self, name: &str) -> Buf<T> {
        self.buffer(name, Len::Launch, Space::Global)
    }

    /// Returns the buffer of that name, and declares it when it is first named.
    pub(super) fn buffer<T: Num>(&self, name: &str, len: Len, space: Space) -> Buf<T> {
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
            self.notes.error.borrow_mut().get_or_insert(what);
        }
        let (elem, access, place) = (T::TYPE, Access::ReadWrite, TextPlace::default());
        Buf::from_handle(self.f.declare(BufferDecl { name: name.into(), elem, len, space, access, place }))
    }

    /// Returns the region `data` of the tenant's workspace.
    pub fn data(&self) -> Buf<u32> {
        self.region("data")
    }

    /// Adds to an element of the region `data` atomically, and returns its old value.
    pub fn atomic_add(&self, at: impl Arg<'b, u32>, by: impl Arg<'b, u32>) -> Val<'b, u32> {
        self.f.atomic_add(Order::Relaxed, Scope::Device, self.data().at(at), by)
    }

    /// Loads an element of the region `data`.
    pub fn load(&self, at: impl Arg<'b, u32>) -> Val<'b, u32> {
        self.f.load(self.data().at(at))
    }

    /// Stores a value in an element of the region `data`.
    pub fn store(&self, at: impl Arg<'b, u32>, value: impl Arg<'b, u32>) {
        self.f.store(self.data().at(at), value);
    }

    /// Makes the task end with a fault once the handler has run to its end. Codes from 0x100 on are free for handlers
    /// to use.
    pub fn fault(&self, code: impl Arg<'b, u32>) {
        self.f.fault(code);
    }

    /// Ends the task here, with this result.
    pub fn finish(&self, result: impl Arg<'b, u32>) {
        self.f.ret(self.f.value::<u32>(result.operand()));
    }
}
