//! `eventlab explain`: the way of an event through a Sensor, and answers to the lines of golden files.

use assert_cmd::Command;
use serde_json::{Value, json};

pub const FLAT: &str = r#"{"kind":"order.created","orderId":"o-1","amount":4200}"#;

pub fn explain(arguments: &[&str]) -> (i32, String, String) {
    explain_with(arguments, "")
}

pub fn explain_with(arguments: &[&str], stdin: &str) -> (i32, String, String) {
    let mut command = Command::new(env!("CARGO_BIN_EXE_eventlab"));
    let output = command
        .arg("explain")
        .args(arguments)
        .write_stdin(stdin)
        .output()
        .unwrap();
    (
        output.status.code().unwrap(),
        String::from_utf8(output.stdout).unwrap(),
        String::from_utf8(output.stderr).unwrap(),
    )
}

pub fn json_of(out: &str) -> Value {
    serde_json::from_str(out.lines().next().unwrap()).unwrap()
}

/// A Sensor whose dependency `order` has these filters, and whose trigger takes the order's id.
pub fn sensor(filters: &Value) -> Value {
    let resource = json!({"apiVersion": "argoproj.io/v1alpha1", "kind": "Workflow", "metadata": {"generateName": "order-"},
        "spec": {"arguments": {"parameters": [{"name": "order-id", "value": ""}]}}});
    let parameter = json!({"src": {"dependencyName": "order", "dataKey": "body.orderId"}, "dest": "spec.arguments.parameters.0.value"});
    json!({"apiVersion": "argoproj.io/v1alpha1", "kind": "Sensor", "metadata": {"name": "orders", "namespace": "shop"}, "spec": {
        "dependencies": [{"name": "order", "eventSourceName": "web", "eventName": "orders", "filters": filters}],
        "triggers": [{"template": {"name": "run", "k8s": {"operation": "create", "source": {"resource": resource}, "parameters": [parameter]}}}]}})
}

pub fn data(path: &str, kind: &str, values: &[&str]) -> Value {
    json!({"data": [{"path": path, "type": kind, "value": values}]})
}

/// Explains one body to a Sensor; the Sensor comes through stdin.
pub fn walk(sensor: &Value, more: &[&str]) -> (i32, Value) {
    let arguments: Vec<&str> = [
        "-f",
        "-",
        "--format",
        "json",
        "--at",
        "2026-01-02T03:04:05Z",
    ]
    .iter()
    .chain(more)
    .copied()
    .collect();
    let (code, out, err) = explain_with(&arguments, &sensor.to_string());
    assert!(code != 2 && !out.is_empty(), "{code}: {err}");
    (code, json_of(&out))
}

pub fn changes(walk: &Value) -> String {
    walk["change"].to_string()
}

#[test]
fn an_event_that_passes_ends_in_the_object() {
    let (code, walk) = walk(
        &sensor(&data("body.kind", "string", &[r"^order\.created$"])),
        &[
            "--body",
            FLAT,
            "--header",
            "authorization: Bearer s3cret",
            "-H",
            "x-order-id: o-1",
        ],
    );
    assert_eq!((code, &walk["passed"]), (0, &json!(true)));
    assert_eq!(
        walk["intake"],
        json!({"status": 200, "response": "success", "assumed": true})
    );
    let data: Value = serde_json::from_str(walk["data"].as_str().unwrap()).unwrap();
    assert_eq!(
        data["header"]["Authorization"],
        json!(["*** Masked Auth Secret ***"])
    );
    assert_eq!(data["header"]["X-Order-Id"], json!(["o-1"]));
    let object = &walk["triggers"][0]["objects"][0]["object"];
    assert_eq!(object["spec"]["arguments"]["parameters"][0]["value"], "o-1");
    assert_eq!(
        object["metadata"]["labels"]["events.argoproj.io/action-timestamp"],
        "1767323045000"
    );
    assert_eq!(object["metadata"]["namespace"], "shop");
    assert_eq!(
        walk["logs"][0]["msg"],
        "Triggering actions after receiving dependency order"
    );
}

