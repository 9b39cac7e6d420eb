//! Integration tests: one binary, one module per concern.

mod lab_files;
#![allow(clippy::unwrap_used)]

mod sensor_regex;
