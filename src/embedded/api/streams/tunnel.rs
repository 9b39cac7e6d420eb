//! A byte stream in the binary messages of a WebSocket.

use futures::{SinkExt, StreamExt};
use tokio::io::{AsyncReadExt, AsyncWriteExt, DuplexStream};
use tokio_tungstenite::tungstenite::Message;

use super::channels;
use super::upgrade::Socket;

/// Bytes that wait in each direction.
const BUFFER: usize = 64 * 1024;

/// Opens the tunnel: what is written to the answer leaves as messages, and the other way round. It ends when either
/// side does.
pub(super) fn open(socket: Socket) -> DuplexStream {
    let (near, far) = tokio::io::duplex(BUFFER);
    tokio::spawn(async move {
        let (mut sink, mut stream) = socket.split();
        let (mut reader, mut writer) = tokio::io::split(far);
        let incoming = async {
            while let Some(Ok(message)) = stream.next().await {
                match message {
                    Message::Binary(bytes) if writer.write_all(&bytes).await.is_err() => return,
                    Message::Close(_) => return,
                    _ => {}
                }
            }
        };
        let outgoing = async {
            let mut buffer = vec![0u8; BUFFER];
            while let Ok(length @ 1..) = reader.read(&mut buffer).await {
                let bytes = buffer.get(..length).unwrap_or_default().to_vec();
                if sink.send(Message::Binary(bytes.into())).await.is_err() {
                    return;
                }
            }
            // The client sees the end of its connection either way.
            let _ = sink.send(channels::goodbye()).await;
        };
        tokio::select! {
            () = incoming => {}
            () = outgoing => {}
        }
    });
    near
}
