//! Port-forward in the channel framing: port `i` has channel `2i` for data and `2i + 1` for errors, and each channel
//! begins with the port's number in two bytes, little-endian.

use std::sync::Arc;

use axum::body::Bytes;
use futures::{SinkExt, StreamExt};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};
use tokio::sync::mpsc;
use tokio::task::JoinSet;
use tokio_tungstenite::tungstenite::Message;

use super::channels::{self, Incoming, message};
use super::upgrade::Socket;
use super::{PodStreams, PodTarget, refused};

/// Messages that wait for a slow side, per direction and port.
const WAITING: usize = 16;
const CHUNK: usize = 32 * 1024;

/// Serves until the client ends, or every port has.
pub(super) async fn serve(
    socket: Box<Socket>,
    node: Arc<dyn PodStreams>,
    pod: PodTarget,
    ports: Vec<u16>,
) {
    let (mut sink, mut stream) = socket.split();
    let (sender, mut outgoing) = mpsc::channel::<Message>(WAITING);
    let mut tasks = JoinSet::new();
    let mut inputs = Vec::with_capacity(ports.len());
    for (index, port) in ports.into_iter().enumerate() {
        let (input, received) = mpsc::channel(WAITING);
        inputs.push(Some(input));
        let port = Port {
            channel: u8::try_from(index * 2).unwrap_or(u8::MAX),
            port,
            sender: sender.clone(),
        };
        tasks.spawn(port.serve(Arc::clone(&node), pod.clone(), received));
    }
    drop(sender);
    let writing = async {
        while let Some(message) = outgoing.recv().await {
            sink.send(message).await?;
        }
        // Every port has ended.
        sink.send(channels::goodbye()).await
    };
    let reading = async {
        loop {
            match channels::next(&mut stream).await {
                Incoming::Data(channel, bytes) => {
                    if let Some(Some(input)) = inputs.get(usize::from(channel / 2))
                        && channel % 2 == 0
                    {
                        // A port that has ended takes nothing more.
                        let _ = input.send(bytes).await;
                    }
                }
                Incoming::Closed(channel) => {
                    if let Some(input) = inputs.get_mut(usize::from(channel / 2))
                        && channel % 2 == 0
                    {
                        *input = None;
                    }
                }
                Incoming::End => return,
            }
        }
    };
    tokio::pin!(reading);
    tokio::select! {
        () = &mut reading => {}
        sent = writing => if sent.is_ok() {
            // The client reads everything before it agrees to the end.
            let _ = tokio::time::timeout(std::time::Duration::from_secs(5), reading).await;
        },
    }
    tasks.shutdown().await;
}

struct Port {
    channel: u8,
    port: u16,
    sender: mpsc::Sender<Message>,
}

impl Port {
    async fn serve(self, node: Arc<dyn PodStreams>, pod: PodTarget, input: mpsc::Receiver<Bytes>) {
        let number = self.port.to_le_bytes();
        for channel in [self.channel, self.channel + 1] {
            if self.sender.send(message(channel, &number)).await.is_err() {
                return;
            }
        }
        match node.connect(pod.clone(), self.port).await {
            Ok(connection) => {
                let (reader, writer) = connection.into_split();
                let reading = self.read(reader);
                let writing = write(writer, input);
                // The client may end its side first, and still wants the answer.
                tokio::join!(reading, writing);
            }
            Err(error) => {
                let text = refused(&pod, self.port, &error);
                // Without a client there is nobody to tell.
                let _ = self
                    .sender
                    .send(message(self.channel + 1, text.as_bytes()))
                    .await;
            }
        }
    }

    async fn read(self, mut reader: OwnedReadHalf) {
        let mut buffer = vec![0u8; CHUNK];
        loop {
            let length = match reader.read(&mut buffer).await {
                Ok(0) | Err(_) => return,
                Ok(length) => length,
            };
            let bytes = buffer.get(..length).unwrap_or_default();
            if self
                .sender
                .send(message(self.channel, bytes))
                .await
                .is_err()
            {
                return;
            }
        }
    }
}

/// Writes what the client sends; the end of it is passed on.
pub(super) async fn write(mut writer: OwnedWriteHalf, mut input: mpsc::Receiver<Bytes>) {
    while let Some(bytes) = input.recv().await {
        if writer.write_all(&bytes).await.is_err() {
            return;
        }
    }
    // A connection that is closed already needs no end.
    let _ = writer.shutdown().await;
}
