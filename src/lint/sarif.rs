//! Findings as SARIF 2.1.0, for code scanning.

use std::collections::HashMap;
use std::fmt::Write as _;
use std::path::Path;

use serde_json::{Value, json};
use sha2::{Digest, Sha256};

use super::render::explain;
use super::root;
use super::rule::{self, Rule};
use super::{Edit, Finding, Input, Report};

/// The root of the sources, which names of files are relative to.
const ROOT: &str = "%SRCROOT%";

/// One log with one run. `inputs` are the files that were checked, `root` the directory that names are relative to.
#[must_use]
pub fn sarif(report: &Report, inputs: &[Input], root: &Path) -> String {
    let writer = Writer {
        texts: inputs
            .iter()
            .map(|input| (input.name.as_str(), input.text.as_str()))
            .collect(),
        root,
    };
    let document = json!({
        "$schema": "https://json.schemastore.org/sarif-2.1.0.json",
        "version": "2.1.0",
        "runs": [{
            "tool": {"driver": {
                "name": "eventlab",
                "version": env!("CARGO_PKG_VERSION"),
                "rules": rule::all().map(rule_descriptor).collect::<Vec<_>>(),
            }},
            "invocations": [writer.invocation(report)],
            "columnKind": "unicodeCodePoints",
            "results": writer.results(report),
        }],
    });
    let mut text = serde_json::to_string_pretty(&document).unwrap_or_default();
    text.push('\n');
    text
}

fn rule_descriptor(rule: &Rule) -> Value {
    json!({
        "id": rule.id,
        "shortDescription": {"text": rule.summary},
        "fullDescription": {"text": rule.why},
        "help": {"text": explain(rule)},
        "defaultConfiguration": {"level": rule.level.as_str()},
    })
}

struct Writer<'i> {
    texts: HashMap<&'i str, &'i str>,
    root: &'i Path,
}

impl Writer<'_> {
    /// The files that were not read are no results, but what is said of the run.
    fn invocation(&self, report: &Report) -> Value {
        let notifications: Vec<Value> = report
            .not_read
            .iter()
            .map(|one| {
                json!({
                    "level": "error",
                    "message": {"text": message(&format!("not read: {}", one.why))},
                    "locations": [{"physicalLocation": {"artifactLocation": self.artifact(&one.file)}}],
                })
            })
            .collect();
        json!({
            "executionSuccessful": notifications.is_empty(),
            "toolExecutionNotifications": notifications,
        })
    }

    fn results(&self, report: &Report) -> Vec<Value> {
        let mut seen = HashMap::new();
        report
            .findings
            .iter()
            .map(|finding| {
                let print = self.fingerprint(finding);
                let count: &mut usize = seen.entry(print.clone()).or_default();
                *count += 1;
                let mut result = self.result(finding);
                result["partialFingerprints"] =
                    json!({"primaryLocationLineHash": format!("{print}:{count}")});
                result
            })
            .collect()
    }

    /// The same for the same finding after lines have been added or taken away elsewhere.
    fn fingerprint(&self, finding: &Finding) -> String {
        let (uri, _) = place(&finding.file, self.root);
        let parts: [&str; 4] = [finding.rule, &uri, &finding.path, &finding.what];
        let mut print = String::new();
        for byte in Sha256::digest(parts.join("\0")).iter().take(8) {
            let _ = write!(print, "{byte:02x}");
        }
        print
    }

    fn result(&self, finding: &Finding) -> Value {
        let text = match &finding.meant {
            Some(meant) => format!("{}. Meant: {meant}", finding.what),
            None => finding.what.clone(),
        };
        let mut result = json!({
            "ruleId": finding.rule,
            "ruleIndex": rule::all().position(|rule| rule.id == finding.rule),
            "level": finding.level.as_str(),
            "message": {"text": message(&text)},
            "locations": [{
                "physicalLocation": {
                    "artifactLocation": self.artifact(&finding.file),
                    "region": {"startLine": finding.line.max(1), "startColumn": finding.column.max(1)},
                },
                "logicalLocations": [{"fullyQualifiedName": finding.path}],
            }],
        });
        let text = self.texts.get(finding.file.as_str());
        if let (Some(fix), Some(text)) = (&finding.fix, text) {
            let replacements: Vec<Value> = fix
                .edits
                .iter()
                .map(|edit| replacement(text, edit))
                .collect();
            result["fixes"] = json!([{
                "description": {"text": message(&fix.title)},
                "artifactChanges": [{
                    "artifactLocation": self.artifact(&finding.file),
                    "replacements": replacements,
                }],
            }]);
        }
        result
    }

    fn artifact(&self, file: &str) -> Value {
        let (uri, is_relative) = place(file, self.root);
        match is_relative {
            true => json!({"uri": uri, "uriBaseId": ROOT}),
            false => json!({"uri": uri}),
        }
    }
}

