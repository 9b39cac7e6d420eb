//! The address book: which real socket on 127.0.0.1 stands behind a pod's or Service's address and port.
//!
//! Addresses in objects (10.x) are only for show. From above: [`AddressBook::service_address`] and
//! [`AddressBook::resolve`] for dialing, [`AddressBook::list`] for people. The node fills the book.

use std::collections::{BTreeMap, HashMap};
use std::net::{Ipv4Addr, SocketAddr};
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use k8s_openapi::api::core::v1::{Container, Pod, PodSpec, Service, ServicePort};
use serde::Serialize;
use tokio::sync::watch;

use super::files::write_private_file;
use crate::kinds;

/// Addresses of pods are of 10.244.0.0/16.
const POD_NETWORK: [u8; 2] = [10, 244];

/// A Service's port with its real socket, as `eventlab status` prints it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct RealAddress {
    pub namespace: String,
    pub service: String,
    pub port: u16,
    /// Where it is reached on this machine.
    pub address: SocketAddr,
    /// Whether it can be reached now: some pod behind it is ready and listens.
    pub listening: bool,
}

/// Names one port of one Service.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) struct PortKey {
    pub namespace: String,
    pub service: String,
    pub port: u16,
}

impl std::fmt::Display for PortKey {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}/{}:{}", self.namespace, self.service, self.port)
    }
}

/// Maps addresses and names to real sockets; clones share one book.
#[derive(Clone, Debug)]
pub struct AddressBook {
    inner: Arc<Inner>,
}

#[derive(Debug)]
struct Inner {
    state: Mutex<State>,
    changed: watch::Sender<u64>,
    /// Where real ports are remembered, so that printed URLs stay valid.
    file: Option<PathBuf>,
}

#[derive(Debug, Default)]
struct State {
    /// By uid.
    pods: HashMap<String, PodEntry>,
    services: BTreeMap<(String, String), ServiceEntry>,
    ports: BTreeMap<PortKey, PortState>,
    remembered: BTreeMap<String, u16>,
    next_address: u16,
}

#[derive(Debug)]
struct PodEntry {
    namespace: String,
    name: String,
    address: String,
    labels: BTreeMap<String, String>,
    /// Of the pod what says which ports have which names.
    shape: Pod,
    ready: bool,
    sockets: BTreeMap<u16, Socket>,
}

#[derive(Debug)]
struct Socket {
    address: SocketAddr,
    container: String,
}

#[derive(Debug)]
struct ServiceEntry {
    cluster_ip: Option<String>,
    selector: BTreeMap<String, String>,
    not_ready_too: bool,
    ports: Vec<PortEntry>,
}

#[derive(Debug)]
struct PortEntry {
    name: Option<String>,
    port: u16,
    entry: ServicePort,
}

#[derive(Debug, Clone, Copy)]
struct PortState {
    address: SocketAddr,
    listening: bool,
}

impl Default for AddressBook {
    fn default() -> Self {
        AddressBook::new(None)
    }
}

impl AddressBook {
    /// An empty book; real ports are remembered in `file` if there is one.
    #[must_use]
    pub fn new(file: Option<PathBuf>) -> AddressBook {
        let read = file.as_ref().and_then(|file| std::fs::read(file).ok());
        // A file that is torn or absent only means that ports are chosen anew.
        let remembered = read
            .and_then(|bytes| serde_json::from_slice(&bytes).ok())
            .unwrap_or_default();
        let state = State {
            remembered,
            ..State::default()
        };
        AddressBook {
            inner: Arc::new(Inner {
                state: Mutex::new(state),
                changed: watch::Sender::new(0),
                file,
            }),
        }
    }

    /// The real address of a Service's port, while it can be reached.
    #[must_use]
    pub fn service_address(&self, namespace: &str, service: &str, port: u16) -> Option<SocketAddr> {
        let key = PortKey {
            namespace: namespace.to_owned(),
            service: service.to_owned(),
            port,
        };
        self.lock()
            .ports
            .get(&key)
            .filter(|state| state.listening)
            .map(|state| state.address)
    }

    /// The real address of a pod's port, while something listens on it.
    #[must_use]
    pub fn pod_address(&self, namespace: &str, pod: &str, port: u16) -> Option<SocketAddr> {
        let state = self.lock();
        let entry = state
            .pods
            .values()
            .find(|entry| entry.namespace == namespace && entry.name == pod)?;
        entry.sockets.get(&port).map(|socket| socket.address)
    }

