//! Argo: kinds, controllers and what they watch, the EventBus, and the traps of the quick start.

use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::core::v1::ConfigMap;
use kube::api::{DynamicObject, ListParams};
use kube::{Api, ResourceExt as _};
use serde_json::Value;

use super::{Patient, Point, why};
use crate::kinds;

const EVENTS_INSTALL: &str = "kubectl create namespace argo-events; kubectl apply -f https://github.com/argoproj/argo-events/releases/download/v1.9.11/install.yaml";
const WORKFLOWS_INSTALL: &str = "kubectl create namespace argo; kubectl apply --server-side -n argo -f https://github.com/argoproj/argo-workflows/releases/download/v4.1.2/quick-start-minimal.yaml";
const KINDS: [(&str, &str); 6] = [
    ("eventbus", EVENTS_INSTALL),
    ("eventsources", EVENTS_INSTALL),
    ("sensors", EVENTS_INSTALL),
    ("workflows", WORKFLOWS_INSTALL),
    ("workflowtemplates", WORKFLOWS_INSTALL),
    ("workflowtaskresults", WORKFLOWS_INSTALL),
];
/// What the controller is called in its container's arguments: EventSources and Sensors run from the same image.
const CONTROLLER_WORDS: [&str; 2] = ["controller", "controller-service"];
/// Releases whose texts and behaviour the labs know.
const EVENTS_KNOWN: [&str; 1] = ["1.9."];
const WORKFLOWS_KNOWN: [&str; 3] = ["3.7.", "4.0.", "4.1."];

pub(super) async fn points(patient: &Patient<'_>) -> Vec<Point> {
    let mut points = vec![kinds_there(patient).await];
    if patient.embedded {
        let shows = "eventlab status";
        points.push(Point::good(
            "argo events",
            "part of eventlab's own cluster",
            shows,
        ));
        points.push(Point::good(
            "argo workflows",
            "part of eventlab's own cluster",
            shows,
        ));
        points.push(event_bus(patient, None).await);
        points.push(artifacts(patient, None).await);
        return points;
    }
    let controllers = Controllers::find(patient).await;
    points.push(controllers.events(patient));
    points.push(controllers.workflows(patient));
    points.push(event_bus(patient, controllers.events_home()).await);
    let settings = controllers.settings(patient).await;
    points.push(instance_id(patient, settings.as_ref()));
    points.push(artifacts(patient, settings.as_ref()).await);
    points.extend(settings.map(|settings| kept_workflows(patient, &settings)));
    points
}

async fn kinds_there(patient: &Patient<'_>) -> Point {
    let name = "argo kinds";
    let shows = format!("{} api-resources --api-group argoproj.io", patient.kubectl);
    let client = &patient.context.client;
    let there = match client
        .list_api_group_resources("argoproj.io/v1alpha1")
        .await
    {
        Ok(list) => list.resources,
        Err(kube::Error::Api(status)) if status.code == 404 => Vec::new(),
        Err(error) => return Point::unknown(name, why(&error), shows),
    };
    let lacking: Vec<_> = KINDS
        .iter()
        .filter(|(kind, _)| !there.iter().any(|one| one.name == *kind))
        .collect();
    let Some((_, install)) = lacking.first() else {
        return Point::good(name, format!("all {} are served", KINDS.len()), shows);
    };
    let names: Vec<_> = lacking.iter().map(|(kind, _)| *kind).collect();
    Point::missing(name, format!("not served: {}", names.join(", ")), shows).mended_by(*install)
}

/// What is known of a controller.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Controller {
    name: String,
    namespace: String,
    image: String,
    ready: i32,
    /// Command and arguments.
    words: Vec<String>,
    /// Environment variables with a value of their own.
    environment: Vec<(String, String)>,
}

