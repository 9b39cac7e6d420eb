//! Go's `fmt` verbs, which `string.format` in scripts and `printf` in templates follow.
//!
//! From above: [`print`] with a list of [`Argument`]s. A wrong verb is no error in Go: the text says
//! `%!d(float64=3)`, and so does this.

mod number;
#[cfg(test)]
mod tests;

use std::borrow::Cow;

use crate::sensor::number::quote;
use number::{print_float, print_int};

/// A value to print; the type name is what Go shows beside a wrong verb.
#[derive(Debug, Clone, PartialEq)]
pub enum Argument<'a> {
    Nil,
    Bool(bool),
    Int(i64, &'static str),
    Float(f64),
    Text(Cow<'a, [u8]>),
    /// A list, whose elements the verb prints one by one.
    List(Vec<Argument<'a>>),
    /// An object with its keys in order.
    Map(Vec<(Argument<'a>, Argument<'a>)>),
    /// A value with a text of its own, such as a list.
    Other(&'static str, String),
}

/// Width and precision above this are refused, as in Go.
const MAX_NUMBER: usize = 1_000_000;

/// The result would be longer than the given limit.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("formatted text is too long; use smaller widths or less text")]
pub struct TooLong;

/// Formats as `fmt.Sprintf` does; fails when the result passes `limit` bytes.
///
/// # Errors
/// [`TooLong`].
pub fn print(format: &[u8], arguments: &[Argument<'_>], limit: usize) -> Result<Vec<u8>, TooLong> {
    let mut printer = Printer {
        format,
        at: 0,
        arguments,
        next: 0,
        reordered: false,
        out: Vec::new(),
        limit,
    };
    while printer.at < format.len() {
        printer.directive();
        if printer.out.len() > limit {
            return Err(TooLong);
        }
    }
    printer.extra();
    if printer.out.len() > limit {
        return Err(TooLong);
    }
    Ok(printer.out)
}

#[derive(Debug, Clone, Default)]
struct Spec {
    plus: bool,
    minus: bool,
    sharp: bool,
    space: bool,
    zero: bool,
    width: Option<usize>,
    precision: Option<usize>,
    /// Where printing the elements of a list or object stops.
    limit: usize,
}

struct Printer<'a> {
    format: &'a [u8],
    at: usize,
    arguments: &'a [Argument<'a>],
    next: usize,
    reordered: bool,
    out: Vec<u8>,
    limit: usize,
}

impl Printer<'_> {
    fn peek(&self) -> Option<u8> {
        self.format.get(self.at).copied()
    }

    /// Copies text up to the next `%` and prints the directive there.
    fn directive(&mut self) {
        let rest = &self.format[self.at..];
        let text = rest.iter().position(|b| *b == b'%').unwrap_or(rest.len());
        self.out.extend_from_slice(&rest[..text]);
        self.at += text;
        if self.peek().is_none() {
            return;
        }
        self.at += 1;
        let mut spec = self.flags();
        let mut good_index = self.index();
        self.width(&mut spec);
        good_index &= self.index_after_width();
        self.precision(&mut spec);
        good_index &= self.index_after_width();
        let Some((verb, length)) = decode(&self.format[self.at..]) else {
            self.out.extend_from_slice(b"%!(NOVERB)");
            return;
        };
        self.at += length;
        if verb == '%' {
            self.out.push(b'%');
        } else if !good_index {
            self.complain(verb, "BADINDEX");
        } else if let Some(argument) = self.arguments.get(self.next) {
            self.next += 1;
            argument.print(&mut self.out, &spec, verb);
        } else {
            self.complain(verb, "MISSING");
        }
    }

    fn complain(&mut self, verb: char, what: &str) {
        self.out
            .extend_from_slice(format!("%!{verb}({what})").as_bytes());
    }

    fn flags(&mut self) -> Spec {
        let mut spec = Spec {
            limit: self.limit,
            ..Spec::default()
        };
        while let Some(flag) = self.peek() {
            match flag {
                b'+' => spec.plus = true,
                b'-' => spec.minus = true,
                b'#' => spec.sharp = true,
                b' ' => spec.space = true,
                b'0' => spec.zero = true,
                _ => break,
            }
            self.at += 1;
        }
        spec.zero &= !spec.minus;
        spec
    }

    /// Reads `[n]`, which names the next argument; false where it is wrong.
    fn index(&mut self) -> bool {
        if self.peek() != Some(b'[') {
            return true;
        }
        self.reordered = true;
        let rest = &self.format[self.at + 1..];
        let Some(end) = rest.iter().position(|b| *b == b']') else {
            self.at += 1;
            return false;
        };
        self.at += end + 2;
        let number = std::str::from_utf8(&rest[..end])
            .ok()
            .and_then(|n| n.parse::<usize>().ok());
        match number {
            Some(n) if n >= 1 && n <= self.arguments.len() => {
                self.next = n - 1;
                true
            }
            _ => false,
        }
    }

    fn index_after_width(&mut self) -> bool {
        self.index()
    }

    fn number(&mut self) -> Option<usize> {
        let start = self.at;
        while self.peek().is_some_and(|b| b.is_ascii_digit()) {
            self.at += 1;
        }
        let digits = std::str::from_utf8(&self.format[start..self.at]).unwrap_or_default();
        digits.parse().ok().filter(|n| *n <= MAX_NUMBER)
    }

    fn width(&mut self, spec: &mut Spec) {
        if self.peek() == Some(b'*') {
            self.at += 1;
            match self.int_argument() {
                Some(width) => {
                    spec.minus |= width < 0;
                    spec.zero &= !spec.minus;
                    spec.width = Some(usize::try_from(width.unsigned_abs()).unwrap_or(0));
                }
                None => self.out.extend_from_slice(b"%!(BADWIDTH)"),
            }
        } else {
            spec.width = self.number();
        }
    }

    fn precision(&mut self, spec: &mut Spec) {
        if self.peek() != Some(b'.') {
            return;
        }
        self.at += 1;
        if self.peek() == Some(b'*') {
            self.at += 1;
            match self.int_argument() {
                Some(precision) => spec.precision = usize::try_from(precision).ok(),
                None => self.out.extend_from_slice(b"%!(BADPREC)"),
            }
        } else {
            spec.precision = Some(self.number().unwrap_or(0));
        }
    }

    fn int_argument(&mut self) -> Option<i64> {
        let argument = self.arguments.get(self.next);
        self.next += usize::from(argument.is_some());
        let limit = MAX_NUMBER as i64;
        match argument {
            Some(Argument::Int(value, _)) if (-limit..=limit).contains(value) => Some(*value),
            _ => None,
        }
    }

    fn extra(&mut self) {
        if self.reordered || self.next >= self.arguments.len() {
            return;
        }
        self.out.extend_from_slice(b"%!(EXTRA ");
        for (position, argument) in self.arguments[self.next..].iter().enumerate() {
            if position > 0 {
                self.out.extend_from_slice(b", ");
            }
            argument.print_with_type(&mut self.out, &Spec::default());
        }
        self.out.push(b')');
    }
}

/// The first character and its length; a byte that is not UTF-8 is U+FFFD.
fn decode(text: &[u8]) -> Option<(char, usize)> {
    let chunk = text.utf8_chunks().next()?;
    match chunk.valid().chars().next() {
        Some(c) => Some((c, c.len_utf8())),
        None => Some((char::REPLACEMENT_CHARACTER, 1)),
    }
}

impl Argument<'_> {
    fn type_name(&self) -> &'static str {
        match self {
            Self::Nil => "<nil>",
            Self::Bool(_) => "bool",
            Self::Int(_, name) | Self::Other(name, _) => name,
            Self::Float(_) => "float64",
            Self::Text(_) => "string",
            Self::List(_) => "[]interface {}",
            Self::Map(_) => "map[string]interface {}",
        }
    }

    fn print_with_type(&self, out: &mut Vec<u8>, spec: &Spec) {
        out.extend_from_slice(self.type_name().as_bytes());
        if *self != Self::Nil {
            out.push(b'=');
            self.print(out, spec, 'v');
        }
    }

    fn bad_verb(&self, out: &mut Vec<u8>, spec: &Spec, verb: char) {
        out.extend_from_slice(format!("%!{verb}(").as_bytes());
        self.print_with_type(out, spec);
        out.push(b')');
    }

    fn print(&self, out: &mut Vec<u8>, spec: &Spec, verb: char) {
        if verb == 'T' {
            return text(out, spec, self.type_name().as_bytes());
        }
        let done = match self {
            Self::Nil if verb == 'v' => {
                text(out, spec, b"<nil>");
                true
            }
            Self::Nil => false,
            Self::Bool(value) => {
                let known = matches!(verb, 'v' | 't');
                if known {
                    text(out, spec, value.to_string().as_bytes());
                }
                known
            }
            Self::Int(value, _) => print_int(out, spec, verb, *value),
            Self::Float(value) => print_float(out, spec, verb, *value),
            Self::Text(value) => print_text(out, spec, verb, value),
            Self::List(items) => {
                out.push(b'[');
                for (place, item) in items.iter().enumerate() {
                    out.extend_from_slice(if place > 0 { b" " } else { b"" });
                    item.print_inside(out, spec, verb);
                }
                out.push(b']');
                true
            }
            Self::Map(members) => {
                out.extend_from_slice(b"map[");
                for (place, (key, value)) in members.iter().enumerate() {
                    out.extend_from_slice(if place > 0 { b" " } else { b"" });
                    key.print_inside(out, spec, verb);
                    out.push(b':');
                    value.print_inside(out, spec, verb);
                }
                out.push(b']');
                true
            }
            Self::Other(_, value) => {
                matches!(verb, 'v' | 's' | 'q') && print_text(out, spec, verb, value.as_bytes())
            }
        };
        if !done {
            self.bad_verb(out, spec, verb);
        }
    }
}

