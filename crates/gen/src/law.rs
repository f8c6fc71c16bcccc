//! Laws that hold for every module, as functions that tests, fuzzers and devices share.

use std::any::Any;
use std::fmt;
use std::hash::{BuildHasher, RandomState};
use std::panic::{AssertUnwindSafe, catch_unwind};

use pelton_ir::interp::{MAX_EXPLORED, Schedule};
use pelton_ir::link::link;
use pelton_ir::module::Module;
use pelton_ir::pass::{self, Pass};
use pelton_ir::text::{self, ColorMode};
use pelton_ir::types::{Len, Space};
use pelton_ir::valid::{Valid, validate};

use crate::case::{CaseEnd, CaseOutcome, GeneratedCase};
use crate::split::{SplitModule, split_module};

/// The number of characters of a panic's message that are kept. Some messages print a whole module.
const MESSAGE: usize = 300;

/// A law that a case has broken.
#[derive(Clone, Debug)]
pub struct BrokenLaw {
    /// The name of the law.
    pub law: &'static str,
    /// What was observed instead.
    pub why: String,
    /// The pass that broke the law: `None` if no pass did, an empty name if the whole pipeline did.
    pub pass: Option<&'static str>,
}

impl BrokenLaw {
    /// Creates a broken law that no pass is blamed for.
    pub fn new(law: &'static str, why: impl Into<String>) -> Self {
        BrokenLaw { law, why: why.into(), pass: None }
    }
}

impl fmt::Display for BrokenLaw {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "law `{}`: {}", self.law, self.why)
    }
}

impl std::error::Error for BrokenLaw {}

/// A law: a check of one case.
pub type Law = fn(&GeneratedCase) -> Result<(), BrokenLaw>;

/// Checks that the validator accepts the module.
pub fn valid(case: &GeneratedCase) -> Result<(), BrokenLaw> {
    proof(&case.module).map(drop)
}

/// Checks that the module's text parses to the same module, and is formatted as the formatter would have it.
pub fn text(case: &GeneratedCase) -> Result<(), BrokenLaw> {
    reads_back(&case.module)
}

/// Checks that every pass, and the whole pipeline, gives a module with the same outcome.
pub fn passes(case: &GeneratedCase) -> Result<(), BrokenLaw> {
    let before = proof(&case.module)?;
    let expect = run_to_end(case, &before, Schedule::Seeded(1))?;
    each_pass(&before, |after| {
        let found = run_to_end(case, after, Schedule::Threads(1))?;
        expect.differs(&found, &case.module).map_or(Ok(()), |why| Err(BrokenLaw::new("passes", why)))
    })
}

/// Checks that passes give valid modules, also for modules that race.
pub fn accepted(case: &GeneratedCase) -> Result<(), BrokenLaw> {
    each_pass(&proof(&case.module)?, |after| reads_back(after))
}

/// Checks that a module which is split into libraries and linked again is the same module, that its parts read
/// back, and that passes on the part with imports change nothing that shows.
pub fn links(case: &GeneratedCase) -> Result<(), BrokenLaw> {
    let whole = proof(&case.module)?;
    let Some(SplitModule { module, libraries }) = split_module(&case.module) else { return Ok(()) };
    let parts = std::iter::once(&module).chain(&libraries);
    parts.into_iter().try_for_each(|part| reads_back(part))?;
    let linked =
        |module: &Valid| link(module, &libraries).map_err(|error| BrokenLaw::new("links", error.to_string()));
    let same = linked(&module)?;
    if same != whole {
        return Err(BrokenLaw::new("links", format!("it links to another module:\n{}", text::print(&same))));
    }
    let expect = run_to_end(case, &whole, Schedule::Seeded(1))?;
    each_pass(&module, |after| {
        reads_back(after)?;
        let found = run_to_end(case, &linked(after)?, Schedule::Threads(1))?;
        expect.differs(&found, &case.module).map_or(Ok(()), |why| Err(BrokenLaw::new("links", why)))
    })
}

