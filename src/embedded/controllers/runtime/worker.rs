//! Workers that take keys from a queue, and tasks that are started again when they panic.

use std::fmt::Display;
use std::future::Future;
use std::hash::Hash;
use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::Duration;

use futures::FutureExt;
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

use super::error::ReconcileError;
use super::queue::WorkQueue;

/// What happens to a key after a reconcile that succeeded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Next {
    /// Nothing, until something changes.
    Done,
    /// It is looked at again after so long.
    After(Duration),
}

/// Brings the object behind a key to the state that it asks for.
pub trait Reconcile: Send + Sync + 'static {
    /// What the queue holds.
    type Key: Clone + Eq + Hash + Display + Send + Sync + 'static;
    /// Name in logs.
    fn name(&self) -> &'static str;
    /// Looks at one key. Called again after an error, and for a key never twice at a time.
    fn reconcile(
        &self,
        key: Self::Key,
    ) -> impl Future<Output = Result<Next, ReconcileError>> + Send;
}

/// The tasks of the controllers.
#[derive(Default)]
pub struct Tasks {
    set: JoinSet<()>,
}

impl Tasks {
    /// Runs a task until `cancel`; a panic or an end starts it again after a growing wait.
    pub fn supervise<F, Fut>(&mut self, name: &'static str, cancel: &CancellationToken, mut make: F)
    where
        F: FnMut() -> Fut + Send + 'static,
        Fut: Future<Output = ()> + Send + 'static,
    {
        let cancel = cancel.clone();
        self.set.spawn(async move {
            let mut wait = Duration::from_millis(10);
            loop {
                tokio::select! {
                    () = cancel.cancelled() => return,
                    outcome = AssertUnwindSafe(make()).catch_unwind() => {
                        if outcome.is_err() {
                            tracing::error!(target: "controllers", "task {name} panicked; it is started again in {wait:?}");
                        }
                    }
                }
                tokio::select! {
                    () = cancel.cancelled() => return,
                    () = tokio::time::sleep(wait) => wait = (wait * 2).min(Duration::from_secs(5)),
                }
            }
        });
    }

    /// Runs `count` workers on a queue once `synced` is done.
    pub fn workers<R: Reconcile>(
        &mut self,
        reconciler: &Arc<R>,
        queue: &Arc<WorkQueue<R::Key>>,
        count: usize,
        cancel: &CancellationToken,
        synced: impl Future<Output = ()> + Send + 'static,
    ) {
        let synced = synced.shared();
        for _ in 0..count {
            let (reconciler, queue, synced) =
                (Arc::clone(reconciler), Arc::clone(queue), synced.clone());
            self.supervise(reconciler.name(), cancel, move || {
                work(Arc::clone(&reconciler), Arc::clone(&queue), synced.clone())
            });
        }
    }

    /// Waits until every task has ended.
    pub async fn join(mut self) {
        while self.set.join_next().await.is_some() {}
    }
}

async fn work<R: Reconcile>(
    reconciler: Arc<R>,
    queue: Arc<WorkQueue<R::Key>>,
    synced: impl Future<Output = ()>,
) {
    synced.await;
    loop {
        let key = queue.next().await;
        // A guard, because a cancelled or panicking reconcile must not keep its key.
        let lease = Lease { queue: &queue, key };
        let outcome = AssertUnwindSafe(reconciler.reconcile(lease.key.clone()))
            .catch_unwind()
            .await;
        settle(reconciler.name(), &lease, outcome.ok());
    }
}

struct Lease<'a, K: Clone + Eq + Hash> {
    queue: &'a WorkQueue<K>,
    key: K,
}

impl<K: Clone + Eq + Hash> Drop for Lease<'_, K> {
    fn drop(&mut self) {
        self.queue.done(&self.key);
    }
}

fn settle<K>(name: &str, lease: &Lease<'_, K>, outcome: Option<Result<Next, ReconcileError>>)
where
    K: Clone + Eq + Hash + Display,
{
    let key = &lease.key;
    match outcome {
        Some(Ok(next)) => {
            lease.queue.forget(key);
            if let Next::After(delay) = next {
                lease.queue.add_after(key.clone(), delay);
            }
            return;
        }
        Some(Err(error)) if error.is_conflict() => {
            tracing::debug!(target: "controllers", "{name}: {key} changed meanwhile, trying again: {error}");
        }
        Some(Err(error)) => {
            tracing::warn!(target: "controllers", "{name}: {key}: {error}; trying again")
        }
        None => {
            tracing::error!(target: "controllers", "{name}: reconcile of {key} panicked; trying again")
        }
    }
    lease.queue.retry(key.clone());
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use super::*;

    struct Flaky {
        calls: AtomicUsize,
        finished: tokio::sync::Notify,
    }

    impl Reconcile for Flaky {
        type Key = String;

        fn name(&self) -> &'static str {
            "flaky"
        }

        async fn reconcile(&self, _: String) -> Result<Next, ReconcileError> {
            match self.calls.fetch_add(1, Ordering::SeqCst) {
                0 => panic!("first call"),
                1 => Err(ReconcileError::NotYet("second call".into())),
                _ => {
                    self.finished.notify_one();
                    Ok(Next::Done)
                }
            }
        }
    }

    #[tokio::test]
    async fn a_panic_and_an_error_are_tried_again() {
        let flaky = Arc::new(Flaky {
            calls: AtomicUsize::new(0),
            finished: tokio::sync::Notify::new(),
        });
        let (queue, cancel) = (Arc::new(WorkQueue::new()), CancellationToken::new());
        let mut tasks = Tasks::default();
        tasks.workers(&flaky, &queue, 2, &cancel, async {});
        queue.add("key".to_owned());
        tokio::time::timeout(Duration::from_secs(30), flaky.finished.notified())
            .await
            .expect("third call");
        cancel.cancel();
        tasks.join().await;
        assert_eq!(flaky.calls.load(Ordering::SeqCst), 3);
    }
}
