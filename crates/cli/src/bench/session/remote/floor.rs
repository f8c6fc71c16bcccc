//! The costs of a device and of the way to it without a session: a round trip of a word, a copy, a launch, and a
//! node of a graph.

use std::cell::Cell;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Instant;

use pelton::Placement;
use pelton_device::{Device, Launch, Memory, MemoryKind, WordWidth};

use crate::bench::cuda::open_as_cuda;
use crate::bench::device::parse_kernel;
use crate::error::CliError;

/// The number of 64-bit words that are copied: 64 MiB.
const WORDS: usize = 8 << 20;
/// The number of kernels in a graph.
const NODES: u32 = 1000;
/// The number of bytes in a slot.
pub(super) const SLOT: f64 = 64.0;

const KERNELS: &str = include_str!("../../kernels/word.pel");

/// The sorted times of a word's round trips through memory of a placement, in microseconds.
pub(super) fn time_mailbox(
    device: &Arc<dyn Device>,
    place: Placement,
    rounds: u32,
) -> Result<Vec<f64>, CliError> {
    let near = place == Placement::Near;
    let kernel = device.load(&parse_kernel("word", KERNELS)?, Some(if near { "near" } else { "far" }), 1)?;
    let ask = device.alloc(if near { MemoryKind::Near } else { MemoryKind::Host }, WordWidth::W64, 8)?;
    let answer = device.alloc(MemoryKind::Host, WordWidth::W64, 1)?;
    let launch = Launch { buffers: vec![Some(ask.clone()), Some(answer.clone())], ..Launch::new(1) };
    let run = kernel.launch(&launch)?;
    let mapped = || CliError::Wrong("host memory is not mapped for the device".into());
    let answer = answer.words64().and_then(<[_]>::first).ok_or_else(mapped)?;
    let mut times = Vec::with_capacity(rounds as usize);
    for round in 1..=u64::from(rounds) {
        let start = Instant::now();
        if near {
            ask.put(0, &[[round; 8]])?;
            ask.flush();
        } else {
            // Pairs with the kernel's acquire.
            ask.words64().ok_or_else(mapped)?[0].store(round, Ordering::Release);
        }
        run.wake();
        // Acquire pairs with the far kernel's release; with near memory nothing is read after it.
        while answer.load(Ordering::Acquire) != round {
            std::hint::spin_loop();
        }
        times.push(start.elapsed().as_secs_f64() * 1e6);
    }
    run.stop();
    run.wait(None)?;
    times.sort_by(f64::total_cmp);
    Ok(times)
}

/// Host memory that the device can access, and device memory to copy it to.
pub(super) struct HostCopier {
    from: Memory,
    to: Memory,
    words: Vec<u64>,
    /// Whether anything has been copied yet.
    copied: Cell<bool>,
}

impl HostCopier {
    /// Allocates both, and fills the host memory.
    pub(super) fn new(device: &Arc<dyn Device>) -> Result<HostCopier, CliError> {
        let from = device.alloc(MemoryKind::Host, WordWidth::W64, WORDS)?;
        let to = device.alloc(MemoryKind::Device, WordWidth::W64, WORDS)?;
        let words: Vec<u64> = (0..WORDS as u64).map(|k| k.wrapping_mul(0x9e37_79b9_7f4a_7c15)).collect();
        from.upload(0, &words)?;
        Ok(HostCopier { from, to, words, copied: Cell::new(false) })
    }

    /// The bytes per second of the best of a number of copies.
    pub(super) fn rate(&self, turns: u32) -> Result<f64, CliError> {
        let mapped = self.from.words64().unwrap_or(&[]);
        // SAFETY: an atomic word has the layout of a plain word, and nothing writes these words while they are
        // borrowed, because no kernel has them.
        let source = unsafe { std::slice::from_raw_parts(mapped.as_ptr().cast::<u64>(), mapped.len()) };
        let mut best = f64::INFINITY;
        for _ in 0..turns {
            let start = Instant::now();
            self.to.upload(0, source)?;
            best = best.min(start.elapsed().as_secs_f64());
        }
        self.copied.set(true);
        Ok(size_of_val(source) as f64 / best)
    }

    /// Compares the device's memory with what was copied, if anything was.
    pub(super) fn verify(&self) -> Result<(), CliError> {
        if !self.copied.get() {
            return Ok(());
        }
        let mut back = vec![0; WORDS];
        self.to.download(0, &mut back)?;
        match back == self.words {
            true => Ok(()),
            false => Err(CliError::Wrong("the device's memory differs from what was copied to it".into())),
        }
    }
}

/// The sorted times of launching an empty kernel and waiting for its end, in microseconds.
pub(super) fn time_launches(device: &Arc<dyn Device>, rounds: u32) -> Result<Vec<f64>, CliError> {
    let kernel =
        device.load(&parse_kernel("nothing", include_str!("../../kernels/nothing.pel"))?, None, 1)?;
    let launch = Launch::new(1);
    let mut times = Vec::with_capacity(rounds as usize);
    for _ in 0..rounds {
        let start = Instant::now();
        kernel.run(&launch)?;
        times.push(start.elapsed().as_secs_f64() * 1e6);
    }
    times.sort_by(f64::total_cmp);
    Ok(times)
}

/// The sorted times per node of a graph of empty kernels, in microseconds; `None` if the device is not an NVIDIA
/// GPU.
pub(super) fn time_graph_nodes(device: &Arc<dyn Device>, rounds: u32) -> Result<Option<Vec<f64>>, CliError> {
    let Some(gpu) = open_as_cuda(device)? else { return Ok(None) };
    let mut times: Vec<f64> = gpu
        .graph(NODES, rounds)?
        .into_iter()
        .map(|time| time.as_secs_f64() * 1e6 / f64::from(NODES))
        .collect();
    times.sort_by(f64::total_cmp);
    Ok(Some(times))
}
