//! A test of whether a kernel that polls near memory sees lines whole. It is run because no specification promises this.
//!
//! Eight lanes read a line, one word each, as kernels do that take tasks from near memory. When the first word has arrived, the
//! other words must have arrived too. The host writes a few lines at a time and waits until the kernel has seen all of them.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use pelton_ir::text;
use pelton_ir::valid::{Valid, validate};

use crate::error::DeviceError;
use crate::launch::Launch;
use crate::mapped::WordWidth;
use crate::memory::{Line, Memory};
use crate::timekeeper::Timekeeper;
use crate::{Kernel, Run};

use super::super::code::CudaCompiler;
use super::super::context::CudaContext;
use super::super::memory;
use super::super::run::CudaKernel;

/// How many lanes the kernel has: one for each word of a line.
const LANES: u32 = 8;
/// How many lines are written over and over.
const LINES: u64 = 32;
/// How many words the lines have.
pub(super) const WORDS: usize = 8 * LINES as usize;
/// How often lines are written and waited for.
const ROUNDS: u64 = 300;
/// How long the test may take; it usually takes some milliseconds.
const LONGEST: Duration = Duration::from_millis(500);
/// A factor that makes successive lines differ in every bit.
const SPREAD: u64 = 0x9e37_79b9_7f4a_7c15;

/// The kernel. The low half of its answer is how many lines it has seen whole, and the high half how often it saw the first word of
/// a line without all of the others.
const KERNEL: &str = "
buffer lines: [u64; 256] host read
buffer answer: [u64; 1] host write

kernel litmus {
  %lane = lane
  %k = cast u64 %lane
  %first = eq %lane, 0
  forever with %seen = 0, %torn = 0 {
    %line = and %seen, 31
    %base = mul %line, 8
    %at = add %base, %lane
    %next = add %seen, 1
    %number = cast u64 %next
    %spread = mul %number, 0x9e3779b97f4a7c15u64
    %expected = add %spread, %k
    %word = atomic_load relaxed system @lines[%at]
    %right = eq %word, %expected
    %mask = ballot %right
    %whole = eq %mask, 255
    %now: u32, %bad: u32 = if %whole {
      if %first {
        %low = cast u64 %next
        %high = cast u64 %torn
        %up = shl %high, 32
        %both = or %up, %low
        atomic_store relaxed system @answer[0], %both
      }
      yield %next, %torn
    } else {
      %head = and %mask, 1
      %more = add %torn, %head
      yield %seen, %more
    }
    yield %now, %bad
  }
}
";

/// Tests whether lines of near memory arrive whole. The error says what failed.
pub(super) fn check_lines(
    context: &Arc<CudaContext>,
    compiler: &CudaCompiler,
    timekeeper: &Arc<Timekeeper>,
    lines: Memory,
) -> Result<(), DeviceError> {
    let failed = |why| DeviceError::Near { device: context.info.open.clone(), why };
    let module = module().map_err(failed)?;
    let code = compiler.find_or_load(&module, module.choose_kernel(None)?, LANES)?;
    let kernel = CudaKernel { context: context.clone(), code, timekeeper: timekeeper.clone() };
    let answer = memory::alloc_host(context, WordWidth::W64, 1)?;
    run(&kernel, &lines, &answer, LONGEST)?.map_err(failed)
}

fn module() -> Result<Valid, String> {
    let module = text::parse(KERNEL).map_err(|_| "the litmus kernel is no program")?;
    validate(module).map_err(|_| "the litmus kernel is not valid".into())
}

/// Runs the kernel for at most `longest` and feeds it. The inner error says why lines do not arrive whole.
fn run(
    kernel: &dyn Kernel,
    lines: &Memory,
    answer: &Memory,
    longest: Duration,
) -> Result<Result<(), String>, DeviceError> {
    let buffers = vec![Some(lines.clone()), Some(answer.clone())];
    let run = kernel.launch(&Launch { buffers, ..Launch::new(1) }.deadline(longest))?;
    let fed = feed(&*run, lines, answer)?;
    run.stop();
    run.wait(None)?;
    Ok(match fed {
        Some(answer) if answer >> 32 == 0 => Ok(()),
        Some(answer) => Err(format!("the litmus failed: lines were seen in part {} times", answer >> 32)),
        None => Err("the litmus failed: a line that was written is not seen".into()),
    })
}

