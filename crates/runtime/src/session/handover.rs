//! Hand-over: a session goes on with another kernel, over the same rings and the same memory.
//!
//! This is how a session changes its handlers, its [size](super::resize) or its [device](super::move_to) while producers
//! submit tasks and tickets wait. The kernel that runs is told to take no more tasks, finishes those that it has taken, and
//! ends. Then the next kernel is launched over the same rings. No task is lost, runs twice or runs out of order, and all that
//! producers and tickets can notice is a longer wait.
//!
//! **Before the pause.** As much as possible is done while the old kernel still runs: the next one is checked, assembled
//! and compiled, and memory is allocated. If any of this fails, the session stays as it was.
//!
//! **The pause.** Once the old kernel was told to end, it can at most be launched again. The session waits for its end, loads
//! the next kernel if the device could not do so while another one was resident, and launches it. If that fails, it launches the
//! old kernel again. If that fails too, the device is of no use any more, and the session ends like one whose device is
//! lost.
//!
//! **What stays where it is.** Unless the session moves, everything that outlasts a task does: rings, records and control words, and in the device's
//! memory the cells with their frames, queues, events, graphs, quotas, counters and the workspace. A group that ends puts
//! the cells that it has at home into the queues. Only the frames of resumable tasks and the counters may need other memory,
//! because their size depends on the handlers and on the number of groups. Their content is copied in the pause. An opcode
//! keeps its column of the counters, even if its handler is removed. [`resize`](super::resize) says what another number of
//! groups means.
//!
//! **Where the next run begins.** The next kernel has to know up to which position of each stripe tasks were taken. In a
//! far ring, the position up to which groups have claimed tasks lies in the device's memory. A group of a near ring keeps
//! its position to itself, so it is lost with the group, and the host has to find it:
//!
//! - If no fence can wait for cells, every task that was taken has a record once the kernel has ended. So the host looks for
//!   the first task without one.
//! - If fences can wait for cells, a fence may have no record although tasks behind it have. But in such kernels, groups
//!   note in the device's memory where each window that they take begins and ends. These marks form a chain from one
//!   window to the next, and the host follows it to its end.
//!
//! **Tasks that are under way.** A task that has not begun runs with the code that its opcode has when it begins. A plain
//! task that has begun ends before the old kernel does. A resumable task that has begun may still have steps to take. If
//! its handler is replaced, either the new version [takes over](crate::Handler::takes_over()) the task, or the hand-over
//! waits until the task has ended, and is refused if the deadline passes first. If its handler is removed, the task ends
//! with the fault UNKNOWN at its next step. The opcode of a removed handler is never given to another one in the same
//! session, so a task never runs code that it was not meant for. A task of an opcode that had no handler when it was
//! submitted has no cell, and ends with the fault MALFORMED if a resumable handler gets that opcode before it begins.

use std::sync::{Arc, PoisonError};

use pelton_device::{CompiledKernel, Device, Launch};

use super::Session;
use super::fill::fill_next_run;
use super::kernel::SessionKernel;
use super::launch::bind_buffers;
use super::left::claimed_positions;
use super::memory::BufferMemories;
use super::move_to::{copy_to_device, is_same_block};
use super::resize::{changes_shape, copy_counters, next_geometry};
use super::rings::Rings;
use super::running::{PauseEnd, residence_of};
use crate::deadline::{Deadline, PollBackoff};
use crate::error::{Error, HandOverError};
use crate::kernel::cells::{cell_fact, cell_state};
use crate::kernel::fence::end_of_marks;
use crate::kernel::layout::BufferKey;
use crate::kernel::steps::frame_index;
use crate::kernel::{
    Assembled, BufferId, Geometry, Handler, Layout, NamedHandler, Placement, PreviousKernel, STRIDE,
    SlotBody, Spec, assemble_after,
};
use crate::protocol::{Opcode, slot};

