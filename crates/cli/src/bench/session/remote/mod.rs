//! A session on a device with memory of its own, beside what that device and the way to it cost without one.
//!
//! First the floors: a word there and back through memory of the host (far) and of the device (near), a copy, a launch. Every
//! figure of a session is held against the floor of the same run that it cannot beat.

mod batch;
mod floor;
mod life;
mod load;

use std::sync::Arc;
use std::time::Duration;

use pelton::kernel::{Body, Report, Visible};
use pelton::{Aim, Opcode};
use pelton_device::{Device, Placement};

use self::batch::Lies;
use self::load::{Does, PRODUCERS, Shape};
use super::row;
use crate::bench::echo::spread;
use crate::bench::flood::Work;
use crate::bench::{Row, show};
use crate::error::Error;
use crate::stop;
use crate::term::Term;

/// How long things are measured.
struct Pace {
    time: Duration,
    rounds: u32,
    /// Repetitions of what takes long.
    few: u32,
    /// The largest batch.
    batch: u32,
}

const FULL: Pace = Pace { time: Duration::from_millis(1000), rounds: 200_000, few: 20, batch: 1 << 20 };
const QUICK: Pace = Pace { time: Duration::from_millis(200), rounds: 20_000, few: 4, batch: 1 << 16 };

/// A figure that others are held against.
type Floor = Option<(String, f64)>;

/// A run: what was measured so far.
struct Bench<'a> {
    device: &'a Arc<dyn Device>,
    pace: Pace,
    only: &'a str,
    term: &'a Term,
    rows: Vec<Row>,
    /// Slots a second that a copy carries.
    copy: f64,
}

pub fn run(device: &Arc<dyn Device>, quick: bool, only: &str, term: &Term) -> Result<Vec<Row>, Error> {
    let pace = if quick { QUICK } else { FULL };
    let caps = device.caps();
    term.note(format_args!("{}: {}", caps.name, caps.about));
    let mut bench = Bench { device, pace, only, term, rows: Vec::new(), copy: f64::INFINITY };
    let mut places = vec![(Placement::Far, "far")];
    match (caps.placements.contains(&Placement::Near), &caps.why_far) {
        (true, _) => places.extend([(Placement::Near, "near"), (Placement::Both, "both")]),
        (false, why) => {
            let why = why.as_deref().unwrap_or("the device has no such memory");
            term.note(format_args!("near is left out: {why}"));
        }
    }
    let ended = bench.all(&places);
    bench.rows.retain(|row| row.case.contains(only));
    if ended.is_err() {
        // What came before is worth having.
        show(&bench.rows, None, term)?;
    }
    ended.map(|()| bench.rows)
}

