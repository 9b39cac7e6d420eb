//! `@pretty` and `@ugly`: layout of JSON text.

use super::literal;
use super::scan;
use super::{Budget, LimitExceeded, Value};

/// How `@pretty` lays out.
pub(super) struct Options {
    width: i64,
    prefix: Vec<u8>,
    indent: Vec<u8>,
    sort_keys: bool,
}

impl Options {
    /// Reads the modifier's argument over the defaults (80 columns, two spaces, keys as they come).
    pub(super) fn read(argument: &[u8]) -> Self {
        let mut options = Self {
            width: 80,
            prefix: Vec::new(),
            indent: b"  ".to_vec(),
            sort_keys: false,
        };
        for (key, value) in literal::parse(argument).entries() {
            match &*Value::from_raw(key).text() {
                b"sortKeys" => options.sort_keys = value.boolean(),
                b"indent" => options.indent = white_space(&value.text()),
                b"prefix" => options.prefix = white_space(&value.text()),
                b"width" => options.width = value.number() as i64,
                _ => {}
            }
        }
        options
    }
}

fn white_space(text: &[u8]) -> Vec<u8> {
    text.iter()
        .copied()
        .filter(|byte| matches!(byte, b' ' | b'\t' | b'\n' | b'\r'))
        .collect()
}

/// Removes white space outside strings.
pub(super) fn ugly(json: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(json.len());
    let mut at = 0;
    while let Some(&byte) = json.get(at) {
        if byte == b'"' {
            let end = scan::string_end(json, at + 1).unwrap_or(json.len());
            out.extend_from_slice(&json[at..end]);
            at = end;
            continue;
        }
        if byte > b' ' {
            out.push(byte);
        }
        at += 1;
    }
    out
}

/// Lays JSON text out over lines; arrays of scalars stay on one line where they fit.
pub(super) fn pretty(
    json: &[u8],
    options: &Options,
    budget: &Budget,
) -> Result<Vec<u8>, LimitExceeded> {
    let mut writer = Writer {
        json,
        options,
        budget,
        out: options.prefix.clone(),
        line_start: 0,
        at: 0,
    };
    writer.value(0, 0)?;
    if !writer.out.is_empty() {
        writer.out.push(b'\n');
    }
    Ok(writer.out)
}

/// Deepest nesting that is laid out.
const MAX_NESTING: usize = 500;

struct Writer<'j> {
    json: &'j [u8],
    options: &'j Options,
    budget: &'j Budget,
    out: Vec<u8>,
    line_start: usize,
    at: usize,
}

