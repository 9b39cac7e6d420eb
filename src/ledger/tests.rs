//! The rules of the ledger in one process.

use std::time::Duration;

use rusqlite::Connection;
use tempfile::TempDir;

use super::*;

fn order(id: &str, amount: i64, workflow: &str) -> Order {
    Order {
        order_id: id.into(),
        action: "charge".into(),
        amount_cents: amount,
        arrival: format!("arrival-{workflow}"),
        workflow_uid: workflow.into(),
        workflow_name: "orders-x".into(),
        trace: "trace-1".into(),
    }
}

fn ledger() -> (TempDir, Ledger, Reader) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("ledger.db");
    let ledger = Ledger::open(&path).unwrap();
    (folder, ledger, Reader::new(path))
}

#[test]
fn naive_adds_every_time() {
    let (_folder, mut ledger, reader) = ledger();
    for workflow in ["a", "b"] {
        let receipt = ledger
            .apply(&order("o-1", 4200, workflow), Mode::Naive)
            .unwrap();
        assert_eq!(receipt.outcome.as_str(), "applied");
    }
    let balances = reader.balances(0, 10).unwrap();
    assert_eq!(
        (balances.items[0].balance_cents, balances.items[0].effects),
        (8400, 2)
    );
    assert_eq!(
        reader.orders(0, 10).unwrap().items[0].seq,
        1,
        "the key stays with its first effect"
    );
    let verification = reader.verify().unwrap();
    assert!(
        verification.consistent(),
        "sums are right although the business is not"
    );
    assert_eq!(verification.repeated.len(), 1);
}

#[test]
fn atomic_knows_duplicates_and_conflicts() {
    let (_folder, mut ledger, reader) = ledger();
    ledger
        .apply(&order("o-1", 4200, "a"), Mode::Atomic)
        .unwrap();
    let other = ledger
        .apply(&order("o-1", 4200, "b"), Mode::Atomic)
        .unwrap();
    let again = ledger
        .apply(&order("o-1", 4200, "a"), Mode::Atomic)
        .unwrap();
    let conflict = ledger
        .apply(&order("o-1", 4300, "c"), Mode::Atomic)
        .unwrap();

    assert!(matches!(
        other.outcome,
        Outcome::Duplicate {
            same_workflow: false,
            ..
        }
    ));
    assert!(matches!(
        again.outcome,
        Outcome::Duplicate {
            same_workflow: true,
            ..
        }
    ));
    let Outcome::Conflict { first } = conflict.outcome else {
        panic!("not a conflict: {conflict:?}")
    };
    assert_eq!(
        (first.amount_cents, first.workflow_uid.as_str()),
        (4200, "a")
    );

    let attempts = reader.attempts(0, 10).unwrap().items;
    let outcomes: Vec<_> = attempts
        .iter()
        .map(|row| (row.workflow_uid.as_str(), row.outcome.as_str()))
        .collect();
    assert_eq!(
        outcomes,
        [
            ("a", "applied"),
            ("b", "duplicate"),
            ("a", "duplicate"),
            ("c", "conflict")
        ]
    );
    assert!(
        attempts
            .iter()
            .all(|row| row.effect == 1 && row.arrival == format!("arrival-{}", row.workflow_uid))
    );
    assert_eq!(reader.effects(0, 10).unwrap().items.len(), 1);
    assert_eq!(reader.balances(0, 10).unwrap().items[0].balance_cents, 4200);
}

#[test]
fn another_action_is_another_key() {
    let (_folder, mut ledger, reader) = ledger();
    ledger
        .apply(&order("o-1", 4200, "a"), Mode::Atomic)
        .unwrap();
    let ship = Order {
        action: "ship".into(),
        ..order("o-1", 100, "a")
    };
    assert_eq!(
        ledger.apply(&ship, Mode::Atomic).unwrap().outcome.as_str(),
        "applied"
    );
    assert_eq!(reader.orders(0, 10).unwrap().items.len(), 2);
}

#[test]
fn check_then_write_can_race() {
    let (folder, mut slow, reader) = ledger();
    let mut quick = Ledger::open(folder.path().join("ledger.db")).unwrap();
    // The slow run looks, then the quick one does all its work, then the slow one writes.
    let pause = Options {
        pause: Duration::from_millis(300),
        ..Options::default()
    };
    let racing = std::thread::spawn(move || {
        slow.apply_with(&order("o-1", 4200, "slow"), Mode::CheckThenWrite, pause)
    });
    while !racing.is_finished() {
        quick
            .apply(&order("o-1", 4200, "quick"), Mode::CheckThenWrite)
            .unwrap();
        // All attempts are read in one page below.
        std::thread::sleep(Duration::from_millis(5));
    }
    racing.join().unwrap().unwrap();
    let effects = reader.effects(0, 10).unwrap().items;
    assert!(effects.len() <= 2);
    let attempts = reader.attempts(0, 1000).unwrap().items;
    let applied = attempts
        .iter()
        .filter(|row| row.outcome == "applied")
        .count();
    assert_eq!(applied, effects.len());
    assert!(reader.verify().unwrap().consistent());
}

