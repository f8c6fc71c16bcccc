//! What a simulated host does, and what goes wrong meanwhile. A new thing is a row of [`ACTIONS`].

use std::pin::Pin;
use std::sync::Arc;
use std::task::Context;
use std::time::Duration;

use pelton::simulated::take_reaper_turns;
use pelton::{Error, Opcode, Task};

use super::{Holder, Host, Wakes};
use crate::model::Verdict;
use crate::workload::Job;
use crate::world::LEASE;

/// What the host does, each with how often.
type Action = fn(&mut Host) -> Verdict;
static ACTIONS: &[(u64, Action)] = &[
    (24, Host::submit_one),
    (8, Host::submit_batch),
    (4, Host::submit_fenced),
    (20, Host::let_device_run),
    (6, Host::let_reaper_run),
    (8, Host::look),
    (4, Host::wait_for_one),
    (4, Host::await_one),
    (4, Host::cancel_one),
    (4, Host::drop_one),
    (2, Host::pause_or_resume),
    (3, Host::ask_epoch_and_counters),
    (4, Host::lose_now),
    (3, Host::lose_soon),
    (1, Host::lose_launches),
    (1, Host::lose_for_good),
    (1, Host::fail_load),
    (1, Host::stand_still),
    (1, Host::hand_over),
    (8, Host::commit),
    (1, Host::plan_disk_fault),
];

impl Host {
    /// Does one random thing.
    pub(crate) fn act(&mut self) -> Verdict {
        let sum = ACTIONS.iter().map(|(weight, _)| weight).sum();
        let mut at = self.random.below(sum);
        for (weight, action) in ACTIONS {
            match at.checked_sub(*weight) {
                Some(rest) => at = rest,
                None => return action(self),
            }
        }
        Ok(())
    }

    fn submit_one(&mut self) -> Verdict {
        if let Some((tenant, job)) = self.old_job() {
            return self.submit_job(2 * tenant as usize, tenant, job);
        }
        let (at, tenant) = self.random_producer();
        let Some(job) = self.new_job(tenant) else { return Ok(()) };
        self.submit_job(at, tenant, job)
    }

    fn submit_batch(&mut self) -> Verdict {
        self.submit_many(false)
    }

    fn submit_fenced(&mut self) -> Verdict {
        self.submit_many(true)
    }

    fn submit_many(&mut self, fenced: bool) -> Verdict {
        let (at, tenant) = self.random_producer();
        let wanted = self.random.within(1..=5);
        let mut jobs: Vec<Job> = (0..wanted).filter_map(|_| self.new_job(tenant)).collect();
        let Some(priority) = jobs.first().map(|job| job.priority) else { return Ok(()) };
        jobs.iter_mut().for_each(|job| job.priority = priority);
        let mut tasks = Vec::new();
        for job in &jobs {
            tasks.push(self.task_of(job)?.bytes(&job.payload));
        }
        if fenced {
            let fence = Task::new(Opcode::BATCH_FENCE).args([jobs.len() as u32, 1]).priority(priority);
            tasks.push(fence.bytes(&[]));
        }
        let submitted = match self.shape.has_payloads() {
            true => self.producers[at].submit_all(tasks.iter().copied()),
            false => self.producers[at].submit_all(tasks.iter().map(|task| task.task)),
        };
        self.note_submitted(tenant, jobs, submitted.map(Holder::Many), fenced)
    }

    fn let_device_run(&mut self) -> Verdict {
        let most = self.random.pick(&[10, 300, 3000]);
        self.world.step(self.random.within(1..=most));
        Ok(())
    }

    fn let_reaper_run(&mut self) -> Verdict {
        take_reaper_turns();
        Ok(())
    }

    fn random_held(&mut self) -> Option<usize> {
        (!self.held.is_empty()).then(|| self.random.below(self.held.len() as u64) as usize)
    }

    fn wait_for_one(&mut self) -> Verdict {
        let Some(at) = self.random_held() else { return Ok(()) };
        if self.losses_left > 0 && self.random.one_in(4) {
            self.losses_left -= 1;
            self.world.lose_while_waiting(1);
        }
        // Whether it has ended by then is seen below.
        let _ = match &mut self.held[at].holder {
            Holder::One(ticket) => ticket.wait(Duration::from_millis(1)).map(drop),
            Holder::Many(span) => span.wait(Duration::from_millis(1)).map(drop),
        };
        self.look()
    }

    fn await_one(&mut self) -> Verdict {
        let Some(at) = self.random_held() else { return Ok(()) };
        let held = &mut self.held[at];
        let wakes = Arc::new(Wakes::default());
        let waker = wakes.clone().into();
        let mut context = Context::from_waker(&waker);
        let pending = match &mut held.holder {
            Holder::One(ticket) => Future::poll(Pin::new(ticket), &mut context).is_pending(),
            Holder::Many(_) => false,
        };
        if pending {
            self.world.note("futures that wait");
            held.woken = Some(wakes);
        }
        Ok(())
    }

