//! What can go wrong in a scan.

/// Why rules could not be used or an input could not be scanned.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ScanError {
    /// A file could not be read or written.
    #[error("{0}")]
    Io(#[from] std::io::Error),
    /// The tables of the rules could not be made or read.
    #[error("{0}")]
    Catalog(#[from] crate::catalog::CatalogError),
    /// An engine failed.
    #[error("{0}")]
    Engine(String),
}
