//! Reading a log file whose lines are `RFC3339Nano TEXT`, also while it grows.

use std::io::{self, SeekFrom};
use std::path::Path;

use axum::body::Bytes;
use futures::StreamExt as _;
use jiff::Timestamp;
use tokio::fs::File;
use tokio::io::{AsyncReadExt as _, AsyncSeekExt as _};
use tokio::sync::watch;

use super::{LogError, LogOptions, LogStream};

/// Bytes read at a time.
const CHUNK: usize = 32 * 1024;
/// A line's time is looked for in so many bytes; a line without one is passed on as it is.
const MAX_STAMP: usize = 40;

/// The log file of one container instance.
///
/// The writer keeps the other half of `growth` and sends the file's length after each append; dropping it says that
/// the container ended. Nothing is polled.
#[derive(Debug)]
pub struct FileLog {
    file: File,
    growth: Option<watch::Receiver<u64>>,
}

impl FileLog {
    /// Opens `path`; without `growth` the file is complete, and following it ends at its end.
    ///
    /// # Errors
    /// [`LogError::Gone`] when there is no such file, else the I/O error.
    pub async fn open(
        path: &Path,
        growth: Option<watch::Receiver<u64>>,
    ) -> Result<FileLog, LogError> {
        match File::open(path).await {
            Ok(file) => Ok(FileLog { file, growth }),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Err(LogError::Gone),
            Err(error) => Err(LogError::Io(error)),
        }
    }

    /// The lines that `options` ask for.
    ///
    /// # Errors
    /// The file cannot be read.
    pub async fn stream(mut self, options: &LogOptions) -> Result<LogStream, LogError> {
        if let Some(lines) = options.tail_lines {
            let start = tail_start(&mut self.file, lines).await?;
            self.file.seek(SeekFrom::Start(start)).await?;
        }
        let growth = self.growth.filter(|_| options.follow);
        let reader = Reader {
            file: self.file,
            growth,
            filter: LineFilter::new(options),
            buffer: vec![0; CHUNK],
        };
        let stream = futures::stream::try_unfold(reader, |mut reader| async move {
            let next = reader.next().await?;
            Ok(next.map(|bytes| (bytes, reader)))
        });
        Ok(stream.boxed())
    }
}

/// Where the last `lines` lines begin.
async fn tail_start(file: &mut File, lines: u64) -> io::Result<u64> {
    let end = file.seek(SeekFrom::End(0)).await?;
    if lines == 0 {
        return Ok(end);
    }
    let (mut position, mut breaks) = (end, 0u64);
    let mut buffer = vec![0; CHUNK];
    while position > 0 {
        let size = usize::try_from(position).unwrap_or(CHUNK).min(CHUNK);
        position -= size as u64;
        file.seek(SeekFrom::Start(position)).await?;
        let block = &mut buffer[..size];
        file.read_exact(block).await?;
        for (index, _) in block
            .iter()
            .enumerate()
            .rev()
            .filter(|(_, byte)| **byte == b'\n')
        {
            let after = position + index as u64 + 1;
            // A newline at the very end closes the last line, it does not begin one.
            breaks += u64::from(after < end);
            if breaks == lines && after < end {
                return Ok(after);
            }
        }
    }
    Ok(0)
}

struct Reader {
    file: File,
    /// `None` when the file is not followed.
    growth: Option<watch::Receiver<u64>>,
    filter: LineFilter,
    buffer: Vec<u8>,
}

impl Reader {
    /// The next piece of output; `None` at the end.
    async fn next(&mut self) -> io::Result<Option<Bytes>> {
        loop {
            if self.filter.is_full() {
                return Ok(None);
            }
            if let Some(growth) = &mut self.growth {
                growth.borrow_and_update();
            }
            let count = self.file.read(&mut self.buffer).await?;
            if count > 0 {
                let output = self.filter.push(&self.buffer[..count]);
                if !output.is_empty() {
                    return Ok(Some(output.into()));
                }
                continue;
            }
            let Some(growth) = &mut self.growth else {
                let rest = self.filter.finish();
                return Ok((!rest.is_empty()).then(|| rest.into()));
            };
            if growth.changed().await.is_err() {
                // The writer is gone: read what it wrote last, then end.
                self.growth = None;
            }
        }
    }
}

/// Cuts times off, drops old lines, and stops at the limit; works on pieces, so a line of any length costs no memory.
struct LineFilter {
    since: Option<Timestamp>,
    timestamps: bool,
    remaining: u64,
    state: State,
}

enum State {
    /// At the start of a line, with the bytes read of its time.
    Stamp(Vec<u8>),
    Copy,
    Skip,
}

impl LineFilter {
    fn new(options: &LogOptions) -> LineFilter {
        LineFilter {
            since: options.since,
            timestamps: options.timestamps,
            remaining: options.limit_bytes.unwrap_or(u64::MAX),
            state: State::Stamp(Vec::new()),
        }
    }

    fn is_full(&self) -> bool {
        self.remaining == 0
    }

    fn push(&mut self, input: &[u8]) -> Vec<u8> {
        let mut output = Vec::with_capacity(input.len());
        let mut rest = input;
        while !rest.is_empty() && !self.is_full() {
            rest = match &mut self.state {
                State::Stamp(stamp) => {
                    let (byte, tail) = (rest[0], &rest[1..]);
                    stamp.push(byte);
                    if byte == b' ' || byte == b'\n' || stamp.len() > MAX_STAMP {
                        self.begin_line(&mut output);
                    }
                    tail
                }
                State::Copy | State::Skip => self.pass_line(rest, &mut output),
            };
        }
        output
    }

    /// What is left of a last line that was cut off within its time.
    fn finish(&mut self) -> Vec<u8> {
        let mut output = Vec::new();
        if let State::Stamp(stamp) = &self.state
            && !stamp.is_empty()
        {
            self.begin_line(&mut output);
        }
        output
    }

    /// Decides about a line once its time is known; what does not begin with a time is kept whole.
    fn begin_line(&mut self, output: &mut Vec<u8>) {
        let State::Stamp(stamp) = std::mem::replace(&mut self.state, State::Copy) else {
            return;
        };
        let ends_line = stamp.last() == Some(&b'\n');
        let text = String::from_utf8_lossy(&stamp);
        match text.trim_ascii_end().parse::<Timestamp>() {
            Ok(time) if self.since.is_some_and(|since| time < since) => self.state = State::Skip,
            Ok(_) if !self.timestamps => {
                if ends_line {
                    self.write(b"\n", output);
                }
            }
            _ => self.write(&stamp, output),
        }
        if ends_line {
            self.state = State::Stamp(Vec::new());
        }
    }

    fn pass_line<'a>(&mut self, input: &'a [u8], output: &mut Vec<u8>) -> &'a [u8] {
        let end = input
            .iter()
            .position(|byte| *byte == b'\n')
            .map(|at| at + 1);
        let (line, rest) = input.split_at(end.unwrap_or(input.len()));
        if matches!(self.state, State::Copy) {
            self.write(line, output);
        }
        if end.is_some() {
            self.state = State::Stamp(Vec::new());
        }
        rest
    }

    fn write(&mut self, bytes: &[u8], output: &mut Vec<u8>) {
        let count = usize::try_from(self.remaining)
            .unwrap_or(usize::MAX)
            .min(bytes.len());
        output.extend_from_slice(&bytes[..count]);
        self.remaining -= count as u64;
    }
}
