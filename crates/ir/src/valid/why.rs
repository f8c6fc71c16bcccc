//! Why something is not uniform: the shortest way back through the graph, told by its turns.

use std::collections::VecDeque;

use super::error::{Note, Where};
use super::flow::{CONTROL, Edge, Flow, Grouped, Mask, Point, param};
use super::uniform::{Context, Level};
use super::walk::spell;
use crate::arena::{Func, Handle};
use crate::module::{Function, Site};
use crate::op::Op;

/// Where a way back ends.
#[derive(Clone, Copy)]
enum Origin {
    /// At an instruction that gives each lane its own.
    Inside(Site),
    /// At a call: which parameter it passes, or else that not all lanes make it.
    Call(Site, Option<usize>),
}

/// The ways back from all nodes of a function that are less uniform than a level.
pub(super) struct Why<'m> {
    func: Func,
    function: &'m Function,
    need: Level,
    /// Where a way ends, by node.
    origins: Vec<Option<Origin>>,
    /// The first step of the way, by node.
    steps: Vec<Option<Edge>>,
    /// The first turn of the way, by node: where lanes part.
    turns: Vec<Option<Edge>>,
    /// The control that the body starts with.
    entry: Point,
}

impl<'m> Why<'m> {
    /// Finds all ways at once, from the origins.
    pub fn new(func: Func, function: &'m Function, flow: &Flow, context: &Context, need: Level) -> Self {
        let count = flow.points as usize;
        let origins = origins(func, function, flow, context, need);
        let entry = flow.entry(function);
        let (steps, turns) = (vec![None; count], vec![None; count]);
        let mut why = Why { func, function, need, origins, steps, turns, entry };
        let next = Grouped::new(flow.points, &flow.edges, |edge| edge.from);
        let known = |point: &Point| why.origins[*point as usize].is_some();
        let mut queue: VecDeque<Point> = (0..flow.points).filter(known).collect();
        while let Some(from) = queue.pop_front() {
            for edge in next.of(from) {
                let edge = flow.edges[*edge as usize];
                let to = edge.to as usize;
                if why.steps[to].is_none() && why.origins[to].is_none() {
                    why.steps[to] = Some(edge);
                    why.turns[to] = if why.parts(edge) { Some(edge) } else { why.turns[from as usize] };
                    queue.push_back(edge.to);
                }
            }
        }
        why
    }

    /// Where the lanes part that do not all come to a stretch of control.
    pub fn parting(&self, point: Point) -> Option<Where> {
        let call = match self.origins[self.entry as usize] {
            Some(Origin::Call(site, _)) => Some(site),
            _ => None,
        };
        let turn = self.turns[point as usize].map(|edge| Site { func: self.func, inst: edge.why });
        turn.or(call).map(Where::Inst)
    }

    /// What lanes parted at on the way to a node, and what differed first.
    pub fn notes(&self, point: Point) -> Vec<Note> {
        let mut notes = Vec::new();
        let mut at = point;
        let mut conditions = 0;
        while let Some(edge) = self.steps[at as usize] {
            // The first condition parts them; why it differs, the origin says.
            if self.parts(edge) && conditions == 0 {
                notes.push(self.turn(edge));
                conditions += usize::from(self.is_value(edge.from));
            }
            at = edge.from;
        }
        notes.extend(self.origins[at as usize].map(|origin| self.origin(origin)));
        notes
    }

    fn is_value(&self, point: Point) -> bool {
        (point as usize) < self.function.values.len()
    }

    /// Whether an edge is a condition or a jump.
    fn parts(&self, edge: Edge) -> bool {
        !self.is_value(edge.to) && (self.is_value(edge.from) || self.function.insts[edge.why].op.ends())
    }

    fn turn(&self, edge: Edge) -> Note {
        let (op, need) = (self.function.insts[edge.why].op, self.need);
        let message = if self.is_value(edge.from) {
            let value = spell(self.function, Handle::new(edge.from as usize));
            let decides = if op == Op::Loop { "how often this loop runs" } else { "where lanes go here" };
            format!("`{value}` decides {decides}, and differs among lanes of a {need}")
        } else {
            format!("some lanes may leave by this `{}`, and the others go on without them", op.row().name)
        };
        Note { message, site: Where::Inst(Site { func: self.func, inst: edge.why }) }
    }

    fn origin(&self, origin: Origin) -> Note {
        let need = self.need;
        let (message, site) = match origin {
            Origin::Inside(site) => {
                let name = self.function.insts[site.inst].op.row().name;
                (format!("`{name}` does not give all lanes of a {need} the same"), site)
            }
            Origin::Call(site, Some(k)) => {
                let name = spell(self.function, self.function.params.get(k));
                (format!("this call passes a `{name}` that differs among lanes of a {need}"), site)
            }
            Origin::Call(site, None) => {
                (format!("this call is not made by all lanes of a {need} at once"), site)
            }
        };
        Note { message, site: Where::Inst(site) }
    }
}

/// The nodes that are less uniform than a level by themselves.
fn origins(
    func: Func,
    function: &Function,
    flow: &Flow,
    context: &Context,
    need: Level,
) -> Vec<Option<Origin>> {
    let low = [Level::Lane, Level::Subgroup].into_iter().filter(|level| *level < need);
    let low: Mask = low.fold(0, |mask, level| mask | context.sources(level));
    let mut origins = vec![None; flow.points as usize];
    for (point, mask, inst) in &flow.sources {
        if mask & low != 0 {
            origins[*point as usize] = Some(Origin::Inside(Site { func, inst: *inst }));
        }
    }
    let params = function.params.iter().zip(&context.params).enumerate();
    for (k, (value, entry)) in params.filter(|(k, _)| param(*k) & low != 0) {
        origins[value.index()] = entry.call.map(|call| Origin::Call(call, Some(k)));
    }
    if CONTROL & low != 0 {
        let call = context.control.call;
        origins[flow.entry(function) as usize] = call.map(|call| Origin::Call(call, None));
    }
    origins
}
