//! Event data as Lua tables, by the rules of upstream: nulls are left out, and so are lists inside lists.

use std::borrow::Cow;

use mlua::{Either, Lua, Table, Value};

use super::ScriptError;
use crate::sensor::json::plain_run;

/// Containers inside one another. Go reads ten times as many; each takes one of the machine's references.
const MAX_DEPTH: usize = 1000;
/// Members that wait for their tables at once, of all containers; each may take a reference too.
const MAX_WAITING: usize = 64;

/// Turns a JSON object into a table; `null` gives an empty one.
///
/// Reads with a stack of its own, so that deep data cannot exhaust the machine's.
pub(super) fn to_table(lua: &Lua, data: &[u8]) -> Result<Table, ScriptError> {
    let mut reader = Reader {
        data,
        text: std::str::from_utf8(data).ok(),
        at: 0,
    };
    reader.skip_space();
    let kind = match reader.peek() {
        Some(b'{') => {
            return Builder::new(lua, reader).build();
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
    /// The same where all of it is UTF-8, which so is looked at once.
    text: Option<&'d str>,
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
            let end = plain_run(self.data, self.at);
            let plain = match self.text.and_then(|text| text.get(self.at..end)) {
                Some(plain) => Cow::Borrowed(plain),
                None => readable(&self.data[self.at..end]),
            };
            self.at = end;
            match self.peek() {
                Some(b'"') => {
                    self.at += 1;
                    return Ok(match owned {
                        None => plain,
                        Some(text) => Cow::Owned(text + &plain),
                    });
                }
                Some(b'\\') => {
                    let mut text = owned.unwrap_or_default();
                    text.push_str(&plain);
                    text.push(self.escape()?);
                    owned = Some(text);
                }
                _ => return Err(self.invalid()),
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
struct Open<'d> {
    kind: Kind,
    /// Its key in the object around it.
    key: Cow<'d, str>,
    /// Where its members begin among those that wait.
    first: usize,
    /// The table, where it is there before the end, and how many values of a list it has.
    table: Option<(Table, usize)>,
}

#[derive(Clone, Copy, PartialEq)]
enum Kind {
    Object,
    List,
    /// A list inside a list, which is read and forgotten; its objects too.
    Forgotten {
        object: bool,
    },
}

/// A member that waits for its container's table.
struct Member<'d> {
    /// Empty in a list.
    key: Cow<'d, str>,
    value: Held<'d>,
}

enum Held<'d> {
    Text(Cow<'d, str>),
    Other(Value),
}

impl Held<'_> {
    fn as_value(&self) -> Either<&str, &Value> {
        match self {
            Self::Text(text) => Either::Left(text),
            Self::Other(value) => Either::Right(value),
        }
    }

    fn is_nil(&self) -> bool {
        matches!(self, Self::Other(Value::Nil))
    }
}

/// Makes the table of a small container at its end, all at once, which takes a third of the time.
struct Builder<'l, 'd> {
    lua: &'l Lua,
    reader: Reader<'d>,
    open: Vec<Open<'d>>,
    waiting: Vec<Member<'d>>,
}

impl<'l, 'd> Builder<'l, 'd> {
    fn new(lua: &'l Lua, reader: Reader<'d>) -> Self {
        Self {
            lua,
            reader,
            open: Vec::with_capacity(8),
            waiting: Vec::with_capacity(MAX_WAITING / 4),
        }
    }

    fn build(mut self) -> Result<Table, ScriptError> {
        self.reader.at += 1;
        self.open(Kind::Object, Cow::Borrowed(""));
        let mut first = true;
        while let Some(open) = self.open.last() {
            let object = matches!(open.kind, Kind::Object | Kind::Forgotten { object: true });
            self.reader.skip_space();
            if self.reader.peek() == Some(if object { b'}' } else { b']' }) {
                self.reader.at += 1;
                first = false;
                if let Some(root) = self.close()? {
                    self.reader.end()?;
                    return Ok(root);
                }
                continue;
            }
            if !first {
                self.reader.expect(b',')?;
            }
            first = self.member(object)?;
        }
        Err(self.reader.invalid())
    }

    /// Reads one value of the container on top; true if it opened a container, which is then empty so far.
    fn member(&mut self, object: bool) -> Result<bool, ScriptError> {
        let key = if object {
            let key = self.reader.string()?;
            self.reader.expect(b':')?;
            key
        } else {
            Cow::Borrowed("")
        };
        let value = match self.reader.peek() {
            Some(c @ (b'{' | b'[')) => {
                self.reader.at += 1;
                self.enter(key, c == b'{')?;
                return Ok(true);
            }
            Some(b'"') => Held::Text(self.reader.string()?),
            Some(b't') => Held::Other(self.reader.word("true").map(|()| Value::Boolean(true))?),
            Some(b'f') => Held::Other(self.reader.word("false").map(|()| Value::Boolean(false))?),
            Some(b'n') => Held::Other(self.reader.word("null").map(|()| Value::Nil)?),
            _ => Held::Other(Value::Number(self.reader.number()?)),
        };
        self.put(Member { key, value })?;
        Ok(false)
    }

    fn put(&mut self, member: Member<'d>) -> Result<(), ScriptError> {
        let Some(open) = self.open.last_mut() else {
            return Ok(());
        };
        match open.kind {
            Kind::Forgotten { .. } => return Ok(()),
            Kind::List if member.value.is_nil() => return Ok(()),
            // A null still takes away what an earlier key of the same name set.
            Kind::List | Kind::Object => {}
        }
        let Some((table, length)) = &mut open.table else {
            self.waiting.push(member);
            if self.waiting.len() >= MAX_WAITING {
                self.make_early()?;
            }
            return Ok(());
        };
        let value = member.value.as_value();
        if open.kind == Kind::List {
            *length += 1;
            table.raw_set(*length, value)?;
        } else {
            table.raw_set(&*member.key, value)?;
        }
        Ok(())
    }

    /// Makes the table of the container on top with what it has so far.
    fn make_early(&mut self) -> Result<(), ScriptError> {
        if let Some(mut open) = self.open.pop() {
            let length = self.waiting.len() - open.first;
            open.table = Some((self.table_of(&open)?, length));
            self.open.push(open);
        }
        Ok(())
    }

    fn table_of(&mut self, open: &Open<'d>) -> Result<Table, ScriptError> {
        let members = self.waiting.get(open.first..).unwrap_or_default().iter();
        let table = if open.kind == Kind::List {
            let values = members.map(|member| member.value.as_value());
            self.lua.create_sequence_from(values)?
        } else {
            let members = members.map(|member| (&*member.key, member.value.as_value()));
            self.lua.create_table_from(members)?
        };
        self.waiting.truncate(open.first);
        Ok(table)
    }

    fn enter(&mut self, key: Cow<'d, str>, object: bool) -> Result<(), ScriptError> {
        if self.open.len() >= MAX_DEPTH {
            let text =
                format!("event data nests deeper than {MAX_DEPTH} levels; scripts cannot read it");
            return Err(ScriptError::Data(text));
        }
        let kind = match self.open.last().map(|open| open.kind) {
            Some(Kind::Forgotten { .. }) => Kind::Forgotten { object },
            Some(Kind::List) if !object => Kind::Forgotten { object },
            _ if object => Kind::Object,
            _ => Kind::List,
        };
        self.open(kind, key);
        Ok(())
    }

    fn open(&mut self, kind: Kind, key: Cow<'d, str>) {
        self.open.push(Open {
            kind,
            key,
            first: self.waiting.len(),
            table: None,
        });
    }

    /// Ends the container on top; gives the outermost one.
    fn close(&mut self) -> Result<Option<Table>, ScriptError> {
        let Some(mut open) = self.open.pop() else {
            return Ok(None);
        };
        if matches!(open.kind, Kind::Forgotten { .. }) {
            return Ok(None);
        }
        let table = match open.table.take() {
            Some((table, _)) => table,
            None => self.table_of(&open)?,
        };
        if self.open.is_empty() {
            return Ok(Some(table));
        }
        let value = Held::Other(Value::Table(table));
        let key = open.key;
        self.put(Member { key, value })?;
        Ok(None)
    }
}
