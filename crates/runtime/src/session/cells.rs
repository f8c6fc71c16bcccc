//! The cells of a session, as the host sees them.
//!
//! A task of a resumable handler lives in a *cell* from submit to end; [`kernel::cells`](crate::kernel::cells) says what
//! the kernel does with it. On the host, the cells of a producer are a stripe like any other: each has a completion
//! record and a word in which a ticket notes that it has given the cell up. The task of generation `g` in cell `k` has
//! the position `g × cells + k`. Position and generation are thus related as in a ring, so a ticket reads the record,
//! waits, registers a waker and gives the cell up exactly as it does for a slot. What differs is that cells are used in
//! any order:
//!
//! - The producer keeps a list of free cells ([`FreeCells`]). A cell is free again when its ticket has given it up and
//!   its task has ended.
//! - The stripe knows the position of the task in each cell that is in use, for everyone else who looks for tasks that
//!   have not ended.
//!
//! The slot that carries a task to its cell is given up at once, and nobody looks at its record but the producer that
//! takes the slot back.

use std::sync::atomic::Ordering;
use std::sync::{Mutex, MutexGuard, PoisonError};

use pelton_device::View64;
use pelton_device::memory::Line;

use super::cell_loss::SavedAsks;
use super::memory::RingMemory;
use super::producer::Producer;
use super::resumable::ResumableOps;
use super::rings::{Rings, Stripe};
use super::run::ServedRings;
use super::span::Span;
use super::ticket::{HeldSlots, SessionShare, Ticket};
use crate::after::EventCondition;
use crate::deadline::{Deadline, PollBackoff};
use crate::error::{Error, SubmitError};
use crate::kernel::cells::{AFTER_FLAG, CELL_SHIFT, ask};
use crate::kernel::spec::Recovery;
use crate::kernel::{BufferId, Layout, Placement, STRIDE, Spec, lives_in_no_cell};
use crate::payload::Submission;
use crate::protocol::Opcode;
use crate::protocol::slot::{self, generation_at};
use crate::ring::{EndsSeen, HostRing, SlotLines, SlotMemory};
use crate::task::Task;

/// What the host can ask of a task in a cell.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum CellAsk {
    /// The task is to end.
    Cancel,
    /// The task is to begin no further step.
    Pause,
    /// The task is to go on.
    Resume,
}

impl CellAsk {
    fn code(self) -> u32 {
        match self {
            CellAsk::Cancel => ask::CANCEL,
            CellAsk::Pause => ask::PAUSE,
            CellAsk::Resume => ask::RESUME,
        }
    }
}

/// What all cells of a session share.
#[derive(Debug)]
pub(crate) struct SessionCells {
    /// The number of the first producer's stripe of cells.
    first_stripe: u32,
    /// The opcodes whose tasks live in cells.
    ops: ResumableOps,
    /// The free cells of the producers that are not in use.
    idle: Mutex<Vec<Option<FreeCells>>>,
    asks: Mutex<AskRing>,
    /// What the task of each cell waits for before its first step, if there are events.
    conditions: Option<View64>,
}

/// The ring through which the host asks something of cells.
#[derive(Debug)]
pub(super) struct AskRing {
    words: View64,
    pub answers: View64,
    /// How many asks there have been.
    pub count: u64,
    /// What was asked, if the session recovers.
    pub saved: Option<SavedAsks>,
}

/// The cells of one producer that are free.
#[derive(Debug)]
pub(super) struct FreeCells {
    /// The number of the producer's stripe of cells.
    stripe: u32,
    /// The cells that are free. The last one is used next.
    free: Vec<u32>,
    /// How often each cell was used.
    generations: Vec<u64>,
}

