//! Lines that are typed, read in a thread that can be told to leave the input alone while an editor has it.

use std::io::{self, PipeReader, PipeWriter};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread::JoinHandle;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use tokio::sync::mpsc::{self, UnboundedReceiver, UnboundedSender};

/// Bytes that are read at once.
const CHUNK: usize = 4096;
/// What is longer is no line that anybody typed; the rest of it is left out.
const LINE_LIMIT: usize = 64 << 10;

/// Lines that may lie ready before more is read: a program types faster than anybody listens.
const MOST_READY: usize = 1024;
/// How often is looked whether somebody has listened.
const LOOK: Timespec = Timespec {
    tv_sec: 0,
    tv_nsec: 20_000_000,
};

/// Lines of stdin.
pub(super) struct Typed {
    lines: UnboundedReceiver<Option<String>>,
    /// How many of them lie ready.
    ready: Arc<AtomicUsize>,
    sender: UnboundedSender<Option<String>>,
    reader: Option<Reader>,
    /// What was read of a line that has not ended.
    rest: Vec<u8>,
}

/// A thread that reads until its pipe is closed; it ends with what was read of a line, and with nothing at the end of the
/// input.
struct Reader {
    thread: JoinHandle<Option<Vec<u8>>>,
    stop: PipeWriter,
}

impl Typed {
    /// Begins to read.
    ///
    /// # Errors
    /// There is no thread or no pipe for it.
    pub(super) fn start() -> io::Result<Self> {
        let (sender, lines) = mpsc::unbounded_channel();
        let mut typed = Self {
            lines,
            ready: Arc::default(),
            sender,
            reader: None,
            rest: Vec::new(),
        };
        typed.resume()?;
        Ok(typed)
    }

    /// The next line; `None` at the end of the input.
    pub(super) async fn next(&mut self) -> Option<String> {
        let line = self.lines.recv().await.flatten();
        if line.is_some() {
            self.ready.fetch_sub(1, Ordering::Relaxed);
        }
        line
    }

    /// Leaves the input alone; what was read already is kept. It takes no longer than one read of what is there.
    pub(super) fn pause(&mut self) {
        let Some(Reader { thread, stop }) = self.reader.take() else {
            return;
        };
        drop(stop);
        // Else the end is told, or reading has failed and nothing comes any more.
        if let Ok(Some(rest)) = thread.join() {
            self.rest = rest;
        }
    }

    /// Reads again.
    ///
    /// # Errors
    /// As [`Typed::start`].
    pub(super) fn resume(&mut self) -> io::Result<()> {
        let (stopped, stop) = io::pipe()?;
        let lines = Lines {
            sender: self.sender.clone(),
            ready: Arc::clone(&self.ready),
        };
        let rest = std::mem::take(&mut self.rest);
        let thread = std::thread::Builder::new()
            .name("typed".to_owned())
            .spawn(move || read(&stopped, &lines, rest))?;
        self.reader = Some(Reader { thread, stop });
        Ok(())
    }
}

/// Where lines are handed on.
struct Lines {
    sender: UnboundedSender<Option<String>>,
    ready: Arc<AtomicUsize>,
}

impl Lines {
    fn send(&self, line: String) {
        self.ready.fetch_add(1, Ordering::Relaxed);
        // Whoever listened may be gone.
        let _ = self.sender.send(Some(line));
    }

    fn are_enough(&self) -> bool {
        self.ready.load(Ordering::Relaxed) >= MOST_READY
    }
}

/// Reads until it is stopped or the input ends.
fn read(stopped: &PipeReader, lines: &Lines, mut rest: Vec<u8>) -> Option<Vec<u8>> {
    let input = io::stdin();
    let mut chunk = [0; CHUNK];
    loop {
        if lines.are_enough() {
            let mut watched = [PollFd::new(stopped, PollFlags::IN)];
            let _ = poll(&mut watched, Some(&LOOK));
            if !watched[0].revents().is_empty() {
                return Some(rest);
            }
            continue;
        }
        let mut watched = [
            PollFd::new(stopped, PollFlags::IN),
            PollFd::new(&input, PollFlags::IN),
        ];
        match poll(&mut watched, None) {
            Ok(_) => {}
            Err(Errno::INTR) => continue,
            Err(_) => break,
        }
        if !watched[0].revents().is_empty() {
            return Some(rest);
        }
        // Not through the buffer of `Stdin`: what would stay in it, nobody is told of.
        let count = match rustix::io::read(&input, &mut chunk) {
            Err(Errno::INTR | Errno::AGAIN) => continue,
            Ok(0) | Err(_) => break,
            Ok(count) => count,
        };
        take(chunk.get(..count).unwrap_or_default(), &mut rest, lines);
    }
    if !rest.is_empty() {
        lines.send(text(&rest));
    }
    // As above.
    let _ = lines.sender.send(None);
    None
}

/// Cuts what was read into lines.
fn take(bytes: &[u8], rest: &mut Vec<u8>, lines: &Lines) {
    for part in bytes.split_inclusive(|byte| *byte == b'\n') {
        let (content, ended) = match part.split_last() {
            Some((b'\n', content)) => (content, true),
            _ => (part, false),
        };
        let room = LINE_LIMIT.saturating_sub(rest.len());
        rest.extend(content.iter().take(room));
        if ended {
            lines.send(text(rest));
            rest.clear();
        }
    }
}

fn text(bytes: &[u8]) -> String {
    let text = String::from_utf8_lossy(bytes);
    text.trim_end_matches('\r').to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lines(chunks: &[&[u8]]) -> (Vec<String>, Vec<u8>) {
        let (sender, mut receiver) = mpsc::unbounded_channel();
        let lines = Lines {
            sender,
            ready: Arc::default(),
        };
        let mut rest = Vec::new();
        for chunk in chunks {
            take(chunk, &mut rest, &lines);
        }
        let mut found = Vec::new();
        while let Ok(Some(line)) = receiver.try_recv() {
            found.push(line);
        }
        (found, rest)
    }

    #[test]
    fn lines_are_cut_where_they_end_however_they_come() {
        let (found, rest) = lines(&[b"ne", b"xt\r\n\nsta", b"tus\nhal", b"f"]);
        assert_eq!(found, ["next", "", "status"]);
        assert_eq!(rest, b"half");
        let (found, _) = lines(&[b"\xff\xfe\n"]);
        assert_eq!(found.len(), 1, "what is no text is a line all the same");
        let long = vec![b'a'; 3 * LINE_LIMIT];
        let (found, _) = lines(&[&long, b"b\nshort\n"]);
        assert_eq!(found[0].len(), LINE_LIMIT);
        assert_eq!(found[1], "short");
    }
}
