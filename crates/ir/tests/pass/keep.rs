//! What is for people survives passes, and what a pass is asked for is what it does.

use pelton_ir::module::Site;
use pelton_ir::op::Op;
use pelton_ir::pass::bounds::{Bounds, KnownGeometry, Proof};
use pelton_ir::pass::{Pass, optimize};

use super::module;

const TEXT: &str = "
buffer a: [u32; 32] global read_write

fn bump(%v: u32) -> u32 {
  %next = add %v, 1
  return %next
}

kernel main {
  %lane = lane
  %word = load @a[%lane]
  loop ^rows %i = 0 to %word step 1 {
    %more = call bump(%word)
    store @a[%lane], %more
  }
}
";

#[test]
fn names_and_places_stay() {
    let after = optimize(&module(TEXT));
    let main = &after.functions[after.function("main").expect("kernels stay")];
    for (inst, node) in main.insts().filter(|(_, node)| !matches!(node.op, Op::Yield | Op::Return)) {
        let place = main.debug.place(inst).expect("everything here was in the text");
        assert!(
            TEXT[place.range()].contains(node.op.row().name),
            "{:?} is not {:?}",
            &TEXT[place.range()],
            node.op
        );
        assert!(node.results.iter().all(|value| main.debug.value(value).is_some()), "{node:?} has a name");
    }
    let (rows, _) = main.insts().find(|(_, node)| node.op == Op::Loop).expect("the loop stays");
    assert_eq!(main.debug.label(rows), Some("rows"));
}

#[test]
fn passes_are_found_by_name() {
    for pass in Pass::ALL {
        assert_eq!(pass.name().parse(), Ok(*pass));
    }
    assert_eq!("nothing".parse::<Pass>(), Err(()));
}

#[test]
fn a_device_that_knows_its_lanes_proves_more() {
    let module = module(TEXT);
    let main = module.function("main").expect("it is there");
    let (inst, _) =
        module.functions[main].insts().find(|(_, node)| node.op == Op::Load).expect("it is there");
    let site = Site { func: main, inst };
    let proof = |lanes| Bounds::new(&module, KnownGeometry { lanes, ..KnownGeometry::default() }).proof(site);
    assert_eq!(proof(None), None);
    assert_eq!(proof(Some(32)), Some(Proof::Most { last: 31, len: 32 }));
    assert_eq!(proof(Some(33)), None);
}

#[test]
fn a_counted_loop_says_how_many_turns_it_takes_at_most() {
    let text = "buffer n: [u32; 2] global read
kernel main {
  %lane = lane
  %x = load @n[0]
  %few = min %x, 100
  loop %i = %lane to %few step 3 {
  }
  loop %j = 5 to 2 step 1 {
  }
  loop %k = -4i32 to 4i32 step 1i32 {
  }
}";
    let module = module(text);
    let main = module.function("main").expect("it is there");
    let bounds = Bounds::new(&module, KnownGeometry { lanes: Some(1), ..KnownGeometry::default() });
    let loops = module.functions[main].insts().filter(|(_, node)| node.op == Op::Loop);
    let turns: Vec<Option<u64>> =
        loops.map(|(inst, _)| bounds.max_turns(Site { func: main, inst })).collect();
    assert_eq!(turns, [Some(100), Some(0), Some(8)]);
}
