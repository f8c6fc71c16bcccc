//! Kernels that Cranelift has compiled, and the cache of those that were used last.
//!
//! A device that is used for long compiles many kernels, so only those that were used last are kept. Machine code is freed when
//! neither the cache, nor a loaded kernel, nor a launch holds it any more.

use std::fmt;
use std::hash::BuildHasher;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};

use cranelift_codegen::ir;
use cranelift_codegen::isa::OwnedTargetIsa;
use cranelift_codegen::settings::{self, Configurable};
use cranelift_jit::{JITBuilder, JITModule};
use cranelift_module::{Linkage, Module as _, default_libcall_names};
use pelton_ir::arena::Func;
use pelton_ir::emit::FlatKernel;
use pelton_ir::module::Site;
use pelton_ir::op::Op;
use pelton_ir::valid::Valid;
use rustc_hash::FxBuildHasher;

use crate::error::DeviceError;

use super::abi::GroupEntry;
use super::lower::{GroupFrame, GroupSize, lower};

/// The largest number of bytes that a group may use beside its buffers.
pub(super) const MAX_FRAME: usize = 64 << 20;

/// The largest number of compiled kernels that are kept for the next load.
pub(super) const MAX_KEPT: usize = 64;
/// The largest number of bytes of machine code that are kept for the next load.
pub(super) const MAX_KEPT_BYTES: usize = 16 << 20;

/// How many compiled kernels a CPU device holds, and how much memory their machine code takes.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct CodeCacheStats {
    /// How many kernels were compiled since the device was opened.
    pub compiled: u64,
    /// How many kernels are kept for the next load: those that were used last.
    pub kept: usize,
    /// How many bytes of machine code these kernels have.
    pub kept_bytes: usize,
    /// How many kernels have machine code in memory: those that are kept, and those that are loaded or run.
    pub live: usize,
    /// How many bytes of machine code these kernels have.
    pub live_bytes: usize,
}

/// Counts the machine code that is in memory.
#[derive(Debug, Default)]
struct LiveCode {
    kernels: AtomicUsize,
    bytes: AtomicUsize,
}

/// Machine code, which is freed when this is dropped.
struct MachineCode {
    /// The module, which is taken when the code is freed. The mutex is never contended; it only makes the type `Sync`.
    module: Mutex<Option<JITModule>>,
    /// How many bytes were added to the counters.
    bytes: usize,
    live: Arc<LiveCode>,
}

impl MachineCode {
    fn new(module: JITModule, live: &Arc<LiveCode>) -> Self {
        MachineCode { module: Mutex::new(Some(module)), bytes: 0, live: live.clone() }
    }

    /// Adds the finished code to the counters.
    fn count(&mut self, bytes: usize) {
        self.bytes = bytes;
        self.live.kernels.fetch_add(1, Ordering::Relaxed);
        self.live.bytes.fetch_add(bytes, Ordering::Relaxed);
    }
}

impl Drop for MachineCode {
    fn drop(&mut self) {
        if self.bytes > 0 {
            self.live.kernels.fetch_sub(1, Ordering::Relaxed);
            self.live.bytes.fetch_sub(self.bytes, Ordering::Relaxed);
        }
        if let Some(module) = self.module.get_mut().unwrap_or_else(|poisoned| poisoned.into_inner()).take() {
            // SAFETY: only `run::work` calls the code, and the job that does so holds its `CpuCode`, which owns this, until the call
            // has returned. So no thread runs it, and none will: whoever could start it is gone.
            unsafe { module.free_memory() }
        }
    }
}

/// A compiled kernel. Loaded kernels, the jobs of launches and the cache share it, and the last of them frees it.
pub(super) struct CpuCode {
    /// The compiled function, which runs one group. A caller must hold the `CpuCode` until the function returns.
    pub entry: GroupEntry,
    /// The memory that a group needs beside its buffers.
    pub frame: GroupFrame,
    /// Whether a group of the kernel may wait for another group.
    pub may_wait: bool,
    /// The instruction of the given module that each compiled instruction came from.
    sites: Vec<Site>,
    machine: MachineCode,
}

impl fmt::Debug for CpuCode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "CpuCode(at {:p}, {} bytes a group)", self.entry as *const (), self.frame.bytes)
    }
}

impl CpuCode {
    /// The instruction of the given module that a compiled instruction came from.
    pub(super) fn site(&self, inst: u32) -> Site {
        self.sites[inst as usize]
    }
}

/// A kernel in the cache, with the module it was compiled from and the number of lanes it was compiled for.
struct CachedKernel {
    /// A hash of module, kernel and lanes, which is compared first.
    hash: u64,
    module: Valid,
    kernel: Func,
    lanes: u32,
    code: Arc<CpuCode>,
}

