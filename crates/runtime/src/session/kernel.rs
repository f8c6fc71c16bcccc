//! The kernel that a session runs now, with what belongs to this kernel alone.

use std::sync::Arc;

use pelton_device::{Kernel, Launch};

use super::memory::BufferMemories;
use crate::kernel::{Geometry, Layout, NamedHandler, Placement, Spec};

/// A kernel of a session, and the memory that it is bound to.
#[derive(Debug)]
pub(super) struct SessionKernel {
    /// The `Spec` of the session with the handlers that this kernel has.
    pub spec: Arc<Spec>,
    pub layout: Arc<Layout>,
    /// All memory that the kernel is bound to.
    pub memories: BufferMemories,
    /// The geometry and the placement for which the kernel was assembled, if the `Spec` left them open.
    pub shape: (Geometry, Option<Placement>),
    /// Handlers that end the tasks of resumable handlers that were removed.
    pub removed: Vec<NamedHandler>,
    pub loaded: Arc<dyn Kernel>,
    pub launch: Launch,
}
