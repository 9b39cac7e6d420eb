//! The requests that the argo CLI and k9s make, one after the other, as both are written: neither program is needed.
//!
//! What each asks for is taken from their sources (argo 4.1, k9s on client-go 0.35).

use axum::body::Body;
use eventlab::embedded::api::logs::{LogError, LogRequest, LogStream, PodLogs};
use futures::future::BoxFuture;
use http::Request;
use http_body_util::BodyExt;
use serde_json::{Value, json};
use tower::ServiceExt;

use crate::api_support::{Lab, create};

const JSON: &str = "application/json";
const PROTOBUF: &str = "application/vnd.kubernetes.protobuf";
/// What typed clients accept.
const TYPED: &str = "application/vnd.kubernetes.protobuf,application/json";
/// What k9s accepts for kinds without a renderer of their own.
const TABLE: &str = "application/json;as=Table;v=v1;g=meta.k8s.io,application/json";
const WORKFLOWS: &str = "/apis/argoproj.io/v1alpha1/namespaces/lab/workflows";

struct Client<'a> {
    lab: &'a Lab,
    token: String,
}

impl Client<'_> {
    async fn send(&self, request: http::request::Builder, body: impl Into<Body>) -> (u16, String) {
        let request = request
            .header("Authorization", format!("Bearer {}", self.token))
            .body(body.into())
            .unwrap();
        let response = self.lab.server.router().oneshot(request).await.unwrap();
        let code = response.status().as_u16();
        let body = response.into_body().collect().await.unwrap().to_bytes();
        (code, String::from_utf8_lossy(&body).into_owned())
    }

    /// Sends JSON, and answers the object of a success.
    async fn write(&self, method: &str, path: &str, media_type: &str, body: &Value) -> Value {
        let request = Request::builder().method(method).uri(path);
        let request = request
            .header("Content-Type", media_type)
            .header("Accept", JSON);
        let (code, text) = self.send(request, body.to_string()).await;
        assert!(code == 200 || code == 201, "{method} {path}: {code} {text}");
        serde_json::from_str(&text).unwrap()
    }

    async fn get(&self, path: &str, accept: &str) -> Value {
        let request = Request::get(path).header("Accept", accept);
        let (code, text) = self.send(request, Body::empty()).await;
        assert_eq!(code, 200, "{path}: {text}");
        serde_json::from_str(&text).unwrap_or_else(|error| panic!("{path}: {error}: {text}"))
    }

    /// The objects that a watch says until it ends.
    async fn watch(&self, path: &str, accept: &str) -> Vec<Value> {
        let request = Request::get(format!("{path}&timeoutSeconds=1")).header("Accept", accept);
        let (code, text) = self.send(request, Body::empty()).await;
        assert_eq!(code, 200, "{path}: {text}");
        text.lines()
            .map(|line| serde_json::from_str(line).unwrap())
            .collect()
    }

    /// Asks, in protobuf, whether we may do something.
    async fn may(&self, asked: Asked<'_>) -> bool {
        let request = Request::post("/apis/authorization.k8s.io/v1/selfsubjectaccessreviews")
            .header("Content-Type", PROTOBUF)
            .header("Accept", TYPED);
        let (code, text) = self.send(request, asked.review()).await;
        assert_eq!(code, 201, "{text}");
        let answer: Value = serde_json::from_str(&text).unwrap();
        answer["status"]["allowed"].as_bool().unwrap()
    }
}

/// A question about rights.
#[derive(Clone, Copy, Default)]
struct Asked<'a> {
    namespace: &'a str,
    verb: &'a str,
    group: &'a str,
    resource: &'a str,
    subresource: &'a str,
    name: &'a str,
}

/// One protobuf field of bytes.
fn field(number: u8, bytes: &[u8]) -> Vec<u8> {
    let mut out = vec![number << 3 | 2];
    let mut length = bytes.len();
    while length >= 0x80 {
        out.push((length & 0x7f) as u8 | 0x80);
        length >>= 7;
    }
    out.push(length as u8);
    out.extend_from_slice(bytes);
    out
}

