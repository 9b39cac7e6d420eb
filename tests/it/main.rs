//! Integration tests: one binary, one module per concern.
#![allow(clippy::unwrap_used)]

mod api_objects;
mod api_support;
mod bus;
mod lab_files;
mod ledger;
mod node_children;
mod rbac_golden;
mod sensor_golden;
mod sensor_regex;
