//! The bus pod's side of the bus, and connections to it within this process.
//!
//! The data outlive the pod; while no pod serves, nobody can connect, and when the pod ends every connection is
//! lost at once, as with a real server.

use std::future::Future;
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use futures::StreamExt;
use futures::future::BoxFuture;
use futures::stream::BoxStream;
use tokio_util::sync::CancellationToken;

use super::engine::EmbeddedBus;
use super::jetstream::JetStreamConnector;
use super::{
    Access, Bus, BusError, ConnectBus, ConsumerConfig, ConsumerInfo, Delivery, NO_SERVERS,
    PublishAck, StoredMessage, StreamConfig, StreamInfo,
};

/// The bus of this process and the pod that serves it, if one does.
pub struct BusHost {
    bus: Arc<EmbeddedBus>,
    serving: Mutex<Option<Served>>,
}

struct Served {
    /// First label of the Service's DNS name, and its namespace.
    service: (String, String),
    credentials: Option<String>,
    closed: CancellationToken,
}

impl BusHost {
    /// A bus that no pod serves yet.
    #[must_use]
    pub fn new(bus: Arc<EmbeddedBus>) -> Arc<BusHost> {
        Arc::new(BusHost {
            bus,
            serving: Mutex::new(None),
        })
    }

    /// The bus itself, for reading its state whatever the pod does.
    #[must_use]
    pub fn bus(&self) -> Arc<EmbeddedBus> {
        Arc::clone(&self.bus)
    }

    /// Lets clients connect until the guard is dropped. `pod` is the StatefulSet's pod, such as `eventbus-default-js-0`.
    ///
    /// Refused while another pod serves: this process has one bus.
    pub fn serve(
        self: &Arc<Self>,
        namespace: &str,
        pod: &str,
        credentials: Option<String>,
    ) -> Result<ServeGuard, BusError> {
        let mut serving = self.lock();
        if let Some(other) = serving.as_ref() {
            let (service, namespace) = &other.service;
            let message = format!(
                "eventlab: one bus at a time, {service} in namespace {namespace} is served already"
            );
            return Err(BusError::Refused(message));
        }
        let set = pod.rsplit_once('-').map_or(pod, |(set, _)| set);
        let closed = CancellationToken::new();
        let service = (format!("{set}-svc"), namespace.to_owned());
        *serving = Some(Served {
            service,
            credentials,
            closed,
        });
        Ok(ServeGuard {
            host: Arc::clone(self),
        })
    }

    /// Goes back to a snapshot; every connection is lost, as with a restart of the pod.
    pub fn restore(&self, snapshot: &Path) -> Result<(), BusError> {
        let mut serving = self.lock();
        if let Some(served) = serving.as_mut() {
            std::mem::replace(&mut served.closed, CancellationToken::new()).cancel();
        }
        self.bus.restore(snapshot)
    }

    /// Connects within this process.
    pub fn connect(&self, url: &str, access: &Access) -> Result<Connection, BusError> {
        let serving = self.lock();
        let served = serving
            .as_ref()
            .filter(|served| names_service(url, &served.service));
        let served = served.ok_or_else(|| BusError::Refused(NO_SERVERS.to_owned()))?;
        if served.credentials.is_some() && served.credentials.as_deref() != access.secret() {
            return Err(BusError::Refused(
                "nats: Authorization Violation".to_owned(),
            ));
        }
        Ok(Connection {
            bus: Arc::clone(&self.bus),
            closed: served.closed.clone(),
        })
    }

    /// A connection for the HTTP face, which checks credentials itself; `None` while no pod serves.
    pub(super) fn served(&self) -> Option<Connection> {
        let closed = self.lock().as_ref()?.closed.clone();
        Some(Connection {
            bus: Arc::clone(&self.bus),
            closed,
        })
    }

    fn lock(&self) -> MutexGuard<'_, Option<Served>> {
        self.serving.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Whether a URL names a Service of a cluster (`HOST.NAMESPACE.svc`), not a server of the outside.
#[must_use]
pub fn is_in_cluster(url: &str) -> bool {
    let host = url.split_once("://").map_or(url, |(_, rest)| rest);
    let host = host.split([':', '/']).next().unwrap_or_default();
    host.ends_with(".svc") || host.ends_with(".svc.cluster.local")
}

/// Whether `nats://SERVICE.NAMESPACE.svc:4222` names this Service.
fn names_service(url: &str, (service, namespace): &(String, String)) -> bool {
    let host = url.split_once("://").map_or(url, |(_, rest)| rest);
    let host = host.split([':', '/']).next().unwrap_or_default();
    let mut labels = host.split('.');
    labels.next() == Some(service) && labels.next() == Some(namespace)
}

/// The bus is served while this lives.
pub struct ServeGuard {
    host: Arc<BusHost>,
}

impl Drop for ServeGuard {
    fn drop(&mut self) {
        if let Some(served) = self.host.lock().take() {
            served.closed.cancel();
        }
    }
}

/// Connects to the bus of this process, and to NATS servers outside where a URL names one.
#[derive(Clone)]
pub struct LocalConnector(pub Arc<BusHost>);

impl ConnectBus for LocalConnector {
    fn connect<'a>(
        &'a self,
        url: &'a str,
        access: &'a Access,
    ) -> BoxFuture<'a, Result<Arc<dyn Bus>, BusError>> {
        Box::pin(async move {
            if !is_in_cluster(url) {
                return JetStreamConnector.connect(url, access).await;
            }
            let connection: Arc<dyn Bus> = Arc::new(self.0.connect(url, access)?);
            Ok(connection)
        })
    }

    fn host(&self) -> Option<Arc<BusHost>> {
        Some(Arc::clone(&self.0))
    }
}

