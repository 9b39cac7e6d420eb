//! Answers on their way to their clients, handed over piece by piece.

use std::pin::Pin;
use std::task::{Context, Poll};

use axum::body::{Body, Bytes};
use hyper::body::{Body as HttpBody, Frame, SizeHint};

use super::places::Underway;
use crate::embedded::api::budget::Room;

/// What is handed over at once (bytes); no larger answer takes room of its own.
const PIECE: usize = 64 << 10;

/// What an answer takes of the memory for large ones; nothing if it is small or comes as it is made.
pub(super) fn size(body: &Body) -> Option<usize> {
    let bytes = body.size_hint().exact()?;
    let bytes = usize::try_from(bytes).unwrap_or(usize::MAX);
    (bytes > PIECE).then_some(bytes)
}

/// The body of an answer, whose request is under way until its last piece is handed over.
#[derive(Debug)]
pub(super) struct Answer {
    body: Body,
    /// Of the last frame, what is not handed over yet.
    rest: Bytes,
    _underway: Underway,
    _room: Option<Room>,
}

impl Answer {
    pub(super) fn new(body: Body, underway: Underway, room: Option<Room>) -> Self {
        Answer {
            body,
            rest: Bytes::new(),
            _underway: underway,
            _room: room,
        }
    }

    /// A copy: a part of the whole would keep all of it in memory.
    fn piece(&mut self) -> Frame<Bytes> {
        let piece = self.rest.split_to(self.rest.len().min(PIECE));
        Frame::data(Bytes::copy_from_slice(&piece))
    }
}

impl HttpBody for Answer {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
        if !self.rest.is_empty() {
            return Poll::Ready(Some(Ok(self.piece())));
        }
        let frame = match Pin::new(&mut self.body).poll_frame(context) {
            Poll::Ready(Some(Ok(frame))) => frame,
            other => return other,
        };
        Poll::Ready(Some(Ok(match frame.into_data() {
            Ok(data) if data.len() > PIECE => {
                self.rest = data;
                self.piece()
            }
            Ok(data) => Frame::data(data),
            Err(frame) => frame,
        })))
    }

    fn is_end_stream(&self) -> bool {
        self.rest.is_empty() && self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        let rest = u64::try_from(self.rest.len()).unwrap_or(u64::MAX);
        let inner = self.body.size_hint();
        let mut hint = SizeHint::new();
        hint.set_lower(inner.lower().saturating_add(rest));
        if let Some(upper) = inner.upper() {
            hint.set_upper(upper.saturating_add(rest));
        }
        hint
    }
}
