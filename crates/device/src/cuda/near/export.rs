//! Memory of the device that can be given away: made by itself, then mapped where the device finds it.

use std::os::fd::{FromRawFd, OwnedFd};

use cudarc::driver::sys::{
    self, CUmemAccess_flags, CUmemAccessDesc, CUmemAllocationGranularity_flags, CUmemAllocationHandleType,
    CUmemAllocationProp, CUmemAllocationProp_st__bindgen_ty_1, CUmemAllocationType, CUmemLocation,
    CUmemLocationType, CUresult,
};

use crate::error::DeviceError;

use super::super::current::Current;
use super::super::raw::{DriverStatus, Gpu, check};

/// How memory is given away: as a file.
const FILE: CUmemAllocationHandleType = CUmemAllocationHandleType::CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR;

/// Memory of the device. It is freed by [`ExportedMemory::free`]; one that is merely dropped goes with the context.
#[derive(Debug)]
pub(crate) struct ExportedMemory {
    /// Where the device finds it.
    pub at: u64,
    /// Its size: more than was asked for, as the device has it.
    pub bytes: usize,
}

impl ExportedMemory {
    /// Memory for so many bytes, and the file that stands for it.
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

    /// Takes it from the device. May block while a kernel is resident.
    pub(crate) fn free(self, _current: Current) -> Result<(), DriverStatus> {
        // SAFETY: the range was mapped as a whole, and no kernel uses it: its owner is gone.
        check("cuMemUnmap", unsafe { sys::cuMemUnmap(self.at, self.bytes) })?;
        // SAFETY: the range was reserved as a whole, and nothing is mapped there.
        check("cuMemAddressFree", unsafe { sys::cuMemAddressFree(self.at, self.bytes) })
    }
}

/// Memory of this device, to be given away as a file.
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

/// What sizes are multiples of.
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

/// Maps memory where the device finds it.
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

/// The file that stands for memory.
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