impl Controller {
    fn of(deployment: &Deployment, image: &str, word: Option<&str>) -> Option<Self> {
        let template = deployment.spec.template.spec.as_ref()?;
        let container = template
            .containers
            .iter()
            .find(|container| is_image(container.image.as_deref().unwrap_or_default(), image))?;
        let words: Vec<String> = container
            .command
            .iter()
            .chain(&container.args)
            .flatten()
            .cloned()
            .collect();
        let is_it = word.is_none_or(|word| words.iter().any(|one| one == word));
        is_it.then(|| Self {
            name: deployment.name_any(),
            namespace: deployment.namespace().unwrap_or_default(),
            image: container.image.clone().unwrap_or_default(),
            ready: deployment
                .status
                .as_ref()
                .and_then(|status| status.ready_replicas)
                .unwrap_or(0),
            words,
            environment: container
                .env
                .iter()
                .flatten()
                .filter_map(|one| Some((one.name.clone(), one.value.clone()?)))
                .collect(),
        })
    }

    /// The release that the image's tag names.
    fn version(&self) -> &str {
        let name = self.image.split('@').next().unwrap_or_default();
        let tag = name.rsplit('/').next().unwrap_or_default();
        let tag = tag.split_once(':').map_or("", |(_, tag)| tag);
        tag.strip_prefix('v').unwrap_or(tag)
    }

    /// The value of an option: of its arguments, else of the variable that stands for it.
    fn option(&self, name: &str) -> Option<&str> {
        let mut words = self.words.iter().enumerate();
        let given = words.find_map(|(index, word)| {
            match word
                .strip_prefix("--")?
                .strip_prefix(name)?
                .strip_prefix('=')
            {
                Some(value) => Some(value),
                None if word.len() == name.len() + 2 => {
                    let next = self.words.get(index + 1).map_or("", String::as_str);
                    Some(if next.starts_with('-') { "" } else { next })
                }
                None => None,
            }
        });
        given.or_else(|| {
            let variable = format!("ARGO_{}", name.replace('-', "_").to_ascii_uppercase());
            let mut environment = self.environment.iter();
            environment.find_map(|(name, value)| (*name == variable).then_some(value.as_str()))
        })
    }

    /// The one namespace that it watches; `None` when it watches all. Without `--namespaced` it does, whatever
    /// `--managed-namespace` says.
    fn watches(&self) -> Option<&str> {
        let namespaced = self.option("namespaced")?;
        if matches!(namespaced, "false" | "False" | "FALSE" | "f" | "F" | "0") {
            return None;
        }
        let managed = self.option("managed-namespace");
        Some(
            managed
                .filter(|name| !name.is_empty())
                .unwrap_or(&self.namespace),
        )
    }

    /// How much it is the one that looks after a namespace.
    fn rank(&self, namespace: &str) -> (bool, bool) {
        let watches = self.watches().is_none_or(|only| only == namespace);
        (watches, self.ready > 0)
    }

    fn point(
        &self,
        name: &'static str,
        known: &[&str],
        patient: &Patient<'_>,
        install: &str,
    ) -> Point {
        let shows = format!(
            "{} -n {} get deployment {} -o wide",
            patient.kubectl, self.namespace, self.name
        );
        let place = format!("{} in {}, {}", self.name, self.namespace, self.image);
        if self.ready < 1 {
            return Point::missing(name, format!("{place}: no replica is ready"), shows).mended_by(
                format!(
                    "{} -n {} describe deployment {}",
                    patient.kubectl, self.namespace, self.name
                ),
            );
        }
        if let Some(only) = self.watches().filter(|only| *only != patient.namespace()) {
            return Point::missing(
                name,
                format!("{place}: it watches namespace {only} alone, and nobody looks at {}", patient.namespace()),
                shows,
            )
            .mended_by(format!("install it for the whole cluster ({install}), or take --namespaced and --managed-namespace out of its arguments and give it the cluster's Roles"));
        }
        let version = self.version();
        if known.iter().any(|release| version.starts_with(release)) {
            return Point::good(name, place, shows);
        }
        let releases: Vec<String> = known.iter().map(|release| format!("{release}x")).collect();
        Point::warn(
            name,
            format!(
                "{place}: release {}, and the labs know {}; lines they cannot read leave verdicts unproven",
                if version.is_empty() { "unknown" } else { version },
                releases.join(", ")
            ),
            shows,
        )
        .mended_by(install)
    }
}

