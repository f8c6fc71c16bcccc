//! Reads a `Spec` from text.

use std::path::{Path, PathBuf};

use pelton_ir::module::{Module, TextPlace};
use pelton_ir::text::{self, Diagnostic};
use pelton_ir::types::Access;
use pelton_ir::valid::validate;
use toml::de::DeTable;

use super::graph::read_graphs;
use super::table::{DiagnosticList, TomlTable, TomlValue, place_from_range, suggest};
use super::words::*;
use super::{Mistakes, TextError, load_text};
use crate::kernel::handler::{Handler, NamedHandler};
use crate::kernel::spec::{Claim, Geometry, Spec};
use crate::kernel::tenant::{Region, Tenant};
use crate::protocol::Opcode;
use crate::protocol::opcode::TABLE;

/// The text of a `Spec`, and what else it is read with.
#[derive(Clone, Copy)]
pub(super) struct SpecSource<'s> {
    /// The name of the text in diagrams.
    pub name: &'s str,
    pub text: &'s str,
    /// The folder in which files are looked up.
    pub folder: &'s Path,
    /// The `Spec` whose handlers keep their opcodes.
    pub before: &'s Spec,
}

/// Reads a `Spec`, and adds the files that it names to `files`.
pub(super) fn read_spec(source: SpecSource<'_>, files: &mut Vec<PathBuf>) -> Result<Spec, TextError> {
    let wrong = |list| Mistakes { name: source.name.into(), text: source.text.into(), list };
    let (root, mut errors) = DeTable::parse_recoverable(source.text);
    if !errors.is_empty() {
        errors.sort_by_key(|e| e.span().unwrap_or_default().start);
        let note = |e: &toml::de::Error| {
            let at = e.span().unwrap_or_default();
            Diagnostic::new("toml", place_from_range(at), e.message().trim().replace('\n', "; "))
        };
        return Err(TextError::Wrong(vec![wrong(errors.iter().map(note).collect())]));
    }
    let notes = DiagnosticList::default();
    let mut reader = SpecReader { source, files, others: Vec::new() };
    let table = TomlTable::new(root.get_ref(), 0..0, &notes);
    let spec = reader.read_root(&table);
    table.refuse_unknown_keys();
    let mut all = reader.others;
    let notes = notes.into_inner();
    if !notes.is_empty() {
        all.insert(0, wrong(notes));
    }
    if all.is_empty() { Ok(spec) } else { Err(TextError::Wrong(all)) }
}

struct SpecReader<'s> {
    source: SpecSource<'s>,
    /// The files that were named so far.
    files: &'s mut Vec<PathBuf>,
    /// The mistakes in the texts of handlers and libraries.
    others: Vec<Mistakes>,
}

