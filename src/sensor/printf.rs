//! Go's `fmt` verbs, which `string.format` in scripts and `printf` in templates follow.
//!
//! From above: [`print`] with a list of [`Argument`]s. A wrong verb is no error in Go: the text says
//! `%!d(float64=3)`, and so does this.

use std::borrow::Cow;

use crate::sensor::number::{format_general, quote};

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

fn print_int(out: &mut Vec<u8>, spec: &Spec, verb: char, value: i64) -> bool {
    let size = value.unsigned_abs();
    let (prefix, digits) = match verb {
        'd' | 'v' => ("", size.to_string()),
        'b' => ("0b", format!("{size:b}")),
        'o' => ("0", format!("{size:o}")),
        'O' => ("0o", format!("{size:o}")),
        'x' => ("0x", format!("{size:x}")),
        'X' => ("0X", format!("{size:X}")),
        'c' => {
            pad(out, spec, rune(value).to_string().as_bytes());
            return true;
        }
        'q' => {
            pad(out, spec, quoted_rune(rune(value)).as_bytes());
            return true;
        }
        'U' => {
            pad(
                out,
                &Spec {
                    zero: false,
                    ..spec.clone()
                },
                format!("U+{value:04X}").as_bytes(),
            );
            return true;
        }
        _ => return false,
    };
    let prefix = if verb == 'O' || (spec.sharp && verb != 'v') {
        prefix
    } else {
        ""
    };
    let number = with_sign(spec, value < 0, prefix, &digits);
    pad(
        out,
        &Spec {
            zero: false,
            ..spec.clone()
        },
        number.as_bytes(),
    );
    true
}

/// Puts sign, prefix and leading zeros before the digits, as precision or zero padding ask for.
fn with_sign(spec: &Spec, negative: bool, prefix: &str, digits: &str) -> String {
    if spec.precision == Some(0) && digits == "0" {
        return String::new();
    }
    let sign = match (negative, spec.plus, spec.space) {
        (true, ..) => "-",
        (_, true, _) => "+",
        (_, _, true) => " ",
        _ => "",
    };
    let least = match (spec.precision, spec.width) {
        (Some(precision), _) => precision,
        (None, Some(width)) if spec.zero => width.saturating_sub(sign.len()),
        _ => 0,
    };
    let zeros = "0".repeat(least.saturating_sub(digits.len()));
    format!("{sign}{prefix}{zeros}{digits}")
}

fn rune(value: i64) -> char {
    u32::try_from(value)
        .ok()
        .and_then(char::from_u32)
        .unwrap_or(char::REPLACEMENT_CHARACTER)
}

fn quoted_rune(c: char) -> String {
    match c {
        '\'' => "'\\''".to_string(),
        '"' => "'\"'".to_string(),
        c => {
            let quoted = quote(c.to_string().as_bytes());
            format!("'{}'", quoted.trim_matches('"'))
        }
    }
}

fn print_float(out: &mut Vec<u8>, spec: &Spec, verb: char, value: f64) -> bool {
    let size = value.abs();
    let digits = match (verb, spec.precision) {
        ('v' | 'g' | 'G', None) => format_general(size),
        ('v' | 'g' | 'G', Some(precision)) => general(size, precision.max(1)),
        ('e' | 'E', precision) => scientific(size, precision.unwrap_or(6)),
        ('f' | 'F', precision) => format!("{size:.*}", precision.unwrap_or(6)),
        _ => return false,
    };
    let digits = if matches!(verb, 'E' | 'G') {
        digits.to_uppercase()
    } else {
        digits
    };
    if !value.is_finite() {
        not_finite(out, spec, value);
        return true;
    }
    let number = Spec {
        precision: None,
        ..spec.clone()
    };
    let signed = with_sign(&number, value.is_sign_negative(), "", &digits);
    pad(
        out,
        &Spec {
            zero: false,
            ..number
        },
        signed.as_bytes(),
    );
    true
}

fn not_finite(out: &mut Vec<u8>, spec: &Spec, value: f64) {
    let text = match value {
        _ if value.is_nan() && spec.plus => "+NaN",
        _ if value.is_nan() && spec.space => " NaN",
        _ if value.is_nan() => "NaN",
        f64::NEG_INFINITY => "-Inf",
        _ if spec.space && !spec.plus => " Inf",
        _ => "+Inf",
    };
    pad(
        out,
        &Spec {
            zero: false,
            ..spec.clone()
        },
        text.as_bytes(),
    );
}

fn scientific(value: f64, precision: usize) -> String {
    let text = format!("{value:.precision$e}");
    match text.split_once('e') {
        Some((mantissa, exponent)) => {
            let (sign, digits) = match exponent.strip_prefix('-') {
                Some(digits) => ('-', digits),
                None => ('+', exponent),
            };
            format!("{mantissa}e{sign}{digits:0>2}")
        }
        None => text,
    }
}

