//! Batches: tasks that are all there before the kernel starts, run in one pass and read back.
//!
//! A [`Drain`] assembles the kernel of a [`Spec`], loads it and allocates its memory once; then it runs any number of batches with
//! them. A run is one launch over all the batches it is given, or several if they have more tasks than the ring has slots.
//! Regions of the workspace stay as they are from run to run. Control words are a run's own: credit, counters, epoch, observables
//! and the debug log start anew, so a quota is what a tenant may run in each run.
//!
//! With [`Claim::Priority`] the ring is cut into a part a level, the most urgent first, in each the order in which tasks were put
//! in. A task that ends the pass (SHUTDOWN) ends the run: what nobody has taken by then is left.

mod batch;
mod mirror;
mod readback;
#[cfg(test)]
mod tests;

use std::sync::Arc;
use std::time::{Duration, Instant};

use pelton_device::memory::Line;
use pelton_device::{Device, Kernel, Launch, Memory, Outcome};

pub use batch::Batch;
pub use readback::{Readback, Statistics};

use crate::error::Error;
use crate::kernel::drain::{front, word};
use crate::kernel::layout::Layout;
use crate::kernel::{Assembled, Claim, Lifetime, Refused, Report, Spec, Telemetry, TenantId, assemble};
use crate::protocol::slot::{GENERATION_MASK, WORDS};
use crate::protocol::{Slot, control, priority};
use crate::session::{self, Memories};
use crate::telemetry::{self, Printer};
use crate::workspace::{self, Element, Piece, View};
use batch::{Uses, level};
use mirror::{Mirror, memory};
use readback::Words;

/// Words of 64 bits in a slot.
const LINE: usize = WORDS / 2;

/// Positions stay below this, so that a kernel can count them in 32 bits.
const FAR: u64 = 1 << 31;

/// A kernel that runs batches.
#[derive(Debug)]
pub struct Drain {
    spec: Spec,
    layout: Layout,
    memories: Memories,
    kernel: Arc<dyn Kernel>,
    launch: Launch,
    slots: Memory,
    /// Records, if they are wanted.
    done: Option<Memory>,
    front: Memory,
    host: Mirror<u32>,
    control: Mirror<u64>,
    rows: Mirror<u64>,
    observables: Mirror<u32>,
    log: Mirror<u32>,
    printer: Printer,
    /// Counters summed over groups: in all runs before, then in this one.
    before: Vec<u64>,
    counters: Vec<u64>,
    /// The first position of the next pass.
    base: u64,
    /// Slots of the last pass.
    last: usize,
    /// Slots of a run, where they are not those of one batch in order.
    staged: Vec<Line>,
    readback: Readback,
}

impl Drain {
    /// Makes a kernel ready for batches. What the `Spec` says of its lifetime and of where rings lie does not matter.
    pub fn new(device: &Arc<dyn Device>, spec: &Spec) -> Result<Drain, Error> {
        let spec = Spec { placement: None, ..spec.clone() }.lifetime(Lifetime::Drain);
        if spec.report == Report::Control && spec.telemetry == Telemetry::Off {
            let why = "the report is of counters alone, and there would be none";
            return Err(Refused::Axis { axis: "telemetry", value: "off", why }.into());
        }
        let Assembled { module, layout } = assemble(&spec, device.caps())?;
        let kernel = device.load(&module, None, layout.lanes)?;
        let memories = session::memories(device, &layout)?;
        session::fill(&spec, &layout, &memories, 0)?;
        let row = layout.row() as usize;
        Ok(Drain {
            launch: session::bind(&spec, &module, &layout, &memories),
            slots: memory(&memories, "slots")?,
            done: memories.get("done").cloned(),
            front: memory(&memories, "front")?,
            host: Mirror::new(&memories, "host")?,
            control: Mirror::new(&memories, "control")?,
            rows: Mirror::new(&memories, "rows")?,
            observables: Mirror::new(&memories, "observables")?,
            log: Mirror::new(&memories, "log")?,
            printer: Printer::new(&spec.formats),
            before: vec![0; row],
            counters: vec![0; row],
            base: 0,
            last: 0,
            staged: Vec::new(),
            readback: Readback::new(&spec, &layout)?,
            kernel,
            memories,
            layout,
            spec,
        })
    }

    /// Runs a batch.
    pub fn run(&mut self, batch: &Batch) -> Result<&Readback, Error> {
        self.run_all(std::slice::from_ref(batch))
    }

