//! SPDY/3.1 frames, as far as Kubernetes clients use them: streams with headers, data, resets and pings.
//!
//! Source of the format: the SPDY/3.1 draft, sections 2.2 and 2.6. Windows are not enforced: no client's library does.

use std::io;

use axum::body::Bytes;
use flate2::{Decompress, FlushDecompress, Status};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::sync::mpsc;

/// Frames that wait for a slow client.
const WAITING: usize = 32;
/// Longest piece of data that is passed on at once.
const CHUNK: usize = 32 * 1024;
/// Longest control frame, and longest block of headers behind it (bytes).
const MAX_CONTROL: usize = 64 * 1024;
/// Most headers of a stream.
const MAX_HEADERS: usize = 64;

const VERSION: u16 = 0x8003;
const SYN_STREAM: u16 = 1;
const SYN_REPLY: u16 = 2;
const RST_STREAM: u16 = 3;
const PING: u16 = 6;
const GOAWAY: u16 = 7;
const FIN: u8 = 1;

/// `RST_STREAM` codes (section 2.6.3).
pub(super) const PROTOCOL_ERROR: u32 = 1;
pub(super) const REFUSED_STREAM: u32 = 3;
pub(super) const CANCEL: u32 = 5;

/// What a client does.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Event {
    Open {
        stream: u32,
        headers: Vec<(String, String)>,
    },
    Data {
        stream: u32,
        bytes: Bytes,
    },
    /// The client sends no more on this stream.
    End {
        stream: u32,
    },
    /// The client wants nothing more of this stream.
    Reset {
        stream: u32,
    },
    /// The client leaves.
    GoAway,
}

/// The reading side of a connection.
pub(super) struct Frames<R> {
    reader: R,
    outbox: Outbox,
    inflate: Decompress,
    replied: bool,
    /// What is left of a data frame, and whether the stream ends with it.
    rest: Option<(u32, usize, bool)>,
    /// An end that follows what was just answered.
    end: Option<u32>,
}

/// The writing side; clones write to the same connection.
#[derive(Clone, Debug)]
pub(super) struct Outbox(mpsc::Sender<Vec<u8>>);

/// Takes a connection apart; the future writes, and ends when no outbox is left or the client is gone.
pub(super) fn open<S>(
    stream: S,
) -> (
    Frames<tokio::io::ReadHalf<S>>,
    Outbox,
    impl Future<Output = ()>,
)
where
    S: AsyncRead + AsyncWrite,
{
    let (reader, mut writer) = tokio::io::split(stream);
    let (sender, mut frames) = mpsc::channel::<Vec<u8>>(WAITING);
    let outbox = Outbox(sender);
    let writing = async move {
        while let Some(frame) = frames.recv().await {
            if writer.write_all(&frame).await.is_err() {
                return;
            }
            if frames.is_empty() && writer.flush().await.is_err() {
                return;
            }
        }
        // The client may be gone.
        let _ = writer.shutdown().await;
    };
    let frames = Frames {
        reader,
        outbox: outbox.clone(),
        inflate: Decompress::new(true),
        replied: false,
        rest: None,
        end: None,
    };
    (frames, outbox, writing)
}

impl<R: AsyncRead + Unpin> Frames<R> {
    /// The next thing the client does; pings are answered here. `None` at the end of the connection.
    ///
    /// # Errors
    /// The connection broke, or what came is no SPDY.
    pub(super) async fn next(&mut self) -> io::Result<Option<Event>> {
        loop {
            if let Some(stream) = self.end.take() {
                return Ok(Some(Event::End { stream }));
            }
            if let Some((stream, left, fin)) = self.rest.take() {
                if left > 0 {
                    return self.data(stream, left, fin).await.map(Some);
                }
                self.end = fin.then_some(stream);
                continue;
            }
            let mut head = [0u8; 8];
            match self.reader.read_exact(&mut head).await {
                Ok(_) => {}
                Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => return Ok(None),
                Err(error) => return Err(error),
            }
            let [a, b, c, d, flags, l2, l1, l0] = head;
            let length = u32::from_be_bytes([0, l2, l1, l0]) as usize;
            if a & 0x80 == 0 {
                let stream = u32::from_be_bytes([a, b, c, d]);
                self.rest = Some((stream, length, flags & FIN != 0));
                continue;
            }
            if u16::from_be_bytes([a, b]) != VERSION || length > MAX_CONTROL {
                return Err(malformed("a frame is no SPDY/3.1 control frame"));
            }
            let mut payload = vec![0u8; length];
            self.reader.read_exact(&mut payload).await?;
            let kind = u16::from_be_bytes([c, d]);
            if let Some(event) = self.control(kind, flags, &payload).await? {
                return Ok(Some(event));
            }
        }
    }

