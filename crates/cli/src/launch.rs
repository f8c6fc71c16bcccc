//! Launches a kernel on the requested device, or under a seeded schedule.

use std::time::Duration;

use pelton_device::{Device, DeviceError, Launch, LaunchOutcome, open};
use pelton_filetest::data::BufferData;
use pelton_filetest::device::{download_buffer, upload_buffer};
use pelton_filetest::line::LaunchGeometry;
use pelton_ir::interp::{self, BoundWords, End, Fault, InterpKernel, Schedule};
use pelton_ir::valid::Valid;

use crate::error::CliError;
use crate::stop;

/// A launch that is requested.
pub(crate) struct LaunchJob<'a> {
    /// The device's name.
    pub device: &'a str,
    /// The seed of a schedule of the reference interpreter, which then runs the kernel instead of a device.
    pub seed: Option<u64>,
    /// The module that holds the kernel.
    pub module: &'a Valid,
    /// The kernel, if the module has several.
    pub kernel: Option<&'a str>,
    /// The lanes of the launch.
    pub geometry: LaunchGeometry,
    /// The contents of the buffers: the initial ones before the launch, the final ones after it.
    pub data: &'a mut [Option<BufferData>],
    /// The time after which the kernel is stopped.
    pub deadline: Option<Duration>,
}

/// The outcome of a launch.
pub(crate) struct LaunchReport {
    /// The name of the device.
    pub device: String,
    /// How the launch ended.
    pub end: End,
    /// The first fault that was recorded, if there was one.
    pub fault: Option<Fault>,
    /// The number of steps, if the device counts them.
    pub steps: Option<u64>,
}

/// The time between two looks for Ctrl-C while a kernel runs.
const GLANCE: Duration = Duration::from_millis(20);

/// Launches a kernel and waits for its end. Ctrl-C stops the kernel.
pub(crate) fn launch_job(job: LaunchJob<'_>) -> Result<LaunchReport, CliError> {
    stop::listen()?;
    match job.seed {
        Some(seed) => launch_seeded(job, seed),
        None => {
            let device = open(job.device)?;
            launch_on_device(&*device, job)
        }
    }
}

fn launch_on_device(device: &dyn Device, job: LaunchJob<'_>) -> Result<LaunchReport, CliError> {
    let kernel = device.load(job.module, job.kernel, job.geometry.lanes)?;
    let mut launch = Launch::new(job.geometry.groups);
    launch.deadline = job.deadline;
    for ((_, decl), data) in job.module.buffers.iter().zip(&*job.data) {
        launch.buffers.push(data.as_ref().map(|data| upload_buffer(device, decl.space, data)).transpose()?);
    }
    let run = kernel.launch(&launch)?;
    let ended = loop {
        match run.wait(Some(GLANCE)) {
            Ok(None) if stop::pressed() => run.stop(),
            Ok(None) => {}
            Ok(Some(ended)) => break Ok(ended),
            Err(error) => break Err(error),
        }
    };
    let (end, fault) = match ended {
        Ok(ended) if ended.outcome == LaunchOutcome::Done => (End::Done, ended.fault),
        Ok(ended) => (End::Stopped, ended.fault),
        Err(DeviceError::Fault { code, site, recorded, .. }) => (End::Trapped { code, site }, recorded),
        Err(error) => return Err(error.into()),
    };
    for (memory, data) in launch.buffers.iter().zip(job.data) {
        if let (Some(memory), Some(data)) = (memory, data) {
            *data = download_buffer(memory, data)?;
        }
    }
    Ok(LaunchReport { device: device.caps().name.clone(), end, fault, steps: None })
}

fn launch_seeded(job: LaunchJob<'_>, seed: u64) -> Result<LaunchReport, CliError> {
    let program = InterpKernel::new(job.module, job.kernel)?;
    let LaunchGeometry { groups, lanes, subgroup } = job.geometry;
    let report = program.run(&interp::InterpLaunch {
        groups,
        lanes,
        subgroup,
        buffers: job
            .data
            .iter()
            .map(|data| data.as_ref().map_or(BoundWords::None, BufferData::words))
            .collect(),
        stop: Some(stop::listen()?),
        deadline: job.deadline,
        schedule: Schedule::Seeded(seed),
    })?;
    let device = format!("reference, seed {seed}");
    Ok(LaunchReport { device, end: report.end, fault: report.fault, steps: Some(report.steps) })
}
