//! From text to a `Spec`.

use std::path::Path;

use pelton_ir::module::{Module, Place};
use pelton_ir::text::{self, Diagnostic};
use pelton_ir::types::Access;
use pelton_ir::valid::validate;
use toml::de::DeTable;

use super::table::{Notes, Table, Value, hint, place};
use super::words::*;
use super::{Mistakes, TextError, load};
use crate::kernel::handler::{Handler, NamedHandler};
use crate::kernel::spec::{Claim, Geometry, Spec};
use crate::kernel::tenant::{Region, Tenant};
use crate::protocol::Opcode;
use crate::protocol::opcode::TABLE;

/// Reads a `Spec`. Diagrams call the text by its name; files are looked for in the folder.
pub(super) fn spec(name: &str, source: &str, folder: &Path) -> Result<Spec, TextError> {
    let wrong = |list| Mistakes { name: name.into(), text: source.into(), list };
    let (root, mut errors) = DeTable::parse_recoverable(source);
    if !errors.is_empty() {
        errors.sort_by_key(|e| e.span().unwrap_or_default().start);
        let note = |e: &toml::de::Error| {
            let at = e.span().unwrap_or_default();
            Diagnostic::new("toml", place(at), e.message().trim().replace('\n', "; "))
        };
        return Err(TextError::Wrong(vec![wrong(errors.iter().map(note).collect())]));
    }
    let notes = Notes::default();
    let mut reader = Reader { source, folder, others: Vec::new() };
    let table = Table::new(root.get_ref(), 0..0, &notes);
    let spec = reader.spec(&table);
    table.finish();
    let mut all = reader.others;
    let notes = notes.into_inner();
    if !notes.is_empty() {
        all.insert(0, wrong(notes));
    }
    if all.is_empty() { Ok(spec) } else { Err(TextError::Wrong(all)) }
}

struct Reader<'s> {
    source: &'s str,
    folder: &'s Path,
    /// What is wrong with other texts.
    others: Vec<Mistakes>,
}

