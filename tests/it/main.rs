//! Integration tests: one binary, one module per concern.
mod rbac_golden;
#![allow(clippy::unwrap_used)]

mod lab_files;
mod sensor_regex;
