//! Values of `type: string`: every one is a pattern that is searched for anywhere in the text.

use serde_json::json;

use super::super::site::Site;
use super::data::Condition;
use super::trial::passes;
use super::{Check, short};
use crate::sensor::regex::Regex;
use crate::sensor::regex::shape::{Shape, Tied};

/// Characters that mean more than themselves in a pattern.
const SPECIAL: &str = r"\.+*?()|[]{}^$";

/// Checks one value.
pub(super) fn check(
    check: &mut Check<'_>,
    condition: &Condition<'_>,
    place: usize,
    text: &str,
    value: &Site<'_>,
) {
    let shape = match Shape::of(text) {
        Ok(Some(shape)) => shape,
        Ok(None) => return,
        // A pattern that only this program refuses says nothing against it.
        Err(error) if error.is_own() => return,
        Err(error) => return unreadable(check, condition, place, text, value, &error.to_string()),
    };
    if !matches!(condition.comparator, "" | "=" | "!=") {
        return;
    }
    if not_itself(check, text, value) {
        return;
    }
    let dotted = dots(check, text, value);
    if !condition.may_be_list() && !matches_everything(text) {
        anchors(check, condition, text, value, &shape, dotted);
    }
}

fn unreadable(
    check: &mut Check<'_>,
    condition: &Condition<'_>,
    place: usize,
    text: &str,
    value: &Site<'_>,
    error: &str,
) {
    let which = position(place, condition.values.len());
    let finding = check.report(
        "bad-pattern",
        value,
        format!(
            "{which} `{}` does not compile ({error}); every event that reaches it is dropped with an error",
            short(text)
        ),
    );
    finding.meant = Some(if text.contains("(?!") || text.contains("(?<!") {
        "RE2 has no look-around: to exclude a text, use `comparator: \"!=\"` in a condition of its own".to_owned()
    } else if text.contains("(?=") || text.contains("(?<=") {
        "RE2 has no look-around: list a second condition for the other part of the text".to_owned()
    } else if text.starts_with("*.") || text.starts_with('*') {
        format!(
            "a pattern is no file glob: `^.*{}$`",
            escaped(text.trim_start_matches('*'))
        )
    } else {
        format!("to mean this very text write `^{}$`", escaped(text))
    });
}

/// `value`, or which of several.
pub(super) fn position(place: usize, of: usize) -> String {
    if of > 1 {
        format!("value {} of {of}", place + 1)
    } else {
        "the value".to_owned()
    }
}

/// A text that reads as one to be taken literally and does not match itself.
fn not_itself(check: &mut Check<'_>, text: &str, value: &Site<'_>) -> bool {
    let itself = Regex::new(text).is_ok_and(|regex| regex.is_match(text.as_bytes()));
    if itself || meant_as_pattern(text) {
        return false;
    }
    let whole = format!("^{}$", escaped(text));
    // What the pattern accepts now may be what is meant.
    let fix = check.text_fix(value, &whole, "escape and anchor the text", false);
    let finding = check.report(
        "not-its-own-match",
        value,
        format!(
            "as a pattern, `{}` does not match the text `{}`",
            short(text),
            short(text)
        ),
    );
    finding.meant = Some(format!("`{whole}`, if this very text is meant"));
    finding.fix = fix;
    true
}

/// Whether a text is written as only a pattern is.
fn meant_as_pattern(text: &str) -> bool {
    text.starts_with('^')
        || text.ends_with('$')
        || text.contains(".*")
        || text.contains(".+")
        || text.contains(['\\', '|', '[', '{'])
        || text.contains("(?")
        || repeats(text)
        || anchors_in_group(text)
}

/// Whether something is repeated: a letter, a digit or a group; the question mark of a URL starts its query.
fn repeats(text: &str) -> bool {
    let query = text.contains("://");
    let mut pairs = text.chars().zip(text.chars().skip(1));
    pairs.any(|(before, sign)| match sign {
        '?' => !query && (before.is_alphanumeric() || before == ')'),
        '*' => before.is_alphanumeric() || before == ')',
        // As in 1+1.
        '+' => before.is_alphabetic() || before == ')',
        _ => false,
    })
}