impl SessionCells {
    /// Makes the cells of a layout, if it has any, and adds their stripes, one per producer.
    pub(super) fn new(
        (spec, layout): (&Spec, &Layout),
        memory: &RingMemory,
        stripes: &mut Vec<Stripe>,
    ) -> Result<Option<Self>, Error> {
        let Some(steps) = layout.steps.filter(|_| layout.cell_count() > 0) else { return Ok(None) };
        let first_stripe = stripes.len() as u32;
        let per_producer = steps.producer_cells;
        let done = memory.words(BufferId::CellDone)?;
        let taken = memory.host_words(layout.producer_cell_count() as usize)?;
        // Cells have no lines of their own on the host.
        let lines = SlotMemory::Mapped(taken.clone());
        for producer in 0..layout.producers {
            let ring = HostRing {
                lines: lines.clone(),
                done: done.clone(),
                taken: taken.clone(),
                tail: None,
                first: (producer * per_producer) as usize,
                log2: per_producer.ilog2(),
            };
            let first_place = layout.slot_count() + producer * per_producer;
            stripes.push(Stripe::of_cells(ring, per_producer, first_place as usize));
        }
        let free = |producer: u32| FreeCells {
            stripe: first_stripe + producer,
            free: (0..per_producer).rev().collect(),
            generations: vec![0; per_producer as usize],
        };
        let asks = AskRing {
            words: memory.words(BufferId::Asks)?,
            answers: memory.words(BufferId::Answers)?,
            count: 0,
            saved: (spec.recovery == Recovery::On).then(|| SavedAsks::new(layout)),
        };
        let idle = Mutex::new((0..layout.producers).map(|producer| Some(free(producer))).collect());
        let ops = ResumableOps::new(&layout.resumable_ops);
        let has_events = layout.trees.is_some_and(|trees| trees.events > 0);
        let conditions = has_events.then(|| memory.words(BufferId::After)).transpose()?;
        Ok(Some(SessionCells { first_stripe, ops, idle, asks: Mutex::new(asks), conditions }))
    }

    /// Takes the free cells of a producer, for as long as the producer is in use.
    pub(super) fn take_free(&self, producer: u32) -> Option<FreeCells> {
        self.idle.lock().unwrap_or_else(PoisonError::into_inner)[producer as usize].take()
    }

    /// Gives the free cells of a producer back.
    pub(super) fn put_free(&self, producer: u32, cells: Option<FreeCells>) {
        self.idle.lock().unwrap_or_else(PoisonError::into_inner)[producer as usize] = cells;
    }

    /// Locks the ring through which the host asks something of cells.
    pub(super) fn lock_asks(&self) -> MutexGuard<'_, AskRing> {
        self.asks.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns what the task of a cell was to wait for before its first step, as the kernel reads it, if there are events.
    pub(super) fn condition(&self, cell: usize) -> Option<u64> {
        Some(self.conditions.as_ref()?.get(cell)?.load(Ordering::Relaxed))
    }

    /// Writes any word as what the task of a cell waits for before its first step, if there are events and the cell is that
    /// of a producer.
    #[cfg(feature = "inject")]
    pub(super) fn write_condition(&self, cell: u32, condition: u64) {
        if let Some(word) = self.conditions.as_ref().and_then(|words| words.get(cell as usize)) {
            word.store(condition, Ordering::Relaxed);
        }
    }

    /// Lets the cells of all producers that are not in use count their generations from a number on.
    #[cfg(feature = "inject")]
    pub(super) fn count_generations_from(&self, generation: u64) {
        let mut idle = self.idle.lock().unwrap_or_else(PoisonError::into_inner);
        idle.iter_mut().flatten().for_each(|cells| cells.generations.fill(generation));
    }

    /// Whether tasks of an opcode live in cells.
    pub(super) fn are_for(&self, op: Opcode) -> bool {
        self.ops.contains(op)
    }

    /// Lets tasks of more opcodes live in cells. Only one thread may do so at a time.
    pub(super) fn add_ops(&self, ops: &[Opcode]) {
        self.ops.add(ops);
    }
}

impl FreeCells {
    /// Takes back every cell that was given up and whose task has ended.
    fn reclaim(&mut self, rings: &Rings) {
        let stripe = &rings.stripes[self.stripe as usize];
        for cell in (0..stripe.cell_uses.len()).rev() {
            let position = stripe.cell_uses[cell].load(Ordering::Relaxed);
            if position == 0 {
                continue;
            }
            let count = stripe.ring.reclaim_at(position).unwrap_or(0) as usize;
            for cell in (cell..cell + count).rev() {
                stripe.cell_uses[cell].store(0, Ordering::Relaxed);
                self.free.push(cell as u32);
            }
        }
    }

