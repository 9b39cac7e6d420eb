//! Following the logs of pods by label, instance by instance.

use std::collections::BTreeSet;

use futures::{AsyncBufRead, AsyncBufReadExt as _, StreamExt as _};
use jiff::Timestamp;
use k8s_openapi::api::core::v1::{ContainerStatus, Pod};
use kube::api::LogParams;
use kube::runtime::{WatchStreamExt as _, watcher};
use kube::{Api, Client};
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

use super::Cluster;

/// Lines longer than this are cut; container runtimes split them earlier.
const LINE_LIMIT: usize = 64 << 10;
/// How much later than the end of a container a kubelet tells it, in [`LAG_LOOK`]s.
const LAG: usize = 15;
const LAG_LOOK: std::time::Duration = std::time::Duration::from_millis(200);

/// One life of a container.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct ContainerInstance {
    pub pod: String,
    pub uid: String,
    pub container: String,
    /// Restart count of the container.
    pub instance: u32,
}

/// One line of a container instance.
#[derive(Clone, Debug, PartialEq)]
pub struct LogLine {
    pub pod: ContainerInstance,
    pub text: String,
}

/// Follows until it is dropped.
pub struct LogFollower {
    cancel: CancellationToken,
}

impl Drop for LogFollower {
    fn drop(&mut self) {
        self.cancel.cancel();
    }
}

impl Cluster {
    /// Follows container `main` of all pods with a label, present and future, from each instance's first line on.
    /// The receiver ends when the follower is dropped.
    #[must_use]
    pub fn follow_logs(&self, selector: &str) -> (LogFollower, mpsc::Receiver<LogLine>) {
        self.follow_logs_since(selector, None)
    }

    /// As [`Cluster::follow_logs`], of every container: those that prepare a pod and those beside its work as well.
    #[must_use]
    pub fn follow_all_logs(&self, selector: &str) -> (LogFollower, mpsc::Receiver<LogLine>) {
        self.follow(selector, None, Containers::All)
    }

    /// As [`Cluster::follow_logs`], with the lines from a time on.
    #[must_use]
    pub fn follow_logs_since(
        &self,
        selector: &str,
        since: Option<Timestamp>,
    ) -> (LogFollower, mpsc::Receiver<LogLine>) {
        self.follow(selector, since, Containers::Main)
    }

    fn follow(
        &self,
        selector: &str,
        since: Option<Timestamp>,
        containers: Containers,
    ) -> (LogFollower, mpsc::Receiver<LogLine>) {
        let (sender, receiver) = mpsc::channel(1024);
        let cancel = CancellationToken::new();
        let follow = Follow {
            client: self.client().clone(),
            namespace: self.namespace().to_owned(),
            sender,
            cancel: cancel.clone(),
            since,
            containers,
        };
        tokio::spawn(follow.pods(selector.to_owned()));
        (LogFollower { cancel }, receiver)
    }
}

#[derive(Clone)]
struct Follow {
    client: Client,
    namespace: String,
    sender: mpsc::Sender<LogLine>,
    cancel: CancellationToken,
    since: Option<Timestamp>,
    containers: Containers,
}

/// Whose logs are followed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Containers {
    Main,
    All,
}

impl Follow {
    async fn pods(self, selector: String) {
        let api: Api<Pod> = Api::namespaced(self.client.clone(), &self.namespace);
        let mut seen = BTreeSet::new();
        let mut pods = std::pin::pin!(
            watcher(api, watcher::Config::default().labels(&selector))
                .default_backoff()
                .applied_objects()
        );
        loop {
            let pod = tokio::select! {
                () = self.cancel.cancelled() => return,
                pod = pods.next() => pod,
            };
            match pod {
                Some(Ok(pod)) => {
                    for instance in instances(&pod, self.containers) {
                        let life = (
                            instance.uid.clone(),
                            instance.container.clone(),
                            instance.instance,
                        );
                        if seen.insert(life) {
                            tokio::spawn(self.clone().container(instance));
                        }
                    }
                }
                Some(Err(error)) => {
                    tracing::warn!(%error, %selector, "watching pods for their logs")
                }
                None => return,
            }
        }
    }

