//! Checks of a container's probes and hooks.

use serde_json::Value;

use super::parts::{items, port, supported, text};
use crate::embedded::api::status::Cause;

const PROBES: [&str; 3] = ["livenessProbe", "readinessProbe", "startupProbe"];
const TIMES: [&str; 5] = [
    "initialDelaySeconds",
    "timeoutSeconds",
    "periodSeconds",
    "successThreshold",
    "failureThreshold",
];

/// The probes and hooks of an ordinary container.
pub(super) fn check(container: &Value, path: &str, causes: &mut Vec<Cause>) {
    for hook in ["postStart", "preStop"] {
        let found = container.get("lifecycle").and_then(|all| all.get(hook));
        if let Some(hook_value) = found.filter(|hook| hook.is_object()) {
            handler(hook_value, &format!("{path}.lifecycle.{hook}"), causes);
        }
    }
    for kind in PROBES {
        let Some(probe) = container.get(kind).filter(|probe| probe.is_object()) else {
            continue;
        };
        let path = format!("{path}.{kind}");
        handler(probe, &path, causes);
        for key in TIMES {
            if let Some(number) = probe.get(key).filter(|n| n.as_i64().is_some_and(|n| n < 0)) {
                let why = "must be greater than or equal to 0";
                causes.push(Cause::invalid(format!("{path}.{key}"), number, why));
            }
        }
        let threshold = probe
            .get("successThreshold")
            .filter(|_| kind != "readinessProbe");
        if let Some(number) = threshold.filter(|n| n.as_i64().is_some_and(|n| n != 1)) {
            causes.push(Cause::invalid(
                format!("{path}.successThreshold"),
                number,
                "must be 1",
            ));
        }
    }
}

/// An init container that does not stay has no probes.
pub(super) fn check_init(container: &Value, path: &str, causes: &mut Vec<Cause>) {
    const POLICIES: [&str; 3] = ["Always", "Never", "OnFailure"];
    let policy = text(container, "restartPolicy");
    if policy == "Always" {
        return check(container, path, causes);
    }
    supported(container, path, "restartPolicy", &POLICIES, causes);
    for key in [
        "lifecycle",
        "livenessProbe",
        "readinessProbe",
        "startupProbe",
    ] {
        if container.get(key).is_some_and(Value::is_object) {
            let why = "may not be set for init containers without restartPolicy=Always";
            causes.push(Cause::forbidden(format!("{path}.{key}"), why));
        }
    }
}

/// Exactly one way to ask.
fn handler(value: &Value, path: &str, causes: &mut Vec<Cause>) {
    let mut found = 0;
    for kind in ["exec", "httpGet", "tcpSocket", "grpc", "sleep"] {
        let Some(action) = value.get(kind).filter(|action| action.is_object()) else {
            continue;
        };
        let path = format!("{path}.{kind}");
        found += 1;
        if found > 1 {
            let why = "may not specify more than 1 handler type";
            causes.push(Cause::forbidden(path, why));
            continue;
        }
        match kind {
            "exec" if items(action, "command").is_empty() => {
                causes.push(Cause::required(format!("{path}.command"), ""));
            }
            "httpGet" => {
                port(action.get("port"), &format!("{path}.port"), causes);
                let scheme = text(action, "scheme");
                if !matches!(scheme, "" | "HTTP" | "HTTPS") {
                    let all = ["HTTP", "HTTPS"];
                    causes.push(Cause::unsupported(format!("{path}.scheme"), scheme, &all));
                }
            }
            "tcpSocket" => port(action.get("port"), &format!("{path}.port"), causes),
            _ => {}
        }
    }
    if found == 0 {
        causes.push(Cause::required(path, "must specify a handler type"));
    }
}
