//! Requests to a Service of the lab, by name and port.

use std::net::SocketAddr;
use std::time::Duration;

use futures::future::BoxFuture;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::TcpStream;

use super::{Cluster, KnownCertificate, LookError};

/// An answer longer than this is cut.
const ANSWER_LIMIT: usize = 1 << 20;
/// A service that does not answer for so long is given up.
const TIMEOUT: Duration = Duration::from_secs(20);
/// What stands between has so long to say why a stream has ended.
const LAST_WORD: Duration = Duration::from_millis(200);

/// Bytes in both directions.
pub trait Stream: AsyncRead + AsyncWrite + Send + Unpin {}

impl<T: AsyncRead + AsyncWrite + Send + Unpin> Stream for T {}

/// A connection to a Service.
pub struct Connection {
    pub stream: Box<dyn Stream>,
    /// Where the far end is reached through others: what they say when it took nothing at all.
    pub refused: Option<BoxFuture<'static, Option<String>>>,
}

/// Why there is no connection; nothing was written.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct Unconnected(pub String);

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
        self.send_to(service, port, request, None).await
    }

    /// As [`Cluster::send`], over TLS with a server that shows this certificate.
    ///
    /// # Errors
    /// As [`Cluster::send`]; another certificate is [`SendError::NotSent`].
    pub async fn send_secured(
        &self,
        service: &str,
        port: u16,
        request: &Request,
        certificate: &KnownCertificate,
    ) -> Result<Response, SendError> {
        self.send_to(service, port, request, Some(certificate))
            .await
    }

    async fn send_to(
        &self,
        service: &str,
        port: u16,
        request: &Request,
        certificate: Option<&KnownCertificate>,
    ) -> Result<Response, SendError> {
        let connected = async {
            let connection = self.host().connect(self.namespace(), service, port).await?;
            match certificate {
                Some(certificate) => secured(connection, service, certificate).await,
                None => Ok(connection),
            }
        };
        let connection = match tokio::time::timeout(TIMEOUT, connected).await {
            Ok(Ok(connection)) => connection,
            Ok(Err(error)) => {
                return Err(SendError::NotSent(format!(
                    "cannot connect to service {service}:{port}: {error}"
                )));
            }
            Err(_) => {
                return Err(SendError::NotSent(format!(
                    "no connection to service {service}:{port} within {} s",
                    TIMEOUT.as_secs()
                )));
            }
        };
        let exchange = exchange(connection, service, request);
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
        self.host()
            .service_address(self.namespace(), service, port)
            .map(|address| format!("http://{address}"))
    }
}

/// A connection to a real address.
pub(super) async fn dial(address: SocketAddr) -> Result<Connection, Unconnected> {
    let connect = async {
        let stream = TcpStream::connect(address).await?;
        stream.set_nodelay(true)?;
        Ok::<_, std::io::Error>(stream)
    };
    let stream = connect
        .await
        .map_err(|error| Unconnected(error.to_string()))?;
    Ok(Connection {
        stream: Box::new(stream),
        refused: None,
    })
}

/// A connection with TLS over it; nothing of a request was written before.
async fn secured(
    connection: Connection,
    service: &str,
    certificate: &KnownCertificate,
) -> Result<Connection, Unconnected> {
    let Connection { stream, refused } = connection;
    match (certificate.secure(stream, service).await, refused) {
        (Ok(stream), refused) => Ok(Connection { stream, refused }),
        (Err(error), None) => Err(Unconnected(error)),
        // The reason may come after the stream has ended.
        (Err(error), Some(refused)) => {
            let said = tokio::time::timeout(LAST_WORD, refused).await;
            Err(Unconnected(said.ok().flatten().unwrap_or(error)))
        }
    }
}

