//! The API server's certificate: an authority of its own and what it signed, kept in one private file.
//!
//! From above: [`ServingIdentity::load_or_create`] at start, then [`ServingIdentity::server_config`] for the listener
//! and [`ServingIdentity::ca_pem`] for the kubeconfig. The authority's key is dropped once it has signed, so nothing
//! else can ever be signed by it; both certificates are made anew together.

use std::io;
use std::net::Ipv4Addr;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Once};
use std::time::Duration;

use jiff::{Span, Timestamp, civil, tz::TimeZone};
use rcgen::{
    BasicConstraints, CertificateParams, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair,
    KeyUsagePurpose, SanType,
};
use rustls::client::WebPkiServerVerifier;
use rustls::client::danger::ServerCertVerifier as _;
use rustls::crypto::CryptoProvider;
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName, UnixTime};
use rustls::server::WebPkiClientVerifier;
use rustls::server::danger::ClientCertVerifier;
use rustls::{RootCertStore, ServerConfig};

use super::private_file;

const FILE: &str = "api-server.pem";
const VALID_DAYS: i32 = 365;
/// A certificate that ends sooner than this is made anew.
const MARGIN: Duration = Duration::from_secs(30 * 24 * 3600);
const DNS_NAMES: [&str; 5] = [
    "localhost",
    "kubernetes",
    "kubernetes.default",
    "kubernetes.default.svc",
    "kubernetes.default.svc.cluster.local",
];

/// Makes ring the provider of cryptography for every TLS client and server of this process.
///
/// Cheap to call again; call it before the first client is made.
pub fn init_tls() {
    static INSTALL: Once = Once::new();
    INSTALL.call_once(|| {
        // An error says that one is installed already, which is as good.
        let _ = rustls::crypto::ring::default_provider().install_default();
    });
}

/// Why there is no certificate to serve with.
#[derive(Debug, thiserror::Error)]
pub enum TlsError {
    #[error("cannot make the API server's certificate: {0}")]
    Make(#[from] rcgen::Error),
    #[error("cannot use the API server's certificate: {0}")]
    Use(String),
    #[error(
        "cannot write the API server's certificate to {path}: {source}; is the state directory writable?"
    )]
    Write { path: PathBuf, source: io::Error },
}

/// A server certificate with its key, and the authority that signed it.
pub struct ServingIdentity {
    ca: CertificateDer<'static>,
    server: CertificateDer<'static>,
    key: PrivateKeyDer<'static>,
    ca_pem: String,
}

impl std::fmt::Debug for ServingIdentity {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("ServingIdentity")
    }
}

impl ServingIdentity {
    /// Reads the identity kept in `directory`; makes and keeps a new one when it is missing, damaged, of other names,
    /// or ends within a month.
    ///
    /// # Errors
    /// A new one cannot be made or written.
    pub fn load_or_create(directory: &Path) -> Result<ServingIdentity, TlsError> {
        ServingIdentity::load_or_create_at(directory, Timestamp::now())
    }

    fn load_or_create_at(directory: &Path, now: Timestamp) -> Result<ServingIdentity, TlsError> {
        let path = directory.join(FILE);
        let kept = std::fs::read(&path)
            .ok()
            .and_then(|pem| ServingIdentity::parse(&pem));
        if let Some(identity) = kept.filter(|identity| identity.is_good(now)) {
            return Ok(identity);
        }
        let pem = make(now)?;
        private_file::replace(&path, pem.as_bytes())
            .map_err(|source| TlsError::Write { path, source })?;
        let identity = ServingIdentity::parse(pem.as_bytes());
        identity.ok_or_else(|| TlsError::Use("what was made cannot be read back".to_owned()))
    }

