//! Starts one container instance: image, environment, paths, and then a thread or a child process.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use futures::future::BoxFuture;
use k8s_openapi::api::core::v1::{Container, Pod};
use serde_json::json;
use tokio::net::{TcpListener, TcpSocket};
use tokio::sync::watch;

use super::addresses::AddressBook;
use super::child::{CREDENTIALS_VARIABLE, HOSTS_VARIABLE, MOUNTS_VARIABLE, POD_VARIABLE};
use super::children::{self, ChildSpec};
use super::environment::{Inputs, deny, environment, expand_words};
use super::fields::Placement;
use super::files::make_private_folder;
use super::images::{self, AS_PROCESS, Command, Launch, PROCESS_ANNOTATION, Refusal};
use super::logs::ContainerLog;
use super::mounts::Mounts;
use super::process::{
    ContainerFiles, Exit, LogSink, PodIdentity, PodProcess, PortBinder, ServiceContext,
    TerminationMessage,
};
use super::proxy::reserve;
use super::service;
use super::slot::Running;
use super::sources::{SetupError, Sources};
use super::tokens::Tokens;
use super::volumes::{Folders, SERVICE_ACCOUNT_PATH, mounts};
use super::{NODE_NAME, Shared};
use crate::kinds::real_port_variable;

/// Label of pods whose command Argo's executor starts.
const WORKFLOW_LABEL: &str = "workflows.argoproj.io/workflow";
/// Largest file that a service may read from its mounts (bytes).
const MAX_FILE: u64 = 16 * 1024 * 1024;
/// How often a child is asked whether it listens yet.
const PROBE_INTERVAL: Duration = Duration::from_millis(5);

/// Why an instance did not start.
pub(super) enum StartFailure {
    /// `ErrImagePull`.
    Image(String),
    /// `CreateContainerConfigError`: something it refers to is not there (yet).
    Config(String),
    /// It ended at its start: exit code, reason and message.
    Ended {
        code: i32,
        reason: &'static str,
        message: String,
    },
}

impl From<SetupError> for StartFailure {
    fn from(error: SetupError) -> Self {
        StartFailure::Config(error.0)
    }
}

/// An instance that runs, and the variables that were kept from it.
pub(super) struct Started {
    pub running: Running,
    pub denied: Vec<String>,
}

/// What every container of a pod shares.
#[derive(Clone)]
pub(super) struct PodContext {
    pub shared: Arc<Shared>,
    pub pod: Arc<Pod>,
    pub placement: Placement,
    /// The pod's own folder.
    pub folder: PathBuf,
    pub folders: Folders,
    pub tokens: Arc<Tokens>,
}

/// Checks the image alone, before anything is read for the container.
pub(super) fn check_image(context: &PodContext, container: &Container) -> Result<(), StartFailure> {
    match launch(context, container, &words(container)) {
        Err(Refusal::Image(message)) => Err(StartFailure::Image(message)),
        _ => Ok(()),
    }
}

/// Starts an instance of `container`; `siblings` are the exits of the pod's other containers.
pub(super) async fn start(
    context: &PodContext,
    container: &Container,
    identity: PodIdentity,
    siblings: BTreeMap<String, watch::Receiver<Option<Exit>>>,
) -> Result<Started, StartFailure> {
    let shared = &context.shared;
    let (env, mounts) = surroundings(context, container, &identity.namespace).await?;
    let words = expand_words(&words(container), &env);
    let plan = launch(context, container, &words);
    if let Err(Refusal::Image(message)) = plan {
        return Err(StartFailure::Image(message));
    }
    // Made before anything runs: a later life of the node sees by it that this instance was started.
    let log = shared.logs.create(&identity);
    let log = log.map_err(|error| {
        StartFailure::Config(format!("make the log of {}: {error}", container.name))
    })?;
    let instance = Instance {
        context,
        container,
        identity,
        mounts,
        env,
        log,
    };
    match plan {
        Ok(Launch::Service(service, args)) => instance.service(service, args, siblings).await,
        Ok(Launch::Child(args)) => instance.child(&args).await,
        Err(Refusal::Image(message)) => Err(StartFailure::Image(message)),
        Err(refusal) => Err(instance.refuse(refusal)),
    }
}

