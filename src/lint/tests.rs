//! Every rule: what it finds, what it leaves alone, and what its fix makes of it.

use std::collections::BTreeSet;

use jiff::Timestamp;

use super::rule::{Place, example};
use super::{Input, Level, Options, Report, fix, lint, rule};

mod accounts;
mod files;
mod fixes;
mod hazards;

fn now() -> Timestamp {
    "2026-01-02T03:04:05Z".parse().unwrap()
}

fn input(text: &str) -> Input {
    Input {
        name: "sensor.yaml".to_owned(),
        text: text.to_owned(),
        named: true,
    }
}

fn report(text: &str) -> Report {
    lint(&[input(text)], &[], &Options::default(), now())
}

fn found(text: &str) -> Vec<&'static str> {
    report(text)
        .findings
        .iter()
        .map(|finding| finding.rule)
        .collect()
}

fn filters(lines: &str) -> Vec<&'static str> {
    found(&example(Place::Filters, lines))
}

fn condition(path: &str, kind: &str, comparator: &str, values: &[&str]) -> Vec<&'static str> {
    let condition =
        serde_json::json!({"path": path, "type": kind, "comparator": comparator, "value": values});
    filters(&format!("data: [{condition}]"))
}

fn fixed(text: &str, suggestions: bool) -> String {
    fix::apply(&[input(text)], 0, suggestions, &Options::default(), now()).text
}

#[test]
fn every_rule_finds_its_example_and_leaves_the_mended_one_alone() {
    for rule in rule::all() {
        if rule.place == Place::None {
            continue;
        }
        let bad = found(&example(rule.place, rule.bad));
        assert!(bad.contains(&rule.id), "{}: {bad:?}", rule.id);
        let good = found(&example(rule.place, rule.good));
        assert!(!good.contains(&rule.id), "{}: {good:?}", rule.id);
        // A mended example has nothing else that is wrong.
        let worse: Vec<_> = good
            .iter()
            .filter(|id| rule::level(id) > Level::Note)
            .collect();
        assert!(worse.is_empty(), "{}: {worse:?}", rule.id);
    }
}

#[test]
fn ids_are_known_and_texts_are_there() {
    let ids: BTreeSet<&str> = rule::all().map(|rule| rule.id).collect();
    assert_eq!(ids.len(), rule::all().count());
    for rule in rule::all() {
        assert!(
            !rule.summary.ends_with('.') && rule.why.ends_with('.'),
            "{}",
            rule.id
        );
    }
    for file in [
        "account",
        "compare",
        "data",
        "dependencies",
        "expressions",
        "groups",
        "keys",
        "object",
        "parameters",
        "paths",
        "patterns",
        "previous",
        "refusal",
        "script",
        "triggers",
    ] {
        let text = std::fs::read_to_string(format!(
            "{}/src/lint/check/{file}.rs",
            env!("CARGO_MANIFEST_DIR")
        ))
        .unwrap();
        for (at, _) in text.match_indices(".report") {
            let rest = &text[at..];
            let Some(start) = rest.find('"') else {
                continue;
            };
            let id = rest[start + 1..].split('"').next().unwrap();
            assert!(ids.contains(id), "{file}: {id}");
        }
    }
}

#[test]
fn a_fix_mends_what_it_was_found_for() {
    for rule in rule::all() {
        if rule.place == Place::None {
            continue;
        }
        let text = example(rule.place, rule.bad);
        let fixable = report(&text)
            .findings
            .iter()
            .any(|finding| finding.rule == rule.id && finding.fix.is_some());
        if fixable {
            let mended = fixed(&text, true);
            let left = found(&mended);
            assert!(!left.contains(&rule.id), "{}: {left:?}\n{mended}", rule.id);
        }
    }
}

#[test]
fn findings_have_the_place_of_what_they_are_about() {
    let text = example(
        Place::Filters,
        "data:\n  - path: body.kind # why\n    type: string\n    value:\n      - ^a$\n      - order",
    );
    let report = report(&text);
    let finding = &report.findings[0];
    assert_eq!((finding.line, finding.column), (17, 17), "{text}");
    assert_eq!(
        finding.path,
        "spec.dependencies[0].filters.data[0].value[1]"
    );
    assert_eq!(finding.rule, "unanchored-pattern");
}

