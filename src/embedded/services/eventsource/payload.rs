//! Event data of a webhook request, pure: canonical headers, masked credentials, the body by its content type.
//!
//! From above: [`event_data`] over what [`form_content`], [`query_content`] or the body itself give.

use std::collections::BTreeMap;

use http::{HeaderMap, header};

use super::form;
use super::json;

/// Largest form in bytes, as Go's form reader has it.
pub const MAX_FORM: u64 = 10 << 20;
/// What stands in the event instead of a credential.
const MASKED: &[u8] = b"*** Masked Auth Secret ***";

/// Whether a POST with these headers is read as a form: the content type must be exactly this.
#[must_use]
pub fn is_form(headers: &HeaderMap) -> bool {
    headers
        .get(header::CONTENT_TYPE)
        .is_some_and(|value| value.as_bytes().trim_ascii() == b"application/x-www-form-urlencoded")
}

/// The content of a form, as JSON.
///
/// # Errors
/// Go's text for a form or query that cannot be read.
pub fn form_content(body: &[u8], query: &str) -> Result<Vec<u8>, String> {
    let (values, error) = form::parse(body);
    let (_, query_error) = form::parse(query.as_bytes());
    match error.or(query_error) {
        Some(error) => Err(error),
        None => Ok(values_json(&values)),
    }
}

/// The content of a GET, which is its query, as JSON.
#[must_use]
pub fn query_content(query: &str) -> Vec<u8> {
    values_json(&form::parse(query.as_bytes()).0)
}

/// `{"header": …, "body": …, "metadata": …}`.
///
/// # Errors
/// What the EventSource answers when the content is not JSON.
pub fn event_data(
    headers: &HeaderMap,
    content: &[u8],
    metadata: &BTreeMap<String, String>,
) -> Result<Vec<u8>, String> {
    let mut data = b"{\"header\":".to_vec();
    let headers = event_headers(headers);
    json::push_values(
        &mut data,
        headers
            .iter()
            .map(|(name, values)| (name.as_slice(), values.as_slice())),
    );
    data.extend_from_slice(b",\"body\":");
    json::compact(&mut data, content).map_err(|error| {
        format!("json: error calling MarshalJSON for type *jsontext.Value: {error}")
    })?;
    if !metadata.is_empty() {
        data.extend_from_slice(b",\"metadata\":");
        push_metadata(&mut data, metadata);
    }
    data.push(b'}');
    Ok(data)
}

/// `x-order-id` as `X-Order-Id`, as Go spells a header's name.
#[must_use]
pub fn canonical(name: &str) -> Vec<u8> {
    let mut upper = true;
    name.bytes()
        .map(|byte| {
            let cased = if upper {
                byte.to_ascii_uppercase()
            } else {
                byte.to_ascii_lowercase()
            };
            upper = byte == b'-';
            cased
        })
        .collect()
}

fn values_json(values: &form::Values) -> Vec<u8> {
    let mut out = Vec::new();
    json::push_values(
        &mut out,
        values
            .iter()
            .map(|(name, values)| (name.as_slice(), values.as_slice())),
    );
    out
}

fn push_metadata(out: &mut Vec<u8>, metadata: &BTreeMap<String, String>) {
    for (index, (key, value)) in metadata.iter().enumerate() {
        out.push(if index == 0 { b'{' } else { b',' });
        json::push_string(out, key.as_bytes());
        out.push(b':');
        json::push_string(out, value.as_bytes());
    }
    out.push(b'}');
}

/// The headers as Go hands them on: canonical names, without those that Go takes out, credentials masked.
fn event_headers(headers: &HeaderMap) -> BTreeMap<Vec<u8>, Vec<Vec<u8>>> {
    let chunked = headers.contains_key(header::TRANSFER_ENCODING);
    let mut event = BTreeMap::<Vec<u8>, Vec<Vec<u8>>>::new();
    for (name, value) in headers {
        let dropped = *name == header::HOST
            || *name == header::TRANSFER_ENCODING
            || (chunked && (*name == header::CONTENT_LENGTH || *name == header::TRAILER));
        if !dropped {
            event
                .entry(canonical(name.as_str()))
                .or_default()
                .push(value.as_bytes().trim_ascii().to_vec());
        }
    }
    if let Some(values) = event.get_mut(&b"Authorization"[..])
        && values.first().is_some_and(|value| !value.is_empty())
    {
        *values = vec![MASKED.to_vec()];
    }
    event
}
