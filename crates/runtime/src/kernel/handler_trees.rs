//! Handlers whose tasks make other tasks and wait for them.
//!
//! A task may *spawn* others, its *children*. They run at the same time as the task itself, wherever a lane is free,
//! and their results arrive in words of the task's frame. This handler computes Fibonacci numbers in the most wasteful
//! way:
//!
//! ```
//! use std::time::Duration;
//! use pelton::kernel::handler_trees::Child;
//! use pelton::{Handler, Session, Spec, Task, device};
//!
//! let fib = Handler::lane_wide(|task| {
//!     let (f, n) = (task.body(), task.arg(0));
//!     let (left, right) = (task.frame_word(), task.frame_word());
//!     task.step(|| {
//!         f.when(n.lt(2), || task.finish(n));
//!         let room = task.reserve_children(2);
//!         f.when(!room, || {
//!             // There is no room for children, so the task does their work itself.
//!             let (a, _) = f.range((f.lit(0), n, f.lit(1)), (f.lit(0), f.lit(1)), |_, _, (a, b)| (b, a + b));
//!             task.finish(a);
//!         });
//!         for (word, less) in [(left, 1), (right, 2)] {
//!             task.spawn(Child::same_handler(&task).result_into(word).args([n - less]));
//!         }
//!         task.wait_children();
//!     });
//!     task.finish(left.load() + right.load());
//! });
//! let spec = Spec::default().handler("fib", fib);
//! let session = Session::launch(&device::open("cpu")?, &spec)?;
//! let mut producer = session.producer(0)?;
//! let mut ticket = producer.submit(Task::new(spec.opcode("fib")?).args([15]))?;
//! assert_eq!(ticket.wait(Duration::from_secs(60))?, 610);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! **Room.** Before a step spawns tasks, it reserves room for them with
//! [`reserve_children`](HandlerBody::reserve_children), for all or for none.
//! [`Spec::spawn_cells`](super::Spec::spawn_cells) says how much room there is. If there is none, the handler does the
//! work itself, with a loop and perhaps a stack in its frame. It must not simply yield and try again: a task that finds
//! no room [many times](MAX_TRIES) in a row ends with the fault POOL. So a tree of any size needs a fixed amount of
//! memory and never comes to a standstill. A step that ends with a fault spawns nothing.
//!
//! **Waiting.** [`wait_children`](HandlerBody::wait_children) ends a step, and the next one begins when all children
//! have ended. A task may also end while it has children. Its end then becomes known when all of them have ended, so
//! the record of a task always stands for its whole tree.
//!
//! **Faults.** If a child ends with a fault, its parent ends with the fault CHILD instead of taking another step. A
//! handler that calls [`child_faults`](HandlerBody::child_faults) is told how many there were and decides for itself.
//!
//! **Rights.** Children belong to the tenant of their parent. They count against its quota, and a child whose opcode
//! the tenant may not use ends with the fault DENIED. Any handler can be spawned, and so can the built-in operations on
//! memory. A child has no payload, and nobody reads its reply. Cancelling the task that was submitted cancels the whole
//! tree. Since nobody has a ticket of a child, a child that calls `park` ends with the fault UNREACHABLE.
//!
//! **Events.** A tenant has as many events as [`Spec::events`](super::Spec::events) says. An event is a count that only
//! grows. [`signal`](HandlerBody::signal) raises it, as [`Session::signal`](crate::Session::signal) does, and
//! [`wait_event`](HandlerBody::wait_event) ends a step until the count has reached a number. A task that is submitted
//! with [`Task::after`](crate::Task::after) waits before its first step.
//!
//! In text, all of these are imports:
//!
//! ```text
//! import fn reserve_children(%count: u32) -> u32
//! import fn spawn(%op: u32, %level: u32, %into: u32, %argument: u32)
//! import fn own_opcode() -> u32
//! import fn wait_children()
//! import fn child_faults() -> u32
//! import fn signal(%event: u32, %times: u32)
//! import fn wait_event(%event: u32, %count: u32)
//! ```
//!
//! `spawn` may have up to twelve further parameters, which are the arguments of the child. A level of 5 or more stands
//! for that of the task itself, and a word beyond the frame means that nobody wants the result. As `yield_now` does,
//! the verbs that wait take effect when the step ends. In a group-wide handler they are imported as
//! `import uniform fn`.

use pelton_ir::builder::{Arg, FunctionBuilder, Val};

use super::handler::{ARGS, HandlerBody};
use super::handler_steps::FrameWord;
use super::import::{CHILD_FAULTS, OWN_OPCODE, RESERVE_CHILDREN, SIGNAL, SPAWN, WAIT_CHILDREN, WAIT_EVENT};
pub use super::spawn::{MAX_CHILDREN_PER_STEP, MAX_TRIES};
use crate::protocol::{Opcode, Priority};

/// A task that a handler spawns.
#[derive(Clone, Copy)]
pub struct Child<'b> {
    f: &'b FunctionBuilder<'b>,
    op: Val<'b, u32>,
    level: Val<'b, u32>,
    /// The word of the parent's frame that the result goes to.
    result_word: Val<'b, u32>,
    args: [Val<'b, u32>; ARGS as usize],
}

