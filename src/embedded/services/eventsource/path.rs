//! Request paths as Argo's router treats them: cleaned with a redirect, then compared as a whole.

use super::form::unescape;

/// Where a request leads by its path alone.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Routed {
    /// To the endpoint of this number.
    To(usize),
    /// To the clean path, which the client may ask for next.
    Moved(String),
    /// Its escapes cannot be read.
    Malformed,
    /// To the server's own word that it lives.
    Health,
    Nowhere,
}

/// What Go's server and Argo's router make of a path as it stands in the request: it is decoded, must be clean, and is an
/// endpoint as a whole. Of several that are equal, the first gets the request.
pub(super) fn route<'a>(
    path: &str,
    query: Option<&str>,
    mut endpoints: impl Iterator<Item = &'a str>,
) -> Routed {
    let Ok(decoded) = unescape(path.as_bytes(), false) else {
        return Routed::Malformed;
    };
    if let Some(location) = redirect(&decoded, query) {
        return Routed::Moved(location);
    }
    match endpoints.position(|endpoint| endpoint.as_bytes() == decoded) {
        Some(number) => Routed::To(number),
        None if decoded == b"/health" => Routed::Health,
        None => Routed::Nowhere,
    }
}

/// Where a request for a path that is not clean is sent; `None` when it is clean.
fn redirect(decoded: &[u8], query: Option<&str>) -> Option<String> {
    let clean = clean(decoded);
    if clean == decoded {
        return None;
    }
    let mut location = encode(&clean);
    if let Some(query) = query {
        location.push('?');
        location.push_str(query);
    }
    Some(location)
}

/// Without empty, `.` and `..` parts; a slash at the end stays.
fn clean(path: &[u8]) -> Vec<u8> {
    let mut parts: Vec<&[u8]> = Vec::new();
    for part in path.split(|byte| *byte == b'/') {
        match part {
            b"" | b"." => {}
            b".." => {
                parts.pop();
            }
            part => parts.push(part),
        }
    }
    let mut clean = Vec::with_capacity(path.len());
    for part in &parts {
        clean.push(b'/');
        clean.extend_from_slice(part);
    }
    if parts.is_empty() || path.ends_with(b"/") {
        clean.push(b'/');
    }
    clean
}

/// A path as it stands in a request.
pub(super) fn encode(path: &[u8]) -> String {
    let mut text = String::with_capacity(path.len());
    for byte in path {
        match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' => text.push(char::from(*byte)),
            b'-' | b'_' | b'.' | b'~' | b'$' | b'&' | b'+' | b',' | b'/' | b':' | b';' | b'='
            | b'@' => {
                text.push(char::from(*byte));
            }
            byte => text.push_str(&format!("%{byte:02X}")),
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_is_decoded_before_it_is_compared() {
        let endpoints = ["/a b", "/orders", "/é", "/orders", "/a%20b"];
        let lead = |path: &str| route(path, None, endpoints.into_iter());
        for (path, wanted) in [
            ("/orders", Routed::To(1)),
            ("/%6Frders", Routed::To(1)),
            ("/%6frders", Routed::To(1)),
            ("/a%20b", Routed::To(0)),
            ("/a+b", Routed::Nowhere),
            ("/%C3%A9", Routed::To(2)),
            ("/a%2520b", Routed::To(4)),
            ("/Orders", Routed::Nowhere),
            ("/orders/", Routed::Nowhere),
            ("/orders%2F", Routed::Nowhere),
            ("/orders%3Fa", Routed::Nowhere),
            ("/%6", Routed::Malformed),
            ("/%zz", Routed::Malformed),
            ("/x/%2E%2E/orders", Routed::Moved("/orders".to_owned())),
            ("/%2Forders", Routed::Moved("/orders".to_owned())),
            ("/health", Routed::Health),
        ] {
            assert_eq!(lead(path), wanted, "{path}");
        }
        for endpoint in endpoints {
            let Routed::To(number) = lead(&encode(endpoint.as_bytes())) else {
                panic!("{endpoint}");
            };
            assert_eq!(endpoints[number], endpoint);
        }
    }

    #[test]
    fn unclean_paths_are_redirected() {
        for (path, location) in [
            ("/orders", None),
            ("/orders/", None),
            ("/", None),
            ("//orders", Some("/orders")),
            ("/./orders", Some("/orders")),
            ("/a/../orders/", Some("/orders/")),
            ("/..", Some("/")),
            ("", Some("/")),
            ("//a b", Some("/a%20b")),
        ] {
            assert_eq!(
                redirect(path.as_bytes(), None).as_deref(),
                location,
                "{path}"
            );
        }
        assert_eq!(
            redirect(b"//orders", Some("a=1")).as_deref(),
            Some("/orders?a=1")
        );
    }
}
