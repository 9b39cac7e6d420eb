//! Redaction of secrets on write: headers, tokens and the values of Secrets never reach the journal.
//!
//! [`Redactor::entry`] takes everything that is to be written. It does the same to a text however often it is called.

mod shapes;

use std::collections::{BTreeSet, HashSet};

use base64::Engine as _;
use base64::engine::general_purpose::{STANDARD, STANDARD_NO_PAD, URL_SAFE_NO_PAD};
use serde_json::Value;

use super::journal::Entry;

/// What stands in place of a secret.
pub const REDACTED: &str = "<redacted>";
/// A text longer than this many bytes is cut.
pub const TEXT_LIMIT: usize = 64 * 1024;
/// Shorter values of Secrets are words that evidence cannot do without (`orders`, `true`).
const SECRET_MIN: usize = 8;
/// So many lines of longer values are looked for beside the values themselves.
const LINES_MAX: usize = 4096;
/// Fields whose text says what an entry is and where it belongs: words of this program and names of objects. A Secret that
/// holds such a word must not make the entry another one. An object under such a name is looked through like any other.
const WORDS: [&str; 33] = [
    "kind",
    "action",
    "answer",
    "lab",
    "stage",
    "probe",
    "layer",
    "id",
    "trace",
    "arrival",
    "execution",
    "phase",
    "outcome",
    "state",
    "claim",
    "order",
    "condition",
    "source",
    "stops_at",
    "manifests",
    "what",
    "topic",
    "subject",
    "durable",
    "trigger",
    "account",
    "verb",
    "group",
    "resource",
    "pod",
    "uid",
    "container",
    "time",
];
/// Fields that hold nothing but such words, however deep.
const FATES: [&str; 2] = ["expected", "observed"];
const CUT: &str = " … (cut)";

/// Replaces secrets in texts.
#[derive(Clone, Debug, Default)]
pub struct Redactor {
    /// The longest first, so that one inside another leaves nothing behind.
    secrets: Vec<String>,
    /// Lines among them.
    lines: usize,
}

impl Redactor {
    /// A redactor that also knows these values of Secrets, plain; their base64 forms are derived.
    #[must_use]
    pub fn new(secrets: impl IntoIterator<Item = String>) -> Redactor {
        let mut redactor = Redactor::default();
        redactor.learn(secrets);
        redactor
    }

    /// Adds values of Secrets. Answers how many of their lines are one too many to be looked for by themselves.
    pub fn learn(&mut self, secrets: impl IntoIterator<Item = String>) -> usize {
        let mut left_out = 0;
        for raw in secrets {
            let secret = raw.trim();
            if secret.len() < SECRET_MIN {
                continue;
            }
            let forms = [
                secret.to_owned(),
                escaped(secret),
                STANDARD.encode(secret),
                STANDARD_NO_PAD.encode(secret),
                STANDARD_NO_PAD.encode(&raw),
                URL_SAFE_NO_PAD.encode(secret),
            ];
            self.secrets
                .extend(forms.into_iter().filter(|form| is_sought(form)));
            left_out += self.learn_lines(secret);
        }
        self.secrets
            .sort_by(|a, b| b.len().cmp(&a.len()).then_with(|| a.cmp(b)));
        self.secrets.dedup();
        left_out
    }

    /// A text of several lines is seldom shown whole.
    fn learn_lines(&mut self, secret: &str) -> usize {
        if !secret.contains('\n') {
            return 0;
        }
        let known: HashSet<&str> = self.secrets.iter().map(String::as_str).collect();
        let lines = secret.lines().map(str::trim);
        let new: BTreeSet<String> = lines
            .filter(|line| is_sought(line) && !known.contains(line))
            .map(str::to_owned)
            .collect();
        let taken = new.len().min(LINES_MAX.saturating_sub(self.lines));
        let left_out = new.len() - taken;
        self.lines += taken;
        self.secrets.extend(new.into_iter().take(taken));
        left_out
    }

    /// The entry as it may be written.
    ///
    /// # Errors
    /// The entry cannot be written as JSON.
    pub fn entry(&self, entry: &Entry) -> Result<Entry, serde_json::Error> {
        let mut value = serde_json::to_value(entry)?;
        self.value(&mut value, false);
        serde_json::from_value(value)
    }

    /// Redacts every text of a JSON value, and everything under the name of a secret header.
    fn value(&self, value: &mut Value, secret: bool) {
        match value {
            Value::String(text) if secret => REDACTED.clone_into(text),
            Value::String(text) => *text = self.text(text),
            Value::Array(items) => items.iter_mut().for_each(|item| self.value(item, secret)),
            Value::Object(fields) => {
                for (name, field) in fields.iter_mut() {
                    if secret || !is_structure(name, field) {
                        self.value(field, secret || is_secret_header(name));
                    }
                }
            }
            Value::Null | Value::Bool(_) | Value::Number(_) => {}
        }
    }

    /// The text as it may be written, at most [`TEXT_LIMIT`] bytes of it.
    #[must_use]
    pub fn text(&self, text: &str) -> String {
        let mut text = self.pass(text);
        // A cut may halve a marker behind a header, so that another pass is needed.
        for _ in 0..4 {
            if text.len() <= TEXT_LIMIT {
                return text;
            }
            text = self.pass(&cut(&text));
        }
        REDACTED.to_owned()
    }

