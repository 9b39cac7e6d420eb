//! From text to tokens.
//!
//! Symbols are read greedily: `a>-1` has the symbol `>-`, which does not exist, while `a > -1` is fine.

use std::fmt;

use jiff::civil::DateTime;

use super::ExprError;
use crate::sensor::layout;
use crate::sensor::number::{format_general, parse_float};

/// The kinds of tokens, with the names that error texts use.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    Unknown,
    Prefix,
    Numeric,
    Boolean,
    String,
    Pattern,
    Time,
    Variable,
    Separator,
    Accessor,
    Comparator,
    LogicalOp,
    Modifier,
    Clause,
    ClauseClose,
    Ternary,
}

impl Kind {
    pub fn name(self) -> &'static str {
        match self {
            Self::Unknown => "UNKNOWN",
            Self::Prefix => "PREFIX",
            Self::Numeric => "NUMERIC",
            Self::Boolean => "BOOLEAN",
            Self::String => "STRING",
            Self::Pattern => "PATTERN",
            Self::Time => "TIME",
            Self::Variable => "VARIABLE",
            Self::Separator => "SEPARATOR",
            Self::Accessor => "ACCESSOR",
            Self::Comparator => "COMPARATOR",
            Self::LogicalOp => "LOGICALOP",
            Self::Modifier => "MODIFIER",
            Self::Clause => "CLAUSE",
            Self::ClauseClose => "CLAUSE_CLOSE",
            Self::Ternary => "TERNARY",
        }
    }
}

/// A token: its kind decides how its text is to be read.
#[derive(Debug, Clone)]
pub(super) struct Token {
    pub kind: Kind,
    pub value: TokenValue,
}

#[derive(Debug, Clone)]
pub(super) enum TokenValue {
    Text(String),
    Number(f64),
    Bool(bool),
    Time(layout::Moment),
    Parts(Vec<String>),
}

impl fmt::Display for Token {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (&self.value, self.kind) {
            // A parenthesis is a rune in Go, and `%v` writes its number.
            (_, Kind::Clause) => f.write_str("40"),
            (_, Kind::ClauseClose) => f.write_str("41"),
            (TokenValue::Text(text), _) => f.write_str(text),
            (TokenValue::Number(number), _) => f.write_str(&format_general(*number)),
            (TokenValue::Bool(value), _) => write!(f, "{value}"),
            (TokenValue::Time(moment), _) => f.write_str(&moment.to_go_string()),
            (TokenValue::Parts(parts), _) => write!(f, "[{}]", parts.join(" ")),
        }
    }
}

/// Dates and times that make a text a number of seconds.
const TIME_LAYOUTS: [&str; 14] = [
    "Mon Jan _2 15:04:05 2006",
    "Mon Jan _2 15:04:05 MST 2006",
    "Mon Jan 02 15:04:05 -0700 2006",
    "3:04PM",
    "2006-01-02T15:04:05Z07:00",
    "2006-01-02T15:04:05.999999999Z07:00",
    "2006-01-02",
    "2006-01-02 15:04",
    "2006-01-02 15:04:05",
    "2006-01-02 15:04:05-07:00",
    "2006-01-02T15Z0700",
    "2006-01-02T15:04Z0700",
    "2006-01-02T15:04:05Z0700",
    "2006-01-02T15:04:05.999999999Z0700",
];

/// Splits an expression.
pub(super) fn tokens(expression: &str) -> Result<Vec<Token>, ExprError> {
    let mut lexer = Lexer {
        chars: expression.chars().collect(),
        at: 0,
    };
    let mut tokens: Vec<Token> = Vec::new();
    while let Some(c) = lexer.next() {
        if c.is_whitespace() {
            continue;
        }
        let before = tokens.last().map_or(Kind::Unknown, |token| token.kind);
        tokens.push(lexer.token(c, before)?);
    }
    Ok(tokens)
}

fn is_numeric(c: char) -> bool {
    c.is_ascii_digit() || c == '.'
}

fn is_quote(c: char) -> bool {
    c == '\'' || c == '"'
}

fn is_name(c: char) -> bool {
    c.is_alphanumeric() || c == '_' || c == '.'
}

fn is_symbol(c: char) -> bool {
    !(c.is_alphanumeric() || "()[]".contains(c) || is_quote(c))
}

struct Lexer {
    chars: Vec<char>,
    at: usize,
}

impl Lexer {
    fn next(&mut self) -> Option<char> {
        let c = self.chars.get(self.at).copied()?;
        self.at += 1;
        Some(c)
    }

    /// Reads while the condition holds; a backslash makes any character part of the run.
    ///
    /// Spaces end the run or, with `spaces`, are judged like the rest. Says whether something ended the run.
    fn run(
        &mut self,
        spaces: bool,
        escapes: bool,
        wanted: impl Fn(char) -> bool,
    ) -> Result<(String, bool), ExprError> {
        let mut text = String::new();
        while let Some(c) = self.next() {
            if escapes && c == '\\' {
                text.push(
                    self.next().ok_or_else(|| {
                        ExprError::parse("Unfinished escape at end of expression")
                    })?,
                );
                continue;
            }
            if c.is_whitespace() && !spaces {
                if text.is_empty() {
                    continue;
                }
                return Ok((text, true));
            }
            if !wanted(c) {
                self.at -= 1;
                return Ok((text, true));
            }
            text.push(c);
        }
        Ok((text, false))
    }

