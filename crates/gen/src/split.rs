//! Splits a module: its first functions move to libraries, and imports take their places.

use pelton_ir::arena::{Func, Handle};
use pelton_ir::module::{Attr, FunctionKind, ImportFlow, Module};
use pelton_ir::op::OpEffect;
use pelton_ir::valid::{Valid, validate};
use pelton_ir::write::FunctionWriter;

/// The number of libraries. The functions go to them in turn, so that libraries import from one another.
const LIBRARIES: usize = 2;

/// A module that imports functions that it had before, and the libraries that have them now.
#[derive(Debug)]
pub struct SplitModule {
    /// The module with imports.
    pub module: Valid,
    /// The libraries that hold the functions.
    pub libraries: Vec<Valid>,
}

/// Moves as many of a module's first functions to libraries as can be imported. Returns `None` if there is none.
/// Not every function can become an import, because the results of an import differ among lanes, and lanes meet
/// only in uniform imports.
pub fn split_module(module: &Module) -> Option<SplitModule> {
    let called = module.functions.iter().filter(|(_, f)| f.kind == FunctionKind::Function).count();
    (1..=called).rev().find_map(|count| split_at(module, count))
}

/// Moves the first `count` functions to libraries.
fn split_at(module: &Module, count: usize) -> Option<SplitModule> {
    let flows = import_flows(module);
    let import = |module: &mut Module, func: Func| {
        let function = &module.functions[func];
        let kind = FunctionKind::Import(flows[func.index()]);
        let import = FunctionWriter::new(&*function.name, kind, &function.param_types(), &function.results)
            .finish_import();
        module.functions[func] = import;
    };
    let mut main = module.clone();
    (0..count).map(Func::new).for_each(|func| import(&mut main, func));
    let libraries = (0..LIBRARIES).map(|own| {
        let mut library = Module { functions: Default::default(), ..module.clone() };
        for (_, function) in module.functions.iter().take(count) {
            library.functions.push(function.clone());
        }
        let others = (0..count).filter(|k| k % LIBRARIES != own);
        others.map(Func::new).for_each(|func| import(&mut library, func));
        validate(library).ok()
    });
    Some(SplitModule { libraries: libraries.collect::<Option<_>>()?, module: validate(main).ok()? })
}

/// The flow of each function's import: uniform if lanes meet in the function, so that all lanes must reach it.
fn import_flows(module: &Module) -> Vec<ImportFlow> {
    let mut flows: Vec<ImportFlow> = Vec::new();
    for (_, function) in module.functions.iter() {
        let meets = function.insts().any(|(_, node)| match node.attr {
            Attr::Call(callee) => flows[callee.index()] == ImportFlow::Uniform,
            _ => node.op.effect() == OpEffect::Sync,
        });
        flows.push(if meets { ImportFlow::Uniform } else { ImportFlow::Any });
    }
    flows
}
