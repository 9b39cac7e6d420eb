//! Go's `fmt` verbs, which `string.format` in scripts and `printf` in templates follow.
//!
//! From above: [`print`] with a list of [`Argument`]s. A wrong verb is no error in Go: the text says
//! `%!d(float64=3)`, and so does this.

mod directive;
mod number;
mod powers;
#[cfg(test)]
mod tests;

use std::borrow::Cow;

use crate::sensor::number::quote;
use directive::Printer;
use number::{print_float, print_int};

/// A value to print; the type name is what Go shows beside a wrong verb.
#[derive(Debug, Clone, PartialEq)]
pub enum Argument<'a> {
    Nil,
    Bool(bool),
    Int(i64, &'static str),
    Float(f64),
    Text(Cow<'a, [u8]>),
    /// A list of this type, whose elements the verb prints one by one.
    List(&'static str, Vec<Argument<'a>>),
    /// An object of this type with its keys in order.
    Map(&'static str, Vec<(Argument<'a>, Argument<'a>)>),
    /// A value with a text of its own, such as a list.
    Other(&'static str, String),
}

impl Argument<'_> {
    /// The same with texts of its own.
    #[must_use]
    pub fn into_owned(self) -> Argument<'static> {
        match self {
            Self::Nil => Argument::Nil,
            Self::Bool(value) => Argument::Bool(value),
            Self::Int(value, name) => Argument::Int(value, name),
            Self::Float(value) => Argument::Float(value),
            Self::Text(text) => Argument::Text(text.into_owned().into()),
            Self::List(name, items) => {
                Argument::List(name, items.into_iter().map(Self::into_owned).collect())
            }
            Self::Map(name, members) => {
                let members = members.into_iter();
                let owned = members.map(|(key, value)| (key.into_owned(), value.into_owned()));
                Argument::Map(name, owned.collect())
            }
            Self::Other(name, text) => Argument::Other(name, text),
        }
    }
}

/// The result would be longer than the given limit.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("formatted text is too long; use smaller widths or less text")]
pub struct TooLong;

/// Formats as `fmt.Sprintf` does; fails when the result passes `limit` bytes.
///
/// # Errors
/// [`TooLong`].
pub fn print(format: &[u8], arguments: &[Argument<'_>], limit: usize) -> Result<Vec<u8>, TooLong> {
    Printer::new(format, arguments, limit).run()
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
    /// `#` under the verb `v`: as Go's source would write it.
    source: bool,
    /// Where printing the elements of a list or object stops.
    limit: usize,
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
            Self::Int(_, name)
            | Self::Other(name, _)
            | Self::List(name, _)
            | Self::Map(name, _) => name,
            Self::Float(_) => "float64",
            Self::Text(_) => "string",
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
                pad(out, spec, b"<nil>");
                true
            }
            Self::Nil => false,
            Self::Bool(value) => {
                let known = matches!(verb, 'v' | 't');
                if known {
                    pad(out, spec, value.to_string().as_bytes());
                }
                known
            }
            Self::Int(value, _) => print_int(out, spec, verb, *value),
            Self::Float(value) => print_float(out, spec, verb, *value),
            Self::Text(value) => print_text(out, spec, verb, value),
            // That verb is for errors; of a container it is wrong as a whole.
            Self::List(..) | Self::Map(..) if verb == 'w' => false,
            Self::List(name, items) => {
                let items = items.iter().map(|item| (None, item));
                print_parts(out, spec, verb, (name, "["), items);
                true
            }
            Self::Map(name, members) => {
                let members = members.iter().map(|(key, value)| (Some(key), value));
                print_parts(out, spec, verb, (name, "map["), members);
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

    /// Prints an element: whatever the verb, nothing is `<nil>` there.
    fn print_inside(&self, out: &mut Vec<u8>, spec: &Spec, verb: char) {
        match self {
            Self::Nil if spec.source => out.extend_from_slice(b"interface {}(nil)"),
            Self::Nil => out.extend_from_slice(b"<nil>"),
            _ if out.len() > spec.limit => {}
            element => element.print(out, spec, verb),
        }
    }
}

/// Prints the parts of a list or object: `[1 2]`, or as source `[]int{1, 2}`.
fn print_parts<'p, 'a: 'p>(
    out: &mut Vec<u8>,
    spec: &Spec,
    verb: char,
    (name, open): (&str, &str),
    parts: impl Iterator<Item = (Option<&'p Argument<'a>>, &'p Argument<'a>)>,
) {
    let (start, between, end) = if spec.source {
        (format!("{name}{{"), ", ", b'}')
    } else {
        (open.to_owned(), " ", b']')
    };
    out.extend_from_slice(start.as_bytes());
    for (place, (key, part)) in parts.enumerate() {
        if place > 0 {
            out.extend_from_slice(between.as_bytes());
        }
        if let Some(key) = key {
            key.print_inside(out, spec, verb);
            out.push(b':');
        }
        part.print_inside(out, spec, verb);
    }
    out.push(end);
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
        'v' if spec.source => pad(out, spec, quote(value).as_bytes()),
        'v' | 's' => text(out, spec, value),
        'q' => {
            let cut = truncated(spec, value);
            let quoted = if spec.sharp && can_be_raw(cut) {
                [b"`", cut, b"`"].concat()
            } else if spec.plus {
                ascii(&quote(cut)).into_bytes()
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

/// Whether a text can stand between backquotes as it is.
fn can_be_raw(text: &[u8]) -> bool {
    const BYTE_ORDER_MARK: char = '\u{FEFF}';
    std::str::from_utf8(text).is_ok_and(|text| {
        text.chars()
            .all(|c| c == '\t' || (c >= ' ' && !matches!(c, '`' | '\x7f') && c != BYTE_ORDER_MARK))
    })
}

/// A quoted text with what is not ASCII escaped.
fn ascii(quoted: &str) -> String {
    let mut out = String::with_capacity(quoted.len());
    for c in quoted.chars() {
        match u32::from(c) {
            0..0x80 => out.push(c),
            code @ 0x80..0x1_0000 => out.push_str(&format!("\\u{code:04x}")),
            code => out.push_str(&format!("\\U{code:08x}")),
        }
    }
    out
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
