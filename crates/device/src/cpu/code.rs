//! Compiled kernels: what Cranelift makes of them, kept by content.
//!
//! A device that is used for long meets many kernels, so only those that were used last are kept. Machine code is freed when
//! nobody has it any more: neither the cache, nor a loaded kernel, nor a launch.

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
use pelton_ir::emit::Flat;
use pelton_ir::module::Site;
use pelton_ir::op::Op;
use pelton_ir::valid::Valid;
use rustc_hash::FxBuildHasher;

use crate::error::DeviceError;

use super::abi::GroupEntry;
use super::lower::{GroupFrame, GroupSize, lower};

/// Bytes that a group may use beside its buffers.
pub(super) const MAX_FRAME: usize = 64 << 20;

/// The most compiled kernels that are kept for the next load.
pub(super) const MAX_KEPT: usize = 64;
/// The most bytes of machine code that are kept for the next load.
pub(super) const MAX_KEPT_BYTES: usize = 16 << 20;

/// What the compiled kernels of a CPU device take up.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct CodeCacheStats {
    /// Kernels that were compiled since the device was opened.
    pub compiled: u64,
    /// Kernels that are kept for the next load: those that were used last.
    pub kept: usize,
    /// Bytes of their machine code.
    pub kept_bytes: usize,
    /// Kernels whose machine code is there: those that are kept, and those that are loaded or run.
    pub live: usize,
    /// Bytes of their machine code.
    pub live_bytes: usize,
}

/// Counts machine code that is there.
#[derive(Debug, Default)]
struct LiveCode {
    kernels: AtomicUsize,
    bytes: AtomicUsize,
}

/// Machine code, freed with this.
struct MachineCode {
    /// Taken when it is freed. The lock is never waited for; it lets threads share the code.
    module: Mutex<Option<JITModule>>,
    /// Bytes of machine code that were counted.
    bytes: usize,
    live: Arc<LiveCode>,
}

impl MachineCode {
    fn new(module: JITModule, live: &Arc<LiveCode>) -> Self {
        MachineCode { module: Mutex::new(Some(module)), bytes: 0, live: live.clone() }
    }

    /// Counts the code, which is done.
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

/// A compiled kernel. Loaded kernels, the jobs of launches and the cache share it; the last of them frees it.
pub(super) struct CpuCode {
    /// Runs one group. Whoever calls it holds the `CpuCode` meanwhile.
    pub entry: GroupEntry,
    /// The memory a group needs.
    pub frame: GroupFrame,
    /// Whether a group of the kernel may wait for another group.
    pub may_wait: bool,
    /// Where each instruction of the compiled function came from.
    sites: Vec<Site>,
    machine: MachineCode,
}

impl fmt::Debug for CpuCode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "CpuCode(at {:p}, {} bytes a group)", self.entry as *const (), self.frame.bytes)
    }
}

impl CpuCode {
    /// Where a compiled instruction stands in the module that was handed in.
    pub(super) fn site(&self, inst: u32) -> Site {
        self.sites[inst as usize]
    }
}

/// A kernel that was compiled, and what from and for.
struct CachedKernel {
    /// Of the rest; equality decides.
    hash: u64,
    module: Valid,
    kernel: Func,
    lanes: u32,
    code: Arc<CpuCode>,
}

/// Compiled kernels, the one that was used last at the end. They are few, so a list does.
struct CodeCache {
    kept: Vec<CachedKernel>,
    bytes: usize,
    /// The most bytes that are kept, unless a single kernel has more.
    most_bytes: usize,
    compiled: u64,
}

impl Default for CodeCache {
    fn default() -> Self {
        CodeCache { kept: Vec::new(), bytes: 0, most_bytes: MAX_KEPT_BYTES, compiled: 0 }
    }
}

impl CodeCache {
    /// A kernel that is kept, which is then the one used last.
    fn find(&mut self, (hash, module, kernel, lanes): (u64, &Valid, Func, u32)) -> Option<Arc<CpuCode>> {
        let same =
            |e: &CachedKernel| (e.hash, e.kernel, e.lanes) == (hash, kernel, lanes) && e.module == *module;
        let at = self.kept.iter().rposition(same)?;
        self.kept[at..].rotate_left(1);
        self.kept.last().map(|entered| entered.code.clone())
    }

    /// Keeps one more, and gives those that have to go for it: the ones that were not used for longest.
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

/// Compiles kernels, and keeps those that were used last.
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
    /// For this machine.
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

    /// Lanes in a subgroup.
    pub(super) fn subgroup(&self) -> u32 {
        self.subgroup
    }

    fn shape(&self, lanes: u32) -> GroupSize {
        GroupSize { lanes, subgroup: self.subgroup, simd: self.simd }
    }

    /// The machine it compiles for.
    pub(super) fn target(&self) -> String {
        self.isa.triple().to_string()
    }

    fn cache(&self) -> MutexGuard<'_, CodeCache> {
        self.cache.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
    }

    /// What compiled kernels take up.
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

    /// The compiled kernel, made now or before.
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
        // What goes is freed when others may use the cache again.
        drop(cache);
        drop(gone);
        Ok(code)
    }

    /// The kernel in Cranelift's IR, before its own optimiser.
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
                what: "the memory a group needs",
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

/// Compiles a function. Gives its address, and how many bytes of machine code it has.
fn define(jit: &mut JITModule, function: ir::Function) -> Result<(*const u8, usize), DeviceError> {
    let id = jit.declare_function("kernel", Linkage::Local, &function.signature).map_err(codegen)?;
    let mut context = cranelift_codegen::Context::for_function(function);
    jit.define_function(id, &mut context).map_err(|error| codegen(format!("{error:?}")))?;
    jit.finalize_definitions().map_err(codegen)?;
    let bytes = context.compiled_code().map_or(1, |code| code.code_info().total_size as usize);
    Ok((jit.get_finalized_function(id), bytes))
}

/// Optimises and inlines, and refuses what does not run here.
fn prepare(module: &Valid, kernel: Func) -> Result<Flat, DeviceError> {
    let flat = Flat::new(module, kernel).map_err(codegen)?;
    for ((_, node), site) in flat.function().insts().zip(&flat.sites) {
        if matches!(node.op, Op::AsyncLoad | Op::AsyncWait) {
            return Err(DeviceError::Op { device: "cpu".into(), op: node.op.row().name, site: *site });
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
