//! Losses that pass: a session that recovers may find its device lost for a moment, and goes on soon after.
//!
//! Calls that read the memory of the device fail until then. For `pelton run` that is no reason to end.

use std::time::Duration;

use pelton::kernel::Recovery;
use pelton::{Error, Session};

/// How long to wait before something is tried again.
const AGAIN: Duration = Duration::from_millis(2);

/// Whether an error of a session is that of a loss from which the session recovers.
fn is_passing(session: &Session, error: &Error) -> bool {
    let recovers = session.spec().recovery == Recovery::On;
    // The look for an end makes a session notice that its device is lost.
    matches!(error, Error::Device(_)) && recovers && session.session_end().is_none()
}

/// Returns what a call has given, or `None` if the device is lost and the session recovers.
pub(super) fn unless_passing<T>(session: &Session, called: Result<T, Error>) -> Result<Option<T>, Error> {
    match called {
        Ok(given) => Ok(Some(given)),
        Err(error) if is_passing(session, &error) => Ok(None),
        Err(error) => Err(error),
    }
}

/// Calls something again until no loss is in the way.
pub(super) fn once_recovered<T>(
    session: &Session,
    mut call: impl FnMut() -> Result<T, Error>,
) -> Result<T, Error> {
    loop {
        if let Some(given) = unless_passing(session, call())? {
            return Ok(given);
        }
        std::thread::sleep(AGAIN);
    }
}