impl SpecReader<'_> {
    fn read_root(&mut self, table: &TomlTable<'_>) -> Spec {
        let mut spec =
            Spec::new(table.get("geometry").and_then(|v| read_geometry(table, v)).unwrap_or_default());
        spec.lifetime = table.word_or_default("lifetime", LIFETIME);
        spec.placement = table.get("placement").and_then(|value| table.read_word(value, PLACEMENT));
        spec.claim = table.get("claim").and_then(|value| read_claim(table, value)).unwrap_or_default();
        spec.body = table.word_or_default("body", BODY);
        spec.io = table.word_or_default("io", IO);
        spec.report = table.word_or_default("report", REPORT);
        spec.telemetry = table.word_or_default("telemetry", TELEMETRY);
        spec.recovery = table.word_or_default("recovery", RECOVERY);
        spec.order = table.word_or_default("order", ORDER);
        spec.share = table.number_or("share", spec.share);
        if let Some(value) = table.get("lease") {
            match table.read_string(value).map(parse_duration) {
                Some(Ok(lease)) => spec.lease = lease,
                Some(Err(why)) => table.note_wrong(value.span(), why),
                None => {}
            }
        }
        spec.fuel = table.number_or("fuel", spec.fuel);
        spec.cells = table.number_or("cells", spec.cells);
        spec.spawn_cells = table.number_or("spawn_cells", spec.spawn_cells);
        spec.graph_instances = table.number_or("graph_instances", spec.graph_instances);
        spec.graph_nodes = table.number_or("graph_nodes", spec.graph_nodes);
        spec.events = table.number_or("events", spec.events);
        spec.max_steps = table.number_or("max_steps", spec.max_steps);
        spec.payload = table.bytes_or("payload", spec.payload, Spec::MAX_PLACE_BYTES);
        spec.reply = table.bytes_or("reply", spec.reply, Spec::MAX_PLACE_BYTES);
        let formats = table.array("formats").into_iter();
        spec.formats = formats.filter_map(|value| table.read_string(value)).map(String::from).collect();
        let libraries = table.array("libraries").into_iter();
        spec.libraries = libraries.filter_map(|value| self.read_library(table, value)).collect();
        let regions: Vec<Region> = table.table_array("region").into_iter().filter_map(read_region).collect();
        if regions.iter().any(|r| r.name == "data") {
            spec.regions.clear();
        }
        spec.regions.extend(regions);
        let handlers =
            table.table_array("handler").into_iter().filter_map(|t| self.read_handler(t)).collect();
        spec = with_handlers(spec, handlers, self.source.before);
        let tenants = table.table_array("tenant");
        if !tenants.is_empty() {
            spec.tenants = tenants.into_iter().filter_map(|t| read_tenant(t, &spec.handlers)).collect();
        }
        spec.graphs = read_graphs(table.table_array("graph"), &spec);
        spec
    }

    fn read_handler(&mut self, table: TomlTable<'_>) -> Option<(Option<Opcode>, String, Handler)> {
        let name = table.require("name").and_then(|value| table.read_string(value));
        let op = table.get("op").map(|value| table.read_number(value).map(Opcode::from_code));
        let width = table.word_or_default("width", WIDTH);
        let visible = table.word_or_default("visible", VISIBLE);
        let class = table.word_or_default("class", CLASS);
        let takes_over = table.flag("takes_over");
        let module = match (table.get("text"), table.get("file")) {
            (Some(value), None) => self.read_inline(&table, value, name.unwrap_or_default()),
            (None, Some(value)) => self.read_file(&table, value),
            (Some(_), Some(value)) => {
                table.note_wrong(value.span(), "a handler has a text or a file, not both");
                None
            }
            (None, None) => {
                // This reports that the text is missing.
                table.require("text");
                None
            }
        };
        table.refuse_unknown_keys();
        // A handler whose text is wrong is kept, so that tenants may still be allowed to use it.
        let handler = Handler::from_module(module.unwrap_or_default());
        let op = match op {
            Some(number) => Some(number?),
            None => None,
        };
        let handler = handler.width(width).visible(visible).class(class).takes_over(takes_over);
        Some((op, name?.into(), handler))
    }

    /// Reads a library, which is the name of a file or a table with a text.
    fn read_library(&mut self, table: &TomlTable<'_>, value: TomlValue<'_>) -> Option<Module> {
        if value.get_ref().is_str() {
            return self.read_file(table, value);
        }
        let inner = table.read_table(value)?;
        let module = inner.require("text").and_then(|text| self.read_inline(&inner, text, "library"));
        inner.refuse_unknown_keys();
        module
    }

    /// Reads a module whose text stands in the text of the `Spec`.
    fn read_inline(&mut self, table: &TomlTable<'_>, value: TomlValue<'_>, name: &str) -> Option<Module> {
        let source = table.read_string(value)?;
        let list = match parse_valid(source) {
            Ok(module) => return Some(module),
            Err(list) => list,
        };
        // A text without escapes stands there unchanged, so its mistakes can be shown in place.
        let span = value.span();
        match self.source.text.get(span.clone()).and_then(|raw| raw.find(source)) {
            Some(at) => list.into_iter().for_each(|d| table.note(shift_places(d, span.start + at))),
            None => self.others.push(Mistakes { name: name.into(), text: source.into(), list }),
        }
        None
    }

    /// Reads a module from a file.
    fn read_file(&mut self, table: &TomlTable<'_>, value: TomlValue<'_>) -> Option<Module> {
        let path = self.source.folder.join(table.read_string(value)?);
        if !self.files.contains(&path) {
            self.files.push(path.clone());
        }
        let text = match load_text(&path) {
            Ok(text) => text,
            Err(error) => {
                table.note_wrong(value.span(), format!("cannot read {}: {error}", path.display()));
                return None;
            }
        };
        match parse_valid(&text) {
            Ok(module) => Some(module),
            Err(list) => {
                self.others.push(Mistakes { name: path.display().to_string(), text, list });
                None
            }
        }
    }
}

/// Adds handlers in the order of the text. Those without an opcode keep the one that they had before, or get the lowest that
/// no handler has or had.
fn with_handlers(mut spec: Spec, handlers: Vec<(Option<Opcode>, String, Handler)>, before: &Spec) -> Spec {
    let mut numbered: Vec<Opcode> = handlers.iter().filter_map(|(op, ..)| *op).collect();
    let old = || before.handlers.iter().map(|known| known.op);
    for (op, name, handler) in handlers {
        let known = before.handlers.iter().find(|known| known.name == name).map(|known| known.op);
        let kept = known.filter(|op| !numbered.contains(op));
        let op = op.or(kept).or_else(|| Opcode::lowest_free(numbered.iter().copied().chain(old())));
        numbered.extend(op);
        spec = match op {
            Some(op) => spec.handler_at(op, name, handler),
            None => spec.handler(name, handler),
        };
    }
    spec
}

