//! The tasks of feeders, and the results that they must have.
//!
//! A feeder has a few *areas* in its tenant's data, and one span of tasks under way in each. The tasks of a span
//! may run in any order, so each has words of its own in the area, and the host knows what they hold once the span
//! has ended. All adds of a span go to one common word; there the host knows only that each count is returned once.

use pelton::protocol::fault::{FaultCode, TaskFault};
use pelton::protocol::packed::Packed;
use pelton::{Opcode, Priority, Task, TaskError};

use super::kernel::{DATA, MIX, SUM, UNKNOWN_OPCODE};
use super::tally::Tally;

/// The largest number of tasks in a span.
pub(super) const SPAN: usize = 256;
/// The number of areas per feeder.
pub(super) const AREAS: usize = 4;
/// The number of words of the table at the beginning of a tenant's data.
pub(super) const TABLE: u32 = 1024;
/// The number of words of an area: two counters, and four words for each task of a span.
pub(super) const AREA: u32 = HEAD + OWN * SPAN as u32;

const HEAD: u32 = 2;
const OWN: u32 = 4;
/// The index of the word that single tasks add to, and of the word that packed tasks add to.
const COUNT: u32 = 0;
const PACKED: u32 = 1;
/// The number of words that one group-wide task sums.
const WIDE: u32 = 64;
/// One in this many spans has a task that must be refused, or one that prints.
const FAULTS: u64 = 16;
const PRINTS: u64 = 1024;

/// The kinds of tasks in a span, repeated. The last task of a span is a fence.
const PATTERN: [TaskKind; 32] = {
    use TaskKind::*;
    [
        Add, Store, SharedLoad, Mix, Add, Swap, Copy, Mix, Add, Store, SharedLoad, Packed, Add, Swap, Mix,
        Sum, Add, Store, SharedLoad, Mix, Add, Swap, Copy, Packed, Add, Store, SharedLoad, Mix, Add, Store,
        Swap, Mix,
    ]
};

/// The priorities of spans, repeated.
const URGENCY: [Priority; 8] = {
    use Priority::*;
    [Normal, Normal, High, Normal, Low, Normal, Critical, Idle]
};

#[derive(Clone, Copy)]
enum TaskKind {
    Add,
    Store,
    SharedLoad,
    Swap,
    Copy,
    Mix,
    Sum,
    Packed,
}

/// The result that a task must have.
#[derive(Clone, Copy, Debug)]
enum ExpectedResult {
    /// The task returns this value.
    Result(u32),
    /// The task returns a count of this span that no other task has returned.
    Count,
    /// The task is refused with this fault.
    Fault(TaskFault),
    /// The task returns an epoch that no other fence has returned.
    Epoch,
    /// The task returns 1 if its line was printed, or 0 if it was lost.
    Printed,
}

/// The handler of `mix.pel`, in Rust.
pub(crate) fn mix(x: u32) -> u32 {
    (0..3).fold(x, |a, _| {
        let c = (a ^ a >> 16).wrapping_mul(0x7feb_352d);
        let e = (c ^ c >> 15).wrapping_mul(0x846c_a68b);
        e ^ e >> 16
    })
}

/// The table that every tenant's data begins with.
pub(super) struct WordTable {
    pub words: Vec<u32>,
    /// For each index, the sum of all words before it.
    before: Vec<u32>,
}

impl WordTable {
    pub(super) fn new() -> Self {
        let words: Vec<u32> = (0..TABLE).map(mix).collect();
        let sum = |sum: &mut u32, x: &u32| {
            let before = *sum;
            *sum = before.wrapping_add(*x);
            Some(before)
        };
        let before = words.iter().chain([&0]).scan(0, sum).collect();
        WordTable { words, before }
    }

    fn sum(&self, from: u32, count: u32) -> u32 {
        self.before[(from + count) as usize].wrapping_sub(self.before[from as usize])
    }
}

/// A feeder's area: what its words hold once its span has ended, and the tasks under way.
pub(super) struct FeederArea {
    /// The index at which the area begins in the tenant's data.
    pub first: u32,
    /// The index of the area's first observable.
    pub observable: u32,
    pub words: Vec<u32>,
    pub observables: Vec<u32>,
    pub tasks: Vec<Task>,
    expects: Vec<ExpectedResult>,
    /// The counts of this span: the first one, their number, and a bit for each that was returned.
    counts: (u32, u32, [u64; SPAN / 64]),
    seed: u32,
}

impl FeederArea {
    pub(super) fn new(first: u32, observable: u32) -> Self {
        FeederArea {
            first,
            observable,
            words: vec![0; AREA as usize],
            observables: vec![0; SPAN],
            tasks: Vec::with_capacity(SPAN),
            expects: Vec::with_capacity(SPAN),
            counts: (0, 0, [0; SPAN / 64]),
            seed: first,
        }
    }

