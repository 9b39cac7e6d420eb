//! The bus's rules: within the process, over HTTP, and over a real nats-server, which is the yardstick of the other two.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use eventlab::embedded::bus::engine::{BusOpenError, EmbeddedBus};
use eventlab::embedded::bus::host::{BusHost, LocalConnector, ServeGuard};
use eventlab::embedded::bus::jetstream::JetStreamConnector;
use eventlab::embedded::bus::remote::RemoteConnector;
use eventlab::embedded::bus::server::{client_router, monitor_router};
use eventlab::embedded::bus::{
    Access, Bus, BusError, ConnectBus, ConsumerConfig, ConsumerInfo, StreamConfig,
};
use futures::StreamExt;

use crate::nats_support::NatsServer;

const URL: &str = "nats://eventbus-default-js-svc.eventlab.svc:4222";
const SECRET: &str = "s3cret";
/// Long enough for a slow machine; reached only when a test fails.
const GUARD: Duration = Duration::from_secs(30);

#[derive(Clone, Copy)]
enum Way {
    InProcess,
    Http,
    /// A nats-server.
    Real,
}

/// Lets in whoever knows the secret, as the embedded bus does.
const AUTHORIZATION: &str = "authorization { user: js, password: s3cret }";

struct Fixture {
    way: Way,
    directory: tempfile::TempDir,
    host: Arc<BusHost>,
    served: Option<ServeGuard>,
    base: Option<String>,
    server: Option<tokio::task::JoinHandle<()>>,
    nats: Option<NatsServer>,
}

impl Fixture {
    /// `None` where there is no nats-server for it.
    async fn new(way: Way) -> Option<Fixture> {
        let nats = match way {
            Way::Real => Some(NatsServer::start(AUTHORIZATION)?),
            Way::InProcess | Way::Http => None,
        };
        let directory = tempfile::tempdir().unwrap();
        let host = BusHost::new(EmbeddedBus::open(&directory.path().join("bus.db")).unwrap());
        let mut fixture = Fixture {
            way,
            directory,
            host,
            served: None,
            base: None,
            server: None,
            nats,
        };
        if fixture.nats.is_none() {
            fixture.serve().await;
        }
        Some(fixture)
    }

    async fn serve(&mut self) {
        if let Some(nats) = &mut self.nats {
            return nats.run();
        }
        let guard = self
            .host
            .serve("eventlab", "eventbus-default-js-0", Some(SECRET.to_owned()))
            .unwrap();
        if let Way::Http = self.way {
            let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
            self.base = Some(format!("http://{}", listener.local_addr().unwrap()));
            let router = client_router(Arc::clone(&self.host), Some(SECRET));
            self.server = Some(tokio::spawn(async move {
                axum::serve(listener, router).await.unwrap()
            }));
        }
        self.served = Some(guard);
    }

    fn stop(&mut self) {
        if let Some(nats) = &mut self.nats {
            nats.kill();
        }
        if let Some(server) = self.server.take() {
            server.abort();
        }
        self.served = None;
    }

    async fn try_connect(&self, secret: &str) -> Result<Arc<dyn Bus>, BusError> {
        let access = Access::password(secret);
        if let Some(nats) = &self.nats {
            return JetStreamConnector.connect(&nats.url(), &access).await;
        }
        match &self.base {
            None => {
                LocalConnector(Arc::clone(&self.host))
                    .connect(URL, &access)
                    .await
            }
            Some(base) => {
                RemoteConnector { base: base.clone() }
                    .connect(URL, &access)
                    .await
            }
        }
    }

    async fn connect(&self) -> Arc<dyn Bus> {
        self.try_connect(SECRET).await.unwrap()
    }

    /// Ends the bus in order and runs it anew from its files, as a new pod of it does. No connection may be open.
    async fn restart(&mut self) {
        if let Some(nats) = &mut self.nats {
            // In order, so that acks are on its disk: after a kill it may deliver once more.
            nats.terminate();
            return nats.run();
        }
        self.stop();
        // The files are let go of with the last that holds the bus open.
        let path = self.database();
        self.host =
            BusHost::new(EmbeddedBus::open(&self.directory.path().join("none.db")).unwrap());
        let wait = async {
            loop {
                match EmbeddedBus::open(&path) {
                    Ok(bus) => return bus,
                    Err(_) => tokio::time::sleep(Duration::from_millis(5)).await,
                }
            }
        };
        let bus = tokio::time::timeout(GUARD, wait).await.expect("it opens");
        self.host = BusHost::new(bus);
        self.serve().await;
    }

    /// A connection to a bus with the stream made.
    async fn ready(&self) -> Arc<dyn Bus> {
        let bus = self.connect().await;
        bus.ensure_stream(stream_config()).await.unwrap();
        bus
    }

    fn database(&self) -> PathBuf {
        self.directory.path().join("bus.db")
    }
}

fn stream_config() -> StreamConfig {
    StreamConfig {
        name: "default".to_owned(),
        subjects: vec!["default.*.*".to_owned()],
        max_messages: 50_000,
        max_age: Duration::from_secs(168 * 3600),
        duplicate_window: Duration::from_secs(300),
        ..StreamConfig::default()
    }
}

fn consumer(durable: &str, subject: &str) -> ConsumerConfig {
    ConsumerConfig {
        durable: durable.to_owned(),
        filter_subject: subject.to_owned(),
        ack_wait: Duration::from_secs(30),
    }
}

async fn publish(bus: &dyn Bus, subject: &str, id: &str, text: &str) -> u64 {
    bus.publish(subject, id, text.as_bytes().to_vec())
        .await
        .unwrap()
        .sequence
}

async fn info(bus: &dyn Bus, durable: &str) -> ConsumerInfo {
    let all = bus.consumers("default").await.unwrap();
    all.into_iter()
        .find(|info| info.durable == durable)
        .expect("the consumer is there")
}

/// The next message, which is there or about to be.
async fn pull_one(bus: &dyn Bus, durable: &str) -> eventlab::embedded::bus::Delivery {
    let pulled = bus.pull("default", durable, GUARD).await.unwrap();
    pulled.expect("there is a message")
}

async fn pull_now(bus: &dyn Bus, durable: &str) -> Option<eventlab::embedded::bus::Delivery> {
    bus.pull("default", durable, Duration::ZERO).await.unwrap()
}

