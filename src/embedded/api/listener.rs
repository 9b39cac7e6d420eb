//! The loopback listener that `kubectl` reaches: TLS and HTTP/1.1 around any tower service.
//!
//! From above: [`Listener::bind`], write the kubeconfig for [`Listener::port`], then spawn [`Listener::serve`]. A node's own
//! port is a listener, too: [`Listener::at`].

use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use axum::body::Body;
use axum::response::IntoResponse as _;
use http::{HeaderValue, Request, Response, header};
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::service::TowerToHyperService;
use rustls::ServerConfig;
use rustls::pki_types::CertificateDer;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Semaphore;
use tokio::task::JoinSet;
use tokio_rustls::TlsAcceptor;
use tokio_util::sync::CancellationToken;
use tower::{Service, ServiceExt as _, service_fn};

use self::answers::Answer;
use self::places::{Place, Places};
use super::budget::Budget;
use super::private_file;
use super::status::Failure;
use super::streams::Stop;
use super::tls::{ServingIdentity, TlsError};

mod answers;
mod places;

const PORT_FILE: &str = "api-port";
/// Connections beyond the limit that are answered at once; further ones are closed.
const REFUSALS: usize = 64;
/// What is buffered of a connection in each direction, the head of a request included (bytes).
const BUFFER: usize = 128 << 10;

/// How much a listener grants its clients.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// For further ones those give way that no request is under way on; if there are none, they are answered with 429.
    pub connections: usize,
    /// Memory for large answers that are under way (bytes).
    pub answers: usize,
    /// For the client of a large answer to read it; then it gives way to others who want one, and earlier if all slow ones
    /// together hold more than their share.
    pub reading: Duration,
    /// For the TLS handshake.
    pub handshake: Duration,
    /// For the head of a request, idle time before it included; longer than clients keep idle connections, so that
    /// they and not we close them.
    pub header: Duration,
    /// For open requests to end once the listener stops; watches are cut then.
    pub grace: Duration,
}

impl Default for Limits {
    fn default() -> Self {
        Limits {
            connections: 4096,
            answers: 256 << 20,
            reading: Duration::from_secs(5),
            handshake: Duration::from_secs(10),
            header: Duration::from_secs(120),
            grace: Duration::from_secs(3),
        }
    }
}

/// Why the API cannot be served.
#[derive(Debug, thiserror::Error)]
pub enum ListenError {
    #[error("port {0} on 127.0.0.1 is taken; stop what listens there, or choose another port")]
    Taken(u16),
    #[error("cannot listen on {address}: {source}; choose another address")]
    At {
        address: SocketAddr,
        source: io::Error,
    },
    #[error("cannot listen on 127.0.0.1:{port}: {source}")]
    Bind { port: u16, source: io::Error },
    #[error("cannot remember the API's port in {path}: {source}; is the state directory writable?")]
    Remember { path: PathBuf, source: io::Error },
    #[error(transparent)]
    Tls(#[from] TlsError),
}

/// Put into a request by its listener: the certificate that the client showed, which the listener's authorities signed.
#[derive(Clone, Debug)]
pub struct Peer(pub Option<CertificateDer<'static>>);

/// A bound port that is not served yet.
pub struct Listener {
    socket: TcpListener,
    port: u16,
    acceptor: TlsAcceptor,
    limits: Limits,
}

impl std::fmt::Debug for Listener {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Listener")
            .field("port", &self.port)
            .finish_non_exhaustive()
    }
}

impl Listener {
    /// Binds 127.0.0.1, and nothing else.
    ///
    /// A given `port` is taken or refused. Without one it is the port that `directory` remembers, else a free one,
    /// which is remembered then: kubectl caches by address, and shells keep their kubeconfig.
    ///
    /// # Errors
    /// The port is taken or not allowed, the port cannot be remembered, the identity does not work.
    pub async fn bind(
        port: Option<u16>,
        directory: &Path,
        identity: &ServingIdentity,
        limits: Limits,
    ) -> Result<Listener, ListenError> {
        let acceptor = TlsAcceptor::from(identity.server_config()?);
        let socket = match port {
            Some(port) => bind(port).await?,
            None => bind_remembered(directory).await?,
        };
        let port = socket
            .local_addr()
            .map_err(|source| ListenError::Bind { port: 0, source })?
            .port();
        Ok(Listener {
            socket,
            port,
            acceptor,
            limits,
        })
    }

