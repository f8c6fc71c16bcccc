//! Passes, which turn a module into a better one that does the same.
//!
//! A [`Pass`] takes a valid module and returns a valid module, in time linear in its size. Each pass is one file, whose
//! header states its law: what the pass may change, and why the change cannot be observed. All passes share one walker,
//! `rewrite`, which copies a function through the writer, so that the result is numbered in the order of the text.
//!
//! The passes rely on these principles:
//! - **Effects stay in order.** Stores, atomics, fences, barriers, subgroup ops, time and faults are neither
//!   dropped, added, moved nor merged. There are two exceptions: accesses that are known to be out of range,
//!   which do nothing, and barriers that are proved to order nothing. Plain loads may be merged or dropped.
//! - **Values keep their bits,** except for NaNs, whose bits the language leaves open.
//! - **A loop that might not end stays.** Only counted loops are removed.
//! - **Uniformity does not fall.** A value is replaced only by one that is at least as uniform, and control flow
//!   is only ever taken away, so what was valid stays valid.
//!
//! [`optimize`] is the pipeline. [`bounds`] is an analysis for lowering, not a pass: it says which accesses are
//! proved to be in range, so that they need no check. Debug builds validate after every pass.

mod algebra;
mod barrier;
pub mod bounds;
mod cse;
mod dce;
mod effect;
mod fold;
pub mod inline;
mod licm;
mod rewrite;
mod select;
mod shape;

use std::fmt;
use std::str::FromStr;

use crate::module::{Function, Module};
use crate::text::ColorMode;
use crate::valid::{Valid, validate};

/// The most rounds that the pipeline runs. It ends earlier when nothing changes.
const ROUNDS: usize = 3;

macro_rules! passes {
    ($($pass:ident $name:literal $apply:expr, $doc:literal;)*) => {
        /// A pass of the optimiser.
        #[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
        pub enum Pass { $(#[doc = $doc] $pass,)* }

        impl Pass {
            /// Every pass, in the order of the pipeline.
            pub const ALL: &[Pass] = &[$(Pass::$pass),*];

            /// Returns the name of the pass on the command line.
            pub const fn name(self) -> &'static str {
                match self { $(Pass::$pass => $name),* }
            }

            /// Returns what the pass does, in one sentence.
            pub const fn doc(self) -> &'static str {
                match self { $(Pass::$pass => $doc),* }
            }

            /// Changes a module and returns whether anything changed.
            fn apply(self, module: &mut Module) -> bool {
                match self { $(Pass::$pass => $apply(module)),* }
            }
        }
    };
}

passes! {
    Inline "inline" (|module| inline::apply(module, inline::LIMIT)), "Puts the bodies of functions in the place of calls.";
    Fold "fold" fold::apply, "Computes what is constant and simplifies what is equal to something simpler.";
    Cse "cse" cse::apply, "Merges ops that are equal to one before.";
    Licm "licm" licm::apply, "Moves what is the same in every iteration out of loops.";
    Select "select" select::apply, "Turns an `if` or `switch` between cheap values into `select`s.";
    Barrier "barrier" barrier::apply, "Removes barriers that order nothing.";
    Dce "dce" dce::apply, "Removes what nobody needs.";
}

impl Pass {
    /// Runs the pass on a module.
    pub fn run(self, module: &Valid) -> Valid {
        let mut work = Module::clone(module);
        self.apply(&mut work);
        validated(work, module)
    }
}

impl fmt::Display for Pass {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

impl FromStr for Pass {
    type Err = ();
    fn from_str(name: &str) -> Result<Self, ()> {
        Pass::ALL.iter().copied().find(|pass| pass.name() == name).ok_or(())
    }
}

/// Runs the pipeline: inlining once, and then all other passes until nothing changes or a limit on rounds is reached.
pub fn optimize(module: &Valid) -> Valid {
    let mut work = Module::clone(module);
    for round in 0..ROUNDS {
        let passes = Pass::ALL.iter().filter(|pass| round == 0 || **pass != Pass::Inline);
        let changed = passes.fold(false, |changed, pass| {
            let now = pass.apply(&mut work);
            if cfg!(debug_assertions) && now {
                validated(work.clone(), module);
            }
            changed | now
        });
        if !changed {
            break;
        }
    }
    validated(work, module)
}

/// Validates a module that a pass has changed. A pass that makes a module invalid has a bug: debug builds panic, and
/// other builds continue with the module that the pass was given.
fn validated(module: Module, from: &Valid) -> Valid {
    match validate(module) {
        Ok(valid) => valid,
        Err(invalid) => {
            debug_assert!(
                false,
                "a pass made this of a valid module:\n{}",
                invalid.report("pass", None, ColorMode::Plain)
            );
            from.clone()
        }
    }
}

/// Replaces each function by the one that `pass` returns, in order, and returns whether any function has changed.
/// Imports stay as they are.
fn rewrite_each(module: &mut Module, mut pass: impl FnMut(&Module, &Function) -> Option<Function>) -> bool {
    let mut changed = false;
    for func in module.functions.handles() {
        let old = &module.functions[func];
        if old.is_import() {
            continue;
        }
        if let Some(new) = pass(module, old).filter(|new| new != old) {
            module.functions[func] = new;
            changed = true;
        }
    }
    changed
}
