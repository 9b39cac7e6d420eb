//! Event data as Lua tables, by the rules of upstream: nulls are left out, and so are lists inside lists.

use std::borrow::Cow;

use mlua::{Lua, Table, Value};

use super::ScriptError;

/// Containers inside one another. Go reads ten times as many; each takes one of the machine's references.
const MAX_DEPTH: usize = 1000;

/// Turns a JSON object into a table; `null` gives an empty one.
///
/// Reads with a stack of its own, so that deep data cannot exhaust the machine's.
pub(super) fn to_table(lua: &Lua, data: &[u8]) -> Result<Table, ScriptError> {
    let mut reader = Reader { data, at: 0 };
    reader.skip_space();
    let kind = match reader.peek() {
        Some(b'{') => {
            return Builder {
                lua,
                reader,
                open: Vec::new(),
            }
            .build();
        }
        Some(b'n') => {
            reader.word("null")?;
            reader.end()?;
            return Ok(lua.create_table()?);
        }
        Some(b'[') => "array",
        Some(b'"') => "string",
        Some(b't' | b'f') => "bool",
        Some(b'-' | b'0'..=b'9') => "number",
        _ => return Err(reader.invalid()),
    };
    let text =
        format!("json: cannot unmarshal {kind} into Go value of type map[string]interface {{}}");
    Err(ScriptError::Data(text))
}

struct Reader<'d> {
    data: &'d [u8],
    at: usize,
}

impl<'d> Reader<'d> {
    fn peek(&self) -> Option<u8> {
        self.data.get(self.at).copied()
    }

    fn skip_space(&mut self) {
        while matches!(self.peek(), Some(b' ' | b'\t' | b'\n' | b'\r')) {
            self.at += 1;
        }
    }

    fn invalid(&self) -> ScriptError {
        ScriptError::Data(match self.peek() {
            None => "unexpected end of JSON input".to_string(),
            Some(_) => format!("event data is not valid JSON at byte {}", self.at),
        })
    }

    fn expect(&mut self, wanted: u8) -> Result<(), ScriptError> {
        self.skip_space();
        if self.peek() != Some(wanted) {
            return Err(self.invalid());
        }
        self.at += 1;
        self.skip_space();
        Ok(())
    }

    fn word(&mut self, word: &str) -> Result<(), ScriptError> {
        if !self.data[self.at..].starts_with(word.as_bytes()) {
            return Err(self.invalid());
        }
        self.at += word.len();
        Ok(())
    }

    fn end(&mut self) -> Result<(), ScriptError> {
        self.skip_space();
        match self.peek() {
            None => Ok(()),
            Some(_) => Err(self.invalid()),
        }
    }

    fn number(&mut self) -> Result<f64, ScriptError> {
        let rest = &self.data[self.at..];
        let length = rest
            .iter()
            .take_while(|c| matches!(c, b'0'..=b'9' | b'-' | b'+' | b'.' | b'e' | b'E'))
            .count();
        let text = std::str::from_utf8(&rest[..length]).unwrap_or_default();
        match text.parse::<f64>() {
            Ok(number) if number.is_finite() => {
                self.at += length;
                Ok(number)
            }
            Ok(_) => {
                let text =
                    format!("json: cannot unmarshal number {text} into Go value of type float64");
                Err(ScriptError::Data(text))
            }
            Err(_) => Err(self.invalid()),
        }
    }

    /// Reads a string; bytes that are not UTF-8 and halves of surrogate pairs become U+FFFD.
    fn string(&mut self) -> Result<Cow<'d, str>, ScriptError> {
        if self.peek() != Some(b'"') {
            return Err(self.invalid());
        }
        self.at += 1;
        let mut owned: Option<String> = None;
        loop {
            let rest = &self.data[self.at..];
            let length = rest
                .iter()
                .position(|c| matches!(c, b'"' | b'\\'))
                .unwrap_or(rest.len());
            let plain = readable(&rest[..length]);
            self.at += length;
            match self.peek() {
                Some(b'"') => {
                    self.at += 1;
                    return Ok(match owned {
                        None => plain,
                        Some(text) => Cow::Owned(text + &plain),
                    });
                }
                Some(_) => {
                    let mut text = owned.unwrap_or_default();
                    text.push_str(&plain);
                    text.push(self.escape()?);
                    owned = Some(text);
                }
                None => return Err(self.invalid()),
            }
        }
    }

    fn escape(&mut self) -> Result<char, ScriptError> {
        let c = match self.data.get(self.at + 1) {
            Some(b'u') => return self.unicode_escape(),
            Some(b'n') => '\n',
            Some(b't') => '\t',
            Some(b'r') => '\r',
            Some(b'b') => '\u{8}',
            Some(b'f') => '\u{c}',
            Some(c @ (b'"' | b'\\' | b'/')) => char::from(*c),
            _ => return Err(self.invalid()),
        };
        self.at += 2;
        Ok(c)
    }

    fn unicode_escape(&mut self) -> Result<char, ScriptError> {
        let first = self.unit(self.at).ok_or_else(|| self.invalid())?;
        self.at += 6;
        if !(0xD800..0xDC00).contains(&first) {
            return Ok(char::from_u32(first).unwrap_or(char::REPLACEMENT_CHARACTER));
        }
        match self.unit(self.at) {
            Some(second @ 0xDC00..0xE000) => {
                self.at += 6;
                let code = 0x10000 + ((first - 0xD800) << 10) + (second - 0xDC00);
                Ok(char::from_u32(code).unwrap_or(char::REPLACEMENT_CHARACTER))
            }
            _ => Ok(char::REPLACEMENT_CHARACTER),
        }
    }

    fn unit(&self, at: usize) -> Option<u32> {
        let digits = self.data.get(at..at + 6)?.strip_prefix(b"\\u")?;
        if !digits.iter().all(u8::is_ascii_hexdigit) {
            return None;
        }
        u32::from_str_radix(std::str::from_utf8(digits).ok()?, 16).ok()
    }
}

