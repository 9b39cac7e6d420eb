//! Writes Kubernetes Events for a controller, without holding its reconcile up.
//!
//! Equal events on one object raise `count` on the first one, as client-go's recorder does. When more are
//! waiting than fit, new ones are dropped: Events are news, not state.

use std::collections::BTreeMap;
use std::collections::HashMap;
use std::sync::Arc;

use k8s_openapi::api::core::v1::{Event, EventSource, ObjectReference};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use k8s_openapi::jiff::Timestamp;
use kube::api::{Api, Patch, PatchParams, PostParams};
use kube::{Client, ResourceExt};
use tokio::sync::{Mutex, mpsc};
use tokio_util::sync::CancellationToken;

use super::error::{is_not_found, message};
use super::objects::now;
use super::worker::Tasks;

const WAITING: usize = 1024;
const REMEMBERED: usize = 1024;

/// Whether an Event tells of something wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum EventType {
    Normal,
    Warning,
}

impl EventType {
    fn as_str(self) -> &'static str {
        match self {
            Self::Normal => "Normal",
            Self::Warning => "Warning",
        }
    }
}

struct Note {
    regarding: ObjectReference,
    kind: EventType,
    reason: String,
    message: String,
    annotations: BTreeMap<String, String>,
}

/// Takes the Events of one controller.
#[derive(Clone)]
pub struct Recorder {
    notes: mpsc::Sender<Note>,
}

impl Recorder {
    /// Starts to write Events as `component`.
    pub fn start(
        client: Client,
        component: &'static str,
        tasks: &mut Tasks,
        cancel: &CancellationToken,
    ) -> Self {
        let (notes, waiting) = mpsc::channel(WAITING);
        let writer = Arc::new(Mutex::new(Writer {
            client,
            component,
            waiting,
            seen: HashMap::new(),
        }));
        tasks.supervise("events", cancel, move || {
            let writer = Arc::clone(&writer);
            async move { writer.lock().await.run().await }
        });
        Self { notes }
    }

    /// Records an Event on an object.
    pub fn event(&self, regarding: ObjectReference, kind: EventType, reason: &str, message: &str) {
        self.annotated(regarding, kind, reason, message, BTreeMap::new());
    }

    /// Records an Event that carries annotations.
    pub fn annotated(
        &self,
        regarding: ObjectReference,
        kind: EventType,
        reason: &str,
        message: &str,
        annotations: BTreeMap<String, String>,
    ) {
        let note = Note {
            regarding,
            kind,
            reason: reason.into(),
            message: limited(message),
            annotations,
        };
        if self.notes.try_send(note).is_err() {
            tracing::debug!(target: "controllers", "event {reason} dropped: too many are waiting");
        }
    }
}

/// Kubernetes refuses messages over 1024 bytes.
fn limited(message: &str) -> String {
    message
        .chars()
        .scan(0, |used, c| {
            (*used + c.len_utf8() <= 1024).then(|| {
                *used += c.len_utf8();
                c
            })
        })
        .collect()
}

type Similar = (
    Option<String>,
    EventType,
    String,
    String,
    BTreeMap<String, String>,
);

struct Writer {
    client: Client,
    component: &'static str,
    waiting: mpsc::Receiver<Note>,
    seen: HashMap<Similar, (String, i32)>,
}

impl Writer {
    async fn run(&mut self) {
        while let Some(note) = self.waiting.recv().await {
            if let Err(error) = self.write(note).await {
                tracing::warn!(target: "controllers", "failed to write an event: {}", message(&error));
            }
        }
        std::future::pending::<()>().await;
    }

    async fn write(&mut self, note: Note) -> kube::Result<()> {
        let namespace = note
            .regarding
            .namespace
            .clone()
            .filter(|ns| !ns.is_empty())
            .unwrap_or("default".into());
        let api: Api<Event> = Api::namespaced(self.client.clone(), &namespace);
        let similar: Similar = (
            note.regarding.uid.clone(),
            note.kind,
            note.reason.clone(),
            note.message.clone(),
            note.annotations.clone(),
        );
        if let Some((name, count)) = self.seen.get_mut(&similar) {
            let patch = serde_json::json!({"count": *count + 1, "lastTimestamp": now()});
            match api
                .patch(name, &PatchParams::default(), &Patch::Merge(patch))
                .await
            {
                Ok(_) => {
                    *count += 1;
                    return Ok(());
                }
                Err(error) if is_not_found(&error) => {}
                Err(error) => return Err(error),
            }
        }
        let created = api
            .create(&PostParams::default(), &self.event(note, &namespace))
            .await?;
        if self.seen.len() >= REMEMBERED {
            self.seen.clear();
        }
        self.seen.insert(similar, (created.name_any(), 1));
        Ok(())
    }

    fn event(&self, note: Note, namespace: &str) -> Event {
        let stamp = Timestamp::now().as_nanosecond();
        let name = note.regarding.name.clone().unwrap_or_default();
        Event {
            metadata: ObjectMeta {
                name: Some(format!("{name}.{stamp:x}")),
                namespace: Some(namespace.to_owned()),
                annotations: (!note.annotations.is_empty()).then_some(note.annotations),
                ..ObjectMeta::default()
            },
            involved_object: note.regarding,
            type_: Some(note.kind.as_str().to_owned()),
            reason: Some(note.reason),
            message: Some(note.message),
            count: Some(1),
            first_timestamp: Some(now()),
            last_timestamp: Some(now()),
            source: Some(EventSource {
                component: Some(self.component.to_owned()),
                host: None,
            }),
            reporting_component: Some(self.component.to_owned()),
            ..Event::default()
        }
    }
}
