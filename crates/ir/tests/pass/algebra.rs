//! Folding agrees with the interpreter on every pure op, with constants and equal operands in every place.
//!
//! The program is made from the op table. A lane has one edge value of each type; each line computes an op of that
//! value and constants, and stores the bits of the result.

use std::fmt::Write as _;
use std::sync::atomic::{AtomicU32, AtomicU64};

use pelton_ir::interp::{BoundWords, InterpKernel, InterpLaunch, Schedule};
use pelton_ir::op::{Op, OpEffect, OpForm, OpRow, TABLE, TypePattern};
use pelton_ir::pass::{Pass, optimize};
use pelton_ir::types::{Const, Type};
use pelton_ir::valid::Valid;

/// How many edge values each type has.
const EDGES: usize = 12;

/// The edge values of a type.
fn edges(ty: Type) -> [Const; EDGES] {
    const MIN: i32 = i32::MIN;
    match ty {
        Type::U32 => [0, 1, 2, 3, 5, 31, 32, 33, 64, 1 << 31, u32::MAX - 1, u32::MAX].map(Const::from),
        Type::I32 => [0, 1, -1, 2, -2, 7, -8, 100, MIN, MIN + 1, i32::MAX - 1, i32::MAX].map(Const::from),
        Type::U64 => {
            [0, 1, 2, 3, 63, 64, 1 << 31, 1 << 32, 1 << 33, 1 << 63, u64::MAX - 1, u64::MAX].map(Const::from)
        }
        Type::F32 => {
            let (inf, nan, tiny) = (f32::INFINITY, f32::NAN, f32::from_bits(1));
            [0.0, -0.0, 1.0, -1.0, 0.5, 2.5, -3.5, tiny, f32::MAX, inf, -inf, nan].map(Const::from)
        }
        Type::Bool => {
            [false, true, false, true, true, false, true, true, false, false, true, false].map(Const::from)
        }
    }
}

/// A program in the making: one kernel that stores every result it is told of.
struct Lines {
    text: String,
    count: usize,
}

impl Lines {
    fn new() -> Lines {
        let mut text = String::new();
        for ty in ["u32", "i32", "u64", "f32"] {
            writeln!(text, "buffer in_{ty}: [{ty}; {EDGES}] global read").unwrap();
        }
        text.push_str("buffer out: [u64; ?] global write\n\nkernel main {\n  %lane = lane\n");
        for ty in ["u32", "i32", "u64", "f32"] {
            writeln!(text, "  %{ty} = load @in_{ty}[%lane]").unwrap();
        }
        text.push_str("  %bool = gt %u32, 31\n");
        Lines { text, count: 0 }
    }

    /// Names the result of an op.
    fn define(&mut self, op: &str, args: &[String]) -> String {
        self.count += 1;
        let name = format!("%v{}", self.count);
        writeln!(self.text, "  {name} = {op} {}", args.join(", ")).unwrap();
        name
    }

    /// Computes an op and stores the bits of its result.
    fn check(&mut self, op: &str, args: &[String], result: Type) {
        let value = self.define(op, args);
        let word = match result {
            Type::F32 | Type::I32 => self.define("bitcast", &[format!("u32 {value}")]),
            _ => value,
        };
        let bits = self.define("cast", &[format!("u64 {word}")]);
        let at = self.define("add", &["%lane".into(), format!("{}", self.count * EDGES)]);
        writeln!(self.text, "  store @out[{at}], {bits}").unwrap();
    }

    /// A row at a type: all its operands the lane's value, and each of them each edge value in turn.
    fn row(&mut self, row: &OpRow, ty: Type, to: Option<Type>) {
        let bound = |pat: &TypePattern| match pat {
            TypePattern::Is(ty) => *ty,
            TypePattern::T => ty,
            TypePattern::To => to.unwrap_or(ty),
        };
        let types: Vec<Type> = row.args.iter().map(|(_, pat)| bound(pat)).collect();
        let own: Vec<String> = types.iter().map(|ty| format!("%{ty}")).collect();
        let result = bound(&row.results[0]);
        let op = to.map_or(row.name.to_string(), |to| format!("{} {to}", row.name));
        self.check(&op, &own, result);
        for (k, ty) in types.iter().enumerate() {
            for edge in edges(*ty) {
                let mut args = own.clone();
                args[k] = edge.to_string();
                self.check(&op, &args, result);
                if args.len() == 2 && result == types[0] && types[0] == types[1] {
                    let inner = self.define(&op, &args);
                    self.check(&op, &[inner, edges(*ty)[3].to_string()], result);
                }
                if result == Type::Bool {
                    let inner = self.define(&op, &args);
                    self.check("not", std::slice::from_ref(&inner), Type::Bool);
                    self.check("select", &[inner, "%u32".into(), "7".into()], Type::U32);
                }
            }
        }
        if let [only] = types[..] {
            self.twice(&op, result, only);
        }
    }

