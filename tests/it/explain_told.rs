//! `eventlab explain`: what comes in, what is said about it, and what of it reaches the terminal.

use serde_json::{Value, json};

use crate::explain::{FLAT, changes, data, explain_with, sensor, walk};
use crate::explain_acts::with_trigger;

#[test]
fn json_sent_as_a_form_is_recognised() {
    let form = ["--content-type", "application/x-www-form-urlencoded"];
    let by_path = sensor(&data("body.kind", "string", &["order"]));
    let by_parameter = sensor(&Value::Null);
    let by_script = sensor(&json!({"script": "return event.body.kind == 'order.created'"}));
    for body in [FLAT, r#"{"kind":"a&b=c","orderId":"1"}"#] {
        for sensor in [&by_path, &by_parameter, &by_script] {
            let (code, walk) = walk(sensor, &[&form[..], &["--body", body]].concat());
            let change = changes(&walk);
            assert!(
                code == 1
                    && change.contains("sent as a form; send `Content-Type: application/json`"),
                "{change}"
            );
        }
    }
    let (_, other) = walk(&by_path, &[&form[..], &["--body", "a=b"]].concat());
    assert!(!changes(&other).contains("as a form"), "{other:#}");
}

#[test]
fn a_hint_says_what_is_so_and_what_to_write() {
    let noted = |pattern: &str, kind: &str| {
        let body = json!({"kind": kind, "orderId": "1"}).to_string();
        let (code, walk) = walk(
            &sensor(&data("body.kind", "string", &[pattern])),
            &["--body", &body],
        );
        assert_eq!(code, 0, "{pattern}: {walk:#}");
        walk["notes"]
            .as_array()
            .unwrap()
            .first()
            .map_or(String::new(), |note| note.as_str().unwrap().to_owned())
    };
    for (pattern, kind, parts) in [
        (r"cost\$", "cost$", &["anywhere", r"^(?:cost\$)$"][..]),
        ("^order", "order.created", &["whatever follows", "^order$"]),
        ("^a|b$", "b", &["some of its alternatives", "^(?:^a|b$)$"]),
    ] {
        let note = noted(pattern, kind);
        assert!(
            parts.iter().all(|part| note.contains(part)),
            "{pattern}: {note}"
        );
    }
    assert_eq!(noted("^a$|^b$", "b"), "");
    let (_, begins) = walk(
        &sensor(&data("body.kind", "string", &["^created"])),
        &["--body", FLAT],
    );
    assert!(
        changes(&begins).contains("begin with created"),
        "{}",
        begins["change"]
    );
    let workflow = json!({"argoWorkflow": {"operation": "submit", "source": {"resource": {"kind": "Workflow", "metadata": {"generateName": "x-"}}},
        "parameters": [{"src": {"dependencyName": "order", "dataKey": "body.orderID"}, "dest": "metadata.name"}]}});
    let (code, missing) = walk(
        &with_trigger(&json!({"template": workflow})),
        &["--body", FLAT],
    );
    let change = changes(&missing);
    assert!(
        code == 1
            && change.contains("did you mean body.orderId")
            && change.contains("default `value`"),
        "{change}"
    );
    assert!(!change.contains("allow for its absence"), "{change}");
}

