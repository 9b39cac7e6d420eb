//! The ledger under real processes: `eventlab ledger …` as pods and people run it.

use std::path::Path;
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

use eventlab::ledger::{Ledger, Reader};
use serde_json::Value;

/// A ledger command on `db`, not started yet.
fn command(subcommand: &str, db: &Path) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_eventlab"));
    command.args(["ledger", subcommand, "--db"]).arg(db);
    command
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    command
}

fn apply(db: &Path, mode: &str, order: &str, amount: &str, workflow: &str) -> Command {
    let mut command = command("apply", db);
    command.args([
        "--mode",
        mode,
        "--order-id",
        order,
        "--amount",
        amount,
        "--workflow-uid",
        workflow,
    ]);
    command.args(["--arrival", &format!("arrival-{workflow}")]);
    command
}

fn finish(child: Child) -> (i32, Value) {
    let output = child.wait_with_output().unwrap();
    let code = output.status.code().unwrap();
    let value = serde_json::from_slice(&output.stdout)
        .unwrap_or_else(|error| panic!("{error}: {}", String::from_utf8_lossy(&output.stderr)));
    (code, value)
}

fn stderr(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

#[test]
fn fifty_processes_at_once_apply_an_order_once() {
    let folder = tempfile::tempdir().unwrap();
    // The file is made by the first of them, under the eyes of the others.
    let db = folder.path().join("ledger.db");
    let children: Vec<Child> = (0..50)
        .map(|n| {
            apply(&db, "atomic", "o-1", "4200", &format!("wf-{n}"))
                .spawn()
                .unwrap()
        })
        .collect();
    let outcomes: Vec<(i32, Value)> = children.into_iter().map(finish).collect();

    assert!(outcomes.iter().all(|(code, _)| *code == 0));
    let applied = outcomes
        .iter()
        .filter(|(_, line)| line["outcome"] == "applied")
        .count();
    assert_eq!(applied, 1);
    let verification = Reader::new(&db).verify().unwrap();
    assert!(verification.consistent());
    assert_eq!((verification.attempts, verification.effects), (50, 1));
}

#[test]
fn fifty_processes_at_once_lose_no_naive_addition() {
    let folder = tempfile::tempdir().unwrap();
    let db = folder.path().join("ledger.db");
    let children: Vec<Child> = (0..50)
        .map(|n| {
            apply(&db, "naive", "o-1", "100", &format!("wf-{n}"))
                .spawn()
                .unwrap()
        })
        .collect();
    assert!(
        children
            .into_iter()
            .map(finish)
            .all(|(code, line)| code == 0 && line["outcome"] == "applied")
    );
    let reader = Reader::new(&db);
    assert_eq!(reader.balances(0, 10).unwrap().items[0].balance_cents, 5000);
    assert!(reader.verify().unwrap().consistent());
}

#[test]
fn check_then_write_races_where_atomic_does_not() {
    let folder = tempfile::tempdir().unwrap();
    let db = folder.path().join("ledger.db");
    drop(Ledger::open(&db).unwrap());
    let mut first = apply(&db, "check-then-write", "o-1", "4200", "wf-1");
    // The first looks and rests; the second looks while it does. A generous rest makes the order certain enough, and
    // the sums must agree whoever comes first.
    let first = first.args(["--pause-ms", "1500"]).spawn().unwrap();
    let second = apply(&db, "check-then-write", "o-1", "4200", "wf-2")
        .args(["--pause-ms", "1500"])
        .spawn()
        .unwrap();
    let outcomes = [finish(first).1, finish(second).1];
    let applied = outcomes
        .iter()
        .filter(|line| line["outcome"] == "applied")
        .count();
    let verification = Reader::new(&db).verify().unwrap();
    assert!(verification.consistent());
    assert_eq!(verification.effects, i64::try_from(applied).unwrap());
    assert_eq!(verification.attempts, 2);
}

#[test]
fn a_kill_leaves_all_of_a_run_or_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let db = folder.path().join("ledger.db");
    drop(Ledger::open(&db).unwrap());
    for round in 0..60u64 {
        let mut child = apply(
            &db,
            "atomic",
            &format!("o-{round}"),
            "100",
            &format!("wf-{round}"),
        )
        .spawn()
        .unwrap();
        std::thread::sleep(Duration::from_micros(round * 150));
        child.kill().unwrap();
        child.wait().unwrap();
    }
    let reader = Reader::new(&db);
    let verification = reader.verify().unwrap();
    assert!(verification.consistent(), "{verification:?}");
    assert_eq!(verification.attempts, verification.effects);
    // Every order can be run to its end afterwards, and is in the ledger once.
    for round in 0..60 {
        let rerun = apply(
            &db,
            "atomic",
            &format!("o-{round}"),
            "100",
            &format!("wf-{round}"),
        )
        .spawn()
        .unwrap();
        assert_eq!(finish(rerun).0, 0);
    }
    let verification = reader.verify().unwrap();
    assert_eq!((verification.effects, verification.repeated.len()), (60, 0));
}