    /// The real address of a port of the pod with this uid, while something listens on it.
    pub(super) fn socket(&self, uid: &str, port: u16) -> Option<SocketAddr> {
        let state = self.lock();
        let entry = state.pods.get(uid)?;
        entry.sockets.get(&port).map(|socket| socket.address)
    }

    /// The real address of a host and port as a pod in `namespace` would dial them: a Service's or pod's DNS name or
    /// address.
    #[must_use]
    pub fn resolve(&self, namespace: &str, host: &str, port: u16) -> Option<SocketAddr> {
        if let Ok(address) = host.parse::<Ipv4Addr>() {
            return self.resolve_address(&address.to_string(), port);
        }
        let labels: Vec<&str> = host.trim_end_matches('.').split('.').collect();
        let labels = match labels.as_slice() {
            [labels @ .., "svc", "cluster", "local"] | [labels @ .., "svc"] => labels,
            labels => labels,
        };
        match labels {
            [service] => self.service_address(namespace, service, port),
            [service, namespace] => self.service_address(namespace, service, port),
            // A pod of a StatefulSet, under its governing Service.
            [pod, _, namespace] => self.pod_address(namespace, pod, port),
            _ => None,
        }
    }

    fn resolve_address(&self, address: &str, port: u16) -> Option<SocketAddr> {
        let state = self.lock();
        if let Some(pod) = state.pods.values().find(|pod| pod.address == address) {
            return pod.sockets.get(&port).map(|socket| socket.address);
        }
        let named = state
            .services
            .iter()
            .find(|(_, service)| service.cluster_ip.as_deref() == Some(address));
        let (namespace, service) = named?.0.clone();
        let state = state.ports.get(&PortKey {
            namespace,
            service,
            port,
        })?;
        state.listening.then_some(state.address)
    }

    /// All ports of all Services with their real sockets.
    #[must_use]
    pub fn list(&self) -> Vec<RealAddress> {
        let state = self.lock();
        let entries = state.ports.iter().map(|(key, port)| RealAddress {
            namespace: key.namespace.clone(),
            service: key.service.clone(),
            port: key.port,
            address: port.address,
            listening: port.listening,
        });
        entries.collect()
    }

    /// A signal for every change of the book.
    #[must_use]
    pub fn changes(&self) -> watch::Receiver<u64> {
        self.inner.changed.subscribe()
    }

    /// Variables by which pods in `namespace` find Services, with real hosts and ports.
    pub(super) fn variables(&self, namespace: &str) -> BTreeMap<String, String> {
        let state = self.lock();
        let mut variables = BTreeMap::new();
        for ((_, name), service) in state.services.iter().filter(|((of, _), _)| of == namespace) {
            // A headless Service has no variables on any cluster.
            if service.cluster_ip.is_none() {
                continue;
            }
            let real = |port: u16| {
                let key = PortKey {
                    namespace: namespace.to_owned(),
                    service: name.clone(),
                    port,
                };
                state.ports.get(&key).map(|state| state.address)
            };
            service_variables(&mut variables, name, &service.ports, real);
        }
        variables
    }

    pub(super) fn set_pod(&self, uid: &str, pod: &Pod, address: &str) {
        let labels = pod.metadata.labels.clone().unwrap_or_default();
        let mut state = self.lock();
        match state.pods.get_mut(uid) {
            Some(entry) if entry.labels == labels => return,
            Some(entry) => entry.labels = labels,
            None => {
                let entry = PodEntry {
                    namespace: pod.metadata.namespace.clone().unwrap_or_default(),
                    name: pod.metadata.name.clone().unwrap_or_default(),
                    address: address.to_owned(),
                    labels,
                    shape: shape(pod),
                    ready: false,
                    sockets: BTreeMap::new(),
                };
                state.pods.insert(uid.to_owned(), entry);
            }
        }
        drop(state);
        self.note_change();
    }

    pub(super) fn remove_pod(&self, uid: &str) {
        let removed = self.lock().pods.remove(uid);
        if removed.is_some() {
            self.note_change();
        }
    }

