//! What a manifest cannot know of the cluster that it is applied to: the image's name there, and whom volumes belong to.

use serde_json::{Value, json};

use super::Cluster;
use super::manifest::text;
use crate::kinds::WORKLOAD_IMAGE;

/// The user of the program's image, who is not root.
const IMAGE_GROUP: u32 = 65532;

impl Cluster {
    /// Makes an object fit this cluster: its image's name, and whom its volumes belong to.
    pub fn fit(&self, object: &mut Value) {
        name_image(object, self.host().image());
        if self.host().is_shared() {
            own_volumes(object);
        }
    }
}

/// A volume of a real cluster belongs to root unless the pod says for whom it is.
fn own_volumes(object: &mut Value) {
    let spec = match text(object, "/kind") {
        "Deployment" => object.pointer_mut("/spec/template/spec"),
        "WorkflowTemplate" | "Workflow" => object.pointer_mut("/spec"),
        "Sensor" => return own_volumes_of_triggers(object),
        _ => None,
    };
    let Some(Value::Object(spec)) = spec else {
        return;
    };
    let claims = spec
        .get("volumes")
        .and_then(Value::as_array)
        .is_some_and(|volumes| {
            volumes
                .iter()
                .any(|volume| volume.get("persistentVolumeClaim").is_some())
        });
    if claims {
        spec.entry("securityContext")
            .or_insert_with(|| json!({"fsGroup": IMAGE_GROUP}));
    }
}

/// A trigger may hold the whole object that it makes.
fn own_volumes_of_triggers(sensor: &mut Value) {
    let triggers = sensor
        .pointer_mut("/spec/triggers")
        .and_then(Value::as_array_mut);
    for trigger in triggers.into_iter().flatten() {
        for kind in ["k8s", "argoWorkflow"] {
            let made = format!("/template/{kind}/source/resource");
            if let Some(made) = trigger.pointer_mut(&made) {
                own_volumes(made);
            }
        }
    }
}

/// Manifests name the program's image once and for all; a real cluster may know it by another name.
fn name_image(value: &mut Value, image: &str) {
    match value {
        Value::Object(fields) => {
            for (key, value) in fields {
                match value {
                    Value::String(text) if key == "image" && text == WORKLOAD_IMAGE => {
                        image.clone_into(text);
                    }
                    value => name_image(value, image),
                }
            }
        }
        Value::Array(items) => items.iter_mut().for_each(|item| name_image(item, image)),
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_volume_is_made_for_the_images_user_and_the_image_is_named() {
        let mut object = json!({"kind": "Deployment", "spec": {"template": {"spec": {
            "containers": [{"image": WORKLOAD_IMAGE}, {"image": "other"}], "volumes": [{"persistentVolumeClaim": {"claimName": "c"}}]}}}});
        own_volumes(&mut object);
        name_image(&mut object, "registry.example/eventlab:1");
        let pod = &object["spec"]["template"]["spec"];
        assert_eq!(pod["securityContext"]["fsGroup"], 65532);
        assert_eq!(pod["containers"][0]["image"], "registry.example/eventlab:1");
        assert_eq!(pod["containers"][1]["image"], "other");
        let mut none = json!({"kind": "Sensor", "spec": {"volumes": []}});
        own_volumes(&mut none);
        assert_eq!(none["spec"].get("securityContext"), None);
        let made = json!({"kind": "Workflow", "spec": {"volumes": [{"persistentVolumeClaim": {"claimName": "c"}}]}});
        let mut sensor = json!({"kind": "Sensor", "spec": {"triggers": [
            {"template": {"name": "a", "k8s": {"source": {"resource": made.clone()}}}},
            {"template": {"name": "b", "argoWorkflow": {"source": {"resource": made}}}},
            {"template": {"name": "c", "log": {}}}]}});
        own_volumes(&mut sensor);
        for (index, kind) in [(0, "k8s"), (1, "argoWorkflow")] {
            let group = sensor.pointer(&format!(
                "/spec/triggers/{index}/template/{kind}/source/resource/spec/securityContext/fsGroup"
            ));
            assert_eq!(group, Some(&json!(65532)), "{kind}");
        }
    }
}
