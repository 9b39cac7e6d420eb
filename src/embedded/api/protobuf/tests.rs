use proptest::prelude::*;

use super::*;

/// Writes bodies by hand, as clients do.
#[derive(Clone, Default)]
struct Bytes(Vec<u8>);

impl Bytes {
    fn varint(mut self, mut value: u64) -> Self {
        while value >= 0x80 {
            self.0.push((value & 0x7f) as u8 | 0x80);
            value >>= 7;
        }
        self.0.push(value as u8);
        self
    }

    fn int(self, number: u64, value: i64) -> Self {
        self.varint(number << 3).varint(value.cast_unsigned())
    }

    fn bytes(self, number: u64, value: &[u8]) -> Self {
        let mut out = self.varint(number << 3 | 2).varint(value.len() as u64);
        out.0.extend_from_slice(value);
        out
    }

    fn text(self, number: u64, value: &str) -> Self {
        self.bytes(number, value.as_bytes())
    }

    fn message(self, number: u64, value: Bytes) -> Self {
        self.bytes(number, &value.0)
    }

    fn envelope(self, api_version: &str, kind: &str) -> Vec<u8> {
        let type_meta = new().text(1, api_version).text(2, kind);
        let unknown = new()
            .message(1, type_meta)
            .message(2, self)
            .text(3, "")
            .text(4, "");
        [MAGIC, unknown.0.as_slice()].concat()
    }
}

fn new() -> Bytes {
    Bytes::default()
}

/// Go writes every field that is no pointer, zeros included.
fn metadata(name: &str) -> Bytes {
    new()
        .text(1, name)
        .text(2, "")
        .text(3, "lab")
        .text(4, "")
        .text(5, "")
        .text(6, "")
        .int(7, 0)
        .message(8, new())
        .message(11, new().text(1, "app").text(2, "x"))
}

#[test]
fn a_config_map() {
    let body = new()
        .message(1, metadata("c"))
        .message(2, new().text(1, "a").text(2, "1"))
        .message(2, new().text(1, "empty").text(2, ""))
        .message(2, new().text(1, "left out"))
        .message(3, new().text(1, "b").bytes(2, &[0xff, 0]))
        .envelope("v1", "ConfigMap");
    assert_eq!(
        decode(&body).unwrap(),
        json!({
            "apiVersion": "v1", "kind": "ConfigMap",
            "metadata": {"name": "c", "namespace": "lab", "labels": {"app": "x"}},
            "data": {"a": "1", "empty": "", "left out": ""},
            "binaryData": {"b": "/wA="},
        })
    );
}

#[test]
fn a_deployment_keeps_the_zeros_of_pointers_and_drops_the_others() {
    let port = new()
        .text(1, "")
        .int(2, 0)
        .int(3, 8080)
        .text(4, "TCP")
        .text(5, "");
    let limit = new().text(1, "cpu").message(2, new().text(1, "250m"));
    let container = new()
        .text(1, "main")
        .text(2, "eventlab:dev")
        .text(5, "")
        .message(6, port);
    let container = container
        .message(8, new().message(1, limit))
        .text(14, "")
        .int(16, 0);
    let config = new().message(1, new().text(1, "settings"));
    let volume = new().text(1, "v").message(2, new().message(19, config));
    let pod = new()
        .message(1, volume)
        .message(2, container)
        .text(3, "Never")
        .int(11, 0)
        .int(21, 0);
    let template = new().message(1, metadata("")).message(2, pod);
    let surge = new().int(1, 1).int(2, 0).text(3, "25%");
    let unavailable = new().int(1, 0).int(2, 1).text(3, "");
    let strategy = new()
        .text(1, "RollingUpdate")
        .message(2, new().message(1, unavailable).message(2, surge));
    let spec = new()
        .int(1, 0)
        .message(3, template)
        .message(4, strategy)
        .int(5, 0);
    let body = new()
        .message(1, metadata("d"))
        .message(2, spec)
        .message(3, new())
        .envelope("apps/v1", "Deployment");
    assert_eq!(
        decode(&body).unwrap()["spec"],
        json!({
            "replicas": 0,
            "template": {
                "metadata": {"namespace": "lab", "labels": {"app": "x"}},
                "spec": {
                    "volumes": [{"name": "v", "configMap": {"name": "settings"}}],
                    "containers": [{
                        "name": "main", "image": "eventlab:dev",
                        "ports": [{"containerPort": 8080, "protocol": "TCP"}],
                        "resources": {"limits": {"cpu": "250m"}},
                    }],
                    "restartPolicy": "Never",
                    "automountServiceAccountToken": false,
                },
            },
            "strategy": {
                "type": "RollingUpdate",
                "rollingUpdate": {"maxUnavailable": 1, "maxSurge": "25%"},
            },
        })
    );
}

