//! The properties of a GPU, which are read once, when it is opened.

use cudarc::driver::sys::CUdevice_attribute as Attribute;

use pelton_ir::emit::ptx::PtxTarget;
use pelton_ir::types::Scope;

use crate::caps::Caps;
use crate::error::DeviceError;

use super::raw::Gpu;

/// How many lanes a subgroup has: those of a warp.
pub(super) const SUBGROUP: u32 = 32;

/// How many groups per multiprocessor suit a GPU: enough to hide the latency of memory, with enough registers for each.
const GROUPS: u32 = 4;
/// How many lanes per group suit a GPU: eight warps.
const LANES: u32 = 256;

/// The properties of a GPU.
#[derive(Clone, Debug)]
pub(super) struct GpuInfo {
    /// The name that opens the GPU.
    pub open: String,
    /// The target that PTX is emitted for.
    pub target: PtxTarget,
    /// What the driver compiles for and its version, as a line of text for the cache of compiled code.
    pub compiler: String,
    /// How many multiprocessors the GPU has.
    pub units: u32,
    /// How many bytes of shared memory a group may have.
    pub shared: u32,
    /// The largest number of lanes of a group.
    pub lanes: u32,
    name: String,
    bus: String,
    memory: usize,
    capability: (u32, u32),
    version: i32,
    resident: u32,
}

impl GpuInfo {
    /// Reads the properties of a GPU, and refuses one that Pelton cannot use.
    pub(super) fn new(gpu: Gpu, ordinal: u32) -> Result<Self, DeviceError> {
        use Attribute::*;
        let ask = |which| gpu.attribute(which);
        let open = format!("cuda:{ordinal}");
        let capability = (
            ask(CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR)?,
            ask(CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR)?,
        );
        let name = gpu.name()?;
        let absent = |why: String| DeviceError::Absent { name: open.clone(), why };
        let (major, minor) = capability;
        let target = target(major).ok_or_else(|| {
            absent(format!("{name} has compute capability {major}.{minor}, and 8.0 is needed"))
        })?;
        if ask(CU_DEVICE_ATTRIBUTE_CAN_MAP_HOST_MEMORY)? == 0 {
            return Err(absent(format!("{name} cannot map memory of the host")));
        }
        let units = ask(CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT)?;
        let groups = (ask(CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_MULTIPROCESSOR)? / LANES)
            .min(ask(CU_DEVICE_ATTRIBUTE_MAX_BLOCKS_PER_MULTIPROCESSOR)?);
        let version = gpu.driver().version;
        Ok(GpuInfo {
            target,
            compiler: format!("sm_{major}{minor} CUDA {version}"),
            units,
            shared: ask(CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN)?,
            lanes: ask(CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_BLOCK)?,
            bus: gpu.bus()?,
            memory: gpu.memory()?,
            resident: units * groups,
            open,
            name,
            capability,
            version,
        })
    }

    /// What the GPU can do, for [`Device::caps`](crate::Device::caps).
    pub(super) fn caps(&self, near_memory: Result<(), String>) -> Caps {
        let (major, minor) = self.capability;
        let about = format!(
            "{}, {} multiprocessors, {:.0} GiB, compute capability {major}.{minor}, CUDA {}.{}, PCIe {}",
            self.name,
            self.units,
            self.memory as f64 / f64::from(1 << 30),
            self.version / 1000,
            self.version % 1000 / 10,
            self.bus,
        );
        Caps {
            name: self.open.clone(),
            about,
            persistent: true,
            scope: Scope::System,
            subgroup: SUBGROUP,
            independent_subgroups: true,
            lanes: LANES,
            max_lanes: self.lanes,
            groups: self.resident.min(self.units * GROUPS),
            resident: self.resident,
            units: self.units,
            memory_bytes: Some(self.memory as u64),
            shared_bytes: self.shared as usize,
            wakes: false,
            near_memory,
            async_copies: false,
        }
    }
}

/// The target that PTX is emitted for, by the major compute capability. `None` if the GPU is too old.
fn target(major: u32) -> Option<PtxTarget> {
    match major {
        0..8 => None,
        8 => Some(PtxTarget::Sm80),
        9 => Some(PtxTarget::Sm90),
        _ => Some(PtxTarget::Sm100),
    }
}
