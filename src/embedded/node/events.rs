//! Events about pods, written in the background so that no pod waits for them.

use std::collections::HashMap;
use std::sync::Arc;

use jiff::Timestamp;
use k8s_openapi::api::core::v1::{Event, EventSource, ObjectReference, Pod};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, Time};
use kube::api::{Patch, PatchParams, PostParams};
use kube::{Api, Client};
use serde_json::json;
use tokio::sync::mpsc;

use super::NODE_NAME;

/// Events that wait to be written; more are dropped, as a kubelet's rate limit does.
const QUEUE: usize = 1024;
/// Repeated events that are counted instead of written anew; beyond that the memory is emptied.
const REMEMBERED: usize = 4096;

/// Whether something went as it should.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Kind {
    Normal,
    Warning,
}

/// Names the pod of an event.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct Subject {
    namespace: String,
    name: String,
    uid: String,
}

impl Subject {
    pub(super) fn of(pod: &Pod) -> Subject {
        let metadata = &pod.metadata;
        Subject {
            namespace: metadata.namespace.clone().unwrap_or_default(),
            name: metadata.name.clone().unwrap_or_default(),
            uid: metadata.uid.clone().unwrap_or_default(),
        }
    }
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Note {
    subject: Arc<Subject>,
    /// Container within the pod as `spec.containers{main}`; empty for the pod itself.
    field_path: String,
    kind: Kind,
    reason: &'static str,
    message: String,
}

/// Takes events; clones share one queue.
#[derive(Clone, Debug)]
pub(super) struct Recorder {
    queue: mpsc::Sender<Note>,
}

impl Recorder {
    /// A recorder and the task that writes; it ends with the last recorder.
    pub(super) fn new(client: Client) -> (Recorder, impl Future<Output = ()> + Send) {
        let (queue, notes) = mpsc::channel(QUEUE);
        (Recorder { queue }, write_all(client, notes))
    }

    pub(super) fn record(
        &self,
        subject: &Arc<Subject>,
        field_path: &str,
        kind: Kind,
        reason: &'static str,
        message: impl Into<String>,
    ) {
        let note = Note {
            subject: Arc::clone(subject),
            field_path: field_path.to_owned(),
            kind,
            reason,
            message: message.into(),
        };
        // A full queue loses events, never work.
        let _ = self.queue.try_send(note);
    }
}

/// How often a note was written, and under which name.
struct Written {
    name: String,
    count: i32,
}

async fn write_all(client: Client, mut notes: mpsc::Receiver<Note>) {
    let mut written: HashMap<Note, Written> = HashMap::new();
    while let Some(note) = notes.recv().await {
        let api = Api::<Event>::namespaced(client.clone(), &note.subject.namespace);
        if let Some(known) = written.get_mut(&note) {
            known.count = known.count.saturating_add(1);
            let patch = json!({"count": known.count, "lastTimestamp": Time(Timestamp::now())});
            let patched = api
                .patch(&known.name, &PatchParams::default(), &Patch::Merge(patch))
                .await;
            if patched.is_ok() {
                continue;
            }
        }
        let event = event(&note);
        let name = event.metadata.name.clone().unwrap_or_default();
        match api.create(&PostParams::default(), &event).await {
            Ok(_) => {
                if written.len() >= REMEMBERED {
                    written.clear();
                }
                written.insert(note, Written { name, count: 1 });
            }
            // The namespace may be going; an event is worth no second try.
            Err(error) => tracing::debug!(reason = note.reason, %error, "event not written"),
        }
    }
}

fn event(note: &Note) -> Event {
    let now = Timestamp::now();
    let subject = &note.subject;
    Event {
        metadata: ObjectMeta {
            name: Some(format!("{}.{:x}", subject.name, now.as_nanosecond())),
            namespace: Some(subject.namespace.clone()),
            ..ObjectMeta::default()
        },
        involved_object: ObjectReference {
            api_version: Some("v1".to_owned()),
            kind: Some("Pod".to_owned()),
            namespace: Some(subject.namespace.clone()),
            name: Some(subject.name.clone()),
            uid: Some(subject.uid.clone()),
            field_path: (!note.field_path.is_empty()).then(|| note.field_path.clone()),
            ..ObjectReference::default()
        },
        type_: Some(format!("{:?}", note.kind)),
        reason: Some(note.reason.to_owned()),
        message: Some(note.message.clone()),
        count: Some(1),
        first_timestamp: Some(Time(now)),
        last_timestamp: Some(Time(now)),
        source: Some(EventSource {
            component: Some("kubelet".to_owned()),
            host: Some(NODE_NAME.to_owned()),
        }),
        reporting_component: Some("kubelet".to_owned()),
        reporting_instance: Some(NODE_NAME.to_owned()),
        ..Event::default()
    }
}
