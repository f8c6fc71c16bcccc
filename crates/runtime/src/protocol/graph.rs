//! The words of a graph, as they lie in the device's memory.
//!
//! A graph is a header of [`HEADER_WORDS`] words, a row of [`NODE_WORDS`] words per node, and the list of successors, one
//! word per edge. The host writes all of it before the first launch of the graph, and the device only reads it. Header
//! and rows are whole multiples of 16 bytes, so that a lane can load four words at once.
//!
//! [`encode_graph`] writes the words, and [`GraphView`] reads them.

use std::collections::HashSet;

use super::priority::LEVELS;
use super::table::{codes, words};
use super::{Malformed, Opcode, UNBOUNDED, WirePlace, slot};

/// The number of words in the header.
pub const HEADER_WORDS: usize = 8;

/// The number of words in the row of a node.
pub const NODE_WORDS: usize = 20;

/// The number of arguments of a node, which is that of any task.
pub const ARGS: usize = slot::ARGS;

/// The most nodes that a graph can have.
pub const MAX_NODES: u32 = 4096;

/// The most edges that a graph can have.
pub const MAX_EDGES: u32 = 1 << 16;

/// The most parameters that a graph can have. One argument of the task that launches a graph says which graph it is.
pub const MAX_PARAMETERS: u32 = ARGS as u32 - 1;

/// The number of bits in KINDS that say what one argument is.
pub const KIND_BITS: u32 = 2;

/// The part of a graph that a row of the table describes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum GraphPart {
    /// The row describes a word of the header.
    Header,
    /// The row describes a word of a node, numbered from the first word of the node's row.
    Node,
    /// The row describes the list of successors, numbered from its first word.
    List,
}

words! {
    /// The words of a graph.
    GraphPart;
    NODES           0       Header "The number of nodes, from 1 to 4096.";
    PARAMETERS      1       Header "The number of parameters, from 0 to 11.";
    RESULT          2       Header "The number of the node whose result is that of the graph.";
    TENANT          3       Header "The tenant whose graph it is. It is set when a session takes the graph.";
    EDGES           4       Header "The number of edges, which is the length of the list of successors.";
    HEADER_REST     5 [3]   Header "Zero.";
    OP              0       Node   "The opcode of the node.";
    LEVEL           1       Node   "The level at which the node queues: the most urgent of its own level and of those of all nodes that wait for it. It is 0 if the kernel has one level.";
    PREDECESSORS    2       Node   "The number of nodes that must end before this one can begin.";
    FIRST_SUCCESSOR 3       Node   "The place in the list of successors where those of this node begin.";
    SUCCESSORS      4       Node   "The number of nodes that wait for this one.";
    KINDS           5       Node   "What the arguments are: the kind of argument k in bits 2k and 2k + 1. The other bits are zero.";
    ARG             6 [12]  Node   "The arguments: a constant, the number of a parameter, or the number of the node whose result it is.";
    NEXT            18      Node   "The number of the first node that waits for this one, as the list of successors has it, or zero if none waits.";
    NODE_REST       19      Node   "Zero.";
    SUCCESSOR       0 [UNBOUNDED] List "The numbers of the nodes that wait for node 0, then of those that wait for node 1, and so on. The numbers of one node rise.";
}

codes! {
    /// What an argument word of a node means.
    ArgKind "kind of argument" {
        Constant  0 "CONSTANT"  "The word is the argument.";
        Parameter 1 "PARAMETER" "The word is the number of a parameter of the graph. The parameters are given at each launch.";
        Result    2 "RESULT"    "The word is the number of a node. The argument is the result of that node, which is a predecessor.";
    }
}

/// The row of a node.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct NodeRow {
    /// The opcode of the node.
    pub op: Opcode,
    /// The level at which the node queues.
    pub level: u32,
    /// How many nodes must end before this one can begin.
    pub predecessors: u32,
    /// Where the successors of this node begin in the list of successors.
    pub first_successor: u32,
    /// How many nodes wait for this one.
    pub successors: u32,
    /// The arguments, each with what it means. Those that were not given are the constant 0.
    pub args: [(ArgKind, u32); ARGS],
}

impl NodeRow {
    /// Returns the words of the row, given the list of successors of all nodes.
    pub fn encode(&self, successors: &[u32]) -> [u32; NODE_WORDS] {
        let mut words = [0; NODE_WORDS];
        words[NEXT as usize] = self.next_node(successors);
        words[OP as usize] = self.op.code();
        words[LEVEL as usize] = self.level;
        words[PREDECESSORS as usize] = self.predecessors;
        words[FIRST_SUCCESSOR as usize] = self.first_successor;
        words[SUCCESSORS as usize] = self.successors;
        for (k, (kind, value)) in self.args.into_iter().enumerate() {
            words[KINDS as usize] |= kind.code() << (k as u32 * KIND_BITS);
            words[ARG as usize + k] = value;
        }
        words
    }