    /// Reads a run that starts with the character before.
    fn whole_run(&mut self, wanted: impl Fn(char) -> bool) -> Result<String, ExprError> {
        self.at -= 1;
        Ok(self.run(false, true, wanted)?.0)
    }

    fn token(&mut self, c: char, before: Kind) -> Result<Token, ExprError> {
        let text = |kind, text: String| {
            Ok(Token {
                kind,
                value: TokenValue::Text(text),
            })
        };
        match c {
            c if is_numeric(c) => self.number(c),
            ',' => text(Kind::Separator, ",".to_string()),
            '[' => {
                let (name, closed) = self.run(true, true, |c| c != ']')?;
                if !closed {
                    return Err(ExprError::parse("Unclosed parameter bracket"));
                }
                self.at += 1;
                text(Kind::Variable, name)
            }
            c if c.is_alphabetic() => self.word(),
            c if is_quote(c) => self.text(),
            '(' => text(Kind::Clause, "(".to_string()),
            ')' => text(Kind::ClauseClose, ")".to_string()),
            _ => {
                let symbol = self.whole_run(is_symbol)?;
                match symbol_kind(&symbol, before) {
                    Some(kind) => text(kind, symbol),
                    None => Err(ExprError::parse(format!("Invalid token: '{symbol}'"))),
                }
            }
        }
    }

    fn number(&mut self, c: char) -> Result<Token, ExprError> {
        let hexadecimal =
            c == '0' && self.chars.get(self.at) == Some(&'x') && self.at + 1 < self.chars.len();
        let value = if hexadecimal {
            self.at += 1;
            let (digits, _) = self.run(false, true, |c| c.is_ascii_hexdigit())?;
            let value = u64::from_str_radix(&digits, 16).map_err(|_| {
                ExprError::parse(format!("Unable to parse hex value '{digits}' to uint64\n"))
            })?;
            value as f64
        } else {
            let digits = self.whole_run(is_numeric)?;
            parse_float(digits.as_bytes()).map_err(|_| {
                ExprError::parse(format!(
                    "Unable to parse numeric value '{digits}' to float64\n"
                ))
            })?
        };
        Ok(Token {
            kind: Kind::Numeric,
            value: TokenValue::Number(value),
        })
    }

    fn word(&mut self) -> Result<Token, ExprError> {
        let word = self.whole_run(is_name)?;
        let (kind, value) = match word.as_str() {
            "true" | "false" => (Kind::Boolean, TokenValue::Bool(word == "true")),
            "in" | "IN" => (Kind::Comparator, TokenValue::Text("in".to_string())),
            _ if word.find('.').is_some_and(|dot| dot > 0) => {
                (Kind::Accessor, TokenValue::Parts(accessor(&word)?))
            }
            _ => (Kind::Variable, TokenValue::Text(word)),
        };
        Ok(Token { kind, value })
    }

    fn text(&mut self) -> Result<Token, ExprError> {
        let (text, closed) = self.run(true, true, |c| !is_quote(c))?;
        if !closed {
            return Err(ExprError::parse("Unclosed string literal"));
        }
        self.at += 1;
        Ok(
            match TIME_LAYOUTS
                .iter()
                .find_map(|layout| layout::parse(layout, &text))
            {
                Some(moment) => Token {
                    kind: Kind::Time,
                    value: TokenValue::Time(moment),
                },
                None => Token {
                    kind: Kind::String,
                    value: TokenValue::Text(text),
                },
            },
        )
    }
}

fn accessor(word: &str) -> Result<Vec<String>, ExprError> {
    if word.ends_with('.') {
        return Err(ExprError::parse(format!(
            "Hanging accessor on token '{word}'"
        )));
    }
    let parts: Vec<String> = word.split('.').map(str::to_string).collect();
    let unexported = |part: &&String| {
        part.chars()
            .next()
            .is_none_or(|c| !c.to_uppercase().eq([c]))
    };
    match parts[1..].iter().find(unexported) {
        Some(part) => Err(ExprError::parse(format!(
            "Unable to access unexported field '{part}' in token '{word}'"
        ))),
        None => Ok(parts),
    }
}

fn symbol_kind(symbol: &str, before: Kind) -> Option<Kind> {
    let prefix = matches!(symbol, "-" | "!" | "~");
    Some(match symbol {
        _ if prefix && super::grammar::may_follow(before, Kind::Prefix) => Kind::Prefix,
        "+" | "-" | "*" | "/" | "%" | "**" | "&" | "|" | "^" | ">>" | "<<" => Kind::Modifier,
        "&&" | "||" => Kind::LogicalOp,
        "==" | "!=" | ">" | ">=" | "<" | "<=" | "=~" | "!~" => Kind::Comparator,
        "?" | ":" | "??" => Kind::Ternary,
        _ => return None,
    })
}

/// The seconds since 1970 that a date or time stands for.
pub(super) fn seconds(moment: &layout::Moment) -> f64 {
    let epoch = DateTime::constant(1970, 1, 1, 0, 0, 0, 0);
    let seconds = moment.datetime.duration_since(epoch).as_secs();
    (seconds - i64::from(moment.offset.unwrap_or(0))) as f64
}
