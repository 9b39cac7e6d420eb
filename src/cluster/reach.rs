//! Requests to a Service of the lab, by name and port.

use std::net::SocketAddr;
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use super::{Cluster, LookError};

/// An answer longer than this is cut.
const ANSWER_LIMIT: usize = 1 << 20;
/// A service that does not answer for so long is given up.
const TIMEOUT: Duration = Duration::from_secs(20);

/// One HTTP request, sent as written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Request {
    pub method: String,
    pub path: String,
    pub headers: Vec<(String, String)>,
    pub body: Vec<u8>,
    /// Close once an answer is there to be read, without reading it.
    pub lose_answer: bool,
}

/// What came back.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Response {
    pub status: u16,
    pub body: String,
}

/// How a request failed, told apart by whether anything can have arrived.
#[derive(Debug, thiserror::Error)]
pub enum SendError {
    /// Nothing was written.
    #[error("not sent: {0}")]
    NotSent(String),
    /// Some or all of it was written, and no answer was read.
    #[error("sent, and the answer was not read: {0}")]
    AnswerLost(String),
}

impl Cluster {
    /// Sends one request to a Service.
    ///
    /// # Errors
    /// [`SendError::NotSent`] when no connection was made; [`SendError::AnswerLost`] from the first byte written on.
    pub async fn send(
        &self,
        service: &str,
        port: u16,
        request: &Request,
    ) -> Result<Response, SendError> {
        let address = self
            .address(service, port)
            .map_err(|error| SendError::NotSent(error.to_string()))?;
        let stream = connect(address).await.map_err(|error| {
            SendError::NotSent(format!(
                "cannot connect to service {service}:{port}: {error}"
            ))
        })?;
        let exchange = exchange(stream, service, request);
        match tokio::time::timeout(TIMEOUT, exchange).await {
            Ok(result) => result,
            Err(_) => Err(SendError::AnswerLost(format!(
                "no answer within {} s",
                TIMEOUT.as_secs()
            ))),
        }
    }

    /// Reads JSON from a Service.
    ///
    /// # Errors
    /// [`LookError`] for an unreachable service or an answer that is not 200 and JSON.
    pub async fn get_json<T: serde::de::DeserializeOwned>(
        &self,
        service: &str,
        port: u16,
        path: &str,
    ) -> Result<T, LookError> {
        let request = Request {
            method: "GET".to_owned(),
            path: path.to_owned(),
            headers: Vec::new(),
            body: Vec::new(),
            lose_answer: false,
        };
        let unreachable = |reason: String| LookError::Unreachable {
            service: service.to_owned(),
            port,
            reason,
        };
        let response = self
            .send(service, port, &request)
            .await
            .map_err(|error| unreachable(error.to_string()))?;
        if response.status != 200 {
            return Err(unreachable(format!(
                "it answered {} {}",
                response.status, response.body
            )));
        }
        serde_json::from_str(&response.body).map_err(|error| LookError::Answer {
            service: service.to_owned(),
            reason: error.to_string(),
        })
    }

    /// The URL under which a Service's port can be reached from here, for people.
    #[must_use]
    pub fn service_url(&self, service: &str, port: u16) -> Option<String> {
        self.address(service, port)
            .ok()
            .map(|address| format!("http://{address}"))
    }

    fn address(&self, service: &str, port: u16) -> Result<SocketAddr, LookError> {
        self.host()
            .service_address(self.namespace(), service, port)
            .ok_or_else(|| LookError::Unreachable {
                service: service.to_owned(),
                port,
                reason: "it has no ready endpoint".to_owned(),
            })
    }
}

async fn connect(address: SocketAddr) -> std::io::Result<TcpStream> {
    let stream = TcpStream::connect(address).await?;
    stream.set_nodelay(true)?;
    Ok(stream)
}

