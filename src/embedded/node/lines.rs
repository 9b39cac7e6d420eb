//! Cuts a byte stream into log lines of bounded length.

use tokio::io::{AsyncRead, AsyncReadExt};

use super::process::LogSink;

/// Longer lines are split, as container runtimes do (bytes).
pub(super) const MAX_LINE: usize = 16 * 1024;

/// Copies `stream` to `log` line by line until it ends.
pub(super) async fn copy_lines(mut stream: impl AsyncRead + Unpin, log: &dyn LogSink) {
    let mut splitter = Splitter::default();
    let mut buffer = vec![0u8; 8 * 1024];
    loop {
        match stream.read(&mut buffer).await {
            // A pipe that cannot be read any more has ended.
            Ok(0) | Err(_) => break,
            Ok(length) => splitter.push(buffer.get(..length).unwrap_or_default(), &mut |line| {
                log.line(line)
            }),
        }
    }
    splitter.finish(&mut |line| log.line(line));
}

/// Collects bytes until a line is whole or as long as a line may be.
#[derive(Debug, Default)]
struct Splitter {
    pending: Vec<u8>,
}

impl Splitter {
    fn push(&mut self, mut bytes: &[u8], emit: &mut dyn FnMut(&str)) {
        while !bytes.is_empty() {
            let room = MAX_LINE - self.pending.len();
            let end = bytes.iter().take(room).position(|byte| *byte == b'\n');
            let take = end.unwrap_or_else(|| room.min(bytes.len()));
            let (head, tail) = bytes.split_at(take);
            self.pending.extend_from_slice(head);
            bytes = tail;
            match end {
                Some(_) => {
                    bytes = bytes.get(1..).unwrap_or_default();
                    self.emit(emit);
                }
                // A line that is exactly as long as allowed may end right here.
                None if self.pending.len() == MAX_LINE => {
                    if bytes.first() == Some(&b'\n') {
                        bytes = bytes.get(1..).unwrap_or_default();
                    }
                    self.emit(emit);
                }
                None => {}
            }
        }
    }

    fn finish(&mut self, emit: &mut dyn FnMut(&str)) {
        if !self.pending.is_empty() {
            self.emit(emit);
        }
    }

    fn emit(&mut self, emit: &mut dyn FnMut(&str)) {
        emit(&String::from_utf8_lossy(&self.pending));
        self.pending.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn split(chunks: &[&[u8]]) -> Vec<String> {
        let mut splitter = Splitter::default();
        let mut lines = Vec::new();
        for chunk in chunks {
            splitter.push(chunk, &mut |line| lines.push(line.to_owned()));
        }
        splitter.finish(&mut |line| lines.push(line.to_owned()));
        lines
    }

    #[test]
    fn lines_are_whole_whatever_the_chunks() {
        assert_eq!(split(&[b"a", b"b\nc", b"", b"\n\nd"]), ["ab", "c", "", "d"]);
        assert_eq!(split(&[b"\n"]), [""]);
        assert!(split(&[]).is_empty());
    }

    #[test]
    fn long_lines_are_split() {
        let long = vec![b'x'; 2 * MAX_LINE + 1];
        let lengths: Vec<usize> = split(&[&long, b"\nend"]).iter().map(String::len).collect();
        assert_eq!(lengths, [MAX_LINE, MAX_LINE, 1, 3]);
        let exact = vec![b'x'; MAX_LINE];
        assert_eq!(split(&[&[&exact[..], b"\nend"].concat()]).len(), 2);
    }

    #[test]
    fn bytes_that_are_no_text_are_shown() {
        assert_eq!(split(&[b"a\xffb\n"]), ["a\u{fffd}b"]);
    }
}
