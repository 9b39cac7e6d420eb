//! `goto` and labels, which upstream's engine has and Lua 5.1 has not, written as loops that are left.
//!
//! A jump forward leaves a loop that is run once and ends before the label; a jump back leaves a loop that begins
//! after the label, which then runs again. What such a loop must not catch, a `break` of a loop around it or a jump
//! further out, leaves a mark and is passed on. Lines stay where they are.

use std::collections::{HashMap, HashSet};

use super::ScriptError;
use super::blocks::{Block, Item, Kind, blocks};
use super::tokens::{Token, tokens};

/// Most gotos and ends of labels in a script.
const MAX_JUMPS: usize = 600;

/// Writes a script without `goto`; one that has none stays as it is.
///
/// # Errors
/// [`ScriptError::Syntax`] for a jump that upstream refuses, [`ScriptError::Outside`] for one that this program cannot
/// write in another way.
pub(super) fn without(source: &str) -> Result<Option<String>, ScriptError> {
    let Some(tokens) = tokens(source) else {
        return Ok(None);
    };
    let jumps = |token: Token<'_>| matches!(token, Token::Name("goto") | Token::Label);
    match tokens.iter().filter(|placed| jumps(placed.token)).count() {
        0 => return Ok(None),
        1..=MAX_JUMPS => {}
        _ => return Err(outside("a script with so many jumps")),
    }
    let block = blocks(&tokens, source.len())?;
    let mut writer = Writer {
        source,
        prefix: unused_prefix(source),
        names: 0,
        edits: Vec::new(),
        passed: HashSet::new(),
        frames: Vec::new(),
    };
    writer.block(&block)?;
    Ok(Some(writer.written()))
}

/// What no name of the script begins with.
fn unused_prefix(source: &str) -> String {
    let underscores = |rest: &str| rest.bytes().take_while(|byte| *byte == b'_').count();
    let longest = source.split("jump").skip(1).map(underscores).max();
    format!(
        "jump{}",
        "_".repeat(longest.map_or(0, |longest| longest + 1))
    )
}

/// Where an edit stands among others at the same place.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
enum Order {
    /// After a loop; the inner one first.
    After(usize),
    /// The end of an own loop; the inner one first.
    End(usize),
    /// The begin of an own loop; the outer one first.
    Begin(usize),
    /// In place of what stands there.
    Instead,
}

/// A text that is put in, in place of the bytes up to `end`.
#[derive(Debug)]
struct Edit {
    at: usize,
    end: usize,
    order: Order,
    text: String,
}

/// Something around the place that is being written, innermost last.
#[derive(Debug)]
enum Frame<'s> {
    /// A block with the regions that jumps to its labels make.
    Block {
        labels: Vec<(&'s str, usize)>,
        regions: Vec<Region<'s>>,
    },
    /// A loop of the script, by the place where it ends.
    Loop { end: usize },
    /// A function's body.
    Function,
}

/// What an own loop is put around.
#[derive(Debug, Clone)]
struct Region<'s> {
    label: &'s str,
    back: bool,
    start: usize,
    end: usize,
    mark: String,
    /// The mark of a `break` that passes through.
    passes: Option<String>,
}

impl Region<'_> {
    fn holds(&self, place: usize) -> bool {
        (self.start..self.end).contains(&place)
    }
}

struct Writer<'s> {
    source: &'s str,
    prefix: String,
    names: usize,
    edits: Vec<Edit>,
    /// Where which mark is passed on already.
    passed: HashSet<(usize, Order, String)>,
    frames: Vec<Frame<'s>>,
}

impl<'s> Writer<'s> {
    fn name(&mut self) -> String {
        self.names += 1;
        format!("{}{}", self.prefix, self.names)
    }

    fn line(&self, at: usize) -> usize {
        let before = self.source.as_bytes().get(..at).unwrap_or_default();
        1 + before.iter().filter(|byte| **byte == b'\n').count()
    }

    fn block(&mut self, block: &Block<'s>) -> Result<(), ScriptError> {
        let labels = self.labels(block)?;
        let regions = self.regions(block)?;
        self.frames.push(Frame::Block { labels, regions });
        for item in &block.items {
            self.item(item)?;
        }
        if let Some(Frame::Block { regions, .. }) = self.frames.pop() {
            for region in regions {
                self.write_region(&region);
            }
        }
        Ok(())
    }