#[test]
fn an_expired_key_is_applied_again() {
    let (_folder, mut ledger, reader) = ledger();
    let retention = Options {
        retention: Some(Duration::from_secs(300)),
        ..Options::default()
    };
    ledger
        .apply_with(&order("o-1", 4200, "a"), Mode::Atomic, retention.clone())
        .unwrap();
    let soon = ledger
        .apply_with(&order("o-1", 4200, "b"), Mode::Atomic, retention.clone())
        .unwrap();
    assert_eq!(soon.outcome.as_str(), "duplicate");
    ledger
        .advance_clock(Duration::from_secs(24 * 3600))
        .unwrap();
    let forever = ledger
        .apply(&order("o-1", 4200, "c"), Mode::Atomic)
        .unwrap();
    assert_eq!(
        forever.outcome.as_str(),
        "duplicate",
        "without retention a key is kept for ever"
    );
    let tomorrow = ledger
        .apply_with(&order("o-1", 4200, "d"), Mode::Atomic, retention.clone())
        .unwrap();
    assert_eq!(tomorrow.outcome.as_str(), "applied");
    let after = ledger
        .apply_with(&order("o-1", 4200, "e"), Mode::Atomic, retention.clone())
        .unwrap();
    assert_eq!(after.outcome.as_str(), "duplicate", "the key lives again");
    let clocks: Vec<_> = reader
        .attempts(0, 10)
        .unwrap()
        .items
        .into_iter()
        .map(|row| row.clock)
        .collect();
    assert!(
        clocks.is_sorted() && clocks[0][..10] < clocks[3][..10],
        "rows print the ledger's time: {clocks:?}"
    );
}

#[test]
fn bad_orders_leave_nothing() {
    let (_folder, mut ledger, reader) = ledger();
    let good = order("o-1", 1, "a");
    let bad = [
        Order {
            order_id: String::new(),
            ..good.clone()
        },
        Order {
            order_id: "  ".into(),
            ..good.clone()
        },
        Order {
            action: String::new(),
            ..good.clone()
        },
        Order {
            arrival: String::new(),
            ..good.clone()
        },
        Order {
            workflow_uid: String::new(),
            ..good.clone()
        },
        Order {
            order_id: "x".repeat(257),
            ..good.clone()
        },
        Order {
            order_id: "a\nb".into(),
            ..good.clone()
        },
        Order {
            trace: "a\u{0}b".into(),
            ..good.clone()
        },
        Order {
            amount_cents: 0,
            ..good.clone()
        },
        Order {
            amount_cents: -1,
            ..good.clone()
        },
        Order {
            amount_cents: MAX_AMOUNT_CENTS + 1,
            ..good.clone()
        },
        Order {
            amount_cents: i64::MIN,
            ..good
        },
    ];
    for order in bad {
        let refused = ledger.apply(&order, Mode::Atomic);
        assert!(
            matches!(refused, Err(LedgerError::Invalid { .. })),
            "{order:?}: {refused:?}"
        );
    }
    assert!(reader.attempts(0, 10).unwrap().items.is_empty());
}

#[test]
fn rows_refuse_what_the_program_would_not_write() {
    let (_folder, mut ledger, _reader) = ledger();
    ledger
        .apply(&order("o-1", 4200, "a"), Mode::Atomic)
        .unwrap();
    let wrong = [
        "DELETE FROM attempts",
        "UPDATE attempts SET outcome = 'applied'",
        "DELETE FROM effects",
        "UPDATE effects SET amount_cents = 1",
        "INSERT INTO effects (order_id, action, amount_cents, workflow_uid, arrival, clock_ms) VALUES ('', 'a', 1, 'w', 'a', 0)",
        "INSERT INTO effects (order_id, action, amount_cents, workflow_uid, arrival, clock_ms) VALUES (NULL, 'a', 1, 'w', 'a', 0)",
        "INSERT INTO effects (order_id, action, amount_cents, workflow_uid, arrival, clock_ms) VALUES ('o', 'a', 1.5, 'w', 'a', 0)",
        "INSERT INTO orders VALUES ('o-1', 'charge', 1, 1, 0)",
    ];
    for sql in wrong {
        assert!(ledger.connection.execute_batch(sql).is_err(), "{sql}");
    }
}

