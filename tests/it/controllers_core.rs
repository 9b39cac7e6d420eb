//! Scheduler, Deployments, endpoints and garbage through the real API.

use std::sync::Arc;

use k8s_openapi::api::apps::v1::{Deployment, ReplicaSet};
use k8s_openapi::api::core::v1::{ConfigMap, Endpoints, Event, Node, Pod, Secret, Service};
use k8s_openapi::api::discovery::v1::EndpointSlice;
use kube::ResourceExt;
use kube::api::{Api, DeleteParams, ListParams, Patch, PatchParams, PostParams};
use serde_json::{Value, json};

use crate::controllers_support::{
    Cluster, NS, Play, all_ready, ready, typed, until, until_gone, until_list,
};

fn deployment(image: &str) -> Deployment {
    typed(json!({
        "metadata": {"name": "web"},
        "spec": {
            "selector": {"matchLabels": {"app": "web"}},
            "template": {
                "metadata": {"labels": {"app": "web"}},
                "spec": {"containers": [{"name": "main", "image": image, "ports": [{"name": "http", "containerPort": 12000}]}]},
            },
        },
    }))
}

fn is_rolled_out(deployment: &Deployment) -> bool {
    let status = deployment.status.clone().unwrap_or_default();
    status.observed_generation == deployment.metadata.generation
        && status.updated_replicas == deployment.spec.replicas
        && status.available_replicas == deployment.spec.replicas
        && status.replicas == deployment.spec.replicas
}

