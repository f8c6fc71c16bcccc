//! Writing functions: instruction after instruction, in the order of the text.
//!
//! Parser, builder and passes all write through [`FunctionWriter`], so values, instructions and regions are always
//! numbered as the text shows them, and equal programs have equal arenas. The writer checks nothing: a function that
//! it makes may be wrong in every way except its numbering, and the validator finds out.

use crate::arena::{Arena, Func, Inst, Region, Value, Values};
use crate::module::{
    Attr, Function, FunctionKind, Module, Node, Operand, RegionData, TextPlace, elements_per_wide,
};
use crate::op::{Op, OpForm, TypePattern};
use crate::types::Type;

/// A function that is being written.
pub struct FunctionWriter {
    function: Function,
    /// The regions that are open, innermost last.
    open: Vec<Region>,
}

impl FunctionWriter {
    /// Starts a function. Its body is open, so instructions can be added at once.
    pub fn new(name: impl Into<String>, kind: FunctionKind, params: &[Type], results: &[Type]) -> Self {
        let mut function = Function {
            name: name.into(),
            kind,
            params: Values::new(0, 0),
            results: results.to_vec(),
            body: crate::arena::Handle::new(0),
            values: Arena::new(),
            insts: Arena::new(),
            regions: Arena::new(),
            debug: Default::default(),
        };
        function.params = define(&mut function, params);
        let empty = Values::new(0, 0);
        function.body = function.regions.push(RegionData { params: empty, insts: Vec::new() });
        let body = function.body;
        FunctionWriter { function, open: vec![body] }
    }

    /// Returns the function as it has been written so far.
    pub fn function(&self) -> &Function {
        &self.function
    }

    /// Returns the names and places of the function, for the caller to fill in.
    pub fn debug_mut(&mut self) -> &mut crate::module::DebugInfo {
        &mut self.function.debug
    }

    /// Returns how many regions are open, the body included.
    pub fn depth(&self) -> usize {
        self.open.len()
    }

    /// Adds an instruction to the innermost open region and returns it with its results, which have the given types.
    pub fn push(&mut self, op: Op, attr: Attr, args: Vec<Operand>, results: &[Type]) -> (Inst, Values) {
        let results = define(&mut self.function, results);
        let inst = self.function.insts.push(Node { op, attr, args, results, regions: Vec::new() });
        let region = *self.open.last().expect("a region is open");
        self.function.regions[region].insts.push(inst);
        (inst, results)
    }

    /// Opens the next region of an instruction and returns the region's parameters, which have the given types.
    pub fn open_region(&mut self, inst: Inst, params: &[Type]) -> Values {
        let params = define(&mut self.function, params);
        let region = self.function.regions.push(RegionData { params, insts: Vec::new() });
        self.function.insts[inst].regions.push(region);
        self.open.push(region);
        params
    }

    /// Closes the innermost region. A region without a terminator gets the empty `yield` or `return` that the text
    /// leaves out.
    pub fn close_region(&mut self) -> Region {
        if !self.region_ended() {
            let op = if self.open.len() == 1 { Op::Return } else { Op::Yield };
            self.push(op, Attr::None, Vec::new(), &[]);
        }
        self.open.pop().expect("a region is open")
    }

    /// Returns whether the innermost open region ends with a terminator.
    pub fn region_ended(&self) -> bool {
        let region = *self.open.last().expect("a region is open");
        let last = self.function.regions[region].insts.last();
        last.is_some_and(|inst| self.function.insts[*inst].op.is_terminator())
    }

    /// Returns the attribute of an instruction that has been written. A `switch` gets its cases this way, one by one.
    pub fn attr_mut(&mut self, inst: Inst) -> &mut Attr {
        &mut self.function.insts[inst].attr
    }

    /// Sets the place of an instruction in the text.
    pub fn set_place(&mut self, inst: Inst, place: TextPlace) {
        let places = &mut self.function.debug.places;
        let at = crate::arena::Handle::index(inst);
        if places.len() <= at {
            places.resize(at + 1, TextPlace::default());
        }
        places[at] = place;
    }

    /// Returns the function without a terminator in its body, which makes it an import.
    pub fn finish_import(self) -> Function {
        self.function
    }

    /// Closes all open regions and returns the function.
    pub fn finish(mut self) -> Function {
        while !self.open.is_empty() {
            self.close_region();
        }
        self.function
    }
}

/// Adds consecutive values of the given types.
fn define(function: &mut Function, types: &[Type]) -> Values {
    let values = Values::new(function.values.len(), types.len());
    for ty in types {
        let _: Value = function.values.push(*ty);
    }
    values
}

/// Returns the result types of an instruction, as its op's row gives them. They are right if the operands are right.
/// Otherwise they are a good guess, so that one mistake causes one error. Control ops other than `call` have no types
/// here, because the text or the builder states them.
pub fn result_types(module: &Module, op: Op, attr: &Attr, args: &[Type]) -> Vec<Type> {
    let row = op.row();
    let elem = match attr {
        Attr::Buffer(b) | Attr::Atomic(b, ..) => module.buffers.get(*b).map(|b| b.elem),
        _ => None,
    };
    let first =
        || row.args.iter().position(|(_, pat)| *pat == TypePattern::T).and_then(|at| args.get(at)).copied();
    let fallback = || row.class.map_or(Type::U32, |class| class.types()[0]);
    let bound = elem.or_else(first).unwrap_or_else(fallback);
    match (row.form, attr) {
        (OpForm::Wide, _) if !row.results.is_empty() => vec![bound; elements_per_wide(bound)],
        (OpForm::Control, Attr::Call(callee)) => callee_results(module, *callee),
        _ => row
            .results
            .iter()
            .map(|pat| match (pat, attr) {
                (TypePattern::Is(ty), _) | (TypePattern::To, Attr::Type(ty)) => *ty,
                _ => bound,
            })
            .collect(),
    }
}

/// Returns the result types of a function of the module.
fn callee_results(module: &Module, callee: Func) -> Vec<Type> {
    module.functions.get(callee).map_or_else(Vec::new, |f| f.results.clone())
}