#[test]
fn fixes_keep_comments_and_formatting() {
    let text = example(
        Place::Filters,
        "dataLogicalOperator:   OR   # either\ndata:\n  - {path: ' body.kind', type: \"text\", value: [order.created]} # kinds\n  # the end",
    );
    let mended = fixed(&text, false);
    assert!(
        mended.contains("dataLogicalOperator:   or   # either\n"),
        "{mended}"
    );
    assert!(
        mended.contains(r#"- {path: 'body.kind', type: "string""#),
        "{mended}"
    );
    assert!(
        mended.contains(r"value: ['order\.created']} # kinds"),
        "{mended}"
    );
    assert!(mended.contains("  # the end\n"), "{mended}");
    // Anchoring is a suggestion.
    assert!(found(&mended).contains(&"unanchored-pattern"));
    let all = fixed(&text, true);
    assert!(all.contains(r"value: ['^order\.created$']"), "{all}");
    assert_eq!(
        fixed(&mended, false),
        mended,
        "a second time changes nothing"
    );
}

#[test]
fn a_fix_leaves_the_rest_as_it_is_and_is_made_once() {
    for rule in rule::all().filter(|rule| rule.place != Place::None) {
        let text: String = example(rule.place, rule.bad)
            .lines()
            .map(|line| format!("{line} # kept\n"))
            .collect();
        // Within a text of several lines this is no comment.
        let comments = !rule.bad.contains(": |");
        let text = if comments {
            text
        } else {
            example(rule.place, rule.bad)
        };
        for suggestions in [false, true] {
            let mended = fixed(&text, suggestions);
            assert_eq!(fixed(&mended, suggestions), mended, "{}", rule.id);
            if comments {
                let kept = mended.matches("# kept").count();
                assert_eq!(
                    kept,
                    text.matches("# kept").count(),
                    "{}: {mended}",
                    rule.id
                );
            }
            // Lines without a finding are the same.
            let found: BTreeSet<usize> = report(&text)
                .findings
                .iter()
                .filter_map(|finding| finding.fix.as_ref())
                .flat_map(|fix| &fix.edits)
                .flat_map(|edit| {
                    let line = |at: usize| text[..at].matches('\n').count();
                    line(edit.bytes.start)..=line(edit.bytes.end)
                })
                .collect();
            for (place, line) in text.lines().enumerate() {
                if !found.contains(&place) {
                    assert!(mended.lines().any(|one| one == line), "{}: {line}", rule.id);
                }
            }
        }
    }
}

#[test]
fn rights_of_every_trigger_count() {
    let text = rule::find("submit-account").unwrap().good.replace(
        "resources: [\"workflows\"], verbs: [\"create\"]}",
        "resources: [\"workflows\"], verbs: [\"create\"]}\n  - {apiGroups: [\"\"], resources: [\"configmaps\"], verbs: [\"get\", \"create\", \"update\"]}",
    );
    assert!(
        found(&text).contains(&"submit-account"),
        "nobody needs them"
    );
    let letters = "    - atLeastOnce: true\n      dlqTrigger:\n        atLeastOnce: true\n        template:\n          name: letters\n          k8s:\n            operation: update\n            source:\n              resource: {apiVersion: v1, kind: ConfigMap, metadata: {name: letters}}\n      template:\n        name: run";
    let with = text.replace("    - template:\n        name: run", letters);
    assert_ne!(with, text);
    assert!(!found(&with).contains(&"submit-account"), "{with}");
    let submits = rule::find("submit-account")
        .unwrap()
        .good
        .replace("k8s:", "argoWorkflow:\n          operation: submit");
    let lacking = found(&submits);
    assert!(!lacking.contains(&"submit-account"), "{lacking:?}");
}

#[test]
fn every_trigger_type_is_looked_into_and_named_where_it_ends() {
    for kind in crate::sensor::trigger::KINDS {
        let trigger = format!(
            "- template:\n    name: a\n    {kind}:\n      parameters:\n        - src: {{dependencyName: gone, dataKey: body.id}}\n          dest: id\n      source:\n        resource: {{kind: Workflow}}"
        );
        let report = report(&example(Place::Triggers, &trigger));
        let here = matches!(kind, "k8s" | "argoWorkflow" | "log");
        let noted = report
            .findings
            .iter()
            .find(|one| one.rule == "not-carried-out");
        assert_eq!(noted.is_none(), here, "{kind}");
        if let Some(noted) = noted {
            assert!(noted.what.contains(kind), "{}", noted.what);
            assert_eq!(noted.path, format!("spec.triggers[0].template.{kind}"));
        }
        let wrong = report
            .findings
            .iter()
            .any(|one| one.rule == "unknown-dependency");
        assert!(wrong, "{kind}");
    }
}

#[test]
fn an_allowed_finding_is_left_out() {
    let line = |comment: &str| {
        example(
            Place::Filters,
            &format!(
                "data:\n  - path: body.kind\n    type: string\n    value: [\"order\"]{comment}"
            ),
        )
    };
    assert!(found(&line("")).contains(&"unanchored-pattern"));
    assert!(found(&line(" # eventlab: allow unanchored-pattern")).is_empty());
    assert!(!found(&line(" # eventlab: allow unescaped-dot")).is_empty());
    let options = Options {
        allowed: BTreeSet::from(["unanchored-pattern".to_owned()]),
        ..Options::default()
    };
    assert!(
        lint(&[input(&line(""))], &[], &options, now())
            .findings
            .is_empty()
    );
}

#[test]
fn a_denied_rule_is_an_error() {
    let text = example(
        Place::Filters,
        "data: [{path: body.vip, type: bool, value: [\"true\"]}]",
    );
    assert!(!report(&text).fails());
    let options = Options {
        denied: BTreeSet::from(["bool-accepts-text".to_owned()]),
        ..Options::default()
    };
    assert!(lint(&[input(&text)], &[], &options, now()).fails());
}

#[test]
fn patterns_are_found_by_what_they_match() {
    for (pattern, wanted) in [
        ("^order$", vec![]),
        ("^(order|refund)$", vec![]),
        (r"^order\.(created|paid)$", vec![]),
        (".*", vec![]),
        (".+", vec![]),
        ("^.*order.*$", vec![]),
        (".*order.*", vec![]),
        ("^refs/heads/", vec![]),
        (r"^order\..*", vec![]),
        (r"\.pdf$", vec![]),
        ("(?i)^order$", vec![]),
        ("paid", vec!["unanchored-pattern"]),
        ("^paid", vec!["partly-anchored-pattern"]),
        ("paid$", vec!["partly-anchored-pattern"]),
        ("^a|b$", vec!["unanchored-pattern"]),
        ("order.created", vec!["unanchored-pattern", "unescaped-dot"]),
        ("^order.created$", vec!["unescaped-dot"]),
        ("c++", vec!["bad-pattern"]),
        ("*.txt", vec!["bad-pattern"]),
        ("$5", vec!["not-its-own-match"]),
        ("colou?r", vec!["unanchored-pattern"]),
        ("a+b", vec!["unanchored-pattern"]),
        ("(^order$)", vec![]),
        ("https://a.example/x?y=1", vec!["not-its-own-match"]),
        (r"^\d+$", vec![]),
        ("^[a.b]$", vec![]),
    ] {
        let mut found = condition("body.kind", "string", "", &[pattern]);
        found.sort_unstable();
        assert_eq!(found, wanted, "{pattern}");
    }
}

#[test]
fn what_only_this_program_does_not_read_is_no_finding() {
    let nested = |open: &str, inner: &str, close: &str, levels: usize| {
        format!("{}{inner}{}", open.repeat(levels), close.repeat(levels))
    };
    let template = nested("{{if true}}", "a", "{{end}}", 100);
    let expression = nested("(", "a", ")", 100) + " > 1";
    let pattern = format!("^{}$", nested("(?:", "a", ")", 1001));
    let script = format!("return {} == 1", nested("(", "1", ")", 250));
    let condition = |key: &str, value: serde_json::Value| {
        let mut condition =
            serde_json::json!({"path": "body.a", "type": "string", "value": ["^a$"]});
        condition[key] = value;
        format!("data: [{condition}]")
    };
    let expr = serde_json::json!({"expr": expression, "fields": [{"name": "a", "path": "body.a"}]});
    for lines in [
        condition("template", template.into()),
        condition("value", vec![pattern].into()),
        format!("exprs: [{expr}]"),
        format!("script: {script:?}"),
    ] {
        let found = filters(&lines);
        assert!(
            !found.iter().any(|rule| rule.starts_with("bad-")),
            "{found:?}: {lines}"
        );
    }
}

#[test]
fn values_are_found_by_what_they_let_through() {
    for (kind, comparator, values, wanted) in [
        ("bool", "", vec!["true"], vec!["bool-accepts-text"]),
        ("bool", "", vec!["yes"], vec!["unparsable-value"]),
        (
            "bool",
            "!=",
            vec!["true"],
            vec!["comparator-ignored", "bool-accepts-text"],
        ),
        ("number", ">", vec!["100"], vec!["number-converts"]),
        ("number", ">=", vec!["1"], vec!["number-converts"]),
        ("number", "<", vec!["100"], vec!["number-accepts-text"]),
        ("number", "", vec!["0"], vec!["number-accepts-text"]),
        ("number", "", vec!["5", "x"], vec!["unparsable-value"]),
        ("float", ">", vec!["1"], vec!["unknown-type"]),
        ("string", ">", vec!["^a$"], vec!["comparator-never-true"]),
        (
            "string",
            "!=",
            vec!["^a$", "^b$"],
            vec!["not-equal-list", "missing-field"],
        ),
        // Whatever matches one of these matches the other, so that nothing listed passes.
        ("string", "!=", vec!["^a$", "^a$"], vec!["missing-field"]),
        (
            "number",
            "!=",
            vec!["1", "2"],
            vec!["number-accepts-text", "not-equal-list", "missing-field"],
        ),
        ("string", "==", vec!["^a$"], vec!["unknown-comparator"]),
    ] {
        let mut found = condition("body.x", kind, comparator, &values);
        let mut wanted = wanted;
        found.sort_unstable();
        wanted.sort_unstable();
        assert_eq!(found, wanted, "{kind} {comparator} {values:?}");
    }
}

#[test]
fn a_script_that_asks_for_the_type_settles_coercion() {
    let data = "data: [{path: body.vip, type: bool, value: [\"false\"]}]";
    assert_eq!(filters(data).len(), 2);
    let with_script = format!("{data}\nscript: return event.body.vip == false");
    assert_eq!(filters(&with_script), ["missing-field"]);
    // A script that has the letters of the field in another word does not ask for it.
    let other = format!("{data}\nscript: return event.body.vips == 1");
    assert_eq!(filters(&other).len(), 2);
}

#[test]
fn paths_are_found_by_where_they_lead() {
    for (path, wanted) in [
        ("body.kind", vec![]),
        ("body.items.0.sku", vec![]),
        ("header.X-Order-Id.0", vec![]),
        ("headers.X-GitHub-Event.0", vec![]),
        ("type", vec![]),
        ("metadata.shop", vec![]),
        (r"body.order\.type", vec![]),
        ("[body.action,body.kind]", vec![]),
        (r#"body.items.#(sku=="B2").sku"#, vec![]),
        ("body.@this.kind", vec![]),
        ("b*.kind", vec![]),
        ("body.labels.a", vec![]),
        ("$.body.kind", vec!["foreign-path"]),
        (".body.kind", vec!["foreign-path"]),
        ("body.items[0].sku", vec!["foreign-path"]),
        ("body.items.-1.sku", vec!["foreign-path"]),
        ("body.items[*].sku", vec!["foreign-path"]),
        ("$.body.items[*]", vec!["foreign-path"]),
        ("body..kind", vec!["foreign-path"]),
        ("headers.X-Shop.0", vec!["path-outside-body"]),
        ("headers.X-Gitlab-Event.0", vec![]),
        ("headers.User-Agent.0", vec![]),
        ("body.action,body.kind", vec!["foreign-path"]),
        (" body.kind", vec!["blank-in-path"]),
        ("body .kind", vec!["blank-in-path"]),
        ("response_url", vec![]),
        ("kind", vec!["path-outside-body"]),
        ("Body.kind", vec!["path-outside-body"]),
        ("header.x-order-id.0", vec!["header-name"]),
        ("header.X-Order-Id", vec!["header-index"]),
        (
            "body.metadata.annotations.example.com/team",
            vec!["unescaped-key"],
        ),
    ] {
        assert_eq!(condition(path, "string", "", &["^x$"]), wanted, "{path}");
    }
}

#[test]
fn the_kind_of_source_decides_where_it_is_known() {
    let source = |kind: &str| {
        format!(
            "apiVersion: argoproj.io/v1alpha1\nkind: EventSource\nmetadata: {{name: web, namespace: shop}}\nspec: {{{kind}: {{orders: {{}}}}}}\n---\n"
        )
    };
    let with = |kind: &str, path: &str| {
        let filter = format!("data: [{{path: {path}, type: string, value: [\"^x$\"]}}]");
        found(&format!(
            "{}{}",
            source(kind),
            example(Place::Filters, &filter)
        ))
    };
    assert_eq!(with("webhook", "type"), ["path-outside-body"]);
    assert_eq!(with("webhook", "headers.X-A.0"), ["path-outside-body"]);
    assert!(with("nats", "header.my-id.0").is_empty());
    assert!(with("redisStream", "values.kind").is_empty());
    assert_eq!(with("webhook", "header.my-id.0"), ["header-name"]);
}

#[test]
fn files_without_a_sensor_are_passed_over_and_counted() {
    let inputs = [
        input("kind: ConfigMap\n"),
        Input {
            name: "chart.yaml".into(),
            text: "a: {{ .Values.x }}\nkind: Sensor\n".into(),
            named: false,
        },
        Input {
            name: "broken.yaml".into(),
            text: "kind: Sensor\na: [\n".into(),
            named: false,
        },
        Input {
            name: "two.yaml".into(),
            text: format!(
                "{}---\n{}",
                example(Place::Filters, "script: return true"),
                example(Place::Filters, "script: return 1")
            ),
            named: false,
        },
    ];
    let report = lint(&inputs, &[], &Options::default(), now());
    assert_eq!((report.sensors, report.passed_over), (2, 1));
    assert_eq!(report.not_read.len(), 1);
    let rules: Vec<_> = report
        .findings
        .iter()
        .map(|finding| (finding.file.as_str(), finding.rule))
        .collect();
    assert_eq!(
        rules,
        [("broken.yaml", "yaml"), ("two.yaml", "script-never-true")]
    );
    assert!(report.findings[1].line > 20);
}

#[test]
fn a_removed_trigger_is_found_by_what_was_there_before() {
    let before = example(
        Place::Triggers,
        "- template: {name: run, k8s: {source: {resource: {kind: Workflow, apiVersion: argoproj.io/v1alpha1, metadata: {generateName: a-}}}}}\n- template: {name: bill, k8s: {source: {resource: {kind: Workflow, apiVersion: argoproj.io/v1alpha1, metadata: {generateName: a-}}}}}",
    );
    let after = example(
        Place::Triggers,
        "- template: {name: run, k8s: {source: {resource: {kind: Workflow, apiVersion: argoproj.io/v1alpha1, metadata: {generateName: a-}}}}}",
    );
    let report = lint(
        &[input(&after)],
        &[input(&before)],
        &Options::default(),
        now(),
    );
    assert_eq!(report.findings.len(), 1);
    assert_eq!(report.findings[0].rule, "removed-trigger");
    assert!(report.findings[0].what.contains("bill"));
}

#[test]
fn refusals_point_at_the_part_that_is_refused() {
    for (lines, path) in [
        (
            "data:\n  - {path: body.a, type: string, value: [\"^a$\"]}\n  - {path: body.b, type: string, value: []}",
            "filters.data[1]",
        ),
        (
            "time: {start: \"25:00:00\", stop: \"18:00:00\"}",
            "filters.time",
        ),
        ("context: {}", "filters.context"),
        (
            "exprs:\n  - expr: a == 1\n    fields: []",
            "filters.exprs[0]",
        ),
    ] {
        let report = report(&example(Place::Filters, lines));
        let refused = report
            .findings
            .iter()
            .find(|finding| finding.rule == "refused");
        assert!(
            refused.is_some_and(|finding| finding.path.ends_with(path)),
            "{lines}: {:?}",
            report.findings
        );
    }
    let nothing = found("apiVersion: argoproj.io/v1alpha1\nkind: Sensor\nmetadata: {name: a}\n");
    assert_eq!(nothing, ["refused"]);
}

#[test]
fn values_that_are_no_texts_are_quoted() {
    let text = example(
        Place::Filters,
        "data: [{path: body.vip, type: bool, value: [true]}]",
    );
    assert!(found(&text).contains(&"wrong-type"));
    assert!(fixed(&text, false).contains("value: [\"true\"]"));
    let text = example(
        Place::Filters,
        "data: [{path: body.n, type: number, comparator: '>', value: [50.0, 60]}]",
    );
    assert!(fixed(&text, false).contains("value: [\"50.0\", \"60\"]"));
}

#[test]
fn nonsense_does_no_harm() {
    for text in [
        "",
        "---\n",
        "- 1\n",
        "kind: Sensor\n",
        "apiVersion: argoproj.io/v1\nkind: Sensor\nspec: 5\n",
        "apiVersion: argoproj.io/v1\nkind: Sensor\nspec: {dependencies: 5, triggers: {a: 1}}\n",
        "apiVersion: argoproj.io/v1\nkind: Sensor\nspec: {dependencies: [null, 1, {filters: []}], triggers: [null, [], {template: 1}]}\n",
    ] {
        let _ = report(text);
        let _ = fixed(text, true);
    }
    let deep = format!(
        "apiVersion: argoproj.io/v1\nkind: Sensor\nspec: {}1{}\n",
        "[".repeat(5000),
        "]".repeat(5000)
    );
    let _ = report(&deep);
}
