//! Lines of container logs for the pane: bounded, newest last.

use std::collections::VecDeque;

use crate::cluster::LogLine;

/// Lines that are kept; whole logs are read with `kubectl logs`.
const LIMIT: usize = 20_000;

/// The last lines of all followed containers, in the order of their arrival.
#[derive(Default)]
pub struct LogBook {
    lines: VecDeque<LogLine>,
}

impl LogBook {
    /// Adds a line; the oldest one goes when there are too many.
    pub fn push(&mut self, line: LogLine) {
        if self.lines.len() >= LIMIT {
            self.lines.pop_front();
        }
        self.lines.push_back(line);
    }

    /// Number of lines.
    #[must_use]
    pub fn len(&self) -> usize {
        self.lines.len()
    }

    /// Whether there are none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.lines.is_empty()
    }

    /// The `count` lines that end `back` lines before the last.
    pub fn window(&self, back: usize, count: usize) -> impl Iterator<Item = &LogLine> {
        let end = self.lines.len().saturating_sub(back);
        self.lines.range(end.saturating_sub(count)..end)
    }
}
