//! Integration tests: one binary, one module per concern.
#![allow(clippy::unwrap_used)]

mod bus;
mod lab_files;
mod ledger;
mod rbac_golden;
mod sensor_regex;
