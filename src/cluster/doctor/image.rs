//! Whether the cluster can run the program's image. Only a pod can tell, and one is run only when it was asked for.

use std::time::Duration;

use k8s_openapi::api::core::v1::Pod;
use kube::Api;
use kube::api::{DeleteParams, PostParams};
use serde_json::json;

use super::{Options, Patient, Point, why};
use crate::kinds::{MANAGED_BY, MANAGED_BY_LABEL};

/// How long a pull may take before it is only waited for by somebody else.
const PATIENCE: Duration = Duration::from_secs(120);
const LOOK: Duration = Duration::from_millis(500);
const NAME: &str = "image";

pub(super) async fn point(patient: &Patient<'_>, options: &Options) -> Point {
    let image = patient.cluster.image().to_owned();
    let shows = format!(
        "{} run eventlab-image --rm -it --restart Never --image {image} --command -- /eventlab ledger --help",
        patient.kubectl_here()
    );
    if !options.try_image {
        return Point::unknown(
            NAME,
            format!("whether {image} is there only a pod can tell"),
            shows,
        )
        .mended_by(patient.eventlab("doctor --try-image"));
    }
    let api: Api<Pod> = Api::namespaced(patient.context.client.clone(), patient.namespace());
    let made = match serde_json::from_value(pod(&image)) {
        Ok(pod) => api.create(&PostParams::default(), &pod).await,
        Err(error) => Err(kube::Error::SerdeError(error)),
    };
    let name = match made {
        Ok(pod) => pod.metadata.name.unwrap_or_default(),
        Err(kube::Error::Api(status)) if status.code == 404 => {
            return Point::unknown(NAME, "the namespace is not there yet", shows)
                .mended_by(patient.eventlab("cluster prepare"));
        }
        Err(kube::Error::Api(status)) if is_admission(&status.message) => {
            return refused(patient, &status.message, shows);
        }
        Err(error) => return Point::unknown(NAME, why(&error), shows),
    };
    let seen = watch(&api, &name).await;
    if let Err(error) = api.delete(&name, &DeleteParams::default()).await {
        tracing::warn!(%error, name, "deleting the pod that tried the image");
    }
    match seen {
        Ok(()) => Point::good(NAME, format!("{image} runs"), shows),
        Err(reason) => Point::missing(NAME, format!("{image} does not run: {reason}"), shows)
            .mended_by(format!(
                "docker build -t {image} . && kind load docker-image {image} (k3d image import, minikube image load), or name one that can be pulled with --image"
            )),
    }
}

/// Whoever lacks the right is told that he "cannot create" it; a policy of the cluster or the namespace says something else.
fn is_admission(message: &str) -> bool {
    !message.contains("cannot create resource")
        && [
            "PodSecurity",
            "quota",
            "admission webhook",
            "LimitRange",
            "limits.",
        ]
        .iter()
        .any(|sign| message.contains(sign))
}

/// A rule of the namespace keeps pods out: the labs' are no others.
fn refused(patient: &Patient<'_>, message: &str, shows: String) -> Point {
    let (kubectl, name) = (&patient.kubectl, patient.namespace());
    let mend = if message.contains("PodSecurity") {
        format!(
            "{kubectl} label namespace {name} pod-security.kubernetes.io/enforce=baseline --overwrite"
        )
    } else if message.contains("quota") {
        format!("{kubectl} -n {name} describe resourcequota; the labs need about 12 pods")
    } else {
        "ask whoever runs the cluster to leave the labs' namespace out of that rule".to_owned()
    };
    Point::missing(
        NAME,
        format!("the cluster refuses a pod with it: {message}"),
        shows,
    )
    .mended_by(mend)
}

fn pod(image: &str) -> serde_json::Value {
    json!({
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"generateName": "eventlab-image-", "labels": {MANAGED_BY_LABEL: MANAGED_BY}},
        "spec": {
            "restartPolicy": "Never",
            "automountServiceAccountToken": false,
            "containers": [{"name": "main", "image": image, "imagePullPolicy": "IfNotPresent",
                "command": ["/eventlab"], "args": ["ledger", "--help"]}],
        },
    })
}

/// Waits until the container has ended well; a pull that fails once may still succeed, so its reason comes last.
async fn watch(api: &Api<Pod>, name: &str) -> Result<(), String> {
    let started = tokio::time::Instant::now();
    let mut reason = "it was not scheduled".to_owned();
    while started.elapsed() < PATIENCE {
        match api.get_opt(name).await {
            Ok(Some(pod)) => match standing(&pod) {
                Standing::Ended(0) => return Ok(()),
                Standing::Ended(code) => return Err(format!("it ended with exit code {code}")),
                Standing::Never(text) => return Err(text),
                Standing::Waits(text) => reason = text,
            },
            Ok(None) => return Err("the pod was deleted".to_owned()),
            Err(error) => reason = error.to_string(),
        }
        tokio::time::sleep(LOOK).await;
    }
    Err(format!("not within {} s: {reason}", PATIENCE.as_secs()))
}

enum Standing {
    Ended(i32),
    Waits(String),
    Never(String),
}

fn standing(pod: &Pod) -> Standing {
    let status = pod.status.as_ref();
    let container = status
        .and_then(|status| status.container_statuses.as_ref()?.first())
        .and_then(|container| container.state.as_ref());
    if let Some(ended) = container.and_then(|state| state.terminated.as_ref()) {
        return Standing::Ended(ended.exit_code);
    }
    if let Some(waiting) = container.and_then(|state| state.waiting.as_ref()) {
        let reason = waiting.reason.clone().unwrap_or_default();
        let text = format!("{reason} {}", waiting.message.clone().unwrap_or_default());
        let text = text.trim().to_owned();
        return match reason.as_str() {
            "ImagePullBackOff"
            | "ErrImageNeverPull"
            | "InvalidImageName"
            | "CreateContainerError" => Standing::Never(text),
            _ => Standing::Waits(text),
        };
    }
    let condition = status
        .and_then(|status| status.conditions.as_ref())
        .and_then(|conditions| conditions.iter().find(|one| one.status == "False"))
        .and_then(|one| one.message.clone());
    Standing::Waits(condition.unwrap_or_else(|| "it was not scheduled".to_owned()))
}