#[test]
fn verify_finds_a_changed_balance() {
    let (folder, mut ledger, reader) = ledger();
    ledger
        .apply(&order("o-1", 4200, "a"), Mode::Atomic)
        .unwrap();
    let intruder = Connection::open(folder.path().join("ledger.db")).unwrap();
    intruder
        .execute_batch("UPDATE balances SET balance_cents = 1")
        .unwrap();
    let verification = reader.verify().unwrap();
    assert!(!verification.consistent());
    let difference = &verification.differences[0];
    assert_eq!(
        (difference.stored_cents, difference.recomputed_cents),
        (1, 4200)
    );
}

#[test]
fn a_full_disk_says_so_and_leaves_the_ledger_whole() {
    let (_folder, mut ledger, reader) = ledger();
    ledger
        .connection
        .execute_batch("PRAGMA max_page_count = 30")
        .unwrap();
    let mut applied = 0;
    let error = loop {
        match ledger.apply(
            &order(&format!("o-{applied}-{}", "x".repeat(200)), 1, "a"),
            Mode::Naive,
        ) {
            Ok(_) => applied += 1,
            Err(error) => break error,
        }
        assert!(applied < 10_000, "the limit was never reached");
    };
    assert!(matches!(error, LedgerError::Full(_)), "{error}");
    let verification = reader.verify().unwrap();
    assert!(verification.consistent());
    assert_eq!(
        (verification.attempts, verification.effects),
        (applied, applied)
    );
}

#[test]
fn a_damaged_file_is_named() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("ledger.db");
    std::fs::write(
        &path,
        "this is not a database, and longer than a header of one hundred bytes. ".repeat(20),
    )
    .unwrap();
    let error = Ledger::open(&path).unwrap_err();
    assert!(matches!(error, LedgerError::Damaged { .. }), "{error}");
    assert!(matches!(
        Reader::new(&path).balances(0, 1),
        Err(LedgerError::Damaged { .. })
    ));
}

#[test]
fn a_newer_file_is_left_alone() {
    let (folder, ledger, _reader) = ledger();
    ledger
        .connection
        .execute_batch("PRAGMA user_version = 99")
        .unwrap();
    let path = folder.path().join("ledger.db");
    assert!(matches!(
        Ledger::open(&path),
        Err(LedgerError::Newer { found: 99, .. })
    ));
    assert!(matches!(
        Reader::new(&path).orders(0, 1),
        Err(LedgerError::Newer { found: 99, .. })
    ));
}

#[test]
fn a_database_without_a_file_is_refused() {
    for path in ["", ":memory:"] {
        assert!(
            matches!(Ledger::open(path), Err(LedgerError::Invalid { .. })),
            "{path:?}"
        );
    }
}

#[test]
fn a_reader_follows_the_file_at_its_path() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("ledger.db");
    let reader = Reader::new(&path);
    let empty = reader.attempts(7, 10).unwrap();
    assert_eq!((empty.items.len(), empty.next, empty.clock), (0, 7, None));
    assert!(!path.exists(), "reading must not make the file");

    std::fs::write(&path, "").unwrap();
    assert!(
        reader.orders(0, 10).unwrap().items.is_empty(),
        "a writer has only just made it"
    );
    std::fs::remove_file(&path).unwrap();

    Ledger::open(&path)
        .unwrap()
        .apply(&order("o-1", 1, "a"), Mode::Atomic)
        .unwrap();
    assert_eq!(reader.orders(0, 10).unwrap().items[0].order_id, "o-1");

    let (aside, other) = (
        folder.path().join("aside.db"),
        folder.path().join("other.db"),
    );
    Ledger::open(&other)
        .unwrap()
        .apply(&order("o-2", 1, "a"), Mode::Atomic)
        .unwrap();
    // Gone, or another one in its place: what is not in it says nothing, and the old one counts again once it is back.
    let read = || {
        reader
            .orders(0, 10)
            .map(|page| page.items[0].order_id.clone())
    };
    std::fs::rename(&path, &aside).unwrap();
    assert!(matches!(read(), Err(LedgerError::Gone(_))), "{:?}", read());
    std::fs::write(&path, "").unwrap();
    assert!(matches!(read(), Err(LedgerError::Gone(_))), "{:?}", read());
    std::fs::rename(&other, &path).unwrap();
    assert!(matches!(read(), Err(LedgerError::Gone(_))), "{:?}", read());
    std::fs::rename(&aside, &path).unwrap();
    assert_eq!(read().unwrap(), "o-1");
}

#[test]
fn pages_go_on_where_they_ended() {
    let (_folder, mut ledger, reader) = ledger();
    for number in 0..5 {
        ledger
            .apply(&order(&format!("o-{number}"), 1, "a"), Mode::Atomic)
            .unwrap();
    }
    let first = reader.attempts(0, 3).unwrap();
    assert_eq!((first.items.len(), first.next, first.more), (3, 3, true));
    let rest = reader.attempts(first.next, 3).unwrap();
    assert_eq!((rest.items.len(), rest.next, rest.more), (2, 5, false));
    assert_eq!(reader.attempts(5, 3).unwrap().next, 5);
}

