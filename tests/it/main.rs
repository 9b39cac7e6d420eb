//! Integration tests: one binary, one module per concern.
#![allow(clippy::unwrap_used)]

mod lab_files;
mod sensor_regex;
