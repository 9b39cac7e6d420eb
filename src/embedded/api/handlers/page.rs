//! Continue tokens: where the next page of a list begins, and of which version.

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use serde_json::{Value, json};

use crate::embedded::api::go_json;
use crate::embedded::api::status::Failure;

const ENCODING: &str = "meta.k8s.io/v1";
/// Upstream's name of it; part of its texts.
const OWNER: &str = "continueToken";

/// Where the next page begins.
pub(super) struct Page {
    /// The resourceVersion of the whole list; `None`: whatever is there now.
    pub(super) version: Option<u64>,
    /// The key of the last object before it.
    pub(super) after: String,
}

impl Page {
    /// The token that names it.
    pub(super) fn token(&self) -> String {
        URL_SAFE_NO_PAD.encode(
            json!({"v": ENCODING, "rv": self.version.unwrap_or(0), "start": self.after})
                .to_string(),
        )
    }

    /// Reads a token.
    ///
    /// # Errors
    /// 400 for one that was not made here.
    pub(super) fn parse(token: &str) -> Result<Self, Failure> {
        read(token).map_err(|why| {
            Failure::bad_request(format!(
                "invalid continue token: continue key is not valid: {why}"
            ))
        })
    }
}

fn read(token: &str) -> Result<Page, String> {
    let bytes = URL_SAFE_NO_PAD.decode(token).map_err(|error| match error {
        base64::DecodeError::InvalidByte(at, _) => {
            format!("illegal base64 data at input byte {at}")
        }
        _ => format!("illegal base64 data at input byte {}", token.len()),
    })?;
    let value: Value = serde_json::from_slice(&bytes).map_err(|_| "it is no JSON".to_owned())?;
    if !matches!(value, Value::Object(_) | Value::Null) {
        let word = go_json::word(&value);
        return Err(format!(
            "json: cannot unmarshal {word} into Go value of type storage.continueToken"
        ));
    }
    let field = |key: &str| value.get(key).unwrap_or(&Value::Null);
    let encoding = go_json::text(field("v"), "v", OWNER, "string")?.unwrap_or_default();
    let version = go_json::whole(field("rv"), "rv", OWNER)?.unwrap_or(0);
    let after = go_json::text(field("start"), "start", OWNER, "string")?.unwrap_or_default();
    if encoding != ENCODING {
        return Err(format!(
            "server does not recognize this encoded version {encoding}"
        ));
    }
    if version == 0 {
        return Err(format!(
            "incorrect encoded start resourceVersion (version {ENCODING})"
        ));
    }
    if after.is_empty() {
        return Err(format!("encoded start key empty (version {ENCODING})"));
    }
    let path = after.strip_prefix('/').unwrap_or(&after);
    if path.split('/').any(|part| matches!(part, "." | "..")) {
        return Err(after);
    }
    Ok(Page {
        version: u64::try_from(version).ok(),
        after,
    })
}
