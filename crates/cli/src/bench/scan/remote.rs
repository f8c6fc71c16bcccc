//! The cases of sessions on devices, such as GPUs.
//!
//! The device does stages one and two, and the host does the rest. The same scans with the native engine are the peers.

use std::sync::Arc;
use std::time::Instant;

use pelton_device::Device;
use pelton_scan::engine::NativeEngine;
use pelton_scan::session::{ResidentText, SessionConfig, SessionEngine};
use pelton_scan::{Catalog, Scanner};

use super::cases::{ThreadUse, case_name};
use super::found::FoundSummary;
use super::ours::{ReadyScan, ScanTurn, scan_failed};
use super::scan_row;
use super::scratch::ScratchText;
use super::text::BenchText;
use crate::bench::BenchRow;
use crate::bench::rounds::{Sample, play_rounds};
use crate::error::CliError;
use crate::term::Term;

/// The number of bytes that lie in the memory of a device that has its own.
const RESIDENT_BYTES: usize = 2 << 30;
/// The number of bytes that lie there if the device is this machine.
const LOCAL_RESIDENT_BYTES: usize = 1 << 24;
/// The number of candidates of these bytes for which there is room.
const RESIDENT_ROOM: u32 = 1 << 22;
/// The number of bytes that are given to the device in one call, if they lie in the host's memory.
const PIECE_BYTES: usize = 32 << 20;

/// What is measured.
#[derive(Clone, Copy, PartialEq, Eq)]
enum RemoteWork {
    /// Stages one and two, text in the device's memory.
    Resident,
    /// Stages one and two, text in the host's memory.
    HostFed,
    /// All stages, text in the host's memory.
    Memory,
    /// All stages, one large file.
    LargeFile,
    /// All stages, a tree of files.
    Tree,
}

/// The works with their names. All use all threads of the host.
const WORKS: [(&str, RemoteWork); 5] = [
    ("resident", RemoteWork::Resident),
    ("host-fed", RemoteWork::HostFed),
    ("in memory", RemoteWork::Memory),
    ("large file", RemoteWork::LargeFile),
    ("tree", RemoteWork::Tree),
];

/// Whether rows of a set are wanted.
pub(super) fn is_wanted(set: &str, only: &str) -> bool {
    WORKS.iter().any(|(name, _)| case_name(set, name).contains(only))
}

/// A text in the device's memory, and what must be found in it.
struct ReadyResident<'e> {
    text: ResidentText<'e>,
    bytes: usize,
    /// The number of records of candidates. A record of a run stands for several candidates, so if there are runs, the
    /// number is not known before the first scan, and all others must agree with it.
    records: Option<u64>,
}

/// The text, and the folder in which it lies.
#[derive(Clone, Copy)]
pub(super) struct TextPlaces<'t> {
    /// The text in memory.
    pub text: &'t BenchText,
    /// The text as files.
    pub scratch: &'t ScratchText,
}

/// Measures a set of rules on a device. `make` makes a scanner with the native engine. A device has one session at a
/// time, so text in its memory is measured first, with a session of its own.
pub(super) fn measure_remote(
    set: &str,
    device: &Arc<dyn Device>,
    (rounds, only): (u32, &str),
    make: impl Fn() -> Result<Scanner, CliError>,
    places: TextPlaces<'_>,
    rows: &mut Vec<BenchRow>,
    term: &Term,
) -> Result<(), CliError> {
    let native = ReadyScan::new(make()?, places.text, PIECE_BYTES)?;
    let catalog = Arc::clone(native.scanner.catalog());
    let wanted = WORKS.iter().filter(|(name, _)| case_name(set, name).contains(only));
    let (resident, works): (Vec<_>, Vec<_>) = wanted.partition(|(_, work)| *work == RemoteWork::Resident);
    for &(name, _) in resident {
        rows.push(measure_resident((set, name), device, &catalog, places.text, rounds, term)?);
    }
    if works.is_empty() {
        return Ok(());
    }
    let config = SessionConfig { callers: ThreadUse::All.count().min(16) as u32, ..SessionConfig::default() };
    let engine = launch(device, &catalog, config)?;
    let remote = ReadyScan::new(make()?.with_engine(Box::new(engine)), places.text, PIECE_BYTES)?;
    remote.found_in_files().same_as(&native.found_in_files(), &device.caps().name, "the native engine")?;
    remote.found_joined().same_as(&native.found_joined(), &device.caps().name, "the native engine")?;
    term.note(format_args!("{set}: {}", remote.scanner.engine().describe()));
    for &(name, work) in works {
        let mut contenders = [(name, true), ("native engine", false)];
        let bar = term.bar(contenders.len() as u64 * u64::from(rounds), "{bar:40} {msg}");
        let series = play_rounds(rounds, &mut contenders, |(name, is_remote)| {
            bar.set_message(case_name(set, name));
            let ready = if *is_remote { &remote } else { &native };
            let turn = host_turn(work, ready, &native, places.scratch)?;
            bar.inc(1);
            Ok(Sample::figure(turn.bytes as f64 / 1e9 / turn.seconds))
        })?;
        bar.finish_and_clear();
        let Some(value) = series[0].value() else { continue };
        let against = series.get(1).and_then(|native| series[0].against("native engine", native));
        let row = scan_row(case_name(set, name), &row_device(device), "GB/s", value);
        rows.push(BenchRow { against, ..row });
    }
    Ok(())
}