impl Session {
    /// Adds a handler to the session while its kernel runs, and returns the opcode of its tasks. The opcode is the lowest one
    /// that no handler of this session has ever had.
    ///
    /// Like every hand-over, this waits until the tasks that the kernel has taken have ended or reached the end of a step.
    ///
    /// ```
    /// use std::time::Duration;
    /// use pelton::{Handler, Session, Spec, Task, device};
    ///
    /// let session = Session::launch(&device::open("cpu")?, &Spec::default())?;
    /// let double = session.install("double", Handler::lane_wide(|task| task.finish(task.arg(0) * 2)))?;
    /// let mut producer = session.producer(0)?;
    /// assert_eq!(producer.submit(Task::new(double).args([21]))?.wait(Duration::from_secs(60))?, 42);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    ///
    /// [`Error::HandOver`] if the session has a handler of this name, or has no room for the tasks of the new one;
    /// [`Error::Refused`] if the handler cannot be assembled; [`Error::Device`] if the device cannot load or launch the new
    /// kernel. In all these cases the session goes on with the kernel that it has. [`Error::Ended`] if the session has ended,
    /// or ends now because the device is lost.
    pub fn install(&self, name: impl Into<String>, handler: Handler) -> Result<Opcode, Error> {
        let name = name.into();
        let mut installed = Opcode::NOP;
        self.change_kernel(Deadline::Now, |kernel| {
            if kernel.spec.handlers.iter().any(|known| known.name == name) {
                return Err(HandOverError::NameTaken { name });
            }
            let op = Opcode::lowest_free(kernel.layout.ops.iter().copied());
            installed = op.ok_or_else(|| HandOverError::NoOpcode { name: name.clone() })?;
            Ok(Spec::clone(&kernel.spec).handler_at(installed, name, handler))
        })?;
        // Another thread may have removed the handler since, so its name is not looked up.
        Ok(installed)
    }

    /// Replaces a handler of the session while its kernel runs. The opcode stays the same. Tasks that have not begun run
    /// with the new version.
    ///
    /// Resumable tasks that have begun go on with the new version if it [takes over](Handler::takes_over()). If it does not,
    /// this call waits until all of them have ended, for as long as the deadline allows. The old version keeps running
    /// meanwhile, so producers should submit no more tasks of this handler until the call returns.
    ///
    /// # Errors
    ///
    /// [`Error::HandOver`] if there is no such handler, if only one of the two versions is resumable, or if tasks that have
    /// begun with the old version are still under way when the deadline passes. Other errors are those of
    /// [`install`](Session::install).
    pub fn replace(&self, name: &str, handler: Handler, deadline: impl Into<Deadline>) -> Result<(), Error> {
        self.change_kernel(deadline.into(), |kernel| {
            let mut spec = Spec::clone(&kernel.spec);
            let at = find_handler(&spec, name)?;
            spec.handlers[at] = NamedHandler::new(spec.handlers[at].op, name.into(), handler);
            Ok(spec)
        })
    }

    /// Removes a handler from the session while its kernel runs. Tasks of its opcode end with the fault UNKNOWN from then on,
    /// and so do its resumable tasks that have begun, at their next step.
    ///
    /// # Errors
    ///
    /// [`Error::HandOver`] if there is no such handler. Other errors are those of [`install`](Session::install).
    pub fn remove(&self, name: &str) -> Result<(), Error> {
        self.change_kernel(Deadline::Now, |kernel| {
            let mut spec = Spec::clone(&kernel.spec);
            let at = find_handler(&spec, name)?;
            spec.handlers.remove(at);
            Ok(spec)
        })
    }

    /// Gives the session the handlers, the libraries, the fuel and the size of another `Spec` while its kernel runs.
    ///
    /// Handlers are matched by their names. A handler that the session has already keeps its opcode, whatever opcode the
    /// `Spec` gives it, and is replaced if it differs. A handler that the `Spec` does not have is removed. If nothing differs,
    /// the same kernel is launched again.
    ///
    /// The size is the number of groups in the `Spec`, or the share of the device if it names none. See
    /// [`resize`](Session::resize) for what a session with near rings can have.
    ///
    /// The deadline limits how long this call waits for resumable tasks that have begun, as in [`replace`](Session::replace).
    ///
    /// # Errors
    ///
    /// [`Error::HandOver`] if the `Spec` differs in anything else. Other errors are those of [`replace`](Session::replace).
    pub fn hand_over(&self, next: &Spec, deadline: impl Into<Deadline>) -> Result<(), Error> {
        self.change_kernel(deadline.into(), |kernel| {
            check_axes(&kernel.spec, next)?;
            let mut used = kernel.layout.ops.clone();
            let mut spec = Spec { handlers: Vec::new(), ..next.clone() };
            for NamedHandler { op, name, handler } in &next.handlers {
                let known = kernel.spec.handlers.iter().find(|known| known.name == *name);
                let own = Some(*op).filter(|op| !used.contains(op));
                let free = || own.or_else(|| Opcode::lowest_free(used.iter().copied()));
                let op = known.map(|known| known.op).or_else(free);
                let op = op.ok_or_else(|| HandOverError::NoOpcode { name: name.clone() })?;
                used.push(op);
                spec = spec.handler_at(op, name.clone(), handler.clone());
            }
            Ok(spec)
        })
    }

