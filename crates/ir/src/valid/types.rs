//! The checks of types against the op table.

use super::Rule;
use super::error::{CheckResult, fail};
use super::walk::{FunctionCheck, spell};
use crate::module::{Attr, Function, Node, Operand, elements_per_wide};
use crate::op::{Op, OpForm, TypePattern};
use crate::types::{Const, Type, TypeClass};

impl FunctionCheck<'_> {
    /// Checks that an instruction has the operands and results that its row states.
    pub(crate) fn row(&self, node: &Node) -> CheckResult {
        let row = node.op.row();
        let elem = self.elem(node);
        // If the element type of the buffer is not certain, a wide access may have two or four values, so the number is
        // not checked.
        let many = match row.form {
            OpForm::Wide => elem.map(elements_per_wide),
            _ => Some(1),
        };
        let Some(many) = many else { return Ok(()) };
        let fixed = row.args.len().min(1);
        let wanted = fixed + row.args.len().saturating_sub(1) * many;
        if node.args.len() != wanted {
            return count(node, wanted);
        }
        let bound = self.bind(node);
        self.operands(node, bound)?;
        self.converts(node)?;
        let results = row.results.len() * many;
        self.results(node, results, |k| match (row.results[k / many], &node.attr) {
            (TypePattern::Is(ty), _) => Some(ty),
            (TypePattern::To, Attr::Type(ty)) => Some(*ty),
            (TypePattern::To, _) => None,
            (TypePattern::T, _) => bound.filter(|_| !self.guessed(node)),
        })
    }

    /// Checks that an instruction with regions has the operands that its row states, and further ones only if it is a
    /// loop that carries them.
    pub(crate) fn fixed(&self, node: &Node) -> CheckResult {
        let wanted = node.op.row().args.len();
        let found = node.args.len();
        if found < wanted || found > wanted && !node.op.is_loop() {
            return count(node, wanted);
        }
        self.operands(node, self.bind(node))
    }

    /// Returns what `T` stands for: the element type of the buffer, or else the type of the first operand that is not a
    /// constant, because people often write constants with the wrong suffix.
    fn bind(&self, node: &Node) -> Option<Type> {
        let row = node.op.row();
        if matches!(row.form, OpForm::Place | OpForm::Wide | OpForm::Atomic) {
            return self.elem(node);
        }
        let of = |constant: bool| {
            let named = node.args.iter().zip(row.args).filter(|(_, (_, pat))| *pat == TypePattern::T);
            let mut kind = named.filter(|(arg, _)| arg.constant().is_some() == constant);
            kind.find_map(|(arg, _)| self.ty(*arg))
        };
        of(false).or_else(|| of(true))
    }

    /// Returns the element type of the buffer that is accessed, or `None` if the buffer has an error.
    pub(crate) fn elem(&self, node: &Node) -> Option<Type> {
        let elem = self.module.buffers.get(node.buffer()?)?.elem;
        (elem != Type::Bool).then_some(elem)
    }

    /// Checks that each operand has the type of its pattern, and that `T` is in the row's class.
    fn operands(&self, node: &Node, bound: Option<Type>) -> CheckResult {
        let row = node.op.row();
        let name = row.name;
        let class = row.class.unwrap_or(TypeClass::Any);
        let wrong = bound.filter(|ty| !class.has(*ty));
        if let (Some(ty), OpForm::Place | OpForm::Wide | OpForm::Atomic, Some(buffer)) =
            (wrong, row.form, node.buffer())
        {
            let of = &self.module.buffers[buffer].name;
            let text = format!("`{name}` works on {}, but the elements of `@{of}` are {ty}", list(class));
            return fail(Rule::AtomicType, text);
        }
        for (k, (arg, found)) in node.args.iter().map(|arg| (arg, self.ty(*arg))).enumerate() {
            let Some((what, pat)) = row.args.get(k).or(row.args.last()).filter(|_| self.judged(node, k))
            else {
                break;
            };
            let (wanted, found) = match (pat, found) {
                (_, None) => continue,
                (TypePattern::Is(ty), Some(found)) => (Some(*ty), found),
                (_, Some(found)) => (bound, found),
            };
            if *pat == TypePattern::T && wrong.is_some() {
                let text =
                    format!("operand `{what}` of `{name}` is {found}, but {} is expected", list(class));
                return fail(Rule::Operand, text);
            }
            if let Some(wanted) = wanted.filter(|wanted| *wanted != found) {
                let hint = hint(self.function, *arg, found, wanted);
                let text = format!("operand `{what}` of `{name}` is {found}, but {wanted} is expected{hint}");
                return fail(Rule::Operand, text);
            }
        }
        Ok(())
    }

    /// Whether the `k`-th operand is one of the row's: what a loop carries is not.
    fn judged(&self, node: &Node, k: usize) -> bool {
        !node.op.has_regions() || k < node.op.row().args.len()
    }

    /// Checks that a conversion names a type that it can produce.
    fn converts(&self, node: &Node) -> CheckResult {
        match (node.op, &node.attr) {
            (op @ (Op::Cast | Op::Bitcast), Attr::Type(Type::Bool)) => {
                let from = node.args.first().copied().and_then(|arg| Some((arg, self.ty(arg)?)));
                let hint = from.map(|(arg, ty)| (operand(self.function, arg), Const::zero(ty)));
                let hint = hint.map_or_else(String::new, |(of, zero)| format!(": write `ne {of}, {zero}`"));
                fail(Rule::Cast, format!("there is no {} to bool{hint}", op.row().name))
            }
            (Op::Bitcast, Attr::Type(to)) if !TypeClass::Word32.has(*to) => {
                fail(Rule::Cast, format!("`bitcast` keeps 32 bits, so it cannot give {to}: `cast` converts"))
            }
            _ => Ok(()),
        }
    }

    /// Checks that there are `wanted` results and that they have these types, where the types are known.
    pub(crate) fn results(
        &self,
        node: &Node,
        wanted: usize,
        ty: impl Fn(usize) -> Option<Type>,
    ) -> CheckResult {
        let name = node.op.row().name;
        if node.results.len() != wanted {
            let (found, wanted) = (plural(node.results.len(), "name"), plural(wanted, "result"));
            return fail(Rule::Result, format!("`{name}` gives {wanted}, but has {found} on its left"));
        }
        for (k, value) in node.results.iter().enumerate() {
            let found = self.function.values.get(value).copied();
            if let Some((wanted, found)) = ty(k).zip(found).filter(|(wanted, found)| wanted != found) {
                let text = format!("result {} of `{name}` is {wanted}, but was declared {found}", k + 1);
                return fail(Rule::Result, text);
            }
        }
        Ok(())
    }
}

