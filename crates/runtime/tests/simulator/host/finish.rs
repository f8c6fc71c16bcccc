//! The end of a simulated host: everything comes to rest, or is stopped in the middle.

use std::sync::atomic::Ordering;
use std::time::Duration;

use pelton::Error;
use pelton::simulated::{Simulation, take_reaper_turns};

use super::{Held, Host};
use crate::ledger::Ledger;
use crate::model::{RunCounts, SessionFate, Verdict};

/// How long everything that is under way may take, in the time of the simulation.
const LONG: Duration = Duration::from_millis(400);

impl Host {
    /// Lets nothing else go wrong, waits until everything has ended, and checks what must hold then.
    pub(crate) fn finish(mut self) -> Result<Option<Ledger>, String> {
        for device in &self.world.devices {
            device.lose_launches(0);
            device.fail_loads(0);
            device.refuse_launches(0);
        }
        self.world.lose_while_waiting(0);
        self.look()?;
        if self.ledger.is_none() && self.random.one_in(4) {
            return self.stop_in_the_middle().map(|()| None);
        }
        if self.paused {
            match self.session.resume_tenant(1) {
                Ok(()) => self.tasks.iter_mut().for_each(|task| task.held_back = false),
                Err(error) => self.judge("resume", &error)?,
            }
            self.paused = false;
        }
        self.submit_rest()?;
        match self.session.quiesce(LONG) {
            Ok(()) => {}
            Err(Error::Ended(_)) if self.doomed => {
                self.world.note("sessions that cannot go on");
                return self.look().map(|()| self.ledger);
            }
            Err(error) => return Err(format!("not everything ends: {error}")),
        }
        self.look()?;
        let counts = RunCounts::take(&self.world);
        self.tasks.iter().try_for_each(|task| task.check_quiet(&counts))?;
        self.check_wakes()?;
        self.ask_epoch_and_counters()?;
        self.note_recoveries();
        self.check_credit()?;
        self.producers.clear();
        self.held.clear();
        match self.session.stop() {
            Ok(report) if report.tasks_left() == 0 => Ok(self.ledger),
            Ok(report) => Err(format!("a session without tasks was stopped, and says {report:?}")),
            // It may be lost in the last moment.
            Err(Error::Ended(_) | Error::Device(_)) => Ok(self.ledger),
            Err(error) => Err(format!("stop: {error}")),
        }
    }

    /// Submits everything that an earlier process has left undone.
    fn submit_rest(&mut self) -> Verdict {
        for _ in 0..1000 {
            let Some((tenant, job)) = self.old_job() else { return Ok(()) };
            self.submit_job(2 * tenant as usize, tenant, job)?;
            self.world.pause();
            self.look()?;
            // Tickets that have ended hold slots that the next tasks need.
            let tasks = &self.tasks;
            self.held.retain(|held| tasks[held.first..][..held.count].iter().any(|task| task.end.is_none()));
        }
        Err("there is never room for what is left".into())
    }

    /// Notes what the session has gone through.
    fn note_recoveries(&self) {
        let Some(recovery) = self.session.snapshot().ok().and_then(|snapshot| snapshot.recovery) else {
            return;
        };
        (0..recovery.count).for_each(|_| self.world.note("recoveries"));
        if recovery.last.is_some_and(|last| last.from != last.to) {
            self.world.note("recoveries on another device");
        }
    }

    fn check_wakes(&mut self) -> Verdict {
        (0..4).for_each(|_| take_reaper_turns());
        let asleep =
            |held: &Held| held.woken.as_ref().is_some_and(|wakes| wakes.0.load(Ordering::Relaxed) == 0);
        match self.held.iter().any(asleep) {
            true => Err("a future was not woken although its task has ended".into()),
            false => Ok(()),
        }
    }

    /// Every slot of the tenant was charged once, however often its task has begun.
    fn check_credit(&mut self) -> Verdict {
        match self.session.credit(1) {
            Ok(credit) if credit == Some(10_000 - self.charged) => Ok(()),
            Ok(credit) => Err(format!("after {} tasks, the credit of 10000 is {credit:?}", self.charged)),
            Err(error) => self.judge("credit", &error),
        }
    }

    fn stop_in_the_middle(self) -> Verdict {
        let Host { session, world, mut held, mut tasks, .. } = self;
        // The memory of the device is kept, so that it can be read when the session is no more.
        let memories = RunCounts::memories(&world);
        world.note("sessions stopped in the middle");
        let stopped = session.stop_within(Duration::from_millis(50));
        let fate = match stopped {
            Ok(_) => SessionFate::Stopped,
            Err(_) => SessionFate::Lost,
        };
        let counts = RunCounts::sum(&memories);
        for held in &mut held {
            for at in 0..held.count {
                let task = &mut tasks[held.first + at];
                if task.end.is_none() {
                    let end = held.holder.end_of(at).ok_or("a ticket of a stopped session has not ended")?;
                    task.note_end(end, &counts, fate)?;
                }
            }
        }
        tasks.iter().try_for_each(|task| task.check(&counts))
    }
}