#[test]
fn exit_codes_say_what_happened() {
    let folder = tempfile::tempdir().unwrap();
    let db = folder.path().join("ledger.db");
    let run = |mut command: Command| command.output().unwrap();

    assert_eq!(
        run(apply(&db, "atomic", "o-1", "4200", "a")).status.code(),
        Some(0)
    );
    assert_eq!(
        run(apply(&db, "atomic", "o-1", "4200", "b")).status.code(),
        Some(0)
    );
    let conflict = run(apply(&db, "atomic", "o-1", "4300", "c"));
    assert_eq!(conflict.status.code(), Some(3));
    let line: Value = serde_json::from_slice(&conflict.stdout).unwrap();
    assert_eq!(
        (&line["outcome"], &line["first"]["amount_cents"]),
        (&"conflict".into(), &4200.into())
    );

    for (order, amount) in [
        ("", "1"),
        ("o-1", "0"),
        ("o-1", "-5"),
        ("o-1", "12.50"),
        ("o-1", "99999999999999999999"),
    ] {
        let usage = run(apply(&db, "atomic", order, amount, "a"));
        assert_eq!(
            usage.status.code(),
            Some(64),
            "{order:?} {amount:?}: {}",
            stderr(&usage)
        );
        assert!(usage.stdout.is_empty() && !usage.stderr.is_empty());
    }
    assert_eq!(
        run(apply(&db, "sometimes", "o-1", "1", "a")).status.code(),
        Some(64)
    );
    // Wherever the place is named.
    let place = ["--state-dir", folder.path().to_str().unwrap()];
    for command in [["ledger", "show"], ["crm", "serve"]] {
        for words in [
            [&command[..], &["--bogus"], &place].concat(),
            [&place[..], &command, &["--bogus"]].concat(),
        ] {
            let mut command = Command::new(env!("CARGO_BIN_EXE_eventlab"));
            command.args(&words);
            assert_eq!(run(command).status.code(), Some(64), "{words:?}");
        }
    }

    let nowhere = run(apply(
        &folder.path().join("no/such/ledger.db"),
        "atomic",
        "o-1",
        "1",
        "a",
    ));
    assert_eq!(nowhere.status.code(), Some(1), "{}", stderr(&nowhere));
    assert_eq!(
        run(command("show", &folder.path().join("none.db")))
            .status
            .code(),
        Some(1)
    );
}

#[test]
fn people_can_read_and_verify() {
    let folder = tempfile::tempdir().unwrap();
    let db = folder.path().join("ledger.db");
    for workflow in ["a", "b"] {
        apply(&db, "naive", "o-1", "4200", workflow)
            .output()
            .unwrap();
    }
    let text = |mut command: Command| String::from_utf8(command.output().unwrap().stdout).unwrap();
    assert!(text(command("show", &db)).contains("8400"));
    assert_eq!(text(command("attempts", &db)).lines().count(), 3);
    let verify = text(command("verify", &db));
    assert!(
        verify.starts_with("consistent: 2 attempts, 2 effects, 1 balance"),
        "{verify}"
    );
    assert!(
        verify.contains("o-1 charge was applied 2 times (8400 cents in all)"),
        "{verify}"
    );
    let mut json = command("attempts", &db);
    json.args(["--format", "json"]);
    let rows: Vec<Value> = text(json)
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect();
    assert_eq!(rows[1]["workflow_uid"], "b");
}

