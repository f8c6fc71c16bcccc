//! How kernels that stay on a device let others load code there.
//!
//! Some devices load code only while no kernel runs on them, as GPUs do. A kernel that stays would keep everybody else from
//! loading for as long as it runs. So the launch of such a kernel brings a [`Residence`]. When somebody wants to load code,
//! the device asks the kernel's owner through it to make way: to let the kernel end soon, and to launch it again at once. The
//! device holds the second launch back until the code is loaded.
//!
//! Meanwhile, the room that the kernel had on the device stays reserved, so that the second launch finds it. The owner says so
//! [before](Residence::keep_room) it lets the kernel end. Any launch with the same residence takes the room over, also that of
//! another kernel. If the owner [gives the room up](Residence::give_up_room) or drops the residence, the room is free, and so it
//! is if a kernel ends by itself.

use std::any::Any;
use std::fmt;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// The room that a device reserves for the next launch. It is free when this is dropped.
pub(crate) type ReservedRoom = Box<dyn Any + Send>;

/// The right of a kernel that stays to its room on a device, and the way to ask its owner to make way. All launches that
/// follow each other in this room have the same residence. See the [module](self).
pub struct Residence {
    make_way: Box<dyn Fn() + Send + Sync>,
    /// Whether the room is reserved when a launch ends.
    keeps_room: AtomicBool,
    /// Whether launches that wait are given up.
    cancelled: AtomicBool,
    reserved: Mutex<Option<ReservedRoom>>,
}

impl Residence {
    /// Makes a residence. A device calls `make_way` when somebody wants to load code, from any thread and at most once per
    /// launch. The call must return at once: another thread then lets the kernel end, and launches it again.
    pub fn new(make_way: impl Fn() + Send + Sync + 'static) -> Self {
        Residence {
            make_way: Box::new(make_way),
            keeps_room: AtomicBool::new(false),
            cancelled: AtomicBool::new(false),
            reserved: Mutex::new(None),
        }
    }

    /// Reserves the room of the launch that is under way for the next one, from the moment at which it ends. The owner calls
    /// this before it lets the kernel end.
    pub fn keep_room(&self) {
        // Relaxed: the owner sees the end of the launch later, and whoever looks at this does so in between or before.
        self.keeps_room.store(true, Ordering::Relaxed);
    }

    /// Reserves nothing any more, and frees what is reserved. The owner calls this when the next launch has started, or when
    /// there will be none.
    pub fn give_up_room(&self) {
        self.keeps_room.store(false, Ordering::Relaxed);
        drop(self.take_reserved());
    }

    /// Lets a launch be refused that waits until others have loaded, and all launches with this residence that come after it.
    pub fn cancel(&self) {
        self.cancelled.store(true, Ordering::Relaxed);
    }

    /// Whether room is reserved when a launch ends.
    pub(crate) fn keeps_room(&self) -> bool {
        self.keeps_room.load(Ordering::Relaxed)
    }

    /// Whether launches that wait are to be refused.
    pub(crate) fn is_cancelled(&self) -> bool {
        self.cancelled.load(Ordering::Relaxed)
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