    /// Makes the tasks of a feeder's next span, where `number` counts the spans.
    pub(super) fn fill(
        &mut self,
        len: usize,
        (feeder, number): (u32, u64),
        table: &WordTable,
        tally: &mut Tally,
    ) {
        self.tasks.clear();
        self.expects.clear();
        self.counts = (self.words[COUNT as usize], 0, [0; SPAN / 64]);
        for k in 0..len as u32 {
            let (task, expect) = match k {
                k if k as usize == len - 1 => {
                    (Task::new(Opcode::BATCH_FENCE).args([k, number as u32]), ExpectedResult::Epoch)
                }
                17 if number.is_multiple_of(FAULTS) => self.fault(number / FAULTS, feeder, tally),
                18 if number.is_multiple_of(PRINTS) => {
                    (Task::new(Opcode::PRINTF).args([1, feeder, number as u32]), ExpectedResult::Printed)
                }
                _ => self.make(PATTERN[k as usize % PATTERN.len()], k, table, tally),
            };
            tally.ran(task.op);
            self.tasks.push(task.priority(URGENCY[number as usize % URGENCY.len()]));
            self.expects.push(expect);
        }
    }

    /// Makes a task, and the result that it must have.
    fn make(
        &mut self,
        kind: TaskKind,
        k: u32,
        table: &WordTable,
        tally: &mut Tally,
    ) -> (Task, ExpectedResult) {
        self.seed = self.seed.wrapping_mul(747_796_405).wrapping_add(2_891_336_453);
        let value = self.seed ^ self.seed >> 15;
        let own = (HEAD + OWN * k) as usize;
        let at = self.first + own as u32;
        match kind {
            TaskKind::Add => {
                self.words[COUNT as usize] = self.words[COUNT as usize].wrapping_add(1);
                self.counts.1 += 1;
                (Task::new(Opcode::ATOMIC_ADD).args([1, self.first + COUNT]), ExpectedResult::Count)
            }
            TaskKind::Store => {
                self.words[own] = value;
                (Task::new(Opcode::STORE_U32).args([value, at]), ExpectedResult::Result(0))
            }
            TaskKind::SharedLoad => {
                let found = table.words[(value % TABLE) as usize];
                self.observables[k as usize] = found;
                (
                    Task::new(Opcode::LOAD_U32).args([value % TABLE, self.observable + k]),
                    ExpectedResult::Result(found),
                )
            }
            TaskKind::Swap => {
                let old = self.words[own];
                // One in four expects another value, and must change nothing.
                let expected = if value.is_multiple_of(4) { !old } else { old };
                if expected == old {
                    self.words[own] = value;
                }
                (Task::new(Opcode::COMPARE_SWAP).args([at, expected, value]), ExpectedResult::Result(old))
            }
            TaskKind::Copy => {
                let from = value % (TABLE - OWN);
                let source = &table.words[from as usize..(from + OWN) as usize];
                self.words[own..own + OWN as usize].copy_from_slice(source);
                (Task::new(Opcode::MEMCPY).args([from, at, OWN]), ExpectedResult::Result(0))
            }
            TaskKind::Mix => (Task::new(MIX).args([value]), ExpectedResult::Result(mix(value))),
            TaskKind::Sum => {
                let from = value % (TABLE - WIDE);
                (Task::new(SUM).args([from, WIDE]), ExpectedResult::Result(table.sum(from, WIDE)))
            }
            TaskKind::Packed => {
                self.words[own] = value;
                (self.packed(value, at, tally), ExpectedResult::Result(mix(value)))
            }
        }
    }

    /// Makes a packed task of three operations: an add, a store, and a mix.
    fn packed(&mut self, value: u32, at: u32, tally: &mut Tally) -> Task {
        let inside = at < DATA;
        self.words[PACKED as usize] = self.words[PACKED as usize].wrapping_add(1);
        let mut packed = Packed::new();
        let count = [1, self.first + PACKED];
        for (op, args) in
            [(Opcode::ATOMIC_ADD, &count[..]), (Opcode::STORE_U32, &[value, at]), (MIX, &[value])]
        {
            packed.push(op, args).expect("three small tasks fit");
            if inside || op != MIX {
                tally.ran(op);
            }
        }
        Task::try_from(&packed).expect("it is not empty")
    }

