//! While the screen is open: other shells, a disk that fills up or is read-only; and what a session finds when it comes
//! back to files that are not as it left them.

use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::Command;

use super::program::{eventlab, text};
use super::terminal::{Session, own_lab};

fn session(state: &Path) -> PathBuf {
    state.join("embedded")
}

/// Lines of the journal; each must be whole.
fn journal(state: &Path) -> Vec<String> {
    let path = session(state).join("evidence.jsonl");
    let text = std::fs::read_to_string(path).unwrap();
    let lines: Vec<String> = text.lines().map(str::to_owned).collect();
    for line in &lines {
        serde_json::from_str::<serde_json::Value>(line).unwrap_or_else(|error| {
            panic!("half a line in the journal: {error}: {line}");
        });
    }
    lines
}

/// Names in the session's folder that begin so.
fn named(state: &Path, start: &str) -> Vec<PathBuf> {
    std::fs::read_dir(session(state))
        .unwrap()
        .flatten()
        .filter(|entry| entry.file_name().to_string_lossy().starts_with(start))
        .map(|entry| entry.path())
        .collect()
}

fn said(session: &Session) -> String {
    String::from_utf8_lossy(&session.raw).into_owned()
}

#[test]
fn other_shells_read_and_writers_are_told_who_holds_the_session() {
    let state = tempfile::tempdir().unwrap();
    let state = state.path();
    let mut screen = Session::start(state, &[]);
    screen.wait_for("Press Enter");
    let pid = screen.child.process_id().unwrap().to_string();

    let list = eventlab(state, &["list"]);
    assert!(
        list.status.success() && text(&list).contains("filter-path"),
        "{}",
        text(&list)
    );
    let status = eventlab(state, &["status"]);
    assert!(status.status.success(), "{}", text(&status));
    assert!(
        text(&status).contains(&format!("process {pid}")),
        "{}",
        text(&status)
    );
    let hint = eventlab(state, &["hint"]);
    assert!(hint.status.success(), "{}", text(&hint));
    assert!(
        text(&hint).contains(&format!("process {pid}")),
        "{}",
        text(&hint)
    );
    // What was not done yet could not be done here.
    let check = eventlab(state, &["check"]);
    assert_eq!(check.status.code(), Some(3), "{}", text(&check));
    assert!(
        text(&check).contains("first-order order"),
        "{}",
        text(&check)
    );
    for writer in [
        &["reset", "first-order"][..],
        &["run", "first-order", "--keep"],
    ] {
        let output = eventlab(state, writer);
        assert_eq!(
            output.status.code(),
            Some(3),
            "{writer:?}: {}",
            text(&output)
        );
        assert!(
            text(&output).contains(&format!("held by process {pid}")),
            "{writer:?}: {}",
            text(&output)
        );
    }

    screen.send("\r");
    screen.wait_for("Succeeded");
    screen.wait_for("passed");
    let check = eventlab(state, &["check"]);
    assert!(check.status.success(), "{}", text(&check));
    assert!(
        text(&check).contains("first-order order: proven"),
        "{}",
        text(&check)
    );
    let report = eventlab(state, &["report"]);
    assert!(
        text(&report).contains("Incident report"),
        "{}",
        text(&report)
    );
    screen.send("q");
    assert_eq!(screen.ended(), 0);

    // Free again: what a reset restores and leaves comes before it is done.
    let reset = eventlab(state, &["reset", "first-order"]);
    assert!(reset.status.success(), "{}", text(&reset));
    let text = text(&reset);
    let place = |part: &str| {
        text.find(part)
            .unwrap_or_else(|| panic!("no {part:?} in {text}"))
    };
    assert!(
        place("restores the objects in the cluster, the ledger and the bus")
            < place("first-order starts over")
    );
    assert!(place("leaves all evidence") < place("first-order starts over"));
}

/// A file system of its own below a folder, gone with it; `None` where this user may not mount one.
struct Mounted {
    folder: tempfile::TempDir,
}

