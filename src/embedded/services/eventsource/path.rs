//! Request paths as Argo's router treats them: cleaned with a redirect, then compared as a whole.

use super::form::unescape;

/// The decoded path of a request; `None` when it has a bad escape.
pub(super) fn decode(path: &str) -> Option<Vec<u8>> {
    unescape(path.as_bytes(), false).ok()
}

/// Where a request for a path that is not clean is sent; `None` when it is clean.
pub(super) fn redirect(decoded: &[u8], query: Option<&str>) -> Option<String> {
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

fn encode(path: &[u8]) -> String {
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
