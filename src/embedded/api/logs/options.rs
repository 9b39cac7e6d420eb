//! The query parameters of a log request (`v1.PodLogOptions`).

use jiff::{SignedDuration, Timestamp};
use kube::core::Status;
use kube::core::response::StatusCause;

use super::bad_request;
use crate::embedded::api::go_text;
use crate::embedded::api::status::unprocessable;

/// How a log is to be read.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct LogOptions {
    /// The instance before the current one.
    pub previous: bool,
    /// Keep the stream open until the container ends.
    pub follow: bool,
    /// Put the time before each line.
    pub timestamps: bool,
    /// Only lines written at this time or later.
    pub since: Option<Timestamp>,
    /// Only the last lines of the file, counted before `since` is applied.
    pub tail_lines: Option<u64>,
    /// Stop after this many bytes, within a line if need be.
    pub limit_bytes: Option<u64>,
}

impl LogOptions {
    /// Reads and validates the parameters.
    ///
    /// # Errors
    /// 400 for a number or time that does not parse, 422 for one that makes no sense, in upstream's words.
    pub fn parse(
        pod: &str,
        parameter: &impl Fn(&str) -> Option<String>,
    ) -> Result<LogOptions, Box<Status>> {
        let flag = |key: &str| {
            parameter(key).is_some_and(|v| !v.eq_ignore_ascii_case("false") && v != "0")
        };
        let given = Given::read(parameter)?;
        let problems = given.problems();
        if !problems.is_empty() {
            return Err(unprocessable("", "PodLogOptions", pod, problems));
        }
        let ago = |seconds| {
            Timestamp::now()
                .saturating_sub(SignedDuration::from_secs(seconds))
                .unwrap_or(Timestamp::MIN)
        };
        Ok(LogOptions {
            previous: flag("previous"),
            follow: flag("follow"),
            timestamps: flag("timestamps"),
            since: given.since_time.or_else(|| given.since_seconds.map(ago)),
            tail_lines: given.tail_lines.and_then(|tail| u64::try_from(tail).ok()),
            limit_bytes: given
                .limit_bytes
                .and_then(|limit| u64::try_from(limit).ok()),
        })
    }
}

/// Numbers and times as they were sent.
struct Given {
    tail_lines: Option<i64>,
    limit_bytes: Option<i64>,
    since_seconds: Option<i64>,
    since_time: Option<Timestamp>,
}

impl Given {
    fn read(parameter: &impl Fn(&str) -> Option<String>) -> Result<Given, Box<Status>> {
        let text = |key: &str| parameter(key).filter(|value| !value.is_empty());
        let number = |key: &str| text(key).map(parse_int).transpose();
        Ok(Given {
            tail_lines: number("tailLines")?,
            limit_bytes: number("limitBytes")?,
            since_seconds: number("sinceSeconds")?,
            since_time: text("sinceTime").map(parse_time).transpose()?,
        })
    }

    fn problems(&self) -> Vec<StatusCause> {
        let mut problems = Vec::new();
        if let Some(tail) = self.tail_lines.filter(|tail| *tail < 0) {
            problems.push(invalid(
                "tailLines",
                tail,
                "must be greater than or equal to 0",
            ));
        }
        if let Some(limit) = self.limit_bytes.filter(|limit| *limit < 1) {
            problems.push(invalid("limitBytes", limit, "must be greater than 0"));
        }
        match (self.since_seconds, self.since_time) {
            (Some(_), Some(_)) => problems.push(both_times()),
            (Some(seconds), None) if seconds < 1 => {
                problems.push(invalid("sinceSeconds", seconds, "must be greater than 0"));
            }
            _ => {}
        }
        problems
    }
}

fn parse_int(text: String) -> Result<i64, Box<Status>> {
    use std::num::IntErrorKind::{NegOverflow, PosOverflow};
    text.parse::<i64>().map_err(|error| {
        let why = match error.kind() {
            PosOverflow | NegOverflow => "value out of range",
            _ => "invalid syntax",
        };
        bad_request(format!(
            "strconv.ParseInt: parsing {}: {why}",
            go_text::quote(&text)
        ))
    })
}

fn parse_time(text: String) -> Result<Timestamp, Box<Status>> {
    text.parse().map_err(|_| {
        bad_request(format!(
            "sinceTime: {} is not a time as RFC 3339 writes it",
            go_text::quote(&text)
        ))
    })
}

fn invalid(field: &str, value: i64, why: &str) -> StatusCause {
    StatusCause {
        reason: "FieldValueInvalid".to_owned(),
        message: format!("Invalid value: {value}: {why}"),
        field: field.to_owned(),
    }
}

fn both_times() -> StatusCause {
    StatusCause {
        reason: "FieldValueForbidden".to_owned(),
        message: "Forbidden: at most one of `sinceTime` or `sinceSeconds` may be specified"
            .to_owned(),
        field: "sinceTime".to_owned(),
    }
}