macro_rules! every_bus {
    ($($name:ident),* $(,)?) => {
        mod in_process {
            use super::{Fixture, Way};
            $(#[tokio::test]
            async fn $name() {
                super::$name(Fixture::new(Way::InProcess).await.unwrap()).await;
            })*
        }
        mod over_http {
            use super::{Fixture, Way};
            $(#[tokio::test]
            async fn $name() {
                super::$name(Fixture::new(Way::Http).await.unwrap()).await;
            })*
        }
        mod over_nats {
            use super::{Fixture, Way};
            $(#[tokio::test]
            async fn $name() {
                if let Some(fixture) = Fixture::new(Way::Real).await {
                    super::$name(fixture).await;
                }
            })*
        }
    };
}

every_bus!(
    a_consumer_starts_behind_its_creation,
    messages_come_in_order_and_only_of_its_subject,
    the_duplicate_window_catches_the_same_id,
    an_unacknowledged_message_comes_again_after_the_ack_wait,
    in_progress_restarts_the_ack_wait,
    the_ack_floor_stops_below_a_hole,
    a_waiting_pull_is_counted_and_ends_with_its_connection,
    a_waiting_pull_is_woken_by_a_publish,
    several_waiting_pulls_share_a_burst,
    the_message_limit_drops_the_oldest,
    the_age_limit_drops_old_messages,
    the_byte_limit_drops_the_oldest,
    a_full_stream_may_refuse_what_is_new,
    other_subjects_move_a_consumer_along,
    a_stream_that_cannot_be_is_refused,
    keys_are_named_as_clients_name_them,
    a_deep_backlog_comes_in_order,
    a_consumer_of_a_busy_stream_knows_when_it_was_made,
    a_subject_that_no_stream_takes_is_refused,
    a_payload_over_the_limit_is_refused,
    a_deleted_consumer_is_gone_and_made_again_anew,
    a_consumer_keeps_its_subject,
    buckets_keep_bytes,
    signals_reach_listeners_only,
    a_wrong_secret_is_refused,
    connections_are_lost_when_the_pod_ends,
    messages_are_listed_by_sequence,
    many_publishers_get_distinct_sequences,
    a_restart_keeps_what_is_stored_and_where_each_consumer_stood,
    order_holds_while_others_publish,
);

async fn a_consumer_starts_behind_its_creation(fixture: Fixture) {
    let bus = fixture.ready().await;
    publish(&*bus, "default.webhook.orders", "a", "early").await;
    let made = bus
        .ensure_consumer("default", consumer("group-1", "default.webhook.orders"))
        .await
        .unwrap();
    assert_eq!(
        (
            made.created_at_sequence,
            made.num_pending,
            made.ack_floor_stream
        ),
        (1, 0, 1)
    );
    assert_eq!(pull_now(&*bus, "group-1").await, None);
    publish(&*bus, "default.webhook.orders", "b", "late").await;
    until(|| async { info(&*bus, "group-1").await.num_pending == 1 }).await;
    let again = bus
        .ensure_consumer("default", consumer("group-1", "default.webhook.orders"))
        .await
        .unwrap();
    assert_eq!((again.created, again.num_pending), (made.created, 1));
    let delivery = pull_one(&*bus, "group-1").await;
    assert_eq!(
        (
            delivery.message.payload.as_slice(),
            delivery.message.sequence
        ),
        (b"late".as_slice(), 2)
    );
    assert_eq!((delivery.delivered, delivery.consumer_sequence()), (1, 1));
    assert_eq!(delivery.message.message_id.as_deref(), Some("b"));
}

async fn messages_come_in_order_and_only_of_its_subject(fixture: Fixture) {
    let bus = fixture.ready().await;
    bus.ensure_consumer("default", consumer("group-1", "default.webhook.orders"))
        .await
        .unwrap();
    for number in 0..20 {
        let subject = if number % 2 == 0 {
            "default.webhook.orders"
        } else {
            "default.webhook.other"
        };
        publish(&*bus, subject, &format!("id-{number}"), &number.to_string()).await;
    }
    for number in (0..20).step_by(2) {
        let delivery = pull_one(&*bus, "group-1").await;
        assert_eq!(delivery.message.payload, number.to_string().into_bytes());
        bus.ack("default", "group-1", &delivery.token)
            .await
            .unwrap();
    }
    assert_eq!(pull_now(&*bus, "group-1").await, None);
    let info = info(&*bus, "group-1").await;
    assert_eq!(
        (
            info.delivered_stream,
            info.ack_floor_stream,
            info.num_ack_pending,
            info.num_pending
        ),
        (19, 19, 0, 0)
    );
}

async fn the_duplicate_window_catches_the_same_id(fixture: Fixture) {
    let bus = fixture.ready().await;
    let first = bus
        .publish("default.a.b", "same", b"1".to_vec())
        .await
        .unwrap();
    let second = bus
        .publish("default.a.b", "same", b"2".to_vec())
        .await
        .unwrap();
    assert!(!first.duplicate && second.duplicate);
    assert_eq!(first.sequence, second.sequence);
    let without = bus.publish("default.a.b", "", b"3".to_vec()).await.unwrap();
    let without_again = bus.publish("default.a.b", "", b"3".to_vec()).await.unwrap();
    assert_ne!(without.sequence, without_again.sequence);
    assert_eq!(bus.stream_info("default").await.unwrap().messages, 3);

    let short = StreamConfig {
        name: "short".to_owned(),
        subjects: vec!["short.>".to_owned()],
        duplicate_window: Duration::from_millis(100),
        ..stream_config()
    };
    bus.ensure_stream(short).await.unwrap();
    bus.publish("short.a", "same", b"1".to_vec()).await.unwrap();
    let again = || async {
        let answer = bus.publish("short.a", "same", b"1".to_vec()).await;
        !answer.unwrap().duplicate
    };
    until(again).await;
}

async fn an_unacknowledged_message_comes_again_after_the_ack_wait(fixture: Fixture) {
    let bus = fixture.ready().await;
    let quick = ConsumerConfig {
        ack_wait: Duration::from_millis(50),
        ..consumer("group-1", "default.a.b")
    };
    bus.ensure_consumer("default", quick).await.unwrap();
    publish(&*bus, "default.a.b", "1", "one").await;
    let holder = fixture.connect().await;
    let first = holder
        .pull("default", "group-1", GUARD)
        .await
        .unwrap()
        .unwrap();
    drop(holder);
    let again = bus
        .pull("default", "group-1", GUARD)
        .await
        .unwrap()
        .unwrap();
    assert_eq!(
        (again.message.sequence, first.delivered, again.delivered),
        (1, 1, 2)
    );
    assert_eq!(info(&*bus, "group-1").await.num_redelivered, 1);
    bus.ack("default", "group-1", &again.token).await.unwrap();
    let state = info(&*bus, "group-1").await;
    assert_eq!(
        (
            state.num_redelivered,
            state.num_ack_pending,
            state.ack_floor_stream
        ),
        (0, 0, 1)
    );
    bus.ack("default", "group-1", &first.token).await.unwrap();
}