    /// Makes a task that must be refused and leave memory as it is.
    fn fault(&mut self, which: u64, feeder: u32, tally: &mut Tally) -> (Task, ExpectedResult) {
        let whole = |code| ExpectedResult::Fault(TaskFault { code, inner: 0 });
        match which % 5 {
            0 => (Task::new(Opcode::STORE_U32).args([u32::MAX, DATA]), whole(FaultCode::REGION)),
            1 => (Task::new(Opcode::ATOMIC_ADD).args([1, u32::MAX]), whole(FaultCode::REGION)),
            2 => (Task::new(Opcode::MEMCPY).args([DATA - 3, self.first, 4]), whole(FaultCode::REGION)),
            3 => {
                let code = if super::feed::feeder_tenant(feeder) == 0 {
                    FaultCode::UNKNOWN
                } else {
                    FaultCode::DENIED
                };
                (Task::new(UNKNOWN_OPCODE), whole(code))
            }
            // The first of the three operations runs, the second is out of range, and the third does not run.
            _ => (
                self.packed(7, DATA + 5, tally),
                ExpectedResult::Fault(TaskFault { code: FaultCode::REGION, inner: 1 }),
            ),
        }
    }

    /// Checks the result of a task.
    pub(super) fn check(&mut self, k: usize, found: Result<u32, TaskError>, tally: &mut Tally) {
        let well = match (self.expects[k], found) {
            (ExpectedResult::Result(expected), Ok(found)) => found == expected,
            (ExpectedResult::Count, Ok(found)) => {
                let (first, count, seen) = &mut self.counts;
                let nth = found.wrapping_sub(*first);
                let bit = 1 << (nth % 64);
                nth < *count && {
                    let word = &mut seen[(nth / 64) as usize];
                    let new = *word & bit == 0;
                    *word |= bit;
                    new
                }
            }
            (ExpectedResult::Fault(expected), Err(TaskError::Fault(fault))) => {
                let name = match fault.inner {
                    0 => fault.code.to_string(),
                    inner => format!("{} in inner operation {inner}", fault.code),
                };
                *tally.faults.entry(name).or_default() += 1;
                fault == expected
            }
            (ExpectedResult::Epoch, Ok(found)) => {
                let found = u128::from(found);
                tally.epochs.iter_mut().zip([1, found, found * found]).for_each(|(sum, more)| *sum += more);
                true
            }
            (ExpectedResult::Printed, Ok(found)) => {
                tally.printed += u64::from(found);
                found < 2
            }
            _ => false,
        };
        if !well {
            let Task { op, args, .. } = self.tasks[k];
            tally.wrong(format!("{op} {args:?} returned {found:?}, expected {:?}", self.expects[k]));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The results that a correct device returns for a span, with counts and epochs in order.
    fn right(area: &FeederArea) -> Vec<Result<u32, TaskError>> {
        let mut count = area.counts.0;
        let mut one = |expect: &ExpectedResult| match *expect {
            ExpectedResult::Result(found) => Ok(found),
            ExpectedResult::Count => {
                count += 1;
                Ok(count - 1)
            }
            ExpectedResult::Fault(fault) => Err(TaskError::Fault(fault)),
            ExpectedResult::Epoch | ExpectedResult::Printed => Ok(1),
        };
        area.expects.iter().map(&mut one).collect()
    }

    fn area() -> FeederArea {
        let mut area = FeederArea::new(TABLE, 1);
        area.fill(SPAN, (0, 0), &WordTable::new(), &mut Tally::default());
        area
    }

    #[test]
    fn what_is_right_passes() {
        let (mut area, mut tally) = (area(), Tally::default());
        for (k, result) in right(&area).into_iter().enumerate() {
            area.check(k, result, &mut tally);
        }
        assert_eq!(tally.wrongs, [""; 0]);
        assert_eq!((tally.faults.len(), tally.printed, tally.epochs), (1, 1, [1; 3]));
    }

    #[test]
    fn what_is_wrong_is_found() {
        let results = right(&area());
        // The fence and what prints are checked at the end.
        for k in (0..SPAN - 1).filter(|k| *k != 18) {
            for result in [results[k].map(|x| x ^ 1 << 31), Err(TaskError::Cancelled { steps: 0 }), Ok(77)] {
                if result == results[k] {
                    continue;
                }
                let (mut area, mut tally) = (area(), Tally::default());
                area.check(k, result, &mut tally);
                assert_eq!(tally.wrong, 1, "{:?}: {result:?}", area.tasks[k]);
            }
        }
    }

    #[test]
    fn a_count_that_comes_twice_is_found() {
        let (mut area, mut tally) = (area(), Tally::default());
        for k in [0, 4] {
            area.check(k, Ok(3), &mut tally);
        }
        assert_eq!(tally.wrong, 1);
    }
}
