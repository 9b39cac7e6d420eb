"""Another client of the bus: publishes and reads as a program that knows Argo Events' envelope would.

Commands print one JSON line. They need the package nats-py.
"""

import asyncio
import base64
import json
import sys

import nats
from nats.js.api import AckPolicy, ConsumerConfig, DeliverPolicy


def envelope(event_id, data):
    return json.dumps(
        {
            "specversion": "1.0",
            "id": event_id,
            "source": "webhook",
            "type": "webhook",
            "subject": "orders",
            "datacontenttype": "application/json",
            "time": "2026-01-02T03:04:05Z",
            "data_base64": base64.b64encode(data.encode()).decode(),
        }
    ).encode()


async def publish(js, event_id, data):
    ack = await js.publish(
        "default.webhook.orders", envelope(event_id, data), headers={"Nats-Msg-Id": event_id}
    )
    return {"sequence": ack.seq, "duplicate": bool(ack.duplicate)}


async def listen(js, durable):
    """Makes a consumer of our own, as a second reader of the stream."""
    config = ConsumerConfig(
        durable_name=durable,
        deliver_policy=DeliverPolicy.NEW,
        ack_policy=AckPolicy.EXPLICIT,
        filter_subject="default.webhook.orders",
    )
    info = await js.add_consumer("default", config)
    return {"durable": info.name}


async def read(js, durable):
    """Takes and acknowledges one message of a consumer, whoever made it."""
    consumer = await js.pull_subscribe_bind(durable, stream="default")
    message = (await consumer.fetch(1, timeout=10))[0]
    await message.ack_sync()
    event = json.loads(message.data)
    return {
        "header": message.headers.get("Nats-Msg-Id"),
        "id": event["id"],
        "type": event["type"],
        "source": event["source"],
        "subject": event["subject"],
        "data": json.loads(base64.b64decode(event["data_base64"])),
        "sequence": message.metadata.sequence.stream,
    }


async def bucket(js, name, key):
    store = await js.key_value(name)
    entry = await store.get(key)
    return {"value": entry.value.decode()}


async def main():
    url, command, *rest = sys.argv[1:]
    connection = await nats.connect(url)
    work = {"publish": publish, "listen": listen, "read": read, "bucket": bucket}[command]
    print(json.dumps(await work(connection.jetstream(), *rest)))
    await connection.close()


asyncio.run(main())
