//! Making one connection: login, TLS, and the word that it is lost.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use async_nats::{Client, ConnectError, ConnectErrorKind, ConnectOptions, Event};
use rustls::crypto::ring;
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::{ClientConfig, RootCertStore};
use tokio_util::sync::CancellationToken;

use super::ANSWER;
use crate::embedded::bus::{Access, BusError, BusTls, Login, NO_SERVERS};
use crate::embedded::server_certificate::ServerCertificate;

/// How long a try to connect takes at most.
const CONNECT: Duration = Duration::from_secs(2);
/// Time between two looks whether the server still answers; after two without an answer the connection is lost.
const PING: Duration = Duration::from_secs(20);

/// Connects; `closed` is cancelled when the connection is lost.
pub(super) async fn connect(
    url: &str,
    access: &Access,
    closed: CancellationToken,
) -> Result<Client, BusError> {
    let lost = closed.clone();
    let mut options = ConnectOptions::new()
        .name("eventlab")
        .connection_timeout(CONNECT)
        .request_timeout(Some(ANSWER))
        .ping_interval(PING)
        // It may try once more by itself; whoever holds the connection knows by then that it was lost.
        .max_reconnects(1)
        .ignore_discovered_servers()
        .event_callback(move |event| {
            if matches!(event, Event::Disconnected | Event::Closed) {
                lost.cancel();
            }
            std::future::ready(())
        })
        .tls_client_config(tls(access.tls.as_ref())?)
        .require_tls(access.tls.is_some());
    options = match &access.login {
        Login::Nobody => options,
        Login::Password { user, password } => {
            options.user_and_password(user.clone(), password.clone())
        }
        Login::Token(token) => options.token(token.clone()),
    };
    // The library's own limit is for the handshake; the name and the first bytes count here, too.
    match tokio::time::timeout(CONNECT + CONNECT, options.connect(url)).await {
        Ok(connected) => connected.map_err(|error| refused(url, &error)),
        Err(_) => Err(super::api::timeout()),
    }
}

/// Words of a NATS client for a connection that did not come about.
fn refused(url: &str, error: &ConnectError) -> BusError {
    let source = std::error::Error::source(error).map(ToString::to_string);
    let why = source.unwrap_or_else(|| error.to_string());
    let text = match error.kind() {
        ConnectErrorKind::AuthorizationViolation | ConnectErrorKind::Authentication => {
            "nats: Authorization Violation".to_owned()
        }
        ConnectErrorKind::TimedOut => "nats: timeout".to_owned(),
        ConnectErrorKind::Tls => format!("nats: TLS with {url} failed: {why}"),
        ConnectErrorKind::Io if is_refused(error) => NO_SERVERS.to_owned(),
        ConnectErrorKind::MaxReconnects => NO_SERVERS.to_owned(),
        ConnectErrorKind::Io if why.contains("certificate") => {
            format!("nats: TLS with {url} failed: {why}")
        }
        _ => format!("nats: dial {url}: {why}"),
    };
    BusError::Refused(text)
}

fn is_refused(error: &ConnectError) -> bool {
    let mut cause = std::error::Error::source(error);
    while let Some(one) = cause {
        if let Some(io) = one.downcast_ref::<io::Error>()
            && io.kind() == io::ErrorKind::ConnectionRefused
        {
            return true;
        }
        cause = one.source();
    }
    false
}

fn tls(wanted: Option<&BusTls>) -> Result<ClientConfig, BusError> {
    let provider = Arc::new(ring::default_provider());
    let builder = ClientConfig::builder_with_provider(Arc::clone(&provider))
        .with_safe_default_protocol_versions()
        .map_err(|error| unusable("TLS", &error))?;
    let verify = wanted.filter(|tls| !tls.unverified);
    let builder = match verify {
        Some(tls) => builder.with_root_certificates(roots(tls)?),
        None => builder
            .dangerous()
            .with_custom_certificate_verifier(ServerCertificate::any(provider)),
    };
    let Some((certificate, key)) = wanted.and_then(|tls| tls.client.as_ref()) else {
        return Ok(builder.with_no_client_auth());
    };
    let key = PrivateKeyDer::from_pem_slice(key)
        .map_err(|error| unusable("the client's key for the bus", &error))?;
    builder
        .with_client_auth_cert(certificates(certificate)?, key)
        .map_err(|error| unusable("the client's certificate for the bus", &error))
}

fn roots(tls: &BusTls) -> Result<RootCertStore, BusError> {
    let mut roots = RootCertStore::empty();
    match &tls.authorities {
        Some(pem) => {
            for certificate in certificates(pem)? {
                roots
                    .add(certificate)
                    .map_err(|error| unusable("the authority of the bus", &error))?;
            }
        }
        None => {
            roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
        }
    }
    if roots.is_empty() {
        return Err(BusError::Refused(
            "there is no certificate authority to check the bus with; name one with --bus-ca"
                .to_owned(),
        ));
    }
    Ok(roots)
}

fn certificates(pem: &[u8]) -> Result<Vec<CertificateDer<'static>>, BusError> {
    CertificateDer::pem_slice_iter(pem)
        .collect::<Result<_, _>>()
        .map_err(|error| unusable("the certificates for the bus", &error))
}

fn unusable(what: &str, error: &dyn std::fmt::Display) -> BusError {
    BusError::Refused(format!("{what} cannot be used: {error}"))
}
