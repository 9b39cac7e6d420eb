//! How Argo's services connect to the bus, with their log lines: one connection, never reconnected by itself.

use std::sync::Arc;
use std::time::Duration;

use tokio::time::Instant;
use tokio_util::sync::{CancellationToken, DropGuard};

use super::environment::BusSettings;
use super::log::Logger;
use crate::embedded::bus::{Bus, BusConnector, BusError, Login, NO_SERVERS};

/// How long one try to connect takes at most, as with NATS.
const CONNECT: Duration = Duration::from_secs(2);
/// How often a try looks whether somebody listens by now.
const LOOK: Duration = Duration::from_millis(50);

/// Connects; while nobody listens it goes on trying for two seconds.
pub(super) async fn dial(
    connector: &BusConnector,
    settings: &BusSettings,
) -> Result<Arc<dyn Bus>, BusError> {
    let give_up = Instant::now() + CONNECT;
    loop {
        let connected = connector.0.connect(&settings.url, &settings.access).await;
        match connected {
            Err(BusError::Refused(text)) if text == NO_SERVERS && Instant::now() < give_up => {
                tokio::time::sleep(LOOK).await;
            }
            connected => return connected,
        }
    }
}

/// A connection that says in the log when it is lost.
#[derive(Clone)]
pub(super) struct Link {
    pub bus: Arc<dyn Bus>,
    _dropped: Arc<DropGuard>,
}

impl Link {
    /// Connects once.
    pub(super) async fn connect(
        connector: &BusConnector,
        settings: &BusSettings,
        log: &Logger,
    ) -> Result<Link, BusError> {
        let strategy = match settings.access.login {
            Login::Nobody => "None",
            Login::Password { .. } => "Basic",
            Login::Token(_) => "Token",
        };
        if settings.access.tls.is_some() {
            log.info(
                "Client-side TLS configuration enabled on the NATS connection",
                &[],
            );
        }
        log.info(&format!("NATS auth strategy: {strategy}"), &[]);
        let connected = dial(connector, settings).await;
        let bus = connected.inspect_err(|error| {
            log.error(
                "Failed to connect to NATS server",
                &[("error", error.to_string().into())],
            )
        })?;
        log.info("Connected to NATS Jetstream server.", &[]);
        let dropped = CancellationToken::new();
        tokio::spawn(report_loss(bus.closed(), dropped.clone(), log.clone()));
        Ok(Link {
            bus,
            _dropped: Arc::new(dropped.drop_guard()),
        })
    }

    /// Connects and makes the stream where it is missing.
    pub(super) async fn initialize(
        connector: &BusConnector,
        settings: &BusSettings,
        log: &Logger,
    ) -> Result<Link, BusError> {
        let link = Link::connect(connector, settings, log).await?;
        link.ensure_stream(settings, log)
            .await
            .inspect_err(|error| {
                log.error(
                    "Failed to create Stream",
                    &[("error", error.to_string().into())],
                )
            })?;
        Ok(link)
    }

    async fn ensure_stream(&self, settings: &BusSettings, log: &Logger) -> Result<(), BusError> {
        let name = &settings.stream.name;
        match self.bus.stream_info(name).await {
            Ok(_) => {
                log.info(
                    &format!("No need to create Stream '{name}' as it already exists"),
                    &[],
                );
                return Ok(());
            }
            Err(BusError::StreamNotFound(_)) => {}
            Err(error) => return Err(error),
        }
        self.bus.ensure_stream(settings.stream.clone()).await?;
        log.info(&format!("Created Jetstream stream '{name}'"), &[]);
        Ok(())
    }

    pub(super) fn is_closed(&self) -> bool {
        self.bus.closed().is_cancelled()
    }
}

async fn report_loss(closed: CancellationToken, dropped: CancellationToken, log: Logger) {
    tokio::select! {
        biased;
        () = dropped.cancelled() => {}
        () = closed.cancelled() => log.error("NATS connection lost", &[("error", "EOF".into())]),
    }
}