    /// One container instance: reconnects until its log has ended, and goes on behind the last line it has handed on.
    async fn container(self, instance: ContainerInstance) {
        let mut place = LogPlace {
            from: self.since,
            ..LogPlace::default()
        };
        while !self.cancel.is_cancelled() {
            // A stream ends when the container does, and also when anything between here and there does.
            let standing = self.standing(&instance).await;
            let goes_on = match standing {
                Ok(None) => return,
                Ok(Some(source)) => match self.read(&instance, source, &mut place).await {
                    Ok(Ended::Unwanted) => return,
                    Ok(Ended::Log) if source != Source::Follow => return,
                    Err(error) if gone(&error) => return,
                    Ok(Ended::Log) => self.await_end(&instance).await,
                    Ok(Ended::Moved) => self.pause().await,
                    Err(error) => self.pause_after(&instance, &error).await,
                },
                Err(error) => self.pause_after(&instance, &error).await,
            };
            if !goes_on {
                return;
            }
        }
    }

    async fn pause_after(&self, instance: &ContainerInstance, error: &kube::Error) -> bool {
        tracing::debug!(%error, pod = instance.pod, "reading a log");
        self.pause().await
    }

    /// A stream that has ended means most of the time that its container has, and the API tells that later; what is
    /// opened before it does is the log of the next life. Answers false when nobody follows any more.
    async fn await_end(&self, instance: &ContainerInstance) -> bool {
        for _ in 0..LAG {
            match self.standing(instance).await {
                Ok(Some(Source::Follow)) => {}
                _ => break,
            }
            if !self.pause().await {
                return false;
            }
        }
        !self.cancel.is_cancelled()
    }

    /// Answers false when nobody follows any more.
    async fn pause(&self) -> bool {
        tokio::select! {
            () = self.cancel.cancelled() => false,
            () = tokio::time::sleep(LAG_LOOK) => true,
        }
    }

    /// Where the rest of an instance's log is to be read now; `None` when it is not kept any more.
    async fn standing(&self, instance: &ContainerInstance) -> Result<Option<Source>, kube::Error> {
        let api: Api<Pod> = Api::namespaced(self.client.clone(), &self.namespace);
        let pod = tokio::select! {
            () = self.cancel.cancelled() => return Ok(None),
            pod = api.get_opt(&instance.pod) => pod?,
        };
        Ok(pod.as_ref().and_then(|pod| source_of(pod, instance)))
    }

    async fn read(
        &self,
        instance: &ContainerInstance,
        source: Source,
        place: &mut LogPlace,
    ) -> Result<Ended, kube::Error> {
        let api: Api<Pod> = Api::namespaced(self.client.clone(), &self.namespace);
        let params = LogParams {
            container: Some(instance.container.clone()),
            follow: source == Source::Follow,
            previous: source == Source::Rest { previous: true },
            timestamps: true,
            since_time: place.resume(),
            ..LogParams::default()
        };
        let stream = tokio::select! {
            () = self.cancel.cancelled() => return Ok(Ended::Unwanted),
            stream = api.log_stream(&instance.pod, &params) => stream?,
        };
        // The API gives the log of the newest life, or the one before: which one that is, is sure only if it was so before
        // and after.
        if self.standing(instance).await? != Some(source) {
            return Ok(Ended::Moved);
        }
        let mut stream = std::pin::pin!(stream);
        loop {
            let line = tokio::select! {
                () = self.cancel.cancelled() => return Ok(Ended::Unwanted),
                line = next_line(&mut stream) => line.map_err(kube::Error::ReadEvents)?,
            };
            let Some(line) = line else {
                return Ok(Ended::Log);
            };
            let Some(text) = place.take(&line) else {
                continue;
            };
            let line = LogLine {
                pod: instance.clone(),
                text: text.to_owned(),
            };
            if self.sender.send(line).await.is_err() {
                return Ok(Ended::Unwanted);
            }
        }
    }
}

/// Where a log is read from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Source {
    /// The instance runs.
    Follow,
    /// It has ended; what is left is read once.
    Rest { previous: bool },
}

enum Ended {
    /// The stream is at its end.
    Log,
    /// Nobody wants more.
    Unwanted,
    /// What was opened may be the log of another life.
    Moved,
}

/// How far a log was read, so that a new connection neither repeats nor leaves out.
#[derive(Debug, Default)]
struct LogPlace {
    /// Lines from before are not wanted.
    from: Option<Timestamp>,
    /// Time of the last line that was handed on.
    last: Option<Timestamp>,
    /// Lines with that time that were handed on.
    at_last: usize,
    /// Lines with that time to pass over in this connection; none in the first.
    to_skip: usize,
    /// Behind the overlap with the connection before.
    caught_up: bool,
}

impl LogPlace {
    /// Begins a connection: the time from which on to read, in whole seconds as the API takes it.
    fn resume(&mut self) -> Option<Timestamp> {
        self.to_skip = self.at_last;
        self.caught_up = self.last.is_none();
        let last = self.last.or(self.from)?;
        Timestamp::from_second(last.as_second()).ok()
    }

