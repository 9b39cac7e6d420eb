//! Integration tests: one binary, one module per concern.
#![allow(clippy::unwrap_used)]

mod sensor_golden;
mod sensor_regex;
