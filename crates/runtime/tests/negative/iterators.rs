//! Iterators that do not do what they say: whatever safe code hands in, the ring stays right.

use std::cell::Cell;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};

use pelton::protocol::FaultCode;
use pelton::{Opcode, Priority, SubmitError, Task, Ticket};

use crate::common::*;

pub(crate) const TESTS: &[Test] = named![
    an_iterator_may_give_more_or_fewer_than_it_says,
    an_iterator_may_give_other_tasks_when_it_is_cloned,
    an_iterator_may_panic,
];

/// An iterator that says that it has `says` tasks, and yields `gives`.
#[derive(Clone)]
struct Liar {
    says: usize,
    gives: usize,
    task: Task,
}

impl Iterator for Liar {
    type Item = Task;

    fn next(&mut self) -> Option<Task> {
        self.gives = self.gives.checked_sub(1)?;
        Some(self.task)
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        (self.says, Some(self.says))
    }
}

impl ExactSizeIterator for Liar {
    fn len(&self) -> usize {
        self.says
    }
}

/// Catches a span whose length is what the iterator says, and tasks that are written where others stand.
fn an_iterator_may_give_more_or_fewer_than_it_says(on: &On) {
    for shape in shapes(on, SOME) {
        let session = launch(on, &shape.spec(8, 1));
        let mut producer = session.producer(0).unwrap();
        let mut expected = 0;
        for (says, gives) in [(2, 6), (6, 2), (0, 5), (5, 0), (8, 9), (8, 1), (3, 3)] {
            // These tickets hold their slots, and must keep their results.
            let mut held: Vec<Ticket> = Vec::new();
            for _ in 0..8 - says {
                held.push(producer.submit(add(1, 0)).unwrap());
                session.quiesce(soon()).unwrap();
            }
            let mut span = producer.submit_all(Liar { says, gives, task: add(1, 0) }).unwrap();
            let what = format!("{shape}: {gives} tasks of {says}");
            let count = says.min(gives);
            assert_eq!(span.len(), count, "{what}");
            assert_eq!(span.wait(soon()).unwrap().done as usize, count, "{what}");
            for ticket in &mut held {
                assert_eq!(ticket.wait(soon()), Ok(expected), "{what}");
                expected += 1;
            }
            let mut olds: Vec<u32> = span.results().map(|end| end.unwrap()).collect();
            olds.sort();
            assert_eq!(olds, (expected..expected + count as u32).collect::<Vec<_>>(), "{what}");
            expected += count as u32;
        }
        assert_eq!(data(&session)[0], expected, "{shape}");
        // The iterator would go on for ever, but only as many tasks as it says are taken from it.
        let mut span = producer.submit_all(Liar { says: 2, gives: usize::MAX, task: add(1, 0) }).unwrap();
        assert_eq!(span.wait(soon()).unwrap().done, 2, "{shape}");
        let large = SubmitError::TooLarge { wanted: u64::MAX, slots: 8 };
        let endless = Liar { says: usize::MAX, gives: 1, task: add(1, 0) };
        assert_eq!(producer.submit_all(endless).err(), Some(large), "{shape}");
    }
}

/// An iterator that yields one task in the first pass and another one in the second.
struct Changing<'c> {
    clones: &'c Cell<u32>,
    shown: Task,
    hidden: Task,
    left: usize,
    copy: bool,
}

impl Clone for Changing<'_> {
    fn clone(&self) -> Self {
        self.clones.set(self.clones.get() + 1);
        Changing { copy: true, ..*self }
    }
}

impl Iterator for Changing<'_> {
    type Item = Task;

    fn next(&mut self) -> Option<Task> {
        self.left = self.left.checked_sub(1)?;
        Some(if self.copy { self.shown } else { self.hidden })
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        (self.left, Some(self.left))
    }
}

impl ExactSizeIterator for Changing<'_> {}

