//! What a client shows to a bus, and what it asks of the bus's certificate.
//!
//! Services read it from their mounted Secrets; commands read it from a URL of their own.

use std::fmt;

use super::BusError;

/// What a client shows to be let in.
#[derive(Clone, Default, PartialEq, Eq)]
pub enum Login {
    #[default]
    Nobody,
    /// User and password, as Argo's `accessSecret` holds them.
    Password {
        user: String,
        password: String,
    },
    Token(String),
}

/// Secrets stay out of logs and panics.
impl fmt::Debug for Login {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Login::Nobody => "Nobody",
            Login::Password { .. } => "Password",
            Login::Token(_) => "Token",
        })
    }
}

/// TLS that was asked for. Texts are PEM.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct BusTls {
    /// Authorities that sign the server's certificate; without any, those of the machine.
    pub authorities: Option<Vec<u8>>,
    /// Certificate and key that the client shows.
    pub client: Option<(Vec<u8>, Vec<u8>)>,
    /// Takes any certificate (`insecureSkipVerify`).
    pub unverified: bool,
}

impl fmt::Debug for BusTls {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("BusTls")
            .field("authorities", &self.authorities.is_some())
            .field("client", &self.client.is_some())
            .field("unverified", &self.unverified)
            .finish()
    }
}

/// How a client enters a bus.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Access {
    pub login: Login,
    /// `None`: TLS only if the server wants it, and then with any certificate, as Argo Events connects to a bus whose
    /// configuration says nothing about TLS.
    pub tls: Option<BusTls>,
}

impl Access {
    /// A password alone, for the embedded bus, which knows one user.
    #[must_use]
    pub fn password(password: &str) -> Access {
        Access {
            login: Login::Password {
                user: "js".to_owned(),
                password: password.to_owned(),
            },
            tls: None,
        }
    }

    /// What the embedded bus compares.
    #[must_use]
    pub fn secret(&self) -> Option<&str> {
        match &self.login {
            Login::Nobody => None,
            Login::Password { password, .. } => Some(password),
            Login::Token(token) => Some(token),
        }
    }
}

/// The address of a NATS server that a person wrote, taken apart.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BusAddress {
    /// The URL without user and password, such as `nats://127.0.0.1:4222`.
    pub url: String,
    pub login: Login,
}

impl BusAddress {
    /// Reads `nats://[USER:PASSWORD@|TOKEN@]HOST[:PORT]` or `tls://…`.
    ///
    /// # Errors
    /// What of it is not such a URL.
    pub fn parse(text: &str) -> Result<BusAddress, BusError> {
        let refuse = |why: &str| {
            Err(BusError::Refused(format!(
                "{why}; write nats://HOST:4222, nats://USER:PASSWORD@HOST:4222 or tls://HOST:4222"
            )))
        };
        let Some((scheme, rest)) = text.trim().split_once("://") else {
            return refuse("the address of the bus has no scheme");
        };
        if !matches!(scheme, "nats" | "tls") {
            return refuse("the address of the bus begins with neither nats:// nor tls://");
        }
        let (login, host) = match rest.rsplit_once('@') {
            None => (Login::Nobody, rest),
            Some((login, host)) => match login.split_once(':') {
                Some((user, password)) => (
                    Login::Password {
                        user: decoded(user),
                        password: decoded(password),
                    },
                    host,
                ),
                None => (Login::Token(decoded(login)), host),
            },
        };
        let host = host.trim_end_matches('/');
        let url = format!("{scheme}://{host}");
        let parsed: Result<async_nats::ServerAddr, _> = url.parse();
        match parsed {
            Ok(address) if !address.host().is_empty() && !host.contains(['/', '?', '#']) => {
                let name = address.host();
                let name = if name.contains(':') && !name.starts_with('[') {
                    format!("[{name}]")
                } else {
                    name.to_owned()
                };
                Ok(BusAddress {
                    url: format!("{scheme}://{name}:{}", address.port()),
                    login,
                })
            }
            _ => refuse("the address of the bus names no host and port"),
        }
    }
}

/// `%40` and the like become what they stand for; anything else stays as it is.
fn decoded(text: &str) -> String {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let Some((first, after)) = rest.split_first() {
        let hex = after
            .get(..2)
            .and_then(|pair| std::str::from_utf8(pair).ok());
        match hex.and_then(|pair| u8::from_str_radix(pair, 16).ok()) {
            Some(byte) if *first == b'%' => {
                bytes.push(byte);
                rest = after.get(2..).unwrap_or_default();
            }
            _ => {
                bytes.push(*first);
                rest = after;
            }
        }
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_is_taken_apart() {
        let plain = BusAddress::parse("nats://127.0.0.1:4333").unwrap();
        assert_eq!(
            (plain.url.as_str(), plain.login),
            ("nats://127.0.0.1:4333", Login::Nobody)
        );
        assert_eq!(
            BusAddress::parse("tls://bus.example/").unwrap().url,
            "tls://bus.example:4222"
        );
        let user = BusAddress::parse("nats://js:a%40b:c@bus:1").unwrap();
        assert_eq!(user.url, "nats://bus:1");
        assert_eq!(
            user.login,
            Login::Password {
                user: "js".into(),
                password: "a@b:c".into()
            }
        );
        assert_eq!(
            BusAddress::parse("nats://t0ken@bus").unwrap().login,
            Login::Token("t0ken".into())
        );
        for bad in [
            "",
            "bus:4222",
            "http://bus",
            "nats://",
            "nats://a b",
            "nats://a/b",
            "nats://a:99999",
            "nats://@",
        ] {
            let error = BusAddress::parse(bad).expect_err(bad).to_string();
            assert!(error.contains("write nats://"), "{error}");
        }
    }

    #[test]
    fn secrets_do_not_print() {
        let text = format!("{:?}", Access::password("s3cret"));
        assert!(!text.contains("s3cret"), "{text}");
    }
}
