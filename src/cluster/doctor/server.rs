//! The API server itself: does it answer, which version, who are we there, and how do the clocks stand.

use http::Request;
use jiff::Timestamp;
use k8s_openapi::api::authentication::v1::SelfSubjectReview;
use k8s_openapi::api::core::v1::{Namespace, Node, NodeCondition};
use kube::Api;
use kube::api::PostParams;
use kube::client::Body;

use super::{Patient, Point, why};
use crate::cluster::unanswered;
use crate::embedded::node::NODE_NAME;
use crate::kinds::{MANAGED_BY, MANAGED_BY_LABEL};

/// The oldest minor version of Kubernetes that Argo's own tests still cover.
const OLDEST_MINOR: u32 = 28;
/// A skew in seconds that makes times in logs and facts hard to read side by side.
const SKEW_SEEN: i64 = 2;
/// A skew in seconds that breaks leases and tokens.
const SKEW_HARMFUL: i64 = 30;

/// The points, and the server's version unless it did not answer.
pub(super) async fn points(patient: &Patient<'_>) -> (Vec<Point>, Option<String>) {
    let shows = format!("{} version", patient.kubectl);
    let info = match patient.context.client.apiserver_version().await {
        Ok(info) => info,
        Err(error) => return (vec![no_answer(patient, &error, shows)], None),
    };
    let minor: Option<u32> = info
        .minor
        .trim_end_matches(|end: char| !end.is_ascii_digit())
        .parse()
        .ok();
    let found = format!("{} at {}", info.git_version, patient.context.server);
    let server = match minor {
        Some(minor) if minor < OLDEST_MINOR => Point::warn(
            "server",
            format!("{found}; Argo's present releases are tested from 1.{OLDEST_MINOR} on"),
            shows,
        )
        .mended_by("use a newer cluster: kind create cluster --name lab"),
        None => Point::unknown(
            "server",
            format!("{found}; its version has no number"),
            shows,
        )
        .mended_by(format!("{} get --raw /version", patient.kubectl)),
        _ => Point::good("server", found, shows),
    };
    let points = vec![
        server,
        production(patient),
        who(patient).await,
        clock(patient).await,
        namespace(patient).await,
    ];
    (points, Some(info.git_version))
}

fn no_answer(patient: &Patient<'_>, error: &kube::Error, shows: String) -> Point {
    let (server, why) = (&patient.context.server, unanswered(error));
    let (found, mend) = match error {
        kube::Error::Api(status) if status.code == 401 => (
            format!("{server} does not take the context's login, it may have run out: {why}"),
            format!("log in again; {} auth whoami", patient.kubectl),
        ),
        _ => (
            format!("{server} does not answer: {why}"),
            format!("{} cluster-info", patient.kubectl),
        ),
    };
    Point::unknown("server", found, shows).mended_by(mend)
}

/// Whether `eventlab node` works on the cluster.
pub(super) async fn has_our_node(patient: &Patient<'_>) -> bool {
    let api: Api<Node> = Api::all(patient.context.client.clone());
    let Ok(Some(node)) = api.get_opt(NODE_NAME).await else {
        return false;
    };
    let status = node.status.unwrap_or_default();
    let ours = status
        .node_info
        .is_some_and(|info| info.kubelet_version.contains("+eventlab"));
    let ready = |one: &NodeCondition| one.type_ == "Ready" && one.status == "True";
    ours && status.conditions.iter().flatten().any(ready)
}

fn production(patient: &Patient<'_>) -> Point {
    let shows = "kubectl config get-contexts";
    match &patient.context.production {
        None => Point::good("context", "does not look like production", shows),
        Some(why) => Point::warn("context", format!("looks like production: {why}"), shows)
            .mended_by(format!(
                "{} (only if it is meant)",
                patient.eventlab(&format!(
                    "--yes-really-this-context {} …",
                    super::quoted(&patient.context.name)
                ))
            )),
    }
}

/// The name by which the server knows whoever asks.
pub(super) async fn user(patient: &Patient<'_>) -> Result<Option<String>, kube::Error> {
    let api: Api<SelfSubjectReview> = Api::all(patient.context.client.clone());
    let review = api
        .create(&PostParams::default(), &SelfSubjectReview::default())
        .await?;
    let user = review.status.and_then(|status| status.user_info);
    Ok(user.and_then(|user| user.username))
}