/// The compiled kernels that are kept, in the order of their last use. They are few, so a list is enough.
struct CodeCache {
    kept: Vec<CachedKernel>,
    bytes: usize,
    /// The largest number of bytes that are kept. A single larger kernel is kept alone.
    most_bytes: usize,
    compiled: u64,
}

impl Default for CodeCache {
    fn default() -> Self {
        CodeCache { kept: Vec::new(), bytes: 0, most_bytes: MAX_KEPT_BYTES, compiled: 0 }
    }
}

impl CodeCache {
    /// Finds a kernel, which then counts as the one that was used last.
    fn find(&mut self, (hash, module, kernel, lanes): (u64, &Valid, Func, u32)) -> Option<Arc<CpuCode>> {
        let same =
            |e: &CachedKernel| (e.hash, e.kernel, e.lanes) == (hash, kernel, lanes) && e.module == *module;
        let at = self.kept.iter().rposition(same)?;
        self.kept[at..].rotate_left(1);
        self.kept.last().map(|entered| entered.code.clone())
    }

    /// Adds a kernel, and gives back the kernels that make room for it: those whose last use is longest ago.
    fn keep(&mut self, entered: CachedKernel) -> Vec<CachedKernel> {
        self.bytes += entered.code.machine.bytes;
        self.kept.push(entered);
        let mut gone = 0;
        while self.kept.len() - gone > MAX_KEPT || self.bytes > self.most_bytes && gone + 1 < self.kept.len()
        {
            self.bytes -= self.kept[gone].code.machine.bytes;
            gone += 1;
        }
        self.kept.drain(..gone).collect()
    }
}

/// Compiles kernels for the CPU and keeps those that were used last.
pub(super) struct CpuCompiler {
    isa: OwnedTargetIsa,
    subgroup: u32,
    simd: bool,
    cache: Mutex<CodeCache>,
    live: Arc<LiveCode>,
}

impl fmt::Debug for CpuCompiler {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "CpuCompiler({})", self.isa.triple())
    }
}

fn codegen(error: impl fmt::Display) -> DeviceError {
    DeviceError::Codegen(error.to_string())
}

impl CpuCompiler {
    /// A compiler for the machine that it runs on.
    pub(super) fn new(subgroup: u32, simd: bool) -> Result<Self, DeviceError> {
        let mut flags = settings::builder();
        for (name, value) in [
            ("opt_level", "speed"),
            ("use_colocated_libcalls", "false"),
            ("is_pic", "false"),
            ("unwind_info", "false"),
            ("enable_probestack", "false"),
        ] {
            flags.set(name, value).map_err(codegen)?;
        }
        flags
            .set("enable_verifier", if cfg!(debug_assertions) { "true" } else { "false" })
            .map_err(codegen)?;
        let isa = cranelift_native::builder().map_err(codegen)?;
        let isa = isa.finish(settings::Flags::new(flags)).map_err(codegen)?;
        Ok(CpuCompiler { isa, subgroup, simd, cache: Mutex::default(), live: Arc::default() })
    }

    /// How many lanes a subgroup has.
    pub(super) fn subgroup(&self) -> u32 {
        self.subgroup
    }

    fn shape(&self, lanes: u32) -> GroupSize {
        GroupSize { lanes, subgroup: self.subgroup, simd: self.simd }
    }

    /// The machine that it compiles for, as text.
    pub(super) fn target(&self) -> String {
        self.isa.triple().to_string()
    }

