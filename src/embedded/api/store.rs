//! All objects, in memory and in `cluster.db`, behind one lock.
//!
//! A write is: check the precondition, take the next resourceVersion, commit to SQLite, then memory, history and
//! watchers. Nothing is published that is not on disk, and no write can be cut in half, since there is no await in it.

mod database;
mod object;
mod queue;
mod watchers;

use std::collections::{BTreeMap, HashMap};
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use axum::body::Bytes;
use serde_json::Value;

use super::history::{Change, Event, History, Limits};
use super::object as metadata;
use super::selectors::Selector;
use database::Database;
pub use database::{DatabaseError, OpenError};
pub use object::{Place, Stored};
pub use queue::Taken;
pub use watchers::{Interest, Notice, Subscription};

/// Why a write did not happen.
#[derive(Debug, thiserror::Error)]
pub enum WriteError {
    #[error("the object is there already")]
    Exists,
    #[error("the object is gone or was changed meanwhile")]
    Changed,
    #[error(transparent)]
    Database(#[from] DatabaseError),
}

#[derive(Default)]
struct Bucket {
    /// By `namespace/name`.
    objects: BTreeMap<Box<str>, Arc<Stored>>,
    watchers: watchers::Watchers,
}

struct State {
    database: Database,
    counter: u64,
    buckets: HashMap<Box<str>, Bucket>,
    history: History,
    /// resourceVersion of the last change to an object of group rbac.authorization.k8s.io.
    rbac: u64,
}

/// A consistent view of some objects.
pub struct Listing {
    pub items: Vec<Arc<Stored>>,
    /// The resourceVersion that it shows.
    pub rv: u64,
    /// How many matching places follow, when a limit cut the list.
    pub remaining: usize,
    /// The key after which to go on.
    pub next: Option<String>,
}

/// The store.
pub struct Store {
    state: Mutex<State>,
    /// Held by whoever chooses something that no two objects may have, until the object is stored.
    allocation: Mutex<()>,
}

const RBAC: &str = ".rbac.authorization.k8s.io";

impl Store {
    /// Opens `cluster.db`, or makes it; loads every object.
    ///
    /// # Errors
    /// See [`OpenError`]; the file is never changed when it is refused.
    pub fn open(path: &Path, limits: Limits) -> Result<Self, OpenError> {
        let (database, counter, rows) = Database::open(path)?;
        let buckets = fill(rows).map_err(|detail| OpenError::Damaged {
            path: path.to_owned(),
            detail,
        })?;
        let state = State {
            database,
            counter,
            buckets,
            history: History::new(counter, limits),
            rbac: counter,
        };
        Ok(Store {
            state: Mutex::new(state),
            allocation: Mutex::default(),
        })
    }

    /// Nobody else chooses what no two objects may have, as long as this is held.
    pub fn allocating(&self) -> MutexGuard<'_, ()> {
        self.allocation
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The newest resourceVersion.
    #[must_use]
    pub fn counter(&self) -> u64 {
        self.lock().counter
    }

    /// The resourceVersion of the last change to roles or bindings.
    #[must_use]
    pub fn rbac_version(&self) -> u64 {
        self.lock().rbac
    }

    /// One object.
    #[must_use]
    pub fn get(&self, place: Place<'_>) -> Option<Arc<Stored>> {
        let state = self.lock();
        state
            .buckets
            .get(place.bucket)?
            .objects
            .get(place.key().as_str())
            .cloned()
    }

    /// Objects of a bucket in one namespace (`None`: all), in key order, after the key `after`.
    #[must_use]
    pub fn list(&self, interest: &Interest, after: Option<&str>, limit: usize) -> Listing {
        let state = self.lock();
        match state.buckets.get(interest.bucket.as_str()) {
            Some(bucket) => page(&bucket.objects, interest, after, limit, state.counter),
            None => page(&BTreeMap::new(), interest, after, limit, state.counter),
        }
    }

    /// As [`Store::list`], at a resourceVersion of the past: the changes since then are taken back.
    ///
    /// # Errors
    /// The history does not reach back so far, or this resourceVersion has not come yet.
    pub fn list_at(
        &self,
        rv: u64,
        interest: &Interest,
        after: Option<&str>,
        limit: usize,
    ) -> Result<Listing, Expired> {
        let state = self.lock();
        let expired = Expired {
            asked: rv,
            floor: state.history.floor(),
        };
        let events = state.history.after(rv).filter(|_| rv <= state.counter);
        let bucket = interest.bucket.as_str();
        let events: Vec<_> = events
            .ok_or(expired)?
            .filter(|event| *event.bucket == *bucket)
            .collect();
        let now = state.buckets.get(bucket).map(|bucket| &bucket.objects);
        let none = BTreeMap::new();
        let now = now.unwrap_or(&none);
        if events.is_empty() {
            return Ok(page(now, interest, after, limit, rv));
        }
        let mut then = now.clone();
        for event in events.iter().rev() {
            let key = event.object.key().into_boxed_str();
            match &event.previous {
                Some(previous) => then.insert(key, Arc::clone(previous)),
                None => then.remove(&key),
            };
        }
        Ok(page(&then, interest, after, limit, rv))
    }

