use proptest::prelude::*;
use serde_json::json;

use super::*;
use crate::evidence::testing::{Request, fates};
use crate::evidence::{Fact, Observation};

const CANARY: &str = "Zq7canary4Uz";

fn plain() -> Redactor {
    Redactor::default()
}

#[test]
fn headers_in_every_form() {
    for (text, want) in [
        (
            r#"{"Authorization":["Bearer a]b"],"X-A":["1"]}"#,
            r#"{"Authorization":["<redacted>"],"X-A":["1"]}"#,
        ),
        (
            r#"{"X-Api-Key": "abc", "n": 1}"#,
            r#"{"X-Api-Key": "<redacted>", "n": 1}"#,
        ),
        (
            r#"Data '{\"header\":{\"Cookie\":[\"a=b\",\"c=d\"],\"X\":[\"y\"]}}'"#,
            r#"Data '{\"header\":{\"Cookie\":[\"<redacted>\"],\"X\":[\"y\"]}}'"#,
        ),
        (
            "map[Authorization:[Bearer abc] X-Auth-Token:[t u] Accept:[*/*]]",
            "map[Authorization:[<redacted>] X-Auth-Token:[<redacted>] Accept:[*/*]]",
        ),
        (
            "curl -H 'Authorization: Bearer abc' -H 'X-A: 1'",
            "curl -H 'Authorization: <redacted>' -H 'X-A: 1'",
        ),
        (
            "Set-Cookie: a=b; c\r\nHost: x",
            "Set-Cookie: <redacted>\r\nHost: x",
        ),
        (
            "proxy-authorization: Basic eA==",
            "proxy-authorization: <redacted>",
        ),
        (
            "the Cookie jar, key: 1, my_token: 2",
            "the Cookie jar, key: 1, my_token: 2",
        ),
        ("X-Api-Key:", "X-Api-Key:"),
        (r#"{"Cookie":[]}"#, r#"{"Cookie":[]}"#),
    ] {
        assert_eq!(plain().text(text), want);
        assert_eq!(plain().text(want), want, "a second time");
    }
}

#[test]
fn tokens_and_secrets() {
    let redactor = Redactor::new(["hunter2hunter2".to_owned(), "orders".to_owned()]);
    for (text, want) in [
        (
            "at eyJhbGciOi.eyJzdWIi.c2ln-_x, then",
            "at <redacted>, then",
        ),
        ("eyJhbGciOi.eyJzdWIi", "eyJhbGciOi.eyJzdWIi"),
        ("pw hunter2hunter2!", "pw <redacted>!"),
        ("aHVudGVyMmh1bnRlcjI=", "<redacted>"),
        (
            "subject default.orders.order",
            "subject default.orders.order",
        ),
    ] {
        assert_eq!(redactor.text(text), want);
    }
}

#[test]
fn secrets_known_by_their_shape() {
    for (text, want) in [
        (
            "GET https://shop:p%40ss:w@crm.example/a?b=c://d",
            "GET https://shop:<redacted>@crm.example/a?b=c://d",
        ),
        (
            r#"{"url":"nats://u:p@h:4222","next":"http://h/x@y:z"}"#,
            r#"{"url":"nats://u:<redacted>@h:4222","next":"http://h/x@y:z"}"#,
        ),
        (
            "nats://a:4222,nats://u:p@b:4222 nats://u:p@a:4222,nats://v:q@b:4222",
            "nats://a:4222,nats://u:<redacted>@b:4222 nats://u:<redacted>@a:4222,nats://v:<redacted>@b:4222",
        ),
        (
            "git clone https://ghp_0123456789abcdefXYZ@host/x",
            "git clone https://<redacted>@host/x",
        ),
        (
            "ssh://git@host/x http://u:@h",
            "ssh://git@host/x http://u:@h",
        ),
        (
            "-----BEGIN RSA PRIVATE KEY-----\nMIIE\nab==\n-----END RSA PRIVATE KEY-----\n",
            "-----BEGIN RSA PRIVATE KEY-----<redacted>-----END RSA PRIVATE KEY-----\n",
        ),
        (
            r#"{"key":"-----BEGIN PRIVATE KEY-----\nMIIE\n-----END PRIVATE KEY-----"}"#,
            r#"{"key":"-----BEGIN PRIVATE KEY-----<redacted>-----END PRIVATE KEY-----"}"#,
        ),
        (
            "-----BEGIN EC PRIVATE KEY-----\ncut off",
            "-----BEGIN EC PRIVATE KEY-----<redacted>",
        ),
        (
            "-----BEGIN CERTIFICATE-----\nMIIE\n-----END CERTIFICATE-----",
            "-----BEGIN CERTIFICATE-----\nMIIE\n-----END CERTIFICATE-----",
        ),
    ] {
        assert_eq!(plain().text(text), want);
        assert_eq!(plain().text(want), want, "a second time");
    }
}

/// A Secret's value stands in logs and bodies in other forms than its own.
#[test]
fn every_form_of_a_secret_value() {
    let secret = "first \"line\" of it\nsecond line of it??\n";
    let redactor = Redactor::new([secret.to_owned()]);
    let json = serde_json::to_string(&secret.trim()).unwrap();
    let twice = serde_json::to_string(&json).unwrap();
    for text in [
        secret.to_owned(),
        json,
        "at second line of it?? it ends".to_owned(),
        STANDARD.encode(secret),
        STANDARD.encode(secret.trim()),
        STANDARD_NO_PAD.encode(secret.trim()),
        URL_SAFE_NO_PAD.encode(secret.trim()),
    ] {
        let redacted = redactor.text(&text);
        assert!(redacted.contains(REDACTED), "{text}");
        assert!(!redacted.contains("line of it"), "{redacted}");
    }
    assert!(!redactor.text(&twice).contains("second line of it"));
    // A quote of the secret's own is cut with it, and one of the line around it stays.
    for secret in [
        "ends in a quote\"",
        "\"begins with one",
        "\"two of them\"\"",
    ] {
        let line = json!({"level": "info", "msg": secret}).to_string();
        let redacted = Redactor::new([secret.to_owned()]).text(&line);
        let read: Value = serde_json::from_str(&redacted).expect(&redacted);
        assert_eq!(read, json!({"level": "info", "msg": REDACTED}));
    }
}

#[test]
fn a_long_text_is_cut_at_a_character() {
    let long = "ä".repeat(TEXT_LIMIT);
    let cut = plain().text(&long);
    assert!(cut.len() <= TEXT_LIMIT && cut.ends_with(CUT));
    assert_eq!(plain().text(&cut), cut);
}

#[test]
fn facts_keep_their_shape() {
    for fate in fates() {
        for fact in Request::new(1, fate).facts() {
            let entry = Entry::Fact(fact);
            assert_eq!(plain().entry(&entry).unwrap(), entry);
        }
    }
}

fn fact_with(text: &str) -> Fact {
    let mut fact = Request::new(1, fates().remove(0)).facts().remove(0);
    fact.line = text.to_owned();
    fact.command = text.to_owned();
    fact.observation = Observation::AnswerLost {
        error: text.to_owned(),
    };
    fact
}

fn pieces() -> impl Strategy<Value = String> {
    let piece = prop_oneof![
        Just("Authorization".to_owned()),
        Just("X-Api-Key".to_owned()),
        Just("cookie".to_owned()),
        Just(": ".to_owned()),
        Just(":".to_owned()),
        Just("[".to_owned()),
        Just("]".to_owned()),
        Just("\"".to_owned()),
        Just("\\\"".to_owned()),
        Just("\\".to_owned()),
        Just("'".to_owned()),
        Just(",".to_owned()),
        Just("\n".to_owned()),
        Just("eyJ".to_owned()),
        Just("://".to_owned()),
        Just("@".to_owned()),
        Just("-----BEGIN PRIVATE KEY-----".to_owned()),
        Just("-----END".to_owned()),
        Just(".".to_owned()),
        Just(REDACTED.to_owned()),
        Just("<red".to_owned()),
        Just("hunter2hunter2".to_owned()),
        "[a-zé ]{0,4}",
    ];
    prop::collection::vec(piece, 0..24).prop_map(|pieces| pieces.concat())
}

proptest! {
    #[test]
    fn the_same_however_often(text in pieces()) {
        let redactor = Redactor::new(["hunter2hunter2".to_owned()]);
        let once = redactor.text(&text);
        prop_assert_eq!(redactor.text(&once), once.clone());
        prop_assert!(!once.contains("hunter2hunter2"));
    }

    #[test]
    fn a_canary_never_gets_through(
        before in "[ -~]{0,20}",
        name in prop::sample::select(vec!["Authorization", "Cookie", "X-Auth-Token", "x-api-key"]),
        form in 0..7usize,
        after in "[ -~]{0,20}",
    ) {
        let quoted = serde_json::to_string(&serde_json::json!({"header": {name: [CANARY, format!("b{CANARY}")]}})).unwrap();
        let text = match form {
            0 => quoted,
            1 => serde_json::to_string(&quoted).unwrap(),
            2 => serde_json::to_string(&serde_json::to_string(&quoted).unwrap()).unwrap(),
            3 => format!("map[{name}:[{CANARY}]]"),
            4 => format!("\n{name}: {CANARY}\n"),
            5 => format!("eyJ{CANARY}.eyJ{CANARY}.{CANARY}"),
            _ => format!("\nhost: a\n{name}:{CANARY}\n"),
        };
        let entry = Entry::Fact(fact_with(&format!("{before} {text} {after}")));
        let written = serde_json::to_string(&plain().entry(&entry).unwrap()).unwrap();
        prop_assert!(!written.contains(CANARY), "{}", written);
    }

    #[test]
    fn a_secret_value_never_gets_through(before in ".{0,30}", after in ".{0,30}") {
        let redactor = Redactor::new([CANARY.to_owned()]);
        let entry = Entry::Fact(fact_with(&format!("{before}{CANARY}{after}")));
        let written = serde_json::to_string(&redactor.entry(&entry).unwrap()).unwrap();
        prop_assert!(!written.contains(CANARY));
    }

    #[test]
    fn any_text_is_taken(text in "\\PC{0,200}") {
        let once = plain().text(&text);
        prop_assert_eq!(plain().text(&once), once);
    }
}

/// However much else Secrets hold, each value is kept out, and the lines of so many others.
#[test]
fn a_long_secret_does_not_let_a_short_one_through() {
    let bundle = |name: &str| -> String {
        let lines = (0..3000).map(|number| format!("{name} line {number:058}\n"));
        lines.collect()
    };
    let secrets = [bundle("a"), CANARY.to_owned(), bundle("b")];
    let mut redactor = Redactor::new(secrets.clone());
    redactor.learn(secrets);
    redactor.learn([format!("{CANARY}-two")]);
    let told = redactor.text(&format!("{CANARY} {CANARY}-two a line {:058}", 7));
    assert_eq!(told, format!("{REDACTED} {REDACTED} {REDACTED}"));
}

/// One entry of each kind, with each kind of observation, every text in it a longer one.
fn every_kind() -> Vec<Entry> {
    let at = json!({"time": "2026-01-01T00:00:00Z", "lab": "filter-path", "stage": "canonical", "attempt": 1});
    let with = |more: serde_json::Value| {
        let mut whole = at.clone();
        let members = whole.as_object_mut().unwrap();
        members.extend(more.as_object().unwrap().clone());
        whole
    };
    let fact = |observation: serde_json::Value| {
        let mut whole = with(
            json!({"seq": 1, "probe": "duplicate", "layer": "filter", "source": "sensor log",
            "pod": {"pod": "orders-sensor-1", "uid": "8f2c-0123", "container": "main-main", "instance": 0},
            "trace": "filter-path-a1-nested-01", "arrival": "0123456789abcdef", "sequence": 3,
            "execution": "1234-5678-90", "business_key": "free-key-1", "line": "free line", "command": "free command"}),
        );
        let members = whole.as_object_mut().unwrap();
        members.extend(observation.as_object().unwrap().clone());
        json!({ "fact": whole })
    };
    let mut entries: Vec<_> = [
        json!({"kind": "http-answer", "status": 200, "body": "free body"}),
        json!({"kind": "answer-lost", "error": "free error"}),
        json!({"kind": "stored", "subject": "default.orders.path"}),
        json!({"kind": "not-stored", "last_sequence": 3}),
        json!({"kind": "consumer", "durable": "group-12345", "subject": "default.orders.path", "created_at_sequence": 1,
            "ack_floor": 1, "waiting": 1, "pending": 0, "ack_pending": 0}),
        json!({"kind": "no-consumer", "subject": "default.orders.path"}),
        json!({"kind": "discarded", "error": "free error"}),
        json!({"kind": "triggered", "trigger": "process-order"}),
        json!({"kind": "trigger-failed", "trigger": "process-order", "error": "free error"}),
        json!({"kind": "workflow-phase", "name": "order-1", "phase": "Succeeded", "message": "free message"}),
        json!({"kind": "ledger-attempt", "outcome": "duplicate", "amount_cents": 1}),
        json!({"kind": "claim-changed", "action": "notify-all", "state": "completed", "reference": "free-reference"}),
        json!({"kind": "order-state", "order": "canonical-54", "action": "notify-all", "attempts": 1, "effects": 1,
            "records": 1, "claim": "completed"}),
        json!({"kind": "gate", "condition": "subscribed", "holds": true}),
        json!({"kind": "access", "account": "order-sensor", "verb": "create-it", "group": "argoproj.io",
            "resource": "workflows", "allowed": true, "reason": "free reason"}),
    ]
    .map(fact)
    .to_vec();
    let action = json!({"action": "apply", "manifests": ["filter-path/sensor.yaml"]});
    let answer = json!({"answer": "contradicted-by", "facts": [1], "because": "free because"});
    let verdict = json!({"outcome": "unproven", "claim": "nested: applied", "because": "free because", "facts": [1]});
    let right = json!({"account": "order-sensor", "verb": "create-it", "group": "argoproj.io", "resource": "workflows"});
    entries.extend([
        json!({"intent": with(json!({"id": "filter-path-a1-apply-01", "action": action}))}),
        json!({"outcome": {"time": at["time"], "id": "filter-path-a1-apply-01", "result": "free result", "ok": false}}),
        json!({"prediction": with(json!({"probe": "duplicate", "stops_at": "filter"}))}),
        json!({"claim": with(json!({"topic": "not-proven", "statement": "free statement", "answer": answer}))}),
        json!({"note": with(json!({"topic": "torn-line", "text": "free text"}))}),
        json!({"judgement": with(json!({"probe": "duplicate", "expected": {"stops": "filter", "reason": "missing-path"},
            "observed": {"run-stops": "workflow-failed"}, "access": right, "order": "one-effect", "verdict": verdict}))}),
    ]);
    let read = |entry| serde_json::from_value(entry).unwrap();
    entries.into_iter().map(read).collect()
}

/// Every text of a value that is free, and all others.
fn texts(value: &serde_json::Value, free: &mut Vec<String>, words: &mut Vec<String>) {
    match value {
        serde_json::Value::String(text) if text.starts_with("free") => free.push(text.clone()),
        serde_json::Value::String(text) => words.push(text.clone()),
        serde_json::Value::Array(items) => items.iter().for_each(|item| texts(item, free, words)),
        serde_json::Value::Object(fields) => {
            fields.values().for_each(|field| texts(field, free, words));
        }
        _ => {}
    }
}

/// A Secret may hold any word: what an entry is and where it belongs stays, and it can be read again. Nothing else does.
#[test]
fn a_secret_that_is_a_word_of_the_journal_changes_no_entry() {
    let (mut free, mut words) = (Vec::new(), Vec::new());
    for entry in every_kind() {
        texts(&serde_json::to_value(entry).unwrap(), &mut free, &mut words);
    }
    assert!(words.iter().any(|word| word == "completed"));
    let knows_words = Redactor::new(words);
    let knows_all = Redactor::new(free);
    for entry in every_kind() {
        assert_eq!(knows_words.entry(&entry).unwrap(), entry);
        let (mut left, mut kept) = (Vec::new(), Vec::new());
        let after = serde_json::to_value(knows_all.entry(&entry).unwrap()).unwrap();
        texts(&after, &mut left, &mut kept);
        assert_eq!(left, Vec::<String>::new(), "{after}");
    }
}