impl Reader<'_> {
    fn spec(&mut self, table: &Table<'_>) -> Spec {
        let mut spec = Spec::new(table.get("geometry").and_then(|v| geometry(table, v)).unwrap_or_default());
        spec.lifetime = table.axis("lifetime", LIFETIME);
        spec.placement = table.get("placement").and_then(|value| table.word(value, PLACEMENT));
        spec.claim = table.get("claim").and_then(|value| claim(table, value)).unwrap_or_default();
        spec.body = table.axis("body", BODY);
        spec.io = table.axis("io", IO);
        spec.report = table.axis("report", REPORT);
        spec.telemetry = table.axis("telemetry", TELEMETRY);
        spec.share = table.size("share", spec.share);
        if let Some(value) = table.get("lease") {
            match table.string(value).map(duration) {
                Some(Ok(lease)) => spec.lease = lease,
                Some(Err(why)) => table.wrong(value.span(), why),
                None => {}
            }
        }
        spec.fuel = table.size("fuel", spec.fuel);
        let formats = table.list("formats").into_iter();
        spec.formats = formats.filter_map(|value| table.string(value)).map(String::from).collect();
        let libraries = table.list("libraries").into_iter();
        spec.libraries = libraries.filter_map(|value| self.library(table, value)).collect();
        let regions: Vec<Region> = table.tables("region").into_iter().filter_map(region).collect();
        if regions.iter().any(|r| r.name == "data") {
            spec.regions.clear();
        }
        spec.regions.extend(regions);
        let handlers = table.tables("handler").into_iter().filter_map(|t| self.handler(t)).collect();
        spec = with_handlers(spec, handlers);
        let tenants = table.tables("tenant");
        if !tenants.is_empty() {
            spec.tenants = tenants.into_iter().filter_map(|t| tenant(t, &spec.handlers)).collect();
        }
        spec
    }

    fn handler(&mut self, table: Table<'_>) -> Option<(Option<Opcode>, String, Handler)> {
        let name = table.need("name").and_then(|value| table.string(value));
        let op = table.get("op").map(|value| table.number(value).map(Opcode::from_code));
        let width = table.axis("width", WIDTH);
        let visible = table.axis("visible", VISIBLE);
        let class = table.axis("class", CLASS);
        let module = match (table.get("text"), table.get("file")) {
            (Some(value), None) => self.inline(&table, value, name.unwrap_or_default()),
            (None, Some(value)) => self.file(&table, value),
            (Some(_), Some(value)) => {
                table.wrong(value.span(), "a handler has a text or a file, not both");
                None
            }
            (None, None) => {
                // Asking is what says that it is missing.
                table.need("text");
                None
            }
        };
        table.finish();
        // One whose text is wrong is still one that tenants can be allowed.
        let handler = Handler::from_module(module.unwrap_or_default());
        let op = match op {
            Some(number) => Some(number?),
            None => None,
        };
        Some((op, name?.into(), handler.width(width).visible(visible).class(class)))
    }

    /// The module of a library: a file, or a table with a text.
    fn library(&mut self, table: &Table<'_>, value: Value<'_>) -> Option<Module> {
        if value.get_ref().is_str() {
            return self.file(table, value);
        }
        let inner = table.table(value)?;
        let module = inner.need("text").and_then(|text| self.inline(&inner, text, "library"));
        inner.finish();
        module
    }

    /// The module of a text that stands in the `Spec`'s.
    fn inline(&mut self, table: &Table<'_>, value: Value<'_>, name: &str) -> Option<Module> {
        let source = table.string(value)?;
        let list = match checked(source) {
            Ok(module) => return Some(module),
            Err(list) => list,
        };
        // A text without escapes stands there as it is, so its mistakes can be shown in place.
        let span = value.span();
        match self.source.get(span.clone()).and_then(|raw| raw.find(source)) {
            Some(at) => list.into_iter().for_each(|d| table.note(shifted(d, span.start + at))),
            None => self.others.push(Mistakes { name: name.into(), text: source.into(), list }),
        }
        None
    }

    /// The module of a file.
    fn file(&mut self, table: &Table<'_>, value: Value<'_>) -> Option<Module> {
        let path = self.folder.join(table.string(value)?);
        let text = match load(&path) {
            Ok(text) => text,
            Err(error) => {
                table.wrong(value.span(), format!("cannot read {}: {error}", path.display()));
                return None;
            }
        };
        match checked(&text) {
            Ok(module) => Some(module),
            Err(list) => {
                self.others.push(Mistakes { name: path.display().to_string(), text, list });
                None
            }
        }
    }
}

/// Adds handlers in the order of the text. Those without an opcode get the lowest that no handler of the text names.
fn with_handlers(mut spec: Spec, handlers: Vec<(Option<Opcode>, String, Handler)>) -> Spec {
    let mut numbered: Vec<Opcode> = handlers.iter().filter_map(|(op, ..)| *op).collect();
    for (op, name, handler) in handlers {
        let op = op.or_else(|| Opcode::lowest_free(numbered.iter().copied()));
        numbered.extend(op);
        spec = match op {
            Some(op) => spec.handler_at(op, name, handler),
            None => spec.handler(name, handler),
        };
    }
    spec
}

/// The module of a text, if there is nothing wrong with it.
fn checked(source: &str) -> Result<Module, Vec<Diagnostic>> {
    let module = text::parse(source)?;
    match validate(module.clone()) {
        Ok(_) => Ok(module),
        Err(invalid) => Err(invalid.diagnostics()),
    }
}

/// The same, so many bytes further on.
fn shifted(mut diagnostic: Diagnostic, by: usize) -> Diagnostic {
    let shift = |p: Place| place(p.start as usize + by..p.end as usize + by);
    diagnostic.place = shift(diagnostic.place);
    for (also, _) in &mut diagnostic.also {
        *also = shift(*also);
    }
    diagnostic
}