    /// Runs batches as if they were one, and keeps their results apart.
    pub fn run_all(&mut self, batches: &[Batch]) -> Result<&Readback, Error> {
        let start = Instant::now();
        self.readback.clear();
        self.check(batches)?;
        let total = self.stage(batches);
        let uses = batches.iter().map(Batch::uses).fold(Uses::default(), Uses::or);
        self.reset(uses)?;
        let (mut from, mut passes) = (0, 0);
        while from < total {
            let to = total.min(from + self.layout.slots() as usize);
            let lines = match batches {
                [batch] if self.staged.is_empty() => batch.lines(),
                _ => &self.staged,
            };
            self.slots.upload(0, lines[from..to].as_flattened())?;
            self.pass(to - from)?;
            passes += 1;
            if uses.ends && self.ended()? {
                break;
            }
            from = to;
        }
        if self.done.is_some() {
            // What the run did not get to.
            self.readback.records.resize(total, 0);
        }
        self.collect(uses)?;
        let words = Words {
            host: self.host.words(),
            counters: &self.counters,
            shared: self.control.words(),
            observables: &self.observables.words()[..self.layout.observed() as usize],
        };
        self.readback.close(&self.spec, &self.layout, words, (passes, start.elapsed()));
        Ok(&self.readback)
    }

    /// Whoever has tasks must be a tenant.
    fn check(&self, batches: &[Batch]) -> Result<(), Error> {
        let known = self.spec.tenants.iter().fold(0u32, |all, tenant| all | 1 << tenant.id);
        match batches.iter().map(|batch| batch.tenants() & !known).find(|unknown| *unknown != 0) {
            Some(unknown) => Err(Error::Tenant(unknown.trailing_zeros())),
            None => Ok(()),
        }
    }

    /// Puts slots into the order of the ring, and notes where each went. One batch in its own order needs nothing.
    fn stage(&mut self, batches: &[Batch]) -> usize {
        let sorted = self.spec.claim != Claim::Owned;
        let mut total = 0;
        for batch in batches {
            total += batch.len();
            self.readback.ends.push(total);
        }
        self.staged.clear();
        if !sorted {
            if batches.len() != 1 {
                batches.iter().for_each(|batch| self.staged.extend_from_slice(batch.lines()));
            }
            return total;
        }
        let mut next = [0; priority::LEVELS];
        let mut first = 0;
        for (k, next) in next.iter_mut().enumerate() {
            *next = first;
            self.host.set(control::PARTITIONS as usize + k, first as u32);
            first += batches.iter().map(|batch| batch.levels()[k]).sum::<usize>();
        }
        self.host.set(control::PARTITIONS as usize + priority::LEVELS, first as u32);
        self.staged.resize(total, [0; LINE]);
        for line in batches.iter().flat_map(Batch::lines) {
            let place = &mut next[level(line)];
            self.staged[*place] = *line;
            self.readback.order.push(*place);
            *place += 1;
        }
        total
    }

    /// Makes control words and log those of a new run. What the last run cannot have written is not written again.
    fn reset(&mut self, uses: Uses) -> Result<(), Error> {
        if !self.rows.same() {
            // The last run failed, and what it counted is not this one's.
            self.count()?;
        }
        self.rows.stale();
        self.control.clear();
        self.log.clear();
        self.host.push()?;
        self.control.push()?;
        self.log.push()?;
        if self.layout.observed() > 0 {
            // The host may have written them through a view.
            self.observables.stale();
            self.observables.clear();
            self.observables.push()?;
        }
        if self.touches(uses) {
            self.control.stale();
        }
        if uses.prints {
            self.log.stale();
        }
        Ok(())
    }

    /// Whether a run counts what all groups count together: fences, credit, lost records.
    fn touches(&self, uses: Uses) -> bool {
        let quotas = &self.host.words()[control::QUOTAS as usize..control::CLAIMS as usize];
        uses.fences || uses.prints || quotas.iter().any(|quota| *quota != 0)
    }

