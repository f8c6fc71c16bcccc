//! Levels by example: no less uniform than they are, so that what is right is accepted.

use crate::arena::{Func, Handle, Value};
use crate::text;
use crate::valid::{Rule, UniformLevel, Valid, validate};

fn check(source: &str) -> Result<Valid, Vec<Rule>> {
    let module = text::parse(source).unwrap_or_else(|e| panic!("{source}: {}", e[0]));
    validate(module).map_err(|invalid| invalid.errors.iter().map(|error| error.rule).collect())
}

/// The levels of the named values of the last function.
fn levels(source: &str, names: &[&str]) -> Vec<UniformLevel> {
    let valid = check(source).unwrap_or_else(|rules| panic!("{source}: {rules:?}"));
    let func = Func::new(valid.functions.len() - 1);
    let named = |name: &str| {
        let values = &valid.functions[func].debug.values;
        Value::new(values.iter().position(|known| **known == *name).expect("the text names it"))
    };
    names.iter().map(|name| valid.uniformity(func).value_level(named(name))).collect()
}

const HEAD: &str =
    "buffer t: [u32; 9] global read buffer h: [u32; 9] host read buffer g: [u32; 9] global read_write
kernel k { %i = lane %c = eq %i, 0 %s = subgroup %d = eq %s, 0 %g = group %u = eq %g, 0 ";

#[test]
fn barriers_stand_where_all_lanes_come() {
    for body in [
        "if %u { barrier }",
        "block ^b { if %c { break ^b } } barrier",
        "forever ^l { if %c { break ^l } } barrier",
        "loop ^l %k = 0 to 9 step 1 { barrier if %c { continue ^l } store @g[%k], 1 }",
        "loop %k = %i to 9 step 1 { } barrier",
        "loop ^o %a = 0 to 9 step 1 { barrier loop %b = 0 to 9 step 1 { if %c { continue ^o } } }",
        "block ^b { if %u { if %c { break ^b } } else { barrier } }",
        "loop ^l %k = 0 to 9 step 1 { if %u { if %c { continue ^l } } else { barrier } }",
        "loop ^l %k = 0 to 9 step 1 { barrier if %u { break ^l } barrier }",
        "if %u { return } barrier",
        "if %d { %x = ballot %c return } %x2 = any %c",
        "%all = any %c if %all { %x = reduce_add %i }",
        "%f = group_broadcast %c, 0 while { yield %f } do { barrier }",
        "switch %g { case 1 { barrier } default { barrier } }",
    ] {
        let source = format!("{HEAD}{body} }}");
        assert_eq!(check(&source).map(drop), Ok(()), "{body}");
    }
}

#[test]
fn barriers_do_not_stand_elsewhere() {
    for body in [
        "if %d { barrier }",
        "switch %i { case 1 { barrier } }",
        "if %c { return } barrier",
        "block ^b { if %c { break ^b } barrier }",
        "block ^b { block ^a { if %c { break ^b } } barrier }",
        "forever ^l { barrier if %c { break ^l } }",
        "loop ^l %k = 0 to 9 step 1 { if %c { continue ^l } barrier }",
        "loop %k = 0 to %i step 1 { barrier }",
        "loop ^l %k = 0 to 9 step 1 { if %u { if %c { break ^l } } else { barrier } }",
        "loop ^o %a = 0 to 9 step 1 { loop %b = 0 to 9 step 1 { if %c { continue ^o } } barrier }",
        "loop ^o %a = 0 to 9 step 1 { loop %b = 0 to 9 step 1 { barrier if %c { continue ^o } } }",
        "loop %a = 0 to 9 step 1 { barrier if %c { return } }",
        "while { yield %c } do { barrier }",
        "while { barrier yield %c } do { }",
        "while ^w { if %c { break ^w } yield true } do { barrier }",
        "%x: u32 = if %c { yield 1 } else { yield 2 } %y = eq %x, 1 if %y { barrier }",
        "%x: u32 = block ^b { if %c { break ^b 1 } yield 2 } %y = eq %x, 1 if %y { barrier }",
        "%x: u32 = forever ^l with %n = 0 { %m = add %n, 1 if %c { break ^l 1 } yield %m } %y = eq %x, 1 if %y { barrier }",
    ] {
        let source = format!("{HEAD}{body} }}");
        assert_eq!(check(&source).map(drop), Err(vec![Rule::Barrier]), "{body}");
    }
}

#[test]
fn values_are_as_uniform_as_they_come() {
    use UniformLevel::{Group, Lane, Subgroup};
    let body = "%a = load @t[%g] %b = load @t[%s] %e = load @h[%g] %f = load @g[%g] %n = len @g
        %bal = ballot %c %el = elect %sh = shuffle %g, 0 %gb = group_broadcast %i, 0 %clock = clock
        %sum: u32 = loop %k = 0 to %n step 1 with %acc = 0 { %next = add %acc, %k yield %next }
        %odd: u32 = loop %k2 = 0 to %n step 1 with %p = 0, %q = %i { yield %q, %q } }";
    let body = body.replace("%odd: u32", "%odd: u32, %odd2: u32");
    let names =
        ["a", "b", "e", "f", "n", "bal", "el", "sh", "gb", "clock", "k", "acc", "sum", "k2", "p", "odd"];
    let wanted = [
        Group, Subgroup, Lane, Lane, Group, Subgroup, Lane, Lane, Group, Lane, Group, Group, Group, Group,
        Lane, Lane,
    ];
    assert_eq!(levels(&format!("{HEAD}{body}"), &names), wanted);
}