async fn exchange(
    connection: Connection,
    service: &str,
    request: &Request,
) -> Result<Response, SendError> {
    let Connection { stream, refused } = connection;
    let answered = talk(stream, service, request);
    let Some(refused) = refused else {
        return answered.await;
    };
    let mut refused = Some(refused);
    tokio::pin!(answered);
    let result = tokio::select! {
        result = &mut answered => result,
        Some(text) = said(&mut refused) => return Err(not_taken(text)),
    };
    match (result, refused) {
        // The reason may come after the stream has ended.
        (Err(SendError::AnswerLost(lost)), Some(refused)) => {
            match tokio::time::timeout(LAST_WORD, refused).await {
                Ok(Some(text)) => Err(not_taken(text)),
                _ => Err(SendError::AnswerLost(lost)),
            }
        }
        (result, _) => result,
    }
}

/// What stands between says once; without a word it is asked no more.
async fn said(refused: &mut Option<BoxFuture<'static, Option<String>>>) -> Option<String> {
    match refused {
        Some(future) => {
            let text = future.await;
            *refused = None;
            text
        }
        None => std::future::pending().await,
    }
}

/// Only a far end that did not even take the connection has certainly got nothing.
fn not_taken(text: String) -> SendError {
    let lower = text.to_ascii_lowercase();
    let nothing = [
        "connection refused",
        "failed to connect",
        "no such container",
        "container not running",
    ];
    if nothing.iter().any(|sign| lower.contains(sign)) {
        SendError::NotSent(text)
    } else {
        SendError::AnswerLost(text)
    }
}