    fn cancel_one(&mut self) -> Verdict {
        let Some(at) = self.random_held() else { return Ok(()) };
        let held = &mut self.held[at];
        match &mut held.holder {
            Holder::One(ticket) => ticket.cancel(),
            Holder::Many(span) => span.cancel(),
        }
        self.tasks[held.first..][..held.count].iter_mut().for_each(|task| task.cancelled = true);
        Ok(())
    }

    fn drop_one(&mut self) -> Verdict {
        self.look()?;
        let Some(at) = self.random_held() else { return Ok(()) };
        let held = self.held.swap_remove(at);
        for at in held.first..held.first + held.count {
            if self.tasks[at].end.is_none() {
                self.tasks[at].forgotten = true;
                self.settle(at..at + 1);
            }
        }
        Ok(())
    }

    fn pause_or_resume(&mut self) -> Verdict {
        self.world.note("tenants paused or resumed");
        let changed = match self.paused {
            true => self.session.resume_tenant(1),
            false => self.session.pause_tenant(1),
        };
        match changed {
            Ok(()) => self.paused = !self.paused,
            Err(error) => return self.judge("pause", &error),
        }
        if !self.paused {
            self.tasks.iter_mut().for_each(|task| task.held_back = false);
        }
        Ok(())
    }

    pub(super) fn ask_epoch_and_counters(&mut self) -> Verdict {
        match self.session.epoch() {
            Ok(epoch) => self.epochs.note_epoch(epoch)?,
            Err(error) => self.judge("epoch", &error)?,
        }
        match self.session.snapshot() {
            Ok(_) => Ok(()),
            Err(error) => self.judge("snapshot", &error),
        }
    }

    /// Takes one of the losses that there may be. Returns false if there is none left.
    fn take_loss(&mut self) -> bool {
        let left = self.losses_left > 0;
        self.losses_left -= u32::from(left);
        left
    }

    fn lose_now(&mut self) -> Verdict {
        if !self.take_loss() {
            return Ok(());
        }
        // What is known to have ended by now must stay as it is.
        self.look()?;
        self.world.lose_all();
        Ok(())
    }

    fn lose_soon(&mut self) -> Verdict {
        if self.take_loss() {
            let uses = self.random.below(60) as u32;
            let at = self.random.below(self.world.devices.len() as u64) as usize;
            self.world.devices[at].lose_after_uses(uses);
        }
        Ok(())
    }

    fn lose_launches(&mut self) -> Verdict {
        let count = self.random.within(1..=3) as u32;
        self.world.devices.iter().for_each(|device| device.lose_launches(count));
        Ok(())
    }

    fn lose_for_good(&mut self) -> Verdict {
        let last = self.world.devices.len() - 1;
        if last > 0 && self.take_loss() {
            self.look()?;
            self.world.note("devices lost for good");
            self.world.devices[0].lose_for_good();
        } else if self.doomed && self.random.one_in(4) {
            self.world.devices.iter().for_each(|device| device.lose_for_good());
        }
        Ok(())
    }

    fn fail_load(&mut self) -> Verdict {
        let devices = &self.world.devices;
        if devices.len() > 1 {
            self.world.note("loads that fail");
            devices[0].fail_loads(1);
        } else if self.doomed {
            devices[0].fail_loads(2);
            devices[0].refuse_launches(2);
        }
        Ok(())
    }

    fn stand_still(&mut self) -> Verdict {
        if self.take_loss() {
            self.look()?;
            self.world.note("leases that run out");
            self.world.stand_still(LEASE * 2);
        }
        Ok(())
    }

    /// Lets the session end its kernel and launch another one, with more groups or fewer.
    fn hand_over(&mut self) -> Verdict {
        match self.session.resize(self.random.within(1..=3) as u32) {
            Ok(()) => {
                self.world.note("hand-overs");
                Ok(())
            }
            // The rings of this session cannot be served by so many groups.
            Err(Error::HandOver(_) | Error::Refused(_)) => Ok(()),
            Err(error) => self.judge("hand-over", &error),
        }
    }

    fn commit(&mut self) -> Verdict {
        if let Some(ledger) = &mut self.ledger {
            ledger.commit()?;
        }
        Ok(())
    }

    fn plan_disk_fault(&mut self) -> Verdict {
        if let Some(ledger) = self.ledger.as_mut().filter(|_| !self.calm) {
            ledger.plan_fault();
        }
        Ok(())
    }
}