/// Writes lines and waits until the kernel has seen them. Gives the last answer, or `None` if the kernel ended before that.
fn feed(run: &dyn Run, lines: &Memory, answer: &Memory) -> Result<Option<u64>, DeviceError> {
    let Some([answer]) = answer.words64() else { return Ok(None) };
    let mut written = 0;
    for round in 0..ROUNDS {
        for _ in 0..=round % LINES {
            let at = (written % LINES * 8) as usize;
            written += 1;
            lines.put(at, &[line(written)])?;
        }
        lines.flush();
        run.wake();
        // Acquire: what is written next comes after the kernel has seen what was there.
        let mut looks = 0u32;
        while answer.load(Ordering::Acquire) as u32 != written as u32 {
            looks = looks.wrapping_add(1);
            // Asking the device costs more than a look.
            if looks.is_multiple_of(256) && run.wait(Some(Duration::ZERO))?.is_some() {
                return Ok(None);
            }
            std::thread::yield_now();
        }
    }
    Ok(Some(answer.load(Ordering::Relaxed)))
}

/// The line of a number, as the kernel expects it.
fn line(number: u64) -> Line {
    std::array::from_fn(|at| number.wrapping_mul(SPREAD).wrapping_add(at as u64))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Device;
    use crate::cpu::{Cpu, CpuConfig};
    use crate::mapped::Mapped;
    use crate::memory::{MemoryKind, MemoryStore, WordSlice, WordSliceMut};

    /// The kernel on the CPU, over lines of a store.
    fn on_cpu(store: Arc<dyn MemoryStore>, longest: Duration) -> Result<(), String> {
        let device = Cpu::new(CpuConfig::default()).expect("there is a processor");
        let kernel = device.load(&module().expect("it is a program"), None, LANES).expect("it compiles");
        let lines = Memory::new(MemoryKind::Near, WordWidth::W64, WORDS, store);
        let answer = device.alloc(MemoryKind::Host, WordWidth::W64, 1).expect("there is memory");
        run(&*kernel, &lines, &answer, longest).expect("nothing else fails")
    }

    /// Longer than any machine takes.
    const LONG: Duration = Duration::from_secs(600);

    fn mapped() -> Mapped {
        Mapped::new(WordWidth::W64, WORDS).expect("there is memory")
    }

    #[test]
    fn lines_that_arrive_whole_pass() {
        assert_eq!(on_cpu(Arc::new(mapped()), LONG), Ok(()));
    }

    /// Writes the first word of a line before the rest, or one word never.
    #[derive(Debug)]
    struct Wrong {
        words: Mapped,
        never: Option<usize>,
    }

    impl MemoryStore for Wrong {
        fn mapped(&self) -> Option<&Mapped> {
            Some(&self.words)
        }
        fn upload(&self, at: usize, words: WordSlice<'_>) -> Result<(), DeviceError> {
            self.words.upload(at, words)
        }
        fn download(&self, at: usize, words: WordSliceMut<'_>) -> Result<(), DeviceError> {
            self.words.download(at, words)
        }
        fn put(&self, at: usize, lines: &[Line]) -> Result<(), DeviceError> {
            let words = &self.words.words64().expect("they have 64 bits")[at..];
            for (k, (word, x)) in words.iter().zip(&lines[0]).enumerate() {
                if (at, k) == (0, 1) && self.never.is_none() {
                    std::thread::sleep(Duration::from_millis(1));
                }
                if Some(k) != self.never {
                    word.store(*x, Ordering::Release);
                }
            }
            Ok(())
        }
        fn flush(&self) {}
    }

    #[test]
    fn lines_whose_first_word_comes_first_do_not() {
        let wrong = Wrong { words: mapped(), never: None };
        let why = on_cpu(Arc::new(wrong), LONG).expect_err("lines are torn");
        assert!(why.contains("seen in part"), "{why}");
    }

    #[test]
    fn lines_with_a_wrong_word_do_not() {
        let wrong = Wrong { words: mapped(), never: Some(5) };
        let why = on_cpu(Arc::new(wrong), Duration::from_millis(50)).expect_err("a word is stale");
        assert!(why.contains("not seen"), "{why}");
    }
}
