//! A cache of objects, fed by a watch and by the answers to one's own writes.
//!
//! Versions of one object are ordered by `resourceVersion` (a number that only grows, as Kubernetes promises
//! for objects of one resource), so an event that is older than an own write cannot undo it, and an answer
//! that comes in after the object has gone does not bring it back. A whole list is the truth up to its own version,
//! whatever was known before: a cluster that was put back has older objects than it had.

use std::collections::{BTreeMap, BTreeSet, HashMap, VecDeque};
use std::fmt;
use std::sync::{Arc, PoisonError, RwLock};

use kube::{Resource, ResourceExt};

/// Namespace and name of an object; the namespace is empty for cluster scope.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ObjectKey {
    pub namespace: String,
    pub name: String,
}

impl ObjectKey {
    /// Makes a key.
    #[must_use]
    pub fn new(namespace: impl Into<String>, name: impl Into<String>) -> Self {
        Self {
            namespace: namespace.into(),
            name: name.into(),
        }
    }

    /// The key of an object.
    #[must_use]
    pub fn of<K: Resource>(object: &K) -> Self {
        Self::new(object.namespace().unwrap_or_default(), object.name_any())
    }
}

impl fmt::Display for ObjectKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.namespace.is_empty() {
            f.write_str(&self.name)
        } else {
            write!(f, "{}/{}", self.namespace, self.name)
        }
    }
}

/// What an event changed: no `old` is an object that is new here, no `new` one that is gone.
#[derive(Clone, Debug)]
pub struct Change<K> {
    pub key: ObjectKey,
    pub old: Option<Arc<K>>,
    pub new: Option<Arc<K>>,
}

impl<K> Change<K> {
    /// Both sides, the old one first.
    pub fn sides(&self) -> impl Iterator<Item = &Arc<K>> {
        self.old.iter().chain(self.new.iter())
    }
}

/// Deletions that are remembered; far more than writes can be under way.
const REMEMBERED: usize = 4096;

type IndexFn<K> = Box<dyn Fn(&K) -> Vec<String> + Send + Sync>;

/// The objects of one watch, by key and by one index.
pub struct Cache<K> {
    state: RwLock<State<K>>,
    index_of: IndexFn<K>,
}

struct State<K> {
    objects: BTreeMap<ObjectKey, Arc<K>>,
    index: HashMap<String, BTreeSet<ObjectKey>>,
    gone: Gone,
    /// The version of the last list: what is not newer is in it, or is not any more.
    listed: Option<u64>,
}

/// At which version objects have gone.
#[derive(Default)]
struct Gone {
    versions: HashMap<ObjectKey, Option<u64>>,
    order: VecDeque<ObjectKey>,
}

impl Gone {
    fn note(&mut self, key: &ObjectKey, version: Option<u64>) {
        if self.versions.insert(key.clone(), version).is_none() {
            self.order.push_back(key.clone());
        }
        if self.order.len() > REMEMBERED
            && let Some(oldest) = self.order.pop_front()
        {
            self.versions.remove(&oldest);
        }
    }

    /// Whether an object has gone after a list was made.
    fn is_newer(&self, key: &ObjectKey, list_version: Option<u64>) -> bool {
        let gone = self.versions.get(key);
        list_version.is_some() && gone.is_some_and(|gone| *gone > list_version)
    }

    /// Whether an object of this version was there before the deletion.
    fn covers(&self, key: &ObjectKey, version: Option<u64>) -> bool {
        self.versions.get(key).is_some_and(|gone| *gone >= version)
    }
}

impl<K: Resource> Cache<K> {
    /// Makes an empty cache whose objects are also found under `index_of` their values.
    pub fn new(index_of: impl Fn(&K) -> Vec<String> + Send + Sync + 'static) -> Self {
        Self {
            state: RwLock::new(State {
                objects: BTreeMap::new(),
                index: HashMap::new(),
                gone: Gone::default(),
                listed: None,
            }),
            index_of: Box::new(index_of),
        }
    }

    /// The object under a key.
    #[must_use]
    pub fn get(&self, key: &ObjectKey) -> Option<Arc<K>> {
        self.read(|state| state.objects.get(key).cloned())
    }

