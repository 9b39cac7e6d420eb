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
    ] {
        let found = filters(&format!("script: |\n  {script}"));
        assert_eq!(found.contains(&"script-never-true"), never, "{script}");
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
    ] {
        let text = good.replace("{unit: Second, requestsPerUnit: 5}", limit);
        assert_eq!(
            found(&example(Place::Triggers, &text)).contains(&"rate-limit"),
            wrong,
            "{limit}"
        );
    }
}
