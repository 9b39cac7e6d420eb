//! `GET pods/NAME/log`: options, refusals, and the border to whoever keeps the logs.
//!
//! The node implements [`PodLogs`] (usually with [`FileLog`]); the API's handler calls [`answer`].

mod file;
mod options;

use axum::body::Body;
use axum::body::Bytes;
use axum::response::Response;
use futures::future::BoxFuture;
use futures::stream::BoxStream;
use http::HeaderValue;
use http::header::{CONTENT_TYPE, X_CONTENT_TYPE_OPTIONS};
use kube::core::Status;
use serde_json::Value;

use crate::embedded::api::go_text;

pub use file::FileLog;
pub use options::LogOptions;

/// The bytes of a log as they become known; ends with the container when following.
pub type LogStream = BoxStream<'static, std::io::Result<Bytes>>;

/// Which container's log is wanted, and how.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LogRequest {
    pub namespace: String,
    pub pod: String,
    /// The pod's uid: a pod of the same name before it has another log.
    pub uid: String,
    pub container: String,
    /// Restart count of the container as its status tells it; `None` where no status tells of it.
    pub current: Option<u32>,
    pub options: LogOptions,
}

/// Why there is no log to read.
#[derive(Debug, thiserror::Error)]
pub enum LogError {
    /// The node runs no such container in this pod.
    #[error("container is not known to the node")]
    UnknownContainer,
    /// It has never run; the reason as in `state.waiting.reason`, or empty.
    #[error("container waits to start: {0}")]
    WaitingToStart(String),
    /// `previous` was asked for, but this is the first instance.
    #[error("no previous instance of the container")]
    NoPrevious,
    /// It ran, but its log is no longer kept.
    #[error("log is gone")]
    Gone,
    #[error("cannot read the log: {0}")]
    Io(#[from] std::io::Error),
}

/// Opens container logs.
pub trait PodLogs: Send + Sync {
    /// Opens the log of the container's current instance, or of the one before it when `options.previous`; the current one
    /// is that of `current`, as long as its log is kept.
    fn open(&self, request: LogRequest) -> BoxFuture<'_, Result<LogStream, LogError>>;
}

/// Answers `GET pods/NAME/log` for a stored `pod`; `parameter` looks a query parameter up.
///
/// # Errors
/// The Status to answer: 400 for the container or its state, 422 for options, 404 when the log is gone.
pub async fn answer(
    pod: &Value,
    parameter: impl Fn(&str) -> Option<String>,
    logs: &dyn PodLogs,
) -> Result<Response, Box<Status>> {
    let text = |field: &str| {
        pod["metadata"][field]
            .as_str()
            .unwrap_or_default()
            .to_owned()
    };
    let name = text("name");
    let options = LogOptions::parse(&name, &parameter)?;
    let container = choose_container(pod, &name, &parameter("container").unwrap_or_default())
        .map_err(bad_request)?;
    if pod["spec"]["nodeName"]
        .as_str()
        .unwrap_or_default()
        .is_empty()
    {
        return Ok(plain_text(Body::empty()));
    }
    let request = LogRequest {
        namespace: text("namespace"),
        pod: name.clone(),
        uid: text("uid"),
        current: restart_count(pod, &container),
        container,
        options,
    };
    read(request, logs).await
}

/// Answers with the log of a container that is known.
///
/// # Errors
/// As [`answer`].
pub async fn read(request: LogRequest, logs: &dyn PodLogs) -> Result<Response, Box<Status>> {
    let (name, container) = (request.pod.clone(), request.container.clone());
    match logs.open(request).await {
        Ok(stream) => Ok(plain_text(Body::from_stream(stream))),
        Err(error) => Err(refusal(&error, &name, &container)),
    }
}

/// Restart count of a container as the pod's status tells it.
pub(super) fn restart_count(pod: &Value, container: &str) -> Option<u32> {
    let lists = [
        "initContainerStatuses",
        "containerStatuses",
        "ephemeralContainerStatuses",
    ];
    let mut statuses = lists
        .iter()
        .flat_map(|list| pod["status"][list].as_array().into_iter().flatten());
    let status = statuses.find(|status| status["name"] == container)?;
    u32::try_from(status["restartCount"].as_u64()?).ok()
}

fn plain_text(body: Body) -> Response {
    let mut response = Response::new(body);
    response
        .headers_mut()
        .insert(CONTENT_TYPE, HeaderValue::from_static("text/plain"));
    response
        .headers_mut()
        .insert(X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
    response
}

/// The container to read: the named one, or the only one.
pub(super) fn choose_container(
    pod: &Value,
    pod_name: &str,
    wanted: &str,
) -> Result<String, String> {
    let names = |field: &str| -> Vec<&str> {
        let list = pod["spec"][field].as_array().into_iter().flatten();
        list.filter_map(|container| container["name"].as_str())
            .collect()
    };
    let (containers, init) = (names("containers"), names("initContainers"));
    if !wanted.is_empty() {
        let known = containers.contains(&wanted)
            || init.contains(&wanted)
            || names("ephemeralContainers").contains(&wanted);
        let error = || format!("container {wanted} is not valid for pod {pod_name}");
        return known.then(|| wanted.to_owned()).ok_or_else(error);
    }
    match containers.as_slice() {
        [only] => Ok((*only).to_owned()),
        [] => Err(format!(
            "a container name must be specified for pod {pod_name}"
        )),
        several => {
            let choice = several.join(" ");
            let mut error = format!(
                "a container name must be specified for pod {pod_name}, choose one of: [{choice}]"
            );
            if !init.is_empty() {
                error.push_str(&format!(
                    " or one of the init containers: [{}]",
                    init.join(" ")
                ));
            }
            Err(error)
        }
    }
}

fn bad_request(message: String) -> Box<Status> {
    Box::new(Status::failure(&message, "BadRequest").with_code(400))
}

/// The kubelet's texts, as the API server passes them on.
fn refusal(error: &LogError, pod: &str, container: &str) -> Box<Status> {
    let place = format!(
        "container {} in pod {}",
        go_text::quote(container),
        go_text::quote(pod)
    );
    match error {
        LogError::UnknownContainer => bad_request(format!("{place} is not available")),
        LogError::NoPrevious => bad_request(format!("previous terminated {place} not found")),
        LogError::WaitingToStart(reason) => bad_request(match reason.as_str() {
            "" => format!("{place} is waiting to start - no logs yet"),
            "ErrImagePull" => format!("{place} is waiting to start: image can't be pulled"),
            "ImagePullBackOff" => {
                format!("{place} is waiting to start: trying and failing to pull image")
            }
            reason => format!("{place} is waiting to start: {reason}"),
        }),
        LogError::Gone => {
            let message = format!("the log of {place} is no longer kept");
            Box::new(Status::failure(&message, "NotFound").with_code(404))
        }
        LogError::Io(error) => {
            let message = format!("cannot read the log of {place}: {error}");
            Box::new(Status::failure(&message, "InternalError").with_code(500))
        }
    }
}

#[cfg(test)]
mod tests;
