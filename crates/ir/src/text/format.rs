//! Printing with the comments of a text kept.
use super::Diagnostic;

/// Formats
pub fn format(text: &str) -> Result<String, Vec<Diagnostic>> {
    super::parse(text).map(|m| super::print(&m))
}