/// Catches an opcode, a priority or a fence that was never checked and ends more than its own task.
fn an_iterator_may_give_other_tasks_when_it_is_cloned(on: &On) {
    for shape in shapes(on, SOME) {
        let session = launch(on, &shape.spec(64, 2));
        let mut producer = session.producer(0).unwrap();
        let unknown = fault(FaultCode::UNKNOWN);
        let hidden = [
            (Task::new(Opcode::SHUTDOWN), unknown),
            (Task::new(Opcode::from_code(0x8000_0000)), unknown),
            (Task::new(Opcode::LOAD_MISS), unknown),
            (Task::new(Opcode::CANCEL), Err(pelton::TaskError::Cancelled { steps: 0 })),
            (Task::new(Opcode::BATCH_FENCE).args([u32::MAX, 1]), fault(FaultCode::ARGUMENTS)),
            (add(0, 1).priority(Priority::Critical), Ok(0)),
        ];
        for (round, (task, end)) in (0u32..).zip(hidden) {
            let clones = Cell::new(0);
            let tasks = Changing { clones: &clones, shown: add(1, 0), hidden: task, left: 3, copy: false };
            let mut span = producer.submit_all(tasks).unwrap();
            assert!(clones.get() > 0, "it was checked");
            span.wait(soon()).unwrap();
            assert!(span.results().all(|found| found == end), "{shape}, {task:?}: {span:?}");
            assert_eq!(run(&mut producer, add(1, 0)), Ok(round), "{shape}, after {task:?}");
        }
        assert_eq!(session.stop().unwrap().tasks_left(), 0, "{shape}");
    }
}

/// An iterator that panics after so many calls: those of the check, and then as many as tasks are to be written.
#[derive(Clone)]
pub(crate) struct Panics<'c> {
    pub looks: &'c Cell<usize>,
    pub left: usize,
    pub task: Task,
}

impl Iterator for Panics<'_> {
    type Item = Task;

    fn next(&mut self) -> Option<Task> {
        self.left = self.left.checked_sub(1)?;
        let Some(looks) = self.looks.get().checked_sub(1) else {
            // This panic prints nothing: it is expected, and a backtrace would hide the failures in a log.
            resume_unwind(Box::new("this iterator panics"));
        };
        self.looks.set(looks);
        Some(self.task)
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        (self.left, Some(self.left))
    }
}

impl ExactSizeIterator for Panics<'_> {}

/// Catches a producer that forgets what it has written: the next tasks would get the results of these, and never run.
fn an_iterator_may_panic(on: &On) {
    for shape in shapes(on, SOME) {
        let session = launch(on, &shape.spec(256, 1));
        let mut producer = session.producer(0).unwrap();
        let mut least = 0;
        for (round, written) in [0, 1, 64, 65, 199, 130, 5].into_iter().enumerate() {
            let looks = Cell::new(200 + written);
            let tasks = Panics { looks: &looks, left: 200, task: add(1, 0) };
            let result = catch_unwind(AssertUnwindSafe(|| producer.submit_all(tasks).map(|_| ())));
            assert!(result.is_err(), "{shape}: it panics");
            session.quiesce(soon()).unwrap();
            let seen = data(&session)[0];
            let what = format!("{shape}, round {round}, {written} written, {seen} in all");
            // Some of the tasks that were written ran, each of them once.
            assert!((least..=least + written as u32).contains(&seen), "{what}");
            assert_eq!(run(&mut producer, add(1, 0)), Ok(seen), "{what}");
            // In the end all slots are free again.
            let mut span = producer.submit_all([add(1, 0); 256]).unwrap();
            assert_eq!(span.wait(soon()).unwrap().done, 256, "{what}");
            let mut olds: Vec<u32> = span.results().map(|end| end.unwrap()).collect();
            olds.sort();
            assert_eq!(olds, (seen + 1..seen + 257).collect::<Vec<_>>(), "{what}");
            least = seen + 257;
        }
        assert_eq!(data(&session)[0], least, "{shape}");
        assert_eq!(session.stop().unwrap().tasks_left(), 0, "{shape}");
    }
}
