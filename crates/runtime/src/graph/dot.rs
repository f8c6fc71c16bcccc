//! Graphs in the language of Graphviz.

use std::fmt::Write;

use super::{EdgeKind, Graph};

impl Graph {
    /// Returns the graph in the language DOT, from which Graphviz draws it (`dot -Tsvg`).
    ///
    /// A node is a box with its name, its operation with the arguments, and its priority if it has one. The node whose
    /// result is that of the graph has a double border. A solid edge carries a result, and a dashed one is an order
    /// only. Any graph can be drawn, whether it passes [`check`](Graph::check) or not.
    pub fn to_dot(&self) -> String {
        let mut dot = format!("digraph {} {{\n  node [shape=box];\n", quote_dot(&self.name));
        let result = self.result_node();
        for (id, node) in self.iter() {
            let mut label = format!("{}\n{}", node.name, self.call_text(node));
            if let Some(priority) = node.priority {
                let _ = write!(label, "\n{}", priority.name().to_lowercase());
            }
            let border = if result == Some(id) { ", peripheries=2" } else { "" };
            let _ = writeln!(dot, "  n{id} [label={}{border}];", quote_dot(&label));
        }
        for (edge, kind) in self.all_edges() {
            let style = match kind {
                EdgeKind::Result => "",
                EdgeKind::Order => " [style=dashed]",
            };
            let _ = writeln!(dot, "  n{} -> n{}{style};", edge.from, edge.to);
        }
        dot.push_str("}\n");
        dot
    }
}

/// Returns a quoted string of DOT that is shown as this text. In a label, a backslash begins an escape and an ampersand
/// begins the name of a character.
fn quote_dot(text: &str) -> String {
    let mut quoted = String::from('"');
    for c in text.chars() {
        match c {
            '"' | '\\' => quoted.extend(['\\', c]),
            '&' => quoted.push_str("&amp;"),
            '\n' => quoted.push_str("\\n"),
            c if c.is_control() => quoted.push(char::REPLACEMENT_CHARACTER),
            c => quoted.push(c),
        }
    }
    quoted.push('"');
    quoted
}

#[cfg(test)]
mod tests {
    use super::quote_dot;

    #[test]
    fn what_dot_would_read_differently_is_escaped() {
        assert_eq!(quote_dot("a\\N \"b\"\n<&lt;>\0é"), r#""a\\N \"b\"\n<&amp;lt;>�é""#);
    }
}
