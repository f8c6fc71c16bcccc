//! What a device is: asked once, when it is opened.

use cudarc::driver::sys::CUdevice_attribute as Attribute;

use pelton_ir::emit::ptx::Target;
use pelton_ir::types::Scope;

use crate::caps::Caps;
use crate::error::DeviceError;

use super::raw::Gpu;

/// Lanes in a subgroup: a warp.
pub(super) const SUBGROUP: u32 = 32;

/// Lanes a group that suit it: eight warps.
/// Groups a multiprocessor that suit it: enough to hide what memory takes, with registers for each.
const GROUPS: u32 = 4;
/// Lanes a group that suit it.
const LANES: u32 = 256;

/// What a device is.
#[derive(Clone, Debug)]
pub(super) struct GpuInfo {
    /// How it is opened.
    pub open: String,
    /// What the emitter writes for.
    pub target: Target,
    /// What code is compiled for and by, as a line of text.
    pub compiler: String,
    /// Its multiprocessors.
    pub units: u32,
    /// Bytes of shared memory that a group may have.
    pub shared: u32,
    /// The most lanes of a group.
    pub lanes: u32,
    name: String,
    bus: String,
    memory: usize,
    capability: (u32, u32),
    version: i32,
    resident: u32,
}

impl GpuInfo {
    /// Asks a device.
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

    /// What it can do.
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

/// What is emitted for a compute capability: what it and all newer ones take.
fn target(major: u32) -> Option<Target> {
    match major {
        0..8 => None,
        8 => Some(Target::Sm80),
        9 => Some(Target::Sm90),
        _ => Some(Target::Sm100),
    }
}
