//! Container logs: one file for each container instance, each line with its time.
//!
//! `logs/pods/NAMESPACE_POD_UID/CONTAINER/N.log`, N being the restart count; a line is `RFC3339Nano TEXT`. [`Logs`] is
//! what the API reads them through.

use std::collections::{HashMap, HashSet};
use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use futures::future::BoxFuture;
use jiff::Timestamp;
use tokio::sync::watch;

use super::files::make_private_folder;
use super::process::{LogSink, PodIdentity};
use crate::embedded::api::logs::{FileLog, LogError, LogRequest, LogStream, PodLogs};

/// A log grows to this size (bytes); later lines are dropped, and the last line says so.
pub const MAX_LOG: u64 = 64 * 1024 * 1024;
/// Logs of so many instances of a container are kept.
const KEPT_INSTANCES: u32 = 10;

/// All container logs of a node.
#[derive(Clone, Debug)]
pub struct Logs {
    root: PathBuf,
    live: Arc<Mutex<Live>>,
}

#[derive(Debug, Default)]
struct Live {
    /// Length of each file that still grows.
    growth: HashMap<PathBuf, watch::Receiver<u64>>,
    /// Why a container has not started, by pod uid and container.
    waiting: HashMap<(String, String), String>,
}

impl Logs {
    /// Logs below `root` (`logs/pods` of the state directory).
    #[must_use]
    pub fn new(root: impl Into<PathBuf>) -> Logs {
        Logs {
            root: root.into(),
            live: Arc::default(),
        }
    }

    /// The folder of one container.
    fn folder(&self, namespace: &str, pod: &str, uid: &str, container: &str) -> PathBuf {
        self.pod_folder(namespace, pod, uid).join(safe(container))
    }

    fn pod_folder(&self, namespace: &str, pod: &str, uid: &str) -> PathBuf {
        self.root
            .join(format!("{}_{}_{}", safe(namespace), safe(pod), safe(uid)))
    }

    fn container_folder(&self, pod: &PodIdentity) -> PathBuf {
        self.folder(&pod.namespace, &pod.name, &pod.uid, &pod.container)
    }

    /// The newest instance of this container that ever started, whatever its status got to say: its file is made before it
    /// does.
    pub(super) fn newest(&self, pod: &PodIdentity) -> Option<u32> {
        instances(&self.container_folder(pod)).into_iter().max()
    }

    /// Makes the log of an instance that is about to start; removes those of long ago.
    pub(super) fn create(&self, pod: &PodIdentity) -> io::Result<Arc<ContainerLog>> {
        let folder = self.container_folder(pod);
        make_private_folder(&folder)?;
        for instance in instances(&folder) {
            // A later instance can only be from before the cluster was set back.
            if instance > pod.instance || pod.instance - instance >= KEPT_INSTANCES {
                std::fs::remove_file(folder.join(file_name(instance)))?;
            }
        }
        let path = folder.join(file_name(pod.instance));
        let (sender, receiver) = watch::channel(0);
        let log = ContainerLog::create(&path, MAX_LOG, sender)?;
        let mut live = self.lock();
        live.waiting
            .remove(&(pod.uid.clone(), pod.container.clone()));
        live.growth.insert(path, receiver);
        Ok(Arc::new(log))
    }

    /// Ends the log of an instance: those who follow it get to its end.
    pub(super) fn close(&self, pod: &PodIdentity, log: &ContainerLog) {
        log.close();
        self.lock()
            .growth
            .remove(&self.container_folder(pod).join(file_name(pod.instance)));
    }

    /// Says why a container has not started.
    pub(super) fn set_waiting(&self, uid: &str, container: &str, reason: &str) {
        self.lock()
            .waiting
            .insert((uid.to_owned(), container.to_owned()), reason.to_owned());
    }

    /// Forgets what waits in a pod; its files stay.
    pub(super) fn forget_waiting(&self, uid: &str) {
        self.lock().waiting.retain(|(pod, _), _| pod != uid);
    }

    /// Removes the logs of a pod that is gone.
    pub(super) fn remove(&self, namespace: &str, pod: &str, uid: &str) {
        self.forget_waiting(uid);
        let folder = self.pod_folder(namespace, pod, uid);
        self.lock()
            .growth
            .retain(|path, _| !path.starts_with(&folder));
        // What cannot be removed now is only garbage.
        let _ = std::fs::remove_dir_all(folder);
    }

    /// Removes the logs of pods whose uid is not among `present`.
    pub(super) fn remove_strays(&self, present: &HashSet<String>) {
        for entry in std::fs::read_dir(&self.root)
            .into_iter()
            .flatten()
            .flatten()
        {
            let name = entry.file_name();
            let uid = name
                .to_str()
                .and_then(|name| name.rsplit('_').next())
                .unwrap_or_default();
            if !present.contains(uid) {
                // As above.
                let _ = std::fs::remove_dir_all(entry.path());
            }
        }
    }

