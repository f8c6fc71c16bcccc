//! The device of a benchmark as an NVIDIA GPU, for peers that are particular to those.

use std::sync::Arc;

use pelton_device::Device;
use pelton_device::cuda::{Cuda, CudaConfig};

use crate::error::CliError;

/// Another handle of a device that is open already; `None` if the device is not an NVIDIA GPU.
pub(super) fn open_as_cuda(device: &Arc<dyn Device>) -> Result<Option<Cuda>, CliError> {
    let ordinal = device.caps().name.strip_prefix("cuda:").and_then(|number| number.parse().ok());
    let open = |ordinal| Cuda::new(CudaConfig { ordinal, ..CudaConfig::default() });
    Ok(ordinal.map(open).transpose()?)
}
