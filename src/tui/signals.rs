//! The signals that end what has the terminal.

use std::io;

use futures::FutureExt as _;
use tokio::signal::unix::{Signal, SignalKind, signal};

use super::screen::End;

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

    /// Forgets what the keys of an editor have sent.
    pub(super) fn forget_keys(&mut self) {
        for keys in [&mut self.interrupt, &mut self.quit] {
            while let Some(Some(())) = keys.recv().now_or_never() {}
        }
    }
}
