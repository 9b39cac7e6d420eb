//! Says on stderr while a real cluster is waited for, whatever command does.

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use jiff::Timestamp;
use tokio::task::AbortHandle;
use tokio::time::timeout;

use super::output::note;
use crate::cluster::{Hearing, Silence};

/// What ends a command sooner is told by its end.
const GRACE: Duration = Duration::from_secs(1);

/// Who says it. The stream is the process's, and one cluster is talked to.
static TELLER: Mutex<Option<AbortHandle>> = Mutex::new(None);

fn teller() -> MutexGuard<'static, Option<AbortHandle>> {
    TELLER.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Begins to say it.
pub fn tell(hearing: Hearing) {
    let task = tokio::spawn(listen(hearing));
    if let Some(before) = teller().replace(task.abort_handle()) {
        before.abort();
    }
}

async fn listen(mut hearing: Hearing) {
    let mut told: Option<Silence> = None;
    loop {
        let mut news = hearing.next().await;
        if told.is_none()
            && news.is_some()
            && let Ok(later) = timeout(GRACE, hearing.next()).await
        {
            news = later;
        }
        match (&news, &told) {
            (Some(silence), _) => note!("eventlab: waiting for {}", silence.what),
            // It may have answered with a no, or the login has failed before it was asked: what comes next says so.
            (None, Some(before)) => {
                let waited = before.since.duration_until(Timestamp::now()).as_secs();
                note!("eventlab: no longer waiting for the API server, after {waited} s");
            }
            (None, None) => {}
        }
        told = news;
    }
}

/// Says nothing from now on: something else tells it, and has the terminal.
pub fn hush() {
    if let Some(task) = teller().take() {
        task.abort();
    }
}
