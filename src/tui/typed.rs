//! Lines that are typed, read in a thread that can be told to leave the input alone while an editor has it.

use std::io::{self, PipeReader, PipeWriter};
use std::thread::JoinHandle;

use rustix::event::{PollFd, PollFlags, poll};
use rustix::io::Errno;
use tokio::sync::mpsc::{self, UnboundedReceiver, UnboundedSender};

/// Bytes that are read at once.
const CHUNK: usize = 4096;
/// What is longer is no line that anybody typed; the rest of it is left out.
const LINE_LIMIT: usize = 64 << 10;

/// Lines of stdin.
pub(super) struct Typed {
    lines: UnboundedReceiver<Option<String>>,
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
            sender,
            reader: None,
            rest: Vec::new(),
        };
        typed.resume()?;
        Ok(typed)
    }

    /// The next line; `None` at the end of the input.
    pub(super) async fn next(&mut self) -> Option<String> {
        self.lines.recv().await.flatten()
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
        let (sender, rest) = (self.sender.clone(), std::mem::take(&mut self.rest));
        let thread = std::thread::Builder::new()
            .name("typed".to_owned())
            .spawn(move || read(&stopped, &sender, rest))?;
        self.reader = Some(Reader { thread, stop });
        Ok(())
    }
}

/// Reads until it is stopped or the input ends.
fn read(
    stopped: &PipeReader,
    sender: &UnboundedSender<Option<String>>,
    mut rest: Vec<u8>,
) -> Option<Vec<u8>> {
    let input = io::stdin();
    let mut chunk = [0; CHUNK];
    loop {
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
        take(chunk.get(..count).unwrap_or_default(), &mut rest, sender);
    }
    if !rest.is_empty() {
        let _ = sender.send(Some(text(&rest)));
    }
    // Whoever listened may be gone.
    let _ = sender.send(None);
    None
}

/// Cuts what was read into lines.
fn take(bytes: &[u8], rest: &mut Vec<u8>, sender: &UnboundedSender<Option<String>>) {
    for part in bytes.split_inclusive(|byte| *byte == b'\n') {
        let (content, ended) = match part.split_last() {
            Some((b'\n', content)) => (content, true),
            _ => (part, false),
        };
        let room = LINE_LIMIT.saturating_sub(rest.len());
        rest.extend(content.iter().take(room));
        if ended {
            let _ = sender.send(Some(text(rest)));
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
        let mut rest = Vec::new();
        for chunk in chunks {
            take(chunk, &mut rest, &sender);
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
