//! Integration tests: one binary, one module per concern.
#![allow(clippy::unwrap_used)]

mod api_discovery;
mod api_errors;
mod api_objects;
mod api_patches;
mod api_support;
mod api_tables;
mod bus;
mod controllers_core;
mod controllers_support;
mod eventsource;
mod kubectl;
mod lab_files;
mod ledger;
mod rbac_golden;
mod sensor_golden;
mod sensor_regex;
mod sensor_script;
mod service_pods;
mod webhook_golden;