impl Mounted {
    fn small() -> Option<Self> {
        let folder = tempfile::tempdir().unwrap();
        mount(
            &["-t", "tmpfs", "-o", "size=96m,mode=700", "tmpfs"],
            folder.path(),
        )
        .then_some(Self { folder })
    }

    fn path(&self) -> &Path {
        self.folder.path()
    }
}

impl Drop for Mounted {
    fn drop(&mut self) {
        unmount(self.path());
    }
}

fn mount(options: &[&str], at: &Path) -> bool {
    Command::new("mount")
        .args(options)
        .arg(at)
        .output()
        .is_ok_and(|output| output.status.success())
}

fn unmount(path: &Path) {
    let _ = Command::new("umount").arg("-l").arg(path).output();
}

const NO_MOUNT: &str =
    "SKIPPED: no file system can be mounted here, so a full and a read-only one were not tried";

#[test]
fn a_disk_that_fills_up_under_the_screen_is_said_and_nothing_is_half_written() {
    let Some(small) = Mounted::small() else {
        eprintln!("{NO_MOUNT}");
        return;
    };
    let state = small.path();
    let mut screen = Session::start(state, &[]);
    screen.wait_for("Press Enter");
    screen.send("\r");
    screen.wait_for("passed");
    let before = journal(state);

    let filler = state.join("filler");
    let mut file = std::fs::File::create(&filler).unwrap();
    while file.write_all(&[1; 4096]).is_ok() {}
    drop(file);
    // Going on needs a checkpoint, and there is no room for one.
    screen.send("r");
    assert_eq!(screen.ended(), 3, "{}", said(&screen));
    let last = said(&screen);
    assert!(
        last.contains("No space left") && last.contains("free some space"),
        "{last}"
    );
    assert!(!last.contains("panicked"), "{last}");
    let after = journal(state);
    assert_eq!(after[..before.len()], before[..], "what was written stays");

    std::fs::remove_file(&filler).unwrap();
    let mut again = Session::start(state, &[]);
    again.wait_for("stage 1/2");
    again.send("\r");
    again.wait_for("passed");
    again.send("q");
    assert_eq!(again.ended(), 0, "{}", said(&again));
    assert!(
        named(state, ".checkpoint-").is_empty(),
        "nothing unfinished is left"
    );
}

#[test]
fn a_read_only_place_is_said_before_and_while_the_screen_is_open() {
    let Some(small) = Mounted::small() else {
        eprintln!("{NO_MOUNT}");
        return;
    };
    let state = small.path();
    let mut screen = Session::start(state, &[]);
    screen.wait_for("Press Enter");
    screen.send("\r");
    screen.wait_for("passed");
    let shown = state.to_str().unwrap();
    assert!(mount(&["--bind", shown], state), "a bind mount");
    assert!(mount(&["-o", "remount,ro,bind"], state), "read-only");
    screen.send("r");
    assert_eq!(screen.ended(), 3, "{}", said(&screen));
    let last = said(&screen);
    assert!(
        last.contains("Read-only") && last.contains("--state-dir"),
        "{last}"
    );

    let mut refused = Session::start(state, &[]);
    assert_eq!(refused.ended(), 3, "{}", said(&refused));
    assert!(said(&refused).contains("Read-only"), "{}", said(&refused));
    unmount(state);
    journal(state);
    let mut again = Session::start(state, &[]);
    again.wait_for("stage 1/2");
    again.send("q");
    assert_eq!(again.ended(), 0);
}

