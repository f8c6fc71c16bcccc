//! The kernel that a session runs now, with what belongs to this kernel alone.

use std::sync::Arc;

use pelton_device::{Device, Kernel, Launch, Run};

use super::memory::BufferMemories;
use crate::error::Error;
use crate::kernel::{Geometry, Layout, NamedHandler, Spec};

/// A kernel of a session, and the memory that it is bound to.
#[derive(Debug)]
pub(super) struct SessionKernel {
    /// The device that the kernel runs on.
    pub device: Arc<dyn Device>,
    /// The `Spec` of the session with the handlers that this kernel has.
    pub spec: Arc<Spec>,
    pub layout: Arc<Layout>,
    /// All memory that the kernel is bound to.
    pub memories: BufferMemories,
    /// The geometry with which the kernel was assembled. It names a number of groups if fewer fit than the `Spec` asks for, or
    /// if the session was resized or has moved.
    pub geometry: Geometry,
    /// Handlers that stand in for resumable handlers that were removed, and end their tasks.
    pub stand_ins: Vec<NamedHandler>,
    pub loaded: Arc<dyn Kernel>,
    pub launch: Launch,
}

impl SessionKernel {
    /// Launches the kernel, and returns it together with its run.
    pub(super) fn launched(self) -> Result<(Self, Box<dyn Run>), Error> {
        let run = self.loaded.launch(&self.launch)?;
        Ok((self, run))
    }
}
