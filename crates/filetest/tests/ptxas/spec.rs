//! The megakernels that are assembled: those that `filetests/kernel` describes, and those that a GPU runs.

use pelton::kernel::{Claim, Geometry, Handler, Lifetime, SlotBody, Spec, Telemetry, assemble};
use pelton::{Opcode, Placement};
use pelton_device::{Caps, open};
use pelton_filetest::kernel::{WantedKernel, wanted_kernel, with_weights};
use pelton_ir::types::{Order, Scope};
use pelton_ir::valid::Valid;

/// A kernel, and the number of lanes of its groups.
pub(crate) type MadeKernel = (Valid, u32);

/// Assembles the kernel that a `test kernel` line describes.
pub(crate) fn asked(args: &[String]) -> Result<MadeKernel, String> {
    let WantedKernel { spec, caps, .. } = wanted_kernel(args).map_err(|error| error.to_string())?;
    make_kernel(&spec, &caps)
}

/// The specs of kernels as a GPU runs them, by name.
pub(crate) fn gpu() -> Vec<(&'static str, Spec)> {
    let near = spec().placement(Placement::Near);
    let far = spec().placement(Placement::Far);
    let both = spec().placement(Placement::Both);
    let drain = spec().lifetime(Lifetime::Drain);
    vec![
        ("near", near.clone()),
        ("near-priority", near.clone().claim(Claim::PRIORITY)),
        ("near-wide", wide(near.clone())),
        ("near-payload", payload(near.clone())),
        ("near-weights", with_weights(near.clone())),
        ("near-fused", fused(near)),
        ("far", far.clone()),
        ("far-priority", far.clone().claim(Claim::PRIORITY)),
        ("far-wide", wide(far.clone())),
        ("far-uncounted", far.clone().telemetry(Telemetry::Off)),
        ("far-payload", payload(far.clone())),
        ("far-wide-payload", payload(wide(far.clone()))),
        ("far-weights", with_weights(far.clone())),
        ("far-priority-weights", with_weights(far.clone()).claim(Claim::PRIORITY)),
        ("far-fused", fused(far)),
        ("both", both.clone()),
        ("both-priority", both.clone().claim(Claim::PRIORITY)),
        ("both-wide", wide(both.clone())),
        ("both-payload", payload(both.clone())),
        ("both-weights", with_weights(both.clone())),
        ("both-fused", fused(both)),
        ("drain", drain.clone()),
        ("drain-wide", wide(drain.clone())),
        ("drain-fused", fused(drain)),
    ]
}

/// Assembles a spec for a GPU.
pub(crate) fn on_gpu(spec: &Spec) -> Result<MadeKernel, String> {
    make_kernel(spec, &caps().map_err(|error| error.to_string())?)
}

/// The capabilities of a GPU with 132 multiprocessors.
fn caps() -> Result<Caps, pelton_device::DeviceError> {
    Ok(Caps {
        persistent: true,
        scope: Scope::System,
        subgroup: 32,
        independent_subgroups: true,
        lanes: 256,
        max_lanes: 1024,
        groups: 528,
        resident: 1056,
        units: 132,
        memory_bytes: Some(1 << 37),
        shared_bytes: 227 << 10,
        wakes: false,
        ..open("reference")?.caps().clone()
    })
}

fn make_kernel(spec: &Spec, caps: &Caps) -> Result<MadeKernel, String> {
    let made = assemble(spec, caps).map_err(|error| error.to_string())?;
    Ok((made.module, made.layout.lanes))
}

/// A spec with eight producers and the built-in handlers, including packed slots.
fn spec() -> Spec {
    Spec::new(Geometry::new(16384)).producers(8)
}

fn fused(spec: Spec) -> Spec {
    let add = Handler::lane_wide(|task| task.finish(task.atomic_add(task.arg(1), task.arg(0))));
    spec.body(SlotBody::Fused).handler("add", add)
}

/// The spec with payloads and replies, and a handler that replies with a digest of its payload.
fn payload(spec: Spec) -> Spec {
    let digest = Handler::lane_wide(|task| {
        let f = task.body();
        let (payload, reply) = (task.payload(), task.reply());
        f.range((f.lit(0), f.len(payload), f.lit(4)), (), |_, at, ()| {
            let words = f.load_wide::<u32, 4>(Order::Relaxed, Scope::Group, payload.at(at));
            let mixed = words.into_iter().fold(f.lit(0), |mixed, word| f.rotl(mixed, 8) ^ word);
            f.store(reply.at(at >> 2), mixed);
        });
        task.set_reply_len((task.payload_len() + 3) >> 2);
    });
    spec.payload(256).reply(64).handler("digest", digest)
}

/// The spec with a handler that a whole group runs: it returns the sum of its lanes' arguments.
fn wide(spec: Spec) -> Spec {
    let sum = Handler::group_wide(|group| {
        let f = group.body();
        let part = group.shared::<u32>("part", 1);
        f.when(f.lane().eq(0), || f.store(part.at(0), 0));
        f.barrier();
        f.atomic_add(Order::Relaxed, Scope::Group, part.at(0), group.arg(0));
        f.barrier();
        group.finish(f.load(part.at(0)));
    });
    spec.handler_at(Opcode::user(9).expect("it is a user's"), "sum", sum)
}
