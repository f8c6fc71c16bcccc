//! `test invalid`: prints diagrams of what is wrong with the text or the module, or says why it does not link.

use pelton_ir::link::{LinkError, link};
use pelton_ir::text::{self, ColorMode};
use pelton_ir::valid::{self, validate, validate_text};

use crate::command::{CommandContext, Coverage, Printed, TestCommand};
use crate::failure::Failure;
use crate::file::TestFile;
use crate::run::library_modules;

/// The command `invalid`, which prints why the file is refused.
pub(crate) struct InvalidCommand;

impl TestCommand for InvalidCommand {
    fn name(&self) -> &'static str {
        "invalid"
    }

    fn prints(&self) -> bool {
        true
    }

    fn run_on(&self, context: &CommandContext<'_>) -> Result<Printed, Failure> {
        let file = context.file;
        match validate_text(&file.source) {
            Err(list) => {
                Ok(Some(text::render_diagnostics(file.title(), &file.source, &list, ColorMode::Plain)))
            }
            Ok(_) if file.libraries.is_empty() => Err(Failure::Valid),
            Ok(module) => match link(&module, &library_modules(file)?) {
                Err(LinkError::Invalid(invalid)) => {
                    Ok(Some(invalid.report("linked module", None, ColorMode::Plain)))
                }
                Err(error) => Ok(Some(format!("error: {error}\n"))),
                Ok(_) => Err(Failure::Valid),
            },
        }
    }

    fn coverage(&self, file: &TestFile) -> Coverage {
        let errors = match text::parse(&file.source).map(validate) {
            Ok(Err(valid::Invalid { errors, .. })) => errors,
            _ => Vec::new(),
        };
        Coverage { rules: errors.iter().map(|error| error.rule).collect(), ..Coverage::default() }
    }
}