async fn exchange(
    mut stream: TcpStream,
    service: &str,
    request: &Request,
) -> Result<Response, SendError> {
    let lost = |error: std::io::Error| SendError::AnswerLost(error.to_string());
    stream
        .write_all(&encode(service, request))
        .await
        .map_err(lost)?;
    stream.flush().await.map_err(lost)?;
    if request.lose_answer {
        stream.readable().await.map_err(lost)?;
        return Err(SendError::AnswerLost(
            "the client closed before it read the answer".to_owned(),
        ));
    }
    let mut raw = Vec::new();
    let mut limited = stream.take(ANSWER_LIMIT as u64);
    limited.read_to_end(&mut raw).await.map_err(lost)?;
    decode(&raw).ok_or_else(|| {
        SendError::AnswerLost("the connection ended before the answer did".to_owned())
    })
}

/// HTTP/1.1 with `Connection: close`; header names and their case go out as written.
fn encode(service: &str, request: &Request) -> Vec<u8> {
    let mut head = format!("{} {} HTTP/1.1\r\n", request.method, request.path);
    let given = |name: &str| {
        request
            .headers
            .iter()
            .any(|(known, _)| known.eq_ignore_ascii_case(name))
    };
    if !given("host") {
        head.push_str(&format!("Host: {service}\r\n"));
    }
    for (name, value) in &request.headers {
        head.push_str(&format!("{}: {}\r\n", clean(name), clean(value)));
    }
    if !given("content-length") && !given("transfer-encoding") {
        head.push_str(&format!("Content-Length: {}\r\n", request.body.len()));
    }
    head.push_str("Connection: close\r\n\r\n");
    let mut bytes = head.into_bytes();
    bytes.extend_from_slice(&request.body);
    bytes
}

/// A header cannot smuggle another line in.
fn clean(text: &str) -> String {
    text.chars()
        .filter(|character| !character.is_control() || *character == '\t')
        .collect()
}

fn decode(raw: &[u8]) -> Option<Response> {
    let mut headers = [httparse::EMPTY_HEADER; 64];
    let mut response = httparse::Response::new(&mut headers);
    let httparse::Status::Complete(start) = response.parse(raw).ok()? else {
        return None;
    };
    let header = |name: &str| {
        response
            .headers
            .iter()
            .find(|header| header.name.eq_ignore_ascii_case(name))
            .map(|header| String::from_utf8_lossy(header.value).into_owned())
    };
    let rest = &raw[start..];
    let body =
        if header("transfer-encoding").is_some_and(|value| value.eq_ignore_ascii_case("chunked")) {
            unchunk(rest)?
        } else if let Some(length) =
            header("content-length").and_then(|value| value.parse::<usize>().ok())
        {
            rest.get(..length)?.to_vec()
        } else {
            rest.to_vec()
        };
    Some(Response {
        status: response.code?,
        body: String::from_utf8_lossy(&body).into_owned(),
    })
}

fn unchunk(mut rest: &[u8]) -> Option<Vec<u8>> {
    let mut body = Vec::new();
    loop {
        let httparse::Status::Complete((start, length)) = httparse::parse_chunk_size(rest).ok()?
        else {
            return None;
        };
        let length = usize::try_from(length).ok()?;
        if length == 0 {
            return Some(body);
        }
        body.extend_from_slice(rest.get(start..start.checked_add(length)?)?);
        rest = rest.get(start + length + 2..)?;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn answers_are_decoded_by_length_and_by_chunk() {
        let plain = decode(b"HTTP/1.1 200 OK\r\nContent-Length: 7\r\n\r\nsuccess").unwrap();
        assert_eq!((plain.status, plain.body.as_str()), (200, "success"));
        let chunked = decode(b"HTTP/1.1 400 Bad Request\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n2\r\nde\r\n0\r\n\r\n").unwrap();
        assert_eq!((chunked.status, chunked.body.as_str()), (400, "abcde"));
        for cut in [
            &b"HTTP/1.1 200 OK\r\nContent-Length: 7\r\n\r\nsucc"[..],
            b"HTTP/1.1 200",
            b"",
            b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nab",
        ] {
            assert_eq!(decode(cut), None);
        }
    }

    #[test]
    fn a_header_cannot_add_another() {
        let request = Request {
            method: "POST".into(),
            path: "/".into(),
            headers: vec![("X-A".into(), "1\r\nX-B: 2".into())],
            body: b"{}".to_vec(),
            lose_answer: false,
        };
        let text = String::from_utf8(encode("s", &request)).unwrap();
        assert!(!text.contains("\r\nX-B"), "{text}");
    }
}
