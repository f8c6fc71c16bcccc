//! The simulated host: a program that uses a session, and checks what it sees against the model.

mod actions;
mod finish;

use std::ops::Range;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::task::Wake;
use std::time::Duration;

use pelton::device::Device;
use pelton::{Deadline, Error, Producer, Session, Span, SubmitError, Task, TaskError, Ticket};

use crate::ledger::Ledger;
use crate::model::{EpochModel, ModelTask, RunCounts, SessionFate, Verdict};
use crate::random::Random;
use crate::workload::{BYTES, Job, Shape, TASKS};
use crate::world::World;

/// What holds the slots of tasks.
enum Holder {
    One(Ticket),
    Many(Span),
}

/// Tasks that were submitted together.
struct Held {
    holder: Holder,
    /// The number of the first one in the model.
    first: usize,
    /// How many of them the model knows.
    count: usize,
    /// Whether a fence for all of them follows.
    fenced: bool,
    /// Counts how often the future was woken, if it was polled.
    woken: Option<Arc<Wakes>>,
}

#[derive(Default)]
struct Wakes(AtomicU32);

impl Wake for Wakes {
    fn wake(self: Arc<Self>) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }
}

pub(crate) struct Host {
    world: Rc<World>,
    random: Random,
    shape: Shape,
    session: Session,
    producers: Vec<Producer>,
    held: Vec<Held>,
    pub(crate) tasks: Vec<ModelTask>,
    epochs: EpochModel,
    next_id: [u32; 2],
    paused: bool,
    /// How many more losses there may be. Eight in a row without progress would end the session.
    losses_left: u32,
    /// Whether nothing goes wrong with the disk.
    calm: bool,
    /// Whether the session may end by itself, because things go wrong that it cannot survive.
    doomed: bool,
    /// How many tasks of tenant 1 were submitted.
    charged: u64,
    /// What an earlier process was asked for and has not done.
    todo: Vec<(u32, Job)>,
    ledger: Option<Ledger>,
}

impl Host {
    /// Launches the session of a seed.
    pub(crate) fn new(
        world: &Rc<World>,
        mut random: Random,
        shape: Shape,
        (ledger, todo): (Option<Ledger>, Vec<(u32, Job)>),
    ) -> Result<Host, String> {
        let device: Arc<dyn Device> = world.devices[0].clone();
        let session = Session::launch(&device, &shape.spec).map_err(|error| format!("launch: {error}"))?;
        let all = world.devices.iter().map(|device| device.clone() as Arc<dyn Device>);
        session.set_failover(all.collect());
        if random.one_in(2) {
            session.on_recovery(|session| session.view(0, "scratch")?.write(0, &[1u32, 2, 3]));
        }
        let patience = random.pick(&[Deadline::Now, Deadline::After(Duration::from_millis(2))]);
        let producer = |tenant| Ok(session.producer(tenant)?.patience(patience));
        let producers: Result<Vec<_>, Error> = [0, 0, 1].into_iter().map(producer).collect();
        let producers = producers.map_err(|error| error.to_string())?;
        let (losses_left, doomed) = (random.below(7) as u32, random.one_in(12));
        Ok(Host {
            world: world.clone(),
            random,
            shape,
            session,
            producers,
            held: Vec::new(),
            tasks: Vec::new(),
            epochs: EpochModel::default(),
            next_id: [0; 2],
            paused: false,
            losses_left,
            calm: false,
            doomed,
            charged: 0,
            todo,
            ledger,
        })
    }

    fn fate(&self) -> SessionFate {
        match self.session.session_end() {
            None => SessionFate::Runs,
            Some(_) => SessionFate::Lost,
        }
    }

    /// Judges an error of a call on the session.
    fn judge(&self, what: &str, error: &Error) -> Verdict {
        match error {
            // The device is lost, and the session has not recovered yet.
            Error::Device(_) => Ok(()),
            Error::Ended(_) if self.doomed => Ok(()),
            error => Err(format!("{what}: {error}")),
        }
    }

    fn new_job(&mut self, tenant: u32) -> Option<Job> {
        let id = self.next_id[tenant as usize];
        if id >= TASKS {
            return None;
        }
        self.next_id[tenant as usize] += 1;
        let number = self.ledger.as_ref().map_or(0, Ledger::next_number);
        let job = self.shape.job(&mut self.random, number, id);
        if let Some(ledger) = &mut self.ledger {
            ledger.note_job(tenant, &job);
        }
        Some(job)
    }

    /// Returns something that an earlier process was asked for, with a number of this one.
    fn old_job(&mut self) -> Option<(u32, Job)> {
        let (tenant, job) = self.todo.pop()?;
        let id = self.next_id[tenant as usize];
        self.next_id[tenant as usize] += 1;
        Some((tenant, Job { id, ..job }))
    }

    /// Puts back what could not be submitted, to be tried again later.
    fn put_back(&mut self, tenant: u32, jobs: Vec<Job>) {
        if self.ledger.is_some() {
            self.todo.extend(jobs.into_iter().map(|job| (tenant, job)));
        }
    }

    /// Notes that nothing needs to be written down for some tasks.
    fn settle(&mut self, tasks: Range<usize>) {
        if let Some(ledger) = &mut self.ledger {
            self.tasks[tasks].iter().for_each(|task| ledger.settle(task.job.number));
        }
    }

