//! What compiled code and this crate share: the context that a group runs with, and the functions that compiled code calls.
//!
//! Compiled code has the signature of [`GroupEntry`]. It reads the context's fields by their offsets, runs the group, and
//! returns a [`GroupExit`].

use std::mem::offset_of;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Instant;

use super::rest::GroupRest;
use super::run::CpuLaunch;

/// The type of a compiled kernel, which runs one group and returns a [`GroupExit`] as a number.
pub(super) type GroupEntry = unsafe extern "C" fn(*const GroupContext) -> u32;

/// How a group ended.
#[allow(missing_docs)]
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u32)]
pub(super) enum GroupExit {
    Done = 0,
    Stopped = 1,
    Trapped = 2,
}

/// A buffer with the memory that is bound to it.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub(super) struct BoundBuffer {
    /// The first word of the memory.
    pub start: *const u8,
    /// How many words the memory has.
    pub len: u64,
}

/// The context that compiled code runs a group with.
#[repr(C)]
pub(super) struct GroupContext {
    /// The buffers in the order of the module; shared ones lie in the scratch.
    pub buffers: *const BoundBuffer,
    /// The group's own memory: sinks, homes and shared buffers.
    pub scratch: *mut u8,
    /// The stop word of the launch.
    pub stop: *const AtomicU32,
    /// The number of the group.
    pub group: u32,
    /// How many groups the launch has.
    pub groups: u32,
    /// The launch that the group belongs to.
    pub run: *const CpuLaunch,
    /// What the group remembers from one `backoff` to the next.
    pub rest: GroupRest,
}

/// The offsets of fields that compiled code reads.
#[allow(missing_docs)]
pub(super) mod offset {
    use super::{BoundBuffer, GroupContext, offset_of};
    pub(crate) const BUFFERS: i32 = offset_of!(GroupContext, buffers) as i32;
    pub(crate) const SCRATCH: i32 = offset_of!(GroupContext, scratch) as i32;
    pub(crate) const STOP: i32 = offset_of!(GroupContext, stop) as i32;
    pub(crate) const GROUP: i32 = offset_of!(GroupContext, group) as i32;
    pub(crate) const GROUPS: i32 = offset_of!(GroupContext, groups) as i32;
    pub(crate) const SLOT: i32 = size_of::<BoundBuffer>() as i32;
    pub(crate) const SLOT_LEN: i32 = offset_of!(BoundBuffer, len) as i32;
}

/// Implements `backoff`.
///
/// # Safety
/// Called by compiled code with the context it was given.
pub(super) unsafe extern "C" fn backoff(context: *const GroupContext, lane: u32, ns: u32) {
    // SAFETY: the context outlives the group's run, and only this thread uses its cells.
    let context = unsafe { &*context };
    // SAFETY: the launch outlives its groups.
    let run = unsafe { &*context.run };
    context.rest.back_off((&run.event, &run.sleep), lane, ns);
}

/// Implements `wake`.
///
/// # Safety
/// Called by compiled code with the context it was given.
pub(super) unsafe extern "C" fn wake(context: *const GroupContext) {
    // SAFETY: context and launch outlive the group's run.
    unsafe { (*(*context).run).event.wake() }
}

/// Implements `clock`.
///
/// # Safety
/// Called by compiled code with the context it was given.
pub(super) unsafe extern "C" fn clock(context: *const GroupContext) -> u64 {
    // SAFETY: context and launch outlive the group's run.
    let start: Instant = unsafe { (*(*context).run).start };
    start.elapsed().as_nanos() as u64
}

/// Implements `fault`.
///
/// # Safety
/// Called by compiled code with the context it was given.
pub(super) unsafe extern "C" fn fault(context: *const GroupContext, code: u32, inst: u32) {
    // SAFETY: context and launch outlive the group's run.
    unsafe { (*(*context).run).record(code, inst) }
}

/// Implements `trap`.
///
/// # Safety
/// Called by compiled code with the context it was given.
pub(super) unsafe extern "C" fn trap(context: *const GroupContext, code: u32, inst: u32) {
    // SAFETY: context and launch outlive the group's run.
    unsafe { (*(*context).run).trap(code, inst) }
}

impl GroupContext {
    /// A context for the groups of a launch that one thread runs, one after the other.
    pub(super) fn new(run: &Arc<CpuLaunch>, buffers: &[BoundBuffer], scratch: *mut u8) -> Self {
        GroupContext {
            buffers: buffers.as_ptr(),
            scratch,
            stop: run.stop.word(),
            group: 0,
            groups: run.groups,
            run: Arc::as_ptr(run),
            rest: GroupRest::default(),
        }
    }

    /// Whether the launch was asked to end.
    pub(super) fn stopped(&self) -> bool {
        // SAFETY: the launch outlives its groups.
        unsafe { (*self.stop).load(Ordering::Relaxed) != 0 }
    }
}

impl Drop for GroupContext {
    fn drop(&mut self) {
        // SAFETY: the launch outlives its groups.
        self.rest.cancel(unsafe { &(*self.run).event });
    }
}
