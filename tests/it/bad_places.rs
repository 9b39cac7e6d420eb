//! State directories, ports and clocks that are not as they should be: a clear error, the right exit code, nothing lost.

use super::program::{eventlab, text};
use std::path::Path;
use std::process::Command;

fn journal(state: &Path) -> Vec<String> {
    let text = std::fs::read_to_string(state.join("embedded/evidence.jsonl")).unwrap_or_default();
    text.lines().map(str::to_owned).collect()
}

/// `check` at the course's first stage: one order on its whole way.
fn first_order(state: &Path) {
    let output = eventlab(state, &["check"]);
    assert!(output.status.success(), "{}", text(&output));
}

#[test]
fn a_place_that_takes_no_files_is_named() {
    // Nobody, root included, makes directories here.
    for state in ["/proc/eventlab", "/sys/eventlab"] {
        if Path::new(state).parent().is_some_and(Path::is_dir) {
            let output = eventlab(Path::new(state), &["check"]);
            assert_eq!(output.status.code(), Some(3), "{}", text(&output));
            assert!(text(&output).contains(state), "{}", text(&output));
            // It was to be made: nobody looked for one.
            let output = eventlab(Path::new(state), &["cluster", "start"]);
            assert_eq!(output.status.code(), Some(3), "{}", text(&output));
            assert!(
                !text(&output).contains("no such session") && text(&output).contains("--state-dir"),
                "{}",
                text(&output)
            );
        }
    }
}

/// Every file may grow to a few kilobytes only, as on a disk that fills up at some moment of the run.
#[test]
fn a_disk_that_fills_up_is_named_and_nothing_that_was_written_is_lost() {
    let state = tempfile::tempdir().unwrap();
    first_order(state.path());
    let session = state.path().join("embedded");
    let databases = std::fs::metadata(session.join("cluster.db")).unwrap().len();
    let evidence = session.join("evidence.jsonl");
    // Far longer than any other file, so that it is the one that may not grow.
    let whole = std::fs::read_to_string(&evidence).unwrap();
    let note = whole
        .lines()
        .find(|line| line.contains("\"fact\""))
        .unwrap();
    let note = format!("{note}\n");
    let times = usize::try_from(databases).unwrap() * 8 / note.len();
    std::fs::write(&evidence, format!("{whole}{}", note.repeat(times))).unwrap();
    let before = journal(state.path());
    assert!(before.len() > 10);
    let size = std::fs::metadata(&evidence).unwrap().len();
    // `ulimit -f` counts blocks of 512 or 1024 bytes, and SIGXFSZ is ignored so that the write itself fails.
    let script = format!(
        "trap '' XFSZ; ulimit -f {}; exec \"$0\" --state-dir \"$1\" reset first-order",
        size / 1024
    );
    let output = Command::new("sh")
        .args(["-c", &script, env!("CARGO_BIN_EXE_eventlab")])
        .arg(state.path())
        .output()
        .unwrap();
    let said = text(&output);
    assert!(!said.contains("panicked"), "{said}");
    assert_eq!(output.status.code(), Some(3), "{said}");
    assert!(
        said.contains("space") || said.contains("full") || said.contains("large"),
        "{said}"
    );
    let after = journal(state.path());
    assert_eq!(after[..before.len()], before[..], "what was written stays");
    // With room again it goes on.
    let output = eventlab(state.path(), &["reset", "first-order"]);
    assert!(output.status.success(), "{}", text(&output));
    first_order(state.path());
}

/// Databases hold Secrets and the signing key: nobody else reads them, whatever the caller's umask is.
#[test]
fn everything_of_a_session_is_its_owners_alone() {
    use std::os::unix::fs::MetadataExt as _;
    let state = tempfile::tempdir().unwrap();
    first_order(state.path());
    let mut pending = vec![state.path().join("embedded")];
    while let Some(path) = pending.pop() {
        let metadata = std::fs::symlink_metadata(&path).unwrap();
        if metadata.is_symlink() {
            continue;
        }
        assert_eq!(metadata.mode() & 0o077, 0, "{}", path.display());
        if metadata.is_dir() {
            pending.extend(
                std::fs::read_dir(path)
                    .unwrap()
                    .flatten()
                    .map(|entry| entry.path()),
            );
        }
    }
}

