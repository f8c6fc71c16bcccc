//! Kernels compiled for a GPU. A kernel that is in use is compiled only once.

use std::fmt;
use std::hash::BuildHasher;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, Weak};

use pelton_ir::arena::{Func, Handle};
use pelton_ir::emit::EmitError;
use pelton_ir::emit::ptx::{self, Ptx, PtxParam};
use pelton_ir::module::Site;
use pelton_ir::valid::Valid;
use rustc_hash::{FxBuildHasher, FxHashMap};

use crate::error::DeviceError;

use super::context::CudaContext;
use super::current::{Current, FunctionHandle, GroupShape, ModuleHandle};
use super::deferred::DeferredFree;
use super::info::GpuInfo;
use super::link;
use super::raw::DriverStatus;

/// A kernel that is compiled and loaded on a GPU.
pub(super) struct CudaCode {
    context: Arc<CudaContext>,
    /// The module as it was given, for checking bindings and finding places.
    pub module: Valid,
    kernel: Func,
    /// The size of its groups.
    pub shape: GroupShape,
    /// The driver's handle of the kernel.
    pub function: FunctionHandle,
    /// How many groups the device holds at once.
    pub resident: u32,
    /// Whether a group of the kernel may wait for another group.
    pub may_wait: bool,
    /// The buffers of its launch record, in order.
    pub params: Vec<PtxParam>,
    /// The instructions that sites in its end record stand for.
    sites: Vec<Site>,
    loaded: ModuleHandle,
}

impl fmt::Debug for CudaCode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "CudaCode(at {:p}, {} groups of {} lanes at once)",
            self.function.0, self.resident, self.shape.lanes
        )
    }
}

impl CudaCode {
    /// The instruction of the given module that a site in the end record stands for.
    pub(super) fn site(&self, inst: u32) -> Site {
        self.sites
            .get(inst as usize)
            .or(self.sites.first())
            .copied()
            .unwrap_or(Site { func: self.kernel, inst: Handle::new(0) })
    }
}

impl Drop for CudaCode {
    fn drop(&mut self) {
        self.context.defer_free(DeferredFree::Module(self.loaded));
    }
}

/// A kernel that is compiled for a GPU and not loaded yet.
pub(super) struct MachineCode {
    module: Valid,
    kernel: Func,
    lanes: u32,
    ptx: Ptx,
    cubin: Vec<u8>,
}

/// Compiles kernels for a GPU. Kernels that are in use are found again, and others may be in the cache on disk.
pub(super) struct CudaCompiler {
    context: Arc<CudaContext>,
    folder: Option<PathBuf>,
    /// The kernels in use, by a hash of their module. Equality of the modules decides.
    used: Mutex<FxHashMap<u64, Vec<Weak<CudaCode>>>>,
}

impl fmt::Debug for CudaCompiler {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "CudaCompiler({})", self.context.info.compiler)
    }
}

impl CudaCompiler {
    /// A compiler for a device. The folder is the cache of compiled code.
    pub(super) fn new(context: Arc<CudaContext>, folder: Option<PathBuf>) -> Self {
        CudaCompiler { context, folder, used: Mutex::default() }
    }

    /// Compiles and loads a kernel, or finds it among those in use.
    pub(super) fn find_or_load(
        &self,
        module: &Valid,
        kernel: Func,
        lanes: u32,
    ) -> Result<Arc<CudaCode>, DeviceError> {
        let hash = FxBuildHasher.hash_one((&**module, kernel, lanes));
        let used = || self.used.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
        let same = |code: &Arc<CudaCode>| {
            (code.kernel, code.shape.lanes) == (kernel, lanes) && code.module == *module
        };
        let found = used().get(&hash).and_then(|list| list.iter().filter_map(Weak::upgrade).find(same));
        if let Some(code) = found {
            return Ok(code);
        }
        // Two threads may compile the same kernel at once. Each gets a correct one.
        self.load(&self.compile(module, kernel, lanes)?)
    }

    /// Compiles a kernel to machine code, also while other kernels run.
    pub(super) fn compile(
        &self,
        module: &Valid,
        kernel: Func,
        lanes: u32,
    ) -> Result<MachineCode, DeviceError> {
        let ptx = emit(&self.context.info, module, kernel, lanes)?;
        let cubin = link::cubin(&self.context, &ptx.text, self.folder.as_deref())?;
        Ok(MachineCode { module: module.clone(), kernel, lanes, ptx, cubin })
    }

    /// Loads machine code. Waits a moment if a kernel is resident, and fails if it stays.
    pub(super) fn load(&self, code: &MachineCode) -> Result<Arc<CudaCode>, DeviceError> {
        let loaded = Arc::new(self.load_new(code)?);
        let hash = FxBuildHasher.hash_one((&*code.module, code.kernel, code.lanes));
        let mut used = self.used.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
        used.retain(|_, list| {
            list.retain(|code| code.strong_count() > 0);
            !list.is_empty()
        });
        used.entry(hash).or_default().push(Arc::downgrade(&loaded));
        Ok(loaded)
    }

    fn load_new(&self, code: &MachineCode) -> Result<CudaCode, DeviceError> {
        let MachineCode { module, kernel, lanes, ptx, cubin } = code;
        let shape = GroupShape { lanes: *lanes, shared: ptx.dynamic };
        let alone = self.context.alone()?;
        let current = self.context.enter()?;
        let loaded = current.load(cubin)?;
        let found = find(current, loaded, &ptx.entry, shape);
        let (function, groups) = found.inspect_err(|_| DeferredFree::Module(loaded).free(current))?;
        drop(alone);
        Ok(CudaCode {
            context: self.context.clone(),
            module: module.clone(),
            kernel: *kernel,
            shape,
            function,
            resident: groups * self.context.info.units,
            may_wait: ptx.may_wait,
            params: ptx.params.clone(),
            sites: ptx.sites.clone(),
            loaded,
        })
    }
}

/// Finds a kernel of a loaded module and makes it ready to be launched. Also gives how many of its groups a multiprocessor holds.
fn find(
    current: Current,
    module: ModuleHandle,
    name: &str,
    shape: GroupShape,
) -> Result<(FunctionHandle, u32), DriverStatus> {
    let function = current.function(module, name)?;
    if shape.shared > 0 {
        current.allow_shared(function, shape.shared)?;
    }
    Ok((function, current.occupancy(function, shape)?))
}

/// Emits a kernel as PTX, and refuses it if it exceeds what the device has.
fn emit(info: &GpuInfo, module: &Valid, kernel: Func, lanes: u32) -> Result<Ptx, DeviceError> {
    let config = ptx::PtxConfig { target: info.target, lanes };
    let device = || info.open.clone();
    let ptx =
        ptx::emit_ptx(module, Some(&module.functions[kernel].name), &config).map_err(
            |error| match error {
                EmitError::Op { op, site } => {
                    DeviceError::Op { device: device(), op: op.row().name.into(), site }
                }
                error => DeviceError::Codegen(error.to_string()),
            },
        )?;
    if ptx.shared > info.shared {
        let (found, most) = (ptx.shared.into(), info.shared.into());
        let what = "the shared memory of a group, in bytes,";
        return Err(DeviceError::Limit { device: device(), what: what.into(), found, most });
    }
    Ok(ptx)
}
