//! Lines of container logs for the pane: kept in an unnamed file, found through an index of it.
//!
//! Memory grows by a few bytes a line, whatever its length, so that hundreds of thousands of lines can be scrolled and
//! searched. Whole logs are read with `kubectl logs`.

use std::fs::File;
use std::io::{self, Write as _};
use std::os::unix::fs::FileExt as _;
use std::path::Path;

use super::search::Needle;
use crate::cluster::{ContainerInstance, LogLine};

/// Lines that are kept before the oldest are let go, all at once.
const LINE_LIMIT: usize = 1_000_000;
/// Bytes that are kept.
const BYTE_LIMIT: u64 = 512 << 20;
/// The end of the file is kept in memory up to this many bytes, so that a line costs no write of its own.
const TAIL: usize = 64 << 10;
/// Bytes that are read at once while searching.
const CHUNK: usize = 256 << 10;

/// The lines of all followed containers, in the order of their arrival.
#[derive(Default)]
pub struct LogBook {
    file: Option<File>,
    /// What is not in the file yet.
    tail: Vec<u8>,
    /// Length of the file.
    written: u64,
    /// Where each line begins; its end is the next one's begin.
    starts: Vec<u64>,
    /// Which source each line is from.
    origin: Vec<u16>,
    sources: Vec<Source>,
    /// Why lines cannot be kept.
    problem: Option<String>,
    /// Lines that were let go.
    dropped: u64,
}

/// One life of a container and its lines.
struct Source {
    instance: ContainerInstance,
    lines: Vec<u32>,
}

/// How far a search came.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Found {
    /// The number of the line in the chosen source.
    At(usize),
    /// Nothing so far; goes on with this line.
    GoOn(usize),
    Nowhere,
}

impl LogBook {
    /// A book whose file lies in this folder, unnamed: nothing is left of it when the program ends.
    #[must_use]
    pub fn in_folder(folder: &Path) -> Self {
        match tempfile::tempfile_in(folder) {
            Ok(file) => Self {
                file: Some(file),
                ..Self::default()
            },
            Err(error) => Self {
                problem: Some(format!(
                    "cannot keep log lines in {}: {error}",
                    folder.display()
                )),
                ..Self::default()
            },
        }
    }

    /// Adds a line.
    pub fn push(&mut self, line: &LogLine) {
        if self.starts.len() >= LINE_LIMIT || self.end() >= BYTE_LIMIT {
            self.let_go();
        }
        let source = self.source(&line.pod);
        let Some(source) = source else { return };
        if self.tail.len() >= TAIL
            && let Err(error) = self.flush()
        {
            self.problem = Some(format!(
                "log lines are not kept any more: {error}; read them with kubectl logs"
            ));
            return;
        }
        let number = self.starts.len();
        self.starts.push(self.end());
        self.tail.extend_from_slice(line.text.as_bytes());
        self.origin.push(source);
        if let Some(source) = self.sources.get_mut(usize::from(source)) {
            source.lines.push(u32::try_from(number).unwrap_or(u32::MAX));
        }
    }

    fn end(&self) -> u64 {
        self.written + self.tail.len() as u64
    }

    /// The number of a source; `None` when there are more than can be told apart.
    fn source(&mut self, instance: &ContainerInstance) -> Option<u16> {
        let known = self
            .sources
            .iter()
            .rposition(|source| source.instance == *instance);
        let place = known.unwrap_or_else(|| {
            self.sources.push(Source {
                instance: instance.clone(),
                lines: Vec::new(),
            });
            self.sources.len() - 1
        });
        u16::try_from(place).ok()
    }

    fn flush(&mut self) -> io::Result<()> {
        if self.file.is_none() {
            self.file = Some(tempfile::tempfile()?);
        }
        if let Some(file) = &mut self.file {
            file.write_all(&self.tail)?;
        }
        self.written += self.tail.len() as u64;
        self.tail.clear();
        Ok(())
    }

