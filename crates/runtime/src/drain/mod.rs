//! Batches: tasks that are all there before the kernel starts, run in one pass and read back.
//!
//! A [`Drain`] assembles the kernel of a [`Spec`], loads it and allocates its memory once; then it runs any number of batches with
//! them. A run is one launch over all the batches it is given, or several if they have more tasks than the ring has slots. The kernel
//! reads slots where the host wrote them and writes records where the host reads them, so that nothing else goes between the two.
//! Regions of the workspace stay as they are from run to run. Control words are a run's own: credit, counters, epoch, observables
//! and the debug log start anew, so a quota is what a tenant may run in each run.
//!
//! With [`Claim::Priority`] the ring is cut into a part a level, the most urgent first, in each the order in which tasks were put
//! in. A task that ends the pass (SHUTDOWN) ends the run: what nobody has taken by then is left.

mod batch;
mod lines;
mod mirror;
mod readback;
#[cfg(test)]
mod tests;

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Instant;

use pelton_device::memory::Line;
use pelton_device::{Device, Kernel, Launch, LaunchOutcome, MemoryKind, View64, WordWidth};

pub use batch::Batch;
pub use readback::{Outcomes, Readback, Statistics};

use crate::error::Error;
use crate::kernel::BufferId;
use crate::kernel::drain::{PassReport as Told, PassRequest as Wanted};
use crate::kernel::layout::Layout;
use crate::kernel::{
    AssembleError, Assembled, Claim, Lifetime, Report, Spec, Telemetry, Tenant, TenantId, assemble,
};
use crate::protocol::slot::{GENERATION_MASK, WORDS};
use crate::protocol::{CompletionRecord, Opcode, Slot, control, priority};
use crate::session::{self, Memories};
use crate::telemetry::{self, Printer};
use crate::workspace::{self, Element, Piece, View};
use batch::{Uses, level};
use mirror::Mirror;
use readback::Words;

/// Words of 64 bits in a slot.
const LINE: usize = WORDS / 2;

/// Positions stay below this, so that a kernel can count them in 32 bits.
const FAR: u64 = 1 << 31;

/// A kernel that runs batches.
#[derive(Debug)]
pub struct Drain {
    device: Arc<dyn Device>,
    spec: Spec,
    layout: Layout,
    memories: Memories,
    kernel: Arc<dyn Kernel>,
    launch: Launch,
    /// Where the launch has the slots.
    bound: Option<usize>,
    /// Slots of batches that lie elsewhere.
    slots: View64,
    /// What the host says of a pass, and the kernel when it has ended.
    wanted: View64,
    report: View64,
    told: Told,
    /// The report of the last pass.
    words: Vec<u64>,
    host: Mirror<u32>,
    observables: Mirror<u32>,
    log: Mirror<u32>,
    printer: Printer,
    /// The first position of the next pass.
    base: u64,
    /// Slots of the last pass.
    last: usize,
    /// Whether the words that groups share are as the next pass wants them.
    clean: bool,
    /// Slots of a run that takes several passes, in their order.
    staged: Vec<Line>,
    readback: Readback,
    /// Tells its batches from those of others.
    owner: Arc<()>,
}

