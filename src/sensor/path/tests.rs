use super::*;
use proptest::prelude::*;
use serde_json::Value as Json;

fn lines(path: &str) -> Vec<Json> {
    let root = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/golden/");
    let text = std::fs::read_to_string(format!("{root}{path}")).unwrap();
    text.lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect()
}

#[derive(Debug, PartialEq)]
struct Answer {
    exists: bool,
    kind: String,
    raw: String,
    text: String,
    float: String,
    boolean: bool,
}

fn ask(json: &str, path: &str) -> Answer {
    let value = get(json.as_bytes(), path.as_bytes()).unwrap();
    Answer {
        exists: value.exists(),
        kind: value.kind().as_str().to_owned(),
        raw: String::from_utf8_lossy(value.raw()).into_owned(),
        text: String::from_utf8_lossy(&value.text()).into_owned(),
        float: number::format_plain(value.number()),
        boolean: value.boolean(),
    }
}

fn field(line: &Json, name: &str) -> String {
    line.get(name)
        .and_then(Json::as_str)
        .unwrap_or_default()
        .to_owned()
}

fn wanted(line: &Json, names: [&str; 6]) -> Answer {
    let truth = |name| line.get(name).and_then(Json::as_bool).unwrap_or_default();
    Answer {
        exists: truth(names[0]),
        kind: field(line, names[1]),
        raw: field(line, names[2]),
        text: field(line, names[3]),
        float: field(line, names[4]),
        boolean: truth(names[5]),
    }
}

#[test]
fn answers_as_gjson_on_its_own_document() {
    let json = std::fs::read_to_string(concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/tests/golden/language/gjson_doc.json"
    ))
    .unwrap();
    let mut wrong = Vec::new();
    let all = lines("language/gjson.jsonl");
    for line in &all {
        let path = field(line, "p");
        let want = wanted(line, ["e", "k", "r", "s", "f", "b"]);
        let mut got = ask(&json, &path);
        got.float = number::format_general(got.float.parse().unwrap());
        if got.exists != want.exists || want.exists && got != want {
            wrong.push(format!("{path}\n  want {want:?}\n  got  {got:?}"));
        }
    }
    assert!(
        wrong.is_empty(),
        "{} of {} differ:\n{}",
        wrong.len(),
        all.len(),
        wrong.join("\n")
    );
}

#[test]
fn answers_as_gjson_on_events() {
    let mut wrong = Vec::new();
    let all = lines("paths.jsonl");
    for line in &all {
        let (json, path) = (field(line, "data"), field(line, "path"));
        let want = wanted(
            &line["want"],
            ["exists", "type", "raw", "string", "float", "bool"],
        );
        let got = ask(&json, &path);
        if got.exists != want.exists || want.exists && got != want {
            wrong.push(format!("{path}\n  want {want:?}\n  got  {got:?}"));
        }
    }
    assert!(
        wrong.is_empty(),
        "{} of {} differ:\n{}",
        wrong.len(),
        all.len(),
        wrong.join("\n")
    );
}

