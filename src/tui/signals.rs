//! The signals that end what has the terminal.

use std::io;
use std::time::Duration;

use futures::FutureExt as _;
use tokio::signal::unix::{Signal, SignalKind, signal};

use super::screen::End;
use super::terminal::in_foreground;

/// How often is looked whose the terminal is, while it is somebody else's.
const LOOK: Duration = Duration::from_millis(50);
/// How much later than an editor's end what its last key sent may be heard.
const LATE: Duration = Duration::from_millis(100);

/// Listens from when it is made until it is dropped.
pub(super) struct Signals {
    terminate: Signal,
    hang_up: Signal,
    interrupt: Signal,
    quit: Signal,
}

impl Signals {
    /// Listens from now on.
    pub(super) fn heard() -> io::Result<Self> {
        Ok(Self {
            terminate: signal(SignalKind::terminate())?,
            hang_up: signal(SignalKind::hangup())?,
            interrupt: signal(SignalKind::interrupt())?,
            quit: signal(SignalKind::quit())?,
        })
    }

    /// Waits for one.
    pub(super) async fn end(&mut self) -> End {
        tokio::select! {
            biased;
            _ = self.terminate.recv() => End::Terminated,
            _ = self.hang_up.recv() => End::Interrupted,
            _ = self.interrupt.recv() => End::Interrupted,
            _ = self.quit.recv() => End::Interrupted,
        }
    }

    /// As [`Signals::end`], while an editor has the keyboard: what its keys send to both is meant for the editor.
    pub(super) async fn end_beside_an_editor(&mut self) -> End {
        loop {
            tokio::select! {
                biased;
                _ = self.terminate.recv() => return End::Terminated,
                _ = self.hang_up.recv() => return End::Interrupted,
                _ = self.interrupt.recv() => {}
                _ = self.quit.recv() => {}
            }
        }
    }

    /// One that has come already.
    pub(super) fn pending(&mut self) -> Option<End> {
        self.end().now_or_never()
    }

    /// After the program was stopped: one that has come, or comes while the terminal belongs to somebody else. Taking it
    /// then would stop the program again.
    pub(super) async fn until_foreground(&mut self) -> Option<End> {
        loop {
            if let Some(end) = self.pending() {
                return Some(end);
            }
            if in_foreground() {
                return None;
            }
            let waited = tokio::time::timeout(LOOK, self.end()).await;
            if let Ok(end) = waited {
                return Some(end);
            }
        }
    }

    /// Forgets what the keys of an editor have sent; that may be heard a little later than the editor's end.
    pub(super) async fn forget_keys(&mut self) {
        let late = tokio::time::sleep(LATE);
        tokio::pin!(late);
        loop {
            tokio::select! {
                biased;
                _ = self.interrupt.recv() => {}
                _ = self.quit.recv() => {}
                () = &mut late => return,
            }
        }
    }
}
