//! `evidence.jsonl`: one entry a line, appended whole, never changed.

use std::fs::{File, OpenOptions};
use std::io::{self, BufRead, BufReader, Read as _, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};

use super::error::FilesError;
use crate::evidence::Entry;
use crate::words::counted;

/// Name of the file in the session directory.
pub const JOURNAL: &str = "evidence.jsonl";
/// A longer line is damaged.
const LINE_LIMIT: u64 = 8 * 1024 * 1024;
/// So many damaged lines are named one by one.
const NAMED_LINES: usize = 5;

/// The appending end.
#[derive(Debug)]
pub(super) struct Journal {
    path: PathBuf,
    file: File,
    /// Bytes that are whole lines.
    length: u64,
    /// Number of the next line, counted from 1.
    next: u64,
    /// A failed write may have left part of a line behind `length`.
    torn: bool,
    unsynced: bool,
}

/// What was read of a journal.
#[derive(Debug, Default)]
struct Contents {
    entries: Vec<Entry>,
    /// Bytes that are whole lines.
    length: u64,
    /// Whole lines, damaged ones too.
    lines: u64,
    /// Bytes of a last line without its end.
    torn: u64,
    damaged: Vec<u64>,
}

impl Journal {
    /// Opens the journal, cuts off a torn last line, and answers its entries and what was found damaged.
    pub fn open(dir: &Path) -> Result<(Journal, Vec<Entry>, Vec<String>), FilesError> {
        let path = dir.join(JOURNAL);
        let failed = |error| FilesError::io("open the journal", &path, error);
        let file = OpenOptions::new()
            .read(true)
            .append(true)
            .create(true)
            .mode(0o600)
            .open(&path)
            .map_err(failed)?;
        let contents = read(BufReader::new(&file)).map_err(failed)?;
        if contents.torn > 0 {
            file.set_len(contents.length)
                .and_then(|()| file.sync_all())
                .map_err(|error| FilesError::io("cut the torn last line off", &path, error))?;
        }
        let last = contents
            .entries
            .iter()
            .filter_map(|entry| match entry {
                Entry::Fact(fact) => Some(fact.seq),
                _ => None,
            })
            .max()
            .unwrap_or(0);
        let journal = Journal {
            path,
            file,
            length: contents.length,
            next: contents.lines.max(last) + 1,
            torn: false,
            unsynced: false,
        };
        let notes = contents.notes(true);
        Ok((journal, contents.entries, notes))
    }

    /// Appends one line; an intent is durable when this returns.
    pub fn append(&mut self, mut entry: Entry) -> Result<Entry, FilesError> {
        if let Entry::Fact(fact) = &mut entry {
            fact.seq = self.next;
        }
        let mut line = serde_json::to_vec(&entry)?;
        line.push(b'\n');
        self.mend()?;
        if let Err(error) = self.file.write_all(&line) {
            self.torn = true;
            // A part of a line would spoil the next one. If it cannot be cut off now, it is before the next write.
            if self.mend().is_err() {
                tracing::warn!(path = %self.path.display(), "part of a line stays until the next write");
            }
            return Err(FilesError::io("append to the journal", &self.path, error));
        }
        self.length += line.len() as u64;
        self.next += 1;
        self.unsynced = true;
        if matches!(entry, Entry::Intent(_)) {
            self.file
                .sync_all()
                .map_err(|error| FilesError::io("make the intent durable in", &self.path, error))?;
            self.unsynced = false;
        }
        Ok(entry)
    }

    fn mend(&mut self) -> Result<(), FilesError> {
        if self.torn {
            self.file
                .set_len(self.length)
                .map_err(|error| FilesError::io("cut the torn last line off", &self.path, error))?;
            self.torn = false;
        }
        Ok(())
    }

    /// Leaves part of a line behind, as a failed write does.
    #[cfg(test)]
    pub fn tear_for_tests(&mut self, part: &[u8]) {
        assert!(self.file.write_all(part).is_ok());
        self.torn = true;
    }

    pub fn sync(&mut self) -> Result<(), FilesError> {
        if self.unsynced {
            self.file.sync_data().map_err(|error| {
                FilesError::io("make the journal durable in", &self.path, error)
            })?;
            self.unsynced = false;
        }
        Ok(())
    }
}

impl Contents {
    fn notes(&self, cut: bool) -> Vec<String> {
        let mut notes = Vec::new();
        if self.torn > 0 {
            let done = if cut { "cut off" } else { "left out" };
            notes.push(format!(
                "the last line of the journal was torn ({}) and is {done}",
                counted(self.torn, "byte")
            ));
        }
        if !self.damaged.is_empty() {
            let named: Vec<String> = self
                .damaged
                .iter()
                .take(NAMED_LINES)
                .map(u64::to_string)
                .collect();
            let more = self.damaged.len().saturating_sub(NAMED_LINES);
            let more = if more > 0 {
                format!(" and {more} more")
            } else {
                String::new()
            };
            notes.push(format!(
                "lines of the journal cannot be read and prove nothing: {}{more}",
                named.join(", ")
            ));
        }
        notes
    }
}

/// Reads the journal of a session directory, without changing it. Answers what was found damaged as well.
///
/// # Errors
/// The file is there and cannot be read.
pub fn read_entries(dir: &Path) -> Result<(Vec<Entry>, Vec<String>), FilesError> {
    let path = dir.join(JOURNAL);
    let failed = |error| FilesError::io("read the journal", &path, error);
    let file = match File::open(&path) {
        Ok(file) => file,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Default::default()),
        Err(error) => return Err(failed(error)),
    };
    let contents = read(BufReader::new(file)).map_err(failed)?;
    let notes = contents.notes(false);
    Ok((contents.entries, notes))
}

/// Entries of a journal that came from elsewhere, with what was damaged in it, in sentences.
///
/// # Errors
/// The reader fails.
pub fn parse_entries(reader: impl BufRead) -> io::Result<(Vec<Entry>, Vec<String>)> {
    let contents = read(reader)?;
    let notes = contents.notes(false);
    Ok((contents.entries, notes))
}

fn read(mut reader: impl BufRead) -> io::Result<Contents> {
    let mut contents = Contents::default();
    let mut line = Vec::new();
    loop {
        line.clear();
        let mut count = (&mut reader)
            .take(LINE_LIMIT)
            .read_until(b'\n', &mut line)? as u64;
        if count == 0 {
            return Ok(contents);
        }
        let mut ended = line.last() == Some(&b'\n');
        let too_long = !ended && count == LINE_LIMIT;
        if too_long {
            let (skipped, end) = skip_line(&mut reader)?;
            count += skipped;
            ended = end;
        }
        if !ended {
            contents.torn = count;
            return Ok(contents);
        }
        contents.length += count;
        contents.lines += 1;
        match serde_json::from_slice(&line) {
            Ok(entry) if !too_long => contents.entries.push(entry),
            _ => contents.damaged.push(contents.lines),
        }
    }
}

/// Reads to the end of the line: how many bytes, and whether it ends.
fn skip_line(reader: &mut impl BufRead) -> io::Result<(u64, bool)> {
    let mut skipped = 0;
    loop {
        let buffer = reader.fill_buf()?;
        if buffer.is_empty() {
            return Ok((skipped, false));
        }
        let end = buffer.iter().position(|byte| *byte == b'\n');
        let used = end.map_or(buffer.len(), |at| at + 1);
        reader.consume(used);
        skipped += used as u64;
        if end.is_some() {
            return Ok((skipped, true));
        }
    }
}
