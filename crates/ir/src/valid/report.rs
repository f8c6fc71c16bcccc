//! Rendering of errors over the text that a module came from, or over its printed listing.

use super::error::{ErrorSite, Invalid};
use crate::module::{Module, TextPlace};
use crate::text::{self, ColorMode, Diagnostic};

impl Invalid {
    /// Returns the errors with their places in the text that the module came from.
    pub fn diagnostics(&self) -> Vec<Diagnostic> {
        self.place(|site| source(&self.module, site))
    }

    /// Renders the errors over the text that the module came from or, if `source` is `None`, over a listing of the
    /// module. `name` is the name of the file that the report shows.
    pub fn report(&self, name: &str, source: Option<&str>, color: ColorMode) -> String {
        if let Some(source) = source {
            return text::render_diagnostics(name, source, &self.diagnostics(), color);
        }
        let listing = text::print_listing(&self.module);
        let list = self.place(|site| match site {
            ErrorSite::Module => TextPlace::default(),
            ErrorSite::Buffer(buffer) => listing.buffer(buffer),
            ErrorSite::Function(func) => listing.head(func),
            ErrorSite::Inst(site) => listing.inst(site),
        });
        text::render_diagnostics(name, &listing.text, &list, color)
    }

    fn place(&self, place: impl Fn(ErrorSite) -> TextPlace) -> Vec<Diagnostic> {
        let one = |error: &super::ValidationError| {
            let mut one = Diagnostic::new(error.rule.code(), place(error.site), error.message.clone());
            one.also = error.notes.iter().map(|note| (place(note.site), note.message.clone())).collect();
            one
        };
        let mut list: Vec<Diagnostic> = self.errors.iter().map(one).collect();
        if let (Some(last), 1..) = (list.last_mut(), self.more) {
            last.notes.push(format!("{} more errors are not shown", self.more));
        }
        list
    }
}

/// Returns the place of a part of a module in its source text. A part that did not come from text is placed at the
/// start.
fn source(module: &Module, site: ErrorSite) -> TextPlace {
    let place = match site {
        ErrorSite::Module => None,
        ErrorSite::Buffer(buffer) => module.buffers.get(buffer).map(|decl| decl.place),
        ErrorSite::Function(func) => module.functions.get(func).map(|function| function.debug.head),
        ErrorSite::Inst(site) => module.functions.get(site.func).and_then(|f| f.debug.place(site.inst)),
    };
    place.unwrap_or_default()
}
