//! Large and nested specs, payloads, patterns and scripts: every answer comes, on a small stack, with bounded work.

use std::sync::mpsc;
use std::time::Duration;

use eventlab::lint::{Input, Options, lint};
use eventlab::sensor::{Event, Filter};
use serde_json::{Value, json};

/// Stack of the thread that judges: that of any thread that asks for none in particular.
const STACK: usize = 2 << 20;
/// Far more than the slowest machine needs; only something that hangs takes so long.
const HANGS: Duration = Duration::from_secs(240);

/// Runs on a small stack; what does not come back is a failure.
fn within<T: Send + 'static>(what: &str, run: impl FnOnce() -> T + Send + 'static) -> T {
    let (done, answer) = mpsc::channel();
    let thread = std::thread::Builder::new().stack_size(STACK);
    let running = thread
        .spawn(move || {
            let _ = done.send(run());
        })
        .unwrap();
    match answer.recv_timeout(HANGS) {
        Ok(value) => value,
        Err(mpsc::RecvTimeoutError::Timeout) => panic!("{what} hangs"),
        Err(mpsc::RecvTimeoutError::Disconnected) => {
            panic!("{what} panics: {:?}", running.join().err())
        }
    }
}

fn event(data: String) -> Event {
    Event {
        data: Some(data.into_bytes()),
        ..Event::default()
    }
}

fn large() -> String {
    let items: Vec<Value> = (0..18_500)
        .map(|place| json!({"sku": format!("item-{place:08}"), "qty": 3, "note": "this side up"}))
        .collect();
    json!({"header": {}, "body": {"items": items, "kind": "order"}}).to_string()
}

/// Judges, and explains with the same decision.
fn judge(what: &str, filters: Value, data: String) -> Option<bool> {
    within(what, move || {
        let filter = Filter::compile(Some(&filters), "").ok()?;
        let event = event(data);
        let decision = filter.evaluate(&event);
        let why = filter.explain(&event);
        assert_eq!(decision.passed, why.passed);
        assert_eq!(decision.error.map(|error| error.text), why.error);
        Some(decision.passed)
    })
}

fn data(path: &str, kind: &str, values: &[&str]) -> Value {
    json!({"data": [{"path": path, "type": kind, "value": values}]})
}

#[test]
fn a_payload_of_a_mebibyte_is_judged_by_every_kind() {
    let payload = large();
    assert!(payload.len() > 900_000);
    for (what, filters, passes) in [
        ("string", data("body.kind", "string", &["^order$"]), true),
        (
            "list",
            data("body.items.#.sku", "string", &["item-00018499"]),
            true,
        ),
        (
            "query",
            data("body.items.#(sku==\"item-00018499\").qty", "number", &["3"]),
            true,
        ),
        ("count", data("body.items.#", "number", &["18500"]), true),
        ("wildcard", data("b*.k?nd", "string", &["^order$"]), true),
        (
            "template",
            json!({"data": [{"path": "body.kind", "type": "string", "template": "{{ .Input | upper }}", "value": ["^ORDER$"]}]}),
            true,
        ),
        (
            "expression",
            json!({"exprs": [{"expr": "kind == 'order'", "fields": [{"name": "kind", "path": "body.kind"}]}]}),
            true,
        ),
        (
            "script",
            json!({"script": "return event.body.kind == 'order'"}),
            true,
        ),
        (
            "script over all",
            json!({"script": "local n = 0 for _, i in ipairs(event.body.items) do n = n + i.qty end return n == 55500"}),
            true,
        ),
    ] {
        assert_eq!(
            judge(what, filters, payload.clone()),
            Some(passes),
            "{what}"
        );
    }
}

