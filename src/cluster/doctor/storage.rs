//! A volume that SQLite can live on: a storage class that binds, and no network file system under it.

use k8s_openapi::api::core::v1::{Node, PersistentVolumeClaim};
use k8s_openapi::api::storage::v1::StorageClass;
use kube::api::ListParams;
use kube::{Api, ResourceExt as _};

use super::{Patient, Point, why};

/// The ledger's claim.
const CLAIM: &str = "order-ledger";
const DEFAULT_CLASS: &str = "storageclass.kubernetes.io/is-default-class";
/// Makes volumes of a node's own disk; what kind brings along.
const PROVISIONER: &str = "https://raw.githubusercontent.com/rancher/local-path-provisioner/v0.0.31/deploy/local-path-storage.yaml";
/// Parts of provisioners' names whose volumes are network file systems: their locks do not hold for SQLite.
const NETWORK: [&str; 8] = [
    "nfs",
    "efs.",
    "azurefile",
    "filestore",
    "file.csi",
    "cephfs",
    "smb",
    "gluster",
];

pub(super) async fn points(patient: &Patient<'_>) -> Vec<Point> {
    vec![class(patient).await, claim(patient).await]
}

async fn class(patient: &Patient<'_>) -> Point {
    let shows = format!("{} get storageclass", patient.kubectl);
    if patient.embedded {
        return Point::good(
            "storage class",
            "eventlab's own cluster keeps volumes in files",
            shows,
        );
    }
    let api: Api<StorageClass> = Api::all(patient.context.client.clone());
    let classes = match api.list(&ListParams::default()).await {
        Ok(list) => list.items,
        Err(error) => return Point::unknown("storage class", why(&error), shows),
    };
    let default = classes
        .iter()
        .find(|class| class.annotations().get(DEFAULT_CLASS).map(String::as_str) == Some("true"));
    if default.is_none() && patient.node {
        return Point::good(
            "storage class",
            "none is the default; `eventlab node` makes volumes for claims without a class",
            shows,
        );
    }
    let Some(class) = default else {
        let found = match classes.first() {
            None => "there is none: the ledger's claim will wait for ever".to_owned(),
            Some(first) => format!("none is the default (there is {})", first.name_any()),
        };
        let (kubectl, mark) = (&patient.kubectl, format!("{DEFAULT_CLASS}=true"));
        let mend = match classes.first() {
            None => format!(
                "{kubectl} apply -f {PROVISIONER}; {kubectl} annotate storageclass local-path {mark}"
            ),
            Some(first) => format!(
                "{kubectl} annotate storageclass {} {mark}",
                first.name_any()
            ),
        };
        return Point::missing("storage class", found, shows).mended_by(mend);
    };
    let (name, provisioner) = (class.name_any(), class.provisioner.as_str());
    if is_network(provisioner) {
        return Point::missing(
            "storage class",
            format!("the default {name} ({provisioner}) is a network file system: SQLite's locks do not hold on it"),
            shows,
        )
        .mended_by(format!(
            "make a class with block or local volumes the default: {kubectl} annotate storageclass {name} {DEFAULT_CLASS}-; {kubectl} annotate storageclass OTHER {DEFAULT_CLASS}=true",
            kubectl = patient.kubectl
        ));
    }
    let found = format!("the default {name} ({provisioner})");
    match nodes(patient).await {
        Some(nodes) if nodes > 1 && !is_local(provisioner) => Point::warn(
            "storage class",
            format!("{found}, and {nodes} nodes: a volume is attached to one of them at a time, and a Workflow's pod that comes to another one than the ledger's waits for it without end (`Multi-Attach error`)"),
            shows,
        )
        .mended_by(format!(
            "keep the labs on one node ({} cordon THE-OTHERS), or make a class of local volumes the default: its pods follow their volume",
            patient.kubectl
        )),
        Some(nodes) if nodes > 1 => Point::good(
            "storage class",
            format!("{found}; with {nodes} nodes every pod of the ledger runs where its volume is"),
            shows,
        ),
        _ => Point::good("storage class", found, shows),
    }
}

