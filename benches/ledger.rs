//! An atomic apply against bare SQLite transactions of the same shape, in the same run; and a duplicate, and a claim.
//!
//! Both write to a file with `synchronous=FULL`, so that most of the time is the disk's: what is compared is what the
//! ledger adds to it.

use std::time::Duration;

use divan::Bencher;
use eventlab::ledger::{ClaimOutcome, ClaimRequest, Ledger, Mode, Order};
use rusqlite::{Connection, OptionalExtension, TransactionBehavior, params};
use tempfile::TempDir;

fn main() {
    divan::main();
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
        .prepare_cached("SELECT e.seq FROM orders o JOIN effects e ON e.seq = o.effect_seq WHERE o.order_id = ?1 AND o.action = ?2")?
        .query_row([&order.order_id, &order.action], |row| row.get(0))
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
        .prepare_cached("INSERT INTO balances VALUES (?1, ?2, ?3, 1, ?4, ?5) ON CONFLICT (order_id, action) DO UPDATE SET balance_cents = balance_cents + excluded.balance_cents RETURNING balance_cents")?
        .query_row(params![order.order_id, order.action, order.amount_cents, effect, now], |row| row.get(0))?;
    let _: i64 = transaction
        .prepare_cached("INSERT INTO attempts (order_id, action, amount_cents, mode, workflow_uid, workflow_name, arrival, trace, outcome, effect_seq, clock_ms) VALUES (?1, ?2, ?3, 'atomic', ?4, ?5, ?6, ?7, 'applied', ?8, ?9) RETURNING seq")?
        .query_row(
            params![order.order_id, order.action, order.amount_cents, order.workflow_uid, order.workflow_name, order.arrival, order.trace, effect, now],
            |row| row.get(0),
        )?;
    transaction.commit()
}

#[divan::bench]
fn bare_sqlite(bencher: Bencher) {
    let folder = tempfile::tempdir().expect("a folder for the database");
    let mut connection = Connection::open(folder.path().join("bare.db")).expect("a database");
    connection.execute_batch(TABLES).expect("the tables");
    let mut number = 0;
    bencher.bench_local(|| {
        number += 1;
        bare_apply(&mut connection, &order(number)).expect("an order is applied")
    });
}
