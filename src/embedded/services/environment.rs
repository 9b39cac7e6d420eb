//! What Argo's controllers hand to their pods in the environment: the object, the bus, the pod's name.

use std::time::Duration;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde_json::Value;

use super::log::{Level, Logger};
use crate::embedded::bus::{Access, BusTls, Login, Retention, StreamConfig};
use crate::embedded::node::process::ServiceContext;
use crate::sensor::go_duration;

/// Where the bus's client credentials are mounted.
const AUTH_FILE: &str = "/etc/eventbus/auth/auth.yaml";

/// Why a service cannot start; the text is logged as fatal and becomes the termination message.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub(super) struct StartError(pub String);

/// The object in a variable, base64 JSON.
pub(super) fn object(context: &ServiceContext, variable: &str) -> Result<Value, StartError> {
    let encoded = required(context, variable)?;
    decode(encoded).map_err(|error| {
        StartError(format!(
            "failed to decode the object in {variable}: {error}"
        ))
    })
}

pub(super) fn required<'a>(
    context: &'a ServiceContext,
    variable: &str,
) -> Result<&'a str, StartError> {
    let value = context.env.get(variable).map(String::as_str);
    value.ok_or_else(|| {
        StartError(format!(
            "required environment variable '{variable}' not defined"
        ))
    })
}

fn decode(encoded: &str) -> Result<Value, String> {
    let bytes = STANDARD
        .decode(encoded.trim())
        .map_err(|error| error.to_string())?;
    serde_json::from_slice(&bytes).map_err(|error| error.to_string())
}

/// The logger of an Argo Events service, at the level of `LOG_LEVEL`.
pub(super) fn logger(context: &ServiceContext, name: &str) -> Logger {
    let level = Level::from_environment(context.env.get("LOG_LEVEL").map(String::as_str));
    Logger::new(std::sync::Arc::clone(&context.log), level, name)
}

/// How a pod reaches the bus, from `EVENTBUS_CONFIG`.
#[derive(Clone, Debug)]
pub(super) struct BusSettings {
    pub url: String,
    pub access: Access,
    pub stream: StreamConfig,
}

impl BusSettings {
    pub(super) async fn read(context: &ServiceContext) -> Result<BusSettings, StartError> {
        let config = match context
            .env
            .get("EVENTBUS_CONFIG")
            .filter(|text| !text.is_empty())
        {
            Some(text) => decode(text).map_err(|error| {
                StartError(format!("failed to decode bus config string: {error}"))
            })?,
            None => Value::Null,
        };
        let jetstream = config.get("jetstream").filter(|value| value.is_object());
        let Some(jetstream) = jetstream else {
            let kind = config
                .as_object()
                .and_then(|map| map.keys().next().cloned());
            return Err(StartError(kind.map_or_else(
                || "invalid event bus".to_owned(),
                |kind| {
                    format!("eventlab: an event bus of type {kind} is not supported, use jetstream")
                },
            )));
        };
        let url = jetstream
            .get("url")
            .and_then(Value::as_str)
            .unwrap_or_default()
            .to_owned();
        let given = |field: &str| jetstream.get(field).filter(|value| !value.is_null());
        let login = match given("accessSecret") {
            Some(_) => read_login(context).await?,
            None => Login::Nobody,
        };
        let tls = match given("tls") {
            Some(tls) => Some(read_tls(context, tls).await?),
            None => None,
        };
        let settings = jetstream
            .get("streamConfig")
            .and_then(Value::as_str)
            .unwrap_or_default();
        Ok(BusSettings {
            url,
            access: Access { login, tls },
            stream: stream_config(settings)?,
        })
    }
}

async fn read_login(context: &ServiceContext) -> Result<Login, StartError> {
    let fail = |error: String| StartError(format!("failed to load auth.yaml. err: {error}"));
    let text = context
        .files
        .read(AUTH_FILE)
        .await
        .map_err(|error| fail(format!("{AUTH_FILE}: {error}")))?;
    login(&text).ok_or_else(|| fail(format!("{AUTH_FILE} has no password")))
}

/// User and password of `username: …` and `password: …` lines.
pub(super) fn login(text: &[u8]) -> Option<Login> {
    let text = std::str::from_utf8(text).ok()?;
    let value: std::collections::BTreeMap<String, String> = serde_yaml::from_str(text).ok()?;
    let password = value
        .get("password")
        .filter(|password| !password.is_empty())?;
    Some(Login::Password {
        user: value.get("username").cloned().unwrap_or_default(),
        password: password.clone(),
    })
}

