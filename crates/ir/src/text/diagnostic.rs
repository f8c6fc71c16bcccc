//! Diagnostics, which say what is wrong with a text and can be rendered for people.

use std::fmt;
use std::ops::Range;

use annotate_snippets::{AnnotationKind, Group, Level, Origin, Renderer, Snippet};

use crate::module::TextPlace;

/// A mistake in a text, and its place.
#[derive(Clone, Debug)]
pub struct Diagnostic {
    /// The code of the rule that is broken, in kebab-case.
    pub code: &'static str,
    /// What is wrong, as a lower-case clause.
    pub message: String,
    /// The place of the mistake.
    pub place: TextPlace,
    /// What is shown beside the place. It may be empty.
    pub label: String,
    /// Further remarks that help to fix the mistake.
    pub notes: Vec<String>,
    /// Other places that have to do with the mistake, and what they have to do with it.
    pub also: Vec<(TextPlace, String)>,
}

impl Diagnostic {
    /// Creates a diagnostic without a label and without notes.
    pub fn new(code: &'static str, place: TextPlace, message: String) -> Self {
        Diagnostic { code, message, place, label: String::new(), notes: Vec::new(), also: Vec::new() }
    }

    /// Sets what is shown beside the place.
    pub fn label(self, label: impl Into<String>) -> Self {
        Diagnostic { label: label.into(), ..self }
    }

    /// Adds a remark that helps to fix the mistake.
    pub fn note(mut self, note: impl Into<String>) -> Self {
        self.notes.push(note.into());
        self
    }

    /// Adds another place that has to do with the mistake, and what it has to do with it.
    pub fn also(mut self, place: TextPlace, how: impl Into<String>) -> Self {
        self.also.push((place, how.into()));
        self
    }
}

/// Prints the message alone, as errors do.
impl fmt::Display for Diagnostic {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

/// Whether rendered diagnostics have colors.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub enum ColorMode {
    /// Text alone, for files and for programs that read the output.
    #[default]
    Plain,
    /// ANSI escape sequences, for terminals.
    Ansi,
}

impl ColorMode {
    /// Returns `Ansi` if colors are wanted and `Plain` if they are not.
    pub fn from_flag(colors: bool) -> Self {
        if colors { ColorMode::Ansi } else { ColorMode::Plain }
    }
}

/// Renders each diagnostic of a list together with the line of the text that it is about. `name` is the name of the
/// file that is shown. A place that is not inside the text is moved to the nearest position that is.
pub fn render_diagnostics(name: &str, text: &str, list: &[Diagnostic], color: ColorMode) -> String {
    let renderer = match color {
        ColorMode::Ansi => Renderer::styled(),
        ColorMode::Plain => Renderer::plain(),
    };
    let breaks: Vec<usize> =
        text.bytes().enumerate().filter(|(_, b)| *b == b'\n').map(|(at, _)| at).collect();
    let mut out = String::new();
    for diagnostic in list {
        let draw = |title, place, label| {
            let view = SourceView::new(text, &breaks, place);
            let annotation = AnnotationKind::Primary.span(view.span).label(label);
            let mut group = Group::with_title(title);
            let mut snippet = Snippet::source(view.shown).line_start(view.line).annotation(annotation);
            if view.clipped {
                // The column in what is shown is not the column in the line.
                group = group.element(Origin::path(name).line(view.line).char_column(view.column));
            } else {
                snippet = snippet.path(name);
            }
            group.element(snippet)
        };
        let label = Some(diagnostic.label.as_str()).filter(|label| !label.is_empty());
        let title = Level::ERROR.primary_title(&*diagnostic.message).id(diagnostic.code);
        let notes = diagnostic.notes.iter().map(|note| Level::NOTE.message(note));
        let mut groups = vec![draw(title, diagnostic.place, label).elements(notes)];
        for (place, how) in &diagnostic.also {
            groups.push(draw(Level::NOTE.secondary_title(&**how), *place, None));
        }
        if !out.is_empty() {
            out.push('\n');
        }
        out += &renderer.render(&groups);
        out.push('\n');
    }
    out
}

/// The part of a text that a rendered diagnostic shows.
struct SourceView {
    /// The line that the place begins in, or the part of it around the place.
    shown: String,
    /// What of it is the place; what goes beyond the line is left out.
    span: Range<usize>,
    /// The line's number, from 1.
    line: usize,
    /// The column that the place begins in, in characters from 1.
    column: usize,
    /// Whether the line is not shown whole.
    clipped: bool,
}

impl SourceView {
    fn new(text: &str, breaks: &[usize], place: TextPlace) -> Self {
        let start = text.floor_char_boundary(place.start as usize);
        let end = text.ceil_char_boundary(place.end as usize).max(start);
        let before = breaks.partition_point(|at| *at < start);
        let first = before.checked_sub(1).map_or(0, |at| breaks[at] + 1);
        let line = &text[first..breaks.get(before).copied().unwrap_or(text.len())];
        let line = line.strip_suffix('\r').unwrap_or(line);
        let (start, end) = ((start - first).min(line.len()), (end - first).min(line.len()));
        let column = 1 + line[..start].chars().count();
        let (shown, span) = clip(line, start..end);
        SourceView { clipped: shown != line, shown, span, line: before + 1, column }
    }
}

/// A line, or as much of it around a span as a screen shows, and where the span is in it. The renderer fits lines
/// to a screen itself, but in a time and memory that grow with the whole line.
fn clip(line: &str, span: Range<usize>) -> (String, Range<usize>) {
    const WHOLE: usize = 4096;
    const BEFORE: usize = 60;
    const AFTER: usize = 80;
    if line.len() <= WHOLE {
        return (line.into(), span);
    }
    let from = line.floor_char_boundary(span.start.saturating_sub(BEFORE));
    let to = line.ceil_char_boundary((span.start + AFTER).min(line.len()));
    let head = if from > 0 { "…" } else { "" };
    let tail = if to < line.len() { "…" } else { "" };
    let shift = |at: usize| at.min(to) - from + head.len();
    (format!("{head}{}{tail}", &line[from..to]), shift(span.start)..shift(span.end))
}
