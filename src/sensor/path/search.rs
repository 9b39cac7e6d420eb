//! The look-up itself: from a path's first component down through objects and arrays, with the pipes between.

use std::borrow::Cow;

use super::glob::Glob;
use super::literal;
use super::multipath::{self, Outcome};
use super::parts::{ArrayPart, ArrayPick, ObjectPart, Query, Rest, split_pipe};
use super::scan::{self, Start};
use super::{Budget, Kind, LimitExceeded, Value, deeper, offset_in};
use super::{modifiers, query};

/// Finds a path's value in a text.
pub(super) fn get<'a>(
    json: &'a [u8],
    path: &[u8],
    budget: &Budget,
    depth: u32,
) -> Result<Value<'a>, LimitExceeded> {
    // A look-up of its own takes more stack than a step inside one.
    let depth = deeper(deeper(deeper(depth)?)?)?;
    budget.charge(json.len() + path.len())?;
    let path = match special(json, path, budget, depth)? {
        Outcome::Value(value) => return Ok(value),
        Outcome::Plain(path) => path,
    };
    let mut search = Search {
        json,
        budget,
        depth,
        value: Value::missing(),
        pipe: None,
    };
    match path {
        [b'.', b'.', lines @ ..] => {
            search.array(0, lines, depth)?;
        }
        _ => {
            if let Some(open) = json.iter().position(|byte| matches!(byte, b'{' | b'[')) {
                search.container(open, path, depth)?;
            }
        }
    }
    search.finish()
}

/// Paths that start with a modifier, a literal or a multipath.
fn special<'a, 'p>(
    json: &'a [u8],
    path: &'p [u8],
    budget: &Budget,
    depth: u32,
) -> Result<Outcome<'a, 'p>, LimitExceeded> {
    let step = match path {
        [b'@', _, ..] => modifiers::run(json, path, budget, depth)?,
        [b'!', _, ..] => {
            literal::split_static(path).map(|(text, rest)| (Cow::Owned(text.to_vec()), rest))
        }
        [b'[' | b'{', _, ..] => return multipath::run(json, path, budget, depth),
        _ => None,
    };
    match step {
        Some((result, rest)) => after_step(result, rest, budget, depth).map(Outcome::Value),
        None => Ok(Outcome::Plain(path)),
    }
}

/// Goes on with the rest of the path on what a modifier or literal gave.
fn after_step<'a>(
    json: Cow<'a, [u8]>,
    rest: &[u8],
    budget: &Budget,
    depth: u32,
) -> Result<Value<'a>, LimitExceeded> {
    let mut value = match (rest, json) {
        ([b'|' | b'.', path @ ..], Cow::Borrowed(json)) => get(json, path, budget, depth)?,
        ([b'|' | b'.', path @ ..], Cow::Owned(json)) => {
            get(&json, path, budget, depth)?.into_owned()
        }
        (_, Cow::Borrowed(json)) => literal::parse(json),
        (_, Cow::Owned(json)) => literal::parse(&json).into_owned(),
    };
    value.index = 0;
    value.indexes = Vec::new();
    Ok(value)
}

/// Finds a path's value in a value, keeping offsets relative to the document of the value.
pub(super) fn get_in<'a>(
    outer: Value<'a>,
    path: &[u8],
    budget: &Budget,
    depth: u32,
) -> Result<Value<'a>, LimitExceeded> {
    let base = outer.index;
    let mut value = match outer.raw {
        Cow::Borrowed(json) => get(json, path, budget, depth)?,
        Cow::Owned(json) => get(&json, path, budget, depth)?.into_owned(),
    };
    if value.indexes.is_empty() {
        value.index += base;
    } else {
        value.indexes.iter_mut().for_each(|index| *index += base);
    }
    Ok(value)
}

struct Search<'a, 'p, 'b> {
    json: &'a [u8],
    budget: &'b Budget,
    depth: u32,
    value: Value<'a>,
    pipe: Option<&'p [u8]>,
}

/// Where a container ended and whether the value was found in it.
type Step = (usize, bool);

