//! A module taken apart: its first functions go to libraries, and imports stay in their place.

use pelton_ir::arena::{Func, Handle};
use pelton_ir::module::{Attr, ImportFlow, Kind, Module};
use pelton_ir::op::Effect;
use pelton_ir::valid::{Valid, validate};
use pelton_ir::write::Writer;

/// How many libraries the functions go to, in turn, so that libraries import from one another.
const LIBRARIES: usize = 2;

/// A module that imports what it had, and the libraries that have it now.
#[derive(Debug)]
pub struct Split {
    /// The module.
    pub module: Valid,
    /// The libraries.
    pub libraries: Vec<Valid>,
}

/// Takes out as many of a module's first functions as can be imported. None if that is not even one: what an import gives
/// differs among lanes, and lanes meet only in uniform imports, so not every function can become one.
pub fn split(module: &Module) -> Option<Split> {
    let called = module.functions.iter().filter(|(_, f)| f.kind == Kind::Function).count();
    (1..=called).rev().find_map(|count| split_at(module, count))
}

/// Takes out the first `count` functions.
fn split_at(module: &Module, count: usize) -> Option<Split> {
    let flows = flows(module);
    let import = |module: &mut Module, func: Func| {
        let function = &module.functions[func];
        let kind = Kind::Import(flows[func.index()]);
        let import = Writer::new(&*function.name, kind, &function.param_types(), &function.results).declare();
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
    Some(Split { libraries: libraries.collect::<Option<_>>()?, module: validate(main).ok()? })
}

/// By function, what its import must promise: that all lanes come, if they meet in it.
fn flows(module: &Module) -> Vec<ImportFlow> {
    let mut flows: Vec<ImportFlow> = Vec::new();
    for (_, function) in module.functions.iter() {
        let meets = function.insts().any(|(_, node)| match node.attr {
            Attr::Call(callee) => flows[callee.index()] == ImportFlow::Uniform,
            _ => node.op.effect() == Effect::Sync,
        });
        flows.push(if meets { ImportFlow::Uniform } else { ImportFlow::Any });
    }
    flows
}
