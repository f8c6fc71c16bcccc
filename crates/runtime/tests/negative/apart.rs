//! The interpreter as if it had memory of its own: kernels are assembled for it as for a GPU, and run where there is none.

use std::sync::Arc;

use pelton::device::{Caps, Device, DeviceError, Kernel, Kind, Memory, Width, open as open_device};
use pelton::ir::valid::Valid;

use crate::common::On;

/// A device that says that its memory is its own.
#[derive(Debug)]
struct Apart {
    inner: On,
    caps: Caps,
}

/// Opens the interpreter as a device with memory of its own.
pub fn open() -> On {
    let inner = open_device("reference").expect("it is always there");
    let caps = Caps { name: "apart".into(), memory_bytes: Some(1 << 34), ..inner.caps().clone() };
    Arc::new(Apart { inner, caps })
}

impl Device for Apart {
    fn caps(&self) -> &Caps {
        &self.caps
    }

    fn alloc(&self, kind: Kind, width: Width, len: usize) -> Result<Memory, DeviceError> {
        self.inner.alloc(kind, width, len)
    }

    fn load(&self, module: &Valid, kernel: Option<&str>, lanes: u32) -> Result<Arc<dyn Kernel>, DeviceError> {
        self.inner.load(module, kernel, lanes)
    }
}
