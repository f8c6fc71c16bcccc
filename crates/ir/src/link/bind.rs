//! Copying the functions of libraries into a module.
//!
//! The linked module is written function by function, what is called before what calls it. A walk with a stack of its
//! own finds that order: chains of calls through libraries may be long, and a chain that comes back to where it is
//! must be refused.

use std::collections::{HashMap, HashSet};

use super::error::{LinkError, MissingImport, Signature};
use crate::arena::{Buffer, Func, Handle};
use crate::limits::MAX_NAME;
use crate::module::{Attr, BufferDecl, DebugInfo, Function, FunctionKind, ImportFlow, Module};
use crate::op::{Op, OpEffect};
use crate::text::nearest_name;
use crate::valid::Valid;

/// Binds those imports for which a library has a function.
pub(super) fn bind(module: &Module, libraries: &[Valid]) -> Result<Module, LinkError> {
    let mut linker = ModuleLinker::new(module, libraries);
    for func in module.functions.handles() {
        let target = linker.resolve(Definition { source: 0, func })?;
        linker.place_with_callees(target)?;
    }
    Ok(linker.finish())
}

/// Imports that are not bound, each with the name that may have been meant.
pub(super) fn with_nearest(imports: Vec<Signature>, libraries: &[Valid]) -> Vec<MissingImport> {
    let names = || libraries.iter().flat_map(|library| exports(library)).map(|(_, f)| &*f.name);
    let find = |import: Signature| MissingImport {
        nearest: nearest_name(&import.name, names()).map(String::from),
        import,
    };
    imports.into_iter().map(find).collect()
}

/// The functions that a library offers.
fn exports(library: &Module) -> impl Iterator<Item = (Func, &Function)> {
    library.functions.iter().filter(|(_, f)| f.kind == FunctionKind::Function)
}

/// A function where it is defined: source 0 is the module, and the libraries follow.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
struct Definition {
    source: usize,
    func: Func,
}

/// A function whose callees are being placed.
struct Visit {
    definition: Definition,
    callees: Vec<Definition>,
    next: usize,
}

struct ModuleLinker<'a> {
    /// The module, and the libraries after it.
    sources: Vec<&'a Module>,
    /// What the libraries offer by name; none if several do.
    exports: HashMap<&'a str, Option<Definition>>,
    /// By source, the functions in which lanes meet.
    meets: Vec<Vec<bool>>,
    /// The linked module, as it has been written so far.
    linked: Module,
    placed: HashMap<Definition, Func>,
    /// Imports that stay, by name.
    unbound: HashMap<&'a str, Definition>,
    /// Those of them that some module says are uniform.
    uniform: HashSet<&'a str>,
    /// Names that are taken.
    names: HashSet<String>,
}

impl<'a> ModuleLinker<'a> {
    fn new(module: &'a Module, libraries: &'a [Valid]) -> Self {
        let sources: Vec<&Module> =
            std::iter::once(module).chain(libraries.iter().map(|library| &**library)).collect();
        let mut named: HashMap<&str, Option<Definition>> = HashMap::new();
        for (source, library) in sources.iter().enumerate().skip(1) {
            for (func, function) in exports(library) {
                let definition = Definition { source, func };
                named.entry(&function.name).and_modify(|one| *one = None).or_insert(Some(definition));
            }
        }
        // An import that stays must keep its name.
        let stays = |f: &Function| f.is_import() && !named.contains_key(&*f.name);
        let names = sources.iter().enumerate().flat_map(|(source, of)| {
            of.functions.iter().filter(move |(_, f)| source == 0 || stays(f)).map(|(_, f)| f.name.clone())
        });
        let names = names.collect();
        ModuleLinker {
            meets: sources.iter().map(|source| meets(source)).collect(),
            exports: named,
            linked: Module {
                needs: module.needs.clone(),
                buffers: module.buffers.clone(),
                ..Module::default()
            },
            placed: HashMap::new(),
            unbound: HashMap::new(),
            uniform: HashSet::new(),
            names,
            sources,
        }
    }