impl Drain {
    /// Makes a kernel ready for batches. What the `Spec` says of its lifetime and of where rings lie does not matter.
    pub fn new(device: &Arc<dyn Device>, spec: &Spec) -> Result<Drain, Error> {
        let spec = Spec { placement: None, ..spec.clone() }.lifetime(Lifetime::Drain);
        if spec.report == Report::Control && spec.telemetry == Telemetry::Off {
            let why = "the report is of counters alone, and there would be none";
            return Err(AssembleError::Axis { axis: "telemetry", value: "off", why }.into());
        }
        let Assembled { module, layout } = assemble(&spec, device.caps())?;
        let kernel = device.load(&module, None, layout.lanes)?;
        let memories = session::memories(device, &layout)?;
        session::fill(&spec, &layout, &memories, &[0])?;
        let view = |id: BufferId| memories.need(id)?.view64().ok_or(Error::Internal(id.row().names[0]));
        let done = memories.need(BufferId::BatchDone)?.view64().filter(|_| spec.report == Report::Full);
        let told = Told::new(&layout);
        Ok(Drain {
            device: device.clone(),
            launch: session::bind(&spec, &module, &layout, &memories),
            bound: module
                .buffers
                .iter()
                .position(|(_, decl)| decl.name == BufferId::BatchSlots.row().name(&layout)),
            slots: view(BufferId::BatchSlots)?,
            wanted: view(BufferId::PassWanted)?,
            report: view(BufferId::PassReport)?,
            told,
            words: vec![0; told.words as usize],
            host: Mirror::new(&memories, BufferId::Host)?,
            observables: Mirror::new(&memories, BufferId::Observables)?,
            log: Mirror::new(&memories, BufferId::Log)?,
            printer: Printer::new(&spec.formats),
            base: 0,
            last: 0,
            clean: true,
            staged: Vec::new(),
            readback: Readback::new(&spec, &layout, done)?,
            owner: Arc::default(),
            kernel,
            memories,
            layout,
            spec,
        })
    }

    /// No tasks yet, in memory that the device reads: a batch for this drain that no run copies. It has room for as many tasks as the
    /// ring has slots, and moves to ordinary memory if it gets more.
    pub fn batch(&self) -> Result<Batch, Error> {
        let words = self.layout.largest_stripe() as usize * LINE;
        Ok(Batch::lent(self.device.alloc(MemoryKind::Host, WordWidth::W64, words)?, &self.owner))
    }

    /// Runs a batch.
    pub fn run(&mut self, batch: &Batch) -> Result<&Readback, Error> {
        self.run_all(std::slice::from_ref(batch))
    }

