//! Payloads and replies: bytes that a task brings beyond its twelve arguments, and bytes that it gives back beyond its
//! one result.
//!
//! **Places.** A `Spec` says how many bytes the payload and the reply of a task may have. Each slot then has a *place*
//! of that size for each of them. Nothing is ever allocated: the life of the slot is the life of its places. A place is
//! found by its number, which is that of the slot among all slots of the session, or the number of the slot in a
//! drained batch. [`TaskPlaces::begin_task`] is the only code that chooses the number; everything else takes it from
//! the group's memory.
//!
//! **Lengths.** The length of a payload in bytes lies in a buffer of its own, side by side with those of the
//! neighbouring slots, because a window reads many lengths at once and the bus carries whole lines. The host writes it
//! for every task, so a task without a payload has the length 0, whatever the last task of the slot had. The kernel
//! never takes a length for more than the `Spec` allows, so no handler reaches the place of another task. The last
//! bytes of the last word are zero if the length is not a multiple of four. A handler says the length of its reply with
//! the verb `reply_len`. If it does not, the reply is empty.
//!
//! **The word of a reply.** The kernel stores one word of 64 bits for a reply: its length, and the lap of the ring in
//! which the task ran. A ticket believes the word only if the lap is its own, so nothing has to be written for tasks
//! without a reply, and the reply of an earlier task is never taken for that of a later one. The lap has
//! [`REPLY_LAP_BITS`] bits, so it comes again only after more laps than a ring can do.
//!
//! **Order.** No access has to be added to those that order slots and records:
//!
//! - The host writes payload and length before it publishes the slot. Whoever has acquired the slot, or the tail beyond
//!   it, sees them. On a device with memory of its own, near lines are not acquired, so there one more fence follows
//!   the lines of a window.
//! - The kernel writes the reply and its word before the fence that precedes the window's records. Whoever has acquired
//!   the record sees them. A handler that names `reply` therefore always shows what it wrote, whatever its
//!   [`Visible`](super::Visible) says.
//! - The host reads the reply while it holds the ticket, and the producer writes the slot again only after the ticket
//!   has given it up. The kernel writes a place only between the two. So every word of a place has one writer at a
//!   time.
//!
//! **Copies.** A device that works in the host's memory reads payloads and writes replies where they lie. On a device
//! with memory of its own, a group copies the payloads of a window before it runs the tasks, and the replies after
//! that: neighbouring lanes move neighbouring pieces of 16 bytes, and only bytes that are used cross the bus. Handlers
//! then work with the copy, which has the same places. A window that has copied a payload always issues the fence before
//! its records, because the next task of the slot may be run by another group, which writes the same copy.
//!
//! **Cells.** A task that takes several steps gives its slot back before it ends, so its places are those of its
//! [cell](super::cells). They come after the places of all slots. Its sizes are kept in the cell between steps, its reply
//! is set to zero once, and the lane that ends the task gives the reply to the host.
//!
//! **What handlers see.** A reply is zero when a task begins, so a handler may read what it has written, and finds
//! nothing of earlier tasks. An access beyond the task's own payload or beyond the place of the reply is fault 2, as
//! for regions. Tasks of handlers that use a payload or a reply always run in a window: they are never light and never
//! in a packed slot.

use pelton_ir::builder::{Buf, FunctionBuilder};
use pelton_ir::types::{Order, Scope};

use super::buffers::{PayloadBuffers, PayloadCopies, PlaceBuffers, ReplyBuffers, ReplyCopies, SharedBuffers};
use super::context::{KernelContext, U32, U64, state};
use super::declare::Declarer;
use super::window::{TaskWindow, WindowRunner};

/// How many bits of the word of a reply hold its length. The lap is in the bits above.
pub(crate) const REPLY_LEN_BITS: u32 = 20;
/// How many bits of the word of a reply hold the lap.
pub(crate) const REPLY_LAP_BITS: u32 = u64::BITS - REPLY_LEN_BITS;

/// How many words a group moves at once. Places start at a multiple of this.
const PIECE_WORDS: u32 = 4;