#[test]
fn an_older_file_keeps_its_rows_and_takes_new_outcomes() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("ledger.db");
    schema::make_version(&path, 2);
    Connection::open(&path)
        .unwrap()
        .execute_batch(
            "INSERT INTO effects VALUES (1, 'o-1', 'charge', 4200, 'a', 'arrival-a', 5);
             INSERT INTO orders VALUES ('o-1', 'charge', 4200, 1, 5);
             INSERT INTO balances VALUES ('o-1', 'charge', 4200, 1, 1, 5);
             INSERT INTO attempts VALUES (1, 'o-1', 'charge', 4200, 'atomic', 'a', 'n', 'arrival-a', 't', 'applied', 1, 5);",
        )
        .unwrap();
    let reader = Reader::new(&path);
    assert_eq!(reader.attempts(0, 10).unwrap().items[0].effect, 1);
    let mut ledger = Ledger::open(&path).unwrap();
    let again = ledger
        .apply(&order("o-1", 4200, "b"), Mode::Atomic)
        .unwrap();
    assert_eq!((again.outcome.as_str(), again.attempt), ("duplicate", 2));
    assert!(reader.verify().unwrap().consistent());
    for sql in [
        "DELETE FROM attempts",
        "UPDATE attempts SET outcome = 'busy'",
    ] {
        assert!(ledger.connection.execute_batch(sql).is_err(), "{sql}");
    }
}

#[test]
fn insert_or_ignore_hides_what_atomic_refuses() {
    let (_folder, mut ledger, reader) = ledger();
    let good = order("o-1", 4200, "a");
    let outcome = |ledger: &mut Ledger, order: &Order| {
        ledger
            .apply(order, Mode::InsertOrIgnore)
            .unwrap()
            .outcome
            .as_str()
    };
    assert_eq!(outcome(&mut ledger, &good), "applied");
    for (id, amount) in [("o-1", 4200), ("o-1", 9900), ("o-2", -5), ("o-3", 0)] {
        assert_eq!(outcome(&mut ledger, &order(id, amount, "b")), "duplicate");
    }
    assert_eq!(reader.effects(0, 10).unwrap().items.len(), 1);
    assert_eq!(reader.attempts(0, 10).unwrap().items.len(), 5);
    assert!(reader.verify().unwrap().consistent());
    for (id, amount) in [("o-2", -5), ("o-3", 0)] {
        assert!(ledger.apply(&order(id, amount, "c"), Mode::Atomic).is_err());
    }
    let receipt = serde_json::to_value(
        ledger
            .apply(&order("o-9", -1, "c"), Mode::InsertOrIgnore)
            .unwrap(),
    )
    .unwrap();
    assert_eq!(receipt["outcome"], "duplicate");
}

#[test]
fn runs_that_meet_have_all_looked_before_one_writes() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("ledger.db");
    Ledger::open(&path).unwrap();
    let outcomes: Vec<&str> = std::thread::scope(|scope| {
        let runs: Vec<_> = ["a", "b", "c"]
            .into_iter()
            .map(|workflow| {
                let path = &path;
                scope.spawn(move || {
                    let options = Options {
                        pause: Duration::from_secs(60),
                        meet: 3,
                        ..Options::default()
                    };
                    let order = order("o-1", 4200, workflow);
                    let receipt = Ledger::open(path)
                        .unwrap()
                        .apply_with(&order, Mode::CheckThenWrite, options)
                        .unwrap();
                    receipt.outcome.as_str()
                })
            })
            .collect();
        runs.into_iter().map(|run| run.join().unwrap()).collect()
    });
    assert_eq!(outcomes, ["applied"; 3]);
}

#[test]
fn a_delivery_is_written_down_with_its_effect_or_not_at_all() {
    let (_folder, mut ledger, _reader) = ledger();
    let options = Options {
        outbox: Some("notify".into()),
        ..Options::default()
    };
    let order_one = order("o-1", 4200, "a");
    for _ in 0..2 {
        ledger
            .apply_with(&order_one, Mode::Atomic, options.clone())
            .unwrap();
    }
    let waiting = ledger.outbox(0, 10).unwrap();
    assert_eq!((waiting.len(), waiting[0].state.as_str()), (1, "waiting"));
    let blank = Options {
        outbox: Some("  ".into()),
        ..Options::default()
    };
    assert!(
        ledger
            .apply_with(&order("o-2", 1, "a"), Mode::Atomic, blank)
            .is_err()
    );
    assert_eq!(ledger.outbox(0, 10).unwrap().len(), 1);
}
