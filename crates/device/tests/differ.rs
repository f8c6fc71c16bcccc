//! Devices do what the interpreter does, on generated modules; devices that are not there are ignored.
//!
//! `PROPTEST_CASES=10000 cargo test -p pelton-device --test differ --release` looks longer.

use std::process::ExitCode;
use std::sync::OnceLock;

use libtest_mimic::{Arguments, Trial, run};
use pelton_device::cpu::{self, Cpu};
use pelton_device::{Device, DeviceError, Launch, LaunchOutcome as Why, Memory, MemoryKind, WordWidth};
use pelton_gen::case::{CaseEnd, CaseOutcome, GeneratedCase};
use pelton_gen::config::GeneratorConfig;
use pelton_gen::hold::hold_law;
use pelton_gen::law::{BrokenLaw, Law};
use pelton_ir::interp::Schedule;
use pelton_ir::module::BufferDecl;
use pelton_ir::types::Space;
use pelton_ir::valid::{Valid, validate};

/// A buffer's memory with what it starts with.
fn upload(device: &dyn Device, decl: &BufferDecl, data: &[u64]) -> Result<Memory, DeviceError> {
    let kind = if decl.space == Space::Host { MemoryKind::Host } else { MemoryKind::Device };
    let memory = device.alloc(kind, WordWidth::of(decl.elem), data.len())?;
    memory.set_bits(data)?;
    Ok(memory)
}

/// What comes of a case on a device.
fn outcome(device: &dyn Device, case: &GeneratedCase, module: &Valid) -> Result<CaseOutcome, DeviceError> {
    let kernel = device.load(module, None, case.geometry.lanes)?;
    let mut launch = Launch::new(case.geometry.groups).deadline(case.deadline);
    for ((_, decl), data) in module.buffers.iter().zip(case.data()) {
        let upload = |data: Vec<u64>| upload(device, decl, &data);
        launch.buffers.push(data.map(upload).transpose()?);
    }
    let ended = kernel.launch(&launch)?.wait(None);
    let (end, fault) = match ended {
        Ok(ended) => {
            let ended = ended.expect("without a timeout it waits for the end");
            (if ended.outcome == Why::Done { CaseEnd::Done } else { CaseEnd::Stopped }, ended.fault)
        }
        Err(DeviceError::Fault { code, recorded, .. }) => (CaseEnd::Trapped(code), recorded),
        Err(error) => return Err(error),
    };
    let data = launch.buffers.iter().map(|memory| memory.as_ref().map(Memory::bits).transpose());
    Ok(CaseOutcome {
        end,
        faults: fault.map_or(0, |fault| fault.count),
        code: fault.map(|fault| fault.code),
        data: data.collect::<Result<_, _>>()?,
    })
}

/// Holds a device against the interpreter.
fn same(law: &'static str, device: &dyn Device, case: &GeneratedCase) -> Result<(), BrokenLaw> {
    let broken = |why: String| BrokenLaw::new(law, why);
    // Generated kernels may say that they need independent subgroups, but none makes use of them.
    let mut module = case.module.clone();
    module.needs.clear();
    let module = validate(module).map_err(|error| broken(error.to_string()))?;
    let expect = case.run(&module, Schedule::Threads(1)).map_err(|error| broken(error.to_string()))?;
    let found = outcome(device, case, &module).map_err(|error| broken(error.to_string()))?;
    expect.differs(&found, &case.module).map_or(Ok(()), |why| Err(broken(why)))
}

fn cpu(case: &GeneratedCase) -> Result<(), BrokenLaw> {
    let config =
        cpu::CpuConfig { threads: Some(2), subgroup: case.geometry.subgroup, ..cpu::CpuConfig::default() };
    let device = Cpu::new(config).map_err(|error| BrokenLaw::new("cpu", error.to_string()))?;
    same("cpu", &device, case)
}

/// The GPU, opened once. What is compiled for it is not kept: no case comes again.
#[cfg(feature = "cuda")]
fn gpu() -> Result<&'static dyn Device, &'static DeviceError> {
    use pelton_device::cuda::{Cuda, CudaConfig};
    static GPU: OnceLock<Result<Cuda, DeviceError>> = OnceLock::new();
    let open = || Cuda::new(CudaConfig { cache: None, ..CudaConfig::default() });
    GPU.get_or_init(open).as_ref().map(|gpu| gpu as &dyn Device)
}

#[cfg(not(feature = "cuda"))]
fn gpu() -> Result<&'static dyn Device, &'static DeviceError> {
    static ABSENT: OnceLock<DeviceError> = OnceLock::new();
    let absent = || DeviceError::Absent { name: "cuda".into(), why: "it is not built".into() };
    Err(ABSENT.get_or_init(absent))
}

fn cuda(case: &GeneratedCase) -> Result<(), BrokenLaw> {
    let device = gpu().map_err(|error| BrokenLaw::new("cuda", error.to_string()))?;
    let mut case = case.clone();
    case.geometry.subgroup = device.caps().subgroup;
    same("cuda", device, &case)
}

fn main() -> ExitCode {
    let trial = |name: &str, law: Law| {
        Trial::test(name, move || {
            hold_law(300, &GeneratorConfig::DEFAULT, law);
            Ok(())
        })
    };
    let all = vec![
        trial("the_cpu_does_what_the_interpreter_does", cpu),
        trial("cuda_does_what_the_interpreter_does", cuda).with_ignored_flag(gpu().is_err()),
    ];
    run(&Arguments::from_args(), all).exit_code()
}
