//! Integration tests: one binary, one module per concern.
#![allow(clippy::unwrap_used)]

mod api_discovery;
mod api_errors;
mod api_kubectl;
mod api_objects;
mod api_patches;
mod api_storage;
mod api_support;
mod api_tables;
mod api_watch;
mod architecture;
mod bus;
mod controllers_core;
mod controllers_support;
mod eventsource;
mod explain;
mod kill_points;
mod kubectl;
mod lab_files;
mod labs;
mod ledger;
mod node_addresses;
mod node_children;
mod node_pods;
mod node_support;
mod rbac_golden;
mod sensor_expression;
mod sensor_golden;
mod sensor_regex;
mod sensor_script;
mod sensor_service;
mod sensor_template;
mod service_pods;
mod session_kill;
mod webhook_golden;
