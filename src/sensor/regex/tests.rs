//! What the golden files do not hold: limits, bytes that are not UTF-8, patterns at random.

use proptest::prelude::*;

use super::{Regex, RegexErrorKind};

fn matches(pattern: &str, text: &[u8]) -> bool {
    Regex::new(pattern).unwrap().is_match(text)
}

fn kind(pattern: &str) -> RegexErrorKind {
    Regex::new(pattern).unwrap_err().kind()
}

#[test]
fn each_bad_byte_is_one_replacement_character() {
    assert!(matches("^a.b$", b"a\xffb"));
    assert!(matches("^a..b$", b"a\xe2\x82b"));
    assert!(!matches("^a.b$", b"a\xe2\x82b"));
    assert!(matches("^\u{FFFD}{3}$", b"\xed\xa0\x80"));
    let found = Regex::new("b(.)")
        .unwrap()
        .find_submatches(b"\xff\xffb\xff!", 9)
        .unwrap();
    assert_eq!(found, [vec![Some((2, 4)), Some((3, 4))]]);
}

#[test]
fn error_texts_are_those_of_go() {
    let error = Regex::new("(").unwrap_err().to_string();
    assert_eq!(error, "error parsing regexp: missing closing ): `(`");
}

#[test]
fn scripts_are_known_by_name_and_not_by_code() {
    assert!(matches(r"^\p{Greek}\p{Thai}$", "αก".as_bytes()));
    for pattern in [r"\p{Grek}", r"\p{IsGreek}", r"\p{Is_Lu}", r"\P{^i s L}"] {
        assert_eq!(
            kind(pattern),
            RegexErrorKind::InvalidClassRange,
            "{pattern}"
        );
    }
    for name in [
        "Ahom", "Cham", "Kawi", "Lisu", "Miao", "Modi", "Newa", "Thai", "Toto",
    ] {
        assert!(!matches(&format!(r"\p{{{name}}}"), b"a"), "{name}");
    }
}

#[test]
fn nesting_has_gos_limit() {
    let nested = |n: usize| format!("{}a{}", "(".repeat(n), ")".repeat(n));
    assert!(matches(&nested(999), b"a"));
    assert_eq!(kind(&nested(1000)), RegexErrorKind::NestingDepth);
    assert_eq!(kind(&nested(100_000)), RegexErrorKind::NestingDepth);
    let stars = |n: usize| format!("{}a{}", "(?:".repeat(n), ")*".repeat(n));
    assert!(matches(&stars(900), b"aaa"));
    assert_eq!(kind(&stars(1000)), RegexErrorKind::NestingDepth);
    assert_eq!(kind(&"(".repeat(200_000)), RegexErrorKind::NestingDepth);
}

#[test]
fn counts_have_gos_limit() {
    assert!(matches("^(?:a{10}){100}$", &[b'a'; 1000]));
    assert_eq!(kind("(?:a{10}){101}"), RegexErrorKind::InvalidRepeatCount);
    assert_eq!(kind("a{1001}"), RegexErrorKind::InvalidRepeatCount);
    assert_eq!(
        kind("a{99999999999999}"),
        RegexErrorKind::InvalidRepeatCount
    );
    assert!(matches("^(?:(?:a{1000}){0}b){1000}$", &[b'b'; 1000]));
}

#[test]
fn big_patterns_are_refused() {
    // Go takes these.
    for pattern in [
        "a".repeat(300_000),
        r"\pL".repeat(80_000),
        format!("[{}]", r"\pL".repeat(80_000)),
        r"(?:\pL{100}){10}".to_owned(),
        format!("{}a{}", "(?:".repeat(1001), ")".repeat(1001)),
    ] {
        let error = Regex::new(&pattern).unwrap_err();
        assert!(error.is_own() && error.to_string().starts_with("eventlab: "));
    }
    let long = format!("(?:{}){{1000}}", "a".repeat(5000));
    let error = Regex::new(&long).unwrap_err().to_string();
    assert!(error.starts_with("error parsing regexp: expression too large: `(?:aaa"));
    assert!(error.len() < 400);
}

#[test]
fn groups_are_not_kept_where_nobody_asks_for_them_nor_in_any_number() {
    let many = "(a*)*".repeat(13_000);
    assert!(matches(&many, &[b'a'; 60]));
    let error = Regex::new(&many).unwrap().find_submatches(b"aaa", 1);
    assert_eq!(error.unwrap_err().kind(), RegexErrorKind::Limit);
    let some = Regex::new(&"(a*)*".repeat(100)).unwrap();
    assert_eq!(some.find_submatches(b"aaa", 1).unwrap()[0].len(), 101);
}

#[test]
fn groups_that_cannot_match_are_counted() {
    let regex = Regex::new("(?:(a)){0}(b)").unwrap();
    let found = regex.find_submatches(b"b", 1).unwrap();
    assert_eq!(found, [vec![Some((0, 1)), None, Some((0, 1))]]);
}

proptest! {
    #[test]
    fn no_pattern_panics(pattern in any::<String>(), text in any::<Vec<u8>>()) {
        if let Ok(regex) = Regex::new(&pattern) {
            regex.is_match(&text);
            regex.find_submatches(&text, 100).unwrap();
        }
    }

    #[test]
    fn no_pattern_of_syntax_panics(
        parts in proptest::collection::vec(
            proptest::sample::select(vec![
                "(", ")", "(?:", "(?i", "(?P<n>", "[", "]", "[^", "[:alpha:]", "-", "\\", "\\Q", "\\E", "\\x{", "}",
                "{", "{2}", "{1,3}", ",", "*", "+", "?", "|", "^", "$", ".", "\\b", "\\pL", "\\p{Greek}", "\\d", "a",
                "é", "k", "ſ", "0", "9", ":", "_",
            ]),
            0..24,
        ),
        text in "[akéſ0-9:_\\-\n]{0,20}",
    ) {
        let pattern = parts.concat();
        match Regex::new(&pattern) {
            Ok(regex) => {
                let found = regex.find_submatches(text.as_bytes(), usize::MAX).unwrap();
                prop_assert_eq!(regex.is_match(text.as_bytes()), !found.is_empty());
            }
            Err(error) => prop_assert!(error.to_string().starts_with("error parsing regexp: ")),
        }
    }

    #[test]
    fn quoted_text_matches_itself(text in "[^\\\\]{0,30}") {
        let pattern = format!("^\\Q{text}\\E$");
        prop_assert!(Regex::new(&pattern).unwrap().is_match(text.as_bytes()));
    }
}