/// The variables and mounts of a container.
pub(super) async fn surroundings(
    context: &PodContext,
    container: &Container,
    namespace: &str,
) -> Result<(BTreeMap<String, String>, Arc<Mounts>), StartFailure> {
    let shared = &context.shared;
    let sources = Sources::of_environment(&shared.client, namespace, container).await?;
    let links = context
        .pod
        .spec
        .as_ref()
        .and_then(|spec| spec.enable_service_links)
        != Some(false);
    let mut services = if links {
        shared.addresses.variables(namespace)
    } else {
        BTreeMap::new()
    };
    services.extend(shared.api_variables());
    let inputs = Inputs {
        pod: &context.pod,
        placement: &context.placement,
        sources: &sources,
        services: &services,
    };
    let env = environment(container, inputs)?;
    let root = context.folder.join("rootfs").join(&container.name);
    make_private_folder(&root)
        .map_err(|error| StartFailure::Config(format!("make {}: {error}", root.display())))?;
    let mounts = Arc::new(mounts(container, &context.folders, root)?);
    Ok((env, mounts))
}

fn words(container: &Container) -> Vec<String> {
    container
        .command
        .iter()
        .flatten()
        .chain(container.args.iter().flatten())
        .cloned()
        .collect()
}

fn launch(
    context: &PodContext,
    container: &Container,
    words: &[String],
) -> Result<Launch, Refusal> {
    let metadata = &context.pod.metadata;
    let label = metadata
        .labels
        .as_ref()
        .is_some_and(|labels| labels.contains_key(WORKFLOW_LABEL));
    let annotations = metadata.annotations.as_ref();
    let command = Command {
        image: container.image.as_deref().unwrap_or_default(),
        words,
        has_command: container
            .command
            .as_ref()
            .is_some_and(|command| !command.is_empty()),
        by_executor: label,
        as_process: annotations
            .and_then(|all| all.get(PROCESS_ANNOTATION))
            .is_some_and(|how| how == AS_PROCESS),
    };
    images::launch(command, &context.shared.services)
}

/// One instance with everything it is given.
struct Instance<'a> {
    context: &'a PodContext,
    container: &'a Container,
    identity: PodIdentity,
    mounts: Arc<Mounts>,
    env: BTreeMap<String, String>,
    log: Arc<ContainerLog>,
}

