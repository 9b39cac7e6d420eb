//! Lua's patterns with a step count: in C they run without end and without a way to stop them.
//!
//! The rules are those of the Lua 5.1 manual, section 5.4.1.

/// Groups in one pattern.
const MAX_CAPTURES: usize = 32;
/// Alternatives inside one another.
const MAX_DEPTH: usize = 200;
/// Steps between two looks at the budget.
const STEPS_PER_CHARGE: usize = 4096;

/// Why a match could not be tried to its end.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(in crate::sensor) enum PatternError {
    #[error("malformed pattern ({0})")]
    Malformed(&'static str),
    #[error("{0}")]
    Invalid(&'static str),
    #[error("pattern too complex")]
    TooComplex,
    #[error("steps used up")]
    Exhausted,
}

type Outcome<T> = Result<T, PatternError>;

/// A group's place in the text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::sensor) enum Capture {
    Span(usize, usize),
    /// `()`: the position itself.
    Position(usize),
    Open(usize),
}

/// Tries one pattern on one text.
pub(in crate::sensor) struct Matcher<'a> {
    text: &'a [u8],
    pattern: &'a [u8],
    captures: Vec<Capture>,
    depth: usize,
    steps: usize,
    /// Takes steps away; false when none are left.
    charge: &'a dyn Fn(usize) -> bool,
}

impl<'a> Matcher<'a> {
    /// The pattern is without its leading `^`.
    pub fn new(text: &'a [u8], pattern: &'a [u8], charge: &'a dyn Fn(usize) -> bool) -> Self {
        Self {
            text,
            pattern,
            captures: Vec::new(),
            depth: 0,
            steps: 0,
            charge,
        }
    }

    /// Tries at one place and gives the end of the match.
    pub fn match_at(&mut self, start: usize) -> Outcome<Option<usize>> {
        self.captures.clear();
        self.depth = 0;
        self.run(start, 0)
    }

    /// Returns the groups of the last match; an unfinished one is an error.
    pub fn captures(&self) -> Outcome<&[Capture]> {
        if self.captures.iter().any(|c| matches!(c, Capture::Open(_))) {
            return Err(PatternError::Invalid("unfinished capture"));
        }
        Ok(&self.captures)
    }

    fn step(&mut self) -> Outcome<()> {
        self.steps += 1;
        if self.steps >= STEPS_PER_CHARGE {
            self.steps = 0;
            if !(self.charge)(STEPS_PER_CHARGE) {
                return Err(PatternError::Exhausted);
            }
        }
        Ok(())
    }

    fn nested(&mut self, s: usize, p: usize) -> Outcome<Option<usize>> {
        if self.depth >= MAX_DEPTH {
            return Err(PatternError::TooComplex);
        }
        self.depth += 1;
        let result = self.run(s, p);
        self.depth -= 1;
        result
    }

    fn run(&mut self, mut s: usize, mut p: usize) -> Outcome<Option<usize>> {
        loop {
            self.step()?;
            let next = self.pattern.get(p + 1).copied();
            match self.pattern.get(p).copied() {
                None => return Ok(Some(s)),
                Some(b'(') if next == Some(b')') => {
                    return self.open(Capture::Position(s), s, p + 2);
                }
                Some(b'(') => return self.open(Capture::Open(s), s, p + 1),
                Some(b')') => return self.close(s, p + 1),
                Some(b'$') if next.is_none() => return Ok((s == self.text.len()).then_some(s)),
                Some(b'%') if next == Some(b'b') => match self.balance(s, p + 2)? {
                    Some(end) => (s, p) = (end, p + 4),
                    None => return Ok(None),
                },
                Some(b'%') if next == Some(b'f') => match self.frontier(s, p + 2)? {
                    Some(after) => p = after,
                    None => return Ok(None),
                },
                Some(b'%') if next.is_some_and(|c| c.is_ascii_digit()) => {
                    match self.back_reference(s, next.unwrap_or(0))? {
                        Some(end) => (s, p) = (end, p + 2),
                        None => return Ok(None),
                    }
                }
                Some(_) => {
                    let end = self.class_end(p)?;
                    match self.pattern.get(end) {
                        Some(b'*') => return self.longest(s, p, end, 0),
                        Some(b'+') => return self.longest(s, p, end, 1),
                        Some(b'-') => return self.shortest(s, p, end),
                        Some(b'?') => {
                            if self.single(s, p, end)
                                && let Some(found) = self.nested(s + 1, end + 1)?
                            {
                                return Ok(Some(found));
                            }
                            p = end + 1;
                        }
                        _ if self.single(s, p, end) => (s, p) = (s + 1, end),
                        _ => return Ok(None),
                    }
                }
            }
        }
    }

    fn open(&mut self, capture: Capture, s: usize, p: usize) -> Outcome<Option<usize>> {
        if self.captures.len() >= MAX_CAPTURES {
            return Err(PatternError::Invalid("too many captures"));
        }
        let level = self.captures.len();
        self.captures.push(capture);
        let found = self.nested(s, p)?;
        if found.is_none() {
            self.captures.truncate(level);
        }
        Ok(found)
    }