    /// Returns how many cells are free, and takes cells back if they are not enough.
    fn free_cells(&mut self, rings: &Rings, wanted: usize) -> usize {
        if self.free.len() < wanted {
            self.reclaim(rings);
        }
        self.free.len()
    }

    /// Begins the next use of a cell that was free. Returns the position of the use.
    fn begin_use(&mut self, rings: &Rings, cell: u32) -> u64 {
        let stripe = &rings.stripes[self.stripe as usize];
        let generation = &mut self.generations[cell as usize];
        *generation += 1;
        let position = *generation << stripe.ring.log2 | u64::from(cell);
        let since = rings.meter.uptime().as_nanos() as u64;
        stripe.cell_since[cell as usize].store(since, Ordering::Relaxed);
        // Pairs with the acquire of those who look for tasks that have not ended.
        stripe.cell_uses[cell as usize].store(position, Ordering::Release);
        position
    }

    /// Writes a task to a position of a ring, from where it moves to a free cell. Returns the position of the use of
    /// the cell.
    fn write_task(&mut self, rings: &Rings, to: &Stripe, at: u64, submitted: &impl Submission) -> u64 {
        let number = self.free.pop().expect("the caller has checked that a cell is free");
        let stripe = &rings.stripes[self.stripe as usize];
        let cell = (stripe.ring.first as u32) + number;
        if let Some(places) = &rings.places {
            places.write_payload(stripe.first_place + number as usize, submitted.payload());
        }
        let waits = rings.note_condition(cell, submitted.condition());
        let line = line_in_cell(&to.ring, at, &submitted.task(), (cell, waits));
        let (slot, kept) = ((to.place_at(at), at), rings.recovery.as_ref().and_then(|r| r.cells.as_ref()));
        kept.inspect(|kept| kept.keep_task(cell as usize, slot, &line));
        let used = self.begin_use(rings, number);
        kept.inspect(|kept| kept.note_move(slot, (self.stripe, used)));
        publish_line(&to.ring, at, &line);
        used
    }
}

/// What the host asks of the kernel.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum AskEntry {
    /// Something is asked of the task of this generation in a cell.
    Cell { cell: u32, generation: u32, what: CellAsk },
    /// An event is signalled. It is numbered among those of all tenants.
    Signal { event: u32, times: u32 },
}

impl AskEntry {
    /// Returns the entry as the kernel reads it.
    fn word(self) -> u64 {
        let (low, what, high) = match self {
            AskEntry::Cell { cell, generation, what } => (cell, what.code(), generation),
            AskEntry::Signal { event, times } => (event, ask::SIGNAL, times),
        };
        u64::from(low | what << ask::WHAT_SHIFT) | u64::from(high) << 32
    }
}

impl ServedRings {
    /// Asks something of the kernel. If the session has ended, nothing is asked.
    pub(super) fn ask(&self, entry: AskEntry) {
        let Some(cells) = &self.rings.cells else { return };
        let mut backoff = PollBackoff::default();
        let mut asks = loop {
            let asks = cells.lock_asks();
            // Pairs with the kernel's release: it has read the asks that may be overwritten now.
            if asks.count - asks.answers[0].load(Ordering::Acquire) < u64::from(ask::RING) {
                break asks;
            }
            // Whoever recovers needs the lock.
            drop(asks);
            if !self.rings.state.is_running() {
                return;
            }
            if backoff.is_slow() {
                self.check_for_end();
            }
            backoff.pause();
        };
        if let Some(saved) = &mut asks.saved {
            saved.note(entry, &self.rings);
        }
        let at = STRIDE as usize + (asks.count % u64::from(ask::RING)) as usize;
        asks.words[at].store(entry.word(), Ordering::Relaxed);
        asks.count += 1;
        // Pairs with the kernel's acquire: it sees the ask.
        asks.words[0].store(asks.count, Ordering::Release);
        self.wake();
    }
}

