//! Compiles PTX to machine code with the driver's compiler, or takes the machine code from the cache.

use std::ffi::{CString, c_void};
use std::path::Path;

use cudarc::driver::sys::{self, CUjit_option, CUjitInputType, CUlinkState};

use crate::error::DeviceError;

use super::cache;
use super::context::CudaContext;
use super::raw::{DriverStatus, check};

/// How many bytes of the compiler's error messages are kept.
const LOG: usize = 16 << 10;

/// The machine code of a PTX text, compiled now or taken from the cache in `folder`.
pub(super) fn cubin(context: &CudaContext, ptx: &str, folder: Option<&Path>) -> Result<Vec<u8>, DeviceError> {
    let key = format!("{}\n{ptx}", context.info.compiler);
    if let Some(cubin) = folder.and_then(|folder| cache::get(folder, &key)) {
        return Ok(cubin);
    }
    let cubin = compile(context, ptx)?;
    if let Some(folder) = folder {
        // An entry that cannot be written only costs time later.
        let _ = cache::put(folder, &key, &cubin);
    }
    Ok(cubin)
}

fn compile(context: &CudaContext, ptx: &str) -> Result<Vec<u8>, DeviceError> {
    let text = CString::new(ptx).map_err(|_| DeviceError::Codegen("a zero within PTX".into()))?;
    context.enter()?;
    let mut log = vec![0u8; LOG];
    let linker = Linker::new(&mut log)?;
    let made = linker.add(&text).and_then(|()| linker.complete());
    drop(linker);
    made.map_err(|status| match status.lost() {
        true => status.into(),
        false => {
            let end = log.iter().position(|byte| *byte == 0).unwrap_or(log.len());
            let said = String::from_utf8_lossy(&log[..end]);
            DeviceError::Codegen(format!("{status}: {}", said.trim()))
        }
    })
}

/// The driver's linker, which also compiles. It writes to its log until it is dropped, so the log must outlive it.
struct Linker(CUlinkState);

impl Linker {
    fn new(log: &mut [u8]) -> Result<Self, DriverStatus> {
        let mut options =
            [CUjit_option::CU_JIT_ERROR_LOG_BUFFER, CUjit_option::CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES];
        // The driver takes numbers in the place of pointers.
        let mut values: [*mut c_void; 2] =
            [log.as_mut_ptr().cast(), std::ptr::without_provenance_mut(log.len())];
        let mut state = std::ptr::null_mut();
        // SAFETY: there are two options with their values; the log outlives the linker, as its one user sees to.
        let result =
            unsafe { sys::cuLinkCreate_v2(2, options.as_mut_ptr(), values.as_mut_ptr(), &mut state) };
        check("cuLinkCreate", result)?;
        Ok(Linker(state))
    }

    fn add(&self, text: &CString) -> Result<(), DriverStatus> {
        let text = text.as_bytes_with_nul();
        let data = text.as_ptr().cast_mut().cast();
        let (options, values) = (std::ptr::null_mut(), std::ptr::null_mut());
        let (name, kind) = (c"kernel".as_ptr(), CUjitInputType::CU_JIT_INPUT_PTX);
        // SAFETY: the text ends in zero, is only read, and is as long as said; there are no options.
        let result =
            unsafe { sys::cuLinkAddData_v2(self.0, kind, data, text.len(), name, 0, options, values) };
        check("cuLinkAddData", result)
    }

    fn complete(&self) -> Result<Vec<u8>, DriverStatus> {
        let (mut start, mut len) = (std::ptr::null_mut(), 0);
        // SAFETY: the driver writes an address and a length.
        check("cuLinkComplete", unsafe { sys::cuLinkComplete(self.0, &mut start, &mut len) })?;
        if start.is_null() {
            return Ok(Vec::new());
        }
        // SAFETY: the driver keeps so many bytes there until the linker is dropped.
        Ok(unsafe { std::slice::from_raw_parts(start.cast::<u8>(), len) }.to_vec())
    }
}

impl Drop for Linker {
    fn drop(&mut self) {
        // SAFETY: the linker is ended once. Failing here leaks it, no more.
        let _ = unsafe { sys::cuLinkDestroy(self.0) };
    }
}
