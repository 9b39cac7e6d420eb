//! Secrets that are known by their shape alone: JWTs, passwords in addresses, private keys.

use super::{REDACTED, is_name};

/// A name without a password is a secret from this length on: access tokens stand there, names of people do not.
const LONG_USER: usize = 16;
/// Longest kind of a private key, as in `-----BEGIN RSA PRIVATE KEY-----`.
const LONGEST_KIND: usize = 24;

/// Replaces all of them.
pub(super) fn replace(text: &str) -> String {
    private_keys(&passwords(&tokens(text)))
}

/// Replaces what has the shape of a JWT: three base64url parts, the first an object.
fn tokens(text: &str) -> String {
    let mut result = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = rest.find("eyJ") {
        let end = at + jwt_length(&rest.as_bytes()[at..]);
        if end == at {
            result.push_str(&rest[..at + 3]);
            rest = &rest[at + 3..];
        } else {
            result.push_str(&rest[..at]);
            result.push_str(REDACTED);
            rest = &rest[end..];
        }
    }
    result.push_str(rest);
    result
}

/// Length of the JWT at the start of these bytes, 0 if there is none.
fn jwt_length(bytes: &[u8]) -> usize {
    let part = |from: usize| {
        bytes[from..]
            .iter()
            .take_while(|byte| is_name(**byte))
            .count()
    };
    let head = part(0);
    if bytes.get(head) != Some(&b'.') {
        return 0;
    }
    let body = part(head + 1);
    let dot = head + 1 + body;
    if body == 0 || bytes.get(dot) != Some(&b'.') {
        return 0;
    }
    dot + 1 + part(dot + 1)
}

/// Replaces the password of `scheme://user:password@host`, and a token that stands in place of the user.
fn passwords(text: &str) -> String {
    let mut result = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = rest.find("://") {
        let (before, authority) = rest.split_at(at + 3);
        result.push_str(before);
        let end = authority
            .find(|c: char| c.is_whitespace() || "/?#\"'`\\".contains(c))
            .unwrap_or(authority.len());
        // The colon before the next address is that one's: `nats://a:4222,nats://user:password@b:4222`.
        let is_next = authority[end..].starts_with("//") && authority[..end].ends_with(':');
        let end = if is_next { end - 1 } else { end };
        rest = &authority[end..];
        let authority = &authority[..end];
        match authority.rsplit_once('@') {
            Some((user, host)) => {
                match user.split_once(':') {
                    Some((user, "")) => result.push_str(&format!("{user}:")),
                    Some((user, _)) => result.push_str(&format!("{user}:{REDACTED}")),
                    None if user.len() >= LONG_USER => result.push_str(REDACTED),
                    None => result.push_str(user),
                }
                result.push('@');
                result.push_str(host);
            }
            None => result.push_str(authority),
        }
    }
    result.push_str(rest);
    result
}

/// Replaces what stands between the first and the last line of a private key.
fn private_keys(text: &str) -> String {
    const BEGIN: &str = "-----BEGIN ";
    const MARK: &str = "PRIVATE KEY-----";
    let mut result = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = rest.find(BEGIN) {
        let (before, head) = rest.split_at(at + BEGIN.len());
        result.push_str(before);
        rest = head;
        let near = &head.as_bytes()[..head.len().min(LONGEST_KIND + MARK.len())];
        let is_mark = |bytes: &[u8]| bytes == MARK.as_bytes();
        let Some(mark) = near.windows(MARK.len()).position(is_mark) else {
            continue;
        };
        let (kind, key) = head.split_at(mark + MARK.len());
        let end = key.find("-----END").unwrap_or(key.len());
        result.push_str(kind);
        if end > 0 {
            result.push_str(REDACTED);
        }
        rest = &key[end..];
    }
    result.push_str(rest);
    result
}
