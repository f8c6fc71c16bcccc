//! Kernels and runs of a device in another process.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use pelton_ir::valid::Valid;

use super::connection::{Connection, next_number, unexpected};
use super::message::{Given, LaunchWish, Number, Wish};
use crate::error::DeviceError;
use crate::event::begin_lent_epoch;
use crate::gate::{self, LaunchPass, LaunchRoom};
use crate::launch::{Launch, LaunchEnd, WakeWord};
use crate::memory::Memory;
use crate::{CompiledKernel, Kernel, Run};

/// Code that the executor has compiled.
#[derive(Debug)]
struct RemoteCode {
    executor: Arc<Connection>,
    number: Number,
    module: Valid,
}

/// Lets the executor compile a kernel.
pub(super) fn compile(
    executor: Arc<Connection>,
    module: &Valid,
    kernel: Option<&str>,
    lanes: u32,
) -> Result<CompiledKernel, DeviceError> {
    crate::launch::kernel_to_load(module, kernel)?;
    let number = next_number();
    let text = pelton_ir::text::print(module);
    let kernel = kernel.map(String::from);
    executor.ask(Wish::Compile { code: number, module: text, kernel, lanes })?;
    let code = RemoteCode { executor, number, module: module.clone() };
    Ok(CompiledKernel::new(move || code.load()))
}

impl RemoteCode {
    fn load(&self) -> Result<Arc<dyn Kernel>, DeviceError> {
        let alone = match &self.executor.gate {
            Some(gate) => {
                let alone = gate.alone(gate::PATIENCE);
                Some(alone.ok_or(DeviceError::Busy { what: gate::NOT_ALONE.into() })?)
            }
            None => None,
        };
        let kernel = next_number();
        let given = self.executor.ask(Wish::Load { code: self.number, kernel })?;
        drop(alone);
        let Given::Loaded { resident } = given else { return Err(unexpected()) };
        let (executor, module) = (self.executor.clone(), self.module.clone());
        Ok(Arc::new(RemoteKernel { executor, number: kernel, resident, module }))
    }
}

impl Drop for RemoteCode {
    fn drop(&mut self) {
        self.executor.tell(Wish::DropCode { code: self.number });
    }
}

/// A kernel that the executor has loaded.
#[derive(Debug)]
struct RemoteKernel {
    executor: Arc<Connection>,
    number: Number,
    resident: u32,
    module: Valid,
}

impl RemoteKernel {
    /// The number of memory at the executor, which is mapped there if it is memory of the host.
    fn memory_number(&self, memory: &Memory) -> Result<Number, DeviceError> {
        match memory.store().address(self.executor.number) {
            Some(number) => Ok(number),
            None => match memory.store().why_lost() {
                Some(lost) => Err(lost),
                None => self.executor.map(memory),
            },
        }
    }
}

impl Kernel for RemoteKernel {
    fn resident(&self) -> u32 {
        self.resident
    }

    fn launch(&self, launch: &Launch) -> Result<Box<dyn Run>, DeviceError> {
        let bound = launch.bound(&self.module)?;
        if let Some(why) = self.executor.why_lost() {
            return Err(DeviceError::Lost(why));
        }
        let number = |memory: Option<&Memory>| memory.map(|memory| self.memory_number(memory)).transpose();
        let buffers = bound.into_iter().map(number).collect::<Result<_, _>>()?;
        let pass = match &self.executor.gate {
            Some(gate) => {
                let room = LaunchRoom::of_waiting_groups(launch.groups, self.resident);
                let pass = gate.enter(room, launch.residence.as_ref(), gate::PATIENCE);
                Some(pass.ok_or(DeviceError::Busy { what: gate::NO_ROOM.into() })?)
            }
            None => None,
        };
        let (word_number, wake_word) = self.executor.wake_words.take()?;
        self.executor.expect_run();
        // From here on, dropping the run ends it.
        let mut run = RemoteRun {
            executor: self.executor.clone(),
            number: next_number(),
            module: self.module.clone(),
            word_number,
            wake_word,
            has_ended: AtomicBool::new(false),
            pass: Mutex::new(None),
        };
        let wish = LaunchWish {
            run: run.number,
            kernel: self.number,
            groups: launch.groups,
            buffers,
            deadline: launch.deadline,
            lease: launch.lease,
            wake_word: word_number,
        };
        if let Err(error) = self.executor.ask(Wish::Launch(wish)) {
            run.has_ended = AtomicBool::new(true);
            return Err(error);
        }
        run.pass = Mutex::new(pass.map(|mut pass| {
            pass.started();
            pass
        }));
        Ok(Box::new(run))
    }
}

impl Drop for RemoteKernel {
    fn drop(&mut self) {
        self.executor.tell(Wish::DropKernel { kernel: self.number });
    }
}

/// A launch at the executor.
#[derive(Debug)]
struct RemoteRun {
    executor: Arc<Connection>,
    number: Number,
    module: Valid,
    word_number: usize,
    wake_word: WakeWord,
    /// Whether the end of the run is known.
    has_ended: AtomicBool,
    pass: Mutex<Option<LaunchPass>>,
}

impl Run for RemoteRun {
    fn stop(&self) {
        self.executor.tell(Wish::Stop { run: self.number });
    }

    #[inline]
    fn wake(&self) {
        // On a device whose groups never park, the word stays zero.
        if begin_lent_epoch(&self.wake_word) {
            self.executor.tell(Wish::Notify { run: self.number });
        }
    }

    fn renew(&self) {
        self.executor.tell(Wish::Renew { run: self.number });
    }

    fn wait(&self, timeout: Option<Duration>) -> Result<Option<LaunchEnd>, DeviceError> {
        let Some(end) = self.executor.wait_for_end(self.number, timeout) else { return Ok(None) };
        self.has_ended.store(true, Ordering::Relaxed);
        drop(self.pass.lock().unwrap_or_else(PoisonError::into_inner).take());
        end.map(Some).map_err(|error| error.into_error(Some(&self.module)))
    }
}

impl Drop for RemoteRun {
    fn drop(&mut self) {
        if !self.has_ended.load(Ordering::Relaxed) {
            self.stop();
            let _ = self.wait(None);
        }
        self.executor.forget_run(self.number);
        self.executor.wake_words.give_back(self.word_number);
    }
}
