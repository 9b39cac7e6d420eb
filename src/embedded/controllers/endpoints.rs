//! Writes the addresses of ready pods behind each Service, as Endpoints and as one EndpointSlice.
//!
//! Services without a selector are left alone: their endpoints are somebody else's.

use std::collections::BTreeMap;
use std::sync::Arc;

use k8s_openapi::api::core::v1::{
    EndpointAddress, EndpointPort as SubsetPort, EndpointSubset, Endpoints, Pod, Service,
    ServicePort,
};
use k8s_openapi::api::discovery::v1::{Endpoint, EndpointConditions, EndpointPort, EndpointSlice};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;
use kube::api::{Api, DeleteParams, PostParams};
use kube::{Client, ResourceExt};
use tokio_util::sync::CancellationToken;

use super::runtime::error::{is_already_exists, is_not_found};
use super::runtime::informer::Source;
use super::runtime::objects::{controller_ref, is_finished, is_ready, reference_to};
use super::runtime::{
    Change, Informer, Next, ObjectKey, Reconcile, ReconcileError, Result, Tasks, WorkQueue,
};

const SERVICE_NAME: &str = "kubernetes.io/service-name";
const MANAGED_BY: (&str, &str) = (
    "endpointslice.kubernetes.io/managed-by",
    "endpointslice-controller.k8s.io",
);

struct EndpointsController {
    client: Client,
    /// In Kubernetes each kind of endpoints has a controller with an account of its own.
    slice_client: Client,
    services: Informer<Service>,
    pods: Informer<Pod>,
    slices: Informer<EndpointSlice>,
}

/// Starts the controller.
pub(super) fn start(
    client: &Client,
    slice_client: &Client,
    tasks: &mut Tasks,
    cancel: &CancellationToken,
) {
    let queue = Arc::new(WorkQueue::new());
    let services = {
        let queue = Arc::clone(&queue);
        Source::new(Api::all(client.clone()))
            .indexed(|service: &Service| service.namespace().into_iter().collect())
            .on_change(move |change| queue.add(change.key.clone()))
            .start(tasks, cancel)
    };
    let pods = {
        let (queue, services) = (Arc::clone(&queue), services.clone());
        Source::new(Api::all(client.clone()))
            .indexed(|pod: &Pod| pod.namespace().into_iter().collect())
            .on_change(move |change| enqueue_services(change, &services, &queue))
            .start(tasks, cancel)
    };
    let slices = Source::new(Api::all(slice_client.clone()))
        .indexed(|slice: &EndpointSlice| slice_index(slice).into_iter().collect())
        .start(tasks, cancel);
    let synced = {
        let (services, pods, slices) = (services.clone(), pods.clone(), slices.clone());
        async move { futures::join!(services.synced(), pods.synced(), slices.synced()) }
    };
    let controller = Arc::new(EndpointsController {
        client: client.clone(),
        slice_client: slice_client.clone(),
        services,
        pods,
        slices,
    });
    tasks.workers(&controller, &queue, 1, cancel, async {
        let _ = synced.await;
    });
}

fn slice_index(slice: &EndpointSlice) -> Option<String> {
    Some(format!(
        "{}/{}",
        slice.namespace()?,
        slice.labels().get(SERVICE_NAME)?
    ))
}

fn enqueue_services(
    change: &Change<Pod>,
    services: &Informer<Service>,
    queue: &WorkQueue<ObjectKey>,
) {
    for service in services.cache.by_index(&change.key.namespace) {
        if change
            .sides()
            .any(|pod| selector(&service).is_some_and(|wanted| covers(wanted, pod)))
        {
            queue.add(ObjectKey::of(&*service));
        }
    }
}

/// What it selects; a name of something outside selects nothing.
fn selector(service: &Service) -> Option<&BTreeMap<String, String>> {
    let spec = service.spec.as_ref()?;
    if spec.type_.as_deref() == Some("ExternalName") {
        return None;
    }
    spec.selector
        .as_ref()
        .filter(|selector| !selector.is_empty())
}

fn covers(selector: &BTreeMap<String, String>, pod: &Pod) -> bool {
    selector
        .iter()
        .all(|(key, value)| pod.labels().get(key) == Some(value))
}

impl Reconcile for EndpointsController {
    type Key = ObjectKey;

    fn name(&self) -> &'static str {
        "endpoints"
    }

    async fn reconcile(&self, key: ObjectKey) -> Result<Next> {
        let Some(service) = self.services.cache.get(&key) else {
            self.delete_endpoints(&key).await?;
            return Ok(Next::Done);
        };
        let Some(wanted) = selector(&service).cloned() else {
            return Ok(Next::Done);
        };
        let mut pods = self.pods.cache.by_index(&key.namespace);
        pods.retain(|pod| covers(&wanted, pod) && address(pod).is_some() && !is_finished(pod));
        self.write_endpoints(&service, &pods).await?;
        self.write_slice(&service, &pods).await?;
        Ok(Next::Done)
    }
}

