//! What the host does beside a kernel: it writes cells and waits for answers, or reads what was written for it.

use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use pelton_device::Run;

use super::stage::{LitmusStage, OutcomeCounts};
use crate::error::CliError;
use crate::stop;

/// What the host does while a kernel runs; what it has seen itself.
pub type Partner = fn(&LitmusStage, &dyn Run) -> Result<OutcomeCounts, CliError>;

/// Nothing: groups talk among themselves.
pub fn play_idle(_stage: &LitmusStage, _run: &dyn Run) -> Result<OutcomeCounts, CliError> {
    Ok(OutcomeCounts::default())
}

/// Writes two words of every cell and then its flag, and waits until all were seen.
pub fn play_far(stage: &LitmusStage, run: &dyn Run) -> Result<OutcomeCounts, CliError> {
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

/// Writes the line of every cell, all of its words the round, and waits until all were seen.
pub fn play_lines(stage: &LitmusStage, run: &dyn Run) -> Result<OutcomeCounts, CliError> {
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

/// Waits for the flag of every cell, looks at its words, and gives the next turn.
pub fn play_back(stage: &LitmusStage, run: &dyn Run) -> Result<OutcomeCounts, CliError> {
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
        // Release: the words are written anew after they were read.
        turn[0].store(round, Ordering::Release);
        run.wake();
    }
    Ok(counts)
}

/// Writes slots and shows them by the tail, a few at a time; a slot is written again once it is done.
pub fn play_publish(stage: &LitmusStage, run: &dyn Run) -> Result<OutcomeCounts, CliError> {
    let (slots, tail, done) = (stage.words("slots")?, stage.words("tail")?, stage.words("done")?);
    let cells = stage.cells;
    let few = (cells / 8).max(1);
    for position in 0..stage.rounds * cells {
        let at = (position % cells) as usize;
        if position >= cells {
            // Acquire: the slot is written after it was read.
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

/// Waits until all words say this.
fn wait_for_all(run: &dyn Run, words: &[AtomicU32], what: u32) -> Result<(), CliError> {
    // Acquire: what was read before the answer may be written from here on.
    words.iter().try_for_each(|word| wait_until(run, || word.load(Ordering::Acquire) == what).map(drop))
}

/// Waits until something is so, and says whether it had to. A kernel that ends before is an error.
fn wait_until(run: &dyn Run, so: impl Fn() -> bool) -> Result<bool, CliError> {
    let mut looks = 0u32;
    while !so() {
        looks = looks.wrapping_add(1);
        if looks.is_multiple_of(256) {
            std::thread::yield_now();
        } else {
            std::hint::spin_loop();
        }
        // Asking the device costs more than a look.
        if looks.is_multiple_of(4096) {
            stop::unless_pressed()?;
            if let Some(ended) = run.wait(Some(Duration::ZERO))?
                && !so()
            {
                return Err(CliError::Wrong(format!(
                    "the kernel has ended before its time: {}",
                    ended.outcome
                )));
            }
        }
    }
    Ok(looks > 0)
}