    fn labels(&self, block: &Block<'s>) -> Result<Vec<(&'s str, usize)>, ScriptError> {
        let mut labels: HashMap<&str, usize> = HashMap::new();
        for item in &block.items {
            if let Kind::Label(name) = item.kind
                && let Some(before) = labels.insert(name, item.start)
            {
                return Err(ScriptError::Syntax(format!(
                    "label '{name}' already defined on line {}",
                    self.line(before)
                )));
            }
        }
        Ok(labels.into_iter().collect())
    }

    /// The regions of a block, so that of any two one holds the other or they are apart.
    fn regions(&mut self, block: &Block<'s>) -> Result<Vec<Region<'s>>, ScriptError> {
        let mut regions: Vec<Region<'s>> = Vec::new();
        for (place, item) in block.items.iter().enumerate() {
            let Kind::Label(label) = item.kind else {
                continue;
            };
            let (before, after) = block.items.split_at(place);
            let reaches = |item: &&Item<'s>| jumps_to(item, label);
            if let Some(first) = before.iter().position(|item| reaches(&item)) {
                self.check_locals(block, first, place, label)?;
                let start = before.get(first).map_or(item.start, |item| item.start);
                regions.push(self.region(label, false, start, item.start));
            }
            if after.iter().any(|item| reaches(&item)) {
                let locals = after.iter().any(|item| matches!(item.kind, Kind::Local(_)));
                if block.until && locals {
                    return Err(outside("a goto back in a repeat loop with locals"));
                }
                regions.push(self.region(label, true, item.end, block.end));
            }
        }
        nested(&mut regions)?;
        Ok(regions)
    }

    fn region(&mut self, label: &'s str, back: bool, start: usize, end: usize) -> Region<'s> {
        Region {
            label,
            back,
            start,
            end,
            mark: self.name(),
            passes: None,
        }
    }

    /// A jump forward must not enter the scope of a local, unless nothing but labels follows the label.
    fn check_locals(
        &self,
        block: &Block<'s>,
        from: usize,
        label: usize,
        name: &str,
    ) -> Result<(), ScriptError> {
        let rest = block.items.get(label..).unwrap_or_default();
        let nothing_follows = rest.iter().all(|item| matches!(item.kind, Kind::Label(_)));
        if nothing_follows && !block.until {
            return Ok(());
        }
        let between = block.items.get(from..label).unwrap_or_default();
        // Upstream names the local that the block declared last.
        let local = between.iter().rev().find_map(|item| match item.kind {
            Kind::Local(local) => Some(local),
            _ => None,
        });
        let goto = between.first().and_then(|item| goto_in(item, name));
        match local {
            None => Ok(()),
            Some(local) => Err(ScriptError::Syntax(format!(
                "<goto {name}> at line {} jumps into the scope of local '{local}'",
                self.line(goto.unwrap_or_default())
            ))),
        }
    }

    fn item(&mut self, item: &Item<'s>) -> Result<(), ScriptError> {
        match &item.kind {
            Kind::Local(_) | Kind::Other => {}
            Kind::Label(_) => self.edit(item, "do end"),
            Kind::Goto(name) => self.jump(item, name)?,
            Kind::Break => self.leave(item)?,
            Kind::Function(body) => {
                self.frames.push(Frame::Function);
                self.block(body)?;
                self.frames.pop();
            }
            Kind::Compound { is_loop, blocks } => {
                if *is_loop {
                    self.frames.push(Frame::Loop { end: item.end });
                }
                for block in blocks {
                    self.block(block)?;
                }
                if *is_loop {
                    self.frames.pop();
                }
            }
        }
        Ok(())
    }

    /// Puts a text in place of an item, apart from what stands beside it.
    fn edit(&mut self, item: &Item<'s>, text: &str) {
        self.edits.push(Edit {
            at: item.start,
            end: item.end,
            order: Order::Instead,
            text: format!(" {text} "),
        });
    }

    /// A jump: a mark, and a way out of every loop up to the region of its label.
    fn jump(&mut self, item: &Item<'s>, name: &str) -> Result<(), ScriptError> {
        let mut leaves = Vec::new();
        let mut found = None;
        'frames: for (depth, frame) in self.frames.iter().enumerate().rev() {
            match frame {
                Frame::Function => break,
                Frame::Loop { end } => leaves.push((*end, Order::After(usize::MAX - depth))),
                Frame::Block { labels, regions } => {
                    let own = labels.iter().any(|(label, _)| *label == name);
                    let mut inside: Vec<&Region<'_>> = regions
                        .iter()
                        .filter(|region| region.holds(item.start))
                        .collect();
                    inside.sort_by_key(|region| region.end - region.start);
                    for region in inside {
                        if own && region.label == name {
                            found = Some(region.mark.clone());
                            break 'frames;
                        }
                        leaves.push(region.after());
                    }
                    if own {
                        break;
                    }
                }
            }
        }
        let Some(mark) = found else {
            return Err(ScriptError::Syntax(format!(
                "no visible label '{name}' for <goto> at line {}",
                self.line(item.start)
            )));
        };
        for (at, order) in leaves {
            self.pass_on(at, order, &mark);
        }
        self.edit(item, &format!("do {mark} = true break end"));
        Ok(())
    }

    /// A `break`: as it is, unless own loops stand between it and the loop that it leaves.
    fn leave(&mut self, item: &Item<'s>) -> Result<(), ScriptError> {
        let mut through = Vec::new();
        let mut in_loop = false;
        for (depth, frame) in self.frames.iter().enumerate().rev() {
            match frame {
                Frame::Function => break,
                Frame::Loop { .. } => {
                    in_loop = true;
                    break;
                }
                Frame::Block { regions, .. } => {
                    let inside = regions.iter().enumerate();
                    let mut inside: Vec<_> = inside
                        .filter(|(_, region)| region.holds(item.start))
                        .map(|(place, region)| (region.end - region.start, depth, place))
                        .collect();
                    inside.sort_unstable();
                    through.extend(inside);
                }
            }
        }
        if !in_loop {
            return Err(ScriptError::Syntax("no loop to break".to_owned()));
        }
        let Some((_, depth, place)) = through.last().copied() else {
            return Ok(());
        };
        // The outermost own loop declares the mark.
        let known = match self.frames.get(depth) {
            Some(Frame::Block { regions, .. }) => {
                regions.get(place).and_then(|region| region.passes.clone())
            }
            _ => None,
        };
        let mark = match known {
            Some(mark) => mark,
            None => self.name(),
        };
        if let Some(Frame::Block { regions, .. }) = self.frames.get_mut(depth)
            && let Some(region) = regions.get_mut(place)
        {
            region.passes = Some(mark.clone());
        }
        for (_, depth, place) in through {
            if let Some(Frame::Block { regions, .. }) = self.frames.get(depth)
                && let Some(region) = regions.get(place)
            {
                let (at, order) = region.after();
                self.pass_on(at, order, &mark);
            }
        }
        self.edit(item, &format!("do {mark} = true break end"));
        Ok(())
    }

    /// Behind a loop: goes on leaving where the mark is set.
    fn pass_on(&mut self, at: usize, order: Order, mark: &str) {
        if self.passed.insert((at, order, mark.to_owned())) {
            self.edits.push(Edit {
                at,
                end: at,
                order,
                text: format!(" if {mark} then break end "),
            });
        }
    }

    fn write_region(&mut self, region: &Region<'s>) {
        let size = region.end - region.start;
        let mark = &region.mark;
        let passes = match &region.passes {
            Some(passes) => format!(", {passes}"),
            None => String::new(),
        };
        let (begin, end) = if region.back {
            (
                format!(" do local {mark}{passes} repeat {mark} = nil repeat "),
                format!(" until true until not {mark} "),
            )
        } else {
            (
                format!(" do local {mark}{passes} repeat "),
                " until true ".to_owned(),
            )
        };
        let mut put = |at, order, text| {
            self.edits.push(Edit {
                at,
                end: at,
                order,
                text,
            });
        };
        put(region.start, Order::Begin(usize::MAX - size), begin);
        put(region.end, Order::End(3 * size), end);
        put(region.end, Order::End(3 * size + 2), " end ".to_owned());
    }

    /// The script with all edits.
    fn written(mut self) -> String {
        self.edits.sort_by_key(|edit| (edit.at, edit.order));
        let mut out = String::with_capacity(self.source.len() + 64 * self.edits.len());
        let mut at = 0;
        for edit in &self.edits {
            out.push_str(self.source.get(at..edit.at).unwrap_or_default());
            out.push_str(&edit.text);
            at = edit.end.max(at);
        }
        out.push_str(self.source.get(at..).unwrap_or_default());
        out
    }
}

impl Region<'_> {
    /// Between the end of its loop and the end of the scope of its mark.
    fn after(&self) -> (usize, Order) {
        (self.end, Order::End(3 * (self.end - self.start) + 1))
    }
}

