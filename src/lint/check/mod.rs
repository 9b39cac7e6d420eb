//! The checks of one Sensor, by concept; each reports what it finds to [`Check`].

mod account;
mod compare;
mod data;
mod dependencies;
mod exclusive;
mod expressions;
mod groups;
mod keys;
mod object;
mod parameters;
mod paths;
mod patterns;
mod previous;
mod refusal;
mod script;
mod trial;
mod triggers;

use jiff::Timestamp;

use super::finding::{Edit, Finding, Fix};
use super::rule;
use super::site::Site;
use super::tree::{Mark, Node};
use super::world::World;

/// One Sensor under check.
pub(super) struct Check<'a> {
    file: &'a str,
    source: &'a str,
    /// The file is JSON, or YAML that is written like it.
    json: bool,
    world: &'a World,
    now: Timestamp,
    namespace: &'a str,
    found: Vec<Finding>,
}

/// Checks a Sensor; `previous` is what the same Sensor was before, where that is known.
pub(super) fn sensor(
    file: &str,
    source: &str,
    document: &Node,
    previous: Option<&Node>,
    world: &World,
    now: Timestamp,
) -> Vec<Finding> {
    let root = Site::root(document);
    let namespace = root
        .get("metadata")
        .map_or("", |metadata| metadata.text("namespace"));
    let mut check = Check {
        file,
        source,
        json: source.trim_start().starts_with(['{', '[']),
        world,
        now,
        namespace,
        found: Vec::new(),
    };
    object::check(&mut check, &root);
    keys::check(&mut check, &root);
    if let Some(spec) = root.get("spec") {
        dependencies::check(&mut check, &spec);
        triggers::check(&mut check, &spec);
        account::check(&mut check, &spec);
        if let Some(previous) = previous {
            previous::check(&mut check, &spec, &Site::root(previous));
        }
    }
    refusal::check(&mut check, &root);
    check.found
}

impl<'a> Check<'a> {
    /// Reports a finding at a value.
    fn report(
        &mut self,
        rule: &'static str,
        at: &Site<'_>,
        what: impl Into<String>,
    ) -> &mut Finding {
        let (mark, path) = (at.node.mark.clone(), at.path.clone());
        self.report_at(rule, &mark, path, what.into())
    }

    /// Reports a finding at the key of a member.
    fn report_key(
        &mut self,
        rule: &'static str,
        at: &Site<'_>,
        what: impl Into<String>,
    ) -> &mut Finding {
        let mark = at.key_mark.unwrap_or(&at.node.mark).clone();
        self.report_at(rule, &mark, at.path.clone(), what.into())
    }

    fn report_at(
        &mut self,
        rule: &'static str,
        mark: &Mark,
        path: String,
        what: String,
    ) -> &mut Finding {
        let place = self.found.len();
        self.found.push(Finding {
            rule,
            level: rule::level(rule),
            file: self.file.to_owned(),
            line: mark.line,
            column: mark.column,
            path,
            what,
            meant: None,
            fix: None,
        });
        &mut self.found[place]
    }

    /// The replacement of a scalar, where the file shows it in one line as it is read.
    fn replaced(&self, mark: &Mark, old: &str, new: &str) -> Option<Edit> {
        let shown = self.source.get(mark.bytes.clone())?;
        let read: String = serde_saphyr::from_str(shown).ok()?;
        if shown.is_empty() || shown.contains('\n') || read != old {
            return None;
        }
        Some(Edit {
            bytes: mark.bytes.clone(),
            text: self.written(shown, new)?,
        })
    }

    /// A text as a scalar in the manner of the one that it replaces.
    fn written(&self, shown: &str, text: &str) -> Option<String> {
        if self.json {
            serde_json::to_string(text).ok()
        } else {
            yaml(shown, text)
        }
    }

    /// A fix that replaces the text of a scalar.
    fn text_fix(
        &self,
        at: &Site<'_>,
        new: &str,
        title: impl Into<String>,
        safe: bool,
    ) -> Option<Fix> {
        let edit = self.replaced(&at.node.mark, at.node.text()?, new)?;
        Some(Fix {
            title: title.into(),
            safe,
            edits: vec![edit],
        })
    }

    /// A fix that renames a key.
    fn key_fix(&self, mark: &Mark, old: &str, new: &str) -> Option<Fix> {
        Some(Fix {
            title: format!("rename `{old}` to `{new}`"),
            safe: true,
            edits: vec![self.replaced(mark, old, new)?],
        })
    }
}

/// A text as a YAML scalar in the manner of the one that it replaces.
fn yaml(shown: &str, text: &str) -> Option<String> {
    if text.chars().any(char::is_control) {
        return None;
    }
    let plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '_' | '-' | '/');
    let starts_well = text.starts_with(|c: char| c.is_ascii_alphabetic());
    let is_word = [
        "true", "false", "null", "yes", "no", "on", "off", "y", "n", "nan", "inf",
    ]
    .contains(&text.to_ascii_lowercase().as_str());
    Some(if shown.starts_with('"') && !text.contains(['"', '\\']) {
        format!("\"{text}\"")
    } else if !shown.starts_with(['"', '\'']) && starts_well && !is_word && text.chars().all(plain)
    {
        text.to_owned()
    } else {
        format!("'{}'", text.replace('\'', "''"))
    })
}

/// A text for a message: one line, not long.
fn short(text: &str) -> String {
    const LONGEST: usize = 60;
    let mut out = String::new();
    for (place, c) in text.chars().enumerate() {
        if place == LONGEST {
            out.push('…');
            break;
        }
        if c.is_control() {
            out.extend(c.escape_default());
        } else {
            out.push(c);
        }
    }
    out
}