    /// The first node that waits for this one, or 0 if none does. A list that ends too early has none.
    fn next_node(&self, successors: &[u32]) -> u32 {
        let first = successors.get(self.first_successor as usize).filter(|_| self.successors != 0);
        first.copied().unwrap_or_default()
    }

    /// Returns the row that these words hold, or the number of the first word that none can have and why.
    fn decode(words: &[u32; NODE_WORDS]) -> Result<NodeRow, (u32, &'static str)> {
        let kinds = words[KINDS as usize];
        let mut args = [(ArgKind::Constant, 0); ARGS];
        for (k, arg) in args.iter_mut().enumerate() {
            let code = kinds >> (k as u32 * KIND_BITS) & ((1 << KIND_BITS) - 1);
            let kind = ArgKind::from_code(code).ok_or((KINDS, "and no argument has the kind 3"))?;
            *arg = (kind, words[ARG as usize + k]);
        }
        if kinds >> (ARGS as u32 * KIND_BITS) != 0 {
            return Err((KINDS, "which has kinds of more than twelve arguments"));
        }
        if words[LEVEL as usize] >= LEVELS as u32 {
            return Err((LEVEL, "which is not a level"));
        }
        match (NODE_REST..).zip(&words[NODE_REST as usize..]).find(|(_, value)| **value != 0) {
            Some((word, _)) => Err((word, "but must be zero")),
            None => Ok(NodeRow {
                op: Opcode::from_code(words[OP as usize]),
                level: words[LEVEL as usize],
                predecessors: words[PREDECESSORS as usize],
                first_successor: words[FIRST_SUCCESSOR as usize],
                successors: words[SUCCESSORS as usize],
                args,
            }),
        }
    }
}

/// Returns the words of a graph of tenant 0. `successors` is the list of successors, in the order of the rows.
pub fn encode_graph(parameters: u32, result: u32, rows: &[NodeRow], successors: &[u32]) -> Vec<u32> {
    let mut words = vec![0; HEADER_WORDS];
    words[NODES as usize] = rows.len() as u32;
    words[PARAMETERS as usize] = parameters;
    words[RESULT as usize] = result;
    words[EDGES as usize] = successors.len() as u32;
    words.extend(rows.iter().flat_map(|row| row.encode(successors)));
    words.extend(successors);
    words
}

/// Returns where the row of a node begins.
pub const fn node_at(node: u32) -> usize {
    HEADER_WORDS + node as usize * NODE_WORDS
}

/// A view of the words of a graph.
#[derive(Clone, Debug)]
pub struct GraphView<'a> {
    words: &'a [u32],
    rows: Vec<NodeRow>,
    successors: &'a [u32],
}

impl<'a> GraphView<'a> {
    /// Returns a view of these words. They are checked whole, except that a cycle is not looked for.
    ///
    /// # Errors
    ///
    /// [`Malformed`] names the first word that no graph can have.
    pub fn new(words: &'a [u32]) -> Result<Self, Malformed> {
        let successors = check_header(words)?;
        let (rows, _) = words[HEADER_WORDS..words.len() - successors.len()].as_chunks::<NODE_WORDS>();
        let decode = |(node, row)| {
            NodeRow::decode(row).map_err(|(word, why)| wrong_word(words, node_at(node) as u32 + word, why))
        };
        let rows = (0..).zip(rows).map(decode).collect::<Result<Vec<_>, _>>()?;
        let view = GraphView { words, rows, successors };
        let edges = view.check_list()?;
        view.check_rows(&edges)?;
        Ok(view)
    }

    /// Returns how many parameters the graph has.
    pub fn parameters(&self) -> u32 {
        self.words[PARAMETERS as usize]
    }

    /// Returns the number of the node whose result is that of the graph.
    pub fn result(&self) -> u32 {
        self.words[RESULT as usize]
    }

    /// Returns the tenant whose graph it is.
    pub fn tenant(&self) -> u32 {
        self.words[TENANT as usize]
    }

    /// Returns the rows of the nodes, by their numbers.
    pub fn rows(&self) -> &[NodeRow] {
        &self.rows
    }