impl SessionShare {
    /// Asks something of the task at a position of a stripe of cells. If the session has ended, nothing is asked.
    pub(super) fn ask_cell(&self, stripe: &Stripe, position: u64, what: CellAsk) {
        let cell = stripe.ring.slot_at(position) as u32;
        let generation = generation_at(position, stripe.ring.log2);
        self.served.ask(AskEntry::Cell { cell, generation, what });
    }
}

impl Rings {
    /// Notes what the task of a cell waits for before its first step. Returns whether it waits for anything.
    fn note_condition(&self, cell: u32, condition: Option<EventCondition>) -> bool {
        let conditions = self.cells.as_ref().and_then(|cells| cells.conditions.as_ref());
        let Some((condition, words)) = condition.zip(conditions) else { return false };
        // The slot that carries the task to its cell is published after this.
        words[cell as usize].store(condition.word(), Ordering::Relaxed);
        true
    }
}

impl Rings {
    /// The stripes of rings, without those of cells.
    pub(crate) fn slot_stripes(&self) -> &[Stripe] {
        &self.stripes[..self.layout.stripe_count() as usize]
    }

    /// The stripes of cells, one per producer, if there are any.
    pub(crate) fn cell_stripes(&self) -> &[Stripe] {
        &self.stripes[self.layout.stripe_count() as usize..]
    }

    /// The producer's stripe of cells, if there are cells.
    pub(super) fn producer_cells(&self, producer: u32) -> Option<&Stripe> {
        let cells = self.cells.as_ref()?;
        self.stripes.get((cells.first_stripe + producer) as usize)
    }

    /// Returns the generation of a cell's use that is under way, if there is one.
    pub(super) fn generation_in_use(&self, cell: u32) -> Option<u32> {
        let per_producer = self.layout.steps.map_or(1, |steps| steps.producer_cells);
        let stripe = self.cell_stripes().get((cell / per_producer) as usize)?;
        // Pairs with the release of the producer that began the use.
        let used = stripe.cell_uses[(cell % per_producer) as usize].load(Ordering::Acquire);
        (used != 0).then(|| generation_at(used, stripe.ring.log2))
    }

    /// Returns the uses of cells whose tasks have not ended, each with its stripe.
    pub(crate) fn unfinished_cells(&self) -> Vec<(&Stripe, u64)> {
        let uses = |stripe| unfinished_uses(stripe).map(move |position| (stripe, position));
        self.cell_stripes().iter().flat_map(uses).collect()
    }
}

/// The positions of the uses of a stripe's cells whose tasks have not ended.
pub(super) fn unfinished_uses(stripe: &Stripe) -> impl Iterator<Item = u64> {
    // Pairs with the release of the producer that began the use.
    let used = stripe.cell_uses.iter().map(|used| used.load(Ordering::Acquire));
    used.filter(|position| *position != 0 && stripe.ring.record_at(*position).is_none())
}

impl Producer {
    /// Whether a task lives in a cell, because its handler is resumable or because it waits for an event.
    #[inline]
    pub(super) fn needs_cell<S: Submission>(&self, task: &S) -> bool {
        let cells = self.share.rings.cells.as_ref().filter(|_| self.cells.is_some());
        S::HAS_CONDITION || cells.is_some_and(|cells| cells.are_for(task.task().op))
    }

    /// Checks that a task may wait for an event: the event must exist, and the task must be one that can live in a cell.
    pub(super) fn check_condition(&self, task: &impl Submission) -> Result<(), SubmitError> {
        let (Some(wait), op) = (task.condition(), task.task().op) else { return Ok(()) };
        let (event, events) = (wait.event, self.share.rings.layout.trees.map_or(0, |trees| trees.events));
        if event >= events {
            return Err(SubmitError::UnknownEvent { event, events });
        }
        if lives_in_no_cell(op) { Err(SubmitError::CannotWait(op)) } else { Ok(()) }
    }