    /// The text of a line, unless it was handed on before. Each line begins with its time.
    fn take<'a>(&mut self, line: &'a str) -> Option<&'a str> {
        let (time, text) = line.split_once(' ').unwrap_or((line, ""));
        let Ok(time) = time.parse::<Timestamp>() else {
            return self.caught_up.then_some(line);
        };
        if !self.caught_up {
            if self.last.is_some_and(|last| time < last) {
                return None;
            }
            if self.last == Some(time) && self.to_skip > 0 {
                self.to_skip -= 1;
                return None;
            }
            self.caught_up = true;
        }
        if self.last == Some(time) {
            self.at_last += 1;
        } else {
            self.last = Some(time);
            self.at_last = 1;
        }
        Some(text)
    }
}

/// The next line without its end, cut at the limit; `None` at the end of the stream.
async fn next_line<S: AsyncBufRead + Unpin>(stream: &mut S) -> std::io::Result<Option<String>> {
    let mut line = Vec::new();
    let mut any = false;
    loop {
        let buffer = stream.fill_buf().await?;
        if buffer.is_empty() {
            return Ok(any.then(|| text_of(line)));
        }
        any = true;
        let end = buffer.iter().position(|byte| *byte == b'\n');
        let part = buffer
            .get(..end.unwrap_or(buffer.len()))
            .unwrap_or_default();
        let room = LINE_LIMIT.saturating_sub(line.len()).min(part.len());
        line.extend_from_slice(part.get(..room).unwrap_or_default());
        let consumed = end.map_or(buffer.len(), |end| end + 1);
        stream.consume_unpin(consumed);
        if end.is_some() {
            return Ok(Some(text_of(line)));
        }
    }
}

fn text_of(mut line: Vec<u8>) -> String {
    if line.last() == Some(&b'\r') {
        line.pop();
    }
    String::from_utf8_lossy(&line).into_owned()
}

fn gone(error: &kube::Error) -> bool {
    matches!(error, kube::Error::Api(status) if status.code == 404)
}

/// What the kubelet says of a pod's containers: those that prepare it, those that do its work, those added to debug it.
fn statuses(pod: &Pod) -> impl Iterator<Item = &ContainerStatus> {
    let status = pod.status.as_ref();
    let lists = [
        status.and_then(|status| status.init_container_statuses.as_ref()),
        status.and_then(|status| status.container_statuses.as_ref()),
        status.and_then(|status| status.ephemeral_container_statuses.as_ref()),
    ];
    lists.into_iter().flatten().flatten()
}

/// A pod that was made anew under the same name, or a container that was started more than once since, has nothing left
/// of this instance.
fn source_of(pod: &Pod, instance: &ContainerInstance) -> Option<Source> {
    if pod.metadata.uid.as_deref() != Some(&instance.uid) {
        return None;
    }
    let status = statuses(pod).find(|status| status.name == instance.container)?;
    let count = u32::try_from(status.restart_count).ok()?;
    let running = status
        .state
        .as_ref()
        .is_some_and(|state| state.running.is_some());
    match count.checked_sub(instance.instance) {
        Some(0) if running => Some(Source::Follow),
        Some(0) => Some(Source::Rest { previous: false }),
        Some(1) => Some(Source::Rest { previous: true }),
        // More than one life since, or the cluster was set back to before this one.
        Some(_) | None => None,
    }
}

