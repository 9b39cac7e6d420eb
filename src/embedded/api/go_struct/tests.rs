use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::api::core::v1::{ConfigMap, Pod, Secret, Service};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use serde_json::json;

use super::*;

fn told<T: DeserializeOwned + fmt::Debug>(value: &Value) -> String {
    decode::<T>(value).unwrap_err().text
}

fn container(field: &str, value: &Value) -> Value {
    json!({"metadata": {"name": "x"}, "spec": {"containers": [{"name": "a"}, {"name": "b", field: value}]}})
}

#[test]
fn a_value_of_another_type_is_told_with_struct_path_and_type() {
    for (field, value, want) in [
        (
            "image",
            json!(5),
            "number into Go struct field Container.spec.containers.image of type string",
        ),
        (
            "stdin",
            json!("yes"),
            "string into Go struct field Container.spec.containers.stdin of type bool",
        ),
        (
            "args",
            json!("x"),
            "string into Go struct field Container.spec.containers.args of type []string",
        ),
        (
            "args",
            json!(["x", {}]),
            "object into Go struct field Container.spec.containers.args of type string",
        ),
        (
            "ports",
            json!({}),
            "object into Go struct field Container.spec.containers.ports of type []v1.ContainerPort",
        ),
        (
            "ports",
            json!([{"containerPort": "80"}]),
            "string into Go struct field ContainerPort.spec.containers.ports.containerPort of type int32",
        ),
        (
            "ports",
            json!([{"containerPort": 1.5}]),
            "number 1.5 into Go struct field ContainerPort.spec.containers.ports.containerPort of type int32",
        ),
        (
            "ports",
            json!([{"containerPort": 99_999_999_999_u64}]),
            "number 99999999999 into Go struct field ContainerPort.spec.containers.ports.containerPort of type int32",
        ),
        (
            "ports",
            json!([{"protocol": true}]),
            "bool into Go struct field ContainerPort.spec.containers.ports.protocol of type v1.Protocol",
        ),
        (
            "env",
            json!([{"name": "A", "value": 5}]),
            "number into Go struct field EnvVar.spec.containers.env.value of type string",
        ),
        (
            "imagePullPolicy",
            json!([]),
            "array into Go struct field Container.spec.containers.imagePullPolicy of type v1.PullPolicy",
        ),
        (
            "resources",
            json!({"limits": "x"}),
            "string into Go struct field ResourceRequirements.spec.containers.resources.limits of type v1.ResourceList",
        ),
        (
            "securityContext",
            json!({"capabilities": {"add": "x"}}),
            "string into Go struct field Capabilities.spec.containers.securityContext.capabilities.add of type []v1.Capability",
        ),
        (
            "securityContext",
            json!({"capabilities": {"add": [1]}}),
            "number into Go struct field Capabilities.spec.containers.securityContext.capabilities.add of type v1.Capability",
        ),
        (
            "livenessProbe",
            json!(5),
            "number into Go struct field Container.spec.containers.livenessProbe of type v1.Probe",
        ),
    ] {
        let want = format!("json: cannot unmarshal {want}");
        assert_eq!(told::<Pod>(&container(field, &value)), want);
    }
    let metadata = json!({"metadata": {"labels": {"a": 1}}});
    let want = "json: cannot unmarshal number into Go struct field ObjectMeta.metadata.labels of type string";
    assert_eq!(told::<Pod>(&metadata), want);
    let want = "json: cannot unmarshal array into Go struct field ObjectMeta.labels of type map[string]string";
    assert_eq!(told::<ObjectMeta>(&json!({"labels": []})), want);
    let want = "json: cannot unmarshal string into Go struct field Deployment.spec of type v1.DeploymentSpec";
    assert_eq!(told::<Deployment>(&json!({"spec": "x"})), want);
    let want =
        "json: cannot unmarshal string into Go struct field Secret.data of type map[string][]uint8";
    assert_eq!(told::<Secret>(&json!({"data": "x"})), want);
    let want = "json: cannot unmarshal string into Go value of type v1.ObjectMeta";
    assert_eq!(told::<ObjectMeta>(&json!("x")), want);
}