async fn in_progress_restarts_the_ack_wait(fixture: Fixture) {
    let bus = fixture.ready().await;
    let quick = ConsumerConfig {
        ack_wait: Duration::from_millis(400),
        ..consumer("group-1", "default.a.b")
    };
    bus.ensure_consumer("default", quick).await.unwrap();
    publish(&*bus, "default.a.b", "1", "one").await;
    let delivery = pull_one(&*bus, "group-1").await;
    let start = std::time::Instant::now();
    for _ in 0..6 {
        tokio::time::sleep(Duration::from_millis(100)).await;
        bus.in_progress("default", "group-1", &delivery.token)
            .await
            .unwrap();
    }
    let again = bus
        .pull("default", "group-1", GUARD)
        .await
        .unwrap()
        .unwrap();
    assert_eq!(again.delivered, 2);
    assert!(
        start.elapsed() >= Duration::from_millis(900),
        "it came back {:?} after the first delivery",
        start.elapsed()
    );
}

async fn the_ack_floor_stops_below_a_hole(fixture: Fixture) {
    let bus = fixture.ready().await;
    bus.ensure_consumer("default", consumer("group-1", "default.a.b"))
        .await
        .unwrap();
    let mut tokens = Vec::new();
    for number in 0..3 {
        publish(&*bus, "default.a.b", &number.to_string(), "x").await;
        tokens.push(pull_one(&*bus, "group-1").await.token);
    }
    for index in [2, 1] {
        bus.ack("default", "group-1", &tokens[index]).await.unwrap();
    }
    assert_eq!(info(&*bus, "group-1").await.ack_floor_stream, 0);
    bus.ack("default", "group-1", &tokens[0]).await.unwrap();
    assert_eq!(info(&*bus, "group-1").await.ack_floor_stream, 3);
}

async fn a_waiting_pull_is_counted_and_ends_with_its_connection(fixture: Fixture) {
    let bus = fixture.ready().await;
    bus.ensure_consumer("default", consumer("group-1", "default.a.b"))
        .await
        .unwrap();
    let other = fixture.connect().await;
    let pull = tokio::spawn(async move { other.pull("default", "group-1", GUARD).await });
    until(|| async { info(&*bus, "group-1").await.num_waiting == 1 }).await;
    pull.abort();
    until(|| async { info(&*bus, "group-1").await.num_waiting == 0 }).await;
    publish(&*bus, "default.a.b", "1", "one").await;
    let delivery = pull_one(&*bus, "group-1").await;
    assert_eq!(delivery.delivered, 1, "the dropped pull took nothing");
}

async fn a_waiting_pull_is_woken_by_a_publish(fixture: Fixture) {
    let bus = fixture.ready().await;
    bus.ensure_consumer("default", consumer("group-1", "default.a.b"))
        .await
        .unwrap();
    let other = fixture.connect().await;
    let pull = tokio::spawn(async move { other.pull("default", "group-1", GUARD).await });
    until(|| async { info(&*bus, "group-1").await.num_waiting == 1 }).await;
    publish(&*bus, "default.a.b", "1", "one").await;
    let delivery = pull.await.unwrap().unwrap().unwrap();
    assert_eq!(delivery.message.payload, b"one");
}

async fn several_waiting_pulls_share_a_burst(fixture: Fixture) {
    let bus = fixture.ready().await;
    bus.ensure_consumer("default", consumer("group-1", "default.a.b"))
        .await
        .unwrap();
    let mut pulls = Vec::new();
    for _ in 0..5 {
        let other = fixture.connect().await;
        pulls.push(tokio::spawn(async move {
            other.pull("default", "group-1", GUARD).await
        }));
    }
    until(|| async { info(&*bus, "group-1").await.num_waiting == 5 }).await;
    for number in 0..5 {
        publish(&*bus, "default.a.b", &number.to_string(), "x").await;
    }
    let mut sequences = Vec::new();
    for pull in pulls {
        sequences.push(
            pull.await
                .unwrap()
                .unwrap()
                .expect("every pull gets one")
                .message
                .sequence,
        );
    }
    sequences.sort_unstable();
    assert_eq!(sequences, [1, 2, 3, 4, 5]);
}

async fn the_message_limit_drops_the_oldest(fixture: Fixture) {
    let bus = fixture.connect().await;
    bus.ensure_stream(StreamConfig {
        max_messages: 3,
        ..stream_config()
    })
    .await
    .unwrap();
    bus.ensure_consumer("default", consumer("group-1", "default.a.b"))
        .await
        .unwrap();
    publish(&*bus, "default.a.b", "0", "x").await;
    pull_one(&*bus, "group-1").await;
    for number in 1..6 {
        publish(&*bus, "default.a.b", &number.to_string(), "x").await;
    }
    let stream = bus.stream_info("default").await.unwrap();
    assert_eq!(
        (stream.messages, stream.first_sequence, stream.last_sequence),
        (3, 4, 6)
    );
    let state = info(&*bus, "group-1").await;
    assert_eq!(
        (state.num_ack_pending, state.num_pending),
        (0, 3),
        "what is gone is no longer pending"
    );
    assert_eq!(pull_one(&*bus, "group-1").await.message.sequence, 4);
}

async fn the_age_limit_drops_old_messages(fixture: Fixture) {
    let bus = fixture.connect().await;
    bus.ensure_stream(StreamConfig {
        max_age: Duration::from_millis(200),
        duplicate_window: Duration::from_millis(200),
        ..stream_config()
    })
    .await
    .unwrap();
    publish(&*bus, "default.a.b", "0", "x").await;
    until(|| async { bus.stream_info("default").await.unwrap().messages == 0 }).await;
    let stream = bus.stream_info("default").await.unwrap();
    assert_eq!(
        (
            stream.messages,
            stream.first_sequence,
            stream.last_sequence,
            stream.bytes
        ),
        (0, 2, 1, 0)
    );
    assert!(publish(&*bus, "default.a.b", "1", "x").await == 2);
}

async fn a_subject_that_no_stream_takes_is_refused(fixture: Fixture) {
    let bus = fixture.ready().await;
    for subject in [
        "default.webhook.order.created",
        "default.webhook",
        "default..orders",
        "default.a.*",
    ] {
        let refused = bus.publish(subject, "1", Vec::new()).await;
        assert!(
            matches!(refused, Err(BusError::Refused(_))),
            "{subject}: {refused:?}"
        );
    }
    let missing = bus
        .ensure_consumer("none", consumer("group-1", "default.a.b"))
        .await;
    assert_eq!(missing, Err(BusError::StreamNotFound("none".to_owned())));
}

