//! Sensors that use what upstream documents, and, where a copy is at hand, upstream's own examples: each is read,
//! validated and judged, or the part that is outside is named.
//!
//! `EVENTLAB_UPSTREAM_EXAMPLES` names the folder of such a copy.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use eventlab::lint::{Input, Level, Options, lint};
use eventlab::sensor::conditions::Conditions;
use eventlab::sensor::transform::Transform;
use eventlab::sensor::validate::{Invalid, validate};
use eventlab::sensor::{Event, Filter};
use serde_json::{Value, json};

/// What is outside of a Sensor, in words that begin with `eventlab:`.
fn outside(sensor: &Value) -> Vec<String> {
    let mut outside = Vec::new();
    let list = |pointer: &str| {
        sensor
            .pointer(pointer)
            .and_then(Value::as_array)
            .cloned()
            .unwrap_or_default()
    };
    let dependencies = list("/spec/dependencies");
    let names: Vec<String> = dependencies
        .iter()
        .map(|one| one["name"].as_str().unwrap_or_default().to_owned())
        .collect();
    let event = Event {
        data: Some(br#"{"header":{},"body":{}}"#.to_vec()),
        ..Event::default()
    };
    for dependency in &dependencies {
        if let Err(error) = Transform::compile(dependency.get("transform")) {
            outside.push(error.to_string());
        }
        let operator = dependency["filtersLogicalOperator"]
            .as_str()
            .unwrap_or_default();
        match Filter::compile(dependency.get("filters"), operator) {
            Ok(filter) => drop(filter.evaluate(&event)),
            Err(error) => outside.push(error.to_string()),
        }
    }
    for trigger in list("/spec/triggers") {
        let conditions = trigger
            .pointer("/template/conditions")
            .and_then(Value::as_str)
            .unwrap_or_default();
        if let Err(error) = Conditions::parse(conditions, &names) {
            outside.push(error.to_string());
        }
    }
    outside
}

fn now() -> jiff::Timestamp {
    "2026-01-02T03:04:05Z".parse().unwrap()
}

#[test]
fn what_upstream_documents_is_read_validated_and_judged() {
    let resource = json!({"apiVersion": "argoproj.io/v1alpha1", "kind": "Workflow", "metadata": {"generateName": "a-"}});
    let of = |template: Value| {
        let mut template = template;
        template["name"] = json!("t");
        json!({"template": template})
    };
    let k8s = || of(json!({"k8s": {"operation": "create", "source": {"resource": resource}}}));
    let parameter = json!({"src": {"dependencyName": "a", "dataKey": "body.x"}, "dest": "x"});
    let triggers = [
        k8s(),
        of(
            json!({"argoWorkflow": {"operation": "submit", "source": {"resource": resource}, "args": ["--priority", "1"]}}),
        ),
        of(
            json!({"http": {"url": "http://a", "method": "POST", "payload": [parameter], "headers": {"a": "b"}}}),
        ),
        of(json!({"log": {"intervalSeconds": 20}})),
        of(json!({"nats": {"url": "nats://a", "subject": "s", "payload": [parameter]}})),
        of(json!({"kafka": {"url": "a:9092", "topic": "t", "payload": [parameter]}})),
        of(
            json!({"slack": {"slackToken": {"name": "s", "key": "k"}, "channel": "c", "message": "m"}}),
        ),
        of(json!({"awsLambda": {"functionName": "f", "region": "r", "payload": [parameter]}})),
        of(json!({"openWhisk": {"host": "h", "actionName": "a", "payload": [parameter]}})),
        of(json!({"custom": {"serverURL": "s", "spec": {"a": "b"}, "payload": [parameter]}})),
        of(json!({"email": {"host": "h", "port": 25, "to": ["a@b"], "from": "c@d"}})),
        of(
            json!({"k8s": {"operation": "patch", "patchStrategy": "application/merge-patch+json", "source": {"resource": resource}}}),
        ),
    ];
    let filters = [
        json!(null),
        json!({"data": [{"path": "body.a", "type": "string", "value": ["^b$"]}]}),
        json!({"exprs": [{"expr": "a == 'b' || a == 'c'", "fields": [{"name": "a", "path": "body.a"}]}], "exprLogicalOperator": "or"}),
        json!({"time": {"start": "02:30:00", "stop": "04:30:00"}}),
        json!({"time": {"start": "22:00:00", "stop": "06:00:00", "timezone": "Europe/Berlin"}}),
        json!({"context": {"type": "webhook", "source": "web"}}),
        json!({"script": "return event.body.a == 'b'"}),
        json!({"data": [{"path": "body.a", "type": "number", "comparator": ">=", "value": ["1.5"]}, {"path": "[body.a,body.b]", "type": "string", "value": ["x"], "template": "{{ .Input | b64dec }}"}], "dataLogicalOperator": "or"}),
    ];
    for trigger in &triggers {
        for filters in &filters {
            let dependency = json!({"name": "a", "eventSourceName": "web", "eventName": "e", "filters": filters});
            let sensor = json!({"apiVersion": "argoproj.io/v1alpha1", "kind": "Sensor", "metadata": {"name": "s"}, "spec": {"dependencies": [dependency], "triggers": [trigger]}});
            assert_eq!(validate(&sensor, &json!({}), now()), Ok(()), "{sensor}");
            assert_eq!(outside(&sensor), Vec::<String>::new());
            let input = Input {
                name: "a".into(),
                text: sensor.to_string(),
                named: true,
            };
            let report = lint(&[input], &[], &Options::default(), now());
            let errors: Vec<_> = report
                .findings
                .iter()
                .filter(|finding| finding.level == Level::Error)
                .collect();
            assert!(errors.is_empty(), "{errors:#?}");
        }
    }
}

fn manifests(folder: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            found.extend(manifests(&path));
        } else if path
            .extension()
            .is_some_and(|extension| extension == "yaml")
        {
            found.push(path);
        }
    }
    found.sort();
    found
}

