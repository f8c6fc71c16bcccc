//! Streams: every byte of the input reaches a task once, in order, whatever the input is and however it is read.
//!
//! The comment above each test says which defect it catches.

mod faults;
mod files;
mod pipes;
#[cfg(target_os = "linux")]
mod refusal;
mod stops;

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use pelton::device::{Device, open};
use pelton::stream::{ResultOrder, StreamEngine};
use pelton::{Geometry, Handler, Region, Session, Spec};
use pelton_ir::types::Type;

/// A test, with its name.
pub(crate) type Test = (&'static str, fn());

/// The engines that this system has.
pub(crate) const ENGINES: &[StreamEngine] = &[
    StreamEngine::Plain,
    #[cfg(target_os = "linux")]
    StreamEngine::IoUring,
];

pub(crate) const ORDERS: [ResultOrder; 2] = [ResultOrder::ByOffset, ResultOrder::AsTheyEnd];

/// Gives the sum of those bytes of a chunk that the chunk before it did not have.
pub(crate) fn sum() -> Handler {
    Handler::lane_wide(|task| {
        let (f, bytes) = (task.body(), task.region::<u32>("stream"));
        let sum = f.range((task.arg(5), task.arg(1), f.lit(1)), f.lit(0), |_, at, sum| {
            sum + f.load_byte(bytes.at(task.arg(0) + (at >> 2)), at & 3)
        });
        task.finish(sum);
    })
}

/// Gives the argument that its seventh argument names, or a fault if that is 12.
pub(crate) fn argument() -> Handler {
    Handler::lane_wide(|task| {
        let f = task.body();
        let all = (0..8).fold(f.lit(0), |rest, k| f.select(task.arg(6).eq(k), task.arg(k), rest));
        f.when(task.arg(6).eq(12), || task.fault(2000u32));
        task.finish(all);
    })
}

/// Gives the number of bytes after the last one of a chunk, up to the next multiple of 64, that are not zero.
pub(crate) fn dirt() -> Handler {
    Handler::lane_wide(|task| {
        let (f, bytes) = (task.body(), task.region::<u32>("stream"));
        let end = (task.arg(1) + 63) & !63u32;
        let dirty = f.range((task.arg(1), end, f.lit(1)), f.lit(0), |_, at, dirty| {
            let byte = f.load_byte(bytes.at(task.arg(0) + (at >> 2)), at & 3);
            f.select(byte.eq(0), dirty, dirty + 1)
        });
        task.finish(dirty);
    })
}

/// A spec with these handlers and a region of so many bytes for a stream.
pub(crate) fn spec(region_bytes: u32) -> Spec {
    Spec::new(Geometry::new(64).groups(2))
        .fuel(u32::MAX)
        .region(Region::new("stream", Type::U32, region_bytes / 4).in_host_memory())
        .handler("sum", sum())
        .handler("argument", argument())
        .handler("dirt", dirt())
}

/// The devices of this machine, of which the interpreter is slow.
pub(crate) fn devices() -> Vec<Arc<dyn Device>> {
    let gpu = open("cuda").is_ok().then_some("cuda");
    ["cpu", "reference", "process:cpu"].into_iter().chain(gpu).map(|name| open(name).unwrap()).collect()
}

pub(crate) fn launch(device: &Arc<dyn Device>, region_bytes: u32) -> Session {
    Session::launch(device, &spec(region_bytes)).unwrap()
}

/// Launches a session on the CPU.
pub(crate) fn on_cpu(region_bytes: u32) -> Session {
    launch(&open("cpu").unwrap(), region_bytes)
}

/// Bytes that look random, different for each seed.
pub(crate) fn noise(seed: u32, len: usize) -> Vec<u8> {
    let mut state = seed.wrapping_mul(0x9e37_79b9) | 1;
    let mut next = || {
        state ^= state << 13;
        state ^= state >> 17;
        state ^= state << 5;
        (state >> 8) as u8
    };
    (0..len).map(|_| next()).collect()
}

pub(crate) fn byte_sum(bytes: &[u8]) -> u64 {
    bytes.iter().map(|byte| u64::from(*byte)).sum()
}

/// A folder of a test, which is removed with everything in it.
pub(crate) struct Folder(PathBuf);

impl Folder {
    pub(crate) fn new(name: &str) -> Self {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let number = COUNT.fetch_add(1, Ordering::Relaxed);
        let path = std::env::temp_dir().join(format!("pelton-stream-{}-{name}-{number}", std::process::id()));
        std::fs::create_dir_all(&path).unwrap();
        Folder(path)
    }

    pub(crate) fn path(&self) -> &Path {
        &self.0
    }

    /// Writes a file, and returns its path.
    pub(crate) fn write(&self, name: &str, bytes: &[u8]) -> PathBuf {
        let path = self.0.join(name);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(&path, bytes).unwrap();
        path
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

fn main() -> std::process::ExitCode {
    #[cfg(target_os = "linux")]
    pelton::device::process::serve_if_asked();
    use libtest_mimic::{Arguments, Trial, run};
    let themes = [
        ("faults", faults::TESTS),
        ("files", files::TESTS),
        ("pipes", pipes::TESTS),
        ("stops", stops::TESTS),
    ];
    let mut all: Vec<Trial> = Vec::new();
    let mut add = |theme: &str, tests: &[Test]| {
        all.extend(tests.iter().map(|(name, test)| {
            let test = *test;
            Trial::test(format!("{theme}::{name}"), move || {
                test();
                Ok(())
            })
        }));
    };
    themes.iter().for_each(|(theme, tests)| add(theme, tests));
    #[cfg(target_os = "linux")]
    add("refusal", refusal::TESTS);
    // This is what tests that streams end at all.
    std::thread::spawn(|| {
        std::thread::sleep(std::time::Duration::from_secs(600));
        eprintln!("a stream does not end");
        std::process::abort();
    });
    run(&Arguments::from_args(), all).exit_code()
}

/// Functions with their names.
macro_rules! named {
    ($($test:ident),* $(,)?) => {
        &[$((stringify!($test), $test as fn())),*]
    };
}
pub(crate) use named;