async fn a_payload_over_the_limit_is_refused(fixture: Fixture) {
    let bus = fixture.ready().await;
    // The header with the id counts.
    let most = (1 << 20) - "NATS/1.0\r\nNats-Msg-Id: 1\r\n\r\n".len();
    bus.publish("default.a.b", "1", vec![b'x'; most])
        .await
        .unwrap();
    let refused = bus.publish("default.a.b", "2", vec![b'x'; most + 1]).await;
    assert_eq!(
        refused,
        Err(BusError::Refused(
            "nats: maximum payload exceeded".to_owned()
        ))
    );
}

async fn a_deleted_consumer_is_gone_and_made_again_anew(fixture: Fixture) {
    let bus = fixture.ready().await;
    bus.ensure_consumer("default", consumer("group-1", "default.a.b"))
        .await
        .unwrap();
    publish(&*bus, "default.a.b", "1", "x").await;
    let held = pull_one(&*bus, "group-1").await;
    let other = fixture.connect().await;
    let waiting = tokio::spawn(async move { other.pull("default", "group-1", GUARD).await });
    until(|| async { info(&*bus, "group-1").await.num_waiting == 1 }).await;
    bus.delete_consumer("default", "group-1").await.unwrap();
    assert_eq!(waiting.await.unwrap(), Err(BusError::ConsumerDeleted));
    // NATS 2.9 lets such a pull or ack run into its timeout.
    let nobody = [
        BusError::NoResponders,
        BusError::Refused("nats: timeout".to_owned()),
    ];
    let late = bus.pull("default", "group-1", Duration::ZERO).await;
    assert!(nobody.contains(&late.unwrap_err()));
    let late = bus.ack("default", "group-1", &held.token).await;
    assert!(nobody.contains(&late.unwrap_err()));
    bus.in_progress("default", "group-1", &held.token)
        .await
        .unwrap();
    bus.delete_consumer("default", "group-1").await.unwrap();
    publish(&*bus, "default.a.b", "2", "x").await;
    let anew = bus
        .ensure_consumer("default", consumer("group-1", "default.a.b"))
        .await
        .unwrap();
    assert_eq!(
        (
            anew.created_at_sequence,
            anew.num_pending,
            anew.num_ack_pending
        ),
        (2, 0, 0)
    );
}

async fn a_consumer_keeps_its_subject(fixture: Fixture) {
    let bus = fixture.ready().await;
    bus.ensure_consumer("default", consumer("group-1", "default.a.b"))
        .await
        .unwrap();
    let refused = bus
        .ensure_consumer("default", consumer("group-1", "default.a.c"))
        .await;
    assert_eq!(
        refused,
        Err(BusError::Refused(
            "nats: subject does not match consumer".to_owned()
        ))
    );
}

async fn buckets_keep_bytes(fixture: Fixture) {
    let bus = fixture.connect().await;
    assert_eq!(bus.bucket_get("orders", "Deps").await.unwrap(), None);
    bus.bucket_put("orders", "a/b", vec![0, 255, 10])
        .await
        .unwrap();
    bus.bucket_put("orders", "a/b", vec![1, 2]).await.unwrap();
    assert_eq!(
        bus.bucket_get("orders", "a/b").await.unwrap(),
        Some(vec![1, 2])
    );
    assert_eq!(bus.bucket_get("other", "a/b").await.unwrap(), None);
    bus.bucket_delete("orders", "a/b").await.unwrap();
    bus.bucket_delete("orders", "a/b").await.unwrap();
    assert_eq!(bus.bucket_get("orders", "a/b").await.unwrap(), None);
}

async fn signals_reach_listeners_only(fixture: Fixture) {
    let bus = fixture.connect().await;
    let other = fixture.connect().await;
    bus.signal("election.a", b"early".to_vec()).await.unwrap();
    let mut heard = bus.listen("election.a").await.unwrap();
    other
        .signal("election.b", b"elsewhere".to_vec())
        .await
        .unwrap();
    other.signal("election.a", b"now".to_vec()).await.unwrap();
    let first = tokio::time::timeout(GUARD, heard.next()).await.unwrap();
    assert_eq!(first.as_deref(), Some(b"now".as_slice()));
}

async fn a_wrong_secret_is_refused(fixture: Fixture) {
    let refused = fixture.try_connect("wrong").await.err();
    assert_eq!(
        refused,
        Some(BusError::Refused(
            "nats: Authorization Violation".to_owned()
        ))
    );
}

async fn connections_are_lost_when_the_pod_ends(mut fixture: Fixture) {
    let bus = fixture.ready().await;
    bus.ensure_consumer("default", consumer("group-1", "default.a.b"))
        .await
        .unwrap();
    let other = fixture.connect().await;
    let pull = tokio::spawn(async move { other.pull("default", "group-1", GUARD).await });
    until(|| async { info(&*bus, "group-1").await.num_waiting == 1 }).await;
    let mut heard = bus.listen("election.a").await.unwrap();
    fixture.stop();
    assert_eq!(pull.await.unwrap(), Err(BusError::Closed));
    tokio::time::timeout(GUARD, bus.closed().cancelled())
        .await
        .unwrap();
    assert_eq!(
        tokio::time::timeout(GUARD, heard.next()).await.unwrap(),
        None
    );
    assert_eq!(bus.stream_info("default").await, Err(BusError::Closed));
    let none = Some(BusError::Refused(
        "nats: no servers available for connection".to_owned(),
    ));
    assert_eq!(fixture.try_connect(SECRET).await.err(), none);

    fixture.serve().await;
    assert_eq!(
        bus.stream_info("default").await,
        Err(BusError::Closed),
        "an old connection stays lost"
    );
    assert_eq!(
        fixture
            .connect()
            .await
            .consumers("default")
            .await
            .unwrap()
            .len(),
        1
    );
}

async fn messages_are_listed_by_sequence(fixture: Fixture) {
    let bus = fixture.ready().await;
    for number in 1..=5 {
        publish(
            &*bus,
            "default.a.b",
            &format!("id-{number}"),
            &number.to_string(),
        )
        .await;
    }
    let some = bus.messages("default", 2, 2).await.unwrap();
    let seen: Vec<_> = some
        .iter()
        .map(|message| (message.sequence, message.payload.as_slice()))
        .collect();
    assert_eq!(seen, [(3, b"3".as_slice()), (4, b"4".as_slice())]);
    assert_eq!(some[0].message_id.as_deref(), Some("id-3"));
    assert_eq!(bus.messages("default", 5, 10).await.unwrap(), []);
}

