//! `test invalid`: the diagrams of what is wrong with the text or the module.

use pelton_ir::text;
use pelton_ir::valid::{self, validate, validate_text};

use crate::command::{Command, Context, Coverage, Printed};
use crate::failure::Failure;
use crate::file::File;

/// Prints why the file is refused.
pub struct Invalid;

impl Command for Invalid {
    fn name(&self) -> &'static str {
        "invalid"
    }

    fn prints(&self) -> bool {
        true
    }

    fn run(&self, context: &Context<'_>) -> Result<Printed, Failure> {
        let file = context.file;
        match validate_text(&file.source) {
            Err(list) => Ok(Some(text::render(file.title(), &file.source, &list, false))),
            Ok(_) => Err(Failure::Valid),
        }
    }

    fn coverage(&self, file: &File) -> Coverage {
        let errors = match text::parse(&file.source).map(validate) {
            Ok(Err(valid::Invalid { errors, .. })) => errors,
            _ => Vec::new(),
        };
        Coverage { rules: errors.iter().map(|error| error.rule).collect(), ..Coverage::default() }
    }
}
