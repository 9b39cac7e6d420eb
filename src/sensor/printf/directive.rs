//! Reading a format: flags, width, precision, argument indexes, and the verb.

use super::{Argument, Spec, TooLong, decode};

/// Width and precision above this are refused, as in Go.
const MAX_NUMBER: usize = 1_000_000;

/// A format while it is printed.
pub(super) struct Printer<'a> {
    format: &'a [u8],
    at: usize,
    arguments: &'a [Argument<'a>],
    next: usize,
    reordered: bool,
    /// An index of this directive was wrong.
    bad_index: bool,
    out: Vec<u8>,
    limit: usize,
}

impl<'a> Printer<'a> {
    pub(super) fn new(format: &'a [u8], arguments: &'a [Argument<'a>], limit: usize) -> Self {
        Self {
            format,
            at: 0,
            arguments,
            next: 0,
            reordered: false,
            bad_index: false,
            out: Vec::new(),
            limit,
        }
    }

    /// Prints all of it.
    pub(super) fn run(mut self) -> Result<Vec<u8>, TooLong> {
        while self.at < self.format.len() {
            self.directive();
            if self.out.len() > self.limit {
                return Err(TooLong);
            }
        }
        self.extra();
        if self.out.len() > self.limit {
            return Err(TooLong);
        }
        Ok(self.out)
    }

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
        self.bad_index = false;
        let mut spec = self.flags();
        let after_index = self.index();
        let after_index = self.width(&mut spec, after_index);
        if !self.precision(&mut spec, after_index) {
            self.index();
        }
        let Some((verb, length)) = decode(&self.format[self.at..]) else {
            self.out.extend_from_slice(b"%!(NOVERB)");
            return;
        };
        self.at += length;
        if verb == '%' {
            self.out.push(b'%');
        } else if self.bad_index {
            self.complain(verb, "BADINDEX");
        } else if let Some(argument) = self.arguments.get(self.next) {
            self.next += 1;
            if matches!(verb, 'v' | 'w') {
                spec.source = std::mem::take(&mut spec.sharp);
                spec.plus = false;
            }
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

    /// Reads `[n]`, which names the next argument; says whether a number stands there.
    fn index(&mut self) -> bool {
        if self.peek() != Some(b'[') {
            return false;
        }
        self.reordered = true;
        let rest = &self.format[self.at + 1..];
        let end = rest.iter().position(|b| *b == b']');
        let Some(end) = end.filter(|_| rest.len() >= 2) else {
            self.at += 1;
            self.bad_index = true;
            return false;
        };
        self.at += end + 2;
        let digits = &rest[..end];
        let number = std::str::from_utf8(digits)
            .ok()
            .filter(|text| text.bytes().all(|b| b.is_ascii_digit()))
            .and_then(|text| text.parse::<usize>().ok())
            .filter(|n| *n <= MAX_NUMBER);
        match number {
            Some(n) if n >= 1 && n <= self.arguments.len() => self.next = n - 1,
            _ => self.bad_index = true,
        }
        number.is_some()
    }

    /// Reads digits; a number that is too large takes the rest of the format with it, as in Go.
    fn number(&mut self) -> Option<usize> {
        let start = self.at;
        while self.peek().is_some_and(|b| b.is_ascii_digit()) {
            self.at += 1;
        }
        let digits = std::str::from_utf8(&self.format[start..self.at]).unwrap_or_default();
        if digits.is_empty() {
            return None;
        }
        let number = digits.parse().ok().filter(|n| *n <= MAX_NUMBER);
        if number.is_none() {
            self.at = self.format.len();
        }
        number
    }

    /// Reads the width; says whether an index stands right before what follows.
    fn width(&mut self, spec: &mut Spec, after_index: bool) -> bool {
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
            return false;
        }
        spec.width = self.number();
        self.bad_index |= after_index && spec.width.is_some();
        after_index
    }

    /// Reads the precision; says whether an index stands right before what follows.
    fn precision(&mut self, spec: &mut Spec, after_index: bool) -> bool {
        if self.peek() != Some(b'.') {
            return after_index;
        }
        self.at += 1;
        self.bad_index |= after_index;
        let after_index = self.index();
        if self.peek() == Some(b'*') {
            self.at += 1;
            spec.precision = self
                .int_argument()
                .and_then(|precision| usize::try_from(precision).ok());
            if spec.precision.is_none() {
                self.out.extend_from_slice(b"%!(BADPREC)");
            }
            return false;
        }
        spec.precision = Some(self.number().unwrap_or(0));
        after_index
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
        let spec = Spec {
            limit: self.limit,
            ..Spec::default()
        };
        self.out.extend_from_slice(b"%!(EXTRA ");
        for (position, argument) in self.arguments[self.next..].iter().enumerate() {
            if position > 0 {
                self.out.extend_from_slice(b", ");
            }
            argument.print_with_type(&mut self.out, &spec);
        }
        self.out.push(b')');
    }
}