    pub(super) fn set_ready(&self, uid: &str, ready: bool) {
        let changed = match self.lock().pods.get_mut(uid) {
            Some(entry) if entry.ready != ready => {
                entry.ready = ready;
                !entry.sockets.is_empty()
            }
            _ => false,
        };
        if changed {
            self.note_change();
        }
    }

    /// Records where a container's port really listens; false if the pod is gone or the port is taken in it.
    pub(super) fn set_socket(
        &self,
        uid: &str,
        container: &str,
        port: u16,
        address: SocketAddr,
    ) -> bool {
        let set = match self.lock().pods.get_mut(uid) {
            Some(entry) if !entry.sockets.contains_key(&port) => {
                entry.sockets.insert(
                    port,
                    Socket {
                        address,
                        container: container.to_owned(),
                    },
                );
                true
            }
            _ => false,
        };
        if set {
            self.note_change();
        }
        set
    }

    /// Forgets the sockets of a container that has ended.
    pub(super) fn clear_sockets(&self, uid: &str, container: &str) {
        let changed = match self.lock().pods.get_mut(uid) {
            Some(entry) => {
                let before = entry.sockets.len();
                entry
                    .sockets
                    .retain(|_, socket| socket.container != container);
                before != entry.sockets.len()
            }
            None => false,
        };
        if changed {
            self.note_change();
        }
    }

    /// An address for a new pod; `known` is kept if no other pod has it.
    pub(super) fn pod_ip(&self, known: Option<&str>) -> String {
        let mut state = self.lock();
        let taken =
            |state: &State, address: &str| state.pods.values().any(|pod| pod.address == address);
        if let Some(known) = known.filter(|known| !taken(&state, known)) {
            return known.to_owned();
        }
        loop {
            state.next_address = state.next_address.wrapping_add(1);
            let [high, low] = state.next_address.to_be_bytes();
            let address = Ipv4Addr::new(POD_NETWORK[0], POD_NETWORK[1], high, low).to_string();
            if !matches!(low, 0 | 1 | 255) && !taken(&state, &address) {
                return address;
            }
        }
    }

    /// Takes a Service in; answers its TCP ports.
    pub(super) fn set_service(&self, service: &Service) -> Vec<PortKey> {
        let (namespace, name) = identity(service);
        let spec = service.spec.as_ref();
        let ports: Vec<PortEntry> = spec
            .and_then(|spec| spec.ports.as_ref())
            .into_iter()
            .flatten()
            .filter_map(PortEntry::of)
            .collect();
        let keys = ports
            .iter()
            .map(|port| PortKey {
                namespace: namespace.clone(),
                service: name.clone(),
                port: port.port,
            })
            .collect();
        let entry = ServiceEntry {
            cluster_ip: spec
                .and_then(|spec| spec.cluster_ip.clone())
                .filter(|ip| !ip.is_empty() && ip != "None"),
            selector: spec
                .and_then(|spec| spec.selector.clone())
                .unwrap_or_default(),
            not_ready_too: spec
                .and_then(|spec| spec.publish_not_ready_addresses)
                .unwrap_or(false),
            ports,
        };
        self.lock().services.insert((namespace, name), entry);
        self.note_change();
        keys
    }

    pub(super) fn remove_service(&self, namespace: &str, name: &str) {
        self.lock()
            .services
            .remove(&(namespace.to_owned(), name.to_owned()));
        self.note_change();
    }

    /// Sockets of the ready pods behind a Service's port.
    pub(super) fn endpoints(&self, key: &PortKey) -> Vec<SocketAddr> {
        let state = self.lock();
        let Some(service) = state
            .services
            .get(&(key.namespace.clone(), key.service.clone()))
        else {
            return Vec::new();
        };
        let Some(port) = service.ports.iter().find(|port| port.port == key.port) else {
            return Vec::new();
        };
        if service.selector.is_empty() {
            return Vec::new();
        }
        let selected = |pod: &&PodEntry| {
            let matches = |(name, value)| pod.labels.get(name) == Some(value);
            pod.namespace == key.namespace
                && (pod.ready || service.not_ready_too)
                && service.selector.iter().all(matches)
        };
        let sockets = state.pods.values().filter(selected).filter_map(|pod| {
            let number = kinds::pod_port(&port.entry, &pod.shape)?;
            pod.sockets.get(&number).map(|socket| socket.address)
        });
        let mut sockets: Vec<SocketAddr> = sockets.collect();
        sockets.sort();
        sockets
    }

