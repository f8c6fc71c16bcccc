//! Tests of the host's side of a ring over plain atomics: threads, laps, and the table of steps.

use std::cell::RefCell;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering, fence};
use std::thread::{spawn, yield_now};

use pelton::protocol::record::TaskEnd;
use pelton::protocol::slot::{generation_at, is_sealed, published_line, status_word};
use pelton::protocol::step::{self, FAR, ProtocolStep, StepActor};
use pelton::protocol::{CompletionRecord, Opcode, Status};
use pelton::ring::{EndsSeen, HostRing, RingWords, SlotLines, TaskStage};
use pelton::task::Task;
use pelton_ir::op::Op;
use pelton_ir::types::Order;

#[derive(Clone)]
struct Plain(Arc<[AtomicU64]>);

impl Plain {
    fn new(len: usize) -> Self {
        Plain((0..len).map(|_| AtomicU64::new(0)).collect())
    }
}

impl RingWords for Plain {
    fn load(&self, at: usize, order: Ordering) -> u64 {
        self.0[at].load(order)
    }

    fn store(&self, at: usize, value: u64, order: Ordering) {
        self.0[at].store(value, order);
    }
}

fn task(position: u64) -> Task {
    Task::new(Opcode::NOP).args([position as u32, !position as u32])
}

/// Acts as the group of a near stripe, which takes whole lines in order and posts their records.
fn serve(ring: &HostRing<Plain, Plain>, first: u64, count: u64) {
    for position in first..first + count {
        let slot = (position & (ring.capacity() - 1)) as usize;
        let line = loop {
            let word = ring.lines.0[slot * 8].load(Ordering::Acquire);
            let line = std::array::from_fn(|k| ring.lines.0[slot * 8 + k].load(Ordering::Relaxed));
            let ready = status_word(Status::Published, generation_at(position, ring.log2));
            if word as u32 == ready && is_sealed(&line) {
                break line;
            }
            yield_now();
        };
        fence(Ordering::AcqRel);
        let record =
            CompletionRecord::new(TaskEnd::Done(line[2] as u32 ^ 1), generation_at(position, ring.log2));
        ring.done.0[slot].store(record.0, Ordering::Relaxed);
    }
}

/// Runs a producer, a group and a waiting thread over many laps, starting where generations wrap.
#[test]
fn every_task_comes_back() {
    const COUNT: u64 = if cfg!(miri) { 24 } else { 4_000 };
    for log2 in [0, 2] {
        let slots = 1 << log2;
        let first = (1 << (24 + log2)) - 2 * slots as u64;
        let ring = Arc::new(HostRing {
            lines: Plain::new(slots * 8),
            done: Plain::new(slots),
            taken: Plain::new(slots),
            tail: None,
            first: 0,
            log2,
        });
        let group = spawn({
            let ring = ring.clone();
            move || serve(&ring, first, COUNT)
        });
        let holder = spawn({
            let ring = ring.clone();
            move || {
                for position in first..first + COUNT {
                    let record = loop {
                        match ring.record_at(position) {
                            Some(record) => break record,
                            None => yield_now(),
                        }
                    };
                    assert_eq!(record.end(), Ok(TaskEnd::Done(position as u32 ^ 1)));
                    let seen = if position % 2 == 0 { EndsSeen::All } else { EndsSeen::NotAll };
                    ring.give_up(position, 1, seen);
                }
            }
        });
        let (mut free, mut seen) = (first, first);
        for position in first..first + COUNT {
            while position - free == ring.capacity() {
                free = ring.reclaim(free, position, &mut seen);
                yield_now();
            }
            ring.publish(position, &task(position));
            ring.commit(position + 1);
        }
        group.join().unwrap();
        holder.join().unwrap();
    }
}

/// Publishes a batch that goes past the end of a lap, and reads how its tasks ended.
#[test]
fn a_batch_goes_round() {
    const LOG2: u32 = 7;
    let (first, count) = ((1 << LOG2) - 70, 100);
    for tail in [None, Some((Plain::new(1), 0))] {
        let slots = 1 << LOG2;
        let (lines, done, taken) = (Plain::new(slots * 8), Plain::new(slots), Plain::new(slots));
        let ring = HostRing { lines, done, taken, tail, first: 0, log2: LOG2 };
        let mut end = first;
        // The iterator has more tasks than are wanted.
        ring.publish_all(&mut end, count, (first..).map(task), &mut TaskStage::default());
        assert_eq!(end, first + count);
        for position in first..end {
            let Task { op, priority, args } = task(position);
            let wanted = published_line(generation_at(position, LOG2), op, priority, &args);
            assert_eq!(ring.lines.line(ring.slot_at(position)), wanted, "position {position}");
        }
        let post = |position: u64, how: TaskEnd| {
            let record = CompletionRecord::new(how, generation_at(position, LOG2));
            ring.done.0[ring.slot_at(position)].store(record.0, Ordering::Relaxed);
        };
        let mut results = [0; 100];
        assert_eq!(ring.read_results(first, &mut results), (70, false));
        for position in first..end {
            assert_eq!(ring.frontier(first, end), position);
            post(position, TaskEnd::Done(position as u32));
        }
        assert_eq!(ring.frontier(first, end), end);
        assert_eq!(ring.read_results(first, &mut results), (70, true));
        assert!((first as u32..).zip(&results[..70]).all(|(position, result)| position == *result));
        post(first + 80, TaskEnd::Cancelled { steps: 0 });
        assert_eq!(ring.frontier(first, end), end);
        assert_eq!(ring.read_results(first + 70, &mut results[..30]), (30, false));
    }
}