    /// Checks that so many cells could be free at once.
    pub(super) fn check_cells(&self, wanted: u64) -> Result<(), SubmitError> {
        let cells = self.cells.as_ref().map_or(0, |cells| cells.generations.len() as u64);
        if wanted > cells { Err(SubmitError::TooManyResumable { wanted, cells }) } else { Ok(()) }
    }

    /// Waits for free cells, as long as the producer's patience says. Returns when the patience ends, if it had to wait.
    pub(super) fn find_cells(&mut self, wanted: u64) -> Result<Option<Deadline>, SubmitError> {
        self.check_cells(wanted)?;
        let Some(cells) = &mut self.cells else { return Ok(None) };
        let rings = &*self.share.rings;
        let mut deadline = None;
        let mut backoff = PollBackoff::default();
        loop {
            if !rings.state.is_running() {
                return Err(rings.state.submit_error());
            }
            let free = cells.free_cells(rings, wanted as usize) as u64;
            if free >= wanted {
                return Ok(deadline);
            }
            let deadline = *deadline.get_or_insert_with(|| self.patience.started());
            if deadline == Deadline::Now || backoff.is_slow() && deadline.has_passed() {
                return Err(SubmitError::NoCells { free, wanted });
            }
            if backoff.is_slow() {
                self.share.served.check_for_end();
            }
            backoff.pause();
        }
    }

    /// Takes back all cells that were given up, and returns how many are free.
    pub(super) fn reclaim_cells(&mut self) -> u64 {
        let Some(cells) = &mut self.cells else { return 0 };
        cells.reclaim(&self.share.rings);
        cells.free.len() as u64
    }

    /// Submits a task of a resumable handler.
    #[cold]
    pub(super) fn submit_resumable(&mut self, task: impl Submission) -> Result<Ticket, SubmitError> {
        let (level, fenced) = self.check_tasks(std::iter::once(task))?;
        let deadline = self.find_cells(1)?;
        let stripe = self.find_room(level, 1, fenced, deadline)?;
        let stripe = stripe.expect("one task never stands in several stripes");
        let mut cells = self.cells.take().expect("a task that lives in a cell has found one");
        let mut used = 0;
        let (number, first, _, stamp) =
            self.write_tasks(level, stripe, 1, (), |rings, to, tail, _, (), _| {
                used = cells.write_task(rings, to, *tail, &task);
                *tail += 1;
            });
        let place = (cells.stripe, used);
        self.cells = Some(cells);
        // Nobody but this producer looks at the record of the slot.
        self.share.rings.stripes[number as usize].ring.give_up(first, 1, EndsSeen::NotAll);
        Ok(Ticket::of_cell(&self.share, place, self.stripe_placement(stripe), stamp))
    }

    /// Submits tasks of which some are of resumable handlers.
    #[cold]
    pub(super) fn submit_with_resumable(&mut self, tasks: &[impl Submission]) -> Result<Span, SubmitError> {
        let (level, fenced) = self.check_tasks(tasks.iter().copied())?;
        let wanted = tasks.len() as u64;
        self.check_size(level, wanted, fenced)?;
        let deadline = self.find_cells(tasks.iter().filter(|task| self.needs_cell(*task)).count() as u64)?;
        let mut held = Vec::new();
        let (placement, stamp) = match self.find_room(level, wanted, fenced, deadline)? {
            Some(stripe) => {
                let stamp = self.write_with_cells(level, stripe, tasks, &mut held);
                (self.stripe_placement(stripe), stamp)
            }
            None => (Placement::Near, self.spread_with_cells(level, tasks, &mut held)),
        };
        let piece = |(stripe, first, count)| {
            let mut piece = HeldSlots::new(&self.share, stripe, first, count, 0);
            piece.set_placement(placement);
            piece
        };
        Ok(Span::from_pieces(held.into_iter().map(piece).collect(), stamp))
    }

    /// Where one of the producer's stripes of a level is.
    fn stripe_placement(&self, stripe: u32) -> Placement {
        if stripe < self.near_count { Placement::Near } else { Placement::Far }
    }

