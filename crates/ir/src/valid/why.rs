//! Explanations of why something is not uniform: the shortest path through the graph back to what differs among lanes.

use std::collections::VecDeque;

use super::error::{ErrorNote, ErrorSite};
use super::flow::{CONTROL, DependencyGraph, Edge, Grouped, Mask, Point, param};
use super::uniform::{Context, UniformLevel};
use super::walk::spell;
use crate::arena::{Func, Handle};
use crate::module::{Function, Site};
use crate::op::Op;

/// The end of a path: what differs among lanes in the first place.
#[derive(Clone, Copy)]
enum DivergenceOrigin {
    /// An instruction whose result differs among lanes.
    Inside(Site),
    /// A call that passes a parameter that differs among lanes or, if there is no parameter, that not all lanes make.
    Call(Site, Option<usize>),
}

impl DivergenceOrigin {
    fn site(self) -> Site {
        let (DivergenceOrigin::Inside(site) | DivergenceOrigin::Call(site, _)) = self;
        site
    }
}

/// What an error reports about the path back from a node.
#[derive(Clone, Copy, Default)]
struct WayBack {
    /// The condition at which lanes diverge, if the node is a stretch of control.
    condition: Option<Edge>,
    /// The jump under that condition by which some lanes leave.
    jump: Option<Edge>,
    /// What differs in the first place, or `None` if the node is uniform enough.
    origin: Option<DivergenceOrigin>,
}

/// The paths back from all nodes of a function that are less uniform than a level.
pub(super) struct Explanation<'m> {
    func: Func,
    function: &'m Function,
    need: UniformLevel,
    ways: Vec<WayBack>,
}

impl<'m> Explanation<'m> {
    /// Finds all paths in one breadth-first search that starts from the origins.
    pub(crate) fn new(
        func: Func,
        function: &'m Function,
        flow: &DependencyGraph,
        context: &Context,
        need: UniformLevel,
    ) -> Self {
        let ways = origins(func, function, flow, context, need);
        let mut why = Explanation { func, function, need, ways };
        let next = Grouped::new(flow.points, &flow.edges, |edge| edge.from);
        let known = |point: &Point| why.ways[*point as usize].origin.is_some();
        let mut queue: VecDeque<Point> = (0..flow.points).filter(known).collect();
        while let Some(from) = queue.pop_front() {
            for edge in next.edges_at(from) {
                let edge = flow.edges[*edge as usize];
                if why.ways[edge.to as usize].origin.is_none() {
                    why.ways[edge.to as usize] = why.step(edge);
                    queue.push_back(edge.to);
                }
            }
        }
        why
    }

    /// Returns the path that starts with an edge and continues from the edge's source.
    fn step(&self, edge: Edge) -> WayBack {
        let on = self.ways[edge.from as usize];
        match (self.is_value(edge.to), self.is_value(edge.from)) {
            (true, _) => WayBack { origin: on.origin, ..WayBack::default() },
            (false, true) => WayBack { condition: Some(edge), jump: None, origin: on.origin },
            (false, false) => {
                let jump = Some(edge).filter(|edge| self.function.insts[edge.why].op.is_terminator());
                WayBack { jump: on.jump.or(jump), ..on }
            }
        }
    }

    /// Returns where lanes diverge, so that not all of them reach a stretch of control.
    pub(crate) fn parting(&self, point: Point) -> Option<ErrorSite> {
        let way = self.ways[point as usize];
        let condition = way.condition.map(|edge| Site { func: self.func, inst: edge.why });
        condition.or(way.origin.map(DivergenceOrigin::site)).map(ErrorSite::Inst)
    }

    /// Returns notes about where lanes diverge on the way to a node, and about what differs in the first place.
    pub(crate) fn notes(&self, point: Point) -> Vec<ErrorNote> {
        let way = self.ways[point as usize];
        let jump = way.jump.filter(|_| way.condition.is_some()).map(|edge| self.jump(edge));
        let condition = way.condition.map(|edge| self.condition(edge));
        jump.into_iter().chain(condition).chain(way.origin.map(|origin| self.origin(origin))).collect()
    }

    fn is_value(&self, point: Point) -> bool {
        (point as usize) < self.function.values.len()
    }

    fn note(&self, edge: Edge, message: String) -> ErrorNote {
        ErrorNote { message, site: ErrorSite::Inst(Site { func: self.func, inst: edge.why }) }
    }

    fn jump(&self, edge: Edge) -> ErrorNote {
        let name = self.function.insts[edge.why].op.row().name;
        self.note(edge, format!("some lanes may leave by this `{name}`, and the others go on without them"))
    }

    fn condition(&self, edge: Edge) -> ErrorNote {
        let value = spell(self.function, Handle::new(edge.from as usize));
        let loops = self.function.insts[edge.why].op == Op::Loop;
        let decides = if loops { "how often this loop runs" } else { "where lanes go here" };
        self.note(edge, format!("`{value}` decides {decides}, and differs among lanes of a {}", self.need))
    }

    fn origin(&self, origin: DivergenceOrigin) -> ErrorNote {
        let need = self.need;
        let (message, site) = match origin {
            DivergenceOrigin::Inside(site) => {
                let name = self.function.insts[site.inst].op.row().name;
                (format!("`{name}` does not give all lanes of a {need} the same"), site)
            }
            DivergenceOrigin::Call(site, Some(k)) => {
                let name = spell(self.function, self.function.params.get(k));
                (format!("this call passes a `{name}` that differs among lanes of a {need}"), site)
            }
            DivergenceOrigin::Call(site, None) => {
                (format!("this call is not made by all lanes of a {need} at once"), site)
            }
        };
        ErrorNote { message, site: ErrorSite::Inst(site) }
    }
}

/// Returns the paths of those nodes that are themselves less uniform than a level.
fn origins(
    func: Func,
    function: &Function,
    flow: &DependencyGraph,
    context: &Context,
    need: UniformLevel,
) -> Vec<WayBack> {
    let low = [UniformLevel::Lane, UniformLevel::Subgroup].into_iter().filter(|level| *level < need);
    let low: Mask = low.fold(0, |mask, level| mask | context.sources(level));
    let mut ways = vec![WayBack::default(); flow.points as usize];
    for (point, mask, inst) in &flow.sources {
        if mask & low != 0 {
            ways[*point as usize].origin = Some(DivergenceOrigin::Inside(Site { func, inst: *inst }));
        }
    }
    let params = function.params.iter().zip(&context.params).enumerate();
    for (k, (value, entry)) in params.filter(|(k, _)| param(*k) & low != 0) {
        ways[value.index()].origin = entry.call.map(|call| DivergenceOrigin::Call(call, Some(k)));
    }
    if CONTROL & low != 0 {
        let call = context.control.call;
        ways[flow.entry(function) as usize].origin = call.map(|call| DivergenceOrigin::Call(call, None));
    }
    ways
}
