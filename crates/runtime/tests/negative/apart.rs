//! The interpreter, pretending to have memory of its own. Kernels are assembled for it as for a GPU, on machines
//! without one.

use std::sync::Arc;

use pelton::device::{Caps, open as open_device};

use crate::common::On;
use crate::pretend::PretendDevice;

/// Opens the interpreter as a device with memory of its own.
pub(crate) fn open() -> On {
    let inner = open_device("reference").expect("it is always there");
    let caps = Caps { name: "apart".into(), memory_bytes: Some(1 << 34), ..inner.caps().clone() };
    Arc::new(PretendDevice::new(inner, caps))
}
