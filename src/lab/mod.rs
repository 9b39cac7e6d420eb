//! The lab format: types, loading, lint.
//!
//! Labs are YAML files in `labs/`, manifests in `manifests/`; both are compiled in and overridable with `--labs DIR`.

pub mod catalog;
pub mod format;

pub use catalog::Catalog;
pub use format::{Action, Fix, GateMode, Lab, Probe, Stage, StageKind, WrongFix};
