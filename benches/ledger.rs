//! An atomic apply against bare SQLite transactions of the same shape, in the same run; and a duplicate, and a claim.
//!
//! `cargo bench --bench ledger` prints first, in one line, how much of bare SQLite's rate is left. Both sides do the same
//! statements in the same order, to a WAL file with `synchronous=FULL`; the bare tables have the same keys and references,
//! but no `CHECK` and no trigger. Blocks of both alternate, so that a disk that slows down slows both down.

use std::time::{Duration, Instant};

use divan::Bencher;
use eventlab::ledger::{ClaimOutcome, ClaimRequest, Ledger, Mode, Order};
use rusqlite::{Connection, OptionalExtension, TransactionBehavior, params};
use tempfile::TempDir;

/// Pairs of blocks that are compared, and transactions of a block.
const ROUNDS: u64 = 30;
const BLOCK: u64 = 100;
/// The part of bare SQLite's rate that an atomic apply is to keep.
const AIM: f64 = 0.8;

fn main() {
    // `cargo test --bench ledger -- --test` only wants to know that it starts.
    let rounds = if std::env::args().any(|argument| argument == "--test") {
        1
    } else {
        ROUNDS
    };
    compare(rounds);
    divan::main();
}

/// Times alternating blocks of both, and prints what is left of bare SQLite's rate.
fn compare(rounds: u64) {
    let (_ledger_folder, mut ledger) = ledger();
    let (_bare_folder, mut connection) = bare();
    let (mut ours, mut theirs, mut ratios) = (Vec::new(), Vec::new(), Vec::new());
    // One block of each warms both up and is not counted.
    for round in 0..=rounds {
        let numbers = (round * BLOCK)..((round + 1) * BLOCK);
        let bare = timed(numbers.clone(), |number| {
            bare_apply(&mut connection, &order(number)).expect("an order is applied");
        });
        let own = timed(numbers, |number| {
            ledger
                .apply(&order(number), Mode::Atomic)
                .expect("an order is applied");
        });
        if round > 0 {
            ratios.push(bare.as_secs_f64() / own.as_secs_f64());
            ours.push(own);
            theirs.push(bare);
        }
    }
    ratios.sort_by(f64::total_cmp);
    let rate = |blocks: &[Duration]| {
        (rounds * BLOCK) as f64 / blocks.iter().sum::<Duration>().as_secs_f64()
    };
    let (own, bare) = (rate(&ours), rate(&theirs));
    let left = own / bare;
    println!(
        "atomic apply keeps {left:.2} of the rate of bare SQLite transactions of the same shape ({own:.0}/s against {bare:.0}/s, \
         synchronous=FULL; {rounds} pairs of {BLOCK}, median {:.2}, worst {:.2}, best {:.2}): aim {AIM:.2} {}",
        ratios[ratios.len() / 2],
        ratios[0],
        ratios[ratios.len() - 1],
        if left >= AIM { "met" } else { "MISSED" }
    );
}

fn timed(numbers: std::ops::Range<u64>, mut work: impl FnMut(u64)) -> Duration {
    let start = Instant::now();
    numbers.for_each(&mut work);
    start.elapsed()
}

fn order(number: u64) -> Order {
    Order {
        order_id: format!("order-{number}"),
        action: "charge".into(),
        amount_cents: 4200,
        arrival: format!("64666334-{number:08}"),
        workflow_uid: format!("5b1c8f3e-0000-4000-8000-{number:012}"),
        workflow_name: format!("order-{number:05}"),
        trace: format!("bench-a1-order-{number:08x}"),
    }
}

fn ledger() -> (TempDir, Ledger) {
    let folder = tempfile::tempdir().expect("a folder for the ledger");
    let ledger = Ledger::open(folder.path().join("ledger.db")).expect("a ledger");
    (folder, ledger)
}

#[divan::bench]
fn atomic(bencher: Bencher) {
    let (_folder, mut ledger) = ledger();
    let mut number = 0;
    bencher.bench_local(|| {
        number += 1;
        ledger
            .apply(&order(number), Mode::Atomic)
            .expect("an order is applied")
    });
}

#[divan::bench]
fn atomic_duplicate(bencher: Bencher) {
    let (_folder, mut ledger) = ledger();
    ledger
        .apply(&order(0), Mode::Atomic)
        .expect("an order is applied");
    bencher.bench_local(|| {
        ledger
            .apply(&order(0), Mode::Atomic)
            .expect("a duplicate is noted")
    });
}

#[divan::bench]
fn claim_and_complete(bencher: Bencher) {
    let (_folder, mut ledger) = ledger();
    let mut number = 0;
    bencher.bench_local(|| {
        number += 1;
        let request = ClaimRequest {
            order_id: format!("order-{number}"),
            action: "notify".into(),
            amount_cents: 4200,
            workflow_uid: "run".into(),
            arrival: "arrival".into(),
            lease: Duration::from_secs(30),
        };
        if let Ok(ClaimOutcome::Won(owner)) = ledger.claim(&request) {
            ledger.begin_write(&owner).expect("the write begins");
            ledger.complete(&owner, "crm-1").expect("it is done");
        }
    });
}