#[test]
fn a_served_ledger_shows_the_rows_of_other_processes() {
    let folder = tempfile::tempdir().unwrap();
    let db = folder.path().join("ledger.db");
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .unwrap();
    runtime.block_on(async {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let base = format!("http://{}", listener.local_addr().unwrap());
        let cancel = tokio_util::sync::CancellationToken::new();
        let server = tokio::spawn(eventlab::ledger::serve(
            db.clone(),
            listener,
            cancel.clone(),
        ));
        let get = |path: &str| {
            let url = format!("{base}{path}");
            async move { http_get(&url).await }
        };

        assert_eq!(
            get("/effects").await.1,
            serde_json::json!([]),
            "no file is an empty ledger"
        );
        assert!(!db.exists());
        apply(&db, "atomic", "o-1", "4200", "a").output().unwrap();
        let (status, effects) = get("/effects").await;
        assert_eq!((status, &effects[0]["amount_cents"]), (200, &4200.into()));
        apply(&db, "atomic", "o-1", "4200", "b").output().unwrap();
        let (_, later) = get("/attempts?after=1&limit=5").await;
        assert_eq!(
            (&later[0]["outcome"], &later[0]["seq"]),
            (&"duplicate".into(), &2.into())
        );
        assert_eq!(get("/balances").await.1[0]["balance_cents"], 4200);
        assert_eq!(get("/healthz").await.0, 200);
        assert_eq!(get("/attempts?after=x").await.0, 400);
        assert_eq!(get("/etc/passwd").await.0, 404);

        cancel.cancel();
        server.await.unwrap().unwrap();
    });
}

/// A GET by hand: status and JSON body.
async fn http_get(url: &str) -> (u16, Value) {
    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    let rest = url.strip_prefix("http://").unwrap();
    let (host, path) = rest.split_at(rest.find('/').unwrap());
    let mut stream = tokio::net::TcpStream::connect(host).await.unwrap();
    let request = format!("GET {path} HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n");
    stream.write_all(request.as_bytes()).await.unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).await.unwrap();
    let (head, body) = answer.split_once("\r\n\r\n").unwrap();
    let status = head.split(' ').nth(1).unwrap().parse().unwrap();
    (status, serde_json::from_str(body).unwrap())
}

#[test]
fn serve_ends_on_sigterm() {
    let folder = tempfile::tempdir().unwrap();
    let mut child = command("serve", &folder.path().join("ledger.db"))
        .args(["--port", "0"])
        .spawn()
        .unwrap();
    // It says so on stderr when it is ready to be asked to end.
    let mut line = String::new();
    std::io::BufRead::read_line(
        &mut std::io::BufReader::new(child.stderr.take().unwrap()),
        &mut line,
    )
    .unwrap();
    assert!(line.starts_with("serving ledger"), "{line}");
    let pid = rustix::process::Pid::from_raw(child.id().try_into().unwrap()).unwrap();
    let end = Instant::now() + Duration::from_secs(20);
    rustix::process::kill_process(pid, rustix::process::Signal::TERM).unwrap();
    let status = loop {
        if let Some(status) = child.try_wait().unwrap() {
            break status;
        }
        assert!(Instant::now() < end, "still serving");
        std::thread::sleep(Duration::from_millis(10));
    };
    assert_eq!(status.code(), Some(0));
}

/// A CRM in a process of its own.
struct Crm {
    child: Child,
    url: String,
}