/// Whether an image is of this name, in whatever registry and folder: mirrors keep the last part.
fn is_image(image: &str, name: &str) -> bool {
    let image = image.split('@').next().unwrap_or_default();
    let last = image.rsplit('/').next().unwrap_or_default();
    last.split(':')
        .next()
        .is_some_and(|last| last.contains(name))
}

/// The controllers found, or why none could be looked for.
struct Controllers {
    events: Option<Controller>,
    workflows: Option<Controller>,
    unseen: Option<String>,
}

impl Controllers {
    async fn find(patient: &Patient<'_>) -> Self {
        let client = &patient.context.client;
        let everywhere: Api<Deployment> = Api::all(client.clone());
        let (deployments, unseen) = match everywhere.list(&ListParams::default()).await {
            Ok(list) => (list.items, None),
            Err(error) => {
                let mut found = Vec::new();
                for namespace in ["argo-events", "argo"] {
                    let api: Api<Deployment> = Api::namespaced(client.clone(), namespace);
                    if let Ok(list) = api.list(&ListParams::default()).await {
                        found.extend(list.items);
                    }
                }
                (found, Some(why(&error)))
            }
        };
        // Several may be installed, each for namespaces of its own.
        let best = |image: &str, word: Option<&str>| {
            let found = deployments
                .iter()
                .rev()
                .filter_map(|one| Controller::of(one, image, word));
            found.max_by_key(|one| one.rank(patient.namespace()))
        };
        Self {
            events: CONTROLLER_WORDS
                .iter()
                .find_map(|word| best("argo-events", Some(word))),
            workflows: best("workflow-controller", None),
            unseen,
        }
    }

    fn events_home(&self) -> Option<&str> {
        self.events.as_ref().map(|one| one.namespace.as_str())
    }

    fn events(&self, patient: &Patient<'_>) -> Point {
        self.point(
            "argo events",
            self.events.as_ref(),
            &EVENTS_KNOWN,
            EVENTS_INSTALL,
            patient,
        )
    }

    fn workflows(&self, patient: &Patient<'_>) -> Point {
        self.point(
            "argo workflows",
            self.workflows.as_ref(),
            &WORKFLOWS_KNOWN,
            WORKFLOWS_INSTALL,
            patient,
        )
    }

    fn point(
        &self,
        name: &'static str,
        controller: Option<&Controller>,
        known: &[&str],
        install: &str,
        patient: &Patient<'_>,
    ) -> Point {
        let shows = format!("{} get deployments -A -o wide | grep argo", patient.kubectl);
        match (controller, &self.unseen) {
            (Some(controller), _) => controller.point(name, known, patient, install),
            (None, _) if patient.node => Point::good(
                name,
                "no Deployment; `eventlab node` works there and stands for its controller",
                format!("{} get node eventlab -o wide", patient.kubectl),
            ),
            (None, Some(reason)) => Point::unknown(name, reason.clone(), shows).mended_by(
                "ask whoever runs the cluster whether its controller watches this namespace",
            ),
            (None, None) => {
                Point::missing(name, "no Deployment runs its controller", shows).mended_by(install)
            }
        }
    }

    /// The workflow controller's own settings.
    async fn settings(&self, patient: &Patient<'_>) -> Option<ConfigMap> {
        let controller = self.workflows.as_ref()?;
        let name = controller
            .option("configmap")
            .filter(|name| !name.is_empty())
            .unwrap_or("workflow-controller-configmap");
        let api: Api<ConfigMap> =
            Api::namespaced(patient.context.client.clone(), &controller.namespace);
        api.get_opt(name).await.ok().flatten()
    }
}

/// A setting of the workflow controller: a key of its own, or inside the one key `config`.
fn setting(settings: &ConfigMap, key: &str) -> Option<Value> {
    let data = settings.data.as_ref()?;
    if let Some(text) = data.get(key) {
        return Some(serde_yaml::from_str(text).unwrap_or_else(|_| Value::String(text.clone())));
    }
    let all: Value = serde_yaml::from_str(data.get("config")?).ok()?;
    all.get(key).cloned()
}