#[test]
fn ten_thousand_conditions_are_judged() {
    for kind in ["string", "number"] {
        let value = if kind == "string" { "^order$" } else { "3" };
        let conditions: Vec<Value> = (0..10_000)
            .map(|place| json!({"path": format!("body.f{}", place % 500), "type": kind, "value": [value]}))
            .collect();
        let body: serde_json::Map<String, Value> = (0..500)
            .map(|place| {
                let value = if kind == "string" {
                    json!("order")
                } else {
                    json!(3)
                };
                (format!("f{place}"), value)
            })
            .collect();
        let payload = json!({"header": {}, "body": body}).to_string();
        let operators = if kind == "string" {
            &["and"][..]
        } else {
            &["and", "or"]
        };
        for operator in operators {
            let filters = json!({"data": conditions, "dataLogicalOperator": operator});
            assert_eq!(
                judge(kind, filters, payload.clone()),
                Some(true),
                "{kind} {operator}"
            );
        }
    }
    let expressions: Vec<Value> = (0..2_000)
        .map(|_| json!({"expr": "a == 1", "fields": [{"name": "a", "path": "body.a"}]}))
        .collect();
    let filters = json!({ "exprs": expressions });
    assert_eq!(
        judge("exprs", filters, r#"{"body":{"a":1}}"#.into()),
        Some(true)
    );
}

#[test]
fn nesting_of_ten_thousand_ends() {
    let (open, close) = ("[".repeat(10_000), "]".repeat(10_000));
    let nested = format!("{{\"header\":{{}},\"body\":{open}1{close}}}");
    let objects = format!(
        "{{\"body\":{}1{}}}",
        "{\"a\":".repeat(10_000),
        "}".repeat(10_000)
    );
    for payload in [nested, objects] {
        for filters in [
            data("body", "string", &["1"]),
            data(&format!("body{}", ".0".repeat(10_000)), "string", &["1"]),
            data(&format!("body{}", ".a".repeat(10_000)), "string", &["1"]),
            data("body.@flatten:{\"deep\":true}", "string", &["1"]),
            data(
                &format!("{}body{}", "{\"x\":".repeat(10_000), "}".repeat(10_000)),
                "string",
                &["1"],
            ),
            data(
                "body",
                "string",
                &[&format!("{}1{}", "(".repeat(10_000), ")".repeat(10_000))],
            ),
            json!({"script": "return event.body ~= nil"}),
            json!({"script": format!("return {}1{} == 1", "(".repeat(10_000), ")".repeat(10_000))}),
            json!({"exprs": [{"expr": format!("{}a{} == 1", "(".repeat(10_000), ")".repeat(10_000)), "fields": [{"name": "a", "path": "body"}]}]}),
            json!({"data": [{"path": "body", "type": "string", "value": ["1"], "template": format!("{}1{}", "{{ if true }}".repeat(10_000), "{{ end }}".repeat(10_000))}]}),
        ] {
            let _ = judge("nesting", filters, payload.clone());
        }
    }
}

#[test]
fn patterns_of_64_kib_are_bounded() {
    let text = "a".repeat(64 << 10);
    let payload = json!({"body": {"a": "a".repeat(256)}}).to_string();
    for pattern in [
        format!("^{text}$"),
        format!("({})", vec!["a+"; 16 << 10].join("|")),
        "a?".repeat(8 << 10) + &"a".repeat(8 << 10),
        "(a*)*".repeat(8 << 10),
        "[a-z]".repeat(12 << 10),
        format!("(?:{}){{1000}}", "a{1,50}"),
        "x*".repeat(32 << 10),
        r"\pL".repeat(16 << 10),
    ] {
        let _ = judge(
            pattern.get(..20).unwrap_or(&pattern),
            data("body.a", "string", &[&pattern]),
            payload.clone(),
        );
    }
}

/// Patterns of 64 KiB of many shapes: groups, repetitions, classes, alternatives, counts.
fn large_patterns() -> Vec<String> {
    let units = [
        "(a*)*", "(a)", "(a|b)", "(a*)", "(?:a*)*", "((a)*)*", "(a+)?", "(a|)", "(a{2})", "a*",
        r"(\pL)", "([a-z]*)", "(.)*", "(^)*", r"(\b)*", "(a)|",
    ];
    let repeated = units
        .iter()
        .map(|unit| unit.repeat((64 << 10) / unit.len()));
    let nested = format!("{}a{}", "(".repeat(900), ")*".repeat(900));
    let counted = format!("({}){{2}}", "(a?)".repeat(4 << 10));
    repeated.chain([nested, counted]).collect()
}

/// The program in a space of addresses that a search which keeps every group in every state does not fit into.
#[cfg(target_os = "linux")]
#[test]
fn patterns_of_64_kib_take_little_memory() {
    const KIB: usize = 1536 << 10;
    let body = "a".repeat(60);
    let data = json!({"header": {}, "body": {"a": body}}).to_string();
    let mut cases = String::new();
    for pattern in large_patterns() {
        let template = format!("{{{{ regexFind {} .Input }}}}", json!(pattern));
        let short = &pattern[..pattern.len().min(60 << 10)];
        let find = format!("{{{{ regexReplaceAll `{short}` .Input `$1` }}}}");
        for case in [
            json!({"kind": "regex", "pattern": pattern, "text": body}),
            json!({"kind": "filter", "filter": self::data("body.a", "string", &[&pattern]), "data": data}),
            json!({"kind": "filter", "filter": {"data": [{"path": "body.a", "type": "string", "template": template, "value": ["a"]}]}, "data": data}),
            json!({"kind": "filter", "filter": {"data": [{"path": "body.a", "type": "string", "template": find, "value": ["a"]}]}, "data": data}),
        ] {
            cases += &format!("{case}\n");
        }
    }
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("cases.jsonl");
    std::fs::write(&file, &cases).unwrap();
    let output = std::process::Command::new("sh")
        .args(["-c", &format!("ulimit -v {KIB} && exec \"$@\""), "sh"])
        .arg(env!("CARGO_BIN_EXE_eventlab"))
        .args(["explain", "--cases"])
        .arg(&file)
        .output()
        .unwrap();
    let told = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{:?} {told}", output.status);
    let answers = String::from_utf8(output.stdout).unwrap();
    assert_eq!(answers.lines().count(), cases.lines().count());
    assert!(answers.contains("\"match\":true"), "{answers}");
}

#[test]
fn large_and_nested_manifests_are_linted() {
    let conditions: Vec<Value> = (0..1_000)
        .map(|place| json!({"path": format!("body.f{place}"), "type": "string", "value": [format!("order.{place}")]}))
        .collect();
    let dependency = json!({"name": "order", "eventSourceName": "web", "eventName": "orders", "filters": {"data": conditions}});
    let sensor = json!({"apiVersion": "argoproj.io/v1alpha1", "kind": "Sensor", "metadata": {"name": "a"}, "spec": {"dependencies": [dependency], "triggers": []}});
    let text = sensor.to_string();
    let findings = within("lint", move || {
        let input = Input {
            name: "a.json".into(),
            text,
            named: true,
        };
        lint(
            &[input],
            &[],
            &Options::default(),
            "2026-01-02T03:04:05Z".parse().unwrap(),
        )
        .findings
        .len()
    });
    assert!(findings >= 2_000, "{findings}");
}
