//! From text to items: plain text, and what stands between `{{` and `}}`.

use super::TemplateError;
use super::literal::is_imaginary;
use crate::sensor::number::parse_float;

/// What an item is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    Text,
    Open,
    Close,
    Space,
    Quoted,
    Char,
    Number,
    Bool,
    Nil,
    Dot,
    Field,
    Variable,
    Identifier,
    Keyword,
    Pipe,
    LeftParen,
    RightParen,
    Declare,
    Assign,
    /// Any other character.
    Other,
}

/// An item with its place in the template.
#[derive(Debug, Clone)]
pub(super) struct Item {
    pub kind: Kind,
    pub text: String,
    pub at: usize,
}

const KEYWORDS: [&str; 10] = [
    "block", "break", "continue", "define", "else", "end", "if", "range", "template", "with",
];

struct Lexer<'t> {
    source: &'t str,
    at: usize,
    items: Vec<Item>,
}

/// Splits a template.
pub(super) fn items(source: &str) -> Result<Vec<Item>, TemplateError> {
    let mut lexer = Lexer {
        source,
        at: 0,
        items: Vec::new(),
    };
    while lexer.at < source.len() {
        lexer.text()?;
    }
    Ok(lexer.items)
}

/// The line, from 1, that a place is in.
pub(super) fn line(source: &str, at: usize) -> usize {
    1 + source.as_bytes()[..at.min(source.len())]
        .iter()
        .filter(|byte| **byte == b'\n')
        .count()
}

fn is_space(c: char) -> bool {
    matches!(c, ' ' | '\t' | '\r' | '\n')
}