#[test]
fn a_port_that_is_taken_is_named() {
    let state = tempfile::tempdir().unwrap();
    let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let port = taken.local_addr().unwrap().port().to_string();
    let output = eventlab(state.path(), &["cluster", "start", "--port", &port]);
    assert_eq!(output.status.code(), Some(3), "{}", text(&output));
    assert!(text(&output).contains(&port), "{}", text(&output));
}

#[test]
fn damaged_files_are_named_kept_aside_or_left_as_they_are() {
    let state = tempfile::tempdir().unwrap();
    first_order(state.path());
    let session = state.path().join("embedded");
    let facts = journal(state.path()).len();

    std::fs::write(session.join("checkpoint.json"), "{ \"version\": 1, \"lab\"").unwrap();
    let output = eventlab(state.path(), &["check"]);
    assert!(output.status.success(), "{}", text(&output));
    assert!(text(&output).contains("checkpoint"), "{}", text(&output));
    assert!(journal(state.path()).len() > facts, "the journal goes on");

    std::fs::write(session.join("checkpoint.json"), "{\"version\": 999}").unwrap();
    let output = eventlab(state.path(), &["check"]);
    assert_eq!(output.status.code(), Some(3), "{}", text(&output));
    assert!(text(&output).contains("newer"), "{}", text(&output));
    std::fs::remove_file(session.join("checkpoint.json")).unwrap();

    for file in ["bus.db", "cluster.db"] {
        let whole = std::fs::read(session.join(file)).unwrap();
        std::fs::write(session.join(file), vec![7_u8; 8192]).unwrap();
        let output = eventlab(state.path(), &["check"]);
        assert_eq!(output.status.code(), Some(3), "{}", text(&output));
        assert!(text(&output).contains(file), "{}", text(&output));
        assert_eq!(std::fs::read(session.join(file)).unwrap(), vec![7_u8; 8192]);
        std::fs::write(session.join(file), whole).unwrap();
    }
    a_pipe_in_place_of_a_file_is_named(state.path());
}

/// Nobody waits for a pipe that has no other end, whichever of the session's files it stands for.
fn a_pipe_in_place_of_a_file_is_named(state: &Path) {
    let session = state.join("embedded");
    let mut files: Vec<_> = ["", "node", "pki"]
        .iter()
        .flat_map(|folder| std::fs::read_dir(session.join(folder)).unwrap().flatten())
        .map(|entry| entry.path())
        .filter(|path| path.is_file())
        .collect();
    files.extend(["checkpoint.json", "lost", "running.json"].map(|name| session.join(name)));
    assert!(files.len() > 10, "{files:?}");
    for file in files {
        let kept = file.with_extension("kept");
        let was_there = std::fs::rename(&file, &kept).is_ok();
        let made = Command::new("mkfifo").arg(&file).status().unwrap();
        assert!(made.success());
        for command in ["check", "status"] {
            let output = eventlab(state, &[command]);
            let said = text(&output);
            assert_eq!(output.status.code(), Some(3), "{command}: {said}");
            let name = file.file_name().unwrap().to_string_lossy().into_owned();
            assert!(said.contains(&name), "{command} {name}: {said}");
            assert!(said.contains("move it"), "{command} {name}: {said}");
        }
        std::fs::remove_file(&file).unwrap();
        if was_there {
            std::fs::rename(&kept, &file).unwrap();
        }
    }
    let output = eventlab(state, &["check"]);
    assert!(output.status.success(), "{}", text(&output));
}

/// What a message says to do is possible, and it helps.
#[test]
fn what_is_said_of_a_damaged_store_helps() {
    for file in ["bus.db", "cluster.db"] {
        let state = tempfile::tempdir().unwrap();
        first_order(state.path());
        let damaged = state.path().join("embedded").join(file);
        let mut bytes = std::fs::read(&damaged).unwrap();
        for damage in ["no database", "damaged within"] {
            match damage {
                "no database" => bytes.fill(7),
                _ => {
                    bytes = std::fs::read(&damaged).unwrap();
                    bytes[100..].fill(7);
                }
            }
            std::fs::write(&damaged, &bytes).unwrap();
            for command in ["check", "reset"] {
                let mut arguments = vec![command];
                arguments.extend((command == "reset").then_some("first-order"));
                let output = eventlab(state.path(), &arguments);
                let said = text(&output);
                assert_eq!(output.status.code(), Some(3), "{damage}: {said}");
                let advice = format!("{} ", damaged.display());
                assert!(said.contains(&advice), "{damage}: {said}");
                assert!(said.contains("move it away"), "{damage}: {said}");
                for promise in ["reset the session", "restore a snapshot"] {
                    assert!(!said.contains(promise), "{damage}: {said}");
                }
            }
            for name in [file.to_owned(), format!("{file}-wal")] {
                let there = state.path().join("embedded").join(&name);
                if there.exists() {
                    std::fs::rename(&there, state.path().join(name)).unwrap();
                }
            }
            let output = eventlab(state.path(), &["check", "--reapply"]);
            assert!(output.status.success(), "{file}: {}", text(&output));
        }
    }
}