    /// Binds an address of the caller's choice, with TLS of the caller's choice.
    ///
    /// # Errors
    /// The address is taken or not allowed.
    pub async fn at(
        address: SocketAddr,
        config: Arc<ServerConfig>,
        limits: Limits,
    ) -> Result<Listener, ListenError> {
        let failed = |source| ListenError::At { address, source };
        let socket = TcpListener::bind(address).await.map_err(failed)?;
        let port = socket.local_addr().map_err(failed)?.port();
        Ok(Listener {
            socket,
            port,
            acceptor: TlsAcceptor::from(config),
            limits,
        })
    }

    /// The port it is bound to.
    #[must_use]
    pub fn port(&self) -> u16 {
        self.port
    }

    /// The URL for a kubeconfig.
    #[must_use]
    pub fn url(&self) -> String {
        format!("https://127.0.0.1:{}", self.port)
    }

    /// Serves until `stop`, then lets open requests end for a while and cuts the rest.
    pub async fn serve<S>(self, service: S, stop: CancellationToken)
    where
        S: Service<Request<Incoming>, Response = Response<Body>> + Clone + Send + 'static,
        S::Future: Send,
        S::Error: Into<Box<dyn std::error::Error + Send + Sync>>,
    {
        let places = Places::new(self.limits.connections);
        let budget = Budget::new(self.limits.answers, self.limits.reading);
        let refusals = Arc::new(Semaphore::new(REFUSALS));
        let mut connections = JoinSet::new();
        loop {
            let stream = tokio::select! {
                () = stop.cancelled() => break,
                Some(_) = connections.join_next() => continue,
                stream = accept(&self.socket) => stream,
            };
            let Some(stream) = stream else { continue };
            let connection = Connection {
                stream,
                acceptor: self.acceptor.clone(),
                limits: self.limits,
                stop: stop.clone(),
            };
            if let Some(place) = places.take() {
                let (service, budget) = (service.clone(), budget.clone());
                connections.spawn(async move {
                    tokio::select! {
                        () = place.given_way() => {}
                        () = connection.serve(seated(service, place.clone(), budget)) => {}
                    }
                });
            } else if let Ok(place) = refusals.clone().try_acquire_owned() {
                connections.spawn(async move {
                    connection.serve(service_fn(refuse)).await;
                    drop(place);
                });
            }
            // Beyond that a connection is closed without a word.
        }
        drop(self.socket);
        let ended = async { while connections.join_next().await.is_some() {} };
        if tokio::time::timeout(self.limits.grace, ended)
            .await
            .is_err()
        {
            connections.shutdown().await;
        }
    }
}

async fn bind(port: u16) -> Result<TcpListener, ListenError> {
    TcpListener::bind((Ipv4Addr::LOCALHOST, port))
        .await
        .map_err(|source| match source.kind() {
            io::ErrorKind::AddrInUse => ListenError::Taken(port),
            _ => ListenError::Bind { port, source },
        })
}

async fn bind_remembered(directory: &Path) -> Result<TcpListener, ListenError> {
    let path = directory.join(PORT_FILE);
    let remembered = std::fs::read_to_string(&path)
        .ok()
        .and_then(|text| text.trim().parse::<u16>().ok());
    if let Some(port) = remembered.filter(|port| *port != 0)
        && let Ok(socket) = bind(port).await
    {
        return Ok(socket);
    }
    let socket = bind(0).await?;
    let remember = socket.local_addr().and_then(|address: SocketAddr| {
        private_file::replace(&path, format!("{}\n", address.port()).as_bytes())
    });
    remember.map_err(|source| ListenError::Remember { path, source })?;
    Ok(socket)
}

/// The next connection; `None` to try again.
async fn accept(socket: &TcpListener) -> Option<TcpStream> {
    match socket.accept().await {
        Ok((stream, _)) => Some(stream),
        Err(error) => {
            tracing::debug!(%error, "a connection to the API could not be accepted");
            // Out of file descriptors: trying at once would spin.
            tokio::time::sleep(Duration::from_millis(100)).await;
            None
        }
    }
}

/// What clients are told while too many are connected: they try again by themselves.
async fn refuse(_request: Request<Incoming>) -> Result<Response<Body>, std::convert::Infallible> {
    Ok(too_many(
        "too many connections to the API are open; end some watches and try again",
    ))
}

fn too_many(text: &str) -> Response<Body> {
    let mut response = Failure::busy(text).into_response();
    let close = HeaderValue::from_static("close");
    response.headers_mut().insert(header::CONNECTION, close);
    response
}

/// The service as the connection of this place meets it.
fn seated<S>(
    service: S,
    place: Place,
    budget: Budget,
) -> impl Service<Request<Incoming>, Response = Response<Body>, Error = S::Error, Future: Send>
+ Clone
+ Send
+ 'static
where
    S: Service<Request<Incoming>, Response = Response<Body>> + Clone + Send + 'static,
    S::Future: Send,
{
    service_fn(move |request: Request<Incoming>| {
        let (service, underway) = (service.clone(), place.begin(&request));
        let (place, budget) = (place.clone(), budget.clone());
        async move {
            let Some(underway) = underway else {
                return Ok(too_many(
                    "too many watches and logs are followed; end some and try again",
                ));
            };
            let read = request.method().is_safe();
            let response = service.oneshot(request).await?;
            let room = match answers::size(response.body()) {
                Some(size) if read => match budget.take(size, place.end()) {
                    None => {
                        return Ok(too_many("too many large answers are being read; try again"));
                    }
                    room => room,
                },
                // What was written is written: a refusal would say otherwise.
                Some(size) => Some(budget.claim(size, place.end())),
                None => None,
            };
            Ok(response.map(|body| Body::new(Answer::new(body, underway, room))))
        }
    })
}

struct Connection {
    stream: TcpStream,
    acceptor: TlsAcceptor,
    limits: Limits,
    stop: CancellationToken,
}

impl Connection {
    async fn serve<S>(self, service: S)
    where
        S: Service<Request<Incoming>, Response = Response<Body>> + Clone + Send + 'static,
        S::Future: Send,
        S::Error: Into<Box<dyn std::error::Error + Send + Sync>>,
    {
        let _ = self.stream.set_nodelay(true);
        let handshake =
            tokio::time::timeout(self.limits.handshake, self.acceptor.accept(self.stream));
        let stream = tokio::select! {
            () = self.stop.cancelled() => return,
            result = handshake => match result {
                Ok(Ok(stream)) => stream,
                Ok(Err(error)) => return tracing::debug!(%error, "a TLS handshake with the API failed"),
                Err(_) => return tracing::debug!("a TLS handshake with the API took too long"),
            },
        };
        let stop = Stop(self.stop.clone());
        let shown = stream.get_ref().1.peer_certificates();
        let peer = Peer(shown.and_then(<[_]>::first).cloned());
        let service = service.map_request(move |mut request: Request<Incoming>| {
            request.extensions_mut().insert(stop.clone());
            request.extensions_mut().insert(peer.clone());
            request
        });
        let connection = http1::Builder::new()
            .timer(TokioTimer::new())
            .header_read_timeout(self.limits.header)
            .max_buf_size(BUFFER)
            .serve_connection(TokioIo::new(stream), TowerToHyperService::new(service))
            .with_upgrades();
        tokio::pin!(connection);
        let result = tokio::select! {
            result = &mut connection => result,
            () = self.stop.cancelled() => {
                connection.as_mut().graceful_shutdown();
                connection.await
            }
        };
        if let Err(error) = result {
            tracing::debug!(%error, "a connection to the API ended early");
        }
    }
}

#[cfg(test)]
mod tests;
