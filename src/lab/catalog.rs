//! The labs and manifests that are compiled in, or those of a folder.

/// All labs with their manifests.
#[derive(Debug, Default)]
pub struct Catalog;
