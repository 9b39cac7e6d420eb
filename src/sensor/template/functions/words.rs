//! Texts written as one word: `snake_case`, `kebab-case` and `CamelCase`.

use std::sync::LazyLock;

use super::strings::change;
use crate::sensor::regex::Regex;

/// What a run of characters is.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    Connector,
    Punctuation,
    /// It starts with a capital.
    Capital,
    /// Letters without a capital in front.
    Letters,
    Number,
    Other,
}

impl Kind {
    fn of(c: char) -> Self {
        match c {
            '-' | '_' => Self::Connector,
            c if c.is_whitespace() => Self::Connector,
            c if is_punctuation(c) => Self::Punctuation,
            c if c.is_uppercase() => Self::Capital,
            c if is_letter(c) => Self::Letters,
            c if c.is_numeric() => Self::Number,
            _ => Self::Other,
        }
    }

    fn parts_words(self) -> bool {
        matches!(self, Self::Connector | Self::Punctuation)
    }
}

fn is_punctuation(c: char) -> bool {
    static PUNCTUATION: LazyLock<Option<Regex>> = LazyLock::new(|| Regex::new(r"^\p{P}$").ok());
    if c.is_ascii() {
        return c.is_ascii_punctuation() && !"$+<=>^`|~".contains(c);
    }
    let regex = PUNCTUATION.as_ref();
    regex.is_some_and(|regex| regex.is_match(c.encode_utf8(&mut [0; 4]).as_bytes()))
}

/// A letter, but no Chinese character: those are not taken apart by capitals.
fn is_letter(c: char) -> bool {
    let chinese =
        matches!(c, '\u{3400}'..='\u{4D85}' | '\u{4E00}'..='\u{9FCC}' | '\u{20000}'..='\u{2B81D}');
    c.is_alphabetic() && !chinese
}

struct Run<'t> {
    kind: Kind,
    text: &'t str,
}

/// Takes a text apart; of capitals in a row the last begins the word whose small letters follow.
fn runs(text: &str) -> Vec<Run<'_>> {
    let mut runs = Vec::new();
    let mut rest = text;
    while let Some(first) = rest.chars().next() {
        let kind = Kind::of(first);
        let length = length(kind, rest);
        let (text, behind) = rest.split_at(length);
        runs.push(Run { kind, text });
        rest = behind;
    }
    runs
}

fn length(kind: Kind, text: &str) -> usize {
    let until = |text: &str, ends: &dyn Fn(char) -> bool| text.find(ends).unwrap_or(text.len());
    let small = |c: char| c.is_uppercase() || !is_letter(c);
    match kind {
        Kind::Capital => {
            let capitals = until(text, &|c| !c.is_uppercase());
            let last = text[..capitals]
                .chars()
                .next_back()
                .map_or(0, char::len_utf8);
            let small_follow = text[capitals..].chars().next().is_some_and(is_letter);
            match capitals == last {
                true => capitals + until(&text[capitals..], &small),
                false if small_follow => capitals - last,
                false => capitals,
            }
        }
        Kind::Letters => until(text, &small),
        // A connector within it belongs to it.
        Kind::Punctuation => until(text, &|c| !is_punctuation(c)),
        Kind::Other => until(text, &|c| !matches!(Kind::of(c), Kind::Other)),
        kind => until(text, &|c| Kind::of(c) != kind),
    }
}

/// Writes words in small letters with a separator between them; digits stay with the word in front of them, unless
/// small letters follow.
pub(super) fn separated(text: &str, separator: char) -> String {
    let mut writer = Writer {
        runs: runs(text),
        at: 0,
        out: String::with_capacity(text.len() + 8),
        separator,
    };
    while writer.at + 1 < writer.runs.len() {
        writer.word();
    }
    writer.put();
    writer.out
}

struct Writer<'t> {
    runs: Vec<Run<'t>>,
    at: usize,
    out: String,
    separator: char,
}

impl Writer<'_> {
    fn kind(&self) -> Option<Kind> {
        self.runs.get(self.at).map(|run| run.kind)
    }

    /// Writes the run at hand and goes on to the next.
    fn put(&mut self) {
        let Some(run) = self.runs.get(self.at) else {
            return;
        };
        self.at += 1;
        match run.kind {
            Kind::Capital => self
                .out
                .extend(run.text.chars().map(|c| match c.is_uppercase() {
                    true => change(c, false),
                    false => c,
                })),
            Kind::Connector => self.out.extend(run.text.chars().map(|_| self.separator)),
            _ => self.out.push_str(run.text),
        }
    }

    /// Parts what was written from the run at hand, unless that parts it by itself.
    fn part(&mut self) {
        if self.kind().is_some_and(|kind| !kind.parts_words()) {
            self.out.push(self.separator);
        }
    }

    fn put_letters_and_digits(&mut self) {
        while matches!(self.kind(), Some(Kind::Letters | Kind::Number)) {
            self.put();
        }
        self.part();
    }

    /// Writes a run and what belongs to it.
    fn word(&mut self) {
        let kind = self.kind();
        self.put();
        match kind {
            Some(Kind::Number) => self.put_letters_and_digits(),
            Some(Kind::Connector | Kind::Punctuation) => {}
            _ if self.kind() != Some(Kind::Number) => self.part(),
            _ => self.digits(),
        }
    }

    /// Digits behind a word.
    fn digits(&mut self) {
        let Some(next) = self.runs.get(self.at + 1) else {
            return;
        };
        if next.kind == Kind::Letters {
            self.out.push(self.separator);
            self.put();
            self.put_letters_and_digits();
        } else {
            self.put();
            self.part();
        }
    }
}

/// Joins words at connectors and writes each with a capital; what stands in front of the first stays.
pub(super) fn camel_case(text: &str) -> String {
    let connector = |c: char| Kind::of(c) == Kind::Connector;
    let mut out = String::with_capacity(text.len());
    let start = text.find(|c| !connector(c)).unwrap_or(text.len());
    out.push_str(&text[..start]);
    let mut characters = text[start..].chars();
    // A text of connectors alone gets its last one twice.
    let Some(first) = characters.next() else {
        out.extend(text.chars().next_back());
        return out;
    };
    let mut before = change(first, true);
    for c in characters {
        if connector(before) && !connector(c) {
            before = change(c, true);
        } else {
            out.push(before);
            before = c;
        }
    }
    out.push(before);
    out
}
