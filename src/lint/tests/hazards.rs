//! Hazards by kind: each in the shapes that people write it in, beside those that are right.

use super::super::rule::{self, Place, example};
use super::{filters, found, report};

#[test]
fn what_the_sensor_itself_says_of_absent_fields_is_held_against_its_conditions() {
    let sensor = |filters: &str, parameter: &str| {
        let parameters = format!(
            "          parameters:\n            - src: {parameter}\n              dest: metadata.labels.a\n"
        );
        found(&(example(Place::Filters, filters) + &parameters))
    };
    let default = "{dependencyName: order, dataKey: body.vip, value: none}";
    let of_bool = "data: [{path: body.vip, type: bool, value: [\"true\"]}]";
    let of_expression = "exprs: [{expr: vip == 'x', fields: [{name: vip, path: body.vip}]}]";
    for filters in [of_bool, of_expression] {
        assert!(
            sensor(filters, default).contains(&"missing-field"),
            "{filters}"
        );
        for other in [
            "{dependencyName: order, dataKey: body.vip}",
            "{dependencyName: order, dataKey: body.other, value: none}",
            "{dependencyName: other, dataKey: body.vip, value: none}",
        ] {
            assert!(
                !sensor(filters, other).contains(&"missing-field"),
                "{other}"
            );
        }
    }
    let alternatives = format!("dataLogicalOperator: or\n{of_bool}");
    assert!(!sensor(&alternatives, default).contains(&"missing-field"));
}

#[test]
fn scripts_that_pass_nothing_are_found_whatever_functions_return() {
    for (script, never) in [
        ("if event.body.x then return false end return nil", true),
        ("local function ok() return true end ok()", true),
        ("local function ok() return true end return ok()", false),
        ("if event.body.x then return false end return true", false),
        ("return tostring(true)", true),
        ("return tostring(event.body.ok) == 'true'", false),
        ("return event.body.kind == 'a' and 'yes'", true),
        ("return event.body.kind == 'a', 'kind'", true),
        ("return True", true),
    ] {
        let found = filters(&format!("script: |\n  {script}"));
        assert_eq!(found.contains(&"script-never-true"), never, "{script}");
    }
}

#[test]
fn what_a_script_without_true_does_is_told_as_it_is() {
    let told = |script: &str, operator: &str| {
        let text = example(
            Place::Filters,
            &format!(
                "data: [{{path: body.a, type: string, value: [\"^a$\"]}}]\nscript: |\n  {script}"
            ),
        );
        let text = text.replacen(
            "filters:",
            &format!("filtersLogicalOperator: {operator}\n      filters:"),
            1,
        );
        let findings = report(&text).findings;
        let mut told = findings
            .iter()
            .filter(|finding| finding.rule == "script-never-true");
        told.next()
            .map(|finding| finding.what.clone())
            .unwrap_or_default()
    };
    for (script, operator, what) in [
        ("return 'x'", "and", "only a text, so no event passes"),
        (
            "return 'x'",
            "or",
            "only a text, so it lets no event through",
        ),
        (
            "if event.x then return 1 end",
            "and",
            "only a number or nothing, so no event passes",
        ),
        (
            "return Event.body.x",
            "or",
            "always ends in an error, so no event passes",
        ),
    ] {
        let told = told(script, operator);
        assert!(told.ends_with(what), "{script}, {operator}: {told}");
    }
}

#[test]
fn expressions_that_fit_no_event_are_found() {
    for (expr, wrong) in [
        ("x == '1' & x == '2'", true),
        ("x == '1' && y == '2'", false),
        ("x == '1' || x == '2'", false),
        ("x & 1 == 1", false),
        ("x > 1 && y =~ 'a'", false),
        ("!x", false),
        ("x - 'a' > 1", true),
        ("x == 'a & b'", false),
        // Lists and objects are values, too.
        ("'a' in x", false),
        ("x in y", false),
        ("!('a' in x) && y == 'b'", false),
        ("x == y", false),
        ("x ?? 'none' == 'a'", false),
        ("'a' in 'abc'", true),
    ] {
        let fields = "fields: [{name: x, path: body.x}, {name: y, path: body.y}]";
        let quoted = serde_json::to_string(expr).unwrap();
        let found = filters(&format!("exprs: [{{expr: {quoted}, {fields}}}]"));
        assert_eq!(
            found.contains(&"bad-expression"),
            wrong,
            "{expr}: {found:?}"
        );
    }
}

