//! The Kubernetes API as a tower service: store, watch, RBAC, patches, discovery, logs.
//!
//! From above: [`ApiServer::open`], then [`ApiServer::client`] in process or [`ApiServer::router`] for a listener.

mod accept;
mod admission;
pub mod attributes;
pub mod authn;
mod body;
mod budget;
mod client;
mod convert;
mod defaults;
mod definitions;
mod discovery;
mod go_json;
mod go_struct;
mod go_text;
mod handlers;
mod history;
pub mod kubeconfig;
pub mod listener;
pub mod logs;
mod managed;
mod object;
mod openapi;
mod patch;
pub(super) mod private_file;
pub mod protobuf;
pub mod rbac;
mod refusal;
mod registry;
mod repeated;
mod represent;
mod request;
pub mod reviews;
pub mod roles;
mod selectors;
mod server;
mod status;
mod store;
pub mod streams;
mod table;
pub mod tls;
mod token;
mod validation;
mod watch;
mod yaml;

pub use history::Limits;
pub use refusal::{change_refusal, create_refusal};
pub use server::{ApiServer, Options};
pub use store::{DatabaseError, OpenError};
