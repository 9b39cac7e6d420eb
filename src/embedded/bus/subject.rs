//! NATS subjects: tokens between dots, `*` for one token, `>` for the rest. Names and keys.

use super::BusError;

/// Whether a message may be published under this subject: tokens are not empty and hold no wildcard or blank.
pub(super) fn is_literal(subject: &str) -> bool {
    subject
        .split('.')
        .all(|token| !token.is_empty() && token != "*" && token != ">" && is_token(token))
}

/// Whether this may name a stream, a consumer or a bucket.
pub(super) fn is_name(name: &str) -> bool {
    !name.is_empty()
        && name.len() <= 255
        && !name.contains(['.', '*', '>', '/', '\\'])
        && is_token(name)
}

/// Whether this may name a bucket and a key, by the rules of NATS's clients.
pub(super) fn check_key(bucket: &str, key: &str) -> Result<(), BusError> {
    let word = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_');
    if bucket.is_empty() || !bucket.chars().all(word) {
        return Err(BusError::Refused("nats: invalid bucket name".to_owned()));
    }
    let fits = !key.is_empty()
        && key.chars().all(|c| word(c) || matches!(c, '/' | '=' | '.'))
        && !key.starts_with('.')
        && !key.ends_with('.')
        && !key.contains("..");
    if fits {
        Ok(())
    } else {
        Err(BusError::Refused("nats: invalid key".to_owned()))
    }
}

fn is_token(token: &str) -> bool {
    !token.chars().any(|c| c.is_whitespace() || c.is_control())
}

/// Whether `subject` falls under `pattern`.
pub(super) fn matches(pattern: &str, subject: &str) -> bool {
    let mut tokens = subject.split('.');
    for part in pattern.split('.') {
        match (part, tokens.next()) {
            (">", Some(_)) => return true,
            ("*", Some(_)) => {}
            (literal, Some(token)) if literal == token => {}
            _ => return false,
        }
    }
    tokens.next().is_none()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pattern_covers_as_many_tokens_as_it_has() {
        assert!(matches("default.*.*", "default.webhook.orders"));
        assert!(!matches("default.*.*", "default.webhook.order.created"));
        assert!(!matches("default.*.*", "default.webhook"));
        assert!(matches("default.>", "default.a.b.c"));
        assert!(!matches("default.>", "default"));
    }

    #[test]
    fn a_key_may_be_a_path_but_not_a_sentence() {
        assert!(check_key("orders", "start/order-a3").is_ok());
        for (bucket, key) in [
            ("", "k"),
            ("a.b", "k"),
            ("a b", "k"),
            ("b", ""),
            ("b", "a b"),
            ("b", ".k"),
            ("b", "k."),
            ("b", "a..b"),
            ("b", "k>"),
            ("b", "é"),
        ] {
            assert!(check_key(bucket, key).is_err(), "{bucket} {key}");
        }
    }

    #[test]
    fn wildcards_and_empty_tokens_cannot_be_published() {
        assert!(is_literal("default.webhook.orders"));
        for bad in ["", "a..b", "a.*", "a.>", "a b", ".a"] {
            assert!(!is_literal(bad), "{bad}");
        }
    }
}