/// A store that is empty, gone or another one is a finding: nothing that was proven over it counts before it is proven again.
#[test]
fn a_store_that_is_lost_is_said_and_what_was_proven_over_it_is_proven_again() {
    let state = tempfile::tempdir().unwrap();
    first_order(state.path());
    let session = state.path().join("embedded");
    // A whole store of another session, and one of an earlier life of this one.
    let elsewhere = tempfile::tempdir().unwrap();
    first_order(elsewhere.path());
    let earlier = tempfile::tempdir().unwrap();
    for file in ["cluster.db", "bus.db"] {
        std::fs::copy(session.join(file), earlier.path().join(file)).unwrap();
    }
    let check = eventlab(state.path(), &["check"]);
    assert!(check.status.success(), "{}", text(&check));
    let name = |file: &Path| file.file_name().unwrap().to_owned();
    let exchange = |file: &Path| {
        std::fs::copy(elsewhere.path().join("embedded").join(name(file)), file).unwrap();
    };
    let go_back = |file: &Path| {
        std::fs::copy(earlier.path().join(name(file)), file).unwrap();
    };
    let status = || text(&eventlab(state.path(), &["status"]));
    assert!(status().contains("passed"), "{}", status());
    let empty = |file: &Path| std::fs::write(file, "").unwrap();
    let remove = |file: &Path| std::fs::remove_file(file).unwrap();
    // Read alone, nothing is changed: every way to lose each of them is told.
    for file in ["cluster.db", "bus.db"] {
        let whole = std::fs::read(session.join(file)).unwrap();
        for (lose, how) in [
            (&empty as &dyn Fn(&Path), "is empty"),
            (&remove, "is not there any more"),
            (&exchange, "is another file"),
            (&go_back, "is another file"),
        ] {
            lose(&session.join(file));
            let said = status();
            assert!(said.contains(&format!("{file} {how}")), "{said}");
            assert!(said.contains("not begun"), "{said}");
            std::fs::write(session.join(file), &whole).unwrap();
        }
    }
    assert!(status().contains("passed"), "{}", status());
    for (file, lose) in [
        ("cluster.db", &empty as &dyn Fn(&Path)),
        ("bus.db", &remove),
        ("bus.db", &exchange),
        ("cluster.db", &go_back),
    ] {
        lose(&session.join(file));
        let lost = eventlab(state.path(), &["check"]);
        assert_eq!(lost.status.code(), Some(3), "{}", text(&lost));
        assert!(text(&lost).contains(file), "{}", text(&lost));
        assert!(text(&lost).contains("check --reapply"), "{}", text(&lost));
        assert!(!text(&lost).contains("order: proven"), "{}", text(&lost));
        // Said once is not settled: the stage stays open until it is proven anew.
        let list = text(&eventlab(state.path(), &["status"]));
        assert!(list.contains("not begun"), "{list}");
        let again = eventlab(state.path(), &["check", "--reapply"]);
        assert!(again.status.success(), "{}", text(&again));
        assert!(text(&again).contains(": proven"), "{}", text(&again));
    }
}

