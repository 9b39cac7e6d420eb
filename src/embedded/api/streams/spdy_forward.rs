//! Port-forward over SPDY: each connection of the client is a pair of streams, `error` and `data`, that share a request id.

use std::collections::HashMap;
use std::sync::Arc;

use axum::body::Bytes;
use tokio::io::AsyncReadExt;
use tokio::sync::mpsc;
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

use super::forward::write;
use super::spdy::{self, Event, Frames, Outbox, PROTOCOL_ERROR, REFUSED_STREAM};
use super::upgrade::Bidirectional;
use super::{PodStreams, PodTarget, refused};

/// Connections that one client may have open.
const MAX_STREAMS: usize = 512;
const WAITING: usize = 16;
const CHUNK: usize = 32 * 1024;

/// Serves until the client ends.
pub(super) async fn serve(stream: Bidirectional, node: Arc<dyn PodStreams>, pod: PodTarget) {
    let (frames, outbox, writing) = spdy::open(stream);
    let mut session = Session {
        frames,
        outbox,
        node,
        pod,
        errors: HashMap::new(),
        inputs: HashMap::new(),
        connections: JoinSet::new(),
    };
    tokio::select! {
        () = session.run() => {}
        () = writing => {}
    }
    session.connections.shutdown().await;
}

struct Input {
    sender: Option<mpsc::Sender<Bytes>>,
    reset: CancellationToken,
}

struct Session<R> {
    frames: Frames<R>,
    outbox: Outbox,
    node: Arc<dyn PodStreams>,
    pod: PodTarget,
    /// Error streams that wait for their data stream, by request id.
    errors: HashMap<String, u32>,
    /// Data streams that are open.
    inputs: HashMap<u32, Input>,
    /// They answer the data stream that ended.
    connections: JoinSet<u32>,
}

impl<R: tokio::io::AsyncRead + Unpin> Session<R> {
    async fn run(&mut self) {
        loop {
            let event = self.frames.next().await;
            while let Some(ended) = self.connections.try_join_next() {
                if let Ok(stream) = ended {
                    self.inputs.remove(&stream);
                }
            }
            match event {
                Ok(Some(Event::Open { stream, headers })) => self.open(stream, &headers).await,
                Ok(Some(Event::Data { stream, bytes })) => self.data(stream, bytes).await,
                Ok(Some(Event::End { stream })) => {
                    if let Some(input) = self.inputs.get_mut(&stream) {
                        input.sender = None;
                    }
                }
                Ok(Some(Event::Reset { stream })) => {
                    self.errors.retain(|_, error| *error != stream);
                    if let Some(input) = self.inputs.remove(&stream) {
                        input.reset.cancel();
                    }
                }
                Ok(Some(Event::GoAway) | None) => return,
                Err(error) => {
                    return tracing::debug!(%error, "a port-forward connection broke");
                }
            }
        }
    }

    async fn open(&mut self, stream: u32, headers: &[(String, String)]) {
        let header = |name: &str| {
            let found = headers.iter().find(|(key, _)| key == name);
            found.map_or("", |(_, value)| value.as_str())
        };
        let request = header("requestid").to_owned();
        let port = header("port").parse::<u16>().ok().filter(|port| *port != 0);
        let known = self.inputs.contains_key(&stream);
        match (header("streamtype"), port) {
            _ if known || self.errors.len() + self.inputs.len() >= MAX_STREAMS => {
                self.outbox.reset(stream, REFUSED_STREAM).await;
            }
            ("error", Some(_)) => {
                self.frames.reply(stream).await;
                self.errors.insert(request, stream);
            }
            ("data", Some(port)) => match self.errors.remove(&request) {
                Some(error) => {
                    self.frames.reply(stream).await;
                    self.connect(stream, error, port);
                }
                None => self.outbox.reset(stream, PROTOCOL_ERROR).await,
            },
            _ => self.outbox.reset(stream, PROTOCOL_ERROR).await,
        }
    }

    fn connect(&mut self, data: u32, error: u32, port: u16) {
        let (sender, input) = mpsc::channel(WAITING);
        let reset = CancellationToken::new();
        self.inputs.insert(
            data,
            Input {
                sender: Some(sender),
                reset: reset.clone(),
            },
        );
        let connection = Connection {
            outbox: self.outbox.clone(),
            data,
            error,
            port,
        };
        let (node, pod) = (Arc::clone(&self.node), self.pod.clone());
        self.connections.spawn(async move {
            tokio::select! {
                () = connection.serve(&*node, pod, input) => {}
                () = reset.cancelled() => {}
            }
            data
        });
    }

    async fn data(&mut self, stream: u32, bytes: Bytes) {
        let Some(Input {
            sender: Some(sender),
            ..
        }) = self.inputs.get(&stream)
        else {
            return;
        };
        // A connection that has ended takes nothing more.
        let _ = sender.send(bytes).await;
    }
}

struct Connection {
    outbox: Outbox,
    data: u32,
    error: u32,
    port: u16,
}

impl Connection {
    async fn serve(&self, node: &dyn PodStreams, pod: PodTarget, input: mpsc::Receiver<Bytes>) {
        let connection = match node.connect(pod.clone(), self.port).await {
            Ok(connection) => connection,
            Err(error) => {
                let text = refused(&pod, self.port, &error);
                self.outbox.data(self.error, text.as_bytes()).await;
                self.outbox.end(self.error).await;
                self.outbox.end(self.data).await;
                return;
            }
        };
        let (mut reader, writer) = connection.into_split();
        let reading = async {
            let mut buffer = vec![0u8; CHUNK];
            while let Ok(length @ 1..) = reader.read(&mut buffer).await {
                let bytes = buffer.get(..length).unwrap_or_default();
                if !self.outbox.data(self.data, bytes).await {
                    return;
                }
            }
            self.outbox.end(self.data).await;
            self.outbox.end(self.error).await;
        };
        tokio::pin!(reading);
        tokio::select! {
            () = &mut reading => {}
            // The client may end its side first, and still wants the answer.
            () = write(writer, input) => reading.await,
        }
    }
}
