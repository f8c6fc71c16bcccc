//! The case of an automaton that is run on all lanes at once by composing transition functions, beside its serial run.
//!
//! The automaton follows the comments and strings of source code. It never forgets: a quote at the beginning of the text
//! changes the meaning of all others.

use std::sync::Arc;
use std::time::Instant;

use pelton_device::Device;
use pelton_scan::composed::{ComposedConfig, ComposedRunner, TransitionTable};

use super::ours::scan_failed;
use super::remote::row_device;
use super::scan_row;
use super::text::BenchText;
use crate::bench::BenchRow;
use crate::bench::rounds::{Sample, play_rounds};
use crate::error::CliError;
use crate::term::Term;

/// The number of bytes of text that lie in the memory of a device that has its own.
const OWN_MEMORY_BYTES: usize = 256 << 20;
/// The largest number of bytes of text if the device works in the host's memory.
const HOST_MEMORY_BYTES: usize = 16 << 20;

const SERIAL: &str = "serial automaton";
const COMPOSED: &str = "composed automaton";

/// Whether the rows are wanted.
pub(super) fn is_wanted(only: &str) -> bool {
    [SERIAL, COMPOSED].iter().any(|name| name.contains(only))
}

/// The states of the automaton.
#[derive(Clone, Copy)]
enum SourceState {
    Code,
    Slash,
    LineComment,
    BlockComment,
    Star,
    Text,
    Escape,
}

/// The automaton that follows comments, which begin with `//` or `/*`, and strings in double quotes.
fn source_automaton() -> TransitionTable {
    use SourceState::{BlockComment, Code, Escape, LineComment, Slash, Star, Text};
    const CLASS_BYTES: [u8; 5] = *b"/*\"\\\n";
    let mut classes = [CLASS_BYTES.len() as u8; 256];
    (0..).zip(CLASS_BYTES).for_each(|(class, byte)| classes[usize::from(byte)] = class);
    // The next states for a slash, a star, a quote, a backslash, a line feed, and any other byte.
    let rows: [(SourceState, [SourceState; 6]); 7] = [
        (Code, [Slash, Code, Text, Code, Code, Code]),
        (Slash, [LineComment, BlockComment, Text, Code, Code, Code]),
        (LineComment, [LineComment, LineComment, LineComment, LineComment, Code, LineComment]),
        (BlockComment, [BlockComment, Star, BlockComment, BlockComment, BlockComment, BlockComment]),
        (Star, [Code, Star, BlockComment, BlockComment, BlockComment, BlockComment]),
        (Text, [Text, Text, Code, Escape, Text, Text]),
        (Escape, [Text; 6]),
    ];
    let mut next = vec![0; rows.len() * rows[0].1.len()];
    for (state, row) in rows {
        let first = state as usize * row.len();
        next[first..first + row.len()].copy_from_slice(&row.map(|next| next as u8));
    }
    TransitionTable::new(rows.len(), &classes, &next).expect("every next state exists")
}

/// Measures the composed run on a device and the serial run on one core, in turns over the same text.
pub(super) fn measure_composed(
    device: &Arc<dyn Device>,
    (rounds, only): (u32, &str),
    text: &BenchText,
    rows: &mut Vec<BenchRow>,
    term: &Term,
) -> Result<(), CliError> {
    let (bytes, unit, metric) = match device.caps().memory_bytes {
        Some(_) => (OWN_MEMORY_BYTES, 1e9, "GB/s"),
        None => (HOST_MEMORY_BYTES.min(text.bytes.len()), 1e6, "MB/s"),
    };
    let text: Vec<u8> = text.bytes.iter().copied().cycle().take(bytes).collect();
    let table = source_automaton();
    let wrong = |error: &dyn std::fmt::Display| CliError::Wrong(error.to_string());
    let wanted = table.run_serially(SourceState::Code as u32, &text).map_err(|error| wrong(&error))?;
    let config = ComposedConfig { chunk_bytes: bytes as u32, ..ComposedConfig::default() };
    let mut runner = ComposedRunner::launch(device, table.clone(), config).map_err(scan_failed)?;
    runner.load_text(&text).map_err(scan_failed)?;
    let mut contenders = [SERIAL, COMPOSED];
    let bar = term.bar(contenders.len() as u64 * u64::from(rounds), "{bar:40} {msg}");
    let series = play_rounds(rounds, &mut contenders, |name| {
        bar.set_message(*name);
        let start = Instant::now();
        let end = match *name {
            SERIAL => table.run_serially(SourceState::Code as u32, &text).map_err(|error| wrong(&error))?,
            _ => runner.loaded_end_state(SourceState::Code as u32).map_err(scan_failed)?,
        };
        let seconds = start.elapsed().as_secs_f64();
        if end != wanted {
            return Err(CliError::Wrong(format!("the {name} ends in state {end} instead of {wanted}")));
        }
        bar.inc(1);
        Ok(Sample::figure(bytes as f64 / unit / seconds))
    })?;
    bar.finish_and_clear();
    let against = series[1].against(SERIAL, &series[0]);
    let devices = ["rust".into(), row_device(device)];
    for (((name, series), device), against) in
        contenders.iter().zip(&series).zip(devices).zip([None, against])
    {
        if let Some(value) = series.value().filter(|_| name.contains(only)) {
            rows.push(BenchRow { against, ..scan_row((*name).into(), &device, metric, value) });
        }
    }
    Ok(())
}
