//! Tests of the words of graphs: what a view refuses.

use pelton::Opcode;
use pelton::protocol::graph::{self, ArgKind, GraphPart, GraphView, NodeRow, encode_graph, node_at};
use proptest::prelude::*;

/// Two nodes, of which the second takes the result of the first and a parameter.
fn words() -> Vec<u32> {
    let nothing = [(ArgKind::Constant, 0); graph::ARGS];
    let op = Opcode::NOP;
    let first = NodeRow { op, level: 2, predecessors: 0, first_successor: 0, successors: 1, args: nothing };
    let mut second =
        NodeRow { op, level: 4, predecessors: 1, first_successor: 1, successors: 0, args: nothing };
    second.args[0] = (ArgKind::Result, 0);
    second.args[11] = (ArgKind::Parameter, 2);
    encode_graph(3, 1, &[first, second], &[1])
}

#[test]
fn a_view_shows_what_was_written() {
    let mut words = words();
    words[graph::TENANT as usize] = 7;
    let view = GraphView::new(&words).unwrap();
    assert_eq!((view.parameters(), view.result(), view.tenant()), (3, 1, 7));
    assert_eq!(view.successors(&view.rows()[0]), [1]);
    assert!(view.successors(&view.rows()[1]).is_empty());
    assert_eq!(view.rows()[1].args[11], (ArgKind::Parameter, 2));
    assert_eq!(words.len(), 8 + 2 * 20 + 1);
}

#[test]
fn every_word_of_a_part_has_one_row() {
    for (part, count) in [(GraphPart::Header, graph::HEADER_WORDS), (GraphPart::Node, graph::NODE_WORDS)] {
        for word in 0..count as u32 + 1 {
            let rows = graph::TABLE.iter().filter(|row| row.mark == part && row.contains(word)).count();
            assert_eq!(rows, usize::from(word < count as u32), "{part:?} {word}");
        }
    }
}

#[test]
fn the_first_wrong_word_is_named() {
    let node = |node: u32, word: u32| node_at(node) + word as usize;
    let header = |word: u32| word as usize;
    for (at, value, what) in [
        (header(graph::NODES), 0, "graph: word 0 (nodes) is 0x0, which is not a possible number of nodes"),
        (header(graph::NODES), 4097, "word 0 (nodes) is 0x1001, which is not a possible number of nodes"),
        (header(graph::NODES), 3, "graph is 49 words long and ends before word 49 (level)"),
        (header(graph::PARAMETERS), 12, "word 1 (parameters) is 0xc, which is not a possible number"),
        (header(graph::PARAMETERS), 2, "word 45 (arg) is 0x2, which is not a parameter"),
        (header(graph::RESULT), 2, "word 2 (result) is 0x2, which is not a node"),
        (header(graph::EDGES), 65537, "word 4 (edges) is 0x10001, which is not a possible number of edges"),
        (header(graph::EDGES), 2, "graph is 49 words long and ends before word 49 (successor)"),
        (header(graph::EDGES), 0, "word 4 (edges) is 0x0, although more words follow"),
        (header(graph::HEADER_REST) + 2, 1, "word 7 (header_rest) is 0x1, but must be zero"),
        (node(0, graph::LEVEL), 5, "word 9 (level) is 0x5, which is not a level"),
        (node(0, graph::PREDECESSORS), 1, "word 10 (predecessors) is 0x1, which is not how often"),
        (node(1, graph::FIRST_SUCCESSOR), 0, "word 31 (first_successor) is 0x0, which is not where"),
        (node(1, graph::SUCCESSORS), 1, "word 32 (successors) is 0x1, which is more than the list has"),
        (node(0, graph::KINDS), 3, "word 13 (kinds) is 0x3, and no argument has the kind 3"),
        (node(0, graph::KINDS), 1 << 24, "word 13 (kinds) is 0x1000000, which has kinds of more than twelve"),
        (node(1, graph::ARG), 1, "word 34 (arg) is 0x1, which is not a predecessor"),
        (node(1, graph::ARG), 2, "word 34 (arg) is 0x2, which is not a predecessor"),
        (node(0, graph::NEXT), 0, "word 26 (next) is 0x0, which is not the first successor of the node"),
        (node(1, graph::NEXT), 1, "word 46 (next) is 0x1, which is not the first successor of the node"),
        (node(1, graph::NODE_REST), 1, "word 47 (node_rest) is 0x1, but must be zero"),
        (48, 0, "word 48 (successor) is 0x0, which is not another node"),
        (48, 2, "word 48 (successor) is 0x2, which is not another node"),
    ] {
        let mut words = words();
        words[at] = value;
        let found = GraphView::new(&words).expect_err(what).to_string();
        assert!(found.contains(what), "{found}\nis not\n{what}");
    }
    let mut fewer = words();
    fewer[node(0, graph::SUCCESSORS)] = 0;
    fewer[node(0, graph::NEXT)] = 0;
    fewer[node(1, graph::FIRST_SUCCESSOR)] = 0;
    let found = GraphView::new(&fewer).unwrap_err().to_string();
    assert!(found.contains("(edges) is 0x1, which is not the number of successors of all nodes"), "{found}");
    let mut twice = words();
    twice[graph::EDGES as usize] = 2;
    twice[node(0, graph::SUCCESSORS)] = 2;
    twice[node(1, graph::FIRST_SUCCESSOR)] = 2;
    twice.push(1);
    let found = GraphView::new(&twice).unwrap_err().to_string();
    assert!(found.contains("word 49 (successor) is 0x1, which is not above"), "{found}");
}

proptest! {
    #[test]
    fn no_words_are_too_odd(changes in prop::collection::vec((0..60usize, any::<u32>()), 0..4), len in 0..60usize) {
        let mut words = words();
        for (at, value) in changes {
            let len = words.len();
            words[at % len] = if value & 1 == 0 { value } else { value % 8 };
        }
        words.resize(len, 0);
        let _ = GraphView::new(&words).map_err(|error| error.to_string());
    }
}
