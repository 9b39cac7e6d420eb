use std::io::Write as _;
use std::os::unix::fs::PermissionsExt as _;

use proptest::prelude::*;

use super::*;
use crate::evidence::journal::{Intent, IntentAction, unresolved};
use crate::evidence::testing::{Request, fates};
use crate::evidence::{Fact, Observation};

const NOW: Timestamp = Timestamp::UNIX_EPOCH;

fn open(dir: &Path) -> Opened {
    SessionFiles::open(dir, NOW).unwrap()
}

fn facts() -> Vec<Fact> {
    Request::new(1, fates().remove(0)).facts()
}

fn intent(id: &str) -> Entry {
    Entry::Intent(Intent {
        time: NOW,
        lab: "filter-path".to_owned(),
        stage: "send".to_owned(),
        attempt: 1,
        id: id.to_owned(),
        action: IntentAction::Send {
            probe: "flat".to_owned(),
        },
    })
}

fn mode(path: &Path) -> u32 {
    fs::metadata(path).unwrap().permissions().mode() & 0o777
}

#[test]
fn everything_is_private() {
    let home = tempfile::tempdir().unwrap();
    let dir = home.path().join("deep/embedded");
    let mut opened = open(&dir);
    opened.files.append(intent("t")).unwrap();
    opened
        .files
        .checkpoint(&crate::session::State::default().checkpoint())
        .unwrap();
    let copies = opened.files.copies();
    copies
        .open("filter-path/sensor.yaml", "kind: Sensor")
        .unwrap();
    assert_eq!(mode(&dir), 0o700);
    assert_eq!(mode(&dir.join("manifests/filter-path")), 0o700);
    for file in [
        JOURNAL,
        LOCK,
        checkpoint::FILE,
        "manifests/filter-path/sensor.yaml",
    ] {
        assert_eq!(mode(&dir.join(file)), 0o600, "{file}");
    }
    fs::set_permissions(&dir, Permissions::from_mode(0o755)).unwrap();
    drop(opened);
    open(&dir);
    assert_eq!(mode(&dir), 0o700, "closed again");
}

#[test]
fn entries_come_back_numbered_and_in_order() {
    let dir = tempfile::tempdir().unwrap();
    let mut opened = open(dir.path());
    let mut written = vec![opened.files.append(intent("t")).unwrap()];
    for fact in facts() {
        written.push(opened.files.append(Entry::Fact(fact)).unwrap());
    }
    drop(opened);
    let opened = open(dir.path());
    assert_eq!(opened.entries, written);
    assert!(opened.notes.is_empty());
    let numbers: Vec<u64> = written
        .iter()
        .filter_map(|entry| match entry {
            Entry::Fact(fact) => Some(fact.seq),
            _ => None,
        })
        .collect();
    assert_eq!(numbers, (2..=written.len() as u64).collect::<Vec<_>>());
    assert_eq!(unresolved(&opened.entries).len(), 1);
}

#[test]
fn the_second_writer_is_told_who_holds_it_and_may_read() {
    let dir = tempfile::tempdir().unwrap();
    let mut first = open(dir.path());
    first.files.append(intent("t")).unwrap();
    let error = SessionFiles::open(dir.path(), NOW).unwrap_err();
    let FilesError::Held { holder, .. } = &error else {
        panic!("{error}");
    };
    assert_eq!(holder.pid, Some(std::process::id()));
    assert!(
        error.to_string().contains("1970-01-01T00:00:00Z"),
        "{error}"
    );

    let view = SessionView::open(dir.path()).unwrap();
    assert_eq!(view.entries.len(), 1);
    assert_eq!(view.holder.as_ref(), Some(holder));
    drop(first);
    assert_eq!(SessionView::open(dir.path()).unwrap().holder, None);
    open(dir.path());
}

#[test]
fn a_torn_last_line_is_cut_off_and_noted() {
    let dir = tempfile::tempdir().unwrap();
    let mut opened = open(dir.path());
    opened.files.append(intent("t")).unwrap();
    drop(opened);
    let path = dir.path().join(JOURNAL);
    let whole = fs::read(&path).unwrap();
    let mut file = fs::OpenOptions::new().append(true).open(&path).unwrap();
    file.write_all(b"{\"fact\":{\"se").unwrap();

    let view = SessionView::open(dir.path()).unwrap();
    assert!(view.notes[0].contains("left out"), "{:?}", view.notes);
    assert_eq!(
        fs::read(&path).unwrap().len(),
        whole.len() + 12,
        "a reader changes nothing"
    );

    let opened = open(dir.path());
    assert!(opened.notes[0].contains("cut off"));
    assert!(
        matches!(&opened.entries[..], [Entry::Intent(_), Entry::Note(note)] if note.topic == "damage")
    );
    drop(opened);
    assert!(open(dir.path()).notes.is_empty());
    assert!(fs::read(&path).unwrap().starts_with(&whole));
}

