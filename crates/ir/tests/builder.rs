//! What the builder writes is what the text says.

use pelton_ir::builder::{Builder, Val};
use pelton_ir::module::{ImportFlow, Module};
use pelton_ir::text;
use pelton_ir::types::{Access, Len, Need, Order, Scope, Space};
use pelton_ir::valid::validate;

/// Holds a module that was built against the text that says the same.
fn says(module: Module, expected: &str) {
    assert_eq!(text::print(&module), expected);
    assert_eq!(text::parse(expected).expect("it parses"), module);
    validate(module).expect("it is valid");
}

#[test]
fn operators_and_constants() {
    let mut m = Builder::new();
    let data = m.buffer::<u32>("data", Len::Fixed(8), Space::Global, Access::ReadWrite);
    let real = m.buffer::<f32>("real", Len::Launch, Space::Global, Access::ReadWrite);
    m.kernel("main", |f| {
        let i = f.lane() * 2 + 1;
        let x = (f.load(data.at(i)) ^ 0xff) >> 3;
        let y = f.select(x.lt(10).eq(true), x, !x % 7);
        let r: Val<f32> = f.cast(y);
        let s = -f.load(real.at(0)) / 2.0 - r;
        f.store(real.at(i), f.max(s, 0.5));
        f.store(data.at(f.len(real)), f.bitcast(s));
        f.store(data.at(f.lit(3u32)), f.popcount(y << 1) & 3);
    });
    says(
        m.finish(),
        "\
buffer data: [u32; 8] global read_write
buffer real: [f32; ?] global read_write

kernel main {
  %0 = lane
  %1 = mul %0, 2
  %2 = add %1, 1
  %3 = load @data[%2]
  %4 = xor %3, 255
  %5 = shr %4, 3
  %6 = lt %5, 10
  %7 = eq %6, true
  %8 = not %5
  %9 = rem %8, 7
  %10 = select %7, %5, %9
  %11 = cast f32 %10
  %12 = load @real[0]
  %13 = neg %12
  %14 = div %13, 2.0
  %15 = sub %14, %11
  %16 = max %15, 0.5
  store @real[%2], %16
  %17 = len @real
  %18 = bitcast u32 %15
  store @data[%17], %18
  %19 = shl %10, 1
  %20 = popcount %19
  %21 = and %20, 3
  store @data[3], %21
}
",
    );
}

/// The text of the module that `regions_jumps_and_calls` builds.
const REGIONS_JUMPS_AND_CALLS: &str = "\
need independent_subgroups
buffer data: [u32; ?] global read_write

fn both(%0: u32, %1: bool) -> (u32, f32) {
  if %1 {
    return %0, 1.0
  }
  %2 = add %0, 1
  %3 = cast f32 %0
  return %2, %3
}

fn nothing() {
  barrier
}

kernel main {
  call nothing()
  %0 = group
  %1, %2 = call both(%0, true)
  %3 = gt %2, 0.0
  %4: u32, %5: f32 = if %3 {
    yield %1, %2
  } else {
    %6 = mul %2, 2.0
    yield 7, %6
  }
  %7 = ne %5, %5
  if %7 {
    fault %4
  }
  %8: u32 = switch %1 {
    case 0 {
      %9 = add %1, 1
      yield %9
    }
    case 1, 5 {
      yield 9
    }
    default {
      yield %4
    }
  }
  %10: u32 = block ^18 {
    %11 = eq %8, 3
    if %11 {
      break ^18 4
    }
    yield %8
  }
  %12: u32, %13: u32 = loop ^24 %14 = 0 to %10 step 1 with %15 = 0, %16 = %10 {
    %17 = eq %14, 2
    if %17 {
      continue ^24 %15, %14
    }
    %18 = eq %14, 5
    if %18 {
      break ^24 %14, %14
    }
    %19 = add %15, %14
    yield %19, %16
  }
  %20: u32 = while with %21 = %12 {
    %22 = gt %21, %13
    yield %22
  } do {
    %23 = div %21, 2
    yield %23
  }
  %24: u32 = forever ^40 with %25 = %20 {
    %26 = gt %25, 100
    if %26 {
      break ^40 %25
    }
    backoff 50
    %27 = add %25, 3
    yield %27
  }
  store @data[0], %24
  wake
}
";