    fn close(&mut self, s: usize, p: usize) -> Outcome<Option<usize>> {
        let open = self
            .captures
            .iter()
            .rposition(|c| matches!(c, Capture::Open(_)));
        let Some(index) = open else {
            return Err(PatternError::Invalid("invalid pattern capture"));
        };
        let before = self.captures[index];
        if let Capture::Open(start) = before {
            self.captures[index] = Capture::Span(start, s);
        }
        let found = self.nested(s, p)?;
        if found.is_none() {
            self.captures[index] = before;
        }
        Ok(found)
    }

    fn balance(&mut self, s: usize, p: usize) -> Outcome<Option<usize>> {
        let (Some(&open), Some(&close)) = (self.pattern.get(p), self.pattern.get(p + 1)) else {
            return Err(PatternError::Malformed("missing arguments to '%b'"));
        };
        if self.text.get(s) != Some(&open) {
            return Ok(None);
        }
        let mut level = 1usize;
        for at in s + 1..self.text.len() {
            self.step()?;
            let c = self.text[at];
            if c == close {
                level -= 1;
                if level == 0 {
                    return Ok(Some(at + 1));
                }
            } else if c == open {
                level += 1;
            }
        }
        Ok(None)
    }

    /// Returns where the pattern goes on if the text enters the set here.
    fn frontier(&mut self, s: usize, p: usize) -> Outcome<Option<usize>> {
        if self.pattern.get(p) != Some(&b'[') {
            return Err(PatternError::Malformed("missing '[' after '%f'"));
        }
        let end = self.class_end(p)?;
        let before = s.checked_sub(1).map_or(0, |at| self.text[at]);
        let after = self.text.get(s).copied().unwrap_or(0);
        let enters = !self.in_set(before, p, end) && self.in_set(after, p, end);
        Ok(enters.then_some(end))
    }

    fn back_reference(&mut self, s: usize, digit: u8) -> Outcome<Option<usize>> {
        let index = usize::from(digit.wrapping_sub(b'1'));
        let Some(Capture::Span(start, end)) = self.captures.get(index).copied() else {
            return Err(PatternError::Invalid("invalid capture index"));
        };
        let group = &self.text[start..end];
        let same = self.text[s..].starts_with(group);
        self.steps += group.len() / 16;
        Ok(same.then_some(s + group.len()))
    }

    fn longest(&mut self, s: usize, p: usize, end: usize, least: usize) -> Outcome<Option<usize>> {
        let mut count = 0;
        while self.single(s + count, p, end) {
            self.step()?;
            count += 1;
        }
        loop {
            if count < least {
                return Ok(None);
            }
            if let Some(found) = self.nested(s + count, end + 1)? {
                return Ok(Some(found));
            }
            if count == 0 {
                return Ok(None);
            }
            count -= 1;
        }
    }

    fn shortest(&mut self, mut s: usize, p: usize, end: usize) -> Outcome<Option<usize>> {
        loop {
            if let Some(found) = self.nested(s, end + 1)? {
                return Ok(Some(found));
            }
            if !self.single(s, p, end) {
                return Ok(None);
            }
            s += 1;
        }
    }

    /// Returns the end of the single-character class that starts at `p`.
    fn class_end(&self, p: usize) -> Outcome<usize> {
        match self.pattern.get(p) {
            Some(b'%') if p + 1 >= self.pattern.len() => {
                Err(PatternError::Malformed("ends with '%'"))
            }
            Some(b'%') => Ok(p + 2),
            Some(b'[') => self.set_end(p),
            _ => Ok(p + 1),
        }
    }

    fn set_end(&self, p: usize) -> Outcome<usize> {
        let mut at = p + 1;
        if self.pattern.get(at) == Some(&b'^') {
            at += 1;
        }
        let mut first = true;
        loop {
            match self.pattern.get(at) {
                None => return Err(PatternError::Malformed("missing ']'")),
                Some(b']') if !first => return Ok(at + 1),
                Some(b'%') => at += 2,
                Some(_) => at += 1,
            }
            first = false;
        }
    }

    fn single(&self, s: usize, p: usize, end: usize) -> bool {
        let Some(&c) = self.text.get(s) else {
            return false;
        };
        match self.pattern[p] {
            b'.' => true,
            b'%' => in_class(c, self.pattern[p + 1]),
            b'[' => self.in_set(c, p, end),
            literal => literal == c,
        }
    }

