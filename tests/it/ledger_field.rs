//! Duplicates, claims and SQLite as people reported them in the field, each as its whole kind, and the ledger under load.
//!
//! `EVENTLAB_LOAD_ROUNDS=200` makes the rounds of fifty concurrent processes as many (`.ci/run`); a sample runs here.

use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::time::Duration;

use eventlab::ledger::{
    ClaimOutcome, ClaimRequest, Finding, Ledger, LedgerError, Mode, Order, Person, Reader,
    Settlement,
};
use rusqlite::Connection;
use serde_json::Value;
use tempfile::TempDir;

fn order(id: &str, action: &str, amount: i64, run: &str) -> Order {
    Order {
        order_id: id.into(),
        action: action.into(),
        amount_cents: amount,
        arrival: format!("arrival-{run}"),
        workflow_uid: run.into(),
        workflow_name: String::new(),
        trace: String::new(),
    }
}

fn request(id: &str, run: &str) -> ClaimRequest {
    ClaimRequest {
        order_id: id.into(),
        action: "notify".into(),
        amount_cents: 4200,
        workflow_uid: run.into(),
        arrival: format!("arrival-{run}"),
        lease: Duration::from_secs(30),
    }
}

fn fresh() -> (TempDir, PathBuf, Ledger, Reader) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("ledger.db");
    let ledger = Ledger::open(&path).unwrap();
    let reader = Reader::new(&path);
    (folder, path, ledger, reader)
}

fn effects(reader: &Reader) -> usize {
    reader.effects(0, 1000).unwrap().items.len()
}

fn seconds(count: u64) -> Duration {
    Duration::from_secs(count)
}