/// Counts tasks that have not ended among tasks that have, in every arrangement of runs, and past the end of a lap.
#[test]
fn unfinished_tasks_are_counted_wherever_they_are() {
    const LOG2: u32 = 8;
    let slots = 1 << LOG2;
    let (first, end) = (slots as u64 - 100, 2 * slots as u64 - 100);
    for run in [1, 7, 64, 65, 200] {
        let (lines, done, taken) = (Plain::new(slots * 8), Plain::new(slots), Plain::new(slots));
        let ring = HostRing { lines, done, taken, tail: None, first: 0, log2: LOG2 };
        let has_ended = |position: u64| (position - first) / run % 2 == 1;
        for position in first..end {
            // Slots of tasks that have not ended hold the records of the lap before, if there was one.
            let lap = position >> LOG2;
            let how =
                if position.is_multiple_of(5) { TaskEnd::Cancelled { steps: 0 } } else { TaskEnd::Done(1) };
            if let Some(lap) = if has_ended(position) { Some(lap) } else { lap.checked_sub(1) } {
                let record = CompletionRecord::new(how, lap as u32);
                ring.done.0[ring.slot_at(position)].store(record.0, Ordering::Relaxed);
            }
        }
        for (from, to) in [(first, end), (first + 3, end - 3), (first + 100, end), (end, end), (end, first)] {
            for wanted in [|_: u64| true, |position: u64| position.is_multiple_of(3)] {
                let count = (from..to).filter(|position| !has_ended(*position) && wanted(*position)).count();
                assert_eq!(ring.count_unfinished(from, to, wanted), count as u64, "{run}: {from}..{to}");
            }
        }
    }
}

/// An access: its operation, its buffer and its order.
type Note = (Op, &'static str, Ordering);

/// Words that note every access.
#[derive(Clone)]
struct Noted {
    buffer: &'static str,
    words: Plain,
    notes: Rc<RefCell<Vec<Note>>>,
}

impl RingWords for Noted {
    fn load(&self, at: usize, order: Ordering) -> u64 {
        self.notes.borrow_mut().push((Op::AtomicLoad, self.buffer, order));
        self.words.load(at, order)
    }

    fn store(&self, at: usize, value: u64, order: Ordering) {
        self.notes.borrow_mut().push((Op::AtomicStore, self.buffer, order));
        self.words.store(at, value, order);
    }
}

#[test]
fn the_host_takes_the_steps_of_the_table() {
    let notes = Rc::new(RefCell::new(Vec::new()));
    let noted = |buffer, len| Noted { buffer, words: Plain::new(len), notes: notes.clone() };
    let ring = HostRing {
        lines: noted("slots", 16),
        done: noted("done", 2),
        taken: noted("taken", 2),
        tail: Some((noted("tails", 1), 0)),
        first: 0,
        log2: 1,
    };
    ring.publish(0, &task(0));
    ring.commit(1);
    let record = CompletionRecord::new(TaskEnd::Done(0), 0);
    ring.done.words.0[0].store(record.0, Ordering::Relaxed);
    assert_eq!(ring.record_at(0), Some(record));
    ring.give_up(0, 1, EndsSeen::All);
    assert_eq!(ring.reclaim(0, 1, &mut 0), 1);
    ring.cancel(1);
    let order = |order| match order {
        Order::Acquire => Ordering::Acquire,
        Order::Release => Ordering::Release,
        _ => Ordering::Relaxed,
    };
    // The steps that stop or end sessions and change control words do not access the words of a ring.
    let rows = step::TABLE.iter().filter(|row| row.actor == StepActor::Host && row.exists_in(FAR));
    let rows: Vec<&ProtocolStep> =
        rows.filter(|row| !["host", "acks", "state"].contains(&row.buffer)).collect();
    let note = |row: &ProtocolStep| (row.op, row.buffer, order(row.order));
    let notes = notes.borrow();
    let ordered: Vec<Note> =
        notes.iter().copied().filter(|(.., order)| *order != Ordering::Relaxed).collect();
    let expected: Vec<Note> = rows.iter().filter(|row| row.orders()).map(|row| note(row)).collect();
    assert_eq!(ordered, expected);
    for access in notes.iter() {
        assert!(rows.iter().any(|row| note(row) == *access), "{access:?} is no step");
    }
}
