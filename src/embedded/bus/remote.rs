//! The bus from another process: [`super::Bus`] over the HTTP face of [`super::server`].

use std::sync::Arc;
use std::time::Duration;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use futures::StreamExt;
use futures::future::BoxFuture;
use futures::stream::BoxStream;
use tokio_util::sync::{CancellationToken, DropGuard};

use super::protocol::{ATTACH_PATH, Answer, CALL_PATH, Call, LISTEN_PATH};
use super::{
    Access, Bus, BusError, ConnectBus, ConsumerConfig, ConsumerInfo, Delivery, NO_SERVERS,
    PublishAck, StoredMessage, StreamConfig, StreamInfo,
};
use crate::embedded::api::tls::init_tls;

/// Longest line of a signal stream; longer ones end the stream.
const MAX_LINE: usize = 2 << 20;
/// How long a call may take beyond what it waits for.
const CALL_TIMEOUT: Duration = Duration::from_secs(10);

/// A connection to a bus in another process.
pub struct RemoteBus {
    http: reqwest::Client,
    base: String,
    secret: String,
    closed: CancellationToken,
    /// Ends the attached stream when the connection is dropped.
    _attached: DropGuard,
}

/// Connects to the bus at one address, whatever URL the pod's configuration names.
#[derive(Clone, Debug)]
pub struct RemoteConnector {
    /// Base URL of the client port, such as `http://127.0.0.1:4222`.
    pub base: String,
}

impl ConnectBus for RemoteConnector {
    fn connect<'a>(
        &'a self,
        _url: &'a str,
        access: &'a Access,
    ) -> BoxFuture<'a, Result<Arc<dyn Bus>, BusError>> {
        Box::pin(async move {
            let connection: Arc<dyn Bus> =
                RemoteBus::connect(&self.base, access.secret().unwrap_or_default()).await?;
            Ok(connection)
        })
    }
}

impl RemoteBus {
    /// Connects to the client port at `base`, such as `http://127.0.0.1:4222`.
    pub async fn connect(base: &str, secret: &str) -> Result<Arc<RemoteBus>, BusError> {
        let http = http_client()?;
        let attach = http
            .post(format!("{base}{ATTACH_PATH}"))
            .bearer_auth(secret)
            .send();
        let response = tokio::time::timeout(CALL_TIMEOUT, attach)
            .await
            .map_err(|_| BusError::Refused("nats: timeout".to_owned()))?
            .map_err(|_| BusError::Refused(NO_SERVERS.to_owned()))?;
        match response.status().as_u16() {
            200 => {}
            401 => {
                return Err(BusError::Refused(
                    "nats: Authorization Violation".to_owned(),
                ));
            }
            _ => return Err(BusError::Refused(NO_SERVERS.to_owned())),
        }
        let closed = CancellationToken::new();
        let dropped = CancellationToken::new();
        tokio::spawn(watch_attached(response, closed.clone(), dropped.clone()));
        let (base, secret) = (base.to_owned(), secret.to_owned());
        Ok(Arc::new(RemoteBus {
            http,
            base,
            secret,
            closed,
            _attached: dropped.drop_guard(),
        }))
    }

    async fn call(&self, call: Call, wait: Duration) -> Result<Answer, BusError> {
        let sent = async {
            let request = self
                .http
                .post(format!("{}{CALL_PATH}", self.base))
                .bearer_auth(&self.secret)
                .json(&call);
            let answer = request
                .send()
                .await?
                .error_for_status()?
                .json::<Answer>()
                .await?;
            Ok::<_, reqwest::Error>(answer)
        };
        let answer = tokio::select! {
            biased;
            () = self.closed.cancelled() => return Err(BusError::Closed),
            answer = tokio::time::timeout(wait + CALL_TIMEOUT, sent) => answer,
        };
        match answer {
            Ok(Ok(Answer::Error(error))) => Err(error),
            Ok(Ok(answer)) => Ok(answer),
            Ok(Err(error)) if error.is_decode() => Err(unexpected()),
            Ok(Err(_)) => {
                self.closed.cancel();
                Err(BusError::Closed)
            }
            Err(_) => Err(BusError::Refused("nats: timeout".to_owned())),
        }
    }

