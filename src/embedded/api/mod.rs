//! The Kubernetes API as a tower service: store, watch, RBAC, patches, discovery, logs.

pub mod attributes;
pub mod authn;
pub mod kubeconfig;
pub mod listener;
pub mod logs;
mod private_file;
pub mod rbac;
pub mod roles;
pub mod tls;
mod token;