/// Whether a group holds an anchor.
fn anchors_in_group(text: &str) -> bool {
    let mut depth = 0_usize;
    text.chars().any(|c| {
        match c {
            '(' => depth += 1,
            ')' => depth = depth.saturating_sub(1),
            _ => {}
        }
        depth > 0 && matches!(c, '^' | '$')
    })
}

/// A pattern that speaks of no text in particular.
fn matches_everything(text: &str) -> bool {
    Regex::new(text).is_ok_and(|regex| regex.is_match(b"") && regex.is_match("\u{1}~".as_bytes()))
}

/// Dots between words that are not escaped; answers the text with them escaped.
fn dots(check: &mut Check<'_>, text: &str, value: &Site<'_>) -> Option<String> {
    let places = bare_dots(text);
    if places.is_empty() {
        return None;
    }
    let mut mended = String::with_capacity(text.len() + places.len());
    for (place, c) in text.char_indices() {
        if places.contains(&place) {
            mended.push('\\');
        }
        mended.push(c);
    }
    let sample = |pattern: &str| Shape::of(pattern).ok().flatten()?.sample;
    let (meant, other) = (sample(&mended), sample(text));
    let fix = check.text_fix(value, &mended, "escape the dot", true);
    let example = other
        .filter(|other| Some(other) != meant.as_ref())
        .map_or_else(String::new, |other| {
            format!(": `{}` matches, too", short(&other))
        });
    let finding = check.report(
        "unescaped-dot",
        value,
        format!(
            "a dot in `{}` stands for any character{example}",
            short(text)
        ),
    );
    finding.meant = Some(format!("`{mended}`"));
    finding.fix = fix;
    Some(mended)
}

/// Byte places of dots that stand between two letters or digits, outside of classes, without a repetition.
///
/// None where a part is quoted, or where a flag says what the dot stands for.
fn bare_dots(text: &str) -> Vec<usize> {
    if text.contains(r"\Q") || sets_dot(text) {
        return Vec::new();
    }
    let characters: Vec<(usize, char)> = text.char_indices().collect();
    let (mut found, mut in_class, mut place) = (Vec::new(), false, 0);
    while let Some(&(at, c)) = characters.get(place) {
        match c {
            '\\' => place += 1,
            '[' => in_class = true,
            ']' => in_class = false,
            '.' if !in_class => {
                let before = place
                    .checked_sub(1)
                    .and_then(|before| characters.get(before));
                let after = characters.get(place + 1);
                let word =
                    |side: Option<&(usize, char)>| side.is_some_and(|(_, c)| c.is_alphanumeric());
                let escape =
                    place >= 2 && characters.get(place - 2).is_some_and(|(_, c)| *c == '\\');
                if word(before) && word(after) && !escape {
                    found.push(at);
                }
            }
            _ => {}
        }
        place += 1;
    }
    found
}

/// Whether a group of flags names `s`, with which the dot is a newline, too.
fn sets_dot(text: &str) -> bool {
    text.match_indices("(?").any(|(at, open)| {
        let flags = text[at + open.len()..].chars();
        let mut flags = flags.take_while(|c| c.is_ascii_alphabetic() || *c == '-');
        flags.any(|flag| flag == 's')
    })
}

