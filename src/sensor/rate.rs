//! How often a trigger may run: its `rateLimit`.

use std::time::Duration;

use serde_json::Value;

/// What a trigger's `rateLimit` comes to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rate {
    /// There is none.
    Free,
    /// One request takes so long.
    Every(Duration),
    /// No requests, which is also what is left out: Argo Events divides by it when the pod starts.
    Zero,
    /// Fewer than none.
    Negative(i64),
    /// No whole number: the controller cannot decode it.
    Undecodable,
}

impl Rate {
    /// Of an entry of `spec.triggers`.
    #[must_use]
    pub fn of(trigger: &Value) -> Self {
        trigger.get("rateLimit").map_or(Self::Free, Self::read)
    }

    /// Of the value of `rateLimit`.
    #[must_use]
    pub fn read(limit: &Value) -> Self {
        if limit.is_null() {
            return Self::Free;
        }
        let requests = match limit.get("requestsPerUnit") {
            None | Some(Value::Null) => 0,
            Some(requests) => match requests.as_i64() {
                Some(requests) => requests,
                None => return Self::Undecodable,
            },
        };
        let unit = match limit.get("unit").and_then(Value::as_str) {
            Some("Minute") => 60,
            Some("Hour") => 3600,
            _ => 1,
        };
        match (requests, u32::try_from(requests)) {
            (0, _) => Self::Zero,
            (_, Ok(requests)) => Self::Every(Duration::from_secs(unit) / requests),
            (..=-1, Err(_)) => Self::Negative(requests),
            // More than the field holds.
            (_, Err(_)) => Self::Undecodable,
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_limit_is_the_time_of_one_request() {
        for (limit, rate) in [
            (json!(null), Rate::Free),
            (
                json!({"requestsPerUnit": 4}),
                Rate::Every(Duration::from_millis(250)),
            ),
            (
                json!({"unit": "Minute", "requestsPerUnit": 6}),
                Rate::Every(Duration::from_secs(10)),
            ),
            (
                json!({"unit": "Hour", "requestsPerUnit": 1}),
                Rate::Every(Duration::from_secs(3600)),
            ),
            (json!({"unit": "Second", "requestsPerUnit": 0}), Rate::Zero),
            (json!({"unit": "Hour"}), Rate::Zero),
            (json!({"requestsPerUnit": null}), Rate::Zero),
            (json!({}), Rate::Zero),
            (json!({"requestsPerUnit": -1}), Rate::Negative(-1)),
            (
                json!({"requestsPerUnit": i64::MIN}),
                Rate::Negative(i64::MIN),
            ),
            (json!({"requestsPerUnit": i64::MAX}), Rate::Undecodable),
            (json!({"requestsPerUnit": 1.5}), Rate::Undecodable),
            (json!({"requestsPerUnit": "5"}), Rate::Undecodable),
        ] {
            assert_eq!(Rate::of(&json!({"rateLimit": limit})), rate, "{limit}");
        }
        assert_eq!(Rate::of(&json!({})), Rate::Free);
    }
}
