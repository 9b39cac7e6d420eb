//! The proxy between here and an API server: which one, as kubectl chooses it, and the client that goes through it.
//!
//! The kubeconfig's `proxy-url` always counts. Else the environment's does, except for this machine and for what
//! `NO_PROXY` names. Source of the rules: Go's `golang.org/x/net/http/httpproxy`.

use std::net::IpAddr;

use base64::Engine as _;
use http::{HeaderValue, Uri};
use hyper_timeout::TimeoutConnector;
use hyper_util::client::legacy::Client as HttpClient;
use hyper_util::client::legacy::connect::proxy::{SocksV5, Tunnel};
use hyper_util::client::legacy::connect::{Connection, HttpConnector};
use hyper_util::rt::TokioExecutor;
use kube::client::{Body, ClientBuilder, ConfigExt as _};
use kube::config::Config;
use tower::{BoxError, Service, ServiceBuilder};

use super::steady;

/// What the environment says of proxies.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Surroundings {
    pub(super) https: Option<String>,
    pub(super) http: Option<String>,
    /// Hosts that are reached without one, separated by commas.
    pub(super) without: Option<String>,
}

impl Surroundings {
    /// Of this process.
    pub(super) fn here() -> Self {
        let first = |names: [&str; 2]| {
            let mut values = names
                .into_iter()
                .filter_map(|name| std::env::var(name).ok());
            values.find(|value| !value.is_empty())
        };
        Self {
            https: first(["HTTPS_PROXY", "https_proxy"]),
            http: first(["HTTP_PROXY", "http_proxy"]),
            without: first(["NO_PROXY", "no_proxy"]),
        }
    }

    /// The proxy for a server, unless it is reached without one.
    pub(super) fn proxy(&self, server: &Uri) -> Result<Option<Uri>, String> {
        let named = match server.scheme_str() {
            Some("http") => &self.http,
            _ => &self.https,
        };
        match named {
            Some(named) if !self.spares(server) => address(named).map(Some),
            _ => Ok(None),
        }
    }

    fn spares(&self, server: &Uri) -> bool {
        let host = server.host().unwrap_or_default();
        let host = host.trim_matches(['[', ']']).trim_end_matches('.');
        let host = host.to_ascii_lowercase();
        let ip: Option<IpAddr> = host.parse().ok();
        if host == "localhost" || ip.is_some_and(|ip| ip.is_loopback()) {
            return true;
        }
        let port = match (server.port_u16(), server.scheme_str()) {
            (Some(port), _) => port,
            (None, Some("http")) => 80,
            (None, _) => 443,
        };
        let entries = self.without.iter().flat_map(|list| list.split(','));
        entries
            .map(|entry| entry.trim().to_ascii_lowercase())
            .any(|entry| names(&entry, &host, ip, port))
    }
}

/// Whether an entry of `NO_PROXY` names a host.
fn names(entry: &str, host: &str, ip: Option<IpAddr>, port: u16) -> bool {
    if entry == "*" {
        return true;
    }
    if let Some((network, length)) = entry.split_once('/') {
        return ip.is_some_and(|ip| lies_in(ip, network, length) == Some(true));
    }
    let (name, wanted) = match entry.rsplit_once(':') {
        // An address of version 6 without brackets has colons, and no port.
        Some((name, _)) if name.contains(':') && !name.ends_with(']') => (entry, None),
        Some((name, port)) => (name, Some(port)),
        None => (entry, None),
    };
    if wanted.is_some_and(|wanted| wanted != port.to_string()) {
        return false;
    }
    let name = name.trim_matches(['[', ']']);
    if let Ok(named) = name.parse::<IpAddr>() {
        return ip == Some(named);
    }
    let name = name
        .strip_prefix('*')
        .filter(|rest| rest.starts_with('.'))
        .unwrap_or(name);
    match name.strip_prefix('.') {
        _ if name.is_empty() => false,
        Some(_) => host.ends_with(name),
        None => {
            host == name
                || host
                    .strip_suffix(name)
                    .is_some_and(|rest| rest.ends_with('.'))
        }
    }
}

fn lies_in(ip: IpAddr, network: &str, length: &str) -> Option<bool> {
    let length: u32 = length.parse().ok()?;
    match (ip, network.parse().ok()?) {
        (IpAddr::V4(ip), IpAddr::V4(network)) => {
            let mask = u32::MAX
                .checked_shl(32_u32.checked_sub(length)?)
                .unwrap_or(0);
            Some(ip.to_bits() & mask == network.to_bits() & mask)
        }
        (IpAddr::V6(ip), IpAddr::V6(network)) => {
            let mask = u128::MAX
                .checked_shl(128_u32.checked_sub(length)?)
                .unwrap_or(0);
            Some(ip.to_bits() & mask == network.to_bits() & mask)
        }
        _ => Some(false),
    }
}

/// The address of a proxy; without a scheme it speaks HTTP.
pub(super) fn address(text: &str) -> Result<Uri, String> {
    let whole = if text.contains("://") {
        text.to_owned()
    } else {
        format!("http://{text}")
    };
    let address: Uri = whole
        .parse()
        .map_err(|error: http::uri::InvalidUri| format!("its proxy has no address: {error}"))?;
    match address.scheme_str() {
        Some("http" | "socks5") if address.host().is_some() => Ok(address),
        scheme => Err(format!(
            "its proxy speaks {}: only http:// and socks5:// are known; `kubectl proxy` in another terminal goes through any, \
             and a context with the server http://127.0.0.1:8001 goes through that",
            scheme.unwrap_or("nothing known")
        )),
    }
}