#[test]
fn templates_that_look_beside_their_data_are_found() {
    for (template, wrong) in [
        ("{{ .body.m }}", true),
        ("{{.body.m}}", true),
        ("{{- .kind -}}", true),
        ("{{ if eq .Input.a 1 }}{{ .b | upper }}{{ end }}", true),
        ("{{ (index .Input \"a\").b }}", false),
        ("{{ .Input.body.m }}", false),
        ("{{ . }}", false),
        ("{{ \".body\" }}", false),
        ("{{ range .Input.items }}{{ .sku }}{{ end }}", false),
        ("{{ with .Input }}{{ .a }}{{ end }}", false),
        ("{{/* .body */}}{{ .Input }}", false),
        ("{{ printf \"%v .a\" .Input }}", false),
        ("a.b {{ .Input }}", false),
        ("{{ mul .Input .5 }}", false),
    ] {
        let quoted = serde_json::to_string(template).unwrap();
        let found = filters(&format!(
            "data: [{{path: body.a, type: string, template: {quoted}, value: [\"^a$\"]}}]"
        ));
        assert_eq!(found.contains(&"template-data"), wrong, "{template}");
    }
}

#[test]
fn what_the_api_server_refuses_is_found() {
    let good = rule::find("object-name").unwrap().good;
    for (name, wrong) in [
        ("orders", false),
        ("orders.v2-x", false),
        ("Orders", true),
        ("orders_new", true),
        ("-orders", true),
        ("orders-", true),
        ("a..b", true),
    ] {
        let text = good.replace("orders-new", name);
        assert_eq!(found(&text).contains(&"object-name"), wrong, "{name}");
        let text = good.replace("generateName: order-", &format!("name: {name}"));
        assert_eq!(found(&text).contains(&"object-name"), wrong, "{name}");
    }
    for (prefix, wrong) in [
        ("order-", false),
        ("order", false),
        ("Order-", true),
        ("_o", true),
    ] {
        let text = good.replace("generateName: order-", &format!("generateName: {prefix}"));
        assert_eq!(found(&text).contains(&"object-name"), wrong, "{prefix}");
    }
    for (version, wrong) in [
        ("argoproj.io/v1alpha1", false),
        ("argoproj.io/v1", true),
        ("argoproj.io", true),
        ("argoproj.io/v1beta1", true),
    ] {
        let text = good.replacen("argoproj.io/v1alpha1", version, 1);
        assert_eq!(found(&text).contains(&"api-version"), wrong, "{version}");
    }
    let none = good.replacen("apiVersion: argoproj.io/v1alpha1\n", "", 1);
    assert!(found(&none).contains(&"api-version"));
    let other = good.replacen("argoproj.io/v1alpha1", "sensors.example/v1", 1);
    assert_eq!(report(&other).sensors, 0);
}

#[test]
fn context_attributes_are_no_patterns() {
    for (context, wrong) in [
        ("type: web*", true),
        ("subject: '^orders$'", true),
        ("source: orders", false),
        ("datacontenttype: application/*", false),
    ] {
        let found = filters(&format!("context: {{{context}}}"));
        assert_eq!(found.contains(&"context-pattern"), wrong, "{context}");
    }
}

#[test]
fn a_rate_is_at_least_one() {
    let good = rule::find("rate-limit").unwrap().good;
    for (limit, wrong) in [
        ("{unit: Second, requestsPerUnit: 0}", true),
        ("{unit: Minute}", true),
        ("{requestsPerUnit: -1}", true),
        ("{requestsPerUnit: 1}", false),
        ("{requestsPerUnit: '5'}", false),
        ("null", false),
    ] {
        let text = good.replace("{unit: Second, requestsPerUnit: 5}", limit);
        assert_eq!(
            found(&example(Place::Triggers, &text)).contains(&"rate-limit"),
            wrong,
            "{limit}"
        );
    }
}

#[test]
fn keys_with_a_host_are_escaped_as_a_whole() {
    for (path, mended) in [
        (
            "body.metadata.labels.app.kubernetes.io/name",
            r"body.metadata.labels.app\.kubernetes\.io/name",
        ),
        (
            "body.annotations.shop.example/build.number",
            r"body.annotations.shop\.example/build\.number",
        ),
        (
            "body.spec.nodeSelector.kubernetes.io/os",
            r"body.spec.nodeSelector.kubernetes\.io/os",
        ),
        (
            "body.selector.matchLabels.a.b/c",
            r"body.selector.matchLabels.a\.b/c",
        ),
        // Where the key begins is not known.
        (
            "body.meta.app.kubernetes.io/name",
            "body.meta.app.kubernetes.io/name",
        ),
        // Not a key with dots.
        (
            r"body.labels.app\.kubernetes\.io/name",
            r"body.labels.app\.kubernetes\.io/name",
        ),
        ("body.labels.team/name", "body.labels.team/name"),
        ("body.labels.0.team/name", "body.labels.0.team/name"),
        ("body.paths.src/main", "body.paths.src/main"),
        ("body.a.files.dev/null", "body.a.files.dev/null"),
        ("body.repo.example.com/x", "body.repo.example.com/x"),
        ("body.notkubernetes.io/x", "body.notkubernetes.io/x"),
        ("body.labels.app", "body.labels.app"),
    ] {
        let condition = format!("data: [{{path: '{path}', type: string, value: ['^a$']}}]");
        let text = example(Place::Filters, &condition);
        let is_found = found(&text).contains(&"unescaped-key");
        assert_eq!(
            is_found,
            path != mended || path.contains("meta.app"),
            "{path}"
        );
        let mended = text.replace(path, mended);
        assert_eq!(super::fixed(&text, false), mended, "{path}");
    }
}