/// A chain of carried values as long as there may be: each iteration moves what differs by one.
#[test]
fn what_differs_goes_round_as_often_as_it_must() {
    let n = crate::limits::MAX_ARGS - 1;
    let list = |f: &dyn Fn(usize) -> String| (0..n).map(f).collect::<Vec<_>>().join(", ");
    let source = format!(
        "kernel k {{ %i = lane {} = loop %k = 0 to 99 step 1 with {} {{ yield {} }} %c = eq %r0, 0 if %c {{ barrier }} }}",
        list(&|k| format!("%r{k}: u32")),
        list(&|k| format!("%p{k} = 0")),
        list(&|k| if k + 1 == n { "%i".into() } else { format!("%p{}", k + 1) }),
    );
    assert_eq!(check(&source).map(drop), Err(vec![Rule::Barrier]));
}

#[test]
fn a_call_is_judged_by_its_own_operands() {
    let callee = "fn f(%x: u32, %y: u32) -> (u32, u32) {
        %z = eq %y, 0
        if %z { return %x, 1 }
        return 2, 3 }
        fn g(%x: u32) -> u32 { %a, %b = call f(%x, 0) return %a }";
    let kernel = "kernel k { %i = lane %s = subgroup
        %a, %b = call f(1, 2) %c, %d = call f(%i, 2) %e, %f = call f(1, %s) %h = call g(%s)
        %z = eq %a, 0 if %z { barrier } }";
    use UniformLevel::{Group, Lane, Subgroup};
    let found = levels(&format!("{callee} {kernel}"), &["a", "b", "c", "d", "e", "f", "h"]);
    assert_eq!(found, [Group, Group, Lane, Group, Subgroup, Subgroup, Subgroup]);
}

/// What is kept of a function holds in all its calls.
#[test]
fn a_function_is_judged_by_all_its_calls() {
    let function = "fn f(%x: u32) { %c = eq %x, 0 if %c { barrier } } kernel k { %i = lane ";
    assert_eq!(check(&format!("{function} call f(1) }}")).map(drop), Ok(()));
    assert_eq!(check(&format!("{function} call f(1) call f(%i) }}")).map(drop), Err(vec![Rule::Barrier]));
    let inside = "fn f() { barrier } fn g() { call f() } kernel k { %i = lane %c = eq %i, 0 ";
    assert_eq!(check(&format!("{inside} call g() }}")).map(drop), Ok(()));
    assert_eq!(check(&format!("{inside} if %c {{ call g() }} }}")).map(drop), Err(vec![Rule::Barrier]));
}

/// The error leads from the barrier to the jump, to its condition, to what differs first.
#[test]
fn an_error_says_where_lanes_part() {
    let source = "kernel k {
        %g = group %u = eq %g, 0 %i = lane %c = eq %i, 0
        if %c { return }
        if %u { return }
        barrier
        barrier
    }";
    let module = text::parse(source).expect("the text is right");
    let invalid = validate(module).expect_err("the barrier is not");
    let found = invalid.diagnostics();
    assert_eq!(found.len(), 1, "what parts lanes is told once");
    let at = |place: crate::module::TextPlace| &source[place.range()];
    let also: Vec<&str> = found[0].also.iter().map(|(place, _)| at(*place)).collect();
    assert_eq!((at(found[0].place), also), ("barrier", vec!["return", "if %c {", "%i = lane"]));
    assert!(source[..found[0].also[0].0.start as usize].ends_with("if %c { "));
}
