//! Device memory that is exported as a file descriptor, so that Vulkan can import it.

use std::os::fd::{FromRawFd, OwnedFd};

use cudarc::driver::sys::{
    self, CUmemAccess_flags, CUmemAccessDesc, CUmemAllocationGranularity_flags, CUmemAllocationHandleType,
    CUmemAllocationProp, CUmemAllocationProp_st__bindgen_ty_1, CUmemAllocationType, CUmemLocation,
    CUmemLocationType, CUresult,
};

use crate::error::DeviceError;

use super::super::current::Current;
use super::super::raw::{DriverStatus, Gpu, check};

/// The form in which memory is exported: a file descriptor.
const FILE: CUmemAllocationHandleType = CUmemAllocationHandleType::CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR;

/// Exported device memory. [`ExportedMemory::free`] frees it; memory that is merely dropped is freed with the context.
#[derive(Debug)]
pub(crate) struct ExportedMemory {
    /// The device's address of the memory.
    pub at: u64,
    /// The size of the memory, which is rounded up to what the device allocates.
    pub bytes: usize,
}

impl ExportedMemory {
    /// Allocates memory of at least `bytes` bytes, and gives it with the file descriptor that stands for it.
    pub(crate) fn new(
        current: Current,
        gpu: Gpu,
        bytes: usize,
    ) -> Result<(ExportedMemory, OwnedFd), DeviceError> {
        let kind = kind(gpu);
        let unit = granularity(&kind)?;
        let exhausted = DeviceError::Exhausted { bytes: bytes as u64 };
        let whole = bytes.checked_next_multiple_of(unit.max(1)).ok_or(exhausted)?;
        let handle = create(&kind, whole).map_err(|status| status.for_bytes(bytes))?;
        let made = export(handle)
            .and_then(|file| place(current, handle, &kind, whole, unit).map(|share| (share, file)));
        // SAFETY: the handle was made right above and is released once; what is mapped stays.
        let _ = unsafe { sys::cuMemRelease(handle) };
        made.map_err(|status| status.for_bytes(bytes))
    }

    /// Unmaps and frees the memory. May block while a kernel is resident.
    pub(crate) fn free(self, _current: Current) -> Result<(), DriverStatus> {
        // SAFETY: the range was mapped as a whole, and no kernel uses it: its owner is gone.
        check("cuMemUnmap", unsafe { sys::cuMemUnmap(self.at, self.bytes) })?;
        // SAFETY: the range was reserved as a whole, and nothing is mapped there.
        check("cuMemAddressFree", unsafe { sys::cuMemAddressFree(self.at, self.bytes) })
    }
}

/// The properties of memory of this device that is exported as a file descriptor.
fn kind(gpu: Gpu) -> CUmemAllocationProp {
    CUmemAllocationProp {
        type_: CUmemAllocationType::CU_MEM_ALLOCATION_TYPE_PINNED,
        requestedHandleTypes: FILE,
        location: CUmemLocation { type_: CUmemLocationType::CU_MEM_LOCATION_TYPE_DEVICE, id: gpu.number },
        win32HandleMetaData: std::ptr::null_mut(),
        allocFlags: CUmemAllocationProp_st__bindgen_ty_1 {
            compressionType: 0,
            gpuDirectRDMACapable: 0,
            usage: 0,
            reserved: [0; 4],
        },
    }
}

/// The number that sizes of such memory are multiples of.
fn granularity(kind: &CUmemAllocationProp) -> Result<usize, DriverStatus> {
    let which = CUmemAllocationGranularity_flags::CU_MEM_ALLOC_GRANULARITY_MINIMUM;
    let mut unit = 0;
    // SAFETY: the driver reads the kind and writes one number.
    let result = unsafe { sys::cuMemGetAllocationGranularity(&mut unit, kind, which) };
    check("cuMemGetAllocationGranularity", result).map(|()| unit)
}

fn create(kind: &CUmemAllocationProp, bytes: usize) -> Result<u64, DriverStatus> {
    let mut handle = 0;
    // SAFETY: the driver reads the kind and writes one handle.
    check("cuMemCreate", unsafe { sys::cuMemCreate(&mut handle, bytes, kind, 0) }).map(|()| handle)
}

/// Maps memory into the device's address space.
fn place(
    current: Current,
    handle: u64,
    kind: &CUmemAllocationProp,
    bytes: usize,
    unit: usize,
) -> Result<ExportedMemory, DriverStatus> {
    let mut at = 0;
    // SAFETY: the driver writes one address.
    check("cuMemAddressReserve", unsafe { sys::cuMemAddressReserve(&mut at, bytes, unit, 0, 0) })?;
    // SAFETY: the range is reserved and empty, and the memory as large.
    let mapped = check("cuMemMap", unsafe { sys::cuMemMap(at, bytes, 0, handle, 0) });
    if let Err(status) = mapped {
        // SAFETY: the range was reserved right above, and nothing is mapped there.
        let _ = unsafe { sys::cuMemAddressFree(at, bytes) };
        return Err(status);
    }
    let share = ExportedMemory { at, bytes };
    let access = CUmemAccessDesc {
        location: kind.location,
        flags: CUmemAccess_flags::CU_MEM_ACCESS_FLAGS_PROT_READWRITE,
    };
    // SAFETY: the range is mapped, and the driver reads one description.
    match check("cuMemSetAccess", unsafe { sys::cuMemSetAccess(at, bytes, &access, 1) }) {
        Ok(()) => Ok(share),
        Err(status) => {
            let _ = share.free(current);
            Err(status)
        }
    }
}

/// Exports memory as a file descriptor.
fn export(handle: u64) -> Result<OwnedFd, DriverStatus> {
    let mut file = -1;
    let to = (&raw mut file).cast();
    // SAFETY: the driver writes the number of a file that it opens.
    let result = unsafe { sys::cuMemExportToShareableHandle(to, handle, FILE, 0) };
    let call = "cuMemExportToShareableHandle";
    check(call, result)?;
    if file < 0 {
        return Err(DriverStatus { call, result: CUresult::CUDA_ERROR_INVALID_HANDLE });
    }
    // SAFETY: the driver opened it for the caller, who owns it.
    Ok(unsafe { OwnedFd::from_raw_fd(file) })
}