/// Returns the module of a text, or its mistakes if it is not valid.
fn parse_valid(source: &str) -> Result<Module, Vec<Diagnostic>> {
    let module = text::parse(source)?;
    match validate(module.clone()) {
        Ok(_) => Ok(module),
        Err(invalid) => Err(invalid.diagnostics()),
    }
}

/// Returns the diagnostic with all of its places moved by a number of bytes.
fn shift_places(mut diagnostic: Diagnostic, by: usize) -> Diagnostic {
    let shift = |p: TextPlace| place_from_range(p.start as usize + by..p.end as usize + by);
    diagnostic.place = shift(diagnostic.place);
    for (also, _) in &mut diagnostic.also {
        *also = shift(*also);
    }
    diagnostic
}

fn read_geometry(table: &TomlTable<'_>, value: TomlValue<'_>) -> Option<Geometry> {
    let table = table.read_table(value)?;
    let number = |key| table.get(key).and_then(|value| table.read_number(value));
    let mut geometry = number("slots").map_or_else(Geometry::default, Geometry::new);
    geometry.lanes = number("lanes");
    geometry.groups = number("groups");
    geometry.window = number("window").unwrap_or(geometry.window);
    table.refuse_unknown_keys();
    Some(geometry)
}

/// Reads `"owned"`, `"priority"` or `{ priority = { every = 8 } }`.
fn read_claim(table: &TomlTable<'_>, value: TomlValue<'_>) -> Option<Claim> {
    if value.get_ref().is_str() {
        return table.read_word(value, CLAIM);
    }
    let outer = table.read_table(value)?;
    let inner = outer.require("priority").and_then(|value| outer.read_table(value));
    outer.refuse_unknown_keys();
    let inner = inner?;
    let every = inner.require("every").and_then(|value| inner.read_number(value));
    inner.refuse_unknown_keys();
    Some(Claim::Priority { every: every? })
}

fn read_region(table: TomlTable<'_>) -> Option<Region> {
    let name = table.require("name").and_then(|value| table.read_string(value));
    let elem = table.require("type").and_then(|value| table.read_word(value, TYPE));
    let len = table.require("len").and_then(|value| table.read_number(value));
    let access = table.get("access").and_then(|value| table.read_word(value, ACCESS));
    let shared = table.flag("shared");
    let retention = table.word_or_default("retention", RETENTION);
    let memory = table.word_or_default("memory", REGION_MEMORY);
    table.refuse_unknown_keys();
    let access = access.unwrap_or(if shared { Access::Read } else { Access::ReadWrite });
    Some(Region { access, shared, retention, memory, ..Region::new(name?, elem?, len?) })
}

fn read_tenant(table: TomlTable<'_>, handlers: &[NamedHandler]) -> Option<Tenant> {
    let id = table.require("id").and_then(|value| table.read_number(value));
    let mut tenant = Tenant::new(id.unwrap_or_default());
    if let Some(name) = table.get("name").and_then(|value| table.read_string(value)) {
        tenant.name = name.into();
    }
    tenant.producers = table.number_or("producers", tenant.producers);
    let mask = table.get("mask");
    if let Some(value) = table.get("allow") {
        if mask.is_some() {
            table.note_wrong(value.span(), "a tenant has `allow` or `mask`, not both");
        }
        let ops = table.array("allow").into_iter();
        tenant.mask =
            ops.filter_map(|v| read_allowed(&table, v, handlers)).fold(0, |mask, op| mask | op.mask_bit());
    }
    if let Some(mask) = mask.and_then(|value| table.read_number(value)) {
        tenant.mask = mask;
    }
    tenant.weight = table.get("weight").and_then(|value| table.read_number(value));
    tenant.quota = table.number_or("quota", tenant.quota);
    tenant.observables = table.number_or("observables", tenant.observables);
    if let Some(sizes) = table.get("size").and_then(|value| table.read_table(value)) {
        for (name, value) in sizes.entries() {
            if let Some(len) = sizes.read_number(value) {
                tenant.sizes.push((name.into(), len));
            }
        }
    }
    table.refuse_unknown_keys();
    id.map(|_| tenant)
}

/// An opcode that a tenant may use: the name of a handler, a built-in one, or a number.
fn read_allowed(table: &TomlTable<'_>, value: TomlValue<'_>, handlers: &[NamedHandler]) -> Option<Opcode> {
    if value.get_ref().is_integer() {
        return table.read_number(value).map(Opcode::from_code);
    }
    let name = table.read_string(value)?;
    let own = handlers.iter().find(|h| h.name == name).map(|h| h.op);
    let found = own.or_else(|| Opcode::from_name(name));
    if found.is_none() {
        let names: Vec<&str> =
            handlers.iter().map(|h| h.name.as_str()).chain(TABLE.iter().map(|r| r.name)).collect();
        table.note_wrong(value.span(), format!("there is no opcode `{name}`; {}", suggest(name, &names)));
    }
    found
}
