//! Graphs in the text of a `Spec`.

use std::collections::{HashMap, HashSet};
use std::fmt::{Formatter, Result};

use pelton_ir::text::nearest_name;

use super::print::quote_toml;
use super::table::{TomlTable, TomlValue};
use super::words::{PRIORITY, word_of};
use crate::graph::{Graph, GraphError, NamedNode, NodeArg, NodeId, NodeOp, OpFinder};
use crate::kernel::spec::Spec;
use crate::protocol::Opcode;

/// Writes a graph. What is not a proper graph may not read back.
pub(super) fn print_graph(graph: &Graph, f: &mut Formatter<'_>) -> Result {
    writeln!(f, "\n[[graph]]\nname = {}\nparameters = {}", quote_toml(&graph.name), graph.parameters)?;
    if let Some(result) = graph.result {
        writeln!(f, "result = {}", quote_toml(&graph.node_text(result)))?;
    }
    let mut after = vec![Vec::new(); graph.nodes.len()];
    for edge in &graph.edges {
        if let Some(list) = after.get_mut(edge.to.index() as usize) {
            list.push(quote_toml(&graph.node_text(edge.from)));
        }
    }
    for (node, after) in graph.nodes.iter().zip(after) {
        writeln!(f, "\n[[graph.node]]\nname = {}", quote_toml(&node.name))?;
        match &node.op {
            NodeOp::Named(name) => writeln!(f, "op = {}", quote_toml(name))?,
            NodeOp::Code(op) => writeln!(f, "op = {:#x}", op.code())?,
        }
        let args = node.args.iter().map(|arg| match arg {
            NodeArg::Constant(word) => word.to_string(),
            arg => quote_toml(&graph.argument_text(*arg)),
        });
        writeln!(f, "args = [{}]", args.collect::<Vec<_>>().join(", "))?;
        if !after.is_empty() {
            writeln!(f, "after = [{}]", after.join(", "))?;
        }
        if let Some(priority) = &node.priority {
            writeln!(f, "priority = {:?}", word_of(PRIORITY, priority))?;
        }
    }
    Ok(())
}

/// Reads all graphs of a text. The handlers of the `Spec` are known already.
pub(super) fn read_graphs(tables: Vec<TomlTable<'_>>, spec: &Spec) -> Vec<Graph> {
    let ops = OpFinder::new(spec);
    let mut graphs: Vec<Graph> = Vec::new();
    let mut known = HashSet::new();
    for table in tables {
        let name = table.require("name");
        let reader = GraphReader { ops: &ops, spec, names: Vec::new(), nodes: HashMap::new() };
        let Some((table, graph)) = reader.read_graph(table, name) else { continue };
        if let Some(name) = name.filter(|_| !known.insert(graph.name.clone())) {
            table.note_wrong(name.span(), format!("two graphs are named {:?}", graph.name));
        }
        table.refuse_unknown_keys();
        graphs.push(graph);
    }
    graphs
}

/// Reads one graph.
struct GraphReader<'r, 'a> {
    ops: &'r OpFinder<'r>,
    spec: &'r Spec,
    /// The names of the nodes.
    names: Vec<&'a str>,
    /// The first node with each name.
    nodes: HashMap<&'a str, NodeId>,
}