async fn the_byte_limit_drops_the_oldest(fixture: Fixture) {
    let bus = fixture.connect().await;
    bus.ensure_stream(StreamConfig {
        max_bytes: 1000,
        ..stream_config()
    })
    .await
    .unwrap();
    let mut states = Vec::new();
    for number in 0..6 {
        let payload = vec![b'x'; 300];
        bus.publish("default.a.b", &number.to_string(), payload)
            .await
            .unwrap();
        let state = bus.stream_info("default").await.unwrap();
        states.push((state.messages, state.first_sequence, state.bytes));
    }
    bus.publish("default.a.b", "", vec![b'x'; 10])
        .await
        .unwrap();
    let state = bus.stream_info("default").await.unwrap();
    states.push((state.messages, state.first_sequence, state.bytes));
    // 22 before, the subject (11), the header (28) with its length (4), the payload, a checksum (8).
    let one = 22 + 11 + 28 + 4 + 300 + 8;
    assert_eq!(
        states,
        [
            (1, 1, one),
            (2, 1, 2 * one),
            (2, 2, 2 * one),
            (2, 3, 2 * one),
            (2, 4, 2 * one),
            (2, 5, 2 * one),
            (3, 5, 2 * one + 22 + 11 + 10 + 8),
        ]
    );
    bus.publish("default.a.b", "large", vec![b'x'; 2000])
        .await
        .unwrap();
    let state = bus.stream_info("default").await.unwrap();
    assert_eq!(
        (state.messages, state.last_sequence, state.bytes),
        (0, 8, 0),
        "what is larger than the stream is stored and dropped at once"
    );
}

async fn a_full_stream_may_refuse_what_is_new(fixture: Fixture) {
    let bus = fixture.connect().await;
    for (name, max_messages, max_bytes) in [("few", 2, 0), ("small", 0, 500)] {
        bus.ensure_stream(StreamConfig {
            name: name.to_owned(),
            subjects: vec![format!("{name}.*.*")],
            max_messages,
            max_bytes,
            discard_new: true,
            ..stream_config()
        })
        .await
        .unwrap();
    }
    let refused = |text: &str| Err(BusError::Refused(text.to_owned()));
    for number in ["1", "2"] {
        bus.publish("few.a.b", number, b"x".to_vec()).await.unwrap();
    }
    let third = bus.publish("few.a.b", "3", b"x".to_vec()).await;
    assert_eq!(third, refused("nats: maximum messages exceeded"));
    bus.publish("small.a.b", "1", vec![b'x'; 100])
        .await
        .unwrap();
    let state = bus.stream_info("small").await.unwrap();
    let room = 500 - usize::try_from(state.bytes).unwrap() - 28;
    // NATS 2.9 counts payload and header only, later ones the whole record, and those to 2.12 leave a byte free: what
    // fits is clear to all.
    let record = 22 + "small.a.b".len() + 4 + 8;
    let over = bus.publish("small.a.b", "2", vec![b'x'; room]).await;
    assert_eq!(over, refused("nats: maximum bytes exceeded"));
    bus.publish("small.a.b", "3", vec![b'x'; room - record - 1])
        .await
        .unwrap();
    // Sequences of what was refused are given out again, and its id is not known.
    assert_eq!(bus.stream_info("small").await.unwrap().last_sequence, 2);
    let again = bus.publish("few.a.b", "3", b"x".to_vec()).await;
    assert_eq!(again, refused("nats: maximum messages exceeded"));
}

/// Where a consumer stands: delivered, ack floor, pending acks, not delivered yet.
async fn stand(bus: &dyn Bus, durable: &str) -> (u64, u64, u64, u64) {
    let info = info(bus, durable).await;
    (
        info.delivered_stream,
        info.ack_floor_stream,
        info.num_ack_pending,
        info.num_pending,
    )
}

async fn other_subjects_move_a_consumer_along(fixture: Fixture) {
    let bus = fixture.ready().await;
    publish(&*bus, "default.a.c", "0", "x").await;
    bus.ensure_consumer("default", consumer("group-1", "default.a.b"))
        .await
        .unwrap();
    let mut stands = vec![stand(&*bus, "group-1").await];
    for number in 1..4 {
        publish(&*bus, "default.a.c", &number.to_string(), "x").await;
    }
    stands.push(stand(&*bus, "group-1").await);
    assert_eq!(pull_now(&*bus, "group-1").await, None);
    stands.push(stand(&*bus, "group-1").await);
    publish(&*bus, "default.a.b", "own", "x").await;
    let first = pull_one(&*bus, "group-1").await;
    stands.push(stand(&*bus, "group-1").await);
    publish(&*bus, "default.a.c", "4", "x").await;
    publish(&*bus, "default.a.b", "own 2", "x").await;
    let second = pull_one(&*bus, "group-1").await;
    publish(&*bus, "default.a.c", "5", "x").await;
    stands.push(stand(&*bus, "group-1").await);
    bus.ack("default", "group-1", &first.token).await.unwrap();
    stands.push(stand(&*bus, "group-1").await);
    bus.ack("default", "group-1", &second.token).await.unwrap();
    stands.push(stand(&*bus, "group-1").await);
    assert_eq!(pull_now(&*bus, "group-1").await, None);
    stands.push(stand(&*bus, "group-1").await);
    assert_eq!(
        stands,
        [
            (1, 1, 0, 0),
            (1, 1, 0, 0),
            (1, 1, 0, 0),
            (5, 1, 1, 0),
            (7, 1, 2, 0),
            (7, 6, 1, 0),
            (7, 7, 0, 0),
            (7, 7, 0, 0),
        ]
    );
}

async fn a_stream_that_cannot_be_is_refused(fixture: Fixture) {
    let bus = fixture.connect().await;
    let copies = StreamConfig {
        replicas: 3,
        ..stream_config()
    };
    let text = "nats: replicas > 1 not supported in non-clustered mode";
    assert_eq!(
        bus.ensure_stream(copies).await,
        Err(BusError::Refused(text.to_owned()))
    );
    let window = StreamConfig {
        max_age: Duration::from_secs(60),
        duplicate_window: Duration::from_secs(300),
        ..stream_config()
    };
    let text = "nats: duplicates window can not be larger then max age";
    assert_eq!(
        bus.ensure_stream(window).await,
        Err(BusError::Refused(text.to_owned()))
    );
    let none = Err(BusError::StreamNotFound("default".to_owned()));
    assert_eq!(bus.stream_info("default").await, none);
    assert_eq!(
        bus.consumers("default").await.err(),
        Some(BusError::StreamNotFound("default".to_owned()))
    );
}

