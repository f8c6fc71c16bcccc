//! Handlers whose tasks take several steps.
//!
//! A task that yields gives way to other tasks, and goes on later. Its handler is a function that is called once per
//! step, from its beginning. What a step leaves for the next one lies in the task's *frame*: words that are zero when
//! the first step begins. Word 0 is the number of the step that comes next.
//!
//! In Rust, the steps of a handler are written one after the other, as closures:
//!
//! ```
//! use pelton::{Batch, Drain, Handler, Spec, Task, device};
//!
//! // Adds up the numbers from 1 to its argument, one number per step.
//! let sum = Handler::lane_wide(|task| {
//!     let (f, next, total) = (task.body(), task.frame_word(), task.frame_word());
//!     task.step(|| next.store(task.arg(0)));
//!     task.step(|| {
//!         let now = next.load();
//!         total.store(total.load() + now);
//!         next.store(now - 1);
//!         f.when(now.gt(1), || task.yield_now());
//!     });
//!     task.finish(total.load());
//! });
//! let spec = Spec::default().handler("sum", sum);
//! let mut drain = Drain::new(&device::open("cpu")?, &spec)?;
//! let mut batch = Batch::new();
//! batch.push(0, Task::new(drain.opcode("sum")?).args([100]))?;
//! let results = drain.run(&batch)?;
//! assert_eq!(results.outcomes().unwrap().next(), Some(Ok(5050)));
//! assert_eq!(results.statistics().steps.unwrap().begun, 102);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! The first step runs the first closure and then gives way. The next 100 steps run the second closure, which repeats
//! itself until the last number. The last step runs what comes after all closures, and ends the task.
//!
//! In text, the same verbs are imports, and the frame is a buffer:
//!
//! ```text
//! import fn yield_now()
//! buffer arg: [u32; 12] global read
//! buffer frame: [u32; 1] global read_write
//!
//! fn count() -> u32 {
//!   %done = load @frame[0]
//!   %next = add %done, 1
//!   store @frame[0], %next
//!   %all = load @arg[0]
//!   %more = lt %next, %all
//!   if %more {
//!     call yield_now()
//!     yield
//!   }
//!   return %next
//! }
//! ```
//!
//! A call of a verb does not end the function; `return` does, and the value that such a step returns is not used. If a
//! step asks for several things, a fault comes first, then `park`, then `requeue`, then `yield_now`. In a group-wide
//! handler the verbs are imported as `import uniform fn`, all lanes call them together, and they take effect once per
//! group.
//!
//! Sessions and drained batches run the same handlers. In a drained batch, the tasks of a window take turns whatever
//! their level, so `requeue` differs from `yield_now` only in what is counted; and a handler that calls `park` is
//! refused, because nobody could resume its tasks.

use pelton_ir::builder::{Arg, Buf, FunctionBuilder, Val};
use pelton_ir::module::ImportFlow;
use pelton_ir::types::{Len, Space};

use super::handler::{FRAME, HandlerBody, Width};
use super::import::{PARK, REQUEUE, YIELD_NOW};

/// A word that a task keeps between its steps. It is 0 when the first step begins.
///
/// In a group-wide handler, all lanes must load and store the word together: lane 0 does it for the group, and all
/// lanes get the value that lane 0 has loaded.
#[derive(Clone, Copy)]
pub struct FrameWord<'b> {
    f: &'b FunctionBuilder<'b>,
    width: Width,
    frame: Buf<u32>,
    index: u32,
}

impl<'b> FrameWord<'b> {
    /// Returns the number of the word in the buffer `frame`.
    pub fn number(&self) -> Val<'b, u32> {
        self.f.lit(self.index)
    }

    /// Loads the word.
    pub fn load(&self) -> Val<'b, u32> {
        let (f, word) = (self.f, self.frame.at(self.index));
        match self.width {
            Width::Lane => f.load(word),
            Width::Group => f.group_broadcast(f.choose(f.lane().eq(0), || f.load(word), || f.lit(0)), 0),
        }
    }

    /// Stores a value in the word.
    pub fn store(&self, value: impl Arg<'b, u32>) {
        let (f, word) = (self.f, self.frame.at(self.index));
        let value = f.value::<u32>(value.operand());
        match self.width {
            Width::Lane => f.store(word, value),
            Width::Group => f.when(f.lane().eq(0), || f.store(word, value)),
        }
    }
}

