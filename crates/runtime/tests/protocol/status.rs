//! Tests of the table of moves against a separate model.

use pelton::protocol::{ForbiddenMove, Status, StatusMove};
use proptest::prelude::*;
use proptest::sample::select;

/// Returns the moves that may follow, listed by status instead of by move.
fn follows(status: Status) -> &'static [(&'static str, Status)] {
    use Status::*;
    match status {
        Empty => &[("publish", Published)],
        Published => &[("claim", Claimed), ("fault", Fault), ("cancel", Empty)],
        Claimed => {
            &[("done", Done), ("wait", WaitIo), ("yield", Yield), ("requeue", Requeue), ("fault", Fault)]
        }
        Done => &[("publish", Published), ("reset", Empty)],
        WaitIo => &[("resume", Requeue), ("fault", Fault), ("cancel", Empty)],
        Yield => &[("claim", Claimed), ("fault", Fault), ("cancel", Empty)],
        Requeue => &[("claim", Claimed), ("fault", Fault), ("cancel", Empty)],
        Fault => &[("reset", Empty)],
        Cancelled | Lost => &[],
    }
}

proptest! {
    #[test]
    fn moves_lead_where_the_model_says(steps in prop::collection::vec(select(StatusMove::ALL), 0..100)) {
        let mut status = Status::Empty;
        for step in steps {
            let model = follows(status).iter().find(|(name, _)| *name == step.name()).map(|(_, to)| *to);
            prop_assert_eq!(status.after(step), model.ok_or(ForbiddenMove { from: status, step }));
            status = model.unwrap_or(status);
        }
    }
}

#[test]
fn every_pair_is_as_the_model_says() {
    for &status in Status::ALL {
        for &step in StatusMove::ALL {
            let model = follows(status).iter().find(|(name, _)| *name == step.name()).map(|(_, to)| *to);
            assert_eq!(status.after(step).ok(), model, "{status} {step}");
        }
    }
}

#[test]
fn a_wrong_move_says_what_is_wrong() {
    let error = Status::Done.after(StatusMove::Claim).unwrap_err();
    assert_eq!(error.to_string(), "a slot that is DONE cannot make the move claim");
}
