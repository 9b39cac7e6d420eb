//! A real cluster behind [`Host`]: a pinned context, port-forward, the bus through its client port.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use futures::future::BoxFuture;

use super::bus_link::{self, BusLink};
use super::context::Context;
use super::forward::{Forwarder, Target};
use super::hearing::Hearing;
use super::reach::{Connection, Unconnected, dial};
use super::{Cluster, EVENT_BUS, Host, NoBus, RewindError};
use crate::embedded::bus::Bus;
use crate::kinds::WORKLOAD_IMAGE;

/// Whether the bus is to be read.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum BusAccess {
    /// Through its client port, as far as its Secret may be read.
    #[default]
    Read,
    /// Not at all: logs and objects decide.
    LogOnly,
}

/// How to use a real cluster.
#[derive(Clone, Debug, Default)]
pub struct RealCluster {
    /// The image that runs the program in pods; `None` for the one that the manifests name.
    pub image: Option<String>,
    pub bus: BusAccess,
    /// See [`Host::session_tag`].
    pub tag: Option<String>,
    /// Where Services can be reached without a port-forward, by name.
    pub addresses: BTreeMap<String, SocketAddr>,
}

impl Cluster {
    /// The cluster of a context. To be called inside a tokio runtime; nothing is asked of the cluster yet.
    #[must_use]
    pub fn of_context(context: &Context, namespace: &str, options: RealCluster) -> Self {
        let forwarder = Forwarder::new(context.client.clone());
        let host = KubeHost {
            links: Mutex::default(),
            client: context.client.clone(),
            forwarder,
            options,
            kubectl: context.options(),
            hearing: context.hearing(),
        };
        Self::of_host(
            context.client.clone(),
            namespace,
            &context.name,
            Arc::new(host),
        )
    }
}

struct KubeHost {
    client: kube::Client,
    forwarder: Forwarder,
    options: RealCluster,
    /// See [`Host::kubectl_options`].
    kubectl: String,
    hearing: Hearing,
    /// The connection to each EventBus, by namespace and name.
    links: Mutex<BTreeMap<(String, String), BusLink>>,
}

impl KubeHost {
    fn target(namespace: &str, service: &str, port: u16) -> Target {
        Target {
            namespace: namespace.to_owned(),
            service: service.to_owned(),
            port,
        }
    }

    fn link(&self, namespace: &str, event_bus: &str) -> Result<Arc<dyn Bus>, NoBus> {
        if self.options.bus == BusAccess::LogOnly {
            return Err(NoBus::ByLogAlone(
                "it was asked for (--log-only)".to_owned(),
            ));
        }
        let mut links = self.links.lock().unwrap_or_else(PoisonError::into_inner);
        links
            .entry((namespace.to_owned(), event_bus.to_owned()))
            .or_insert_with(|| {
                let (client, forwarder) = (self.client.clone(), self.forwarder.clone());
                bus_link::start(client, forwarder, namespace, event_bus)
            })
            .state()
    }
}

impl Host for KubeHost {
    fn hearing(&self) -> Option<Hearing> {
        Some(self.hearing.clone())
    }

    fn kubectl_options(&self) -> Option<String> {
        Some(self.kubectl.clone())
    }

    fn connect<'a>(
        &'a self,
        namespace: &'a str,
        service: &'a str,
        port: u16,
    ) -> BoxFuture<'a, Result<Connection, Unconnected>> {
        Box::pin(async move {
            match self.options.addresses.get(service) {
                Some(address) => dial(*address).await,
                None => {
                    let target = Self::target(namespace, service, port);
                    self.forwarder.connect(&target).await
                }
            }
        })
    }

    fn service_address(&self, namespace: &str, service: &str, port: u16) -> Option<SocketAddr> {
        match self.options.addresses.get(service) {
            Some(address) => Some(*address),
            None => self
                .forwarder
                .local_address(&Self::target(namespace, service, port)),
        }
    }

    fn bus(&self, namespace: &str) -> Option<Arc<dyn Bus>> {
        self.link(namespace, EVENT_BUS).ok()
    }

    fn linked_bus(&self, namespace: &str, event_bus: &str) -> Option<Result<Arc<dyn Bus>, NoBus>> {
        Some(self.link(namespace, event_bus))
    }

    fn bus_tag(&self) -> Option<String> {
        self.options.tag.clone()
    }

    fn look_interval(&self) -> Duration {
        Duration::from_millis(200)
    }

    fn image(&self) -> &str {
        self.options.image.as_deref().unwrap_or(WORKLOAD_IMAGE)
    }

    fn is_shared(&self) -> bool {
        true
    }

    fn session_tag(&self) -> Option<&str> {
        self.options.tag.as_deref()
    }

    /// There is nothing to go back to on a cluster of somebody else's.
    fn snapshot<'a>(&'a self, _name: &'a str) -> BoxFuture<'a, Result<(), RewindError>> {
        Box::pin(std::future::ready(Ok(())))
    }

    fn rewind<'a>(&'a self, name: &'a str) -> BoxFuture<'a, Result<(), RewindError>> {
        let error = RewindError::NoSnapshot(name.to_owned());
        Box::pin(std::future::ready(Err(error)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_command_that_is_pasted_leads_to_the_same_cluster() {
        let context = Context::silent("shop").await;
        let cluster = Cluster::of_context(&context, "eventlab", RealCluster::default());
        let options = context.options();
        assert!(options.contains("--context shop"), "{options}");
        for (command, led) in [
            ("kubectl get pods", true),
            ("eventlab ledger show", true),
            ("eventlab doctor", true),
            ("eventlab --context other status", false),
            ("nats stream ls", false),
            ("eventlabs", false),
            ("", false),
        ] {
            let shown = cluster.shown(command);
            let words: Vec<&str> = command.splitn(2, ' ').collect();
            let wanted = if led {
                format!("{} {options} {}", words[0], words[1])
            } else {
                command.to_owned()
            };
            assert_eq!(shown, wanted);
        }
    }
}
