//! Lua: scripts that do not compile, that never return true, that index from zero.

use super::super::site::Site;
use super::{Check, short};
use crate::sensor::script::{Script, ScriptError, never_true};

/// Checks `filters.script`; `all_groups` where every group of the filters must hold.
pub(super) fn check(check: &mut Check<'_>, site: &Site<'_>, all_groups: bool) {
    let Some(text) = site.node.text().filter(|text| !text.trim().is_empty()) else {
        return;
    };
    let code = code_of(text);
    if !compiles(check, site, text, &code) {
        return;
    }
    if let Some(returned) = never_true(text) {
        let finding = check.report("script-never-true", site, drops(&returned, all_groups));
        finding.meant = Some(
            "`return event.body.kind == \"…\"`; a text, a number or no value is not true"
                .to_owned(),
        );
    }
    zero_index(check, site, &code);
}

/// Checks `transform.script`.
pub(super) fn check_transform(check: &mut Check<'_>, site: &Site<'_>) {
    let Some(text) = site.node.text().filter(|text| !text.trim().is_empty()) else {
        return;
    };
    let code = code_of(text);
    if compiles(check, site, text, &code) {
        zero_index(check, site, &code);
    }
}

/// What a script does that returns these and never `true`.
fn drops(returned: &[&str], all_groups: bool) -> String {
    let Some((last, others)) = returned.split_last() else {
        return "the script always ends in an error, so no event passes".to_owned();
    };
    let before = match others {
        [] => String::new(),
        others => format!("{} or ", others.join(", ")),
    };
    let effect = match all_groups {
        true => "no event passes",
        false => "it lets no event through",
    };
    format!("the script never returns the boolean `true`, only {before}{last}, so {effect}")
}

fn compiles(check: &mut Check<'_>, site: &Site<'_>, text: &str, code: &str) -> bool {
    match Script::compile(text) {
        Ok(_) => true,
        Err(ScriptError::Syntax(error)) => {
            let finding = check.report(
                "bad-script",
                site,
                format!(
                    "the script does not compile, so every event is dropped with an error: {}",
                    short(&error)
                ),
            );
            finding.meant = if code.contains("!=") {
                Some("`~=` is Lua's unequal".to_owned())
            } else if code.contains("&&") || code.contains("||") {
                Some("Lua writes `and`, `or` and `not`".to_owned())
            } else {
                Some("Lua 5.1".to_owned())
            };
            false
        }
        Err(_) => false,
    }
}

/// The script without comments, and with every text as `""`.
fn code_of(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(c) = rest.chars().next() {
        if let Some(comment) = rest.strip_prefix("--") {
            rest = match long_bracket(comment) {
                Some(after) => after,
                None => comment.find('\n').map_or("", |end| &comment[end..]),
            };
            out.push(' ');
        } else if let Some(after) = long_bracket(rest) {
            out.push_str("\"\"");
            rest = after;
        } else if c == '"' || c == '\'' {
            out.push_str("\"\"");
            rest = after_quoted(&rest[1..], c);
        } else {
            out.push(c);
            rest = &rest[c.len_utf8()..];
        }
    }
    out
}

/// What follows a long bracket; `None` if none starts here.
fn long_bracket(text: &str) -> Option<&str> {
    let inner = text.strip_prefix('[')?;
    let level = inner.len() - inner.trim_start_matches('=').len();
    let inner = inner[level..].strip_prefix('[')?;
    let close = format!("]{}]", "=".repeat(level));
    Some(
        inner
            .find(&close)
            .map_or("", |end| &inner[end + close.len()..]),
    )
}

fn after_quoted(text: &str, quote: char) -> &str {
    let mut characters = text.char_indices();
    while let Some((at, c)) = characters.next() {
        if c == '\\' {
            characters.next();
        } else if c == quote || c == '\n' {
            return &text[at + c.len_utf8()..];
        }
    }
    ""
}

fn zero_index(check: &mut Check<'_>, site: &Site<'_>, code: &str) {
    let compact: String = code.chars().filter(|c| !c.is_whitespace()).collect();
    // A list that the script fills itself may start where it likes.
    let filled = compact
        .match_indices("[0]=")
        .any(|(at, found)| !compact[at + found.len()..].starts_with('='));
    if compact.contains("[0]") && compact.contains("event") && !filled {
        let finding = check.report(
            "script-zero-index",
            site,
            "Lua's lists start at 1: the element `[0]` of an event's list is nil",
        );
        finding.meant = Some("`[1]`, as in `event.header[\"X-Order-Id\"][1]`".to_owned());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn code_is_without_texts_and_comments() {
        for (text, code) in [
            ("return 'a' -- no\nx", "return \"\"  \nx"),
            ("a --[[ return true\n]] b", "a   b"),
            ("s = [==[ x ]] ]==] t", "s = \"\" t"),
            (r#"s = "a\"b" t"#, "s = \"\" t"),
            ("--", " "),
        ] {
            assert_eq!(
                code_of(text).replace("  ", " "),
                code.replace("  ", " "),
                "{text}"
            );
        }
    }
}
