//! Passes hold to the limits of the language, whatever they are given.

use std::fmt::Write as _;

use pelton_ir::limits::{MAX_DEPTH, MAX_INSTS};
use pelton_ir::op::Op;
use pelton_ir::pass::inline::{LIMIT, inline_calls};
use pelton_ir::pass::optimize;

use super::{module, size};

/// Functions of which each calls the one before twice, and a kernel that calls the last.
fn doubling(count: usize) -> String {
    let mut text = String::from("buffer a: [u32; 4] global read_write\nfn f0(%x: u32) -> u32 {\n");
    text.push_str("  %old = atomic_add relaxed device @a[0], %x\n  return %old\n}\n");
    for k in 1..count {
        let last = k - 1;
        writeln!(text, "fn f{k}(%x: u32) -> u32 {{\n  %a = call f{last}(%x)\n  %b = call f{last}(%a)")
            .unwrap();
        text.push_str("  return %b\n}\n");
    }
    writeln!(text, "kernel main {{\n  %r = call f{}(1)\n  store @a[1], %r\n}}", count - 1).unwrap();
    text
}

#[test]
fn doubling_stops_at_the_limit() {
    let before = module(&doubling(64));
    for limit in [0, 100, LIMIT, MAX_INSTS] {
        let after = inline_calls(&before, limit);
        assert!(size(&after.module) <= size(&before) + limit);
        assert!(size(&after.module) <= MAX_INSTS);
        assert!(!after.left.is_empty(), "2^64 instructions do not fit");
    }
    assert!(size(&optimize(&before)) <= size(&before) + LIMIT);
}

#[test]
fn what_is_left_are_calls_of_kernels() {
    let before = module(&doubling(8));
    let all = inline_calls(&before, MAX_INSTS);
    assert_eq!(all.left, []);
    assert!(all.module.functions.iter().all(|(_, f)| f.insts().all(|(_, node)| node.op != Op::Call)));
    let none = inline_calls(&before, 0);
    assert_eq!(none.module, before);
    let [site] = none.left[..] else { panic!("the kernel has one call") };
    assert_eq!(none.module.functions[site.func].inst(site.inst).op, Op::Call);
}

/// A kernel or function body of `if`s so deep that, with the body, there are `depth` regions.
fn nest(depth: usize, inside: &str) -> String {
    let mut text = String::new();
    (1..depth).for_each(|_| text.push_str("if %c {\n"));
    text.push_str(inside);
    (1..depth).for_each(|_| text.push_str("\n}"));
    text
}

#[test]
fn inlining_nests_no_deeper_than_allowed() {
    for (inner, outer, early, fits) in [
        (64, 65, false, true),
        (64, 66, false, false),
        (64, 64, true, true),
        (64, 65, true, false),
        (MAX_DEPTH, 1, false, true),
        (MAX_DEPTH, 1, true, false),
    ] {
        let leave = if early { "return" } else { "store @a[0], 1" };
        let callee = nest(inner, leave);
        let kernel = nest(outer, "call f(%c)");
        let text = format!(
            "buffer a: [u32; 1] global read_write\nfn f(%c: bool) {{\n{callee}\n}}\n\
             kernel main {{\n%x = load @a[0]\n%c = eq %x, 0\n{kernel}\n}}"
        );
        let after = inline_calls(&module(&text), MAX_INSTS);
        assert_eq!(after.left.is_empty(), fits, "{inner} in {outer}, early: {early}");
    }
}

#[test]
fn the_deepest_nesting_is_optimized() {
    let body = nest(MAX_DEPTH, "%z = add %x, 0\nstore @a[0], %z");
    let text = format!(
        "buffer a: [u32; 1] global read_write\nkernel main {{\n%x = load @a[0]\n%c = eq %x, 0\n{body}\n}}"
    );
    let after = optimize(&module(&text));
    let ifs = after.functions.iter().flat_map(|(_, f)| f.insts()).filter(|(_, node)| node.op == Op::If);
    assert_eq!(ifs.count(), 1, "inside an `if`, its own condition is known");
}
