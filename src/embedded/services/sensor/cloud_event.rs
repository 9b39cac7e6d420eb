//! CloudEvents as they stand on the bus, and in log lines. From above: [`decode`], [`describe`].

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde::Deserialize;
use serde_json::value::RawValue;

use crate::sensor::Event;

#[derive(Deserialize)]
struct Wire<'a> {
    specversion: String,
    id: String,
    source: String,
    r#type: String,
    #[serde(default)]
    subject: String,
    #[serde(default)]
    datacontenttype: String,
    time: Option<jiff::Timestamp>,
    data_base64: Option<String>,
    #[serde(borrow)]
    data: Option<&'a RawValue>,
}

/// Reads a message.
///
/// # Errors
/// Why it is no CloudEvent.
pub fn decode(payload: &[u8]) -> Result<Event, String> {
    let wire: Wire<'_> = serde_json::from_slice(payload).map_err(|error| error.to_string())?;
    let data = match (wire.data_base64, wire.data) {
        (Some(text), _) => Some(
            STANDARD
                .decode(text)
                .map_err(|error| format!("data_base64: {error}"))?,
        ),
        (None, Some(data)) => Some(data.get().as_bytes().to_vec()),
        (None, None) => None,
    };
    Ok(Event {
        id: wire.id,
        source: wire.source,
        subject: wire.subject,
        r#type: wire.r#type,
        specversion: wire.specversion,
        datacontenttype: wire.datacontenttype,
        time: wire.time,
        data,
    })
}

/// Writes an event as it stands on the bus.
#[must_use]
pub fn encode(event: &Event) -> Vec<u8> {
    let mut wire = serde_json::json!({
        "specversion": event.specversion,
        "id": event.id,
        "source": event.source,
        "type": event.r#type,
        "subject": event.subject,
        "datacontenttype": event.datacontenttype,
    });
    if let Some(time) = event.time {
        wire["time"] = time.to_string().into();
    }
    if let Some(data) = &event.data {
        wire["data_base64"] = STANDARD.encode(data).into();
    }
    wire.to_string().into_bytes()
}

/// The event as it stands in Argo's discard lines.
#[must_use]
pub fn describe(event: &Event) -> String {
    let time = event.time.map_or_else(
        || "0001-01-01T00:00:00Z".to_owned(),
        |time| time.strftime("%Y-%m-%dT%H:%M:%SZ").to_string(),
    );
    let data = String::from_utf8_lossy(event.data.as_deref().unwrap_or_default());
    format!(
        "ID '{}', Source '{}', Time '{time}', Data '{data}'",
        event.id, event.source
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn data_come_as_base64_or_as_json() {
        let event = decode(
            br#"{"specversion":"1.0","id":"i","source":"s","type":"webhook","subject":"orders",
            "time":"2026-01-02T03:04:05.678Z","data_base64":"eyJhIjoxfQ=="}"#,
        )
        .unwrap();
        assert_eq!(event.data.as_deref(), Some(br#"{"a":1}"#.as_slice()));
        let wanted = "ID 'i', Source 's', Time '2026-01-02T03:04:05Z', Data '{\"a\":1}'";
        assert_eq!(describe(&event), wanted);
        let plain =
            decode(br#"{"specversion":"1.0","id":"i","source":"s","type":"t","data":{"a":[1]}}"#);
        assert_eq!(plain.unwrap().data.unwrap(), br#"{"a":[1]}"#);
    }

    #[test]
    fn what_is_written_is_read_again() {
        let event = Event {
            id: "i".into(),
            source: "s".into(),
            subject: "orders".into(),
            r#type: "webhook".into(),
            specversion: "1.0".into(),
            datacontenttype: "application/json".into(),
            time: "2026-01-02T03:04:05.678Z".parse().ok(),
            data: Some(b"{\"a\":1}".to_vec()),
        };
        assert_eq!(decode(&encode(&event)), Ok(event));
        let empty = Event::default();
        assert_eq!(decode(&encode(&empty)), Ok(empty));
    }

    #[test]
    fn what_is_no_event_is_an_error() {
        for text in ["", "{}", "[1]", "{\"specversion\":\"1.0\",\"id\":1}"] {
            assert!(decode(text.as_bytes()).is_err(), "{text}");
        }
    }
}