impl<'a, 'p> Search<'a, 'p, '_> {
    fn finish(self) -> Result<Value<'a>, LimitExceeded> {
        let mut value = self.value;
        if let Some(pipe) = self.pipe {
            let mut piped = get_in(value, pipe, self.budget, self.depth)?;
            piped.index = 0;
            return Ok(piped);
        }
        if !value.raw.is_empty() {
            value.index = offset_in(self.json, &value.raw);
        }
        Ok(value)
    }

    /// Searches the container whose bracket stands at `open`.
    fn container(
        &mut self,
        open: usize,
        path: &'p [u8],
        depth: u32,
    ) -> Result<Step, LimitExceeded> {
        let depth = deeper(depth)?;
        if self.json.get(open) == Some(&b'{') {
            self.object(open + 1, path, depth)
        } else {
            self.array(open + 1, path, depth)
        }
    }

    fn object(&mut self, mut at: usize, path: &'p [u8], depth: u32) -> Result<Step, LimitExceeded> {
        let part = ObjectPart::read(path);
        self.budget.charge(part.rest.consumed(path))?;
        let glob = part.wild.then(|| Glob::new(&part.key));
        if let Rest::Pipe(pipe) = part.rest {
            self.pipe = Some(pipe);
        }
        while let Some(key_start) = self.next_key(at) {
            let (quote, open) = key_start;
            if !open {
                return Ok((quote + 1, false));
            }
            let Some(key_end) = scan::string_end(self.json, quote + 1) else {
                return Ok((self.json.len(), false));
            };
            let hit = self.key_matches(&self.json[quote + 1..key_end - 1], &part, glob.as_ref())?;
            let (end, found) = self.member(key_end, hit, part.rest, depth)?;
            if found || end >= self.json.len() {
                return Ok((end, found));
            }
            at = end;
        }
        Ok((self.json.len(), false))
    }

    /// The next quote (true) or closing brace (false) from `at` on.
    fn next_key(&self, at: usize) -> Option<(usize, bool)> {
        let rest = self.json.get(at..)?;
        let offset = rest.iter().position(|byte| matches!(byte, b'"' | b'}'))?;
        Some((at + offset, rest[offset] == b'"'))
    }

    fn key_matches(
        &self,
        raw: &[u8],
        part: &ObjectPart<'_>,
        glob: Option<&Glob>,
    ) -> Result<bool, LimitExceeded> {
        let key = if raw.contains(&b'\\') {
            Cow::Owned(super::unescape(raw))
        } else {
            Cow::Borrowed(raw)
        };
        match glob {
            Some(glob) => glob.matches(&key, self.budget),
            None => Ok(*key == *part.key),
        }
    }

    /// Takes, enters or skips the next value from `at` on.
    fn member(
        &mut self,
        mut at: usize,
        hit: bool,
        rest: Rest<'p>,
        depth: u32,
    ) -> Result<Step, LimitExceeded> {
        let start = loop {
            match scan::start_at(self.json, at) {
                Some(start) => break start,
                None if at >= self.json.len() => return Ok((at, false)),
                None => at += 1,
            }
        };
        if let (true, Start::Container, Rest::Path(path)) = (hit, start, rest) {
            return self.container(at, path, depth);
        }
        let Some(end) = literal::end_of(self.json, start, at) else {
            return Ok((self.json.len(), false));
        };
        if hit && !matches!(rest, Rest::Path(_)) {
            self.value = literal::value_of(self.json, start, at, end);
            return Ok((end, true));
        }
        Ok((end, false))
    }

    fn array(&mut self, at: usize, path: &'p [u8], depth: u32) -> Result<Step, LimitExceeded> {
        let part = ArrayPart::read(path);
        self.budget.charge(part.rest.consumed(path))?;
        if let Rest::Pipe(pipe) = part.rest {
            self.pipe = Some(pipe);
        }
        match part.pick {
            ArrayPick::Index(index) => self.element(at, index, part.rest, depth),
            ArrayPick::Count => self.count(at),
            ArrayPick::Each(path) => self.each(at, path, depth),
            ArrayPick::Query(query) => self.query(at, &query, part.rest, depth),
            ArrayPick::Nothing => Ok((self.skip_elements(at).1, false)),
        }
    }

    /// The next element: its start, or the index after the array where there is none.
    fn next_element(&self, mut at: usize) -> Result<(usize, Start), usize> {
        loop {
            match self.json.get(at) {
                None => return Err(at + 1),
                Some(b']') => return Err(at + 1),
                Some(_) => {}
            }
            if let Some(start) = scan::start_at(self.json, at) {
                return Ok((at, start));
            }
            at += 1;
        }
    }

    fn element(
        &mut self,
        mut at: usize,
        index: Option<u64>,
        rest: Rest<'p>,
        depth: u32,
    ) -> Result<Step, LimitExceeded> {
        let mut here = 0;
        loop {
            let start = match self.next_element(at) {
                Ok((start, _)) => start,
                Err(end) => return Ok((end, false)),
            };
            let (end, found) = self.member(start, index == Some(here), rest, depth)?;
            if found || end >= self.json.len() {
                return Ok((end, found));
            }
            here += 1;
            at = end;
        }
    }

    fn skip_elements(&self, mut at: usize) -> (usize, usize) {
        let mut count = 0;
        loop {
            match self.next_element(at) {
                Err(end) => return (count, end),
                Ok((start_at, start)) => {
                    count += 1;
                    at = literal::end_of(self.json, start, start_at).unwrap_or(self.json.len());
                }
            }
        }
    }

    fn count(&mut self, at: usize) -> Result<Step, LimitExceeded> {
        let (count, end) = self.skip_elements(at);
        self.value = Value::new(Kind::Number, count.to_string().into_bytes());
        Ok((end, true))
    }

    /// Collects the path's value of every element that has one.
    fn each(&mut self, mut at: usize, path: &'p [u8], depth: u32) -> Result<Step, LimitExceeded> {
        let (path, pipe) = split_pipe(path).map_or((path, None), |(path, pipe)| (path, Some(pipe)));
        let mut all = Collected::default();
        let end = loop {
            let (start_at, start) = match self.next_element(at) {
                Ok(element) => element,
                Err(end) => break end,
            };
            let Some(element_end) = literal::end_of(self.json, start, start_at) else {
                return Ok((self.json.len(), false));
            };
            let mut element = literal::value_of(self.json, start, start_at, element_end);
            element.index = if start == Start::Container {
                start_at
            } else {
                0
            };
            let value = get_in(element, path, self.budget, depth)?;
            if value.exists() {
                all.push(&value.raw_or_text(), value.index, self.budget)?;
            }
            at = element_end;
        };
        self.pipe = pipe.or(self.pipe);
        self.value = all.into_value();
        Ok((end, true))
    }

    /// The first element that satisfies the query, or all of them.
    fn query(
        &mut self,
        mut at: usize,
        query: &Query<'_>,
        rest: Rest<'p>,
        depth: u32,
    ) -> Result<Step, LimitExceeded> {
        let mut all = Collected::default();
        loop {
            let (start_at, start) = match self.next_element(at) {
                Ok(element) => element,
                Err(end) => {
                    if query.all && !self.value.exists() {
                        self.value = all.into_value();
                    }
                    return Ok((end, false));
                }
            };
            let Some(end) = literal::end_of(self.json, start, start_at) else {
                return Ok((self.json.len(), false));
            };
            let element = literal::value_of(self.json, start, start_at, end);
            if let Some(value) = self.judge(element, query, rest, depth)? {
                if !query.all {
                    self.value = value;
                    return Ok((end, true));
                }
                let raw = value.raw_or_text();
                if !raw.is_empty() {
                    all.push(&raw, start_at + value.index, self.budget)?;
                }
            }
            at = end;
        }
    }

    /// What an element gives if it satisfies the query: itself, or the value of the path behind the query in it.
    fn judge(
        &mut self,
        element: Value<'a>,
        query: &Query<'_>,
        rest: Rest<'p>,
        depth: u32,
    ) -> Result<Option<Value<'a>>, LimitExceeded> {
        let is_container = element.kind == Kind::Json;
        if !is_container && !query.path.is_empty() {
            return Ok(None);
        }
        let matched = if is_container {
            let value = get(element.raw(), query.path, self.budget, depth)?;
            query::matches(query.operator, &query.value, &value, self.budget)?
        } else {
            query::matches(query.operator, &query.value, &element, self.budget)?
        };
        let Rest::Path(path) = rest else {
            return Ok(matched.then_some(element));
        };
        if !matched {
            return Ok(None);
        }
        let path = match split_pipe(path) {
            Some((path, pipe)) => {
                self.pipe = Some(pipe);
                path
            }
            None => path,
        };
        get_in(element, path, self.budget, depth).map(Some)
    }
}

/// An array made of the values that `#` found.
#[derive(Default)]
struct Collected {
    json: Vec<u8>,
    indexes: Vec<usize>,
}

impl Collected {
    fn push(&mut self, raw: &[u8], index: usize, budget: &Budget) -> Result<(), LimitExceeded> {
        budget.charge(raw.len())?;
        self.json
            .push(if self.json.is_empty() { b'[' } else { b',' });
        self.json.extend_from_slice(raw);
        self.indexes.push(index);
        Ok(())
    }

    fn into_value<'a>(mut self) -> Value<'a> {
        if self.json.is_empty() {
            self.json.push(b'[');
        }
        self.json.push(b']');
        Value {
            kind: Kind::Json,
            raw: Cow::Owned(self.json),
            index: 0,
            indexes: self.indexes,
        }
    }
}
