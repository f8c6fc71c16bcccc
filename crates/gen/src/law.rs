//! What holds of every module, said as functions that tests, fuzzers and devices share.

use std::any::Any;
use std::fmt;
use std::hash::{BuildHasher, RandomState};
use std::panic::{AssertUnwindSafe, catch_unwind};

use pelton_ir::interp::{MAX_EXPLORED, Schedule};
use pelton_ir::module::Module;
use pelton_ir::pass::{self, Pass};
use pelton_ir::text;
use pelton_ir::types::{Len, Space};
use pelton_ir::valid::{Valid, validate};

use crate::case::{Case, Ended, Outcome};

/// How much of what a panic said is kept: some print a whole module.
const MESSAGE: usize = 300;

/// A law that does not hold.
#[derive(Clone, Debug)]
pub struct Broken {
    /// Which.
    pub law: &'static str,
    /// What was seen instead.
    pub why: String,
    /// The pass that broke it: none if no pass did, an empty name if the whole pipeline did.
    pub pass: Option<&'static str>,
}

impl Broken {
    /// A law that no pass broke.
    pub fn new(law: &'static str, why: impl Into<String>) -> Self {
        Broken { law, why: why.into(), pass: None }
    }
}

impl fmt::Display for Broken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "law `{}`: {}", self.law, self.why)
    }
}

impl std::error::Error for Broken {}

/// A law.
pub type Law = fn(&Case) -> Result<(), Broken>;

/// The validator accepts it.
pub fn valid(case: &Case) -> Result<(), Broken> {
    proof(&case.module).map(drop)
}

/// Its text reads back to it, and is already as the formatter would have it.
pub fn text(case: &Case) -> Result<(), Broken> {
    reads_back(&case.module)
}

/// Every pass, and all of them together, give a module that does the same.
pub fn passes(case: &Case) -> Result<(), Broken> {
    let before = proof(&case.module)?;
    let expect = outcome(case, &before, Schedule::Seeded(1))?;
    each_pass(&before, |after| {
        let found = outcome(case, after, Schedule::Threads(1))?;
        expect.differs(&found, &case.module).map_or(Ok(()), |why| Err(Broken::new("passes", why)))
    })
}

/// Passes give valid modules, also of modules that race.
pub fn accepted(case: &Case) -> Result<(), Broken> {
    each_pass(&proof(&case.module)?, |after| reads_back(after))
}

/// Looks at what each pass, and at last the pipeline, makes of a module, and blames it for what is wrong with that. A
/// pass that panics is to blame as well: debug builds validate after each.
fn each_pass(before: &Valid, check: impl Fn(&Valid) -> Result<(), Broken>) -> Result<(), Broken> {
    let runs = Pass::ALL.iter().map(|pass| Some(*pass)).chain([None]);
    for pass in runs {
        let name = pass.map_or("", Pass::name);
        let work = || pass.map_or_else(|| pass::optimize(before), |pass| pass.run(before));
        let checked = match catch_unwind(AssertUnwindSafe(work)) {
            Ok(after) => check(&after),
            Err(panic) => Err(Broken::new("passes", message(&*panic))),
        };
        let what = if name.is_empty() { "the pipeline".into() } else { format!("pass `{name}`") };
        checked.map_err(|Broken { law, why, .. }| Broken {
            law,
            why: format!("after {what}: {why}"),
            pass: Some(name),
        })?;
    }
    Ok(())
}

/// The beginning of what a panic said.
pub fn message(panic: &dyn Any) -> String {
    let text = panic.downcast_ref::<String>().map(String::as_str);
    let text = text.or_else(|| panic.downcast_ref::<&str>().copied()).unwrap_or("a panic");
    text.chars().take(MESSAGE).collect()
}

/// Every schedule gives the same, and so does memory that shows what is not ordered.
pub fn schedules(case: &Case) -> Result<(), Broken> {
    let module = proof(&case.module)?;
    let expect = outcome(case, &module, Schedule::Seeded(1))?;
    let mut others =
        vec![Schedule::Threads(1), Schedule::Threads(2), Schedule::Seeded(2), Schedule::Seeded(3)];
    let lanes = u64::from(case.geometry.groups) * u64::from(case.geometry.lanes);
    if lanes <= MAX_EXPLORED.1 && words(case) <= MAX_EXPLORED.0 {
        others.extend([Schedule::Explore(1), Schedule::Explore(2)]);
    }
    for schedule in others {
        let found = outcome(case, &module, schedule)?;
        if let Some(why) = expect.differs(&found, &case.module) {
            return Err(Broken::new("schedules", format!("under {schedule:?}, {why}")));
        }
    }
    Ok(())
}

/// The words that exploring a case takes.
fn words(case: &Case) -> u64 {
    let bound: usize = case.data().iter().flatten().map(|data| data.len()).sum();
    let shared = case.module.buffers.iter().map(|(_, decl)| match (decl.space, decl.len) {
        (Space::Shared, Len::Fixed(len)) => len,
        _ => 0,
    });
    bound as u64 + shared.sum::<u64>() * u64::from(case.geometry.groups)
}

/// The module with the validator's word for it.
pub fn proof(module: &Module) -> Result<Valid, Broken> {
    validate(module.clone()).map_err(|invalid| Broken::new("valid", invalid.report("module", None, false)))
}

/// Whether `parse` and `print` are inverse for a module, and `format` agrees.
pub fn reads_back(module: &Module) -> Result<(), Broken> {
    let fail = |why: String| Err(Broken::new("text", why));
    let printed = text::print(module);
    let back = match text::parse(&printed) {
        Ok(back) => back,
        Err(list) => return fail(text::render("printed", &printed, &list, false)),
    };
    if back != *module {
        return fail(format!(
            "what is printed reads as another module, which prints as\n{}",
            text::print(&back)
        ));
    }
    let state = RandomState::new();
    if state.hash_one(&back) != state.hash_one(module) {
        return fail("equal modules have different hashes".into());
    }
    match text::format(&printed) {
        Ok(formatted) if formatted == printed => Ok(()),
        Ok(formatted) => fail(format!("what is printed is formatted to\n{formatted}")),
        Err(list) => fail(text::render("printed", &printed, &list, false)),
    }
}

/// What comes of a case under a schedule; that it ends is part of the law.
fn outcome(case: &Case, module: &Valid, schedule: Schedule) -> Result<Outcome, Broken> {
    let broken = |why: String| Broken::new("schedules", why);
    match case.run(module, schedule) {
        Ok(outcome) if outcome.end == Ended::Stopped => {
            Err(broken(format!("under {schedule:?} it does not end")))
        }
        Ok(outcome) => Ok(outcome),
        Err(error) => Err(broken(format!("under {schedule:?}: {error}"))),
    }
}
