//! A client of the CRM that can tell what may have arrived.

use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpStream, ToSocketAddrs};
use std::time::Duration;

use super::{Entry, FaultPoint, NewEntry, Written};
use crate::ledger::Finding;

/// Longest answer that is read (bytes).
const MAX_ANSWER: u64 = 1024 * 1024;

/// A URL that is no `http://HOST:PORT`.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0:?} is not the URL of a CRM; it looks like http://HOST:PORT")]
pub struct UrlError(String);

/// How a write ended when it did not simply succeed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PostError {
    /// Nothing can have arrived, or the CRM said that it refused.
    #[error("not written: {0}")]
    NotWritten(String),
    /// Something may have arrived, and no answer says what came of it.
    #[error("outcome unknown: {0}")]
    Unknown(String),
}

/// Talks to one CRM.
#[derive(Clone, Debug)]
pub struct Client {
    host: String,
    timeout: Duration,
}

impl Client {
    /// A client of the CRM at `url`, which waits `timeout` for each step of a request.
    pub fn new(url: &str, timeout: Duration) -> Result<Client, UrlError> {
        let wrong = || UrlError(url.to_owned());
        let host = url
            .strip_prefix("http://")
            .ok_or_else(wrong)?
            .trim_end_matches('/');
        let (name, port) = host.rsplit_once(':').ok_or_else(wrong)?;
        let plain = |text: &str| {
            !text.is_empty()
                && !text.contains(['/', '@', ' ', '?', '#'])
                && !text.contains(char::is_control)
        };
        if !plain(name) || port.parse::<u16>().is_err() {
            return Err(wrong());
        }
        Ok(Client {
            host: host.to_owned(),
            timeout,
        })
    }

    /// Asks for a new entry.
    pub fn post(
        &self,
        entry: &NewEntry,
        idempotency_key: Option<&str>,
    ) -> Result<Written, PostError> {
        let body =
            serde_json::to_vec(entry).map_err(|error| PostError::NotWritten(error.to_string()))?;
        let key = idempotency_key
            .map(|key| format!("Idempotency-Key: {}\r\n", one_line(key)))
            .unwrap_or_default();
        let head = format!(
            "POST /entries HTTP/1.1\r\nHost: {}\r\nContent-Type: application/json\r\nContent-Length: {}\r\n{key}Connection: close\r\n\r\n",
            self.host,
            body.len()
        );
        let stream = self
            .connect()
            .map_err(|error| PostError::NotWritten(format!("connect: {error}")))?;
        let answer = exchange(stream, &[head.as_bytes(), &body].concat());
        let (status, body) = answer.map_err(|error| PostError::Unknown(error.to_string()))?;
        let text = String::from_utf8_lossy(&body).into_owned();
        match status {
            200 | 201 => serde_json::from_slice(&body)
                .map_err(|_| PostError::Unknown(format!("the answer was {text}"))),
            400..=499 => Err(PostError::NotWritten(format!("{status} {text}"))),
            // A server that failed may have failed after its write, whatever it says.
            _ => Err(PostError::Unknown(format!("{status} {text}"))),
        }
    }

    /// Lets the CRM's next request go wrong at `point`: the lab's hand, not a client's.
    ///
    /// # Errors
    /// The CRM cannot be reached, or does not take it.
    pub fn set_fault(&self, point: FaultPoint) -> io::Result<()> {
        let body = serde_json::to_vec(&serde_json::json!({"point": point, "times": 1}))?;
        let head = format!(
            "POST /admin/faults HTTP/1.1\r\nHost: {}\r\nContent-Type: application/json\r\nContent-Length: {}\r\nConnection: close\r\n\r\n",
            self.host,
            body.len()
        );
        let stream = self.connect()?;
        match exchange(stream, &[head.as_bytes(), &body].concat())? {
            (204, _) => Ok(()),
            (status, body) => Err(io::Error::other(format!(
                "{status} {}",
                String::from_utf8_lossy(&body)
            ))),
        }
    }

    /// Looks for an entry by its source id.
    #[must_use]
    pub fn find(&self, source_id: &str) -> Finding {
        let path = format!("/entries?source_id={}", percent_encode(source_id));
        let head = format!(
            "GET {path} HTTP/1.1\r\nHost: {}\r\nConnection: close\r\n\r\n",
            self.host
        );
        let answer = self
            .connect()
            .and_then(|stream| exchange(stream, head.as_bytes()));
        match answer {
            Ok((200, body)) => match serde_json::from_slice::<Vec<Entry>>(&body) {
                Ok(entries) => entries
                    .into_iter()
                    .next()
                    .map_or(Finding::Absent, |entry| Finding::Found(entry.reference)),
                Err(error) => Finding::Unknown(error.to_string()),
            },
            Ok((status, body)) => {
                Finding::Unknown(format!("{status} {}", String::from_utf8_lossy(&body)))
            }
            Err(error) => Finding::Unknown(error.to_string()),
        }
    }

    fn connect(&self) -> io::Result<TcpStream> {
        let addresses: Vec<SocketAddr> = self.host.to_socket_addrs()?.collect();
        let mut last = io::Error::from(io::ErrorKind::AddrNotAvailable);
        for address in addresses {
            match TcpStream::connect_timeout(&address, self.timeout) {
                Ok(stream) => {
                    stream.set_read_timeout(Some(self.timeout))?;
                    stream.set_write_timeout(Some(self.timeout))?;
                    return Ok(stream);
                }
                Err(error) => last = error,
            }
        }
        Err(last)
    }
}

/// Sends a whole request and reads the whole answer; the connection is closed by the server after it.
fn exchange(mut stream: TcpStream, request: &[u8]) -> io::Result<(u16, Vec<u8>)> {
    stream.write_all(request)?;
    let mut raw = Vec::new();
    stream.take(MAX_ANSWER).read_to_end(&mut raw)?;
    let mut headers = [httparse::EMPTY_HEADER; 32];
    let mut response = httparse::Response::new(&mut headers);
    let cut = || {
        io::Error::new(
            io::ErrorKind::UnexpectedEof,
            "the connection ended before the answer did",
        )
    };
    let parsed = response.parse(&raw).map_err(io::Error::other)?;
    let httparse::Status::Complete(start) = parsed else {
        return Err(cut());
    };
    let length = response
        .headers
        .iter()
        .find(|header| header.name.eq_ignore_ascii_case("content-length"));
    let length: Option<usize> = length
        .and_then(|header| std::str::from_utf8(header.value).ok())
        .and_then(|text| text.trim().parse().ok());
    let status = response.code.ok_or_else(cut)?;
    let body = raw.get(start..).unwrap_or_default();
    if length.is_some_and(|length| body.len() < length) {
        return Err(cut());
    }
    Ok((status, body.to_vec()))
}

/// A header value cannot bring another header in.
fn one_line(text: &str) -> String {
    text.chars()
        .filter(|character| !character.is_control())
        .collect()
}

fn percent_encode(text: &str) -> String {
    let mut encoded = String::new();
    for byte in text.bytes() {
        match byte {
            b'A'..=b'Z' | b'a'..=b'z' | b'0'..=b'9' | b'-' | b'.' | b'_' | b'~' => {
                encoded.push(char::from(byte))
            }
            _ => encoded.push_str(&format!("%{byte:02X}")),
        }
    }
    encoded
}
