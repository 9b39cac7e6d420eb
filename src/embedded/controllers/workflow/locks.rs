//! Mutexes and semaphores of Workflows, kept in memory and rebuilt from `status.synchronization` at a start.
//!
//! Several locks are taken at once or none. Who waits is woken when a lock is given up, in order of priority,
//! then of age.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Mutex, MutexGuard, PoisonError};

use jiff::Timestamp;

use super::operation::{ReadConfigMap, Workflow};
use super::spec::Synchronization as Wanted;
use super::status::{MutexHolding, SemaphoreHolding, Synchronization};
use crate::embedded::controllers::runtime::ObjectKey;

/// Who asks for locks.
#[derive(Clone, Debug)]
pub(super) struct Request {
    pub namespace: String,
    /// `namespace/workflow`, or `namespace/workflow/node` for a template's locks.
    pub holder: String,
    pub priority: i64,
    pub created: Option<Timestamp>,
}

/// What a request waits for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Waiting {
    pub lock: String,
    pub message: String,
}

/// The locks of all Workflows.
pub(super) struct Locks {
    state: Mutex<BTreeMap<String, Lock>>,
    wake: Box<dyn Fn(ObjectKey) + Send + Sync>,
}

#[derive(Default)]
struct Lock {
    holders: BTreeSet<String>,
    /// Sorted: the first is next.
    queue: BTreeSet<Waiter>,
}

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Waiter {
    priority: std::cmp::Reverse<i64>,
    created: Option<Timestamp>,
    holder: String,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    Mutex,
    Semaphore,
}

struct Item {
    kind: Kind,
    lock: String,
    limit: usize,
}