    /// The objects under an index value, by key.
    #[must_use]
    pub fn by_index(&self, value: &str) -> Vec<Arc<K>> {
        self.read(|state| {
            let keys = state.index.get(value).into_iter().flatten();
            keys.filter_map(|key| state.objects.get(key).cloned())
                .collect()
        })
    }

    /// Every object, by key.
    #[must_use]
    pub fn all(&self) -> Vec<Arc<K>> {
        self.read(|state| state.objects.values().cloned().collect())
    }

    /// Takes in the answer to an own write, or an event; `None` if a newer version is known already.
    pub fn upsert(&self, object: K) -> Option<Change<K>> {
        let key = ObjectKey::of(&object);
        self.write(|state| {
            let old = state.objects.get(&key);
            let is_older = |old: &Arc<K>| version(&**old) > version(&object);
            let was_listed = state.listed.is_some() && version(&object) <= state.listed;
            let is_known = was_listed || old.is_some_and(is_older);
            if is_known || state.gone.covers(&key, version(&object)) {
                return None;
            }
            Some(self.take_in(state, key, object))
        })
    }

    fn take_in(&self, state: &mut State<K>, key: ObjectKey, object: K) -> Change<K> {
        let old = state.objects.get(&key).cloned();
        let new = Arc::new(object);
        self.put(state, &key, Arc::clone(&new));
        Change {
            key,
            old,
            new: Some(new),
        }
    }

    /// Takes in a deletion; `None` if the object is unknown or was made anew since.
    pub fn remove(&self, object: &K) -> Option<Change<K>> {
        let key = ObjectKey::of(object);
        self.write(|state| {
            let old = state.objects.get(&key);
            if old.is_some_and(|old| version(&**old) > version(object)) {
                return None;
            }
            state.gone.note(&key, version(object));
            let old = self.take(state, &key)?;
            Some(Change {
                key,
                old: Some(old),
                new: None,
            })
        })
    }

    /// Takes in a whole list that was true at `list_version`.
    ///
    /// What is here and not in the list is dropped, unless it is newer than the list (an own write).
    pub fn replace(&self, objects: Vec<K>, list_version: Option<u64>) -> Vec<Change<K>> {
        let listed: BTreeSet<ObjectKey> = objects.iter().map(ObjectKey::of).collect();
        let gone = self.write(|state| {
            state.listed = list_version;
            let stale = |(key, object): &(&ObjectKey, &Arc<K>)| {
                let is_newer = list_version.is_some() && version(&***object) > list_version;
                !is_newer && !listed.contains(*key)
            };
            let keys: Vec<ObjectKey> = state
                .objects
                .iter()
                .filter(stale)
                .map(|(key, _)| key.clone())
                .collect();
            let drop_one = |key: ObjectKey| {
                state.gone.note(&key, list_version);
                let old = self.take(state, &key);
                Change {
                    key,
                    old,
                    new: None,
                }
            };
            keys.into_iter().map(drop_one).collect::<Vec<_>>()
        });
        let mut changes = gone;
        changes.extend(
            objects
                .into_iter()
                .filter_map(|object| self.listed(object, list_version)),
        );
        changes
    }

    /// Takes in an object of a list, unless something newer than the list is known of it.
    fn listed(&self, object: K, list_version: Option<u64>) -> Option<Change<K>> {
        let key = ObjectKey::of(&object);
        self.write(|state| {
            let old = state.objects.get(&key);
            let is_newer = |old: &Arc<K>| list_version.is_some() && version(&**old) > list_version;
            if old.is_some_and(is_newer) || state.gone.is_newer(&key, list_version) {
                return None;
            }
            Some(self.take_in(state, key, object))
        })
    }

    fn put(&self, state: &mut State<K>, key: &ObjectKey, object: Arc<K>) {
        self.take(state, key);
        for value in (self.index_of)(&object) {
            state.index.entry(value).or_default().insert(key.clone());
        }
        state.objects.insert(key.clone(), object);
    }

    fn take(&self, state: &mut State<K>, key: &ObjectKey) -> Option<Arc<K>> {
        let object = state.objects.remove(key)?;
        for value in (self.index_of)(&object) {
            if let Some(keys) = state.index.get_mut(&value) {
                keys.remove(key);
                if keys.is_empty() {
                    state.index.remove(&value);
                }
            }
        }
        Some(object)
    }

    fn read<T>(&self, look: impl FnOnce(&State<K>) -> T) -> T {
        look(&self.state.read().unwrap_or_else(PoisonError::into_inner))
    }

