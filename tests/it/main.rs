//! Integration tests: one binary, one module per concern.
mod sensor_regex;