/// How many bytes the payload and the reply of a task may have. Either is 0 where tasks have none.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct PlaceSizes {
    /// The most bytes of a payload.
    pub payload: u32,
    /// The most bytes of a reply.
    pub reply: u32,
}

impl PlaceSizes {
    /// Returns whether tasks have neither payloads nor replies.
    pub fn is_empty(self) -> bool {
        self.payload == 0 && self.reply == 0
    }

    /// How many words lie between the payloads of two neighbouring slots.
    pub(crate) fn payload_stride(self) -> u32 {
        self.payload.div_ceil(4).next_multiple_of(PIECE_WORDS)
    }

    /// How many words lie between the replies of two neighbouring slots.
    pub(crate) fn reply_stride(self) -> u32 {
        self.reply.div_ceil(4).next_multiple_of(PIECE_WORDS)
    }
}

/// The payloads of a kernel's tasks.
#[derive(Clone, Copy)]
pub(super) struct PayloadPlaces {
    /// Where the host writes payloads, and their lengths.
    host: PayloadBuffers,
    /// The copies that handlers read on a device with memory of its own.
    copy: Option<Buf<u32>>,
}

/// The replies of a kernel's tasks.
#[derive(Clone, Copy)]
pub(super) struct ReplyPlaces {
    /// Where the host reads replies, and their words.
    host: ReplyBuffers,
    /// The copies that handlers write on a device with memory of its own.
    copy: Option<Buf<u32>>,
}

/// The places of a kernel's tasks.
#[derive(Clone, Copy)]
pub(super) struct TaskPlaces {
    pub sizes: PlaceSizes,
    /// What a group knows about the places of its window.
    pub window: PlaceBuffers,
    payload: Option<PayloadPlaces>,
    reply: Option<ReplyPlaces>,
}

impl TaskPlaces {
    /// Declares the buffers of places, if tasks have any.
    pub(super) fn declare(d: &mut Declarer<'_>) -> Option<Self> {
        let (sizes, remote) = (d.plan.layout.places, d.plan.layout.remote);
        if sizes.is_empty() {
            return None;
        }
        let payload = (sizes.payload > 0).then(|| PayloadPlaces {
            host: PayloadBuffers::declare(d),
            copy: remote.then(|| PayloadCopies::declare(d).words),
        });
        let reply = (sizes.reply > 0).then(|| ReplyPlaces {
            host: ReplyBuffers::declare(d),
            copy: remote.then(|| ReplyCopies::declare(d).words),
        });
        Some(TaskPlaces { sizes, window: PlaceBuffers::declare(d), payload, reply })
    }

    /// The buffer from which handlers read payloads.
    pub(super) fn payload_words(&self) -> Option<Buf<u32>> {
        self.payload.map(|payload| payload.copy.unwrap_or(payload.host.words))
    }

    /// The buffer to which handlers write replies.
    pub(super) fn reply_words(&self) -> Option<Buf<u32>> {
        self.reply.map(|reply| reply.copy.unwrap_or(reply.host.words))
    }

    /// Whether groups copy payloads or replies.
    fn copies(&self) -> bool {
        self.payload.is_some_and(|payload| payload.copy.is_some())
            || self.reply.is_some_and(|reply| reply.copy.is_some())
    }