async fn keys_are_named_as_clients_name_them(fixture: Fixture) {
    let bus = fixture.connect().await;
    let refused = |text: &str| Err(BusError::Refused(text.to_owned()));
    for (bucket, key, text) in [
        ("orders.v1", "Deps", "nats: invalid bucket name"),
        ("", "Deps", "nats: invalid bucket name"),
        ("orders", "start order/Expression", "nats: invalid key"),
        ("orders", "", "nats: invalid key"),
    ] {
        assert_eq!(
            bus.bucket_put(bucket, key, b"x".to_vec()).await,
            refused(text)
        );
        assert_eq!(bus.bucket_get(bucket, key).await.map(drop), refused(text));
        assert_eq!(bus.bucket_delete(bucket, key).await, refused(text));
    }
}

async fn a_deep_backlog_comes_in_order(fixture: Fixture) {
    let bus = fixture.ready().await;
    bus.ensure_consumer("default", consumer("group-1", "default.a.b"))
        .await
        .unwrap();
    for number in 0..300 {
        publish(
            &*bus,
            "default.a.b",
            &format!("id-{number}"),
            &number.to_string(),
        )
        .await;
    }
    drop(bus);
    // Another connection, as a Sensor that comes back.
    let bus = fixture.connect().await;
    for number in 0..300 {
        let delivery = pull_one(&*bus, "group-1").await;
        assert_eq!(delivery.message.payload, number.to_string().into_bytes());
        bus.ack("default", "group-1", &delivery.token)
            .await
            .unwrap();
    }
    assert_eq!(stand(&*bus, "group-1").await, (300, 300, 0, 0));
}

async fn a_consumer_of_a_busy_stream_knows_when_it_was_made(fixture: Fixture) {
    let bus = fixture.ready().await;
    for number in 0..9 {
        let subject = if number % 2 == 0 {
            "default.a.b"
        } else {
            "default.a.c"
        };
        publish(&*bus, subject, &format!("before-{number}"), "x").await;
    }
    let made = bus
        .ensure_consumer("default", consumer("group-1", "default.a.b"))
        .await
        .unwrap();
    assert_eq!(made.created_at_sequence, 9);
    for number in 0..9 {
        publish(&*bus, "default.a.b", &format!("after-{number}"), "x").await;
        let delivery = pull_one(&*bus, "group-1").await;
        bus.ack("default", "group-1", &delivery.token)
            .await
            .unwrap();
    }
    // One that connects later and never saw it new.
    let later = fixture.connect().await;
    let found = info(&*later, "group-1").await;
    assert_eq!(
        (
            found.created,
            found.created_at_sequence,
            found.ack_floor_stream
        ),
        (made.created, 9, 18)
    );
}

#[tokio::test]
async fn a_rewind_never_reuses_a_sequence() {
    let fixture = Fixture::new(Way::InProcess).await.unwrap();
    let bus = fixture.ready().await;
    bus.ensure_consumer("default", consumer("group-1", "default.a.b"))
        .await
        .unwrap();
    publish(&*bus, "default.a.b", "1", "kept").await;
    let snapshot = fixture.directory.path().join("stage-1.db");
    fixture.host.bus().snapshot(&snapshot).unwrap();
    publish(&*bus, "default.a.b", "2", "undone").await;
    bus.ensure_consumer("default", consumer("group-2", "default.a.b"))
        .await
        .unwrap();
    bus.bucket_put("orders", "Deps", b"{}".to_vec())
        .await
        .unwrap();
    fixture.host.restore(&snapshot).unwrap();
    tokio::time::timeout(GUARD, bus.closed().cancelled())
        .await
        .unwrap();
    drop(bus);

    let bus = fixture.connect().await;
    assert_eq!(bus.stream_info("default").await.unwrap().messages, 1);
    assert_eq!(bus.consumers("default").await.unwrap().len(), 1);
    assert_eq!(bus.bucket_get("orders", "Deps").await.unwrap(), None);
    assert_eq!(publish(&*bus, "default.a.b", "3", "new").await, 3);
    assert_eq!(pull_one(&*bus, "group-1").await.message.payload, b"kept");
    assert_eq!(pull_one(&*bus, "group-1").await.message.payload, b"new");
}

async fn many_publishers_get_distinct_sequences(fixture: Fixture) {
    let bus = fixture.ready().await;
    bus.ensure_consumer("default", consumer("group-1", "default.a.b"))
        .await
        .unwrap();
    let mut tasks = Vec::new();
    for publisher in 0..8 {
        let bus = fixture.connect().await;
        tasks.push(tokio::spawn(async move {
            let mut sequences = Vec::new();
            for number in 0..25 {
                sequences.push(
                    publish(&*bus, "default.a.b", &format!("{publisher}-{number}"), "x").await,
                );
            }
            sequences
        }));
    }
    let mut sequences = Vec::new();
    for task in tasks {
        sequences.extend(task.await.unwrap());
    }
    sequences.sort_unstable();
    assert_eq!(sequences, (1..=200).collect::<Vec<u64>>());
    for sequence in 1..=200 {
        let delivery = pull_one(&*bus, "group-1").await;
        assert_eq!(delivery.message.sequence, sequence);
        bus.ack("default", "group-1", &delivery.token)
            .await
            .unwrap();
    }
}