impl Crm {
    fn start(folder: &Path, arguments: &[&str]) -> Crm {
        let mut child = Command::new(env!("CARGO_BIN_EXE_eventlab"))
            .args(["crm", "serve", "--port", "0", "--db"])
            .arg(folder.join("crm.db"))
            .args(arguments)
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

    fn get(&self, path: &str) -> (u16, Value) {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .unwrap();
        runtime.block_on(http_get(&format!("{}{path}", self.url)))
    }

    fn entries(&self) -> usize {
        self.get("/admin/entries").1.as_array().unwrap().len()
    }

    fn deliver(&self, db: &Path, workflow: &str, arguments: &[&str]) -> Output {
        let mut command = command("deliver", db);
        command.args(["--crm", &self.url, "--order-id", "o/1", "--amount", "4200"]);
        command
            .args(["--workflow-uid", workflow, "--arrival", "a-1"])
            .args(arguments);
        command.output().unwrap()
    }
}

impl Drop for Crm {
    fn drop(&mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }
}

fn outcome(output: &Output) -> (Option<i32>, String) {
    let line: Value = serde_json::from_slice(&output.stdout).unwrap_or_default();
    (
        output.status.code(),
        line["outcome"].as_str().unwrap_or_default().to_owned(),
    )
}

fn states(db: &Path) -> Vec<String> {
    Reader::new(db)
        .transitions(0, 100)
        .unwrap()
        .items
        .into_iter()
        .map(|row| row.state)
        .collect()
}

#[test]
fn a_delivery_is_done_once() {
    let folder = tempfile::tempdir().unwrap();
    let (db, crm) = (
        folder.path().join("ledger.db"),
        Crm::start(folder.path(), &[]),
    );
    assert_eq!(
        outcome(&crm.deliver(&db, "wf-1", &[])),
        (Some(0), "completed".into())
    );
    assert_eq!(
        outcome(&crm.deliver(&db, "wf-2", &[])),
        (Some(0), "already-completed".into())
    );
    assert_eq!(
        outcome(&crm.deliver(&db, "wf-3", &["--amount", "1"])).0,
        Some(64),
        "an option comes once"
    );
    assert_eq!(crm.entries(), 1);
    // Without a claim it is done every time.
    assert_eq!(
        outcome(&crm.deliver(&db, "wf-4", &["--manner", "blind"])),
        (Some(0), "completed".into())
    );
    assert_eq!(crm.entries(), 2);
    assert_eq!(states(&db), ["processing", "processing", "completed"]);
}

#[test]
fn a_crash_after_the_write_is_looked_up_and_never_repeated() {
    let folder = tempfile::tempdir().unwrap();
    let (db, crm) = (
        folder.path().join("ledger.db"),
        Crm::start(folder.path(), &["--capability", "search"]),
    );
    use std::os::unix::process::ExitStatusExt;
    let killed = crm.deliver(&db, "wf-1", &["--crash", "after-write"]);
    assert_eq!((killed.status.signal(), crm.entries()), (Some(9), 1));
    assert_eq!(
        outcome(&crm.deliver(&db, "wf-2", &[])),
        (Some(5), "busy".into())
    );
    let clock = command("clock", &db)
        .args(["--advance", "60"])
        .output()
        .unwrap();
    assert_eq!(clock.status.code(), Some(0));
    assert_eq!(
        outcome(&crm.deliver(&db, "wf-2", &[])),
        (Some(4), "unresolved".into())
    );
    assert_eq!(crm.entries(), 1);
    let reconciled = command("reconcile", &db)
        .args(["--crm", &crm.url])
        .output()
        .unwrap();
    assert_eq!(reconciled.status.code(), Some(0), "{}", stderr(&reconciled));
    let line: Value = serde_json::from_slice(&reconciled.stdout).unwrap();
    assert_eq!(
        (&line["state"], &line["detail"]),
        (&"completed".into(), &"found as crm-1".into())
    );
    assert_eq!(
        outcome(&crm.deliver(&db, "wf-3", &[])),
        (Some(0), "already-completed".into())
    );
    assert_eq!(crm.entries(), 1);
    assert_eq!(
        states(&db),
        ["processing", "processing", "unresolved", "completed"]
    );
}

#[test]
fn crashes_before_the_write_lose_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let (db, crm) = (
        folder.path().join("ledger.db"),
        Crm::start(folder.path(), &["--capability", "search"]),
    );
    crm.deliver(&db, "wf-1", &["--crash", "after-claim"]);
    command("clock", &db)
        .args(["--advance", "60"])
        .output()
        .unwrap();
    // Nothing was announced: the next run takes over.
    crm.deliver(&db, "wf-2", &["--crash", "before-write"]);
    assert_eq!(crm.entries(), 0);
    command("clock", &db)
        .args(["--advance", "60"])
        .output()
        .unwrap();
    // The write was announced: nobody knows, until somebody has looked.
    assert_eq!(
        outcome(&crm.deliver(&db, "wf-3", &[])),
        (Some(4), "unresolved".into())
    );
    command("reconcile", &db)
        .args(["--crm", &crm.url])
        .output()
        .unwrap();
    assert_eq!(
        outcome(&crm.deliver(&db, "wf-3", &[])),
        (Some(0), "completed".into())
    );
    assert_eq!(crm.entries(), 1);
}