/// What is tried in all combinations is left out where there would be too many, and nothing is claimed then.
#[test]
fn long_lists_are_not_tried_in_all_combinations() {
    let many = |make: &dyn Fn(usize) -> String| {
        let all: Vec<String> = (0..3_000).map(make).collect();
        all.join(", ")
    };
    let of = |first: &str, second: &str, kind: &str| {
        let dependency = |name: &str, values: &str| {
            format!(
                "  - {{name: {name}, eventSourceName: web, eventName: orders, filters: {{data: [{{path: body.k, type: {kind}, value: [{values}]}}]}}}}\n"
            )
        };
        example(
            Place::Spec,
            &format!(
                "dependencies:\n{}{}triggers:\n  - template: {{name: run, log: {{}}, conditions: a || b}}\n",
                dependency("a", first),
                dependency("b", second)
            ),
        )
    };
    for (kind, one, other) in [
        (
            "number",
            many(&|n| format!("'{n}'")),
            many(&|n| format!("'{}'", n + 3_000)),
        ),
        (
            "string",
            many(&|n| format!("'^a{n}$'")),
            many(&|n| format!("'^b{n}$'")),
        ),
    ] {
        assert!(
            !found(&of(&one, &other, kind)).contains(&"two-dependencies-on-one-event"),
            "{kind}"
        );
    }
    let fields = ["a", "b", "c", "d"].map(|name| format!("{{name: {name}, path: body.{name}}}"));
    for (length, wrong) in [(1, true), (5_000, false)] {
        let sum = vec!["1"; length].join(" + ");
        let text = format!(
            "exprs: [{{expr: 'a + b + c + d + ({sum} + true)', fields: [{}]}}]",
            fields.join(", ")
        );
        let is_found = found(&example(Place::Filters, &text)).contains(&"bad-expression");
        assert_eq!(is_found, wrong, "{length}");
    }
}

/// Of two dependencies on one event whose filters exclude each other nothing is to be said.
#[test]
fn dependencies_on_one_event_may_exclude_each_other() {
    let condition =
        |kind: &str, value: &str| format!("{{path: body.k, type: {kind}, value: ['{value}']}}");
    let of = |first: &str, second: &str| {
        let dependency = |name: &str, more: &str| {
            format!("  - {{name: {name}, eventSourceName: web, eventName: orders, {more}}}\n")
        };
        let lines = format!(
            "dependencies:\n{}{}triggers:\n  - template: {{name: t, conditions: a && b, log: {{}}}}\n",
            dependency("a", first),
            dependency("b", second)
        );
        found(&example(Place::Spec, &lines)).contains(&"two-dependencies-on-one-event")
    };
    let data = |condition: &str| format!("filters: {{data: [{condition}]}}");
    for (kind, first, second, both) in [
        ("string", "^order$", "^refund$", false),
        ("string", r"^order\.created$", "^refund", false),
        ("string", "^refund", r"^order\.created$", false),
        ("string", "^order$", "^ord", true),
        ("string", "^order.created$", "^order-created$", true),
        ("string", "order", "^refund$", false),
        ("string", "order", "refund", true),
        ("string", "^order$", "^order$", true),
        ("bool", "true", "false", false),
        ("bool", "true", "1", true),
        ("bool", "maybe", "false", true),
        ("number", "1", "2", false),
        ("number", "1", "1.0", true),
    ] {
        let (one, other) = (
            data(&condition(kind, first)),
            data(&condition(kind, second)),
        );
        assert_eq!(of(&one, &other), both, "{kind} {first} {second}");
    }
    let (order, refund) = (
        condition("string", "^order$"),
        condition("string", "^refund$"),
    );
    for (one, other, both) in [
        (
            data(&format!(
                "{order}, {{path: body.x, type: bool, value: ['true']}}"
            )),
            data(&refund),
            false,
        ),
        (
            format!(
                "filters: {{dataLogicalOperator: or, data: [{order}, {{path: body.x, type: bool, value: ['true']}}]}}"
            ),
            data(&refund),
            true,
        ),
        (
            format!("filtersLogicalOperator: or, {}", data(&order)),
            data(&refund),
            true,
        ),
        (
            format!("transform: {{jq: '.'}}, {}", data(&order)),
            data(&refund),
            true,
        ),
        (
            data(&order.replace("body.k", "body.l")),
            data(&refund),
            true,
        ),
        (
            data(&order.replace("type:", "comparator: '!=', type:")),
            data(&refund),
            true,
        ),
        (
            data(&order),
            data(&order.replace("type:", "comparator: '!=', type:")),
            false,
        ),
        (
            data(&order.replace("type:", "template: '{{ .Input }}', type:")),
            data(&refund),
            true,
        ),
        (data(&order), "description: x".to_owned(), true),
    ] {
        assert_eq!(of(&one, &other), both, "{one} / {other}");
    }
}