impl Instance<'_> {
    /// A program that could not run, or did for a moment.
    fn refuse(&self, refusal: Refusal) -> StartFailure {
        let failure = match refusal {
            Refusal::Image(message) => StartFailure::Image(message),
            Refusal::Start(message) => StartFailure::Ended {
                code: 128,
                reason: "StartError",
                message,
            },
            Refusal::Exit(code, message) => {
                self.log.line(&message);
                StartFailure::Ended {
                    code,
                    reason: "Error",
                    message,
                }
            }
        };
        self.context.shared.logs.close(&self.identity, &self.log);
        failure
    }

    async fn service(
        self,
        service: super::process::Service,
        args: Vec<String>,
        siblings: BTreeMap<String, watch::Receiver<Option<Exit>>>,
    ) -> Result<Started, StartFailure> {
        let shared = Arc::clone(&self.context.shared);
        let token = self.context.tokens.for_audience(&shared.client, None).await;
        let token = match token {
            Ok(token) => token,
            Err(error) => {
                shared.logs.close(&self.identity, &self.log);
                return Err(error.into());
            }
        };
        let termination = TerminationMessage::default();
        let thread = self.identity.name.chars().take(15).collect();
        let log: Arc<dyn LogSink> = self.log.clone();
        let annotations = self
            .context
            .pod
            .metadata
            .annotations
            .clone()
            .unwrap_or_default();
        let ports = PodPorts {
            book: shared.addresses.clone(),
            uid: self.identity.uid.clone(),
            container: self.identity.container.clone(),
        };
        let (identity, env, files) = (
            self.identity.clone(),
            self.env,
            Arc::new(MountedFiles(self.mounts)),
        );
        let (bus, sink, message) = (shared.bus.clone(), log.clone(), termination.clone());
        let connect = Arc::clone(&shared);
        let context = move |terminate| ServiceContext {
            pod: identity,
            args,
            env,
            annotations,
            client: (connect.connect)(&token),
            log: sink,
            bus,
            ports: Arc::new(ports),
            files,
            termination: message,
            terminate,
            siblings,
        };
        match service::start(service, thread, log, context) {
            Ok(process) => Ok(Started {
                running: Running {
                    process: Box::new(process),
                    log: self.log,
                    termination,
                },
                denied: Vec::new(),
            }),
            Err(error) => {
                shared.logs.close(&self.identity, &self.log);
                Err(StartFailure::Ended {
                    code: 128,
                    reason: "StartError",
                    message: error.to_string(),
                })
            }
        }
    }

    async fn child(mut self, args: &[String]) -> Result<Started, StartFailure> {
        let shared = Arc::clone(&self.context.shared);
        let denied = deny(&mut self.env);
        let ports = self.reserve_ports(args);
        let given: Vec<(u16, u16)> = ports
            .iter()
            .map(|port| (port.port, port.address.port()))
            .collect();
        child_variables(
            &mut self.env,
            self.context,
            &self.identity,
            &self.mounts,
            &given,
        );
        let spec = ChildSpec {
            program: shared.program.clone(),
            args: self.mounts.arguments(args),
            env: std::mem::take(&mut self.env),
            folder: self.mounts.root().to_path_buf(),
            container: format!(
                "{}/{}/{}",
                self.identity.namespace, self.identity.name, self.identity.container
            ),
        };
        let sink = Arc::new(HostHider {
            log: self.log.clone(),
            mounts: self.mounts.clone(),
        });
        match children::start(spec, &shared.records, sink).await {
            Ok(child) => {
                self.watch_ports(ports, &child);
                let termination = TerminationMessage::default();
                Ok(Started {
                    running: Running {
                        process: Box::new(child),
                        log: self.log,
                        termination,
                    },
                    denied,
                })
            }
            Err(error) => {
                shared.logs.close(&self.identity, &self.log);
                let message = format!(
                    "failed to start the program of image {:?}: {error}",
                    self.container.image
                );
                Err(StartFailure::Ended {
                    code: 128,
                    reason: "StartError",
                    message,
                })
            }
        }
    }

    /// A real port for each container port, declared or only listened on.
    fn reserve_ports(&self, args: &[String]) -> Vec<ChildPort> {
        let ports = self.container.ports.iter().flatten();
        let numbers = ports.filter_map(|port| u16::try_from(port.container_port).ok());
        let mut numbers: Vec<u16> = numbers.chain(images::served_port(args)).collect();
        numbers.sort_unstable();
        numbers.dedup();
        let reserved = numbers.into_iter().filter_map(|port| {
            reserve(0)
                .ok()
                .map(|(socket, address)| (port, socket, address))
        });
        reserved
            .map(|(port, socket, address)| {
                // Elsewhere a port that is bound, even without a listener, cannot be bound again.
                let held = cfg!(target_os = "linux").then_some(socket);
                ChildPort {
                    port,
                    address,
                    _held: held,
                }
            })
            .collect()
    }

    /// Puts a child's ports into the book as soon as it accepts connections.
    fn watch_ports(&self, ports: Vec<ChildPort>, child: &children::ChildProcess) {
        for reserved in ports {
            let (book, mut exit) = (self.context.shared.addresses.clone(), child.exit());
            let (uid, container) = (self.identity.uid.clone(), self.identity.container.clone());
            tokio::spawn(async move {
                let accepts = async {
                    while tokio::net::TcpStream::connect(reserved.address)
                        .await
                        .is_err()
                    {
                        tokio::time::sleep(PROBE_INTERVAL).await;
                    }
                };
                tokio::select! {
                    () = accepts => { book.set_socket(&uid, &container, reserved.port, reserved.address); }
                    _ = exit.wait_for(Option::is_some) => {}
                }
            });
        }
    }
}