/// Checks the result of each pass, and of the pipeline at last, and blames the pass for what is wrong with it. A
/// pass that panics is to blame as well, because debug builds validate after each pass.
fn each_pass(before: &Valid, check: impl Fn(&Valid) -> Result<(), BrokenLaw>) -> Result<(), BrokenLaw> {
    let runs = Pass::ALL.iter().map(|pass| Some(*pass)).chain([None]);
    for pass in runs {
        let name = pass.map_or("", Pass::name);
        let work = || pass.map_or_else(|| pass::optimize(before), |pass| pass.run(before));
        let checked = match catch_unwind(AssertUnwindSafe(work)) {
            Ok(after) => check(&after),
            Err(panic) => Err(BrokenLaw::new("passes", message(&*panic))),
        };
        let what = if name.is_empty() { "the pipeline".into() } else { format!("pass `{name}`") };
        checked.map_err(|BrokenLaw { law, why, .. }| BrokenLaw {
            law,
            why: format!("after {what}: {why}"),
            pass: Some(name),
        })?;
    }
    Ok(())
}

/// The beginning of a panic's message.
pub fn message(panic: &dyn Any) -> String {
    let text = panic.downcast_ref::<String>().map(String::as_str);
    let text = text.or_else(|| panic.downcast_ref::<&str>().copied()).unwrap_or("a panic");
    text.chars().take(MESSAGE).collect()
}

/// Checks that every schedule gives the same outcome, and so does an execution in which unordered stores become
/// visible in any order.
pub fn schedules(case: &GeneratedCase) -> Result<(), BrokenLaw> {
    let module = proof(&case.module)?;
    let expect = run_to_end(case, &module, Schedule::Seeded(1))?;
    let mut others =
        vec![Schedule::Threads(1), Schedule::Threads(2), Schedule::Seeded(2), Schedule::Seeded(3)];
    let lanes = u64::from(case.geometry.groups) * u64::from(case.geometry.lanes);
    if lanes <= MAX_EXPLORED.1 && explored_words(case) <= MAX_EXPLORED.0 {
        others.extend([Schedule::Explore(1), Schedule::Explore(2)]);
    }
    for schedule in others {
        let found = run_to_end(case, &module, schedule)?;
        if let Some(why) = expect.differs(&found, &case.module) {
            return Err(BrokenLaw::new("schedules", format!("under {schedule:?}, {why}")));
        }
    }
    Ok(())
}

/// The number of words that an exploration of the case must track.
fn explored_words(case: &GeneratedCase) -> u64 {
    let bound: usize = case.data().iter().flatten().map(|data| data.len()).sum();
    let shared = case.module.buffers.iter().map(|(_, decl)| match (decl.space, decl.len) {
        (Space::Shared, Len::Fixed(len)) => len,
        _ => 0,
    });
    bound as u64 + shared.sum::<u64>() * u64::from(case.geometry.groups)
}

/// Validates a module; a refusal breaks the law `valid`.
pub fn proof(module: &Module) -> Result<Valid, BrokenLaw> {
    validate(module.clone())
        .map_err(|invalid| BrokenLaw::new("valid", invalid.report("module", None, ColorMode::Plain)))
}

/// Checks that parsing undoes printing for a module, and that the formatter leaves the printed text alone.
pub fn reads_back(module: &Module) -> Result<(), BrokenLaw> {
    let fail = |why: String| Err(BrokenLaw::new("text", why));
    let printed = text::print(module);
    let back = match text::parse(&printed) {
        Ok(back) => back,
        Err(list) => return fail(text::render_diagnostics("printed", &printed, &list, ColorMode::Plain)),
    };
    if back != *module {
        return fail(format!(
            "the printed text parses to another module, which prints as\n{}",
            text::print(&back)
        ));
    }
    let state = RandomState::new();
    if state.hash_one(&back) != state.hash_one(module) {
        return fail("equal modules have different hashes".into());
    }
    match text::format(&printed) {
        Ok(formatted) if formatted == printed => Ok(()),
        Ok(formatted) => fail(format!("the formatter changes the printed text to\n{formatted}")),
        Err(list) => fail(text::render_diagnostics("printed", &printed, &list, ColorMode::Plain)),
    }
}

/// Runs a case under a schedule. A run that does not end breaks the law `schedules`.
fn run_to_end(case: &GeneratedCase, module: &Valid, schedule: Schedule) -> Result<CaseOutcome, BrokenLaw> {
    let broken = |why: String| BrokenLaw::new("schedules", why);
    match case.run(module, schedule) {
        Ok(outcome) if outcome.end == CaseEnd::Stopped => {
            Err(broken(format!("under {schedule:?} the kernel does not end")))
        }
        Ok(outcome) => Ok(outcome),
        Err(error) => Err(broken(format!("under {schedule:?}: {error}"))),
    }
}
