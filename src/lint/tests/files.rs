//! What counts as a Sensor that was read.

use super::super::rule::{Place, example};
use super::super::{Input, Options, Report, lint};
use super::{input, now, report};

fn found_in_directory(text: &str) -> Report {
    let input = Input {
        named: false,
        ..input(text)
    };
    lint(&[input], &[], &Options::default(), now())
}

#[test]
fn the_items_of_a_list_are_checked_at_their_places() {
    let sensor = example(Place::Filters, "script: return 1");
    let item: String = sensor
        .lines()
        .enumerate()
        .map(|(place, line)| format!("{}{line}\n", if place == 0 { "  - " } else { "    " }))
        .collect();
    let bare: String = item.replace(
        "  - apiVersion: argoproj.io/v1alpha1\n    kind: Sensor\n    metadata",
        "  - metadata",
    );
    assert_ne!(bare, item);
    for (head, items) in [
        ("apiVersion: v1\nkind: List\n", format!("{item}{item}")),
        (
            "apiVersion: argoproj.io/v1alpha1\nkind: SensorList\n",
            format!("{item}{bare}"),
        ),
    ] {
        let report = report(&format!("{head}items:\n{items}"));
        let rules: Vec<_> = report.findings.iter().map(|finding| finding.rule).collect();
        assert_eq!(report.sensors, 2);
        assert_eq!(rules, ["script-never-true"; 2], "{:?}", report.findings);
        assert!(report.findings[0].line < report.findings[1].line);
        let script = |finding: &super::super::Finding| finding.path.contains("filters.script");
        assert!(report.findings.iter().all(script));
    }
    let other =
        report("apiVersion: v1\nkind: List\nitems:\n  - {apiVersion: v1, kind: ConfigMap}\n");
    assert_eq!((other.sensors, other.passed_over), (0, 1));
    for odd in [
        "kind: List\n",
        "kind: List\nitems: 5\n",
        "kind: List\nitems: [1, null]\n",
    ] {
        assert_eq!(report(odd).sensors, 0);
    }
}

#[test]
fn a_sensor_that_cannot_be_read_is_not_passed_over() {
    for kind in [
        "kind: Sensor",
        "kind: Sensor # ours",
        "kind: \"Sensor\"",
        "kind: 'Sensor'",
        "kind:   Sensor\r",
        "{\"kind\": \"Sensor\"",
        "{\"kind\" : \"Sensor\",",
        "  kind: Sensor",
        "kind: SensorList",
    ] {
        let report = found_in_directory(&format!("{kind}\na: [\n"));
        let rules: Vec<_> = report.findings.iter().map(|finding| finding.rule).collect();
        assert_eq!((rules, report.passed_over), (vec!["yaml"], 0), "{kind}");
        let template = found_in_directory(&format!("{kind}\na: {{{{ .Values.a }}}}\nb: [\n"));
        assert_eq!(template.not_read.len(), 1, "{kind}");
        assert_eq!(
            (template.findings.len(), template.passed_over),
            (0, 0),
            "{kind}"
        );
    }
    for (text, template) in [
        ("kind: {{ .Values.kind }}\n", true),
        ("kind: {{ .x }}\n", true),
        ("kind: Sensor\n{{- if .x }}\na: 1\n{{ end }}\n", true),
        ("kind: Sensor\na: {{ include \"name\" . }}\n", true),
        // What stands in braces is the Sensor's own, and is not quoted.
        ("kind: Sensor\na: {{ .Input.body.kind }}\n", false),
        ("kind: Sensor\na: {{inputs.parameters.order}}\n", false),
        (
            "kind: Sensor\na: \"{{ if .Input.x }}y{{ end }}\"\nb: [\n",
            false,
        ),
    ] {
        let report = found_in_directory(text);
        let counts = (report.not_read.len(), report.findings.len());
        assert_eq!(counts, if template { (1, 0) } else { (0, 1) }, "{text}");
    }
    for other in [
        "kind: SensorX\na: [\n",
        "kind: EventSource\na: [\n",
        "a: [\n",
    ] {
        let report = found_in_directory(other);
        assert_eq!(
            (report.findings.len(), report.passed_over),
            (0, 1),
            "{other}"
        );
    }
}