    async fn data(&mut self, stream: u32, left: usize, fin: bool) -> io::Result<Event> {
        let mut bytes = vec![0u8; left.min(CHUNK)];
        self.reader.read_exact(&mut bytes).await?;
        self.rest = Some((stream, left - bytes.len(), fin));
        Ok(Event::Data {
            stream,
            bytes: bytes.into(),
        })
    }

    async fn control(&mut self, kind: u16, flags: u8, payload: &[u8]) -> io::Result<Option<Event>> {
        let word = |at: usize| {
            let bytes = payload.get(at..at + 4)?.try_into().ok()?;
            Some(u32::from_be_bytes(bytes) & 0x7fff_ffff)
        };
        let first = || word(0).ok_or_else(|| malformed("a control frame is too short"));
        match kind {
            SYN_STREAM => {
                let stream = first()?;
                let block = payload.get(10..).unwrap_or_default();
                let headers = headers(&self.inflate(block)?)?;
                self.end = (flags & FIN != 0).then_some(stream);
                Ok(Some(Event::Open { stream, headers }))
            }
            RST_STREAM => Ok(Some(Event::Reset { stream: first()? })),
            PING => {
                self.outbox.send(control(PING, payload)).await;
                Ok(None)
            }
            GOAWAY => Ok(Some(Event::GoAway)),
            // Replies, settings, windows and further headers say nothing that is needed here.
            _ => Ok(None),
        }
    }

    /// Accepts a stream.
    pub(super) async fn reply(&mut self, stream: u32) {
        let mut payload = stream.to_be_bytes().to_vec();
        // No headers, as a stored block of the one zlib stream that all replies share, and an empty one: readers pass on
        // what they have when they see it.
        if !self.replied {
            payload.extend_from_slice(&[0x78, 0x01]);
            self.replied = true;
        }
        payload.extend_from_slice(&[0, 4, 0, !4, !0, 0, 0, 0, 0]);
        payload.extend_from_slice(&[0, 0, 0, !0, !0]);
        self.outbox.send(control(SYN_REPLY, &payload)).await;
    }

    /// The headers of one frame: a piece of the zlib stream that all frames of this direction share.
    fn inflate(&mut self, block: &[u8]) -> io::Result<Vec<u8>> {
        let mut out = Vec::with_capacity(1024);
        let mut at = 0;
        loop {
            let read = self.inflate.total_in();
            let input = block.get(at..).unwrap_or_default();
            let result = self
                .inflate
                .decompress_vec(input, &mut out, FlushDecompress::Sync);
            at += usize::try_from(self.inflate.total_in() - read).unwrap_or(0);
            if out.len() > MAX_CONTROL {
                return Err(malformed("the headers of a stream are too long"));
            }
            match result {
                Ok(Status::StreamEnd) => return Ok(out),
                Ok(_) if out.len() < out.capacity() && at >= block.len() => return Ok(out),
                Ok(Status::BufError) if out.len() < out.capacity() => return Ok(out),
                Ok(_) => out.reserve(4096),
                Err(error) if error.needs_dictionary().is_some() => {
                    self.inflate
                        .set_dictionary(&dictionary())
                        .map_err(|_| malformed("the headers use another dictionary"))?;
                }
                Err(_) => return Err(malformed("the headers of a stream cannot be inflated")),
            }
        }
    }
}

impl Outbox {
    /// Sends data of a stream; false when the client is gone.
    pub(super) async fn data(&self, stream: u32, bytes: &[u8]) -> bool {
        for chunk in bytes.chunks(CHUNK) {
            if !self.send(data(stream, 0, chunk)).await {
                return false;
            }
        }
        true
    }

    /// Says that nothing more comes on a stream.
    pub(super) async fn end(&self, stream: u32) {
        self.send(data(stream, FIN, b"")).await;
    }