#[test]
fn a_lost_answer_is_unresolved_and_what_helps_is_the_crm_s_to_offer() {
    for (capability, fault, reconciled, entries) in [
        ("search", "after-commit", Some(0), 1),
        ("search", "wrong-answer", Some(0), 1),
        ("search", "before-commit", Some(0), 0),
        ("search", "hang", Some(0), 1),
        ("neither", "after-commit", Some(4), 1),
    ] {
        let folder = tempfile::tempdir().unwrap();
        let db = folder.path().join("ledger.db");
        let crm = Crm::start(
            folder.path(),
            &["--capability", capability, "--fault", fault],
        );
        // An answer that does not come is waited for in full.
        let patience: &[&str] = if fault == "hang" {
            &["--crm-timeout-ms", "300"]
        } else {
            &[]
        };
        assert_eq!(
            outcome(&crm.deliver(&db, "wf-1", patience)),
            (Some(4), "unresolved".into()),
            "{fault}"
        );
        assert_eq!(crm.entries(), entries, "{fault}");
        let output = command("reconcile", &db)
            .args(["--crm", &crm.url])
            .output()
            .unwrap();
        assert_eq!(
            output.status.code(),
            reconciled,
            "{capability} {fault}: {}",
            stderr(&output)
        );
    }
    // A CRM that knows its keys makes even a blind repetition harmless.
    let folder = tempfile::tempdir().unwrap();
    let db = folder.path().join("ledger.db");
    let crm = Crm::start(
        folder.path(),
        &["--capability", "idempotency", "--fault", "after-commit"],
    );
    assert_eq!(
        outcome(&crm.deliver(&db, "wf-1", &["--manner", "blind"])).0,
        Some(4)
    );
    assert_eq!(
        outcome(&crm.deliver(&db, "wf-2", &["--manner", "blind"])),
        (Some(0), "completed".into())
    );
    assert_eq!(crm.entries(), 1);
    assert_eq!(crm.get("/entries?source_id=x").0, 501);
}

#[test]
fn fifty_deliveries_at_once_write_once() {
    let folder = tempfile::tempdir().unwrap();
    let (db, crm) = (
        folder.path().join("ledger.db"),
        Crm::start(folder.path(), &[]),
    );
    let children: Vec<Child> = (0..50)
        .map(|n| {
            let mut command = command("deliver", &db);
            command.args([
                "--crm",
                &crm.url,
                "--order-id",
                "o-1",
                "--amount",
                "1",
                "--arrival",
                "a",
            ]);
            command
                .args(["--workflow-uid", &format!("wf-{n}")])
                .spawn()
                .unwrap()
        })
        .collect();
    let outcomes: Vec<String> = children
        .into_iter()
        .map(|child| outcome(&child.wait_with_output().unwrap()).1)
        .collect();
    assert_eq!(
        outcomes
            .iter()
            .filter(|outcome| *outcome == "completed")
            .count(),
        1,
        "{outcomes:?}"
    );
    assert!(
        outcomes
            .iter()
            .all(|outcome| ["completed", "already-completed", "busy"].contains(&outcome.as_str()))
    );
    assert_eq!(crm.entries(), 1);
}