/// The `tls` of the bus's configuration, with the Secrets it names read from their mounts.
async fn read_tls(context: &ServiceContext, tls: &Value) -> Result<BusTls, StartError> {
    let unverified = tls["insecureSkipVerify"].as_bool().unwrap_or(false);
    let authorities = mounted(context, &tls["caCertSecret"]).await?;
    let certificate = mounted(context, &tls["clientCertSecret"]).await?;
    let key = mounted(context, &tls["clientKeySecret"]).await?;
    let client = match (certificate, key) {
        (Some(certificate), Some(key)) => Some((certificate, key)),
        (None, None) => None,
        _ => {
            return Err(StartError(
                "invalid tls config, both of clientCertSecret and clientKeySecret need to be configured".to_owned(),
            ));
        }
    };
    if authorities.is_none() && client.is_none() && !unverified {
        return Err(StartError(
            "invalid tls config, please configure either caCertSecret, or clientCertSecret and clientKeySecret, or both"
                .to_owned(),
        ));
    }
    Ok(BusTls {
        authorities,
        client,
        unverified,
    })
}

/// The bytes of a Secret's key, from the volume that the controller mounts for it.
async fn mounted(context: &ServiceContext, secret: &Value) -> Result<Option<Vec<u8>>, StartError> {
    let (Some(name), Some(key)) = (secret["name"].as_str(), secret["key"].as_str()) else {
        return Ok(None);
    };
    let path = format!("/argo-events/secrets/{name}/{key}");
    let read = context.files.read(&path).await;
    read.map(Some)
        .map_err(|error| StartError(format!("failed to read {path}: {error}")))
}

/// Reads `streamConfig` (YAML text; key case does not count, as upstream's reader has it).
fn stream_config(text: &str) -> Result<StreamConfig, StartError> {
    let fail = |error: &dyn std::fmt::Display| {
        StartError(format!("invalid streamConfig of the EventBus: {error}"))
    };
    let parsed: Option<std::collections::BTreeMap<String, Value>> = if text.trim().is_empty() {
        None
    } else {
        serde_yaml::from_str(text).map_err(|error| fail(&error))?
    };
    let parsed = parsed.unwrap_or_default();
    let get = |name: &str| {
        parsed
            .iter()
            .find(|(key, _)| key.eq_ignore_ascii_case(name))
            .map(|(_, value)| value)
    };
    let number = |name: &str| match get(name) {
        None => Ok(0),
        Some(value) => integer(value).ok_or_else(|| fail(&format!("{name} is not a number"))),
    };
    let duration = |name: &str| match get(name) {
        None => Ok(Duration::ZERO),
        Some(value) => {
            go_time(value).ok_or_else(|| fail(&format!("{name} is not a duration such as 168h")))
        }
    };
    let retention = match number("retention")? {
        0 => Retention::Limits,
        1 => Retention::Interest,
        2 => Retention::WorkQueue,
        other => return Err(fail(&format!("invalid int for RetentionPolicy: {other}"))),
    };
    let discard_new = match number("discard")? {
        0 => false,
        1 => true,
        other => return Err(fail(&format!("invalid int for DiscardPolicy: {other}"))),
    };
    Ok(StreamConfig {
        name: "default".to_owned(),
        subjects: vec!["default.*.*".to_owned()],
        // -1 and 0 mean no limit.
        max_messages: u64::try_from(number("maxMsgs")?).unwrap_or(0),
        max_bytes: u64::try_from(number("maxBytes")?).unwrap_or(0),
        max_age: duration("maxAge")?,
        duplicate_window: duration("duplicates")?,
        discard_new,
        retention,
        replicas: u64::try_from(number("replicas")?).unwrap_or(0),
    })
}

fn integer(value: &Value) -> Option<i64> {
    value
        .as_i64()
        .or_else(|| value.as_str().and_then(|text| text.trim().parse().ok()))
}

fn go_time(value: &Value) -> Option<Duration> {
    match value {
        Value::Number(number) => number.as_u64().map(Duration::from_nanos),
        Value::String(text) => go_duration::parse(text.trim()),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stream_config_is_read_as_upstream_reads_it() {
        let text = "maxMsgs: 50000\nMaxAge: 168h\nreplicas: 1\nduplicates: 300s\nmaxBytes: -1\n";
        let config = stream_config(text).unwrap();
        assert_eq!(
            (
                config.max_messages,
                config.max_age.as_secs(),
                config.replicas
            ),
            (50_000, 604_800, 1)
        );
        assert_eq!(
            (config.duplicate_window.as_secs(), config.max_bytes),
            (300, 0)
        );
        let empty = stream_config("").unwrap();
        assert_eq!(
            (empty.max_messages, empty.max_age, empty.replicas),
            (0, Duration::ZERO, 0)
        );
        assert!(stream_config("maxAge: soon").is_err());
        assert!(stream_config("retention: 3").is_err() && stream_config("discard: 2").is_err());
        let other = stream_config("retention: 2\ndiscard: 1\nmaxBytes: 1024\n").unwrap();
        assert_eq!(
            (other.retention, other.discard_new, other.max_bytes),
            (Retention::WorkQueue, true, 1024)
        );
    }

    #[test]
    fn the_password_is_found_among_the_credentials() {
        assert_eq!(
            login(b"username: js\npassword: s3cret"),
            Some(Login::Password {
                user: "js".into(),
                password: "s3cret".into()
            })
        );
        assert_eq!(login(b"username: js"), None);
        assert_eq!(login(&[0xff]), None);
    }
}
