//! A real NATS JetStream behind [`Bus`], with the names and rules that Argo Events gives it.
//!
//! Called through [`JetStreamConnector`] and [`JetStream::connect`]. A lost connection never comes back, as with Argo
//! Events, which renews connections itself. Every question is asked of the server: nothing is kept here that could be
//! out of date, save what a consumer's creation time says of the stream, which does not change.

mod api;
mod bucket;
mod connect;
mod look;
mod monitor;

use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use async_nats::{Client, HeaderMap, Request};
use futures::StreamExt;
use futures::future::BoxFuture;
use futures::stream::BoxStream;
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;

use self::api::{Failure, PublishAnswer, StreamAnswer, code};
use self::look::Births;
pub use self::monitor::consumers_of_jsz;
use super::token::Token;
use super::{
    Access, Bus, BusError, ConnectBus, ConsumerConfig, ConsumerInfo, Delivery, PublishAck,
    Retention, StoredMessage, StreamConfig, StreamInfo, subject,
};

/// How long an answer of the server may take (the wait of Argo Events' client).
const ANSWER: Duration = Duration::from_secs(5);
/// Header of a message's id.
const MESSAGE_ID: &str = "Nats-Msg-Id";

/// Connects to NATS servers.
#[derive(Clone, Copy, Debug, Default)]
pub struct JetStreamConnector;

impl ConnectBus for JetStreamConnector {
    fn connect<'a>(
        &'a self,
        url: &'a str,
        access: &'a Access,
    ) -> BoxFuture<'a, Result<Arc<dyn Bus>, BusError>> {
        Box::pin(async move {
            let connection: Arc<dyn Bus> = Arc::new(JetStream::connect(url, access).await?);
            Ok(connection)
        })
    }
}

/// What the server says of itself to whoever connects.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ServerNotes {
    pub name: String,
    pub version: String,
    /// Whether it wants TLS. Argo Events up to v1.9.11 cannot use a server that does not offer it.
    pub tls: bool,
    /// Largest message in bytes.
    pub max_payload: usize,
}

/// A connection to a NATS server.
pub struct JetStream {
    client: Client,
    closed: CancellationToken,
    births: Births,
}

impl JetStream {
    /// Connects once.
    ///
    /// # Errors
    /// In a NATS client's words: nobody listens, the login or the certificate is refused, the server is too slow.
    pub async fn connect(url: &str, access: &Access) -> Result<JetStream, BusError> {
        let closed = CancellationToken::new();
        let client = connect::connect(url, access, closed.clone()).await?;
        Ok(JetStream {
            client,
            closed,
            births: Births::default(),
        })
    }

    /// What the server said when it was connected to.
    #[must_use]
    pub fn server(&self) -> ServerNotes {
        let info = self.client.server_info();
        ServerNotes {
            name: info.server_name,
            version: info.version,
            tls: info.tls_required,
            max_payload: info.max_payload,
        }
    }

    /// Asks whether JetStream itself answers, for saying early what would fail later.
    ///
    /// # Errors
    /// It is not enabled, or not for this login.
    pub async fn probe(&self) -> Result<(), BusError> {
        let _: Value = self
            .while_open(self.api("INFO", &Value::Null))
            .await
            .map_err(BusError::from)?;
        Ok(())
    }

    async fn while_open<T, E: From<BusError>>(
        &self,
        work: impl Future<Output = Result<T, E>> + Send,
    ) -> Result<T, E> {
        tokio::select! {
            biased;
            () = self.closed.cancelled() => Err(BusError::Closed.into()),
            result = work => result,
        }
    }

    async fn make_stream(&self, config: &StreamConfig) -> Result<StreamInfo, BusError> {
        if !subject::is_name(&config.name) {
            return Err(BusError::Refused("nats: invalid stream name".to_owned()));
        }
        let made = self
            .api::<StreamAnswer>(
                &format!("STREAM.CREATE.{}", config.name),
                &stream_json(config),
            )
            .await;
        match made {
            Ok(answer) => Ok(answer.into()),
            // Somebody else made it meanwhile.
            Err(failure) if failure.is(code::STREAM_NAME_IN_USE) => self.stream(&config.name).await,
            Err(failure) => Err(failure.into()),
        }
    }

    async fn stream(&self, name: &str) -> Result<StreamInfo, BusError> {
        let answer = self
            .api::<StreamAnswer>(&format!("STREAM.INFO.{name}"), &Value::Null)
            .await;
        answer.map(StreamInfo::from).map_err(|failure| {
            if failure.is(code::STREAM_NOT_FOUND) {
                BusError::StreamNotFound(name.to_owned())
            } else {
                failure.into()
            }
        })
    }