impl<'b> Child<'b> {
    /// A task of an opcode, with arguments that are zero. It has the level of its parent, and nobody wants its result.
    pub fn new(task: &HandlerBody<'b>, op: Opcode) -> Self {
        Child::with_opcode(task, task.f.lit(op.code()))
    }

    /// A task of the handler that spawns it.
    pub fn same_handler(task: &HandlerBody<'b>) -> Self {
        let own = task.f.import::<(), u32>(OWN_OPCODE, task.import_flow());
        Child::with_opcode(task, task.f.call(own, ()))
    }

    /// A task whose opcode is computed.
    pub fn with_opcode(task: &HandlerBody<'b>, op: Val<'b, u32>) -> Self {
        let (zero, most) = (task.f.lit(0), task.f.lit(u32::MAX));
        Child { f: task.f, op, level: most, result_word: most, args: [zero; ARGS as usize] }
    }

    /// Sets the word of the parent's frame that the child's result goes to. The word is not changed if the child ends
    /// without a result.
    pub fn result_into(self, word: FrameWord<'b>) -> Self {
        Child { result_word: word.number(), ..self }
    }

    /// Sets the word of the parent's frame that the child's result goes to, by its number in the buffer `frame`.
    pub fn result_into_word(self, number: Val<'b, u32>) -> Self {
        Child { result_word: number, ..self }
    }

    /// Sets the child's own priority. It has an effect only if it is more urgent than that of the task that was
    /// submitted.
    pub fn priority(self, priority: Priority) -> Self {
        Child { level: self.f.lit(priority.code()), ..self }
    }

    /// Sets the first arguments. There can be up to twelve; more than that do not compile.
    pub fn args<const N: usize>(mut self, args: [Val<'b, u32>; N]) -> Self {
        const { assert!(N <= ARGS as usize, "a task has twelve arguments") };
        self.args[..N].copy_from_slice(&args);
        self
    }
}

/// Children and events. The module [`handler_trees`](self) has an example.
impl<'b> HandlerBody<'b> {
    /// Reserves room for so many children, at least 1 and at most [`MAX_CHILDREN_PER_STEP`]. Gives whether there is
    /// room for all of them; if there is not, nothing is reserved. A step can do this once. Room that the step does not
    /// use is given back when it ends.
    pub fn reserve_children(&self, count: impl Arg<'b, u32>) -> Val<'b, bool> {
        let count = self.f.value::<u32>(count.operand());
        let reserve = self.f.import::<u32, u32>(RESERVE_CHILDREN, self.import_flow());
        self.f.call(reserve, count).ne(0)
    }

    /// Spawns a task in room that this step has reserved. The child begins after the step has ended.
    pub fn spawn(&self, child: Child<'b>) {
        const COUNT: usize = 3 + ARGS as usize;
        let spawn = self.f.import::<[u32; COUNT], ()>(SPAWN, self.import_flow());
        let mut args = [child.op; COUNT];
        args[1..3].copy_from_slice(&[child.level, child.result_word]);
        args[3..].copy_from_slice(&child.args);
        self.f.call(spawn, args);
    }

    /// Ends this step here. The task goes on with the step that is written after this one, or with what comes after all
    /// steps, when all of its children have ended.
    pub fn wait_children(&self) {
        self.go_on_with_next_step();
        self.f.call(self.f.import::<(), ()>(WAIT_CHILDREN, self.import_flow()), ());
        self.f.ret(self.f.lit(0u32));
    }

    /// Ends this step here. The task goes on with the step of this number when all of its children have ended.
    pub fn wait_children_then(&self, number: impl Arg<'b, u32>) {
        self.set_next_step(number);
        self.f.call(self.f.import::<(), ()>(WAIT_CHILDREN, self.import_flow()), ());
        self.f.ret(self.f.lit(0u32));
    }

    /// Gives how many children of this task have ended with a fault so far. A handler that calls this goes on after
    /// such a fault; all others end with the fault CHILD.
    pub fn child_faults(&self) -> Val<'b, u32> {
        self.f.call(self.f.import::<(), u32>(CHILD_FAULTS, self.import_flow()), ())
    }

    /// Signals an event of the tenant so many times. Tasks that have waited for it see everything that this task has
    /// written before.
    pub fn signal(&self, event: impl Arg<'b, u32>, times: impl Arg<'b, u32>) {
        let (event, times) = (self.f.value::<u32>(event.operand()), self.f.value::<u32>(times.operand()));
        self.f.call(self.f.import::<(u32, u32), ()>(SIGNAL, self.import_flow()), (event, times));
    }

    /// Ends this step here. The task goes on with the step that is written after this one, or with what comes after all
    /// steps, when an event of the tenant was signalled at least so many times, counted from the start of the session.
    pub fn wait_event(&self, event: impl Arg<'b, u32>, count: impl Arg<'b, u32>) {
        let (event, count) = (self.f.value::<u32>(event.operand()), self.f.value::<u32>(count.operand()));
        self.go_on_with_next_step();
        self.f.call(self.f.import::<(u32, u32), ()>(WAIT_EVENT, self.import_flow()), (event, count));
        self.f.ret(self.f.lit(0u32));
    }
}
