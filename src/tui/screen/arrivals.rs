//! What comes from elsewhere than the learner: the work's messages, answers to looks, log lines, time.

use tokio::sync::mpsc;
use tokio::time::{Interval, MissedTickBehavior, interval};

use super::{LINES, TICK};
use crate::cluster::LogLine;
use crate::runner::driver::{Driver, Incoming};
use crate::tui::look::{Answer, Look};

/// A look at what stands behind a cell, and what came of it.
pub(super) type Looked = (Look, Result<Answer, String>);

/// One of them.
pub(super) enum Arrival {
    Work(Incoming),
    Looked(Box<Looked>),
    /// Log lines, in [`Arrivals::lines`].
    Lines,
    /// The seconds of a wait have gone on.
    Tick,
}

/// Where they come from.
pub(super) struct Arrivals {
    pub lines: Vec<LogLine>,
    logs: mpsc::Receiver<LogLine>,
    sender: mpsc::UnboundedSender<Looked>,
    answers: mpsc::UnboundedReceiver<Looked>,
    tick: Interval,
}

impl Arrivals {
    pub(super) fn new(logs: mpsc::Receiver<LogLine>) -> Self {
        let (sender, answers) = mpsc::unbounded_channel();
        let mut tick = interval(TICK);
        tick.set_missed_tick_behavior(MissedTickBehavior::Skip);
        Self {
            lines: Vec::with_capacity(LINES),
            logs,
            sender,
            answers,
            tick,
        }
    }

    /// Where a look sends its answer.
    pub(super) fn answers(&self) -> mpsc::UnboundedSender<Looked> {
        self.sender.clone()
    }

    /// The next one; time counts only while something is waited for. Nothing is lost when it is dropped.
    pub(super) async fn next(&mut self, driver: &mut Driver, waiting: bool) -> Arrival {
        let there = !self.logs.is_closed() || !self.logs.is_empty();
        tokio::select! {
            biased;
            message = driver.next() => Arrival::Work(message),
            Some(looked) = self.answers.recv() => Arrival::Looked(Box::new(looked)),
            _ = self.logs.recv_many(&mut self.lines, LINES), if there => Arrival::Lines,
            _ = self.tick.tick(), if waiting => Arrival::Tick,
        }
    }
}
