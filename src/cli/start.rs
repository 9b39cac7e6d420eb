//! Starting what a command needs: the session's files, the embedded cluster, the driver.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use super::exit::Failure;
use super::output::note;
use super::place::{Place, Real};
use super::{seeds, waits};
use crate::cluster::{Cluster, Context, unanswered};
use crate::embedded::cluster::{EmbeddedCluster, EmbeddedConfig};
use crate::embedded::node::own_program;
use crate::kinds::NAMESPACE;
use crate::lab::Catalog;
use crate::runner::driver::Driver;
use crate::runner::work::Patience;
use crate::session::SessionFiles;
use crate::session::files::Opened;

/// What runs in this process, for other commands to find.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Running {
    pub pid: u32,
    pub api: String,
    pub kubeconfig: PathBuf,
}

const RUNNING: &str = "running.json";
/// Names the context that a session began on.
const PINNED: &str = "context";
/// Is there where a session began on the embedded cluster.
const EMBEDDED_DATABASE: &str = "cluster.db";

/// A session with its cluster.
pub struct Started {
    /// `None` on a real cluster.
    pub embedded: Option<Arc<EmbeddedCluster>>,
    pub cluster: Cluster,
    pub driver: Driver,
    folder: PathBuf,
    _logs: Option<tracing_appender::non_blocking::WorkerGuard>,
}

/// Takes the session's lock, starts the embedded cluster or opens the context that was asked for, and takes the session up.
///
/// # Errors
/// The session is held by somebody else, or something of it cannot be used; each names the file and the next step.
pub async fn session(
    place: &Place,
    folder: &Path,
    catalog: Arc<Catalog>,
    patience: Patience,
) -> Result<Started, Failure> {
    session_with_seed(place, folder, catalog, patience, None).await
}

/// As [`session`]; labs that draw a fault draw it by this seed.
///
/// # Errors
/// As [`session`], and a lab that was begun with another seed.
pub async fn session_with_seed(
    place: &Place,
    folder: &Path,
    catalog: Arc<Catalog>,
    patience: Patience,
    seed: Option<u32>,
) -> Result<Started, Failure> {
    let mut opened = open(folder)?;
    pinned(folder, place.real.context.as_deref())?;
    let catalog = Arc::new(seeds::seeded(&catalog, opened.checkpoint.as_ref(), seed)?);
    opened.notes.extend(lost_copies(&opened, &catalog));
    place.bus.is_in(&catalog)?;
    let logs = log_to(folder);
    let real = real(&place.real, folder).await?;
    let (embedded, cluster) = match real {
        Some(cluster) => (None, cluster),
        None => {
            let embedded = cluster(folder, None).await?;
            let cluster = Cluster::of_embedded(&embedded);
            (Some(embedded), cluster)
        }
    };
    let driver = Driver::start(opened, cluster.clone(), catalog, patience)
        .await
        .map_err(Failure::environment)?;
    Ok(Started {
        embedded,
        cluster,
        driver,
        folder: folder.to_owned(),
        _logs: logs,
    })
}

impl Started {
    /// The session's folder.
    #[must_use]
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// Ends the cluster in order.
    pub async fn stop(self) {
        let Started {
            embedded,
            cluster,
            driver,
            folder,
            _logs,
        } = self;
        driver.close().await;
        drop(cluster);
        // A clean end leaves no record behind; a file that stays is recognised by its process.
        let _ = std::fs::remove_file(folder.join(RUNNING));
        if let Some(embedded) = embedded {
            shutdown(embedded).await;
        }
    }
}

