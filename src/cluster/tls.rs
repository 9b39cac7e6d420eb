//! TLS to a Service of the cluster whose certificate is known beforehand: no other one is taken, whatever it says and
//! whoever signed it.

use std::sync::Arc;

use rustls::ClientConfig;
use rustls::crypto::ring;
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, ServerName};
use tokio_rustls::TlsConnector;

use super::reach::Stream;
use crate::embedded::server_certificate::ServerCertificate;

/// The certificate that a server has to show, PEM; of a chain its first.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KnownCertificate(CertificateDer<'static>);

impl KnownCertificate {
    /// Reads it.
    ///
    /// # Errors
    /// The text holds no certificate.
    pub fn from_pem(pem: &[u8]) -> Result<Self, String> {
        CertificateDer::from_pem_slice(pem)
            .map(Self)
            .map_err(|error| format!("it holds no certificate: {error}"))
    }

    /// Speaks TLS over a connection, once the other side has shown this certificate and that it holds its key.
    pub(super) async fn secure(
        &self,
        stream: Box<dyn Stream>,
        service: &str,
    ) -> Result<Box<dyn Stream>, String> {
        let provider = Arc::new(ring::default_provider());
        let shown = ServerCertificate::only(self.0.clone(), Arc::clone(&provider));
        let config = ClientConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .map_err(|error| error.to_string())?
            .dangerous()
            .with_custom_certificate_verifier(shown)
            .with_no_client_auth();
        let name = ServerName::try_from(service.to_owned()).map_err(|error| error.to_string())?;
        let secured = TlsConnector::from(Arc::new(config))
            .connect(name, stream)
            .await;
        match secured {
            Ok(stream) => Ok(Box::new(stream)),
            Err(error) => Err(format!("no TLS with it: {error}")),
        }
    }
}
