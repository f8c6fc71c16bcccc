//! `bench io`: how fast files stream through a handler that sums every byte, compared with a loop of plain reads that sums
//! them itself.
//!
//! The file lies in the page cache, so what is measured is how bytes get from there to a task, and not a disk. Every round
//! streams the whole file in each way, and every sum is checked.

use std::fs::{self, File};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Instant;

use pelton::ir::builder::Val;
use pelton::ir::types::{Order, Scope, Type};
use pelton::stream::{Input, StreamEngine};
use pelton::{Deadline, Geometry, Handler, Region, Session, Spec, Task};
use pelton_device::{Device, open};

use super::BenchRow;
use super::rounds::{Sample, Series, play_rounds};
use crate::error::CliError;
use crate::stop;
use crate::term::Term;

/// The number of rounds if none is given.
const ROUNDS: u32 = 9;
/// How many chunks the region has room for, on devices that work in the host's memory and on others.
const CHUNKS: [usize; 2] = [8, 64];
/// The region has at least so many bytes, however small chunks are.
const REGION_BYTES: usize = 4 << 20;

/// Measure how fast files stream through tasks, compared with plain reads in a loop
#[derive(clap::Args)]
#[command(after_help = "\
Examples:
  pelton bench io
  pelton bench io --quick --json rows.jsonl
  pelton bench io --device cuda --only io-uring

The rows `page cache` read a file that is in memory, chunk by chunk, and sum all of its bytes: in
tasks, and in one thread that calls pread and sums natively. The row `host memory` sums chunks that
are there already, in tasks and natively.")]
pub(super) struct IoBenchArgs {
    /// The device to run on
    #[arg(long, short, value_name = "NAME", default_value = "auto")]
    device: String,

    /// The folder for the file; a folder for temporary files if it is not given
    #[arg(long, value_name = "DIR")]
    folder: Option<PathBuf>,

    /// Read less, with less certain figures
    #[arg(long)]
    quick: bool,
}

impl IoBenchArgs {
    /// The flags that produce these arguments again.
    pub(super) fn flags(&self) -> Vec<String> {
        let folder = self.folder.iter().flat_map(|folder| ["--folder".into(), folder.display().to_string()]);
        let device = ["--device".to_string(), self.device.clone()];
        device.into_iter().chain(folder).chain(self.quick.then(|| "--quick".to_string())).collect()
    }
}

/// Measures the cases whose name contains `only`, and adds a row for each.
pub(super) fn bench_io(
    args: &IoBenchArgs,
    only: &str,
    rounds: Option<u32>,
    rows: &mut Vec<BenchRow>,
    term: &Term,
) -> Result<(), CliError> {
    let device = open(&args.device)?;
    let folder = args.folder.clone().unwrap_or_else(std::env::temp_dir);
    let bytes: usize = if args.quick { 1 << 27 } else { 1 << 30 };
    let mut file = None;
    for chunk in [64 << 10, 256 << 10, 1 << 20] {
        let size = chunk >> 10;
        let names = [
            (StreamTurn::Read(StreamEngine::IoUring), format!("page cache, io-uring, chunks of {size} KiB")),
            (StreamTurn::Read(StreamEngine::Plain), format!("page cache, plain, chunks of {size} KiB")),
            (StreamTurn::Resident, format!("host memory, chunks of {size} KiB")),
        ];
        let wanted = |(turn, name): &&(StreamTurn, String)| {
            let rings = cfg!(target_os = "linux") || *turn != StreamTurn::Read(StreamEngine::IoUring);
            name.contains(only) && rings
        };
        let chosen: Vec<_> = names.iter().filter(wanted).collect();
        if chosen.is_empty() {
            continue;
        }
        term.note(format_args!("chunks of {size} KiB …"));
        let file = match &file {
            Some(file) => file,
            None => file.insert(BenchFile::write(&folder, bytes)?),
        };
        let bench = IoBench { session: launch(&device, chunk)?, file, chunk };
        let mut turns: Vec<StreamTurn> = chosen.iter().map(|(turn, _)| *turn).collect();
        turns.extend([StreamTurn::NativeRead, StreamTurn::NativeResident]);
        let series = play_rounds(rounds.unwrap_or(ROUNDS), &mut turns, |turn| {
            stop::unless_pressed()?;
            bench.measure(*turn)
        })?;
        let [.., read, resident] = &series[..] else { continue };
        for ((turn, name), ours) in chosen.into_iter().zip(&series) {
            let peer = match turn {
                StreamTurn::Resident => ("sum by one core", resident),
                _ => ("pread loop", read),
            };
            rows.extend(comparison_row(name.clone(), &device.caps().name, ours, peer));
        }
        bench.session.stop()?;
    }
    Ok(())
}

fn comparison_row(
    case: String,
    device: &str,
    ours: &Series,
    (name, peer): (&str, &Series),
) -> Option<BenchRow> {
    let (group, device, metric) = ("io", device.into(), "GB/s".into());
    let (value, spread, against) = (ours.value()?, None, ours.against(name, peer));
    Some(BenchRow { group, case, device, metric, value, spread, against })
}