async fn a_restart_keeps_what_is_stored_and_where_each_consumer_stood(mut fixture: Fixture) {
    let bus = fixture.ready().await;
    let quick = ConsumerConfig {
        ack_wait: Duration::from_millis(300),
        ..consumer("group-1", "default.a.b")
    };
    let made = bus.ensure_consumer("default", quick).await.unwrap();
    bus.ensure_consumer("default", consumer("group-2", "default.a.b"))
        .await
        .unwrap();
    for number in 1..=4 {
        publish(&*bus, "default.a.b", &number.to_string(), "x").await;
    }
    let first = pull_one(&*bus, "group-1").await;
    bus.ack("default", "group-1", &first.token).await.unwrap();
    // Handed out, and never acknowledged.
    pull_one(&*bus, "group-1").await;
    bus.bucket_put("orders", "Deps", b"{}".to_vec())
        .await
        .unwrap();
    drop(bus);
    fixture.restart().await;

    let bus = fixture.connect().await;
    let after = info(&*bus, "group-1").await;
    // NATS 2.9 writes another time to its disk than it says at first.
    let apart = after.created.duration_since(made.created).abs();
    assert!(apart < jiff::SignedDuration::from_secs(1), "{apart:?}");
    assert_eq!(
        (
            after.created_at_sequence,
            after.delivered_stream,
            after.ack_floor_stream,
            after.num_ack_pending,
            after.num_pending,
            after.num_waiting,
        ),
        (0, 2, 1, 1, 2, 0)
    );
    assert_eq!(stand(&*bus, "group-2").await, (0, 0, 0, 4));
    let stream = bus.stream_info("default").await.unwrap();
    assert_eq!((stream.messages, stream.last_sequence), (4, 4));
    let again = bus.publish("default.a.b", "4", Vec::new()).await.unwrap();
    assert!(again.duplicate, "the window survives");
    assert_eq!(
        bus.bucket_get("orders", "Deps").await.unwrap().as_deref(),
        Some(b"{}".as_slice())
    );
    // What was handed out before comes once more; nothing else does.
    let mut taken = Vec::new();
    for _ in 0..3 {
        let delivery = pull_one(&*bus, "group-1").await;
        taken.push((delivery.message.sequence, delivery.delivered));
        bus.ack("default", "group-1", &delivery.token)
            .await
            .unwrap();
    }
    taken.sort_unstable();
    assert_eq!(taken, [(2, 2), (3, 1), (4, 1)]);
    assert_eq!(pull_now(&*bus, "group-1").await, None);
    assert_eq!(stand(&*bus, "group-1").await, (4, 4, 0, 0));
}

async fn order_holds_while_others_publish(fixture: Fixture) {
    const PUBLISHERS: usize = 4;
    const EACH: usize = 100;
    let bus = fixture.ready().await;
    bus.ensure_consumer("default", consumer("group-1", "default.a.b"))
        .await
        .unwrap();
    let mut publishers = Vec::new();
    for publisher in 0..PUBLISHERS {
        let bus = fixture.connect().await;
        publishers.push(tokio::spawn(async move {
            for number in 0..EACH {
                let text = format!("{publisher} {number}");
                publish(&*bus, "default.a.b", &text, &text).await;
            }
        }));
    }
    let mut next = [0; PUBLISHERS];
    for sequence in 1..=(PUBLISHERS * EACH) as u64 {
        let delivery = pull_one(&*bus, "group-1").await;
        assert_eq!(
            (delivery.message.sequence, delivery.delivered),
            (sequence, 1)
        );
        let text = String::from_utf8(delivery.message.payload).unwrap();
        let (publisher, number) = text.split_once(' ').unwrap();
        let expected = &mut next[publisher.parse::<usize>().unwrap()];
        assert_eq!(number.parse::<usize>().unwrap(), *expected, "{text}");
        *expected += 1;
        bus.ack("default", "group-1", &delivery.token)
            .await
            .unwrap();
    }
    assert_eq!(next, [EACH; PUBLISHERS]);
    for publisher in publishers {
        publisher.await.unwrap();
    }
}

