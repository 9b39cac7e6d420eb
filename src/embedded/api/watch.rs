//! Watches as HTTP answers: one JSON line an event, bookmarks, a clean end after the time asked for.

use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use axum::body::{Body, Bytes};
use futures::stream;
use serde_json::{Value, json};
use tokio::time::{Instant, MissedTickBehavior, interval_at, sleep_until};

use super::history::{Change, Event, event_line};
use super::represent::Shape;
use super::status::Failure;
use super::store::{Expired, Notice, Store, Stored, Subscription, Taken};

/// How long a watch lasts that names no end, as kube-apiserver's `min-request-timeout`.
const DEFAULT_TIMEOUT: Duration = Duration::from_secs(1800);
/// How often a bookmark is sent.
const BOOKMARK_EVERY: Duration = Duration::from_secs(60);
/// Lines of the beginning that go into one chunk at most, and what they may weigh (bytes) if they are more than one.
const BATCH: usize = 64;
const BATCH_BYTES: usize = 1 << 20;

/// What the client asked about the stream itself.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Options {
    pub timeout: Option<Duration>,
    pub bookmarks: bool,
    /// Tell where the initial events end, by a bookmark with `k8s.io/initial-events-end`.
    pub mark_initial: bool,
}

/// A stream that tells the client to list anew, and ends.
pub fn expired(error: Expired) -> Body {
    let text = format!(
        "too old resource version: {} ({})",
        error.asked, error.floor
    );
    Body::from(error_line(&text))
}

/// A stream that tells why there is none, and ends.
pub fn refused(failure: &Failure) -> Body {
    Body::from(refusal_line(failure))
}

fn refusal_line(failure: &Failure) -> Bytes {
    event_line("ERROR", failure.body().to_string().as_bytes())
}

fn error_line(text: &str) -> Bytes {
    refusal_line(&Failure::expired(text))
}

/// The stream of a watch that has begun.
pub fn body(store: Arc<Store>, subscription: Subscription, shape: Shape, options: Options) -> Body {
    let start = Instant::now();
    let mut bookmarks = interval_at(start + BOOKMARK_EVERY, BOOKMARK_EVERY);
    bookmarks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let watch = Watch {
        present: subscription.present.clone().into_iter(),
        missed: subscription.missed.clone().into_iter(),
        sent: subscription.rv,
        end: start + options.timeout.unwrap_or(DEFAULT_TIMEOUT),
        initial: options.mark_initial,
        ended: false,
        store,
        subscription,
        shape,
        options,
        bookmarks,
    };
    Body::from_stream(stream::unfold(watch, |mut watch| async move {
        let chunk = watch.next().await?;
        Some((Ok::<_, Infallible>(chunk), watch))
    }))
}

struct Watch {
    store: Arc<Store>,
    subscription: Subscription,
    present: std::vec::IntoIter<Arc<Stored>>,
    missed: std::vec::IntoIter<Arc<Event>>,
    shape: Shape,
    options: Options,
    /// The newest resourceVersion that the client knows.
    sent: u64,
    end: Instant,
    initial: bool,
    ended: bool,
    bookmarks: tokio::time::Interval,
}

impl Watch {
    async fn next(&mut self) -> Option<Bytes> {
        if self.ended {
            return None;
        }
        if let Some(chunk) = self.backlog() {
            return Some(chunk);
        }
        if std::mem::take(&mut self.initial) {
            return Some(self.bookmark(self.sent, true));
        }
        loop {
            tokio::select! {
                biased;
                notices = self.subscription.notices.next() => {
                    let chunk = self.lines(&notices?);
                    if !chunk.is_empty() {
                        return Some(chunk);
                    }
                }
                () = sleep_until(self.end) => return None,
                _ = self.bookmarks.tick(), if self.options.bookmarks => return self.regular_bookmark(),
            }
        }
    }

    /// What was there at the beginning, then what was missed.
    fn backlog(&mut self) -> Option<Bytes> {
        let (mut lines, mut bytes) = (Vec::new(), 0);
        while lines.len() < BATCH && bytes < BATCH_BYTES {
            let line = match self.present.next() {
                Some(stored) => Some(self.shape.event(Change::Added.as_str(), &stored)),
                None => match self.missed.next() {
                    Some(event) => event_lines(&self.subscription, &self.shape, &event),
                    None => break,
                },
            };
            bytes += line.as_ref().map_or(0, Bytes::len);
            lines.extend(line);
        }
        (!lines.is_empty()).then(|| join(lines))
    }

    fn lines(&mut self, notices: &[Notice]) -> Bytes {
        let mut lines = Vec::with_capacity(notices.len());
        for notice in notices {
            match notice {
                Notice::Event(event) => {
                    self.sent = self.sent.max(event.object.rv);
                    lines.extend(event_lines(&self.subscription, &self.shape, event));
                }
                Notice::Expired(rv) => {
                    lines.push(error_line(&format!(
                        "too old resource version: {} ({rv})",
                        self.sent
                    )));
                    self.ended = true;
                    break;
                }
            }
        }
        join(lines)
    }

    /// All events up to the counter wait already, so they go out before the bookmark. There is none for a watcher that
    /// was ended meanwhile: it has not been told everything.
    fn regular_bookmark(&mut self) -> Option<Bytes> {
        let counter = self.store.counter();
        let mut all = Vec::new();
        loop {
            match self.subscription.notices.take() {
                Taken::Over => return None,
                Taken::Some(batch) if batch.is_empty() => break,
                Taken::Some(batch) => all.push(self.lines(&batch)),
            }
            if self.ended {
                return Some(join(all));
            }
        }
        self.sent = self.sent.max(counter);
        all.push(self.bookmark(self.sent, false));
        Some(join(all))
    }

    fn bookmark(&self, rv: u64, end_of_initial: bool) -> Bytes {
        let mut metadata = json!({"resourceVersion": rv.to_string(), "creationTimestamp": null});
        if end_of_initial {
            metadata["annotations"] = json!({"k8s.io/initial-events-end": "true"});
        }
        event_line(
            "BOOKMARK",
            self.shape.bookmark(metadata).to_string().as_bytes(),
        )
    }
}

fn join(mut lines: Vec<Bytes>) -> Bytes {
    match lines.len() {
        1 => lines.pop().unwrap_or_default(),
        _ => Bytes::from(lines.concat()),
    }
}

fn event_lines(subscription: &Subscription, shape: &Shape, event: &Event) -> Option<Bytes> {
    let change = subscription.interest.change(event)?;
    if change == event.change && shape.is_plain() {
        return Some(event.line());
    }
    // An object that leaves the selection is shown as it was when it still matched, with the new resourceVersion.
    let left = change == Change::Deleted && event.change != Change::Deleted;
    match (&event.previous, left) {
        (Some(previous), true) => {
            let mut value: Value = previous.value().ok()?;
            super::object::set_meta(&mut value, "resourceVersion", event.object.rv.to_string());
            Some(shape.event_of(change.as_str(), value))
        }
        _ => Some(shape.event(change.as_str(), &event.object)),
    }
}