    /// The real port that a Service's port had before.
    pub(super) fn remembered(&self, key: &PortKey) -> Option<u16> {
        self.lock().remembered.get(&key.to_string()).copied()
    }

    /// Whether another Service's port has this real port.
    pub(super) fn has_port(&self, key: &PortKey, port: u16) -> bool {
        self.lock()
            .ports
            .iter()
            .any(|(other, state)| other != key && state.address.port() == port)
    }

    /// Records the real socket of a Service's port.
    pub(super) fn set_real(&self, key: &PortKey, address: SocketAddr, listening: bool) {
        let mut state = self.lock();
        let service = state
            .services
            .get(&(key.namespace.clone(), key.service.clone()));
        if service.is_none_or(|service| service.ports.iter().all(|port| port.port != key.port)) {
            return;
        }
        state
            .ports
            .insert(key.clone(), PortState { address, listening });
        let new = state.remembered.insert(key.to_string(), address.port()) != Some(address.port());
        let text = new.then(|| serde_json::to_vec_pretty(&state.remembered).unwrap_or_default());
        drop(state);
        if let (Some(file), Some(text)) = (&self.inner.file, text) {
            // Without the file the port may be another one after a restart; everything else works.
            if let Err(error) = write_private_file(file, &text) {
                tracing::warn!(file = %file.display(), %error, "cannot remember real ports");
            }
        }
        self.note_change();
    }

    pub(super) fn remove_real(&self, key: &PortKey) {
        self.lock().ports.remove(key);
        self.note_change();
    }

    fn note_change(&self) {
        self.inner
            .changed
            .send_modify(|version| *version = version.wrapping_add(1));
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.inner
            .state
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }
}

impl PortEntry {
    fn of(port: &ServicePort) -> Option<PortEntry> {
        if port.protocol.as_deref().unwrap_or("TCP") != "TCP" {
            return None;
        }
        Some(PortEntry {
            name: port.name.clone(),
            port: u16::try_from(port.port).ok()?,
            entry: port.clone(),
        })
    }
}

/// A pod with nothing but the ports of its containers.
fn shape(pod: &Pod) -> Pod {
    let bare = |container: &Container| Container {
        ports: container.ports.clone(),
        restart_policy: container.restart_policy.clone(),
        ..Container::default()
    };
    let spec = pod.spec.as_ref().map(|spec| PodSpec {
        containers: spec.containers.iter().map(bare).collect(),
        init_containers: spec
            .init_containers
            .as_ref()
            .map(|all| all.iter().map(bare).collect()),
        ..PodSpec::default()
    });
    Pod {
        spec,
        ..Pod::default()
    }
}

/// Namespace and name of a Service.
pub(super) fn identity(service: &Service) -> (String, String) {
    let metadata = &service.metadata;
    (
        metadata.namespace.clone().unwrap_or_default(),
        metadata.name.clone().unwrap_or_default(),
    )
}

/// The variables of one Service, as the kubelet makes them (`pkg/kubelet/envvars`).
fn service_variables(
    variables: &mut BTreeMap<String, String>,
    service: &str,
    ports: &[PortEntry],
    real: impl Fn(u16) -> Option<SocketAddr>,
) {
    let prefix = service.to_uppercase().replace(['-', '.'], "_");
    for (index, port) in ports.iter().enumerate() {
        let Some(address) = real(port.port) else {
            continue;
        };
        let (host, number) = (address.ip().to_string(), address.port().to_string());
        let url = format!("tcp://{address}");
        if index == 0 {
            variables.insert(format!("{prefix}_SERVICE_HOST"), host.clone());
            variables.insert(format!("{prefix}_SERVICE_PORT"), number.clone());
            variables.insert(format!("{prefix}_PORT"), url.clone());
        }
        if let Some(name) = port.name.as_ref().filter(|name| !name.is_empty()) {
            let name = name.to_uppercase().replace('-', "_");
            variables.insert(format!("{prefix}_SERVICE_PORT_{name}"), number.clone());
        }
        let one = format!("{prefix}_PORT_{}_TCP", port.port);
        variables.insert(format!("{one}_PROTO"), "tcp".to_owned());
        variables.insert(format!("{one}_PORT"), number);
        variables.insert(format!("{one}_ADDR"), host);
        variables.insert(one, url);
    }
}
