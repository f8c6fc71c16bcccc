//! What can go wrong with a device, and whether trying again can help.

use std::borrow::Cow;

use pelton_ir::link::UnboundImports;
use pelton_ir::module::{NoKernel, Site, TextPlace};
use pelton_ir::text;
use pelton_ir::types::Need;
use pelton_ir::valid::Valid;

use crate::launch::Fault;

/// Whether trying again after an error can help.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Retry {
    /// The request is wrong, so it will fail again.
    Never,
    /// The same call may succeed later.
    Later,
    /// The device is lost for this process. Opening it again in the same process fails as well; only a new process can
    /// use it.
    NewProcess,
}

/// Why a device did not do what was asked.
#[allow(missing_docs)]
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum DeviceError {
    /// There is no device of that name.
    #[error("there is no device {name:?}: {why}")]
    Absent { name: String, why: String },
    /// The module needs something that the device does not have.
    #[error("{device} does not have {need}, which the module needs")]
    Need { device: String, need: Need },
    /// The kernel has an operation that the device does not run.
    #[error("`{op}` does not run on {device}")]
    Op { device: String, op: Cow<'static, str>, site: Site },
    /// The module does not have the kernel that was asked for.
    #[error(transparent)]
    Kernel(#[from] NoKernel),
    /// The module has imports that are not bound to any function.
    #[error(transparent)]
    Unbound(#[from] UnboundImports),
    /// A size is 0, or larger than the device accepts.
    #[error("{what} is {found}, and {device} takes {}", bound(*found, *most))]
    Limit { device: String, what: Cow<'static, str>, found: u64, most: u64 },
    /// A buffer of the launch has no memory or the wrong memory.
    #[error("buffer {name:?} {why}")]
    Binding { name: String, why: String },
    /// The device does not have that kind of memory, or the memory cannot be used in that way.
    #[error("{device} has no {what}")]
    Memory { device: String, what: Cow<'static, str> },
    /// The device does not have near memory.
    #[error("{device} has no near memory: {why}")]
    Near { device: String, why: String },
    /// A copy would go past the end of the memory.
    #[error("{count} words from word {at} on do not lie in memory of {len} words")]
    Range { at: usize, count: usize, len: usize },
    /// There is not enough memory left.
    #[error("no memory for {bytes} bytes")]
    Exhausted { bytes: u64 },
    /// A kernel ended in a trap, perhaps after lanes had recorded faults.
    #[error("the kernel trapped with code {code} in `{instruction}` of `{function}`")]
    Fault {
        code: u32,
        site: Site,
        place: Option<TextPlace>,
        function: String,
        instruction: String,
        recorded: Option<Fault>,
    },
    /// Code generation failed, which is a defect of Pelton.
    #[error("code generation failed: {0}")]
    Codegen(String),
    /// The device's driver refused a call.
    #[error("{call} gives {status}")]
    Driver { call: Cow<'static, str>, status: String },
    /// Other launches or loads on the device are in the way.
    #[error("the device is busy: {what}")]
    Busy { what: Cow<'static, str> },
    /// A thread could not be started.
    #[error("no thread could be started: {0}")]
    Thread(#[source] std::io::Error),
    /// The process in which the device lives could not do what was asked, for a reason that has no variant of its own.
    #[error("{0}")]
    Executor(String),
    /// The device is gone.
    #[error("the device is lost: {0}")]
    Lost(String),
}

/// Returns the bound that a size has crossed, as a clause.
fn bound(found: u64, most: u64) -> String {
    if found == 0 { "at least 1".into() } else { format!("at most {most}") }
}

impl DeviceError {
    /// Makes the error of a launch in which an instruction of a module trapped.
    pub(crate) fn fault(module: &Valid, (code, site): (u32, Site), recorded: Option<Fault>) -> Self {
        let listing = text::print_listing(module);
        let printed = listing.inst(site);
        let instruction = listing.text.get(printed.range()).unwrap_or_default().to_string();
        let function = &module.functions[site.func];
        let (place, function) = (function.debug.place(site.inst), function.name.clone());
        DeviceError::Fault { code, site, place, function, instruction, recorded }
    }

    /// Returns whether trying again can help. The answer depends only on the kind of error.
    pub fn retry(&self) -> Retry {
        match self {
            DeviceError::Exhausted { .. } | DeviceError::Busy { .. } | DeviceError::Thread(_) => Retry::Later,
            DeviceError::Lost(_) => Retry::NewProcess,
            _ => Retry::Never,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_largest_range_can_be_said() {
        let range = DeviceError::Range { at: usize::MAX, count: 2, len: 1 };
        let text = format!("2 words from word {} on do not lie in memory of 1 words", usize::MAX);
        assert_eq!(range.to_string(), text);
    }

    #[test]
    fn a_limit_names_the_bound_that_was_crossed() {
        let limit = |found| {
            let what = "the number of lanes";
            DeviceError::Limit { device: "cpu".into(), what: what.into(), found, most: 8 }.to_string()
        };
        assert_eq!(limit(0), "the number of lanes is 0, and cpu takes at least 1");
        assert_eq!(limit(9), "the number of lanes is 9, and cpu takes at most 8");
    }

    #[test]
    fn a_thread_that_does_not_start_says_why() {
        let cause = std::io::Error::other("too many of them");
        assert_eq!(DeviceError::Thread(cause).to_string(), "no thread could be started: too many of them");
    }
}