    /// The file holds the authority's certificate, the server's, and the server's key, in this order.
    fn parse(pem: &[u8]) -> Option<ServingIdentity> {
        let mut certificates = CertificateDer::pem_slice_iter(pem);
        let ca = certificates.next()?.ok()?;
        let server = certificates.next()?.ok()?;
        let key = PrivateKeyDer::from_pem_slice(pem).ok()?;
        let text = std::str::from_utf8(pem).ok()?;
        let end = "-----END CERTIFICATE-----";
        let ca_pem = format!("{}\n", &text[..text.find(end)? + end.len()]);
        Some(ServingIdentity {
            ca,
            server,
            key,
            ca_pem,
        })
    }

    /// Whether a client that trusts the authority would accept the server, now and for a while to come.
    fn is_good(&self, now: Timestamp) -> bool {
        let seconds = u64::try_from(now.as_second()).unwrap_or_default();
        let times = [
            Duration::from_secs(seconds),
            Duration::from_secs(seconds) + MARGIN,
        ];
        let names = DNS_NAMES
            .iter()
            .map(|name| ServerName::try_from(*name).ok());
        let address = ServerName::from(std::net::IpAddr::V4(Ipv4Addr::LOCALHOST));
        let Some(names) = names.chain([Some(address)]).collect::<Option<Vec<_>>>() else {
            return false;
        };
        let mut roots = RootCertStore::empty();
        if roots.add(self.ca.clone()).is_err() || self.server_config().is_err() {
            return false;
        }
        let Ok(verifier) =
            WebPkiServerVerifier::builder_with_provider(Arc::new(roots), provider()).build()
        else {
            return false;
        };
        times.iter().all(|time| {
            let time = UnixTime::since_unix_epoch(*time);
            names.iter().all(|name| {
                verifier
                    .verify_server_cert(&self.server, &[], name, &[], time)
                    .is_ok()
            })
        })
    }

    /// The authority's certificate as PEM, for those who are to trust the server.
    #[must_use]
    pub fn ca_pem(&self) -> &str {
        &self.ca_pem
    }

    /// How the listener speaks TLS: 1.2 and 1.3, HTTP/1.1 only.
    ///
    /// # Errors
    /// Certificate and key do not fit together.
    pub fn server_config(&self) -> Result<Arc<ServerConfig>, TlsError> {
        self.config(WebPkiClientVerifier::no_client_auth())
    }

    /// As [`ServingIdentity::server_config`]; a client may show a certificate, and one that these authorities (PEM) did
    /// not sign is turned away.
    ///
    /// # Errors
    /// No authority can be read.
    pub fn server_config_for(&self, authorities: &str) -> Result<Arc<ServerConfig>, TlsError> {
        let mut roots = RootCertStore::empty();
        for certificate in CertificateDer::pem_slice_iter(authorities.as_bytes()).flatten() {
            roots
                .add(certificate)
                .map_err(|error| TlsError::Use(error.to_string()))?;
        }
        let verifier = WebPkiClientVerifier::builder_with_provider(Arc::new(roots), provider())
            .allow_unauthenticated()
            .build()
            .map_err(|error| TlsError::Use(error.to_string()))?;
        self.config(verifier)
    }

    fn config(&self, clients: Arc<dyn ClientCertVerifier>) -> Result<Arc<ServerConfig>, TlsError> {
        let unusable = |error: rustls::Error| TlsError::Use(error.to_string());
        let mut config = ServerConfig::builder_with_provider(provider())
            .with_safe_default_protocol_versions()
            .map_err(unusable)?
            .with_client_cert_verifier(clients)
            .with_single_cert(vec![self.server.clone()], self.key.clone_key())
            .map_err(unusable)?;
        config.alpn_protocols = vec![b"http/1.1".to_vec()];
        Ok(Arc::new(config))
    }
}

fn provider() -> Arc<CryptoProvider> {
    Arc::new(rustls::crypto::ring::default_provider())
}

