//! The objects that a JetStream EventBus consists of, as JSON: names, Secrets, configuration, Service, pod.

use kube::ResourceExt;
use kube::api::DynamicObject;
use serde_json::{Map, Value, json};

use super::workload::{SPEC_HASH, spec_hash};
use crate::embedded::controllers::runtime::objects::controller_ref;
use crate::kinds::{self, NATS_IMAGE};

/// Port of clients.
pub(super) const CLIENT_PORT: u16 = 4222;
const CLUSTER_PORT: u16 = 6222;
const METRICS_PORT: u16 = 7777;
const MONITOR_PORT: u16 = 8222;
/// Key of the Secret with the user and password of clients.
pub(super) const CLIENT_AUTH: &str = "client-auth";
const CONTROLLER: &str = "eventbus-controller";

/// `streamConfig` of the real controller's own configuration; keys come out in small letters.
const STREAM_CONFIG: [(&str, &str); 7] = [
    ("discard", "0"),
    ("duplicates", "300s"),
    ("maxage", "168h"),
    ("maxbytes", "-1"),
    ("maxmsgs", "50000"),
    ("replicas", "3"),
    ("retention", "0"),
];

/// The names of one bus's objects, and the bus.
pub(super) struct JetStream<'a> {
    bus: &'a DynamicObject,
    pub namespace: String,
    pub server_auth: String,
    pub client_auth: String,
    pub service: String,
    prefix: String,
}

impl<'a> JetStream<'a> {
    /// Names the objects of a bus.
    pub(super) fn new(bus: &'a DynamicObject) -> Self {
        let prefix = format!("eventbus-{}-js", bus.name_any());
        Self {
            bus,
            namespace: bus.namespace().unwrap_or_default(),
            server_auth: format!("{prefix}-server"),
            client_auth: format!("{prefix}-{CLIENT_AUTH}"),
            service: format!("{prefix}-svc"),
            prefix,
        }
    }

    fn spec(&self) -> &Value {
        &self.bus.data["spec"]["jetstream"]
    }

    fn labels(&self) -> Value {
        let name = self.bus.name_any();
        json!({"controller": CONTROLLER, "eventbus-name": name, "owner-name": name})
    }

    fn metadata(&self, name: &str) -> Value {
        json!({
            "name": name,
            "namespace": self.namespace,
            "labels": self.labels(),
            "ownerReferences": [controller_ref(self.bus, &kinds::event_bus())],
        })
    }

    /// `status.config` of the bus.
    pub(super) fn config(&self, stream_config: &str) -> Value {
        json!({"jetstream": {
            "url": format!("nats://{}.{}.svc:{CLIENT_PORT}", self.service, self.namespace),
            "accessSecret": {"name": self.client_auth, "key": CLIENT_AUTH},
            "streamConfig": stream_config,
        }})
    }

    /// The server's and the clients' Secret, with one new user for both.
    pub(super) fn secrets(&self) -> [Value; 2] {
        let (user, password) = (random(8), random(16));
        let accounts = json!({
            "js": {"jetstream": true, "users": [{"user": user, "pass": password}]},
            "sys": {"users": [{"user": "sys", "pass": random(24)}]},
        });
        let auth = format!("system_account: sys\n\naccounts: {accounts:#}\n");
        let secret = |name: &str, data: Value| json!({"apiVersion": "v1", "kind": "Secret", "type": "Opaque", "metadata": self.metadata(name), "stringData": data});
        [
            secret(
                &self.server_auth,
                json!({"auth": auth, "encryption": random(12)}),
            ),
            secret(
                &self.client_auth,
                json!({CLIENT_AUTH: format!("username: {user}\npassword: {password}")}),
            ),
        ]
    }

    /// The server's configuration file.
    pub(super) fn config_map(&self) -> Value {
        let text =
            |field: &str, default: &str| self.spec()[field].as_str().unwrap_or(default).to_owned();
        let settings =
            text("settings", "max_memory_store: -1\nmax_file_store: 1TB").replace('\n', "\n  ");
        let config = format!(
            "max_payload: {}\nport: {CLIENT_PORT}\nhttp: {MONITOR_PORT}\nserver_name: $POD_NAME\njetstream {{\n  store_dir: \"/data/jetstream/store\"\n  {settings}\n}}\ninclude ./auth.conf\n",
            text("maxPayload", "1MB"),
        );
        with_hash(json!({
            "apiVersion": "v1",
            "kind": "ConfigMap",
            "metadata": self.metadata(&format!("{}-config", self.prefix)),
            "data": {"nats-js": config},
        }))
    }