fn envelope(version: &str, kind: &str, raw: &[u8]) -> Vec<u8> {
    let meta = [field(1, version.as_bytes()), field(2, kind.as_bytes())].concat();
    let unknown = [field(1, &meta), field(2, raw), field(3, b""), field(4, b"")].concat();
    [b"k8s\0".to_vec(), unknown].concat()
}

impl Asked<'_> {
    fn review(self) -> Vec<u8> {
        let parts = [
            (1, self.namespace),
            (2, self.verb),
            (3, self.group),
            (4, ""),
            (5, self.resource),
            (6, self.subresource),
            (7, self.name),
        ];
        let attributes: Vec<u8> = parts
            .into_iter()
            .flat_map(|(number, text)| field(number, text.as_bytes()))
            .collect();
        let spec = field(1, &attributes);
        let review = [field(1, b""), field(2, &spec), field(3, b"")].concat();
        envelope(
            "authorization.k8s.io/v1",
            "SelfSubjectAccessReview",
            &review,
        )
    }
}

async fn workflow(lab: &Lab, name: &str, phase: &str) {
    let labels = json!({"workflows.argoproj.io/phase": phase, "workflows.argoproj.io/completed":
        (phase != "Running").to_string()});
    let body = json!({"apiVersion": "argoproj.io/v1alpha1", "kind": "Workflow",
        "metadata": {"name": name, "labels": labels}, "spec": {"entrypoint": "main"},
        "status": {"phase": phase, "nodes": {name: {"id": name, "phase": phase}}}});
    create(lab, WORKFLOWS, body).await;
}

/// Before every command: may we list cluster templates? A refusal hides them, an error ends the command.
async fn argo_begins(client: &Client<'_>) {
    for verb in ["get", "list", "watch"] {
        let asked = Asked {
            verb,
            group: "argoproj.io",
            resource: "clusterworkflowtemplates",
            ..Asked::default()
        };
        assert!(client.may(asked).await, "{verb}");
    }
}