fn replacement(text: &str, edit: &Edit) -> Value {
    let (start_line, start_column) = position(text, edit.bytes.start);
    let (end_line, end_column) = position(text, edit.bytes.end);
    json!({
        "deletedRegion": {
            "startLine": start_line, "startColumn": start_column, "endLine": end_line, "endColumn": end_column,
        },
        "insertedContent": {"text": edit.text},
    })
}

/// Line and column in characters, both from 1, without the mark that a file may begin with.
fn position(text: &str, byte: usize) -> (usize, usize) {
    let before = text.get(..byte).unwrap_or(text);
    let before = before.strip_prefix('\u{feff}').unwrap_or(before);
    let line = before.rsplit('\n').next().unwrap_or_default();
    (before.matches('\n').count() + 1, line.chars().count() + 1)
}

/// A message as consumers read it: braces would be placeholders, and brackets before parentheses links.
fn message(text: &str) -> String {
    text.replace('{', "{{")
        .replace('}', "}}")
        .replace("](", "\\](")
}

/// The name of a file as a URI reference, and whether it is relative to the root.
fn place(name: &str, root: &Path) -> (String, bool) {
    if name == "-" {
        return (name.to_owned(), false);
    }
    match root::inside(name, root) {
        Some(inside) => (encoded(&inside), true),
        None => {
            let whole = root::plain(&root.join(name));
            (format!("file://{}", encoded(&whole)), false)
        }
    }
}

fn encoded(path: &Path) -> String {
    let mut out = String::new();
    for byte in path.to_string_lossy().bytes() {
        if byte.is_ascii_alphanumeric() || b"/-._~".contains(&byte) {
            out.push(char::from(byte));
        } else {
            let _ = write!(out, "%{byte:02X}");
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::{message, place, position};

    #[test]
    fn files_are_named_from_the_root() {
        for (name, uri, is_relative) in [
            ("a.yaml", "a.yaml", true),
            ("./deploy/a.yaml", "deploy/a.yaml", true),
            ("deploy//b/../a.yaml", "deploy/a.yaml", true),
            ("/work/shop/a.yaml", "a.yaml", true),
            (
                "/work/shopping/a.yaml",
                "file:///work/shopping/a.yaml",
                false,
            ),
            ("../other/a.yaml", "file:///work/other/a.yaml", false),
            ("a b+é:#.yaml", "a%20b%2B%C3%A9%3A%23.yaml", true),
            ("-", "-", false),
        ] {
            let found = place(name, Path::new("/work/shop"));
            assert_eq!(found, (uri.to_owned(), is_relative), "{name}");
        }
    }

    #[test]
    fn positions_count_characters() {
        let text = "\u{feff}a: 1\r\né𝒳b: 2\n";
        for (at, wanted) in [("a: 1", (1, 1)), ("é", (2, 1)), ("b: 2", (2, 3))] {
            assert_eq!(position(text, text.find(at).unwrap()), wanted, "{at}");
        }
        assert_eq!(position(text, text.len()), (3, 1));
        assert_eq!(position(text, text.len() + 9), (3, 1));
    }

    #[test]
    fn messages_have_no_placeholders_and_no_links() {
        assert_eq!(message("`^[a](b){2}$`"), "`^[a\\](b){{2}}$`");
    }
}