    fn let_go(&mut self) {
        self.dropped += self.starts.len() as u64;
        self.starts.clear();
        self.origin.clear();
        for source in &mut self.sources {
            source.lines.clear();
        }
        self.tail.clear();
        self.written = 0;
        if let Some(file) = &mut self.file {
            let emptied = file.set_len(0).and_then(|()| io::Seek::rewind(file));
            if let Err(error) = emptied {
                self.problem = Some(format!("log lines cannot be let go: {error}"));
                self.file = None;
            }
        }
    }

    /// What is wrong, or missing, in a sentence.
    #[must_use]
    pub fn remark(&self) -> Option<String> {
        if let Some(problem) = &self.problem {
            return Some(problem.clone());
        }
        (self.dropped > 0).then(|| {
            format!(
                "{} older lines are not kept here; read them with kubectl logs",
                self.dropped
            )
        })
    }

    /// Sources in the order in which they appeared.
    pub fn sources(&self) -> impl Iterator<Item = &ContainerInstance> {
        self.sources.iter().map(|source| &source.instance)
    }

    /// Lines of a source, or of all.
    #[must_use]
    pub fn len(&self, source: Option<usize>) -> usize {
        match source {
            None => self.starts.len(),
            Some(place) => self
                .sources
                .get(place)
                .map_or(0, |source| source.lines.len()),
        }
    }

    /// Whether there are none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.starts.is_empty()
    }

    /// The number among all lines of a source's n-th line.
    fn number(&self, source: Option<usize>, place: usize) -> Option<usize> {
        match source {
            None => (place < self.starts.len()).then_some(place),
            Some(chosen) => {
                let line = self.sources.get(chosen)?.lines.get(place)?;
                usize::try_from(*line).ok()
            }
        }
    }

    /// A line and the container it is from.
    #[must_use]
    pub fn line(
        &self,
        source: Option<usize>,
        place: usize,
    ) -> Option<(&ContainerInstance, String)> {
        let number = self.number(source, place)?;
        let mut window = Window::default();
        let text = String::from_utf8_lossy(self.bytes(number, &mut window)?).into_owned();
        let origin = usize::from(*self.origin.get(number)?);
        Some((&self.sources.get(origin)?.instance, text))
    }

    fn bytes<'a>(&'a self, number: usize, window: &'a mut Window) -> Option<&'a [u8]> {
        let start = *self.starts.get(number)?;
        let end = self.starts.get(number + 1).copied().unwrap_or(self.end());
        let length = usize::try_from(end.saturating_sub(start)).ok()?;
        if start >= self.written {
            let from = usize::try_from(start - self.written).ok()?;
            return self.tail.get(from..from + length);
        }
        window.read(self.file.as_ref()?, self.written, start, length)
    }

    /// Looks for a line from `from` on (or back), at most `steps` lines far.
    #[must_use]
    pub fn find(
        &self,
        source: Option<usize>,
        needle: &Needle,
        from: usize,
        forward: bool,
        steps: usize,
    ) -> Found {
        let length = self.len(source);
        let mut place = from;
        let mut window = Window::default();
        for _ in 0..steps {
            if place >= length {
                return Found::Nowhere;
            }
            let hit = self
                .number(source, place)
                .and_then(|number| self.bytes(number, &mut window))
                .is_some_and(|text| needle.is_in(&String::from_utf8_lossy(text)));
            if hit {
                return Found::At(place);
            }
            if forward {
                place += 1;
            } else if place == 0 {
                return Found::Nowhere;
            } else {
                place -= 1;
            }
        }
        Found::GoOn(place)
    }

    /// Where a container's line with this text is, newest first: the source and its line.
    #[must_use]
    pub fn place_of(
        &self,
        pod: &str,
        uid: &str,
        instance: u32,
        text: &str,
    ) -> Option<(usize, usize)> {
        let source = self.sources.iter().position(|source| {
            source.instance.pod == pod
                && source.instance.uid == uid
                && source.instance.instance == instance
        })?;
        let mut window = Window::default();
        let lines = &self.sources.get(source)?.lines;
        let place = lines.iter().rposition(|line| {
            usize::try_from(*line)
                .ok()
                .and_then(|number| self.bytes(number, &mut window))
                .is_some_and(|bytes| same_line(bytes, text))
        })?;
        Some((source, place))
    }
}