    fn cache(&self) -> MutexGuard<'_, CodeCache> {
        self.cache.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
    }

    /// How many compiled kernels there are, and how much memory they take.
    pub(super) fn stats(&self) -> CodeCacheStats {
        let cache = self.cache();
        CodeCacheStats {
            compiled: cache.compiled,
            kept: cache.kept.len(),
            kept_bytes: cache.bytes,
            live: self.live.kernels.load(Ordering::Relaxed),
            live_bytes: self.live.bytes.load(Ordering::Relaxed),
        }
    }

    /// Compiles a kernel, or finds it in the cache.
    pub(super) fn compile(
        &self,
        module: &Valid,
        kernel: Func,
        lanes: u32,
    ) -> Result<Arc<CpuCode>, DeviceError> {
        let hash = FxBuildHasher.hash_one((&**module, kernel, lanes));
        if let Some(code) = self.cache().find((hash, module, kernel, lanes)) {
            return Ok(code);
        }
        let code = Arc::new(self.compile_new(module, kernel, lanes)?);
        let mut cache = self.cache();
        cache.compiled += 1;
        // Another thread may have compiled the same kernel meanwhile; one is enough.
        if let Some(code) = cache.find((hash, module, kernel, lanes)) {
            return Ok(code);
        }
        let gone =
            cache.keep(CachedKernel { hash, module: module.clone(), kernel, lanes, code: code.clone() });
        // Machine code is freed after the lock, so that other threads need not wait for it.
        drop(cache);
        drop(gone);
        Ok(code)
    }

    /// A kernel in Cranelift's IR, before Cranelift optimises it.
    pub(super) fn clif(&self, module: &Valid, kernel: Func, lanes: u32) -> Result<ir::Function, DeviceError> {
        let flat = prepare(module, kernel)?;
        Ok(lower(&flat.module, kernel, self.shape(lanes), &*self.isa).0)
    }

    fn compile_new(&self, module: &Valid, kernel: Func, lanes: u32) -> Result<CpuCode, DeviceError> {
        let flat = prepare(module, kernel)?;
        let (function, frame) = lower(&flat.module, kernel, self.shape(lanes), &*self.isa);
        if frame.bytes > MAX_FRAME {
            let (found, most) = (frame.bytes as u64, MAX_FRAME as u64);
            return Err(DeviceError::Limit {
                device: "cpu".into(),
                what: "the memory a group needs".into(),
                found,
                most,
            });
        }
        let jit = JITModule::new(JITBuilder::with_isa(self.isa.clone(), default_libcall_names()));
        let mut machine = MachineCode::new(jit, &self.live);
        let (address, bytes) = {
            let mut jit = machine.module.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
            define(jit.as_mut().expect("it was just made"), function)?
        };
        machine.count(bytes);
        // SAFETY: the function was made with the signature of `GroupEntry`.
        let entry = unsafe { std::mem::transmute::<*const u8, GroupEntry>(address) };
        Ok(CpuCode { entry, frame, may_wait: flat.may_wait(), sites: flat.sites, machine })
    }
}

/// Compiles a function. Gives its address and the size of its machine code in bytes.
fn define(jit: &mut JITModule, function: ir::Function) -> Result<(*const u8, usize), DeviceError> {
    let id = jit.declare_function("kernel", Linkage::Local, &function.signature).map_err(codegen)?;
    let mut context = cranelift_codegen::Context::for_function(function);
    jit.define_function(id, &mut context).map_err(|error| codegen(format!("{error:?}")))?;
    jit.finalize_definitions().map_err(codegen)?;
    let bytes = context.compiled_code().map_or(1, |code| code.code_info().total_size as usize);
    Ok((jit.get_finalized_function(id), bytes))
}

/// Inlines and optimises a kernel, and refuses operations that the CPU does not run.
fn prepare(module: &Valid, kernel: Func) -> Result<FlatKernel, DeviceError> {
    let flat = FlatKernel::new(module, kernel).map_err(codegen)?;
    for ((_, node), site) in flat.function().insts().zip(&flat.sites) {
        if matches!(node.op, Op::AsyncLoad | Op::AsyncWait) {
            return Err(DeviceError::Op { device: "cpu".into(), op: node.op.row().name.into(), site: *site });
        }
    }
    Ok(flat)
}

#[cfg(test)]
mod tests {
    use pelton_ir::{text, valid::validate};

    use super::CpuCompiler;

    /// Catches large kernels that are kept because they are few.
    #[test]
    fn what_is_kept_is_bounded_in_bytes() {
        let compiler = CpuCompiler::new(32, true).unwrap();
        let compile = |number: u32| {
            let source = format!(
                "buffer data: [u32; ?] global read_write\nkernel main {{\n  store @data[0], {number}\n}}\n"
            );
            let module = validate(text::parse(&source).unwrap()).unwrap();
            let kernel = module.kernels().next().unwrap();
            compiler.compile(&module, kernel, 1).unwrap();
            compiler.stats()
        };
        let one = compile(1).kept_bytes;
        let most = one * 4;
        compiler.cache().most_bytes = most;
        for number in 2..20 {
            let stats = compile(number);
            assert!(stats.kept_bytes <= most && stats.kept >= 2, "{stats:?}");
            assert_eq!((stats.live, stats.live_bytes), (stats.kept, stats.kept_bytes));
        }
        // One that is too large is kept all the same, but nothing else.
        compiler.cache().most_bytes = 1;
        let stats = compile(20);
        assert_eq!((stats.kept, stats.live, stats.kept_bytes), (1, 1, stats.live_bytes), "{stats:?}");
        assert!(stats.kept_bytes > 1);
    }
}
