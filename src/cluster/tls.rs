//! TLS to a Service of the cluster whose certificate is known beforehand: no other one is taken, whatever it says and
//! whoever signed it.

use std::sync::Arc;

use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::{CryptoProvider, ring, verify_tls12_signature, verify_tls13_signature};
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::{ClientConfig, DigitallySignedStruct, SignatureScheme};
use tokio_rustls::TlsConnector;

use super::reach::Stream;

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
        let shown = Arc::new(Shown {
            wanted: self.0.clone(),
            provider: Arc::clone(&provider),
        });
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

/// What a server has shown, against what it has to show.
#[derive(Debug)]
struct Shown {
    wanted: CertificateDer<'static>,
    provider: Arc<CryptoProvider>,
}

impl ServerCertVerifier for Shown {
    fn verify_server_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        _intermediates: &[CertificateDer<'_>],
        _server_name: &ServerName<'_>,
        _ocsp_response: &[u8],
        _now: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        if end_entity.as_ref() == self.wanted.as_ref() {
            return Ok(ServerCertVerified::assertion());
        }
        Err(rustls::Error::General(
            "it shows another certificate than the one in its Secret".to_owned(),
        ))
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        let known = &self.provider.signature_verification_algorithms;
        verify_tls12_signature(message, cert, dss, known)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        let known = &self.provider.signature_verification_algorithms;
        verify_tls13_signature(message, cert, dss, known)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        let known = &self.provider.signature_verification_algorithms;
        known.supported_schemes()
    }
}