/// What is kept as a fact may have been redacted since: then the beginnings are compared.
fn same_line(bytes: &[u8], text: &str) -> bool {
    let text = text.as_bytes();
    if bytes == text {
        return true;
    }
    let common = bytes.iter().zip(text).take_while(|(a, b)| a == b).count();
    common >= 120
}

/// A part of the file in memory.
#[derive(Default)]
struct Window {
    start: u64,
    bytes: Vec<u8>,
}

impl Window {
    fn read(&mut self, file: &File, length: u64, start: u64, wanted: usize) -> Option<&[u8]> {
        let inside =
            start >= self.start && start + wanted as u64 <= self.start + self.bytes.len() as u64;
        if !inside {
            // Half before and half behind: searches go both ways.
            let begin = start.saturating_sub(CHUNK as u64 / 2);
            let end = (start + wanted.max(CHUNK / 2) as u64).min(length);
            self.bytes.resize(usize::try_from(end - begin).ok()?, 0);
            self.start = begin;
            if file.read_exact_at(&mut self.bytes, begin).is_err() {
                self.bytes.clear();
                return None;
            }
        }
        let from = usize::try_from(start - self.start).ok()?;
        self.bytes.get(from..from + wanted)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line(pod: &str, text: String) -> LogLine {
        LogLine {
            pod: ContainerInstance {
                pod: pod.to_owned(),
                uid: format!("uid-{pod}"),
                container: "main".to_owned(),
                instance: 0,
            },
            text,
        }
    }

    fn book(count: usize) -> LogBook {
        let mut book = LogBook::default();
        for number in 0..count {
            let pod = if number % 3 == 0 { "a" } else { "b" };
            book.push(&line(
                pod,
                format!("line {number} {}", "ä".repeat(number % 50)),
            ));
        }
        book
    }

    #[test]
    fn every_line_comes_back_from_file_and_memory() {
        let book = book(10_000);
        assert!(book.written > 0, "part of it is in the file");
        for number in [0, 1, 4_999, 9_998, 9_999] {
            let (_, text) = book.line(None, number).unwrap();
            assert!(text.starts_with(&format!("line {number} ")), "{text}");
        }
        assert_eq!(book.line(None, 10_000), None);
        let (pod, text) = book.line(Some(0), 2).unwrap();
        assert_eq!((pod.pod.as_str(), text.as_str()), ("a", "line 6 ääääää"));
        assert_eq!(book.len(Some(0)) + book.len(Some(1)), book.len(None));
    }

    #[test]
    fn a_search_goes_both_ways_in_steps() {
        let book = book(10_000);
        let needle = Needle::new("LINE 777 ");
        assert_eq!(
            book.find(None, &needle, 0, true, 100_000),
            Found::Nowhere,
            "an upper-case letter makes a search exact"
        );
        let needle = Needle::new("line 777 ");
        assert_eq!(book.find(None, &needle, 0, true, 500), Found::GoOn(500));
        assert_eq!(book.find(None, &needle, 500, true, 500), Found::At(777));
        assert_eq!(
            book.find(None, &needle, 9_999, false, 100_000),
            Found::At(777)
        );
        assert_eq!(
            book.find(None, &needle, 776, false, 100_000),
            Found::Nowhere
        );
    }

    #[test]
    fn a_fact_finds_its_line() {
        let book = book(3_000);
        let (_, text) = book.line(Some(1), 700).unwrap();
        assert_eq!(book.place_of("b", "uid-b", 0, &text), Some((1, 700)));
        assert_eq!(book.place_of("b", "uid-b", 1, &text), None);
        assert_eq!(book.place_of("b", "uid-b", 0, "no such line"), None);
    }

    #[test]
    fn a_folder_that_is_not_there_is_said() {
        let mut book = LogBook::in_folder(Path::new("/nowhere/at/all"));
        assert!(book.remark().unwrap().contains("/nowhere/at/all"));
        book.push(&line("a", "kept all the same".to_owned()));
        assert_eq!(book.len(None), 1);
    }
}
