//! Batches of tasks that are complete before the kernel starts, run in one pass, and are then read back.
//!
//! A [`Drain`] assembles the kernel of a [`Spec`], loads it and allocates its memory once. Then it can run any number
//! of batches. A run is one launch over all batches that it is given, or several launches if they have more tasks than
//! the ring has slots. The kernel reads the slots where the host wrote them and writes the records where the host
//! reads them, so nothing is copied in between. The regions of the workspace keep their content from run to run.
//! Control words belong to one run: credit, counters, epoch, observables and the debug log start anew, so a quota
//! limits the tasks of each run.
//!
//! With [`Claim::Priority`], the ring is divided into one part per priority, the most urgent first. Within a part,
//! tasks keep the order in which they were added. A task that ends the pass (SHUTDOWN) ends the run, and tasks that no
//! group has taken by then are left.

mod batch;
mod lines;
mod mirror;
mod payload;
mod readback;
#[cfg(test)]
mod tests;

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Instant;

use pelton_device::memory::Line;
use pelton_device::{Device, Kernel, Launch, LaunchOutcome, Memory, MemoryKind, View64, WordWidth};

pub use batch::Batch;
pub use readback::{Outcomes, Readback, Statistics};

use crate::error::{Error, SubmitError};
use crate::kernel::BufferId;
use crate::kernel::drain::{PassReport, PassRequest};
use crate::kernel::layout::{BufferKey, Layout};
use crate::kernel::{
    AssembleError, Assembled, Claim, Lifetime, Report, Spec, Telemetry, Tenant, TenantId, assemble,
};
use crate::payload::Submission;
use crate::protocol::slot::{GENERATION_MASK, WORDS};
use crate::protocol::{CompletionRecord, Opcode, Slot, control, priority};
use crate::session::{self, BufferMemories, PlaceMemory, check_payload};
use crate::telemetry::{self, LogPrinter};
use crate::workspace::{self, Element, PieceLocation, RegionView};
use batch::{BatchUses, priority_level};
use mirror::BufferMirror;
use payload::PlacedTasks;
use readback::RunWords;

/// The number of 64-bit words in a slot.
const LINE_WORDS: usize = WORDS / 2;

/// Positions stay below this limit, so that a kernel can count them in 32 bits.
const POSITION_LIMIT: u64 = 1 << 31;

/// A kernel that runs batches.
#[derive(Debug)]
pub struct Drain {
    device: Arc<dyn Device>,
    spec: Spec,
    layout: Layout,
    memories: BufferMemories,
    kernel: Arc<dyn Kernel>,
    launch: Launch,
    /// The index of the buffer of slots among the buffers of the launch.
    slots_buffer: Option<usize>,
    /// The memory to which slots of other batches are copied.
    slots: View64,
    /// What the host asks of a pass, and what the kernel reports after it.
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
    /// The number of slots in the last pass.
    last_count: usize,
    /// Whether the words that groups share are ready for the next pass.
    clean: bool,
    /// The slots of a run that takes several passes, in the order of the ring.
    staged: Vec<Line>,
    /// The payloads and replies of tasks, if they have any, and which task has which place.
    places: Option<PlaceMemory>,
    placed: PlacedTasks,
    readback: Readback,
    /// A token that distinguishes the batches of this drain from those of others.
    owner: Arc<()>,
}

impl Drain {
    /// Loads a kernel that runs batches. The lifetime and the placement of the `Spec` are ignored.
    pub fn new(device: &Arc<dyn Device>, spec: &Spec) -> Result<Drain, Error> {
        Drain::over(device, spec, |_| None)
    }

    /// Loads a kernel that runs batches over memory that somebody else lends for some of its regions.
    pub(crate) fn over(
        device: &Arc<dyn Device>,
        spec: &Spec,
        lent: impl Fn(BufferKey) -> Option<Memory>,
    ) -> Result<Drain, Error> {
        let spec = Spec { placement: None, ..spec.clone() }.lifetime(Lifetime::Drain);
        if spec.report == Report::Control && spec.telemetry == Telemetry::Off {
            let why = "the report contains only counters, and without telemetry there are none";
            return Err(AssembleError::Axis { axis: "telemetry", value: "off", why }.into());
        }
        let Assembled { module, layout } = assemble(&spec, device.caps())?;
        let kernel = device.load(&module, None, layout.lanes)?;
        let memories = BufferMemories::allocate_around(device, &layout, lent)?;
        session::fill_buffers(&spec, &layout, &memories, &[0])?;
        let view = |id: BufferId| memories.need(id)?.view64().ok_or(Error::Internal(id.row().names[0]));
        let done = memories.need(BufferId::BatchDone)?.view64().filter(|_| spec.report == Report::Full);
        let report_layout = PassReport::new(&layout);
        let places = PlaceMemory::new(&layout, &memories)?;
        Ok(Drain {
            device: device.clone(),
            launch: session::bind_buffers(&spec, &module, &layout, &memories),
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
            readback: Readback::new(&spec, &layout, done, places.clone())?,
            places,
            placed: PlacedTasks::default(),
            owner: Arc::default(),
            kernel,
            memories,
            layout,
            spec,
        })
    }

