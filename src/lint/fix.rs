//! Applying fixes to the text of a file: comments and formatting stay, everything else is byte for byte the same.

use jiff::Timestamp;

use super::tree::{self, Entry, Kind, Mark, Node};
use super::{Edit, Input, Options, lint};

/// Most rounds of fixes: one fix may make room for another.
const MAX_ROUNDS: usize = 10;

/// What the fixes made of a file.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Mended {
    /// The new text.
    pub text: String,
    /// How many were applied.
    pub applied: usize,
    /// Why others were not, if they were not.
    pub left_alone: Option<String>,
}

/// Applies the fixes of a file's findings until none is left.
///
/// The other files are those that the file is checked with. Suggestions are left out unless they are asked for. Fixes
/// that would change more than they name, or leave what is no YAML or JSON, are not applied.
#[must_use]
pub fn apply(
    inputs: &[Input],
    place: usize,
    suggestions: bool,
    options: &Options,
    now: Timestamp,
) -> Mended {
    let mut inputs = inputs.to_vec();
    let mut mended = Mended::default();
    for _ in 0..MAX_ROUNDS {
        let Some(input) = inputs.get(place) else {
            break;
        };
        let report = lint(&inputs, &[], options, now);
        let fixes = report
            .findings
            .iter()
            .filter(|finding| finding.file == input.name)
            .filter_map(|finding| finding.fix.as_ref())
            .filter(|fix| fix.safe || suggestions);
        let (edits, count) = chosen(&input.text, fixes.map(|fix| fix.edits.as_slice()));
        if count == 0 {
            break;
        }
        let text = replaced(&input.text, &edits);
        if let Err(why) = only_these(&input.text, &text, &edits) {
            mended.left_alone = Some(why);
            break;
        }
        mended.applied += count;
        if let Some(input) = inputs.get_mut(place) {
            input.text = text;
        }
    }
    let text = inputs.get(place).map(|input| input.text.clone());
    mended.text = text.unwrap_or_default();
    mended
}

/// The replacements that do not touch each other, and of how many fixes; a fix is made whole or not at all.
fn chosen<'e>(text: &str, fixes: impl Iterator<Item = &'e [Edit]>) -> (Vec<&'e Edit>, usize) {
    let mut chosen: Vec<&Edit> = Vec::new();
    let mut count = 0;
    for edits in fixes {
        let apart = |edit: &Edit| {
            chosen.iter().all(|other| {
                edit.bytes.end < other.bytes.start || other.bytes.end < edit.bytes.start
            })
        };
        let within = edits
            .iter()
            .all(|edit| text.get(edit.bytes.clone()).is_some());
        if within && !edits.is_empty() && edits.iter().all(apart) {
            chosen.extend(edits);
            count += 1;
        }
    }
    chosen.sort_by_key(|edit| edit.bytes.start);
    (chosen, count)
}

fn replaced(text: &str, edits: &[&Edit]) -> String {
    let mut out = String::with_capacity(text.len());
    let mut at = 0;
    for edit in edits {
        out.push_str(text.get(at..edit.bytes.start).unwrap_or_default());
        out.push_str(&edit.text);
        at = edit.bytes.end;
    }
    out.push_str(text.get(at..).unwrap_or_default());
    out
}

/// Whether the new text says what the old one says, but for what was replaced.
fn only_these(old: &str, new: &str, edits: &[&Edit]) -> Result<(), String> {
    if is_json(old) && !is_json(new) {
        return Err("with the fixes it would be no JSON".to_owned());
    }
    let read = |text: &str| tree::read(text).map_err(|error| error.message);
    let (before, _) = read(old)?;
    let (after, _) =
        read(new).map_err(|error| format!("with the fixes it would be no YAML: {error}"))?;
    let same = before.len() == after.len()
        && before
            .iter()
            .zip(&after)
            .all(|(before, after)| same(before, after, edits));
    if same {
        Ok(())
    } else {
        Err("the fixes would change more of it than they name".to_owned())
    }
}

fn is_json(text: &str) -> bool {
    serde_json::from_str::<serde::de::IgnoredAny>(text).is_ok()
}

fn edited(mark: &Mark, edits: &[&Edit]) -> bool {
    let mut edits = edits.iter();
    edits.any(|edit| !edit.bytes.is_empty() && edit.bytes == mark.bytes)
}

fn same(before: &Node, after: &Node, edits: &[&Edit]) -> bool {
    match (&before.kind, &after.kind) {
        (Kind::Scalar(one), Kind::Scalar(other)) => {
            one == other || (other.is_string() && edited(&before.mark, edits))
        }
        (Kind::List(one), Kind::List(other)) => {
            let mut pairs = one.iter().zip(other);
            one.len() == other.len() && pairs.all(|(one, other)| same(one, other, edits))
        }
        (Kind::Map(one), Kind::Map(other)) => same_members(one, other, edits),
        _ => false,
    }
}

fn same_members(before: &[Entry], after: &[Entry], edits: &[&Edit]) -> bool {
    let mut after = after.iter();
    let all = before.iter().all(|entry| {
        let at = entry.key_mark.bytes.start;
        let mut edits_here = edits.iter();
        let inserted = edits_here.any(|edit| edit.bytes.is_empty() && edit.bytes.start == at);
        if inserted && after.next().is_none() {
            return false;
        }
        after.next().is_some_and(|other| {
            (entry.key == other.key || edited(&entry.key_mark, edits))
                && same(&entry.value, &other.value, edits)
        })
    });
    all && after.next().is_none()
}