fn readable(bytes: &[u8]) -> Cow<'_, str> {
    if let Ok(text) = std::str::from_utf8(bytes) {
        return Cow::Borrowed(text);
    }
    let mut text = String::with_capacity(bytes.len());
    for chunk in bytes.utf8_chunks() {
        text.push_str(chunk.valid());
        text.extend(chunk.invalid().iter().map(|_| char::REPLACEMENT_CHARACTER));
    }
    Cow::Owned(text)
}

/// A container that is being read.
enum Open {
    Object(Table),
    /// A list and how many values it has.
    List(Table, usize),
    /// A list inside a list, which is read and forgotten; its objects too.
    Forgotten {
        object: bool,
    },
}

struct Builder<'l, 'd> {
    lua: &'l Lua,
    reader: Reader<'d>,
    open: Vec<Open>,
}

impl Builder<'_, '_> {
    fn build(mut self) -> Result<Table, ScriptError> {
        let root = self.lua.create_table()?;
        self.reader.at += 1;
        self.open.push(Open::Object(root.clone()));
        let mut first = true;
        while let Some(open) = self.open.last() {
            let object = matches!(open, Open::Object(_) | Open::Forgotten { object: true });
            self.reader.skip_space();
            if self.reader.peek() == Some(if object { b'}' } else { b']' }) {
                self.reader.at += 1;
                self.open.pop();
                first = false;
                continue;
            }
            if !first {
                self.reader.expect(b',')?;
            }
            first = self.member(object)?;
        }
        self.reader.end()?;
        Ok(root)
    }

    /// Reads one value of the container on top; true if it opened a container, which is then empty so far.
    fn member(&mut self, object: bool) -> Result<bool, ScriptError> {
        let key = if object {
            let key = self.reader.string()?;
            self.reader.expect(b':')?;
            Some(key)
        } else {
            None
        };
        let value = match self.reader.peek() {
            Some(c @ (b'{' | b'[')) => {
                self.reader.at += 1;
                self.enter(key.as_deref(), c == b'{')?;
                return Ok(true);
            }
            Some(b'"') => {
                let text = self.reader.string()?;
                self.put_text(key.as_deref(), &text)?;
                return Ok(false);
            }
            Some(b't') => self.reader.word("true").map(|()| Value::Boolean(true))?,
            Some(b'f') => self.reader.word("false").map(|()| Value::Boolean(false))?,
            Some(b'n') => self.reader.word("null").map(|()| Value::Nil)?,
            _ => Value::Number(self.reader.number()?),
        };
        self.put(key.as_deref(), value)?;
        Ok(false)
    }

    fn put_text(&mut self, key: Option<&str>, text: &str) -> Result<(), ScriptError> {
        match (self.open.last_mut(), key) {
            (Some(Open::Object(table)), Some(key)) => table.raw_set(key, text)?,
            (Some(Open::List(table, length)), _) => {
                *length += 1;
                table.raw_set(*length, text)?;
            }
            _ => {}
        }
        Ok(())
    }

    fn put(&mut self, key: Option<&str>, value: Value) -> Result<(), ScriptError> {
        match (self.open.last_mut(), key) {
            // A null still takes away what an earlier key of the same name set.
            (Some(Open::Object(table)), Some(key)) => table.raw_set(key, value)?,
            (Some(Open::List(table, length)), _) if !value.is_nil() => {
                *length += 1;
                table.raw_set(*length, value)?;
            }
            _ => {}
        }
        Ok(())
    }

    fn enter(&mut self, key: Option<&str>, object: bool) -> Result<(), ScriptError> {
        if self.open.len() >= MAX_DEPTH {
            let text =
                format!("event data nests deeper than {MAX_DEPTH} levels; scripts cannot read it");
            return Err(ScriptError::Data(text));
        }
        let forgotten = match self.open.last() {
            Some(Open::Forgotten { .. }) => true,
            Some(Open::List(..)) => !object,
            _ => false,
        };
        if forgotten {
            self.open.push(Open::Forgotten { object });
            return Ok(());
        }
        let table = self.lua.create_table()?;
        self.put(key, Value::Table(table.clone()))?;
        self.open.push(if object {
            Open::Object(table)
        } else {
            Open::List(table, 0)
        });
        Ok(())
    }
}
