//! The monitor's answer (`/jsz?consumers=true&config=true`) read as [`ConsumerInfo`], for a server whose client port cannot be reached.

use serde_json::Value;

use super::look::ConsumerAnswer;
use crate::embedded::bus::{BusError, ConsumerInfo};

/// The consumers of a stream that `/jsz` with `consumers=true` and `config=true` shows (their subjects need the latter), each with the stream sequence before which it was made
/// where that can be told: the monitor does not know it, so the delivered sequence of an untouched consumer stands for
/// it, and 0 for any other.
///
/// # Errors
/// The answer is not a monitor's, or shows no consumers because it was not asked for them.
pub fn consumers_of_jsz(answer: &Value, stream: &str) -> Result<Vec<ConsumerInfo>, BusError> {
    let refuse = |why: String| BusError::Refused(format!("the monitor of the bus: {why}"));
    let accounts = answer.get("account_details").and_then(Value::as_array);
    let Some(accounts) = accounts else {
        return Err(refuse(
            "no account_details in /jsz; ask with ?accounts=true&streams=true&consumers=true&config=true"
                .to_owned(),
        ));
    };
    let details = accounts
        .iter()
        .filter_map(|account| account.get("stream_detail")?.as_array())
        .flatten();
    let mut infos = Vec::new();
    for detail in
        details.filter(|detail| detail.get("name").and_then(Value::as_str) == Some(stream))
    {
        for consumer in detail
            .get("consumer_detail")
            .and_then(Value::as_array)
            .into_iter()
            .flatten()
        {
            let read: ConsumerAnswer =
                serde_json::from_value(consumer.clone()).map_err(|error| {
                    refuse(format!("a consumer of {stream} cannot be read: {error}"))
                })?;
            let born = read.untouched_sequence();
            infos.push(read.info(born));
        }
    }
    Ok(infos)
}