fn instance_id(patient: &Patient<'_>, settings: Option<&ConfigMap>) -> Point {
    let name = "instance id";
    let shows = format!(
        "{} get configmap -A | grep workflow-controller-configmap",
        patient.kubectl
    );
    let Some(settings) = settings else {
        if patient.node {
            return Point::good(name, "`eventlab node` takes every Workflow", shows);
        }
        return Point::unknown(
            name,
            "the workflow controller's settings could not be read",
            shows,
        )
        .mended_by("read its ConfigMap yourself: a key instanceID there would make it leave the labs' Workflows alone");
    };
    match setting(settings, "instanceID") {
        Some(Value::String(id)) if !id.is_empty() => Point::missing(
            name,
            format!("the controller takes only Workflows labelled workflows.argoproj.io/controller-instanceid={id}; the labs' have no such label"),
            shows,
        )
        .mended_by("remove instanceID from the controller's settings, or run a controller without one"),
        _ => Point::good(name, "none: the controller takes every Workflow", shows),
    }
}

/// How many ended Workflows the controller keeps: the quick start ten, and a stage may have fifty.
fn kept_workflows(patient: &Patient<'_>, settings: &ConfigMap) -> Point {
    let name = "kept workflows";
    let map = settings.name_any();
    let of_map = settings
        .namespace()
        .map_or_else(String::new, |namespace| format!(" -n {namespace}"));
    let shows = format!("{}{of_map} get configmap {map} -o yaml", patient.kubectl);
    let policy = setting(settings, "retentionPolicy");
    let kept: Vec<String> = ["completed", "failed", "errored"]
        .into_iter()
        .filter_map(|kind| {
            let count = policy.as_ref()?.get(kind)?.as_u64()?;
            Some(format!("{count} {kind}"))
        })
        .collect();
    if kept.is_empty() {
        let found = "no limit: ended Workflows stay as long as their ttlStrategy says";
        return Point::good(name, found, shows);
    }
    Point::warn(
        name,
        format!(
            "the controller keeps {} Workflows and deletes older ones: eventlab reads each as it ends, and what ends while no eventlab runs may be gone unread (its row then stays unproven)",
            kept.join(", ")
        ),
        shows,
    )
    .mended_by(format!(
        "stay with a stage until it is judged; or remove retentionPolicy: {}{of_map} edit configmap {map}",
        patient.kubectl
    ))
}

/// The quick start's controller-wide artifact repository does not exist outside its own namespace.
async fn artifacts(patient: &Patient<'_>, settings: Option<&ConfigMap>) -> Point {
    let name = "artifacts";
    let shows = format!(
        "{} get configmap artifact-repositories -o yaml",
        patient.kubectl_here()
    );
    let api: Api<ConfigMap> = Api::namespaced(patient.context.client.clone(), patient.namespace());
    let own = match api.get_opt("artifact-repositories").await {
        Ok(own) => own,
        Err(error) => return Point::unknown(name, why(&error), shows),
    };
    let trap = settings
        .and_then(|settings| setting(settings, "artifactRepository"))
        .map(|repository| trap(&repository));
    if own.is_some() {
        return Point::good(
            name,
            "the namespace has a repository of its own, without log archiving",
            shows,
        );
    }
    let found = match trap.flatten() {
        Some(trap) => format!("the controller's default repository would be used: {trap}"),
        None => {
            "the namespace has no ConfigMap artifact-repositories: the controller's default is used"
                .to_owned()
        }
    };
    Point::missing(name, found, shows).mended_by(patient.eventlab("cluster prepare"))
}

fn trap(repository: &Value) -> Option<String> {
    if let Some(plugin) = repository.get("plugin") {
        let plugin = plugin.get("name").and_then(Value::as_str).unwrap_or("?");
        return Some(format!(
            "it names the artifact plugin `{plugin}`, which is not configured; pods fail with `artifact driver {plugin} not found`"
        ));
    }
    (repository.get("archiveLogs") == Some(&Value::Bool(true))).then(|| {
        "it archives logs (archiveLogs: true); where its store is not reachable, a Workflow ends in Error although its work was done".to_owned()
    })
}

