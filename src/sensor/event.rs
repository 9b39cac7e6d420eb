//! One event as a Sensor sees it.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use jiff::Timestamp;

/// A CloudEvent: its context attributes and, optionally, its data as raw bytes (JSON for webhook events).
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Event {
    /// Id, new for every arrival.
    pub id: String,
    /// Name of the EventSource.
    pub source: String,
    /// Name of the event in the EventSource.
    pub subject: String,
    /// Kind of the EventSource, such as `webhook`.
    pub r#type: String,
    /// Version of the CloudEvents specification, `1.0`.
    pub specversion: String,
    /// Media type of the data.
    pub datacontenttype: String,
    /// Time of arrival; without one the year 1 counts, as upstream.
    pub time: Option<Timestamp>,
    /// Raw data; an event without data passes every filter that looks at data.
    pub data: Option<Vec<u8>>,
}

impl Event {
    /// The context as upstream writes it to JSON, which `contextKey` paths look into; time in whole seconds.
    #[must_use]
    pub fn context_json(&self) -> serde_json::Value {
        let time = self
            .time
            .map(|time| time.strftime("%Y-%m-%dT%H:%M:%SZ").to_string());
        serde_json::json!({
            "id": self.id,
            "source": self.source,
            "specversion": self.specversion,
            "type": self.r#type,
            "datacontenttype": self.datacontenttype,
            "subject": self.subject,
            "time": time,
        })
    }

    /// The data as upstream shows it: JSON and plain text as they are, everything else in base64.
    #[must_use]
    pub fn data_text(&self) -> String {
        let Some(data) = &self.data else {
            return String::new();
        };
        let media_type = self.datacontenttype.split(';').next().unwrap_or_default();
        match media_type.trim().to_ascii_lowercase().as_str() {
            "application/json" | "text/plain" => String::from_utf8_lossy(data).into_owned(),
            _ => STANDARD.encode(data),
        }
    }
}