    /// Notes which place a task of a window has, how long its payload is, and that it has not said a reply. The slot
    /// can be read.
    fn begin_task<'b>(
        &self,
        f: &'b FunctionBuilder<'b>,
        shared: &SharedBuffers,
        task: U32<'b>,
        place: U32<'b>,
    ) {
        f.store(self.window.places.at(task), place);
        if let Some(payload) = self.payload {
            let bytes = f.atomic_load(Order::Relaxed, Scope::System, payload.host.bytes.at(place));
            // A task never reaches beyond its own place, whatever is in the host's memory.
            f.store(self.window.payload_bytes.at(task), f.min(bytes, self.sizes.payload));
            if payload.copy.is_some() {
                f.when(bytes.ne(0), || f.store(shared.state.at(state::DIRTY), 1));
            }
        }
        if self.reply.is_some() {
            f.store(self.window.reply_bytes.at(task), 0);
        }
    }

    /// Begins a task in a group of one lane, which runs its tasks where they lie, one as soon as it is found.
    pub(super) fn begin_lone_task<'b>(
        &self,
        f: &'b FunctionBuilder<'b>,
        shared: &SharedBuffers,
        task: U32<'b>,
        place: U32<'b>,
    ) {
        self.begin_task(f, shared, task, place);
        self.copy_payloads(f, task, f.lit(1));
    }

    /// Begins all tasks of a window and copies their payloads, if that is needed. All lanes call it.
    pub(super) fn begin_window<'b>(
        &self,
        f: &'b FunctionBuilder<'b>,
        run: WindowRunner<'_>,
        window: TaskWindow<'b>,
    ) {
        let shared = &run.kernel.shared;
        run.each_task(f, window, |task| self.begin_task(f, shared, task, run.place_number(f, window, task)));
        if self.copies() {
            f.barrier();
            self.copy_payloads(f, f.lit(0), window.count);
            f.barrier();
        }
    }

    /// Copies the payloads of `count` tasks of a window from the task `first` on, if handlers read copies.
    fn copy_payloads<'b>(&self, f: &'b FunctionBuilder<'b>, first: U32<'b>, count: U32<'b>) {
        let Some(PayloadPlaces { host, copy: Some(copy) }) = self.payload else { return };
        let stride = self.sizes.payload_stride();
        each_piece(f, (count, stride), |task, word| {
            let task = first + task;
            let used = (word << 2).lt(f.load(self.window.payload_bytes.at(task)));
            f.when(used, || {
                let at = f.load(self.window.places.at(task)) * stride + word;
                let piece = f.load_wide::<u32, 4>(Order::Relaxed, Scope::System, host.words.at(at));
                f.store_wide(Order::Relaxed, Scope::Group, copy.at(at), piece);
            });
        });
    }

    /// Gives the replies of a window to the host. All lanes call it, after the tasks have run and the lanes have met.
    /// The fence before the records, or the end of the pass, makes the replies visible.
    pub(super) fn finish_window<'b>(
        &self,
        f: &'b FunctionBuilder<'b>,
        run: WindowRunner<'_>,
        window: TaskWindow<'b>,
    ) {
        let Some(ReplyPlaces { host, copy }) = self.reply else { return };
        let (said, places) = (self.window.reply_bytes, self.window.places);
        // The lane that stores the word of a reply is the one that posts the task's record.
        run.each_task(f, window, |task| {
            let bytes = f.load(said.at(task));
            f.when(bytes.ne(0), || {
                let word = run.task_lap(f, window, task) << REPLY_LEN_BITS | f.cast::<u64>(bytes);
                f.atomic_store(Order::Relaxed, Scope::System, host.said.at(f.load(places.at(task))), word);
            });
        });
        let Some(copy) = copy else { return };
        let stride = self.sizes.reply_stride();
        each_piece(f, (window.count, stride), |task, word| {
            f.when((word << 2).lt(f.load(said.at(task))), || {
                let at = f.load(places.at(task)) * stride + word;
                let piece = f.load_wide::<u32, 4>(Order::Relaxed, Scope::Group, copy.at(at));
                f.store_wide(Order::Relaxed, Scope::System, host.words.at(at), piece);
            });
        });
        f.barrier();
    }
}

