//! Runs a test on every device of this machine, in every placement, with groups of one lane and of several.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use pelton::device::{Device, open};
use pelton::{Geometry, Placement, Session, Spec};

/// Long enough for anything that ends at all.
pub(crate) const LONG: Duration = Duration::from_secs(60);

static ALONE: Mutex<()> = Mutex::new(());

/// Returns the devices of this machine.
pub(crate) fn devices() -> Vec<Arc<dyn Device>> {
    let gpu = open("cuda").is_ok().then_some("cuda");
    ["cpu", "reference"].into_iter().chain(gpu).map(|name| open(name).unwrap()).collect()
}

/// Runs a test on every device, in every placement that the device has, with groups of one lane and of several.
pub(crate) fn everywhere(spec: impl Fn(Spec) -> Spec, test: impl Fn(&Session, &str)) {
    on_every_device(&[Placement::Near, Placement::Far, Placement::Both], 3, spec, test);
}

/// Runs a test as [`everywhere`] does, but in sessions with a single group that runs tasks. The turns of several groups have
/// no order, and if tests count turns, they need one.
#[allow(dead_code, reason = "not every test that has this module counts turns")]
pub(crate) fn in_one_group(spec: impl Fn(Spec) -> Spec, test: impl Fn(&Session, &str)) {
    on_every_device(&[Placement::Near, Placement::Far], 1, spec, test);
}

/// Runs a test on every device, in those of the placements that the device has.
fn on_every_device(
    placements: &[Placement],
    groups: u32,
    spec: impl Fn(Spec) -> Spec,
    test: impl Fn(&Session, &str),
) {
    for device in devices() {
        // A GPU loads no code while a kernel stays there, so one test at a time has it for as long as it needs it.
        let alone = device.caps().name.starts_with("cuda");
        let _alone = alone.then(|| ALONE.lock().unwrap_or_else(PoisonError::into_inner));
        for placement in placements {
            for lanes in [Some(1), Some(32), None] {
                // The interpreter is slow, and its own number of lanes is no special case.
                if lanes.is_none() && device.caps().name.starts_with("reference") {
                    continue;
                }
                let mut geometry = Geometry::new(256).groups(groups);
                geometry.lanes = lanes;
                let shape = format!("{} {placement:?} {lanes:?} lanes", device.caps().name);
                let spec = spec(Spec::new(geometry).placement(*placement));
                let session = match Session::launch(&device, &spec) {
                    Ok(session) => session,
                    Err(pelton::Error::Refused(error)) if error.to_string().contains("placement") => continue,
                    Err(error) => panic!("{shape}: {error}"),
                };
                test(&session, &shape);
            }
        }
    }
}
