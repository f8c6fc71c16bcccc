//! Compiled kernels: what the emitter and the driver make of them, each once.

use std::fmt;
use std::hash::BuildHasher;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, Weak};

use pelton_ir::arena::{Func, Handle};
use pelton_ir::emit::EmitError;
use pelton_ir::emit::ptx::{self, Param, Ptx};
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

/// A compiled kernel.
pub(super) struct CudaCode {
    context: Arc<CudaContext>,
    /// As it was handed in, for bindings and for places.
    pub module: Valid,
    kernel: Func,
    /// What a group of it is.
    pub shape: GroupShape,
    /// What is launched.
    pub function: FunctionHandle,
    /// How many groups there can be at once.
    pub resident: u32,
    /// Whether a group of the kernel may wait for another group.
    pub may_wait: bool,
    /// The buffers that it is launched with, in order.
    pub params: Vec<Param>,
    /// What the numbers of instructions in its record stand for.
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
    /// Where a compiled instruction stands in the module that was handed in.
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

/// Compiles kernels. What is in use is found again; what is not is in the cache on disk.
pub(super) struct CudaCompiler {
    context: Arc<CudaContext>,
    folder: Option<PathBuf>,
    /// By a hash of the module; equality decides.
    used: Mutex<FxHashMap<u64, Vec<Weak<CudaCode>>>>,
}

impl fmt::Debug for CudaCompiler {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "CudaCompiler({})", self.context.info.compiler)
    }
}

impl CudaCompiler {
    /// For a device, with a folder to keep code in.
    pub(super) fn new(context: Arc<CudaContext>, folder: Option<PathBuf>) -> Self {
        CudaCompiler { context, folder, used: Mutex::default() }
    }

    /// The compiled kernel, made now or before.
    pub(super) fn compile(
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
        // Two threads may compile the same kernel at once; each gets a right one.
        let code = Arc::new(self.compile_new(module, kernel, lanes)?);
        let mut used = used();
        used.retain(|_, list| {
            list.retain(|code| code.strong_count() > 0);
            !list.is_empty()
        });
        used.entry(hash).or_default().push(Arc::downgrade(&code));
        Ok(code)
    }

    fn compile_new(&self, module: &Valid, kernel: Func, lanes: u32) -> Result<CudaCode, DeviceError> {
        let ptx = emit(&self.context.info, module, kernel, lanes)?;
        let cubin = link::cubin(&self.context, &ptx.text, self.folder.as_deref())?;
        let shape = GroupShape { lanes, shared: ptx.dynamic };
        let alone = self.context.alone()?;
        let current = self.context.enter()?;
        let loaded = current.load(&cubin)?;
        let found = find(current, loaded, &ptx.entry, shape);
        let (function, groups) = found.inspect_err(|_| DeferredFree::Module(loaded).free(current))?;
        drop(alone);
        Ok(CudaCode {
            context: self.context.clone(),
            module: module.clone(),
            kernel,
            shape,
            function,
            resident: groups * self.context.info.units,
            may_wait: ptx.may_wait,
            params: ptx.params,
            sites: ptx.sites,
            loaded,
        })
    }
}

/// A kernel of a loaded module, ready to be launched, and how many groups of it a multiprocessor holds.
fn find(
    current: Current,
    module: ModuleHandle,
    name: &str,
    shape: GroupShape,
) -> Result<(FunctionHandle, u32), DriverStatus> {
    let function = current.function(module, name)?;
    if shape.shared > 0 {
        current.allow(function, shape.shared)?;
    }
    Ok((function, current.occupancy(function, shape)?))
}

/// A kernel as PTX, within what the device takes.
fn emit(info: &GpuInfo, module: &Valid, kernel: Func, lanes: u32) -> Result<Ptx, DeviceError> {
    let config = ptx::Config { target: info.target, lanes };
    let device = || info.open.clone();
    let ptx =
        ptx::emit(module, Some(&module.functions[kernel].name), &config).map_err(|error| match error {
            EmitError::Op { op, site } => DeviceError::Op { device: device(), op: op.row().name, site },
            error => DeviceError::Codegen(error.to_string()),
        })?;
    if ptx.shared > info.shared {
        let (found, most) = (ptx.shared.into(), info.shared.into());
        let what = "the shared memory of a group, in bytes,";
        return Err(DeviceError::Limit { device: device(), what, found, most });
    }
    Ok(ptx)
}
