//! What Argo's controllers hand to their pods in the environment: the object, the bus, the pod's name.

use std::time::Duration;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde_json::Value;

use super::go_duration;
use super::log::{Level, Logger};
use crate::embedded::bus::StreamConfig;
use crate::embedded::node::process::ServiceContext;

/// Where the bus's client credentials are mounted.
const AUTH_FILE: &str = "/etc/eventbus/auth/auth.yaml";
/// JetStream's duplicate window when the stream names none.
const DEFAULT_DUPLICATES: Duration = Duration::from_secs(120);

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
    /// The password of the mounted client credentials; `None` when the bus asks for none.
    pub credentials: Option<String>,
    pub stream: StreamConfig,
    /// More than one cannot be had from a single server.
    pub replicas: u64,
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
        let credentials = match jetstream
            .get("accessSecret")
            .filter(|secret| !secret.is_null())
        {
            Some(_) => Some(read_credentials(context).await?),
            None => None,
        };
        let settings = jetstream
            .get("streamConfig")
            .and_then(Value::as_str)
            .unwrap_or_default();
        let (stream, replicas) = stream_config(settings)?;
        Ok(BusSettings {
            url,
            credentials,
            stream,
            replicas,
        })
    }
}

async fn read_credentials(context: &ServiceContext) -> Result<String, StartError> {
    let fail = |error: String| StartError(format!("failed to load auth.yaml. err: {error}"));
    let text = context
        .files
        .read(AUTH_FILE)
        .await
        .map_err(|error| fail(format!("{AUTH_FILE}: {error}")))?;
    password(&text).ok_or_else(|| fail(format!("{AUTH_FILE} has no password")))
}

/// The password of `username: …` and `password: …` lines.
pub(super) fn password(text: &[u8]) -> Option<String> {
    let text = std::str::from_utf8(text).ok()?;
    let value: std::collections::BTreeMap<String, String> = serde_yaml::from_str(text).ok()?;
    value
        .get("password")
        .filter(|password| !password.is_empty())
        .cloned()
}

/// Reads `streamConfig` (YAML text; key case does not count, as upstream's reader has it).
fn stream_config(text: &str) -> Result<(StreamConfig, u64), StartError> {
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
    for name in ["retention", "discard"] {
        if number(name)? != 0 {
            return Err(fail(&format!("eventlab supports {name}: 0 only")));
        }
    }
    let duplicates = duration("duplicates")?;
    let config = StreamConfig {
        name: "default".to_owned(),
        subjects: vec!["default.*.*".to_owned()],
        // -1 and 0 mean no limit.
        max_messages: u64::try_from(number("maxMsgs")?).unwrap_or(0),
        max_age: duration("maxAge")?,
        duplicate_window: if duplicates.is_zero() {
            DEFAULT_DUPLICATES
        } else {
            duplicates
        },
    };
    Ok((config, u64::try_from(number("replicas")?).unwrap_or(0)))
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
        let (config, replicas) = stream_config(text).unwrap();
        assert_eq!(
            (config.max_messages, config.max_age.as_secs(), replicas),
            (50_000, 604_800, 1)
        );
        assert_eq!(config.duplicate_window.as_secs(), 300);
        let (empty, replicas) = stream_config("").unwrap();
        assert_eq!(
            (empty.max_messages, empty.max_age, replicas),
            (0, Duration::ZERO, 0)
        );
        assert!(stream_config("maxAge: soon").is_err());
        assert!(stream_config("retention: 2").is_err());
    }

    #[test]
    fn the_password_is_found_among_the_credentials() {
        assert_eq!(
            password(b"username: js\npassword: s3cret").as_deref(),
            Some("s3cret")
        );
        assert_eq!(password(b"username: js"), None);
        assert_eq!(password(&[0xff]), None);
    }
}