#[test]
fn a_crm_that_is_not_there_fails_without_doubt() {
    let folder = tempfile::tempdir().unwrap();
    let db = folder.path().join("ledger.db");
    let url = {
        let crm = Crm::start(folder.path(), &[]);
        crm.url.clone()
    };
    let gone = Crm {
        child: Command::new("/bin/sleep").arg("1000").spawn().unwrap(),
        url,
    };
    assert_eq!(
        outcome(&gone.deliver(&db, "wf-1", &[])),
        (Some(1), "failed".into())
    );
    let bad = Crm {
        child: Command::new("/bin/sleep").arg("1000").spawn().unwrap(),
        url: "https://crm".into(),
    };
    assert_eq!(bad.deliver(&db, "wf-1", &[]).status.code(), Some(64));
}

#[test]
fn a_replay_by_hand_goes_through_the_same_claim() {
    let folder = tempfile::tempdir().unwrap();
    let (db, crm) = (
        folder.path().join("ledger.db"),
        Crm::start(folder.path(), &["--capability", "search"]),
    );
    let replay = |arguments: &[&str]| {
        let mut command = command("replay", &db);
        command.args(["--crm", &crm.url, "--order-id", "o/1", "--by", "dana"]);
        outcome(&command.args(arguments).output().unwrap())
    };
    // Nothing is known of the order: whoever mistypes it hears so, and nothing is written.
    crm.deliver(&db, "wf-0", &["--action", "other"]);
    assert_eq!(replay(&[]).0, Some(64));
    assert_eq!(crm.entries(), 1);
    crm.deliver(&db, "wf-1", &[]);
    assert_eq!(replay(&[]), (Some(0), "already-completed".into()));
    assert_eq!(replay(&["--amount", "1"]), (Some(3), "conflict".into()));
    crm.deliver(&db, "wf-2", &["--action", "call", "--fault", "after-write"]);
    let call = ["--action", "call"];
    assert_eq!(replay(&call), (Some(5), "busy".into()));
    command("clock", &db)
        .args(["--advance", "60"])
        .output()
        .unwrap();
    assert_eq!(replay(&call), (Some(4), "unresolved".into()));
    let entries = crm.entries();
    let mut decide = command("decide", &db);
    decide.args([
        "--order-id",
        "o/1",
        "--action",
        "call",
        "--found",
        "crm-3",
        "--by",
        "dana",
    ]);
    assert_eq!(decide.output().unwrap().status.code(), Some(0));
    assert_eq!(replay(&call), (Some(0), "already-completed".into()));
    assert_eq!(crm.entries(), entries);
    let verified = command("verify", &db).output().unwrap();
    assert_eq!(verified.status.code(), Some(0), "{verified:?}");
}