#[tokio::test]
async fn the_argo_command_line_lists_gets_watches_and_changes() {
    let lab = Lab::new().await;
    let client = Client {
        lab: &lab,
        token: lab.admin_token(),
    };
    workflow(&lab, "done", "Succeeded").await;
    workflow(&lab, "going", "Running").await;
    argo_begins(&client).await;

    // argo list --running
    let asked = Asked {
        namespace: "lab",
        verb: "list",
        group: "argoproj.io",
        resource: "workflows",
        ..Asked::default()
    };
    assert!(client.may(asked).await);
    let running = "labelSelector=workflows.argoproj.io%2Fcompleted%21%3Dtrue";
    for _ in 0..2 {
        let list = client.get(&format!("{WORKFLOWS}?{running}"), JSON).await;
        assert_eq!(list["items"].as_array().unwrap().len(), 1, "{list}");
    }
    let phases =
        "labelSelector=workflows.argoproj.io%2Fphase+in+%28Succeeded%2CFailed%29&limit=500";
    let list = client.get(&format!("{WORKFLOWS}?{phases}"), JSON).await;
    assert_eq!(list["items"][0]["metadata"]["name"], "done");

    // argo get, argo watch
    assert_eq!(
        client.get(&format!("{WORKFLOWS}/done"), JSON).await["status"]["phase"],
        "Succeeded"
    );
    let by_name = "fieldSelector=metadata.name%3Ddone&resourceVersion=0&watch=true";
    let events = client.watch(&format!("{WORKFLOWS}?{by_name}"), JSON).await;
    assert_eq!(events[0]["type"], "ADDED");
    assert_eq!(events[0]["object"]["kind"], "Workflow");

    // argo submit --server-dry-run, argo submit
    let template = json!({"apiVersion": "argoproj.io/v1alpha1", "kind": "Workflow",
        "metadata": {"generateName": "new-", "labels": {"workflows.argoproj.io/creator": "admin"}}, "spec": {}});
    let post = |query: &str| {
        Request::post(format!("{WORKFLOWS}{query}"))
            .header("Content-Type", JSON)
            .header("Accept", JSON)
    };
    let (code, text) = client.send(post("?dryRun=All"), template.to_string()).await;
    assert_eq!(code, 201, "{text}");
    let count = client.get(WORKFLOWS, JSON).await["items"]
        .as_array()
        .unwrap()
        .len();
    assert_eq!(count, 2);
    let (code, text) = client.send(post(""), template.to_string()).await;
    assert!(code == 201 && text.contains("\"name\":\"new-"), "{text}");

    // argo stop
    let patch = Request::patch(format!("{WORKFLOWS}/going"))
        .header("Content-Type", "application/merge-patch+json")
        .header("Accept", JSON);
    let (code, text) = client.send(patch, r#"{"spec":{"shutdown":"Stop"}}"#).await;
    assert_eq!(code, 200, "{text}");

    // argo retry and resume: the whole object with its status, by the main URL
    let mut whole = client.get(&format!("{WORKFLOWS}/going"), JSON).await;
    let stale = whole.clone();
    whole["status"]["nodes"]["going"]["phase"] = "Skipped".into();
    let put = || {
        Request::put(format!("{WORKFLOWS}/going"))
            .header("Content-Type", JSON)
            .header("Accept", JSON)
    };
    let (code, text) = client.send(put(), whole.to_string()).await;
    assert!(code == 200 && text.contains("Skipped"), "{text}");
    let (code, _) = client.send(put(), stale.to_string()).await;
    assert_eq!(code, 409);
    // Pods of the old attempt go by a typed DELETE with options in protobuf; one that is gone already is fine.
    let options = envelope("v1", "DeleteOptions", &field(4, b"Background"));
    let delete = Request::delete("/api/v1/namespaces/lab/pods/going-1")
        .header("Content-Type", PROTOBUF)
        .header("Accept", TYPED);
    let (code, text) = client.send(delete, options).await;
    assert!(
        code == 404 && text.contains("pods \\\"going-1\\\" not found"),
        "{text}"
    );

    // argo delete --force
    let patch = Request::patch(format!("{WORKFLOWS}/going"))
        .header("Content-Type", "application/merge-patch+json");
    let (code, _) = client
        .send(patch, r#"{"metadata":{"finalizers":null}}"#)
        .await;
    assert_eq!(code, 200);
    let delete = Request::delete(format!("{WORKFLOWS}/going")).header("Content-Type", JSON);
    let (code, _) = client
        .send(delete, r#"{"propagationPolicy":"Background"}"#)
        .await;
    assert_eq!(code, 200);
}

#[tokio::test]
async fn the_argo_command_line_reads_logs_by_pods() {
    let lab = Lab::new().await;
    let client = Client {
        lab: &lab,
        token: lab.admin_token(),
    };
    lab.server.set_pod_logs(std::sync::Arc::new(Echo));
    let pod = json!({"metadata": {"name": "w-1", "labels": {"workflows.argoproj.io/workflow": "w"}},
        "spec": {"nodeName": "eventlab", "containers": [{"name": "main", "image": "eventlab:dev"}]}});
    create(&lab, "/api/v1/namespaces/lab/pods", pod).await;
    argo_begins(&client).await;
    let selector = "labelSelector=workflows.argoproj.io%2Fworkflow%3Dw";
    // Watch, then list.
    let watch = format!("/api/v1/namespaces/lab/pods?{selector}&watch=true");
    let events = client.watch(&watch, TYPED).await;
    assert_eq!(events[0]["object"]["metadata"]["name"], "w-1");
    let list = client
        .get(&format!("/api/v1/namespaces/lab/pods?{selector}"), TYPED)
        .await;
    assert_eq!(list["items"].as_array().unwrap().len(), 1);
    let one = format!("/api/v1/namespaces/lab/pods?{selector}&fieldSelector=metadata.name%3Dw-1");
    assert_eq!(
        client.get(&one, TYPED).await["items"]
            .as_array()
            .unwrap()
            .len(),
        1
    );
    // Each line must begin with a time and a space.
    let log = "/api/v1/namespaces/lab/pods/w-1/log?container=main&follow=true&timestamps=true";
    let (code, text) = client
        .send(Request::get(log).header("Accept", JSON), Body::empty())
        .await;
    assert_eq!(
        (code, text.as_str()),
        (200, "2026-01-02T03:04:05Z container=main follow=true\n")
    );
}

/// Says what it was asked for.
struct Echo;

impl PodLogs for Echo {
    fn open(&self, request: LogRequest) -> BoxFuture<'_, Result<LogStream, LogError>> {
        let options = request.options;
        let mut line = format!("container={} follow={}", request.container, options.follow);
        if options.timestamps {
            line.insert_str(0, "2026-01-02T03:04:05Z ");
        }
        if let Some(lines) = options.tail_lines {
            line.push_str(&format!(" tail={lines}"));
        }
        line.push('\n');
        let line = futures::stream::iter([Ok(axum::body::Bytes::from(line))]);
        Box::pin(async { Ok(Box::pin(line) as LogStream) })
    }
}

#[tokio::test]
async fn the_argo_command_line_ends_suspends_and_submits_again() {
    let lab = Lab::new().await;
    let client = Client {
        lab: &lab,
        token: lab.admin_token(),
    };
    workflow(&lab, "w", "Running").await;
    let one = format!("{WORKFLOWS}/w");
    let merge = "application/merge-patch+json";

    // argo terminate: two reads, a patch with who did it, a read
    client.get(&one, JSON).await;
    client.get(&one, JSON).await;
    let patch = json!({"metadata": {"labels": {"workflows.argoproj.io/actor": "admin"}}, "spec": {"shutdown": "Terminate"}});
    client.write("PATCH", &one, merge, &patch).await;
    assert_eq!(
        client.get(&one, JSON).await["spec"]["shutdown"],
        "Terminate"
    );

    // argo suspend, node set, resume: the whole object with its status, by the main URL
    let mut whole = client.get(&one, JSON).await;
    whole["spec"]["suspend"] = true.into();
    let mut whole = client.write("PUT", &one, JSON, &whole).await;
    whole["status"]["nodes"]["w"]["outputs"] = json!({"parameters": [{"name": "x", "value": "1"}]});
    let put = client.write("PUT", &one, JSON, &whole).await;
    assert_eq!(
        put["status"]["nodes"]["w"]["outputs"]["parameters"][0]["value"],
        "1"
    );

    // argo resubmit: a read, and a new object under a name made from the old one's
    let old = client.get(&one, JSON).await;
    let again = json!({"apiVersion": "argoproj.io/v1alpha1", "kind": "Workflow",
        "metadata": {"generateName": "w-", "labels": {"workflows.argoproj.io/resubmitted-from-workflow": "w"}},
        "spec": old["spec"]});
    let made = client.write("POST", WORKFLOWS, JSON, &again).await;
    assert!(made["metadata"]["name"].as_str().unwrap().starts_with("w-"));

    // argo get @latest: everything, the youngest taken
    let list = client.get(WORKFLOWS, JSON).await;
    let created = |item: &Value| {
        item["metadata"]["creationTimestamp"]
            .as_str()
            .map(str::to_owned)
    };
    assert!(
        list["items"]
            .as_array()
            .unwrap()
            .iter()
            .all(|item| created(item).is_some())
    );

    // argo get of what is not there: the refusal, after one question
    let request = Request::get(format!("{WORKFLOWS}/ghost")).header("Accept", JSON);
    let (code, text) = client.send(request, Body::empty()).await;
    assert!(
        code == 404 && text.contains("workflows.argoproj.io \\\"ghost\\\" not found"),
        "{text}"
    );
}

#[tokio::test]
async fn the_argo_command_line_keeps_templates() {
    let lab = Lab::new().await;
    let client = Client {
        lab: &lab,
        token: lab.admin_token(),
    };
    argo_begins(&client).await;
    let argo = "/apis/argoproj.io/v1alpha1";
    for (kind, folder) in [
        (
            "WorkflowTemplate",
            format!("{argo}/namespaces/lab/workflowtemplates"),
        ),
        (
            "CronWorkflow",
            format!("{argo}/namespaces/lab/cronworkflows"),
        ),
        (
            "ClusterWorkflowTemplate",
            format!("{argo}/clusterworkflowtemplates"),
        ),
    ] {
        let resource = folder.rsplit('/').next().unwrap();
        let namespace = if folder.contains("/lab/") { "lab" } else { "" };
        for verb in ["list", "get", "create", "update", "delete"] {
            let asked = Asked {
                namespace,
                verb,
                group: "argoproj.io",
                resource,
                ..Asked::default()
            };
            assert!(client.may(asked).await, "{verb} {resource}");
        }
        let body = json!({"apiVersion": "argoproj.io/v1alpha1", "kind": kind, "metadata": {"name": "t"},
            "spec": {"entrypoint": "main"}});
        client.write("POST", &folder, JSON, &body).await;
        let mut read = client.get(&format!("{folder}/t"), JSON).await;
        read["spec"]["entrypoint"] = "other".into();
        client
            .write("PUT", &format!("{folder}/t"), JSON, &read)
            .await;
        let list = client.get(&folder, JSON).await;
        assert_eq!(list["kind"], format!("{kind}List"));
        assert_eq!(list["items"][0]["spec"]["entrypoint"], "other");
        let delete = Request::delete(format!("{folder}/t")).header("Content-Type", JSON);
        let (code, text) = client
            .send(delete, r#"{"propagationPolicy":"Background"}"#)
            .await;
        assert_eq!(code, 200, "{text}");
    }
    // argo submit --from wftmpl/process-order
    let from = json!({"apiVersion": "argoproj.io/v1alpha1", "kind": "Workflow", "metadata": {"generateName": "process-order-"},
        "spec": {"workflowTemplateRef": {"name": "process-order"}}});
    client.write("POST", WORKFLOWS, JSON, &from).await;
}

#[tokio::test]
async fn k9s_acts_on_what_it_shows() {
    let lab = Lab::new().await;
    lab.server.set_pod_logs(std::sync::Arc::new(Echo));
    let client = Client {
        lab: &lab,
        token: lab.admin_token(),
    };
    let pod = json!({"metadata": {"name": "p", "labels": {"app": "web"}},
        "spec": {"nodeName": "eventlab", "containers": [{"name": "main", "image": "eventlab:dev"}]}});
    create(&lab, "/api/v1/namespaces/lab/pods", pod).await;
    let labels = json!({"app": "web"});
    let deployment = json!({"metadata": {"name": "web"}, "spec": {"selector": {"matchLabels": labels},
        "template": {"metadata": {"labels": labels}, "spec": {"containers": [{"name": "main", "image": "eventlab:dev"}]}}}});
    let deployments = "/apis/apps/v1/namespaces/lab/deployments";
    create(&lab, deployments, deployment).await;

    let log = "/api/v1/namespaces/lab/pods/p/log?container=main&follow=true&sinceSeconds=60&tailLines=100&timestamps=true";
    let (code, text) = client
        .send(Request::get(log).header("Accept", TYPED), Body::empty())
        .await;
    assert_eq!(
        (code, text.as_str()),
        (
            200,
            "2026-01-02T03:04:05Z container=main follow=true tail=100\n"
        )
    );
    // Scaling by its subresource, restarting by a patch of the template.
    let scale = format!("{deployments}/web/scale");
    let mut now = client.get(&scale, TYPED).await;
    now["spec"]["replicas"] = 3.into();
    assert_eq!(
        client.write("PUT", &scale, JSON, &now).await["spec"]["replicas"],
        3
    );
    let stamp = "kubectl.kubernetes.io/restartedAt";
    let patch = json!({"spec": {"template": {"metadata": {"annotations": {stamp: "2026-01-02T03:04:05Z"}}}}});
    let patched = client
        .write(
            "PATCH",
            &format!("{deployments}/web"),
            "application/strategic-merge-patch+json",
            &patch,
        )
        .await;
    assert_eq!(
        patched["spec"]["template"]["metadata"]["annotations"][stamp],
        "2026-01-02T03:04:05Z"
    );
    // The port-forward's question, for a client that has one of the two rights.
    for verb in ["get", "create"] {
        let asked = Asked {
            namespace: "lab",
            verb,
            resource: "pods",
            subresource: "portforward",
            ..Asked::default()
        };
        assert!(client.may(asked).await, "{verb}");
    }
    let delete = Request::delete("/api/v1/namespaces/lab/pods/p").header("Content-Type", JSON);
    let (code, text) = client
        .send(delete, r#"{"propagationPolicy":"Background"}"#)
        .await;
    assert_eq!(code, 200, "{text}");
    // The views of kinds that a small cluster lacks are told so by discovery, not by an error.
    let groups = client.get("/apis", JSON).await;
    assert!(!groups.to_string().contains("metrics.k8s.io"));
}

/// A list as client-go's informers ask for it now: what is there, a bookmark, then what comes.
async fn streaming_list(client: &Client<'_>, path: &str, accept: &str) -> Vec<Value> {
    let query = "allowWatchBookmarks=true&resourceVersionMatch=NotOlderThan&sendInitialEvents=true&watch=true";
    let events = client.watch(&format!("{path}?{query}"), accept).await;
    let (last, first) = events.split_last().unwrap();
    assert_eq!(last["type"], "BOOKMARK", "{path}");
    let annotation = &last["object"]["metadata"]["annotations"]["k8s.io/initial-events-end"];
    assert_eq!(annotation, "true", "{path}: {last}");
    for event in &events {
        let object = &event["object"];
        assert!(
            object["kind"].is_string() && object["apiVersion"].is_string(),
            "{path}: {event}"
        );
    }
    first.to_vec()
}

#[tokio::test]
async fn k9s_starts_and_shows_its_views() {
    let lab = Lab::new().await;
    let client = Client {
        lab: &lab,
        token: lab.admin_token(),
    };
    workflow(&lab, "w", "Running").await;
    assert_eq!(
        client.get("/version?timeout=5s", JSON).await["gitVersion"],
        "v1.36.2+eventlab"
    );
    let groups = client.get("/apis", JSON).await;
    let names: Vec<&str> = groups["groups"]
        .as_array()
        .unwrap()
        .iter()
        .map(|group| group["name"].as_str().unwrap())
        .collect();
    assert!(
        names.contains(&"argoproj.io") && !names.contains(&"metrics.k8s.io"),
        "{names:?}"
    );
    for path in [
        "/api/v1/namespaces",
        "/api/v1/nodes",
        "/api/v1/pods",
        "/apis/apiextensions.k8s.io/v1/customresourcedefinitions",
        "/apis/events.k8s.io/v1/events",
        "/apis/apps/v1/deployments",
        "/api/v1/namespaces/lab/resourcequotas",
    ] {
        streaming_list(&client, path, JSON).await;
    }
    for (verb, subresource) in [
        ("list", ""),
        ("watch", ""),
        ("get", "log"),
        ("create", "portforward"),
        ("delete", ""),
    ] {
        let asked = Asked {
            namespace: "lab",
            verb,
            resource: "pods",
            subresource,
            name: "p",
            ..Asked::default()
        };
        assert!(client.may(asked).await, "{verb} {subresource}");
    }
    // Kinds without a renderer: every answer is a Table whose rows carry their object.
    for include in ["Metadata", "Object"] {
        let list = client
            .get(&format!("{WORKFLOWS}?includeObject={include}"), TABLE)
            .await;
        assert_eq!(list["kind"], "Table");
        assert_eq!(
            list["rows"][0]["object"]["metadata"]["namespace"], "lab",
            "{list}"
        );
        let query = format!("{WORKFLOWS}?includeObject={include}&resourceVersion=0&watch=true");
        let events = client.watch(&query, TABLE).await;
        assert_eq!(events[0]["object"]["kind"], "Table");
        assert_eq!(
            events[0]["object"]["rows"][0]["object"]["metadata"]["name"],
            "w"
        );
    }
    streaming_list(&client, WORKFLOWS, TABLE).await;
    // The YAML view, and the events of one object as its description has them.
    client.get(&format!("{WORKFLOWS}/w"), JSON).await;
    let about = "fieldSelector=involvedObject.name%3Dw%2CinvolvedObject.namespace%3Dlab%2CinvolvedObject.kind%3DWorkflow&limit=500";
    client
        .get(&format!("/api/v1/namespaces/lab/events?{about}"), TYPED)
        .await;
}
