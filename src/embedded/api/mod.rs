//! The Kubernetes API as a tower service: store, watch, RBAC, patches, discovery, logs.

pub mod attributes;
pub mod authn;
pub mod logs;
pub mod rbac;
pub mod roles;
mod token;
