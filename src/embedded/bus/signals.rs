//! Core publish and subscribe: nothing is stored, who does not listen misses it.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use futures::StreamExt;
use futures::stream::BoxStream;
use tokio::sync::mpsc;

/// Signals that a slow listener may be behind; later ones are dropped for it.
const BACKLOG: usize = 256;

/// The listeners by subject.
#[derive(Default)]
pub(super) struct Signals {
    listeners: Mutex<HashMap<String, Vec<mpsc::Sender<Vec<u8>>>>>,
}

impl Signals {
    /// Hands the payload to everybody who listens now.
    pub(super) fn send(&self, subject: &str, payload: &[u8]) {
        let mut listeners = self.lock();
        let Some(senders) = listeners.get_mut(subject) else {
            return;
        };
        senders.retain(|sender| {
            !matches!(
                sender.try_send(payload.to_vec()),
                Err(mpsc::error::TrySendError::Closed(_))
            )
        });
        if senders.is_empty() {
            listeners.remove(subject);
        }
    }

    /// What is signalled from now on.
    pub(super) fn listen(&self, subject: &str) -> BoxStream<'static, Vec<u8>> {
        let (sender, receiver) = mpsc::channel(BACKLOG);
        let mut listeners = self.lock();
        let senders = listeners.entry(subject.to_owned()).or_default();
        senders.retain(|other| !other.is_closed());
        senders.push(sender);
        futures::stream::unfold(receiver, |mut receiver| async move {
            receiver.recv().await.map(|payload| (payload, receiver))
        })
        .boxed()
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<String, Vec<mpsc::Sender<Vec<u8>>>>> {
        self.listeners
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }
}
