//! Hazards in Sensors: what Argo Events will do with a manifest that its author probably did not mean.
//!
//! From above: [`lint`] over texts, [`fix::apply`], [`rule::all`] rules, [`render`] for people and [`sarif`] for programs.
//! Every finding is tried on the Sensor's own semantics where that can be done; nothing is read, sent or written here.

mod check;
mod finding;
pub mod fix;
mod known;
pub mod render;
mod root;
pub mod rule;
pub mod sarif;
mod site;
mod tree;
mod world;

use std::collections::{BTreeMap, BTreeSet};

use jiff::Timestamp;
use serde::Serialize;

pub use finding::{Edit, Finding, Fix, Level};
use site::Site;
use tree::Node;
use world::{World, is_sensor};

/// The spec of a Sensor as Argo Events decodes it: without the fields that it ignores.
#[must_use]
pub fn decoded_spec(spec: &serde_json::Value) -> serde_json::Value {
    known::only(known::Level::Spec, spec)
}

/// A file as it was read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Input {
    /// As it was named.
    pub name: String,
    /// What it holds.
    pub text: String,
    /// It was named itself, not found in a directory: then it should be YAML.
    pub named: bool,
}

/// What to look for.
#[derive(Clone, Debug, Default)]
pub struct Options {
    /// Rules whose findings are left out.
    pub allowed: BTreeSet<String>,
    /// Rules whose findings count as errors.
    pub denied: BTreeSet<String>,
}

/// All findings, in the order of files and lines.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Report {
    /// What was found.
    pub findings: Vec<Finding>,
    /// Sensors that were checked.
    pub sensors: usize,
    /// Files without a Sensor, which were passed over.
    pub passed_over: usize,
    /// Files found in directories that are no YAML yet and may hold a Sensor.
    pub not_read: Vec<NotRead>,
}

/// A file that could not be looked at.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct NotRead {
    /// The file as it was named.
    pub file: String,
    /// Why, and what to do.
    pub why: String,
}

impl Report {
    /// Whether something was found that is worse than a note.
    #[must_use]
    pub fn fails(&self) -> bool {
        self.findings
            .iter()
            .any(|finding| finding.level > Level::Note)
    }
}

/// A file and its documents.
struct Read<'i> {
    input: &'i Input,
    documents: Vec<Node>,
    twice: Option<tree::Unreadable>,
}

/// Checks the Sensors of some files; what else is in them (EventSources, roles) is taken into account.
///
/// `previous` are files with the same Sensors as they were before; `now` is the day on which time windows are tried.
#[must_use]
pub fn lint(inputs: &[Input], previous: &[Input], options: &Options, now: Timestamp) -> Report {
    let mut report = Report::default();
    let mut files = Vec::new();
    for input in inputs {
        match tree::read(&input.text) {
            Ok((documents, twice)) => files.push(Read {
                input,
                documents: documents.into_iter().flat_map(tree::items).collect(),
                twice,
            }),
            Err(error) if input.named => report.findings.push(unreadable(input, &error)),
            Err(error) if may_be_a_sensor(&input.text) => {
                if is_template(&input.text) {
                    report.not_read.push(template(input));
                } else {
                    report.findings.push(unreadable(input, &error));
                }
            }
            Err(_) => report.passed_over += 1,
        }
    }
    let mut world = World::default();
    for document in files.iter().flat_map(|file| &file.documents) {
        world.add(document);
    }
    let before: Vec<Node> = previous
        .iter()
        .filter_map(|input| tree::read(&input.text).ok())
        .flat_map(|(documents, _)| documents)
        .flat_map(tree::items)
        .filter(is_sensor)
        .collect();
    for file in &files {
        one_file(file, &before, &world, now, &mut report);
    }
    settle(&mut report, inputs, options);
    report
}

fn one_file(file: &Read<'_>, before: &[Node], world: &World, now: Timestamp, report: &mut Report) {
    let sensors: Vec<&Node> = file
        .documents
        .iter()
        .filter(|document| is_sensor(document))
        .collect();
    if sensors.is_empty() {
        report.passed_over += 1;
        return;
    }
    report.sensors += sensors.len();
    if let Some(twice) = &file.twice {
        report.findings.push(Finding {
            rule: "duplicate-key",
            level: rule::level("duplicate-key"),
            file: file.input.name.clone(),
            line: twice.line,
            column: twice.column,
            path: String::new(),
            what:
                "this key is there twice; only the last one counts, and kubectl may refuse the file"
                    .to_owned(),
            meant: Some("one of them".to_owned()),
            fix: None,
        });
    }
    for sensor in sensors {
        let earlier = before
            .iter()
            .find(|earlier| names(earlier) == names(sensor));
        report.findings.extend(check::sensor(
            &file.input.name,
            &file.input.text,
            sensor,
            earlier,
            world,
            now,
        ));
    }
}