impl EndpointsController {
    /// Endpoints have no owner reference in Kubernetes, so they go here when their Service has gone.
    async fn delete_endpoints(&self, key: &ObjectKey) -> Result<()> {
        let api: Api<Endpoints> = Api::namespaced(self.client.clone(), &key.namespace);
        match api.delete(&key.name, &DeleteParams::default()).await {
            Ok(_) => Ok(()),
            Err(error) if is_not_found(&error) => Ok(()),
            Err(error) => Err(ReconcileError::api(format!("delete endpoints {key}"))(
                error,
            )),
        }
    }

    async fn write_endpoints(&self, service: &Service, pods: &[Arc<Pod>]) -> Result<()> {
        let (namespace, name) = (service.namespace().unwrap_or_default(), service.name_any());
        let api: Api<Endpoints> = Api::namespaced(self.client.clone(), &namespace);
        let subsets = subsets(service, pods);
        let failed =
            |action: &str| ReconcileError::api(format!("{action} endpoints {namespace}/{name}"));
        match api.get_opt(&name).await.map_err(failed("read"))? {
            Some(present) if present.subsets.clone().filter(|list| !list.is_empty()) == subsets => {
            }
            Some(present) => {
                let next = Endpoints { subsets, ..present };
                api.replace(&name, &PostParams::default(), &next)
                    .await
                    .map_err(failed("update"))?;
            }
            None => {
                let metadata = ObjectMeta {
                    name: Some(name.clone()),
                    namespace: Some(namespace.clone()),
                    labels: service.metadata.labels.clone(),
                    ..ObjectMeta::default()
                };
                match api
                    .create(&PostParams::default(), &Endpoints { metadata, subsets })
                    .await
                {
                    Err(error) if !is_already_exists(&error) => {
                        return Err(failed("create")(error));
                    }
                    _ => {}
                }
            }
        }
        Ok(())
    }

    async fn write_slice(&self, service: &Service, pods: &[Arc<Pod>]) -> Result<()> {
        let (namespace, name) = (service.namespace().unwrap_or_default(), service.name_any());
        let api: Api<EndpointSlice> = Api::namespaced(self.slice_client.clone(), &namespace);
        let wanted = slice(service, pods);
        let failed = |action: &str| {
            ReconcileError::api(format!(
                "{action} endpoint slice of service {namespace}/{name}"
            ))
        };
        let written = match self
            .slices
            .cache
            .by_index(&format!("{namespace}/{name}"))
            .first()
        {
            Some(present)
                if present.endpoints == wanted.endpoints && present.ports == wanted.ports =>
            {
                return Ok(());
            }
            Some(present) => {
                let next = EndpointSlice {
                    metadata: present.metadata.clone(),
                    ..wanted
                };
                api.replace(&present.name_any(), &PostParams::default(), &next)
                    .await
                    .map_err(failed("update"))?
            }
            None => api
                .create(&PostParams::default(), &wanted)
                .await
                .map_err(failed("create"))?,
        };
        self.slices.cache.upsert(written);
        Ok(())
    }
}

fn address(pod: &Pod) -> Option<String> {
    pod.status
        .as_ref()?
        .pod_ip
        .clone()
        .filter(|ip| !ip.is_empty())
}

/// The number that a Service port stands for on one pod; `None` if the pod has no port of that name.
fn target_port(port: &ServicePort, pod: &Pod) -> Option<i32> {
    let name = match &port.target_port {
        None => return Some(port.port),
        Some(IntOrString::Int(number)) => return Some(*number),
        Some(IntOrString::String(name)) => name,
    };
    let containers = pod
        .spec
        .as_ref()
        .map(|spec| spec.containers.as_slice())
        .unwrap_or_default();
    let ports = containers
        .iter()
        .flat_map(|container| container.ports.iter().flatten());
    ports
        .into_iter()
        .find(|one| one.name.as_ref() == Some(name))
        .map(|one| one.container_port)
}

fn counts_as_ready(service: &Service, pod: &Pod) -> bool {
    let publish = service
        .spec
        .as_ref()
        .and_then(|spec| spec.publish_not_ready_addresses)
        == Some(true);
    publish || (is_ready(pod) && pod.metadata.deletion_timestamp.is_none())
}

fn service_ports(service: &Service) -> &[ServicePort] {
    service
        .spec
        .as_ref()
        .and_then(|spec| spec.ports.as_deref())
        .unwrap_or_default()
}

fn subsets(service: &Service, pods: &[Arc<Pod>]) -> Option<Vec<EndpointSubset>> {
    let first = pods.first()?;
    let ports: Vec<SubsetPort> = service_ports(service)
        .iter()
        .filter_map(|port| {
            let number = target_port(port, first)?;
            Some(SubsetPort {
                name: port.name.clone(),
                port: number,
                protocol: protocol(port),
                ..SubsetPort::default()
            })
        })
        .collect();
    let (ready, waiting): (Vec<_>, Vec<_>) =
        pods.iter().partition(|pod| counts_as_ready(service, pod));
    let addresses = |pods: Vec<&Arc<Pod>>| {
        let list: Vec<_> = pods
            .into_iter()
            .filter_map(|pod| subset_address(pod))
            .collect();
        (!list.is_empty()).then_some(list)
    };
    Some(vec![EndpointSubset {
        addresses: addresses(ready),
        not_ready_addresses: addresses(waiting),
        ports: (!ports.is_empty()).then_some(ports),
    }])
}