    async fn run(&self, call: Call) -> Result<(), BusError> {
        self.call(call, Duration::ZERO).await.map(drop)
    }
}

/// Ends the connection when the server ends the attached stream.
async fn watch_attached(
    mut response: reqwest::Response,
    closed: CancellationToken,
    dropped: CancellationToken,
) {
    let ended = async { while let Ok(Some(_)) = response.chunk().await {} };
    tokio::select! {
        () = ended => closed.cancel(),
        () = dropped.cancelled() => {}
    }
}

fn http_client() -> Result<reqwest::Client, BusError> {
    // reqwest wants a TLS provider even for plain HTTP.
    init_tls();
    reqwest::Client::builder()
        .no_proxy()
        .build()
        .map_err(|error| {
            BusError::Refused(format!("cannot make an HTTP client for the bus: {error}"))
        })
}

fn unexpected() -> BusError {
    BusError::Refused(
        "the bus answered something else; both ends must be the same eventlab".to_owned(),
    )
}

macro_rules! expect {
    ($call:expr, $variant:path) => {
        match $call? {
            $variant(value) => Ok(value),
            _ => Err(unexpected()),
        }
    };
}

impl Bus for RemoteBus {
    fn ensure_stream(&self, config: StreamConfig) -> BoxFuture<'_, Result<StreamInfo, BusError>> {
        let call = self.call(Call::EnsureStream(config), Duration::ZERO);
        Box::pin(async { expect!(call.await, Answer::Stream) })
    }

    fn publish<'a>(
        &'a self,
        subject: &'a str,
        message_id: &'a str,
        payload: Vec<u8>,
    ) -> BoxFuture<'a, Result<PublishAck, BusError>> {
        let call = Call::Publish {
            subject: subject.to_owned(),
            message_id: message_id.to_owned(),
            payload,
        };
        Box::pin(async { expect!(self.call(call, Duration::ZERO).await, Answer::Published) })
    }

    fn ensure_consumer<'a>(
        &'a self,
        stream: &'a str,
        config: ConsumerConfig,
    ) -> BoxFuture<'a, Result<ConsumerInfo, BusError>> {
        let call = Call::EnsureConsumer {
            stream: stream.to_owned(),
            config,
        };
        Box::pin(async { expect!(self.call(call, Duration::ZERO).await, Answer::Consumer) })
    }

    fn delete_consumer<'a>(
        &'a self,
        stream: &'a str,
        durable: &'a str,
    ) -> BoxFuture<'a, Result<(), BusError>> {
        Box::pin(self.run(Call::DeleteConsumer {
            stream: stream.to_owned(),
            durable: durable.to_owned(),
        }))
    }

    fn pull<'a>(
        &'a self,
        stream: &'a str,
        durable: &'a str,
        wait: Duration,
    ) -> BoxFuture<'a, Result<Option<Delivery>, BusError>> {
        let call = Call::Pull {
            stream: stream.to_owned(),
            durable: durable.to_owned(),
            wait,
        };
        Box::pin(async move { expect!(self.call(call, wait).await, Answer::Delivery) })
    }

    fn ack<'a>(
        &'a self,
        stream: &'a str,
        durable: &'a str,
        token: &'a str,
    ) -> BoxFuture<'a, Result<(), BusError>> {
        let (stream, durable, token) = (stream.to_owned(), durable.to_owned(), token.to_owned());
        Box::pin(self.run(Call::Ack {
            stream,
            durable,
            token,
        }))
    }

    fn in_progress<'a>(
        &'a self,
        stream: &'a str,
        durable: &'a str,
        token: &'a str,
    ) -> BoxFuture<'a, Result<(), BusError>> {
        let (stream, durable, token) = (stream.to_owned(), durable.to_owned(), token.to_owned());
        Box::pin(self.run(Call::InProgress {
            stream,
            durable,
            token,
        }))
    }

    fn stream_info<'a>(&'a self, stream: &'a str) -> BoxFuture<'a, Result<StreamInfo, BusError>> {
        let call = Call::StreamInfo(stream.to_owned());
        Box::pin(async { expect!(self.call(call, Duration::ZERO).await, Answer::Stream) })
    }

    fn consumers<'a>(
        &'a self,
        stream: &'a str,
    ) -> BoxFuture<'a, Result<Vec<ConsumerInfo>, BusError>> {
        let call = Call::Consumers(stream.to_owned());
        Box::pin(async { expect!(self.call(call, Duration::ZERO).await, Answer::Consumers) })
    }

    fn messages<'a>(
        &'a self,
        stream: &'a str,
        after: u64,
        limit: usize,
    ) -> BoxFuture<'a, Result<Vec<StoredMessage>, BusError>> {
        let call = Call::Messages {
            stream: stream.to_owned(),
            after,
            limit,
        };
        Box::pin(async { expect!(self.call(call, Duration::ZERO).await, Answer::Messages) })
    }

    fn bucket_get<'a>(
        &'a self,
        bucket: &'a str,
        key: &'a str,
    ) -> BoxFuture<'a, Result<Option<Vec<u8>>, BusError>> {
        let call = Call::BucketGet {
            bucket: bucket.to_owned(),
            key: key.to_owned(),
        };
        Box::pin(async {
            let value = expect!(self.call(call, Duration::ZERO).await, Answer::Value)?;
            Ok(value.map(|bytes| bytes.0))
        })
    }

    fn bucket_put<'a>(
        &'a self,
        bucket: &'a str,
        key: &'a str,
        value: Vec<u8>,
    ) -> BoxFuture<'a, Result<(), BusError>> {
        Box::pin(self.run(Call::BucketPut {
            bucket: bucket.to_owned(),
            key: key.to_owned(),
            value,
        }))
    }

    fn bucket_delete<'a>(
        &'a self,
        bucket: &'a str,
        key: &'a str,
    ) -> BoxFuture<'a, Result<(), BusError>> {
        Box::pin(self.run(Call::BucketDelete {
            bucket: bucket.to_owned(),
            key: key.to_owned(),
        }))
    }

    fn signal<'a>(
        &'a self,
        subject: &'a str,
        payload: Vec<u8>,
    ) -> BoxFuture<'a, Result<(), BusError>> {
        Box::pin(self.run(Call::Signal {
            subject: subject.to_owned(),
            payload,
        }))
    }

    fn listen<'a>(
        &'a self,
        subject: &'a str,
    ) -> BoxFuture<'a, Result<BoxStream<'static, Vec<u8>>, BusError>> {
        Box::pin(async move {
            let url = format!("{}{LISTEN_PATH}", self.base);
            let request = self
                .http
                .post(url)
                .bearer_auth(&self.secret)
                .body(subject.to_owned())
                .send();
            let response = request.await.and_then(reqwest::Response::error_for_status);
            let mut lines = Lines {
                response: response.map_err(|_| BusError::Closed)?,
                buffer: Vec::new(),
            };
            // The empty first line says that the server has subscribed.
            lines.next().await.ok_or(BusError::Closed)?;
            let signals = futures::stream::unfold(lines, |mut lines| async move {
                let line = lines.next().await?;
                STANDARD.decode(line).ok().map(|payload| (payload, lines))
            });
            Ok(signals
                .take_until(self.closed.clone().cancelled_owned())
                .boxed())
        })
    }

    fn closed(&self) -> CancellationToken {
        self.closed.clone()
    }
}

/// Lines of a streamed answer.
struct Lines {
    response: reqwest::Response,
    buffer: Vec<u8>,
}

impl Lines {
    async fn next(&mut self) -> Option<Vec<u8>> {
        loop {
            if let Some(end) = self.buffer.iter().position(|byte| *byte == b'\n') {
                let rest = self.buffer.split_off(end + 1);
                let mut line = std::mem::replace(&mut self.buffer, rest);
                line.pop();
                return Some(line);
            }
            if self.buffer.len() > MAX_LINE {
                return None;
            }
            let chunk = self.response.chunk().await.ok()??;
            self.buffer.extend_from_slice(&chunk);
        }
    }
}
