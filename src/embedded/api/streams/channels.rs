//! Messages of the channel framing: the first byte names the channel.

use std::time::Duration;

use axum::body::Bytes;
use futures::{SinkExt, Stream, StreamExt};
use tokio_tungstenite::tungstenite::protocol::CloseFrame;
use tokio_tungstenite::tungstenite::protocol::frame::coding::CloseCode;
use tokio_tungstenite::tungstenite::{Error, Message};

/// Closes the channel that the next byte names (v5).
const CLOSE: u8 = 255;
/// How long a client may take to answer the closing of a connection.
const CLOSE_WAIT: Duration = Duration::from_secs(5);

/// What a client sent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Incoming {
    Data(u8, Bytes),
    /// The client sends no more on this channel.
    Closed(u8),
    /// The connection is over.
    End,
}

/// The next message that means something; messages that are no channel's are skipped.
pub(super) async fn next<S>(socket: &mut S) -> Incoming
where
    S: Stream<Item = Result<Message, Error>> + Unpin,
{
    loop {
        match socket.next().await {
            Some(Ok(Message::Binary(bytes))) => match bytes.split_first() {
                Some((&CLOSE, rest)) => {
                    if let Some(channel) = rest.first() {
                        return Incoming::Closed(*channel);
                    }
                }
                Some((channel, _)) => return Incoming::Data(*channel, bytes.slice(1..)),
                None => {}
            },
            Some(Ok(Message::Close(_)) | Err(_)) | None => return Incoming::End,
            Some(Ok(_)) => {}
        }
    }
}

/// A message for a channel.
pub(super) fn message(channel: u8, bytes: &[u8]) -> Message {
    let mut framed = Vec::with_capacity(bytes.len() + 1);
    framed.push(channel);
    framed.extend_from_slice(bytes);
    Message::Binary(framed.into())
}

/// Says that everything was said; clients take a close without a code for a loss.
pub(super) fn goodbye() -> Message {
    Message::Close(Some(CloseFrame {
        code: CloseCode::Normal,
        reason: "".into(),
    }))
}

/// Closes the connection and waits a while for the client to agree, so that it reads everything before.
pub(super) async fn close<S>(socket: &mut S)
where
    S: Stream<Item = Result<Message, Error>> + futures::Sink<Message, Error = Error> + Unpin,
{
    let closing = async {
        if socket.send(goodbye()).await.is_ok() {
            while next(socket).await != Incoming::End {}
        }
    };
    // A client that does not answer has had its time.
    let _ = tokio::time::timeout(CLOSE_WAIT, closing).await;
}