    fn write<T>(&self, change: impl FnOnce(&mut State<K>) -> T) -> T {
        change(&mut self.state.write().unwrap_or_else(PoisonError::into_inner))
    }
}

/// The version of an object as a number; `None` sorts before every number.
#[must_use]
pub fn version<K: Resource>(object: &K) -> Option<u64> {
    object
        .meta()
        .resource_version
        .as_deref()
        .and_then(|version| version.parse().ok())
}

#[cfg(test)]
mod tests {
    use k8s_openapi::api::core::v1::ConfigMap;
    use kube::api::ObjectMeta;

    use super::*;

    fn object(name: &str, version: u64, label: &str) -> ConfigMap {
        let labels = BTreeMap::from([("app".to_owned(), label.to_owned())]);
        ConfigMap {
            metadata: ObjectMeta {
                name: Some(name.into()),
                namespace: Some("ns".into()),
                resource_version: Some(version.to_string()),
                labels: Some(labels),
                ..ObjectMeta::default()
            },
            ..ConfigMap::default()
        }
    }

    fn cache() -> Cache<ConfigMap> {
        Cache::new(|object: &ConfigMap| object.labels().get("app").cloned().into_iter().collect())
    }

    #[test]
    fn an_older_event_does_not_undo_an_own_write() {
        let cache = cache();
        assert!(cache.upsert(object("a", 7, "new")).is_some());
        assert!(cache.upsert(object("a", 5, "old")).is_none());
        assert!(cache.remove(&object("a", 6, "old")).is_none());
        assert_eq!(cache.by_index("new").len(), 1);
        assert!(cache.remove(&object("a", 8, "new")).is_some());
        assert!(cache.by_index("new").is_empty());
    }

    #[test]
    fn a_late_answer_does_not_bring_an_object_back() {
        let cache = cache();
        cache.upsert(object("a", 7, "x"));
        cache.remove(&object("a", 9, "x"));
        assert!(cache.upsert(object("a", 8, "x")).is_none());
        assert!(cache.remove(&object("unseen", 5, "x")).is_none());
        assert!(cache.upsert(object("unseen", 4, "x")).is_none());
        assert!(cache.upsert(object("a", 10, "x")).is_some(), "made anew");
        for number in 0..2 * REMEMBERED {
            cache.remove(&object(&number.to_string(), 1, "x"));
        }
        assert!(cache.read(|state| state.gone.order.len()) <= REMEMBERED);
    }

    /// The cluster went back: what it has now is older than what it had, and no answer from before it tells of it.
    #[test]
    fn a_list_of_a_cluster_that_was_put_back_is_the_truth() {
        let cache = cache();
        cache.replace(
            vec![object("changed", 3, "x"), object("gone", 4, "x")],
            Some(5),
        );
        cache.upsert(object("changed", 9, "new"));
        cache.remove(&object("gone", 10, "x"));
        let back = vec![object("changed", 3, "x"), object("gone", 4, "x")];
        assert_eq!(cache.replace(back, Some(20)).len(), 2);
        assert!(cache.upsert(object("changed", 12, "late")).is_none());
        assert!(cache.upsert(object("unseen", 12, "x")).is_none());
        let names = |label: &str| -> Vec<_> {
            let found = cache.by_index(label);
            found.iter().map(|object| object.name_any()).collect()
        };
        assert_eq!(names("x"), ["changed", "gone"]);
        assert!(cache.upsert(object("changed", 21, "own")).is_some());
        let older = vec![object("changed", 3, "x")];
        cache.replace(older, Some(20));
        assert_eq!(names("own"), ["changed"]);
    }

    #[test]
    fn a_list_drops_what_is_gone_and_keeps_what_is_newer() {
        let cache = cache();
        cache.upsert(object("gone", 3, "x"));
        cache.upsert(object("own", 12, "x"));
        let changes = cache.replace(vec![object("kept", 4, "x")], Some(10));
        let gone: Vec<_> = changes
            .iter()
            .filter(|change| change.new.is_none())
            .map(|change| &change.key.name)
            .collect();
        assert_eq!(gone, ["gone"]);
        let names: Vec<_> = cache
            .by_index("x")
            .iter()
            .map(|object| object.name_any())
            .collect();
        assert_eq!(names, ["kept", "own"]);
    }
}