#[test]
fn a_checkpoint_of_nothing_but_zeros_is_said_on_the_screen_and_kept() {
    let state = tempfile::tempdir().unwrap();
    let state = state.path();
    assert!(eventlab(state, &["check"]).status.success());
    let path = session(state).join("checkpoint.json");
    let zeros = vec![0; usize::try_from(std::fs::metadata(&path).unwrap().len()).unwrap()];
    std::fs::write(&path, &zeros).unwrap();
    let facts = journal(state).len();

    let mut screen = Session::start(state, &[]);
    screen.wait_for("the checkpoint was damaged");
    screen.send("q");
    assert_eq!(screen.ended(), 0);
    let kept = named(state, "checkpoint.json.damaged-");
    assert_eq!(kept.len(), 1, "{kept:?}");
    assert_eq!(std::fs::read(&kept[0]).unwrap(), zeros);
    assert!(journal(state).len() >= facts);
}

#[test]
fn a_checkpoint_of_other_labs_is_said_and_kept_and_its_progress_stays() {
    let state = tempfile::tempdir().unwrap();
    let state = state.path();
    assert!(eventlab(state, &["check"]).status.success());
    let before = std::fs::read(session(state).join("checkpoint.json")).unwrap();
    let labs = own_lab(state);

    let mut screen = Session::start(state, &["--labs", &labs]);
    screen.wait_for("there is no lab `first-order` any more");
    let shown = screen.screen();
    let said = shown.matches("there is no lab").count();
    assert_eq!(said, 1, "it is said once:\n{shown}");
    screen.send("e");
    screen.wait_for("Before it is applied");
    screen.send("q");
    screen.wait_gone("Before it is applied");
    screen.send("q");
    assert_eq!(screen.ended(), 0);
    let kept = named(state, "checkpoint.json.other-labs-");
    assert_eq!(kept.len(), 1, "{kept:?}");
    assert_eq!(std::fs::read(&kept[0]).unwrap(), before);

    // Back with the labs of before: what was proven counts, and it is the evidence that says so.
    let list = eventlab(state, &["list", "--format", "json"]);
    assert!(list.status.success(), "{}", text(&list));
    let status = eventlab(state, &["status"]);
    assert!(
        !text(&status).contains("does not count"),
        "{}",
        text(&status)
    );
    let journal = session(state).join("evidence.jsonl");
    std::fs::remove_file(journal).unwrap();
    let status = eventlab(state, &["status"]);
    assert!(
        text(&status).contains("stage `order` of first-order does not count as passed any more"),
        "{}",
        text(&status)
    );
}

#[test]
fn a_bundle_is_shown_on_the_screen_and_nothing_can_be_done_in_it() {
    let state = tempfile::tempdir().unwrap();
    let elsewhere = tempfile::tempdir().unwrap();
    assert!(eventlab(state.path(), &["check"]).status.success());
    let bundle = state.path().join("case.tgz");
    let bundle = bundle.to_str().unwrap();
    let packed = eventlab(state.path(), &["report", "--bundle", bundle]);
    assert!(packed.status.success(), "{}", text(&packed));

    let mut screen = Session::start(elsewhere.path(), &["open", bundle]);
    screen.wait_for("read-only");
    screen.wait_for("Incident report");
    screen.wait_for("Succeeded");
    screen.send("1");
    screen.wait_for("[evidence]");
    screen.wait_for("[ledger] effect 1: order first-1");
    screen.send("o");
    screen.wait_for("y copies");
    screen.send("\x1b");
    for key in ["\r", "e", "a", "r", "R"] {
        screen.send(key);
        screen.wait_for("this is a copy");
        screen.send("k");
        screen.wait_gone("this is a copy");
    }
    screen.send("b");
    screen.wait_for("Each is shown as it was left");
    screen.send("\x1b");
    screen.wait_gone("Each is shown as it was left");
    for (key, part) in [
        ("2", "logs are not kept"),
        ("4", "rows that this lab has seen"),
        ("7", "how the gate stood"),
        ("8", "Incident report"),
    ] {
        screen.send(key);
        screen.wait_for(part);
    }
    screen.send("q");
    assert_eq!(screen.ended(), 0, "{}", said(&screen));
    assert!(
        std::fs::read_dir(elsewhere.path())
            .unwrap()
            .next()
            .is_none(),
        "nothing is written to look at it"
    );
}