    /// Runs batches as if they were one, and keeps their results apart.
    pub fn run_all(&mut self, batches: &[Batch]) -> Result<&Readback, Error> {
        let start = Instant::now();
        self.readback.clear();
        self.words.fill(0);
        self.check(batches)?;
        let uses = batches.iter().map(Batch::uses).fold(Uses::default(), Uses::or);
        self.reset(uses)?;
        let total = self.stage(batches)?;
        self.host.push()?;
        let slots = self.layout.largest_stripe() as usize;
        let (mut from, mut passes) = (0, 0);
        while from < total {
            let to = total.min(from + slots);
            if total > slots {
                let lines = &self.staged[from..to];
                lines.iter().enumerate().for_each(|(at, line)| self.slots.write(at * LINE, line));
            }
            self.pass(to - from, uses, to < total)?;
            passes += 1;
            if self.words[self.told.ended as usize] != 0 {
                break;
            }
            from = to;
        }
        if self.layout.observable_count() > 0 {
            self.observables.pull()?;
        }
        let (row, shared) = (self.layout.counters_per_group() as usize, self.told.control as usize);
        let words = Words {
            host: self.host.words(),
            counters: &self.words[..row],
            faults: self.words[self.told.faults as usize],
            shared: &self.words[shared..],
            observables: &self.observables.words()[..self.layout.observable_count() as usize],
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

    /// Puts slots where the kernel reads them, in the order of the ring, and notes where each went. One batch in its own order that is
    /// there already needs nothing. What takes several passes waits aside.
    fn stage(&mut self, batches: &[Batch]) -> Result<usize, Error> {
        let total = batches.iter().fold(0, |total, batch| {
            self.readback.ends.push(total + batch.len());
            total + batch.len()
        });
        let sorted = self.spec.claim != Claim::Owned;
        let fits = total <= self.layout.largest_stripe() as usize;
        let there = match batches {
            [batch] if fits && !sorted => batch.lines().at(&self.owner).cloned(),
            _ => None,
        };
        let stays = there.is_some();
        let own = || self.memories.need(BufferId::BatchSlots).cloned();
        let lies = there.map_or_else(own, Ok)?;
        if let Some(bound) = self.bound {
            self.launch.buffers[bound] = Some(lies);
        }
        if stays {
            return Ok(total);
        }
        self.staged.clear();
        match (sorted, fits) {
            (true, _) => self.sort(batches, fits, total),
            (false, true) => {
                batches.iter().fold(0, |from, batch| {
                    batch.lines().copy(&self.slots, from);
                    from + batch.len()
                });
            }
            (false, false) => batches.iter().for_each(|batch| self.staged.extend(batch.lines().iter())),
        }
        Ok(total)
    }

    /// Puts slots into the parts of their levels.
    fn sort(&mut self, batches: &[Batch], fits: bool, total: usize) {
        self.staged.resize(if fits { 0 } else { total }, [0; LINE]);
        let mut next = self.cut(batches);
        for line in batches.iter().flat_map(|batch| batch.lines().iter()) {
            let place = &mut next[level(&line)];
            match fits {
                true => self.slots.write(*place * LINE, &line),
                false => self.staged[*place] = line,
            }
            self.readback.order.push(*place);
            *place += 1;
        }
    }

    /// Cuts the ring into a part a level; where each begins.
    fn cut(&mut self, batches: &[Batch]) -> [usize; priority::LEVELS] {
        let mut parts = [0; priority::LEVELS];
        let mut first = 0;
        for (k, part) in parts.iter_mut().enumerate() {
            *part = first;
            self.host.set(control::PARTITIONS as usize + k, first as u32);
            first += batches.iter().map(|batch| batch.levels()[k]).sum::<usize>();
        }
        self.host.set(control::PARTITIONS as usize + priority::LEVELS, first as u32);
        parts
    }

    /// Makes observables and log those of a new run. What the last run cannot have written is not written again.
    fn reset(&mut self, uses: Uses) -> Result<(), Error> {
        if !self.clean {
            // The last run failed or was ended, and what it counted is not this one's.
            for id in [BufferId::Rows, BufferId::Control] {
                let memory = self.memories.need(id)?;
                memory.upload(0, &vec![0u64; memory.len()])?;
            }
            self.front()?;
        }
        self.log.clear();
        self.log.push()?;
        if self.layout.observable_count() > 0 {
            // The host may have written them through a view.
            self.observables.stale();
            self.observables.clear();
            self.observables.push()?;
        }
        if uses.prints {
            self.log.stale();
        }
        Ok(())
    }

    /// Makes the words that groups claim windows by those of a pass from here on.
    fn front(&self) -> Result<(), Error> {
        let mut front = [0; crate::kernel::STRIDE as usize];
        front[0] = self.base;
        Ok(self.memories.need(BufferId::Front)?.upload(0, &front)?)
    }

    /// Runs what lies in the first slots, and takes in what was counted.
    fn pass(&mut self, count: usize, uses: Uses, more: bool) -> Result<(), Error> {
        self.readback.keep();
        if self.base >= FAR || self.generation() == GENERATION_MASK {
            self.rewind()?;
        }
        let window = self.window(count);
        let fences = uses.fences;
        let wanted = Wanted { start: self.base, count: count as u32, window, fences, more };
        self.readback.begin(count, self.generation());
        self.launch.groups = self.layout.groups.min((count as u32).div_ceil(window));
        for line in self.wanted.chunks(LINE).take(self.launch.groups as usize) {
            // Relaxed: the launch comes after.
            line.iter().zip(wanted.words()).for_each(|(word, value)| word.store(value, Ordering::Relaxed));
        }
        self.base += u64::from(self.layout.largest_stripe());
        (self.last, self.clean) = (count, false);
        let ended = self.kernel.run(&self.launch)?;
        if ended.outcome != LaunchOutcome::Done {
            return Err(Error::Cut(ended.outcome));
        }
        for (word, told) in self.words.iter_mut().zip(self.report.iter()) {
            // Relaxed: the launch has ended.
            *word = told.load(Ordering::Relaxed);
        }
        self.clean = !more;
        Ok(())
    }

    /// How many tasks a group takes at once: few enough that all groups have some, where that costs nothing. Four lanes fetch a slot, and
    /// all of a group do so at once.
    fn window(&self, count: usize) -> u32 {
        let most = self.layout.window;
        if !self.layout.remote {
            return most;
        }
        let least = (self.layout.lanes / 4).max(1);
        (count as u32).div_ceil(self.layout.groups).next_multiple_of(least).min(most)
    }

    /// The generation of the next pass.
    fn generation(&self) -> u32 {
        (self.base / u64::from(self.layout.largest_stripe())) as u32
    }

    /// Counts positions from 0 again: what was left there by earlier passes must go.
    fn rewind(&mut self) -> Result<(), Error> {
        let zeros = vec![0u64; self.layout.largest_stripe() as usize];
        self.memories.need(BufferId::Marks)?.upload(0, &zeros)?;
        self.memories.need(BufferId::BatchDone)?.upload(0, &zeros)?;
        self.base = 0;
        self.front()
    }

    /// What came back from the last run.
    pub fn readback(&self) -> &Readback {
        &self.readback
    }

    /// What tasks of the last run have printed, in order.
    pub fn log(&self) -> Result<Vec<String>, Error> {
        Ok(telemetry::read(&self.printer, &self.memories, 0)?.0)
    }

    /// The ring as the last pass left it: its slots, with the statuses that they came to. A batch that lies where the device reads it
    /// is read as it is now.
    pub fn ring(&self) -> Result<Vec<Slot>, Error> {
        let slots = self.bound.and_then(|bound| self.launch.buffers[bound].clone());
        let slots = slots.map_or_else(|| self.memories.need(BufferId::BatchSlots).cloned(), Ok)?;
        let (mut lines, mut done) = (vec![[0u64; LINE]; self.last], vec![0u64; self.last]);
        slots.download(0, lines.as_flattened_mut())?;
        self.memories.need(BufferId::BatchDone)?.download(0, &mut done)?;
        for (line, record) in lines.iter_mut().zip(done) {
            if CompletionRecord(record).has_generation(self.readback.generation()) {
                line[0] = line[0] & !0xffff_ffff | record & 0xff;
            }
        }
        Ok(lines.into_iter().map(Slot::from).collect())
    }

    /// What it was made with.
    pub fn spec(&self) -> &Spec {
        &self.spec
    }

    /// Looks up the opcode of a handler, or of a built-in operation, by its name. Look it up once, and make any number of tasks with it. An
    /// unknown name is [`Error::UnknownOpcode`], which says which known name is nearest.
    pub fn opcode(&self, name: &str) -> Result<Opcode, Error> {
        Ok(self.spec.opcode(name)?)
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

    /// Allows a tenant these opcodes and no others from the next run on. All opcodes from 31 on are allowed or not together, and an empty
    /// list disables the tenant.
    pub fn allow(&mut self, tenant: TenantId, ops: &[Opcode]) -> Result<(), Error> {
        self.set_mask(tenant, Opcode::mask_of(ops))
    }

    /// Sets how many tasks a tenant may run in each run from the next on; 0 is no limit.
    ///
    /// # Errors
    ///
    /// [`Error::Credit`] if that is more than [`Tenant::MAX_QUOTA`](crate::Tenant::MAX_QUOTA).
    pub fn set_quota(&mut self, tenant: TenantId, quota: u32) -> Result<(), Error> {
        if quota > Tenant::MAX_QUOTA {
            return Err(Error::Credit { tenant, credit: quota.into() });
        }
        self.set(tenant, control::QUOTAS, session::quota_word(session::quota_limit(quota)))
    }

    fn set(&mut self, tenant: TenantId, table: u32, value: u32) -> Result<(), Error> {
        if !self.spec.tenants.iter().any(|t| t.id == tenant) {
            return Err(Error::Tenant(tenant));
        }
        self.host.set((table + tenant) as usize, value);
        Ok(())
    }
}