    /// True if any object of any bucket lives in `namespace`.
    #[must_use]
    pub fn namespace_in_use(&self, namespace: &str) -> bool {
        let prefix = format!("{namespace}/");
        self.lock().buckets.values().any(|bucket| {
            watchers::prefixed(&bucket.objects, &prefix)
                .next()
                .is_some()
        })
    }

    /// Every object of a namespace with its bucket.
    #[must_use]
    pub fn in_namespace(&self, namespace: &str) -> Vec<(String, Arc<Stored>)> {
        let prefix = format!("{namespace}/");
        let state = self.lock();
        let mut found = Vec::new();
        for (name, bucket) in &state.buckets {
            let objects = watchers::prefixed(&bucket.objects, &prefix);
            found.extend(objects.map(|(_, stored)| (name.to_string(), Arc::clone(stored))));
        }
        found
    }

    /// Writes an object: `expected` is the resourceVersion it must have now, `None` that it must not be there.
    ///
    /// # Errors
    /// [`WriteError::Exists`] or [`WriteError::Changed`] for the precondition, else the database's own trouble;
    /// nothing is changed then.
    pub fn put(
        &self,
        place: Place<'_>,
        expected: Option<u64>,
        mut value: Value,
    ) -> Result<Arc<Stored>, WriteError> {
        let key = place.key();
        let mut state = self.lock();
        let previous = state.current(place.bucket, &key);
        match (&previous, expected) {
            (Some(_), None) => return Err(WriteError::Exists),
            (previous, Some(rv)) if previous.as_ref().is_none_or(|stored| stored.rv != rv) => {
                return Err(WriteError::Changed);
            }
            _ => {}
        }
        let rv = state.counter + 1;
        metadata::set_meta(&mut value, "resourceVersion", rv.to_string());
        let json = Bytes::from(value.to_string());
        state
            .database
            .put(&format!("{}/{key}", place.bucket), rv, &json)?;
        let stored = Arc::new(Stored::new(place.bucket, rv, &value, json));
        let bucket = state.buckets.entry(place.bucket.into()).or_default();
        bucket.objects.insert(key.into(), Arc::clone(&stored));
        let change = if previous.is_some() {
            Change::Modified
        } else {
            Change::Added
        };
        state.publish(place.bucket, change, Arc::clone(&stored), previous);
        Ok(stored)
    }

    /// Removes an object that has resourceVersion `expected`; `last` is its final state.
    ///
    /// # Errors
    /// As [`Store::put`].
    pub fn remove(
        &self,
        place: Place<'_>,
        expected: u64,
        mut last: Value,
    ) -> Result<Arc<Stored>, WriteError> {
        let key = place.key();
        let mut state = self.lock();
        let previous = state.current(place.bucket, &key);
        if previous.as_ref().is_none_or(|stored| stored.rv != expected) {
            return Err(WriteError::Changed);
        }
        let rv = state.counter + 1;
        metadata::set_meta(&mut last, "resourceVersion", rv.to_string());
        let json = Bytes::from(last.to_string());
        state
            .database
            .remove(&format!("{}/{key}", place.bucket), rv)?;
        if let Some(bucket) = state.buckets.get_mut(place.bucket) {
            bucket.objects.remove(key.as_str());
        }
        let stored = Arc::new(Stored::new(place.bucket, rv, &last, json));
        state.publish(place.bucket, Change::Deleted, Arc::clone(&stored), previous);
        Ok(stored)
    }

    /// Begins a watch: what is there now or what came after a resourceVersion, and everything from then on.
    ///
    /// # Errors
    /// The floor and the counter, if the history does not reach back to `after` (or `after` has not come yet).
    pub fn subscribe(
        &self,
        interest: Interest,
        after: Option<u64>,
    ) -> Result<Subscription, Expired> {
        let mut state = self.lock();
        let counter = state.counter;
        let (present, missed) = match after {
            None => {
                let objects = state
                    .buckets
                    .get(interest.bucket.as_str())
                    .map(|bucket| &bucket.objects);
                let found = objects
                    .into_iter()
                    .flat_map(|objects| interest.range(objects, None));
                (
                    found
                        .map(|(_, stored)| Arc::clone(stored))
                        .filter(|stored| interest.wants(stored))
                        .collect(),
                    Vec::new(),
                )
            }
            Some(rv) => {
                let events = if rv > counter {
                    None
                } else {
                    state.history.after(rv)
                };
                let Some(events) = events else {
                    return Err(Expired {
                        asked: rv,
                        floor: state.history.floor(),
                    });
                };
                (
                    Vec::new(),
                    events
                        .filter(|event| interest.concerns(event))
                        .cloned()
                        .collect(),
                )
            }
        };
        let bucket = state
            .buckets
            .entry(interest.bucket.as_str().into())
            .or_default();
        let notices = bucket.watchers.add(interest.clone());
        Ok(Subscription {
            interest,
            present,
            missed,
            rv: counter,
            notices,
        })
    }

