//! Which certificate a server may show to a client of ours, where no authority is asked.

use std::sync::Arc;

use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::{CryptoProvider, verify_tls12_signature, verify_tls13_signature};
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::{DigitallySignedStruct, SignatureScheme};

/// Takes one certificate or every one, whatever it says and whoever signed it, and always checks that the server holds its
/// key.
#[derive(Debug)]
pub struct ServerCertificate {
    wanted: Option<CertificateDer<'static>>,
    provider: Arc<CryptoProvider>,
}

impl ServerCertificate {
    /// This one and no other.
    #[must_use]
    pub fn only(wanted: CertificateDer<'static>, provider: Arc<CryptoProvider>) -> Arc<Self> {
        Arc::new(Self {
            wanted: Some(wanted),
            provider,
        })
    }

    /// Whichever the server has.
    #[must_use]
    pub fn any(provider: Arc<CryptoProvider>) -> Arc<Self> {
        Arc::new(Self {
            wanted: None,
            provider,
        })
    }
}

impl ServerCertVerifier for ServerCertificate {
    fn verify_server_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        _intermediates: &[CertificateDer<'_>],
        _server_name: &ServerName<'_>,
        _ocsp_response: &[u8],
        _now: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        match &self.wanted {
            Some(wanted) if wanted.as_ref() != end_entity.as_ref() => Err(rustls::Error::General(
                "it shows another certificate than the one in its Secret".to_owned(),
            )),
            _ => Ok(ServerCertVerified::assertion()),
        }
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

#[cfg(test)]
mod tests {
    use super::*;
    use rustls::pki_types::PrivateKeyDer;
    use rustls::{ClientConfig, ClientConnection, ServerConfig, ServerConnection};

    /// A certificate and a key, which need not be its own.
    fn made() -> (CertificateDer<'static>, Vec<u8>) {
        let made = rcgen::generate_simple_self_signed(vec!["other".to_owned()]).unwrap();
        (made.cert.der().clone(), made.signing_key.serialize_der())
    }

    /// Whether a client takes what the server shows, with each version of TLS.
    fn taken(
        verifier: &Arc<ServerCertificate>,
        shown: &CertificateDer<'static>,
        key: &[u8],
    ) -> bool {
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let versions = [&rustls::version::TLS12, &rustls::version::TLS13];
        let results = versions.map(|version| {
            let key = PrivateKeyDer::try_from(key.to_vec()).unwrap();
            let key = provider.key_provider.load_private_key(key).unwrap();
            let certified = rustls::sign::CertifiedKey::new(vec![shown.clone()], key);
            let server = ServerConfig::builder_with_provider(Arc::clone(&provider))
                .with_protocol_versions(&[version])
                .unwrap()
                .with_no_client_auth()
                .with_cert_resolver(Arc::new(rustls::sign::SingleCertAndKey::from(certified)));
            let client = ClientConfig::builder_with_provider(Arc::clone(&provider))
                .with_protocol_versions(&[version])
                .unwrap()
                .dangerous()
                .with_custom_certificate_verifier(
                    Arc::clone(verifier) as Arc<dyn ServerCertVerifier>
                )
                .with_no_client_auth();
            let mut server = ServerConnection::new(Arc::new(server)).unwrap();
            let mut client =
                ClientConnection::new(Arc::new(client), "bus".try_into().unwrap()).unwrap();
            while client.is_handshaking() {
                let mut wire = Vec::new();
                client.write_tls(&mut wire).unwrap();
                server.read_tls(&mut wire.as_slice()).unwrap();
                server.process_new_packets().unwrap();
                let mut wire = Vec::new();
                server.write_tls(&mut wire).unwrap();
                client.read_tls(&mut wire.as_slice()).unwrap();
                if client.process_new_packets().is_err() {
                    return false;
                }
            }
            true
        });
        assert_eq!(results[0], results[1]);
        results[0]
    }

    #[test]
    fn a_certificate_counts_with_its_key_alone() {
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let ((own, key), (other, other_key)) = (made(), made());
        let only = ServerCertificate::only(own.clone(), Arc::clone(&provider));
        let any = ServerCertificate::any(provider);
        for (shown, key, by_only, by_any) in [
            (&own, &key, true, true),
            (&own, &other_key, false, false),
            (&other, &other_key, false, true),
            (&other, &key, false, false),
        ] {
            assert_eq!(
                (taken(&only, shown, key), taken(&any, shown, key)),
                (by_only, by_any)
            );
        }
    }
}
