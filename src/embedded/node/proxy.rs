//! One listener for each port of each Service, so that its URL stays valid whatever pods come and go.
//!
//! It listens only while a ready pod is behind it: otherwise a client gets "connection refused", as from kube-proxy.

use std::collections::HashMap;
use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use futures::StreamExt;
use k8s_openapi::api::core::v1::Service;
use kube::runtime::{WatchStreamExt, watcher};
use kube::{Api, Client};
use tokio::net::{TcpListener, TcpSocket, TcpStream};
use tokio::sync::{Semaphore, oneshot, watch};
use tokio::task::{AbortHandle, JoinSet};
use tokio_util::sync::CancellationToken;

use super::addresses::{AddressBook, PortKey, identity};

/// Connections through one port at a time.
const MAX_CONNECTIONS: usize = 512;
/// How long a port that was ours is tried for, and how often.
const PATIENCE: Duration = Duration::from_millis(500);
const RETRY: Duration = Duration::from_millis(2);
/// Pause after a failed accept (no descriptors left) or reservation.
const PAUSE: Duration = Duration::from_millis(50);

/// Follows the Services of the cluster and serves their ports until `cancel`, then closes them all; `listed` is told when
/// those that exist now are in the book.
pub(super) async fn run(
    client: Client,
    book: AddressBook,
    listed: oneshot::Sender<()>,
    cancel: CancellationToken,
) {
    let mut listed = Some(listed);
    let mut ports = Ports {
        book,
        tasks: JoinSet::new(),
        running: HashMap::new(),
    };
    // Services seen since a listing began: those that it does not name are gone.
    let mut seen: Option<Vec<(String, String)>> = None;
    let mut events = watcher(Api::<Service>::all(client), watcher::Config::default())
        .default_backoff()
        .boxed();
    loop {
        let event = tokio::select! {
            () = cancel.cancelled() => break,
            event = events.next() => event,
        };
        match event {
            None => break,
            Some(Ok(watcher::Event::Apply(service))) => ports.apply(&service).await,
            Some(Ok(watcher::Event::Delete(service))) => ports.remove(&identity(&service)),
            Some(Ok(watcher::Event::Init)) => seen = Some(Vec::new()),
            Some(Ok(watcher::Event::InitApply(service))) => {
                seen.get_or_insert_default().push(identity(&service));
                ports.apply(&service).await;
            }
            Some(Ok(watcher::Event::InitDone)) => {
                ports.keep(&seen.take().unwrap_or_default());
                if let Some(listed) = listed.take() {
                    // The node may be gone already.
                    let _ = listed.send(());
                }
            }
            Some(Err(error)) => tracing::debug!(%error, "watching services"),
        }
    }
    // Closed here, not some time after: the next life wants the same ports.
    ports.tasks.shutdown().await;
}

/// The listeners of all Services.
struct Ports {
    book: AddressBook,
    tasks: JoinSet<()>,
    running: HashMap<(String, String), Vec<(PortKey, AbortHandle)>>,
}

impl Ports {
    async fn apply(&mut self, service: &Service) {
        let keys = self.book.set_service(service);
        let book = self.book.clone();
        let running = self.running.entry(identity(service)).or_default();
        running.retain(|(key, task)| {
            let kept = keys.contains(key);
            if !kept {
                task.abort();
                book.remove_real(key);
            }
            kept
        });
        for key in keys {
            if running.iter().all(|(known, _)| *known != key) {
                let reserved = Reserved::take_again(&self.book, &key).await;
                let task = self
                    .tasks
                    .spawn(serve(self.book.clone(), key.clone(), reserved));
                running.push((key, task));
            }
        }
        // Ended tasks would pile up otherwise.
        while self.tasks.try_join_next().is_some() {}
    }

    fn remove(&mut self, service: &(String, String)) {
        // First the Service: what a task still says about its port is then ignored.
        self.book.remove_service(&service.0, &service.1);
        for (key, task) in self.running.remove(service).into_iter().flatten() {
            task.abort();
            self.book.remove_real(&key);
        }
    }

    fn keep(&mut self, present: &[(String, String)]) {
        let gone: Vec<_> = self
            .running
            .keys()
            .filter(|service| !present.contains(service))
            .cloned()
            .collect();
        for service in gone {
            self.remove(&service);
        }
    }
}

/// A port that is ours and refuses connections: bound, but not listening.
#[derive(Debug)]
struct Reserved(Option<TcpSocket>);