fn outside(what: &str) -> ScriptError {
    ScriptError::Outside(what.to_owned())
}

/// Whether a jump to this label is in an item, functions aside, and no nearer label has that name.
fn jumps_to(item: &Item<'_>, label: &str) -> bool {
    goto_in(item, label).is_some()
}

/// Where in an item the first goto to a label outside of it stands.
fn goto_in(item: &Item<'_>, label: &str) -> Option<usize> {
    match &item.kind {
        Kind::Goto(name) => (*name == label).then_some(item.start),
        Kind::Compound { blocks, .. } => blocks.iter().find_map(|block| {
            let own = |item: &Item<'_>| matches!(item.kind, Kind::Label(name) if name == label);
            if block.items.iter().any(own) {
                return None;
            }
            block.items.iter().find_map(|item| goto_in(item, label))
        }),
        _ => None,
    }
}

/// Lets a region that reaches into another one begin with it; two that still cross cannot be written.
fn nested(regions: &mut [Region<'_>]) -> Result<(), ScriptError> {
    // By their end: what a region reaches into ended before it.
    regions.sort_by_key(|region| (region.end, std::cmp::Reverse(region.start)));
    for place in 0..regions.len() {
        let (earlier, rest) = regions.split_at_mut(place);
        let Some(region) = rest.first_mut() else {
            continue;
        };
        for other in earlier.iter().rev() {
            if other.end > region.start && other.start < region.start {
                if other.back || region.back {
                    return Err(outside("a goto that crosses another one"));
                }
                region.start = other.start;
            }
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::without;
    use crate::sensor::script::{Script, ScriptError};

    #[test]
    fn no_name_of_a_script_is_taken_for_a_mark() {
        for (source, prefix) in [
            ("", "jump"),
            ("local jump = 1", "jump_"),
            ("jump1 jump__ jumpjump_", "jump___"),
        ] {
            assert_eq!(super::unused_prefix(source), prefix);
            assert!(!source.contains(prefix));
        }
    }

    /// What a script answers, for a script that returns a text.
    fn answer(source: &str) -> String {
        let script =
            format!("local function run() {source} end return {{answer = tostring((run()))}}");
        let script = match Script::compile(&script) {
            Ok(script) => script,
            Err(error) => return format!("error: {error}"),
        };
        match script.transform(b"{}") {
            Ok(made) => String::from_utf8(made).unwrap(),
            Err(error) => format!("error: {error}"),
        }
    }

    #[test]
    fn jumps_do_what_they_do_in_upstreams_engine() {
        for (source, wanted) in [
            ("goto x ::x:: return 1", "1"),
            // No blank between a label and what stands beside it.
            ("goto done ::done::return 1", "1"),
            (
                "local s='' for i=1,3 do if i==2 then goto c end s=s..i::c::end return s",
                "13",
            ),
            (
                "local n=0::again::n=n+1 if n<5 then goto again end return n",
                "5",
            ),
            (
                "for i=1,3 do if i==2 then goto done end end ::done:: return 'g'",
                "g",
            ),
            (
                "local s='' for i=1,5 do if i%2==0 then goto continue end s=s..i ::continue:: end return s",
                "135",
            ),
            (
                "local s='' for i=1,3 do for j=1,3 do if j==2 then goto next end s=s..i..j..' ' end ::next:: end return s",
                "11 21 31 ",
            ),
            (
                "local s='' for i=1,3 do for j=1,3 do if i*j==4 then goto out end s=s..i*j end end ::out:: return s",
                "1232",
            ),
            (
                "local n=0 ::again:: n=n+1 if n<5 then goto again end return n",
                "5",
            ),
            (
                "local n=0 ::again:: n=n+1 for i=1,9 do if n<5 and i==3 then goto again end end return n",
                "5",
            ),
            (
                "local n=0 while true do n=n+1 if n==3 then goto skip end if n>5 then break end ::skip:: end return n",
                "6",
            ),
            (
                "local n=0 while true do n=n+1 repeat if n==3 then goto skip end until true if n>5 then break end ::skip:: end return n",
                "6",
            ),
            (
                "do goto a end ::b:: do return 'b' end ::a:: return 'a'",
                "a",
            ),
            (
                "local i=1 ::top:: if i>3 then goto done end i=i+1 goto top ::done:: return i",
                "4",
            ),
            ("goto a local x = 1 ::a::", "nil"),
            (
                "local function f() goto e do return 1 end ::e:: return 2 end goto e ::e:: return f()",
                "2",
            ),
            (
                "local s='' for _,v in ipairs({1,2,3}) do local t={} ::redo:: t[#t+1]=v if #t<v then goto redo end s=s..#t end return s",
                "123",
            ),
            ("for i=1,2 do do goto c end ::c:: end return 'ok'", "ok"),
            (
                "repeat local x = 1 if x then goto c end ::c:: until true return 'ok'",
                "ok",
            ),
            (
                "if true then goto e else return 1 end ::e:: ; return 2",
                "2",
            ),
            (
                "local a = {} for i=1,3 do local j = i if j==2 then goto c end a[#a+1]=function() return j end ::c:: end return a[1]()..a[2]()",
                "13",
            ),
            (
                "local s='' local i=0 repeat i=i+1 if i==2 then goto c end s=s..i ::c:: until i>=3 return s",
                "13",
            ),
            (
                "while true do while true do goto out end end ::out:: return 'out'",
                "out",
            ),
            (
                "local n = 0 while n < 3 do n = n + 1 goto a ::b:: break ::a:: if n == 2 then goto b end end return n",
                "error",
            ),
            (
                "goto f; local function g() return 3 end ::f:: return 1",
                "error",
            ),
        ] {
            let found = answer(source);
            if wanted == "error" {
                assert!(found.starts_with("error: "), "{source}: {found}");
            } else {
                assert_eq!(found, format!("{{\"answer\":\"{wanted}\"}}"), "{source}");
            }
        }
    }

    #[test]
    fn what_upstream_refuses_is_refused() {
        for (source, said) in [
            (
                "goto x return 1",
                "no visible label 'x' for <goto> at line 1",
            ),
            (
                "::x:: ::x:: return 1",
                "label 'x' already defined on line 1",
            ),
            (
                "goto x\nlocal a = 1\n::x::\nreturn a",
                "<goto x> at line 1 jumps into the scope of local 'a'",
            ),
            // The line of the goto itself, and the local that was declared last.
            (
                "do\n  if event then\n    goto x\n  end\nend\nlocal a, b = 1, 2\nlocal function c() end\nlocal d, e = 3\n::x::\nreturn a",
                "<goto x> at line 3 jumps into the scope of local 'e'",
            ),
            (
                "local z = 1\ngoto x\nlocal function f() end\n::x::\nreturn z",
                "<goto x> at line 2 jumps into the scope of local 'f'",
            ),
            ("do ::x:: end goto x", "no visible label 'x'"),
            (
                "local function f() goto x end ::x:: return f()",
                "no visible label 'x'",
            ),
            (
                "repeat goto x local a = 1 ::x:: until a",
                "jumps into the scope of local 'a'",
            ),
            ("break ::x:: return 1", "parse error"),
            ("goto x ::x:: do break end", "no loop to break"),
            ("goto = 1", "parse error"),
            // A `return` or `break` is the last of its block, whatever is made of a label behind it.
            (
                "if event then goto x end return false ::x:: return true",
                "parse error",
            ),
            (
                "while true do if event then goto c end break ::c:: end return 1",
                "parse error",
            ),
            (
                "while true do if event then goto c end break y=1 ::c:: end return 1",
                "parse error",
            ),
            ("local t = event.goto return t", "parse error"),
        ] {
            match without(source) {
                Err(ScriptError::Syntax(text)) => assert!(text.contains(said), "{source}: {text}"),
                other => panic!("{source}: {other:?}"),
            }
        }
    }

    #[test]
    fn lines_stay_and_other_scripts_are_not_touched() {
        let source = "for i = 1, 2 do\n  if i == 1 then goto c end\n  ::c::\nend\nerror('x')";
        let written = without(source).unwrap().unwrap();
        assert_eq!(written.lines().count(), source.lines().count(), "{written}");
        for source in ["return '::' -- goto x", "return 1", "x = 'unfinished"] {
            assert_eq!(without(source), Ok(None), "{source}");
        }
        let many = "goto a ".repeat(700);
        assert!(matches!(without(&many), Err(ScriptError::Outside(_))));
    }

    proptest::proptest! {
        #[test]
        fn no_source_panics(source in "(goto a|::a::|::b::|goto b|do|end|for i=1,2 do|while x do|repeat|until x|local x|if x then|else|break|x=1|return|function f\\(\\)|;| ){0,30}") {
            let spaced = source.replace("goto", " goto").replace("end", " end ").replace("do", " do ");
            let _ = without(&spaced);
        }
    }
}
