//! The Kubernetes API as a tower service: store, watch, RBAC, patches, discovery, logs.

pub mod attributes;