    /// Hands the session over to the kernel of another `Spec`, which `next` makes from the present kernel.
    pub(super) fn change_kernel(
        &self,
        deadline: Deadline,
        next: impl FnOnce(&SessionKernel) -> Result<Spec, HandOverError>,
    ) -> Result<(), Error> {
        let deadline = deadline.started();
        let mut backoff = PollBackoff::default();
        let _one_at_a_time = self.hand_over.lock().unwrap_or_else(PoisonError::into_inner);
        self.check_running()?;
        let mut old = self.kernel();
        let next = next(&old)?;
        if next == *old.spec {
            return self.running.pause_and_launch(None).map(|_| ());
        }
        let mut planned = PlannedKernel::new(&old, next.clone())?;
        loop {
            // Begun tasks are counted before the pause too, so that the kernel is not stopped in vain.
            let changed = match planned.check_begun_tasks(&old) {
                Ok(()) => self.running.pause_and_launch(Some(&planned)),
                Err(begun) => Err(begun),
            };
            match changed {
                Err(Error::HandOver(HandOverError::BegunTasks { .. })) if !deadline.has_passed() => {
                    backoff.pause()
                }
                Ok(PauseEnd::Recovered) => {
                    old = self.kernel();
                    planned = PlannedKernel::new(&old, next.clone())?;
                }
                ended => return ended.map(|_| ()),
            }
        }
    }
}

/// A kernel that is to follow another one, as far as it can be made while that one runs.
pub(super) struct PlannedKernel {
    /// The kernel that it is to follow.
    pub follows: Arc<SessionKernel>,
    pub device: Arc<dyn Device>,
    pub spec: Arc<Spec>,
    pub geometry: Geometry,
    pub assembled: Assembled,
    pub stand_ins: Vec<NamedHandler>,
    pub compiled: CompiledKernel,
    /// The memory of the kernel. Buffers that have to grow have new memory, whose content is not copied yet.
    pub memories: BufferMemories,
    /// The new versions of handlers that do not take over the tasks that the old ones have begun.
    pub fresh_versions: Vec<NamedHandler>,
    /// Whether the kernel runs on another device than the old one.
    pub moves: bool,
}

impl PlannedKernel {
    /// Checks, assembles and compiles a kernel that is to follow another one, and allocates its memory.
    fn new(old: &Arc<SessionKernel>, spec: Spec) -> Result<Self, Error> {
        let gone = old.spec.handlers.iter().filter(|known| spec.handlers.iter().all(|h| h.op != known.op));
        let gone = gone.filter(|known| old.layout.resumable_ops.contains(&known.op));
        let stand_ins: Vec<_> =
            old.stand_ins.iter().cloned().chain(gone.map(NamedHandler::stand_in)).collect();
        let geometry = next_geometry(old, &spec)?;
        let fitted =
            Spec { geometry: geometry.clone(), placement: Some(old.layout.placement()), ..spec.clone() };
        let previous = PreviousKernel { layout: &old.layout, stand_ins: &stand_ins };
        let assembled = assemble_after(Some(previous), &fitted, old.device.caps())?;
        check_room((&old.spec, &old.layout), (&spec, &assembled.layout))?;
        let fresh_versions = find_fresh_versions(old, &spec, &assembled.layout)?;
        let compiled = old.device.compile(&assembled.module, None, assembled.layout.lanes)?;
        // If the next kernel cannot be launched, the old one goes on with what it has.
        let renewed =
            |key| matches!(key, BufferKey::Kernel(id) if changes_shape(id, &old.layout, &assembled.layout));
        let memories = old.memories.for_layout(&old.device, &assembled.layout, renewed)?;
        let spec = Arc::new(spec);
        let (follows, device, moves) = (old.clone(), old.device.clone(), false);
        Ok(PlannedKernel {
            follows,
            device,
            spec,
            geometry,
            assembled,
            stand_ins,
            compiled,
            memories,
            fresh_versions,
            moves,
        })
    }

