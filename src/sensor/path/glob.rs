//! The wildcards of keys and of the `%` operator: `*` any characters, `?` one character, `\` takes the next literally.

use super::{Budget, LimitExceeded};

#[derive(Clone, Copy, PartialEq)]
enum Token {
    Any,
    One,
    Literal(Option<char>),
    Nothing,
}

/// A pattern made ready to match many texts.
pub(super) struct Glob {
    tokens: Vec<Token>,
}

impl Glob {
    pub(super) fn new(pattern: &[u8]) -> Self {
        let mut tokens = Vec::new();
        let mut characters = Characters { bytes: pattern };
        while let Some(character) = characters.next() {
            let token = match character {
                Some('*') if tokens.last() == Some(&Token::Any) => continue,
                Some('*') => Token::Any,
                Some('?') => Token::One,
                Some('\\') => match characters.next() {
                    Some(escaped) => Token::Literal(escaped),
                    // A backslash at the end stands for itself after a star and for nothing elsewhere.
                    None if tokens.contains(&Token::Any) => Token::Literal(Some('\\')),
                    None => Token::Nothing,
                },
                other => Token::Literal(other),
            };
            tokens.push(token);
        }
        Self { tokens }
    }

    /// Whether the pattern covers the whole text; goes back to the last star only, so the work is a product at worst.
    pub(super) fn matches(&self, text: &[u8], budget: &Budget) -> Result<bool, LimitExceeded> {
        let mut characters = Characters { bytes: text };
        let mut token = 0;
        let mut star: Option<(usize, Characters<'_>)> = None;
        let mut steps = 0usize;
        loop {
            steps += 1;
            if steps.is_multiple_of(4096) {
                budget.charge(4096)?;
            }
            let here = characters;
            let character = characters.next();
            match (self.tokens.get(token), character) {
                (None, None) => return Ok(true),
                (Some(Token::Any), _) => {
                    token += 1;
                    characters = here;
                    star = Some((token, here));
                    continue;
                }
                (Some(Token::One), Some(_)) => {
                    token += 1;
                    continue;
                }
                (Some(Token::Literal(wanted)), Some(found)) if *wanted == found => {
                    token += 1;
                    continue;
                }
                _ => {}
            }
            let Some((after_star, from)) = star.as_mut() else {
                return Ok(false);
            };
            if from.next().is_none() {
                return Ok(false);
            }
            token = *after_star;
            characters = *from;
        }
    }
}

/// Characters of bytes that may not be UTF-8: every wrong byte is a `None`, equal to any other.
#[derive(Clone, Copy)]
struct Characters<'t> {
    bytes: &'t [u8],
}

impl Iterator for Characters<'_> {
    type Item = Option<char>;

    fn next(&mut self) -> Option<Option<char>> {
        let first = *self.bytes.first()?;
        let width = match first {
            0..0x80 => {
                self.bytes = &self.bytes[1..];
                return Some(Some(first as char));
            }
            0xc2..0xe0 => 2,
            0xe0..0xf0 => 3,
            0xf0..0xf5 => 4,
            _ => 1,
        };
        let head = self.bytes.get(..width);
        let character = head
            .and_then(|head| std::str::from_utf8(head).ok())
            .and_then(|head| head.chars().next());
        self.bytes = &self.bytes[if character.is_some() { width } else { 1 }..];
        Some(character.filter(|character| *character != char::REPLACEMENT_CHARACTER))
    }
}