#[test]
fn damaged_lines_are_named_and_left_alone() {
    let dir = tempfile::tempdir().unwrap();
    drop(open(dir.path()));
    let good = serde_json::to_string(&intent("t")).unwrap();
    let text = format!("{good}\n\u{0}\u{0}\nnot json\n{good}\n{{\"wish\":{{}}}}\n");
    fs::write(dir.path().join(JOURNAL), &text).unwrap();
    let mut opened = open(dir.path());
    assert!(
        opened.notes[0].ends_with("prove nothing: 2, 3, 5"),
        "{:?}",
        opened.notes
    );
    let Entry::Fact(fact) = opened.files.append(Entry::Fact(facts().remove(0))).unwrap() else {
        panic!("no fact");
    };
    assert_eq!(fact.seq, 7, "after five lines and the note");
    assert!(
        fs::read_to_string(dir.path().join(JOURNAL))
            .unwrap()
            .starts_with(&text)
    );
}

#[test]
fn secrets_never_reach_the_disk() {
    let dir = tempfile::tempdir().unwrap();
    let mut opened = open(dir.path());
    opened.files.hide(["s3cr3t-value".to_owned()]);
    let mut fact = facts().remove(0);
    fact.line = "Authorization: Bearer canary-1\nand s3cr3t-value".to_owned();
    fact.observation = Observation::HttpAnswer {
        status: 200,
        body: r#"{"Cookie":["canary-2"]}"#.to_owned(),
    };
    let answered = opened.files.append(Entry::Fact(fact)).unwrap();
    let text = fs::read_to_string(dir.path().join(JOURNAL)).unwrap();
    for secret in ["canary", "s3cr3t-value"] {
        assert!(!text.contains(secret), "{text}");
    }
    drop(opened);
    assert_eq!(open(dir.path()).entries, [answered]);
}

#[test]
fn a_half_written_line_does_not_spoil_the_next() {
    let dir = tempfile::tempdir().unwrap();
    let (mut journal, _, _) = Journal::open(dir.path()).unwrap();
    journal.append(intent("a")).unwrap();
    journal.tear_for_tests(b"{\"intent\":{\"ti");
    journal.append(intent("b")).unwrap();
    let (entries, notes) = read_entries(dir.path()).unwrap();
    assert_eq!(entries, [intent("a"), intent("b")]);
    assert!(notes.is_empty());
}