    /// Checks that no task is under way that has begun with a handler whose new version does not take over.
    fn check_begun_tasks(&self, old: &SessionKernel) -> Result<(), Error> {
        if self.fresh_versions.is_empty() {
            return Ok(());
        }
        let words = |id| old.memories.download_words(id);
        let (states, lines, facts) =
            (words(BufferId::CellStates)?, words(BufferId::CellLines)?, words(BufferId::CellFacts)?);
        let (line, fact) = (slot::WORDS / 2, cell_fact::WORDS as usize);
        for NamedHandler { op, name, .. } in &self.fresh_versions {
            let begun = states.iter().enumerate().filter(|(cell, state)| {
                **state & cell_state::PHASE != cell_state::ENDED
                    && (lines[cell * line] >> 32) as u32 == op.code()
                    && facts[cell * fact + cell_fact::STEPS as usize] != 0
            });
            match begun.count() as u64 {
                0 => {}
                tasks => return Err(HandOverError::BegunTasks { name: name.clone(), tasks }.into()),
            }
        }
        Ok(())
    }

    /// Prepares the launch of the kernel, after the old one has ended. If this fails, the old one can still be launched again.
    pub(super) fn prepare(&self, rings: &Rings, old: &SessionKernel) -> Result<SessionKernel, Error> {
        self.check_begun_tasks(old)?;
        let Assembled { module, layout } = &self.assembled;
        let loaded = self.compiled.load()?;
        if self.moves {
            copy_to_device(rings, old, layout, &self.memories)?;
        }
        copy_counters(old, layout, &self.memories)?;
        copy_frames(old, layout, &self.memories)?;
        // On another device, the kernel has other room. The old room stays reserved in case that it is needed again.
        let residence = if self.moves { Some(residence_of(rings)) } else { old.launch.residence.clone() };
        let kernel = SessionKernel {
            device: self.device.clone(),
            spec: self.spec.clone(),
            layout: Arc::new(layout.clone()),
            memories: self.memories.clone(),
            geometry: self.geometry.clone(),
            stand_ins: self.stand_ins.clone(),
            loaded,
            launch: Launch { residence, ..bind_buffers(&self.spec, module, layout, &self.memories) },
        };
        begin_next_run(rings, &kernel)?;
        Ok(kernel)
    }
}

/// Finds a handler by its name.
fn find_handler(spec: &Spec, name: &str) -> Result<usize, HandOverError> {
    let found = spec.handlers.iter().position(|known| known.name == name);
    found.ok_or_else(|| HandOverError::UnknownHandler { name: name.into() })
}

/// Finds the resumable handlers whose new versions do not take over the tasks that the old ones have begun, and checks that
/// no handler becomes resumable or ceases to be.
fn find_fresh_versions(
    old: &SessionKernel,
    spec: &Spec,
    layout: &Layout,
) -> Result<Vec<NamedHandler>, HandOverError> {
    let mut fresh = Vec::new();
    for next in &spec.handlers {
        let Some(known) = old.spec.handlers.iter().find(|known| known.op == next.op) else { continue };
        let resumable = layout.resumable_ops.contains(&next.op);
        if resumable != old.layout.resumable_ops.contains(&next.op) {
            return Err(HandOverError::ResumableDiffers { name: next.name.clone(), resumable });
        }
        // A handler may call functions of a library, so with other libraries it is another version.
        let same = next.handler.clone().takes_over(known.takes_over) == known.handler
            && spec.libraries == old.spec.libraries;
        if resumable && !same && !next.takes_over {
            fresh.push(next.clone());
        }
    }
    Ok(fresh)
}

