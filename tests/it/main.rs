//! Integration tests: one binary, one module per concern.

mod bus;
#![allow(clippy::unwrap_used)]

mod lab_files;
mod ledger;
mod rbac_golden;
mod sensor_regex;