fn protocol(port: &ServicePort) -> Option<String> {
    Some(port.protocol.clone().unwrap_or_else(|| "TCP".into()))
}

fn subset_address(pod: &Pod) -> Option<EndpointAddress> {
    Some(EndpointAddress {
        ip: address(pod)?,
        node_name: pod.spec.as_ref().and_then(|spec| spec.node_name.clone()),
        target_ref: Some(target(pod)),
        hostname: None,
    })
}

/// A reference without its version: an address does not change with each status of its pod.
fn target(pod: &Pod) -> k8s_openapi::api::core::v1::ObjectReference {
    k8s_openapi::api::core::v1::ObjectReference {
        api_version: None,
        resource_version: None,
        ..reference_to(pod, &())
    }
}

fn slice(service: &Service, pods: &[Arc<Pod>]) -> EndpointSlice {
    let name = service.name_any();
    let mut labels = service.metadata.labels.clone().unwrap_or_default();
    labels.insert(SERVICE_NAME.into(), name.clone());
    labels.insert(MANAGED_BY.0.into(), MANAGED_BY.1.into());
    let endpoints = pods
        .iter()
        .filter_map(|pod| slice_endpoint(service, pod))
        .collect();
    let first = pods.first();
    let ports = service_ports(service).iter().filter_map(|port| {
        let number = first.map_or(Some(port.port), |pod| target_port(port, pod))?;
        let name = port.name.clone().unwrap_or_default();
        Some(EndpointPort {
            name: Some(name),
            port: Some(number),
            protocol: protocol(port),
            ..EndpointPort::default()
        })
    });
    EndpointSlice {
        metadata: ObjectMeta {
            generate_name: Some(format!("{name}-")),
            namespace: service.namespace(),
            labels: Some(labels),
            owner_references: Some(vec![controller_ref(service, &())]),
            ..ObjectMeta::default()
        },
        address_type: "IPv4".into(),
        endpoints: Some(endpoints),
        ports: Some(ports.collect()),
    }
}

fn slice_endpoint(service: &Service, pod: &Pod) -> Option<Endpoint> {
    let terminating = pod.metadata.deletion_timestamp.is_some();
    Some(Endpoint {
        addresses: vec![address(pod)?],
        conditions: Some(EndpointConditions {
            ready: Some(counts_as_ready(service, pod)),
            serving: Some(is_ready(pod)),
            terminating: Some(terminating),
        }),
        node_name: pod.spec.as_ref().and_then(|spec| spec.node_name.clone()),
        target_ref: Some(target(pod)),
        ..Endpoint::default()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn service(port: &str) -> Service {
        let port: serde_json::Value = serde_json::from_str(port).expect("port");
        serde_json::from_value(serde_json::json!({
            "metadata": {"name": "web", "namespace": "ns"},
            "spec": {"selector": {"app": "web"}, "ports": [port]},
        }))
        .expect("service")
    }

    fn pod(ip: &str, ready: &str) -> Arc<Pod> {
        Arc::new(
            serde_json::from_value(serde_json::json!({
                "metadata": {"name": ip, "namespace": "ns", "labels": {"app": "web"}},
                "spec": {"containers": [{"name": "main", "ports": [{"name": "http", "containerPort": 12000}]}]},
                "status": {"podIP": ip, "phase": "Running", "conditions": [{"type": "Ready", "status": ready}]},
            }))
            .expect("pod"),
        )
    }

    #[test]
    fn ready_and_waiting_pods_are_kept_apart() {
        let service = service(r#"{"port": 80, "targetPort": "http"}"#);
        let pods = [pod("10.0.0.1", "True"), pod("10.0.0.2", "False")];
        let subset = subsets(&service, &pods).expect("subsets").remove(0);
        let ips = |list: Option<Vec<EndpointAddress>>| {
            list.unwrap_or_default()
                .into_iter()
                .map(|one| one.ip)
                .collect::<Vec<_>>()
        };
        assert_eq!(ips(subset.addresses), ["10.0.0.1"]);
        assert_eq!(ips(subset.not_ready_addresses), ["10.0.0.2"]);
        assert_eq!(subset.ports.expect("ports")[0].port, 12000);
        let slice = slice(&service, &pods);
        let ready: Vec<_> = slice
            .endpoints
            .into_iter()
            .flatten()
            .map(|one| one.conditions.and_then(|all| all.ready))
            .collect();
        assert_eq!(ready, [Some(true), Some(false)]);
    }

    #[test]
    fn a_service_without_pods_has_no_subset() {
        assert_eq!(subsets(&service(r#"{"port": 80}"#), &[]), None);
    }
}
