//! The report as JSON.

use super::Report;

/// The whole report, pretty-printed.
///
/// # Errors
/// A value that JSON cannot hold (there is none in a report).
pub fn render(report: &Report) -> serde_json::Result<String> {
    serde_json::to_string_pretty(report)
}