impl Reserved {
    /// Reserves the port it had before, else the Service's own, else any.
    fn take(book: &AddressBook, key: &PortKey) -> Reserved {
        // Ports below 1024 are for root alone, and the lab must not depend on who runs it.
        let own = (key.port >= 1024).then_some(key.port);
        let candidates = [book.remembered(key), own, Some(0)];
        for port in candidates.into_iter().flatten() {
            // Two reservations of one port do not exclude each other, only a listener does.
            if book.has_port(key, port) {
                continue;
            }
            if let Ok((socket, address)) = reserve(port) {
                book.set_real(key, address, false);
                return Reserved(Some(socket));
            }
        }
        Reserved(None)
    }

    /// Reserves the port that was listened on before, here or in an earlier life.
    ///
    /// A child that is being started holds a copy of every socket until it runs its program, a closed listener among
    /// them; so this has patience before it gives the port up.
    async fn take_again(book: &AddressBook, key: &PortKey) -> Reserved {
        let end = tokio::time::Instant::now() + PATIENCE;
        if let Some(port) = book
            .remembered(key)
            .filter(|port| !book.has_port(key, *port))
        {
            while tokio::time::Instant::now() < end {
                if let Ok((socket, address)) = reserve(port) {
                    book.set_real(key, address, false);
                    return Reserved(Some(socket));
                }
                tokio::time::sleep(RETRY).await;
            }
        }
        Reserved::take(book, key)
    }

    fn listen(self) -> io::Result<TcpListener> {
        self.0
            .ok_or_else(|| io::Error::from(io::ErrorKind::AddrNotAvailable))?
            .listen(1024)
    }
}

/// Binds a port on loopback without listening; fails where somebody listens.
pub(super) fn reserve(port: u16) -> io::Result<(TcpSocket, SocketAddr)> {
    let address = SocketAddr::from((Ipv4Addr::LOCALHOST, port));
    let socket = TcpSocket::new_v4()?;
    // Connections of the last listener that linger must not keep the port from us.
    socket.set_reuseaddr(true)?;
    socket.bind(address)?;
    let address = socket.local_addr()?;
    Ok((socket, address))
}

async fn serve(book: AddressBook, key: PortKey, mut reserved: Reserved) {
    let mut changes = book.changes();
    let connections = Arc::new(Semaphore::new(MAX_CONNECTIONS));
    loop {
        while book.endpoints(&key).is_empty() {
            if changes.changed().await.is_err() {
                return;
            }
        }
        match std::mem::replace(&mut reserved, Reserved(None)).listen() {
            Ok(listener) => {
                let Ok(address) = listener.local_addr() else {
                    continue;
                };
                book.set_real(&key, address, true);
                accept(&book, &key, &listener, &mut changes, &connections).await;
                book.set_real(&key, address, false);
            }
            Err(error) => {
                // Somebody else listens there by now: take another port.
                tracing::debug!(%key, %error, "cannot listen for a service");
                tokio::time::sleep(PAUSE).await;
            }
        }
        reserved = Reserved::take_again(&book, &key).await;
        if reserved.0.is_none() {
            tokio::time::sleep(PAUSE).await;
        }
    }
}

/// Passes connections on until no ready pod is left.
async fn accept(
    book: &AddressBook,
    key: &PortKey,
    listener: &TcpListener,
    changes: &mut watch::Receiver<u64>,
    connections: &Arc<Semaphore>,
) {
    let mut turn = 0usize;
    loop {
        tokio::select! {
            changed = changes.changed() => {
                if changed.is_err() || book.endpoints(key).is_empty() {
                    return;
                }
            }
            accepted = listener.accept() => match accepted {
                Ok((client, _)) => {
                    turn = turn.wrapping_add(1);
                    let endpoints = book.endpoints(key);
                    let Some(endpoint) = endpoints.get(turn % endpoints.len().max(1)).copied() else { return };
                    let Ok(permit) = Arc::clone(connections).try_acquire_owned() else { continue };
                    tokio::spawn(async move {
                        // A connection that breaks is its client's to notice.
                        let _ = pass(client, endpoint).await;
                        drop(permit);
                    });
                }
                Err(_) => tokio::time::sleep(PAUSE).await,
            }
        }
    }
}

async fn pass(mut client: TcpStream, endpoint: SocketAddr) -> io::Result<()> {
    let mut server = TcpStream::connect(endpoint).await?;
    client.set_nodelay(true)?;
    server.set_nodelay(true)?;
    tokio::io::copy_bidirectional(&mut client, &mut server).await?;
    Ok(())
}
