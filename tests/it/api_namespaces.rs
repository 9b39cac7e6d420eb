//! A namespace that is ending says what holds it, and takes everything along.

use std::sync::Arc;

use serde_json::{Value, json};

use crate::api_support::{Lab, create, send};

const MAPS: &str = "/api/v1/namespaces/held/configmaps";
const SPACE: &str = "/api/v1/namespaces/held";

async fn condition(lab: &Lab, kind: &str) -> Value {
    let (code, space) = send(lab, "GET", SPACE, "application/json", "").await;
    assert_eq!(code, 200, "{space}");
    assert_eq!(space["status"]["phase"], "Terminating");
    let conditions = space["status"]["conditions"].as_array().unwrap().clone();
    assert_eq!(conditions.len(), 5, "{space}");
    let found = conditions.into_iter().find(|one| one["type"] == kind);
    found.unwrap()
}

#[tokio::test]
async fn a_namespace_that_hangs_says_why() {
    let lab = Lab::new().await;
    create(
        &lab,
        "/api/v1/namespaces",
        json!({"metadata": {"name": "held"}}),
    )
    .await;
    for name in ["a", "b", "free"] {
        let held: &[&str] = if name == "free" { &[] } else { &["x/held"] };
        let map = json!({"metadata": {"name": name, "finalizers": held}});
        create(&lab, MAPS, map).await;
    }
    let (code, _) = send(&lab, "DELETE", SPACE, "application/json", "").await;
    assert_eq!(code, 200);
    for (left, names) in [(2, ["a", "b"].as_slice()), (1, &["b"])] {
        let content = condition(&lab, "NamespaceContentRemaining").await;
        assert_eq!(content["status"], "True");
        assert_eq!(content["reason"], "SomeResourcesRemain");
        let want =
            format!("Some resources are remaining: configmaps. has {left} resource instances");
        assert_eq!(content["message"], want.as_str());
        let held = condition(&lab, "NamespaceFinalizersRemaining").await;
        let want = format!(
            "Some content in the namespace has finalizers remaining: x/held in {left} resource instances"
        );
        assert_eq!(
            (&held["status"], &held["message"]),
            (&json!("True"), &json!(want))
        );
        let fine = condition(&lab, "NamespaceDeletionContentFailure").await;
        assert_eq!(fine["status"], "False");
        let path = format!("{MAPS}/{}", names[0]);
        let free = json!({"metadata": {"finalizers": null}}).to_string();
        let merge = "application/merge-patch+json";
        assert_eq!(send(&lab, "PATCH", &path, merge, free).await.0, 200);
    }
    assert_eq!(
        send(&lab, "GET", SPACE, "application/json", "").await.0,
        404
    );
}

/// What is created while its namespace goes, goes with it.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn nothing_is_left_of_a_namespace_that_went_while_objects_were_made() {
    let lab = Arc::new(Lab::new().await);
    for round in 0..20 {
        let name = format!("brief-{round}");
        create(
            &lab,
            "/api/v1/namespaces",
            json!({"metadata": {"name": name}}),
        )
        .await;
        let maps = format!("/api/v1/namespaces/{name}/configmaps");
        let makers: Vec<_> = (0..4)
            .map(|maker| {
                let (lab, maps) = (Arc::clone(&lab), maps.clone());
                tokio::spawn(async move {
                    for number in 0.. {
                        let body = json!({"metadata": {"name": format!("m-{maker}-{number}")}});
                        let made =
                            send(&lab, "POST", &maps, "application/json", body.to_string()).await;
                        if made.0 != 201 {
                            return;
                        }
                    }
                })
            })
            .collect();
        let path = format!("/api/v1/namespaces/{name}");
        assert_eq!(
            send(&lab, "DELETE", &path, "application/json", "").await.0,
            200
        );
        for maker in makers {
            maker.await.unwrap();
        }
        assert_eq!(
            send(&lab, "GET", &path, "application/json", "").await.0,
            404
        );
        let (_, left) = send(&lab, "GET", &maps, "application/json", "").await;
        assert_eq!(left["items"], json!([]), "{left}");
    }
}