/// A new authority and server certificate, as the text of the file.
fn make(now: Timestamp) -> Result<String, TlsError> {
    let ca_key = KeyPair::generate()?;
    let mut ca = params("eventlab CA", now);
    ca.is_ca = IsCa::Ca(BasicConstraints::Constrained(0));
    ca.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
    let ca_certificate = ca.self_signed(&ca_key)?;

    let key = KeyPair::generate()?;
    let mut server = params("eventlab API server", now);
    server.key_usages = vec![KeyUsagePurpose::DigitalSignature];
    server.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
    server.use_authority_key_identifier_extension = true;
    server.subject_alt_names = vec![SanType::IpAddress(Ipv4Addr::LOCALHOST.into())];
    for name in DNS_NAMES {
        server
            .subject_alt_names
            .push(SanType::DnsName(name.try_into()?));
    }
    let certificate = server.signed_by(&key, &Issuer::new(ca, ca_key))?;
    Ok([ca_certificate.pem(), certificate.pem(), key.serialize_pem()].concat())
}

fn params(name: &str, now: Timestamp) -> CertificateParams {
    let mut params = CertificateParams::default();
    params.distinguished_name.push(DnType::CommonName, name);
    let today = now.to_zoned(TimeZone::UTC).date();
    let midnight = |date: civil::Date| {
        rcgen::date_time_ymd(
            date.year().into(),
            date.month().unsigned_abs(),
            date.day().unsigned_abs(),
        )
    };
    // The day before, for clocks that differ.
    params.not_before = midnight(today.saturating_sub(Span::new().days(1)));
    params.not_after = midnight(today.saturating_add(Span::new().days(VALID_DAYS)));
    params
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ca_after(directory: &Path, days: i64) -> String {
        let now = Timestamp::now() + jiff::SignedDuration::from_hours(24 * days);
        ServingIdentity::load_or_create_at(directory, now)
            .unwrap()
            .ca_pem()
            .to_owned()
    }

    #[test]
    fn the_identity_is_kept() {
        let directory = tempfile::tempdir().unwrap();
        let first = ca_after(directory.path(), 0);
        assert_eq!(ca_after(directory.path(), 0), first);
        assert_eq!(ca_after(directory.path(), 330), first);
        assert!(!first.contains("KEY") && first.ends_with("-----END CERTIFICATE-----\n"));
    }

    #[test]
    fn it_is_renewed_when_it_ends_within_a_month_or_is_not_yet_valid() {
        let directory = tempfile::tempdir().unwrap();
        let first = ca_after(directory.path(), 0);
        let second = ca_after(directory.path(), 340);
        assert_ne!(second, first);
        assert_ne!(ca_after(directory.path(), 0), second);
    }

    #[test]
    fn a_damaged_file_is_replaced() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join(FILE);
        let mut known = ca_after(directory.path(), 0);
        let whole = std::fs::read_to_string(&path).unwrap();
        let other = tempfile::tempdir().unwrap();
        ca_after(other.path(), 0);
        let foreign = std::fs::read_to_string(other.path().join(FILE)).unwrap();
        let key = |text: &str| text[text.find("-----BEGIN PRIVATE").unwrap()..].to_owned();
        let damaged = [
            String::new(),
            "nonsense".to_owned(),
            whole[..whole.len() / 2].to_owned(),
            whole.replacen("MII", "MIJ", 1),
            whole.replace(&key(&whole), &key(&foreign)),
            format!(
                "{}{}",
                known,
                &foreign[foreign.find("END CERT").unwrap() + 21..]
            ),
        ];
        for text in damaged {
            std::fs::write(&path, text).unwrap();
            let made = ca_after(directory.path(), 0);
            assert_ne!(made, known);
            assert_eq!(ca_after(directory.path(), 0), made);
            known = made;
        }
    }

    #[test]
    fn an_unwritable_directory_is_named() {
        let error = ServingIdentity::load_or_create(Path::new("/proc/nowhere")).unwrap_err();
        assert!(
            error
                .to_string()
                .starts_with("cannot write the API server's certificate to /proc/nowhere/"),
            "{error}"
        );
    }
}
