//! How kernels that stay on a device let others load code there.
//!
//! Some devices load code only while no kernel runs on them, as GPUs do. A kernel that stays would keep everybody else from
//! loading for as long as it runs. So the launch of such a kernel brings a [`Residence`]. When somebody wants to load code,
//! the device asks the kernel's owner through it to make way: to let the kernel end soon, and to launch it again at once. The
//! device holds the second launch back until the code is loaded.
//!
//! Meanwhile, the room that the kernel had on the device stays reserved, so that the second launch finds it. Any launch with
//! the same residence takes the room over, also that of another kernel. If the residence is dropped, the room is free.

use std::any::Any;
use std::fmt;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// The room that a device reserves for the next launch. It is free when this is dropped.
pub(crate) type ReservedRoom = Box<dyn Any + Send>;

/// The right of a kernel that stays to its room on a device, and the way to ask its owner to make way. All launches that
/// follow each other in this room have the same residence. See the [module](self).
pub struct Residence {
    make_way: Box<dyn Fn() + Send + Sync>,
    reserved: Mutex<Option<ReservedRoom>>,
}

impl Residence {
    /// Makes a residence. A device calls `make_way` when somebody wants to load code, from any thread and at most once per
    /// launch. The call must return at once: another thread then lets the kernel end, and launches it again.
    pub fn new(make_way: impl Fn() + Send + Sync + 'static) -> Self {
        Residence { make_way: Box::new(make_way), reserved: Mutex::new(None) }
    }

    fn lock(&self) -> MutexGuard<'_, Option<ReservedRoom>> {
        self.reserved.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Asks the owner of the kernel to make way.
    pub(crate) fn ask(&self) {
        (self.make_way)();
    }

    /// Reserves the room of a launch that has ended for the next one.
    pub(crate) fn reserve(&self, room: ReservedRoom) {
        let earlier = self.lock().replace(room);
        drop(earlier);
    }

    /// Takes what is reserved for the next launch.
    pub(crate) fn take_reserved(&self) -> Option<ReservedRoom> {
        self.lock().take()
    }
}

impl fmt::Debug for Residence {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Residence").finish_non_exhaustive()
    }
}