impl Argument<'_> {
    /// Prints an element: whatever the verb, nothing is `<nil>` there.
    fn print_inside(&self, out: &mut Vec<u8>, spec: &Spec, verb: char) {
        match self {
            Self::Nil => out.extend_from_slice(b"<nil>"),
            _ if out.len() > spec.limit => {}
            element => element.print(out, spec, verb),
        }
    }
}

fn char_count(text: &[u8]) -> usize {
    text.utf8_chunks()
        .map(|chunk| chunk.valid().chars().count() + chunk.invalid().len())
        .sum()
}

fn pad(out: &mut Vec<u8>, spec: &Spec, text: &[u8]) {
    let missing = spec.width.unwrap_or(0).saturating_sub(char_count(text));
    if spec.minus {
        out.extend_from_slice(text);
        out.resize(out.len() + missing, b' ');
    } else {
        let fill = if spec.zero { b'0' } else { b' ' };
        out.resize(out.len() + missing, fill);
        out.extend_from_slice(text);
    }
}

/// Prints a text, cut after as many characters as the precision says.
fn text(out: &mut Vec<u8>, spec: &Spec, text: &[u8]) {
    pad(out, spec, truncated(spec, text));
}

fn truncated<'t>(spec: &Spec, text: &'t [u8]) -> &'t [u8] {
    let Some(precision) = spec.precision else {
        return text;
    };
    let mut end = 0;
    for _ in 0..precision {
        match decode(&text[end..]) {
            Some((_, length)) => end += length,
            None => break,
        }
    }
    &text[..end]
}