/// Adds what a child needs to know of its place on the host: mounts, Services, credentials, and the real port of each of
/// its container ports.
pub(super) fn child_variables(
    env: &mut BTreeMap<String, String>,
    context: &PodContext,
    identity: &PodIdentity,
    mounts: &Mounts,
    ports: &[(u16, u16)],
) {
    let shared = &context.shared;
    let folders: BTreeMap<&str, &Path> = mounts
        .iter()
        .map(|mount| (mount.path.as_str(), mount.host.as_path()))
        .collect();
    let hosts: BTreeMap<String, String> = shared
        .addresses
        .list()
        .into_iter()
        .map(|real| {
            (
                format!("{}.{}.svc:{}", real.service, real.namespace, real.port),
                real.address.to_string(),
            )
        })
        .collect();
    let pod = json!({
        "namespace": identity.namespace, "name": identity.name, "uid": identity.uid,
        "container": identity.container, "instance": identity.instance,
        "annotations": context.pod.metadata.annotations,
    });
    env.insert(MOUNTS_VARIABLE.to_owned(), json!(folders).to_string());
    env.insert(HOSTS_VARIABLE.to_owned(), json!(hosts).to_string());
    env.insert(POD_VARIABLE.to_owned(), pod.to_string());
    let credentials = mounts.resolve(SERVICE_ACCOUNT_PATH);
    env.insert(
        CREDENTIALS_VARIABLE.to_owned(),
        credentials.display().to_string(),
    );
    for (port, real) in ports {
        env.insert(real_port_variable(*port), real.to_string());
    }
    for (name, value) in [("PATH", "/"), ("HOME", "/"), ("HOSTNAME", &identity.name)] {
        env.entry(name.to_owned())
            .or_insert_with(|| value.to_owned());
    }
}

/// A container port of a child and the real port that it is told to take.
struct ChildPort {
    port: u16,
    address: SocketAddr,
    /// Keeps the port from others until the child listens.
    _held: Option<TcpSocket>,
}

/// Binds ports of one container and puts them into the book.
struct PodPorts {
    book: AddressBook,
    uid: String,
    container: String,
}

impl PortBinder for PodPorts {
    fn bind(&self, port: u16) -> BoxFuture<'_, std::io::Result<TcpListener>> {
        Box::pin(async move {
            let listener = TcpListener::bind((std::net::Ipv4Addr::LOCALHOST, 0)).await?;
            if self
                .book
                .set_socket(&self.uid, &self.container, port, listener.local_addr()?)
            {
                return Ok(listener);
            }
            let taken = format!("listen tcp :{port}: bind: address already in use");
            Err(std::io::Error::new(std::io::ErrorKind::AddrInUse, taken))
        })
    }
}

/// The mounts of one container.
struct MountedFiles(Arc<Mounts>);

impl ContainerFiles for MountedFiles {
    fn read<'a>(&'a self, path: &'a str) -> BoxFuture<'a, std::io::Result<Vec<u8>>> {
        Box::pin(async move {
            let path = self.0.resolve(path);
            if tokio::fs::metadata(&path).await?.len() > MAX_FILE {
                return Err(std::io::Error::other(format!(
                    "the file is larger than {MAX_FILE} bytes"
                )));
            }
            tokio::fs::read(path).await
        })
    }
}

/// Shows paths in a child's output as its container knows them.
struct HostHider {
    log: Arc<ContainerLog>,
    mounts: Arc<Mounts>,
}

impl LogSink for HostHider {
    fn line(&self, line: &str) {
        self.log.line(&self.mounts.hide_host(line));
    }
}

/// What the pod's containers know of where they run.
pub(super) fn placement(pod_ip: &str) -> Placement {
    Placement {
        node_name: NODE_NAME.to_owned(),
        host_ip: super::HOST_IP.to_owned(),
        pod_ip: pod_ip.to_owned(),
    }
}

/// Ends a container's log and sockets after its exit.
pub(super) fn clean_up(shared: &Shared, identity: &PodIdentity, log: &ContainerLog) {
    shared
        .addresses
        .clear_sockets(&identity.uid, &identity.container);
    shared.logs.close(identity, log);
}

/// Stops a process: asks, or kills.
pub(super) fn stop(process: &dyn PodProcess, kill: bool) {
    if kill {
        process.kill()
    } else {
        process.terminate()
    }
}
