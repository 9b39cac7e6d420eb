//! Findings for people and for programs: text, JSON, GitHub's annotations.

use std::fmt::Write as _;
use std::path::Path;

use super::root::inside;
use super::rule::{self, Rule};
use super::{Finding, Level, Report};
use crate::words::counted;

/// One finding a line, then what was meant, then the count.
#[must_use]
pub fn text(report: &Report) -> String {
    let mut out = String::new();
    for finding in &report.findings {
        // Writing to a String does not fail.
        let _ = writeln!(
            out,
            "{}:{}:{}: {} {}: {}",
            finding.file,
            finding.line,
            finding.column,
            finding.level.as_str(),
            finding.rule,
            finding.what
        );
        if let Some(meant) = &finding.meant {
            let _ = writeln!(out, "    meant: {meant}{}", fixable(finding));
        }
    }
    for one in &report.not_read {
        let _ = writeln!(out, "{}: not read: {}", one.file, one.why);
    }
    out.push_str(&summary(report));
    out.push('\n');
    out
}

fn fixable(finding: &Finding) -> &'static str {
    match &finding.fix {
        Some(fix) if fix.safe => "  [--fix]",
        Some(_) => "  [--fix-suggested]",
        None => "",
    }
}

/// How many of what.
#[must_use]
pub fn summary(report: &Report) -> String {
    let of = |level: Level| {
        report
            .findings
            .iter()
            .filter(|finding| finding.level == level)
            .count()
    };
    let (errors, warnings, notes) = (of(Level::Error), of(Level::Warning), of(Level::Note));
    let mut out = format!(
        "{} checked: {}, {}, {}",
        counted(report.sensors, "Sensor"),
        counted(errors, "error"),
        counted(warnings, "warning"),
        counted(notes, "note")
    );
    if report.passed_over > 0 {
        let _ = write!(
            out,
            "; {} without a Sensor passed over",
            counted(report.passed_over, "file")
        );
    }
    if !report.not_read.is_empty() {
        let _ = write!(out, "; {} not read", counted(report.not_read.len(), "file"));
    }
    out
}

/// One JSON object.
#[must_use]
pub fn json(report: &Report) -> String {
    let mut text = serde_json::to_string_pretty(report).unwrap_or_default();
    text.push('\n');
    text
}

/// Workflow commands that GitHub shows as annotations; `root` is the directory that names are relative to.
#[must_use]
pub fn github(report: &Report, root: &Path) -> String {
    let mut out = String::new();
    for finding in &report.findings {
        let kind = match finding.level {
            Level::Note => "notice",
            level => level.as_str(),
        };
        let meant = finding
            .meant
            .as_ref()
            .map_or_else(String::new, |meant| format!("\nMeant: {meant}"));
        let file = inside(&finding.file, root).map_or_else(
            || finding.file.clone(),
            |inside| inside.display().to_string(),
        );
        let _ = writeln!(
            out,
            "::{kind} file={},line={},col={},title=eventlab {}::{}",
            property(&file),
            finding.line,
            finding.column,
            finding.rule,
            data(&format!("{}{meant}", finding.what))
        );
    }
    out
}

fn data(text: &str) -> String {
    text.replace('%', "%25")
        .replace('\r', "%0D")
        .replace('\n', "%0A")
}

fn property(text: &str) -> String {
    data(text).replace(':', "%3A").replace(',', "%2C")
}

/// The rules, one a line.
#[must_use]
pub fn rules() -> String {
    let mut out = String::new();
    for rule in rule::all() {
        let _ = writeln!(
            out,
            "{:<32} {:<8} {}",
            rule.id,
            rule.level.as_str(),
            rule.summary
        );
    }
    out
}

/// One rule at length.
#[must_use]
pub fn explain(rule: &Rule) -> String {
    let mut out = format!(
        "{} ({})\n\n{}. {}\n",
        rule.id,
        rule.level.as_str(),
        capital(rule.summary),
        rule.why
    );
    for (title, lines) in [("Found", rule.bad), ("Not found", rule.good)] {
        if !lines.is_empty() {
            let _ = write!(out, "\n{title}:\n");
            for line in lines.lines() {
                let _ = writeln!(out, "    {line}");
            }
        }
    }
    out
}

fn capital(text: &str) -> String {
    let mut characters = text.chars();
    let first = characters.next().map(char::to_uppercase);
    first.into_iter().flatten().chain(characters).collect()
}