fn geometry(table: &Table<'_>, value: Value<'_>) -> Option<Geometry> {
    let table = table.table(value)?;
    let number = |key| table.get(key).and_then(|value| table.number(value));
    let mut geometry = number("slots").map_or_else(Geometry::default, Geometry::new);
    geometry.lanes = number("lanes");
    geometry.groups = number("groups");
    geometry.window = number("window").unwrap_or(geometry.window);
    table.finish();
    Some(geometry)
}

/// `"owned"`, `"priority"` or `{ priority = { every = 8 } }`.
fn claim(table: &Table<'_>, value: Value<'_>) -> Option<Claim> {
    if value.get_ref().is_str() {
        return table.word(value, CLAIM);
    }
    let outer = table.table(value)?;
    let inner = outer.need("priority").and_then(|value| outer.table(value));
    outer.finish();
    let inner = inner?;
    let every = inner.need("every").and_then(|value| inner.number(value));
    inner.finish();
    Some(Claim::Priority { every: every? })
}

fn region(table: Table<'_>) -> Option<Region> {
    let name = table.need("name").and_then(|value| table.string(value));
    let elem = table.need("type").and_then(|value| table.word(value, TYPE));
    let len = table.need("len").and_then(|value| table.number(value));
    let access = table.get("access").and_then(|value| table.word(value, ACCESS));
    let shared = table.get("shared").and_then(|value| table.flag(value)).unwrap_or(false);
    table.finish();
    let access = access.unwrap_or(if shared { Access::Read } else { Access::ReadWrite });
    Some(Region { access, shared, ..Region::new(name?, elem?, len?) })
}

fn tenant(table: Table<'_>, handlers: &[NamedHandler]) -> Option<Tenant> {
    let id = table.need("id").and_then(|value| table.number(value));
    let mut tenant = Tenant::new(id.unwrap_or_default());
    if let Some(name) = table.get("name").and_then(|value| table.string(value)) {
        tenant.name = name.into();
    }
    tenant.producers = table.size("producers", tenant.producers);
    let mask = table.get("mask");
    if let Some(value) = table.get("allow") {
        if mask.is_some() {
            table.wrong(value.span(), "a tenant has `allow` or `mask`, not both");
        }
        let ops = table.list("allow").into_iter();
        tenant.mask =
            ops.filter_map(|v| allowed(&table, v, handlers)).fold(0, |mask, op| mask | op.mask_bit());
    }
    if let Some(mask) = mask.and_then(|value| table.number(value)) {
        tenant.mask = mask;
    }
    tenant.quota = table.size("quota", tenant.quota);
    tenant.observables = table.size("observables", tenant.observables);
    if let Some(sizes) = table.get("size").and_then(|value| table.table(value)) {
        for (name, value) in sizes.entries() {
            if let Some(len) = sizes.number(value) {
                tenant.sizes.push((name.into(), len));
            }
        }
    }
    table.finish();
    id.map(|_| tenant)
}

/// An opcode that a tenant may use: the name of a handler, a built-in one, or a number.
fn allowed(table: &Table<'_>, value: Value<'_>, handlers: &[NamedHandler]) -> Option<Opcode> {
    if value.get_ref().is_integer() {
        return table.number(value).map(Opcode::from_code);
    }
    let name = table.string(value)?;
    let own = handlers.iter().find(|h| h.name == name).map(|h| h.op);
    let found = own.or_else(|| Opcode::from_name(name));
    if found.is_none() {
        let names: Vec<&str> =
            handlers.iter().map(|h| h.name.as_str()).chain(TABLE.iter().map(|r| r.name)).collect();
        table.wrong(value.span(), format!("there is no opcode `{name}`; {}", hint(name, &names)));
    }
    found
}
