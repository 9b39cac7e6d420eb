//! The entries of `metadata.managedFields`.

use serde_json::{Map, Value, json};

use super::Writer;
use super::set::FieldSet;
use crate::embedded::api::go_text::quote;
use crate::embedded::api::object;
use crate::embedded::api::status::Failure;

/// Updates by so many managers are told apart; older ones are put together.
const MAX_UPDATES: usize = 10;

/// By which means a field was written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Operation {
    Apply,
    Update,
}

#[derive(Clone, Debug)]
struct Entry {
    manager: String,
    operation: Operation,
    api_version: String,
    time: String,
    subresource: String,
    set: FieldSet,
}

/// All entries of an object.
#[derive(Clone, Debug, Default)]
pub(super) struct Entries(Vec<Entry>);

/// A field that is taken already.
pub(super) struct Conflict {
    /// The other manager, in words.
    manager: String,
    path: String,
}

impl Entry {
    fn read(value: &Value) -> Option<Self> {
        let text = |key: &str| {
            value
                .get(key)
                .and_then(Value::as_str)
                .unwrap_or("")
                .to_owned()
        };
        Some(Entry {
            manager: text("manager"),
            operation: match text("operation").as_str() {
                "Apply" => Operation::Apply,
                "Update" => Operation::Update,
                _ => return None,
            },
            api_version: text("apiVersion"),
            time: text("time"),
            subresource: text("subresource"),
            set: FieldSet::from_json(value.get("fieldsV1")?),
        })
    }

    fn to_json(&self) -> Value {
        let mut map = Map::new();
        let operation = if self.operation == Operation::Apply {
            "Apply"
        } else {
            "Update"
        };
        for (key, text) in [
            ("manager", self.manager.as_str()),
            ("operation", operation),
            ("apiVersion", &self.api_version),
            ("time", &self.time),
        ] {
            map.insert(key.to_owned(), json!(text));
        }
        map.insert("fieldsType".to_owned(), json!("FieldsV1"));
        map.insert("fieldsV1".to_owned(), self.set.to_json());
        if !self.subresource.is_empty() {
            map.insert("subresource".to_owned(), json!(self.subresource));
        }
        Value::Object(map)
    }

    fn is(&self, writer: Writer<'_>, operation: Operation) -> bool {
        self.operation == operation
            && self.manager == writer.manager
            && self.subresource == writer.subresource
    }

    /// As the writer who meets it is told of it: who speaks of a Scale knows no version of a workload.
    fn words(&self, writer: Writer<'_>) -> String {
        let version = match writer.subresource {
            "scale" => "autoscaling/v1",
            _ => &self.api_version,
        };
        let mut words = quote(&self.manager);
        if !self.subresource.is_empty() {
            words = format!("{words} with subresource {}", quote(&self.subresource));
        }
        if self.operation == Operation::Update {
            words = format!("{words} using {version}");
        }
        words
    }
}

impl Entries {
    pub(super) fn read(object: &Value) -> Self {
        Entries(
            object::strings(object, "managedFields")
                .filter_map(Entry::read)
                .collect(),
        )
    }

