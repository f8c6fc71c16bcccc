//! The kernel that a session runs now, with what belongs to this kernel alone.

use std::sync::Arc;

use pelton_device::{Kernel, Launch};

use super::memory::BufferMemories;
use crate::kernel::{Geometry, Layout, NamedHandler, Spec};

/// A kernel of a session, and the memory that it is bound to.
#[derive(Debug)]
pub(super) struct SessionKernel {
    /// The `Spec` of the session with the handlers that this kernel has.
    pub spec: Arc<Spec>,
    pub layout: Arc<Layout>,
    /// All memory that the kernel is bound to.
    pub memories: BufferMemories,
    /// The geometry with which the kernel was assembled. It is not that of the `Spec` if fewer groups fit.
    pub geometry: Geometry,
    /// Handlers that stand in for resumable handlers that were removed, and end their tasks.
    pub stand_ins: Vec<NamedHandler>,
    pub loaded: Arc<dyn Kernel>,
    pub launch: Launch,
}
