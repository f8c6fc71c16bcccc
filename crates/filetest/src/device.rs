//! The devices of `pelton-device` as targets of filetests.

use std::sync::{Arc, OnceLock};

use pelton_device::cpu;
use pelton_device::launch::{Launch, LaunchOutcome as Why};
use pelton_device::{Device, DeviceError, Kernel, Memory, MemoryKind, WordWidth, open};
use pelton_ir::types::{Const, Need, Space};

use crate::data::BufferData;
use crate::line::{EndKind, Ending, LaunchGeometry};
use crate::target::{LaunchPlan, OutcomeSink, TargetError, TargetJob, TargetOutcome, TestTarget, show_each};

/// The CPU device, which runs groups on real threads.
pub struct CpuTarget;

/// The number of threads for launches of more groups than can be resident.
const THREADS: u32 = 2;

/// The largest number of rounds of a litmus line on a real device: each round is a launch, and nothing steers it
/// towards rare outcomes.
const ROUNDS: u64 = 500;

impl TestTarget for CpuTarget {
    fn name(&self) -> &str {
        "cpu"
    }

    fn lacking(&self, needs: &[Need]) -> Option<String> {
        needs.contains(&Need::Subgroups).then(|| format!("the CPU does not have {}", Need::Subgroups))
    }

    fn run_job(&self, job: &TargetJob<'_>, see: OutcomeSink<'_>) -> Result<(), TargetError> {
        let device = cpu::Cpu::new(cpu::CpuConfig {
            threads: Some(THREADS),
            subgroup: job.geometry.subgroup,
            ..cpu::CpuConfig::default()
        })?;
        let kernel = device.load(job.module, job.kernel, job.geometry.lanes)?;
        launch_rounds(&device, &*kernel, job, see)
    }
}

/// The first NVIDIA GPU, if there is one.
pub struct CudaTarget;

/// The GPU, which is opened once for all tests.
fn cuda_device() -> Result<&'static dyn Device, &'static DeviceError> {
    static DEVICE: OnceLock<Result<Arc<dyn Device>, DeviceError>> = OnceLock::new();
    DEVICE.get_or_init(|| open("cuda")).as_ref().map(|device| &**device)
}

impl TestTarget for CudaTarget {
    fn name(&self) -> &str {
        "cuda"
    }

    fn absent(&self) -> Option<String> {
        cuda_device().err().map(DeviceError::to_string)
    }

    fn suits_geometry(&self, geometry: LaunchGeometry) -> bool {
        cuda_device().map_or(true, |device| device.caps().subgroup == geometry.subgroup)
    }

    fn run_job(&self, job: &TargetJob<'_>, see: OutcomeSink<'_>) -> Result<(), TargetError> {
        // A test that is listed as ignored can still be asked for by name.
        let device = cuda_device().map_err(|error| TargetError::Absent(error.to_string()))?;
        let kernel = device.load(job.module, job.kernel, job.geometry.lanes)?;
        launch_rounds(device, &*kernel, job, see)
    }
}

/// Launches as often as the job's plan asks for.
fn launch_rounds(
    device: &dyn Device,
    kernel: &dyn Kernel,
    job: &TargetJob<'_>,
    see: OutcomeSink<'_>,
) -> Result<(), TargetError> {
    let rounds = match job.plan {
        LaunchPlan::Agree => 1,
        LaunchPlan::Explore { rounds } => rounds.min(ROUNDS),
    };
    show_each((0..rounds).map(|round| launch_round(device, kernel, job, round)), see)
}

/// Allocates memory on a device, and copies a buffer's contents to it.
pub fn upload_buffer(device: &dyn Device, space: Space, data: &BufferData) -> Result<Memory, DeviceError> {
    let kind = if space == Space::Host { MemoryKind::Host } else { MemoryKind::Device };
    let memory = device.alloc(kind, WordWidth::of(data.elem()), data.len())?;
    memory.set_bits(&data.iter().map(Const::bits).collect::<Vec<u64>>())?;
    Ok(memory)
}

/// Copies the contents of memory back, as a buffer with the same element type as `like`.
pub fn download_buffer(memory: &Memory, like: &BufferData) -> Result<BufferData, TargetError> {
    let bits = memory.bits()?;
    Ok(BufferData::new(like.elem(), bits.len() as u64, |at| bits[at as usize])?)
}

fn launch_round(
    device: &dyn Device,
    kernel: &dyn Kernel,
    job: &TargetJob<'_>,
    round: u64,
) -> Result<TargetOutcome, TargetError> {
    let mut launch = Launch::new(job.geometry.groups).deadline(job.deadline);
    for ((_, decl), data) in job.module.buffers.iter().zip(job.data) {
        launch.buffers.push(data.as_ref().map(|data| upload_buffer(device, decl.space, data)).transpose()?);
    }
    let run = kernel.launch(&launch)?;
    let ending = match run.wait(None) {
        Ok(ended) => {
            let ended = ended.expect("without a timeout it waits for the end");
            let end = if ended.outcome == Why::Done { EndKind::Done } else { EndKind::Stopped };
            Ending { end, fault: ended.fault.map(|fault| fault.code) }
        }
        Err(DeviceError::Fault { code, recorded, .. }) => {
            Ending { end: EndKind::Trap(code), fault: recorded.map(|fault| fault.code) }
        }
        Err(error) => return Err(error.into()),
    };
    let pairs = launch.buffers.iter().zip(job.data);
    let data = pairs.map(|(memory, data)| match (memory, data) {
        (Some(memory), Some(data)) => download_buffer(memory, data).map(Some),
        _ => Ok(None),
    });
    Ok(TargetOutcome {
        way: format!("round {round}"),
        ending,
        data: data.collect::<Result<_, TargetError>>()?,
    })
}