fn print_text(out: &mut Vec<u8>, spec: &Spec, verb: char, value: &[u8]) -> bool {
    match verb {
        'v' if spec.sharp => pad(out, spec, quote(value).as_bytes()),
        'v' | 's' => text(out, spec, value),
        'q' => {
            let cut = truncated(spec, value);
            let raw = spec.sharp && !cut.iter().any(|b| *b < b' ' || *b == b'`' || *b == 0x7f);
            let quoted = if raw {
                [b"`", cut, b"`"].concat()
            } else {
                quote(cut).into_bytes()
            };
            pad(out, spec, &quoted);
        }
        'x' | 'X' => pad(out, spec, &hexadecimal(spec, verb, value)),
        _ => return false,
    }
    true
}

fn hexadecimal(spec: &Spec, verb: char, value: &[u8]) -> Vec<u8> {
    let value = &value[..spec.precision.unwrap_or(value.len()).min(value.len())];
    let mut digits = String::new();
    for (position, byte) in value.iter().enumerate() {
        if spec.space && position > 0 {
            digits.push(' ');
        }
        if spec.sharp && (spec.space || position == 0) {
            digits.push_str(if verb == 'X' { "0X" } else { "0x" });
        }
        digits.push_str(&if verb == 'X' {
            format!("{byte:02X}")
        } else {
            format!("{byte:02x}")
        });
    }
    digits.into_bytes()
}
