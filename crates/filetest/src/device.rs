//! Filetests on the devices of `pelton-device`.

use std::ops::ControlFlow;
use std::sync::{Arc, OnceLock};

use pelton_device::cpu;
use pelton_device::launch::{Launch, Outcome as Why};
use pelton_device::{Device, DeviceError, Kernel, Kind, Memory, Width, open};
use pelton_ir::types::{Const, Need, Space};

use crate::data::Data;
use crate::line::{End, Ending, Geometry};
use crate::target::{Job, Outcome, Plan, Target, TargetError};

/// The CPU, its groups on real threads.
pub struct Cpu;

/// Threads for launches of more groups than can be resident.
const THREADS: u32 = 2;

/// Rounds of a litmus file on real threads: each is a launch, and they are not steered towards rare outcomes.
const ROUNDS: u64 = 500;

impl Target for Cpu {
    fn name(&self) -> &str {
        "cpu"
    }

    fn lacks(&self, needs: &[Need]) -> Option<String> {
        needs.contains(&Need::Subgroups).then(|| format!("the CPU does not have {}", Need::Subgroups))
    }

    fn run(
        &self,
        job: &Job<'_>,
        plan: Plan,
        see: &mut dyn FnMut(Outcome) -> ControlFlow<()>,
    ) -> Result<(), TargetError> {
        let device = cpu::Cpu::new(cpu::Config {
            threads: Some(THREADS),
            subgroup: job.geometry.subgroup,
            ..cpu::Config::default()
        })?;
        let kernel = device.load(job.module, job.kernel, job.geometry.lanes)?;
        rounds(&device, &*kernel, job, plan, see)
    }
}

/// The first GPU of NVIDIA, if there is one.
pub struct Cuda;

/// Opened once for all tests.
fn cuda() -> Result<&'static dyn Device, &'static DeviceError> {
    static DEVICE: OnceLock<Result<Arc<dyn Device>, DeviceError>> = OnceLock::new();
    DEVICE.get_or_init(|| open("cuda")).as_ref().map(|device| &**device)
}

impl Target for Cuda {
    fn name(&self) -> &str {
        "cuda"
    }

    fn absent(&self) -> Option<String> {
        cuda().err().map(DeviceError::to_string)
    }

    fn suits(&self, geometry: Geometry) -> bool {
        cuda().map_or(true, |device| device.caps().subgroup == geometry.subgroup)
    }

    fn run(
        &self,
        job: &Job<'_>,
        plan: Plan,
        see: &mut dyn FnMut(Outcome) -> ControlFlow<()>,
    ) -> Result<(), TargetError> {
        // A test that is ignored here can still be asked for by name.
        let device = cuda().map_err(|error| TargetError::Absent(error.to_string()))?;
        let kernel = device.load(job.module, job.kernel, job.geometry.lanes)?;
        rounds(device, &*kernel, job, plan, see)
    }
}

/// Launches as often as a plan asks for.
fn rounds(
    device: &dyn Device,
    kernel: &dyn Kernel,
    job: &Job<'_>,
    plan: Plan,
    see: &mut dyn FnMut(Outcome) -> ControlFlow<()>,
) -> Result<(), TargetError> {
    let rounds = match plan {
        Plan::Agree => 1,
        Plan::Explore { rounds } => rounds.min(ROUNDS),
    };
    for round in 0..rounds {
        if see(launch(device, kernel, job, round)?).is_break() {
            break;
        }
    }
    Ok(())
}

/// Memory of a device with the words of a buffer.
pub fn upload(device: &dyn Device, space: Space, data: &Data) -> Result<Memory, DeviceError> {
    let kind = if space == Space::Host { Kind::Host } else { Kind::Device };
    let memory = device.alloc(kind, Width::of(data.elem()), data.len())?;
    memory.set_bits(&data.iter().map(Const::bits).collect::<Vec<u64>>())?;
    Ok(memory)
}

/// What memory holds, as a buffer of the same kind as another.
pub fn download(memory: &Memory, like: &Data) -> Result<Data, TargetError> {
    let bits = memory.bits()?;
    Ok(Data::new(like.elem(), bits.len() as u64, |at| bits[at as usize])?)
}

fn launch(
    device: &dyn Device,
    kernel: &dyn Kernel,
    job: &Job<'_>,
    round: u64,
) -> Result<Outcome, TargetError> {
    let mut launch = Launch::new(job.geometry.groups).deadline(job.deadline);
    for ((_, decl), data) in job.module.buffers.iter().zip(job.data) {
        launch.buffers.push(data.as_ref().map(|data| upload(device, decl.space, data)).transpose()?);
    }
    let run = kernel.launch(&launch)?;
    let ending = match run.wait(None) {
        Ok(ended) => {
            let ended = ended.expect("without a timeout it waits for the end");
            let end = if ended.outcome == Why::Done { End::Done } else { End::Stopped };
            Ending { end, fault: ended.fault.map(|fault| fault.code) }
        }
        Err(DeviceError::Fault { code, recorded, .. }) => {
            Ending { end: End::Trap(code), fault: recorded.map(|fault| fault.code) }
        }
        Err(error) => return Err(error.into()),
    };
    let pairs = launch.buffers.iter().zip(job.data);
    let data = pairs.map(|(memory, data)| match (memory, data) {
        (Some(memory), Some(data)) => download(memory, data).map(Some),
        _ => Ok(None),
    });
    Ok(Outcome { way: format!("round {round}"), ending, data: data.collect::<Result<_, TargetError>>()? })
}
