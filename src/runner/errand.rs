//! One command on the ledger's volume, run as a Workflow of a session's cluster.
//!
//! Whoever sits outside of the cluster cannot open the ledger's file, on either cluster: what writes to it runs in a pod,
//! and goes through the same claim as every run.

use std::time::Duration;

use k8s_openapi::api::core::v1::{Namespace, PersistentVolumeClaim, Pod};
use kube::api::{DynamicObject, ListParams, LogParams, PostParams};
use kube::{Api, Resource, ResourceExt as _};
use serde_json::{Value, json};

use super::acting::{as_ours_each_time, has_ended, phase_of};
use super::waiting;
use crate::cluster::{Cluster, Manifest, told};
use crate::kinds::{self, MANAGED_BY, MANAGED_BY_LABEL};

/// Where the volume lies in the pod.
pub const LEDGER_IN_POD: &str = "/data/ledger.db";

/// An errand is given up after so long.
const PATIENCE: Duration = Duration::from_secs(120);

/// Why there is no answer.
#[derive(Debug, thiserror::Error)]
pub enum ErrandError {
    #[error("the manifest of the errand does not hold: {0}")]
    Manifest(String),
    #[error("`{{{{` in an argument would be replaced by the cluster; leave it out")]
    Placeholder,
    #[error(
        "{object} does not carry {MANAGED_BY_LABEL}={MANAGED_BY}: it is not the lab's, and nothing is run there"
    )]
    NotOurs { object: String },
    #[error("there is no {object}; a lab's stage `apply` makes the ledger and its accounts")]
    NotThere { object: String },
    #[error("cannot {action}: {}; a lab's stage `apply` makes the ledger and its accounts", told(.source))]
    Api {
        action: &'static str,
        #[source]
        source: Box<kube::Error>,
    },
    #[error(
        "waiting for the end of Workflow {name}: {missed}; `{kubectl} get workflow {name}` says where it stands"
    )]
    Waiting {
        name: String,
        missed: String,
        kubectl: String,
    },
    #[error("Workflow {name} ended {phase} without a pod that ran: {message}")]
    NoPod {
        name: String,
        phase: String,
        message: String,
    },
}

/// How an errand ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Errand {
    /// The Workflow that ran it.
    pub workflow: String,
    /// What the command printed, both streams.
    pub output: String,
    /// Exit code of the command.
    pub exit_code: i32,
}

/// Runs `/eventlab` with these arguments in a pod made after `manifest`, a Workflow with one container.
///
/// # Errors
/// [`ErrandError`]; a command that ran and failed is an [`Errand`].
pub async fn run(
    cluster: &Cluster,
    manifest: &str,
    arguments: &[String],
) -> Result<Errand, ErrandError> {
    let mut object = workflow(manifest, arguments)?;
    ensure_ours(cluster, &object).await?;
    cluster.fit(&mut object);
    let object =
        serde_json::from_value(object).map_err(|error| ErrandError::Manifest(error.to_string()))?;
    let api: Api<DynamicObject> = Api::namespaced_with(
        cluster.client().clone(),
        cluster.namespace(),
        &kinds::workflow(),
    );
    let made = api
        .create(&PostParams::default(), &object)
        .await
        .map_err(failed("make the Workflow"))?;
    let name = made.metadata.name.unwrap_or_default();
    let ended = ended(&api, &name, cluster).await?;
    answer(cluster, name, &ended).await
}

/// An errand writes: the namespace that it runs in and the volumes that it opens must be the lab's.
async fn ensure_ours(cluster: &Cluster, object: &Value) -> Result<(), ErrandError> {
    let namespaces: Api<Namespace> = Api::all(cluster.client().clone());
    match namespaces.get_opt(cluster.namespace()).await {
        // Who may not read namespaces is told by the volumes.
        Err(kube::Error::Api(status)) if status.code == 403 => {}
        Err(error) => return Err(failed("read the namespace")(error)),
        Ok(found) => ours(found, format!("namespace {}", cluster.namespace()))?,
    }
    let claims: Api<PersistentVolumeClaim> =
        Api::namespaced(cluster.client().clone(), cluster.namespace());
    for name in claims_of(object) {
        let found = claims
            .get_opt(name)
            .await
            .map_err(failed("read the ledger's claim"))?;
        ours(found, format!("claim {name}"))?;
    }
    Ok(())
}

fn ours<K: Resource>(found: Option<K>, object: String) -> Result<(), ErrandError> {
    match found {
        None => Err(ErrandError::NotThere { object }),
        Some(found)
            if found
                .labels()
                .get(MANAGED_BY_LABEL)
                .is_some_and(|by| by == MANAGED_BY) =>
        {
            Ok(())
        }
        Some(_) => Err(ErrandError::NotOurs { object }),
    }
}

/// The claims whose volumes a Workflow opens.
fn claims_of(workflow: &Value) -> impl Iterator<Item = &str> {
    let volumes = workflow.pointer("/spec/volumes").and_then(Value::as_array);
    volumes
        .into_iter()
        .flatten()
        .filter_map(|volume| volume.pointer("/persistentVolumeClaim/claimName")?.as_str())
}

fn failed(action: &'static str) -> impl Fn(kube::Error) -> ErrandError {
    move |source| ErrandError::Api {
        action,
        source: Box::new(source),
    }
}

fn workflow(manifest: &str, arguments: &[String]) -> Result<Value, ErrandError> {
    if arguments.iter().any(|argument| argument.contains("{{")) {
        return Err(ErrandError::Placeholder);
    }
    let bad = |text: &str| ErrandError::Manifest(text.to_owned());
    let mut read = Manifest::read("errand", manifest).map_err(|error| bad(&error.to_string()))?;
    let mut object = read.pop().ok_or_else(|| bad("it is empty"))?.object;
    let container = object
        .pointer_mut("/spec/templates/0/container")
        .and_then(Value::as_object_mut)
        .ok_or_else(|| bad("it has no container"))?;
    container.insert("args".to_owned(), json!(arguments));
    if let Some(metadata) = object.get_mut("metadata") {
        as_ours_each_time(metadata);
    }
    Ok(object)
}