/// Volumes of a node's own disk: the scheduler knows which.
fn is_local(provisioner: &str) -> bool {
    let lower = provisioner.to_ascii_lowercase();
    ["local", "hostpath", "host-path"]
        .iter()
        .any(|sign| lower.contains(sign))
}

fn is_network(provisioner: &str) -> bool {
    let lower = provisioner.to_ascii_lowercase();
    NETWORK.iter().any(|sign| lower.contains(sign))
}

/// How many nodes take pods, where they may be listed.
async fn nodes(patient: &Patient<'_>) -> Option<usize> {
    let api: Api<Node> = Api::all(patient.context.client.clone());
    let list = api.list(&ListParams::default()).await.ok()?;
    let takes = |node: &&Node| {
        let spec = node.spec.as_ref();
        let mut taints = spec
            .and_then(|spec| spec.taints.as_ref())
            .into_iter()
            .flatten();
        // Cordoned nodes have such a taint, too.
        !taints.any(|taint| taint.effect == "NoSchedule")
    };
    Some(list.items.iter().filter(takes).count())
}

async fn claim(patient: &Patient<'_>) -> Point {
    let shows = format!("{} describe pvc {CLAIM}", patient.kubectl_here());
    let api: Api<PersistentVolumeClaim> =
        Api::namespaced(patient.context.client.clone(), patient.namespace());
    let claim = match api.get_opt(CLAIM).await {
        Ok(Some(claim)) => claim,
        Ok(None) => {
            return Point::missing(
                "ledger volume",
                format!("the claim {CLAIM} is not there"),
                shows,
            )
            .mended_by(patient.eventlab("cluster prepare"));
        }
        Err(error) => return Point::unknown("ledger volume", why(&error), shows),
    };
    let modes = claim
        .spec
        .and_then(|spec| spec.access_modes)
        .unwrap_or_default();
    if modes.iter().any(|mode| mode == "ReadWriteMany") {
        return Point::warn(
            "ledger volume",
            "it may be mounted on several nodes at once, which SQLite's WAL does not bear",
            shows,
        )
        .mended_by(format!(
            "{} (the whole namespace); {}",
            patient.eventlab("cluster remove"),
            patient.eventlab("cluster prepare")
        ));
    }
    match claim.status.and_then(|status| status.phase).as_deref() {
        Some("Bound") => Point::good("ledger volume", "the claim is bound", shows),
        Some("Lost") => {
            Point::missing("ledger volume", "its volume is lost", shows).mended_by(format!(
                "{} delete pvc {CLAIM}; {}",
                patient.kubectl_here(),
                patient.eventlab("cluster prepare")
            ))
        }
        phase => Point::warn(
            "ledger volume",
            format!(
                "the claim is {}: a class that waits for its first consumer binds with the first pod",
                phase.unwrap_or("new")
            ),
            shows,
        )
        .mended_by(format!(
            "{} get pods -l app=order-ledger (the pod that is to use it), and events of the claim",
            patient.kubectl_here()
        )),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn network_file_systems_are_told_by_their_provisioner() {
        for (provisioner, network) in [
            ("rancher.io/local-path", false),
            ("k8s.io/minikube-hostpath", false),
            ("ebs.csi.aws.com", false),
            ("pd.csi.storage.gke.io", false),
            ("efs.csi.aws.com", true),
            ("nfs.csi.k8s.io", true),
            ("cluster.local/nfs-subdir-external-provisioner", true),
            ("rook-ceph.cephfs.csi.ceph.com", true),
            ("filestore.csi.storage.gke.io", true),
            ("file.csi.azure.com", true),
        ] {
            assert_eq!(is_network(provisioner), network, "{provisioner}");
        }
    }
}
