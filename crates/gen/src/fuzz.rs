//! What the fuzzers run, so that an ordinary test can run it too.

use std::time::Duration;

use pelton_ir::interp::Schedule;
use pelton_ir::module::Module;
use pelton_ir::pass;
use pelton_ir::text;
use pelton_ir::types::Len;
use pelton_ir::valid::{Valid, validate, validate_text};

use crate::case::{Case, Geometry};
use crate::choose::Bytes;
use crate::config::Config;
use crate::law::{self, Broken};
use crate::regress;

/// Words of buffers up to which a module that somebody wrote is run.
const WORDS: u64 = 1 << 16;

/// How long it is run.
const DEADLINE: Duration = Duration::from_millis(20);

/// Reads bytes as a text. Whatever they are, nothing panics; what can be read is printed as it reads; what is valid stays
/// so and runs.
pub fn parse(bytes: &[u8]) -> Result<(), Broken> {
    let Ok(source) = std::str::from_utf8(bytes) else { return Ok(()) };
    let module = match text::parse(source) {
        Ok(module) => module,
        Err(list) => {
            // What is drawn cannot be judged, but that it is drawn can.
            let drawn = text::render("input", source, &list, false);
            if list.is_empty() || drawn.is_empty() {
                return Err(Broken::new("text", "it is refused without a word"));
            }
            return match validate_text(source) {
                Err(all)
                    if list.iter().all(|error| {
                        all.iter().any(|said| said.place == error.place && said.code == error.code)
                    }) =>
                {
                    Ok(())
                }
                _ => Err(Broken::new("valid", "what is wrong with the text is not said")),
            };
        }
    };
    formats(source)?;
    law::reads_back(&module)?;
    match validate(module) {
        Ok(module) => runs(&module),
        Err(invalid) if invalid.report("input", Some(source), false).is_empty() => {
            Err(Broken::new("valid", "it is refused without a word"))
        }
        Err(_) => Ok(()),
    }
}

/// Makes a module of bytes, and holds it to every law.
pub fn differ(bytes: &[u8]) -> Result<(), Broken> {
    let case = Case::new(&mut Bytes(bytes), &Config::DEFAULT);
    let tell = |broken: Broken| Broken { why: regress::file(&case, &broken), ..broken };
    law::text(&case).and_then(|()| law::schedules(&case)).and_then(|()| law::passes(&case)).map_err(tell)
}

/// Whether formatting keeps the module, and formatting twice changes nothing more.
fn formats(source: &str) -> Result<(), Broken> {
    let fail = |why: &str| Err(Broken::new("text", why));
    let Ok(once) = text::format(source) else { return fail("it can be read, but not formatted") };
    let Ok(twice) = text::format(&once) else { return fail("what is formatted cannot be read") };
    if once != twice {
        return fail("what is formatted is formatted again");
    }
    if text::parse(&once).ok() != text::parse(source).ok() {
        return fail("what is formatted reads as another module");
    }
    Ok(())
}

/// Runs a module before and after passes. It may race or run for ever, so nothing is asked of its results.
fn runs(module: &Valid) -> Result<(), Broken> {
    let after = pass::optimize(module);
    law::reads_back(&after)?;
    if words(module) > WORDS {
        return Ok(());
    }
    let geometry = Geometry { groups: 2, lanes: 3, subgroup: 2 };
    let case = Case { module: Module::clone(module), geometry, seed: 1, deadline: DEADLINE };
    for module in [module, &after] {
        // A module may have no kernel, or one that is refused; lanes that never meet are another matter.
        let result = case.run(module, Schedule::Seeded(1));
        if let Err(error) = &result
            && error.diverged()
        {
            return Err(Broken::new("schedules", error.to_string()));
        }
    }
    Ok(())
}

/// How many words the buffers of fixed length have.
fn words(module: &Module) -> u64 {
    let lens = module.buffers.iter().map(|(_, decl)| if let Len::Fixed(len) = decl.len { len } else { 0 });
    lens.fold(0, u64::saturating_add)
}
