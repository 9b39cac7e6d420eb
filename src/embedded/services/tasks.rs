//! Tasks that end with the service that started them, however it ends.

use std::future::Future;

use tokio::task::JoinHandle;
use tokio_util::sync::{CancellationToken, DropGuard};

/// Starts tasks that live no longer than the guard.
#[derive(Clone)]
pub(super) struct Tasks {
    ended: CancellationToken,
}

impl Tasks {
    /// The tasks of one service; they are dropped where they stand when the guard is.
    pub(super) fn new() -> (Tasks, DropGuard) {
        let ended = CancellationToken::new();
        (
            Tasks {
                ended: ended.clone(),
            },
            ended.drop_guard(),
        )
    }

    /// Starts a task; it answers `None` when it was dropped.
    pub(super) fn spawn<T: Send + 'static>(
        &self,
        work: impl Future<Output = T> + Send + 'static,
    ) -> JoinHandle<Option<T>> {
        let ended = self.ended.clone();
        tokio::spawn(async move { ended.run_until_cancelled(work).await })
    }
}