#[test]
fn the_second_of_two_equal_keys_counts_where_the_first_leads_nowhere() {
    assert_eq!(ask(r#"{"a":{"x":1},"a":{"b":2}}"#, "a.b").raw, "2");
    assert_eq!(ask(r#"{"a":1,"a":2}"#, "a").raw, "1");
}

/// Looks a path up on a thread with half the usual stack.
fn get_on_small_stack(json: &str, path: &str) -> Result<bool, LimitExceeded> {
    let (json, path) = (json.to_owned(), path.to_owned());
    let small = std::thread::Builder::new().stack_size(1 << 20);
    let look_up = move || get(json.as_bytes(), path.as_bytes()).map(|value| value.exists());
    small.spawn(look_up).unwrap().join().unwrap()
}

#[test]
fn deep_documents_end_in_an_error_not_in_a_crash() {
    let nested = |depth: usize| "[".repeat(depth) + &"]".repeat(depth);
    for path in [
        vec!["0"; 100_000].join("."),
        "@flatten:{\"deep\":true}".to_owned(),
        "@pretty".to_owned(),
        "a|@this|".repeat(20_000),
        "@this|".repeat(20_000),
    ] {
        assert!(matches!(
            get_on_small_stack(&nested(100_000), &path),
            Err(LimitExceeded) | Ok(false)
        ));
    }
    assert_eq!(get_on_small_stack(&nested(3_000), "@dig:x"), Ok(true));
}

#[test]
fn deep_paths_end_in_an_error_not_in_a_crash() {
    let nested = |open: &str, close: &str| open.repeat(20_000) + "a" + &close.repeat(20_000);
    let json = "[{\"a\":".repeat(600) + "1" + &"}]".repeat(600);
    for path in [
        nested("[", "]"),
        nested("{", "}"),
        nested("#(", ")"),
        "#.a.".repeat(20_000),
        "0.*.".repeat(20_000),
        "0.a.".repeat(20_000),
        "#(a)#.a.".repeat(20_000),
        "#(a).a.".repeat(20_000),
        "[#.a].0.0|".repeat(20_000),
        "@flatten|".repeat(20_000),
        "!1|".repeat(20_000),
        "a|".repeat(20_000),
    ] {
        let _ = get_on_small_stack(&json, &path);
    }
    assert_eq!(get_on_small_stack(&json, &"0.a.".repeat(400)), Ok(false));
    assert_eq!(
        get_on_small_stack(&json, &vec!["0.a"; 400].join(".")),
        Ok(true)
    );
}

#[test]
fn long_paths_on_many_elements_run_out_of_budget() {
    let json = format!("[{}]", vec!["{\"a\":{\"b\":1}}"; 20_000].join(","));
    for path in [
        format!("#.[{}]", "a,".repeat(50_000)),
        format!("#.a.{}", "x".repeat(100_000)),
        format!("..#.*.*.@{}", "x".repeat(100_000)),
    ] {
        let _ = get(json.as_bytes(), path.as_bytes());
    }
}

#[test]
fn growing_paths_run_out_of_budget() {
    for step in ["[@this,@this]|", "@tostr|", "{\"a\":@this,\"b\":@this}|"] {
        let path = step.repeat(60) + "@this";
        assert!(get(br#"{"a":"\"\""}"#, path.as_bytes()).is_err(), "{step}");
    }
}

fn path_like() -> impl Strategy<Value = String> {
    let parts = vec![
        "a",
        "b",
        "0",
        "1",
        ".",
        "|",
        "#",
        "*",
        "?",
        "\\",
        "@this",
        "@keys",
        "@values",
        "@tostr",
        "@fromstr",
        "@group",
        "@dig:a",
        "@flatten",
        "@flatten:{\"deep\":true}",
        "@join",
        "@pretty",
        "@pretty:{\"sortKeys\":true}",
        "@ugly",
        "@reverse",
        "@valid",
        "(",
        ")",
        "[",
        "]",
        "{",
        "}",
        ",",
        ":",
        "\"",
        "!",
        "!1",
        "=",
        "==",
        "%",
        "~true",
        "~*",
        ">",
        "é",
        "..",
        " ",
    ];
    proptest::collection::vec(proptest::sample::select(parts), 0..14)
        .prop_map(|parts| parts.concat())
}

fn document_like() -> impl Strategy<Value = String> {
    let parts = vec![
        "{",
        "}",
        "[",
        "]",
        ",",
        ":",
        "\"a\"",
        "\"b\"",
        "\"\\u00e9\\n\"",
        "1",
        "-0.5e+3",
        "true",
        "false",
        "null",
        " ",
        "\\",
        "\"",
        "é",
        "{\"a\":[{\"a\":1,\"b\":\"x\"},{\"a\":true}]}",
    ];
    proptest::collection::vec(proptest::sample::select(parts), 0..14)
        .prop_map(|parts| parts.concat())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(3000))]

    #[test]
    fn any_path_on_any_document_gives_an_answer(path in path_like(), json in document_like()) {
        if let Ok(value) = get(json.as_bytes(), path.as_bytes()) {
            let _ = (value.text().len(), value.number(), value.boolean(), value.entries().count());
        }
    }

    #[test]
    fn any_bytes_as_path_and_document_give_an_answer(path: Vec<u8>, json: Vec<u8>) {
        let _ = get(&json, &path).map(|value| value.text().len());
    }
}
