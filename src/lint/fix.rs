//! Applying fixes to the text of a file: comments and formatting stay, everything else is byte for byte the same.

use jiff::Timestamp;

use super::{Edit, Input, Options, lint, tree};

/// Most rounds of fixes: one fix may make room for another.
const MAX_ROUNDS: usize = 10;

/// Applies the fixes of a file's findings until none is left; answers the new text and how many were applied.
///
/// The other files are those that the file is checked with. Suggestions are left out unless they are asked for.
#[must_use]
pub fn apply(
    inputs: &[Input],
    place: usize,
    suggestions: bool,
    options: &Options,
    now: Timestamp,
) -> (String, usize) {
    let mut inputs = inputs.to_vec();
    let mut applied = 0;
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
        let (text, count) = replace(&input.text, fixes.map(|fix| fix.edits.as_slice()));
        if count == 0 || tree::read(&text).is_err() {
            break;
        }
        applied += count;
        if let Some(input) = inputs.get_mut(place) {
            input.text = text;
        }
    }
    let text = inputs.get(place).map(|input| input.text.clone());
    (text.unwrap_or_default(), applied)
}

/// Makes the replacements that do not touch each other; a fix is made whole or not at all.
fn replace<'e>(text: &str, fixes: impl Iterator<Item = &'e [Edit]>) -> (String, usize) {
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
    let mut out = String::with_capacity(text.len());
    let mut at = 0;
    for edit in chosen {
        out.push_str(text.get(at..edit.bytes.start).unwrap_or_default());
        out.push_str(&edit.text);
        at = edit.bytes.end;
    }
    out.push_str(text.get(at..).unwrap_or_default());
    (out, count)
}