/// What tasks that take several steps do with their places. Such a task keeps its reply from step to step, so the reply is
/// set to zero once, before the first step.
impl TaskPlaces {
    /// Sets a reply to zero, in one lane.
    pub(super) fn clear_reply_at<'b>(&self, f: &'b FunctionBuilder<'b>, place: U32<'b>) {
        let Some(words) = self.reply_words() else { return };
        let stride = self.sizes.reply_stride();
        f.range((0u32, stride, PIECE_WORDS), (), |_, word, ()| {
            f.store_wide(Order::Relaxed, Scope::Group, words.at(place * stride + word), [f.lit(0); 4]);
        });
    }

    /// Prepares the place of a cell for the task of a window that has moved to it, whose payload was copied with those of
    /// the window. Gives the length of the payload.
    pub(super) fn adopt_place<'b>(
        &self,
        f: &'b FunctionBuilder<'b>,
        task: U32<'b>,
        place: U32<'b>,
    ) -> U32<'b> {
        if let Some(reply) = self.reply {
            self.clear_reply_at(f, place);
            // The generations of a cell come again, so the word of an earlier task must not stay.
            f.atomic_store(Order::Relaxed, Scope::System, reply.host.said.at(place), 0u64);
        }
        if self.payload.is_some() { f.load(self.window.payload_bytes.at(task)) } else { f.lit(0) }
    }

    /// Notes which place the task at a place of the group's home has, with the sizes that are kept in its cell.
    pub(super) fn restore_place<'b>(
        &self,
        f: &'b FunctionBuilder<'b>,
        (at, place): (U32<'b>, U32<'b>),
        sizes: U64<'b>,
    ) {
        f.store(self.window.places.at(at), place);
        if self.payload.is_some() {
            f.store(self.window.payload_bytes.at(at), f.cast::<u32>(sizes));
        }
        if self.reply.is_some() {
            f.store(self.window.reply_bytes.at(at), f.cast::<u32>(sizes >> 32));
        }
    }

    /// The sizes that are kept in the cell of the task at a place of the group's home.
    pub(super) fn kept_sizes<'b>(&self, f: &'b FunctionBuilder<'b>, at: U32<'b>) -> U64<'b> {
        let word = |buffer: Buf<u32>| f.cast::<u64>(f.load(buffer.at(at)));
        let payload = self.payload.map_or(f.lit(0u64), |_| word(self.window.payload_bytes));
        let reply = self.reply.map_or(f.lit(0u64), |_| word(self.window.reply_bytes));
        payload | reply << 32
    }

    /// Gives the reply of a cell's task to the host, in one lane. The fence before the cell's record makes it visible.
    pub(super) fn give_reply<'b>(
        &self,
        f: &'b FunctionBuilder<'b>,
        (at, place): (U32<'b>, U32<'b>),
        lap: U32<'b>,
    ) {
        let Some(ReplyPlaces { host, copy }) = self.reply else { return };
        let bytes = f.load(self.window.reply_bytes.at(at));
        f.when(bytes.ne(0), || {
            let word = f.cast::<u64>(lap) << REPLY_LEN_BITS | f.cast::<u64>(bytes);
            f.atomic_store(Order::Relaxed, Scope::System, host.said.at(place), word);
            let Some(copy) = copy else { return };
            let stride = self.sizes.reply_stride();
            f.range((f.lit(0), (bytes + 3) >> 2, f.lit(PIECE_WORDS)), (), |_, word, ()| {
                let from = place * stride + word;
                let piece = f.load_wide::<u32, 4>(Order::Relaxed, Scope::Group, copy.at(from));
                f.store_wide(Order::Relaxed, Scope::System, host.words.at(from), piece);
            });
        });
    }
}

/// Runs `body` for each piece of each task's place, with the pieces dealt out to the lanes. `body` gets the task and the
/// piece's first word in the place.
fn each_piece<'b>(
    f: &'b FunctionBuilder<'b>,
    (tasks, stride): (U32<'b>, u32),
    body: impl FnOnce(U32<'b>, U32<'b>),
) {
    let pieces = stride / PIECE_WORDS;
    f.range((f.lane(), tasks * pieces, f.lanes()), (), |_, piece, ()| {
        body(piece / pieces, (piece % pieces) * PIECE_WORDS);
    });
}

/// Writes the fence that comes after near lines on a device with memory of its own, if tasks have payloads. From here on,
/// the payloads are seen that the host wrote to its own memory before it wrote the lines to the device's.
pub(super) fn acquire_payloads<'b>(f: &'b FunctionBuilder<'b>, kernel: &KernelContext<'_>) {
    if kernel.layout.places.payload > 0 {
        f.fence(Order::Acquire, Scope::System);
    }
}
