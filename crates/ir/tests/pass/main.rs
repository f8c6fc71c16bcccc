//! What passes promise and a filetest cannot say.

mod algebra;
mod grow;
mod keep;

use pelton_ir::text::{ColorMode, parse};
use pelton_ir::valid::{Valid, validate};

/// The valid module of a text.
fn module(text: &str) -> Valid {
    let module = parse(text).expect("the text can be read");
    validate(module)
        .unwrap_or_else(|invalid| panic!("{}", invalid.report("test", Some(text), ColorMode::Plain)))
}

/// How many instructions a module has.
fn size(module: &Valid) -> usize {
    module.functions.iter().map(|(_, function)| function.insts().len()).sum()
}
