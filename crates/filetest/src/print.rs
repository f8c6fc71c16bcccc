//! `test print`: prints the canonical text of the module, and checks the laws of the text form.

use pelton_ir::text::{self, ColorMode};

use crate::command::{CommandContext, Printed, TestCommand};
use crate::diff::diff_lines;
use crate::failure::Failure;
use crate::file::TestFile;
use pelton_ir::module::Module;

/// The command `print`, which prints the module. It also checks that the printed and the formatted text parse to
/// the same module, and that formatting twice is the same as formatting once.
pub(crate) struct PrintCommand;

impl TestCommand for PrintCommand {
    fn name(&self) -> &'static str {
        "print"
    }

    fn prints(&self) -> bool {
        true
    }

    fn run_on(&self, context: &CommandContext<'_>) -> Result<Printed, Failure> {
        let file = context.file;
        let module = parse_module(file, &file.source)?;
        let printed = text::print(&module);
        check_same_module("parse_module(print(m)) = m", &module, &parse_module(file, &printed)?)?;
        let formatted = format_text(file, &file.source)?;
        check_same_module(
            "parse_module(format_text(t)) = parse_module(t)",
            &module,
            &parse_module(file, &formatted)?,
        )?;
        let again = format_text(file, &formatted)?;
        if again != formatted {
            let law = "format_text(format_text(t)) = format_text(t)";
            return Err(Failure::Law { law, diff: diff_lines(&formatted, &again) });
        }
        Ok(Some(printed))
    }
}

/// Parses a text of a file.
pub(crate) fn parse_module(file: &TestFile, source: &str) -> Result<Module, Failure> {
    text::parse(source).map_err(|list| {
        Failure::Parse(text::render_diagnostics(file.title(), source, &list, ColorMode::Plain))
    })
}

fn format_text(file: &TestFile, source: &str) -> Result<String, Failure> {
    text::format(source).map_err(|list| {
        Failure::Parse(text::render_diagnostics(file.title(), source, &list, ColorMode::Plain))
    })
}

fn check_same_module(law: &'static str, left: &Module, right: &Module) -> Result<(), Failure> {
    if left == right {
        return Ok(());
    }
    // Modules can differ although their texts are equal; then their debug output shows the difference.
    let diff = match diff_lines(&text::print(left), &text::print(right)) {
        equal if equal.is_empty() => diff_lines(&format!("{left:#?}"), &format!("{right:#?}")),
        differs => differs,
    };
    Err(Failure::Law { law, diff })
}