/// Returns the name of a device in rows.
pub(super) fn row_device(device: &Arc<dyn Device>) -> String {
    let name = &device.caps().name;
    if device.caps().memory_bytes.is_some() { name.clone() } else { format!("{name}, session") }
}

/// Measures stages one and two over text that lies in the device's memory.
fn measure_resident(
    (set, name): (&str, &str),
    device: &Arc<dyn Device>,
    catalog: &Arc<Catalog>,
    text: &BenchText,
    rounds: u32,
    term: &Term,
) -> Result<BenchRow, CliError> {
    let own_memory = device.caps().memory_bytes.is_some();
    let bytes = if own_memory { RESIDENT_BYTES } else { LOCAL_RESIDENT_BYTES };
    let config = SessionConfig {
        callers: 1,
        chunk_bytes: bytes as u32,
        candidate_room: RESIDENT_ROOM,
        ..SessionConfig::default()
    };
    let engine = launch(device, catalog, config)?;
    let mut resident = ready_resident(&engine, catalog, text, bytes)?;
    let bar = term.bar(u64::from(rounds), "{bar:40} {msg}");
    let series = play_rounds(rounds, &mut [name], |name| {
        bar.set_message(case_name(set, name));
        let turn = resident.scan()?;
        bar.inc(1);
        Ok(Sample::figure(turn.bytes as f64 / 1e9 / turn.seconds))
    })?;
    bar.finish_and_clear();
    let value = series[0].value().unwrap_or_default();
    Ok(scan_row(case_name(set, name), &row_device(device), "GB/s", value))
}

fn launch(
    device: &Arc<dyn Device>,
    catalog: &Arc<Catalog>,
    config: SessionConfig,
) -> Result<SessionEngine, CliError> {
    SessionEngine::launch(Arc::clone(device), Arc::clone(catalog), config).map_err(scan_failed)
}

/// Measures work whose text lies in the host's memory or in files, and checks what was found.
fn host_turn(
    work: RemoteWork,
    ready: &ReadyScan,
    native: &ReadyScan,
    scratch: &ScratchText,
) -> Result<ScanTurn, CliError> {
    let threads = ThreadUse::All.count();
    let (turn, wanted) = match work {
        RemoteWork::LargeFile => (ready.scan_large_file(scratch, threads)?, native.found_joined()),
        RemoteWork::Tree => (ready.scan_tree(scratch, threads)?, native.found_in_files()),
        RemoteWork::Memory => (ready.scan_memory(threads)?, native.found_in_files()),
        RemoteWork::HostFed | RemoteWork::Resident => (ready.find_candidates(threads)?, native.candidates()),
    };
    turn.found.same_as(&wanted, "a scan on the device", "the native engine")?;
    Ok(turn)
}

/// Copies the text to the device as often as there is room, and finds out with the native engine what it contains.
fn ready_resident<'e>(
    engine: &'e SessionEngine,
    catalog: &Arc<Catalog>,
    text: &BenchText,
    room: usize,
) -> Result<ReadyResident<'e>, CliError> {
    let len = text.bytes.len().min(room);
    let once = &text.bytes[..len];
    let copies = room / len;
    let mut source = once.iter().copied().cycle();
    let fill = |piece: &mut [u8]| piece.iter_mut().zip(&mut source).for_each(|(byte, next)| *byte = next);
    let resident = engine.resident_text(copies * len, fill).map_err(scan_failed)?;
    // All copies but the first and the last one have the same neighbours.
    let shown = copies.min(3);
    let several = once.repeat(shown);
    let native = NativeEngine::new(Arc::clone(catalog));
    let count = |copy: usize| {
        let mut found = Vec::new();
        native.find(&several, copy * len..(copy + 1) * len, &mut found);
        found.len() as u64
    };
    let counts: Vec<u64> = (0..shown).map(count).collect();
    let middle = if shown == 3 { (copies - 3) as u64 * counts[1] } else { 0 };
    let candidates = counts.iter().sum::<u64>() + middle;
    let records = catalog.class_runs().is_empty().then_some(candidates);
    Ok(ReadyResident { text: resident, bytes: copies * len, records })
}

impl ReadyResident<'_> {
    /// Does stages one and two for the text, with the candidates written to the host's memory.
    fn scan(&mut self) -> Result<ScanTurn, CliError> {
        let start = Instant::now();
        let counts = self.text.count(0..self.bytes).map_err(scan_failed)?;
        let seconds = start.elapsed().as_secs_f64();
        let found = FoundSummary::count_only(counts.records);
        let wanted = FoundSummary::count_only(*self.records.get_or_insert(counts.records));
        found.same_as(&wanted, "the resident text", "the native engine")?;
        Ok(ScanTurn { seconds, bytes: self.bytes, found })
    }
}