impl Locks {
    /// Makes an empty set; `wake` is called with a Workflow whose turn it may be.
    pub(super) fn new(wake: impl Fn(ObjectKey) + Send + Sync + 'static) -> Self {
        Self {
            state: Mutex::new(BTreeMap::new()),
            wake: Box::new(wake),
        }
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<String, Lock>> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes every lock, or says which one is waited for. `status` is brought up to the outcome.
    ///
    /// # Errors
    /// A lock that cannot be: the message says why.
    pub(super) fn acquire(
        &self,
        request: &Request,
        wanted: &Wanted,
        config_map: &ReadConfigMap<'_>,
        status: &mut Option<Synchronization>,
    ) -> Result<Option<Waiting>, String> {
        let items = items(request, wanted, config_map)?;
        let mut state = self.lock();
        for item in &items {
            let lock = state.entry(item.lock.clone()).or_default();
            if !lock.holders.contains(&request.holder) {
                lock.queue.insert(waiter(request));
            }
        }
        let free = |item: &&Item| {
            state
                .get(&item.lock)
                .is_none_or(|lock| lock.is_free_for(request, item.limit))
        };
        if let Some(blocked) = items.iter().find(|item| !free(item)) {
            let waiting = state
                .get(&blocked.lock)
                .map(|lock| blocked.waiting(lock))
                .unwrap_or(Waiting {
                    lock: blocked.lock.clone(),
                    message: String::new(),
                });
            for item in &items {
                let holders = state
                    .get(&item.lock)
                    .map(|lock| lock.holders.clone())
                    .unwrap_or_default();
                note_waiting(status.get_or_insert_default(), item, &holders);
            }
            return Ok(Some(waiting));
        }
        for item in &items {
            let lock = state.entry(item.lock.clone()).or_default();
            lock.queue.retain(|waiter| waiter.holder != request.holder);
            lock.holders.insert(request.holder.clone());
            note_holding(status.get_or_insert_default(), item, &request.holder);
        }
        Ok(None)
    }

    /// Gives up everything that a holder holds or waits for: exactly this one, or all of a Workflow.
    pub(super) fn release(&self, holder: &str, whole_workflow: bool) {
        let below = format!("{holder}/");
        let is_theirs = |one: &str| one == holder || (whole_workflow && one.starts_with(&below));
        let mut next = BTreeSet::new();
        let mut state = self.lock();
        for lock in state.values_mut() {
            let before = (lock.holders.len(), lock.queue.len());
            lock.holders.retain(|one| !is_theirs(one));
            lock.queue.retain(|waiter| !is_theirs(&waiter.holder));
            if before != (lock.holders.len(), lock.queue.len()) {
                next.extend(lock.queue.iter().map(|waiter| waiter.holder.clone()));
            }
        }
        state.retain(|_, lock| !lock.holders.is_empty() || !lock.queue.is_empty());
        drop(state);
        for holder in next {
            let mut parts = holder.splitn(3, '/');
            if let (Some(namespace), Some(name)) = (parts.next(), parts.next()) {
                (self.wake)(ObjectKey::new(namespace, name));
            }
        }
    }

    /// Takes in what a Workflow held when the controller ended.
    pub(super) fn restore(&self, workflow: &Workflow) {
        let Some(status) = workflow
            .status
            .synchronization
            .as_ref()
            .filter(|_| !workflow.status.is_fulfilled())
        else {
            return;
        };
        let mut state = self.lock();
        for holding in status.mutex.iter().flat_map(|mutex| &mutex.holding) {
            state
                .entry(holding.mutex.clone())
                .or_default()
                .holders
                .insert(holding.holder.clone());
        }
        for holding in status
            .semaphore
            .iter()
            .flat_map(|semaphore| &semaphore.holding)
        {
            state
                .entry(holding.semaphore.clone())
                .or_default()
                .holders
                .extend(holding.holders.clone());
        }
    }
}

impl Lock {
    fn is_free_for(&self, request: &Request, limit: usize) -> bool {
        let is_next = self
            .queue
            .first()
            .is_none_or(|first| first.holder == request.holder);
        self.holders.contains(&request.holder) || (self.holders.len() < limit && is_next)
    }
}

impl Item {
    fn waiting(&self, lock: &Lock) -> Waiting {
        let free = self.limit.saturating_sub(lock.holders.len());
        let (name, limit) = (&self.lock, self.limit);
        Waiting {
            lock: name.clone(),
            message: format!("Waiting for {name} lock. Lock status: {free}/{limit}"),
        }
    }
}

fn waiter(request: &Request) -> Waiter {
    Waiter {
        priority: std::cmp::Reverse(request.priority),
        created: request.created,
        holder: request.holder.clone(),
    }
}

fn items(
    request: &Request,
    wanted: &Wanted,
    config_map: &ReadConfigMap<'_>,
) -> Result<Vec<Item>, String> {
    let namespace = |own: &str| {
        if own.is_empty() {
            request.namespace.clone()
        } else {
            own.to_owned()
        }
    };
    let mut items = Vec::new();
    for semaphore in &wanted.semaphores {
        let key = semaphore.config_map_key_ref.as_ref().ok_or("requested configuration is invalid: cannot get LockName for a Sync with no ConfigMapKeyRef")?;
        let namespace = namespace(&semaphore.namespace);
        let lock = format!("{namespace}/ConfigMap/{}/{}", key.name, key.key);
        let limit = config_map(&namespace, &key.name, &key.key)
            .map_err(|why| format!("failed to initialize semaphore {lock}: {why}"))?;
        let limit = limit
            .trim()
            .parse()
            .map_err(|_| format!("failed to initialize semaphore {lock}: invalid value \"{limit}\" for semaphore limit"))?;
        items.push(Item {
            kind: Kind::Semaphore,
            lock,
            limit,
        });
    }
    for mutex in &wanted.mutexes {
        let lock = format!("{}/Mutex/{}", namespace(&mutex.namespace), mutex.name);
        items.push(Item {
            kind: Kind::Mutex,
            lock,
            limit: 1,
        });
    }
    Ok(items)
}

fn note_waiting(status: &mut Synchronization, item: &Item, holders: &BTreeSet<String>) {
    match item.kind {
        Kind::Mutex => {
            let waiting = &mut status.mutex.get_or_insert_default().waiting;
            let holder = holders.first().cloned().unwrap_or_default();
            waiting.retain(|one| one.mutex != item.lock);
            waiting.push(MutexHolding {
                mutex: item.lock.clone(),
                holder,
            });
        }
        Kind::Semaphore => {
            let waiting = &mut status.semaphore.get_or_insert_default().waiting;
            waiting.retain(|one| one.semaphore != item.lock);
            waiting.push(SemaphoreHolding {
                semaphore: item.lock.clone(),
                holders: holders.iter().cloned().collect(),
            });
        }
    }
}

fn note_holding(status: &mut Synchronization, item: &Item, holder: &str) {
    match item.kind {
        Kind::Mutex => {
            let mutex = status.mutex.get_or_insert_default();
            mutex.waiting.retain(|one| one.mutex != item.lock);
            let new = MutexHolding {
                mutex: item.lock.clone(),
                holder: holder.to_owned(),
            };
            if !mutex.holding.contains(&new) {
                mutex.holding.push(new);
            }
        }
        Kind::Semaphore => {
            let semaphore = status.semaphore.get_or_insert_default();
            semaphore.waiting.retain(|one| one.semaphore != item.lock);
            let present = semaphore
                .holding
                .iter_mut()
                .find(|one| one.semaphore == item.lock);
            match present {
                Some(present) if present.holders.iter().any(|one| one == holder) => {}
                Some(present) => present.holders.push(holder.to_owned()),
                None => semaphore.holding.push(SemaphoreHolding {
                    semaphore: item.lock.clone(),
                    holders: vec![holder.to_owned()],
                }),
            }
        }
    }
}

/// Drops what a holder holds from a status; `false` if it held nothing.
pub(super) fn forget(status: &mut Option<Synchronization>, holder: &str) -> bool {
    let Some(present) = status else { return false };
    let mut held = false;
    if let Some(mutex) = &mut present.mutex {
        let before = mutex.holding.len();
        mutex.holding.retain(|one| one.holder != holder);
        held |= before != mutex.holding.len();
    }
    if let Some(semaphore) = &mut present.semaphore {
        for holding in &mut semaphore.holding {
            let before = holding.holders.len();
            holding.holders.retain(|one| one != holder);
            held |= before != holding.holders.len();
        }
        semaphore.holding.retain(|one| !one.holders.is_empty());
    }
    held
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn request(holder: &str, priority: i64) -> Request {
        Request {
            namespace: "lab".into(),
            holder: format!("lab/{holder}"),
            priority,
            created: None,
        }
    }

    fn limit_two(_: &str, _: &str, _: &str) -> Result<String, String> {
        Ok("2".into())
    }

    fn wanted(value: serde_json::Value) -> Wanted {
        serde_json::from_value(value).expect("synchronization")
    }

    fn waits(locks: &Locks, holder: &str, priority: i64, wanted: &Wanted) -> Option<String> {
        let mut status = None;
        locks
            .acquire(&request(holder, priority), wanted, &limit_two, &mut status)
            .expect("lock")
            .map(|waiting| waiting.message)
    }

    #[test]
    fn a_mutex_has_one_holder_and_orders_the_others() {
        let woken = std::sync::Arc::new(Mutex::new(Vec::new()));
        let locks = Locks::new({
            let woken = std::sync::Arc::clone(&woken);
            move |key| woken.lock().expect("woken").push(key.name)
        });
        let mutex = wanted(json!({"mutexes": [{"name": "orders"}]}));
        assert_eq!(waits(&locks, "a", 0, &mutex), None);
        assert_eq!(waits(&locks, "a", 0, &mutex), None, "a holder keeps it");
        assert_eq!(
            waits(&locks, "b", 0, &mutex),
            Some("Waiting for lab/Mutex/orders lock. Lock status: 0/1".into())
        );
        assert!(waits(&locks, "c", 9, &mutex).is_some());
        locks.release("lab/a", true);
        assert_eq!(*woken.lock().expect("woken"), ["b", "c"]);
        assert!(
            waits(&locks, "b", 0, &mutex).is_some(),
            "a higher priority goes first"
        );
        assert_eq!(waits(&locks, "c", 9, &mutex), None);
    }

    #[test]
    fn a_semaphore_counts() {
        let locks = Locks::new(|_| {});
        let semaphore = wanted(
            json!({"semaphores": [{"configMapKeyRef": {"name": "limits", "key": "orders"}}]}),
        );
        assert_eq!(waits(&locks, "a", 0, &semaphore), None);
        assert_eq!(waits(&locks, "b", 0, &semaphore), None);
        assert_eq!(
            waits(&locks, "c", 0, &semaphore),
            Some("Waiting for lab/ConfigMap/limits/orders lock. Lock status: 0/2".into())
        );
        let missing = |_: &str, _: &str, _: &str| Err("configmap 'limits' not found".to_owned());
        let error = locks
            .acquire(&request("d", 0), &semaphore, &missing, &mut None)
            .expect_err("no limit");
        assert!(
            error.starts_with("failed to initialize semaphore lab/ConfigMap/limits/orders"),
            "{error}"
        );
    }

    #[test]
    fn several_locks_are_taken_together_or_not_at_all() {
        let locks = Locks::new(|_| {});
        let one = wanted(json!({"mutexes": [{"name": "a"}]}));
        let both = wanted(json!({"mutexes": [{"name": "b"}, {"name": "a"}]}));
        assert_eq!(waits(&locks, "x", 0, &one), None);
        assert!(waits(&locks, "y", 0, &both).is_some());
        locks.release("lab/y", true);
        assert_eq!(
            waits(&locks, "z", 0, &wanted(json!({"mutexes": [{"name": "b"}]}))),
            None
        );
    }

    #[test]
    fn status_shows_holder_and_waiter_and_is_restored() {
        let locks = Locks::new(|_| {});
        let mutex = wanted(json!({"mutexes": [{"name": "orders"}]}));
        let (mut a, mut b) = (None, None);
        locks
            .acquire(&request("a", 0), &mutex, &limit_two, &mut a)
            .expect("lock");
        locks
            .acquire(&request("b", 0), &mutex, &limit_two, &mut b)
            .expect("lock");
        assert_eq!(
            serde_json::to_value(&a).expect("json"),
            json!({"mutex": {"holding": [{"mutex": "lab/Mutex/orders", "holder": "lab/a"}]}})
        );
        assert_eq!(
            serde_json::to_value(&b).expect("json"),
            json!({"mutex": {"waiting": [{"mutex": "lab/Mutex/orders", "holder": "lab/a"}]}})
        );
        assert!(forget(&mut a, "lab/a") && !forget(&mut a, "lab/a"));
    }
}