/// A connection within this process.
pub struct Connection {
    bus: Arc<EmbeddedBus>,
    closed: CancellationToken,
}

impl Connection {
    async fn while_open<T>(
        &self,
        work: impl Future<Output = Result<T, BusError>> + Send,
    ) -> Result<T, BusError> {
        tokio::select! {
            biased;
            () = self.closed.cancelled() => Err(BusError::Closed),
            result = work => result,
        }
    }
}

impl Bus for Connection {
    fn ensure_stream(&self, config: StreamConfig) -> BoxFuture<'_, Result<StreamInfo, BusError>> {
        Box::pin(self.while_open(self.bus.ensure_stream(config)))
    }

    fn publish<'a>(
        &'a self,
        subject: &'a str,
        message_id: &'a str,
        payload: Vec<u8>,
    ) -> BoxFuture<'a, Result<PublishAck, BusError>> {
        Box::pin(self.while_open(self.bus.publish(subject, message_id, payload)))
    }

    fn ensure_consumer<'a>(
        &'a self,
        stream: &'a str,
        config: ConsumerConfig,
    ) -> BoxFuture<'a, Result<ConsumerInfo, BusError>> {
        Box::pin(self.while_open(self.bus.ensure_consumer(stream, config)))
    }

    fn delete_consumer<'a>(
        &'a self,
        stream: &'a str,
        durable: &'a str,
    ) -> BoxFuture<'a, Result<(), BusError>> {
        Box::pin(self.while_open(self.bus.delete_consumer(stream, durable)))
    }

    fn pull<'a>(
        &'a self,
        stream: &'a str,
        durable: &'a str,
        wait: Duration,
    ) -> BoxFuture<'a, Result<Option<Delivery>, BusError>> {
        Box::pin(self.while_open(self.bus.pull(stream, durable, wait)))
    }

    fn ack<'a>(
        &'a self,
        stream: &'a str,
        durable: &'a str,
        token: &'a str,
    ) -> BoxFuture<'a, Result<(), BusError>> {
        Box::pin(self.while_open(self.bus.ack(stream, durable, token)))
    }

    fn in_progress<'a>(
        &'a self,
        stream: &'a str,
        durable: &'a str,
        token: &'a str,
    ) -> BoxFuture<'a, Result<(), BusError>> {
        Box::pin(self.while_open(self.bus.in_progress(stream, durable, token)))
    }

    fn stream_info<'a>(&'a self, stream: &'a str) -> BoxFuture<'a, Result<StreamInfo, BusError>> {
        Box::pin(self.while_open(self.bus.stream_info(stream)))
    }

    fn consumers<'a>(
        &'a self,
        stream: &'a str,
    ) -> BoxFuture<'a, Result<Vec<ConsumerInfo>, BusError>> {
        Box::pin(self.while_open(self.bus.consumers(stream)))
    }

    fn messages<'a>(
        &'a self,
        stream: &'a str,
        after: u64,
        limit: usize,
    ) -> BoxFuture<'a, Result<Vec<StoredMessage>, BusError>> {
        Box::pin(self.while_open(self.bus.messages(stream, after, limit)))
    }

    fn bucket_get<'a>(
        &'a self,
        bucket: &'a str,
        key: &'a str,
    ) -> BoxFuture<'a, Result<Option<Vec<u8>>, BusError>> {
        Box::pin(self.while_open(self.bus.bucket_get(bucket, key)))
    }

    fn bucket_put<'a>(
        &'a self,
        bucket: &'a str,
        key: &'a str,
        value: Vec<u8>,
    ) -> BoxFuture<'a, Result<(), BusError>> {
        Box::pin(self.while_open(self.bus.bucket_put(bucket, key, value)))
    }

    fn bucket_delete<'a>(
        &'a self,
        bucket: &'a str,
        key: &'a str,
    ) -> BoxFuture<'a, Result<(), BusError>> {
        Box::pin(self.while_open(self.bus.bucket_delete(bucket, key)))
    }

    fn signal<'a>(
        &'a self,
        subject: &'a str,
        payload: Vec<u8>,
    ) -> BoxFuture<'a, Result<(), BusError>> {
        Box::pin(self.while_open(self.bus.signal(subject, payload)))
    }

    fn listen<'a>(
        &'a self,
        subject: &'a str,
    ) -> BoxFuture<'a, Result<BoxStream<'static, Vec<u8>>, BusError>> {
        Box::pin(async move {
            let signals = self.while_open(self.bus.listen(subject)).await?;
            Ok(signals
                .take_until(self.closed.clone().cancelled_owned())
                .boxed())
        })
    }

    fn closed(&self) -> CancellationToken {
        self.closed.clone()
    }
}
