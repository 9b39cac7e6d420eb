//! The embedded cluster: API, controllers, node, bus, and the services that run inside Argo's images.

pub mod api;
pub mod bus;
pub mod cluster;
pub mod controllers;
pub mod misfit;
pub mod node;
pub mod server_certificate;
pub mod services;
pub mod snapshot;
pub mod standalone;
pub mod stores;
