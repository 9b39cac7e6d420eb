//! What runs inside Argo's images: `eventsource-service`, `sensor-service`, the workflow executor, and the bus pod.
//!
//! The same functions run in process on a thread of their own, and as children (`eventlab argo sensor-service`).
//! Called from the node through [`find`].

pub mod bus_service;
pub mod eventsource;
pub mod executor;
pub mod sensor;

mod backoff;
mod bus_link;
mod environment;
mod log;
mod metrics;
mod tasks;

use crate::embedded::node::process::Service;
use crate::kinds::{ARGO_EVENTS_IMAGE, ARGO_EXEC_IMAGE, NATS_IMAGE};

/// The service that a container of this image, name and arguments runs; `None` when this program does not have it.
#[must_use]
pub fn find(image: &str, container: &str, args: &[String]) -> Option<Service> {
    let argument = args.first().map_or("", String::as_str);
    match (image, argument, container) {
        (ARGO_EVENTS_IMAGE, "eventsource-service", _) => Some(eventsource::run),
        (ARGO_EVENTS_IMAGE, "sensor-service", _) => Some(sensor::run),
        (ARGO_EXEC_IMAGE, _, "init") => Some(executor::init),
        (ARGO_EXEC_IMAGE, _, "wait") => Some(executor::wait),
        (NATS_IMAGE, _, _) => Some(bus_service::run),
        _ => None,
    }
}