/// Upstream's examples are Sensors that work: a finding of level error in them is a mistake of the linter, or theirs.
#[test]
fn examples_of_a_copy_at_hand_are_read_validated_and_judged() {
    let Ok(folder) = std::env::var("EVENTLAB_UPSTREAM_EXAMPLES") else {
        eprintln!("SKIPPED: EVENTLAB_UPSTREAM_EXAMPLES names no copy of upstream's examples");
        return;
    };
    let (mut sensors, mut refused, mut outside_of) = (0, Vec::new(), Vec::new());
    let mut rules: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for file in manifests(Path::new(&folder)) {
        let text = std::fs::read_to_string(&file).unwrap();
        let name = file.display().to_string();
        let documents: Vec<Value> = serde_saphyr::from_multiple(&text).unwrap_or_default();
        for sensor in documents
            .iter()
            .filter(|document| document["kind"] == "Sensor")
        {
            sensors += 1;
            match validate(sensor, &json!({}), now()) {
                Ok(()) => {}
                Err(Invalid::Decode(error)) => refused.push(format!("{name}: {error}")),
                Err(Invalid::Refused { message, .. }) => refused.push(format!("{name}: {message}")),
            }
            outside_of.extend(
                outside(sensor)
                    .into_iter()
                    .map(|what| format!("{name}: {what}")),
            );
        }
        let input = Input {
            name: name.clone(),
            text,
            named: true,
        };
        for finding in lint(&[input], &[], &Options::default(), now()).findings {
            let line = format!(
                "{name}:{}:{}: {}",
                finding.line, finding.column, finding.what
            );
            rules
                .entry(format!("{} {}", finding.level.as_str(), finding.rule))
                .or_default()
                .push(line);
        }
    }
    eprintln!(
        "{sensors} Sensors; refused: {refused:#?}; outside: {outside_of:#?}; findings: {rules:#?}"
    );
    assert!(sensors > 0);
    let nameless: Vec<_> = outside_of
        .iter()
        .filter(|line| !line.contains("eventlab"))
        .collect();
    assert!(nameless.is_empty(), "{nameless:#?}");
}
