//! Transforms by kind: what they make, what they fail on, what is refused, and that nothing goes on without end.

use serde_json::{Value, json};

use super::{Transform, TransformError};
use crate::sensor::Event;

fn event(data: &str) -> Event {
    Event {
        id: "i".into(),
        datacontenttype: "text/plain".into(),
        data: Some(data.as_bytes().to_vec()),
        ..Event::default()
    }
}

fn made(transform: &Value, data: &str) -> Result<String, TransformError> {
    let transform = Transform::compile(Some(transform))?.unwrap();
    let event = transform.apply(&event(data))?;
    assert_eq!(event.datacontenttype, "application/json");
    Ok(String::from_utf8(event.data.unwrap()).unwrap())
}

fn jq(program: &str, data: &str) -> Result<String, TransformError> {
    made(&json!({ "jq": program }), data)
}

fn lua(script: &str, data: &str) -> Result<String, TransformError> {
    made(&json!({ "script": script }), data)
}

const ORDER: &str = r#"{"header":{"X-Kind":["order"]},"body":{"id":"o-1","n":1234567,"f":1.50,"items":[{"sku":"a","qty":2},{"sku":"b","qty":3}],"note":null}}"#;

#[test]
fn jq_makes_what_gojq_makes() {
    for (program, wanted) in [
        (
            ".body",
            r#"{"f":1.5,"id":"o-1","items":[{"qty":2,"sku":"a"},{"qty":3,"sku":"b"}],"n":1234567,"note":null}"#,
        ),
        (
            r#".body.id |= "x" | {body: {id: .body.id}}"#,
            r#"{"body":{"id":"x"}}"#,
        ),
        ("{total: (.body.items | map(.qty) | add)}", r#"{"total":5}"#),
        (
            "{kind: .header[\"X-Kind\"][0], skus: [.body.items[].sku]}",
            r#"{"kind":"order","skus":["a","b"]}"#,
        ),
        ("{n: \"\\(.body.n)\"}", r#"{"n":"1234567"}"#),
        ("{cents: (.body.f * 100)}", r#"{"cents":150}"#),
        (
            ".body | with_entries(select(.value == null))",
            r#"{"note":null}"#,
        ),
        ("{a: (.nothing // \"none\")}", r#"{"a":"none"}"#),
        ("{a: 1}, {a: 2}", r#"{"a":1}"#),
        (
            ".body.items | sort_by(-.qty) | {first: .[0].sku}",
            r#"{"first":"b"}"#,
        ),
        (".body.items[] | select(.qty > 2)", r#"{"qty":3,"sku":"b"}"#),
    ] {
        assert_eq!(jq(program, ORDER).as_deref(), Ok(wanted), "{program}");
    }
}

#[test]
fn jq_fails_where_gojq_fails() {
    for (program, text) in [
        (".body.id", "jq transformation output must be a JSON object"),
        ("empty", "no output available from the jq command execution"),
        ("{", "cannot be read"),
        ("{a: $x}", "does not exist"),
        (".body.id.x", ""),
        ("{a: .body[0]}", "expected an array"),
        ("{a: .body.items[0][0]}", "expected an array"),
        (". as [$a] | {$a}", "expected an array"),
        (". as {body: [$a]} | {$a}", "expected an array"),
        ("{a: (.body[0] = 1)}", "expected an array"),
    ] {
        let error = jq(program, ORDER).unwrap_err();
        assert!(
            matches!(&error, TransformError::Failed(_)),
            "{program}: {error}"
        );
        assert!(error.to_string().contains(text), "{program}: {error}");
    }
    assert!(jq(".", "[1]").is_err());
    assert!(jq(".", "no json").is_err());
    assert_eq!(jq(".", "null").as_deref(), Ok("{}"));
}

#[test]
fn functions_and_folds_are_those_of_gojq() {
    for (program, wanted) in [
        (
            "def total: map(.qty) | add; {total: (.body.items | total)}",
            r#"{"total":5}"#,
        ),
        ("def twice(f): f | f; {n: (1 | twice(. + 3))}", r#"{"n":7}"#),
        ("def up($by): . + $by; {n: (1 | up(4))}", r#"{"n":5}"#),
        (
            "def fac: if . < 2 then 1 else . as $n | ($n - 1 | fac) as $rest | [limit($rest; range($rest))] | length end; {n: (3 | fac)}",
            "refused",
        ),
        (
            "def down: if . < 1 then . else . - 1 | down end; {n: (20000 | down)}",
            r#"{"n":0}"#,
        ),
        (
            "{n: (reduce .body.items[] as $i (0; . + $i.qty))}",
            r#"{"n":5}"#,
        ),
        (
            "{n: (reduce .body.items[] as $i (0; . + ($i.price? // 7)))}",
            r#"{"n":14}"#,
        ),
        (
            "{n: [foreach .body.items[] as $i (0; . + $i.qty)]}",
            r#"{"n":[2,5]}"#,
        ),
        (
            "{n: [foreach range(3) as $i (0; . + $i; {at: $i, sum: .})] | length}",
            r#"{"n":3}"#,
        ),
        (
            "{n: [range(3)], m: [range(2; 5)]}",
            r#"{"m":[2,3,4],"n":[0,1,2]}"#,
        ),
        ("{n: [limit(2; range(1000000000))]}", r#"{"n":[0,1]}"#),
        ("{n: first(range(5; 1000000000))}", r#"{"n":5}"#),
        ("{n: (1 | until(. > 100; . + .))}", r#"{"n":128}"#),
        ("{n: [1 | while(. < 10; . + .)]}", r#"{"n":[1,2,4,8]}"#),
        ("{n: [.body.items | recurse | numbers]}", r#"{"n":[2,3]}"#),
        (
            "{n: [2 | recurse(if . < 20 then . + . else empty end)]}",
            r#"{"n":[2,4,8,16,32]}"#,
        ),
        ("{n: [limit(3; repeat(1, 2))]}", r#"{"n":[1,2,1]}"#),
        (
            "{n: [.body.items[] as {sku: $s, $qty} | [$s, $qty]]}",
            r#"{"n":[["a",2],["b",3]]}"#,
        ),
        (
            ".body.items as [{$qty}, {\"sku\": $s}, [$none]] | {$qty, $s, $none}",
            r#"{"none":null,"qty":2,"s":"b"}"#,
        ),
        (
            "{n: [.body.items[] as {sku: $x} | .body.items as [$x, {qty: $y}] | [$x.sku, $y]]}",
            r#"{"n":[["a",3],["a",3]]}"#,
        ),
        (
            "{n: (reduce .body.items[] as {qty: $q, sku: $s} ({}; .[$s] = $q))}",
            r#"{"n":{"a":2,"b":3}}"#,
        ),
        (
            "{n: [foreach ([1, 2], [3, 4]) as [$a, $b] (0; . + $a; [., $b])]}",
            r#"{"n":[[1,2],[4,4]]}"#,
        ),
        (
            "{n: (.body.items | walk(if type == \"number\" then . + 1 else . end) | map(.qty))}",
            r#"{"n":[3,4]}"#,
        ),
        (
            "{n: (\"abab\" | [ltrimstr(\"ab\"), rtrimstr(\"b\"), ltrimstr(\"x\"), (try (1 | ltrimstr(\"a\")) catch 1)])}",
            r#"{"n":["ab","aba","abab",1]}"#,
        ),
        (
            "{n: [(\"id\" | in({\"id\": 1})), ([1, 2] | nth(1)), isempty(empty), any(1, 2; . > 1), all(1, 2; . > 1)]}",
            r#"{"n":[true,2,true,true,false]}"#,
        ),
        ("def in(x): \"mine\"; {n: (1 | in(2))}", r#"{"n":"mine"}"#),
        ("{n: [.header[0]?, 1]}", r#"{"n":[1]}"#),
        (
            ".body.items[0].qty = 9 | .body.items[-1].qty |= . + 1 | {n: [.body.items[].qty]}",
            r#"{"n":[9,4]}"#,
        ),
        ("{n: [label $out | 1, 2, break $out, 3]}", r#"{"n":[1,2]}"#),
        (
            "del(.header) | .body.items[].qty |= . + 1 | {n: [.body.items[].qty]}",
            r#"{"n":[3,4]}"#,
        ),
        (
            "{a: (\"1,2\" | split(\",\") | map(tonumber) | add)}",
            r#"{"a":3}"#,
        ),
    ] {
        let got = jq(program, ORDER);
        if wanted == "refused" {
            assert!(
                matches!(got, Err(TransformError::Unsupported(_))),
                "{program}: {got:?}"
            );
        } else {
            let got: Value =
                serde_json::from_str(&got.unwrap_or_else(|error| panic!("{program}: {error}")))
                    .unwrap();
            let wanted: Value = serde_json::from_str(wanted).unwrap();
            assert_eq!(got, wanted, "{program}");
        }
    }
}

/// Answers of gojq 0.12.19.
#[test]
fn operators_put_into_fields_what_gojq_puts() {
    let data = r#"{"a":2,"b":3,"s":"ab,c","l":[1,2,3],"o":{"x":1},"f":5.5,"n":null}"#;
    for (program, wanted) in [
        ("{r: (.a *= .b | .a)}", r#"{"r":6}"#),
        ("{r: (.a *= 0.1 | .a)}", r#"{"r":0.2}"#),
        ("{r: (.s *= 2 | .s)}", r#"{"r":"ab,cab,c"}"#),
        ("{r: [.a *= (.b, .a) | .a]}", r#"{"r":[6,4]}"#),
        ("{r: (.l[] *= .b | .l)}", r#"{"r":[3,6,9]}"#),
        ("{r: ((.a, .b) *= .b | [.a, .b])}", r#"{"r":[6,9]}"#),
        ("{r: (.l[1:] |= map(. * 2) | .l)}", r#"{"r":[1,4,6]}"#),
        ("{r: (.f %= 2 | .f)}", r#"{"r":1}"#),
        ("{r: (.a %= .b | .a)}", r#"{"r":2}"#),
        ("{r: (.a /= .b - 1 | .a)}", r#"{"r":1}"#),
        (r#"{r: (.s /= "," | .s)}"#, r#"{"r":["ab","c"]}"#),
        ("{r: (.zz += .b | .zz)}", r#"{"r":3}"#),
        ("{r: (.x.y += 1 | .x)}", r#"{"r":{"y":1}}"#),
        ("{r: (.o += {q: .a} | .o)}", r#"{"r":{"q":2,"x":1}}"#),
        ("{r: (.l -= [2] | .l)}", r#"{"r":[1,3]}"#),
        ("{r: (.zz //= .b | .zz)}", r#"{"r":3}"#),
        ("{r: [.n //= (1, 2) | .n]}", r#"{"r":[1,2]}"#),
        ("{r: (.a //= 5 | .a)}", r#"{"r":2}"#),
        ("{r: (.a |= empty | .a)}", r#"{"r":null}"#),
        (r#"{r: (.["a"] |= . + 1 | .a)}"#, r#"{"r":3}"#),
        ("{r: (first(.l[]) *= 2 | .l)}", r#"{"r":[2,2,3]}"#),
        ("{r: (limit(2; .l[]) |= 9 | .l)}", r#"{"r":[9,9,3]}"#),
        (
            "{r: ((label $f | .l[] | ., break $f) |= 9 | .l)}",
            r#"{"r":[9,2,3]}"#,
        ),
        ("{r: ((try .a catch .b) |= 9 | .a)}", r#"{"r":9}"#),
        (
            r#"{r: ("k" as $k | .q[$k].z = 9 | .q)}"#,
            r#"{"r":{"k":{"z":9}}}"#,
        ),
        ("{r: (.q[.a] |= 9 | .q)}", r#"{"r":[null,null,9]}"#),
        ("{r: (.l[9] |= empty | .l)}", r#"{"r":[1,2,3]}"#),
        ("{r: ((.l[0], .l[1]) |= empty | .l)}", r#"{"r":[3]}"#),
        ("{r: (.q[1] |= empty | .q)}", r#"{"r":null}"#),
        ("{r: (.l | map_values(., .))}", r#"{"r":[1,2,3]}"#),
        ("{r: (.l | map_values(empty))}", r#"{"r":[]}"#),
        ("{r: (.l[:2] |= map(. + 1) | .l)}", r#"{"r":[2,3,3]}"#),
        ("{r: (.l[1:] = [9] | .l)}", r#"{"r":[1,9]}"#),
        ("{r: (.l[-1] += 9 | .l)}", r#"{"r":[1,2,12]}"#),
        ("{r: (try (.l[-9] = 9) catch 0)}", r#"{"r":0}"#),
        ("{r: (try (.. |= 9) catch 0)}", r#"{"r":0}"#),
        (r#"{r: (try (.s[0:1] |= "x") catch 0)}"#, r#"{"r":0}"#),
        ("{r: (try (last(.l[]) |= 9) catch 0)}", r#"{"r":0}"#),
        (r#"{r: (getpath(["q", "r"]) = 1 | .q)}"#, r#"{"r":{"r":1}}"#),
        (r#"{r: (setpath(["q", 1]; 1) | .q)}"#, r#"{"r":[null,1]}"#),
        (
            r#"{r: (delpaths([["l", 0], ["l", 1], ["o", "x"]]) | [.l, .o])}"#,
            r#"{"r":[[3],{}]}"#,
        ),
        (
            r#"{r: (del(getpath(["l", 0]), .zz.y, .l[7]) | .l)}"#,
            r#"{"r":[2,3]}"#,
        ),
        ("{r: (del(.l[1:], .l[0]) | .l)}", r#"{"r":[]}"#),
        ("{r: (try del(.a.x) catch 0)}", r#"{"r":0}"#),
        ("{r: (.s * 1)}", r#"{"r":"ab,c"}"#),
        ("{r: (try (.a *= null) catch 0)}", r#"{"r":0}"#),
        ("{r: (try (.a /= 0) catch 0)}", r#"{"r":0}"#),
        ("{r: (try (.a %= 0) catch 0)}", r#"{"r":0}"#),
        ("{r: (try (.a -= .l) catch 0)}", r#"{"r":0}"#),
    ] {
        assert_eq!(jq(program, data).as_deref(), Ok(wanted), "{program}");
    }
}

/// Answers of gojq 0.12.19.
#[test]
fn paths_and_sets_are_those_of_gojq() {
    let data = r#"{"a":2,"l":[1,[2]],"o":{"x":1},"m":[[1,2],[3]],"s":"aba"}"#;
    for (program, wanted) in [
        (r#"{r: getpath(["o","x"])}"#, r#"{"r":1}"#),
        (r#"{r: getpath(["q","x"])}"#, r#"{"r":null}"#),
        (r#"{r: getpath([])} | {r: .r.a}"#, r#"{"r":2}"#),
        (r#"{r: getpath(["l", -1, 0.5])}"#, r#"{"r":2}"#),
        (r#"{r: [getpath(["a"], ["q"])]}"#, r#"{"r":[2,null]}"#),
        (r#"{r: (try getpath(["a","x"]) catch 0)}"#, r#"{"r":0}"#),
        (r#"{r: (try getpath(["o", 0]) catch 0)}"#, r#"{"r":0}"#),
        (r#"{r: (try getpath(["l", "x"]) catch 0)}"#, r#"{"r":0}"#),
        (r#"{r: (try getpath("a") catch 0)}"#, r#"{"r":0}"#),
        ("{r: (.l | [paths])}", r#"{"r":[[0],[1],[1,0]]}"#),
        ("{r: (5 | [paths])}", r#"{"r":[]}"#),
        (
            r#"{r: ({b: [1], a: 2} | [paths(type == "number")])}"#,
            r#"{"r":[["a"],["b",0]]}"#,
        ),
        (
            "{r: [.l | paths(true, true)]}",
            r#"{"r":[[0],[0],[1],[1],[1,0],[1,0]]}"#,
        ),
        ("{r: add(1, 2, null)}", r#"{"r":3}"#),
        ("{r: add(.m[][])}", r#"{"r":6}"#),
        ("{r: add(empty)}", r#"{"r":null}"#),
        ("{r: [last(empty)]}", r#"{"r":[]}"#),
        ("{r: last(.m[])}", r#"{"r":[3]}"#),
        ("{r: (.m | transpose)}", r#"{"r":[[1,3],[2,null]]}"#),
        ("{r: ([] | transpose)}", r#"{"r":[]}"#),
        ("{r: ([[],[1]] | transpose)}", r#"{"r":[[null,1]]}"#),
        ("{r: (try (.l | transpose) catch 0)}", r#"{"r":0}"#),
        ("{r: (.a | IN(2, 3))}", r#"{"r":true}"#),
        ("{r: (.a | IN(.))}", r#"{"r":true}"#),
        (r#"{r: (1 | IN(1, error("x")))}"#, r#"{"r":true}"#),
        ("{r: (.l | IN(1))}", r#"{"r":false}"#),
        ("{r: IN(.m[][]; 3, 9)}", r#"{"r":true}"#),
        (r#"{r: (.s | trimstr("a"))}"#, r#"{"r":"b"}"#),
        (r#"{r: ("a" | trimstr("a"))}"#, r#"{"r":""}"#),
        (r#"{r: (try (.s | trimstr(1)) catch 0)}"#, r#"{"r":0}"#),
    ] {
        assert_eq!(jq(program, data).as_deref(), Ok(wanted), "{program}");
    }
}

/// What gojq does not know fails at every event, whatever jaq knows.
#[test]
fn what_gojq_does_not_have_fails() {
    for (program, text) in [
        ("toyaml", "function not defined: toyaml/0"),
        ("ascii", "function not defined: ascii/0"),
        ("{a: leaf_paths}", "function not defined: leaf_paths/0"),
        ("keys_unsorted", "function not defined: keys_unsorted/0"),
        (
            "{a: (.a | split(1; 2; 3))}",
            "function not defined: split/3",
        ),
        (
            "{a: eventlab_has(1)}",
            "function not defined: eventlab_has/1",
        ),
        ("{a: @base32}", "format not defined: @base32"),
        (r#"{a: @base32 "x\(1)"}"#, "format not defined: @base32"),
    ] {
        let failed = jq(program, ORDER);
        assert_eq!(
            failed,
            Err(TransformError::Failed(text.to_owned())),
            "{program}"
        );
    }
}

#[test]
fn what_is_answered_differently_is_refused_by_name() {
    for program in [
        "reduce .[] as $x (0; ., 1)",
        "reduce .[] as $x (0; empty)",
        "foreach .[] as $x (0; select(. > 1))",
        ". as {(.k): $a} | $a",
        ". as [$a] ?// $a | $a",
        "halt",
        "input",
        "env",
        "$ENV",
        "tostream",
        "{a: (\"YQ\" | @base64d)}",
        "{a: @base64d \"x\\(\"YQ\")\"}",
        "{a: (1e19 % 7)}",
        "{a: (\"x\" * 0)}",
        "(reduce .[] as $x (.; .a)) |= 1",
        ".a |= ltrimstr(\"a\") | input",
    ] {
        let error = jq(program, ORDER).unwrap_err();
        assert!(
            matches!(&error, TransformError::Unsupported(_)),
            "{program}: {error}"
        );
    }
}

/// Whatever an index is made of, it is taken as gojq takes it: answers of gojq 0.12.11.
#[test]
fn an_index_is_looked_at_however_it_is_made() {
    for number in [
        "0",
        "-1",
        "1.5",
        "-(1)",
        "0 + 0",
        "(0 as $i | $i)",
        "(null | length)",
    ] {
        for program in [
            format!("{{a: .body[{number}]}}"),
            format!("{{a: (.body[{number}] = 1)}}"),
            format!("{{a: del(.body[{number}])}}"),
            format!("{{a: [.body | .[{number}]]}}"),
            format!("{number} as $i | {{a: .body[$i]}}"),
            format!("{{a: (.body | nth({number}))}}"),
        ] {
            let error = jq(&program, ORDER).unwrap_err();
            assert!(
                matches!(&error, TransformError::Failed(_)),
                "{program}: {error}"
            );
        }
        let optional = format!("{{a: [.body[{number}]?, 1]}}");
        assert_eq!(
            jq(&optional, ORDER).as_deref(),
            Ok(r#"{"a":[1]}"#),
            "{optional}"
        );
    }
    for other in ["null", "true", "{}", "[]"] {
        assert!(
            jq(&format!("{{a: .body[{other}]}}"), ORDER).is_err(),
            "{other}"
        );
    }
    for (program, wanted) in [
        ("\"id\" as $k | {a: .body[$k]}", r#"{"a":"o-1"}"#),
        ("{a: .body[\"i\" + \"d\"]}", r#"{"a":"o-1"}"#),
        ("{a: .body[\"\\(\"id\")\"]}", r#"{"a":"o-1"}"#),
        (
            "{a: .body[.body | keys[0]] | (. == null)}",
            r#"{"a":false}"#,
        ),
        (
            "{a: [.body.items[1.5, -1.5, 0 + 1].sku]}",
            r#"{"a":["b","b","b"]}"#,
        ),
        ("{a: [.body.items[(0, 1)].sku]}", r#"{"a":["a","b"]}"#),
        (
            "{a: (del(.body.items[0 + 0]) | [.body.items[].sku])}",
            r#"{"a":["b"]}"#,
        ),
        (
            "{a: ((.body.items[0 + 1].qty = 9) | [.body.items[].qty])}",
            r#"{"a":[2,9]}"#,
        ),
        (
            "{a: ((.body.items[0 + 1].qty |= . + 1) | [.body.items[].qty])}",
            r#"{"a":[2,4]}"#,
        ),
        ("{a: (null | .[0 + 0])}", r#"{"a":null}"#),
    ] {
        assert_eq!(jq(program, ORDER).as_deref(), Ok(wanted), "{program}");
    }
}

/// Each of these would take all time, memory or stack there is.
#[test]
fn what_goes_on_without_end_is_stopped() {
    let doubled = format!("{{a: ({} | tojson | length)}}", ["[.,.]"; 60].join("|"));
    for program in [
        "def f: f; f",
        "def f: 1 + f; f",
        "def f: try error(1) catch f; f",
        "[range(1000000000)]",
        "{a: [repeat(1)]}",
        "{a: first(range(1000000000) | select(. < 0))}",
        "until(false; .)",
        "until(false; [.])",
        "until(false; to_entries)",
        "{a: (\"x\" | until(false; . + .))}",
        "{a: (\"x\" | until(false; . * 1000))}",
        "{a: (2 | until(false; . * 1000))}",
        "{a: (\"x\" * 1000000000)}",
        "{a: (\"x\" * 1000 * 100 * 100)}",
        "reduce range(100) as $i (.; [., .]) | {a: tojson}",
        "{a: [range(100000) as $i | range(100000) as $j | $i]}",
        &doubled,
    ] {
        let error = jq(program, ORDER).unwrap_err();
        assert!(
            matches!(&error, TransformError::Unsupported(_)),
            "{program}: {error}"
        );
    }
}

#[test]
fn deep_and_long_programs_and_events_end() {
    let deep = format!("{}1{}", "(".repeat(50_000), ")".repeat(50_000));
    assert!(jq(&deep, ORDER).is_err());
    let _ = jq(&format!("{}1", "- ".repeat(2_000)), ORDER);
    let _ = jq(&format!(".{}", "|.".repeat(2_000)), ORDER);
    let _ = jq(&format!(".{}", "[]?".repeat(1_000)), ORDER);
    let nested = format!("{{\"a\":{}1{}}}", "[".repeat(10_000), "]".repeat(10_000));
    assert!(jq(".", &nested).is_err());
    // A path that the event gives.
    let path = json!({"p": vec!["a"; 250_000], "i": vec![0; 250_000]}).to_string();
    for program in [
        "setpath(.p; 1)",
        ". as $e | {} | setpath($e.p; 1)",
        ". as $e | {} | getpath($e.p) = 1",
        ". as $e | {} | getpath($e.p) |= 1",
        ". as $e | {a: [] | setpath($e.i; 1)}",
        ". as $e | {} | delpaths([$e.p])",
        ". as $e | {} | del(getpath($e.p))",
    ] {
        assert!(jq(program, &path).is_err(), "{program}");
    }
    // The same as a text, which the program reads.
    for text in ["[".repeat(500_000), "{\"a\":".repeat(100_000)] {
        let data = json!({ "x": text }).to_string();
        let error = jq("{a: (.x | fromjson)}", &data).unwrap_err();
        assert!(error.to_string().contains("nested too deeply"), "{error}");
        let caught = jq("{a: (.x | try tonumber catch 1)}", &data);
        assert_eq!(caught.as_deref(), Ok(r#"{"a":1}"#));
    }
    let many = json!({"a": vec![1; 2_000]}).to_string();
    let error = jq("{a: [.a[] as $x | .a[] as $y | .a[] as $z | $x]}", &many).unwrap_err();
    assert!(error.to_string().contains("fewer values"), "{error}");
    assert!(jq("{a: (.a | map(. + 1) | add)}", &many).is_ok());
    let long = json!({"a": vec![""; 100_000], "b": "x".repeat(100_000)}).to_string();
    let error = jq(".b as $b | {a: (.a | join($b))}", &long).unwrap_err();
    assert!(error.to_string().contains("too long"), "{error}");
}

#[test]
fn a_script_makes_its_table() {
    for (script, wanted) in [
        (
            "return event",
            r#"{"body":{"f":1.5,"id":"o-1","items":[{"qty":2,"sku":"a"},{"qty":3,"sku":"b"}],"n":1234567},"header":{"X-Kind":["order"]}}"#,
        ),
        (
            "event.body.id = event.body.id:upper() return event.body",
            r#"{"f":1.5,"id":"O-1","items":[{"qty":2,"sku":"a"},{"qty":3,"sku":"b"}],"n":1234567}"#,
        ),
        (
            "return {a = {}, b = {1, nil, 3}, [true] = 1}",
            r#"{"a":{},"b":[1,null,3],"true":1}"#,
        ),
        ("return {setmetatable({}, {__is_array = true})}", "[[]]"),
        ("return {1, 2, x = 3}", "[1,2]"),
        ("return 5, {a = 1}", r#"{"a":1}"#),
        ("return {a = '<b>'}", r#"{"a":"\u003cb\u003e"}"#),
    ] {
        assert_eq!(lua(script, ORDER).as_deref(), Ok(wanted), "{script}");
    }
}

#[test]
fn a_script_fails_where_upstream_fails() {
    for (script, text) in [
        (
            "return 5",
            "transformation script output type is not of lua table",
        ),
        (
            "x = 1",
            "transformation script output type is not of lua table",
        ),
        ("return {a = 0/0}", "unsupported value: NaN"),
        ("return (", "<string>"),
        ("error('no')", "no"),
        ("local t = {} t.t = t return t", "nested too deeply"),
        ("return {[1000000000] = 1, [5000000] = 2}", "too long"),
        ("while true do end", "too many steps"),
    ] {
        let error = lua(script, ORDER).unwrap_err().to_string();
        assert!(error.contains(text), "{script}: {error}");
    }
}

#[test]
fn jq_counts_before_a_script_and_none_is_none() {
    assert!(Transform::compile(None).unwrap().is_none());
    assert!(Transform::compile(Some(&json!({}))).unwrap().is_none());
    let both = json!({"jq": "{a: 1}", "script": "return {b = 1}"});
    assert_eq!(made(&both, "{}").as_deref(), Ok(r#"{"a":1}"#));
    let transform = Transform::compile(Some(&both)).unwrap().unwrap();
    let without = Event::default();
    assert_eq!(transform.apply(&without), Ok(without));
}