async fn who(patient: &Patient<'_>) -> Point {
    let shows = format!("{} auth whoami", patient.kubectl);
    match user(patient).await {
        Ok(name) => {
            let name = name.unwrap_or_else(|| "nobody".to_owned());
            Point::good("identity", format!("you are {name}"), shows)
        }
        // Servers before 1.28 have no such review.
        Err(error) => Point::unknown("identity", why(&error), shows)
            .mended_by(format!("{} auth can-i --list", patient.kubectl)),
    }
}

async fn clock(patient: &Patient<'_>) -> Point {
    let shows = format!(
        "{} get --raw /version -v 8 2>&1 | grep Date; date -u",
        patient.kubectl
    );
    let (before, date) = (Timestamp::now(), date_of_server(patient).await);
    let Some(date) = date else {
        return Point::unknown("clocks", "the API server does not tell its time", shows)
            .mended_by("compare by hand: `date -u` here and on the cluster's nodes");
    };
    // The header has whole seconds, and the answer took a while.
    let skew = date.as_second() - before.as_second();
    let found = format!(
        "the API server's clock is {} s {} this one",
        skew.abs(),
        if skew < 0 { "behind" } else { "ahead of" }
    );
    match skew.abs() {
        skew if skew > SKEW_HARMFUL => Point::missing("clocks", found, shows)
            .mended_by("set both clocks by NTP (`timedatectl set-ntp true`); a laptop's VM needs it after sleep"),
        skew if skew > SKEW_SEEN => Point::warn("clocks", found, shows)
            .mended_by("set both clocks by NTP (`timedatectl set-ntp true`)"),
        _ => Point::good("clocks", "the API server's clock agrees with this one", shows),
    }
}

async fn date_of_server(patient: &Patient<'_>) -> Option<Timestamp> {
    let request = Request::get("/version").body(Body::empty()).ok()?;
    let response = patient.context.client.send(request).await.ok()?;
    let date = response.headers().get(http::header::DATE)?.to_str().ok()?;
    jiff::fmt::rfc2822::parse(date)
        .ok()
        .map(|date| date.timestamp())
}

async fn namespace(patient: &Patient<'_>) -> Point {
    let name = patient.namespace();
    let shows = format!("{} get namespace {name} --show-labels", patient.kubectl);
    let api: Api<Namespace> = Api::all(patient.context.client.clone());
    let prepare = patient.eventlab("cluster prepare");
    match api.get_opt(name).await {
        Err(error) => Point::unknown("namespace", why(&error), shows).mended_by(format!(
            "ask whoever runs the cluster for `get` on namespace {name}"
        )),
        Ok(None) => {
            Point::missing("namespace", format!("{name} is not there"), shows).mended_by(prepare)
        }
        Ok(Some(namespace)) => judge_namespace(&namespace, name, &patient.kubectl, shows),
    }
}

fn judge_namespace(namespace: &Namespace, name: &str, kubectl: &str, shows: String) -> Point {
    let labels = namespace.metadata.labels.clone().unwrap_or_default();
    if labels.get(MANAGED_BY_LABEL).map(String::as_str) != Some(MANAGED_BY) {
        return Point::missing(
            "namespace",
            format!("{name} is there and is not eventlab's: it lacks the label {MANAGED_BY_LABEL}={MANAGED_BY}"),
            shows,
        )
        .mended_by(format!(
            "if nothing in it is needed: {kubectl} delete namespace {name}; to keep what is there and share it: {kubectl} label namespace {name} {MANAGED_BY_LABEL}={MANAGED_BY}"
        ));
    }
    if namespace.metadata.deletion_timestamp.is_some() {
        return Point::missing("namespace", format!("{name} is being deleted"), shows).mended_by(
            format!("{kubectl} wait --for=delete namespace/{name} --timeout 120s"),
        );
    }
    match labels
        .get("pod-security.kubernetes.io/enforce")
        .map(String::as_str)
    {
        Some("restricted") => Point::missing(
            "namespace",
            format!("{name} enforces the restricted pod security standard; Argo's own pods and the labs' do not meet it, and none is made"),
            shows,
        )
        .mended_by(format!(
            "{kubectl} label namespace {name} pod-security.kubernetes.io/enforce=baseline --overwrite"
        )),
        _ => Point::good("namespace", format!("{name} is eventlab's"), shows),
    }
}