/// Checks that a `Spec` differs from that of a session only in what a session can change.
fn check_axes(old: &Spec, next: &Spec) -> Result<(), HandOverError> {
    macro_rules! keeps_geometry {
        ($($field:ident)*) => {
            let Geometry { groups: _, $($field),* } = next.geometry;
            $(if old.geometry.$field != $field {
                return Err(HandOverError::Axis { axis: concat!("geometry.", stringify!($field)) });
            })*
        };
    }
    keeps_geometry! { slots lanes window }
    macro_rules! keeps {
        ($($axis:ident)*) => {
            let Spec { handlers: _, libraries: _, fuel: _, share: _, geometry: _, $($axis),* } = next;
            $(if old.$axis != *$axis {
                return Err(HandOverError::Axis { axis: stringify!($axis) });
            })*
        };
    }
    keeps! {
        lifetime placement claim body io report telemetry recovery order lease max_steps cells spawn_cells events
        graph_instances graph_nodes payload reply regions tenants formats graphs
    }
    Ok(())
}

/// Checks that a session has room for the tasks of the handlers of a kernel that is to follow another one.
fn check_room((old_spec, old): (&Spec, &Layout), (spec, new): (&Spec, &Layout)) -> Result<(), HandOverError> {
    // A handler that spawns tasks is resumable too.
    let is_new =
        |next: &&NamedHandler| new.resumable_ops.contains(&next.op) && !old_spec.handlers.contains(next);
    let name = || spec.handlers.iter().find(is_new).map(|handler| handler.name.clone()).unwrap_or_default();
    if old.trees != new.trees {
        return Err(HandOverError::NoSpawnCells { name: name() });
    }
    if old.steps.is_none() && new.steps.is_some() {
        return Err(HandOverError::NoCells { name: name() });
    }
    Ok(())
}

/// Copies the frames of all cells, if they lie elsewhere in the next kernel.
fn copy_frames(old: &SessionKernel, layout: &Layout, memories: &BufferMemories) -> Result<(), Error> {
    let Some(from) = old.layout.steps.filter(|steps| steps.frame_words > 0) else { return Ok(()) };
    let (before, after) = (old.memories.need(BufferId::Frames)?, memories.need(BufferId::Frames)?);
    if is_same_block(before, after) {
        return Ok(());
    }
    let (mut words, mut grown) = (vec![0u32; before.len()], vec![0u32; after.len()]);
    before.download(0, &mut words)?;
    for cell in 0..layout.cell_count() {
        for word in 0..from.frame_words {
            grown[frame_index(layout, (cell, word))] = words[frame_index(&old.layout, (cell, word))];
        }
    }
    Ok(after.upload(0, &grown)?)
}

/// Fills the buffers that say where the next run begins.
pub(super) fn begin_next_run(rings: &Rings, kernel: &SessionKernel) -> Result<(), Error> {
    let starts = taken_positions(rings, kernel)?;
    fill_next_run(&kernel.spec, &kernel.layout, &kernel.memories, &starts)
}

/// Returns the position up to which a kernel that has ended has taken tasks, for each stripe.
fn taken_positions(rings: &Rings, kernel: &SessionKernel) -> Result<Vec<u64>, Error> {
    let mut positions: Vec<u64> = Vec::with_capacity(kernel.layout.stripe_count() as usize);
    for bank in kernel.layout.banks.iter() {
        let stripes = bank.first_stripe as usize..(bank.first_stripe + bank.stripe_count()) as usize;
        // Fused kernels have no fences, so their windows leave no marks.
        let marks = kernel.memories.get(BufferKey::Kernel(BufferId::NearMarks));
        let marks = marks.filter(|_| kernel.spec.body != SlotBody::Fused);
        match (bank.placement, marks) {
            // A kernel that has ended has posted the records of all tasks that it has taken, and has taken them in order, so it
            // has taken none from the first one without a record on.
            (Placement::Near, None) => {
                positions.extend(rings.stripes[stripes].iter().map(|stripe| stripe.first_unfinished()));
            }
            (Placement::Near, Some(_)) => {
                let marks = kernel.memories.download_words(BufferId::NearMarks)?;
                let fronts = kernel.memories.download_words(BufferId::NearFront)?;
                let marks = marks.chunks(bank.stripe_slots() as usize);
                let fronts = fronts.chunks(STRIDE as usize).map(|front| front[0]);
                positions.extend(marks.zip(fronts).map(|(marks, front)| end_of_marks(marks, front)));
            }
            (_, _) => positions.extend(claimed_positions(kernel)?),
        }
    }
    Ok(positions)
}
