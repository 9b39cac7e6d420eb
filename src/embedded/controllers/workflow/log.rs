//! The controller's log lines, in the text form of Go's slog that Argo Workflows 4.x writes.
//!
//! A line is the whole message of one tracing event with target [`TARGET`], so that whoever shows the
//! controller's log takes the message as it is.

use jiff::Timestamp;

/// Target of the tracing events.
pub const TARGET: &str = "workflow-controller";

/// Writes the lines of one Workflow's passes.
#[derive(Clone, Debug)]
pub(super) struct Log {
    namespace: String,
    workflow: String,
}

impl Log {
    pub(super) fn new(namespace: &str, workflow: &str) -> Self {
        Self {
            namespace: namespace.to_owned(),
            workflow: workflow.to_owned(),
        }
    }

    pub(super) fn info(&self, message: &str, fields: &[(&str, &str)]) {
        tracing::info!(target: TARGET, "{}", self.line("INFO", message, fields));
    }

    pub(super) fn warn(&self, message: &str, fields: &[(&str, &str)]) {
        tracing::warn!(target: TARGET, "{}", self.line("WARN", message, fields));
    }

    pub(super) fn error(&self, message: &str, fields: &[(&str, &str)]) {
        tracing::error!(target: TARGET, "{}", self.line("ERROR", message, fields));
    }

    fn line(&self, level: &str, message: &str, fields: &[(&str, &str)]) -> String {
        line(Timestamp::now(), level, message, &self.with_own(fields))
    }

    fn with_own<'a>(&'a self, fields: &[(&'a str, &'a str)]) -> Vec<(&'a str, &'a str)> {
        let mut all = fields.to_vec();
        all.extend([
            ("namespace", self.namespace.as_str()),
            ("workflow", self.workflow.as_str()),
        ]);
        all.sort_unstable_by_key(|(key, _)| *key);
        all
    }
}

/// One line of text.
fn line(time: Timestamp, level: &str, message: &str, fields: &[(&str, &str)]) -> String {
    let mut line = format!("time={time:.3} level={level} msg={}", quoted(message));
    for (key, value) in fields {
        line.push_str(&format!(" {key}={}", quoted(value)));
    }
    line
}

/// slog quotes what is empty, holds a space, a quote or an equals sign, or does not print.
fn quoted(text: &str) -> String {
    let plain = |c: char| !c.is_whitespace() && !c.is_control() && !matches!(c, '"' | '=' | '\\');
    if !text.is_empty() && text.chars().all(plain) {
        text.to_owned()
    } else {
        format!("{text:?}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_reads_as_slog_writes_it() {
        let log = Log::new("shop", "order-1001");
        let fields = log.with_own(&[("resourceVersion", "123"), ("phase", "")]);
        let time: Timestamp = "2026-08-21T10:00:00Z".parse().expect("time");
        assert_eq!(
            line(time, "INFO", "Processing workflow", &fields),
            "time=2026-08-21T10:00:00.000Z level=INFO msg=\"Processing workflow\" namespace=shop phase=\"\" resourceVersion=123 workflow=order-1001"
        );
    }
}