    /// Applies first, then by age and name, as kube-apiserver sorts them.
    pub(super) fn write(&self, object: &mut Value) {
        let mut entries: Vec<&Entry> = self.0.iter().filter(|one| !one.set.is_empty()).collect();
        entries.sort_by_key(|one| {
            let update = one.operation == Operation::Update;
            (
                update,
                &one.time,
                &one.manager,
                &one.api_version,
                &one.subresource,
            )
        });
        let list: Vec<Value> = entries.into_iter().map(Entry::to_json).collect();
        if list.is_empty() {
            object::remove_meta(object, "managedFields");
        } else {
            object::set_meta(object, "managedFields", list);
        }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Everything that anybody owns.
    pub(super) fn owned(&self) -> FieldSet {
        let mut all = FieldSet::default();
        for entry in &self.0 {
            all.union(&entry.set);
        }
        all
    }

    /// The changed fields that others own.
    pub(super) fn conflicts(&self, writer: Writer<'_>, changed: &FieldSet) -> Vec<Conflict> {
        let others = self
            .0
            .iter()
            .filter(|entry| !entry.is(writer, Operation::Apply));
        let mut found = Vec::new();
        for entry in others {
            let paths = entry.set.both(changed).paths();
            found.extend(paths.into_iter().map(|path| Conflict {
                manager: entry.words(writer),
                path,
            }));
        }
        found
    }

    /// Ends the others' ownership of changed fields.
    pub(super) fn take_away(
        &mut self,
        writer: Writer<'_>,
        operation: Operation,
        changed: &FieldSet,
    ) {
        for entry in self
            .0
            .iter_mut()
            .filter(|entry| !entry.is(writer, operation))
        {
            entry.set = entry.set.minus(changed);
        }
        self.0.retain(|entry| !entry.set.is_empty());
    }

    /// Ends everybody's ownership of fields that are gone.
    pub(super) fn forget(&mut self, gone: &FieldSet) {
        for entry in &mut self.0 {
            entry.set = entry.set.minus(gone);
        }
        self.0.retain(|entry| !entry.set.is_empty());
    }

    /// Sets what a manager applies; answers what it applied before.
    pub(super) fn replace(
        &mut self,
        writer: Writer<'_>,
        api_version: &str,
        set: FieldSet,
    ) -> FieldSet {
        if let Some(entry) = self
            .0
            .iter_mut()
            .find(|entry| entry.is(writer, Operation::Apply))
        {
            if entry.set == set {
                return set;
            }
            entry.time = object::now();
            entry.api_version = api_version.to_owned();
            return std::mem::replace(&mut entry.set, set);
        }
        self.0
            .insert(0, new_entry(writer, Operation::Apply, api_version, set));
        FieldSet::default()
    }

    /// Adds fields to what a manager has updated.
    pub(super) fn add_update(
        &mut self,
        manager: &str,
        api_version: &str,
        subresource: &str,
        set: &FieldSet,
    ) {
        if set.is_empty() {
            return;
        }
        let writer = Writer {
            manager,
            subresource,
        };
        match self
            .0
            .iter_mut()
            .find(|entry| entry.is(writer, Operation::Update))
        {
            Some(entry) => {
                entry.set.union(set);
                entry.time = object::now();
            }
            None => self.0.push(new_entry(
                writer,
                Operation::Update,
                api_version,
                set.clone(),
            )),
        }
        self.join_oldest();
    }

    fn join_oldest(&mut self) {
        let updates = |entry: &&Entry| entry.operation == Operation::Update;
        if self.0.iter().filter(updates).count() <= MAX_UPDATES {
            return;
        }
        self.0.sort_by(|one, other| one.time.cmp(&other.time));
        let Some(oldest) = self.0.iter().position(|entry| updates(&entry)) else {
            return;
        };
        let first = self.0.remove(oldest);
        if let Some(next) = self
            .0
            .iter_mut()
            .find(|entry| entry.operation == Operation::Update)
        {
            next.set.union(&first.set);
            next.manager = "ancient-changes".to_owned();
            next.subresource = String::new();
        }
    }
}

fn new_entry(writer: Writer<'_>, operation: Operation, api_version: &str, set: FieldSet) -> Entry {
    Entry {
        manager: writer.manager.to_owned(),
        operation,
        api_version: api_version.to_owned(),
        time: object::now(),
        subresource: writer.subresource.to_owned(),
        set,
    }
}

/// 409 with all conflicts.
pub(super) fn conflict(conflicts: &[Conflict]) -> Failure {
    let mut managers: Vec<&str> = conflicts.iter().map(|one| one.manager.as_str()).collect();
    managers.sort_unstable();
    managers.dedup();
    let message = match conflicts {
        [one] => format!(
            "Apply failed with 1 conflict: conflict with {}: {}",
            one.manager, one.path
        ),
        several => {
            let parts = managers.iter().map(|manager| {
                let paths = several.iter().filter(|one| one.manager == *manager);
                let lines: Vec<String> = paths.map(|one| format!("- {}", one.path)).collect();
                format!("conflicts with {manager}:\n{}", lines.join("\n"))
            });
            format!(
                "Apply failed with {} conflicts: {}",
                several.len(),
                parts.collect::<Vec<_>>().join("\n")
            )
        }
    };
    let causes: Vec<Value> = conflicts
        .iter()
        .map(|one| json!({"reason": "FieldManagerConflict", "message": format!("conflict with {}", one.manager), "field": one.path}))
        .collect();
    let details = json!({"causes": causes});
    Failure::status(409, "Conflict", message, details.as_object().cloned())
}
