//! What `assemble` makes and what it refuses.

use pelton::kernel::{Body, Claim, Draft, Geometry, Lifetime, Spec, Width, assemble};
use pelton::protocol::Opcode;
use pelton_device::{Placement, open};
use pelton_ir::types::Type;

fn add() -> Opcode {
    Opcode::user(8).unwrap()
}

fn base() -> Spec {
    let sum = Draft::new(Opcode::user(9).unwrap())
        .name("sum")
        .width(Width::Group)
        .shared("part", Type::U32, 1)
        .build(|slot| {
            let f = slot.body();
            let part = slot.region::<u32>("part");
            f.when(f.lane().eq(0), || f.store(part.at(0), 0));
            f.barrier();
            f.atomic_add(
                pelton_ir::types::Order::Relaxed,
                pelton_ir::types::Scope::Group,
                part.at(0),
                slot.arg(0),
            );
            f.barrier();
            slot.finish(f.load(part.at(0)));
        });
    Spec::new(Geometry::new(64))
        .handler(add(), |slot| {
            let (at, by) = (slot.arg(0), slot.arg(1));
            let sum = slot.atomic_add(at, by);
            slot.finish(sum);
        })
        .with(sum)
}

#[test]
fn every_shape_is_valid() {
    for device in ["cpu", "reference"] {
        let device = open(device).unwrap();
        for lanes in [1, 8, 64] {
            for claim in [Claim::Owned, Claim::PRIORITY] {
                let spec = base().claim(claim);
                let spec = Spec { geometry: spec.geometry.clone().lanes(lanes).groups(2), ..spec };
                for spec in [
                    spec.clone().placement(Placement::Near),
                    spec.clone().placement(Placement::Far),
                    spec.clone().lifetime(Lifetime::Drain),
                ] {
                    let made = assemble(&spec, device.caps()).unwrap_or_else(|e| panic!("{e}"));
                    device.load(&made.module, None, made.layout.lanes).unwrap();
                }
            }
        }
    }
}

#[test]
fn fused_has_no_switch() {
    let device = open("cpu").unwrap();
    let spec = Spec::default().body(Body::Fused).handler(add(), |slot| slot.finish(slot.arg(0)));
    let made = assemble(&spec, device.caps()).unwrap();
    assert!(!made.module.to_string().contains("switch"), "{}", &*made.module);
}