    async fn store(
        &self,
        subject: &str,
        headers: HeaderMap,
        payload: Vec<u8>,
    ) -> Result<PublishAck, Failure> {
        let mut request = Request::new().payload(payload.into()).timeout(Some(ANSWER));
        if !headers.is_empty() {
            request = request.headers(headers);
        }
        let answer: PublishAnswer = self.ask(subject, request).await?;
        Ok(PublishAck {
            sequence: answer.seq,
            duplicate: answer.duplicate,
        })
    }

    async fn next(
        &self,
        stream: &str,
        durable: &str,
        wait: Duration,
    ) -> Result<Option<Delivery>, BusError> {
        let body = if wait.is_zero() {
            json!({"batch": 1, "no_wait": true})
        } else {
            json!({"batch": 1, "expires": nanoseconds(wait)})
        };
        // An inbox of its own: when this pull is dropped the server sees it go, and hands it nothing.
        let request = Request::new()
            .payload(body.to_string().into())
            .inbox(self.client.new_inbox())
            .timeout(Some(wait.saturating_add(ANSWER)));
        let answer = self
            .client
            .send_request(
                format!("$JS.API.CONSUMER.MSG.NEXT.{stream}.{durable}"),
                request,
            )
            .await
            .map_err(api::request_failed)?;
        api::delivery(answer)
    }

    /// Says something of a delivery and waits until the server has taken note.
    async fn acknowledge(&self, token: &str) -> Result<(), BusError> {
        self.of_jetstream(token)?;
        let request = Request::new().payload("+ACK".into()).timeout(Some(ANSWER));
        let answer = self.client.send_request(token.to_owned(), request).await;
        answer.map(drop).map_err(api::request_failed)
    }

    fn of_jetstream(&self, token: &str) -> Result<(), BusError> {
        match Token::parse(token) {
            Some(_) => Ok(()),
            None => Err(BusError::Refused(
                "nats: message was not received from JetStream".to_owned(),
            )),
        }
    }

    /// Returns once the server has seen everything that this connection sent before.
    async fn settle(&self) -> Result<(), BusError> {
        let inbox = self.client.new_inbox();
        let mut echo = self
            .client
            .subscribe(inbox.clone())
            .await
            .map_err(|_| BusError::Closed)?;
        self.client
            .publish(inbox, "".into())
            .await
            .map_err(|_| BusError::Closed)?;
        match tokio::time::timeout(ANSWER, echo.next()).await {
            Ok(Some(_)) => Ok(()),
            Ok(None) => Err(BusError::Closed),
            Err(_) => Err(api::timeout()),
        }
    }
}

/// A stream's configuration as the API takes it.
fn stream_json(config: &StreamConfig) -> Value {
    let limit = |limit: u64| match limit {
        0 => -1,
        limit => i64::try_from(limit).unwrap_or(i64::MAX),
    };
    let retention = match config.retention {
        Retention::Limits => "limits",
        Retention::Interest => "interest",
        Retention::WorkQueue => "workqueue",
    };
    json!({
        "name": config.name,
        "subjects": config.subjects,
        "retention": retention,
        "max_consumers": -1,
        "max_msgs": limit(config.max_messages),
        "max_bytes": limit(config.max_bytes),
        "max_age": nanoseconds(config.max_age),
        "discard": if config.discard_new { "new" } else { "old" },
        "storage": "file",
        "num_replicas": config.replicas.max(1),
        "duplicate_window": nanoseconds(config.duplicate_window),
    })
}

fn nanoseconds(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX >> 1)
}

fn consumer_json(stream: &str, config: &ConsumerConfig) -> Value {
    json!({
        "stream_name": stream,
        "config": {
            "durable_name": config.durable,
            "deliver_policy": "new",
            "ack_policy": "explicit",
            "ack_wait": nanoseconds(config.ack_wait),
            "filter_subject": config.filter_subject,
            "replay_policy": "instant",
        },
    })
}

