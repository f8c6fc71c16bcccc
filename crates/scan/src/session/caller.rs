//! A caller: what one call of the engine uses at a time, which is a producer of the session and two places for texts with
//! their lists of candidates.

use std::ops::Range;
use std::time::Duration;

use pelton::workspace::RegionView;
use pelton::{Opcode, Producer, Session, Span, Task};

use super::config::RegionPlan;
use super::layout::{FOUND, FOUND_HEADER, FOUND_WORDS, ScanTaskArgs, TEXT};
use super::pieces::{Piece, divide};
use super::versions::LoadedCatalog;
use crate::device_text::write_text;
use crate::error::ScanError;
pub(super) use crate::error::session_failed as failed;

/// How long the tasks of a chunk may take. It is far more than any chunk takes; a device that is stuck is an error.
const TASK_TIME: Duration = Duration::from_secs(300);

/// How many candidates are copied back together with their number.
const FIRST_FOUND: u32 = 2048;

/// A batch takes at most this fraction of the ring: one in four. Two batches per caller may wait for their results to be
/// read while a third one is submitted.
const RING_SHARE: u64 = 4;

/// How many pieces of a long range there are for each group.
const PIECES_PER_GROUP: u32 = 6;
/// The largest piece.
const PIECE_MAX: u32 = 1 << 20;

/// A candidate as a task reports it: its branch and where its part begins in the text on the device.
pub(super) type Found = [u32; 2];

/// What makes and runs the tasks of one call at a time.
#[derive(Debug)]
pub(super) struct Caller {
    /// One producer for each of the caller's rings.
    producers: Vec<Producer>,
    op: Opcode,
    plan: RegionPlan,
    groups: u32,
    /// The number of the caller's first place.
    first_place: u32,
    /// The value of the counter of each of the caller's lists.
    counters: [u32; 2],
    /// Whether a call has failed half-way, so that some of its tasks may not have ended.
    unsettled: bool,
}

/// A range of a text on the device that is being scanned.
#[derive(Debug)]
pub(super) struct Pending {
    place: usize,
    len: u32,
    own: Range<u32>,
    submitted: Submitted,
}

/// Tasks that were submitted.
#[derive(Debug)]
struct Submitted {
    /// The results of the first tasks, whose slots were given back.
    results: Vec<u32>,
    /// The other tasks, in order.
    spans: Vec<Span>,
}

impl Submitted {
    /// Waits until all tasks have ended, and gives their slots back.
    fn wait(&mut self) -> Result<(), ScanError> {
        for mut span in self.spans.drain(..) {
            span.wait(TASK_TIME).map_err(failed)?;
            for result in span.results() {
                self.results.push(result.map_err(failed)?);
            }
        }
        Ok(())
    }
}

impl Caller {
    pub(super) fn new(
        session: &Session,
        plan: RegionPlan,
        op: Opcode,
        number: u32,
    ) -> Result<Self, ScanError> {
        let rings = (0..plan.rings_per_caller()).map(|_| session.producer(plan.tenant));
        let producers = rings.map(|producer| Ok(producer.map_err(failed)?.patience(TASK_TIME)));
        let producers = producers.collect::<Result<Vec<_>, ScanError>>()?;
        let groups = session.layout().groups;
        Ok(Caller {
            producers,
            op,
            plan,
            groups,
            first_place: number * 2,
            counters: [0; 2],
            unsettled: false,
        })
    }

    /// Begins a call. If the call before has failed, this waits until none of its tasks can write a list any more.
    pub(super) fn begin_call(&mut self, session: &Session) -> Result<(), ScanError> {
        if std::mem::replace(&mut self.unsettled, true) {
            session.quiesce(TASK_TIME).map_err(failed)?;
            let view: RegionView<'_, u32> = session.view(self.plan.tenant, FOUND).map_err(failed)?;
            for place in 0..2 {
                self.counters[place] = view.read(self.found_word(place) as usize, 1).map_err(failed)?[0];
            }
        }
        Ok(())
    }

    /// Ends a call whose tasks have all ended.
    pub(super) fn end_call(&mut self) {
        self.unsettled = false;
    }

    /// The most bytes of text that a place holds.
    pub(super) fn text_bytes(&self) -> usize {
        self.plan.config.chunk_bytes as usize
    }

    /// Copies a text to a place, from a byte of the place on that is a multiple of four.
    pub(super) fn copy_text(
        &self,
        session: &Session,
        place: usize,
        at: usize,
        bytes: &[u8],
    ) -> Result<(), ScanError> {
        let view: RegionView<'_, u32> = session.view(self.plan.tenant, TEXT).map_err(failed)?;
        let first = self.text_word(place) as usize + at / 4;
        write_text(&view, first, bytes).map_err(failed)
    }

    /// Submits the tasks that scan a range of a text that lies in a place.
    pub(super) fn submit(
        &mut self,
        version: &LoadedCatalog,
        place: usize,
        len: u32,
        own: Range<u32>,
    ) -> Result<Pending, ScanError> {
        let bytes = self.piece_bytes(&own);
        let automata = 0..version.automata.len() as u32;
        let tasks = automata.flat_map(|at| divide(own.clone(), bytes).map(move |piece| (piece, at)));
        let submitted = self.submit_tasks(version, (place, len), &tasks.collect::<Vec<_>>())?;
        Ok(Pending { place, len, own, submitted })
    }

