//! What of an expression can be evaluated within bounds, by its tokens alone.

use super::literals;

/// Longest expression in bytes.
const MAX_LENGTH: usize = 1024;
/// Deepest nesting of brackets; the parser tries some of them twice at every level.
const MAX_DEPTH: usize = 10;
/// Deepest nesting of predicates.
const MAX_PREDICATES: usize = 2;
/// How often the element of a predicate may be named, and how many choices there may be.
const MAX_ELEMENTS: usize = 16;
const MAX_CHOICES: usize = 32;

/// Functions whose result is never larger than what they are given.
const FUNCTIONS: &[&str] = &[
    "abs",
    "all",
    "any",
    "asFloat",
    "asInt",
    "ceil",
    "count",
    "float",
    "floor",
    "hasPrefix",
    "hasSuffix",
    "indexOf",
    "int",
    "lastIndexOf",
    "len",
    "lower",
    "max",
    "min",
    "none",
    "one",
    "round",
    "string",
    "trim",
    "trimPrefix",
    "trimSuffix",
    "upper",
];
/// What upstream has besides: builtins of expr 1.15, keywords, and the functions of `pkg/shared/expr/eval.go`.
const LACKING: &[&str] = &[
    "concat",
    "date",
    "duration",
    "filter",
    "find",
    "findIndex",
    "findLast",
    "findLastIndex",
    "first",
    "fromBase64",
    "fromJSON",
    "fromPairs",
    "get",
    "groupBy",
    "join",
    "jsonpath",
    "keys",
    "last",
    "let",
    "map",
    "mean",
    "median",
    "now",
    "reduce",
    "repeat",
    "replace",
    "reverse",
    "sort",
    "sortBy",
    "split",
    "splitAfter",
    "sprig",
    "sum",
    "take",
    "toBase64",
    "toJSON",
    "toJson",
    "toPairs",
    "type",
    "values",
    "if",
    "else",
];
/// Operators that are words: a bracket behind them opens a group.
const WORDS: &[&str] = &[
    "and",
    "contains",
    "endsWith",
    "in",
    "matches",
    "not",
    "or",
    "startsWith",
];