impl Writer<'_> {
    fn value(&mut self, tabs: usize, depth: usize) -> Result<(), LimitExceeded> {
        while let Some(&byte) = self.json.get(self.at) {
            match byte {
                b'{' | b'[' => return self.container(byte == b'{', tabs, depth),
                _ if scan::start_at(self.json, self.at).is_some() => {
                    self.scalar();
                    return Ok(());
                }
                _ => self.at += 1,
            }
        }
        Ok(())
    }

    fn scalar(&mut self) {
        let Some(start) = scan::start_at(self.json, self.at) else {
            return;
        };
        let end = literal::end_of(self.json, start, self.at).unwrap_or(self.json.len());
        self.out.extend_from_slice(&self.json[self.at..end]);
        self.at = end;
    }

    fn container(&mut self, object: bool, tabs: usize, depth: usize) -> Result<(), LimitExceeded> {
        if depth >= MAX_NESTING {
            return Err(LimitExceeded);
        }
        if !object && self.on_one_line()? {
            return Ok(());
        }
        let close = if object { b'}' } else { b']' };
        self.out.push(if object { b'{' } else { b'[' });
        self.at += 1;
        let mut members: Vec<(Vec<u8>, Vec<u8>)> = Vec::new();
        let body = self.out.len();
        let mut count = 0;
        while let Some(&byte) = self.json.get(self.at) {
            if byte == close {
                self.at += 1;
                break;
            }
            if byte <= b' ' || byte == b',' || (object && byte != b'"') {
                self.at += 1;
                continue;
            }
            if count > 0 {
                self.out.push(b',');
            }
            let member = self.out.len();
            let key = self.member(object, tabs, depth)?;
            if object && self.options.sort_keys {
                members.push((key, self.out[member..].to_vec()));
            }
            count += 1;
        }
        if members.len() > 1 {
            self.sort(body, members);
        }
        if count > 0 {
            self.new_line(tabs);
        }
        self.out.push(close);
        self.budget.charge(self.out.len() - body)
    }

    fn member(
        &mut self,
        object: bool,
        tabs: usize,
        depth: usize,
    ) -> Result<Vec<u8>, LimitExceeded> {
        let before = self.out.len();
        self.new_line(tabs + 1);
        let mut key = Vec::new();
        if object {
            let end = scan::string_end(self.json, self.at + 1).unwrap_or(self.json.len());
            key = self.json[self.at..end].to_vec();
            self.out.extend_from_slice(&key);
            self.out.extend_from_slice(b": ");
            self.at = end;
        }
        self.value(tabs + 1, depth + 1)?;
        self.budget.charge(self.out.len().saturating_sub(before))?;
        Ok(key)
    }

    fn new_line(&mut self, tabs: usize) {
        self.line_start = self.out.len();
        self.out.push(b'\n');
        self.out.extend_from_slice(&self.options.prefix);
        for _ in 0..tabs {
            self.out.extend_from_slice(&self.options.indent);
        }
    }

    fn sort(&mut self, body: usize, mut members: Vec<(Vec<u8>, Vec<u8>)>) {
        members.sort_by(|(left, _), (right, _)| {
            Value::from_raw(left)
                .text()
                .cmp(&Value::from_raw(right).text())
        });
        self.out.truncate(body);
        for (place, (_, text)) in members.iter().enumerate() {
            if place > 0 {
                self.out.push(b',');
            }
            self.out.extend_from_slice(text);
        }
    }

    /// Writes an array without objects on the current line if it fits in the width.
    fn on_one_line(&mut self) -> Result<bool, LimitExceeded> {
        let room = self.options.width - (self.out.len() - self.line_start) as i64;
        if self.options.width <= 0 || room <= 3 {
            return Ok(false);
        }
        let room = usize::try_from(room).unwrap_or(0);
        let (line, end) = match self.flat_array(room) {
            Ok(flat) => flat,
            Err(looked_at) => {
                self.budget.charge(looked_at)?;
                return Ok(false);
            }
        };
        self.out.extend_from_slice(&line);
        self.at = end;
        Ok(true)
    }

    /// The array at the current place as one line, and where it ends; if it holds an object or is too long, how much of it
    /// was looked at.
    fn flat_array(&self, room: usize) -> Result<(Vec<u8>, usize), usize> {
        let (mut line, mut at, mut depth) = (Vec::new(), self.at, 0usize);
        loop {
            let not_flat = at - self.at;
            if line.len() > room {
                return Err(not_flat);
            }
            match *self.json.get(at).ok_or(not_flat)? {
                b'{' => return Err(not_flat),
                b'[' => {
                    separate(&mut line);
                    line.push(b'[');
                    depth += 1;
                    at += 1;
                }
                b']' => {
                    line.push(b']');
                    depth -= 1;
                    at += 1;
                    if depth == 0 {
                        return if line.len() <= room {
                            Ok((line, at))
                        } else {
                            Err(at - self.at)
                        };
                    }
                }
                _ => match scan::start_at(self.json, at) {
                    None => at += 1,
                    Some(start) => {
                        separate(&mut line);
                        let end = literal::end_of(self.json, start, at).ok_or(not_flat)?;
                        line.extend_from_slice(&self.json[at..end]);
                        at = end;
                    }
                },
            }
        }
    }
}

fn separate(line: &mut Vec<u8>) {
    if !matches!(line.last(), None | Some(b'[')) {
        line.extend_from_slice(b", ");
    }
}
