//! Writes a `Spec` as text.

use std::fmt::{Formatter, Result, Write};

use pelton_ir::text;

use super::graph::print_graph;
use super::words::*;
use crate::kernel::handler::NamedHandler;
use crate::kernel::spec::{Claim, Spec};
use crate::kernel::tenant::{Region, Tenant};

pub(super) fn print_spec(spec: &Spec, f: &mut Formatter<'_>) -> Result {
    let Spec { geometry, share, fuel, max_steps, cells, .. } = spec;
    writeln!(f, "lifetime = {:?}", word_of(LIFETIME, &spec.lifetime))?;
    if let Some(placement) = &spec.placement {
        writeln!(f, "placement = {:?}", word_of(PLACEMENT, placement))?;
    }
    match spec.claim {
        Claim::Priority { every } => writeln!(f, "claim = {{ priority = {{ every = {every} }} }}")?,
        claim => writeln!(f, "claim = {:?}", word_of(CLAIM, &claim))?,
    }
    writeln!(f, "body = {:?}", word_of(BODY, &spec.body))?;
    writeln!(f, "io = {:?}", word_of(IO, &spec.io))?;
    writeln!(f, "report = {:?}", word_of(REPORT, &spec.report))?;
    writeln!(f, "telemetry = {:?}", word_of(TELEMETRY, &spec.telemetry))?;
    writeln!(f, "recovery = {:?}", word_of(RECOVERY, &spec.recovery))?;
    writeln!(f, "order = {:?}", word_of(ORDER, &spec.order))?;
    writeln!(f, "share = {share}")?;
    writeln!(f, "lease = {:?}", print_duration(spec.lease))?;
    writeln!(f, "fuel = {fuel}")?;
    writeln!(f, "max_steps = {max_steps}")?;
    writeln!(f, "cells = {cells}")?;
    writeln!(f, "spawn_cells = {}", spec.spawn_cells)?;
    writeln!(f, "graph_instances = {}", spec.graph_instances)?;
    let (payload, reply) = (("payload", spec.payload), ("reply", spec.reply));
    for (key, number) in [("events", spec.events), ("graph_nodes", spec.graph_nodes), payload, reply] {
        if number > 0 {
            writeln!(f, "{key} = {number}")?;
        }
    }
    if !spec.formats.is_empty() {
        let formats: Vec<String> = spec.formats.iter().map(|format| quote_toml(format)).collect();
        writeln!(f, "formats = [{}]", formats.join(", "))?;
    }
    if !spec.libraries.is_empty() {
        let texts =
            spec.libraries.iter().map(|module| format!("{{ text = {} }}", quote_toml(&text::print(module))));
        writeln!(f, "libraries = [{}]", texts.collect::<Vec<_>>().join(", "))?;
    }
    writeln!(f, "\n[geometry]\nslots = {}", geometry.slots)?;
    for (key, value) in [("lanes", geometry.lanes), ("groups", geometry.groups)] {
        if let Some(value) = value {
            writeln!(f, "{key} = {value}")?;
        }
    }
    writeln!(f, "window = {}", geometry.window)?;
    spec.regions.iter().try_for_each(|r| print_region(r, f))?;
    spec.tenants.iter().try_for_each(|t| print_tenant(t, f))?;
    spec.handlers.iter().try_for_each(|h| print_handler(h, f))?;
    spec.graphs.iter().try_for_each(|g| print_graph(g, f))
}

fn print_region(region: &Region, f: &mut Formatter<'_>) -> Result {
    writeln!(f, "\n[[region]]\nname = {}", quote_toml(&region.name))?;
    writeln!(f, "type = {:?}\nlen = {}", word_of(TYPE, &region.elem), region.len)?;
    writeln!(f, "access = {:?}\nshared = {}", word_of(ACCESS, &region.access), region.shared)?;
    writeln!(f, "retention = {:?}", word_of(RETENTION, &region.retention))?;
    writeln!(f, "memory = {:?}", word_of(REGION_MEMORY, &region.memory))
}

fn print_tenant(tenant: &Tenant, f: &mut Formatter<'_>) -> Result {
    writeln!(f, "\n[[tenant]]\nid = {}\nname = {}", tenant.id, quote_toml(&tenant.name))?;
    writeln!(f, "producers = {}\nmask = {:#x}", tenant.producers, tenant.mask)?;
    if let Some(weight) = tenant.weight {
        writeln!(f, "weight = {weight}")?;
    }
    writeln!(f, "quota = {}\nobservables = {}", tenant.quota, tenant.observables)?;
    if !tenant.sizes.is_empty() {
        let sizes = tenant.sizes.iter().map(|(name, len)| format!("{} = {len}", quote_toml(name)));
        writeln!(f, "size = {{ {} }}", sizes.collect::<Vec<_>>().join(", "))?;
    }
    Ok(())
}

fn print_handler(handler: &NamedHandler, f: &mut Formatter<'_>) -> Result {
    writeln!(f, "\n[[handler]]\nname = {}\nop = {:#x}", quote_toml(&handler.name), handler.op.code())?;
    writeln!(f, "width = {:?}", word_of(WIDTH, &handler.width))?;
    writeln!(f, "visible = {:?}", word_of(VISIBLE, &handler.visible))?;
    writeln!(f, "class = {:?}", word_of(CLASS, &handler.class))?;
    writeln!(f, "takes_over = {}", handler.takes_over)?;
    let text = text::print(&handler.module);
    if text.contains("'''") || text.contains(|c: char| c.is_control() && c != '\n') {
        writeln!(f, "text = {}", quote_toml(&text))
    } else {
        writeln!(f, "text = '''\n{text}'''")
    }
}

/// Returns a string as a quoted string of TOML.
pub(super) fn quote_toml(text: &str) -> String {
    let mut quoted = String::from('"');
    for c in text.chars() {
        match c {
            '"' | '\\' => quoted.extend(['\\', c]),
            '\n' => quoted.push_str("\\n"),
            c if c.is_control() => {
                let _ = write!(quoted, "\\u{:04x}", c as u32);
            }
            c => quoted.push(c),
        }
    }
    quoted.push('"');
    quoted
}