/// Waits until something becomes true.
async fn until<F: Future<Output = bool>>(check: impl Fn() -> F) {
    let wait = async {
        while !check().await {
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
    };
    tokio::time::timeout(GUARD, wait)
        .await
        .expect("it becomes true");
}

#[tokio::test]
async fn everything_survives_a_reopened_database() {
    let mut fixture = Fixture::new(Way::InProcess).await.unwrap();
    let bus = fixture.ready().await;
    let quick = ConsumerConfig {
        ack_wait: Duration::from_millis(1),
        ..consumer("group-1", "default.a.b")
    };
    bus.ensure_consumer("default", quick).await.unwrap();
    for number in 1..=3 {
        publish(
            &*bus,
            "default.a.b",
            &number.to_string(),
            &number.to_string(),
        )
        .await;
    }
    let first = pull_one(&*bus, "group-1").await;
    bus.ack("default", "group-1", &first.token).await.unwrap();
    bus.pull("default", "group-1", GUARD)
        .await
        .unwrap()
        .unwrap();
    bus.bucket_put("orders", "Deps", b"{}".to_vec())
        .await
        .unwrap();
    let before = info(&*bus, "group-1").await;
    fixture.stop();
    let (path, directory) = (fixture.database(), fixture.directory);
    drop((bus, fixture.host));

    let bus = EmbeddedBus::open(&path).unwrap();
    let after = info(&*bus, "group-1").await;
    assert_eq!(
        after,
        ConsumerInfo {
            num_waiting: 0,
            ..before
        }
    );
    let again = bus
        .pull("default", "group-1", GUARD)
        .await
        .unwrap()
        .unwrap();
    assert_eq!(
        (
            again.message.sequence,
            again.delivered,
            again.consumer_sequence()
        ),
        (2, 2, 3)
    );
    assert!(
        bus.publish("default.a.b", "3", Vec::new())
            .await
            .unwrap()
            .duplicate,
        "the window survives"
    );
    assert_eq!(publish(&*bus, "default.a.b", "4", "x").await, 4);
    assert_eq!(
        bus.bucket_get("orders", "Deps").await.unwrap().as_deref(),
        Some(b"{}".as_slice())
    );
    drop(directory);
}

#[test]
fn a_damaged_a_locked_and_a_newer_database_are_told_apart() {
    let directory = tempfile::tempdir().unwrap();
    let damaged = directory.path().join("damaged.db");
    std::fs::write(&damaged, vec![7_u8; 8192]).unwrap();
    assert!(matches!(
        EmbeddedBus::open(&damaged),
        Err(BusOpenError::Damaged { .. })
    ));

    let locked = directory.path().join("locked.db");
    let _holder = EmbeddedBus::open(&locked).unwrap();
    assert!(matches!(
        EmbeddedBus::open(&locked),
        Err(BusOpenError::Locked { .. })
    ));

    let newer = directory.path().join("newer.db");
    rusqlite::Connection::open(&newer)
        .unwrap()
        .pragma_update(None, "user_version", 99)
        .unwrap();
    assert!(matches!(
        EmbeddedBus::open(&newer),
        Err(BusOpenError::Newer { found: 99, .. })
    ));

    let error = EmbeddedBus::open(&directory.path().join("none/bus.db"))
        .err()
        .unwrap();
    assert!(error.to_string().contains("none/bus.db"), "{error}");
}

#[tokio::test]
async fn the_monitor_answers_as_nats_does() {
    let fixture = Fixture::new(Way::InProcess).await.unwrap();
    let bus = fixture.ready().await;
    let made = bus
        .ensure_consumer("default", consumer("group-1", "default.a.b"))
        .await
        .unwrap();
    for number in 0..3 {
        publish(&*bus, "default.a.b", &number.to_string(), "x").await;
    }
    let first = pull_one(&*bus, "group-1").await;
    bus.ack("default", "group-1", &first.token).await.unwrap();
    bus.bucket_put("orders", "Deps", b"{}".to_vec())
        .await
        .unwrap();

    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let base = format!("http://{}", listener.local_addr().unwrap());
    let router = monitor_router(fixture.host.bus(), "eventbus-default-js-0");
    tokio::spawn(async move { axum::serve(listener, router).await.unwrap() });
    let _ = rustls::crypto::ring::default_provider().install_default();
    let get = |path: &str| reqwest::get(format!("{base}{path}"));

    let health: serde_json::Value = get("/healthz").await.unwrap().json().await.unwrap();
    assert_eq!(health["status"], "ok");
    let jsz: serde_json::Value = get("/jsz?consumers=true&streams=true")
        .await
        .unwrap()
        .json()
        .await
        .unwrap();
    assert_eq!(
        (&jsz["streams"], &jsz["consumers"], &jsz["messages"]),
        (&2.into(), &1.into(), &3.into())
    );
    let stream = &jsz["account_details"][0]["stream_detail"][0];
    assert_eq!(
        (&stream["name"], &stream["state"]["last_seq"]),
        (&"default".into(), &3.into())
    );
    let consumer = &stream["consumer_detail"][0];
    assert_eq!(
        consumer["created"]
            .as_str()
            .unwrap()
            .parse::<jiff::Timestamp>()
            .unwrap(),
        made.created
    );
    assert_eq!(consumer["config"]["filter_subject"], "default.a.b");
    assert_eq!(consumer["ack_floor"]["stream_seq"], 1);
    assert_eq!(
        (&consumer["num_pending"], &consumer["num_waiting"]),
        (&2.into(), &0.into())
    );
    let plain: serde_json::Value = get("/jsz").await.unwrap().json().await.unwrap();
    assert!(plain.get("account_details").is_none());
}

mod model {
    //! Random histories of one consumer, restarts included, against a few lines that say what must come of them.

    use std::collections::{BTreeMap, BTreeSet};

    use proptest::prelude::*;

    use super::*;

    #[derive(Clone, Debug)]
    enum Step {
        Publish,
        PublishElsewhere,
        Pull,
        /// Acknowledges the n-th delivery that is out.
        Ack(usize),
        Restart,
    }

    fn step() -> impl Strategy<Value = Step> {
        prop_oneof![
            4 => Just(Step::Publish),
            1 => Just(Step::PublishElsewhere),
            4 => Just(Step::Pull),
            3 => (0..4_usize).prop_map(Step::Ack),
            1 => Just(Step::Restart),
        ]
    }

    #[derive(Default)]
    struct Model {
        last: u64,
        /// Sequences of the subject that were never handed out.
        fresh: Vec<u64>,
        /// The first that was ever handed out.
        first: Option<u64>,
        /// Handed out and not acknowledged, with the last token.
        out: BTreeMap<u64, (u64, String)>,
        /// Of them those that were out when the database was opened.
        due: BTreeSet<u64>,
    }

    async fn run(steps: Vec<Step>, ack_wait: Duration) {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("bus.db");
        let mut bus = EmbeddedBus::open(&path).unwrap();
        bus.ensure_stream(stream_config()).await.unwrap();
        let config = ConsumerConfig {
            ack_wait,
            ..consumer("group-1", "default.a.b")
        };
        bus.ensure_consumer("default", config).await.unwrap();
        let mut model = Model::default();
        for step in steps {
            match step {
                Step::Publish | Step::PublishElsewhere => {
                    let here = matches!(step, Step::Publish);
                    let subject = if here { "default.a.b" } else { "default.a.c" };
                    model.last += 1;
                    assert_eq!(
                        publish(&*bus, subject, &model.last.to_string(), "x").await,
                        model.last
                    );
                    model.fresh.extend(here.then_some(model.last));
                }
                Step::Pull => pull(&*bus, &mut model, ack_wait.is_zero()).await,
                Step::Ack(index) => {
                    let Some(sequence) = model.out.keys().nth(index).copied() else {
                        continue;
                    };
                    let (_, token) = model.out.remove(&sequence).unwrap();
                    model.due.remove(&sequence);
                    bus.ack("default", "group-1", &token).await.unwrap();
                }
                Step::Restart => {
                    drop(bus);
                    bus = EmbeddedBus::open(&path).unwrap();
                    model.due = model.out.keys().copied().collect();
                }
            }
            let info = info(&*bus, "group-1").await;
            assert_eq!(info.num_pending, model.fresh.len() as u64);
            assert_eq!(info.num_ack_pending, model.out.len() as u64);
            let again = model
                .out
                .values()
                .filter(|(delivered, _)| *delivered > 1)
                .count();
            assert_eq!(info.num_redelivered, again as u64);
            if let Some(lowest) = model.out.keys().next() {
                // It was made at 0, and stays there until its first message is acknowledged.
                let floor = if model.first == Some(*lowest) {
                    0
                } else {
                    lowest - 1
                };
                assert_eq!(info.ack_floor_stream, floor);
            }
        }
    }

    async fn pull(bus: &dyn Bus, model: &mut Model, overdue: bool) {
        let lowest = if overdue {
            model.out.keys().next().copied()
        } else {
            model.due.pop_first()
        };
        let wanted = match lowest {
            Some(lowest) => Some(lowest),
            _ if model.fresh.is_empty() => None,
            _ => Some(model.fresh.remove(0)),
        };
        let delivery = pull_now(bus, "group-1").await;
        assert_eq!(
            delivery.as_ref().map(|delivery| delivery.message.sequence),
            wanted
        );
        if let Some(delivery) = delivery {
            model.first.get_or_insert(delivery.message.sequence);
            let out = model.out.entry(delivery.message.sequence).or_default();
            assert_eq!(delivery.delivered, out.0 + 1);
            *out = (delivery.delivered, delivery.token);
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig { cases: 48, ..ProptestConfig::default() })]

        #[test]
        fn nothing_is_lost_reordered_or_forgotten(steps in prop::collection::vec(step(), 0..40), overdue: bool) {
            let ack_wait = if overdue { Duration::ZERO } else { Duration::from_secs(3600) };
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
            runtime.block_on(run(steps, ack_wait));
        }
    }
}