/// A client whose connections go through the proxy of its configuration.
pub(super) fn client(config: Config, proxy: &Uri) -> Result<kube::Client, kube::Error> {
    let mut direct = HttpConnector::new();
    direct.enforce_http(false);
    let login = login(proxy);
    if proxy.scheme_str() == Some("socks5") {
        let socks = SocksV5::new(proxy.clone(), direct);
        return through(
            config,
            match login {
                Some((user, password)) => socks.with_auth(user, password),
                None => socks,
            },
        );
    }
    let tunnel = Tunnel::new(proxy.clone(), direct);
    let basic = login.and_then(|(user, password)| {
        let pair = base64::engine::general_purpose::STANDARD.encode(format!("{user}:{password}"));
        HeaderValue::from_str(&format!("Basic {pair}")).ok()
    });
    through(
        config,
        match basic {
            Some(basic) => tunnel.with_auth(basic),
            None => tunnel,
        },
    )
}

fn through<C>(config: Config, connector: C) -> Result<kube::Client, kube::Error>
where
    C: Service<Uri> + Clone + Send + Sync + 'static,
    C::Response: Connection + hyper::rt::Read + hyper::rt::Write + Send + Unpin + 'static,
    C::Future: Send + 'static,
    C::Error: std::error::Error + Send + Sync + 'static,
{
    let mut connector =
        TimeoutConnector::new(config.rustls_https_connector_with_connector(connector)?);
    connector.set_connect_timeout(config.connect_timeout);
    connector.set_read_timeout(config.read_timeout);
    connector.set_write_timeout(config.write_timeout);
    let client: HttpClient<_, Body> = HttpClient::builder(TokioExecutor::new()).build(connector);
    let service = ServiceBuilder::new()
        .layer(config.base_uri_layer())
        .option_layer(config.auth_layer()?)
        .layer(config.extra_headers_layer()?)
        .map_err(BoxError::from)
        .service(client);
    Ok(
        ClientBuilder::new(service, config.default_namespace.clone())
            .with_layer(&steady::layer())
            .build(),
    )
}

/// User and password before the host, with what was escaped in them.
fn login(proxy: &Uri) -> Option<(String, String)> {
    let (login, _) = proxy.authority()?.as_str().rsplit_once('@')?;
    let (user, password) = login.split_once(':').unwrap_or((login, ""));
    Some((unescaped(user), unescaped(password)))
}

fn unescaped(text: &str) -> String {
    percent_encoding::percent_decode_str(text)
        .decode_utf8_lossy()
        .into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn surroundings(without: &str) -> Surroundings {
        Surroundings {
            https: Some("proxy.corp:3128".into()),
            http: None,
            without: Some(without.into()),
        }
    }

    fn proxy(without: &str, server: &str) -> Option<String> {
        let server: Uri = server.parse().unwrap();
        let proxy = surroundings(without).proxy(&server).unwrap();
        proxy.map(|uri| uri.to_string())
    }

    #[test]
    fn this_machine_and_what_is_named_is_reached_without_a_proxy() {
        let through = Some("http://proxy.corp:3128/".to_owned());
        for (without, server, spared) in [
            ("", "https://127.0.0.1:6443", true),
            ("", "https://[::1]:6443", true),
            ("", "https://localhost:6443", true),
            ("", "https://api.example.com", false),
            ("*", "https://api.example.com", true),
            ("example.com", "https://api.example.com", true),
            ("example.com", "https://example.com:6443", true),
            ("example.com", "https://notexample.com", false),
            (".example.com", "https://api.example.com", true),
            (".example.com", "https://example.com", false),
            ("*.example.com", "https://api.example.com", true),
            ("EXAMPLE.com:6443", "https://api.example.com:6443", true),
            ("example.com:6443", "https://api.example.com", false),
            ("api.example.com:443", "https://api.example.com", true),
            ("a, 10.0.0.0/8 ,b", "https://10.1.2.3:6443", true),
            ("10.0.0.0/8", "https://11.1.2.3:6443", false),
            ("0.0.0.0/0", "https://11.1.2.3", true),
            ("10.0.0.0/33", "https://10.0.0.1", false),
            ("10.1.2.3", "https://10.1.2.3:6443", true),
            ("10.1.2.3:1", "https://10.1.2.3:6443", false),
            ("fd00::/8", "https://[fd00::1]:6443", true),
            ("fd00::1", "https://[fd00::1]:6443", true),
            ("[fd00::1]:6443", "https://[fd00::1]:6443", true),
            (",,:,/,.,*.", "https://api.example.com", false),
        ] {
            let expected = if spared { None } else { through.clone() };
            assert_eq!(proxy(without, server), expected, "{without} {server}");
        }
    }

    #[test]
    fn a_server_without_tls_has_the_other_variable() {
        let server = "http://api.example.com".parse().unwrap();
        assert_eq!(surroundings("").proxy(&server), Ok(None));
        let here = Surroundings {
            http: Some("http://user:p%40ss@proxy:1".into()),
            ..Surroundings::default()
        };
        let proxy = here.proxy(&server).unwrap().unwrap();
        assert_eq!(login(&proxy), Some(("user".into(), "p@ss".into())));
    }

    #[test]
    fn a_proxy_that_cannot_be_used_is_told() {
        for bad in ["https://proxy:1", "ftp://proxy", "http://", "a b"] {
            let error = address(bad).unwrap_err();
            assert!(error.contains("its proxy"), "{bad}: {error}");
        }
        assert!(address("socks5://127.0.0.1:1080").is_ok());
    }
}