    fn lock(&self) -> MutexGuard<'_, Live> {
        self.live.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The file to read, and its growth while it has any.
    fn find(
        &self,
        request: &LogRequest,
    ) -> Result<(PathBuf, Option<watch::Receiver<u64>>), LogError> {
        let folder = self.folder(
            &request.namespace,
            &request.pod,
            &request.uid,
            &request.container,
        );
        let kept = instances(&folder);
        // What its status tells, so that whoever reads the status knows whose log this is: another instance may have begun
        // that no status tells of yet.
        let told = request.current.filter(|told| kept.contains(told));
        let Some(current) = told.or(kept.into_iter().max()) else {
            let reason = self
                .lock()
                .waiting
                .get(&(request.uid.clone(), request.container.clone()))
                .cloned();
            return Err(reason.map_or(LogError::Gone, LogError::WaitingToStart));
        };
        let instance = match (request.options.previous, current) {
            (false, _) => current,
            (true, 0) => return Err(LogError::NoPrevious),
            (true, _) => current - 1,
        };
        let path = folder.join(file_name(instance));
        let growth = self.lock().growth.get(&path).cloned();
        Ok((path, growth))
    }
}

impl PodLogs for Logs {
    fn open(&self, request: LogRequest) -> BoxFuture<'_, Result<LogStream, LogError>> {
        Box::pin(async move {
            let (path, growth) = self.find(&request)?;
            FileLog::open(&path, growth)
                .await?
                .stream(&request.options)
                .await
        })
    }
}

/// Kubernetes names hold neither `_` nor `/`, so nothing can climb out of the root.
fn safe(text: &str) -> String {
    match text {
        "" | "." | ".." => "_".to_owned(),
        _ => text.replace(['/', '\0'], "_"),
    }
}

fn file_name(instance: u32) -> String {
    format!("{instance}.log")
}

/// The instances that have a log in `folder`.
fn instances(folder: &Path) -> Vec<u32> {
    let names = std::fs::read_dir(folder)
        .into_iter()
        .flatten()
        .flatten()
        .map(|entry| entry.file_name());
    names
        .filter_map(|name| name.to_str()?.strip_suffix(".log")?.parse().ok())
        .collect()
}

fn read_end(path: &Path, length: u64) -> io::Result<Vec<u8>> {
    let mut file = File::open(path)?;
    let start = file.metadata()?.len().saturating_sub(length);
    file.seek(SeekFrom::Start(start))?;
    let mut bytes = Vec::new();
    file.read_to_end(&mut bytes)?;
    Ok(bytes)
}

/// The log of one container instance.
#[derive(Debug)]
pub struct ContainerLog {
    path: PathBuf,
    state: Mutex<State>,
    limit: u64,
}

#[derive(Debug)]
struct State {
    file: File,
    written: u64,
    /// Tells those who follow the file; `None` once the log is closed.
    growth: Option<watch::Sender<u64>>,
}

impl ContainerLog {
    fn create(path: &Path, limit: u64, growth: watch::Sender<u64>) -> io::Result<ContainerLog> {
        let mut options = File::options();
        let file = options
            .write(true)
            .create(true)
            .truncate(true)
            .mode(0o600)
            .open(path)?;
        Ok(ContainerLog {
            path: path.to_path_buf(),
            state: Mutex::new(State {
                file,
                written: 0,
                growth: Some(growth),
            }),
            limit,
        })
    }

    fn close(&self) {
        self.lock().growth = None;
    }

