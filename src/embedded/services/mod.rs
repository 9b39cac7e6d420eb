//! What runs inside Argo's images: `eventsource-service`, `sensor-service`, the workflow executor, and the bus pod.
//!
//! The same functions run in process on a thread of their own, and as children (`eventlab argo sensor-service`).
//! Called from the node through [`find`].

pub mod bus_service;
pub mod eventsource;
pub mod sensor;

mod backoff;
mod bus_link;
mod environment;
mod go_duration;
mod log;
mod metrics;
mod tasks;

use crate::embedded::node::process::Service;
use crate::kinds::{ARGO_EVENTS_IMAGE, NATS_IMAGE};

/// The service that a container of this image, name and arguments runs; `None` when this program does not have it.
#[must_use]
pub fn find(image: &str, _container: &str, args: &[String]) -> Option<Service> {
    match (image, args.first().map(String::as_str)) {
        (ARGO_EVENTS_IMAGE, Some("eventsource-service")) => Some(eventsource::run),
        (ARGO_EVENTS_IMAGE, Some("sensor-service")) => Some(sensor::run),
        (NATS_IMAGE, _) => Some(bus_service::run),
        _ => None,
    }
}
