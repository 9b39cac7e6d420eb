//! The lab format: types, loading, lint.
//!
//! Labs are YAML files in `labs/`, manifests in `manifests/`; both are compiled in and overridable with `--labs DIR`.

mod action;
mod bundled;
pub mod catalog;
pub mod format;
mod lint;

pub use action::Action;
pub use catalog::{COURSE, Catalog, GUIDE, LabError};
pub use format::{
    AccessCheck, Failure, Fix, GateMode, Lab, OrderCheck, Probe, Stage, StageKind, WrongFix,
};
