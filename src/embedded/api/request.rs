//! From method and URL to what is asked for, by the rules of `k8s.io/apiserver/pkg/endpoints/request/requestinfo.go`.
//!
//! Nothing here fails for a strange path: it becomes a non-resource request, is authorized as such and ends as 404.

use http::{HeaderMap, Method, Uri, header};

use super::attributes::{Attributes, ResourceAttributes};
use super::selectors;
use super::status::Failure;
use crate::sensor::go_duration;

/// Decoded query parameters in their order.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Query(Vec<(String, String)>);

impl Query {
    /// Splits a raw query; empty pairs (`?&limit=5`) are skipped.
    #[must_use]
    pub fn parse(raw: &str) -> Self {
        let pairs = raw.split('&').filter(|pair| !pair.is_empty()).map(|pair| {
            let (key, value) = pair.split_once('=').unwrap_or((pair, ""));
            (decode(key, true), decode(value, true))
        });
        Query(pairs.collect())
    }

    /// The first value of `key`.
    #[must_use]
    pub fn get(&self, key: &str) -> Option<&str> {
        self.0
            .iter()
            .find(|(name, _)| name == key)
            .map(|(_, value)| value.as_str())
    }

    /// The first value of `key`, or an empty string.
    #[must_use]
    pub fn text(&self, key: &str) -> &str {
        self.get(key).unwrap_or("")
    }

    /// All values of `key`.
    pub fn all<'a>(&'a self, key: &'a str) -> impl Iterator<Item = &'a str> {
        self.0
            .iter()
            .filter(move |(name, _)| name == key)
            .map(|(_, value)| value.as_str())
    }

    /// True unless absent, `false` or `0`.
    #[must_use]
    pub fn flag(&self, key: &str) -> bool {
        self.get(key)
            .is_some_and(|value| !value.eq_ignore_ascii_case("false") && value != "0")
    }
}

/// Percent-decodes; what is not valid stays as it is, what is not UTF-8 becomes U+FFFD.
#[must_use]
pub fn decode(text: &str, plus_is_space: bool) -> String {
    let bytes = text.as_bytes();
    let mut out = Vec::with_capacity(bytes.len());
    let mut at = 0;
    while let Some(&byte) = bytes.get(at) {
        let hex = |offset: usize| {
            bytes
                .get(at + offset)
                .and_then(|digit| (*digit as char).to_digit(16))
        };
        match (byte, hex(1), hex(2)) {
            (b'%', Some(high), Some(low)) => {
                out.push(u8::try_from(high * 16 + low).unwrap_or(b'?'));
                at += 3;
            }
            (b'+', ..) if plus_is_space => {
                out.push(b' ');
                at += 1;
            }
            _ => {
                out.push(byte);
                at += 1;
            }
        }
    }
    String::from_utf8_lossy(&out).into_owned()
}

/// A request, understood.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RequestInfo {
    pub path: String,
    pub query: Query,
    pub attributes: Attributes,
}

impl RequestInfo {
    /// Derives the attributes of a request.
    #[must_use]
    pub fn new(method: &Method, uri: &Uri) -> Self {
        let path = decode(uri.path(), false);
        let query = Query::parse(uri.query().unwrap_or(""));
        let attributes = match resource(method, &path, &query) {
            Some(attributes) => Attributes::Resource(attributes),
            None => Attributes::NonResource {
                verb: method.as_str().to_lowercase(),
                path: path.clone(),
            },
        };
        RequestInfo {
            path,
            query,
            attributes,
        }
    }

    /// Refuses a time limit that is none; what may last for long knows none.
    ///
    /// # Errors
    /// 400.
    pub fn check_time_limit(&self) -> Result<(), Failure> {
        let text = self.query.text("timeout");
        if text.is_empty() || self.may_last() {
            return Ok(());
        }
        let read = go_duration::nanoseconds(text);
        read.map(drop).map_err(|why| {
            let message = format!("invalid timeout specified in the request URL - {why}");
            Failure::bad_request(message)
        })
    }

    fn may_last(&self) -> bool {
        let Attributes::Resource(asked) = &self.attributes else {
            return false;
        };
        let streams = ["attach", "exec", "log", "portforward", "proxy"];
        asked.verb == "watch" || streams.contains(&asked.subresource.as_str())
    }
}

fn resource(method: &Method, path: &str, query: &Query) -> Option<ResourceAttributes> {
    let segments: Vec<&str> = path
        .strip_prefix('/')?
        .trim_end_matches('/')
        .split('/')
        .collect();
    // Where the name of an object stands, a dot is a name that none can have.
    let above = segments.split_last().map_or(&[][..], |(_, above)| above);
    if segments.contains(&"") || above.iter().any(|one| matches!(*one, "." | "..")) {
        return None;
    }
    let (group, version, rest) = match segments.as_slice() {
        ["api", version, rest @ ..] if !rest.is_empty() => ("", *version, rest),
        ["apis", group, version, rest @ ..] if !rest.is_empty() => (*group, *version, rest),
        _ => return None,
    };
    let mut attributes = place(rest)?;
    attributes.group = group.to_owned();
    attributes.version = version.to_owned();
    if attributes.name.is_empty() && matches!(*method, Method::GET | Method::HEAD) {
        attributes.name = selectors::single_name(query.text("fieldSelector")).unwrap_or_default();
        attributes.verb = if query.flag("watch") { "watch" } else { "list" }.to_owned();
    } else {
        attributes.verb = verb(method, &attributes.name).to_owned();
    }
    Some(attributes)
}

