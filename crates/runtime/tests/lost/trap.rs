//! A kernel that traps in the CUDA context which all kernels of this process share.
//!
//! A trap of the language only ends its own kernel, so this one is written in PTX and launched through the driver.

use std::ffi::{CString, c_void};
use std::ptr::null_mut;

use cudarc::driver::sys::{self, CUfunction, CUresult, CUstream};

const PTX: &str = "\
.version 7.0
.target sm_80
.address_size 64

.visible .entry lose()
{
	trap;
	ret;
}
";

fn check(result: CUresult) {
    assert_eq!(result, CUresult::CUDA_SUCCESS);
}

/// A loaded kernel that traps when it is run.
pub(crate) struct Trap {
    function: CUfunction,
    stream: CUstream,
}

impl Trap {
    /// Loads the kernel. The device must be open, because this uses its library and its context.
    pub(crate) fn load() -> Trap {
        let (mut context, mut module) = (null_mut(), null_mut());
        let (mut function, mut stream) = (null_mut(), null_mut());
        let text = CString::new(PTX).expect("it has no zero");
        let flags = sys::CUstream_flags::CU_STREAM_NON_BLOCKING as u32;
        // SAFETY: the device is open, so the driver is initialised; it writes one handle.
        check(unsafe { sys::cuDevicePrimaryCtxRetain(&mut context, 0) });
        // SAFETY: the context was retained right above.
        check(unsafe { sys::cuCtxSetCurrent(context) });
        // SAFETY: the text ends in zero.
        check(unsafe { sys::cuModuleLoadData(&mut module, text.as_ptr().cast::<c_void>()) });
        // SAFETY: the module is loaded, and the name ends in zero.
        check(unsafe { sys::cuModuleGetFunction(&mut function, module, c"lose".as_ptr()) });
        // SAFETY: the function was given right above.
        check(unsafe { sys::cuFuncLoad(function) });
        // SAFETY: the driver writes one handle.
        check(unsafe { sys::cuStreamCreate(&mut stream, flags) });
        Trap { function, stream }
    }

    /// Runs the kernel, after which the device is lost for this process.
    pub(crate) fn launch(self) {
        let none = null_mut();
        // SAFETY: the kernel takes nothing.
        check(unsafe {
            sys::cuLaunchKernel(self.function, 1, 1, 1, 1, 1, 1, 0, self.stream, none, none.cast())
        });
    }
}
