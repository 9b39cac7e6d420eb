//! Integration tests: one binary, one module per concern.
#![allow(clippy::unwrap_used)]

mod api_errors;
mod api_objects;
mod api_patches;
mod api_support;
mod bus;
mod eventsource;
mod lab_files;
mod ledger;
mod rbac_golden;
mod sensor_golden;
mod sensor_regex;
mod sensor_script;
mod service_pods;
mod session_kill;
mod webhook_golden;
