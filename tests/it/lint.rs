//! `eventlab lint`: files, directories, globs and stdin; formats, fixes and exit codes.

use std::path::Path;

use assert_cmd::Command;
use serde_json::Value;

const OPEN: &str = "apiVersion: argoproj.io/v1alpha1
kind: Sensor
metadata: {name: orders, namespace: shop}
spec:
  dependencies:
    - name: order
      eventSourceName: web
      eventName: orders
      filters:
        dataLogicalOperator: OR   # either of them
        data:
          - path: body.kind
            type: string
            value:
              - order.created # the kind
  triggers:
    - template:
        name: run
        k8s:
          source:
            resource: {apiVersion: argoproj.io/v1alpha1, kind: Workflow, metadata: {generateName: order-}}
";

fn lint_with(arguments: &[&str], stdin: &str) -> (i32, String, String) {
    let output = Command::new(env!("CARGO_BIN_EXE_eventlab"))
        .arg("lint")
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

fn lint(arguments: &[&str]) -> (i32, String, String) {
    lint_with(arguments, "")
}

fn text(path: &Path) -> &str {
    path.to_str().unwrap()
}

#[test]
fn findings_have_file_line_and_column() {
    let (code, out, err) = lint_with(&["-f", "-"], OPEN);
    assert_eq!(code, 1, "{err}");
    assert!(out.contains("-:10:30: error unknown-operator: "), "{out}");
    assert!(out.contains("-:15:17: warning unescaped-dot: "), "{out}");
    assert!(
        out.contains("-:15:17: warning unanchored-pattern: "),
        "{out}"
    );
    assert!(
        out.ends_with("1 Sensor checked: 1 error, 2 warnings, 0 notes\n"),
        "{out}"
    );
}

#[test]
fn a_mended_sensor_has_exit_code_0() {
    let good = OPEN
        .replace("OR ", "or ")
        .replace("- order.created", "- ^order\\.created$");
    let (code, out, _) = lint_with(&["-f", "-"], &good);
    assert_eq!((code, out.lines().count()), (0, 1), "{out}");
}

#[test]
fn fixes_are_written_in_place_and_keep_the_rest() {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("sensor.yaml");
    let link = directory.path().join("link.yaml");
    std::fs::write(&file, OPEN).unwrap();
    std::os::unix::fs::symlink(&file, &link).unwrap();
    let (code, _, err) = lint(&["-f", text(&link), "--fix"]);
    assert_eq!(code, 1, "the anchor is a suggestion");
    assert!(err.contains("2 fixed"), "{err}");
    let mended = std::fs::read_to_string(&file).unwrap();
    let wanted = OPEN
        .replace("Operator: OR ", "Operator: or ")
        .replace("- order.created #", "- 'order\\.created' #");
    assert_eq!(mended, wanted);
    assert!(std::fs::symlink_metadata(&link).unwrap().is_symlink());
    let (code, ..) = lint(&["-f", text(&file), "--fix-suggested"]);
    assert_eq!(code, 0);
    assert_eq!(
        std::fs::read_to_string(&file).unwrap(),
        wanted.replace("'order\\.created'", "'^order\\.created$'")
    );
    assert_eq!(
        std::fs::read_dir(directory.path()).unwrap().count(),
        2,
        "nothing is left behind"
    );
}

#[test]
fn mended_stdin_is_the_output() {
    let (code, out, _) = lint_with(&["-f", "-", "--fix", "--fix-suggested"], OPEN);
    assert_eq!(code, 0);
    assert!(
        out.starts_with("apiVersion") && out.contains("'^order\\.created$' # the kind"),
        "{out}"
    );
}

#[test]
fn directories_and_globs_are_looked_into() {
    let directory = tempfile::tempdir().unwrap();
    let inner = directory.path().join("a/b");
    std::fs::create_dir_all(&inner).unwrap();
    std::fs::create_dir_all(directory.path().join(".git")).unwrap();
    std::fs::write(inner.join("sensor.yml"), OPEN).unwrap();
    std::fs::write(directory.path().join(".git/sensor.yml"), OPEN).unwrap();
    std::fs::write(directory.path().join("service.yaml"), "kind: Service\n").unwrap();
    std::fs::write(directory.path().join("chart.yaml"), "kind: {{ .x }}\n").unwrap();
    std::fs::write(directory.path().join("notes.txt"), OPEN).unwrap();
    let (code, out, err) = lint(&["-f", text(directory.path())]);
    assert_eq!(code, 1, "{err}");
    assert!(
        out.ends_with(
            "chart.yaml: not read: it is a template; render it (`helm template …`) and check what comes out (`eventlab lint -f -`)\n1 Sensor checked: 1 error, 2 warnings, 0 notes; 1 file without a Sensor passed over; 1 file not read\n"
        ),
        "{out}"
    );
    let (_, out, err) = lint(&["-f", text(directory.path()), "--format", "github"]);
    assert!(
        err.contains("chart.yaml: not read") && !out.contains("chart"),
        "{err}"
    );
    let glob = format!("{}/**/*.yml", directory.path().display());
    let (_, out, _) = lint(&["-f", &glob]);
    assert!(out.contains("sensor.yml:15:17:"), "{out}");
    let (code, _, err) = lint(&["-f", &format!("{}/*.none", directory.path().display())]);
    assert_eq!(code, 2);
    assert!(err.contains("no file matches"), "{err}");
}

#[test]
fn a_file_that_cannot_be_read_hides_no_other() {
    let directory = tempfile::tempdir().unwrap();
    std::fs::write(directory.path().join("a.yaml"), b"\xff\xfe").unwrap();
    std::fs::write(directory.path().join("sensor.yaml"), OPEN).unwrap();
    let (code, out, err) = lint(&["-f", text(directory.path())]);
    assert_eq!(code, 2, "{out} {err}");
    assert!(out.contains("sensor.yaml:15:17:"), "{out}");
    assert!(
        out.contains("a.yaml: not read: it is not UTF-8") && out.contains("1 file not read"),
        "{out}"
    );
    let (code, out, err) = lint_with(&["-f", text(directory.path()), "-f", "-", "--fix"], OPEN);
    assert!(
        code == 2 && err.contains("a.yaml: not read: it is not UTF-8"),
        "{out} {err}"
    );
    let named = directory.path().join("a.yaml");
    let (code, _, err) = lint(&["-f", text(&named)]);
    assert!(code == 2 && err.contains("it is not UTF-8"), "{err}");
    let sensor = directory.path().join("sensor.yaml");
    let (code, _, err) = lint(&["-f", text(&sensor), "--previous", text(directory.path())]);
    assert!(code == 2 && err.contains("it is not UTF-8"), "{err}");
}

#[test]
fn directories_that_are_not_looked_into_are_told() {
    let directory = tempfile::tempdir().unwrap();
    let top = directory.path().join("top");
    let deep = top.join(vec!["d"; 66].join("/"));
    std::fs::create_dir_all(&deep).unwrap();
    std::fs::write(deep.join("sensor.yaml"), OPEN).unwrap();
    std::fs::write(top.join("sensor.yaml"), OPEN).unwrap();
    std::os::unix::fs::symlink(&deep, top.join("current")).unwrap();
    std::os::unix::fs::symlink(&top, top.join("round")).unwrap();
    let (_, out, err) = lint(&["-f", text(&top)]);
    assert!(out.contains("1 Sensor checked"), "{out}");
    assert!(
        err.contains("/top/current and 1 more: links to directories are not followed"),
        "{err}"
    );
    assert!(err.contains("so deep are not looked into"), "{err}");
    let (_, out, err) = lint(&["-f", text(&top), "-f", text(&top.join("current"))]);
    assert!(out.contains("2 Sensors checked"), "{out} {err}");
}

#[test]
fn a_json_file_is_mended_in_place_and_stays_json() {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("sensor.json");
    let object: Value = serde_saphyr::from_str(OPEN).unwrap();
    let list = serde_json::json!({"apiVersion": "v1", "kind": "List", "items": [object]});
    std::fs::write(&file, serde_json::to_string_pretty(&list).unwrap()).unwrap();
    let (_, _, err) = lint(&["-f", text(&file), "--fix", "--fix-suggested"]);
    assert!(
        err.contains("fixed") && !err.contains("left alone"),
        "{err}"
    );
    let mended: Value = serde_json::from_str(&std::fs::read_to_string(&file).unwrap()).unwrap();
    let filters = &mended["items"][0]["spec"]["dependencies"][0]["filters"];
    assert_eq!(filters["dataLogicalOperator"], "or");
    assert_eq!(filters["data"][0]["value"][0], r"^order\.created$");
    let (code, out, _) = lint(&["-f", text(&file)]);
    assert_eq!(code, 0, "{out}");
}

#[test]
fn a_file_that_the_fixes_would_change_elsewhere_is_left_alone_and_told() {
    let text = OPEN
        .replace("- order.created", "- &kind order.created")
        .replace("Operator: OR ", "Operator: or ")
        + "        labels: {kind: *kind}\n";
    let (_, out, err) = lint_with(&["-f", "-", "--fix"], &text);
    assert_eq!(out, text);
    assert!(err.is_empty() || err.contains("left alone"), "{err}");
}

#[test]
fn programs_can_read_the_findings() {
    let (_, out, _) = lint_with(&["-f", "-", "--format", "json"], OPEN);
    let json: Value = serde_json::from_str(&out).unwrap();
    assert_eq!(json["findings"][0]["rule"], "unknown-operator");
    assert_eq!(json["findings"][0]["fix"]["edits"][0]["text"], "or");
    let (code, out, err) = lint_with(&["-f", "-", "--format", "github"], OPEN);
    assert_eq!(code, 1);
    assert!(
        out.starts_with("::error file=-,line=10,col=30,title=eventlab unknown-operator::"),
        "{out}"
    );
    assert!(err.contains("1 Sensor checked"), "{err}");
}

/// A log of every kind of finding, by the rules of SARIF 2.1.0 and of GitHub's code scanning.
#[test]
fn every_finding_is_a_sound_result_of_code_scanning() {
    let directory = tempfile::tempdir().unwrap();
    let (_, rules, _) = lint(&["--list-rules"]);
    let rules: Vec<&str> = rules
        .lines()
        .filter_map(|line| line.split_whitespace().next())
        .collect();
    std::fs::create_dir(directory.path().join("a b")).unwrap();
    let file = directory.path().join("a b/sensor.yaml");
    // Twice the same Sensor: the same findings at other places.
    let wide = OPEN
        .replace("# the kind", "# é𝒳")
        .replace("order.created", "'^o[a](b.c|d){2}é.e'");
    let text = format!("\u{feff}{wide}---\n{wide}");
    std::fs::write(&file, &text).unwrap();
    std::fs::write(directory.path().join("chart.yaml"), "kind: {{ .x }}\n").unwrap();
    let output = Command::new(env!("CARGO_BIN_EXE_eventlab"))
        .current_dir(directory.path())
        .args(["lint", "-f", ".", "--format", "sarif"])
        .output()
        .unwrap();
    let sarif: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(sarif["version"], "2.1.0");
    let run = &sarif["runs"][0];
    let descriptors = run["tool"]["driver"]["rules"].as_array().unwrap();
    let ids: Vec<&str> = descriptors
        .iter()
        .map(|rule| rule["id"].as_str().unwrap())
        .collect();
    assert_eq!(ids, rules);
    for rule in descriptors {
        for field in ["shortDescription", "fullDescription", "help"] {
            let text = rule[field]["text"].as_str().unwrap_or_default();
            assert!(!text.is_empty() && text.len() < 10_000, "{field} of {rule}");
        }
    }
    assert_eq!(run["columnKind"], "unicodeCodePoints");
    let invocation = &run["invocations"][0];
    assert_eq!(invocation["executionSuccessful"], false, "{invocation}");
    let unread = &invocation["toolExecutionNotifications"][0]["locations"][0];
    assert_eq!(
        unread["physicalLocation"]["artifactLocation"]["uri"],
        "chart.yaml"
    );
    let results = run["results"].as_array().unwrap();
    let mut prints = std::collections::BTreeSet::new();
    let lines: Vec<&str> = text.trim_start_matches('\u{feff}').split('\n').collect();
    for result in results {
        let place = &result["locations"][0]["physicalLocation"];
        assert_eq!(place["artifactLocation"]["uri"], "a%20b/sensor.yaml");
        assert_eq!(place["artifactLocation"]["uriBaseId"], "%SRCROOT%");
        let index = result["ruleIndex"].as_u64().unwrap() as usize;
        assert_eq!(ids[index], result["ruleId"]);
        assert!(["error", "warning", "note"].contains(&result["level"].as_str().unwrap()));
        let message = result["message"]["text"].as_str().unwrap();
        let without = message
            .replace("{{", "")
            .replace("}}", "")
            .replace("\\](", "");
        assert!(
            !without.contains(['{', '}']) && !without.contains("]("),
            "{message}"
        );
        let print = result["partialFingerprints"]["primaryLocationLineHash"]
            .as_str()
            .unwrap();
        assert!(prints.insert(print), "twice: {print}");
        let mut regions = vec![&place["region"]];
        let replacements = &result["fixes"][0]["artifactChanges"][0]["replacements"];
        for replacement in replacements.as_array().into_iter().flatten() {
            regions.push(&replacement["deletedRegion"]);
            assert!(
                replacement["insertedContent"]["text"].is_string(),
                "{replacement}"
            );
        }
        for region in regions {
            let of = |key: &str| region[key].as_u64().map(|number| number as usize);
            let (line, column) = (of("startLine").unwrap(), of("startColumn").unwrap());
            let length = lines[line - 1].chars().count();
            assert!(column >= 1 && column <= length + 1, "{result}");
            let (end_line, end_column) = (of("endLine").unwrap_or(line), of("endColumn"));
            assert!(
                (end_line, end_column.unwrap_or(column + 1)) >= (line, column),
                "{result}"
            );
        }
    }
    assert!(results.iter().any(|result| result["fixes"].is_array()));
    let half = results.len() / 2;
    assert!(half > 1 && half * 2 == results.len());
    // What stands elsewhere changes no fingerprint.
    std::fs::write(&file, format!("# more\n\n{wide}")).unwrap();
    let output = Command::new(env!("CARGO_BIN_EXE_eventlab"))
        .current_dir(directory.path())
        .args(["lint", "-f", "./a b/sensor.yaml", "--format", "sarif"])
        .output()
        .unwrap();
    let sarif: Value = serde_json::from_slice(&output.stdout).unwrap();
    let moved = sarif["runs"][0]["results"].as_array().unwrap();
    assert_eq!(moved.len(), half);
    for result in moved {
        let print = result["partialFingerprints"]["primaryLocationLineHash"]
            .as_str()
            .unwrap();
        assert!(prints.contains(print), "{result}");
    }
    assert_eq!(
        sarif["runs"][0]["invocations"][0]["executionSuccessful"],
        true
    );
}

#[test]
fn annotations_name_files_from_the_directory_of_the_job() {
    let directory = tempfile::tempdir().unwrap();
    std::fs::write(directory.path().join("sensor.yaml"), OPEN).unwrap();
    let whole = directory.path().canonicalize().unwrap().join("sensor.yaml");
    for name in [".", "./sensor.yaml", text(&whole)] {
        let output = Command::new(env!("CARGO_BIN_EXE_eventlab"))
            .current_dir(directory.path())
            .args(["lint", "-f", name, "--format", "github"])
            .output()
            .unwrap();
        let out = String::from_utf8(output.stdout).unwrap();
        assert!(
            out.starts_with("::error file=sensor.yaml,line=10,"),
            "{name}: {out}"
        );
    }
}

#[test]
fn rules_are_listed_explained_allowed_and_denied() {
    let (code, out, _) = lint(&["--list-rules"]);
    assert!(code == 0 && out.lines().count() > 40, "{out}");
    let (code, out, _) = lint(&["--explain", "unescaped-dot"]);
    assert!(code == 0 && out.contains("order.created"), "{out}");
    let (code, _, err) = lint(&["--explain", "unescaped"]);
    assert!(
        code == 2 && err.contains("did you mean unescaped-dot"),
        "{err}"
    );
    let rules = "unknown-operator,unescaped-dot,unanchored-pattern";
    let (code, out, _) = lint_with(&["-f", "-", "--allow", rules], OPEN);
    assert_eq!((code, out.lines().count()), (0, 1), "{out}");
    let flag = OPEN.replace("OR ", "and ").replace(
        "- order.created # the kind",
        "- ^order$\n          - {path: body.kind, type: string, comparator: '!=', value: ['^test$']}",
    );
    assert_eq!(lint_with(&["-f", "-"], &flag).0, 0);
    assert_eq!(
        lint_with(&["-f", "-", "--deny", "missing-field"], &flag).0,
        1
    );
    assert_eq!(lint_with(&["-f", "-", "--deny", "nonsense"], &flag).0, 2);
}

#[test]
fn what_cannot_be_read_is_told() {
    for (arguments, stdin, told) in [
        (
            vec!["-f", "/nowhere/sensor.yaml"],
            "",
            "cannot read /nowhere/sensor.yaml",
        ),
        (vec![], "", "--file"),
    ] {
        let (code, _, err) = lint_with(&arguments, stdin);
        assert!(code == 2 && err.contains(told), "{err}");
    }
    let (code, out, _) = lint_with(&["-f", "-"], "kind: [\n");
    assert!(code == 1 && out.contains("error yaml:"), "{out}");
}

/// What the reference solutions of the labs have wrong is what these labs are about, and nothing else.
#[test]
fn solutions_of_the_labs_have_no_error() {
    let manifests = Path::new(env!("CARGO_MANIFEST_DIR")).join("manifests");
    let (_, out, _) = lint(&["-f", text(&manifests), "--format", "json"]);
    let report: Value = serde_json::from_str(&out).unwrap();
    let errors: Vec<&Value> = report["findings"]
        .as_array()
        .unwrap()
        .iter()
        .filter(|finding| {
            finding["level"] == "error" && finding["file"].as_str().unwrap().contains("solution")
        })
        .collect();
    assert!(errors.is_empty(), "{errors:#?}");
}

/// Of nothing nothing is found, and that is no good news: what should have written it has failed.
#[test]
fn an_empty_stdin_is_no_clean_sensor() {
    for nothing in ["", "\n \n"] {
        let (code, out, err) = lint_with(&["-f", "-"], nothing);
        assert_eq!((code, out.as_str()), (2, ""), "{err}");
        assert!(err.contains("stdin: it is empty"), "{err}");
    }
}

/// What is read as something else than a text becomes the text that its author wrote, not what it was read as.
#[test]
fn a_fix_puts_quotes_around_what_is_written() {
    for word in [
        "NO", "No", "no", "n", "N", "yes", "y", "Y", "on", "OFF", "True", "true", "FALSE", "0x1F",
        "010", "1e3", "1_000", "-5",
    ] {
        let text = OPEN.replace("order.created # the kind", word).replace(
            "dataLogicalOperator: OR   # either of them",
            "dataLogicalOperator: or",
        );
        let (_, mended, err) = lint_with(&["-f", "-", "--fix"], &text);
        let wanted = text.replace(
            &format!("              - {word}\n"),
            &format!("              - \"{word}\"\n"),
        );
        assert_eq!(mended, wanted, "{word}: {err}");
        let parameter = format!(
            "          parameters:\n            - {{src: {{dependencyName: order, dataKey: body.id}}, dest: {word}}}\n"
        );
        let text = format!("{OPEN}{parameter}").replace(": OR ", ": or ");
        let (_, mended, err) = lint_with(&["-f", "-", "--fix"], &text);
        assert!(
            mended.contains(&format!("dest: \"{word}\"")),
            "{word}: {err}\n{mended}"
        );
    }
    // Where a boolean is compared it is meant, and `yes` is none there.
    for (word, truth) in [("yes", "true"), ("True", "true"), ("NO", "false")] {
        let text = OPEN
            .replace("order.created # the kind", word)
            .replace("type: string", "type: bool");
        let (_, mended, _) = lint_with(&["-f", "-", "--fix"], &text);
        assert!(
            mended.contains(&format!("- \"{truth}\"\n")),
            "{word}: {mended}"
        );
    }
    // A tag would make the same of it again.
    let tagged = OPEN.replace("order.created # the kind", "!!bool yes");
    let (_, mended, _) = lint_with(&["-f", "-", "--fix"], &tagged);
    assert!(mended.contains("- !!bool yes\n"), "{mended}");
}

/// An empty list does not reach the Sensor's pod: what is told of it says so, with either operator.
#[test]
fn an_empty_list_is_told_as_what_it_is() {
    let list = OPEN
        .split("          - path: body.kind\n")
        .nth(1)
        .and_then(|rest| rest.split("  triggers:\n").next())
        .unwrap();
    let empty = |operator: &str, more: &str| {
        let text = OPEN
            .replace(
                &format!("        data:\n          - path: body.kind\n{list}"),
                &format!("        data: []\n{more}"),
            )
            .replace("        dataLogicalOperator: OR   # either of them\n", "")
            .replace(
                "      filters:\n",
                &format!("      filtersLogicalOperator: {operator}\n      filters:\n"),
            );
        let (_, out, err) = lint_with(&["-f", "-"], &text);
        assert!(out.contains("empty-filters"), "{text}\n{out}{err}");
        assert!(out.contains("hands no empty list"), "{out}");
        out
    };
    assert!(empty("and", "").contains("every event passes"));
    assert!(empty("or", "").contains("every event is dropped"));
    let other = "        context: {type: webhook}\n";
    for operator in ["and", "or"] {
        assert!(empty(operator, other).contains("the other groups decide"));
    }
}

/// A payload has no place for what is skipped elsewhere.
#[test]
fn an_unknown_dependency_of_a_payload_ends_the_pod() {
    let trigger = |list: &str, source: &str, dest: &str| {
        let head = OPEN.split("        k8s:\n").next().unwrap();
        format!(
            "{head}        kafka:\n          url: a\n          topic: b\n          {list}: [{{src: {{dependencyName: zz, dataKey: body.x{source}}}, dest: \"{dest}\"}}]\n"
        )
    };
    for (list, source, dest, said) in [
        ("payload", "", "x", "nil pointer dereference"),
        ("payload", "", "", "skipped without a word"),
        ("payload", ", value: a", "x", "its default is always used"),
        ("parameters", "", "topic", "skipped without a word"),
    ] {
        let (_, out, err) = lint_with(&["-f", "-"], &trigger(list, source, dest));
        let told = out.lines().find(|line| line.contains("unknown-dependency"));
        assert!(
            told.is_some_and(|line| line.contains(said)),
            "{said}: {out}{err}"
        );
    }
}