    fn function(&self, definition: Definition) -> &'a Function {
        &self.sources[definition.source].functions[definition.func]
    }

    /// What a function stands for: itself, or what an import is bound to. An import that is not bound stands for the
    /// first one of its name.
    fn resolve(&mut self, asked: Definition) -> Result<Definition, LinkError> {
        let import = self.function(asked);
        let FunctionKind::Import(flow) = import.kind else { return Ok(asked) };
        let found = match self.exports.get(&*import.name) {
            Some(Some(found)) => *found,
            Some(None) => return Err(LinkError::Ambiguous { name: import.name.clone() }),
            None => {
                if flow == ImportFlow::Uniform {
                    self.uniform.insert(&import.name);
                }
                self.keep_import(asked)?
            }
        };
        let (import, found_as) =
            (Signature::from_function(import), Signature::from_function(self.function(found)));
        if import != found_as {
            return Err(LinkError::Signature { import: Box::new(import), found: Box::new(found_as) });
        }
        if flow == ImportFlow::Any && self.meets[found.source][found.func.index()] {
            return Err(LinkError::Uniform { import });
        }
        Ok(found)
    }

    /// The import that stays for one that no library has a function for.
    fn keep_import(&mut self, asked: Definition) -> Result<Definition, LinkError> {
        let import = self.function(asked);
        let own = self.sources[0].function(&import.name).map(|func| Definition { source: 0, func });
        if own.is_some_and(|own| !self.function(own).is_import()) {
            return Err(LinkError::CallsBack { import: Signature::from_function(import) });
        }
        Ok(*self.unbound.entry(&import.name).or_insert(own.unwrap_or(asked)))
    }

    /// Writes a function after all functions that it calls.
    fn place_with_callees(&mut self, root: Definition) -> Result<(), LinkError> {
        let mut open: HashSet<Definition> = HashSet::new();
        let mut stack: Vec<Visit> = Vec::new();
        let mut next = Some(root);
        loop {
            if let Some(definition) = next.take().filter(|definition| !self.placed.contains_key(definition)) {
                if !open.insert(definition) {
                    return Err(self.recursion(&stack, definition));
                }
                stack.push(Visit { definition, callees: self.callees(definition)?, next: 0 });
            }
            let Some(visit) = stack.last_mut() else { return Ok(()) };
            visit.next += 1;
            match visit.callees.get(visit.next - 1) {
                Some(callee) => next = Some(*callee),
                None => {
                    let definition = visit.definition;
                    stack.pop();
                    self.write_function(definition)?;
                }
            }
        }
    }

    /// What the calls of a function stand for.
    fn callees(&mut self, definition: Definition) -> Result<Vec<Definition>, LinkError> {
        let calls = self.function(definition).insts().filter_map(|(_, node)| match node.attr {
            Attr::Call(func) => Some(Definition { func, ..definition }),
            _ => None,
        });
        calls.map(|call| self.resolve(call)).collect()
    }

    fn recursion(&self, stack: &[Visit], again: Definition) -> LinkError {
        let chain = stack.iter().map(|visit| visit.definition).skip_while(|definition| *definition != again);
        let chain = chain.chain([again]).map(|definition| self.function(definition).name.clone());
        LinkError::Recursion { chain: chain.collect() }
    }

    /// Writes a function whose callees have all been written.
    fn write_function(&mut self, definition: Definition) -> Result<(), LinkError> {
        let mut function = self.function(definition).clone();
        let foreign = definition.source > 0;
        for inst in function.insts.handles() {
            let attr = function.insts[inst].attr.clone();
            function.insts[inst].attr = match attr {
                Attr::Call(func) => {
                    let callee = self.resolve(Definition { func, ..definition })?;
                    Attr::Call(self.placed[&callee])
                }
                attr if foreign => self.rename_buffers(definition, attr)?,
                attr => attr,
            };
        }
        if foreign {
            if !function.is_import() {
                function.name = self.free_name(definition, function.name);
            }
            // The places are dropped, because they refer to another text.
            function.debug = DebugInfo {
                values: function.debug.values,
                labels: function.debug.labels,
                ..DebugInfo::default()
            };
            for need in &self.sources[definition.source].needs {
                if !self.linked.needs.contains(need) {
                    self.linked.needs.push(*need);
                }
            }
        }
        let func = self.linked.functions.push(function);
        self.placed.insert(definition, func);
        Ok(())
    }

    /// A name for a library's function: its own where an import of the module is bound to it or nobody else has it.
    fn free_name(&mut self, definition: Definition, name: String) -> String {
        let asked =
            self.sources[0].function(&name).is_some_and(|own| self.sources[0].functions[own].is_import());
        let bound = self.exports.get(&*name) == Some(&Some(definition));
        if asked && bound || self.names.insert(name.clone()) {
            return name;
        }
        let numbered = (2u32..).map(|k| {
            let end = format!(".{k}");
            let start = &name[..name.len().min(MAX_NAME - end.len())];
            format!("{start}{end}")
        });
        let mut free = numbered.skip_while(|name| self.names.contains(name));
        let free = free.next().expect("there are more numbers than functions");
        self.names.insert(free.clone());
        free
    }

    /// The linked module, in which an import is uniform if any module says so.
    fn finish(self) -> Module {
        let ModuleLinker { mut linked, uniform, .. } = self;
        for (_, function) in linked.functions.iter_mut() {
            if function.is_import() && uniform.contains(&*function.name) {
                function.kind = FunctionKind::Import(ImportFlow::Uniform);
            }
        }
        linked
    }

    /// What an instruction of a library names, in terms of the module's buffers.
    fn rename_buffers(&self, definition: Definition, attr: Attr) -> Result<Attr, LinkError> {
        let own = |buffer| self.own_buffer(definition, buffer);
        Ok(match attr {
            Attr::Buffer(buffer) => Attr::Buffer(own(buffer)?),
            Attr::Atomic(buffer, order, scope) => Attr::Atomic(own(buffer)?, order, scope),
            Attr::Copy { to, from } => Attr::Copy { to: own(to)?, from: own(from)? },
            attr => attr,
        })
    }

    /// The module's buffer that a buffer of a library is.
    fn own_buffer(&self, definition: Definition, buffer: Buffer) -> Result<Buffer, LinkError> {
        let wanted = &self.sources[definition.source].buffers[buffer];
        let same = |own: &BufferDecl| *own == BufferDecl { place: own.place, ..wanted.clone() };
        let own = self.linked.buffer(&wanted.name);
        own.filter(|own| same(&self.linked.buffers[*own])).ok_or_else(|| LinkError::Buffer {
            function: self.function(definition).name.clone(),
            wanted: Box::new(wanted.clone()),
            found: own.map(|own| Box::new(self.linked.buffers[own].clone())),
        })
    }
}

/// By function, whether lanes meet in it or in what it calls. An import that stays is not looked into.
fn meets(module: &Module) -> Vec<bool> {
    let mut meets: Vec<bool> = Vec::with_capacity(module.functions.len());
    for (_, function) in module.functions.iter() {
        let found = function.insts().any(|(_, node)| match node.attr {
            Attr::Call(callee) => {
                let uniform = module.functions[callee].kind == FunctionKind::Import(ImportFlow::Uniform);
                uniform || meets[callee.index()]
            }
            _ => node.op == Op::Barrier || node.op.effect() == OpEffect::Sync,
        });
        meets.push(found);
    }
    meets
}
