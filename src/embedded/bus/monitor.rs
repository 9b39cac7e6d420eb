//! The monitor answers, in the JSON that NATS 2.10 writes on its monitor port.

use jiff::Timestamp;
use serde_json::{Value, json};

use super::BusError;
use super::consumer::{Consumer, MAX_ACK_PENDING};
use super::engine::EmbeddedBus;
use super::stream::Stream;

/// The account that Argo's JetStream users are in.
const ACCOUNT: &str = "js";
/// Version of NATS whose answers these are.
const VERSION: &str = "2.10.29";

/// How much `/jsz` tells.
#[derive(Clone, Copy, Debug)]
pub(super) struct Detail {
    pub accounts: bool,
    pub streams: bool,
    pub consumers: bool,
}

/// `/varz`, its first fields.
pub(super) fn varz(_bus: &EmbeddedBus, name: &str) -> Result<Value, BusError> {
    Ok(
        json!({"server_id": name, "server_name": name, "version": VERSION, "max_payload": super::engine::MAX_PAYLOAD,
        "now": Timestamp::now().to_string()}),
    )
}

/// `/jsz`.
pub(super) fn jsz(bus: &EmbeddedBus, name: &str, detail: Detail) -> Result<Value, BusError> {
    let buckets = bus.buckets()?;
    let state = bus.lock();
    let streams = state.streams.values();
    let infos: Vec<_> = streams.clone().map(Stream::info).collect();
    let bytes: u64 = infos.iter().map(|info| info.bytes).sum();
    let mut answer = json!({
        "server_id": name,
        "now": Timestamp::now().to_string(),
        "config": {"max_memory": 0, "max_storage": 0, "store_dir": "/data/jetstream"},
        "memory": 0,
        "storage": bytes,
        "streams": infos.len() + buckets.len(),
        "consumers": streams.clone().map(|stream| stream.consumers.len()).sum::<usize>(),
        "messages": infos.iter().map(|info| info.messages).sum::<u64>(),
        "bytes": bytes,
    });
    if detail.accounts {
        let mut account = json!({"name": ACCOUNT, "id": ACCOUNT, "memory": 0, "storage": bytes});
        if detail.streams {
            let streams = streams.map(|stream| stream_detail(stream, detail));
            account["stream_detail"] = streams.chain(buckets.iter().map(bucket_detail)).collect();
        }
        answer["account_details"] = json!([account]);
    }
    Ok(answer)
}

fn stream_detail(stream: &Stream, detail: Detail) -> Value {
    let info = stream.info();
    // NATS writes year 1 where there is no message.
    let (first, last) = stream
        .span()
        .map_or((None, None), |(first, last)| (Some(first), Some(last)));
    let time = |time: Option<Timestamp>| {
        time.map_or("0001-01-01T00:00:00Z".to_owned(), |time| time.to_string())
    };
    let mut value = json!({
        "name": info.name,
        "created": stream.created.to_string(),
        "cluster": {"leader": ""},
        "state": {
            "messages": info.messages,
            "bytes": info.bytes,
            "first_seq": info.first_sequence,
            "first_ts": time(first),
            "last_seq": info.last_sequence,
            "last_ts": time(last),
            "consumer_count": stream.consumers.len(),
        },
        "config": {
            "name": info.name,
            "subjects": stream.config.subjects,
            "retention": "limits",
            "max_msgs": stream.config.max_messages,
            "max_age": stream.config.max_age.as_nanos() as u64,
            "duplicate_window": stream.config.duplicate_window.as_nanos() as u64,
            "storage": "file",
            "num_replicas": 1,
        },
    });
    if detail.consumers {
        let consumers = stream
            .consumers
            .values()
            .map(|consumer| consumer_detail(stream, consumer));
        value["consumer_detail"] = consumers.collect();
    }
    value
}

fn consumer_detail(stream: &Stream, consumer: &Consumer) -> Value {
    let info = stream.consumer_info(consumer);
    json!({
        "stream_name": stream.config.name,
        "name": info.durable,
        "created": info.created.to_string(),
        "config": {
            "durable_name": info.durable,
            "deliver_policy": "new",
            "ack_policy": "explicit",
            "ack_wait": consumer.config.ack_wait.as_nanos() as u64,
            "max_deliver": -1,
            "filter_subject": info.filter_subject,
            "replay_policy": "instant",
            "max_waiting": 512,
            "max_ack_pending": MAX_ACK_PENDING,
            "num_replicas": 0,
        },
        "delivered": {"consumer_seq": consumer.deliveries, "stream_seq": info.delivered_stream},
        "ack_floor": {
            "consumer_seq": consumer.deliveries.saturating_sub(info.num_ack_pending),
            "stream_seq": info.ack_floor_stream,
        },
        "num_ack_pending": info.num_ack_pending,
        "num_redelivered": info.num_redelivered,
        "num_waiting": info.num_waiting,
        "num_pending": info.num_pending,
        "ts": Timestamp::now().to_string(),
    })
}

/// A bucket is a stream of its own in JetStream.
fn bucket_detail((name, keys): &(String, u64)) -> Value {
    json!({"name": format!("KV_{name}"), "cluster": {"leader": ""}, "state": {"messages": keys, "num_subjects": keys}})
}
