//! NATS subjects: tokens between dots, `*` for one token, `>` for the rest.

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
    fn wildcards_and_empty_tokens_cannot_be_published() {
        assert!(is_literal("default.webhook.orders"));
        for bad in ["", "a..b", "a.*", "a.>", "a b", ".a"] {
            assert!(!is_literal(bad), "{bad}");
        }
    }
}