/// What a workload kept in its volume is a store as well: the ledger is what every effect was seen in.
#[test]
fn a_ledger_that_is_lost_is_said_and_what_was_proven_over_it_is_proven_again() {
    let state = tempfile::tempdir().unwrap();
    first_order(state.path());
    let volumes = state.path().join("embedded/volumes");
    let database = || {
        let claims = std::fs::read_dir(volumes.join("eventlab")).unwrap();
        let files = claims.flatten().map(|claim| claim.path().join("ledger.db"));
        let files: Vec<_> = files.filter(|file| file.exists()).collect();
        files[0].clone()
    };
    let all = |_: &Path| std::fs::remove_dir_all(&volumes).unwrap();
    let one = |file: &Path| {
        for end in ["", "-wal", "-shm"] {
            let _ = std::fs::remove_file(format!("{}{end}", file.display()));
        }
    };
    let empty = |file: &Path| {
        one(file);
        std::fs::write(file, "").unwrap();
    };
    let exchange = |file: &Path| {
        one(file);
        let elsewhere = eventlab::ledger::Ledger::open(file).unwrap();
        drop(elsewhere);
    };
    for (lose, how) in [
        (&all as &dyn Fn(&Path), "is not there any more"),
        (&one, "is not there any more"),
        (&empty, "is empty"),
        (&exchange, "is another file"),
    ] {
        lose(&database());
        let lost = eventlab(state.path(), &["check"]);
        assert_eq!(lost.status.code(), Some(3), "{}", text(&lost));
        assert!(text(&lost).contains("ledger.db"), "{}", text(&lost));
        assert!(text(&lost).contains(how), "{}", text(&lost));
        assert!(!text(&lost).contains("order: proven"), "{}", text(&lost));
        let again = eventlab(state.path(), &["check", "--reapply"]);
        assert!(again.status.success(), "{}", text(&again));
        assert!(text(&again).contains(": proven"), "{}", text(&again));
    }
}

/// What was cut off in the list of databases names none that ever was.
#[test]
fn a_list_of_databases_that_was_cut_makes_none_of_them_lost() {
    let state = tempfile::tempdir().unwrap();
    first_order(state.path());
    let list = state.path().join("embedded/node/databases");
    let whole = std::fs::read(&list).unwrap();
    assert!(whole.ends_with(b"\n"), "{whole:?}");
    let named = whole.windows(10).any(|bytes| bytes == b"ledger.db\t");
    assert!(named, "{whole:?}");
    for length in [whole.len() - 1, whole.len() - 5, whole.len() / 2, 1, 0] {
        std::fs::write(&list, &whole[..length]).unwrap();
        let check = eventlab(state.path(), &["check"]);
        assert!(check.status.success(), "{}", text(&check));
        assert!(!text(&check).contains("lost"), "{}", text(&check));
    }
}

/// A start that knows of no session makes the lost store anew: the session hears of it all the same.
#[test]
fn a_loss_is_told_to_the_session_whoever_started_the_cluster_since() {
    let state = tempfile::tempdir().unwrap();
    first_order(state.path());
    let session = state.path().join("embedded");
    std::fs::remove_file(session.join("bus.db")).unwrap();
    for command in [&["cluster", "start", "--detach"][..], &["cluster", "stop"]] {
        let done = eventlab(state.path(), command);
        assert!(done.status.success(), "{}", text(&done));
    }
    assert!(session.join("bus.db").metadata().unwrap().len() > 0);
    let status = text(&eventlab(state.path(), &["status"]));
    assert!(status.contains("bus.db is not there any more"), "{status}");
    let check = eventlab(state.path(), &["check"]);
    assert_eq!(check.status.code(), Some(3), "{}", text(&check));
    assert!(text(&check).contains("bus.db"), "{}", text(&check));
    // The session has noted it; what is open is in its checkpoint.
    let again = eventlab(state.path(), &["check"]);
    assert!(
        !text(&again).contains("is not there any more"),
        "{}",
        text(&again)
    );
    assert!(text(&again).contains("order: proven"), "{}", text(&again));
}

/// The journal's order is by number: lines from a clock of tomorrow do not hide those of today.
#[test]
fn a_clock_that_jumped_back_changes_no_verdict() {
    let state = tempfile::tempdir().unwrap();
    first_order(state.path());
    let path = state.path().join("embedded/evidence.jsonl");
    let tomorrow = years_later(&std::fs::read_to_string(&path).unwrap());
    std::fs::write(&path, tomorrow).unwrap();
    let checkpoint = state.path().join("embedded/checkpoint.json");
    let shifted = years_later(&std::fs::read_to_string(&checkpoint).unwrap());
    std::fs::write(&checkpoint, shifted).unwrap();
    first_order(state.path());
    let output = eventlab(state.path(), &["report", "--format", "json"]);
    let report: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    let attempts = report["labs"][0]["attempts"].as_array().unwrap().clone();
    for attempt in &attempts {
        assert_eq!(attempt["rows"][0]["fate"], "applied", "{attempt}");
    }
}

/// Every year of this century as one that is to come.
fn years_later(text: &str) -> String {
    let year = jiff::Zoned::now().year().to_string();
    text.replace(&format!("{year}-"), "2061-")
}