#[test]
fn regions_jumps_and_calls() {
    let mut m = Builder::new();
    m.need(Need::Subgroups);
    m.need(Need::Subgroups);
    let data = m.buffer::<u32>("data", Len::Launch, Space::Global, Access::ReadWrite);
    let both = m.function::<(u32, bool), (u32, f32)>("both", |f, (x, c)| {
        f.when(c, || f.ret((x, f.lit(1.0))));
        (x + 1, f.cast(x))
    });
    let nothing = m.function::<(), ()>("nothing", |f, ()| f.barrier());
    m.kernel("main", |f| {
        f.call(nothing, ());
        let (a, b) = f.call(both, (f.group(), f.lit(true)));
        let (p, q) = f.choose(b.gt(0.0), || (a, b), || (f.lit(7), b * 2.0));
        f.when(q.ne(q), || f.fault(p));
        let s: Val<u32> = f.switch(a).case([0], || a + 1).case([1, 5], || f.lit(9)).default(|| p);
        let t = f.block(|out| {
            f.when(s.eq(3), || out.leave(f.lit(4)));
            s
        });
        let (sum, last) = f.range((0, t, 1), (f.lit(0u32), t), |turn, k, (sum, last)| {
            f.when(k.eq(2), || turn.next((sum, k)));
            f.when(k.eq(5), || turn.leave((k, k)));
            (sum + k, last)
        });
        let half = f.repeat(sum, |x| x.gt(last), |_, x| x / 2);
        let found: Val<u32> = f.forever(half, |poll, x| {
            f.when(x.gt(100), || poll.leave(x));
            f.backoff(50);
            x + 3
        });
        f.store(data.at(0), found);
        f.wake();
    });
    says(m.finish(), REGIONS_JUMPS_AND_CALLS);
}

#[test]
fn memory_of_every_kind() {
    let mut m = Builder::new();
    let ring = m.buffer::<u64>("ring", Len::Launch, Space::Host, Access::Read);
    let tail = m.buffer::<u64>("tail", Len::Fixed(1), Space::Global, Access::ReadWrite);
    let window = m.buffer::<u64>("window", Len::Fixed(64), Space::Shared, Access::ReadWrite);
    m.kernel("main", |f| {
        let i = f.sublane();
        let pair = f.load_wide::<u64, 2>(Order::Relaxed, Scope::System, ring.at(i));
        f.store_wide(Order::Relaxed, Scope::Group, window.at(i), pair);
        f.load_byte(window.at(i), f.load_byte(ring.at(i), 7));
        let seen = f.atomic_load(Order::Acquire, Scope::Device, tail.at(0));
        let was = f.atomic_cas(Order::AcqRel, Scope::Device, tail.at(0), seen, pair[0]);
        f.fence(Order::SeqCst, Scope::System);
        f.atomic_store(Order::Release, Scope::Device, tail.at(0), f.group_broadcast(was, 0));
        f.async_load(window.at(0), tail.at(0), 1, 7);
        f.async_wait(7);
    });
    says(
        m.finish(),
        "\
buffer ring: [u64; ?] host read
buffer tail: [u64; 1] global read_write
buffer window: [u64; 64] shared read_write

kernel main {
  %0 = sublane
  %1, %2 = load_wide relaxed system @ring[%0]
  store_wide relaxed group @window[%0], %1, %2
  %3 = load_byte @ring[%0], 7
  %4 = load_byte @window[%0], %3
  %5 = atomic_load acquire device @tail[0]
  %6 = atomic_cas acq_rel device @tail[0], %5, %1
  fence seq_cst system
  %7 = group_broadcast %6, 0
  atomic_store release device @tail[0], %7
  async_load @window[0], @tail[0], 1, 7
  async_wait 7
}
",
    );
}

#[test]
fn imports_that_nobody_calls_are_removed() {
    let mut m = Builder::new();
    m.import::<(), u32>("unused", ImportFlow::Any);
    let used = m.import::<u32, u32>("used", ImportFlow::Uniform);
    m.import::<(), ()>("also_unused", ImportFlow::Any);
    let twice = m.function::<u32, u32>("twice", |f, x| {
        let once = f.call(used, x);
        f.call(used, once)
    });
    m.function::<(), u32>("four", |f, ()| f.call(twice, f.lit(1)));
    let mut module = m.finish();
    module.remove_unused_imports();
    says(
        module,
        "\
import uniform fn used(%0: u32) -> u32

fn twice(%0: u32) -> u32 {
  %1 = call used(%0)
  %2 = call used(%1)
  return %2
}

fn four() -> u32 {
  %0 = call twice(1)
  return %0
}
",
    );
}
