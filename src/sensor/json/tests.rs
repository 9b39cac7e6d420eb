use super::*;
use proptest::prelude::*;

fn oracle(text: &[u8]) -> bool {
    serde_json::from_slice::<serde::de::IgnoredAny>(text).is_ok()
}

fn find<'t>(text: &'t str, path: &str) -> Option<&'t str> {
    let mut set = PrefixSet::default();
    let slot = set.insert(path.split('.').map(str::as_bytes));
    let (start, end) = scan(text.as_bytes(), &set).unwrap().get(slot)?;
    Some(&text[start..end])
}

#[test]
fn finds_values_of_plain_paths() {
    let text = r#" {"a" : {"b":[1 , {"c":"x\"y"}], "n":null}, "e\u0062":{}, "z":-1.5e3 } "#;
    assert_eq!(find(text, "a.b"), Some(r#"[1 , {"c":"x\"y"}]"#));
    assert_eq!(find(text, "a.b.1.c"), Some(r#""x\"y""#));
    assert_eq!(find(text, "a.n"), Some("null"));
    assert_eq!(find(text, "eb"), Some("{}"));
    assert_eq!(find(text, "z"), Some("-1.5e3"));
    assert_eq!(find(text, "a.b.2"), None);
    assert_eq!(find(text, "a.z"), None);
}

#[test]
fn the_first_of_two_equal_keys_counts_and_the_second_is_noticed() {
    assert_eq!(find(r#"{"k":1,"k":2}"#, "k"), Some("1"));
    assert_eq!(find(r#"{"a":{"x":1},"a":{"b":2}}"#, "a.b"), Some("2"));
    let mut set = PrefixSet::default();
    set.insert([b"k".as_slice()]);
    assert!(scan(br#"{"k":1,"k":2}"#, &set).unwrap().repeated());
    assert!(!scan(br#"{"k":1,"x":{"k":2}}"#, &set).unwrap().repeated());
}

#[test]
fn a_million_levels_need_no_stack() {
    let deep = "[".repeat(1_000_000) + &"]".repeat(1_000_000);
    assert!(is_valid(deep.as_bytes()));
    assert!(!is_valid(&deep.as_bytes()[..1_999_999]));
}

#[test]
fn refuses_what_is_almost_json() {
    for text in [
        "",
        " ",
        "01",
        "1.",
        "-",
        "+1",
        "1e",
        "[1,]",
        "{,}",
        "{\"a\"}",
        "{\"a\":1,}",
        "\"\t\"",
        "\"\\x\"",
        "\"\\u12g4\"",
        "nul",
        "[}",
        "{]",
        "1 2",
        "NaN",
        "'a'",
    ] {
        assert!(!is_valid(text.as_bytes()), "{text}");
    }
}

fn json_like() -> impl Strategy<Value = String> {
    proptest::collection::vec(
        proptest::sample::select(vec![
            "{",
            "}",
            "[",
            "]",
            ",",
            ":",
            "\"a\"",
            "\"\\u00e9\\n\"",
            "1",
            "-0.5e+3",
            "true",
            "false",
            "null",
            " ",
            "\n",
            "\\",
            "\"",
            "0",
            "e",
            ".",
        ]),
        0..24,
    )
    .prop_map(|parts| parts.concat())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]

    #[test]
    fn agrees_with_serde_json_on_json_like_text(text in json_like()) {
        prop_assert_eq!(is_valid(text.as_bytes()), oracle(text.as_bytes()));
    }

    #[test]
    fn agrees_with_serde_json_on_any_bytes(text: Vec<u8>) {
        prop_assert_eq!(is_valid(&text), oracle(&text));
    }

    #[test]
    fn long_strings_are_read_to_their_end(length in 0usize..200, special in proptest::sample::select(vec!["\\\"", "\\\\", "\u{1}", "é", ""])) {
        let text = format!("[\"{}{special}{}\"]", "x".repeat(length), "y".repeat(length / 2));
        prop_assert_eq!(is_valid(text.as_bytes()), oracle(text.as_bytes()));
    }
}