/// The shorter of both notations with that many significant digits, zeros at the end left out.
fn general(value: f64, precision: usize) -> String {
    let text = scientific(value, precision - 1);
    let Some((mantissa, exponent)) = text.split_once('e') else {
        return text;
    };
    let exponent: i64 = exponent.parse().unwrap_or(0);
    let trim = |number: &str| match number.contains('.') {
        true => number
            .trim_end_matches('0')
            .trim_end_matches('.')
            .to_string(),
        false => number.to_string(),
    };
    let mantissa = trim(mantissa);
    let digits = mantissa.len() - usize::from(mantissa.contains('.'));
    let point = exponent + 1;
    let precision = i64::try_from(precision).unwrap_or(i64::MAX);
    let digits = i64::try_from(digits).unwrap_or(i64::MAX);
    let limit = if precision > digits && digits >= point {
        digits
    } else {
        precision
    };
    if exponent < -4 || exponent >= limit {
        let sign = if exponent < 0 { '-' } else { '+' };
        return format!("{mantissa}e{sign}{:02}", exponent.abs());
    }
    let decimals = usize::try_from(precision - point).unwrap_or(0);
    trim(&format!("{value:.decimals$}"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn show(format: &str, arguments: &[Argument<'_>]) -> String {
        String::from_utf8(print(format.as_bytes(), arguments, 1 << 20).unwrap()).unwrap()
    }

    fn int(value: i64) -> Argument<'static> {
        Argument::Int(value, "int")
    }

    fn string(value: &str) -> Argument<'_> {
        Argument::Text(Cow::Borrowed(value.as_bytes()))
    }

    #[test]
    fn verbs_follow_go() {
        assert_eq!(
            show(
                "%d|%5d|%-5d|%05d|%+d|% d",
                &[int(3), int(3), int(3), int(-3), int(3), int(3)]
            ),
            "3|    3|3    |-0003|+3| 3"
        );
        assert_eq!(
            show(
                "%x %X %#x %o %b %c %q %U",
                &[
                    int(255),
                    int(255),
                    int(255),
                    int(8),
                    int(5),
                    int(233),
                    int(65),
                    int(233)
                ]
            ),
            "ff FF 0xff 10 101 é 'A' U+00E9"
        );
        assert_eq!(
            show(
                "%5.2f|%e|%g|%G|%.3g|%.10g",
                &[
                    Argument::Float(1.234),
                    Argument::Float(1.5),
                    Argument::Float(1e6),
                    Argument::Float(1e-7),
                    Argument::Float(1234.5),
                    Argument::Float(0.1)
                ]
            ),
            " 1.23|1.500000e+00|1e+06|1E-07|1.23e+03|0.1"
        );
        assert_eq!(
            show(
                "%s|%5s|%-5s|%.2s|%q|%x|%v",
                &[
                    string("é"),
                    string("é"),
                    string("a"),
                    string("äöü"),
                    string("a\"\n"),
                    string("az"),
                    string("b")
                ]
            ),
            "é|    é|a    |äö|\"a\\\"\\n\"|617a|b"
        );
        assert_eq!(
            show(
                "%t %v %v %T",
                &[
                    Argument::Bool(true),
                    Argument::Bool(false),
                    Argument::Nil,
                    Argument::Float(1.0)
                ]
            ),
            "true false <nil> float64"
        );
    }

    #[test]
    fn wrong_verbs_are_told_in_the_text() {
        assert_eq!(
            show("%d %s %z", &[Argument::Float(3.0), int(3), string("a")]),
            "%!d(float64=3) %!s(int=3) %!z(string=a)"
        );
        assert_eq!(show("%d %d %", &[int(1)]), "1 %!d(MISSING) %!(NOVERB)");
        assert_eq!(
            show("a", &[int(1), string("b")]),
            "a%!(EXTRA int=1, string=b)"
        );
        assert_eq!(
            show("%[2]d %[1]d %[9]d", &[int(1), int(2)]),
            "2 1 %!d(BADINDEX)"
        );
        assert_eq!(
            show(
                "%*d|%-*d|%s",
                &[int(4), int(1), int(4), int(1), Argument::Nil]
            ),
            "   1|1   |%!s(<nil>)"
        );
        assert_eq!(
            show(
                "%v %f %5.1f",
                &[
                    Argument::Float(f64::INFINITY),
                    Argument::Float(f64::NAN),
                    Argument::Float(f64::NEG_INFINITY)
                ]
            ),
            "+Inf NaN  -Inf"
        );
    }

    #[test]
    fn long_results_are_refused() {
        assert_eq!(print(b"%1000000d", &[int(1)], 1000), Err(TooLong));
        assert_eq!(print(b"%9999999999d", &[int(1)], 1000), Ok(b"1".to_vec()));
    }

    proptest! {
        #[test]
        fn no_format_panics(format in any::<Vec<u8>>(), n in any::<i64>(), f in any::<f64>(), s in any::<Vec<u8>>()) {
            let arguments = [int(n), Argument::Float(f), Argument::Text(Cow::Owned(s)), Argument::Nil];
            let _ = print(&format, &arguments, 1 << 16);
        }

        #[test]
        fn no_directive_panics(format in "(%[-+# 0]{0,3}[0-9]{0,3}(\\.[0-9]{0,3})?[a-zA-Z%\\[\\]*]){0,5}", n in any::<i64>(), f in any::<f64>()) {
            let arguments = [int(n), Argument::Float(f), string("text"), Argument::Float(f), int(n)];
            let _ = print(format.as_bytes(), &arguments, 1 << 16);
        }
    }
}
