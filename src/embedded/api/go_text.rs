//! Texts in quotes, as Go's `%q` prints them; what Rust's `{:?}` escapes it escapes otherwise.

use crate::sensor::number;

/// A text.
#[must_use]
pub fn quote(text: &str) -> String {
    number::quote(text.as_bytes())
}

/// A list of texts: `["a" "b"]`.
#[must_use]
pub fn quote_list(items: &[String]) -> String {
    let quoted: Vec<String> = items.iter().map(|item| quote(item)).collect();
    format!("[{}]", quoted.join(" "))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Measured on Go 1.27.
    #[test]
    fn quotes_are_gos() {
        assert_eq!(
            quote("a\"b\\c\n\u{1}\u{7f}é世\u{a0}\u{200b}'"),
            r#""a\"b\\c\n\x01\x7fé世\u00a0\u200b'""#
        );
        // A mark is printed, a code that stands for nothing is not.
        assert_eq!(quote("e\u{301}\u{378}"), "\"e\u{301}\\u0378\"");
        assert_eq!(quote_list(&["a".into(), "b c".into()]), r#"["a" "b c"]"#);
    }
}
