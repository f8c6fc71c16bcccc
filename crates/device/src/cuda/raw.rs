//! The driver's library, and the calls on it that need no context.
//!
//! The library is loaded at run time. A call into a library that is not there would panic, so every call is a method of a value
//! that only [`Driver::open`] makes, or of a value that is made from it.

use std::ffi::{CStr, c_char, c_int};
use std::sync::atomic::{AtomicBool, Ordering};

use cudarc::driver::sys::{self, CUdevice_attribute as Attribute, CUresult};

use crate::error::DeviceError;

/// The oldest version of CUDA that a driver must know to be used. It knows every call and all PTX that is emitted.
const OLDEST: i32 = 12_000;

/// The result of a call of the driver that did not succeed.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[error("{call} gives {result:?}")]
pub struct DriverStatus {
    /// The name of the call.
    pub call: &'static str,
    /// The result of the call.
    pub result: CUresult,
}

impl DriverStatus {
    /// Whether the context is lost, so that every later call of this process will give the same result.
    pub fn lost(self) -> bool {
        use CUresult::*;
        self.has_stopped_kernels()
            || matches!(
                self.result,
                CUDA_ERROR_DEINITIALIZED
                    | CUDA_ERROR_DEVICE_UNAVAILABLE
                    | CUDA_ERROR_ECC_UNCORRECTABLE
                    | CUDA_ERROR_NVLINK_UNCORRECTABLE
                    | CUDA_ERROR_CONTAINED
                    | CUDA_ERROR_LAUNCH_TIMEOUT
                    | CUDA_ERROR_CONTEXT_IS_DESTROYED
                    | CUDA_ERROR_TENSOR_MEMORY_LEAK
                    | CUDA_ERROR_MPS_CLIENT_TERMINATED
                    | CUDA_ERROR_EXTERNAL_DEVICE
                    | CUDA_ERROR_UNKNOWN
            )
    }

    /// Whether this is a fault of a kernel that has ended all kernels of this process.
    fn has_stopped_kernels(self) -> bool {
        use CUresult::*;
        matches!(
            self.result,
            CUDA_ERROR_ILLEGAL_ADDRESS
                | CUDA_ERROR_ASSERT
                | CUDA_ERROR_HARDWARE_STACK_ERROR
                | CUDA_ERROR_ILLEGAL_INSTRUCTION
                | CUDA_ERROR_MISALIGNED_ADDRESS
                | CUDA_ERROR_INVALID_ADDRESS_SPACE
                | CUDA_ERROR_INVALID_PC
                | CUDA_ERROR_LAUNCH_FAILED
        )
    }

    /// The error of a call that was to allocate this many bytes.
    pub fn for_bytes(self, bytes: usize) -> DeviceError {
        match self.result {
            CUresult::CUDA_ERROR_OUT_OF_MEMORY => DeviceError::Exhausted { bytes: bytes as u64 },
            _ => self.into(),
        }
    }
}

/// Whether the driver has reported a fault of a kernel that has ended all kernels of this process.
static KERNELS_STOPPED: AtomicBool = AtomicBool::new(false);

/// Returns whether the driver has reported a fault of a kernel, after which no kernel of this process writes another word.
pub(crate) fn kernels_have_stopped() -> bool {
    KERNELS_STOPPED.load(Ordering::Acquire)
}

impl From<DriverStatus> for DeviceError {
    fn from(status: DriverStatus) -> Self {
        if status.has_stopped_kernels() {
            KERNELS_STOPPED.store(true, Ordering::Release);
        }
        match status.lost() {
            true => DeviceError::Lost(status.to_string()),
            false => DeviceError::Driver { call: status.call.into(), status: format!("{:?}", status.result) },
        }
    }
}

/// Turns the result of a call into a `Result`.
pub(super) fn check(call: &'static str, result: CUresult) -> Result<(), DriverStatus> {
    match result {
        CUresult::CUDA_SUCCESS => Ok(()),
        result => Err(DriverStatus { call, result }),
    }
}

/// A handle of the driver, which may be used from any thread.
#[derive(Debug)]
pub(super) struct DriverHandle<T>(pub *mut T);

impl<T> Clone for DriverHandle<T> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<T> Copy for DriverHandle<T> {}

// SAFETY: the driver's handles are names, not places, and its calls are thread-safe.
unsafe impl<T> Send for DriverHandle<T> {}
// SAFETY: as above.
unsafe impl<T> Sync for DriverHandle<T> {}

/// The driver's library, loaded and initialised.
#[derive(Clone, Copy, Debug)]
pub(super) struct Driver {
    /// The newest version of CUDA that the driver knows, as 1000 × major + 10 × minor.
    pub version: i32,
}

/// A GPU, by the number that the driver gives it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Gpu {
    driver: Driver,
    pub(super) number: c_int,
}

