//! Names, labels and other metadata, checked as `k8s.io/apimachinery/pkg/util/validation` does.
//!
//! Each check answers `None` for good input, or why it is bad.

mod containers;
mod counts;
mod data;
mod metadata;
mod objects;
mod parts;
mod pods;
mod probes;
mod rbac;
mod services;
mod volumes;

pub use metadata::{check_metadata, check_update};
pub use objects::{check_change, check_object};
pub use parts::quantity;

const SUBDOMAIN: &str = "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and must start and end with an alphanumeric character (e.g. 'example.com', regex used for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')";
const LABEL: &str = "a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', and must start and end with an alphanumeric character (e.g. 'my-name',  or '123-abc', regex used for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?')";
const QUALIFIED: &str = "name part must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character (e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for validation is '([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]')";
const LABEL_VALUE: &str = "a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character (e.g. 'MyValue',  or 'my_value',  or '12345', regex used for validation is '(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?')";

fn lower_label(text: &str) -> bool {
    let inner = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit();
    ends(text, inner) && text.bytes().all(|byte| inner(byte) || byte == b'-')
}

fn ends(text: &str, good: impl Fn(u8) -> bool) -> bool {
    let bytes = text.as_bytes();
    matches!((bytes.first(), bytes.last()), (Some(first), Some(last)) if good(*first) && good(*last))
}

fn too_long(text: &str, limit: usize) -> Option<String> {
    (text.len() > limit).then(|| format!("must be no more than {limit} characters"))
}

/// RFC 1123 subdomain, at most 253 bytes: most object names.
#[must_use]
pub fn subdomain(text: &str) -> Option<String> {
    too_long(text, 253)
        .or_else(|| (!text.split('.').all(lower_label)).then(|| SUBDOMAIN.to_owned()))
}

/// RFC 1123 label, at most 63 bytes: namespaces.
#[must_use]
pub fn label(text: &str) -> Option<String> {
    too_long(text, 63).or_else(|| (!lower_label(text)).then(|| LABEL.to_owned()))
}

/// As [`label`], for names that become labels of DNS names.
#[must_use]
pub fn dns_label(text: &str) -> Option<String> {
    too_long(text, 63)
        .or_else(|| {
            text.contains('.')
                .then(|| "must not contain dots".to_owned())
        })
        .or_else(|| label(text))
}

/// A name that may stand as one segment of a path: RBAC objects.
#[must_use]
pub fn path_segment(text: &str) -> Option<String> {
    if matches!(text, "." | "..") {
        return Some(format!("may not be '{text}'"));
    }
    let bad = ["/", "%"].into_iter().find(|bad| text.contains(bad));
    bad.map(|bad| format!("may not contain '{bad}'"))
}

/// `[prefix/]name`: keys of labels and annotations.
#[must_use]
pub fn qualified_name(text: &str) -> Option<String> {
    let (prefix, name) = match text.split_once('/') {
        Some((prefix, name)) if !name.contains('/') => (Some(prefix), name),
        Some(_) => return Some(format!("a valid label key {QUALIFIED_SHAPE}")),
        None => (None, text),
    };
    if let Some(prefix) = prefix {
        if prefix.is_empty() {
            return Some("prefix part must be non-empty".to_owned());
        }
        if let Some(why) = subdomain(prefix) {
            return Some(format!("prefix part {why}"));
        }
    }
    if name.is_empty() {
        return Some("name part must be non-empty".to_owned());
    }
    if name.len() > 63 {
        return Some("name part must be no more than 63 bytes".to_owned());
    }
    (!word(name)).then(|| QUALIFIED.to_owned())
}

const QUALIFIED_SHAPE: &str = "must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character (e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for validation is '([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]') with an optional DNS subdomain prefix and '/' (e.g. 'example.com/MyName')";

fn word(text: &str) -> bool {
    ends(text, |byte| byte.is_ascii_alphanumeric())
        && text
            .bytes()
            .all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_' | b'.'))
}

/// A label's value.
#[must_use]
pub fn label_value(text: &str) -> Option<String> {
    let long = (text.len() > 63).then(|| "must be no more than 63 bytes".to_owned());
    long.or_else(|| (!text.is_empty() && !word(text)).then(|| LABEL_VALUE.to_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names() {
        for good in ["a", "a.b", "a-b.c1", "0"] {
            assert_eq!(subdomain(good), None, "{good}");
        }
        for bad in ["", "A", "a_b", "-a", "a-", "a..b", "a/b", "é"] {
            assert!(subdomain(bad).is_some(), "{bad}");
        }
        assert!(label("a.b").is_some());
        assert_eq!(dns_label("1a"), None);
        assert_eq!(dns_label("a.b").as_deref(), Some("must not contain dots"));
        assert_eq!(path_segment("system:basic-user"), None);
        assert!(path_segment("a/b").is_some());
    }

    #[test]
    fn keys_and_values() {
        for good in ["a", "A_b.c", "x.io/Name"] {
            assert_eq!(qualified_name(good), None, "{good}");
        }
        for bad in ["", "/a", "a/", "a/b/c", "X/a", "-a"] {
            assert!(qualified_name(bad).is_some(), "{bad}");
        }
        assert_eq!(label_value(""), None);
        assert!(label_value("a b").is_some());
        assert!(label_value(&"a".repeat(64)).is_some());
    }
}