#[test]
fn a_missing_path_is_named_with_the_line_and_the_near_path() {
    let sensor = sensor(&data("body.event.kind", "string", &["order"]));
    let (code, walk) = walk(&sensor, &["--body", FLAT]);
    assert_eq!((code, &walk["stopped_at"]), (1, &json!("filter")));
    let line = walk["logs"][0]["msg"].as_str().unwrap();
    assert!(line.ends_with(
        "discarded due to filtering error: data filter error (path 'body.event.kind' does not exist)"
    ));
    assert_eq!(walk["logs"][0]["level"], "warn");
    assert!(changes(&walk).contains("did you mean body.kind"), "{walk}");
    let (_, out, _) = explain_with(&["-f", "-", "--body", FLAT], &sensor.to_string());
    let marked: Vec<&str> = out
        .lines()
        .filter(|line| line.trim_start().starts_with('>'))
        .collect();
    assert_eq!(marked.len(), 1, "{out}");
    for part in [
        "body.event.kind",
        "(not there)",
        "=",
        "order",
        "error (missing-path)",
    ] {
        assert!(marked[0].contains(part), "{part}: {out}");
    }
}

#[test]
fn each_kind_of_mistake_has_its_hint() {
    for (path, kind, value, body, hint) in [
        (
            "header.x-order-id.0",
            "string",
            "o-1",
            FLAT,
            "header.X-Order-Id.0",
        ),
        (
            "header.X-Order-Id",
            "string",
            "^o-1$",
            FLAT,
            "use header.X-Order-Id.0",
        ),
        (
            "$.body.kind",
            "string",
            "order",
            FLAT,
            "did you mean body.kind",
        ),
        ("body.kind", "string", "^Order", FLAT, "differs in case"),
        ("body.kind", "string", "^order$", FLAT, "the whole text"),
        ("body.kind", "string", "(?=o)", FLAT, "RE2"),
        ("body.kind", "bool", "true", FLAT, "counts as false"),
        ("body.amount", "number", "many", FLAT, "is no number"),
        (
            "body.amount",
            "int",
            "1",
            FLAT,
            "one of bool, number, string",
        ),
    ] {
        let (code, walk) = walk(
            &sensor(&data(path, kind, &[value])),
            &["--body", body, "-H", "X-Order-Id: o-1"],
        );
        assert_eq!(code, 1, "{path} {kind} {value}");
        assert!(
            changes(&walk).contains(hint),
            "{path} {kind} {value}: {}",
            walk["change"]
        );
    }
    let (code, walk) = walk(
        &sensor(&data("body.kind", "string", &["order.created"])),
        &["--body", FLAT],
    );
    assert_eq!(code, 0);
    assert!(
        walk["notes"].to_string().contains(r"^order\\.created$"),
        "{}",
        walk["notes"]
    );
}

