//! From an HTTP request to a connection of another protocol: WebSocket, or SPDY/3.1 as kubectl before 1.31 asks for it.

use std::future::Future;
use std::sync::Arc;

use axum::body::Body;
use axum::response::Response;
use http::header::{CONNECTION, SEC_WEBSOCKET_ACCEPT, SEC_WEBSOCKET_PROTOCOL, UPGRADE};
use http::{HeaderMap, HeaderName, HeaderValue, StatusCode};
use hyper::upgrade::{OnUpgrade, Upgraded};
use hyper_util::rt::TokioIo;
use tokio::sync::OwnedSemaphorePermit;
use tokio_tungstenite::WebSocketStream;
use tokio_tungstenite::tungstenite::handshake::derive_accept_key;
use tokio_tungstenite::tungstenite::protocol::{Role, WebSocketConfig};
use tokio_util::sync::CancellationToken;

use super::{Upgrading, tunnel};
use crate::embedded::api::status::Failure;

/// Longest message that a client may send (bytes).
const MAX_MESSAGE: usize = 1 << 20;
/// `X-Stream-Protocol-Version` of port-forward over SPDY.
pub(in crate::embedded::api) const SPDY_FORWARD: &str = "portforward.k8s.io";
/// The same of exec.
pub(in crate::embedded::api) const SPDY_EXEC: &str = "v4.channel.k8s.io";
const SPDY: &str = "SPDY/3.1";
const STREAM_PROTOCOL: HeaderName = HeaderName::from_static("x-stream-protocol-version");

pub(in crate::embedded::api) type Socket = WebSocketStream<TokioIo<Upgraded>>;
/// A bidirectional byte stream that carries SPDY frames.
pub(in crate::embedded::api) type Bidirectional = Box<dyn ReadWrite>;

/// Reads and writes.
pub(in crate::embedded::api) trait ReadWrite:
    tokio::io::AsyncRead + tokio::io::AsyncWrite + Send + Unpin
{
}

impl<T: tokio::io::AsyncRead + tokio::io::AsyncWrite + Send + Unpin> ReadWrite for T {}

/// Put into a request by its listener: ends what outlives the request.
#[derive(Clone, Debug, Default)]
pub struct Stop(pub CancellationToken);

/// True if a request asks for another protocol.
pub(in crate::embedded::api) fn is_upgrade(headers: &HeaderMap) -> bool {
    headers.contains_key(UPGRADE)
}

/// What a WebSocket's messages mean, by its subprotocol.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::embedded::api) enum Framing {
    /// The first byte names a channel; 255 closes one.
    V5,
    /// The first byte names a channel.
    V4,
    /// SPDY frames, cut anywhere.
    SpdyTunnel,
}

impl Framing {
    fn name(self) -> &'static str {
        match self {
            Framing::V5 => "v5.channel.k8s.io",
            Framing::V4 => "v4.channel.k8s.io",
            Framing::SpdyTunnel => "SPDY/3.1+portforward.k8s.io",
        }
    }
}

enum Protocol {
    WebSocket { framing: Framing, accept: String },
    Spdy(&'static str),
}

/// A connection after its upgrade.
pub(in crate::embedded::api) enum Connection {
    Channels(Box<Socket>),
    Spdy(Bidirectional),
}

/// An upgrade that both sides agree on.
pub(in crate::embedded::api) struct Handshake {
    protocol: Protocol,
    upgrade: OnUpgrade,
    stop: CancellationToken,
    place: OwnedSemaphorePermit,
}

impl Handshake {
    /// Agrees on a protocol: the first of the client's that is among `framings`, or SPDY with `spdy`.
    ///
    /// # Errors
    /// 400 when the request is no upgrade or asks for something else, 429 when too many sessions are open.
    pub(in crate::embedded::api) fn of(
        upgrading: Upgrading<'_>,
        framings: &[Framing],
        spdy: &'static str,
    ) -> Result<Handshake, Failure> {
        let protocol = agree(upgrading.headers, framings, spdy)?;
        let upgrade = upgrading
            .upgrade
            .ok_or_else(|| Failure::bad_request("Upgrade request required"))?;
        let place = Arc::clone(upgrading.sessions).try_acquire_owned();
        let place = place.map_err(|_| {
            Failure::status(
                429,
                "TooManyRequests",
                "too many exec, attach and port-forward sessions are open; end some of them and try again",
                None,
            )
        })?;
        Ok(Handshake {
            protocol,
            upgrade,
            stop: upgrading.stop,
            place,
        })
    }

    /// True if messages have channels.
    pub(in crate::embedded::api) fn is_channels(&self) -> bool {
        matches!(
            self.protocol,
            Protocol::WebSocket {
                framing: Framing::V4 | Framing::V5,
                ..
            }
        )
    }

