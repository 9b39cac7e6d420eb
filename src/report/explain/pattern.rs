//! What a pattern lets through beside the text that it names, and how to write what was meant.

use crate::sensor::regex::Regex;
use crate::sensor::regex::shape::{Shape, Tied};

/// How a pattern is open that a text matched; `None` for one that means the whole text, or is open on purpose.
pub(super) fn open(pattern: &str) -> Option<&'static str> {
    let shape = Shape::of(pattern).ok()??;
    if Regex::new(pattern).is_ok_and(|regex| regex.is_match(b"") && regex.is_match(b"\x01~")) {
        return None;
    }
    let on_purpose = pattern.ends_with(".*") || pattern.ends_with(".+");
    match (shape.start, shape.end) {
        (Tied::Always, Tied::Always) => None,
        (Tied::Always, Tied::Never) if on_purpose => None,
        (Tied::Always, Tied::Never) => Some("matches whatever follows it"),
        (Tied::Never, Tied::Always) => Some("matches whatever comes before it"),
        (Tied::Never, Tied::Never) => Some("matches anywhere inside a text"),
        _ => Some("is tied to the ends of the text in some of its alternatives only"),
    }
}

/// A pattern that means the whole text; `None` where none is easily made.
pub(super) fn whole(pattern: &str) -> Option<String> {
    let plain = |c: char| c.is_alphanumeric() || matches!(c, '.' | '_' | '-' | ' ' | ':' | '/');
    let (_, bare, _) = untied(pattern);
    let whole = if bare.chars().all(plain) {
        format!("^{}$", quoted(bare))
    } else if bare == pattern {
        format!("^(?:{pattern})$")
    } else {
        format!("^{bare}$")
    };
    let shape = Shape::of(&whole).ok()??;
    let tied = (shape.start, shape.end) == (Tied::Always, Tied::Always);
    tied.then_some(whole)
}

/// A pattern without the anchors at its two ends, and which there were; with alternatives these belong to one of them only.
pub(super) fn untied(pattern: &str) -> (bool, &str, bool) {
    if pattern.contains('|') {
        return (false, pattern, false);
    }
    let (start, rest) = match pattern.strip_prefix('^') {
        Some(rest) => (true, rest),
        None => (false, pattern),
    };
    match rest.strip_suffix('$') {
        Some(bare) if !escapes_next(bare) => (start, bare, true),
        _ => (start, rest, false),
    }
}

/// Whether a text ends in a backslash that takes the next character with it.
fn escapes_next(text: &str) -> bool {
    let backslashes = text.chars().rev().take_while(|c| *c == '\\').count();
    backslashes % 2 == 1
}

/// A text as a pattern that matches it.
pub(super) fn quoted(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        if r"\.+*?()|[]{}^$".contains(c) {
            out.push('\\');
        }
        out.push(c);
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_proposed_compiles_and_means_the_whole_text() {
        for (pattern, meant) in [
            ("order.created", r"^order\.created$"),
            ("^order", "^order$"),
            ("order$", "^order$"),
            (r"cost\$", r"^(?:cost\$)$"),
            (r"^cost\$", r"^cost\$$"),
            (r"cost\\$", r"^cost\\$"),
            ("^a|b$", "^(?:^a|b$)$"),
            ("a|b", "^(?:a|b)$"),
            ("(?i)order", "^(?:(?i)order)$"),
            ("[$]", "^(?:[$])$"),
        ] {
            let proposed = whole(pattern);
            assert_eq!(proposed.as_deref(), Some(meant), "{pattern}");
            assert!(Regex::new(meant).is_ok(), "{meant}");
        }
        assert_eq!(whole("("), None);
        assert_eq!(whole("(?m)^a$|b").as_deref(), Some("^(?:(?m)^a$|b)$"));
    }

    #[test]
    fn a_pattern_is_open_where_a_longer_text_matches() {
        for (pattern, said) in [
            ("^order$", ""),
            ("^a$|^b$", ""),
            ("^order.*", ""),
            (".*", ""),
            ("^order", "whatever follows"),
            ("order$", "whatever comes before"),
            ("order", "anywhere"),
            (r"cost\$", "anywhere"),
            ("^a|b$", "some of its alternatives"),
        ] {
            let open = open(pattern);
            assert_eq!(open.is_none(), said.is_empty(), "{pattern}: {open:?}");
            assert!(
                open.unwrap_or_default().contains(said),
                "{pattern}: {open:?}"
            );
        }
    }
}