    /// Returns the numbers of the nodes that wait for a node of this graph.
    pub fn successors(&self, row: &NodeRow) -> &'a [u32] {
        let first = row.first_successor as usize;
        self.successors.get(first..first + row.successors as usize).unwrap_or_default()
    }

    /// Checks the list of successors, and returns the edges.
    fn check_list(&self) -> Result<HashSet<(u32, u32)>, Malformed> {
        let list_at = (self.words.len() - self.successors.len()) as u32;
        let mut edges = HashSet::new();
        let mut first = 0;
        for (node, row) in (0..).zip(&self.rows) {
            let wrong = |word: u32, why| wrong_word(self.words, node_at(node) as u32 + word, why);
            if row.first_successor != first {
                return Err(wrong(
                    FIRST_SUCCESSOR,
                    "which is not where the successors of the node before end",
                ));
            }
            let left = self.successors.len() as u32 - first;
            if row.successors > left {
                return Err(wrong(SUCCESSORS, "which is more than the list has"));
            }
            let mut above = None;
            for (at, &to) in (list_at + first..).zip(self.successors(row)) {
                if to as usize >= self.rows.len() || to == node {
                    return Err(wrong_word(self.words, at, "which is not another node"));
                }
                if above.is_some_and(|last| to <= last) {
                    return Err(wrong_word(self.words, at, "which is not above the successor before it"));
                }
                above = Some(to);
                edges.insert((node, to));
            }
            if self.words[node_at(node) + NEXT as usize] != row.next_node(self.successors) {
                return Err(wrong(NEXT, "which is not the first successor of the node"));
            }
            first += row.successors;
        }
        if first as usize != self.successors.len() {
            return Err(wrong_word(self.words, EDGES, "which is not the number of successors of all nodes"));
        }
        Ok(edges)
    }

    /// Checks that the rows agree with the edges and the parameters.
    fn check_rows(&self, edges: &HashSet<(u32, u32)>) -> Result<(), Malformed> {
        let mut predecessors = vec![0; self.rows.len()];
        self.successors.iter().for_each(|to| predecessors[*to as usize] += 1);
        for (node, row) in (0..).zip(&self.rows) {
            let wrong = |word: u32, why| wrong_word(self.words, node_at(node) as u32 + word, why);
            if row.predecessors != predecessors[node as usize] {
                return Err(wrong(PREDECESSORS, "which is not how often the list has the node"));
            }
            for (word, (kind, value)) in (ARG..).zip(row.args) {
                match kind {
                    ArgKind::Parameter if value >= self.parameters() => {
                        return Err(wrong(word, "which is not a parameter"));
                    }
                    ArgKind::Result if !edges.contains(&(value, node)) => {
                        return Err(wrong(word, "which is not a predecessor"));
                    }
                    _ => {}
                }
            }
        }
        Ok(())
    }
}

/// Checks the header of a graph and the number of its words, and returns the list of successors.
fn check_header(words: &[u32]) -> Result<&[u32], Malformed> {
    let short = || {
        let word = words.len() as u32;
        Malformed::Short { what: "graph", words: words.len(), word, name: word_name(words, word) }
    };
    let header = words.first_chunk::<HEADER_WORDS>().ok_or_else(short)?;
    let (nodes, edges) = (header[NODES as usize], header[EDGES as usize]);
    if !(1..=MAX_NODES).contains(&nodes) {
        return Err(wrong_word(words, NODES, "which is not a possible number of nodes"));
    }
    if header[PARAMETERS as usize] > MAX_PARAMETERS {
        return Err(wrong_word(words, PARAMETERS, "which is not a possible number of parameters"));
    }
    if header[RESULT as usize] >= nodes {
        return Err(wrong_word(words, RESULT, "which is not a node"));
    }
    if edges > MAX_EDGES {
        return Err(wrong_word(words, EDGES, "which is not a possible number of edges"));
    }
    if let Some((word, _)) =
        (HEADER_REST..).zip(&header[HEADER_REST as usize..]).find(|(_, rest)| **rest != 0)
    {
        return Err(wrong_word(words, word, "but must be zero"));
    }
    let list = words.get(node_at(nodes)..).ok_or_else(short)?;
    match list.len().cmp(&(edges as usize)) {
        std::cmp::Ordering::Less => Err(short()),
        std::cmp::Ordering::Equal => Ok(list),
        std::cmp::Ordering::Greater => {
            Err(wrong_word(words, EDGES, "although more words follow than that many successors"))
        }
    }
}

/// The error that a word of a graph cannot have its value.
fn wrong_word(words: &[u32], word: u32, why: &'static str) -> Malformed {
    let (name, value) = (word_name(words, word), words[word as usize].into());
    Malformed::Word { place: WirePlace::Graph, word, name, value, why }
}

/// The name of a word, which may lie behind the last one that is there.
fn word_name(words: &[u32], word: u32) -> &'static str {
    let nodes = words.get(NODES as usize).map_or(0, |nodes| (*nodes).min(MAX_NODES));
    let at = word as usize;
    let (part, within) = match at.checked_sub(HEADER_WORDS) {
        None => (GraphPart::Header, at),
        Some(within) if at < node_at(nodes) => (GraphPart::Node, within % NODE_WORDS),
        Some(_) => (GraphPart::List, at - node_at(nodes)),
    };
    let row = TABLE.iter().find(|row| row.mark == part && row.contains(within as u32));
    row.map_or("unassigned", |row| row.name)
}
