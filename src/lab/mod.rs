//! The lab format: types, loading, lint.
//!
//! Labs are YAML files in `labs/`, manifests in `manifests/`; both are compiled in and overridable with `--labs DIR`.

mod bundled;
pub mod catalog;
pub mod format;
mod lint;

pub use catalog::{COURSE, Catalog, GUIDE, LabError};
pub use format::{
    AccessCheck, Action, Failure, Fix, GateMode, Lab, Probe, Stage, StageKind, WrongFix,
};