impl<'a> GraphReader<'_, 'a> {
    /// Reads a graph, except that unknown keys of its table are not refused yet. Whatever the text refers to by name is
    /// looked up in place, and then the graph is checked whole.
    fn read_graph(
        mut self,
        table: TomlTable<'a>,
        name: Option<TomlValue<'a>>,
    ) -> Option<(TomlTable<'a>, Graph)> {
        let before = table.mistake_count();
        let text = name.and_then(|value| table.read_string(value)).unwrap_or_default();
        let mut graph = Graph::new(text, table.number_or("parameters", 0));
        let tables = table.table_array("node");
        if tables.len() > Graph::MAX_NODES as usize {
            let error = GraphError::TooManyNodes { found: tables.len() };
            table.note_wrong(table.place(), error.to_string());
            return None;
        }
        let names: Vec<Option<TomlValue<'a>>> = tables.iter().map(|node| node.require("name")).collect();
        for ((node, name), id) in tables.iter().zip(&names).zip((0..).map(NodeId::from_index)) {
            let text = name.and_then(|value| node.read_string(value)).unwrap_or_default();
            graph.node(text, self.read_op(node), []);
            self.names.push(text);
            let first = *self.nodes.entry(text).or_insert(id);
            if let Some(name) = name.filter(|_| first != id) {
                let error = GraphError::DuplicateNode { first, node: NamedNode { id, name: text.into() } };
                node.note_wrong(name.span(), error.to_string());
            }
        }
        for (node, id) in tables.into_iter().zip((0..).map(NodeId::from_index)) {
            self.read_node(node, id, &mut graph);
        }
        graph.result = table.get("result").and_then(|value| self.read_reference(&table, value));
        if table.mistake_count() == before
            && let Err(error) = graph.check(self.spec)
        {
            let node = error.node().and_then(|node| names.get(node.id.index() as usize).copied().flatten());
            let place = node.or(name).map_or_else(|| table.place(), |value| value.span());
            table.note_wrong(place, error.to_string());
        }
        Some((table, graph))
    }

    /// Reads what a node does: the name of an operation, or the number of an opcode.
    fn read_op(&self, table: &TomlTable<'a>) -> NodeOp {
        let read = |value: TomlValue<'a>| {
            let op = match value.get_ref().is_integer() {
                true => table.read_number(value).map(Opcode::from_code).map(NodeOp::from),
                false => table.read_string(value).map(NodeOp::from),
            }?;
            if let Err(error) = self.ops.find(&op) {
                table.note_wrong(value.span(), error.to_string());
            }
            Some(op)
        };
        table.require("op").and_then(read).unwrap_or_else(|| "".into())
    }

    /// Reads the arguments, edges and priority of a node, and ends its table.
    fn read_node(&self, table: TomlTable<'a>, id: NodeId, graph: &mut Graph) {
        let args = table.array("args").into_iter().filter_map(|value| self.read_arg(&table, value)).collect();
        for value in table.array("after") {
            if let Some(from) = self.read_reference(&table, value) {
                graph.edge(from, id);
            }
        }
        let node = &mut graph.nodes[id.index() as usize];
        node.args = args;
        node.priority = table.get("priority").and_then(|value| table.read_word(value, PRIORITY));
        table.refuse_unknown_keys();
    }

    /// Reads an argument: a number, `"$0"` for a parameter, or `"@name"` for the result of a node.
    fn read_arg(&self, table: &TomlTable<'a>, value: TomlValue<'a>) -> Option<NodeArg> {
        if value.get_ref().is_integer() {
            return table.read_number(value).map(NodeArg::Constant);
        }
        let text = table.read_string(value)?;
        let found = match (text.strip_prefix('$'), text.strip_prefix('@')) {
            (Some(number), _) if number.bytes().all(|byte| byte.is_ascii_digit()) => {
                number.parse().ok().map(NodeArg::Parameter)
            }
            (_, Some(name)) => return self.find_node(table, value, name).map(NodeArg::Result),
            _ => None,
        };
        if found.is_none() {
            let how = "write a number, \"$0\" for parameter 0, or \"@name\" for the result of a node";
            table.note_wrong(value.span(), format!("{text:?} is not an argument; {how}"));
        }
        found
    }

    /// Reads the name of a node of this graph.
    fn read_reference(&self, table: &TomlTable<'a>, value: TomlValue<'a>) -> Option<NodeId> {
        table.read_string(value).and_then(|name| self.find_node(table, value, name))
    }

    /// Finds a node of this graph by its name.
    fn find_node(&self, table: &TomlTable<'a>, value: TomlValue<'a>, name: &str) -> Option<NodeId> {
        let found = self.nodes.get(name).copied();
        if found.is_none() {
            let hint = match nearest_name(name, self.names.iter().copied()) {
                Some(near) => format!("; did you mean {near:?}?"),
                None => String::new(),
            };
            table.note_wrong(value.span(), format!("there is no node {name:?} in this graph{hint}"));
        }
        found
    }
}
