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
use crate::kernel::drain::{PassReport, PassRequest};
use crate::kernel::layout::Layout;
use crate::kernel::{
    AssembleError, Assembled, Claim, Lifetime, Report, Spec, Telemetry, Tenant, TenantId, assemble,
};
use crate::protocol::slot::{GENERATION_MASK, WORDS};
use crate::protocol::{CompletionRecord, Opcode, Slot, control, priority};
use crate::session::{self, Memories};
use crate::telemetry::{self, LogPrinter};
use crate::workspace::{self, Element, Piece, View};
use batch::{BatchUses, priority_level};
use mirror::BufferMirror;
use readback::RunWords;

/// Words of 64 bits in a slot.
const LINE_WORDS: usize = WORDS / 2;

/// Positions stay below this, so that a kernel can count them in 32 bits.
const POSITION_LIMIT: u64 = 1 << 31;

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
    slots_buffer: Option<usize>,
    /// Slots of batches that lie elsewhere.
    slots: View64,
    /// What the host says of a pass, and the kernel when it has ended.
    request: View64,
    report: View64,
    report_layout: PassReport,
    /// The report of the last pass.
    report_words: Vec<u64>,
    host: BufferMirror<u32>,
    observables: BufferMirror<u32>,
    log: BufferMirror<u32>,
    printer: LogPrinter,
    /// The first position of the next pass.
    next_position: u64,
    /// Slots of the last pass.
    last_count: usize,
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
        let report_layout = PassReport::new(&layout);
        Ok(Drain {
            device: device.clone(),
            launch: session::bind(&spec, &module, &layout, &memories),
            slots_buffer: module
                .buffers
                .iter()
                .position(|(_, decl)| decl.name == BufferId::BatchSlots.row().name(&layout)),
            slots: view(BufferId::BatchSlots)?,
            request: view(BufferId::PassWanted)?,
            report: view(BufferId::PassReport)?,
            report_layout,
            report_words: vec![0; report_layout.words as usize],
            host: BufferMirror::new(&memories, BufferId::Host)?,
            observables: BufferMirror::new(&memories, BufferId::Observables)?,
            log: BufferMirror::new(&memories, BufferId::Log)?,
            printer: LogPrinter::new(&spec.formats),
            next_position: 0,
            last_count: 0,
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
        let words = self.layout.largest_stripe() as usize * LINE_WORDS;
        Ok(Batch::in_device_memory(self.device.alloc(MemoryKind::Host, WordWidth::W64, words)?, &self.owner))
    }

    /// Runs a batch.
    pub fn run(&mut self, batch: &Batch) -> Result<&Readback, Error> {
        self.run_all(std::slice::from_ref(batch))
    }

    /// Runs batches as if they were one, and keeps their results apart.
    pub fn run_all(&mut self, batches: &[Batch]) -> Result<&Readback, Error> {
        let start = Instant::now();
        self.readback.clear();
        self.report_words.fill(0);
        self.check_tenants(batches)?;
        let uses = batches.iter().map(Batch::uses).fold(BatchUses::default(), BatchUses::union);
        self.reset_buffers(uses)?;
        let total = self.stage_slots(batches)?;
        self.host.upload_changes()?;
        let slots = self.layout.largest_stripe() as usize;
        let (mut from, mut passes) = (0, 0);
        while from < total {
            let to = total.min(from + slots);
            if total > slots {
                let lines = &self.staged[from..to];
                lines.iter().enumerate().for_each(|(at, line)| self.slots.write(at * LINE_WORDS, line));
            }
            self.run_pass(to - from, uses, to < total)?;
            passes += 1;
            if self.report_words[self.report_layout.ended as usize] != 0 {
                break;
            }
            from = to;
        }
        if self.layout.observable_count() > 0 {
            self.observables.download()?;
        }
        let (row, shared) = (self.layout.counters_per_group() as usize, self.report_layout.control as usize);
        let words = RunWords {
            host: self.host.words(),
            counters: &self.report_words[..row],
            faults: self.report_words[self.report_layout.faults as usize],
            shared: &self.report_words[shared..],
            observables: &self.observables.words()[..self.layout.observable_count() as usize],
        };
        self.readback.finish_run(&self.spec, &self.layout, words, (passes, start.elapsed()));
        Ok(&self.readback)
    }

    /// Whoever has tasks must be a tenant.
    fn check_tenants(&self, batches: &[Batch]) -> Result<(), Error> {
        let known = self.spec.tenants.iter().fold(0u32, |all, tenant| all | 1 << tenant.id);
        match batches.iter().map(|batch| batch.tenants() & !known).find(|unknown| *unknown != 0) {
            Some(unknown) => Err(Error::Tenant(unknown.trailing_zeros())),
            None => Ok(()),
        }
    }

    /// Puts slots where the kernel reads them, in the order of the ring, and notes where each went. One batch in its own order that is
    /// there already needs nothing. What takes several passes waits aside.
    fn stage_slots(&mut self, batches: &[Batch]) -> Result<usize, Error> {
        let total = batches.iter().fold(0, |total, batch| {
            self.readback.ends.push(total + batch.len());
            total + batch.len()
        });
        let sorted = self.spec.claim != Claim::Owned;
        let fits = total <= self.layout.largest_stripe() as usize;
        let in_place = match batches {
            [batch] if fits && !sorted => batch.lines().memory_for(&self.owner).cloned(),
            _ => None,
        };
        let stays = in_place.is_some();
        let own = || self.memories.need(BufferId::BatchSlots).cloned();
        let memory = in_place.map_or_else(own, Ok)?;
        if let Some(at) = self.slots_buffer {
            self.launch.buffers[at] = Some(memory);
        }
        if stays {
            return Ok(total);
        }
        self.staged.clear();
        match (sorted, fits) {
            (true, _) => self.sort_by_level(batches, fits, total),
            (false, true) => {
                batches.iter().fold(0, |from, batch| {
                    batch.lines().copy_to(&self.slots, from);
                    from + batch.len()
                });
            }
            (false, false) => batches.iter().for_each(|batch| self.staged.extend(batch.lines().iter())),
        }
        Ok(total)
    }

    /// Puts slots into the parts of their levels.
    fn sort_by_level(&mut self, batches: &[Batch], fits: bool, total: usize) {
        self.staged.resize(if fits { 0 } else { total }, [0; LINE_WORDS]);
        let mut next = self.cut_levels(batches);
        for line in batches.iter().flat_map(|batch| batch.lines().iter()) {
            let place = &mut next[priority_level(&line)];
            match fits {
                true => self.slots.write(*place * LINE_WORDS, &line),
                false => self.staged[*place] = line,
            }
            self.readback.order.push(*place);
            *place += 1;
        }
    }

    /// Cuts the ring into a part a level; where each begins.
    fn cut_levels(&mut self, batches: &[Batch]) -> [usize; priority::LEVELS] {
        let mut parts = [0; priority::LEVELS];
        let mut first = 0;
        for (k, part) in parts.iter_mut().enumerate() {
            *part = first;
            self.host.set_word(control::PARTITIONS as usize + k, first as u32);
            first += batches.iter().map(|batch| batch.levels()[k]).sum::<usize>();
        }
        self.host.set_word(control::PARTITIONS as usize + priority::LEVELS, first as u32);
        parts
    }

    /// Makes observables and log those of a new run. What the last run cannot have written is not written again.
    fn reset_buffers(&mut self, uses: BatchUses) -> Result<(), Error> {
        if !self.clean {
            // The last run failed or was ended, and what it counted is not this one's.
            for id in [BufferId::Rows, BufferId::Control] {
                let memory = self.memories.need(id)?;
                memory.upload(0, &vec![0u64; memory.len()])?;
            }
            self.upload_frontier()?;
        }
        self.log.fill_zero();
        self.log.upload_changes()?;
        if self.layout.observable_count() > 0 {
            // The host may have written them through a view.
            self.observables.mark_stale();
            self.observables.fill_zero();
            self.observables.upload_changes()?;
        }
        if uses.prints {
            self.log.mark_stale();
        }
        Ok(())
    }

    /// Makes the words that groups claim windows by those of a pass from here on.
    fn upload_frontier(&self) -> Result<(), Error> {
        let mut front = [0; crate::kernel::STRIDE as usize];
        front[0] = self.next_position;
        Ok(self.memories.need(BufferId::Front)?.upload(0, &front)?)
    }

    /// Runs what lies in the first slots, and takes in what was counted.
    fn run_pass(&mut self, count: usize, uses: BatchUses, more: bool) -> Result<(), Error> {
        self.readback.keep_records();
        if self.next_position >= POSITION_LIMIT || self.next_generation() == GENERATION_MASK {
            self.rewind_positions()?;
        }
        let window = self.window_size(count);
        let fences = uses.fences;
        let request = PassRequest { start: self.next_position, count: count as u32, window, fences, more };
        self.readback.begin_pass(count, self.next_generation());
        self.launch.groups = self.layout.groups.min((count as u32).div_ceil(window));
        for line in self.request.chunks(LINE_WORDS).take(self.launch.groups as usize) {
            // Relaxed: the launch comes after.
            line.iter().zip(request.words()).for_each(|(word, value)| word.store(value, Ordering::Relaxed));
        }
        self.next_position += u64::from(self.layout.largest_stripe());
        (self.last_count, self.clean) = (count, false);
        let ended = self.kernel.run(&self.launch)?;
        if ended.outcome != LaunchOutcome::Done {
            return Err(Error::Cut(ended.outcome));
        }
        for (word, reported) in self.report_words.iter_mut().zip(self.report.iter()) {
            // Relaxed: the launch has ended.
            *word = reported.load(Ordering::Relaxed);
        }
        self.clean = !more;
        Ok(())
    }

    /// How many tasks a group takes at once: few enough that all groups have some, where that costs nothing. Four lanes fetch a slot, and
    /// all of a group do so at once.
    fn window_size(&self, count: usize) -> u32 {
        let most = self.layout.window;
        if !self.layout.remote {
            return most;
        }
        let least = (self.layout.lanes / 4).max(1);
        (count as u32).div_ceil(self.layout.groups).next_multiple_of(least).min(most)
    }

    /// The generation of the next pass.
    fn next_generation(&self) -> u32 {
        (self.next_position / u64::from(self.layout.largest_stripe())) as u32
    }

    /// Counts positions from 0 again: what was left there by earlier passes must go.
    fn rewind_positions(&mut self) -> Result<(), Error> {
        let zeros = vec![0u64; self.layout.largest_stripe() as usize];
        self.memories.need(BufferId::Marks)?.upload(0, &zeros)?;
        self.memories.need(BufferId::BatchDone)?.upload(0, &zeros)?;
        self.next_position = 0;
        self.upload_frontier()
    }

    /// What came back from the last run.
    pub fn readback(&self) -> &Readback {
        &self.readback
    }

    /// What tasks of the last run have printed, in order.
    pub fn log(&self) -> Result<Vec<String>, Error> {
        Ok(telemetry::read_log(&self.printer, &self.memories, 0)?.0)
    }

    /// The ring as the last pass left it: its slots, with the statuses that they came to. A batch that lies where the device reads it
    /// is read as it is now.
    pub fn ring(&self) -> Result<Vec<Slot>, Error> {
        let slots = self.slots_buffer.and_then(|at| self.launch.buffers[at].clone());
        let slots = slots.map_or_else(|| self.memories.need(BufferId::BatchSlots).cloned(), Ok)?;
        let (mut lines, mut done) = (vec![[0u64; LINE_WORDS]; self.last_count], vec![0u64; self.last_count]);
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
        self.set_control_word(tenant, control::MASKS, mask)
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
        self.set_control_word(tenant, control::QUOTAS, session::quota_word(session::quota_limit(quota)))
    }

    fn set_control_word(&mut self, tenant: TenantId, table: u32, value: u32) -> Result<(), Error> {
        if !self.spec.tenants.iter().any(|t| t.id == tenant) {
            return Err(Error::Tenant(tenant));
        }
        self.host.set_word((table + tenant) as usize, value);
        Ok(())
    }
}