impl Bench<'_> {
    fn all(&mut self, places: &[(Placement, &str)]) -> Result<(), Error> {
        let boxes = self.floors(places)?;
        for ((place, name), mailbox) in places.iter().zip(boxes) {
            let most = self.sustained(*place, name)?;
            self.trips(*place, name, &mailbox, most)?;
            self.life(*place, name, &mailbox)?;
        }
        self.packed()?;
        self.drains()
    }

    /// Whether a case is to be measured.
    fn wants(&self, case: &str) -> bool {
        case.contains(self.only) && !stop::pressed()
    }

    /// Says what comes next, since it takes a while.
    fn begin(&self, case: &str) {
        self.term.note(format_args!("{case} …"));
    }

    fn push(&mut self, case: &str, metric: &'static str, value: f64, against: Floor) {
        self.rows.push(row(case, &self.device.caps().name, metric, value, None, against));
    }

    /// A distribution, by the middle of its sorted times.
    fn times(&mut self, case: &str, metric: &'static str, times: &[f64], against: Floor) {
        if !times.is_empty() {
            let spread = spread(times);
            let name = &self.device.caps().name;
            self.rows.push(row(case, name, metric, spread[0], Some(spread), against));
        }
    }

    fn copied(&self) -> Floor {
        Some(("copy".into(), self.copy))
    }

    /// Mailboxes by placement, copy, launch. They are measured whatever is asked for: others are held against them.
    fn floors(&mut self, places: &[(Placement, &str)]) -> Result<Vec<Floor>, Error> {
        self.begin("floors");
        let mut floors = Vec::new();
        for (place, name) in places {
            if *place == Placement::Both {
                // One task goes near.
                floors.push(floors.last().cloned().flatten());
                continue;
            }
            let case = format!("mailbox, {name}");
            let times = floor::mailbox(self.device, *place, self.pace.rounds)?;
            self.times(&case, "us", &times, None);
            floors.push(Some((case, spread(&times)[0])));
        }
        let copy = floor::copy(self.device, self.pace.few)?;
        self.copy = copy / floor::SLOT;
        self.push("copy, host to device", "GB/s", copy / 1e9, None);
        self.push("copy, in slots", "slots/s", self.copy, None);
        let launch = floor::launch(self.device, self.pace.rounds / 100)?;
        let name = &self.device.caps().name;
        self.rows.push(row("launch and wait", name, "us", launch[0], Some(launch), None));
        match floor::node(self.device, self.pace.few)? {
            Some(times) => self.times("node of a graph", "us", &times, None),
            None => self.term.note("a node of a graph is left out: the device has no graphs"),
        }
        Ok(floors)
    }

    /// Slots a second by producers; gives that of adds by all of them, if it was measured.
    fn sustained(&mut self, place: Placement, name: &str) -> Result<Option<f64>, Error> {
        let mut last = None;
        for (work, mark, what) in
            [(Work::Mark, true, "every word checked"), (Work::Add { at: 0 }, false, "adds")]
        {
            for producers in [1, 2, 4, PRODUCERS] {
                let case = format!("{name}, producers {producers}, {what}");
                // Half of this is the load of others.
                let needed = producers == PRODUCERS && !mark && self.wants(&format!("{name}, half load"));
                if !self.wants(&case) && !needed {
                    continue;
                }
                self.begin(&case);
                let does = if mark { Does::Mark } else { Does::Add };
                let shape = Shape { does, producers, ..Shape::new(place) };
                let seen = load::sustained(self.device, shape, work, self.pace.time)?;
                self.push(&case, "slots/s", seen.rate(), self.copied());
                // Producers that never wait are the limit themselves.
                let waited = seen.waited.as_secs_f64() / seen.took.as_secs_f64() / f64::from(producers);
                self.push(&format!("{case}, waiting"), "% time", waited * 100.0, None);
                last = Some(seen.rate()).filter(|_| producers == PRODUCERS && !mark);
            }
        }
        Ok(last)
    }

    /// One task there and back with all rings there: alone, and beside half of what the session carries.
    fn trips(
        &mut self,
        place: Placement,
        name: &str,
        mailbox: &Floor,
        most: Option<f64>,
    ) -> Result<(), Error> {
        for (body, visible, does, what) in [
            (Body::Dispatch, Visible::Memory, Does::Add, "dispatch, memory seen"),
            (Body::Dispatch, Visible::Result, Does::Add, "dispatch, result alone"),
            (Body::Dispatch, Visible::Result, Does::Mix, "dispatch, no memory"),
            (Body::Fused, Visible::Result, Does::Add, "fused, result alone"),
        ] {
            let case = format!("{name}, task, {what}");
            if !self.wants(&case) {
                continue;
            }
            self.begin(&case);
            let session = load::launch(self.device, Shape { body, visible, does, ..Shape::new(place) })?;
            let mut producer = session.producer(0)?.aim(Aim::Latency);
            let times = load::trips(&mut producer, does, self.pace.rounds)?;
            drop(producer);
            load::stopped(session)?;
            self.times(&case, "us", &times, mailbox.clone());
        }
        let case = format!("{name}, half load");
        if let Some(most) = most.filter(|_| self.wants(&case)) {
            for (visible, what) in [(Visible::Memory, "memory seen"), (Visible::Result, "result alone")] {
                self.begin(&case);
                let shape = Shape { visible, ..Shape::new(place) };
                let (times, rate) = load::loaded(self.device, shape, most / 2.0, self.pace.rounds / 2)?;
                self.times(&format!("{case}, task, {what}"), "us", &times, mailbox.clone());
                self.push(&format!("{case}, the load, {what}"), "slots/s", rate, Some(("all".into(), most)));
            }
        }
        Ok(())
    }

    /// Start, stop, wake.
    fn life(&mut self, place: Placement, name: &str, mailbox: &Floor) -> Result<(), Error> {
        let shape = Shape::new(place);
        let case = format!("{name}, wake");
        if self.wants(&case) {
            self.begin(&case);
            let times = life::wakes(self.device, shape, self.pace.few)?;
            self.times(&case, "us", &times, mailbox.clone());
        }
        let case = format!("{name}, start");
        if self.wants(&case) {
            self.begin(&case);
            let starts = life::starts(self.device, shape)?;
            let cold = Some(("never compiled".to_string(), starts.cold));
            self.push(&format!("{case}, never compiled"), "ms", starts.cold, None);
            self.push(&format!("{case}, in the cache"), "ms", starts.cached, cold.clone());
            self.push(&format!("{case}, loaded before"), "ms", starts.loaded, cold);
        }
        let case = format!("{name}, stop under load");
        if self.wants(&case) {
            self.begin(&case);
            let times = life::stops(self.device, shape, self.pace.few.min(5))?;
            self.times(&case, "ms", &times, None);
        }
        Ok(())
    }

    /// Packed slots in operations a second beside single ones, and one handler instead of a choice.
    fn packed(&mut self) -> Result<(), Error> {
        let shape = Shape::new(Placement::Far);
        let single = format!("far, producers {PRODUCERS}, adds");
        let single =
            self.rows.iter().find(|row| row.case == single).map(|row| ("adds".to_string(), row.value));
        for (op, args) in [(Opcode::NOP, &[][..]), (Opcode::ATOMIC_ADD, &[1, 0][..])] {
            let (task, each) = load::packed(op, args)?;
            let case = format!("far, packed, {each} of {op}");
            if self.wants(&case) {
                self.begin(&case);
                let seen = load::sustained(self.device, shape, Work::Same(task), self.pace.time)?;
                self.push(&case, "ops/s", seen.rate() * f64::from(each), single.clone());
            }
        }
        let case = format!("far, producers {PRODUCERS}, fused, adds");
        if self.wants(&case) {
            self.begin(&case);
            let shape = Shape { body: Body::Fused, ..shape };
            let seen = load::sustained(self.device, shape, Work::Add { at: 0 }, self.pace.time)?;
            self.push(&case, "slots/s", seen.rate(), self.copied());
        }
        Ok(())
    }

    /// Batches, from host to host: by size, by where they lie, and many at once.
    fn drains(&mut self) -> Result<(), Error> {
        let most = self.pace.batch;
        for (report, lies, what) in [
            (Report::Full, Lies::Lent, "every result"),
            (Report::Control, Lies::Lent, "control words"),
            (Report::Full, Lies::Own, "every result, copied"),
        ] {
            for tasks in [1 << 8, 1 << 12, 1 << 16, 1 << 20].into_iter().filter(|tasks| *tasks <= most) {
                let case = format!("drain of {tasks}, {what}");
                if self.wants(&case) {
                    self.begin(&case);
                    // Small ones end before the clock has moved much.
                    let turns = self.pace.few.max(self.pace.rounds / tasks);
                    let rate = batch::rate(self.device, (tasks, report, lies), turns)?;
                    self.push(&case, "tasks/s", rate, self.copied());
                }
            }
        }
        let case = format!("drains of {}, {} in one call", batch::SMALL, batch::MANY);
        if self.wants(&case) {
            self.begin(&case);
            let (single, all) = batch::many(self.device, self.pace.few)?;
            let single = ("one by one".to_string(), single);
            self.push(&case, "tasks/s", all, Some(single));
        }
        Ok(())
    }
}
