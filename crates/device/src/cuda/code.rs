//! Compiled kernels: what the emitter and the driver make of them, each once.

use std::fmt;
use std::hash::BuildHasher;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, Weak};

use pelton_ir::arena::{Func, Handle};
use pelton_ir::emit::EmitError;
use pelton_ir::emit::ptx::{self, Param, Ptx};
use pelton_ir::module::{Attr, Site};
use pelton_ir::op::Op;
use pelton_ir::valid::Valid;
use rustc_hash::{FxBuildHasher, FxHashMap};

use crate::error::DeviceError;

use super::context::Context;
use super::current::{Current, Function, Module, Shape};
use super::grave::Grave;
use super::info::Info;
use super::link;
use super::raw::Status;

/// A compiled kernel.
pub struct Code {
    context: Arc<Context>,
    /// As it was handed in, for bindings and for places.
    pub module: Valid,
    kernel: Func,
    /// What a group of it is.
    pub shape: Shape,
    /// What is launched.
    pub function: Function,
    /// How many groups there can be at once.
    pub resident: u32,
    /// Whether a group may wait for another: only loops that are not counted can.
    pub waits: bool,
    /// The buffers that it is launched with, in order.
    pub params: Vec<Param>,
    /// What the numbers of instructions in its record stand for.
    sites: Vec<Site>,
    loaded: Module,
}

impl fmt::Debug for Code {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "Code(at {:p}, {} groups of {} lanes at once)",
            self.function.0, self.resident, self.shape.lanes
        )
    }
}

impl Code {
    /// Where a compiled instruction stands in the module that was handed in.
    pub fn site(&self, inst: u32) -> Site {
        self.sites
            .get(inst as usize)
            .or(self.sites.first())
            .copied()
            .unwrap_or(Site { func: self.kernel, inst: Handle::new(0) })
    }
}

impl Drop for Code {
    fn drop(&mut self) {
        self.context.bury(Grave::Module(self.loaded));
    }
}

/// Compiles kernels. What is in use is found again; what is not is in the cache on disk.
pub struct Compiler {
    context: Arc<Context>,
    folder: Option<PathBuf>,
    /// By a hash of the module; equality decides.
    used: Mutex<FxHashMap<u64, Vec<Weak<Code>>>>,
}

impl fmt::Debug for Compiler {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Compiler({})", self.context.info.compiler)
    }
}

impl Compiler {
    /// For a device, with a folder to keep code in.
    pub fn new(context: Arc<Context>, folder: Option<PathBuf>) -> Self {
        Compiler { context, folder, used: Mutex::default() }
    }

    /// The compiled kernel, made now or before.
    pub fn compile(&self, module: &Valid, kernel: Func, lanes: u32) -> Result<Arc<Code>, DeviceError> {
        let hash = FxBuildHasher.hash_one((&**module, kernel, lanes));
        let used = || self.used.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
        let same =
            |code: &Arc<Code>| (code.kernel, code.shape.lanes) == (kernel, lanes) && code.module == *module;
        let found = used().get(&hash).and_then(|list| list.iter().filter_map(Weak::upgrade).find(same));
        if let Some(code) = found {
            return Ok(code);
        }
        // Two threads may compile the same kernel at once; each gets a right one.
        let code = Arc::new(self.fresh(module, kernel, lanes)?);
        let mut used = used();
        used.retain(|_, list| {
            list.retain(|code| code.strong_count() > 0);
            !list.is_empty()
        });
        used.entry(hash).or_default().push(Arc::downgrade(&code));
        Ok(code)
    }

    fn fresh(&self, module: &Valid, kernel: Func, lanes: u32) -> Result<Code, DeviceError> {
        let ptx = emit(&self.context.info, module, kernel, lanes)?;
        let cubin = link::cubin(&self.context, &ptx.text, self.folder.as_deref())?;
        let shape = Shape { lanes, shared: ptx.dynamic };
        let alone = self.context.alone()?;
        let current = self.context.enter()?;
        let loaded = current.load(&cubin)?;
        let found = find(current, loaded, &ptx.entry, shape);
        let (function, groups) = found.inspect_err(|_| Grave::Module(loaded).free(current))?;
        drop(alone);
        Ok(Code {
            context: self.context.clone(),
            module: module.clone(),
            kernel,
            shape,
            function,
            resident: groups * self.context.info.units,
            waits: waits(module, kernel),
            params: ptx.params,
            sites: ptx.sites,
            loaded,
        })
    }
}

/// A kernel of a loaded module, ready to be launched, and how many groups of it a multiprocessor holds.
fn find(current: Current, module: Module, name: &str, shape: Shape) -> Result<(Function, u32), Status> {
    let function = current.function(module, name)?;
    if shape.shared > 0 {
        current.allow(function, shape.shared)?;
    }
    Ok((function, current.occupancy(function, shape)?))
}

/// A kernel as PTX, within what the device takes.
fn emit(info: &Info, module: &Valid, kernel: Func, lanes: u32) -> Result<Ptx, DeviceError> {
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

/// Whether a group may wait for another: only loops that are not counted can.
fn waits(module: &pelton_ir::module::Module, kernel: Func) -> bool {
    let mut reached = vec![false; kernel.index() + 1];
    reached[kernel.index()] = true;
    // A function calls only those before it.
    for (func, function) in module.functions.iter().rev().filter(|(func, _)| *func <= kernel) {
        if !reached[func.index()] {
            continue;
        }
        for (_, node) in function.insts() {
            match node.attr {
                Attr::Call(callee) => reached[callee.index()] = true,
                _ if matches!(node.op, Op::While | Op::Forever) => return true,
                _ => {}
            }
        }
    }
    false
}

#[cfg(test)]
mod tests {
    use super::*;
    use pelton_ir::text;

    #[test]
    fn a_kernel_waits_if_what_it_calls_does() {
        let source = "
buffer data: [u32; 1] global read_write
fn counted() {
  loop %i = 0 to 4 step 1 {
    store @data[0], %i
  }
}
fn waiting() {
  forever ^l {
    break ^l
  }
}
fn between() {
  call waiting()
}
kernel ends {
  call counted()
}
kernel stays {
  call counted()
  call between()
}
";
        let module = text::parse(source).expect("it is right");
        let found: Vec<bool> = module.kernels().map(|kernel| waits(&module, kernel)).collect();
        assert_eq!(found, [false, true]);
    }
}