async fn event_bus(patient: &Patient<'_>, events_home: Option<&str>) -> Point {
    let name = "event bus";
    let shows = format!("{} get eventbus default -o yaml", patient.kubectl_here());
    let api: Api<DynamicObject> = Api::namespaced_with(
        patient.context.client.clone(),
        patient.namespace(),
        &kinds::event_bus(),
    );
    let bus = match api.get_opt("default").await {
        Ok(Some(bus)) => bus,
        Ok(None) => {
            return Point::missing(name, "there is no EventBus `default`", shows)
                .mended_by(patient.eventlab("cluster prepare"));
        }
        Err(error) => return Point::unknown(name, why(&error), shows),
    };
    let known = match events_home {
        Some(home) => versions(patient, home).await,
        None => None,
    };
    judge_bus(&bus.data, known.as_deref(), patient, shows)
}

fn judge_bus(
    data: &Value,
    known: Option<&[String]>,
    patient: &Patient<'_>,
    shows: String,
) -> Point {
    let name = "event bus";
    let apply = patient.eventlab("cluster prepare");
    let Some(jetstream) = data.pointer("/spec/jetstream") else {
        return Point::missing(
            name,
            "it is not of type jetstream; the labs need its consumers",
            shows,
        )
        .mended_by(apply);
    };
    let version = jetstream["version"].as_str().unwrap_or_default();
    if let Some(known) = known
        && !known.iter().any(|one| one == version)
    {
        return Point::missing(
            name,
            format!(
                "its version `{version}` is not one the controller knows ({}): no pod is made",
                known.join(", ")
            ),
            shows,
        )
        .mended_by(apply);
    }
    let replicas = jetstream["replicas"].as_i64().unwrap_or(3);
    let stream = stream_replicas(jetstream["streamConfig"].as_str().unwrap_or_default());
    if replicas < stream {
        return Point::missing(
            name,
            format!("{replicas} replica and streams of {stream}: the stream cannot be made (`Failed to create Stream`)"),
            shows,
        )
        .mended_by(apply);
    }
    let conditions = data.pointer("/status/conditions").and_then(Value::as_array);
    let waits = ["Deployed", "Configured"].into_iter().find(|kind| {
        !conditions.into_iter().flatten().any(|one| {
            one["type"].as_str() == Some(*kind) && one["status"].as_str() == Some("True")
        })
    });
    match waits {
        None => Point::good(
            name,
            format!("jetstream {version}, {replicas} replica, streams of {stream}"),
            shows,
        ),
        Some(kind) => Point::warn(name, format!("not {kind} yet"), shows).mended_by(format!(
            "{} get pods -l eventbus-name=default",
            patient.kubectl_here()
        )),
    }
}

/// Replicas of the stream: the controller's default is three.
fn stream_replicas(config: &str) -> i64 {
    let all: std::collections::BTreeMap<String, Value> =
        serde_yaml::from_str(config).unwrap_or_default();
    all.iter()
        .find(|(key, _)| key.eq_ignore_ascii_case("replicas"))
        .and_then(|(_, value)| value.as_i64())
        .unwrap_or(3)
}

