//! `test print`: the canonical text of the module, and the laws of the text form.

use pelton_ir::text;

use crate::command::{Command, Context, Printed};
use crate::diff::diff;
use crate::failure::Failure;
use crate::file::File;
use pelton_ir::module::Module;

/// Prints the module. Besides, what was printed or formatted must parse to the same module, and formatting what is
/// formatted must change nothing.
pub struct Print;

impl Command for Print {
    fn name(&self) -> &'static str {
        "print"
    }

    fn prints(&self) -> bool {
        true
    }

    fn run(&self, context: &Context<'_>) -> Result<Printed, Failure> {
        let file = context.file;
        let module = parse(file, &file.source)?;
        let printed = text::print(&module);
        same("parse(print(m)) = m", &module, &parse(file, &printed)?)?;
        let formatted = format(file, &file.source)?;
        same("parse(format(t)) = parse(t)", &module, &parse(file, &formatted)?)?;
        let again = format(file, &formatted)?;
        if again != formatted {
            let law = "format(format(t)) = format(t)";
            return Err(Failure::Law { law, diff: diff(&formatted, &again) });
        }
        Ok(Some(printed))
    }
}

/// The module of a text.
pub fn parse(file: &File, source: &str) -> Result<Module, Failure> {
    text::parse(source).map_err(|list| Failure::Parse(text::render(file.title(), source, &list, false)))
}

fn format(file: &File, source: &str) -> Result<String, Failure> {
    text::format(source).map_err(|list| Failure::Parse(text::render(file.title(), source, &list, false)))
}

fn same(law: &'static str, left: &Module, right: &Module) -> Result<(), Failure> {
    if left == right {
        return Ok(());
    }
    // Modules can differ where their texts do not, and then how they lie in memory shows it.
    let diff = match diff(&text::print(left), &text::print(right)) {
        equal if equal.is_empty() => diff(&format!("{left:#?}"), &format!("{right:#?}")),
        differs => differs,
    };
    Err(Failure::Law { law, diff })
}