#[test]
fn a_request_may_stop_at_intake() {
    let sensor = sensor(&Value::Null);
    let (code, refused) = walk(&sensor, &["--body", "{kind: 1}"]);
    assert_eq!((code, &refused["stopped_at"]), (1, &json!("intake")));
    assert_eq!(refused["intake"]["status"], 400);
    let form = [
        "--body",
        "orderId=o-1&a=%20",
        "--content-type",
        "application/x-www-form-urlencoded",
    ];
    let (code, taken) = walk(&sensor, &form);
    assert_eq!(code, 0);
    assert!(
        taken["data"]
            .as_str()
            .unwrap()
            .contains(r#""body":{"a":[" "],"orderId":["o-1"]}"#)
    );
    let (_, bad) = walk(
        &sensor,
        &[
            "--body",
            "a=%zz",
            "--content-type",
            "application/x-www-form-urlencoded",
        ],
    );
    assert_eq!(bad["intake"]["status"], 500);
}

#[test]
fn the_event_source_of_the_same_file_takes_the_request_in() {
    let source = json!({"apiVersion": "argoproj.io/v1alpha1", "kind": "EventSource", "metadata": {"name": "web", "namespace": "shop"}, "spec": {"webhook": {
        "orders": {"endpoint": "/orders", "method": "POST", "port": "12000", "maxPayloadSize": 60, "metadata": {"shop": "a"}}}}});
    let text = format!("{}\n---\n{source}\n", sensor(&Value::Null));
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("all.yaml");
    std::fs::write(&file, text).unwrap();
    let file = file.to_str().unwrap();
    let (code, out, err) = explain(&["-f", file, "--format", "json", "--body", FLAT]);
    assert_eq!(code, 0, "{err}");
    assert!(
        json_of(&out)["data"]
            .as_str()
            .unwrap()
            .ends_with(r#""metadata":{"shop":"a"}}"#)
    );
    let (code, out, _) = explain_with(
        &["-f", file, "--format", "json", "-"],
        &format!("\"{}\"", "x".repeat(60)),
    );
    assert_eq!(code, 1);
    assert_eq!(json_of(&out)["intake"]["status"], 400);
}

#[test]
fn an_expression_that_fails_shows_what_its_fields_hold() {
    let filters = json!({"exprs": [{"expr": "n > 1 || vip", "fields": [{"name": "n", "path": "body.n"}, {"name": "vip", "path": "body.vip"}]}]});
    let body = r#"{"n": "2", "vip": "yes"}"#;
    let (code, out, _) = explain_with(&["-f", "-", "--body", body], &sensor(&filters).to_string());
    assert_eq!(code, 1);
    assert!(out.contains("map[n:2 vip:yes]  =  n > 1 || vip"), "{out}");
    assert!(!out.contains("(not there)"), "{out}");
    let (_, walk) = walk(&sensor(&filters), &["--body", r#"{"n": 1}"#]);
    let condition = &walk["dependencies"][0]["filter"]["groups"][0]["conditions"][0];
    assert_eq!(condition["found"], json!(null), "{walk}");
}

/// A limit of no requests ends the pod, whichever trigger has it.
#[test]
fn a_sensor_whose_pod_ends_at_its_start_passes_nothing() {
    for (limit, passes) in [
        (json!({"unit": "Second", "requestsPerUnit": 0}), false),
        (json!({"unit": "Hour"}), false),
        (json!({}), false),
        (json!(null), true),
        (json!({"requestsPerUnit": 1}), true),
    ] {
        let mut two = sensor(&Value::Null);
        two["spec"]["triggers"]
            .as_array_mut()
            .unwrap()
            .push(json!({"template": {"name": "other", "log": {}}, "rateLimit": limit}));
        let (code, walk) = walk(&two, &["--body", FLAT, "-H", "X-Order-Id: o-1"]);
        assert_eq!(code, i32::from(!passes), "{limit}: {walk}");
        if !passes {
            assert_eq!(walk["stopped_at"], "submit");
            assert!(
                changes(&walk).contains("`requestsPerUnit` of trigger other"),
                "{walk}"
            );
        }
    }
    let mut negative = sensor(&Value::Null);
    negative["spec"]["triggers"][0]["rateLimit"] = json!({"requestsPerUnit": -1});
    let (code, walk) = walk(&negative, &["--body", FLAT]);
    assert_eq!((code, &walk["judged"]), (3, &json!(false)), "{walk}");
}

#[test]
fn conditions_wait_and_objects_may_fail() {
    let mut two = sensor(&Value::Null);
    two["spec"]["dependencies"]
        .as_array_mut()
        .unwrap()
        .push(json!({"name": "payment", "eventSourceName": "web", "eventName": "payments"}));
    let (code, waits) = walk(&two, &["--dependency", "order", "--body", FLAT]);
    assert_eq!((code, &waits["stopped_at"]), (0, &json!("conditions")));
    assert_eq!(waits["triggers"][0]["waits_for"], json!(["payment"]));
    let (code, fails) = walk(&sensor(&Value::Null), &["--body", r#"{"orderID":"o-1"}"#]);
    assert_eq!((code, &fails["stopped_at"]), (1, &json!("submit")));
    assert_eq!(fails["logs"][1]["msg"], "Failed to execute a trigger");
    assert!(
        changes(&fails).contains("body.orderID"),
        "{}",
        fails["change"]
    );
}

/// What each type of trigger does is shown, and what is outside of the lab is named with what to use.
#[test]
fn every_trigger_type_is_shown_or_named() {
    let resource = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a"}});
    for (template, act, operation, said) in [
        (
            json!({"k8s": {"operation": "patch", "source": {"resource": resource}}}),
            "submits",
            json!("patch"),
            "",
        ),
        (
            json!({"k8s": {"operation": "delete", "source": {"inline": resource.to_string()}}}),
            "submits",
            json!("delete"),
            "",
        ),
        (json!({"log": {}}), "submits", json!("log"), ""),
        (
            json!({"argoWorkflow": {"operation": "submit", "source": {"resource": {"kind": "Workflow", "metadata": {"generateName": "a-"}}}}}),
            "submits",
            json!("submit"),
            "",
        ),
        (
            json!({"argoWorkflow": {"operation": "submit", "source": {"resource": {"kind": "Workflow"}}}}),
            "fails",
            json!(null),
            "neither name nor generateName is given",
        ),
        (
            json!({"http": {"url": "http://a"}}),
            "not-shown",
            json!(null),
            "eventlab: trigger type http is not carried out here",
        ),
        (
            json!({"k8s": {"source": {"url": {"path": "http://a"}}}}),
            "not-shown",
            json!(null),
            "write the object under source.resource",
        ),
    ] {
        let mut template = template;
        template["name"] = "run".into();
        let mut sensor = sensor(&Value::Null);
        sensor["spec"]["triggers"] = json!([{ "template": template }]);
        let (_, walk) = walk(&sensor, &["--body", FLAT]);
        let step = &walk["triggers"][0];
        assert_eq!(
            (&step["act"], &step["operation"]),
            (&json!(act), &operation),
            "{step}"
        );
        let error = step["error"].as_str().unwrap_or_default();
        assert!(error.contains(said), "{error}");
    }
}

#[test]
fn a_trigger_that_is_not_carried_out_is_named_and_the_other_one_is_shown() {
    let parameters =
        json!([{"src": {"dependencyName": "order", "dataKey": "body.orderId"}, "dest": "id"}]);
    for (kind, given) in [
        ("http", json!({"url": "http://a", "payload": parameters})),
        (
            "awsLambda",
            json!({"functionName": "a", "region": "b", "payload": parameters}),
        ),
        (
            "azureEventHubs",
            json!({"fqdn": "a", "hubName": "b", "payload": parameters}),
        ),
        (
            "azureServiceBus",
            json!({"queueName": "a", "payload": parameters}),
        ),
        (
            "kafka",
            json!({"url": "a", "topic": "b", "payload": parameters}),
        ),
        (
            "pulsar",
            json!({"url": "a", "topic": "b", "payload": parameters}),
        ),
        (
            "nats",
            json!({"url": "a", "subject": "b", "payload": parameters}),
        ),
        (
            "slack",
            json!({"slackToken": {"name": "a", "key": "b"}, "channel": "c", "message": "d"}),
        ),
        (
            "openWhisk",
            json!({"host": "a", "actionName": "b", "payload": parameters}),
        ),
        (
            "custom",
            json!({"serverURL": "a", "spec": {"b": "c"}, "payload": parameters}),
        ),
        (
            "email",
            json!({"host": "a", "port": 25, "to": ["b"], "from": "c", "subject": "d"}),
        ),
    ] {
        let mut sensor = sensor(&data("body.kind", "string", &["^order"]));
        let mut other = json!({"template": {"name": "tell"}});
        other["template"][kind] = given;
        sensor["spec"]["triggers"]
            .as_array_mut()
            .unwrap()
            .push(other);
        let (code, passing) = walk(&sensor, &["--body", FLAT]);
        assert_eq!(
            (code, &passing["passed"], &passing["judged"]),
            (3, &json!(false), &json!(false)),
            "{kind}"
        );
        let [run, tell] = passing["triggers"].as_array().unwrap().as_slice() else {
            panic!("{kind}: {passing}");
        };
        assert_eq!(
            (&run["act"], &run["operation"]),
            (&json!("submits"), &json!("create")),
            "{kind}: {run}"
        );
        assert_eq!(tell["act"], "not-shown", "{kind}: {tell}");
        let said = format!("eventlab: trigger type {kind} is not carried out here");
        assert!(tell["error"].as_str().unwrap().starts_with(&said), "{tell}");
        // What the filter turns away is turned away for both.
        let (code, rejected) = walk(&sensor, &["--body", r#"{"kind":"refund"}"#]);
        assert_eq!((code, &rejected["passed"]), (1, &json!(false)), "{kind}");
    }
}

#[test]
fn event_data_and_cloud_events_come_as_they_are() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("event.json");
    let name = file.to_str().unwrap();
    let sensor = sensor(&data("body.kind", "string", &["order"]));
    std::fs::write(&file, format!(r#"{{"body":{FLAT}}}"#)).unwrap();
    let (code, bare) = walk(&sensor, &["--event", name]);
    assert_eq!((code, &bare["intake"]), (0, &Value::Null));
    let event = json!({"specversion": "1.0", "id": "abc", "source": "web", "subject": "orders", "type": "webhook", "data": {"body": {"kind": "refund"}}});
    std::fs::write(&file, event.to_string()).unwrap();
    let (code, dropped) = walk(&sensor, &["--event", name]);
    assert_eq!(code, 1);
    assert!(
        dropped["logs"][0]["msg"]
            .as_str()
            .unwrap()
            .starts_with("Event [ID 'abc', Source 'web'")
    );
    assert_eq!(dropped["logs"][0]["level"], "debug");
}

#[test]
fn bad_input_says_where() {
    let valid = sensor(&Value::Null);
    let mut invalid = valid.clone();
    invalid["spec"]["triggers"] = json!([]);
    for (stdin, more, parts) in [
        (
            "kind: [a\nb: c\n".to_owned(),
            &[][..],
            &["line ", "column "][..],
        ),
        (
            invalid.to_string(),
            &[],
            &["TriggersProvided", "InvalidTriggers", "no triggers found"],
        ),
        (
            valid.to_string(),
            &["--dependency", "oder"],
            &["no dependency", "order"],
        ),
        (valid.to_string(), &["--header", "nothing"], &["--header"]),
        (
            "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a}\n".to_owned(),
            &[],
            &["no Sensor"],
        ),
    ] {
        let arguments: Vec<&str> = ["-f", "-", "--body", FLAT]
            .iter()
            .chain(more)
            .copied()
            .collect();
        let (code, out, err) = explain_with(&arguments, &stdin);
        assert_eq!((code, out.as_str()), (2, ""), "{stdin}: {err}");
        for part in parts {
            assert!(err.contains(part), "{part}: {err}");
        }
    }
    assert_eq!(explain(&["--body", "{}"]).0, 2);
    assert_eq!(explain(&["-f", "-", "-"]).0, 2);
}

/// Whether an error's text must be equal: it is built only of texts that are Argo's own.
fn text_counts(error: &str) -> bool {
    let own = ["path '", "no values specified", "unsupported JSON type '"];
    let parts = match error.strip_prefix("data filter errors [") {
        Some(list) => list.trim_end_matches(']'),
        None => match error.split_once(" filter error (") {
            Some(("data" | "expr", rest)) => rest,
            _ => return false,
        },
    };
    parts
        .split(" / ")
        .all(|part| own.iter().any(|start| part.starts_with(start)))
}

/// Whether an answer is the wanted one: equal, but for the texts of a filter's errors that may be our own.
fn agrees(kind: &str, answer: &Value, want: &Value) -> bool {
    let mut answer = answer.clone();
    answer.as_object_mut().unwrap().remove("id");
    let own_text = want["error"]
        .as_str()
        .is_some_and(|error| !text_counts(error));
    if kind == "filter" && own_text && answer["error"].is_string() {
        answer["error"] = want["error"].clone();
    }
    same(&answer, want)
}

/// Equal, with numbers compared as numbers.
fn same(one: &Value, other: &Value) -> bool {
    match (one, other) {
        (Value::Number(one), Value::Number(other)) => one.as_f64() == other.as_f64(),
        (Value::Array(one), Value::Array(other)) => {
            one.len() == other.len() && one.iter().zip(other).all(|(one, other)| same(one, other))
        }
        (Value::Object(one), Value::Object(other)) => {
            one.len() == other.len()
                && one
                    .iter()
                    .all(|(key, value)| other.get(key).is_some_and(|other| same(value, other)))
        }
        _ => one == other,
    }
}

#[test]
fn lines_of_golden_files_are_answered() {
    for (file, every) in [
        ("filters", 40),
        ("paths", 1),
        ("regex", 4),
        ("scalars", 1),
        ("expressions", 1),
        ("parameters", 10),
    ] {
        let path = format!("{}/tests/golden/{file}.jsonl", env!("CARGO_MANIFEST_DIR"));
        let text = std::fs::read_to_string(path).unwrap();
        let lines: Vec<Value> = text
            .lines()
            .step_by(every)
            .map(|line| serde_json::from_str(line).unwrap())
            .collect();
        let mut asked = tempfile::NamedTempFile::new().unwrap();
        for line in &lines {
            let mut line = line.clone();
            line.as_object_mut().unwrap().remove("want");
            std::io::Write::write_all(&mut asked, format!("{line}\n").as_bytes()).unwrap();
        }
        let (code, out, err) = explain(&["--cases", asked.path().to_str().unwrap()]);
        assert_eq!((code, err.as_str()), (0, ""), "{file}");
        assert_eq!(out.lines().count(), lines.len(), "{file}");
        for (line, answer) in lines.iter().zip(out.lines()) {
            let answer: Value = serde_json::from_str(answer).unwrap();
            assert_eq!(answer["id"], line["id"]);
            let kind = line["kind"].as_str().unwrap();
            assert!(
                agrees(kind, &answer, &line["want"]),
                "{line}\n  got {answer}"
            );
        }
    }
}

#[test]
fn a_line_that_is_no_case_is_named() {
    let (code, out, err) = explain_with(
        &["--cases", "-"],
        "{\"kind\":\"parsebool\",\"id\":1,\"text\":\"t\"}\n\n{\"kind\":\"tea\"}\n",
    );
    assert_eq!((code, out.as_str()), (2, "{\"id\":1,\"value\":true}\n"));
    assert!(err.contains("line 3") && err.contains("\"tea\""), "{err}");
}

/// A Sensor whose dependency has a transform before its filter.
fn transformed(transform: &Value, filters: &Value) -> Value {
    let mut sensor = sensor(filters);
    sensor["spec"]["dependencies"][0]["transform"] = transform.clone();
    sensor
}

#[test]
fn a_transform_is_shown_before_the_filter_that_sees_it() {
    let filters = data("kind", "string", &["^order"]);
    let jq = json!({"jq": "{kind: .body.kind, body: {orderId: .body.orderId}}"});
    let (code, passing) = walk(&transformed(&jq, &filters), &["--body", FLAT]);
    assert_eq!(code, 0, "{passing:#}");
    let step = &passing["dependencies"][0];
    assert_eq!(
        step["transform"]["data"],
        r#"{"body":{"orderId":"o-1"},"kind":"order.created"}"#
    );
    assert_eq!(step["filter"]["passed"], true);
    assert_eq!(
        passing["triggers"][0]["objects"][0]["object"]["spec"]["arguments"]["parameters"][0]["value"],
        "o-1"
    );
    let (code, failing) = walk(
        &transformed(&json!({"jq": ".body.kind"}), &filters),
        &["--body", FLAT],
    );
    assert_eq!((code, &failing["stopped_at"]), (1, &json!("transform")));
    assert_eq!(
        failing["dependencies"][0]["transform"]["error"],
        "jq transformation output must be a JSON object"
    );
    assert_eq!(
        failing["logs"][0]["msg"],
        "failed to apply event transformation, "
    );
    assert!(changes(&failing).contains("transform"), "{failing:#}");
    let (code, out, _) = explain_with(
        &["-f", "-", "--body", FLAT],
        &transformed(
            &json!({"script": "return {kind = event.body.kind:upper()}"}),
            &filters,
        )
        .to_string(),
    );
    assert_eq!(code, 1);
    assert!(
        out.contains("made     dependency order: {\"kind\":\"ORDER.CREATED\"}"),
        "{out}"
    );
}

#[test]
fn what_jq_cannot_do_here_is_said() {
    let (code, _, err) = explain_with(
        &["-f", "-", "--body", FLAT],
        &transformed(&json!({"jq": "{a: input}"}), &json!(null)).to_string(),
    );
    assert_eq!(code, 3);
    assert!(
        err.contains("`input/0`") && err.contains("not supported"),
        "{err}"
    );
    let (code, _, err) = explain_with(
        &["-f", "-", "--body", FLAT],
        &transformed(&json!({"jq": "{a: [.body.a|tostream]}"}), &json!(null)).to_string(),
    );
    assert_eq!(code, 3);
    assert!(err.contains("`tostream/0`"), "{err}");
    let (code, _, err) = explain_with(
        &["-f", "-", "--body", FLAT],
        &transformed(&json!({"jq": "def f: f; f"}), &json!(null)).to_string(),
    );
    assert_eq!(code, 3);
    assert!(err.contains("it takes too"), "{err}");
}

#[test]
fn a_file_may_hold_several_events() {
    let directory = tempfile::tempdir().unwrap();
    let events = directory.path().join("events.json");
    std::fs::write(&events, "{\"body\":{\"kind\":\"order\",\"orderId\":\"1\"}}\n{\"body\":{\"kind\":\"refund\",\"orderId\":\"2\"}}\n").unwrap();
    let arguments = [
        "-f",
        "-",
        "--format",
        "json",
        "--event",
        events.to_str().unwrap(),
    ];
    let (code, out, err) = explain_with(
        &arguments,
        &sensor(&data("body.kind", "string", &["^order$"])).to_string(),
    );
    assert_eq!(code, 1, "{err}");
    let passed: Vec<Value> = out
        .lines()
        .map(|line| serde_json::from_str::<Value>(line).unwrap()["passed"].clone())
        .collect();
    assert_eq!(passed, [json!(true), json!(false)]);
}

/// Writes a Sensor with one pattern into `sensor.json` there; the command that watches it.
fn watching(directory: &std::path::Path, pattern: &str) -> std::process::Command {
    let file = directory.join("sensor.json");
    let sensor = sensor(&data("body.kind", "string", &[pattern]));
    std::fs::write(&file, sensor.to_string()).unwrap();
    let mut command = std::process::Command::new(env!("CARGO_BIN_EXE_eventlab"));
    command.args(["explain", "--watch", "--body", FLAT, "-f"]);
    command.arg(file);
    command
}

#[test]
fn watching_explains_again_when_a_file_changes() {
    use std::io::BufRead as _;
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("sensor.json");
    let mut watching = watching(directory.path(), "^refund$")
        .stdout(std::process::Stdio::null())
        .stderr(std::process::Stdio::piped())
        .spawn()
        .unwrap();
    let lines = std::io::BufReader::new(watching.stderr.take().unwrap()).lines();
    let (said, heard) = std::sync::mpsc::channel();
    std::thread::spawn(move || {
        lines
            .map_while(Result::ok)
            .for_each(|line| drop(said.send(line)))
    });
    let next = |wanted: &str| {
        let line = heard
            .recv_timeout(std::time::Duration::from_secs(120))
            .unwrap();
        assert!(line.ends_with(wanted), "{line}");
    };
    next("rejected");
    std::fs::write(
        &file,
        sensor(&data("body.kind", "string", &["^order"])).to_string(),
    )
    .unwrap();
    // An editor may write in two steps, so nonsense in between is no end.
    loop {
        let line = heard
            .recv_timeout(std::time::Duration::from_secs(120))
            .unwrap();
        if line.ends_with("passes") {
            break;
        }
    }
    watching.kill().unwrap();
    watching.wait().unwrap();
    let (code, _, err) = explain_with(&["--watch", "-f", "-", "--body", FLAT], "");
    assert!(code == 2 && err.contains("stdin can be read once"), "{err}");
}

/// The exit code of a watch that ends by itself.
fn ended(child: &mut std::process::Child) -> Option<i32> {
    let patience = std::time::Instant::now() + std::time::Duration::from_secs(60);
    loop {
        match child.try_wait().unwrap() {
            Some(status) => return status.code(),
            None if std::time::Instant::now() > patience => {
                child.kill().unwrap();
                child.wait().unwrap();
                panic!("it watches on although nobody reads");
            }
            None => std::thread::sleep(std::time::Duration::from_millis(20)),
        }
    }
}

/// `explain --watch … | head` has what it wanted, whether or not a file changes again.
#[test]
fn watching_ends_when_the_reader_goes_away() {
    use std::io::{BufRead as _, Read as _};
    let directory = tempfile::tempdir().unwrap();
    for (pattern, code) in [("^order", 0), ("^refund$", 1), ("(", 1)] {
        let mut child = watching(directory.path(), pattern)
            .stdout(std::process::Stdio::piped())
            .stderr(std::process::Stdio::piped())
            .spawn()
            .unwrap();
        let stdout = child.stdout.take().unwrap();
        let mut stderr = std::io::BufReader::new(child.stderr.take().unwrap());
        let mut said = String::new();
        stderr.read_line(&mut said).unwrap();
        assert!(said.starts_with("-- "), "{said}");
        drop(stdout);
        assert_eq!(ended(&mut child), Some(code), "{pattern}");
        let mut rest = String::new();
        stderr.read_to_string(&mut rest).unwrap();
        assert_eq!(rest, "", "{pattern}");
    }
}

#[test]
fn watching_ends_when_stdout_takes_nothing() {
    let directory = tempfile::tempdir().unwrap();
    // A pipe whose reader is gone; and, where there is one, a disk that is full.
    let (reader, writer) = std::io::pipe().unwrap();
    drop(reader);
    let mut ends = vec![(std::process::Stdio::from(writer), 0)];
    if let Ok(full) = std::fs::File::options().write(true).open("/dev/full") {
        ends.push((full.into(), 3));
    }
    for (stdout, code) in ends {
        let mut child = watching(directory.path(), "^order")
            .stdout(stdout)
            .stderr(std::process::Stdio::null())
            .spawn()
            .unwrap();
        assert_eq!(ended(&mut child), Some(code));
    }
}

#[test]
fn what_cannot_be_judged_leaves_the_other_sensors_alone() {
    let passing = sensor(&data("body.kind", "string", &["^order"]));
    let rejecting = sensor(&data("body.kind", "string", &["^refund$"]));
    let mut unknown = passing.clone();
    unknown["spec"]["dependencies"][0]["transform"] = json!({"jq": "input"});
    for (other, code) in [(&passing, 3), (&rejecting, 1)] {
        for documents in [[&unknown, other], [other, &unknown]] {
            let text = documents.map(Value::to_string).join("\n---\n");
            let (got, out, err) = explain_with(&["-f", "-", "--body", FLAT], &text);
            assert_eq!(got, code, "{out} {err}");
            assert_eq!(out.matches("Sensor/orders (").count(), 1, "{out}");
            assert!(
                err.contains("`input/0` in a jq program is not supported"),
                "{err}"
            );
        }
    }
}

#[test]
fn a_trigger_without_a_type_fails_as_upstream() {
    for template in [
        json!({"name": "run"}),
        json!({"name": "run", "conditions": "order"}),
        json!({"name": "run", "openwhisk": {"host": "h", "actionName": "a"}}),
        json!({"name": "run", "k8s": null}),
    ] {
        let mut sensor = sensor(&json!({}));
        sensor["spec"]["triggers"] = json!([{ "template": template }]);
        let (code, walk) = walk(&sensor, &["--body", FLAT]);
        assert_eq!(code, 1, "{walk}");
        assert_eq!(walk["stopped_at"], "submit", "{walk}");
        assert_eq!(
            walk["triggers"][0]["error"],
            "invalid trigger run, could not find an implementation"
        );
        assert!(walk["change"].to_string().contains("openWhisk"), "{walk}");
    }
}