/// The cluster of the context that was asked for, after it has answered once; `None` when none was.
///
/// # Errors
/// No such context, one that looks like production, a cluster that does not answer.
pub async fn real(real: &Real, folder: &Path) -> Result<Option<Cluster>, Failure> {
    let Some(context) = confirmed(real).await? else {
        return Ok(None);
    };
    let version = context.client.apiserver_version().await.map_err(|error| {
        Failure::environment(format!(
            "context `{}`: the API server at {} does not answer: {}; `eventlab doctor {}` looks closer",
            context.name,
            context.server,
            unanswered(&error),
            context.options()
        ))
    })?;
    tracing::info!(
        context = context.name,
        server = context.server,
        version = version.git_version,
        "real cluster"
    );
    let tag = tag(folder).map_err(|error| {
        Failure::environment(format!("cannot write in {}: {error}", folder.display()))
    })?;
    Ok(Some(Cluster::of_context(
        &context,
        NAMESPACE,
        real.options(Some(tag)),
    )))
}

/// The context that was asked for, unless it looks like production and was not named twice.
///
/// # Errors
/// No such context, or one that was not confirmed.
pub async fn confirmed(real: &Real) -> Result<Option<Context>, Failure> {
    let Some(request) = real.request() else {
        return Ok(None);
    };
    let context = Context::load(&request).await.map_err(Failure::usage)?;
    context.confirm(&request).map_err(Failure::usage)?;
    waits::tell(context.hearing());
    Ok(Some(context))
}

/// A session stays on the cluster that it began on: its attempts, facts and applied objects are of that one.
///
/// # Errors
/// It began on another one, or its folder cannot be written in.
pub(super) fn pinned(folder: &Path, context: Option<&str>) -> Result<(), Failure> {
    let path = folder.join(PINNED);
    let began = match std::fs::read_to_string(&path) {
        Ok(name) => Some(name),
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
            return Err(Failure::environment(format!(
                "cannot read {}, which says on which cluster this session began: {error}",
                path.display()
            )));
        }
        Err(_) if folder.join(EMBEDDED_DATABASE).exists() => None,
        Err(_) => {
            let Some(context) = context else {
                return Ok(());
            };
            return write_private(&path, context).map_err(|error| {
                Failure::environment(format!("cannot write {}: {error}", path.display()))
            });
        }
    };
    if began.as_deref() == context {
        return Ok(());
    }
    let side = |name: Option<&str>| match name {
        Some(name) => (
            format!("context `{name}`"),
            format!("with --context {name}"),
        ),
        None => (
            "the embedded cluster".to_owned(),
            "without --context".to_owned(),
        ),
    };
    let ((began, again), (asked, _)) = (side(began.as_deref()), side(context));
    Err(Failure::usage(format!(
        "the session in {} began on {began}, and this would go on with it on {asked}, where nothing of it is; go on {again}, or begin another one with --session NAME",
        folder.display()
    )))
}

/// What tells this session's names on a shared cluster from those of others: drawn once, and kept with the session.
fn tag(folder: &Path) -> std::io::Result<String> {
    let path = folder.join("session-tag");
    if let Ok(text) = std::fs::read_to_string(&path) {
        let text = text.trim();
        if text.len() == 5 && text.bytes().all(|byte| byte.is_ascii_alphanumeric()) {
            return Ok(text.to_owned());
        }
    }
    let drawn = uuid::Uuid::new_v4().simple().to_string();
    let tag: String = drawn.chars().take(5).collect();
    write_private(&path, &tag)?;
    Ok(tag)
}

/// Stops a cluster whose other users are about to let go of it.
pub async fn shutdown(embedded: Arc<EmbeddedCluster>) {
    embedded.stop().await;
}

/// Opens the session's files.
///
/// # Errors
/// As [`session`].
pub fn open(folder: &Path) -> Result<Opened, Failure> {
    // Whatever this process and its children make below the folder is for its owner alone.
    rustix::process::umask(rustix::fs::Mode::from_raw_mode(0o077));
    let opened = SessionFiles::open(folder, Timestamp::now()).map_err(Failure::environment)?;
    for note in &opened.notes {
        note!("eventlab: {note}");
    }
    Ok(opened)
}