    /// Returns an empty batch in memory that the device reads, so that no run of this drain has to copy it. It has
    /// room for as many tasks as the ring has slots, and moves to ordinary memory if it gets more.
    pub fn batch(&self) -> Result<Batch, Error> {
        let words = self.layout.largest_stripe() as usize * LINE_WORDS;
        Ok(Batch::in_device_memory(self.device.alloc(MemoryKind::Host, WordWidth::W64, words)?, &self.owner))
    }

    /// Checks whether a run of this drain would accept a task of a tenant.
    ///
    /// # Errors
    ///
    /// The error with which [`Batch::push`] or a run would refuse the task.
    pub fn check_task(&self, tenant: TenantId, task: &impl Submission) -> Result<(), SubmitError> {
        check_payload(self.layout.places, task.payload())?;
        Batch::new().push(tenant, *task)
    }

    /// Runs a batch, and returns what came back.
    pub fn run(&mut self, batch: &Batch) -> Result<&Readback, Error> {
        self.run_all(std::slice::from_ref(batch))
    }

    /// Runs several batches as if they were one, and keeps their results apart.
    pub fn run_all(&mut self, batches: &[Batch]) -> Result<&Readback, Error> {
        let start = Instant::now();
        self.readback.clear();
        self.report_words.fill(0);
        self.check_tenants(batches)?;
        for batch in batches {
            check_payload(self.layout.places, batch.payloads().longest())?;
        }
        let uses = batches.iter().map(Batch::uses).fold(BatchUses::default(), BatchUses::union);
        uses.check_provided_ops(&self.layout)?;
        self.reset_buffers(uses)?;
        let total = self.stage_slots(batches)?;
        self.host.upload_changes()?;
        self.placed.set_order(&self.readback.order);
        let slots = self.layout.largest_stripe() as usize;
        let (mut from, mut passes) = (0, 0);
        while from < total {
            let to = total.min(from + slots);
            if total > slots {
                let lines = &self.staged[from..to];
                lines.iter().enumerate().for_each(|(at, line)| self.slots.write(at * LINE_WORDS, line));
            }
            if let Some(places) = &self.places {
                let ends = &self.readback.ends;
                self.placed.write_payloads(places, (batches, ends), (from, to - from));
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
        let steps = self.report_layout.steps.map(|first| &self.report_words[first as usize..shared]);
        let words = RunWords {
            host: self.host.words(),
            counters: &self.report_words[..row],
            faults: self.report_words[self.report_layout.faults as usize],
            steps,
            shared: &self.report_words[shared..],
            observables: &self.observables.words()[..self.layout.observable_count() as usize],
        };
        self.readback.finish_run(&self.spec, &self.layout, words, (passes, start.elapsed()));
        Ok(&self.readback)
    }

    /// Returns an error if a batch has tasks of an unknown tenant.
    fn check_tenants(&self, batches: &[Batch]) -> Result<(), Error> {
        let known = self.spec.tenants.iter().fold(0u32, |all, tenant| all | 1 << tenant.id);
        match batches.iter().map(|batch| batch.tenants() & !known).find(|unknown| *unknown != 0) {
            Some(unknown) => Err(Error::UnknownTenant(unknown.trailing_zeros())),
            None => Ok(()),
        }
    }

    /// Places the slots where the kernel reads them, in the order of the ring, and remembers the place of each. A
    /// single batch that already lies there in the right order is left alone. The slots of a run with several passes
    /// are kept aside.
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

    /// Places each slot into the part of the ring that belongs to its priority.
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

    /// Divides the ring into one part per priority, and returns where each part begins.
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

    /// Prepares the observables and the log for a new run. Buffers that the last run cannot have written are not
    /// written again.
    fn reset_buffers(&mut self, uses: BatchUses) -> Result<(), Error> {
        if !self.clean {
            // The last run failed or was ended early, so its counts must not be added to those of this run.
            for id in [BufferId::Rows, BufferId::Control] {
                let memory = self.memories.need(id)?;
                memory.upload(0, &vec![0u64; memory.len()])?;
            }
            self.upload_frontier()?;
        }
        self.log.fill_zero();
        self.log.upload_changes()?;
        if self.layout.observable_count() > 0 {
            // The host may have written the observables through a view.
            self.observables.mark_stale();
            self.observables.fill_zero();
            self.observables.upload_changes()?;
        }
        if uses.prints {
            self.log.mark_stale();
        }
        Ok(())
    }

    /// Sets the words by which groups claim windows to the first position of the next pass.
    fn upload_frontier(&self) -> Result<(), Error> {
        let mut front = [0; crate::kernel::STRIDE as usize];
        front[0] = self.next_position;
        Ok(self.memories.need(BufferId::Front)?.upload(0, &front)?)
    }

    /// Runs one pass over the first `count` slots and reads the report. `more` says that the next pass belongs to the
    /// same run.
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
            // Relaxed: the launch comes after these stores.
            line.iter().zip(request.words()).for_each(|(word, value)| word.store(value, Ordering::Relaxed));
        }
        self.next_position += u64::from(self.layout.largest_stripe());
        (self.last_count, self.clean) = (count, false);
        let ended = self.kernel.run(&self.launch)?;
        if ended.outcome != LaunchOutcome::Done {
            return Err(Error::CutShort(ended.outcome));
        }
        for (word, reported) in self.report_words.iter_mut().zip(self.report.iter()) {
            // Relaxed: the launch has ended.
            *word = reported.load(Ordering::Relaxed);
        }
        self.clean = !more;
        Ok(())
    }

