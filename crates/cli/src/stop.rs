//! Ctrl-C, which sets a stop word that kernels and commands look at.

use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::time::{Duration, Instant};

use pelton_device::{LaunchEnd, Run};

use crate::CliStatus;
use crate::error::CliError;
use crate::term::Term;

/// The time between two looks for Ctrl-C while waiting for something else.
const GLANCE: Duration = Duration::from_millis(20);

static STOP: AtomicU32 = AtomicU32::new(0);
static LISTENS: AtomicBool = AtomicBool::new(false);

/// Starts listening for Ctrl-C, and returns the word that it sets. A kernel ends at its next back-edge once the
/// word is set; a second Ctrl-C ends the program.
pub(crate) fn listen() -> Result<&'static AtomicU32, CliError> {
    if LISTENS.swap(true, Ordering::Relaxed) {
        return Ok(&STOP);
    }
    ctrlc::set_handler(|| {
        // Relaxed: the word orders nothing, it only has to be seen.
        if STOP.swap(1, Ordering::Relaxed) != 0 {
            std::process::exit(CliStatus::Interrupted as i32);
        }
    })?;
    Ok(&STOP)
}

/// Fails if Ctrl-C was pressed.
pub(crate) fn unless_pressed() -> Result<(), CliError> {
    if pressed() { Err(CliError::Interrupted) } else { Ok(()) }
}

/// The status of a command that has shown this number of rows. If Ctrl-C was pressed, a note says so.
pub(crate) fn status_after(rows: usize, term: &Term) -> CliStatus {
    match (pressed(), rows) {
        (false, _) => return CliStatus::Fine,
        (true, 0) => term.note("interrupted before there was a figure"),
        (true, _) => term.note("interrupted: these are the figures so far"),
    }
    CliStatus::Interrupted
}

/// Sleeps, and fails soon after Ctrl-C is pressed.
pub(crate) fn sleep_unless_pressed(time: Duration) -> Result<(), CliError> {
    let until = Instant::now() + time;
    loop {
        unless_pressed()?;
        match until.saturating_duration_since(Instant::now()) {
            Duration::ZERO => return Ok(()),
            left => std::thread::sleep(left.min(GLANCE)),
        }
    }
}

/// Waits for the end of a launch. Ctrl-C stops the launch, and this fails when it has ended.
pub(crate) fn wait_for_end(run: &dyn Run) -> Result<LaunchEnd, CliError> {
    loop {
        if let Some(ended) = run.wait(Some(GLANCE))? {
            unless_pressed()?;
            return Ok(ended);
        }
        if pressed() {
            run.stop();
        }
    }
}

/// Whether Ctrl-C was pressed.
pub(crate) fn pressed() -> bool {
    STOP.load(Ordering::Relaxed) != 0
}