impl Lexer<'_> {
    fn rest(&self) -> &str {
        &self.source[self.at..]
    }

    fn push(&mut self, kind: Kind, length: usize) {
        let text = self.source[self.at..self.at + length].to_string();
        self.items.push(Item {
            kind,
            text,
            at: self.at,
        });
        self.at += length;
    }

    fn error<T>(&self, text: &str) -> Result<T, TemplateError> {
        Err(TemplateError::parse(self.source, self.at, text))
    }

    /// Reads text up to the next action, and the action.
    fn text(&mut self) -> Result<(), TemplateError> {
        let rest = self.rest();
        let open = rest.find("{{").unwrap_or(rest.len());
        let trims = trims_before(&rest[open..]);
        let text = if trims {
            rest[..open].trim_end_matches(is_space)
        } else {
            &rest[..open]
        };
        if !text.is_empty() {
            let length = text.len();
            self.push(Kind::Text, length);
            self.at -= length;
        }
        self.at += open;
        if self.rest().is_empty() {
            return Ok(());
        }
        self.action(trims)
    }

    fn action(&mut self, trims: bool) -> Result<(), TemplateError> {
        let marker = if trims { 4 } else { 2 };
        let after = &self.rest()[marker.min(self.rest().len())..];
        if after.starts_with("/*") {
            return self.comment(marker);
        }
        self.items.push(Item {
            kind: Kind::Open,
            text: "{{".to_string(),
            at: self.at,
        });
        self.at += marker;
        let mut open = 0usize;
        loop {
            let rest = self.rest();
            let trims_after = rest.starts_with(is_space) && rest[1..].starts_with("-}}");
            if trims_after || rest.starts_with("}}") {
                if open > 0 {
                    return self.error("unclosed left paren");
                }
                self.items.push(Item {
                    kind: Kind::Close,
                    text: "}}".to_string(),
                    at: self.at,
                });
                self.at += if trims_after { 4 } else { 2 };
                if trims_after {
                    self.skip_spaces();
                }
                return Ok(());
            }
            if rest.is_empty() {
                return self.error("unclosed action");
            }
            self.item(&mut open)?;
        }
    }

    fn skip_spaces(&mut self) {
        let rest = self.rest();
        self.at += rest.len() - rest.trim_start_matches(is_space).len();
    }

    fn comment(&mut self, marker: usize) -> Result<(), TemplateError> {
        let Some(end) = self.rest()[marker..].find("*/") else {
            return self.error("unclosed comment");
        };
        self.at += marker + end + 2;
        let rest = self.rest();
        if rest.starts_with("}}") {
            self.at += 2;
        } else if rest.starts_with(is_space) && rest[1..].starts_with("-}}") {
            self.at += 4;
            self.skip_spaces();
        } else {
            return self.error("comment ends before closing delimiter");
        }
        Ok(())
    }

    fn item(&mut self, open: &mut usize) -> Result<(), TemplateError> {
        let rest = self.rest();
        let mut chars = rest.chars();
        let (first, second) = (chars.next().unwrap_or(' '), chars.next());
        match first {
            c if is_space(c) => {
                // A space right before the trimming end belongs to it.
                let spaces = rest.len() - rest.trim_start_matches(is_space).len();
                let trims = rest[spaces..].starts_with("-}}");
                let length = if trims { (spaces - 1).max(1) } else { spaces };
                if trims && spaces == 1 {
                    return Ok(());
                }
                self.push(Kind::Space, length);
            }
            ':' if second == Some('=') => self.push(Kind::Declare, 2),
            '=' => self.push(Kind::Assign, 1),
            '|' => self.push(Kind::Pipe, 1),
            '"' => return self.quoted('"', Kind::Quoted, "unterminated quoted string"),
            '\'' => return self.quoted('\'', Kind::Char, "unterminated character constant"),
            '`' => {
                let Some(end) = rest[1..].find('`') else {
                    return self.error("unterminated raw quoted string");
                };
                self.push(Kind::Quoted, end + 2);
            }
            '$' => {
                let length = 1 + word_length(&rest[1..]);
                self.push(Kind::Variable, length);
                return self.check_end();
            }
            '.' if !second.is_some_and(|c| c.is_ascii_digit()) => {
                let length = word_length(&rest[1..]);
                let kind = if length == 0 { Kind::Dot } else { Kind::Field };
                self.push(kind, 1 + length);
                return self.check_end();
            }
            '+' | '-' | '.' | '0'..='9' => return self.number(),
            '(' => {
                *open += 1;
                self.push(Kind::LeftParen, 1);
            }
            ')' => {
                if *open == 0 {
                    return self.error("unexpected right paren");
                }
                *open -= 1;
                self.push(Kind::RightParen, 1);
            }
            c if c == '_' || c.is_alphanumeric() => return self.word(),
            c if c.is_ascii() && !c.is_ascii_control() => self.push(Kind::Other, c.len_utf8()),
            c => {
                return self.error(&format!(
                    "unrecognized character in action: U+{:04X} '{c}'",
                    u32::from(c)
                ));
            }
        }
        Ok(())
    }

    fn quoted(&mut self, quote: char, kind: Kind, unfinished: &str) -> Result<(), TemplateError> {
        let mut escaped = false;
        for (at, c) in self.rest().char_indices().skip(1) {
            match c {
                '\n' => break,
                _ if escaped => escaped = false,
                '\\' => escaped = true,
                c if c == quote => {
                    self.push(kind, at + 1);
                    return Ok(());
                }
                _ => {}
            }
        }
        self.error(unfinished)
    }

    fn number(&mut self) -> Result<(), TemplateError> {
        let rest = self.rest();
        let signed = usize::from(rest.starts_with(['+', '-']));
        let hexadecimal = rest[signed..].starts_with("0x") || rest[signed..].starts_with("0X");
        let mut length = signed;
        let mut before = ' ';
        for c in rest[signed..].chars() {
            let exponent = if hexadecimal {
                matches!(before, 'p' | 'P')
            } else {
                matches!(before, 'e' | 'E')
            };
            let allowed = c.is_ascii_alphanumeric()
                || matches!(c, '.' | '_')
                || (exponent && matches!(c, '+' | '-'));
            if !allowed {
                break;
            }
            length += c.len_utf8();
            before = c;
        }
        if length == signed {
            let text = format!(
                "bad number syntax: {:?}",
                rest.chars().take(2).collect::<String>()
            );
            return self.error(&text);
        }
        if let Some(sum) = complex_sum(rest, length) {
            return Err(TemplateError::Outside(format!("the complex number {sum}")));
        }
        self.push(Kind::Number, length);
        self.check_end()
    }

    fn word(&mut self) -> Result<(), TemplateError> {
        let length = word_length(self.rest());
        let kind = match &self.rest()[..length] {
            "true" | "false" => Kind::Bool,
            "nil" => Kind::Nil,
            word if KEYWORDS.contains(&word) => Kind::Keyword,
            _ => Kind::Identifier,
        };
        self.push(kind, length);
        self.check_end()
    }

    /// After a word something must stand that ends it.
    fn check_end(&self) -> Result<(), TemplateError> {
        match self.rest().chars().next() {
            None => Ok(()),
            Some(c) if is_space(c) || ".,|:)(=".contains(c) || self.rest().starts_with("}}") => {
                Ok(())
            }
            Some(c) => self.error(&format!("bad character U+{:04X} '{c}'", u32::from(c))),
        }
    }
}

/// A sum such as `1+2i` whose first part is so long.
fn complex_sum(text: &str, length: usize) -> Option<&str> {
    let second = text.get(length..)?;
    let signed = second.starts_with(['+', '-']);
    let end = second
        .get(1..)?
        .find(|c: char| !c.is_ascii_alphanumeric() && c != '.' && c != '_')
        .map_or(second.len(), |end| end + 1);
    let (first, second) = (text.get(..length)?, second.get(..end)?);
    let complex = signed && parse_float(first.as_bytes()).is_ok() && is_imaginary(second);
    complex.then(|| text.get(..length + end))?
}

fn trims_before(action: &str) -> bool {
    action
        .strip_prefix("{{-")
        .is_some_and(|after| after.starts_with(is_space))
}

fn word_length(text: &str) -> usize {
    text.find(|c: char| c != '_' && !c.is_alphanumeric())
        .unwrap_or(text.len())
}