/// Patterns that are not tied to the ends of the text.
fn anchors(
    check: &mut Check<'_>,
    condition: &Condition<'_>,
    text: &str,
    value: &Site<'_>,
    shape: &Shape,
    dotted: Option<String>,
) {
    let excludes = condition.comparator == "!=";
    let verb = if excludes { "is excluded" } else { "passes" };
    let base = dotted.as_deref().unwrap_or(text);
    if shape.start == Tied::Sometimes || shape.end == Tied::Sometimes {
        let bare = without_anchors(base);
        let finding = check.report(
            "unanchored-pattern",
            value,
            format!(
                "in `{}` an anchor belongs to one alternative only, the others match anywhere in the text",
                short(text)
            ),
        );
        finding.meant = Some(format!("`^({bare})$`"));
        return;
    }
    let start = shape.start == Tied::Always || open_on_purpose(text.trim_start_matches(['^', '(']));
    let end = shape.end == Tied::Always || ends_open(text);
    if start && end {
        return;
    }
    let Some(sample) = shape.sample.as_deref().filter(|sample| !sample.is_empty()) else {
        return;
    };
    let longer = format!(
        "{}{sample}{}",
        if start { "" } else { "pre-" },
        if end { "" } else { "-tail" }
    );
    // A word boundary or the like may keep the longer text out.
    let through = passes("string", condition.comparator, &[text], &json!(longer)) != excludes;
    if !through {
        return;
    }
    let whole = anchored(base, start, end);
    if start || end {
        let ends_in_separator = start && separator(text.chars().next_back());
        let starts_in_separator = end && separator(text.trim_start_matches('\\').chars().next());
        if ends_in_separator || starts_in_separator {
            return;
        }
        let side = if start { "end" } else { "start" };
        let finding = check.report(
            "partly-anchored-pattern",
            value,
            format!(
                "`{}` is open at its {side}: `{}` {verb}, too",
                short(text),
                short(&longer)
            ),
        );
        finding.meant = Some(format!("`{whole}`, if the whole text is meant"));
        return;
    }
    let fix = Regex::new(&whole)
        .is_ok_and(|regex| regex.is_match(sample.as_bytes()))
        .then(|| check.text_fix(value, &whole, "anchor the pattern", false))
        .flatten();
    let finding = check.report(
        "unanchored-pattern",
        value,
        format!(
            "`{}` is searched anywhere in the text: `{}` {verb}, too",
            short(text),
            short(&longer)
        ),
    );
    finding.meant = Some(format!("`{whole}`"));
    finding.fix = fix;
}

fn open_on_purpose(start: &str) -> bool {
    start.starts_with(".*") || start.starts_with(".+")
}

fn ends_open(text: &str) -> bool {
    let text = text.trim_end_matches([')', '?']);
    text.ends_with(".*") || text.ends_with(".+")
}

fn separator(c: Option<char>) -> bool {
    c.is_some_and(|c| matches!(c, '/' | '-' | ':' | '_' | '.' | '@' | '#' | ' '))
}

/// The pattern without the anchors at its ends.
fn without_anchors(text: &str) -> &str {
    let bare = text.trim_start_matches('^');
    match bare.strip_suffix('$') {
        Some(ended) if !ended.ends_with('\\') => ended,
        _ => bare,
    }
}

/// The pattern tied to both ends.
fn anchored(text: &str, start: bool, end: bool) -> String {
    let quoting = text
        .rfind(r"\Q")
        .is_some_and(|at| !text[at..].contains(r"\E"));
    let closed = if quoting { r"\E" } else { "" };
    let bare = if text.contains('|') {
        format!("(?:{text}{closed})")
    } else {
        format!("{text}{closed}")
    };
    format!(
        "{}{bare}{}",
        if start { "" } else { "^" },
        if end { "" } else { "$" }
    )
}

/// A text as a pattern that matches it.
pub(super) fn escaped(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        if SPECIAL.contains(c) {
            out.push('\\');
        }
        out.push(c);
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_only_a_pattern_has_is_seen() {
        for (text, pattern) in [
            ("colou?r", true),
            ("a+b", true),
            ("orders?.created", true),
            ("(^order$)", true),
            ("(ab)*c", true),
            ("$5", false),
            ("order(1)", false),
            ("1+1", false),
            ("https://a.example/x?y=1", false),
        ] {
            assert_eq!(meant_as_pattern(text), pattern, "{text}");
        }
    }

    #[test]
    fn anchors_are_put_around_the_whole_pattern() {
        for (text, whole) in [
            ("a|b", "^(?:a|b)$"),
            (r"\Qa.b", r"^\Qa.b\E$"),
            ("ab", "^ab$"),
        ] {
            assert_eq!(anchored(text, false, false), whole);
        }
        assert_eq!(anchored("^a|^b", true, false), "(?:^a|^b)$");
        assert_eq!(without_anchors(r"^a|b\$"), r"a|b\$");
    }

    #[test]
    fn dots_count_between_words_only() {
        for (text, places) in [
            ("order.created", vec![5]),
            (r"order\.created", vec![]),
            ("a.*b", vec![]),
            ("[a.b]c.d", vec![6]),
            (r"\d.5", vec![]),
            ("^v1.2.3$", vec![3, 5]),
            ("a.+", vec![]),
            (r"^\Qa.b\E$", vec![]),
            ("(?s)a.b", vec![]),
            ("(?is:a.b)", vec![]),
            ("(?i)a.b", vec![5]),
        ] {
            assert_eq!(bare_dots(text), places, "{text}");
        }
    }
}