    /// Writes tasks to several near stripes, which together have room for them.
    fn spread_with_cells(
        &mut self,
        level: u32,
        tasks: &[impl Submission],
        held: &mut Vec<(u32, u64, u32)>,
    ) -> u64 {
        let (from, mut left, mut stamp) = (self.last[level as usize].near + 1, tasks, 0);
        for k in 0..self.near_count {
            let stripe = (from + k) % self.near_count;
            let count = (self.free_slots(level, stripe, 1) as usize).min(left.len());
            let (now, rest) = left.split_at(count);
            if count > 0 {
                let at = self.write_with_cells(level, stripe, now, held);
                stamp = if stamp == 0 { at } else { stamp };
            }
            left = rest;
        }
        stamp
    }

    /// Writes tasks to a stripe that has room for them, each task of a resumable handler with a free cell. Adds what
    /// the tickets of the tasks hold to `held`: stripe, first position and count of neighbouring tasks. Returns the time
    /// stamp of the meter.
    fn write_with_cells<S: Submission>(
        &mut self,
        level: u32,
        stripe: u32,
        tasks: &[S],
        held: &mut Vec<(u32, u64, u32)>,
    ) -> u64 {
        let mut cells = self.cells.take();
        let share = self.share.clone();
        let lives_in_cell = |submitted: &S| {
            let cells = share.rings.cells.as_ref();
            S::HAS_CONDITION || cells.is_some_and(|cells| cells.are_for(submitted.task().op))
        };
        // The tasks' own places: a position of the ring, or of the stripe of cells.
        let mut places = Vec::with_capacity(tasks.len());
        let (number, first, _, stamp) =
            self.write_tasks(level, stripe, tasks.len() as u64, (), |rings, to, tail, _, (), _| {
                for submitted in tasks {
                    let task = submitted.task();
                    match cells.as_mut().filter(|_| lives_in_cell(submitted)) {
                        Some(cells) => {
                            places.push((cells.stripe, cells.write_task(rings, to, *tail, submitted)));
                        }
                        None => {
                            if let Some(places) = &rings.places {
                                places.write_payload(to.place_at(*tail), submitted.payload());
                            }
                            to.ring.publish(*tail, &task);
                            places.push((u32::MAX, *tail));
                        }
                    }
                    *tail += 1;
                }
            });
        self.cells = cells;
        let ring = &share.rings.stripes[number as usize].ring;
        for (at, (stripe, position)) in (first..).zip(places) {
            let in_cell = stripe != u32::MAX;
            if in_cell {
                // Nobody but this producer looks at the record of the slot.
                ring.give_up(at, 1, EndsSeen::NotAll);
            }
            let stripe = if in_cell { stripe } else { number };
            // The position before that of the first cell is the last cell's, in its use before. These two are no
            // neighbours, because cells are taken back by their numbers.
            let first_cell = in_cell && share.rings.stripes[stripe as usize].waiter_place(position) == 0;
            match held.last_mut() {
                Some((last, first, count))
                    if *last == stripe && *first + u64::from(*count) == position && !first_cell =>
                {
                    *count += 1;
                }
                _ => held.push((stripe, position, 1)),
            }
        }
        stamp
    }
}

/// Returns the line of a task that is to move to a cell. `waits` says whether it waits for an event before its first step.
pub(super) fn line_in_cell(
    to: &super::producer::StripeRing,
    position: u64,
    task: &Task,
    (cell, waits): (u32, bool),
) -> Line {
    let mut line = slot::published_line(generation_at(position, to.log2), task.op, task.priority, &task.args);
    let after = if waits { AFTER_FLAG } else { 0 };
    line[slot::PRIORITY as usize / 2] |= u64::from((cell + 1) << CELL_SHIFT | after) << 32;
    slot::seal_line(&mut line);
    line
}

/// Publishes a task whose line was made before.
pub(super) fn publish_line(to: &super::producer::StripeRing, position: u64, line: &Line) {
    to.lines.flush();
    to.lines.put(to.slot_at(position), line);
}
