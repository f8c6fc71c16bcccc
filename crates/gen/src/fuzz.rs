//! The bodies of the fuzz targets, which ordinary tests call too.

use std::time::Duration;

use pelton_ir::interp::Schedule;
use pelton_ir::module::Module;
use pelton_ir::pass;
use pelton_ir::text::{self, ColorMode};
use pelton_ir::types::Len;
use pelton_ir::valid::{Valid, validate, validate_text};

use crate::case::{CaseGeometry, GeneratedCase};
use crate::choose::Bytes;
use crate::config::GeneratorConfig;
use crate::law::{self, BrokenLaw};
use crate::regress;

/// The largest total size, in words, of the buffers of a module that is run.
const WORDS: u64 = 1 << 16;

/// The deadline of such a run.
const DEADLINE: Duration = Duration::from_millis(20);

/// Parses bytes as a module's text. No input may cause a panic, every module that parses must print and parse back,
/// and every valid module must stay valid under passes and run.
pub fn parse(bytes: &[u8]) -> Result<(), BrokenLaw> {
    let Ok(source) = std::str::from_utf8(bytes) else { return Ok(()) };
    let module = match text::parse(source) {
        Ok(module) => module,
        Err(list) => {
            // The diagrams cannot be judged here, only that there are some.
            let drawn = text::render_diagnostics("input", source, &list, ColorMode::Plain);
            if list.is_empty() || drawn.is_empty() {
                return Err(BrokenLaw::new("text", "the text is refused without an explanation"));
            }
            return match validate_text(source) {
                Err(all)
                    if list.iter().all(|error| {
                        all.iter().any(|said| said.place == error.place && said.code == error.code)
                    }) =>
                {
                    Ok(())
                }
                _ => Err(BrokenLaw::new(
                    "valid",
                    "the validator does not repeat what the parser says about the text",
                )),
            };
        }
    };
    check_formatting(source)?;
    law::reads_back(&module)?;
    match validate(module) {
        Ok(module) => check_running(&module),
        Err(invalid) if invalid.report("input", Some(source), ColorMode::Plain).is_empty() => {
            Err(BrokenLaw::new("valid", "the text is refused without an explanation"))
        }
        Err(_) => Ok(()),
    }
}

/// Makes a case from bytes, and checks every law on it.
pub fn differ(bytes: &[u8]) -> Result<(), BrokenLaw> {
    let case = GeneratedCase::new(&mut Bytes(bytes), &GeneratorConfig::DEFAULT);
    let tell = |broken: BrokenLaw| BrokenLaw { why: regress::file_text(&case, &broken), ..broken };
    law::text(&case)
        .and_then(|()| law::schedules(&case))
        .and_then(|()| law::passes(&case))
        .and_then(|()| law::links(&case))
        .map_err(tell)
}

/// Checks that formatting keeps the module, and that formatting twice is the same as formatting once.
fn check_formatting(source: &str) -> Result<(), BrokenLaw> {
    let fail = |why: &str| Err(BrokenLaw::new("text", why));
    let Ok(once) = text::format(source) else { return fail("the text parses, but cannot be formatted") };
    let Ok(twice) = text::format(&once) else { return fail("the formatted text does not parse") };
    if once != twice {
        return fail("formatting a second time changes the text");
    }
    if text::parse(&once).ok() != text::parse(source).ok() {
        return fail("the formatted text parses to another module");
    }
    Ok(())
}

/// Runs a module before and after passes. The module may race or run for ever, so its results are not compared.
fn check_running(module: &Valid) -> Result<(), BrokenLaw> {
    let after = pass::optimize(module);
    law::reads_back(&after)?;
    if fixed_words(module) > WORDS {
        return Ok(());
    }
    let geometry = CaseGeometry { groups: 2, lanes: 3, subgroup: 2 };
    let case = GeneratedCase { module: Module::clone(module), geometry, seed: 1, deadline: DEADLINE };
    for module in [module, &after] {
        // A module may have no kernel, or one that cannot be launched; only diverged lanes break a law.
        let result = case.run(module, Schedule::Seeded(1));
        if let Err(error) = &result
            && error.diverged()
        {
            return Err(BrokenLaw::new("schedules", error.to_string()));
        }
    }
    Ok(())
}

/// The total number of words in buffers of fixed length.
fn fixed_words(module: &Module) -> u64 {
    let lens = module.buffers.iter().map(|(_, decl)| if let Len::Fixed(len) = decl.len { len } else { 0 });
    lens.fold(0, u64::saturating_add)
}