const TABLES: &str = "
    PRAGMA journal_mode = WAL; PRAGMA synchronous = FULL; PRAGMA foreign_keys = ON;
    CREATE TABLE clock (id INTEGER PRIMARY KEY, offset_ms INTEGER NOT NULL, last_ms INTEGER NOT NULL) STRICT;
    INSERT INTO clock VALUES (1, 0, 0);
    CREATE TABLE effects (seq INTEGER PRIMARY KEY AUTOINCREMENT, order_id TEXT NOT NULL, action TEXT NOT NULL,
        amount_cents INTEGER NOT NULL, workflow_uid TEXT NOT NULL, arrival TEXT NOT NULL, clock_ms INTEGER NOT NULL) STRICT;
    CREATE TABLE orders (order_id TEXT NOT NULL, action TEXT NOT NULL, amount_cents INTEGER NOT NULL,
        effect_seq INTEGER NOT NULL UNIQUE REFERENCES effects (seq), clock_ms INTEGER NOT NULL,
        PRIMARY KEY (order_id, action)) STRICT;
    CREATE TABLE balances (order_id TEXT NOT NULL, action TEXT NOT NULL, balance_cents INTEGER NOT NULL,
        effects INTEGER NOT NULL, effect_seq INTEGER NOT NULL UNIQUE REFERENCES effects (seq),
        clock_ms INTEGER NOT NULL, PRIMARY KEY (order_id, action)) STRICT;
    CREATE TABLE attempts (seq INTEGER PRIMARY KEY AUTOINCREMENT, order_id TEXT NOT NULL, action TEXT NOT NULL,
        amount_cents INTEGER NOT NULL, mode TEXT NOT NULL, workflow_uid TEXT NOT NULL, workflow_name TEXT NOT NULL,
        arrival TEXT NOT NULL, trace TEXT NOT NULL, outcome TEXT NOT NULL,
        effect_seq INTEGER REFERENCES effects (seq), clock_ms INTEGER NOT NULL) STRICT;
";

/// The statements of one apply, without the ledger around them.
fn bare_apply(connection: &mut Connection, order: &Order) -> rusqlite::Result<()> {
    let transaction = connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
    let now: i64 = transaction
        .prepare_cached("SELECT offset_ms + last_ms + 1 FROM clock WHERE id = 1")?
        .query_row([], |row| row.get(0))?;
    transaction
        .prepare_cached("UPDATE clock SET last_ms = ?1 WHERE id = 1")?
        .execute([now])?;
    let known: Option<i64> = transaction
        .prepare_cached("SELECT e.seq FROM orders o JOIN effects e ON e.seq = o.effect_seq WHERE o.order_id = ?1 AND o.action = ?2 AND ?3 - o.clock_ms < ?4")?
        .query_row(params![order.order_id, order.action, now, i64::MAX], |row| row.get(0))
        .optional()?;
    assert!(known.is_none(), "each order is new");
    let effect: i64 = transaction
        .prepare_cached("INSERT INTO effects (order_id, action, amount_cents, workflow_uid, arrival, clock_ms) VALUES (?1, ?2, ?3, ?4, ?5, ?6) RETURNING seq")?
        .query_row(
            params![order.order_id, order.action, order.amount_cents, order.workflow_uid, order.arrival, now],
            |row| row.get(0),
        )?;
    transaction
        .prepare_cached("INSERT INTO orders VALUES (?1, ?2, ?3, ?4, ?5) ON CONFLICT (order_id, action) DO NOTHING")?
        .execute(params![order.order_id, order.action, order.amount_cents, effect, now])?;
    let _: i64 = transaction
        .prepare_cached("INSERT INTO balances VALUES (?1, ?2, ?3, 1, ?4, ?5) ON CONFLICT (order_id, action) DO UPDATE SET balance_cents = balance_cents + excluded.balance_cents, effects = effects + 1, effect_seq = excluded.effect_seq, clock_ms = excluded.clock_ms RETURNING balance_cents")?
        .query_row(params![order.order_id, order.action, order.amount_cents, effect, now], |row| row.get(0))?;
    let _: i64 = transaction
        .prepare_cached("INSERT INTO attempts (order_id, action, amount_cents, mode, workflow_uid, workflow_name, arrival, trace, outcome, effect_seq, clock_ms) VALUES (?1, ?2, ?3, 'atomic', ?4, ?5, ?6, ?7, 'applied', ?8, ?9) RETURNING seq")?
        .query_row(
            params![order.order_id, order.action, order.amount_cents, order.workflow_uid, order.workflow_name, order.arrival, order.trace, effect, now],
            |row| row.get(0),
        )?;
    transaction.commit()
}

fn bare() -> (TempDir, Connection) {
    let folder = tempfile::tempdir().expect("a folder for the database");
    let connection = Connection::open(folder.path().join("bare.db")).expect("a database");
    connection.execute_batch(TABLES).expect("the tables");
    (folder, connection)
}

#[divan::bench]
fn bare_sqlite(bencher: Bencher) {
    let (_folder, mut connection) = bare();
    let mut number = 0;
    bencher.bench_local(|| {
        number += 1;
        bare_apply(&mut connection, &order(number)).expect("an order is applied")
    });
}