/// The JetStream versions that the Argo Events controller is configured with.
async fn versions(patient: &Patient<'_>, home: &str) -> Option<Vec<String>> {
    let api: Api<ConfigMap> = Api::namespaced(patient.context.client.clone(), home);
    let map = api.get_opt("argo-events-controller-config").await.ok()??;
    let text = map.data?.remove("controller-config.yaml")?;
    let config: Value = serde_yaml::from_str(&text).ok()?;
    let versions = config.pointer("/eventBus/jetstream/versions")?.as_array()?;
    Some(
        versions
            .iter()
            .filter_map(|one| one["version"].as_str().map(str::to_owned))
            .collect(),
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn deployment(image: &str, command: &[&str], args: &[&str], ready: i32) -> Deployment {
        serde_json::from_value(json!({
            "metadata": {"name": "controller", "namespace": "argo"},
            "spec": {"selector": {}, "template": {"spec": {"containers": [{"name": "c", "image": image, "command": command, "args": args}]}}},
            "status": {"readyReplicas": ready},
        }))
        .unwrap()
    }

    #[test]
    fn what_a_controller_watches_is_read_from_its_words() {
        let image = "quay.io/argoproj/workflow-controller:v4.1.2";
        for (args, watches) in [
            (&["--configmap", "x"][..], None),
            (&["--namespaced"], Some("argo")),
            (&["--namespaced=true"], Some("argo")),
            (&["--namespaced=false"], None),
            (
                &["--namespaced", "--managed-namespace", "shop"],
                Some("shop"),
            ),
            (&["--namespaced", "--managed-namespace=shop"], Some("shop")),
            (&["--managed-namespace=shop", "--namespaced"], Some("shop")),
            // It is ignored without the other.
            (&["--managed-namespace=shop"], None),
            (&["--managed-namespace", "shop"], None),
            (&["--namespaced", "--configmap=x"], Some("argo")),
        ] {
            let found = Controller::of(
                &deployment(image, &[], args, 1),
                "workflow-controller",
                None,
            )
            .unwrap();
            assert_eq!(found.watches(), watches, "{args:?}");
            assert_eq!(found.version(), "4.1.2");
        }
        let mut by_variables = deployment(image, &[], &[], 1);
        let template = by_variables.spec.template.spec.as_mut().unwrap();
        template.containers[0].env =
            serde_json::from_value(json!([{"name": "ARGO_NAMESPACED", "value": "true"},
            {"name": "ARGO_MANAGED_NAMESPACE", "value": "shop"}]))
            .unwrap();
        let found = Controller::of(&by_variables, "workflow-controller", None).unwrap();
        assert_eq!(found.watches(), Some("shop"));
    }

    #[test]
    fn a_mirrored_image_is_known_by_its_last_part() {
        for (image, known) in [
            ("quay.io/argoproj/argo-events:v1.9.11", true),
            (
                "registry.corp:5000/mirror/quay/argo-events:v1.9.11@sha256:abc",
                true,
            ),
            ("argo-events.corp/web:1", false),
            ("argo-events:5000/web", false),
            ("", false),
        ] {
            assert_eq!(is_image(image, "argo-events"), known, "{image}");
        }
    }

    #[test]
    fn sensors_and_event_sources_are_no_controllers() {
        let image = "quay.io/argoproj/argo-events:v1.9.11@sha256:abc";
        let word = Some("controller");
        assert_eq!(
            Controller::of(
                &deployment(image, &[], &["sensor-service"], 1),
                "argo-events",
                word
            ),
            None
        );
        let found = Controller::of(
            &deployment(image, &[], &["controller"], 1),
            "argo-events",
            word,
        )
        .unwrap();
        assert_eq!(found.version(), "1.9.11");
    }

    #[test]
    fn settings_are_found_in_both_forms() {
        let map = |data: Value| serde_json::from_value::<ConfigMap>(json!({"data": data})).unwrap();
        for data in [
            json!({"instanceID": "a"}),
            json!({"config": "instanceID: a\n"}),
        ] {
            assert_eq!(setting(&map(data), "instanceID"), Some(json!("a")));
        }
        assert_eq!(setting(&map(json!({"config": "- 1"})), "instanceID"), None);
        let repository = setting(
            &map(json!({"artifactRepository": "archiveLogs: true\ns3: {}\n"})),
            "artifactRepository",
        )
        .unwrap();
        assert!(trap(&repository).unwrap().contains("archives logs"));
        assert!(
            trap(&json!({"plugin": {"name": "test"}}))
                .unwrap()
                .contains("`test`")
        );
        assert_eq!(trap(&json!({"s3": {}})), None);
    }

    #[test]
    fn a_stream_has_three_replicas_unless_it_says_otherwise() {
        for (text, replicas) in [
            ("", 3),
            ("replicas: 1", 1),
            ("Replicas: 1\nmaxAge: 1h", 1),
            ("maxAge: 1h", 3),
            ("- x", 3),
        ] {
            assert_eq!(stream_replicas(text), replicas, "{text}");
        }
    }
}