    /// The size of the pieces of a range: what the configuration says, or more if there are many pieces for each group.
    fn piece_bytes(&self, own: &Range<u32>) -> u32 {
        let share = (own.end - own.start) / (self.groups * PIECES_PER_GROUP);
        share.max(self.plan.config.piece_bytes).min(PIECE_MAX)
    }

    /// Submits one task for each piece and automaton. Tasks hold their slots until their results are read, so only the
    /// last batch of each ring is not waited for.
    fn submit_tasks(
        &mut self,
        version: &LoadedCatalog,
        text: (usize, u32),
        tasks: &[(Piece, u32)],
    ) -> Result<Submitted, ScanError> {
        let batch = self.producers.iter().map(Producer::largest_batch).min().unwrap_or(1);
        let batch = (batch / RING_SHARE).max(1) as usize;
        let even = tasks.len().div_ceil(self.producers.len()).clamp(1, batch);
        let mut submitted = Submitted { results: Vec::new(), spans: Vec::new() };
        for (k, tasks) in tasks.chunks(even).enumerate() {
            let ring = k % self.producers.len();
            if k > 0 && ring == 0 {
                submitted.wait()?;
            }
            let list: Vec<Task> = tasks.iter().map(|task| self.task(version, text, *task)).collect();
            submitted.spans.push(self.producers[ring].submit_all(list).map_err(failed)?);
        }
        Ok(submitted)
    }

    fn task(&self, version: &LoadedCatalog, (place, len): (usize, u32), (piece, at): (Piece, u32)) -> Task {
        let automaton = version.automata[at as usize];
        let args = ScanTaskArgs {
            text: self.text_word(place),
            len,
            begin: piece.begin,
            strip: piece.strip(self.plan.lanes, automaton.lead_blocks * 16),
            own_start: piece.start,
            own_end: piece.end,
            lead_blocks: automaton.lead_blocks,
            automaton: automaton.header,
            found: self.found_word(place),
            found_base: self.counters[place],
            found_room: self.plan.config.candidate_room,
        };
        Task::new(self.op).args(args.words())
    }

    /// Waits for the tasks of a range, and returns what they have found.
    pub(super) fn finish(
        &mut self,
        session: &Session,
        version: &LoadedCatalog,
        mut pending: Pending,
    ) -> Result<ChunkFound, ScanError> {
        pending.submitted.wait()?;
        let hits = pending.submitted.results.iter().map(|hits| u64::from(*hits)).sum();
        match self.read_found(session, pending.place)? {
            Some(found) => Ok(ChunkFound { found, hits }),
            None => self.scan_halves(session, version, &pending),
        }
    }

    /// Scans a range that has more candidates than the list has room for, in two halves.
    fn scan_halves(
        &mut self,
        session: &Session,
        version: &LoadedCatalog,
        pending: &Pending,
    ) -> Result<ChunkFound, ScanError> {
        let Range { start, end } = pending.own;
        // A block that lies in both halves would be scanned twice.
        let middle = (start + (end - start) / 2).next_multiple_of(16);
        let middle = if middle < end { middle } else { start + (end - start) / 2 };
        if middle == start {
            return Err(ScanError::Engine(
                "the list of candidates has too little room for a single position; raise `candidate_room`"
                    .into(),
            ));
        }
        let mut both = ChunkFound::default();
        for own in [start..middle, middle..end] {
            let half = self.submit(version, pending.place, pending.len, own)?;
            let half = self.finish(session, version, half)?;
            both.found.extend(half.found);
            both.hits += half.hits;
        }
        both.found.sort_unstable();
        both.found.dedup();
        Ok(both)
    }

    /// Copies the candidates of a place back. `None` if there was no room for some of them.
    fn read_found(&mut self, session: &Session, place: usize) -> Result<Option<Vec<Found>>, ScanError> {
        let view: RegionView<'_, u32> = session.view(self.plan.tenant, FOUND).map_err(failed)?;
        let room = self.plan.config.candidate_room;
        let first = self.found_word(place) as usize;
        let at_once = FIRST_FOUND.min(room);
        let words = view.read(first, (FOUND_HEADER + FOUND_WORDS * at_once) as usize).map_err(failed)?;
        let count = words[0].wrapping_sub(self.counters[place]);
        self.counters[place] = words[0];
        if count > room {
            return Ok(None);
        }
        let (known, _) = words[FOUND_HEADER as usize..].as_chunks::<2>();
        let mut found: Vec<Found> = known[..count.min(at_once) as usize].to_vec();
        if let Some(more) = count.checked_sub(at_once).filter(|more| *more > 0) {
            let at = first + (FOUND_HEADER + FOUND_WORDS * at_once) as usize;
            let words = view.read(at, (more * FOUND_WORDS) as usize).map_err(failed)?;
            found.extend(words.as_chunks::<2>().0);
        }
        Ok(Some(found))
    }

    fn text_word(&self, place: usize) -> u32 {
        (self.first_place + place as u32) * self.plan.text_words
    }

    fn found_word(&self, place: usize) -> u32 {
        (self.first_place + place as u32) * self.plan.found_words
    }
}

/// What was found in a range of a text on the device.
#[derive(Debug, Default)]
pub(super) struct ChunkFound {
    pub found: Vec<Found>,
    /// The number of hits of stage one.
    pub hits: u64,
}