    /// The headless Service in front of the server.
    pub(super) fn service(&self) -> Value {
        let port = |name: &str, port: u16| json!({"name": name, "port": port});
        with_hash(json!({
            "apiVersion": "v1",
            "kind": "Service",
            "metadata": self.metadata(&self.service),
            "spec": {
                "type": "ClusterIP",
                "clusterIP": "None",
                "publishNotReadyAddresses": true,
                "selector": self.labels(),
                "ports": [
                    port("tcp-client", CLIENT_PORT), port("cluster", CLUSTER_PORT),
                    port("metrics", METRICS_PORT), port("monitor", MONITOR_PORT),
                ],
            },
        }))
    }

    fn claim_name(&self) -> String {
        format!("{0}-vol-{0}-0", self.prefix)
    }

    /// The claim that `persistence` asks for.
    pub(super) fn claim(&self) -> Option<Value> {
        let persistence = self
            .spec()
            .get("persistence")
            .filter(|persistence| persistence.is_object())?;
        let mut spec = json!({
            "accessModes": [persistence["accessMode"].as_str().unwrap_or("ReadWriteOnce")],
            "volumeMode": "Filesystem",
            "resources": {"requests": {"storage": persistence["volumeSize"].as_str().unwrap_or("20Gi")}},
        });
        if let Some(class) = persistence["storageClassName"].as_str() {
            spec["storageClassName"] = json!(class);
        }
        Some(json!({
            "apiVersion": "v1",
            "kind": "PersistentVolumeClaim",
            "metadata": self.metadata(&self.claim_name()),
            "spec": spec,
        }))
    }

    /// The server's pod.
    pub(super) fn pod(&self) -> Value {
        let name = format!("{}-0", self.prefix);
        let mut metadata = self.metadata(&name);
        let custom = &self.spec()["metadata"];
        if let Some(annotations) = custom
            .get("annotations")
            .filter(|annotations| annotations.is_object())
        {
            metadata["annotations"] = annotations.clone();
        }
        if let Some(labels) = custom["labels"].as_object() {
            let mut all = labels.clone();
            all.extend(metadata["labels"].as_object().cloned().unwrap_or_default());
            metadata["labels"] = Value::Object(all);
        }
        with_hash(json!({
            "apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": self.pod_spec(&name),
        }))
    }

    fn pod_spec(&self, name: &str) -> Value {
        let data = match self.claim() {
            Some(_) => {
                json!({"name": "js-data", "persistentVolumeClaim": {"claimName": self.claim_name()}})
            }
            None => json!({"name": "js-data", "emptyDir": {}}),
        };
        let sources = json!([
            {"configMap": {"name": format!("{}-config", self.prefix), "items": [{"key": "nats-js", "path": "nats-js.conf"}]}},
            {"secret": {"name": self.server_auth, "items": [{"key": "auth", "path": "auth.conf"}]}},
        ]);
        let mut spec = json!({
            "hostname": name,
            "subdomain": self.service,
            "terminationGracePeriodSeconds": 60,
            "volumes": [{"name": "config-volume", "projected": {"sources": sources}}, data],
            "containers": [self.container()],
        });
        let fields = [
            "nodeSelector",
            "tolerations",
            "securityContext",
            "imagePullSecrets",
            "priorityClassName",
            "priority",
            "serviceAccountName",
            "affinity",
        ];
        for field in fields {
            if let Some(value) = self.spec().get(field).filter(|value| !value.is_null()) {
                spec[field] = value.clone();
            }
        }
        spec
    }

