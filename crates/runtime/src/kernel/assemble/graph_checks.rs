//! What can be wrong with the graphs of a `Spec`.

use std::collections::HashSet;

use crate::kernel::error::AssembleError;
use crate::kernel::spec::{Lifetime, Spec};

/// Refuses graphs that cannot run, that share a name, or that nothing could launch.
pub(super) fn check_graphs(spec: &Spec) -> Result<(), AssembleError> {
    let mut names = HashSet::new();
    for graph in &spec.graphs {
        let name = || graph.name.clone();
        graph.check(spec).map_err(|source| AssembleError::Graph { name: name(), source })?;
        if !names.insert(&graph.name) {
            return Err(AssembleError::DuplicateGraph { name: name() });
        }
    }
    if spec.lifetime == Lifetime::Drain && !spec.graphs.is_empty() {
        let why = "a drained batch cannot launch graphs";
        return Err(AssembleError::Axis { axis: "lifetime", value: "drain", why });
    }
    Ok(())
}
