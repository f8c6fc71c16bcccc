//! The driver's calls on the context that a thread has made current, each with its status checked.
//!
//! Nothing here owns anything: handles and addresses are plain values, which other files of this module free. The documentation of
//! a call says if it blocks while a kernel is resident.

use std::ffi::{CString, c_void};
use std::marker::PhantomData;

use cudarc::driver::sys::{self, CUctx_st, CUfunc_st, CUmod_st, CUresult, CUstream_st};

use super::raw::{Driver, DriverHandle, DriverStatus, Gpu, check};

/// The driver's handle of a context.
pub(super) type ContextHandle = DriverHandle<CUctx_st>;
/// The driver's handle of a stream.
pub(super) type StreamHandle = DriverHandle<CUstream_st>;
/// The driver's handle of a loaded module.
pub(super) type ModuleHandle = DriverHandle<CUmod_st>;
/// The driver's handle of a kernel of a loaded module.
pub(super) type FunctionHandle = DriverHandle<CUfunc_st>;

/// The size of the groups of a launch.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct GroupShape {
    /// How many lanes a group has.
    pub lanes: u32,
    /// How many bytes of dynamic shared memory a group gets at launch.
    pub shared: u32,
}

/// A proof that a context is current in this thread. Every function that calls the driver asks for a new one, because other code
/// may have made another context current meanwhile.
#[derive(Clone, Copy, Debug)]
pub(super) struct Current {
    driver: Driver,
    /// Keeps the proof in its thread.
    _here: PhantomData<*mut ()>,
}

impl Gpu {
    /// The primary context, which the whole process shares. It is kept until [`Gpu::release`].
    pub(super) fn retain(self) -> Result<ContextHandle, DriverStatus> {
        let mut context = std::ptr::null_mut();
        // SAFETY: the driver writes one handle.
        let result = unsafe { sys::cuDevicePrimaryCtxRetain(&mut context, self.number) };
        check("cuDevicePrimaryCtxRetain", result)?;
        Ok(DriverHandle(context))
    }

    /// Gives the context back.
    pub(super) fn release(self) -> Result<(), DriverStatus> {
        // SAFETY: what was retained is released once.
        let result = unsafe { sys::cuDevicePrimaryCtxRelease_v2(self.number) };
        check("cuDevicePrimaryCtxRelease", result)
    }

    /// Makes a context current in this thread.
    pub(super) fn enter(self, context: ContextHandle) -> Result<Current, DriverStatus> {
        // SAFETY: the context is retained by whoever has its handle.
        check("cuCtxSetCurrent", unsafe { sys::cuCtxSetCurrent(context.0) })?;
        Ok(Current { driver: self.driver(), _here: PhantomData })
    }
}

impl Current {
    /// Allocates device memory and gives its address.
    pub(super) fn alloc(self, bytes: usize) -> Result<u64, DriverStatus> {
        let mut at = 0;
        // SAFETY: the driver writes one address.
        check("cuMemAlloc", unsafe { sys::cuMemAlloc_v2(&mut at, bytes) })?;
        Ok(at)
    }

    /// Frees device memory. May block while a kernel is resident.
    pub(super) fn free(self, at: u64) -> Result<(), DriverStatus> {
        // SAFETY: an address that was not given out is refused.
        check("cuMemFree", unsafe { sys::cuMemFree_v2(at) })
    }

    /// Makes host memory reachable for the device, and gives the address that the device knows it by.
    ///
    /// # Safety
    ///
    /// The range must be allocated, and stay so until it is unregistered.
    pub(super) unsafe fn register(self, start: *mut u8, bytes: usize) -> Result<u64, DriverStatus> {
        let flags = sys::CU_MEMHOSTREGISTER_PORTABLE | sys::CU_MEMHOSTREGISTER_DEVICEMAP;
        // SAFETY: the caller's promise.
        check("cuMemHostRegister", unsafe { sys::cuMemHostRegister_v2(start.cast(), bytes, flags) })?;
        self.address_of_registered(start)
    }

    /// The address by which the device knows host memory that is registered, for this device or another one.
    pub(super) fn address_of_registered(self, start: *mut u8) -> Result<u64, DriverStatus> {
        let mut at = 0;
        // SAFETY: the driver writes one address, and refuses memory that is not registered.
        let result = unsafe { sys::cuMemHostGetDevicePointer_v2(&mut at, start.cast(), 0) };
        check("cuMemHostGetDevicePointer", result).map(|()| at)
    }

    /// Makes host memory unreachable for the device again. Blocks while a kernel is resident.
    pub(super) fn unregister(self, start: *mut u8) -> Result<(), DriverStatus> {
        // SAFETY: an address that is not registered is refused.
        check("cuMemHostUnregister", unsafe { sys::cuMemHostUnregister(start.cast()) })
    }

    /// Starts a copy to the device.
    ///
    /// # Safety
    ///
    /// The source must be readable, and the target allocated, until the stream is synchronised.
    pub(super) unsafe fn copy_in(
        self,
        to: u64,
        from: *const u8,
        bytes: usize,
        on: StreamHandle,
    ) -> Result<(), DriverStatus> {
        // SAFETY: the caller's promise.
        check("cuMemcpyHtoDAsync", unsafe { sys::cuMemcpyHtoDAsync_v2(to, from.cast(), bytes, on.0) })
    }

