//! From a `Spec` to text.

use std::fmt::{Formatter, Result, Write};

use pelton_ir::text;

use super::words::*;
use crate::kernel::handler::NamedHandler;
use crate::kernel::spec::{Claim, Spec};
use crate::kernel::tenant::{Region, Tenant};

pub(super) fn spec(spec: &Spec, f: &mut Formatter<'_>) -> Result {
    let Spec { geometry, share, fuel, .. } = spec;
    writeln!(f, "lifetime = {:?}", spell(LIFETIME, &spec.lifetime))?;
    if let Some(placement) = &spec.placement {
        writeln!(f, "placement = {:?}", spell(PLACEMENT, placement))?;
    }
    match spec.claim {
        Claim::Priority { every } => writeln!(f, "claim = {{ priority = {{ every = {every} }} }}")?,
        claim => writeln!(f, "claim = {:?}", spell(CLAIM, &claim))?,
    }
    writeln!(f, "body = {:?}", spell(BODY, &spec.body))?;
    writeln!(f, "io = {:?}", spell(IO, &spec.io))?;
    writeln!(f, "report = {:?}", spell(REPORT, &spec.report))?;
    writeln!(f, "telemetry = {:?}", spell(TELEMETRY, &spec.telemetry))?;
    writeln!(f, "share = {share}")?;
    writeln!(f, "lease = {:?}", time(spec.lease))?;
    writeln!(f, "fuel = {fuel}")?;
    if !spec.formats.is_empty() {
        let formats: Vec<String> = spec.formats.iter().map(|format| quote(format)).collect();
        writeln!(f, "formats = [{}]", formats.join(", "))?;
    }
    if !spec.libraries.is_empty() {
        let texts =
            spec.libraries.iter().map(|module| format!("{{ text = {} }}", quote(&text::print(module))));
        writeln!(f, "libraries = [{}]", texts.collect::<Vec<_>>().join(", "))?;
    }
    writeln!(f, "\n[geometry]\nslots = {}", geometry.slots)?;
    for (key, value) in [("lanes", geometry.lanes), ("groups", geometry.groups)] {
        if let Some(value) = value {
            writeln!(f, "{key} = {value}")?;
        }
    }
    writeln!(f, "window = {}", geometry.window)?;
    spec.regions.iter().try_for_each(|r| region(r, f))?;
    spec.tenants.iter().try_for_each(|t| tenant(t, f))?;
    spec.handlers.iter().try_for_each(|h| handler(h, f))
}

fn region(region: &Region, f: &mut Formatter<'_>) -> Result {
    writeln!(f, "\n[[region]]\nname = {}", quote(&region.name))?;
    writeln!(f, "type = {:?}\nlen = {}", spell(TYPE, &region.elem), region.len)?;
    writeln!(f, "access = {:?}\nshared = {}", spell(ACCESS, &region.access), region.shared)
}

fn tenant(tenant: &Tenant, f: &mut Formatter<'_>) -> Result {
    writeln!(f, "\n[[tenant]]\nid = {}\nname = {}", tenant.id, quote(&tenant.name))?;
    writeln!(f, "producers = {}\nmask = {:#x}", tenant.producers, tenant.mask)?;
    writeln!(f, "quota = {}\nobservables = {}", tenant.quota, tenant.observables)?;
    if !tenant.sizes.is_empty() {
        let sizes = tenant.sizes.iter().map(|(name, len)| format!("{} = {len}", quote(name)));
        writeln!(f, "size = {{ {} }}", sizes.collect::<Vec<_>>().join(", "))?;
    }
    Ok(())
}

fn handler(handler: &NamedHandler, f: &mut Formatter<'_>) -> Result {
    writeln!(f, "\n[[handler]]\nname = {}\nop = {:#x}", quote(&handler.name), handler.op.code())?;
    writeln!(f, "width = {:?}", spell(WIDTH, &handler.width))?;
    writeln!(f, "visible = {:?}", spell(VISIBLE, &handler.visible))?;
    writeln!(f, "class = {:?}", spell(CLASS, &handler.class))?;
    let text = text::print(&handler.module);
    if text.contains("'''") || text.contains(|c: char| c.is_control() && c != '\n') {
        writeln!(f, "text = {}", quote(&text))
    } else {
        writeln!(f, "text = '''\n{text}'''")
    }
}

/// A string as TOML writes it.
fn quote(text: &str) -> String {
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