impl Driver {
    /// Loads the driver's library. The error says why there is none.
    pub(super) fn open() -> Result<Driver, String> {
        // SAFETY: loading the library runs its initialisers, which are NVIDIA's own.
        if !unsafe { sys::is_culib_present() } {
            return Err("there is no NVIDIA driver here: libcuda cannot be loaded".into());
        }
        let mut version = 0;
        // SAFETY: the library is there, and writes one number.
        check("cuDriverGetVersion", unsafe { sys::cuDriverGetVersion(&mut version) })
            .map_err(|status| status.to_string())?;
        if version < OLDEST {
            let show = |version: i32| format!("{}.{}", version / 1000, version % 1000 / 10);
            let (found, oldest) = (show(version), show(OLDEST));
            return Err(format!("the NVIDIA driver knows CUDA {found}, and {oldest} or newer is needed"));
        }
        // SAFETY: the library is there.
        check("cuInit", unsafe { sys::cuInit(0) }).map_err(|status| status.to_string())?;
        Ok(Driver { version })
    }

    /// How many GPUs there are.
    pub(super) fn count(self) -> Result<u32, DriverStatus> {
        let mut count = 0;
        // SAFETY: the driver writes one number.
        check("cuDeviceGetCount", unsafe { sys::cuDeviceGetCount(&mut count) })?;
        Ok(count.max(0) as u32)
    }

    /// The GPU with this ordinal.
    pub(super) fn gpu(self, ordinal: u32) -> Result<Gpu, DriverStatus> {
        let mut number = 0;
        let ordinal = c_int::try_from(ordinal).unwrap_or(c_int::MAX);
        // SAFETY: the driver writes one number.
        check("cuDeviceGet", unsafe { sys::cuDeviceGet(&mut number, ordinal) })?;
        Ok(Gpu { driver: self, number })
    }
}

impl Gpu {
    /// The driver that knows it.
    pub(super) fn driver(self) -> Driver {
        self.driver
    }

    /// A number that describes it.
    pub(super) fn attribute(self, which: Attribute) -> Result<u32, DriverStatus> {
        let mut value = 0;
        // SAFETY: the driver writes one number.
        let result = unsafe { sys::cuDeviceGetAttribute(&mut value, which, self.number) };
        check("cuDeviceGetAttribute", result)?;
        Ok(value.max(0) as u32)
    }

    /// Its memory in bytes.
    pub(super) fn memory(self) -> Result<usize, DriverStatus> {
        let mut bytes = 0;
        // SAFETY: the driver writes one number.
        check("cuDeviceTotalMem", unsafe { sys::cuDeviceTotalMem_v2(&mut bytes, self.number) })?;
        Ok(bytes)
    }

    /// What it is called.
    pub(super) fn name(self) -> Result<String, DriverStatus> {
        self.text("cuDeviceGetName", sys::cuDeviceGetName)
    }

    /// Where it sits on PCIe.
    pub(super) fn bus(self) -> Result<String, DriverStatus> {
        self.text("cuDeviceGetPCIBusId", sys::cuDeviceGetPCIBusId)
    }

    /// What every interface of the driver calls it by.
    pub(super) fn uuid(self) -> Result<[u8; 16], DriverStatus> {
        let mut uuid = sys::CUuuid { bytes: [0; 16] };
        // SAFETY: the driver writes sixteen bytes.
        check("cuDeviceGetUuid", unsafe { sys::cuDeviceGetUuid_v2(&mut uuid, self.number) })?;
        Ok(uuid.bytes.map(|byte| byte as u8))
    }

    fn text(
        self,
        call: &'static str,
        ask: unsafe fn(*mut c_char, c_int, c_int) -> CUresult,
    ) -> Result<String, DriverStatus> {
        let mut text = [0u8; 256];
        // SAFETY: the driver writes a text that ends in zero and is no longer than it is told.
        check(call, unsafe { ask(text.as_mut_ptr().cast(), text.len() as c_int, self.number) })?;
        let end = CStr::from_bytes_until_nul(&text).unwrap_or_default();
        Ok(end.to_string_lossy().into_owned())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error::Retry;

    #[test]
    fn a_status_names_its_call_and_says_what_may_be_done() {
        let error = |result| DeviceError::from(DriverStatus { call: "cuLaunchKernel", result });
        let lost = error(CUresult::CUDA_ERROR_ILLEGAL_ADDRESS);
        assert_eq!(lost.retry(), Retry::NewProcess);
        assert_eq!(lost.to_string(), "the device is lost: cuLaunchKernel gives CUDA_ERROR_ILLEGAL_ADDRESS");
        let wrong = error(CUresult::CUDA_ERROR_INVALID_VALUE);
        assert_eq!(wrong.retry(), Retry::Never);
        assert_eq!(wrong.to_string(), "cuLaunchKernel gives CUDA_ERROR_INVALID_VALUE");
        let full = DriverStatus { call: "cuMemAlloc", result: CUresult::CUDA_ERROR_OUT_OF_MEMORY };
        assert!(matches!(full.for_bytes(64), DeviceError::Exhausted { bytes: 64 }));
    }
}