#[test]
fn types_with_a_syntax_of_their_own_say_what_they_take() {
    let limit = |amount: Value| container("resources", &json!({"limits": {"cpu": amount}}));
    assert!(told::<Pod>(&limit(json!("x"))).starts_with("quantities must match"));
    assert!(told::<Pod>(&limit(json!({}))).starts_with("quantities must match"));
    for (text, at) in [
        ("x", 0),
        ("!!!!", 0),
        ("Y Q==", 1),
        ("YQ", 0),
        ("YQ=", 3),
        ("YWJj!", 4),
    ] {
        let misfit = decode::<Secret>(&json!({"data": {"a": text}})).unwrap_err();
        let want = format!("illegal base64 data at input byte {at}");
        assert_eq!(misfit.text, want, "{text}");
        assert_eq!(
            misfit.converted,
            format!("error decoding from json: {want}")
        );
    }
    let lease = |time: &str| json!({"spec": {"renewTime": time}});
    let told = |time| told::<Lease>(&lease(time));
    let layout = "2006-01-02T15:04:05.000000Z07:00";
    assert_eq!(
        told("2026-13-02T03:04:05.000000Z"),
        "parsing time \"2026-13-02T03:04:05.000000Z\": month out of range"
    );
    for (time, rest, piece) in [
        ("x", "x", "2006"),
        ("2026-1", "1", "01"),
        ("2026-01-02", "", "T"),
    ] {
        let want =
            format!("parsing time {time:?} as {layout:?}: cannot parse {rest:?} as {piece:?}");
        assert_eq!(told(time), want);
    }
}

/// `null` is the zero value wherever it stands, and what may be written in two ways is read in both.
#[test]
fn what_go_takes_is_taken() {
    let pod = json!({"metadata": {"labels": {"a": null}, "name": null, "finalizers": [null]}, "spec": {"containers": [
        null, {"name": "b", "args": null, "env": [null], "resources": {"limits": {"cpu": 1.5, "memory": null}}}]}});
    let pod: Pod = decode(&pod).unwrap();
    assert_eq!(pod.metadata.labels.unwrap()["a"], "");
    assert_eq!(pod.metadata.finalizers.unwrap(), [""]);
    let containers = pod.spec.unwrap().containers;
    assert_eq!(containers[0].name, "");
    let limits = containers[1].resources.clone().unwrap().limits.unwrap();
    assert_eq!(
        (limits["cpu"].0.as_str(), limits["memory"].0.as_str()),
        ("1.5", "0")
    );
    let secret: Secret =
        decode(&json!({"data": {"a": [104, 105], "b": null, "c": "aGk="}})).unwrap();
    let data = secret.data.unwrap();
    assert_eq!(
        (
            data["a"].0.as_slice(),
            data["b"].0.len(),
            data["c"].0.as_slice()
        ),
        (&b"hi"[..], 0, &b"hi"[..])
    );
    let service = json!({"spec": {"ports": [{"port": 80, "targetPort": "web"}, {"port": 81, "targetPort": 8080}]}});
    assert!(decode::<Service>(&service).is_ok());
    assert!(decode::<ConfigMap>(&json!({"data": null, "bogus": [{}]})).is_ok());
}

/// The converter has other words, without the way to the field.
#[test]
fn what_was_patched_is_told_by_the_converter() {
    let converted = |value: Value| decode::<Deployment>(&value).unwrap_err().converted;
    let spec = |field: &str, value: Value| json!({"spec": {field: value}});
    let container = |field: &str, value: Value| {
        spec(
            "template",
            json!({"spec": {"containers": [{field: value}]}}),
        )
    };
    for (object, want) in [
        (spec("replicas", json!("x")), "unrecognized type: int32"),
        (
            spec("replicas", json!(1.5)),
            "cannot convert float64 to int32",
        ),
        (spec("paused", json!(5)), "unrecognized type: bool"),
        (json!({"spec": "x"}), "cannot restore struct from: string"),
        (json!({"spec": []}), "cannot restore struct from: slice"),
        (
            spec("selector", json!({"matchLabels": 5})),
            "cannot restore map from int64",
        ),
        (
            container("args", json!({})),
            "cannot restore slice from map",
        ),
        (
            container("image", json!(5)),
            "cannot convert int64 to string",
        ),
        (container("image", json!(true)), "unrecognized type: string"),
        (
            spec("strategy", json!({"rollingUpdate": {"maxSurge": 1.5}})),
            "json: cannot unmarshal number 1.5 into Go value of type int32",
        ),
        (
            json!({"metadata": {"creationTimestamp": 5}}),
            "json: cannot unmarshal number into Go value of type string",
        ),
    ] {
        assert_eq!(converted(object.clone()), want, "{object}");
    }
}

#[test]
fn a_misfit_knows_its_place() {
    let misfit = decode::<Pod>(&container("args", &json!(["x", 1]))).unwrap_err();
    let place = misfit.place.unwrap();
    let field = |name: &str| Step::Field(name.to_owned());
    let path = [
        field("spec"),
        field("containers"),
        Step::Item(1),
        field("args"),
        Step::Item(1),
    ];
    assert_eq!(
        (place.path.as_slice(), place.takes),
        (&path[..], Takes::Text)
    );
}