    /// Answers 101, and hands the connection to `serve` once it is there.
    pub(in crate::embedded::api) fn go<F, S>(self, serve: S) -> Response
    where
        S: FnOnce(Connection) -> F + Send + 'static,
        F: Future<Output = ()> + Send,
    {
        let response = self.switching();
        let Handshake {
            protocol,
            upgrade,
            stop,
            place,
        } = self;
        tokio::spawn(async move {
            let session = async {
                match upgrade.await {
                    Ok(upgraded) => serve(connection(protocol, upgraded).await).await,
                    Err(error) => tracing::debug!(%error, "a connection was not upgraded"),
                }
            };
            tokio::select! {
                () = session => {}
                () = stop.cancelled() => {}
            }
            drop(place);
        });
        response
    }

    fn switching(&self) -> Response {
        let mut response = Response::new(Body::empty());
        *response.status_mut() = StatusCode::SWITCHING_PROTOCOLS;
        let headers = response.headers_mut();
        headers.insert(CONNECTION, HeaderValue::from_static("Upgrade"));
        match &self.protocol {
            Protocol::WebSocket { framing, accept } => {
                headers.insert(UPGRADE, HeaderValue::from_static("websocket"));
                headers.insert(
                    SEC_WEBSOCKET_PROTOCOL,
                    HeaderValue::from_static(framing.name()),
                );
                if let Ok(accept) = HeaderValue::from_str(accept) {
                    headers.insert(SEC_WEBSOCKET_ACCEPT, accept);
                }
            }
            Protocol::Spdy(version) => {
                headers.insert(UPGRADE, HeaderValue::from_static(SPDY));
                headers.insert(STREAM_PROTOCOL, HeaderValue::from_static(version));
            }
        }
        response
    }
}

async fn connection(protocol: Protocol, upgraded: Upgraded) -> Connection {
    let stream = TokioIo::new(upgraded);
    let Protocol::WebSocket { framing, .. } = protocol else {
        return Connection::Spdy(Box::new(stream));
    };
    let config = WebSocketConfig::default()
        .max_message_size(Some(MAX_MESSAGE))
        .max_frame_size(Some(MAX_MESSAGE));
    let socket = WebSocketStream::from_raw_socket(stream, Role::Server, Some(config)).await;
    match framing {
        Framing::SpdyTunnel => Connection::Spdy(Box::new(tunnel::open(socket))),
        Framing::V5 | Framing::V4 => Connection::Channels(Box::new(socket)),
    }
}

fn agree(
    headers: &HeaderMap,
    framings: &[Framing],
    spdy: &'static str,
) -> Result<Protocol, Failure> {
    let text = |name: &HeaderName| {
        let value = headers.get(name).and_then(|value| value.to_str().ok());
        value.unwrap_or_default().trim().to_owned()
    };
    let words = |name: &HeaderName| -> Vec<String> {
        let values = headers
            .get_all(name)
            .iter()
            .filter_map(|value| value.to_str().ok());
        let words = values.flat_map(|value| value.split(','));
        words.map(|word| word.trim().to_owned()).collect()
    };
    let wanted = text(&UPGRADE);
    if wanted.eq_ignore_ascii_case(SPDY) {
        let offered = words(&STREAM_PROTOCOL);
        return match offered.iter().any(|version| version == spdy) {
            true => Ok(Protocol::Spdy(spdy)),
            false => Err(unsupported(&offered, &[spdy])),
        };
    }
    if !wanted.eq_ignore_ascii_case("websocket") {
        return Err(Failure::bad_request("Upgrade request required"));
    }
    let key = text(&http::header::SEC_WEBSOCKET_KEY);
    if key.is_empty() || text(&http::header::SEC_WEBSOCKET_VERSION) != "13" {
        return Err(Failure::bad_request(
            "a WebSocket handshake needs Sec-WebSocket-Key and Sec-WebSocket-Version: 13",
        ));
    }
    let offered = words(&SEC_WEBSOCKET_PROTOCOL);
    let agreed = offered
        .iter()
        .find_map(|name| framings.iter().find(|framing| framing.name() == name));
    match agreed {
        Some(framing) => Ok(Protocol::WebSocket {
            framing: *framing,
            accept: derive_accept_key(key.as_bytes()),
        }),
        None => {
            let names: Vec<&str> = framings.iter().map(|framing| framing.name()).collect();
            Err(unsupported(&offered, &names))
        }
    }
}

fn unsupported(offered: &[String], supported: &[&str]) -> Failure {
    Failure::bad_request(format!(
        "unable to upgrade: the client offers the protocols {offered:?}, the server has {supported:?}"
    ))
}