fn count(node: &Node, wanted: usize) -> CheckResult {
    let row = node.op.row();
    let found = plural(node.args.len(), "operand");
    // The last operand of a wide store's row stands for all stored values.
    let names = row.args.iter().chain(std::iter::repeat(row.args.last()).flatten()).take(wanted);
    let names: Vec<&str> = names.map(|(name, _)| *name).collect();
    let names = if names.is_empty() { "none".to_string() } else { format!("{wanted}: {}", names.join(", ")) };
    fail(Rule::Count, format!("`{}` has {found}, but takes {names}", row.name))
}

/// Returns a hint about what to write instead, or an empty string if that is not clear.
pub(super) fn hint(function: &Function, found: Operand, ty: Type, wanted: Type) -> String {
    match found {
        Operand::Const(c) => respell(c, wanted).map_or_else(String::new, |c| format!(": write `{c}`")),
        Operand::Value(value) if wanted == Type::Bool => {
            format!(": write `ne {}, {}`", spell(function, value), Const::zero(ty))
        }
        Operand::Value(value) => format!(": write `cast {wanted} {}`", spell(function, value)),
    }
}

/// Returns the constant of another type that has the same value.
fn respell(c: Const, wanted: Type) -> Option<Const> {
    let value: f64 = match c.ty() {
        Type::U32 | Type::Bool => c.bits() as f64,
        Type::I32 => f64::from(c.bits() as u32 as i32),
        Type::U64 => u32::try_from(c.bits()).ok()?.into(),
        Type::F32 => f32::from_bits(c.bits() as u32).into(),
    };
    let is =
        |least: f64, most: f64| (value.fract() == 0.0 && (least..=most).contains(&value)).then_some(value);
    match wanted {
        Type::U32 => is(0.0, u32::MAX.into()).map(|x| (x as u32).into()),
        Type::I32 => is(i32::MIN.into(), i32::MAX.into()).map(|x| (x as i32).into()),
        Type::U64 => is(0.0, u32::MAX.into()).map(|x| (x as u64).into()),
        Type::F32 => (f64::from(value as f32) == value).then(|| (value as f32).into()),
        Type::Bool => is(0.0, 1.0).map(|x| (x == 1.0).into()),
    }
}

/// Returns an operand as the text spells it.
pub(super) fn operand(function: &Function, operand: Operand) -> String {
    match operand {
        Operand::Value(value) => spell(function, value),
        Operand::Const(c) => c.to_string(),
    }
}

/// Returns the types of a class as a list in words.
fn list(class: TypeClass) -> String {
    let words: Vec<&str> = class.types().iter().map(|ty| ty.word()).collect();
    either(&words)
}

/// Joins alternatives with commas and `or`.
pub(super) fn either(words: &[impl AsRef<str>]) -> String {
    let words: Vec<&str> = words.iter().map(AsRef::as_ref).collect();
    match words.split_last() {
        Some((last, [])) => last.to_string(),
        Some((last, rest)) => format!("{} or {last}", rest.join(", ")),
        None => String::new(),
    }
}

/// Returns a number with its noun in the singular or the plural.
pub(super) fn plural(n: usize, what: &str) -> String {
    match n {
        0 => format!("no {what}s"),
        1 => format!("1 {what}"),
        n => format!("{n} {what}s"),
    }
}
