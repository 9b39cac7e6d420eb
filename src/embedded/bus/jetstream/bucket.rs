//! Key-value buckets: a stream `KV_<bucket>` that keeps the last value of each key.

use async_nats::HeaderMap;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde::Deserialize;
use serde_json::{Value, json};

use super::JetStream;
use super::api::{Failure, code};
use crate::embedded::bus::{BusError, subject};

/// Header that says what became of a key.
const OPERATION: &str = "KV-Operation";

#[derive(Deserialize)]
struct Found {
    message: FoundMessage,
}

#[derive(Deserialize)]
struct FoundMessage {
    data: Option<String>,
    hdrs: Option<String>,
}

impl JetStream {
    pub(super) async fn get_key(
        &self,
        bucket: &str,
        key: &str,
    ) -> Result<Option<Vec<u8>>, BusError> {
        let name = subject_of(bucket, key)?;
        let found: Result<Found, Failure> = self
            .api(
                &format!("STREAM.MSG.GET.KV_{bucket}"),
                &json!({"last_by_subj": name}),
            )
            .await;
        let message = match found {
            Ok(found) => found.message,
            Err(failure)
                if failure.is(code::NO_MESSAGE_FOUND) || failure.is(code::STREAM_NOT_FOUND) =>
            {
                return Ok(None);
            }
            Err(failure) => return Err(failure.into()),
        };
        if is_gone(message.hdrs.as_deref()) {
            return Ok(None);
        }
        let value = STANDARD.decode(message.data.unwrap_or_default());
        value.map(Some).map_err(|error| {
            BusError::Refused(format!("the value of key {key} cannot be read: {error}"))
        })
    }

    pub(super) async fn put_key(
        &self,
        bucket: &str,
        key: &str,
        value: Vec<u8>,
    ) -> Result<(), BusError> {
        let name = subject_of(bucket, key)?;
        match self.store(&name, HeaderMap::new(), value.clone()).await {
            Err(Failure::Bus(BusError::NoResponders)) => {
                self.make_bucket(bucket).await?;
                self.store(&name, HeaderMap::new(), value).await?;
                Ok(())
            }
            stored => Ok(stored.map(drop)?),
        }
    }

    pub(super) async fn delete_key(&self, bucket: &str, key: &str) -> Result<(), BusError> {
        let name = subject_of(bucket, key)?;
        let mut headers = HeaderMap::new();
        headers.insert(OPERATION, "DEL");
        match self.store(&name, headers, Vec::new()).await {
            // There is no such bucket, hence no such key.
            Err(Failure::Bus(BusError::NoResponders)) => Ok(()),
            stored => Ok(stored.map(drop)?),
        }
    }

    /// Makes the bucket as Argo's client makes it: one value a key, no limits.
    async fn make_bucket(&self, bucket: &str) -> Result<(), BusError> {
        let config = json!({
            "name": format!("KV_{bucket}"),
            "subjects": [format!("$KV.{bucket}.>")],
            "retention": "limits",
            "max_consumers": -1,
            "max_msgs_per_subject": 1,
            "max_msgs": -1,
            "max_bytes": -1,
            "max_age": 0,
            "max_msg_size": -1,
            "discard": "new",
            "storage": "file",
            "num_replicas": 1,
            "duplicate_window": 120_000_000_000_u64,
            "allow_rollup_hdrs": true,
            "deny_delete": true,
            "allow_direct": true,
        });
        let made: Result<Value, Failure> = self
            .api(&format!("STREAM.CREATE.KV_{bucket}"), &config)
            .await;
        match made {
            Ok(_) => Ok(()),
            Err(failure) if failure.is(code::STREAM_NAME_IN_USE) => Ok(()),
            Err(failure) => Err(failure.into()),
        }
    }
}

fn subject_of(bucket: &str, key: &str) -> Result<String, BusError> {
    subject::check_key(bucket, key)?;
    Ok(format!("$KV.{bucket}.{key}"))
}

/// Whether the headers (base64) mark a deleted or purged key.
fn is_gone(headers: Option<&str>) -> bool {
    let bytes = headers.and_then(|text| STANDARD.decode(text).ok());
    let text = String::from_utf8_lossy(bytes.as_deref().unwrap_or_default()).into_owned();
    text.lines()
        .filter_map(|line| line.split_once(':'))
        .any(|(name, value)| {
            name.eq_ignore_ascii_case(OPERATION) && matches!(value.trim(), "DEL" | "PURGE")
        })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_deleted_key_is_known_by_its_header() {
        let gone = STANDARD.encode("NATS/1.0\r\nKV-Operation: DEL\r\n\r\n");
        let kept = STANDARD.encode("NATS/1.0\r\nNats-Msg-Id: DEL\r\n\r\n");
        assert!(is_gone(Some(&gone)));
        assert!(!is_gone(Some(&kept)) && !is_gone(None) && !is_gone(Some("%")));
    }
}