/// Nothing that comes from a manifest or an event moves the cursor, whatever the format and the stream.
#[test]
fn nothing_reaches_the_terminal_raw() {
    let (evil, worse) = ("\u{1b}]0;pwn\u{7}", "\u{9b}31m\u{202e}\u{1b}[2J");
    let mut named =
        sensor(&json!({"data": [{"path": "body.no", "type": "string", "value": [evil]}]}));
    named["spec"]["triggers"][0]["template"]["name"] = format!("run{evil}").into();
    named["spec"]["dependencies"][0]["name"] = format!("order{evil}").into();
    let mut typed = sensor(&data("body.kind", "string", &["a"]));
    typed["spec"]["dependencies"][0]["filters"]["data"][0]["type"] = format!("string{evil}").into();
    let mut conditions = sensor(&Value::Null);
    conditions["spec"]["triggers"][0]["template"]["conditions"] = evil.into();
    let mut refused = sensor(&Value::Null);
    refused["metadata"]["name"] = evil.into();
    let body = json!({ format!("key{worse}"): worse, "kind": worse }).to_string();
    for sensor in [named, typed, conditions, refused] {
        for format in ["text", "json"] {
            let (_, out, err) = explain_with(
                &["-f", "-", "--format", format, "--body", &body],
                &sensor.to_string(),
            );
            let raw = |c: char| (c.is_control() && c != '\n') || c == '\u{202e}';
            assert!(!out.contains(raw), "{out:?}");
            assert!(!err.contains(raw), "{err:?}");
            assert!(!out.is_empty() || !err.is_empty());
        }
    }
    let (code, _, err) = explain_with(
        &["-f", "-", "--body", "{}", "-d", evil],
        &sensor(&Value::Null).to_string(),
    );
    assert!(
        code == 2 && !err.contains('\u{1b}') && !err.contains('\u{9b}'),
        "{err:?}"
    );
}

#[test]
fn events_of_a_file_are_all_explained_or_none() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("events.json");
    let told = |text: &str| {
        std::fs::write(&file, text).unwrap();
        let arguments = [
            "-f",
            "-",
            "--format",
            "json",
            "--event",
            file.to_str().unwrap(),
        ];
        let (code, out, err) = explain_with(&arguments, &sensor(&Value::Null).to_string());
        (code, out.lines().count(), err)
    };
    let event = |id: u32| json!({"specversion": "1.0", "id": id.to_string(), "source": "web", "subject": "orders", "type": "webhook", "data": {"body": {"orderId": "1"}}});
    assert_eq!(told(&json!([event(1), event(2)]).to_string()).0, 0);
    assert_eq!(told(&json!([event(1), event(2)]).to_string()).1, 2);
    for (text, said) in [
        (String::new(), "no event"),
        (
            format!("{}\n{{\"body\":\n{}\n", event(1), event(2)),
            "line 2",
        ),
        ("{}\n".repeat(10_001), "more than 10000 events"),
    ] {
        let (code, lines, err) = told(&text);
        assert!(
            (code, lines) == (2, 0) && err.contains(said),
            "{code} {lines}: {err}"
        );
    }
}

#[test]
fn an_intake_that_is_not_known_is_called_assumed() {
    let (_, out, _) = explain_with(
        &["-f", "-", "--body", FLAT],
        &sensor(&Value::Null).to_string(),
    );
    assert!(out.contains("intake   200 success (assumed"), "{out}");
    let source = json!({"apiVersion": "argoproj.io/v1alpha1", "kind": "EventSource", "metadata": {"name": "web", "namespace": "shop"}, "spec": {"webhook": {
        "orders": {"endpoint": "/orders", "method": "POST", "port": "12000"}}}});
    let both = format!("{}\n---\n{source}\n", sensor(&Value::Null));
    let (_, out, _) = explain_with(&["-f", "-", "--body", FLAT], &both);
    assert!(out.contains("intake   200 success\n"), "{out}");
}

/// A line without an end takes bounded memory.
#[cfg(target_os = "linux")]
#[test]
fn a_line_of_cases_has_a_longest_length() {
    let script = format!(
        "ulimit -v 3000000; exec {} explain --cases /dev/zero",
        env!("CARGO_BIN_EXE_eventlab")
    );
    let output = std::process::Command::new("sh")
        .args(["-c", &script])
        .output()
        .unwrap();
    let err = String::from_utf8(output.stderr).unwrap();
    assert!(
        output.status.code() == Some(2) && err.contains("line 1: it has more than"),
        "{:?}: {err}",
        output.status
    );
}