impl Bus for JetStream {
    fn ensure_stream(&self, config: StreamConfig) -> BoxFuture<'_, Result<StreamInfo, BusError>> {
        Box::pin(self.while_open(async move {
            match self.stream(&config.name).await {
                Err(BusError::StreamNotFound(_)) => self.make_stream(&config).await,
                found => found,
            }
        }))
    }

    fn publish<'a>(
        &'a self,
        subject: &'a str,
        message_id: &'a str,
        payload: Vec<u8>,
    ) -> BoxFuture<'a, Result<PublishAck, BusError>> {
        Box::pin(self.while_open(async move {
            if !subject::is_literal(subject) {
                return Err(BusError::Refused("nats: invalid subject".to_owned()));
            }
            let mut headers = HeaderMap::new();
            if !message_id.is_empty() {
                let value = message_id
                    .parse::<async_nats::HeaderValue>()
                    .map_err(|_| BusError::Refused("nats: invalid message id".to_owned()))?;
                headers.insert(MESSAGE_ID, value);
            }
            self.store(subject, headers, payload)
                .await
                .map_err(|failure| match failure {
                    Failure::Bus(BusError::NoResponders) => {
                        BusError::Refused("nats: no response from stream".to_owned())
                    }
                    failure => failure.into(),
                })
        }))
    }

    fn ensure_consumer<'a>(
        &'a self,
        stream: &'a str,
        config: ConsumerConfig,
    ) -> BoxFuture<'a, Result<ConsumerInfo, BusError>> {
        Box::pin(self.while_open(self.consumer(stream, config)))
    }

    fn delete_consumer<'a>(
        &'a self,
        stream: &'a str,
        durable: &'a str,
    ) -> BoxFuture<'a, Result<(), BusError>> {
        Box::pin(self.while_open(async move {
            let deleted = self
                .api::<Value>(&format!("CONSUMER.DELETE.{stream}.{durable}"), &Value::Null)
                .await;
            match deleted {
                Ok(_) => Ok(()),
                Err(failure)
                    if failure.is(code::CONSUMER_NOT_FOUND)
                        || failure.is(code::STREAM_NOT_FOUND) =>
                {
                    Ok(())
                }
                Err(failure) => Err(failure.into()),
            }
        }))
    }

    fn pull<'a>(
        &'a self,
        stream: &'a str,
        durable: &'a str,
        wait: Duration,
    ) -> BoxFuture<'a, Result<Option<Delivery>, BusError>> {
        Box::pin(self.while_open(self.next(stream, durable, wait)))
    }

    fn ack<'a>(
        &'a self,
        _stream: &'a str,
        _durable: &'a str,
        token: &'a str,
    ) -> BoxFuture<'a, Result<(), BusError>> {
        Box::pin(self.while_open(self.acknowledge(token)))
    }

    fn in_progress<'a>(
        &'a self,
        _stream: &'a str,
        _durable: &'a str,
        token: &'a str,
    ) -> BoxFuture<'a, Result<(), BusError>> {
        Box::pin(self.while_open(async move {
            self.of_jetstream(token)?;
            let sent = self.client.publish(token.to_owned(), "+WPI".into()).await;
            sent.map_err(|_| BusError::Closed)
        }))
    }

    fn stream_info<'a>(&'a self, stream: &'a str) -> BoxFuture<'a, Result<StreamInfo, BusError>> {
        Box::pin(self.while_open(self.stream(stream)))
    }

    fn consumers<'a>(
        &'a self,
        stream: &'a str,
    ) -> BoxFuture<'a, Result<Vec<ConsumerInfo>, BusError>> {
        Box::pin(self.while_open(self.all_consumers(stream)))
    }

    fn messages<'a>(
        &'a self,
        stream: &'a str,
        after: u64,
        limit: usize,
    ) -> BoxFuture<'a, Result<Vec<StoredMessage>, BusError>> {
        Box::pin(self.while_open(self.stored_after(stream, after, limit)))
    }

    fn bucket_get<'a>(
        &'a self,
        bucket: &'a str,
        key: &'a str,
    ) -> BoxFuture<'a, Result<Option<Vec<u8>>, BusError>> {
        Box::pin(self.while_open(self.get_key(bucket, key)))
    }

    fn bucket_put<'a>(
        &'a self,
        bucket: &'a str,
        key: &'a str,
        value: Vec<u8>,
    ) -> BoxFuture<'a, Result<(), BusError>> {
        Box::pin(self.while_open(self.put_key(bucket, key, value)))
    }

    fn bucket_delete<'a>(
        &'a self,
        bucket: &'a str,
        key: &'a str,
    ) -> BoxFuture<'a, Result<(), BusError>> {
        Box::pin(self.while_open(self.delete_key(bucket, key)))
    }

    fn signal<'a>(
        &'a self,
        subject: &'a str,
        payload: Vec<u8>,
    ) -> BoxFuture<'a, Result<(), BusError>> {
        Box::pin(self.while_open(async move {
            let sent = self
                .client
                .publish(subject.to_owned(), payload.into())
                .await;
            sent.map_err(|_| BusError::Closed)?;
            // It must have left before the connection may be dropped.
            self.client.flush().await.map_err(|_| BusError::Closed)
        }))
    }

    fn listen<'a>(
        &'a self,
        subject: &'a str,
    ) -> BoxFuture<'a, Result<BoxStream<'static, Vec<u8>>, BusError>> {
        Box::pin(self.while_open(async move {
            let heard = self.client.subscribe(subject.to_owned()).await;
            let heard = heard.map_err(|_| BusError::Closed)?;
            self.settle().await?;
            Ok(heard
                .map(|message| message.payload.to_vec())
                .take_until(self.closed.clone().cancelled_owned())
                .boxed())
        }))
    }

    fn closed(&self) -> CancellationToken {
        self.closed.clone()
    }
}
