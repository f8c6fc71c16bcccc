//! The CPU does what the interpreter does, on generated modules.
//!
//! `PROPTEST_CASES=10000 cargo test -p pelton-device --test differ --release` looks longer.

use pelton_device::cpu::{Config, Cpu};
use pelton_device::{Device, DeviceError, Kind, Launch, Memory, Outcome as Why, Width};
use pelton_gen::case::{Case, Ended, Outcome};
use pelton_gen::config::Config as Make;
use pelton_gen::hold::hold;
use pelton_gen::law::Broken;
use pelton_ir::interp::Schedule;
use pelton_ir::module::BufferDecl;
use pelton_ir::types::Space;
use pelton_ir::valid::{Valid, validate};

fn broken(why: impl ToString) -> Broken {
    Broken::new("cpu", why.to_string())
}

/// A buffer's memory with what it starts with.
fn upload(device: &Cpu, decl: &BufferDecl, data: &[u64]) -> Result<Memory, DeviceError> {
    let kind = if decl.space == Space::Host { Kind::Host } else { Kind::Device };
    let memory = device.alloc(kind, Width::of(decl.elem), data.len())?;
    memory.set_bits(data)?;
    Ok(memory)
}

/// What comes of a case on the CPU.
fn run(case: &Case, module: &Valid) -> Result<Outcome, DeviceError> {
    let config = Config { threads: Some(2), subgroup: case.geometry.subgroup, ..Config::default() };
    let device = Cpu::new(config)?;
    let kernel = device.load(module, None, case.geometry.lanes)?;
    let mut launch = Launch::new(case.geometry.groups).deadline(case.deadline);
    for ((_, decl), data) in module.buffers.iter().zip(case.data()) {
        let upload = |data: Vec<u64>| upload(&device, decl, &data);
        launch.buffers.push(data.map(upload).transpose()?);
    }
    let ended = kernel.launch(&launch)?.wait(None);
    let (end, fault) = match ended {
        Ok(ended) => {
            let ended = ended.expect("without a timeout it waits for the end");
            (if ended.outcome == Why::Done { Ended::Done } else { Ended::Stopped }, ended.fault)
        }
        Err(DeviceError::Fault { code, recorded, .. }) => (Ended::Trapped(code), recorded),
        Err(error) => return Err(error),
    };
    let data = launch.buffers.iter().map(|memory| memory.as_ref().map(Memory::bits).transpose());
    Ok(Outcome {
        end,
        faults: fault.map_or(0, |fault| fault.count),
        code: fault.map(|fault| fault.code),
        data: data.collect::<Result<_, _>>()?,
    })
}

fn same(case: &Case) -> Result<(), Broken> {
    // Generated kernels may say that they need independent subgroups, but none makes use of them.
    let mut module = case.module.clone();
    module.needs.clear();
    let module = validate(module).map_err(broken)?;
    let expect = case.run(&module, Schedule::Threads(1)).map_err(broken)?;
    let found = run(case, &module).map_err(broken)?;
    expect.differs(&found, &case.module).map_or(Ok(()), |why| Err(broken(why)))
}

#[test]
fn the_cpu_does_what_the_interpreter_does() {
    hold(300, &Make::DEFAULT, same);
}