async fn ended(
    api: &Api<DynamicObject>,
    name: &str,
    cluster: &Cluster,
) -> Result<DynamicObject, ErrandError> {
    let ended = waiting::until(api, name, PATIENCE, |workflow| {
        has_ended(phase_of(workflow))
    });
    ended.await.map_err(|missed| ErrandError::Waiting {
        name: name.to_owned(),
        missed: missed.to_string(),
        kubectl: cluster.kubectl(),
    })
}

/// Log and exit code of the pod.
async fn answer(
    cluster: &Cluster,
    workflow: String,
    ended: &DynamicObject,
) -> Result<Errand, ErrandError> {
    let pods: Api<Pod> = Api::namespaced(cluster.client().clone(), cluster.namespace());
    let of_workflow =
        ListParams::default().labels(&format!("workflows.argoproj.io/workflow={workflow}"));
    let list = pods
        .list(&of_workflow)
        .await
        .map_err(failed("list the Workflow's pods"))?;
    let ran = list.items.iter().find_map(|pod| {
        let name = pod.metadata.name.clone()?;
        Some((name, exit_code(pod)?))
    });
    let Some((pod, exit_code)) = ran else {
        let text = |pointer: &str| {
            let value = ended.data.pointer(pointer).and_then(Value::as_str);
            value.unwrap_or_default().to_owned()
        };
        return Err(ErrandError::NoPod {
            name: workflow,
            phase: text("/status/phase"),
            message: text("/status/message"),
        });
    };
    let of_main = LogParams {
        container: Some("main".to_owned()),
        ..LogParams::default()
    };
    let output = pods
        .logs(&pod, &of_main)
        .await
        .map_err(failed("read the pod's log"))?;
    Ok(Errand {
        workflow,
        output: without_executor(&output),
        exit_code,
    })
}

/// The log without the lines that Argo's executor, which runs the command, writes into it.
fn without_executor(log: &str) -> String {
    let own = |line: &&str| !(line.starts_with("time=") && line.contains(" argo=true"));
    log.lines()
        .filter(own)
        .flat_map(|line| [line, "\n"])
        .collect()
}

/// Exit code of the container `main`, once it has ended.
fn exit_code(pod: &Pod) -> Option<i32> {
    let statuses = pod.status.as_ref()?.container_statuses.as_ref()?;
    let main = statuses.iter().find(|status| status.name == "main")?;
    Some(main.state.as_ref()?.terminated.as_ref()?.exit_code)
}

#[cfg(test)]
mod tests {
    use super::*;

    const MANIFEST: &str = "
apiVersion: argoproj.io/v1alpha1
kind: Workflow
metadata: {name: reconcile}
spec: {templates: [{name: main, container: {image: i, args: [a]}}]}
";

    #[test]
    fn an_errand_keeps_everything_but_its_arguments_and_has_a_name_of_its_own() {
        let arguments = ["ledger".to_owned(), "verify".to_owned()];
        let object = workflow(MANIFEST, &arguments).unwrap();
        assert_eq!(object["metadata"]["generateName"], "reconcile-");
        let container = &object["spec"]["templates"][0]["container"];
        assert_eq!(container["args"], json!(["ledger", "verify"]));
        assert_eq!(container["image"], "i");
    }

    #[test]
    fn nothing_runs_where_the_lab_s_label_is_not() {
        let namespace = |labels: Value| -> Option<Namespace> {
            serde_json::from_value(json!({"metadata": {"name": "n", "labels": labels}})).ok()
        };
        let of = |labels| ours(namespace(labels), "namespace n".to_owned());
        assert!(of(json!({MANAGED_BY_LABEL: MANAGED_BY})).is_ok());
        for labels in [Value::Null, json!({}), json!({MANAGED_BY_LABEL: "Helm"})] {
            let refused = of(labels).unwrap_err();
            assert!(matches!(refused, ErrandError::NotOurs { .. }), "{refused}");
        }
        let gone = ours(None::<Namespace>, "namespace n".to_owned());
        assert!(matches!(gone, Err(ErrandError::NotThere { .. })));
        let object = json!({"spec": {"volumes": [{"emptyDir": {}}, {"persistentVolumeClaim": {"claimName": "c"}}]}});
        assert_eq!(claims_of(&object).collect::<Vec<_>>(), ["c"]);
    }

    #[test]
    fn the_executors_lines_are_not_the_commands() {
        let log = "time=2026-11-30T04:26:38.061Z level=INFO msg=\"waiting for signals\" signalPath=/x argo=true\n\
            claim a notify: completed\n\
            time=\"2025-08-14T10:00:00.000Z\" level=info msg=\"sub-process exited\" argo=true error=\"<nil>\"\n\
            time=now argo is true";
        assert_eq!(
            without_executor(log),
            "claim a notify: completed\ntime=now argo is true\n"
        );
    }

    #[test]
    fn what_cannot_be_an_errand_is_refused() {
        let words = |text: &str| vec![text.to_owned()];
        assert!(matches!(
            workflow(MANIFEST, &words("{{workflow.name}}")),
            Err(ErrandError::Placeholder)
        ));
        for manifest in ["", "a: 1", "apiVersion: v1\nkind: Pod\nmetadata: {name: x}"] {
            assert!(workflow(manifest, &words("x")).is_err(), "{manifest}");
        }
    }
}
