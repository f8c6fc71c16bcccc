//! The host's part in the cases: it writes cells and waits for answers, or reads what a kernel wrote for it.

use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use pelton_device::Run;

use super::stage::{LitmusStage, OutcomeCounts};
use crate::error::CliError;
use crate::stop;

/// Plays the host's part while a kernel runs, and returns the outcomes that the host itself has seen.
pub(super) type Partner = fn(&LitmusStage, &dyn Run) -> Result<OutcomeCounts, CliError>;

/// Does nothing, because the groups of the kernel are each other's partners.
pub(super) fn play_idle(_stage: &LitmusStage, _run: &dyn Run) -> Result<OutcomeCounts, CliError> {
    Ok(OutcomeCounts::default())
}

/// Writes two words of every cell and then its flag, and waits until the kernel has seen all of them.
pub(super) fn play_far(stage: &LitmusStage, run: &dyn Run) -> Result<OutcomeCounts, CliError> {
    let (data, flags, acks) = (stage.words("data")?, stage.words("flag")?, stage.words("ack")?);
    let cells = stage.cells as usize;
    for round in 1..=stage.rounds {
        stop::unless_pressed()?;
        for at in 0..cells {
            data[at].store(round, Ordering::Relaxed);
            data[cells + at].store(round, Ordering::Relaxed);
            flags[at].store(round, stage.release());
        }
        run.wake();
        wait_for_all(run, &acks[..cells], round)?;
    }
    Ok(OutcomeCounts::default())
}

/// Writes the line of every cell, with the round's number in all words, and waits until the kernel has seen all of
/// them.
pub(super) fn play_lines(stage: &LitmusStage, run: &dyn Run) -> Result<OutcomeCounts, CliError> {
    let (lines, acks) = (stage.memory("lines")?, stage.words("ack")?);
    let cells = stage.cells as usize;
    for round in 1..=stage.rounds {
        stop::unless_pressed()?;
        for at in 0..cells {
            lines.put(8 * at, &[[round.into(); 8]])?;
        }
        lines.flush();
        run.wake();
        wait_for_all(run, &acks[..cells], round)?;
    }
    Ok(OutcomeCounts::default())
}

/// Waits for the flag of every cell, checks its words, and starts the next round.
pub(super) fn play_back(stage: &LitmusStage, run: &dyn Run) -> Result<OutcomeCounts, CliError> {
    let (data, flags, turn) = (stage.words("data")?, stage.words("flag")?, stage.words("turn")?);
    let cells = stage.cells as usize;
    let mut counts = OutcomeCounts::default();
    for round in 1..=stage.rounds {
        stop::unless_pressed()?;
        for at in 0..cells {
            let waited = wait_until(run, || flags[at].load(stage.acquire()) == round)?;
            let words = [&data[cells + at], &data[at]].map(|word| word.load(Ordering::Relaxed));
            counts.bad += u64::from(words != [round; 2]);
            counts.beside += u64::from(waited);
        }
        // Release: the kernel writes the words again only after the host has read them.
        turn[0].store(round, Ordering::Release);
        run.wake();
    }
    Ok(counts)
}

/// Writes slots and publishes them with the tail, a few at a time. A slot is written again once it is done.
pub(super) fn play_publish(stage: &LitmusStage, run: &dyn Run) -> Result<OutcomeCounts, CliError> {
    let (slots, tail, done) = (stage.words("slots")?, stage.words("tail")?, stage.words("done")?);
    let cells = stage.cells;
    let few = (cells / 8).max(1);
    for position in 0..stage.rounds * cells {
        let at = (position % cells) as usize;
        if position >= cells {
            // Acquire: the slot is written only after the kernel has read it.
            wait_until(run, || done[at].load(Ordering::Acquire) == position - cells + 1)?;
        }
        for word in &slots[4 * at..4 * at + 4] {
            word.store(position + 1, Ordering::Relaxed);
        }
        if (position + 1).is_multiple_of(few) || position + 1 == stage.rounds * cells {
            tail[0].store(position + 1, stage.release());
            run.wake();
            stop::unless_pressed()?;
        }
    }
    Ok(OutcomeCounts::default())
}

/// Waits until all words have a value.
fn wait_for_all(run: &dyn Run, words: &[AtomicU32], what: u32) -> Result<(), CliError> {
    // Acquire: the words that were read before the answer may be written from here on.
    words.iter().try_for_each(|word| wait_until(run, || word.load(Ordering::Acquire) == what).map(drop))
}

/// Waits until a condition holds, and returns whether it had to wait. It is an error if the kernel ends before.
fn wait_until(run: &dyn Run, so: impl Fn() -> bool) -> Result<bool, CliError> {
    let mut looks = 0u32;
    while !so() {
        looks = looks.wrapping_add(1);
        if looks.is_multiple_of(256) {
            std::thread::yield_now();
        } else {
            std::hint::spin_loop();
        }
        // Asking the device costs more than a check of the condition.
        if looks.is_multiple_of(4096) {
            stop::unless_pressed()?;
            if let Some(ended) = run.wait(Some(Duration::ZERO))?
                && !so()
            {
                return Err(CliError::Wrong(format!(
                    "the kernel ended before all rounds were played: {}",
                    ended.outcome
                )));
            }
        }
    }
    Ok(looks > 0)
}
