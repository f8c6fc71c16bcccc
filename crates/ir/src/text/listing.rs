//! Printing a module together with the places of its parts, or with notes.

use super::PrintedLine;
use super::print::{Hook, ModulePrinter, push};
use crate::arena::{Buffer, Func, Handle, Region};
use crate::module::{DebugInfo, Module, Site, TextPlace};

/// The printed text of a module, with the place of each part of the module in it. Diagnostics of a module that did not
/// come from text are rendered over its listing.
#[derive(Clone, Debug, Default)]
pub struct Listing {
    /// The printed text.
    pub text: String,
    buffers: Vec<TextPlace>,
    functions: Vec<DebugInfo>,
}

impl Listing {
    /// Returns the place of a buffer's declaration.
    pub fn buffer(&self, buffer: Buffer) -> TextPlace {
        self.buffers.get(buffer.index()).copied().unwrap_or_default()
    }

    /// Returns the place of a function's head.
    pub fn head(&self, func: Func) -> TextPlace {
        self.functions.get(func.index()).map(|debug| debug.head).unwrap_or_default()
    }

    /// Returns the place of an instruction. An instruction that is not printed has the place at which its region ends.
    pub fn inst(&self, site: Site) -> TextPlace {
        self.functions.get(site.func.index()).and_then(|debug| debug.place(site.inst)).unwrap_or_default()
    }

    /// Returns the place at which a region ends.
    pub fn end(&self, func: Func, region: Region) -> TextPlace {
        let ends = self.functions.get(func.index()).map_or(&[][..], |debug| &debug.ends);
        ends.get(region.index()).copied().unwrap_or_default()
    }
}

/// Prints a module and records the place of each of its parts.
pub fn print_listing(module: &Module) -> Listing {
    let room = |(_, function): (Func, &crate::module::Function)| DebugInfo {
        places: vec![TextPlace::default(); function.insts.len()],
        ends: vec![TextPlace::default(); function.regions.len()],
        ..DebugInfo::default()
    };
    let hook = Listing {
        text: String::new(),
        buffers: vec![TextPlace::default(); module.buffers.len()],
        functions: module.functions.iter().map(room).collect(),
    };
    let (text, listing) = ModulePrinter::new(module, hook).module();
    Listing { text, ..listing }
}

impl Hook for Listing {
    fn mark(&mut self, line: PrintedLine, place: TextPlace) {
        match line {
            PrintedLine::Buffer(buffer) => self.buffers[buffer.index()] = place,
            PrintedLine::Head(func) => self.functions[func.index()].head = place,
            PrintedLine::Inst(func, inst) => self.functions[func.index()].places[inst.index()] = place,
            PrintedLine::End(func, region) => self.functions[func.index()].ends[region.index()] = place,
            PrintedLine::Need(_) | PrintedLine::Arm(..) | PrintedLine::Close(..) => {}
        }
    }
}

/// Prints a module with a comment after each instruction for which `note` returns one. Notes about instructions that
/// are not printed are lost.
pub fn print_annotated(module: &Module, note: impl Fn(Site) -> Option<String>) -> String {
    ModulePrinter::new(module, InstNotes(note)).module().0
}

/// The hook of the printer that adds notes.
struct InstNotes<F>(F);

impl<F: Fn(Site) -> Option<String>> Hook for InstNotes<F> {
    fn after(&mut self, line: PrintedLine, out: &mut String) {
        let PrintedLine::Inst(func, inst) = line else { return };
        if let Some(note) = (self.0)(Site { func, inst }) {
            // A comment ends with its line.
            push(out, format_args!("  ; {}", note.replace(['\n', '\r'], " ")));
        }
    }
}
