//! Reaching a Service of a real cluster by port-forward: the Service's selector, a pod that can take it, a stream of its
//! own for every connection. A pod that goes takes its connections along; the next one finds the next pod.

use std::collections::BTreeMap;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::{Arc, Mutex, PoisonError};

use futures::FutureExt as _;
use k8s_openapi::api::core::v1::{Pod, Service};
use kube::api::ListParams;
use kube::{Api, Client};
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;

use super::reach::{Connection, Unconnected};
use super::told;
use crate::kinds;

/// Connections that one local address carries at a time.
const CONNECTIONS: usize = 64;

/// Opens connections to Services by port-forward, and local addresses that do the same for other programs.
#[derive(Clone)]
pub(super) struct Forwarder {
    client: Client,
    listeners: Arc<Mutex<BTreeMap<Target, SocketAddr>>>,
    /// Ends the local addresses with the last owner.
    cancel: Arc<CancelOnDrop>,
}

struct CancelOnDrop(CancellationToken);

impl Drop for CancelOnDrop {
    fn drop(&mut self) {
        self.0.cancel();
    }
}

/// A Service's port.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Target {
    pub namespace: String,
    pub service: String,
    pub port: u16,
}

impl std::fmt::Display for Target {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(formatter, "service {}:{}", self.service, self.port)
    }
}

impl Forwarder {
    pub(super) fn new(client: Client) -> Self {
        Self {
            client,
            listeners: Arc::default(),
            cancel: Arc::new(CancelOnDrop(CancellationToken::new())),
        }
    }

    /// A stream of its own to a pod behind the Service.
    pub(super) async fn connect(&self, target: &Target) -> Result<Connection, Unconnected> {
        let (pod, port) = self.endpoint(target).await?;
        let pods: Api<Pod> = Api::namespaced(self.client.clone(), &target.namespace);
        let failed = |reason: String| Unconnected(format!("port-forward to pod {pod}: {reason}"));
        let mut forwarder = pods
            .portforward(&pod, &[port])
            .await
            .map_err(|error| failed(told(&error)))?;
        let refused = forwarder.take_error(port);
        let stream = forwarder
            .take_stream(port)
            .ok_or_else(|| failed("it has no stream".to_owned()))?;
        // The task behind it ends with the stream.
        drop(forwarder);
        Ok(Connection {
            stream: Box::new(stream),
            refused: refused.map(|refused| refused.boxed()),
        })
    }

    /// The pod to forward to, and its port, as `kubectl port-forward service/NAME` chooses them.
    async fn endpoint(&self, target: &Target) -> Result<(String, u16), Unconnected> {
        let look = |what: &'static str| {
            move |error: kube::Error| Unconnected(format!("cannot read {what}: {}", told(&error)))
        };
        let services: Api<Service> = Api::namespaced(self.client.clone(), &target.namespace);
        let service = services
            .get_opt(&target.service)
            .await
            .map_err(look("the Service"))?
            .ok_or_else(|| Unconnected(format!("there is no {target}")))?;
        let selector =
            selector(&service).ok_or_else(|| Unconnected(format!("{target} selects no pods")))?;
        let pods: Api<Pod> = Api::namespaced(self.client.clone(), &target.namespace);
        let list = pods
            .list(&ListParams::default().labels(&selector))
            .await
            .map_err(look("the pods of the Service"))?;
        let pod = list
            .items
            .iter()
            .find(|pod| takes(pod))
            .ok_or_else(|| Unconnected("it has no ready endpoint".to_owned()))?;
        let port = pod_port(&service, target.port, pod)
            .ok_or_else(|| Unconnected(format!("{target} has no such port")))?;
        Ok((pod.metadata.name.clone().unwrap_or_default(), port))
    }

    /// An address on 127.0.0.1 whose every connection goes to the Service; made once, and kept.
    pub(super) fn local_address(&self, target: &Target) -> Option<SocketAddr> {
        let mut listeners = self
            .listeners
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        if let Some(address) = listeners.get(target) {
            return Some(*address);
        }
        let listener = bind(target.port).ok()?;
        let address = listener.local_addr().ok()?;
        let forwarder = Self {
            client: self.client.clone(),
            listeners: Arc::default(),
            cancel: Arc::new(CancelOnDrop(self.cancel.0.child_token())),
        };
        tokio::spawn(serve(
            listener,
            forwarder,
            target.clone(),
            self.cancel.0.clone(),
        ));
        listeners.insert(target.clone(), address);
        Some(address)
    }
}