/// I: what identifies an order, and what does not. The key is (order id, action), whoever sends it, however often.
#[test]
fn arrivals_and_runs_are_no_keys_orders_and_actions_are() {
    /// Order id, action and run of a request.
    type Request = (&'static str, &'static str, &'static str);
    // The requests, and the effects that must come out of them.
    let cases: [(&[Request], usize); 5] = [
        // Two requests, two event ids, two Workflows, one order.
        (&[("o-1", "charge", "a"), ("o-1", "charge", "b")], 1),
        // The same Workflow twice: the Sensor died between create and ack, or a pod was retried.
        (&[("o-1", "charge", "a"), ("o-1", "charge", "a")], 1),
        // Two orders of one customer.
        (&[("o-1", "charge", "a"), ("o-2", "charge", "b")], 2),
        // One order, two intended effects.
        (&[("o-1", "charge", "a"), ("o-1", "points", "b")], 2),
        // Spelling is the key's business, and the ledger takes each as it is.
        (&[("o-1", "charge", "a"), ("O-1", "charge", "b")], 2),
    ];
    for (requests, expected) in cases {
        let (_folder, _path, mut ledger, reader) = fresh();
        for (id, action, run) in requests {
            ledger
                .apply(&order(id, action, 4200, run), Mode::Atomic)
                .unwrap();
        }
        assert_eq!(effects(&reader), expected, "{requests:?}");
        assert_eq!(reader.attempts(0, 10).unwrap().items.len(), requests.len());
    }
}

/// J: the check-then-insert race has one winner, and every loser reads what the winner wrote.
#[test]
fn fifty_claims_have_one_winner_and_no_error() {
    let (_folder, path, _ledger, reader) = fresh();
    let outcomes: Vec<String> = std::thread::scope(|scope| {
        let runs: Vec<_> = (0..50)
            .map(|number| {
                let path = &path;
                scope.spawn(move || {
                    let order = order("o-1", "charge", 4200, &format!("run-{number}"));
                    let receipt = Ledger::open(path)
                        .unwrap()
                        .apply(&order, Mode::Atomic)
                        .unwrap();
                    receipt.outcome.as_str().to_owned()
                })
            })
            .collect();
        runs.into_iter().map(|run| run.join().unwrap()).collect()
    });
    let applied = outcomes.iter().filter(|word| *word == "applied").count();
    let duplicates = outcomes.iter().filter(|word| *word == "duplicate").count();
    assert_eq!((applied, duplicates, effects(&reader)), (1, 49, 1));
}

/// J: a run that dies after its claim wedges nothing and loses nothing, at every moment around the end of the lease.
#[test]
fn a_claim_of_a_dead_run_is_busy_until_its_lease_ends_and_free_or_unresolved_after_it() {
    for (write_began, past_lease) in [(false, false), (false, true), (true, false), (true, true)] {
        let (_folder, _path, mut ledger, _reader) = fresh();
        let ClaimOutcome::Won(owner) = ledger.claim(&request("o-1", "dead")).unwrap() else {
            panic!("not won")
        };
        if write_began {
            ledger.begin_write(&owner).unwrap();
        }
        ledger
            .advance_clock(seconds(if past_lease { 31 } else { 1 }))
            .unwrap();
        let next = ledger.claim(&request("o-1", "next")).unwrap();
        let as_it_must = match (write_began, past_lease) {
            (_, false) => matches!(next, ClaimOutcome::Busy { .. }),
            (false, true) => matches!(next, ClaimOutcome::Won(_)),
            (true, true) => matches!(next, ClaimOutcome::Unresolved { .. }),
        };
        assert!(as_it_must, "{write_began} {past_lease}: {next:?}");
        // The dead run wakes up: whatever it wants to write is refused.
        if past_lease {
            for refused in [
                ledger.begin_write(&owner),
                ledger.complete(&owner, "crm-1"),
                ledger.fail(&owner, "x"),
            ] {
                assert!(matches!(refused, Err(LedgerError::NotOwner { .. })));
            }
        }
    }
}

/// J: no key that matters expires: not a completed one, not an unresolved one, not after years.
#[test]
fn neither_completed_nor_unresolved_claims_expire() {
    let (_folder, _path, mut ledger, reader) = fresh();
    for (id, completed) in [("done", true), ("open", false)] {
        let ClaimOutcome::Won(owner) = ledger.claim(&request(id, "first")).unwrap() else {
            panic!("not won")
        };
        ledger.begin_write(&owner).unwrap();
        if completed {
            ledger.complete(&owner, "crm-1").unwrap();
        } else {
            ledger.mark_unresolved(&owner, "no answer").unwrap();
        }
    }
    for years in [0, 1, 20] {
        ledger
            .advance_clock(seconds(years * 365 * 24 * 3600))
            .unwrap();
        ledger.abandon_expired().unwrap();
        assert!(matches!(
            ledger.claim(&request("done", "late")).unwrap(),
            ClaimOutcome::Completed { .. }
        ));
        assert!(matches!(
            ledger.claim(&request("open", "late")).unwrap(),
            ClaimOutcome::Unresolved { .. }
        ));
    }
    assert_eq!(effects(&reader), 1, "a completed delivery is one effect");
    let dana = Person {
        name: "dana",
        note: "",
    };
    let state = ledger
        .decide("open", "notify", &Finding::Found("crm-2".into()), dana)
        .unwrap();
    assert_eq!(
        (state, effects(&reader)),
        (Settlement::Now("completed".into()), 2)
    );
    let last = reader.transitions(0, 100).unwrap().items.pop().unwrap();
    assert!(last.detail.contains("dana"), "{last:?}");
    assert!(reader.verify().unwrap().consistent());
}

/// J and K: the same key with another content is a conflict, and changes nothing that is there.
#[test]
fn another_amount_is_a_conflict_and_never_overwrites() {
    let (_folder, _path, mut ledger, reader) = fresh();
    ledger
        .apply(&order("o-1", "charge", 1000, "a"), Mode::Atomic)
        .unwrap();
    let other = ledger
        .apply(&order("o-1", "charge", 9900, "b"), Mode::Atomic)
        .unwrap();
    assert_eq!(other.outcome.as_str(), "conflict");
    let ClaimOutcome::Won(owner) = ledger.claim(&request("o-2", "a")).unwrap() else {
        panic!("not won")
    };
    ledger.begin_write(&owner).unwrap();
    ledger.complete(&owner, "crm-1").unwrap();
    let other = ClaimRequest {
        amount_cents: 1,
        ..request("o-2", "b")
    };
    assert!(matches!(
        ledger.claim(&other).unwrap(),
        ClaimOutcome::Conflict { amount_cents: 4200 }
    ));
    let balances: Vec<i64> = reader
        .balances(0, 10)
        .unwrap()
        .items
        .iter()
        .map(|row| row.balance_cents)
        .collect();
    assert_eq!(balances, [1000, 4200]);
}

/// K: what SQLite takes without a word elsewhere is an error here: no key, an empty key, a bad amount.
#[test]
fn rows_without_a_key_are_refused_by_the_program_and_by_the_tables() {
    let (_folder, path, mut ledger, reader) = fresh();
    for (id, action, amount) in [
        ("", "charge", 1),
        (" ", "charge", 1),
        ("o-1", "", 1),
        ("o-1", "charge", 0),
        ("o-1", "charge", -1),
    ] {
        let refused = ledger.apply(&order(id, action, amount, "a"), Mode::Atomic);
        assert!(matches!(refused, Err(LedgerError::Invalid { .. })));
    }
    let raw = Connection::open(&path).unwrap();
    for table in [
        "effects", "orders", "balances", "attempts", "claims", "outbox",
    ] {
        let columns: Vec<(String, i64)> = raw
            .prepare(&format!("PRAGMA table_info({table})"))
            .unwrap()
            .query_map([], |row| Ok((row.get(1)?, row.get(3)?)))
            .unwrap()
            .collect::<Result<_, _>>()
            .unwrap();
        for key in ["order_id", "action"] {
            let (_, not_null) = columns.iter().find(|(name, _)| name == key).unwrap();
            assert_eq!(*not_null, 1, "{table}.{key} may be NULL");
        }
    }
    assert_eq!(effects(&reader), 0);
}

/// K: transactions that read before they write take their lock first, so that no writer is turned away.
#[test]
fn writers_that_meet_wait_for_each_other_and_none_is_turned_away() {
    let (_folder, path, _ledger, reader) = fresh();
    std::thread::scope(|scope| {
        for worker in 0..2 {
            let path = &path;
            scope.spawn(move || {
                let mut ledger = Ledger::open(path).unwrap();
                for round in 0..100 {
                    let run = format!("run-{worker}-{round}");
                    ledger
                        .apply(
                            &order(&format!("o-{round}"), "charge", 1, &run),
                            Mode::Atomic,
                        )
                        .unwrap();
                    ledger.claim(&request(&format!("o-{round}"), &run)).unwrap();
                }
            });
        }
    });
    assert_eq!(effects(&reader), 100);
    assert!(reader.verify().unwrap().consistent());
}

/// A CRM in a process of its own.
struct Crm {
    child: Child,
    url: String,
}

impl Crm {
    fn start(folder: &Path) -> Crm {
        let mut child = Command::new(env!("CARGO_BIN_EXE_eventlab"))
            .args([
                "crm",
                "serve",
                "--port",
                "0",
                "--capability",
                "search",
                "--db",
            ])
            .arg(folder.join("crm.db"))
            .stdin(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let mut line = String::new();
        let mut stderr = std::io::BufReader::new(child.stderr.take().unwrap());
        std::io::BufRead::read_line(&mut stderr, &mut line).unwrap();
        let url = line
            .trim()
            .strip_prefix("serving the CRM on ")
            .unwrap()
            .to_owned();
        Crm { child, url }
    }
}

impl Drop for Crm {
    fn drop(&mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }
}

fn ledger_command(db: &Path, name: &str) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_eventlab"));
    command.args(["ledger", name, "--db"]).arg(db);
    command.stdin(Stdio::null());
    command
}

fn deliver(db: &Path, crm: &str, id: &str, run: &str, fault: &str) -> Command {
    let mut command = ledger_command(db, "deliver");
    command.args(["--crm", crm, "--order-id", id, "--amount", "4200"]);
    command.args(["--arrival", "a", "--workflow-uid", run, "--fault", fault]);
    // An answer that does not come is waited for in full.
    let patience = if fault == "crm-hang" { "2000" } else { "30000" };
    command.args(["--crm-timeout-ms", patience, "--lease", "3600"]);
    command.stdout(Stdio::piped()).stderr(Stdio::piped());
    command
}

fn outcome(output: &Output) -> String {
    let line: Value = serde_json::from_slice(&output.stdout).unwrap_or_default();
    line["outcome"].as_str().unwrap_or("none").to_owned()
}

/// Fifty processes of one order, each of which would go wrong at the same point; then the look, and one more retry.
fn round(db: &Path, crm: &str, number: usize, fault: &str) {
    let id = format!("o-{number}");
    let children: Vec<Child> = (0..50)
        .map(|run| {
            deliver(db, crm, &id, &format!("run-{number}-{run}"), fault)
                .spawn()
                .unwrap()
        })
        .collect();
    let of_crm = fault.starts_with("crm-");
    for child in children {
        let output = child.wait_with_output().unwrap();
        let text = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(!text.contains("locked"), "{fault}: {text}");
        let word = outcome(&output);
        assert!(
            ["completed", "already-completed", "busy", "none"].contains(&word.as_str())
                || of_crm && word == "unresolved",
            "{fault}: {word} {text}"
        );
    }
    let reader = Reader::new(db);
    let claim = |reader: &Reader| {
        let claims = reader.claims(0, 1000).unwrap().items;
        claims.into_iter().rfind(|claim| claim.order_id == id)
    };
    let unresolved = of_crm || ["before-write", "after-write"].contains(&fault);
    if fault != "none" {
        let left = if of_crm { "unresolved" } else { "processing" };
        assert_eq!(claim(&reader).unwrap().state, left, "{fault}");
        // Whoever came too late for the CRM has asked it for a fault that nobody met.
        let raw = Connection::open(db.with_file_name("crm.db")).unwrap();
        raw.execute("DELETE FROM faults", []).unwrap();
        let advance = ledger_command(db, "clock")
            .args(["--advance", "7200"])
            .output()
            .unwrap();
        assert!(advance.status.success());
        let late = deliver(db, crm, &id, "late", "none").output().unwrap();
        let expected = if unresolved {
            "unresolved"
        } else {
            "completed"
        };
        assert_eq!(outcome(&late), expected, "{fault}");
        let look = ledger_command(db, "reconcile")
            .args(["--crm", crm])
            .output()
            .unwrap();
        assert!(look.status.success(), "{look:?}");
    }
    let last = deliver(db, crm, &id, "last", "none").output().unwrap();
    let word = outcome(&last);
    assert!(
        ["completed", "already-completed"].contains(&word.as_str()),
        "{fault}: {word}"
    );
    let was_unresolved = reader
        .transitions(0, 1000)
        .unwrap()
        .items
        .iter()
        .any(|row| row.order_id == id && row.state == "unresolved");
    assert_eq!(
        was_unresolved, unresolved,
        "{fault}: an unresolved case was lost, or invented"
    );
    assert_eq!(claim(&reader).unwrap().state, "completed");
}

#[test]
fn rounds_of_fifty_duplicates_have_one_effect_each_wherever_the_winner_dies() {
    // Every named point but `stall`, whose run dies of nothing.
    const FAULTS: [&str; 8] = [
        "none",
        "after-claim",
        "before-write",
        "after-write",
        "crm-before-commit",
        "crm-after-commit",
        "crm-wrong-answer",
        "crm-hang",
    ];
    let rounds: usize = std::env::var("EVENTLAB_LOAD_ROUNDS")
        .ok()
        .and_then(|rounds| rounds.parse().ok())
        .unwrap_or(2);
    // A sample takes faults that leave the outcome open, others in each run of the tests.
    let first = if rounds < FAULTS.len() {
        2 + usize::try_from(std::process::id()).unwrap() % 5
    } else {
        0
    };
    // A ledger of its own every so often: a page of the reader holds all rows of it.
    for block in 0..rounds.div_ceil(8) {
        let folder = tempfile::tempdir().unwrap();
        let db = folder.path().join("ledger.db");
        let crm = Crm::start(folder.path());
        let of_block = (block * 8)..rounds.min(block * 8 + 8);
        for number in of_block.clone() {
            let fault = FAULTS[(number + first) % FAULTS.len()];
            round(&db, &crm.url, number, fault);
        }
        let reader = Reader::new(&db);
        assert_eq!(effects(&reader), of_block.len());
        let verification = reader.verify().unwrap();
        assert!(
            verification.consistent() && verification.repeated.is_empty(),
            "{verification:?}"
        );
        let raw = Connection::open(folder.path().join("crm.db")).unwrap();
        let (entries, orders): (i64, i64) = raw
            .query_row(
                "SELECT count(*), count(DISTINCT order_id) FROM entries",
                [],
                |row| Ok((row.get(0)?, row.get(1)?)),
            )
            .unwrap();
        let expected = i64::try_from(of_block.len()).unwrap();
        assert_eq!((entries, orders), (expected, expected));
    }
}
