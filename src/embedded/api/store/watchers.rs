//! Who wants to hear about which objects, and how they are told without ever waiting for them.

use std::collections::BTreeMap;
use std::ops::Bound;
use std::sync::Arc;

use super::Stored;
use super::queue::{Feed, Notices, queue};
use crate::embedded::api::history::{Change, Event};
use crate::embedded::api::registry::{self, SelectableField};
use crate::embedded::api::selectors::Selector;

/// Which objects of one bucket.
#[derive(Clone, Debug, Default)]
pub struct Interest {
    pub bucket: String,
    /// `None`: all namespaces.
    pub namespace: Option<String>,
    pub selector: Selector,
    /// The selectable fields that the selector was parsed for, when they differ from those of the bucket's kind.
    pub fields: Option<&'static [SelectableField]>,
}

impl Interest {
    /// True if the object is in the namespace and matches the selectors.
    #[must_use]
    pub fn wants(&self, stored: &Stored) -> bool {
        if self
            .namespace
            .as_deref()
            .is_some_and(|namespace| namespace != &*stored.namespace)
        {
            return false;
        }
        if self.selector.is_empty() {
            return true;
        }
        let offered = self
            .fields
            .or_else(|| registry::by_bucket(&self.bucket).map(|kind| kind.fields))
            .unwrap_or(&[]);
        self.selector.matches(
            &stored.namespace,
            &stored.name,
            &stored.head.labels,
            offered,
            &stored.head.fields,
        )
    }

    /// True if the event touches an object that is or was wanted.
    #[must_use]
    pub fn concerns(&self, event: &Event) -> bool {
        *event.bucket == *self.bucket && self.change(event).is_some()
    }

    /// What the event means to this watcher: an object may enter or leave its selection.
    #[must_use]
    pub fn change(&self, event: &Event) -> Option<Change> {
        let was = event
            .previous
            .as_ref()
            .is_some_and(|previous| self.wants(previous));
        let is = event.change != Change::Deleted && self.wants(&event.object);
        match (was, is) {
            (false, false) => None,
            (false, true) => Some(Change::Added),
            (true, true) => Some(Change::Modified),
            (true, false) => Some(Change::Deleted),
        }
    }

    pub(super) fn range<'a>(
        &self,
        objects: &'a BTreeMap<Box<str>, Arc<Stored>>,
        after: Option<&str>,
    ) -> impl Iterator<Item = (&'a Box<str>, &'a Arc<Stored>)> {
        let prefix = self
            .namespace
            .as_ref()
            .map(|namespace| format!("{namespace}/"))
            .unwrap_or_default();
        let start = match after {
            Some(after) if after >= prefix.as_str() => Bound::Excluded(Box::from(after)),
            _ => Bound::Included(Box::from(prefix.as_str())),
        };
        objects
            .range::<Box<str>, _>((start, Bound::Unbounded))
            .take_while(move |(key, _)| key.starts_with(&prefix))
    }
}

pub(super) fn prefixed<'a>(
    objects: &'a BTreeMap<Box<str>, Arc<Stored>>,
    prefix: &str,
) -> impl Iterator<Item = (&'a Box<str>, &'a Arc<Stored>)> {
    let start: Box<str> = prefix.into();
    let prefix = prefix.to_owned();
    objects
        .range(start..)
        .take_while(move |(key, _)| key.starts_with(&prefix))
}

/// What a watcher is told.
#[derive(Clone, Debug)]
pub enum Notice {
    Event(Arc<Event>),
    /// The history before this resourceVersion is void: list anew.
    Expired(u64),
}

impl Notice {
    /// What it holds in memory (bytes).
    pub(super) fn weight(&self) -> usize {
        match self {
            Notice::Event(event) => event.weight(),
            Notice::Expired(_) => 0,
        }
    }
}

/// A watch that has begun.
pub struct Subscription {
    pub interest: Interest,
    /// What was there, if the watch began from now.
    pub present: Vec<Arc<Stored>>,
    /// What came after the resourceVersion that the watch began from.
    pub missed: Vec<Arc<Event>>,
    /// The counter at the beginning.
    pub rv: u64,
    pub notices: Notices,
}

struct Watcher {
    interest: Interest,
    feed: Feed,
}

#[derive(Default)]
pub(super) struct Watchers(Vec<Watcher>);

impl Watchers {
    pub(super) fn add(&mut self, interest: Interest) -> Notices {
        let (feed, notices) = queue();
        self.0.retain(|watcher| !watcher.feed.is_unread());
        self.0.push(Watcher { interest, feed });
        notices
    }

    /// Tells everybody concerned; whoever is too slow or gone is dropped.
    pub(super) fn notify(&mut self, event: &Arc<Event>) {
        self.0.retain(|watcher| {
            if watcher.interest.change(event).is_none() {
                return !watcher.feed.is_unread();
            }
            watcher.feed.put(Notice::Event(Arc::clone(event)))
        });
    }

    #[cfg(test)]
    pub(super) fn len(&self) -> usize {
        self.0.len()
    }

    /// Ends all watches as if their time were over.
    pub(super) fn clear(&mut self) {
        self.0.clear();
    }

    /// Ends all watches; their clients must list anew.
    pub(super) fn end(&mut self, rv: u64) {
        for watcher in self.0.drain(..) {
            // One that is full already ends just as well.
            watcher.feed.put(Notice::Expired(rv));
        }
    }
}