/// The Service's own port where it is free, else one that the system gives.
fn bind(port: u16) -> std::io::Result<TcpListener> {
    let at = |port: u16| std::net::TcpListener::bind((Ipv4Addr::LOCALHOST, port));
    let listener = if port >= 1024 {
        at(port).or_else(|_| at(0))
    } else {
        at(0)
    }?;
    listener.set_nonblocking(true)?;
    TcpListener::from_std(listener)
}

async fn serve(
    listener: TcpListener,
    forwarder: Forwarder,
    target: Target,
    cancel: CancellationToken,
) {
    let slots = Arc::new(tokio::sync::Semaphore::new(CONNECTIONS));
    loop {
        let accepted = tokio::select! {
            () = cancel.cancelled() => return,
            accepted = listener.accept() => accepted,
        };
        let Ok((mut near, _)) = accepted else {
            tokio::time::sleep(std::time::Duration::from_millis(100)).await;
            continue;
        };
        let Ok(slot) = Arc::clone(&slots).acquire_owned().await else {
            return;
        };
        let (forwarder, target, cancel) = (forwarder.clone(), target.clone(), cancel.clone());
        tokio::spawn(async move {
            let _slot = slot;
            // A pod that is not there closes the connection: the client sees it as it would see it in the field.
            match forwarder.connect(&target).await {
                Ok(mut far) => {
                    let copied = tokio::io::copy_bidirectional(&mut near, &mut far.stream);
                    tokio::select! {
                        () = cancel.cancelled() => {}
                        _ = copied => {}
                    }
                }
                Err(error) => tracing::info!(%error, %target, "a local connection went nowhere"),
            }
        });
    }
}

fn selector(service: &Service) -> Option<String> {
    let selector = service.spec.as_ref()?.selector.as_ref()?;
    let parts: Vec<String> = selector
        .iter()
        .map(|(key, value)| format!("{key}={value}"))
        .collect();
    (!parts.is_empty()).then(|| parts.join(","))
}

/// Ready, and not on its way out.
fn takes(pod: &Pod) -> bool {
    let ready = pod
        .status
        .as_ref()
        .and_then(|status| status.conditions.as_ref())
        .is_some_and(|conditions| {
            conditions
                .iter()
                .any(|one| one.type_ == "Ready" && one.status == "True")
        });
    ready && pod.metadata.deletion_timestamp.is_none()
}

/// The port of the pod that a Service's port leads to; names are looked up in the pod.
fn pod_port(service: &Service, port: u16, pod: &Pod) -> Option<u16> {
    let ports = service.spec.as_ref()?.ports.as_ref()?;
    let entry = ports.iter().find(|one| one.port == i32::from(port))?;
    kinds::pod_port(entry, pod)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn service(ports: serde_json::Value) -> Service {
        serde_json::from_value(json!({"metadata": {"name": "s"}, "spec": {"selector": {"b": "2", "a": "1"}, "ports": ports}})).unwrap()
    }

    fn pod(more: serde_json::Value) -> Pod {
        let mut pod = json!({"metadata": {"name": "p"}, "spec": {"containers": [{"name": "main", "ports": [{"name": "web", "containerPort": 9000}]}]},
            "status": {"conditions": [{"type": "Ready", "status": "True"}]}});
        json_patch::merge(&mut pod, &more);
        serde_json::from_value(pod).unwrap()
    }

    #[test]
    fn a_service_port_leads_to_the_pods_port() {
        let pod = pod(json!({}));
        for (entry, found) in [
            (json!([{"port": 80}]), Some(80)),
            (json!([{"port": 80, "targetPort": 8080}]), Some(8080)),
            (json!([{"port": 80, "targetPort": "web"}]), Some(9000)),
            (json!([{"port": 80, "targetPort": "other"}]), None),
            (json!([{"port": 81}]), None),
        ] {
            assert_eq!(
                pod_port(&service(entry.clone()), 80, &pod),
                found,
                "{entry}"
            );
        }
        assert_eq!(selector(&service(json!([]))).as_deref(), Some("a=1,b=2"));
        assert_eq!(selector(&Service::default()), None);
    }

    #[test]
    fn only_a_ready_pod_that_stays_takes_a_connection() {
        assert!(takes(&pod(json!({}))));
        assert!(!takes(&pod(
            json!({"metadata": {"deletionTimestamp": "2026-01-02T03:04:05Z"}})
        )));
        assert!(!takes(&pod(
            json!({"status": {"conditions": [{"type": "Ready", "status": "False"}]}})
        )));
        assert!(!takes(&Pod::default()));
    }
}