/// Namespace and name.
fn names(document: &Node) -> (String, String) {
    let metadata = Site::root(document).get("metadata");
    let text = |key| {
        metadata
            .as_ref()
            .map_or_else(String::new, |metadata| metadata.text(key).to_owned())
    };
    (text("namespace"), text("name"))
}

/// What follows each `kind:` of a text, YAML or JSON or neither.
fn kinds(text: &str) -> impl Iterator<Item = &str> {
    text.match_indices("kind").filter_map(|(at, key)| {
        let rest = &text[at + key.len()..];
        let rest = rest.strip_prefix(['"', '\'']).unwrap_or(rest).trim_start();
        let value = rest.strip_prefix(':')?.trim_start();
        Some(value.strip_prefix(['"', '\'']).unwrap_or(value))
    })
}

/// Whether a text that is no YAML names the kind Sensor, or leaves it to a template.
fn may_be_a_sensor(text: &str) -> bool {
    let ends = |rest: &str| !rest.starts_with(|c: char| c.is_alphanumeric());
    kinds(text).any(|kind| {
        let sensor = kind.strip_prefix("Sensor");
        sensor.is_some_and(|rest| ends(rest.strip_prefix("List").unwrap_or(rest)))
            || kind.starts_with("{{")
    })
}

/// Whether a text is to be rendered first, as the files of a Helm chart; a Sensor's own texts have braces, too.
fn is_template(text: &str) -> bool {
    const OF_A_CHART: [&str; 10] = [
        ".Values",
        ".Release",
        ".Chart",
        ".Files",
        ".Capabilities",
        ".Template",
        "include ",
        "toYaml ",
        "tpl ",
        "template ",
    ];
    const STEERING: [&str; 9] = [
        "if ", "range ", "with ", "end", "else", "define ", "block ", "$", "/*",
    ];
    let starts = |action: &str, words: &[&str]| {
        let action = action.trim_start_matches('-').trim_start();
        words.iter().any(|word| action.starts_with(word))
    };
    let line_of_one = |line: &str| {
        let alone = line.trim_start().strip_prefix("{{");
        alone.is_some_and(|action| starts(action, &STEERING))
            || line
                .split("{{")
                .skip(1)
                .any(|action| starts(action, &OF_A_CHART))
    };
    text.lines().any(line_of_one) || kinds(text).any(|kind| kind.starts_with("{{"))
}

const RENDER: &str = "it is a template; render it (`helm template …`) and check what comes out (`eventlab lint -f -`)";

fn template(input: &Input) -> NotRead {
    NotRead {
        file: input.name.clone(),
        why: RENDER.to_owned(),
    }
}

fn unreadable(input: &Input, error: &tree::Unreadable) -> Finding {
    Finding {
        rule: "yaml",
        level: rule::level("yaml"),
        file: input.name.clone(),
        line: error.line,
        column: error.column,
        path: String::new(),
        what: format!("this is no YAML: {}", error.message),
        meant: is_template(&input.text).then(|| RENDER.to_owned()),
        fix: None,
    }
}

/// Leaves out what is allowed, raises what is denied, and sorts.
fn settle(report: &mut Report, inputs: &[Input], options: &Options) {
    let lines: BTreeMap<&str, Vec<&str>> = inputs
        .iter()
        .map(|input| (input.name.as_str(), input.text.lines().collect()))
        .collect();
    report.findings.retain(|finding| {
        let lines = lines
            .get(finding.file.as_str())
            .map_or(&[][..], Vec::as_slice);
        !options.allowed.contains(finding.rule) && !allowed_here(lines, finding)
    });
    for finding in &mut report.findings {
        if options.denied.contains(finding.rule) {
            finding.level = Level::Error;
        }
    }
    let order = |name: &str| inputs.iter().position(|input| input.name == name);
    report.findings.sort_by_key(|finding| {
        (
            order(&finding.file),
            finding.line,
            finding.column,
            finding.rule,
        )
    });
    report.findings.dedup();
}

/// A comment `# eventlab: allow RULE` at the end of the line, or alone on the line before.
fn allowed_here(lines: &[&str], finding: &Finding) -> bool {
    let line = |number: usize| lines.get(number.checked_sub(1)?).copied();
    let own = line(finding.line);
    let before = finding.line.checked_sub(1).and_then(line);
    let before = before.filter(|line| line.trim_start().starts_with('#'));
    [before, own].into_iter().flatten().any(|line| {
        let Some((_, rules)) = line.split_once("# eventlab: allow ") else {
            return false;
        };
        rules
            .split([',', ' '])
            .any(|rule| rule.trim() == finding.rule)
    })
}

#[cfg(test)]
mod tests;