/// What is measured in a turn.
#[derive(Clone, Copy, PartialEq, Eq)]
enum StreamTurn {
    /// A stream of the file.
    Read(StreamEngine),
    /// Tasks over chunks that are in the region already.
    Resident,
    /// A loop that reads and sums.
    NativeRead,
    /// A loop that sums what is in memory.
    NativeResident,
}

/// A file whose bytes are known. It is removed at the end.
struct BenchFile {
    path: PathBuf,
    bytes: usize,
    sum: u64,
}

impl BenchFile {
    fn write(folder: &Path, bytes: usize) -> Result<BenchFile, CliError> {
        let path = folder.join(format!("pelton-bench-io-{}", std::process::id()));
        let wrong = |source| CliError::Write { path: path.clone(), source };
        let mut file = File::create(&path).map_err(wrong)?;
        let mut written = BenchFile { path: path.clone(), bytes, sum: 0 };
        let mut state = 1u32;
        let mut piece = vec![0u8; 1 << 20];
        for _ in 0..bytes / piece.len() {
            for word in piece.chunks_exact_mut(4) {
                state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
                word.copy_from_slice(&state.to_le_bytes());
            }
            written.sum += u64::from(sum_bytes(&piece));
            file.write_all(&piece).map_err(wrong)?;
            stop::unless_pressed()?;
        }
        // Otherwise the system would write it while reads are measured.
        file.sync_all().map_err(wrong)?;
        Ok(written)
    }
}

impl Drop for BenchFile {
    fn drop(&mut self) {
        let _ = fs::remove_file(&self.path);
    }
}

/// The sum of bytes, as the handler computes it.
fn sum_bytes(bytes: &[u8]) -> u32 {
    bytes.iter().map(|byte| u32::from(*byte)).sum()
}

struct IoBench<'a> {
    session: Session,
    file: &'a BenchFile,
    chunk: usize,
}

impl IoBench<'_> {
    /// Sums all bytes of the file in some way, and returns the speed.
    fn measure(&self, turn: StreamTurn) -> Result<Sample, CliError> {
        let began = Instant::now();
        let sum = match turn {
            StreamTurn::Read(engine) => self.stream(engine)?,
            StreamTurn::Resident => return self.run_resident(),
            StreamTurn::NativeRead => self.read_natively()?,
            StreamTurn::NativeResident => return self.sum_natively(),
        };
        let took = began.elapsed().as_secs_f64();
        if sum != self.file.sum {
            return Err(CliError::Wrong(format!("the bytes add up to {sum}, and not to {}", self.file.sum)));
        }
        Ok(Sample::figure(self.file.bytes as f64 / took / 1e9))
    }

    fn stream(&self, engine: StreamEngine) -> Result<u64, CliError> {
        let (mut sum, mut failed) = (0, None);
        let stream = self.session.stream(0, Input::files([&self.file.path])).chunk(self.chunk).engine(engine);
        let report = stream.op("sum").run(|_, result| match result {
            Ok(part) => sum += u64::from(part),
            Err(error) => failed = Some(error),
        });
        report.map_err(|error| CliError::Wrong(error.to_string()))?;
        failed.map_or(Ok(sum), |error| Err(error.into()))
    }

    fn read_natively(&self) -> Result<u64, CliError> {
        let wrong = |source| CliError::Wrong(format!("cannot read {}: {source}", self.file.path.display()));
        let file = File::open(&self.file.path).map_err(wrong)?;
        let (mut buffer, mut sum, mut offset) = (vec![0; self.chunk], 0, 0);
        loop {
            match read_at(&file, &mut buffer, offset).map_err(wrong)? {
                0 => return Ok(sum),
                read => {
                    sum += u64::from(sum_bytes(&buffer[..read]));
                    offset += read as u64;
                }
            }
        }
    }

    /// Sums chunks that are in the region, as often as the file has bytes.
    fn run_resident(&self) -> Result<Sample, CliError> {
        let view = self.session.view::<u64>(0, "stream")?;
        view.write(0, &vec![0x0102_0304_0506_0708; view.len()])?;
        let op = self.session.opcode("sum")?;
        let (count, elements) = (view.len() * 8 / self.chunk, self.chunk / 8);
        let task = |chunk: usize| Task::new(op).args([(chunk * elements) as u32, self.chunk as u32]);
        let mut producer = self.session.producer(0)?.patience(Deadline::Never);
        let began = Instant::now();
        for _ in 0..self.file.bytes / self.chunk / count {
            let mut span = producer.submit_all((0..count).map(task))?;
            span.wait(Deadline::Never)?;
            if span.results().any(|result| result != Ok(elements as u32 * 36)) {
                return Err(CliError::Wrong("a chunk has another sum".into()));
            }
        }
        let bytes = self.file.bytes / self.chunk / count * count * self.chunk;
        Ok(Sample::figure(bytes as f64 / began.elapsed().as_secs_f64() / 1e9))
    }

    fn sum_natively(&self) -> Result<Sample, CliError> {
        let chunks =
            self.session.layout().areas.iter().map(|area| area.total as usize).max().unwrap_or(0) * 8;
        let bytes = vec![1u8; chunks];
        let began = Instant::now();
        let mut sum = 0;
        for _ in 0..self.file.bytes / bytes.len() {
            for chunk in std::hint::black_box(&bytes).chunks(self.chunk) {
                sum += u64::from(sum_bytes(chunk));
            }
        }
        let all = self.file.bytes / bytes.len() * bytes.len();
        if sum != all as u64 {
            return Err(CliError::Wrong("the native sum is wrong".into()));
        }
        Ok(Sample::figure(all as f64 / began.elapsed().as_secs_f64() / 1e9))
    }
}