/// Working copies of the present lab that are gone: taking the session up makes them anew from the lab's own text.
fn lost_copies(opened: &Opened, catalog: &Catalog) -> Vec<String> {
    let Some(kept) = &opened.checkpoint else {
        return Vec::new();
    };
    let Some(lab) = kept.labs.get(&kept.lab) else {
        return Vec::new();
    };
    let mut files = lab.working_copies.clone();
    // The first stage's copy is made when the session is taken up, and noted once it is applied.
    let stages = catalog
        .lab(&kept.lab)
        .map_or(&[][..], |lab| lab.stages.as_slice());
    let here = stages.iter().find(|stage| stage.name == kept.stage);
    files.extend(
        here.and_then(|stage| stage.fix.as_ref())
            .map(|fix| fix.manifest.clone())
            .filter(|file| lab.in_force.contains(file)),
    );
    let copies = opened.files.copies();
    files
        .into_iter()
        .filter(|file| matches!(copies.read(file), Ok(None)))
        .map(|file| {
            format!(
                "there is no working copy of {file} any more: the lab's own text is applied for it"
            )
        })
        .collect()
}

/// Starts the embedded cluster and writes down that it runs.
///
/// # Errors
/// As [`session`].
pub async fn cluster(
    folder: &Path,
    api_port: Option<u16>,
) -> Result<Arc<EmbeddedCluster>, Failure> {
    let config = EmbeddedConfig {
        state_dir: folder.to_owned(),
        program: program()?,
        api_port,
        bus_tag: super::bus::tag(folder),
    };
    let cluster = EmbeddedCluster::start(config)
        .await
        .map_err(Failure::environment)?;
    let running = Running {
        pid: std::process::id(),
        api: cluster.url().to_owned(),
        kubeconfig: cluster.kubeconfig(),
    };
    if let Ok(text) = serde_json::to_string(&running)
        && let Err(error) = write_private(&folder.join(RUNNING), &text)
    {
        tracing::warn!(%error, "writing down that the cluster runs");
    }
    Ok(Arc::new(cluster))
}

/// The program that workload pods run: this one, also after its file was replaced.
///
/// # Errors
/// The system does not tell this program's file.
pub fn program() -> Result<PathBuf, Failure> {
    own_program().map_err(|error| {
        Failure::environment(format!("cannot find this program's own file: {error}"))
    })
}

/// Makes a session's folder (0700) and those above it.
pub(super) fn private_folder(path: &Path) -> std::io::Result<()> {
    use std::os::unix::fs::DirBuilderExt as _;
    std::fs::DirBuilder::new()
        .recursive(true)
        .mode(0o700)
        .create(path)
}

/// The record of the process that runs this session's cluster, if it still does: who holds the session now must be who
/// wrote it, since a killed process leaves its record behind, and its number to others.
#[must_use]
pub fn running(folder: &Path) -> Option<Running> {
    let text = std::fs::read_to_string(folder.join(RUNNING)).ok()?;
    let running: Running = serde_json::from_str(&text).ok()?;
    let holder = crate::session::files::holder(folder)?;
    (holder.pid == Some(running.pid)).then_some(running)
}

pub(super) fn write_private(path: &Path, text: &str) -> std::io::Result<()> {
    use std::io::Write as _;
    let folder = path.parent().unwrap_or(Path::new("."));
    let mut file = tempfile::NamedTempFile::new_in(folder)?;
    file.write_all(text.as_bytes())?;
    file.persist(path).map_err(|error| error.error)?;
    Ok(())
}

/// Logs of this process go to `logs/eventlab.log`, never to the screen. A second call keeps the first.
#[must_use]
pub fn log_to(folder: &Path) -> Option<tracing_appender::non_blocking::WorkerGuard> {
    let logs = folder.join("logs");
    std::fs::create_dir_all(&logs).ok()?;
    let (writer, guard) =
        tracing_appender::non_blocking(tracing_appender::rolling::never(&logs, "eventlab.log"));
    let filter = tracing_subscriber::EnvFilter::try_from_env("EVENTLAB_LOG")
        .unwrap_or_else(|_| tracing_subscriber::EnvFilter::new("info"));
    let set = tracing_subscriber::fmt()
        .with_writer(writer)
        .with_ansi(false)
        .with_env_filter(filter)
        .try_init();
    set.ok().map(|()| guard)
}
