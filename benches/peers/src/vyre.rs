//! Measures batches of adds through vyre-runtime, from host to host.
//!
//! The crate's kernel that runs a batch once is what can be compared: every item is in the ring before the launch,
//! and the whole ring comes back. The times do not include compiling the kernel and filling the ring. The crate
//! remembers its results for equal bytes, so no two batches are equal: a word that is added to starts from the
//! number of the run.

use std::error::Error;
use std::sync::Arc;
use std::time::{Duration, Instant};

use vyre_driver::backend::{DispatchConfig, OutputBuffers, VyreBackend};
use vyre_driver_cuda::cuda_factory;
use vyre_runtime::megakernel::{
    CONTROL_MIN_WORDS, Megakernel, MegakernelWorkItem, build_program_sharded_once_slots_shared, io, opcode,
    read_done_count,
};

use crate::row::BenchRow;

/// The numbers of items per batch.
const SIZES: [u32; 4] = [256, 4096, 65_536, 1_048_576];
/// The time for which each size is measured, and the least number of runs.
const TIME: Duration = Duration::from_millis(1000);
const TURNS: u32 = 20;
/// The number of lanes per group.
const LANES: u32 = 256;
/// The words that items add to: the last of the control words, which nothing else uses.
const WORDS: u32 = 16;

/// Measures a row of times and a row of items per second for each size.
pub fn rows() -> Result<Vec<BenchRow>, Box<dyn Error>> {
    // SAFETY: the question loads the driver's library, which runs what any program that uses a GPU runs.
    if !unsafe { cudarc::driver::sys::is_culib_present() } {
        return Err("there is no CUDA driver here, and the crate is measured on a GPU".into());
    }
    let backend: Arc<dyn VyreBackend> =
        cuda_factory().map_err(|why| format!("there is no CUDA device here: {why}"))?.into();
    let mut rows = Vec::new();
    for items in SIZES {
        let times = times(&backend, items)?;
        let at = |share: f64| times[((times.len() - 1) as f64 * share) as usize];
        let row = |metric: &'static str, value, spread| BenchRow {
            group: "peers",
            case: format!("vyre 0.6.3, dispatch of {items}"),
            device: "cuda:0".into(),
            metric: metric.into(),
            value,
            spread,
            against: None,
        };
        rows.push(row("us", at(0.5), Some([at(0.5), at(0.99), at(0.999)])));
        rows.push(row("items/s", f64::from(items) / at(0.5) * 1e6, None));
    }
    Ok(rows)
}

/// The sorted times of a batch with a number of items, in microseconds. Each run is checked.
fn times(backend: &Arc<dyn VyreBackend>, items: u32) -> Result<Vec<f64>, Box<dyn Error>> {
    let program = build_program_sharded_once_slots_shared(LANES, items, &[]);
    let mut config = DispatchConfig::default();
    config.grid_override = Some([items / LANES, 1, 1]);
    config.workgroup_override = Some([LANES, 1, 1]);
    let pipeline = vyre_driver::pipeline::compile_shared(Arc::clone(backend), program, &config)?;

    let first = CONTROL_MIN_WORDS - WORDS;
    let adds: Vec<_> = (0..items)
        .map(|k| MegakernelWorkItem {
            op_handle: opcode::ATOMIC_ADD,
            input_handle: 1,
            output_handle: first + k % WORDS,
            param: 0,
        })
        .collect();
    let mut ring = Vec::new();
    Megakernel::encode_work_items_ring_into(items, 0, &adds, &mut ring)?;
    let mut control = Megakernel::encode_control(false, 1, 0)?;
    let log = Megakernel::encode_empty_debug_log(Megakernel::debug_record_capacity())?;
    let queue = io::try_encode_empty_io_queue(io::IO_SLOT_COUNT)?;

    let (mut outputs, mut times) = (OutputBuffers::new(), Vec::new());
    let began = Instant::now();
    for turn in 0.. {
        let at = first as usize * 4;
        control[at..at + 4].copy_from_slice(&u32::to_le_bytes(turn));
        let start = Instant::now();
        pipeline.dispatch_borrowed_into(&[&control, &ring, &log, &queue], &config, &mut outputs)?;
        let took = start.elapsed();
        check(&outputs, items, first, turn)?;
        // The first run is not like the others.
        if turn > 0 {
            times.push(took.as_secs_f64() * 1e6);
        }
        if turn >= TURNS && began.elapsed() >= TIME {
            break;
        }
    }
    times.sort_by(f64::total_cmp);
    Ok(times)
}

/// Checks that every item ran, by the kernel's own count, by the words that were added to, and by the ring.
fn check(outputs: &OutputBuffers, items: u32, first: u32, turn: u32) -> Result<(), Box<dyn Error>> {
    let (control, ring) = match &outputs[..] {
        [control, ring, ..] => (control, ring),
        _ => return Err(format!("{} buffers came back", outputs.len()).into()),
    };
    let added: u64 = control
        .chunks_exact(4)
        .skip(first as usize)
        .map(|word| u64::from(u32::from_le_bytes([word[0], word[1], word[2], word[3]])))
        .sum::<u64>()
        .wrapping_sub(turn.into());
    let done = read_done_count(control);
    let marked = Megakernel::try_count_done_ring_slots(ring, items as usize)?;
    if [u64::from(done), added, marked] != [u64::from(items); 3] {
        return Err(
            format!("of {items} items {done} are counted, {added} added, {marked} marked as done").into()
        );
    }
    Ok(())
}