#[cfg(unix)]
fn read_at(file: &File, buffer: &mut [u8], offset: u64) -> std::io::Result<usize> {
    std::os::unix::fs::FileExt::read_at(file, buffer, offset)
}

#[cfg(not(unix))]
fn read_at(mut file: &File, buffer: &mut [u8], offset: u64) -> std::io::Result<usize> {
    use std::io::{Read, Seek, SeekFrom};
    file.seek(SeekFrom::Start(offset))?;
    file.read(buffer)
}

/// Launches a session whose tasks sum bytes: with all lanes of a group on a device with many lanes, and with one elsewhere.
fn launch(device: &Arc<dyn Device>, chunk: usize) -> Result<Session, CliError> {
    let remote = device.caps().memory_bytes.is_some();
    let bytes = (chunk * CHUNKS[usize::from(remote)]).max(REGION_BYTES);
    let elements = (bytes / 8) as u32;
    let region = Region::new("stream", Type::U64, elements).read_only().in_host_memory();
    let (geometry, handler) = match remote {
        true => (Geometry::new(256).window(1), sum_by_group()),
        false => (Geometry::new(256).window(1).lanes(1), sum_by_lane(elements)),
    };
    let spec = Spec::new(geometry).fuel(u32::MAX).region(region).handler("sum", handler);
    Ok(Session::launch(device, &spec)?)
}

/// The bytes of a word, added up in four fields of 16 bits.
fn add_fields<'b>(sum: Val<'b, u64>, word: Val<'b, u64>) -> Val<'b, u64> {
    const FIELDS: u64 = 0x00ff_00ff_00ff_00ff;
    sum + (word & FIELDS) + ((word >> 8) & FIELDS)
}

/// The four fields of 16 bits, added up.
fn fold_fields(sum: Val<'_, u64>) -> Val<'_, u64> {
    (sum & 0xffff) + ((sum >> 16) & 0xffff) + ((sum >> 32) & 0xffff) + (sum >> 48)
}

/// How many pairs of words a turn of the loop takes. Their bytes do not overflow a field of 16 bits.
const PAIRS: u32 = 32;

/// Sums the bytes of a chunk by one lane. What is behind the end of a chunk is zero, and chunks are multiples of 512 bytes. The
/// region has `elements` elements, which is a power of two: places that are masked to it need no further check.
fn sum_by_lane(elements: u32) -> Handler {
    Handler::lane_wide(move |task| {
        let (f, words) = (task.body(), task.region::<u64>("stream"));
        let (first, end) = (task.arg(0), task.arg(0) + ((task.arg(1) + 7) >> 3));
        let sum = f.range((first, end, f.lit(2 * PAIRS)), f.lit(0u64), |_, at, sum| {
            let fields = (0..PAIRS).fold(f.lit(0u64), |fields, pair| {
                let two = f.load_wide::<u64, 2>(
                    Order::Relaxed,
                    Scope::Group,
                    words.at((at + 2 * pair) & (elements - 1)),
                );
                add_fields(add_fields(fields, two[0]), two[1])
            });
            sum + fold_fields(fields)
        });
        task.finish(f.cast::<u32>(sum));
    })
}

/// Sums the bytes of a chunk by all lanes of a group, each of which takes 16 bytes at a time.
fn sum_by_group() -> Handler {
    Handler::group_wide(|group| {
        let (f, words) = (group.body(), group.region::<u64>("stream"));
        let total = group.shared::<u32>("total", 1);
        let (first, end) = (group.arg(0), group.arg(0) + ((group.arg(1) + 7) >> 3));
        let own = f.range((first + f.lane() * 2, end, f.lanes() * 2), f.lit(0u64), |_, at, sum| {
            let two = f.load_wide::<u64, 2>(Order::Relaxed, Scope::Group, words.at(at));
            sum + fold_fields(add_fields(add_fields(f.lit(0u64), two[0]), two[1]))
        });
        f.atomic_add(Order::Relaxed, Scope::Group, total.at(0), f.cast::<u32>(own));
        f.barrier();
        group.finish(f.load(total.at(0)));
    })
}
