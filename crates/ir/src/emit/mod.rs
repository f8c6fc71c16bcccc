//! Emitters, which translate a kernel to text in the language of a device.
//!
//! An emitter takes a [`Valid`] module and returns text together with what a driver must know to launch it. It does
//! not touch a device. Every emitter starts from a [`FlatKernel`], and so do other compilers: a kernel that is
//! optimised and has no calls, and that knows for each of its instructions where it came from in the given module.

pub mod ptx;

use crate::arena::{Func, Handle, Inst};
use crate::limits::MAX_INSTS;
use crate::link::{UnboundImports, check_bound};
use crate::module::{Function, NoKernel, Site, TextPlace};
use crate::op::Op;
use crate::pass;
use crate::valid::{Uniformity, Valid, validate};

/// Why a kernel cannot be emitted.
#[allow(missing_docs)]
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum EmitError {
    #[error(transparent)]
    Kernel(#[from] NoKernel),
    #[error("`{}` cannot be emitted", op.row().name)]
    Op { op: Op, site: Site },
    #[error("the kernel is too large once its calls are inlined")]
    Calls,
    #[error("a group has 1 to {most} lanes, not {lanes}")]
    Lanes { lanes: u32, most: u32 },
    #[error("the module has {count} buffers to bind, but at most {most} are allowed")]
    Buffers { count: usize, most: usize },
    #[error(transparent)]
    Unbound(#[from] UnboundImports),
}

/// A kernel that is optimised and has no calls, ready to be emitted.
#[derive(Clone, Debug)]
pub struct FlatKernel {
    /// The optimised module that contains the kernel.
    pub module: Valid,
    /// The handle of the kernel in that module.
    pub kernel: Func,
    /// For each instruction of the kernel, the instruction of the given module that it came from.
    pub sites: Vec<Site>,
}

impl FlatKernel {
    /// Inlines and optimises a kernel.
    pub fn new(module: &Valid, kernel: Func) -> Result<FlatKernel, EmitError> {
        check_bound(module)?;
        // The passes carry places along unchanged, so places can hold sites while the passes run.
        let mut marked = (**module).clone();
        for (func, function) in marked.functions.iter_mut() {
            let start = func.index() as u32;
            let places = (0..function.insts().len()).map(|inst| TextPlace { start, end: inst as u32 });
            function.debug.places = places.collect();
        }
        let marked = validate(marked).expect("places take no part in any rule");
        // The pipeline inlines small functions itself. A kernel with calls is inlined completely before that.
        let calls = marked.functions[kernel].insts().any(|(_, node)| node.op == Op::Call);
        let flat = if calls { pass::inline::inline_calls(&marked, MAX_INSTS).module } else { marked };
        let module = pass::optimize(&flat);
        let places = &module.functions[kernel].debug.places;
        let site = |place: &TextPlace| Site {
            func: Func::new(place.start as usize),
            inst: Inst::new(place.end as usize),
        };
        let sites = places.iter().map(site).collect();
        let flat = FlatKernel { module, kernel, sites };
        let calls = flat.function().insts().any(|(_, node)| node.op == Op::Call);
        if calls { Err(EmitError::Calls) } else { Ok(flat) }
    }

    /// Returns the function of the kernel.
    pub fn function(&self) -> &Function {
        &self.module.functions[self.kernel]
    }

    /// Returns whether a group of the kernel may wait for another group, which only a loop without a counter can do.
    pub fn may_wait(&self) -> bool {
        self.function().insts().any(|(_, node)| matches!(node.op, Op::While | Op::Forever))
    }

    /// Returns which values and which control flow of the kernel are the same across lanes.
    pub fn uniformity(&self) -> &Uniformity {
        self.module.uniformity(self.kernel)
    }
}