    /// Runs what lies in the first slots, and takes in its records.
    fn pass(&mut self, count: usize) -> Result<(), Error> {
        if self.base >= FAR || self.generation() == GENERATION_MASK {
            self.rewind()?;
        }
        let generation = self.generation();
        self.front.upload(0, &front(self.base..self.base + count as u64))?;
        self.base += u64::from(self.layout.slots());
        self.last = count;
        let run = self.kernel.launch(&self.launch)?;
        let beat = (self.spec.lease / 4).max(Duration::from_millis(1));
        let ended = loop {
            match run.wait(Some(beat))? {
                Some(ended) => break ended,
                None => run.renew(),
            }
        };
        if ended.outcome != Outcome::Done {
            return Err(Error::Cut(ended.outcome));
        }
        if let Some(done) = &self.done {
            let from = self.readback.records.len();
            self.readback.records.resize(from + count, 0);
            done.download(0, &mut self.readback.records[from..])?;
            self.readback.sift(from, generation);
        }
        Ok(())
    }

    /// The generation of the next pass.
    fn generation(&self) -> u32 {
        (self.base / u64::from(self.layout.slots())) as u32
    }

    /// Counts positions from 0 again: what was left there by earlier passes must go.
    fn rewind(&mut self) -> Result<(), Error> {
        let zeros = vec![0u64; self.layout.slots() as usize];
        memory(&self.memories, "marks")?.upload(0, &zeros)?;
        if let Some(done) = &self.done {
            done.upload(0, &zeros)?;
        }
        self.base = 0;
        Ok(())
    }

    /// Whether a task has ended the run.
    fn ended(&self) -> Result<bool, Error> {
        let mut ended = [0u64];
        self.front.download(word::ENDED as usize, &mut ended)?;
        Ok(ended[0] != 0)
    }

    /// Copies out what the kernel counted and what tasks show.
    fn collect(&mut self, uses: Uses) -> Result<(), Error> {
        self.count()?;
        if self.touches(uses) {
            self.control.pull()?;
        }
        if self.layout.observed() > 0 {
            self.observables.pull()?;
        }
        Ok(())
    }

    /// Works out what groups have counted since the last time.
    fn count(&mut self) -> Result<(), Error> {
        if self.spec.telemetry != Telemetry::Off {
            self.rows.pull()?;
            let row = self.layout.row() as usize;
            for (at, (counter, before)) in self.counters.iter_mut().zip(&mut self.before).enumerate() {
                let now = self.rows.words().iter().skip(at).step_by(row).sum::<u64>();
                *counter = now - *before;
                *before = now;
            }
        }
        Ok(())
    }

    /// What came back from the last run.
    pub fn readback(&self) -> &Readback {
        &self.readback
    }

    /// What tasks of the last run have printed, in order.
    pub fn log(&self) -> Result<Vec<String>, Error> {
        Ok(telemetry::read(&self.printer, &self.memories, 0)?.0)
    }

    /// The ring as the last pass left it.
    pub fn ring(&self) -> Result<Vec<Slot>, Error> {
        let mut lines = vec![[0u64; LINE]; self.last];
        self.slots.download(0, lines.as_flattened_mut())?;
        Ok(lines.into_iter().map(Slot::from).collect())
    }

    /// What it was made with.
    pub fn spec(&self) -> &Spec {
        &self.spec
    }

    /// Where everything of its kernel lies.
    pub fn layout(&self) -> &Layout {
        &self.layout
    }

    /// A tenant's piece of a region of the workspace, or with the name `observable` its observables.
    pub fn view<T: Element>(&self, tenant: TenantId, region: &str) -> Result<View<'_, T>, Error> {
        workspace::view(&self.memories, &self.layout, tenant, region)
    }

    /// Where a tenant's piece of a region is, and what it holds.
    pub fn piece(&self, tenant: TenantId, region: &str) -> Result<Piece, Error> {
        workspace::piece(&self.layout, tenant, region)
    }

    /// Sets what a tenant may do from the next run on: bit i allows opcode i, bit 31 all from 31 on; 0 disables it.
    pub fn set_mask(&mut self, tenant: TenantId, mask: u32) -> Result<(), Error> {
        self.set(tenant, control::MASKS, mask)
    }

    /// Sets how many tasks a tenant may run in each run from the next on; 0 is no limit.
    pub fn set_quota(&mut self, tenant: TenantId, quota: u32) -> Result<(), Error> {
        self.set(tenant, control::QUOTAS, quota)
    }

    fn set(&mut self, tenant: TenantId, table: u32, value: u32) -> Result<(), Error> {
        if !self.spec.tenants.iter().any(|t| t.id == tenant) {
            return Err(Error::Tenant(tenant));
        }
        self.host.set((table + tenant) as usize, value);
        Ok(())
    }
}