    fn container(&self) -> Value {
        let mut container = json!({
            "name": "main",
            "image": NATS_IMAGE,
            "command": ["/nats-server", "--config", "/etc/nats-config/nats-js.conf"],
            "ports": [
                {"name": "client", "containerPort": CLIENT_PORT},
                {"name": "cluster", "containerPort": CLUSTER_PORT},
                {"name": "monitor", "containerPort": MONITOR_PORT},
            ],
            "env": [
                {"name": "POD_NAME", "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}},
                {"name": "SERVER_NAME", "value": "$(POD_NAME)"},
                {"name": "POD_NAMESPACE", "valueFrom": {"fieldRef": {"fieldPath": "metadata.namespace"}}},
                {"name": "JS_KEY", "valueFrom": {"secretKeyRef": {"name": self.server_auth, "key": "encryption"}}},
            ],
            "volumeMounts": [
                {"name": "config-volume", "mountPath": "/etc/nats-config"},
                {"name": "js-data", "mountPath": "/data/jetstream"},
            ],
        });
        if let Some(args) = self.spec().get("startArgs").filter(|args| args.is_array()) {
            container["args"] = args.clone();
        }
        container
    }
}

/// The merged `streamConfig` as text; the bus's own lines win.
pub(super) fn stream_config(jetstream: &Value) -> Result<String, String> {
    let mut merged: std::collections::BTreeMap<String, String> = STREAM_CONFIG
        .iter()
        .map(|(key, value)| ((*key).to_owned(), (*value).to_owned()))
        .collect();
    if let Some(text) = jetstream["streamConfig"]
        .as_str()
        .filter(|text| !text.trim().is_empty())
    {
        let failed = |why: String| format!("failed to merge customized stream config, {why}");
        let own: Map<String, Value> =
            serde_yaml::from_str(text).map_err(|error| failed(error.to_string()))?;
        for (key, value) in own {
            let value = match value {
                Value::String(text) => text,
                Value::Number(_) | Value::Bool(_) => value.to_string(),
                _ => return Err(failed(format!("{key} is not a plain value"))),
            };
            merged.insert(key.to_lowercase(), value);
        }
    }
    Ok(merged
        .iter()
        .map(|(key, value)| format!("{key}: {value}\n"))
        .collect())
}

fn with_hash(mut object: Value) -> Value {
    let hash = spec_hash(&object);
    object["metadata"]["annotations"][SPEC_HASH] = json!(hash);
    object
}

fn random(length: usize) -> String {
    let letters = format!(
        "{}{}",
        uuid::Uuid::new_v4().simple(),
        uuid::Uuid::new_v4().simple()
    );
    letters.chars().take(length).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bus(spec: Value) -> DynamicObject {
        serde_json::from_value(json!({
            "apiVersion": "argoproj.io/v1alpha1", "kind": "EventBus",
            "metadata": {"name": "default", "namespace": "lab", "uid": "u"}, "spec": {"jetstream": spec},
        }))
        .expect("bus")
    }

    #[test]
    fn names_and_url_are_those_of_argo() {
        let bus = bus(json!({"version": "latest"}));
        let names = JetStream::new(&bus);
        assert_eq!(
            names.config("")["jetstream"]["url"],
            "nats://eventbus-default-js-svc.lab.svc:4222"
        );
        assert_eq!(
            names.config("")["jetstream"]["accessSecret"]["name"],
            "eventbus-default-js-client-auth"
        );
        assert_eq!(names.pod()["metadata"]["name"], "eventbus-default-js-0");
        assert_eq!(names.service()["spec"]["clusterIP"], "None");
        assert!(names.claim().is_none());
    }

    #[test]
    fn own_stream_config_wins() {
        let config =
            stream_config(&json!({"streamConfig": "replicas: 1\nmaxAge: 72h\n"})).expect("config");
        assert!(
            config.contains("replicas: 1\n")
                && config.contains("maxage: 72h\n")
                && config.contains("maxmsgs: 50000\n")
        );
        assert!(stream_config(&json!({"streamConfig": "a: [1]"})).is_err());
        assert!(stream_config(&json!({"streamConfig": "- x"})).is_err());
    }

    #[test]
    fn both_secrets_know_the_same_user() {
        let bus = bus(json!({"version": "latest"}));
        let [server, client] = JetStream::new(&bus).secrets();
        let client = client["stringData"]["client-auth"].as_str().expect("text");
        let user = client
            .lines()
            .next()
            .and_then(|line| line.strip_prefix("username: "))
            .expect("user");
        assert!(
            server["stringData"]["auth"]
                .as_str()
                .expect("text")
                .contains(user)
        );
    }

    #[test]
    fn persistence_becomes_a_claim() {
        let bus = bus(json!({"version": "latest", "persistence": {"volumeSize": "1Gi"}}));
        let names = JetStream::new(&bus);
        let claim = names.claim().expect("claim");
        assert_eq!(
            claim["metadata"]["name"],
            "eventbus-default-js-vol-eventbus-default-js-0"
        );
        assert_eq!(
            names.pod()["spec"]["volumes"][1]["persistentVolumeClaim"]["claimName"],
            claim["metadata"]["name"]
        );
    }
}