    /// Returns how many tasks a group takes at once. On a device with memory of its own, windows are small enough that
    /// every group gets some, but not smaller than the slots that the lanes of a group fetch at once, with four lanes
    /// per slot.
    fn window_size(&self, count: usize) -> u32 {
        let most = self.layout.window;
        if !self.layout.remote {
            return most;
        }
        let least = (self.layout.lanes / 4).max(1);
        (count as u32).div_ceil(self.layout.groups).next_multiple_of(least).min(most)
    }

    /// Returns the generation of the next pass.
    fn next_generation(&self) -> u32 {
        (self.next_position / u64::from(self.layout.largest_stripe())) as u32
    }

    /// Starts counting positions from 0 again, and clears what earlier passes left behind.
    fn rewind_positions(&mut self) -> Result<(), Error> {
        let zeros = vec![0u64; self.layout.largest_stripe() as usize];
        self.memories.need(BufferId::Marks)?.upload(0, &zeros)?;
        self.memories.need(BufferId::BatchDone)?.upload(0, &zeros)?;
        if let Some(places) = &self.places {
            places.forget_replies();
        }
        self.next_position = 0;
        self.upload_frontier()
    }

    /// Returns what came back from the last run.
    pub fn readback(&self) -> &Readback {
        &self.readback
    }

    /// Returns the lines that tasks of the last run printed, in order.
    pub fn log(&self) -> Result<Vec<String>, Error> {
        Ok(telemetry::read_log(&self.printer, &self.memories, 0)?.0)
    }

    /// Returns the slots of the last pass with their final statuses. The slots of a batch in memory that the device
    /// reads are returned as they are now.
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

    /// Returns the memory of the kernel.
    pub(crate) fn memories(&self) -> &BufferMemories {
        &self.memories
    }

    /// Returns the `Spec` of the kernel.
    pub fn spec(&self) -> &Spec {
        &self.spec
    }

    /// Looks up the opcode of a handler, or of a built-in operation, by its name. Look it up once, and make any number of tasks with it. An
    /// unknown name is [`Error::UnknownOpcode`], which says which known name is nearest.
    pub fn opcode(&self, name: &str) -> Result<Opcode, Error> {
        Ok(self.spec.opcode(name)?)
    }

    /// Returns the layout of the kernel's memory.
    pub fn layout(&self) -> &Layout {
        &self.layout
    }

    /// Returns a view of a tenant's piece of a region, or of its observables if the name is `observable`.
    pub fn view<T: Element>(&self, tenant: TenantId, region: &str) -> Result<RegionView<'_, T>, Error> {
        workspace::open_view(&self.memories, &self.layout, tenant, region)
    }

    /// Returns the place, the length and the type of a tenant's piece of a region.
    pub fn piece(&self, tenant: TenantId, region: &str) -> Result<PieceLocation, Error> {
        workspace::find_piece(&self.layout, tenant, region)
    }

    /// Sets which opcodes a tenant may use from the next run on: bit i allows opcode i, and bit 31 allows all opcodes
    /// from 31 on. 0 disables the tenant.
    pub fn set_mask(&mut self, tenant: TenantId, mask: u32) -> Result<(), Error> {
        self.set_control_word(tenant, control::MASKS, mask)
    }

    /// Allows a tenant only these opcodes from the next run on. All opcodes from 31 on share one bit, so allowing one
    /// of them allows them all. An empty list disables the tenant.
    pub fn allow(&mut self, tenant: TenantId, ops: &[Opcode]) -> Result<(), Error> {
        self.set_mask(tenant, Opcode::mask_of(ops))
    }

    /// Sets how many tasks a tenant may run in each run, from the next run on. 0 means no limit.
    ///
    /// # Errors
    ///
    /// Returns [`Error::TooMuchCredit`] if the quota is greater than [`Tenant::MAX_QUOTA`](crate::Tenant::MAX_QUOTA).
    pub fn set_quota(&mut self, tenant: TenantId, quota: u32) -> Result<(), Error> {
        if quota > Tenant::MAX_QUOTA {
            return Err(Error::TooMuchCredit { tenant, credit: quota.into() });
        }
        self.set_control_word(tenant, control::QUOTAS, session::quota_word(session::quota_limit(quota)))
    }

    fn set_control_word(&mut self, tenant: TenantId, table: u32, value: u32) -> Result<(), Error> {
        if !self.spec.tenants.iter().any(|t| t.id == tenant) {
            return Err(Error::UnknownTenant(tenant));
        }
        self.host.set_word((table + tenant) as usize, value);
        Ok(())
    }
}
