//! `eventlab argo sensor-service|eventsource-service`: services of Argo's images as processes of their own.

use clap::Subcommand;

use super::exit::{Exit, Failure};
use crate::embedded::node::child_service;
use crate::embedded::services;
use crate::kinds::ARGO_EVENTS_IMAGE;

/// Exit code of a service that could not even start.
const CANNOT_START: u8 = 1;

/// A service of the image.
#[derive(Clone, Copy, Debug, Subcommand)]
pub enum ArgoCommand {
    /// Judge events and create what the Sensor triggers
    SensorService,
    /// Take requests and put events on the bus
    EventsourceService,
}

/// Runs a service until it ends. Only a node can start it.
///
/// # Errors
/// The process was not started by a node.
pub async fn run(command: &ArgoCommand) -> Result<Exit, Failure> {
    let word = match command {
        ArgoCommand::SensorService => "sensor-service",
        ArgoCommand::EventsourceService => "eventsource-service",
    };
    let args = vec![word.to_owned()];
    let service = services::find(ARGO_EVENTS_IMAGE, "main", &args)
        .ok_or_else(|| Failure::internal(format!("there is no service {word}")))?;
    let code = child_service::run(service, args)
        .await
        .map_err(Failure::environment)?;
    Ok(Exit::Workload(u8::try_from(code).unwrap_or(CANNOT_START)))
}
