//! Integration tests: one binary, one module per concern.
mod ledger;
#![allow(clippy::unwrap_used)]

mod lab_files;
mod rbac_golden;
mod sensor_regex;
