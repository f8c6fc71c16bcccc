//! Compiled kernels: what Cranelift makes of them, kept by content.

use std::fmt;
use std::hash::BuildHasher;
use std::sync::{Arc, Mutex};

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
use rustc_hash::{FxBuildHasher, FxHashMap};

use crate::error::DeviceError;

use super::abi::Entry;
use super::lower::{Frame, Shape, lower};

/// Bytes that a group may use beside its buffers.
pub const MAX_FRAME: usize = 64 << 20;

/// A compiled kernel.
pub struct Code {
    /// Runs one group.
    pub entry: Entry,
    /// The memory a group needs.
    pub frame: Frame,
    /// Whether a group may wait for another: only loops that are not counted can.
    pub waits: bool,
    /// Where each instruction of the compiled function came from.
    sites: Vec<Site>,
    /// Owns the machine code; taken when it is freed.
    module: Mutex<Option<JITModule>>,
}

impl fmt::Debug for Code {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Code(at {:p}, {} bytes a group)", self.entry as *const (), self.frame.bytes)
    }
}

impl Code {
    /// Where a compiled instruction stands in the module that was handed in.
    pub fn site(&self, inst: u32) -> Site {
        self.sites[inst as usize]
    }
}

impl Drop for Code {
    fn drop(&mut self) {
        if let Some(module) = self.module.lock().unwrap_or_else(|poisoned| poisoned.into_inner()).take() {
            // SAFETY: launches hold the code they run, so nobody runs it any more.
            unsafe { module.free_memory() }
        }
    }
}

/// A kernel that was compiled, and what from and for.
struct Entered {
    module: Valid,
    kernel: Func,
    lanes: u32,
    code: Arc<Code>,
}

/// Compiles kernels, each once.
pub struct Compiler {
    isa: OwnedTargetIsa,
    subgroup: u32,
    simd: bool,
    /// By a hash of the module; equality decides.
    cache: Mutex<FxHashMap<u64, Vec<Entered>>>,
}

impl fmt::Debug for Compiler {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Compiler({})", self.isa.triple())
    }
}

fn codegen(error: impl fmt::Display) -> DeviceError {
    DeviceError::Codegen(error.to_string())
}

impl Compiler {
    /// For this machine.
    pub fn new(subgroup: u32, simd: bool) -> Result<Self, DeviceError> {
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
        Ok(Compiler { isa, subgroup, simd, cache: Mutex::default() })
    }

    /// Lanes in a subgroup.
    pub fn subgroup(&self) -> u32 {
        self.subgroup
    }

    fn shape(&self, lanes: u32) -> Shape {
        Shape { lanes, subgroup: self.subgroup, simd: self.simd }
    }

    /// The machine it compiles for.
    pub fn target(&self) -> String {
        self.isa.triple().to_string()
    }

    /// The compiled kernel, made now or before.
    pub fn compile(&self, module: &Valid, kernel: Func, lanes: u32) -> Result<Arc<Code>, DeviceError> {
        let hash = FxBuildHasher.hash_one((&**module, kernel, lanes));
        let cache = || self.cache.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
        let same = |entered: &&Entered| {
            (entered.kernel, entered.lanes) == (kernel, lanes) && entered.module == *module
        };
        if let Some(entered) = cache().get(&hash).and_then(|entered| entered.iter().find(same)) {
            return Ok(entered.code.clone());
        }
        // Two threads may compile the same kernel at once; each gets a right one.
        let code = Arc::new(self.fresh(module, kernel, lanes)?);
        let entered = Entered { module: module.clone(), kernel, lanes, code: code.clone() };
        cache().entry(hash).or_default().push(entered);
        Ok(code)
    }

    /// The kernel in Cranelift's IR, before its own optimiser.
    pub fn clif(&self, module: &Valid, kernel: Func, lanes: u32) -> Result<ir::Function, DeviceError> {
        let flat = prepare(module, kernel)?;
        Ok(lower(&flat.module, kernel, self.shape(lanes), &*self.isa).0)
    }

    fn fresh(&self, module: &Valid, kernel: Func, lanes: u32) -> Result<Code, DeviceError> {
        let flat = prepare(module, kernel)?;
        let waits = flat.function().insts().any(|(_, node)| matches!(node.op, Op::While | Op::Forever));
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
        let mut jit = JITModule::new(JITBuilder::with_isa(self.isa.clone(), default_libcall_names()));
        let id = jit.declare_function("kernel", Linkage::Local, &function.signature).map_err(codegen)?;
        let mut context = cranelift_codegen::Context::for_function(function);
        jit.define_function(id, &mut context).map_err(|error| codegen(format!("{error:?}")))?;
        jit.finalize_definitions().map_err(codegen)?;
        let address = jit.get_finalized_function(id);
        // SAFETY: the function was made with the signature of `Entry`.
        let entry = unsafe { std::mem::transmute::<*const u8, Entry>(address) };
        Ok(Code { entry, frame, waits, sites: flat.sites, module: Mutex::new(Some(jit)) })
    }
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