/// The containers whose log can be read: they run, or have ended.
fn instances(pod: &Pod, containers: Containers) -> Vec<ContainerInstance> {
    let (Some(name), Some(uid)) = (&pod.metadata.name, &pod.metadata.uid) else {
        return Vec::new();
    };
    let wanted = |status: &&ContainerStatus| containers == Containers::All || status.name == "main";
    let has_log = |status: &&ContainerStatus| {
        status
            .state
            .as_ref()
            .is_some_and(|state| state.running.is_some() || state.terminated.is_some())
    };
    statuses(pod)
        .filter(wanted)
        .filter(has_log)
        .filter_map(|status| {
            Some(ContainerInstance {
                pod: name.clone(),
                uid: uid.clone(),
                container: status.name.clone(),
                instance: u32::try_from(status.restart_count).ok()?,
            })
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn taken(place: &mut LogPlace, lines: &[&str]) -> Vec<String> {
        lines
            .iter()
            .filter_map(|line| place.take(line).map(str::to_owned))
            .collect()
    }

    #[test]
    fn a_new_connection_goes_on_where_the_old_one_broke() {
        let lines = [
            "2026-01-02T03:04:05.1Z a",
            "2026-01-02T03:04:05.2Z b",
            "2026-01-02T03:04:05.2Z b",
            "2026-01-02T03:04:05.2Z c",
            "2026-01-02T03:04:06Z d",
            "2026-01-02T03:04:06Z ",
            "2026-01-02T03:04:07Z e f",
        ];
        let whole = taken(
            &mut LogPlace {
                caught_up: true,
                ..LogPlace::default()
            },
            &lines,
        );
        assert_eq!(whole, ["a", "b", "b", "c", "d", "", "e f"]);
        // However often it breaks, and wherever: each line once, in order.
        for first in 0..=lines.len() {
            for second in first..=lines.len() {
                let mut place = LogPlace::default();
                let mut all = Vec::new();
                for end in [first, second, lines.len(), lines.len()] {
                    let since = place.resume().unwrap_or(Timestamp::MIN);
                    let kept: Vec<&str> = lines
                        .iter()
                        .take(end)
                        .copied()
                        .filter(|line| {
                            let time = line.split(' ').next().unwrap();
                            time.parse::<Timestamp>().unwrap() >= since
                        })
                        .collect();
                    all.extend(taken(&mut place, &kept));
                }
                assert_eq!(all, whole, "broken after {first} and {second}");
            }
        }
    }

    fn pod(uid: &str, count: i32, running: bool) -> Pod {
        let state = if running {
            json!({"running": {}})
        } else {
            json!({"terminated": {"exitCode": 1}})
        };
        serde_json::from_value(json!({"metadata": {"name": "p", "uid": uid}, "status": {"containerStatuses": [
            {"name": "main", "image": "i", "imageID": "", "ready": true, "restartCount": count, "state": state}]}}))
        .unwrap()
    }

    #[test]
    fn every_container_that_has_a_log_is_followed_where_all_are_asked_for() {
        let status = |name: &str, state: serde_json::Value| json!({"name": name, "image": "i", "imageID": "", "ready": false, "restartCount": 2, "state": state});
        let pod: Pod = serde_json::from_value(json!({"metadata": {"name": "p", "uid": "u"}, "status": {
            "initContainerStatuses": [status("init", json!({"terminated": {"exitCode": 0}}))],
            "containerStatuses": [status("wait", json!({"running": {}})), status("main", json!({"running": {}})),
                status("late", json!({"waiting": {"reason": "PodInitializing"}}))],
            "ephemeralContainerStatuses": [status("debugger", json!({"running": {}}))],
        }}))
        .unwrap();
        let names = |containers| -> Vec<String> {
            let found = instances(&pod, containers);
            assert!(found.iter().all(|one| one.instance == 2 && one.uid == "u"));
            found.into_iter().map(|one| one.container).collect()
        };
        assert_eq!(names(Containers::All), ["init", "wait", "main", "debugger"]);
        assert_eq!(names(Containers::Main), ["main"]);
        let init = ContainerInstance {
            pod: "p".into(),
            uid: "u".into(),
            container: "init".into(),
            instance: 2,
        };
        let rest = Some(Source::Rest { previous: false });
        assert_eq!(source_of(&pod, &init), rest);
    }

    #[test]
    fn the_rest_of_an_instance_is_read_where_it_is_kept() {
        let instance = ContainerInstance {
            pod: "p".into(),
            uid: "u".into(),
            container: "main".into(),
            instance: 1,
        };
        for (pod, source) in [
            (pod("u", 1, true), Some(Source::Follow)),
            (pod("u", 1, false), Some(Source::Rest { previous: false })),
            (pod("u", 2, true), Some(Source::Rest { previous: true })),
            (pod("u", 3, true), None),
            (pod("u", 0, true), None),
            (pod("other", 1, true), None),
            (Pod::default(), None),
        ] {
            assert_eq!(source_of(&pod, &instance), source);
        }
    }

    #[tokio::test]
    async fn lines_are_cut_and_the_rest_is_passed_over() {
        let text = format!("a\r\n{}\nlast", "x".repeat(LINE_LIMIT * 3));
        let mut stream = futures::io::BufReader::new(futures::io::Cursor::new(text));
        let mut lines = Vec::new();
        while let Some(line) = next_line(&mut stream).await.unwrap() {
            lines.push(line);
        }
        assert_eq!(lines.len(), 3);
        assert_eq!(
            (lines[0].as_str(), lines[1].len(), lines[2].as_str()),
            ("a", LINE_LIMIT, "last")
        );
    }
}
