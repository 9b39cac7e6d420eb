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
fn keys_are_told_apart_whatever_their_length() {
    let keys = [
        "",
        "a",
        "ab",
        "abcdefg",
        "abcdefgh",
        "abcdefghi",
        "abcdefghj",
        "abcdefg\\u0068",
    ];
    for key in keys {
        let others: Vec<&str> = keys.into_iter().filter(|other| *other != key).collect();
        for padding in 0..70 {
            let members: Vec<String> = others
                .iter()
                .map(|other| format!("\"{other}\":0"))
                .collect();
            let text = format!(
                "{}{{{},\"{key}\":1}}",
                " ".repeat(padding),
                members.join(",")
            );
            let plain = key.replace("\\u0068", "h");
            let same = others
                .iter()
                .any(|other| other.replace("\\u0068", "h") == plain);
            assert_eq!(
                find(&text, &plain),
                Some(if same { "0" } else { "1" }),
                "{text}"
            );
        }
    }
}

#[test]
fn paths_are_found_behind_and_in_small_objects_and_lists() {
    let text = r#"{"h":{"A":["v"],"k":1},"l":["k"],"o":{"k":{"k":2}},"p":{"k":"x"},"k":3,"e":{"A":["v"],"k":["w"]}}"#;
    for (path, value) in [
        ("k", "3"),
        ("h.k", "1"),
        ("h.A.0", "\"v\""),
        ("l.0", "\"k\""),
        ("o.k.k", "2"),
        ("p.k", "\"x\""),
        ("e.k", "[\"w\"]"),
    ] {
        assert_eq!(find(text, path), Some(value), "{path}");
    }
    for text in [
        r#"[{"a":{"b":1},{"c":2}]"#,
        r#"{"a":{"b":1},{"c":2}}"#,
        r#"{"a":{"b":["c"},"d":1}"#,
        r#"{"a":["b"}"#,
        r#"{"a":{"b":1]}"#,
    ] {
        assert!(!is_valid(text.as_bytes()), "{text}");
    }
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

#[test]
fn many_paths_of_one_object_are_all_found() {
    let keys: Vec<String> = (0..200).map(|place| format!("key{place}")).collect();
    let members: Vec<String> = (0..200)
        .rev()
        .map(|place| format!("\"key{place}\": {place}"))
        .collect();
    let text = format!("{{{}}}", members.join(" ,"));
    let mut set = PrefixSet::default();
    let slots: Vec<usize> = keys
        .iter()
        .map(|key| set.insert([key.as_bytes()]))
        .collect();
    let spans = scan(text.as_bytes(), &set).unwrap();
    for (place, slot) in slots.into_iter().enumerate() {
        let (start, end) = spans.get(slot).unwrap();
        assert_eq!(text[start..end], place.to_string());
    }
}

#[test]
fn nesting_is_remembered_beyond_one_word_of_levels() {
    for depth in [1, 2, 62, 63, 64, 65, 126, 127, 128, 129, 1000] {
        let kinds: Vec<bool> = (0..depth).map(|level| level % 3 == 0).collect();
        let open: String = kinds
            .iter()
            .map(|object| if *object { "{\"k\":" } else { "[" })
            .collect();
        let close: String = kinds
            .iter()
            .rev()
            .map(|object| if *object { '}' } else { ']' })
            .collect();
        let text = format!("{open}1{close}");
        assert!(is_valid(text.as_bytes()), "{depth}");
        for level in [0, 1, depth / 2, depth - 1] {
            // The bracket that closes this level is the wrong one.
            let at = text.len() - 1 - level.min(depth - 1);
            let mut wrong = text.clone().into_bytes();
            wrong[at] = if wrong[at] == b'}' { b']' } else { b'}' };
            assert!(!is_valid(&wrong), "{depth} {level}");
        }
    }
}

/// Reads a value byte by byte, as RFC 8259 writes its grammar; gives the rest behind it.
fn plain_value(text: &[u8]) -> Option<&[u8]> {
    let text = blanks(text);
    match text.first()? {
        b'{' => members(&text[1..], b'}', |text| {
            let text = plain_string(blanks(text))?;
            plain_value(blanks(text).strip_prefix(b":")?)
        }),
        b'[' => members(&text[1..], b']', plain_value),
        b'"' => plain_string(text),
        _ => ["true", "false", "null"]
            .iter()
            .find_map(|word| text.strip_prefix(word.as_bytes()))
            .or_else(|| plain_number(text)),
    }
}

fn blanks(mut text: &[u8]) -> &[u8] {
    while let [b' ' | b'\t' | b'\n' | b'\r', rest @ ..] = text {
        text = rest;
    }
    text
}

fn members(text: &[u8], close: u8, member: impl Fn(&[u8]) -> Option<&[u8]>) -> Option<&[u8]> {
    let mut text = blanks(text);
    if text.first()? == &close {
        return Some(&text[1..]);
    }
    loop {
        text = blanks(member(text)?);
        match text.first()? {
            b',' => text = &text[1..],
            byte => return (*byte == close).then(|| &text[1..]),
        }
    }
}

fn plain_string(text: &[u8]) -> Option<&[u8]> {
    let mut text = text.strip_prefix(b"\"")?;
    loop {
        text = match text {
            [b'"', rest @ ..] => return Some(rest),
            [b'\\', b'u', a, b, c, d, rest @ ..] => {
                let digits = [a, b, c, d];
                digits
                    .iter()
                    .all(|digit| digit.is_ascii_hexdigit())
                    .then_some(rest)?
            }
            [b'\\', escape, rest @ ..] => b"\"\\/bfnrt".contains(escape).then_some(rest)?,
            [byte, rest @ ..] => (*byte != b'\\' && *byte >= b' ').then_some(rest)?,
            [] => return None,
        };
    }
}

fn plain_number(text: &[u8]) -> Option<&[u8]> {
    fn digits(text: &[u8]) -> Option<&[u8]> {
        let count = text.iter().take_while(|byte| byte.is_ascii_digit()).count();
        (count > 0).then(|| &text[count..])
    }
    let text = text.strip_prefix(b"-").unwrap_or(text);
    let mut text = match text {
        [b'0', rest @ ..] => rest,
        _ => digits(text)?,
    };
    if let [b'.', rest @ ..] = text {
        text = digits(rest)?;
    }
    if let [b'e' | b'E', rest @ ..] = text {
        let rest = match rest {
            [b'+' | b'-', rest @ ..] => rest,
            _ => rest,
        };
        text = digits(rest)?;
    }
    Some(text)
}

fn plainly_valid(text: &[u8]) -> bool {
    plain_value(text).is_some_and(|rest| blanks(rest).is_empty())
}

/// All three ways through a text: looking for nothing, for a path that is there, and for one through every kind.
fn same_everywhere(text: &[u8]) -> bool {
    let wanted = plainly_valid(text);
    let mut set = PrefixSet::default();
    set.insert([b"items".as_slice(), b"0", b"note"]);
    set.insert([b"k".as_slice(), b"1"]);
    is_valid(text) == wanted && scan(text, &set).is_some() == wanted
}

const EVERYTHING: &str = r#"{"items":[{"sku":"a-1","n":-12.5e+3},{"note":"a \"b\" \u00e9\\"},[],{}], "k" : [true,{"a":"b","c":"d"},null,0,""],"é":"ü","z":{"y":{"x":"w"}},"h":{"A":["v"],"B":["v","w"],"C":[]},"f":{"m":1,"n":{}},"g":{"s":"t"}}"#;

#[test]
fn one_wrong_byte_is_seen_wherever_the_blocks_begin() {
    const BYTES: &[u8] = b"\"\\{}[]:, 0e-u\n\x01\x80";
    assert!(plainly_valid(EVERYTHING.as_bytes()));
    for offset in 0..64 {
        let padded = " ".repeat(offset) + EVERYTHING;
        assert!(same_everywhere(padded.as_bytes()), "{offset}");
        for at in 0..EVERYTHING.len() {
            let mut text = padded.clone().into_bytes();
            text[offset + at] = BYTES[(at + offset * 3) % BYTES.len()];
            assert!(
                same_everywhere(&text),
                "{:?}",
                String::from_utf8_lossy(&text)
            );
            let cut = &padded.as_bytes()[..offset + at];
            assert!(same_everywhere(cut), "{:?}", String::from_utf8_lossy(cut));
        }
    }
}

/// JSON of every kind, with keys that the paths above look for.
fn document() -> impl Strategy<Value = String> {
    let scalar = prop_oneof![
        proptest::sample::select(vec![
            "0", "-1.5e-3", "true", "false", "null", "{}", "[ ]", "\"\""
        ])
        .prop_map(str::to_owned),
        ("[a-zé \\\\]{0,80}")
            .prop_map(|text: String| format!("\"{}\"", text.replace('\\', "\\\""))),
    ];
    let key = || {
        prop_oneof![
            proptest::sample::select(vec!["items", "note", "k", "", "\\u006b", "a\\\"b"])
                .prop_map(str::to_owned),
            "[a-z]{1,70}",
        ]
    };
    let blank = proptest::sample::select(vec!["", "", "", " ", "\r\n", "\t  "]);
    scalar.prop_recursive(5, 40, 5, move |inner| {
        let list = (
            blank.clone(),
            proptest::collection::vec(inner.clone(), 0..5),
        )
            .prop_map(|(blank, items)| format!("[{}]", items.join(&format!("{blank},"))));
        let members = proptest::collection::vec((key(), inner), 0..5);
        let object = (blank.clone(), members).prop_map(|(blank, members)| {
            let members: Vec<String> = members
                .iter()
                .map(|(key, value)| format!("\"{key}\"{blank}:{value}"))
                .collect();
            format!("{{{}}}", members.join(&format!(",{blank}")))
        });
        prop_oneof![list, object]
    })
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
    fn agrees_with_a_reader_by_single_bytes_on_changed_json(
        text in document(),
        padding in 0usize..130,
        changes in proptest::collection::vec((any::<proptest::sample::Index>(), 0u8..4, any::<u8>()), 0..3),
    ) {
        let mut text = (" ".repeat(padding) + &text).into_bytes();
        prop_assert!(plainly_valid(&text) && same_everywhere(&text));
        for (place, kind, byte) in changes {
            let at = place.index(text.len());
            match kind {
                0 => text[at] = byte,
                1 => text[at] = b"\"\\{}[]:,"[usize::from(byte) % 8],
                2 => text.insert(at, byte),
                _ => { text.remove(at); }
            }
            prop_assert!(same_everywhere(&text), "{:?}", String::from_utf8_lossy(&text));
            if text.is_empty() { break; }
        }
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
