//! How long an order takes from its HTTP request to its row in the ledger, with 1, 10 and 100 orders under way.
//!
//! `cargo bench --bench path` (`-- ORDERS` for another number of orders a round). The ledger is asked every few
//! milliseconds, so that nothing shorter than that is seen.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use eventlab::cluster::{Cluster, Request};
use eventlab::embedded::cluster::{EmbeddedCluster, EmbeddedConfig};
use eventlab::kinds::TRACE_HEADER;
use eventlab::lab::Catalog;
use eventlab::runner::driver::Driver;
use eventlab::runner::sending::{WEBHOOK_PORT, WEBHOOK_SERVICE};
use eventlab::runner::work::Patience;
use eventlab::session::{Message, SessionFiles, StagePhase};
use jiff::Timestamp;

type Failure = Box<dyn std::error::Error + Send + Sync>;

/// How often the ledger is asked.
const LOOK: Duration = Duration::from_millis(5);
/// An order that has no row after so long counts as lost.
const PATIENCE: Duration = Duration::from_secs(120);

fn main() -> Result<(), Failure> {
    let orders = std::env::args().find_map(|argument| argument.parse().ok());
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()?;
    runtime.block_on(async { tokio::spawn(measure(orders)).await? })
}

async fn measure(orders: Option<usize>) -> Result<(), Failure> {
    let state = tempfile::tempdir()?;
    let config = EmbeddedConfig {
        state_dir: state.path().to_owned(),
        program: PathBuf::from(env!("CARGO_BIN_EXE_eventlab")),
        api_port: None,
    };
    let embedded = Arc::new(EmbeddedCluster::start(config).await?);
    let cluster = Cluster::of_embedded(&embedded);
    let driver = open_path(state.path(), &cluster).await?;
    for in_flight in [1, 10, 100] {
        let orders = orders.unwrap_or(in_flight * 3 + 20);
        let mut times = round(&cluster, in_flight, orders).await?;
        times.sort_unstable();
        let at = |percent: usize| times[(times.len() * percent / 100).min(times.len() - 1)];
        println!(
            "in flight {in_flight:>3}: {orders} orders, p50 {:?}, p99 {:?}, longest {:?}",
            at(50),
            at(99),
            at(100)
        );
    }
    driver.close().await;
    embedded.stop().await;
    Ok(())
}

/// The pipeline of the first order, with one order on its whole way through it.
async fn open_path(folder: &std::path::Path, cluster: &Cluster) -> Result<Driver, Failure> {
    let opened = SessionFiles::open(folder, Timestamp::now())?;
    let catalog = Arc::new(Catalog::bundled()?);
    let mut driver = Driver::start(opened, cluster.clone(), catalog, Patience::default()).await?;
    driver.tell(Message::Next)?;
    while matches!(driver.state().phase(), StagePhase::Working { .. }) {
        let message = driver.next().await;
        driver.take(message)?;
    }
    match driver.state().phase() {
        StagePhase::Passed => Ok(driver),
        other => Err(format!("the first order did not arrive: {other:?}").into()),
    }
}

/// Sends so many orders, so many at a time, and answers how long each took.
async fn round(
    cluster: &Cluster,
    in_flight: usize,
    orders: usize,
) -> Result<Vec<Duration>, Failure> {
    let mut sent: BTreeMap<String, Instant> = BTreeMap::new();
    let mut times = Vec::with_capacity(orders);
    let mut after = cluster
        .ledger(0, 0)
        .await?
        .effects
        .last()
        .map_or(0, |row| row.seq);
    let mut next = 0;
    let started = Instant::now();
    while times.len() < orders {
        while sent.len() < in_flight && next < orders {
            let id = format!("bench-{in_flight}-{next}");
            sent.insert(id.clone(), Instant::now());
            let cluster = cluster.clone();
            tokio::spawn(async move {
                let answer = cluster
                    .send(WEBHOOK_SERVICE, WEBHOOK_PORT, &order(&id))
                    .await;
                if !answer.as_ref().is_ok_and(|answer| answer.status == 200) {
                    eprintln!("{id}: {answer:?}");
                }
            });
            next += 1;
        }
        for row in cluster.ledger(u64::MAX >> 1, after).await?.effects {
            after = after.max(row.seq);
            if let Some(start) = sent.remove(&row.order_id) {
                times.push(start.elapsed());
            }
        }
        if started.elapsed() > PATIENCE {
            return Err(format!("{} orders have no row", sent.len()).into());
        }
        tokio::time::sleep(LOOK).await;
    }
    Ok(times)
}

fn order(id: &str) -> Request {
    Request {
        method: "POST".to_owned(),
        path: "/first-order".to_owned(),
        headers: vec![
            ("Content-Type".to_owned(), "application/json".to_owned()),
            (TRACE_HEADER.to_owned(), id.to_owned()),
        ],
        body: format!(r#"{{"kind":"order.created","orderId":"{id}","amount":4200}}"#).into_bytes(),
        lose_answer: false,
    }
}