    /// Ends a stream both ways.
    pub(super) async fn reset(&self, stream: u32, code: u32) {
        let payload = [stream.to_be_bytes(), code.to_be_bytes()].concat();
        self.send(control(RST_STREAM, &payload)).await;
    }

    async fn send(&self, frame: Vec<u8>) -> bool {
        self.0.send(frame).await.is_ok()
    }
}

fn control(kind: u16, payload: &[u8]) -> Vec<u8> {
    let length = u32::try_from(payload.len()).unwrap_or(0).to_be_bytes();
    let [version, kind] = [VERSION.to_be_bytes(), kind.to_be_bytes()];
    let mut frame = Vec::with_capacity(payload.len() + 8);
    frame.extend_from_slice(&version);
    frame.extend_from_slice(&kind);
    frame.extend_from_slice(&length);
    frame.extend_from_slice(payload);
    frame
}

fn data(stream: u32, flags: u8, bytes: &[u8]) -> Vec<u8> {
    let [_, l2, l1, l0] = u32::try_from(bytes.len()).unwrap_or(0).to_be_bytes();
    let mut frame = Vec::with_capacity(bytes.len() + 8);
    frame.extend_from_slice(&stream.to_be_bytes());
    frame.extend_from_slice(&[flags, l2, l1, l0]);
    frame.extend_from_slice(bytes);
    frame
}

/// Names are lower case in SPDY; values are text.
fn headers(block: &[u8]) -> io::Result<Vec<(String, String)>> {
    let short = || malformed("the headers of a stream are cut off");
    let mut rest = block;
    let number = |rest: &mut &[u8]| {
        let (head, tail) = rest.split_first_chunk::<4>()?;
        *rest = tail;
        usize::try_from(u32::from_be_bytes(*head)).ok()
    };
    let count = number(&mut rest).ok_or_else(short)?;
    if count > MAX_HEADERS {
        return Err(malformed("a stream has too many headers"));
    }
    let text = |rest: &mut &[u8]| {
        let length = number(rest)?;
        let (head, tail) = rest.split_at_checked(length)?;
        *rest = tail;
        Some(String::from_utf8_lossy(head).into_owned())
    };
    let mut found = Vec::with_capacity(count);
    for _ in 0..count {
        let name = text(&mut rest).ok_or_else(short)?.to_ascii_lowercase();
        let value = text(&mut rest).ok_or_else(short)?;
        found.push((name, value));
    }
    Ok(found)
}

fn malformed(what: &str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, what)
}

/// The dictionary that compressed headers begin with (SPDY/3 draft, section 2.6.10.1).
fn dictionary() -> Vec<u8> {
    const NAMES: &str = "options head post put delete trace accept accept-charset accept-encoding accept-language \
        accept-ranges age allow authorization cache-control connection content-base content-encoding content-language \
        content-length content-location content-md5 content-range content-type date etag expect expires from host \
        if-match if-modified-since if-none-match if-range if-unmodified-since last-modified location max-forwards pragma \
        proxy-authenticate proxy-authorization range referer retry-after server te trailer transfer-encoding upgrade \
        user-agent vary via warning www-authenticate method get status 200_OK version HTTP/1.1 url public set-cookie \
        keep-alive origin";
    const TAIL: &str = "100101201202205206300302303304305306307402405406407408409410411412413414415416417502504505\
        203 Non-Authoritative Information204 No Content301 Moved Permanently400 Bad Request401 Unauthorized\
        403 Forbidden404 Not Found500 Internal Server Error501 Not Implemented503 Service Unavailable\
        Jan Feb Mar Apr May Jun Jul Aug Sept Oct Nov Dec 00:00:00 Mon, Tue, Wed, Thu, Fri, Sat, Sun, GMT\
        chunked,text/html,image/png,image/jpg,image/gif,application/xml,application/xhtml+xml,text/plain,\
        text/javascript,publicprivatemax-age=gzip,deflate,sdchcharset=utf-8charset=iso-8859-1,utf-,*,enq=0.";
    let mut bytes = Vec::with_capacity(1423);
    for name in NAMES.split_whitespace() {
        let name = name.replace('_', " ");
        bytes.extend_from_slice(&u32::try_from(name.len()).unwrap_or(0).to_be_bytes());
        bytes.extend_from_slice(name.as_bytes());
    }
    bytes.extend_from_slice(TAIL.as_bytes());
    bytes
}

#[cfg(test)]
mod tests;
