//! Ctrl-C as a stop word.

use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};

use crate::Status;
use crate::error::Error;

static STOP: AtomicU32 = AtomicU32::new(0);
static LISTENS: AtomicBool = AtomicBool::new(false);

/// From now on Ctrl-C sets this word, which ends a kernel at its next back-edge; a second Ctrl-C ends the program.
pub fn word() -> Result<&'static AtomicU32, Error> {
    if LISTENS.swap(true, Ordering::Relaxed) {
        return Ok(&STOP);
    }
    ctrlc::set_handler(|| {
        // Relaxed: the word orders nothing, it only has to be seen.
        if STOP.swap(1, Ordering::Relaxed) != 0 {
            std::process::exit(Status::Interrupted as i32);
        }
    })?;
    Ok(&STOP)
}

/// Whether Ctrl-C was pressed.
pub fn pressed() -> bool {
    STOP.load(Ordering::Relaxed) != 0
}