/// What the evaluation needs to know of an expression.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Found {
    /// Inside a predicate a bare name may be a field of the element.
    pub has_predicate: bool,
    /// What upstream says for every event of a text that it cannot read, or of a function that it does not have either.
    pub broken: Option<String>,
    /// The expression as it is evaluated.
    pub text: String,
    /// The most steps that its patterns take for each byte of a text.
    pub steps: usize,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Token<'a> {
    Name(&'a str),
    /// A literal with its quotes, and where it starts; the closing quote may be missing.
    Text(usize, &'a str),
    /// Punctuation, and digits.
    Mark(char),
    Range,
}

/// Looks an expression over.
///
/// # Errors
/// The first thing that is not supported, in words.
pub(super) fn inspect(text: &str) -> Result<Found, String> {
    if text.len() > MAX_LENGTH {
        return Err(format!("it is longer than {MAX_LENGTH} bytes"));
    }
    let tokens = tokens(text);
    nesting(&tokens)?;
    let written = literals::rewrite(text, &tokens)?;
    let mut found = Found {
        broken: written.broken,
        text: written.text,
        steps: written.steps,
        ..Found::default()
    };
    for (place, token) in tokens.iter().enumerate() {
        let before = place.checked_sub(1).and_then(|place| tokens.get(place));
        let after = tokens.get(place + 1);
        match token {
            Token::Range => return Err("ranges (`..`)".to_owned()),
            Token::Name(name) if before == Some(&Token::Mark('.')) => field_fits(name, after)?,
            Token::Name(name) => {
                if let Some(unknown) = name_fits(name, after)? {
                    found
                        .broken
                        .get_or_insert(format!("unknown name {unknown}"));
                }
            }
            Token::Mark('{' | '#') => found.has_predicate = true,
            // `all(list, .field)`
            Token::Mark('.') if matches!(before, Some(Token::Mark('(' | ','))) => {
                found.has_predicate = true;
            }
            _ => {}
        }
    }
    Ok(found)
}

/// A field may have any name, and no methods.
fn field_fits(name: &str, after: Option<&Token<'_>>) -> Result<(), String> {
    if after == Some(&Token::Mark('(')) {
        return Err(format!("the method `{name}`"));
    }
    Ok(())
}

/// Answers a called function that nobody knows.
fn name_fits(name: &str, after: Option<&Token<'_>>) -> Result<Option<String>, String> {
    let is_call = after == Some(&Token::Mark('(')) && !WORDS.contains(&name);
    let is_key = after == Some(&Token::Mark(':'));
    if name == "$env" || (LACKING.contains(&name) && !is_key) {
        return Err(format!("`{name}`"));
    }
    Ok((is_call && !FUNCTIONS.contains(&name)).then(|| name.to_owned()))
}

fn nesting(tokens: &[Token<'_>]) -> Result<(), String> {
    let (mut depth, mut predicates, mut elements, mut choices) = (0_usize, 0_usize, 0, 0);
    for token in tokens {
        match token {
            Token::Mark('(' | '[') => depth += 1,
            Token::Mark('{') => {
                depth += 1;
                predicates += 1;
            }
            Token::Mark(')' | ']') => depth = depth.saturating_sub(1),
            Token::Mark('}') => {
                depth = depth.saturating_sub(1);
                predicates = predicates.saturating_sub(1);
            }
            Token::Mark('#') => elements += 1,
            Token::Mark('?') => choices += 1,
            _ => {}
        }
        if depth > MAX_DEPTH {
            return Err(format!("brackets are nested more than {MAX_DEPTH} deep"));
        }
        if predicates > MAX_PREDICATES {
            return Err(format!(
                "predicates are nested more than {MAX_PREDICATES} deep"
            ));
        }
    }
    if elements > MAX_ELEMENTS {
        return Err(format!("`#` stands in it more than {MAX_ELEMENTS} times"));
    }
    if choices > MAX_CHOICES {
        return Err(format!("`?` stands in it more than {MAX_CHOICES} times"));
    }
    Ok(())
}

/// The tokens; text that ends in the middle of a literal or comment ends there.
fn tokens(text: &str) -> Vec<Token<'_>> {
    let mut tokens = Vec::new();
    let mut rest = text;
    while let Some(first) = rest.chars().next() {
        rest = match first {
            '"' | '\'' => {
                let after = after_literal(&rest[1..], first);
                let at = text.len() - rest.len();
                tokens.push(Token::Text(at, &rest[..rest.len() - after.len()]));
                after
            }
            '/' if rest.starts_with("//") => rest.split_once('\n').map_or("", |(_, rest)| rest),
            '/' if rest.starts_with("/*") => {
                rest[2..].split_once("*/").map_or("", |(_, rest)| rest)
            }
            '.' if rest.starts_with("..") => {
                tokens.push(Token::Range);
                &rest[2..]
            }
            _ if is_name(first) && !first.is_ascii_digit() => {
                let end = rest.find(|next| !is_name(next)).unwrap_or(rest.len());
                let (name, rest) = rest.split_at(end);
                tokens.push(Token::Name(name));
                rest
            }
            _ => {
                if !first.is_whitespace() {
                    tokens.push(Token::Mark(first));
                }
                &rest[first.len_utf8()..]
            }
        };
    }
    tokens
}

fn is_name(character: char) -> bool {
    character.is_ascii_alphanumeric() || matches!(character, '_' | '$')
}

/// What stands behind the closing quote.
fn after_literal(text: &str, quote: char) -> &str {
    let mut escaped = false;
    for (place, character) in text.char_indices() {
        match character {
            _ if escaped => escaped = false,
            '\\' => escaped = true,
            _ if character == quote => return &text[place + character.len_utf8()..],
            _ => {}
        }
    }
    ""
}