#[test]
fn what_a_person_gets_wrong_is_said_and_changes_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let (db, crm) = (
        folder.path().join("ledger.db"),
        Crm::start(folder.path(), &["--capability", "search"]),
    );
    crm.deliver(&db, "wf-1", &[]);
    crm.deliver(&db, "wf-2", &["--action", "call", "--fault", "after-write"]);
    let empty = folder.path().join("empty.db");
    std::fs::write(&empty, "").unwrap();
    let none = folder.path().join("none.db");
    let before = (states(&db), crm.entries());
    let of = ["--order-id", "o/1", "--by", "dana"];
    let nobody = ["--order-id", "nope", "--by", "dana"];
    let (found, absent) = (["--found", "crm-9"], ["--absent"]);
    let cases: Vec<(&str, &Path, Vec<&str>, i32, &str)> = vec![
        (
            "decide",
            &db,
            [&nobody[..], &found].concat(),
            64,
            "no claim on order nope notify, and nothing was changed",
        ),
        (
            "decide",
            &db,
            [&of[..], &found].concat(),
            1,
            "is completed, not unresolved",
        ),
        (
            "decide",
            &db,
            [&of[..], &absent, &["--action", "call"]].concat(),
            1,
            "is processing, not unresolved",
        ),
        (
            "decide",
            &db,
            [&of[..], &["--unknown"]].concat(),
            64,
            "--note",
        ),
        (
            "decide",
            &db,
            [&of[..], &found, &absent].concat(),
            64,
            "cannot be used with",
        ),
        ("decide", &db, of.to_vec(), 64, "--found"),
        (
            "decide",
            &db,
            [&of[..], &["--found", ""]].concat(),
            64,
            "reference must not be empty",
        ),
        (
            "decide",
            &db,
            vec!["--order-id", "o/1", "--absent", "--by", ""],
            64,
            "name of the person must not be empty",
        ),
        (
            "replay",
            &db,
            vec!["--crm", &crm.url, "--order-id", "nope"],
            64,
            "--amount makes a new one",
        ),
        (
            "replay",
            &db,
            vec!["--order-id", "o/1"],
            64,
            "name the CRM with --crm URL",
        ),
        ("reconcile", &db, vec!["--crm", "crm"], 64, "http://"),
        (
            "relay",
            &none,
            vec!["--crm", &crm.url],
            1,
            "there is no ledger at",
        ),
        ("clock", &none, vec![], 1, "there is no ledger at"),
        ("clock", &db, vec!["--advance", "-1"], 64, "-1"),
        ("verify", &empty, vec![], 1, "the file has no tables"),
        ("show", folder.path(), vec![], 1, "it is a directory"),
        (
            "claims",
            Path::new(":memory:"),
            vec![],
            1,
            "there is no ledger at",
        ),
    ];
    for (name, file, arguments, code, says) in cases {
        let output = command(name, file).args(&arguments).output().unwrap();
        let told = stderr(&output);
        assert_eq!(
            output.status.code(),
            Some(code),
            "{name} {arguments:?}: {told}"
        );
        assert!(told.contains(says), "{name} {arguments:?}: {told}");
        assert!(output.stdout.is_empty(), "{name} {arguments:?}");
    }
    assert_eq!((states(&db), crm.entries()), before);
    assert!(!none.exists());
    // Somebody who knows better than nobody: the risk first, then what was seen.
    command("clock", &db)
        .args(["--advance", "60"])
        .output()
        .unwrap();
    assert_eq!(
        outcome(&crm.deliver(&db, "wf-3", &["--action", "call"])).0,
        Some(4)
    );
    for (arguments, code) in [
        (&["--unknown", "--note", "may be there"][..], 4),
        (&["--found", "crm-2", "--note", "seen on their screen"], 0),
    ] {
        let decided = command("decide", &db)
            .args([&of[..], &["--action", "call"], arguments].concat())
            .output()
            .unwrap();
        assert_eq!(decided.status.code(), Some(code), "{}", stderr(&decided));
    }
    let last = Reader::new(&db)
        .transitions(0, 100)
        .unwrap()
        .items
        .pop()
        .unwrap();
    assert_eq!(
        last.detail,
        "found at the destination, decided by dana: seen on their screen"
    );
}

#[test]
fn an_outbox_is_relayed_until_it_is_done_and_once() {
    let folder = tempfile::tempdir().unwrap();
    let db = folder.path().join("ledger.db");
    let crm = Crm::start(
        folder.path(),
        &["--capability", "search", "--fault", "before-commit"],
    );
    let mut applied = apply(&db, "atomic", "o-1", "4200", "a");
    applied.args(["--outbox", "notify"]);
    assert_eq!(applied.output().unwrap().status.code(), Some(0));
    let relay = |fault: &str| {
        let mut command = command("relay", &db);
        command.args(["--crm", &crm.url, "--fault", fault]);
        let output = command.output().unwrap();
        (output.status.code(), output.stdout.len())
    };
    let look = || {
        let mut command = command("reconcile", &db);
        command.args(["--crm", &crm.url]);
        command.output().unwrap().status.code()
    };
    // 503 says nothing about the write: it is looked up, and was not there.
    assert_eq!((relay("none").0, crm.entries()), (Some(4), 0));
    assert_eq!(look(), Some(0));
    assert_eq!((relay("crm-after-commit").0, crm.entries()), (Some(4), 1));
    assert_eq!(relay("none").0, Some(4), "nobody has looked");
    assert_eq!(look(), Some(0));
    assert_eq!(relay("none"), (Some(0), 0), "nothing waits any more");
    assert_eq!(crm.entries(), 1);
}