    /// A value that is made once and kept in the database, such as a signing key.
    ///
    /// # Errors
    /// The database could not be read or written.
    pub fn secret(
        &self,
        name: &str,
        make: impl FnOnce() -> Vec<u8>,
    ) -> Result<Vec<u8>, DatabaseError> {
        self.lock().database.secret(name, make)
    }

    /// Writes into the file in which life of the cluster it is used, and which was the one before.
    ///
    /// # Errors
    /// The database could not be written.
    pub fn sign(&self, now: &str, before: &str) -> Result<(), DatabaseError> {
        self.lock().database.sign(now, before)
    }

    /// Ends all watches and lets go of the file; objects can still be read, writes fail.
    pub fn close(&self) {
        let mut state = self.lock();
        for bucket in state.buckets.values_mut() {
            bucket.watchers.clear();
        }
        state.database.close();
    }

    /// Writes a consistent copy of the database to `path`, which must not exist.
    ///
    /// # Errors
    /// The copy could not be written; a half-written one is removed.
    pub fn snapshot(&self, path: &Path) -> Result<(), DatabaseError> {
        self.lock().database.snapshot(path)
    }

    /// Puts back the objects of a snapshot. The counter goes on, the history is forgotten and every watch ends with
    /// 410, so that its client lists anew.
    ///
    /// # Errors
    /// The snapshot cannot be read (see [`OpenError`]) or the database not be written; nothing is changed then.
    pub fn restore(&self, path: &Path) -> Result<(), OpenError> {
        let (counter, rows) = database::read(path)?;
        let buckets = fill(rows.clone()).map_err(|detail| OpenError::Damaged {
            path: path.to_owned(),
            detail,
        })?;
        let mut state = self.lock();
        let counter = counter.max(state.counter) + 1;
        state
            .database
            .replace(&rows, counter)
            .map_err(OpenError::Write)?;
        let old = std::mem::replace(&mut state.buckets, buckets);
        state.counter = counter;
        state.rbac = counter;
        state.history.reset(counter);
        for mut bucket in old.into_values() {
            bucket.watchers.end(counter);
        }
        Ok(())
    }
}

/// The history does not reach back far enough.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Expired {
    pub asked: u64,
    pub floor: u64,
}

impl State {
    fn current(&self, bucket: &str, key: &str) -> Option<Arc<Stored>> {
        self.buckets.get(bucket)?.objects.get(key).cloned()
    }

    fn publish(
        &mut self,
        bucket: &str,
        change: Change,
        object: Arc<Stored>,
        previous: Option<Arc<Stored>>,
    ) {
        self.counter = object.rv;
        if bucket.ends_with(RBAC) {
            self.rbac = object.rv;
        }
        let event = Arc::new(Event::new(bucket, change, object, previous));
        self.history.push(Arc::clone(&event));
        if let Some(bucket) = self.buckets.get_mut(bucket) {
            bucket.watchers.notify(&event);
        }
    }
}

/// What an interest wants of these objects, as they are at `rv`.
fn page(
    objects: &BTreeMap<Box<str>, Arc<Stored>>,
    interest: &Interest,
    after: Option<&str>,
    limit: usize,
    rv: u64,
) -> Listing {
    let mut listing = Listing {
        items: Vec::new(),
        rv,
        remaining: 0,
        next: None,
    };
    for (key, stored) in interest.range(objects, after) {
        if !interest.wants(stored) {
            continue;
        }
        if limit > 0 && listing.items.len() == limit {
            listing.remaining += 1;
            continue;
        }
        if limit > 0 && listing.items.len() + 1 == limit {
            listing.next = Some(key.to_string());
        }
        listing.items.push(Arc::clone(stored));
    }
    if listing.remaining == 0 {
        listing.next = None;
    }
    listing
}

fn fill(rows: Vec<database::Row>) -> Result<HashMap<Box<str>, Bucket>, String> {
    let mut buckets: HashMap<Box<str>, Bucket> = HashMap::new();
    for row in rows {
        let Some((bucket, key)) = row.key.split_once('/') else {
            return Err(format!("the key {:?} has no kind", row.key));
        };
        let value: Value = serde_json::from_slice(&row.json)
            .map_err(|error| format!("the object {:?} is not JSON: {error}", row.key))?;
        let stored = Stored::new(bucket, row.rv, &value, Bytes::from(row.json));
        buckets
            .entry(bucket.into())
            .or_default()
            .objects
            .insert(key.into(), Arc::new(stored));
    }
    Ok(buckets)
}

/// An interest in everything of one bucket.
impl Interest {
    /// `namespace` `None` means all.
    #[must_use]
    pub fn new(bucket: impl Into<String>, namespace: Option<&str>, selector: Selector) -> Self {
        Interest {
            bucket: bucket.into(),
            namespace: namespace.map(str::to_owned),
            selector,
            fields: None,
        }
    }
}

#[cfg(test)]
mod tests;
