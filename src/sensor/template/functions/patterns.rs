//! Regular expressions. A pattern that does not compile panics in most of Go's, which templates report as an error.

use super::{Answer, Arguments, Context, Function, new_text, new_texts};
use crate::sensor::regex::{Regex, RegexError, Submatches};
use crate::sensor::template::limits::{Failure, MAX_TEXT, TooLarge};
use crate::sensor::template::value::{Parts, Value};

/// Steps that compiling one pattern costs.
const COMPILE_STEPS: usize = 50_000;

pub(super) const TABLE: &[Function] = &[
    Function("regexMatch", 2, Some(2), |context, a| {
        // Alone among its kind it takes a pattern that does not compile for one that does not match.
        let regex = match compiled(context, a.text(0)?)? {
            Err(error) if error.is_own() => return Err(error.into()),
            regex => regex.ok(),
        };
        let text = a.text(1)?.as_bytes();
        Ok(Value::Bool(regex.is_some_and(|regex| regex.is_match(text))))
    }),
    Function("mustRegexMatch", 2, Some(2), |context, a| {
        let regex = compile(context, a.text(0)?)?;
        Ok(Value::Bool(regex.is_match(a.text(1)?.as_bytes())))
    }),
    Function("regexFind", 2, Some(2), find),
    Function("mustRegexFind", 2, Some(2), find),
    Function("regexFindAll", 3, Some(3), find_all),
    Function("mustRegexFindAll", 3, Some(3), find_all),
    Function("regexReplaceAll", 3, Some(3), |context, a| {
        replace(context, a, false)
    }),
    Function("mustRegexReplaceAll", 3, Some(3), |context, a| {
        replace(context, a, false)
    }),
    Function("regexReplaceAllLiteral", 3, Some(3), |context, a| {
        replace(context, a, true)
    }),
    Function("mustRegexReplaceAllLiteral", 3, Some(3), |context, a| {
        replace(context, a, true)
    }),
    Function("regexSplit", 3, Some(3), split),
    Function("mustRegexSplit", 3, Some(3), split),
    Function("regexQuoteMeta", 1, Some(1), |_, a| {
        let special = |c: char| "\\.+*?()|[]{}^$".contains(c);
        new_text(
            a.text(0)?
                .chars()
                .flat_map(|c| special(c).then_some('\\').into_iter().chain([c]))
                .collect::<String>(),
        )
    }),
];

fn compile(context: &mut Context, pattern: &str) -> Result<Regex, Failure> {
    compiled(context, pattern)?.map_err(Failure::from)
}

fn compiled(context: &mut Context, pattern: &str) -> Result<Result<Regex, RegexError>, Failure> {
    if let Some(regex) = context.patterns.get(pattern) {
        return Ok(Ok(regex.clone()));
    }
    context.steps.take(COMPILE_STEPS)?;
    let regex = Regex::new(pattern);
    if let Ok(regex) = &regex {
        context.patterns.insert(pattern.to_string(), regex.clone());
    }
    Ok(regex)
}

fn submatches(regex: &Regex, text: &str, limit: usize) -> Result<Vec<Submatches>, Failure> {
    let found = regex.find_submatches(text.as_bytes(), limit);
    // It compiled without its groups: only a limit of this program can refuse it now.
    found.map_err(|error| Failure::Own(error.to_string()))
}

/// How many matches a count asks for; negative asks for all.
fn limit(count: i64) -> usize {
    usize::try_from(count).unwrap_or(usize::MAX)
}

fn whole(found: &Submatches) -> (usize, usize) {
    found.first().copied().flatten().unwrap_or((0, 0))
}

fn find(context: &mut Context, a: &Arguments<'_>) -> Answer {
    let (regex, text) = (compile(context, a.text(0)?)?, a.text(1)?);
    let found = submatches(&regex, text, 1)?;
    let (start, end) = found.first().map_or((0, 0), whole);
    new_text(&text[start..end])
}

fn find_all(context: &mut Context, a: &Arguments<'_>) -> Answer {
    let (regex, text, count) = (compile(context, a.text(0)?)?, a.text(1)?, a.int(2)?);
    let found = submatches(&regex, text, limit(count))?;
    if found.is_empty() {
        return Ok(Value::absent_list(Parts::Text));
    }
    let texts = found
        .iter()
        .map(whole)
        .map(|(start, end)| &text[start..end]);
    new_texts(texts)
}

fn split(context: &mut Context, a: &Arguments<'_>) -> Answer {
    let (regex, text, count) = (compile(context, a.text(0)?)?, a.text(1)?, a.int(2)?);
    if count == 0 {
        return Ok(Value::absent_list(Parts::Text));
    }
    if !a.text(0)?.is_empty() && text.is_empty() {
        return new_texts([""]);
    }
    let (mut parts, mut from, mut end) = (Vec::new(), 0, 0);
    for found in submatches(&regex, text, limit(count))? {
        if count > 0 && parts.len() + 1 == limit(count) {
            break;
        }
        let (start, stop) = whole(&found);
        end = start;
        if stop != 0 {
            parts.push(&text[from..end]);
        }
        from = stop;
    }
    if end != text.len() {
        parts.push(&text[from..]);
    }
    new_texts(parts)
}

/// Replaces all matches; `$1`, `${1}` and `${name}` stand for groups unless the text is literal.
fn replace(context: &mut Context, a: &Arguments<'_>, literal: bool) -> Answer {
    let (regex, text, with) = (compile(context, a.text(0)?)?, a.text(1)?, a.text(2)?);
    let mut out = String::with_capacity(text.len());
    let mut from = 0;
    for found in submatches(&regex, text, usize::MAX)? {
        let (start, end) = whole(&found);
        out.push_str(&text[from..start]);
        if literal {
            out.push_str(with);
        } else {
            expand(&mut out, with, text, &found, &regex);
        }
        if out.len() > MAX_TEXT {
            return Err(TooLarge.into());
        }
        from = end;
    }
    out.push_str(&text[from..]);
    new_text(out)
}

fn expand(out: &mut String, with: &str, text: &str, found: &Submatches, regex: &Regex) {
    let mut rest = with;
    while let Some((before, after)) = rest.split_once('$') {
        out.push_str(before);
        if let Some(after) = after.strip_prefix('$') {
            out.push('$');
            rest = after;
            continue;
        }
        let Some((name, after)) = group_name(after) else {
            out.push('$');
            rest = after;
            continue;
        };
        rest = after;
        if let Some((start, end)) = group(name, found, regex) {
            out.push_str(&text[start..end]);
        }
    }
    out.push_str(rest);
}

fn group_name(after: &str) -> Option<(&str, &str)> {
    let word = |text: &str| {
        text.find(|c: char| c != '_' && !c.is_alphanumeric())
            .unwrap_or(text.len())
    };
    match after.strip_prefix('{') {
        Some(braced) => {
            let length = word(braced);
            let rest = braced[length..].strip_prefix('}')?;
            (length > 0).then(|| (&braced[..length], rest))
        }
        None => {
            let length = word(after);
            (length > 0).then(|| after.split_at(length))
        }
    }
}

fn group(name: &str, found: &Submatches, regex: &Regex) -> Option<(usize, usize)> {
    if let Ok(index) = name.parse::<usize>() {
        return found.get(index).copied().flatten();
    }
    // Of groups with one name the first that took part counts.
    let named = |(_, known): &(usize, &Option<String>)| known.as_deref() == Some(name);
    let mut groups = regex.names().iter().enumerate().filter(named);
    groups.find_map(|(index, _)| found.get(index).copied().flatten())
}
