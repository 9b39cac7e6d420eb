//! Writes the addresses of ready pods behind each Service, as Endpoints and as EndpointSlices.
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
use kube::api::{Api, DeleteParams, PostParams};
use kube::{Client, ResourceExt};
use tokio_util::sync::CancellationToken;

use super::runtime::error::{is_already_exists, is_not_found};
use super::runtime::informer::Source;
use super::runtime::objects::{controller_ref, is_finished, is_ready, reference_to};
use super::runtime::{
    Change, Informer, Next, ObjectKey, Reconcile, ReconcileError, Result, Tasks, WorkQueue,
};
use crate::kinds;

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
        self.write_slices(&service, &pods).await?;
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
            Some(present)
                if present.subsets.clone().filter(|list| !list.is_empty()) == subsets
                    && present.metadata.labels == service.metadata.labels => {}
            Some(mut present) => {
                present.metadata.labels = service.metadata.labels.clone();
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

    async fn write_slices(&self, service: &Service, pods: &[Arc<Pod>]) -> Result<()> {
        let (namespace, name) = (service.namespace().unwrap_or_default(), service.name_any());
        let mut present = self.slices.cache.by_index(&format!("{namespace}/{name}"));
        let mut missing = Vec::new();
        for wanted in slices(service, pods) {
            match present.iter().position(|one| same_slice(one, &wanted)) {
                Some(at) => drop(present.swap_remove(at)),
                None => missing.push(wanted),
            }
        }
        for wanted in missing {
            self.write_slice(&namespace, &name, present.pop(), wanted)
                .await?;
        }
        for surplus in present {
            self.delete_slice(&surplus).await?;
        }
        Ok(())
    }

    /// Writes a slice, over one that is no longer wanted if there is one.
    async fn write_slice(
        &self,
        namespace: &str,
        service: &str,
        over: Option<Arc<EndpointSlice>>,
        wanted: EndpointSlice,
    ) -> Result<()> {
        let api: Api<EndpointSlice> = Api::namespaced(self.slice_client.clone(), namespace);
        let failed = |action: &str| {
            ReconcileError::api(format!(
                "{action} endpoint slice of service {namespace}/{service}"
            ))
        };
        let written = match over {
            Some(present) => {
                let metadata = ObjectMeta {
                    labels: wanted.metadata.labels.clone(),
                    ..present.metadata.clone()
                };
                let next = EndpointSlice { metadata, ..wanted };
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

    async fn delete_slice(&self, slice: &EndpointSlice) -> Result<()> {
        let (namespace, name) = (slice.namespace().unwrap_or_default(), slice.name_any());
        let api: Api<EndpointSlice> = Api::namespaced(self.slice_client.clone(), &namespace);
        match api.delete(&name, &DeleteParams::default()).await {
            Err(error) if !is_not_found(&error) => Err(ReconcileError::api(format!(
                "delete endpoint slice {namespace}/{name}"
            ))(error)),
            _ => {
                self.slices.cache.remove(slice);
                Ok(())
            }
        }
    }
}

fn same_slice(present: &EndpointSlice, wanted: &EndpointSlice) -> bool {
    let list = |slice: &EndpointSlice| slice.endpoints.clone().unwrap_or_default();
    let ports = |slice: &EndpointSlice| slice.ports.clone().unwrap_or_default();
    list(present) == list(wanted)
        && ports(present) == ports(wanted)
        && present.metadata.labels == wanted.metadata.labels
}

fn address(pod: &Pod) -> Option<String> {
    pod.status
        .as_ref()?
        .pod_ip
        .clone()
        .filter(|ip| !ip.is_empty())
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
    let mut subsets: Vec<EndpointSubset> = Vec::new();
    for pod in pods {
        let ports = subset_ports(service, pod);
        // Who has none of the ports is behind no Service that has some.
        if ports.is_empty() && !service_ports(service).is_empty() {
            continue;
        }
        let Some(address) = subset_address(pod) else {
            continue;
        };
        let ports = (!ports.is_empty()).then_some(ports);
        let known = subsets.iter().position(|subset| subset.ports == ports);
        let at = known.unwrap_or_else(|| {
            subsets.push(EndpointSubset {
                ports,
                ..EndpointSubset::default()
            });
            subsets.len() - 1
        });
        let list = if counts_as_ready(service, pod) {
            &mut subsets[at].addresses
        } else {
            &mut subsets[at].not_ready_addresses
        };
        list.get_or_insert_default().push(address);
    }
    (!subsets.is_empty()).then_some(subsets)
}

/// What the ports of a Service are on one pod; pods may call different numbers by one name.
fn subset_ports(service: &Service, pod: &Pod) -> Vec<SubsetPort> {
    let ports = service_ports(service).iter().filter_map(|port| {
        Some(SubsetPort {
            name: port.name.clone(),
            port: i32::from(kinds::pod_port(port, pod)?),
            protocol: protocol(port),
            ..SubsetPort::default()
        })
    });
    ports.collect()
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

/// One slice for each set of ports that the pods have; an empty one if there are no pods.
fn slices(service: &Service, pods: &[Arc<Pod>]) -> Vec<EndpointSlice> {
    let mut slices: Vec<EndpointSlice> = Vec::new();
    for pod in pods {
        let Some(endpoint) = slice_endpoint(service, pod) else {
            continue;
        };
        let ports = slice_ports(service, pod);
        let known = slices
            .iter()
            .position(|slice| slice.ports.as_ref() == Some(&ports));
        let at = known.unwrap_or_else(|| {
            slices.push(slice(service, ports));
            slices.len() - 1
        });
        let endpoints = &mut slices[at].endpoints;
        endpoints.get_or_insert_default().push(endpoint);
    }
    if slices.is_empty() {
        slices.push(slice(service, Vec::new()));
    }
    slices
}

fn slice_ports(service: &Service, pod: &Pod) -> Vec<EndpointPort> {
    let ports = service_ports(service).iter().filter_map(|port| {
        Some(EndpointPort {
            name: Some(port.name.clone().unwrap_or_default()),
            port: Some(i32::from(kinds::pod_port(port, pod)?)),
            protocol: protocol(port),
            ..EndpointPort::default()
        })
    });
    ports.collect()
}

fn slice(service: &Service, ports: Vec<EndpointPort>) -> EndpointSlice {
    let name = service.name_any();
    let mut labels = service.metadata.labels.clone().unwrap_or_default();
    labels.insert(SERVICE_NAME.into(), name.clone());
    labels.insert(MANAGED_BY.0.into(), MANAGED_BY.1.into());
    EndpointSlice {
        metadata: ObjectMeta {
            generate_name: Some(format!("{name}-")),
            namespace: service.namespace(),
            labels: Some(labels),
            owner_references: Some(vec![controller_ref(service, &())]),
            ..ObjectMeta::default()
        },
        address_type: "IPv4".into(),
        endpoints: Some(Vec::new()),
        ports: Some(ports),
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
        let mut slices = slices(&service, &pods);
        let ready: Vec<_> = slices
            .remove(0)
            .endpoints
            .into_iter()
            .flatten()
            .map(|one| one.conditions.and_then(|all| all.ready))
            .collect();
        assert_eq!(ready, [Some(true), Some(false)]);
    }

    #[test]
    fn a_service_without_pods_has_no_subset() {
        let service = service(r#"{"port": 80}"#);
        assert_eq!(subsets(&service, &[]), None);
        let slices = slices(&service, &[]);
        assert_eq!(slices.len(), 1);
        assert_eq!(
            (&slices[0].endpoints, &slices[0].ports),
            (&Some(vec![]), &Some(vec![]))
        );
    }

    /// Two pods of one Service may call different numbers by one name, as while one replaces the other.
    #[test]
    fn each_pod_is_told_with_its_own_ports() {
        let service = service(r#"{"port": 80, "targetPort": "http"}"#);
        let with = |ip: &str, ports: serde_json::Value| {
            let mut pod = Pod::clone(&pod(ip, "True"));
            let containers = &mut pod.spec.as_mut().expect("spec").containers;
            containers[0].ports = serde_json::from_value(ports).expect("ports");
            Arc::new(pod)
        };
        let named = |number: u16, protocol: &str| serde_json::json!([{"name": "http", "containerPort": number, "protocol": protocol}]);
        let pods = [
            with("10.0.0.1", named(1, "TCP")),
            with("10.0.0.2", named(2, "TCP")),
            with("10.0.0.3", named(1, "TCP")),
            with("10.0.0.4", named(1, "UDP")),
            with("10.0.0.5", serde_json::json!([])),
        ];
        let told: Vec<_> = subsets(&service, &pods)
            .expect("subsets")
            .into_iter()
            .map(|subset| {
                let ips: Vec<_> = subset
                    .addresses
                    .into_iter()
                    .flatten()
                    .map(|one| one.ip)
                    .collect();
                (ips, subset.ports.expect("ports")[0].port)
            })
            .collect();
        let ips = |list: &[&str]| list.iter().map(ToString::to_string).collect::<Vec<_>>();
        assert_eq!(
            told,
            [(ips(&["10.0.0.1", "10.0.0.3"]), 1), (ips(&["10.0.0.2"]), 2)]
        );
        let told: Vec<_> = slices(&service, &pods)
            .into_iter()
            .map(|slice| {
                let ips: Vec<_> = slice
                    .endpoints
                    .into_iter()
                    .flatten()
                    .flat_map(|one| one.addresses)
                    .collect();
                (
                    ips,
                    slice
                        .ports
                        .into_iter()
                        .flatten()
                        .map(|one| one.port)
                        .next()
                        .flatten(),
                )
            })
            .collect();
        assert_eq!(
            told,
            [
                (ips(&["10.0.0.1", "10.0.0.3"]), Some(1)),
                (ips(&["10.0.0.2"]), Some(2)),
                (ips(&["10.0.0.4", "10.0.0.5"]), None),
            ]
        );
    }
}