    /// Says whether the character is in the set between `[` at `p` and `]` before `end`.
    fn in_set(&self, c: u8, p: usize, end: usize) -> bool {
        let mut set = &self.pattern[p + 1..end - 1];
        let negated = set.first() == Some(&b'^');
        if negated {
            set = &set[1..];
        }
        let mut found = false;
        while !set.is_empty() && !found {
            (found, set) = match set {
                [b'%', class, rest @ ..] => (in_class(c, *class), rest),
                [low, b'-', high, rest @ ..] => ((*low..=*high).contains(&c), rest),
                [literal, rest @ ..] => (*literal == c, rest),
                [] => break,
            };
        }
        found != negated
    }
}

fn in_class(c: u8, class: u8) -> bool {
    let member = match class.to_ascii_lowercase() {
        b'a' => c.is_ascii_alphabetic(),
        b'c' => c.is_ascii_control(),
        b'd' => c.is_ascii_digit(),
        b'l' => c.is_ascii_lowercase(),
        b'p' => c.is_ascii_punctuation(),
        b's' => matches!(c, b' ' | b'\t'..=b'\r'),
        b'u' => c.is_ascii_uppercase(),
        b'w' => c.is_ascii_alphanumeric(),
        b'x' => c.is_ascii_hexdigit(),
        b'z' => c == 0,
        _ => return class == c,
    };
    member != class.is_ascii_uppercase()
}

/// Finds a plain text from `start` on, in time linear in both.
pub(in crate::sensor) fn find_plain(text: &[u8], wanted: &[u8], start: usize) -> Option<usize> {
    if wanted.is_empty() {
        return Some(start);
    }
    let mut fallback = vec![0; wanted.len()];
    let mut length = 0;
    for at in 1..wanted.len() {
        while length > 0 && wanted[at] != wanted[length] {
            length = fallback[length - 1];
        }
        length += usize::from(wanted[at] == wanted[length]);
        fallback[at] = length;
    }
    let mut matched = 0;
    for (at, c) in text.iter().enumerate().skip(start) {
        while matched > 0 && *c != wanted[matched] {
            matched = fallback[matched - 1];
        }
        matched += usize::from(*c == wanted[matched]);
        if matched == wanted.len() {
            return Some(at + 1 - wanted.len());
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn spans(text: &str, pattern: &str) -> Option<(usize, Vec<Capture>)> {
        let mut matcher = Matcher::new(text.as_bytes(), pattern.as_bytes(), &|_| true);
        let end = matcher.match_at(0).unwrap()?;
        Some((end, matcher.captures().unwrap().to_vec()))
    }

    #[test]
    fn items_match_as_the_manual_says() {
        assert_eq!(
            spans("v1.23", "%a(%d+)%.(%d+)").unwrap().1,
            [Capture::Span(1, 2), Capture::Span(3, 5)]
        );
        assert_eq!(spans("THE (quick) fox", ".-%f[%a]%a+%f[%A]").unwrap().0, 3);
        assert_eq!(spans("(a(b)c)d", "%b()").unwrap().0, 7);
        assert_eq!(
            spans("abab", "(ab)%1()").unwrap().1,
            [Capture::Span(0, 2), Capture::Position(4)]
        );
        assert_eq!(spans("a-]", "[a%-%]]*$").unwrap().0, 3);
        assert_eq!(spans("]", "[]]").unwrap().0, 1);
        assert_eq!(spans("abc", "a?b?x?c").unwrap().0, 3);
        assert!(spans("abc", "[^a]").is_none());
    }

    #[test]
    fn steps_and_depth_are_bounded() {
        let text = "a".repeat(60_000);
        let left = std::cell::Cell::new(100);
        let charge = |_| {
            left.set(left.get() - 1);
            left.get() > 0
        };
        let mut matcher = Matcher::new(text.as_bytes(), b".-.-.-.-b", &charge);
        assert_eq!(matcher.match_at(0), Err(PatternError::Exhausted));
        let complex = "a?".repeat(40_000);
        let mut matcher = Matcher::new(text.as_bytes(), complex.as_bytes(), &|_| true);
        assert_eq!(matcher.match_at(0), Err(PatternError::TooComplex));
    }

    proptest! {
        #[test]
        fn no_pattern_panics(text in "[ab(%\\]\\[]{0,12}", pattern in "[ab().%\\[\\]^$*+?\\-dfbwAS019]{0,14}") {
            let left = std::cell::Cell::new(1000);
            let charge = |_| { left.set(left.get() - 1); left.get() > 0 };
            let mut matcher = Matcher::new(text.as_bytes(), pattern.as_bytes(), &charge);
            for start in 0..=text.len() {
                if let Ok(Some(end)) = matcher.match_at(start) {
                    prop_assert!(end <= text.len() && end >= start);
                    let _ = matcher.captures();
                }
            }
        }

        #[test]
        fn plain_text_is_found_where_it_stands(text in "[ab]{0,30}", wanted in "[ab]{0,4}", start in 0usize..5) {
            let start = start.min(text.len());
            let want = text[start..].find(&wanted).map(|at| at + start);
            prop_assert_eq!(find_plain(text.as_bytes(), wanted.as_bytes(), start), want);
        }
    }
}
