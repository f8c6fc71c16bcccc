//! The names with which a function's values and labels are printed.

use std::collections::HashSet;
use std::fmt;

use super::lex::is_name;
use crate::arena::{Handle, Inst, Value};
use crate::limits::MAX_NAME;
use crate::module::{Attr, Function};

/// The names of a function that are distinct. Every other value or label is printed as its handle, which no name looks
/// like.
pub(super) struct ValueNames<'f> {
    values: Vec<&'f str>,
    labels: Vec<PrintedLabel<'f>>,
}

/// How a label is printed.
#[derive(Clone, Copy)]
enum PrintedLabel<'f> {
    /// The label is not printed, because no jump names it.
    None,
    Handle,
    Name(&'f str),
}

impl<'f> ValueNames<'f> {
    pub(crate) fn new(function: &'f Function) -> Self {
        let usable = |name: &str| is_name(name) && name.len() <= MAX_NAME;
        let mut taken = HashSet::new();
        let mut values = Vec::with_capacity(function.debug.values.len());
        for name in &function.debug.values {
            let name: &str = name;
            values.push(if usable(name) && taken.insert(name) { name } else { "" });
        }
        let mut labels = vec![PrintedLabel::None; function.insts.len()];
        for (_, node) in function.insts() {
            if let Attr::Target(inst) = node.attr
                && let Some(label) = labels.get_mut(inst.index())
            {
                *label = PrintedLabel::Handle;
            }
        }
        taken.clear();
        for (inst, name) in &function.debug.labels {
            if usable(name)
                && taken.insert(name)
                && let Some(label) = labels.get_mut(inst.index())
            {
                *label = PrintedLabel::Name(name);
            }
        }
        ValueNames { values, labels }
    }

    /// A value as the text writes it.
    pub(crate) fn value(&self, value: Value) -> impl fmt::Display {
        let name = self.values.get(value.index()).copied().unwrap_or("");
        fmt::from_fn(move |f| if name.is_empty() { write!(f, "{value}") } else { write!(f, "%{name}") })
    }

    /// A label as a jump writes it.
    pub(crate) fn target(&self, inst: Inst) -> impl fmt::Display {
        let label = self.labels.get(inst.index()).copied().unwrap_or(PrintedLabel::Handle);
        fmt::from_fn(move |f| match label {
            PrintedLabel::Name(name) => write!(f, "^{name}"),
            _ => write!(f, "{inst}"),
        })
    }

    /// Whether a loop or block must or may say its label.
    pub(crate) fn labelled(&self, inst: Inst) -> bool {
        !matches!(self.labels.get(inst.index()), None | Some(PrintedLabel::None))
    }
}