    /// Starts a copy from the device.
    ///
    /// # Safety
    ///
    /// The target must be writable, and the source allocated, until the stream is synchronised.
    pub(super) unsafe fn copy_out(
        self,
        to: *mut u8,
        from: u64,
        bytes: usize,
        on: StreamHandle,
    ) -> Result<(), DriverStatus> {
        // SAFETY: the caller's promise.
        check("cuMemcpyDtoHAsync", unsafe { sys::cuMemcpyDtoHAsync_v2(to.cast(), from, bytes, on.0) })
    }

    /// Creates a stream that does not wait for other streams.
    pub(super) fn stream(self) -> Result<StreamHandle, DriverStatus> {
        let mut stream = std::ptr::null_mut();
        let flags = sys::CUstream_flags::CU_STREAM_NON_BLOCKING as u32;
        // SAFETY: the driver writes one handle.
        check("cuStreamCreate", unsafe { sys::cuStreamCreate(&mut stream, flags) })?;
        Ok(DriverHandle(stream))
    }

    /// Waits until everything that was queued on a stream is done.
    pub(super) fn synchronize(self, stream: StreamHandle) -> Result<(), DriverStatus> {
        // SAFETY: the handle is of a stream that was not destroyed.
        check("cuStreamSynchronize", unsafe { sys::cuStreamSynchronize(stream.0) })
    }

    /// Whether everything that was queued on a stream is done.
    pub(super) fn idle(self, stream: StreamHandle) -> Result<bool, DriverStatus> {
        // SAFETY: the handle is of a stream that was not destroyed.
        match unsafe { sys::cuStreamQuery(stream.0) } {
            CUresult::CUDA_ERROR_NOT_READY => Ok(false),
            result => check("cuStreamQuery", result).map(|()| true),
        }
    }

    /// Destroys a stream. May block while a kernel is resident.
    pub(super) fn end_stream(self, stream: StreamHandle) -> Result<(), DriverStatus> {
        // SAFETY: the handle is of a stream that was not destroyed.
        check("cuStreamDestroy", unsafe { sys::cuStreamDestroy_v2(stream.0) })
    }

    /// Loads a cubin. Blocks while a kernel is resident.
    pub(super) fn load(self, cubin: &[u8]) -> Result<ModuleHandle, DriverStatus> {
        let mut module = std::ptr::null_mut();
        // SAFETY: the image is a cubin that the driver's linker made, or one with its checksum; it says its own length.
        check("cuModuleLoadData", unsafe { sys::cuModuleLoadData(&mut module, cubin.as_ptr().cast()) })?;
        Ok(DriverHandle(module))
    }

    /// Frees a module. May block while a kernel is resident.
    pub(super) fn unload(self, module: ModuleHandle) -> Result<(), DriverStatus> {
        // SAFETY: the handle is of a module that was not unloaded.
        check("cuModuleUnload", unsafe { sys::cuModuleUnload(module.0) })
    }

    /// Finds a kernel of a module and loads it, so that it can be launched at any time. Blocks while another kernel is resident.
    pub(super) fn function(self, module: ModuleHandle, name: &str) -> Result<FunctionHandle, DriverStatus> {
        let name = CString::new(name).unwrap_or_default();
        let mut function = std::ptr::null_mut();
        // SAFETY: the handle is of a loaded module, and the name ends in zero.
        let result = unsafe { sys::cuModuleGetFunction(&mut function, module.0, name.as_ptr()) };
        check("cuModuleGetFunction", result)?;
        if self.driver.version >= 12_040 {
            // SAFETY: the handle was given right above; drivers of this version have the call.
            check("cuFuncLoad", unsafe { sys::cuFuncLoad(function) })?;
        }
        Ok(DriverHandle(function))
    }

    /// Allows launches of a kernel to have this many bytes of dynamic shared memory.
    pub(super) fn allow_shared(self, function: FunctionHandle, bytes: u32) -> Result<(), DriverStatus> {
        let which = sys::CUfunction_attribute::CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES;
        // SAFETY: the handle is of a kernel of a loaded module.
        let result = unsafe { sys::cuFuncSetAttribute(function.0, which, bytes as i32) };
        check("cuFuncSetAttribute", result)
    }

    /// How many groups of this shape a multiprocessor holds at once.
    pub(super) fn occupancy(self, function: FunctionHandle, shape: GroupShape) -> Result<u32, DriverStatus> {
        let mut groups = 0;
        // SAFETY: the handle is of a kernel of a loaded module.
        let result = unsafe {
            sys::cuOccupancyMaxActiveBlocksPerMultiprocessor(
                &mut groups,
                function.0,
                shape.lanes as i32,
                shape.shared as usize,
            )
        };
        check("cuOccupancyMaxActiveBlocksPerMultiprocessor", result)?;
        Ok(groups.max(0) as u32)
    }

    /// Launches a kernel whose only parameter is these words.
    ///
    /// # Safety
    ///
    /// The kernel must take a parameter of as many bytes, and the memory that the words point at must live until it has ended.
    pub(super) unsafe fn launch(
        self,
        function: FunctionHandle,
        groups: u32,
        shape: GroupShape,
        words: &mut [u64],
        on: StreamHandle,
    ) -> Result<(), DriverStatus> {
        let mut parameters: [*mut c_void; 1] = [words.as_mut_ptr().cast()];
        let none = std::ptr::null_mut();
        let list = parameters.as_mut_ptr();
        // SAFETY: the caller's promise; the driver copies the parameters before it returns.
        let result = unsafe {
            sys::cuLaunchKernel(function.0, groups, 1, 1, shape.lanes, 1, 1, shape.shared, on.0, list, none)
        };
        check("cuLaunchKernel", result)
    }
}