    /// An op of one operand on what every other such op gives.
    fn twice(&mut self, op: &str, result: Type, ty: Type) {
        let unary =
            |row: &&OpRow| row.form == OpForm::Plain && row.effect == OpEffect::Pure && row.args.len() == 1;
        for row in TABLE.iter().filter(unary) {
            let takes = row.class.map_or(row.args[0].1 == TypePattern::Is(ty), |class| class.has(ty));
            if takes && row.results[0] == row.args[0].1 {
                let inner = self.define(row.name, &[format!("%{ty}")]);
                self.check(op, &[inner], result);
            }
        }
        let conversions = [("cast", Type::ALL), ("bitcast", &[Type::U32, Type::I32, Type::F32])];
        for (name, types) in conversions {
            let word = |ty: Type| name == "cast" || ty.bits() == 32;
            for first in types.iter().filter(|first| op.starts_with(name) && word(**first) && word(ty)) {
                if ty != Type::Bool {
                    let inner = self.define(&format!("{name} {ty}"), &[format!("%{first}")]);
                    self.check(op, &[inner], result);
                }
            }
        }
    }

    fn finish(mut self) -> (String, usize) {
        self.text.push_str("}\n");
        (self.text, (self.count + 1) * EDGES)
    }
}

/// The program of one row, and how many words it writes.
fn program(row: &OpRow) -> (String, usize) {
    let mut lines = Lines::new();
    let types = row.class.map_or(&[Type::F32][..], |class| class.types());
    for ty in types {
        match row.form {
            OpForm::Typed => {
                let word = row.op == Op::Bitcast;
                let to = Type::ALL.iter().filter(|to| **to != Type::Bool && (!word || to.bits() == 32));
                to.for_each(|to| lines.row(row, *ty, Some(*to)));
            }
            _ => lines.row(row, *ty, None),
        }
    }
    lines.finish()
}

/// What the program leaves.
fn outcome(module: &Valid, len: usize) -> Vec<u64> {
    let words = |ty| edges(ty).map(|edge| AtomicU32::new(edge.bits() as u32));
    let (u32s, i32s, f32s) = (words(Type::U32), words(Type::I32), words(Type::F32));
    let u64s = edges(Type::U64).map(|edge| AtomicU64::new(edge.bits()));
    let out: Vec<AtomicU64> = (0..len).map(|_| AtomicU64::new(0)).collect();
    let buffers = vec![
        BoundWords::W32(&u32s),
        BoundWords::W32(&i32s),
        BoundWords::W64(&u64s),
        BoundWords::W32(&f32s),
        BoundWords::W64(&out),
    ];
    let (lanes, schedule) = (EDGES as u32, Schedule::Threads(1));
    let launch =
        InterpLaunch { groups: 1, lanes, subgroup: 32, buffers, stop: None, deadline: None, schedule };
    InterpKernel::new(module, None).expect("the kernel loads").run(&launch).expect("the launch is accepted");
    out.into_iter().map(AtomicU64::into_inner).collect()
}

#[test]
fn folding_changes_no_result() {
    let folds = |row: &&OpRow| row.effect == OpEffect::Pure && !row.args.is_empty();
    for row in TABLE.iter().filter(folds) {
        let (text, len) = program(row);
        let before = super::module(&text);
        let expected = outcome(&before, len);
        assert!(expected.iter().any(|word| *word != 0), "{} computes something", row.name);
        for after in [Pass::Fold.run(&before), optimize(&before)] {
            let found = outcome(&after, len);
            let wrong = expected.iter().zip(&found).position(|(a, b)| a != b);
            if let Some(at) = wrong {
                let line =
                    text.lines().find(|line| line.contains(&format!("add %lane, {}", at / EDGES * EDGES)));
                panic!("lane {}: {:x} became {:x} before {line:?}", at % EDGES, expected[at], found[at]);
            }
        }
    }
}