    /// The end of the log without its times, as the kubelet takes it for a termination message: at most 80 lines and
    /// 2048 bytes.
    pub(super) fn tail(&self) -> String {
        let Ok(bytes) = read_end(&self.path, 16 * 1024) else {
            return String::new();
        };
        let text = String::from_utf8_lossy(&bytes);
        let lines: Vec<&str> = text
            .lines()
            .filter_map(|line| line.split_once(' '))
            .map(|line| line.1)
            .collect();
        let mut tail = lines
            .get(lines.len().saturating_sub(80)..)
            .unwrap_or_default()
            .join("\n");
        while tail.len() > 2048 {
            tail.remove(0);
        }
        tail
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    /// One write a record, so that a reader never sees half of it. A full disk loses lines, as a real node does.
    fn append(&mut self, text: &str) {
        let record = format!("{:.9} {text}\n", Timestamp::now());
        if self.file.write_all(record.as_bytes()).is_ok() {
            self.written = self
                .written
                .saturating_add(u64::try_from(record.len()).unwrap_or(u64::MAX));
        }
        if let Some(growth) = &self.growth {
            growth.send_replace(self.written);
        }
    }
}

impl LogSink for ContainerLog {
    fn line(&self, line: &str) {
        let mut state = self.lock();
        for part in line.split('\n') {
            if state.growth.is_none() || state.written >= self.limit {
                return;
            }
            state.append(part);
            if state.written >= self.limit {
                state.append(&format!(
                    "[the log ends here: {} MiB are kept]",
                    self.limit / (1024 * 1024)
                ));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use futures::TryStreamExt;

    use super::*;
    use crate::embedded::api::logs::LogOptions;

    fn pod(instance: u32) -> PodIdentity {
        PodIdentity {
            namespace: "eventlab".into(),
            name: "p".into(),
            uid: "u".into(),
            container: "main".into(),
            instance,
        }
    }

    fn logs() -> (tempfile::TempDir, Logs) {
        let folder = tempfile::tempdir().unwrap();
        let logs = Logs::new(folder.path());
        (folder, logs)
    }

    async fn read(logs: &Logs, previous: bool, follow: bool) -> Result<String, LogError> {
        let request = LogRequest {
            namespace: "eventlab".into(),
            pod: "p".into(),
            uid: "u".into(),
            container: "main".into(),
            current: None,
            options: LogOptions {
                previous,
                follow,
                ..LogOptions::default()
            },
        };
        let chunks: Vec<_> = logs.open(request).await?.try_collect().await?;
        Ok(String::from_utf8(chunks.concat()).unwrap())
    }

    #[tokio::test]
    async fn lines_carry_their_time() {
        let (folder, logs) = logs();
        assert_eq!(logs.newest(&pod(0)), None);
        let log = logs.create(&pod(2)).unwrap();
        log.line("hello world");
        log.line("two\nlines");
        let path = folder.path().join("eventlab_p_u/main/2.log");
        let text = std::fs::read_to_string(path).unwrap();
        let lines: Vec<(&str, &str)> = text
            .lines()
            .map(|line| line.split_once(' ').unwrap())
            .collect();
        assert_eq!(
            lines.iter().map(|line| line.1).collect::<Vec<_>>(),
            ["hello world", "two", "lines"]
        );
        assert!(
            lines
                .iter()
                .all(|line| line.0.len() == 30 && line.0.parse::<Timestamp>().is_ok()),
            "{text}"
        );
        assert_eq!(logs.newest(&pod(0)), Some(2));
        assert_eq!(
            read(&logs, false, false).await.unwrap(),
            "hello world\ntwo\nlines\n"
        );
    }

    #[tokio::test]
    async fn following_ends_with_the_container() {
        let (_folder, logs) = logs();
        let log = logs.create(&pod(0)).unwrap();
        log.line("first");
        let (following, ()) = tokio::join!(read(&logs, false, true), async {
            tokio::task::yield_now().await;
            log.line("last");
            logs.close(&pod(0), &log);
            log.line("after the end");
        });
        assert_eq!(following.unwrap(), "first\nlast\n");
    }

    #[tokio::test]
    async fn the_current_instance_is_read_unless_the_one_before_is_asked_for() {
        let (folder, logs) = logs();
        assert!(matches!(
            read(&logs, false, false).await,
            Err(LogError::Gone)
        ));
        logs.set_waiting("u", "main", "ImagePullBackOff");
        let waiting = read(&logs, false, false).await;
        assert!(
            matches!(waiting, Err(LogError::WaitingToStart(reason)) if reason == "ImagePullBackOff")
        );
        for instance in 0..20 {
            let log = logs.create(&pod(instance)).unwrap();
            log.line(&format!("instance {instance}"));
            logs.close(&pod(instance), &log);
        }
        assert_eq!(read(&logs, false, false).await.unwrap(), "instance 19\n");
        assert_eq!(read(&logs, true, false).await.unwrap(), "instance 18\n");
        assert_eq!(
            std::fs::read_dir(folder.path().join("eventlab_p_u/main"))
                .unwrap()
                .count(),
            10
        );
        // The cluster was set back to before the second instance.
        logs.create(&pod(1)).unwrap();
        assert!(matches!(
            read(&logs, true, false).await,
            Err(LogError::Gone)
        ));
        logs.remove("eventlab", "p", "u");
        assert!(matches!(
            read(&logs, false, false).await,
            Err(LogError::Gone)
        ));
    }

    #[test]
    fn a_log_is_bounded_and_says_so() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("0.log");
        let log = ContainerLog::create(&path, 1000, watch::channel(0).0).unwrap();
        for _ in 0..100 {
            log.line("some text that comes again and again");
        }
        let text = std::fs::read_to_string(path).unwrap();
        assert!(text.len() < 1200);
        assert_eq!(text.matches("the log ends here").count(), 1);
        assert!(text.ends_with("are kept]\n"));
    }
}
