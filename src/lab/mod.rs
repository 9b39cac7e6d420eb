//! The lab format: types, loading, lint.
//!
//! Labs are YAML files in `labs/`, manifests in `manifests/`; both are compiled in and overridable with `--labs DIR`.

mod action;
mod bundled;
pub mod catalog;
pub mod faults;
pub mod format;
mod lint;
mod schema;
mod skeleton;

pub use action::Action;
pub use catalog::{COURSE, Catalog, GUIDE, LabError};
pub use schema::schema;
pub use skeleton::skeleton;

pub use format::{
    AccessCheck, Failure, Fix, GateMode, Lab, OrderCheck, Probe, Stage, StageKind, WrongFix,
};