async fn talk(
    mut stream: Box<dyn Stream>,
    service: &str,
    request: &Request,
) -> Result<Response, SendError> {
    let lost = |error: std::io::Error| SendError::AnswerLost(error.to_string());
    let bytes = encode(service, request);
    let written = async {
        stream.write_all(&bytes).await?;
        stream.flush().await
    };
    // A server may answer and close before it has read everything: its answer is still there to be read.
    let cut_short = written.await.err();
    let mut raw = Vec::new();
    let mut chunk = vec![0; 16 << 10];
    loop {
        let length = match (stream.read(&mut chunk).await, &cut_short) {
            (Ok(0) | Err(_), Some(error)) if raw.is_empty() => {
                return Err(SendError::AnswerLost(error.to_string()));
            }
            (read, _) => read.map_err(lost)?,
        };
        if request.lose_answer && length > 0 {
            return Err(SendError::AnswerLost(
                "the client closed before it read the answer".to_owned(),
            ));
        }
        raw.extend_from_slice(chunk.get(..length).unwrap_or_default());
        let ended = length == 0 || raw.len() > ANSWER_LIMIT;
        if let Some(response) = decode(&raw, ended) {
            return Ok(response);
        }
        if ended {
            return Err(SendError::AnswerLost(
                "the connection ended before the answer did".to_owned(),
            ));
        }
    }
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

/// An answer without a length is whole only once the connection has ended.
fn decode(raw: &[u8], ended: bool) -> Option<Response> {
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
        } else if ended || matches!(response.code, Some(204 | 304)) {
            rest.to_vec()
        } else {
            return None;
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
        let plain = decode(
            b"HTTP/1.1 200 OK\r\nContent-Length: 7\r\n\r\nsuccess",
            false,
        )
        .unwrap();
        assert_eq!((plain.status, plain.body.as_str()), (200, "success"));
        let chunked = decode(b"HTTP/1.1 400 Bad Request\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n2\r\nde\r\n0\r\n\r\n", false).unwrap();
        assert_eq!((chunked.status, chunked.body.as_str()), (400, "abcde"));
        for cut in [
            &b"HTTP/1.1 200 OK\r\nContent-Length: 7\r\n\r\nsucc"[..],
            b"HTTP/1.1 200",
            b"",
            b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nab",
        ] {
            assert_eq!(decode(cut, true), None);
        }
        let open = b"HTTP/1.1 200 OK\r\n\r\nsucc";
        assert_eq!(decode(open, false), None);
        assert_eq!(decode(open, true).unwrap().body, "succ");
        assert_eq!(
            decode(b"HTTP/1.1 204 No Content\r\n\r\n", false)
                .unwrap()
                .status,
            204
        );
    }

    /// A far end that answers in pieces, or not at all, behind somebody who may say why.
    async fn exchanged(
        answer: &'static [u8],
        refused: Option<&'static str>,
    ) -> Result<Response, SendError> {
        let (near, mut far) = tokio::io::duplex(4096);
        tokio::spawn(async move {
            let mut head = vec![0; 8];
            let _ = far.read_exact(&mut head).await;
            let _ = far.write_all(answer).await;
        });
        let request = Request {
            method: "GET".into(),
            path: "/".into(),
            headers: Vec::new(),
            body: Vec::new(),
            lose_answer: false,
        };
        let refused: BoxFuture<'static, Option<String>> =
            Box::pin(std::future::ready(refused.map(str::to_owned)));
        exchange(
            Connection {
                stream: Box::new(near),
                refused: Some(refused),
            },
            "s",
            &request,
        )
        .await
    }

    #[tokio::test]
    async fn a_request_that_nobody_took_was_not_sent() {
        assert!(
            exchanged(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n", None)
                .await
                .is_ok()
        );
        let refused = "error forwarding port 12000 to pod x: dial tcp4 127.0.0.1:12000: connect: connection refused";
        assert!(matches!(
            exchanged(b"", Some(refused)).await,
            Err(SendError::NotSent(_))
        ));
        // Anything else may have got through.
        for said in [None, Some("lost connection to pod")] {
            assert!(
                matches!(exchanged(b"", said).await, Err(SendError::AnswerLost(_))),
                "{said:?}"
            );
        }
    }

    /// A server that shows its certificate; and the certificate.
    fn shows_itself() -> (tokio_rustls::TlsAcceptor, Vec<u8>) {
        let made = rcgen::generate_simple_self_signed(["web".to_owned()]).unwrap();
        let key = rustls::pki_types::PrivateKeyDer::try_from(made.signing_key.serialize_der());
        let provider = std::sync::Arc::new(rustls::crypto::ring::default_provider());
        let config = rustls::ServerConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_no_client_auth()
            .with_single_cert(vec![made.cert.der().clone()], key.unwrap())
            .unwrap();
        let acceptor = tokio_rustls::TlsAcceptor::from(std::sync::Arc::new(config));
        (acceptor, made.cert.pem().into_bytes())
    }

    #[tokio::test]
    async fn over_tls_only_the_certificate_that_is_known_is_talked_to() {
        let (acceptor, pem) = shows_itself();
        let (_, other) = shows_itself();
        for (pem, taken) in [(pem, true), (other, false)] {
            let (near, far) = tokio::io::duplex(4096);
            let acceptor = acceptor.clone();
            let served = tokio::spawn(async move {
                let mut stream = acceptor.accept(far).await.ok()?;
                let mut head = [0; 4];
                stream.read_exact(&mut head).await.ok()?;
                let answer = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok";
                stream.write_all(answer).await.ok()?;
                stream.flush().await.ok()
            });
            let connection = Connection {
                stream: Box::new(near),
                refused: None,
            };
            let certificate = KnownCertificate::from_pem(&pem).unwrap();
            let request = Request {
                method: "POST".into(),
                path: "/".into(),
                headers: Vec::new(),
                body: b"{}".to_vec(),
                lose_answer: false,
            };
            match secured(connection, "web", &certificate).await {
                Ok(connection) => {
                    let answer = exchange(connection, "web", &request).await.unwrap();
                    assert!(taken && answer.body == "ok");
                }
                Err(error) => {
                    assert!(!taken && error.0.contains("another certificate"), "{error}");
                }
            }
            assert_eq!(served.await.unwrap().is_some(), taken);
        }
        assert!(KnownCertificate::from_pem(b"no certificate").is_err());
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