    fn task_of(&self, job: &Job) -> Result<Task, String> {
        let op = self.session.opcode(job.kind.name).map_err(|error| error.to_string())?;
        Ok(Task::new(op).args([job.id, job.value, job.turns]).priority(job.priority))
    }

    /// Notes tasks that were submitted, or judges why they were not.
    fn note_submitted(
        &mut self,
        tenant: u32,
        jobs: Vec<Job>,
        submitted: Result<Holder, SubmitError>,
        fenced: bool,
    ) -> Verdict {
        let holder = match submitted {
            Ok(holder) => holder,
            Err(
                SubmitError::Full { .. } | SubmitError::TooLargeFenced { .. } | SubmitError::TooLarge { .. },
            ) => {
                self.put_back(tenant, jobs);
                return Ok(());
            }
            Err(SubmitError::Ended(_)) if self.doomed => return Ok(()),
            Err(error) => return Err(format!("submit: {error}")),
        };
        let (first, count) = (self.tasks.len(), jobs.len());
        if tenant == 1 {
            self.charged += count as u64 + u64::from(fenced);
        }
        let held_back = self.paused && tenant == 1;
        self.tasks.extend(jobs.into_iter().map(|job| ModelTask::new(tenant, job, held_back)));
        self.held.push(Held { holder, first, count, fenced, woken: None });
        Ok(())
    }

    fn random_producer(&mut self) -> (usize, u32) {
        let at = self.random.below(3) as usize;
        (at, self.producers[at].tenant())
    }

    fn submit_job(&mut self, at: usize, tenant: u32, job: Job) -> Verdict {
        let task = self.task_of(&job)?;
        let submitted = match self.shape.has_payloads() {
            true => self.producers[at].submit(task.bytes(&job.payload)),
            false => self.producers[at].submit(task),
        };
        self.note_submitted(tenant, vec![job], submitted.map(Holder::One), false)
    }

    /// Looks at all tickets, and checks everything that holds at any moment.
    pub(crate) fn look(&mut self) -> Verdict {
        let counts = RunCounts::take(&self.world);
        let fate = self.fate();
        self.look_with(&counts, fate)
    }

    fn look_with(&mut self, counts: &RunCounts, fate: SessionFate) -> Verdict {
        if fate == SessionFate::Lost && !self.doomed {
            return Err(format!("the session has ended: {:?}", self.session.session_end()));
        }
        for held in &mut self.held {
            for at in 0..held.count {
                let task = &mut self.tasks[held.first + at];
                if task.end.is_none()
                    && let Some(end) = held.holder.end_of(at)
                {
                    let (result, number) = (end.0, task.job.number);
                    self.world.note_end(&result);
                    task.note_end(end, counts, fate)?;
                    match (&mut self.ledger, result) {
                        (Some(ledger), Ok(result)) => ledger.append_result(number, result)?,
                        (Some(ledger), Err(_)) => ledger.settle(number),
                        (None, _) => {}
                    }
                }
            }
            if held.fenced
                && let Some((end, _)) = held.holder.end_of(held.count)
            {
                held.fenced = false;
                let tasks = &self.tasks[held.first..][..held.count];
                match end {
                    Ok(_) if tasks.iter().any(|task| task.end.is_none()) => {
                        return Err("a fence has ended before tasks that precede it".into());
                    }
                    Ok(epoch) => {
                        self.world.note("fences that end");
                        self.epochs.note_fence(epoch)?;
                    }
                    Err(TaskError::Cancelled { .. }) if tasks.iter().any(|task| task.cancelled) => {}
                    Err(_) if fate != SessionFate::Runs => {}
                    Err(error) => return Err(format!("a fence has ended as {error:?}")),
                }
            }
        }
        self.tasks.iter().try_for_each(|task| task.check(counts))
    }

    /// Returns whether the process must end, because its journal takes no more records.
    pub(crate) fn has_crashed(&self) -> bool {
        self.ledger.as_ref().is_some_and(Ledger::has_failed)
    }

    /// Lets nothing go wrong with the disk, and the session not end by itself.
    pub(crate) fn keep_calm(&mut self) {
        (self.calm, self.doomed) = (true, false);
    }

    /// Returns whether the session may end by itself.
    pub(crate) fn is_doomed(&self) -> bool {
        self.doomed
    }

    /// Ends the process at once, and returns its journal.
    pub(crate) fn crash(self) -> Option<Ledger> {
        self.ledger
    }
}

impl Holder {
    /// Returns how a task has ended, and its reply, or `None` if it has not.
    fn end_of(&mut self, at: usize) -> Option<(Result<u32, TaskError>, Vec<u8>)> {
        let mut bytes = [0; BYTES as usize];
        let (end, length) = match self {
            Holder::One(ticket) => (ticket.result(), ticket.reply_bytes(&mut bytes)),
            Holder::Many(span) => (span.result(at)?, span.reply_bytes(at, &mut bytes)?),
        };
        match end {
            Err(TaskError::Late) => None,
            end => Some((end, bytes[..length.unwrap_or(0)].to_vec())),
        }
    }
}