/// Steps of tasks. The module [`handler_steps`](self) has an example.
impl<'b> HandlerBody<'b> {
    /// Returns a new word of the task's frame, which the task keeps between its steps.
    pub fn frame_word(&self) -> FrameWord<'b> {
        let words = self.notes.frame_words.get() + 1;
        self.notes.frame_words.set(words);
        self.word_of_frame(words)
    }

    /// Returns the word of the frame that holds the number of the step that comes next. Steps are numbered from 0 in
    /// the order in which they are written.
    fn next_step(&self) -> FrameWord<'b> {
        self.word_of_frame(0)
    }

    fn word_of_frame(&self, index: u32) -> FrameWord<'b> {
        // The length is corrected when all words are known.
        let frame = self.buffer(FRAME, Len::Fixed(1), Space::Global);
        FrameWord { f: self.f, width: self.width, frame, index }
    }

    /// Writes one step of the task. When it has run, the task gives way to others, and goes on with the step that is
    /// written after this one, or with what comes after all steps.
    ///
    /// A step that calls [`yield_now`](HandlerBody::yield_now) runs again from its own beginning.
    pub fn step(&self, body: impl FnOnce()) {
        let (f, number) = (self.f, self.notes.steps.get());
        self.notes.steps.set(number + 1);
        f.when(self.next_step().load().eq(number), || {
            body();
            if !f.region_ended() {
                self.yield_to_step(number + 1);
            }
        });
    }

    /// Ends this step here. The task gives way to others, and then runs the same step again from its beginning.
    pub fn yield_now(&self) {
        self.f.call(self.f.import::<(), ()>(YIELD_NOW, self.import_flow()), ());
        self.f.ret(self.f.lit(0u32));
    }

    /// Ends this step here. The task gives way to others, and goes on with the step of this number. Steps are numbered
    /// from 0 in the order in which they are written; a number beyond the last step means what comes after all steps.
    pub fn yield_to_step(&self, number: impl Arg<'b, u32>) {
        self.next_step().store(number);
        self.yield_now();
    }

    /// Ends this step here. The task gives way to others, and then runs the same step again at another level, where 0
    /// is the most urgent; [`Priority::code`](crate::Priority::code) gives the number of a priority.
    pub fn requeue(&self, level: impl Arg<'b, u32>) {
        let level = self.f.value::<u32>(level.operand());
        self.f.call(self.f.import::<u32, ()>(REQUEUE, self.import_flow()), level);
        self.f.ret(self.f.lit(0u32));
    }

    /// Ends this step here. The task waits until the host resumes it, and then runs the same step again from its
    /// beginning. See [`Ticket::resume`](crate::Ticket::resume).
    pub fn park(&self) {
        self.f.call(self.f.import::<(), ()>(PARK, self.import_flow()), ());
        self.f.ret(self.f.lit(0u32));
    }

    /// Ends this step here. The task waits until the host resumes it, and goes on with the step of this number.
    pub fn park_then(&self, number: impl Arg<'b, u32>) {
        self.next_step().store(number);
        self.park();
    }

    /// Sets the step that comes next.
    pub(super) fn set_next_step(&self, number: impl Arg<'b, u32>) {
        self.next_step().store(number);
    }

    /// Lets the step that is written after the current one come next.
    pub(super) fn go_on_with_next_step(&self) {
        self.set_next_step(self.notes.steps.get());
    }

    /// How a verb must be imported.
    pub(super) fn import_flow(&self) -> ImportFlow {
        match self.width {
            Width::Lane => ImportFlow::Any,
            Width::Group => ImportFlow::Uniform,
        }
    }
}