#[test]
fn an_access_review_with_extra() {
    let attributes = new()
        .text(1, "lab")
        .text(2, "get")
        .text(3, "")
        .text(4, "")
        .text(5, "pods")
        .text(6, "")
        .text(7, "");
    let extra = new()
        .text(1, "scopes")
        .message(2, new().text(1, "a").text(1, "b"));
    let spec = new()
        .message(1, attributes)
        .text(3, "bob")
        .message(5, extra);
    let body = new()
        .message(1, new())
        .message(2, spec)
        .message(3, new().int(1, 0).text(2, "").text(3, "").int(4, 0));
    let value = decode(&body.envelope("authorization.k8s.io/v1", "SubjectAccessReview")).unwrap();
    let want = json!({
        "resourceAttributes": {"namespace": "lab", "verb": "get", "resource": "pods"},
        "user": "bob",
        "extra": {"scopes": ["a", "b"]},
    });
    assert_eq!(value["spec"], want);
}

#[test]
fn times_and_raw_json() {
    let times = new()
        .text(1, "me")
        .int(2, 15)
        .message(3, new().int(1, 1_767_323_045).int(2, 123_456_789));
    let managed = new()
        .text(1, "kubectl")
        .message(4, new().int(1, 1_767_323_045).int(2, 5))
        .message(7, new().text(1, r#"{"f:data":{}}"#));
    let body = new()
        .message(1, new().text(1, "l").message(17, managed))
        .message(2, times);
    let value = decode(&body.envelope("coordination.k8s.io/v1", "Lease")).unwrap();
    let want = json!({"holderIdentity": "me", "leaseDurationSeconds": 15, "acquireTime": "2026-01-02T03:04:05.123456Z"});
    assert_eq!(value["spec"], want);
    let entry = &value["metadata"]["managedFields"][0];
    assert_eq!(
        (&entry["time"], &entry["fieldsV1"]),
        (&json!("2026-01-02T03:04:05Z"), &json!({"f:data": {}}))
    );
}

#[test]
fn delete_options_come_under_any_version() {
    for version in ["v1", "apps/v1", "policy/v1"] {
        let body = new()
            .int(1, 0)
            .message(2, new().text(1, "u-1"))
            .text(4, "Background")
            .text(5, "All");
        assert_eq!(
            decode(&body.envelope(version, "DeleteOptions")).unwrap(),
            json!({
                "apiVersion": version, "kind": "DeleteOptions", "gracePeriodSeconds": 0,
                "preconditions": {"uid": "u-1"}, "propagationPolicy": "Background", "dryRun": ["All"],
            })
        );
    }
}

#[test]
fn damage_is_named() {
    let good = new().message(1, metadata("c")).envelope("v1", "ConfigMap");
    let text = |body: &[u8]| decode(body).unwrap_err().to_string();
    assert!(text(b"{}").contains("does not begin with the prefix"));
    assert!(text(&good[..good.len() - 5]).contains("ends within a field"));
    let unknown = new().envelope("example.com/v1", "Thing");
    assert!(text(&unknown).contains("kind \"Thing\" of \"example.com/v1\""));
    assert_eq!(
        decode(&new().int(1, 1).envelope("v1", "ConfigMap")),
        Err(wire::WireError::Mismatch.into())
    );
    let latin = new()
        .message(1, new().bytes(1, &[0xe9]))
        .envelope("v1", "ConfigMap");
    assert_eq!(decode(&latin), Err(wire::WireError::Text.into()));
    let endless = new().bytes(9, &[]).envelope("v1", "ConfigMap");
    assert!(decode(&[&endless[..], &[0xff; 11]].concat()).is_err());
    let zipped = [MAGIC, &new().text(3, "gzip").0].concat();
    assert_eq!(decode(&zipped), Err(ProtobufError::Encoding("gzip".into())));
}

#[test]
fn an_object_of_millions_of_empty_parts_is_refused() {
    let spec = Bytes([0x12, 0x00].repeat(MAX_VALUES + 1));
    let body = new().message(2, spec).envelope("v1", "Pod");
    assert_eq!(decode(&body), Err(ProtobufError::TooLarge));
}

proptest! {
    #[test]
    fn nothing_panics(bytes in prop::collection::vec(any::<u8>(), 0..400)) {
        let _ = decode(&[MAGIC, &bytes].concat());
        for (version, kind) in [("v1", "Pod"), ("batch/v1", "Job"), ("v1", "Event")] {
            let _ = decode(&Bytes(bytes.clone()).envelope(version, kind));
        }
    }

    #[test]
    fn a_damaged_body_is_read_or_refused(position in 0usize..1000, byte in any::<u8>()) {
        let mut body = new().message(1, metadata("c")).message(2, new().text(1, "a").text(2, "1")).envelope("v1", "ConfigMap");
        let position = position % body.len();
        body[position] = byte;
        let _ = decode(&body);
    }
}
