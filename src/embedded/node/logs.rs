//! Container logs: one file for each container instance, each line with its time.
//!
//! `logs/pods/NAMESPACE_POD_UID/CONTAINER/N.log`, N being the restart count; a line is `RFC3339Nano TEXT`.

use std::fs::File;
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use jiff::Timestamp;

use super::files::make_private_folder;
use super::process::{LogSink, PodIdentity};

/// A log grows to this size (bytes); later lines are dropped, and the last line says so.
pub const MAX_LOG: u64 = 64 * 1024 * 1024;

/// The folder under which all container logs are.
#[derive(Clone, Debug)]
pub struct LogFolder {
    root: PathBuf,
}

impl LogFolder {
    /// Logs below `root` (`logs/pods` of the state directory).
    #[must_use]
    pub fn new(root: impl Into<PathBuf>) -> LogFolder {
        LogFolder { root: root.into() }
    }

    /// The folder of one pod.
    #[must_use]
    pub fn pod(&self, namespace: &str, name: &str, uid: &str) -> PathBuf {
        // Kubernetes names hold neither `_` nor `/`, so nothing can climb out of the root.
        let safe = |text: &str| text.replace(['/', '\0'], "_");
        self.root
            .join(format!("{}_{}_{}", safe(namespace), safe(name), safe(uid)))
    }

    /// The log file of one container instance.
    #[must_use]
    pub fn file(&self, pod: &PodIdentity) -> PathBuf {
        let folder = self.pod(&pod.namespace, &pod.name, &pod.uid);
        folder
            .join(pod.container.replace(['/', '\0'], "_"))
            .join(format!("{}.log", pod.instance))
    }

    /// Whether this instance ever started: its file is made before it does.
    #[must_use]
    pub fn has_started(&self, pod: &PodIdentity) -> bool {
        self.file(pod).exists()
    }

    /// Makes the log file of an instance that is about to start.
    pub fn create(&self, pod: &PodIdentity) -> io::Result<ContainerLog> {
        ContainerLog::create(&self.file(pod), MAX_LOG)
    }
}

/// The log of one container instance.
#[derive(Debug)]
pub struct ContainerLog {
    state: Mutex<State>,
    limit: u64,
}

#[derive(Debug)]
struct State {
    file: File,
    written: u64,
    cut: bool,
}

impl ContainerLog {
    fn create(path: &Path, limit: u64) -> io::Result<ContainerLog> {
        if let Some(folder) = path.parent() {
            make_private_folder(folder)?;
        }
        let mut options = File::options();
        let file = options
            .write(true)
            .create(true)
            .truncate(true)
            .mode(0o600)
            .open(path)?;
        Ok(ContainerLog {
            state: Mutex::new(State {
                file,
                written: 0,
                cut: false,
            }),
            limit,
        })
    }
}

impl LogSink for ContainerLog {
    fn line(&self, line: &str) {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        if state.cut {
            return;
        }
        for part in line.split('\n') {
            let record = format!("{:.9} {part}\n", Timestamp::now());
            let length = u64::try_from(record.len()).unwrap_or(u64::MAX);
            if state.written.saturating_add(length) > self.limit {
                state.cut = true;
                let megabytes = self.limit / (1024 * 1024);
                let notice = format!(
                    "{:.9} [log ends here: {megabytes} MiB are kept]\n",
                    Timestamp::now()
                );
                let _ = state.file.write_all(notice.as_bytes());
                return;
            }
            // One write a record, so that a reader never sees half of it. A full disk loses lines, as a real node does.
            if state.file.write_all(record.as_bytes()).is_ok() {
                state.written += length;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_carry_their_time() {
        let folder = tempfile::tempdir().unwrap();
        let logs = LogFolder::new(folder.path());
        let pod = PodIdentity {
            namespace: "eventlab".into(),
            name: "p".into(),
            uid: "u".into(),
            container: "main".into(),
            instance: 2,
        };
        assert!(!logs.has_started(&pod));
        let log = logs.create(&pod).unwrap();
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
        assert!(logs.has_started(&pod));
    }

    #[test]
    fn a_log_is_bounded_and_says_so() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("0.log");
        let log = ContainerLog::create(&path, 1000).unwrap();
        for _ in 0..100 {
            log.line("some text that comes again and again");
        }
        let text = std::fs::read_to_string(path).unwrap();
        assert!(text.len() < 1200);
        assert_eq!(text.matches("log ends here").count(), 1);
        assert!(text.ends_with("are kept]\n"));
    }
}