    fn pass(&self, text: &str) -> String {
        let mut text = text.to_owned();
        for secret in &self.secrets {
            if text.contains(secret.as_str()) {
                text = text.replace(secret.as_str(), REDACTED);
            }
        }
        headers(&shapes::replace(&text))
    }
}

fn is_structure(name: &str, field: &Value) -> bool {
    FATES.contains(&name) || (WORDS.contains(&name) && !field.is_object())
}

/// Whether a form of a Secret's value is looked for.
fn is_sought(form: &str) -> bool {
    form.len() >= SECRET_MIN
        && !form.contains("redacted")
        && !form.contains("cut)")
        // The lines around a key are in every key, and tell that it was one.
        && (!form.starts_with("-----") || form.contains('\n'))
}

fn cut(text: &str) -> String {
    let mut end = TEXT_LIMIT - CUT.len();
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    format!("{}{CUT}", &text[..end])
}

/// A text as it stands in JSON, between the quotes.
fn escaped(text: &str) -> String {
    let quoted = Value::String(text.to_owned()).to_string();
    let inner = quoted.get(1..quoted.len().saturating_sub(1));
    inner.unwrap_or_default().to_owned()
}

/// Whether the value of this header is a secret: `Authorization`, `Cookie`, `*-Token`, `*-Key`.
#[must_use]
pub fn is_secret_header(name: &str) -> bool {
    let name = name.to_ascii_lowercase();
    let name = name.strip_prefix("proxy-").unwrap_or(&name);
    matches!(name, "authorization" | "cookie" | "set-cookie")
        || name.ends_with("-token")
        || name.ends_with("-key")
}

fn is_name(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || byte == b'-' || byte == b'_'
}

/// Replaces the values of secret headers, in JSON, in Go's printed maps and in header lines.
fn headers(text: &str) -> String {
    let bytes = text.as_bytes();
    let mut result = String::with_capacity(text.len());
    let mut done = 0;
    let mut at = 0;
    while at < bytes.len() {
        if !is_name(bytes[at]) {
            at += 1;
            continue;
        }
        let end = at
            + bytes[at..]
                .iter()
                .take_while(|byte| is_name(**byte))
                .count();
        let name = &text[at..end];
        at = end;
        if is_secret_header(name)
            && let Some(value) = value_after(bytes, end)
        {
            result.push_str(&text[done..value.start]);
            result.push_str(REDACTED);
            done = value.end;
            at = value.end;
        }
    }
    result.push_str(&text[done..]);
    result
}

/// Where the value of a header lies whose name ends at `end`; `None` if no value follows.
fn value_after(bytes: &[u8], end: usize) -> Option<std::ops::Range<usize>> {
    let mut at = end + quote_at(bytes, end).unwrap_or(0);
    at += blanks(bytes, at);
    if bytes.get(at) != Some(&b':') {
        return None;
    }
    at += 1;
    at += blanks(bytes, at);
    let bracket = bytes.get(at) == Some(&b'[');
    if bracket {
        at += 1;
        at += blanks(bytes, at);
    }
    let stop = match (quote_at(bytes, at), bracket) {
        (Some(quote), _) => {
            at += quote;
            quoted_end(bytes, at, quote, bracket)
        }
        (None, true) => find(bytes, at, |byte| matches!(byte, b']' | b'\n')),
        (None, false) => find(bytes, at, |byte| {
            matches!(byte, b'\n' | b'\r' | b'"' | b'\'')
        }),
    };
    let trimmed = bytes[at..stop]
        .iter()
        .rev()
        .take_while(|byte| **byte == b'\\')
        .count();
    let stop = stop - trimmed;
    (stop > at).then_some(at..stop)
}

fn blanks(bytes: &[u8], from: usize) -> usize {
    bytes[from.min(bytes.len())..]
        .iter()
        .take_while(|byte| matches!(byte, b' ' | b'\t'))
        .count()
}

/// Length of a quote, with the backslashes of the texts around it.
fn quote_at(bytes: &[u8], from: usize) -> Option<usize> {
    let rest = bytes.get(from..)?;
    let slashes = rest.iter().take_while(|byte| **byte == b'\\').count();
    matches!(rest.get(slashes), Some(b'"' | b'\'')).then_some(slashes + 1)
}

/// End of a quoted value, or of the last one of a list.
fn quoted_end(bytes: &[u8], from: usize, quote: usize, list: bool) -> usize {
    let mark = bytes[from - 1];
    let mut end = from;
    let mut at = from;
    loop {
        at = find(bytes, at, |byte| byte == mark);
        let slashes = bytes[from..at]
            .iter()
            .rev()
            .take_while(|byte| **byte == b'\\')
            .count();
        if at >= bytes.len() {
            return bytes.len();
        }
        if slashes >= quote {
            at += 1;
            continue;
        }
        end = end.max(at);
        at += 1;
        if !list {
            return end;
        }
        at += find(&bytes[at..], 0, |byte| !matches!(byte, b' ' | b',' | b'\t'));
        match quote_at(bytes, at) {
            Some(length) => at += length,
            None => return end,
        }
    }
}

fn find(bytes: &[u8], from: usize, stop: impl Fn(u8) -> bool) -> usize {
    let from = from.min(bytes.len());
    bytes[from..]
        .iter()
        .position(|byte| stop(*byte))
        .map_or(bytes.len(), |at| from + at)
}

#[cfg(test)]
mod tests;