fn verb(method: &Method, name: &str) -> &'static str {
    match method.as_str() {
        "POST" => "create",
        "GET" | "HEAD" => "get",
        "PUT" => "update",
        "PATCH" => "patch",
        "DELETE" if name.is_empty() => "deletecollection",
        "DELETE" => "delete",
        _ => "",
    }
}

/// Namespace, resource, name and subresource; more segments than that are no request for a resource we know.
fn place(rest: &[&str]) -> Option<ResourceAttributes> {
    let (namespace, rest) = match rest {
        // `/namespaces/NS` and its own subresources are about the namespace itself.
        ["namespaces", name] => (*name, rest),
        ["namespaces", name, "status" | "finalize"] => (*name, rest),
        ["namespaces", name, inner @ ..] => (*name, inner),
        _ => ("", rest),
    };
    let (resource, name, subresource) = match rest {
        [resource] => (*resource, "", ""),
        [resource, name] => (*resource, *name, ""),
        [resource, name, sub] => (*resource, *name, *sub),
        _ => return None,
    };
    let dots = |segment: &&str| matches!(*segment, "." | "..");
    if [namespace, resource, subresource].iter().any(dots) {
        return None;
    }
    Some(ResourceAttributes {
        namespace: namespace.to_owned(),
        resource: resource.to_owned(),
        name: name.to_owned(),
        subresource: subresource.to_owned(),
        ..ResourceAttributes::default()
    })
}

/// The media type of a body without its parameters, in lower case.
#[must_use]
pub fn content_type(headers: &HeaderMap) -> String {
    let value = headers
        .get(header::CONTENT_TYPE)
        .and_then(|value| value.to_str().ok())
        .unwrap_or("");
    value
        .split(';')
        .next()
        .unwrap_or("")
        .trim()
        .to_ascii_lowercase()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn info(method: &str, uri: &str) -> Attributes {
        RequestInfo::new(&method.parse().expect("method"), &uri.parse().expect("uri")).attributes
    }

    fn words(method: &str, uri: &str) -> String {
        match info(method, uri) {
            Attributes::Resource(a) => [
                a.verb,
                a.group,
                a.resource,
                a.subresource,
                a.namespace,
                a.name,
            ]
            .join("|"),
            Attributes::NonResource { verb, path } => format!("{verb} {path}"),
        }
    }

    #[test]
    fn resource_requests() {
        let table = [
            ("GET", "/api/v1/namespaces/lab/pods", "list||pods||lab|"),
            (
                "GET",
                "/api/v1/namespaces/lab/pods?watch=1",
                "watch||pods||lab|",
            ),
            (
                "GET",
                "/api/v1/namespaces/lab/pods?watch=0",
                "list||pods||lab|",
            ),
            (
                "GET",
                "/api/v1/namespaces/lab/pods?fieldSelector=metadata.name%3Dx",
                "list||pods||lab|x",
            ),
            (
                "GET",
                "/api/v1/namespaces/lab/pods/p/log",
                "get||pods|log|lab|p",
            ),
            ("GET", "/api/v1/namespaces/lab", "get||namespaces||lab|lab"),
            (
                "PUT",
                "/api/v1/namespaces/lab/finalize",
                "update||namespaces|finalize|lab|lab",
            ),
            ("GET", "/api/v1/namespaces", "list||namespaces|||"),
            (
                "DELETE",
                "/apis/argoproj.io/v1alpha1/namespaces/lab/workflows",
                "deletecollection|argoproj.io|workflows||lab|",
            ),
            (
                "PATCH",
                "/apis/apps/v1/namespaces/lab/deployments/d/scale",
                "patch|apps|deployments|scale|lab|d",
            ),
            (
                "GET",
                "/api/v1/namespaces/lab/configmaps/%2e%2e",
                "get||configmaps||lab|..",
            ),
            (
                "GET",
                "/apis/argoproj.io/v1alpha1/workflows/",
                "list|argoproj.io|workflows|||",
            ),
        ];
        for (method, uri, want) in table {
            assert_eq!(words(method, uri), want, "{method} {uri}");
        }
    }

    #[test]
    fn other_requests() {
        let table = [
            ("GET", "/api/v1", "get /api/v1"),
            ("GET", "/apis/apps/v1", "get /apis/apps/v1"),
            ("POST", "/metrics", "post /metrics"),
            (
                "GET",
                "/api/v1/namespaces/lab/../x/pods",
                "get /api/v1/namespaces/lab/../x/pods",
            ),
            ("GET", "/api/v1//pods", "get /api/v1//pods"),
            ("GET", "/api/v1/..", "get /api/v1/.."),
            (
                "GET",
                "/api/v1/namespaces/%2e%2e",
                "get /api/v1/namespaces/..",
            ),
            (
                "GET",
                "/api/v1/namespaces/a%2Fb%2F..%2Fc",
                "get /api/v1/namespaces/a/b/../c",
            ),
            (
                "GET",
                "/api/v1/namespaces/lab/pods/p/log/x",
                "get /api/v1/namespaces/lab/pods/p/log/x",
            ),
            ("GET", "/", "get /"),
        ];
        for (method, uri, want) in table {
            assert_eq!(words(method, uri), want, "{method} {uri}");
        }
    }

    #[test]
    fn queries_skip_empty_pairs_and_decode() {
        let query = Query::parse("&limit=5&&a=b%20c+d&flag&%zz=1");
        assert_eq!(query.get("limit"), Some("5"));
        assert_eq!(query.get("a"), Some("b c d"));
        assert!(query.flag("flag"));
        assert_eq!(query.get("%zz"), Some("1"));
    }
}