fn image(pod: &Pod) -> &str {
    pod.spec.as_ref().unwrap().containers[0]
        .image
        .as_deref()
        .unwrap()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_deployment_becomes_a_ready_pod_and_is_healed() {
    let cluster = Cluster::new(all_ready()).await;
    let (deployments, pods) = (cluster.api::<Deployment>(), cluster.api::<Pod>());
    deployments
        .create(&PostParams::default(), &deployment("one"))
        .await
        .unwrap();
    let rolled = until(&deployments, "web", is_rolled_out).await;
    let conditions = rolled.status.unwrap().conditions.unwrap();
    let of = |kind: &str| {
        conditions
            .iter()
            .find(|one| one.type_.as_deref() == Some(kind))
            .unwrap()
            .reason
            .clone()
    };
    assert_eq!(of("Available").as_deref(), Some("MinimumReplicasAvailable"));
    assert_eq!(of("Progressing").as_deref(), Some("NewReplicaSetAvailable"));
    assert_eq!(
        rolled.metadata.annotations.unwrap()["deployment.kubernetes.io/revision"],
        "1"
    );
    let first = until_list(&pods, "app=web", |pods| pods.len() == 1)
        .await
        .remove(0);
    assert_eq!(
        first.spec.as_ref().unwrap().node_name.as_deref(),
        Some("eventlab")
    );
    pods.delete(&first.name_any(), &DeleteParams::default())
        .await
        .unwrap();
    let healed = until_list(&pods, "app=web", |pods| {
        pods.len() == 1
            && pods[0].uid() != first.uid()
            && pods[0]
                .status
                .as_ref()
                .is_some_and(|status| status.phase.as_deref() == Some("Running"))
    });
    healed.await;
    cluster.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_rollout_keeps_the_old_pod_until_the_new_one_is_ready() {
    // The pod of image `slow` is running but not ready until the test says so.
    let play: Play = Arc::new(|pod: &Pod| match image(pod) {
        "slow" => vec![json!({"phase": "Running", "podIP": "10.42.0.8"})],
        _ => vec![ready()],
    });
    let cluster = Cluster::new(play).await;
    let (deployments, pods) = (cluster.api::<Deployment>(), cluster.api::<Pod>());
    deployments
        .create(&PostParams::default(), &deployment("one"))
        .await
        .unwrap();
    until(&deployments, "web", is_rolled_out).await;
    let patch = json!({"spec": {"template": {"spec": {"containers": [{"name": "main", "image": "slow"}]}}}});
    deployments
        .patch("web", &PatchParams::default(), &Patch::Strategic(patch))
        .await
        .unwrap();
    let both = until_list(&pods, "app=web", |pods| pods.len() == 2).await;
    // The controllers have seen all of it once the status speaks of it; the old pod must still be there.
    until(&deployments, "web", |web| {
        let status = web.status.clone().unwrap_or_default();
        status.replicas == Some(2)
            && status.updated_replicas == Some(1)
            && status.available_replicas == Some(1)
    })
    .await;
    assert!(
        both.iter()
            .any(|pod| image(pod) == "one" && pod.metadata.deletion_timestamp.is_none())
    );
    let slow = both.iter().find(|pod| image(pod) == "slow").unwrap();
    let is_ready = Patch::Merge(json!({"status": ready()}));
    pods.patch_status(&slow.name_any(), &PatchParams::default(), &is_ready)
        .await
        .unwrap();
    let rolled = until(&deployments, "web", is_rolled_out).await;
    assert_eq!(
        rolled.annotations()["deployment.kubernetes.io/revision"],
        "2"
    );
    let left = until_list(&pods, "app=web", |pods| pods.len() == 1).await;
    assert_eq!(image(&left[0]), "slow");
    // Going back finds the former ReplicaSet again and gives it a new revision.
    let sets = cluster.api::<ReplicaSet>();
    let patch =
        json!({"spec": {"template": {"spec": {"containers": [{"name": "main", "image": "one"}]}}}});
    deployments
        .patch("web", &PatchParams::default(), &Patch::Strategic(patch))
        .await
        .unwrap();
    until(&deployments, "web", |web| {
        is_rolled_out(web) && web.annotations()["deployment.kubernetes.io/revision"] == "3"
    })
    .await;
    assert_eq!(
        sets.list(&ListParams::default()).await.unwrap().items.len(),
        2
    );
    cluster.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn recreate_lets_the_old_pod_go_first_and_scale_is_followed() {
    let cluster = Cluster::new(all_ready()).await;
    let (deployments, pods) = (cluster.api::<Deployment>(), cluster.api::<Pod>());
    let mut web = deployment("one");
    web.spec.strategy = Some(typed(json!({"type": "Recreate"})));
    deployments
        .create(&PostParams::default(), &web)
        .await
        .unwrap();
    until(&deployments, "web", is_rolled_out).await;
    let patch =
        json!({"spec": {"template": {"spec": {"containers": [{"name": "main", "image": "two"}]}}}});
    deployments
        .patch("web", &PatchParams::default(), &Patch::Strategic(patch))
        .await
        .unwrap();
    until(&deployments, "web", |web| {
        is_rolled_out(web) && web.metadata.generation > Some(1)
    })
    .await;
    let left = until_list(&pods, "app=web", |pods| pods.len() == 1).await;
    assert_eq!(image(&left[0]), "two");
    for count in [3, 0] {
        deployments
            .patch_scale(
                "web",
                &PatchParams::default(),
                &Patch::Merge(json!({"spec": {"replicas": count}})),
            )
            .await
            .unwrap();
        until_list(&pods, "app=web", |pods| pods.len() == count).await;
    }
    cluster.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_pod_that_may_not_be_made_is_said_on_the_deployment() {
    let cluster = Cluster::new(all_ready()).await;
    let deployments = cluster.api::<Deployment>();
    let mut web = deployment("one");
    web.spec
        .template
        .spec
        .as_mut()
        .unwrap()
        .service_account_name = Some("nobody".into());
    deployments
        .create(&PostParams::default(), &web)
        .await
        .unwrap();
    let failed = until(&deployments, "web", |web| {
        let conditions = web
            .status
            .iter()
            .flat_map(|status| status.conditions.iter().flatten());
        conditions
            .into_iter()
            .any(|one| one.type_.as_deref() == Some("ReplicaFailure"))
    })
    .await;
    let conditions = failed.status.unwrap().conditions.unwrap();
    let failure = conditions
        .iter()
        .find(|one| one.type_.as_deref() == Some("ReplicaFailure"))
        .unwrap();
    let message = failure.message.clone().unwrap();
    assert!(
        message.contains("error looking up service account lab/nobody"),
        "{message}"
    );
    // Once the account is there, the pod comes by itself.
    let accounts: Api<k8s_openapi::api::core::v1::ServiceAccount> = cluster.api();
    accounts
        .create(
            &PostParams::default(),
            &typed(json!({"metadata": {"name": "nobody"}})),
        )
        .await
        .unwrap();
    until(&deployments, "web", is_rolled_out).await;
    cluster.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_pod_without_a_place_says_why_and_gets_it_later() {
    let cluster = Cluster::new(all_ready()).await;
    let nodes: Api<Node> = Api::all(cluster.admin());
    nodes.cordon("eventlab").await.unwrap();
    let pods = cluster.api::<Pod>();
    let pod = typed(
        json!({"metadata": {"name": "lone"}, "spec": {"containers": [{"name": "main", "image": "x"}]}}),
    );
    pods.create(&PostParams::default(), &pod).await.unwrap();
    let waiting = until(&pods, "lone", |pod| {
        let conditions = pod
            .status
            .iter()
            .flat_map(|status| status.conditions.iter().flatten());
        conditions
            .into_iter()
            .any(|one| one.reason.as_deref() == Some("Unschedulable"))
    })
    .await;
    let conditions = waiting.status.unwrap().conditions.unwrap();
    let message = conditions
        .iter()
        .find_map(|one| one.message.clone())
        .unwrap();
    assert!(
        message.starts_with("0/1 nodes are available: 1 node(s) were unschedulable."),
        "{message}"
    );
    nodes.uncordon("eventlab").await.unwrap();
    until(&pods, "lone", |pod| {
        pod.spec.as_ref().unwrap().node_name.is_some()
    })
    .await;
    let events = until_list(&cluster.api::<Event>(), "", |events| {
        events
            .iter()
            .any(|event| event.reason.as_deref() == Some("Scheduled"))
    })
    .await;
    assert!(
        events
            .iter()
            .any(|event| event.reason.as_deref() == Some("FailedScheduling"))
    );
    cluster.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn endpoints_follow_the_ready_pods() {
    let cluster = Cluster::new(all_ready()).await;
    let service = json!({"metadata": {"name": "web"}, "spec": {"selector": {"app": "web"}, "ports": [{"port": 80, "targetPort": "http"}]}});
    let services = cluster.api::<Service>();
    services
        .create(&PostParams::default(), &typed(service))
        .await
        .unwrap();
    let endpoints = cluster.api::<Endpoints>();
    until(&endpoints, "web", |one| one.subsets.is_none()).await;
    let deployments = cluster.api::<Deployment>();
    deployments
        .create(&PostParams::default(), &deployment("one"))
        .await
        .unwrap();
    let full = until(&endpoints, "web", |one| {
        one.subsets
            .iter()
            .flatten()
            .any(|subset| subset.addresses.is_some())
    })
    .await;
    let subset = full.subsets.unwrap().remove(0);
    assert_eq!(subset.addresses.unwrap()[0].ip, "10.42.0.7");
    assert_eq!(subset.ports.unwrap()[0].port, 12000);
    let slices = cluster.api::<EndpointSlice>();
    until_list(&slices, "kubernetes.io/service-name=web", |slices| {
        slices
            .iter()
            .flat_map(|slice| slice.endpoints.iter().flatten())
            .any(|one| {
                one.conditions
                    .as_ref()
                    .is_some_and(|all| all.ready == Some(true))
            })
    })
    .await;
    deployments
        .patch_scale(
            "web",
            &PatchParams::default(),
            &Patch::Merge(json!({"spec": {"replicas": 0}})),
        )
        .await
        .unwrap();
    until(&endpoints, "web", |one| one.subsets.is_none()).await;
    services
        .delete("web", &DeleteParams::default())
        .await
        .unwrap();
    until_gone(&endpoints, "web").await;
    until_list(&slices, "kubernetes.io/service-name=web", |slices| {
        slices.is_empty()
    })
    .await;
    cluster.stop().await;
}

fn owned_by(owner: &ConfigMap, name: &str, blocks: bool) -> Secret {
    typed(json!({"metadata": {"name": name, "ownerReferences": [{
        "apiVersion": "v1", "kind": "ConfigMap", "name": owner.name_any(), "uid": owner.uid(), "blockOwnerDeletion": blocks}]}}))
}

async fn config_map(cluster: &Cluster, name: &str) -> ConfigMap {
    let maps = cluster.api::<ConfigMap>();
    maps.create(
        &PostParams::default(),
        &typed(json!({"metadata": {"name": name}})),
    )
    .await
    .unwrap()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn dependents_go_with_their_owner() {
    let cluster = Cluster::new(all_ready()).await;
    let (maps, secrets) = (cluster.api::<ConfigMap>(), cluster.api::<Secret>());
    let owner = config_map(&cluster, "owner").await;
    secrets
        .create(&PostParams::default(), &owned_by(&owner, "child", true))
        .await
        .unwrap();
    maps.delete("owner", &DeleteParams::background())
        .await
        .unwrap();
    until_gone(&secrets, "child").await;
    // An owner with the same name and another uid is no owner.
    let again = config_map(&cluster, "owner").await;
    let mut stale = owned_by(&again, "stale", true);
    stale.metadata.owner_references.as_mut().unwrap()[0].uid = owner.uid().unwrap();
    secrets
        .create(&PostParams::default(), &stale)
        .await
        .unwrap();
    until_gone(&secrets, "stale").await;
    cluster.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn foreground_waits_for_dependents_and_orphan_leaves_them() {
    let cluster = Cluster::new(all_ready()).await;
    let (maps, secrets) = (cluster.api::<ConfigMap>(), cluster.api::<Secret>());
    let owner = config_map(&cluster, "owner").await;
    let mut held = owned_by(&owner, "held", true);
    held.metadata.finalizers = Some(vec!["lab/hold".into()]);
    secrets.create(&PostParams::default(), &held).await.unwrap();
    maps.delete("owner", &DeleteParams::foreground())
        .await
        .unwrap();
    until(&secrets, "held", |secret| {
        secret.metadata.deletion_timestamp.is_some()
    })
    .await;
    assert!(
        maps.get_opt("owner").await.unwrap().is_some(),
        "it waits for its dependent"
    );
    let free = Patch::Merge(json!({"metadata": {"finalizers": Value::Null}}));
    secrets
        .patch("held", &PatchParams::default(), &free)
        .await
        .unwrap();
    until_gone(&secrets, "held").await;
    until_gone(&maps, "owner").await;
    let owner = config_map(&cluster, "other").await;
    secrets
        .create(&PostParams::default(), &owned_by(&owner, "kept", true))
        .await
        .unwrap();
    maps.delete("other", &DeleteParams::orphan()).await.unwrap();
    until_gone(&maps, "other").await;
    let kept = secrets.get("kept").await.unwrap();
    assert!(kept.owner_references().is_empty());
    cluster.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn owners_take_what_they_pick_and_let_go_of_the_rest() {
    let cluster = Cluster::new(all_ready()).await;
    let (deployments, sets, pods) = (
        cluster.api::<Deployment>(),
        cluster.api::<ReplicaSet>(),
        cluster.api::<Pod>(),
    );
    let lone: Pod = typed(
        json!({"metadata": {"name": "lone", "labels": {"app": "web"}},
        "spec": {"containers": [{"name": "main", "image": "one"}]}}),
    );
    let set: ReplicaSet = typed(
        json!({"metadata": {"name": "own", "labels": {"app": "web"}}, "spec": {"replicas": 1,
        "selector": {"matchLabels": {"app": "web"}}, "template": {"metadata": {"labels": {"app": "web"}},
        "spec": {"containers": [{"name": "main", "image": "one"}]}}}}),
    );
    // It needs no pod of its own, unless it hears of the pod that is there later than of itself: then one of the two goes.
    let mut taken = false;
    for _ in 0..20 {
        pods.create(&PostParams::default(), &lone).await.unwrap();
        sets.create(&PostParams::default(), &set).await.unwrap();
        until(&sets, "own", |set| {
            set.status
                .as_ref()
                .is_some_and(|status| status.ready_replicas == Some(1))
        })
        .await;
        until_list(&pods, "app=web", |pods| pods.len() == 1).await;
        let left = pods.list(&ListParams::default()).await.unwrap().items;
        taken = left.len() == 1
            && left[0].name_any() == "lone"
            && left[0]
                .owner_references()
                .first()
                .map(|owner| owner.name.as_str())
                == Some("own");
        if taken {
            break;
        }
        let all = ListParams::default();
        let now = DeleteParams::default().grace_period(0);
        sets.delete("own", &DeleteParams::background())
            .await
            .unwrap();
        pods.delete_collection(&now, &all).await.unwrap();
        until_list(&pods, "app=web", <[Pod]>::is_empty).await;
    }
    assert!(taken, "the pod that was there is never taken");
    // Without the label the pod is free again, and another one takes its place.
    let other = Patch::Merge(json!({"metadata": {"labels": {"app": "other"}}}));
    pods.patch("lone", &PatchParams::default(), &other)
        .await
        .unwrap();
    until(&pods, "lone", |pod| pod.owner_references().is_empty()).await;
    until_list(&pods, "app=web", |pods| pods.len() == 1).await;
    // A Deployment takes a ReplicaSet that nobody controls.
    deployments
        .create(&PostParams::default(), &deployment("two"))
        .await
        .unwrap();
    until(&sets, "own", |set| {
        set.owner_references()
            .first()
            .is_some_and(|owner| owner.name == "web")
    })
    .await;
    until(&deployments, "web", is_rolled_out).await;
    until_list(&pods, "app=web", |pods| {
        pods.len() == 1 && image(&pods[0]) == "two"
    })
    .await;
    cluster.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn controllers_may_be_started_anew_at_any_time() {
    let cluster = Cluster::new(all_ready()).await;
    let deployments = cluster.api::<Deployment>();
    deployments
        .create(&PostParams::default(), &deployment("one"))
        .await
        .unwrap();
    until(&deployments, "web", is_rolled_out).await;
    // A second set of controllers works beside the first: every write is guarded by what was seen.
    cluster.start_controllers();
    for image in ["two", "three"] {
        let patch = json!({"spec": {"template": {"spec": {"containers": [{"name": "main", "image": image}]}}}});
        deployments
            .patch("web", &PatchParams::default(), &Patch::Strategic(patch))
            .await
            .unwrap();
        until(&deployments, "web", is_rolled_out).await;
    }
    let pods = until_list(&cluster.api::<Pod>(), "app=web", |pods| pods.len() == 1).await;
    assert_eq!(image(&pods[0]), "three");
    assert_eq!(pods[0].namespace().as_deref(), Some(NS));
    cluster.stop().await;
}