#[test]
fn a_checkpoint_is_refused_when_newer_and_kept_aside_when_damaged() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join(checkpoint::FILE);
    fs::write(&path, r#"{"version": 9, "anything": true}"#).unwrap();
    let error = SessionFiles::open(dir.path(), NOW).unwrap_err();
    assert!(error.to_string().contains("has version 9"), "{error}");
    assert!(SessionView::open(dir.path()).is_err());

    for round in 1..=2 {
        fs::write(&path, r#"{"version": 1, "written": "#).unwrap();
        let opened = open(dir.path());
        assert_eq!(opened.checkpoint, None);
        assert!(opened.notes[0].contains("kept as"), "{:?}", opened.notes);
        assert!(!path.exists());
        let kept = fs::read_dir(dir.path())
            .unwrap()
            .filter(|file| {
                let name = file.as_ref().unwrap().file_name();
                name.to_string_lossy().contains("damaged-19700101T000000Z")
            })
            .count();
        assert_eq!(kept, round);
    }
}

#[test]
fn leftovers_of_a_kill_are_swept() {
    let dir = tempfile::tempdir().unwrap();
    let litter = dir.path().join(".checkpoint-abc123");
    fs::write(&litter, "half").unwrap();
    open(dir.path());
    assert!(!litter.exists());
}

#[test]
fn a_directory_that_cannot_be_used_says_what_to_do() {
    let home = tempfile::tempdir().unwrap();
    let file = home.path().join("file");
    fs::write(&file, "").unwrap();
    let error = SessionFiles::open(&file, NOW).unwrap_err();
    assert!(error.to_string().contains("--state-dir"), "{error}");
    let error = SessionView::open(&home.path().join("nowhere")).unwrap_err();
    assert!(error.to_string().contains("no such session"), "{error}");
    for (kind, next) in [
        (io::ErrorKind::StorageFull, "free some space"),
        (io::ErrorKind::ReadOnlyFilesystem, "read-only"),
        (io::ErrorKind::PermissionDenied, "owner and mode"),
        (io::ErrorKind::Other, "check the disk"),
    ] {
        let error = FilesError::io("append to", &file, io::Error::from(kind));
        assert!(error.to_string().contains(next), "{error}");
    }
}

#[test]
fn working_copies_keep_what_the_learner_wrote() {
    let dir = tempfile::tempdir().unwrap();
    let opened = open(dir.path());
    let copies = opened.files.copies();
    assert_eq!(copies.read("a/b.yaml").unwrap(), None);
    copies.open("a/b.yaml", "original").unwrap();
    copies.write("a/b.yaml", "edited").unwrap();
    copies.open("a/b.yaml", "original").unwrap();
    assert_eq!(copies.read("a/b.yaml").unwrap().as_deref(), Some("edited"));
    copies.discard("a/b.yaml").unwrap();
    copies.discard("a/b.yaml").unwrap();
    assert_eq!(copies.read("a/b.yaml").unwrap(), None);
    for name in ["../x", "/etc/passwd", "a/../../x", "", "a\0b"] {
        assert!(
            matches!(copies.path(name), Err(FilesError::Name { .. })),
            "{name}"
        );
    }
}

/// What was applied last goes back with the cluster: a text, no text, and what nobody has kept.
#[test]
fn what_was_applied_goes_back_with_a_snapshot() {
    let dir = tempfile::tempdir().unwrap();
    let opened = open(dir.path());
    let copies = opened.files.copies();
    let files = ["lab/a.yaml", "lab/b.yaml"];
    let noted = || files.map(|file| copies.applied(file));
    let of = |texts: [Option<&str>; 2]| texts.map(|text| text.map(str::to_owned));
    copies.keep_applied("lab-0", &files).unwrap();
    copies.note_applied("lab/a.yaml", "original").unwrap();
    copies
        .note_applied("other/c.yaml", "of another lab")
        .unwrap();
    copies.keep_applied("lab-fix", &files).unwrap();
    copies.note_applied("lab/a.yaml", "edited").unwrap();
    copies.note_applied("lab/b.yaml", "edited, too").unwrap();
    copies.keep_applied("lab-report", &files).unwrap();
    for (snapshot, texts) in [
        ("lab-fix", [Some("original"), None]),
        ("lab-report", [Some("edited"), Some("edited, too")]),
        ("lab-0", [None, None]),
        ("lab-report", [Some("edited"), Some("edited, too")]),
        ("lab-unknown", [None, None]),
    ] {
        copies.put_back_applied(snapshot, &files).unwrap();
        assert_eq!(noted(), of(texts), "{snapshot}");
    }
    // A snapshot that is made again holds what is so now, and damage is nothing that was kept.
    copies.keep_applied("lab-report", &files).unwrap();
    copies.note_applied("lab/a.yaml", "later").unwrap();
    copies.put_back_applied("lab-report", &files).unwrap();
    assert_eq!(noted(), of([None, None]));
    copies.keep_applied("lab-report", &files).unwrap();
    copies.note_applied("lab/a.yaml", "later").unwrap();
    copies.keep_applied("lab-report", &files).unwrap();
    // Forgotten with its snapshot, and again where there is none.
    for _ in 0..2 {
        copies.forget_kept("lab-report").unwrap();
        copies.put_back_applied("lab-report", &files).unwrap();
        assert_eq!(noted(), of([None, None]));
    }
    fs::write(dir.path().join("applied-at/lab-fix"), [0; 40]).unwrap();
    copies.note_applied("lab/a.yaml", "later").unwrap();
    copies.put_back_applied("lab-fix", &files).unwrap();
    assert_eq!(noted(), of([None, None]));
    let other = copies.applied("other/c.yaml");
    assert_eq!(other.as_deref(), Some("of another lab"));
    assert!(copies.keep_applied("../out", &files).is_err());
    assert!(copies.put_back_applied("../out", &files).is_err());
    assert!(copies.forget_kept("../out").is_err());
}

proptest! {
    #[test]
    fn any_bytes_are_read_as_a_journal(bytes in prop::collection::vec(any::<u8>(), 0..300)) {
        let dir = tempfile::tempdir().unwrap();
        fs::write(dir.path().join(JOURNAL), &bytes).unwrap();
        let (entries, notes) = read_entries(dir.path()).unwrap();
        prop_assert!(entries.is_empty());
        prop_assert_eq!(notes.is_empty(), bytes.is_empty());
    }
}

#[test]
fn a_checkpoint_cut_at_any_byte_or_filled_with_zeroes_is_kept_aside_and_said() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join(checkpoint::FILE);
    let mut opened = open(dir.path());
    opened
        .files
        .checkpoint(&crate::session::State::default().checkpoint())
        .unwrap();
    drop(opened);
    let whole = fs::read(&path).unwrap();
    let end = whole.trim_ascii_end().len();
    let damaged = (0..end)
        .map(|length| whole[..length].to_vec())
        .chain([vec![0; whole.len()], [&whole[..], b"}"].concat()]);
    for bytes in damaged {
        fs::write(&path, &bytes).unwrap();
        let view = SessionView::open(dir.path()).unwrap();
        assert_eq!(view.checkpoint, None);
        assert_eq!(fs::read(&path).unwrap(), bytes, "a reader changes nothing");
        let opened = open(dir.path());
        assert!(opened.checkpoint.is_none());
        let note = opened.notes.first().unwrap().clone();
        let kept = note.split("kept as ").nth(1).unwrap();
        let kept = kept.split(';').next().unwrap();
        assert_eq!(fs::read(kept).unwrap(), bytes, "{note}");
        assert!(!path.exists());
        drop(opened);
        fs::remove_file(kept).unwrap();
    }
}
