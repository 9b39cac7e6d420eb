use std::io::Write as _;

use flate2::Compression;
use flate2::write::GzEncoder;
use proptest::prelude::*;
use tar::{Builder, EntryType, Header};

use super::*;
use crate::evidence::journal::Note;
use crate::evidence::testing::LAB;
use crate::evidence::{Fate, Layer, Reason};
use crate::session::Message;
use crate::session::state::tests::{self as testing, Session};

fn entries() -> Vec<Entry> {
    vec![Entry::Note(Note {
        time: Timestamp::UNIX_EPOCH,
        lab: "regex".to_owned(),
        stage: "send".to_owned(),
        attempt: 1,
        topic: "applied".to_owned(),
        text: "Authorization: Bearer abcdefghijklmnop".to_owned(),
    })]
}

fn packed() -> Vec<u8> {
    let mut bytes = Vec::new();
    let manifests = BTreeMap::from([(
        "regex/sensor.yaml".to_owned(),
        "kind: Sensor\n# Authorization: Bearer abcdefghijklmnop\n".to_owned(),
    )]);
    let contents = Contents {
        session: "embedded",
        made: Timestamp::UNIX_EPOCH,
        entries: &entries(),
        checkpoint: None,
        labs: &[],
        manifests: &manifests,
        notes: &[],
    };
    pack(&contents, &mut bytes).unwrap();
    bytes
}

fn open(bytes: &[u8]) -> Result<Bundle, BundleError> {
    Bundle::open(bytes, Limits::default())
}

/// An archive of one entry, whatever its name; `tar` itself would refuse to write some.
fn archive(name: &str, kind: EntryType, size: u64, bytes: &[u8]) -> Vec<u8> {
    let mut header = Header::new_gnu();
    header.set_entry_type(kind);
    header.set_size(size);
    header.set_mode(0o600);
    let field = &mut header.as_old_mut().name;
    field[..name.len()].copy_from_slice(name.as_bytes());
    header.set_cksum();
    let mut tar = Vec::new();
    tar.extend_from_slice(header.as_bytes());
    tar.extend_from_slice(bytes);
    tar.resize(tar.len().next_multiple_of(512) + 1024, 0);
    let mut gzip = GzEncoder::new(Vec::new(), Compression::fast());
    gzip.write_all(&tar).unwrap();
    gzip.finish().unwrap()
}

#[test]
fn what_was_packed_is_read_again_without_its_secrets() {
    let bundle = open(&packed()).unwrap();
    assert_eq!(bundle.head.session, "embedded");
    assert_eq!(bundle.entries.len(), 1);
    let manifest = &bundle.manifests["regex/sensor.yaml"];
    assert!(manifest.starts_with("kind: Sensor"), "{manifest}");
    let all = format!("{:?} {manifest}", bundle.entries);
    assert!(!all.contains("abcdefghijklmnop"), "{all}");
    assert!(bundle.notes.is_empty(), "{:?}", bundle.notes);
    assert_eq!(bundle.report().labs[0].name, "regex");
    assert!(bundle.state().lab().is_none());
}

#[test]
fn paths_that_lead_out_and_entries_that_are_no_files_are_refused() {
    for name in [
        "../evil",
        "/etc/passwd",
        "manifests/../../x",
        "a\nb",
        "manifests/./x/..",
    ] {
        let error = open(&archive(name, EntryType::Regular, 1, b"x")).unwrap_err();
        assert!(matches!(error, BundleError::Refused(_)), "{name}: {error}");
    }
    for kind in [
        EntryType::Symlink,
        EntryType::Link,
        EntryType::Directory,
        EntryType::Fifo,
        EntryType::Char,
    ] {
        let error = open(&archive("bundle.json", kind, 0, b"")).unwrap_err();
        assert!(
            error.to_string().contains("is not a file"),
            "{kind:?}: {error}"
        );
    }
}

#[test]
fn a_bundle_that_is_too_large_or_has_too_many_files_is_refused() {
    let large = archive("manifests/x", EntryType::Regular, 1 << 40, b"x");
    let error = open(&large).unwrap_err().to_string();
    assert!(error.contains("larger than 256 MiB"), "{error}");
    let limits = Limits {
        bytes: 1 << 20,
        files: 3,
    };
    let error = Bundle::open(packed().as_slice(), limits).unwrap_err();
    assert!(error.to_string().contains("more than 3 files"), "{error}");
    let mut bomb = GzEncoder::new(Vec::new(), Compression::best());
    let mut tar = Builder::new(&mut bomb);
    let zeros = vec![0; 8 << 20];
    let mut header = Header::new_gnu();
    header.set_size(zeros.len() as u64);
    tar.append_data(&mut header, "manifests/zeros", zeros.as_slice())
        .unwrap();
    tar.into_inner().unwrap();
    let bomb = bomb.finish().unwrap();
    assert!(bomb.len() < 100_000, "{}", bomb.len());
    let error = Bundle::open(
        bomb.as_slice(),
        Limits {
            bytes: 1 << 20,
            files: 9,
        },
    )
    .unwrap_err();
    assert!(error.to_string().contains("larger than 1 MiB"), "{error}");
}

#[test]
fn a_newer_one_and_one_without_a_head_say_so() {
    let newer = archive("bundle.json", EntryType::Regular, 14, b"{\"version\": 9}");
    assert!(matches!(open(&newer), Err(BundleError::Newer(9))));
    let headless = archive("evidence.jsonl", EntryType::Regular, 1, b"x");
    assert!(
        open(&headless)
            .unwrap_err()
            .to_string()
            .contains("bundle.json")
    );
}

#[test]
fn a_bundle_cut_at_any_byte_is_an_error_or_whole() {
    let bytes = packed();
    for end in 0..bytes.len() {
        // The end of the gzip stream carries nothing but its check sum.
        if let Ok(bundle) = open(&bytes[..end]) {
            assert_eq!(bundle.manifests.len(), 1, "cut at {end}");
        }
    }
}

/// A played session in a bundle, with the checkpoint or without.
fn bundle_of(session: &Session, checkpoint: bool) -> Bundle {
    let kept = session.state.checkpoint();
    let labs = testing::course();
    let contents = Contents {
        session: "embedded",
        made: Timestamp::UNIX_EPOCH,
        entries: &session.runner.journal,
        checkpoint: checkpoint.then_some(&kept),
        labs: &labs,
        manifests: &BTreeMap::new(),
        notes: &["line 7 is damaged".to_owned()],
    };
    let mut bytes = Vec::new();
    pack(&contents, &mut bytes).unwrap();
    open(&bytes).unwrap()
}

fn phase_at(bundle: &Bundle, stage: &str) -> &'static str {
    let labs = testing::course();
    let lab = labs.iter().find(|lab| lab.name == LAB).unwrap();
    let at = lab.stages.iter().position(|one| one.name == stage).unwrap();
    match bundle.state_at(LAB, at).phase() {
        StagePhase::Fresh => "fresh",
        StagePhase::Working { .. } => "working",
        StagePhase::Interrupted { .. } => "interrupted",
        StagePhase::Passed => "passed",
        StagePhase::Failed { .. } => "failed",
        StagePhase::Unproven { .. } => "unproven",
    }
}

/// How the stage `send` is shown once the learner has gone elsewhere, while the session stood there, and without checkpoint.
fn shown(mut session: Session) -> [&'static str; 3] {
    let here = bundle_of(&session, true);
    let state = here.state();
    assert_eq!(state.stage().unwrap().name, "send");
    let bare = bundle_of(&session, false);
    assert_eq!(
        bare.state().stage().unwrap().name,
        "send",
        "what was done last"
    );
    let bare = phase_at(&bare, "send");
    let here = phase_at(&here, "send");
    session.say(Message::GoTo {
        lab: "first-order".to_owned(),
        stage: 0,
    });
    let left = bundle_of(&session, true);
    assert_eq!(left.state().lab().unwrap().name, "first-order");
    [here, phase_at(&left, "send"), bare]
}

/// Every way in which a stage ends is shown as the report tells it: by the last verdicts of its last go.
#[test]
fn a_stage_is_shown_as_it_stands_in_the_report() {
    let at_send = || Session::at("send");
    let mut passed = at_send();
    passed.say(Message::Next);
    assert_eq!(shown(passed), ["passed"; 3]);

    let mut failed = at_send();
    failed.runner.fates.insert("flat".to_owned(), Fate::Applied);
    failed.say(Message::Next);
    assert_eq!(shown(failed), ["failed"; 3]);

    // Tried again, and then as it should be.
    let mut mended = at_send();
    mended.runner.fates.insert("flat".to_owned(), Fate::Applied);
    mended.say(Message::Next);
    mended.runner.fates.clear();
    mended.say(Message::Retry);
    assert_eq!(shown(mended), ["passed"; 3]);

    let mut unseen = at_send();
    unseen.runner.unseen.insert("discarded".to_owned());
    unseen.say(Message::Next);
    assert_eq!(shown(unseen), ["unproven"; 3]);

    // Passed once, and then cut off after something was sent.
    let mut cut = at_send();
    cut.say(Message::Next);
    cut.say(Message::Retry);
    let attempt = cut.state.attempt();
    cut.runner.journal.retain(|entry| {
        !matches!(entry, Entry::Judgement(one) if one.stage == "send" && one.attempt == attempt)
    });
    assert_eq!(phase_at(&bundle_of(&cut, false), "send"), "interrupted");
    let report = bundle_of(&cut, false).report();
    let lab = report.labs.iter().find(|lab| lab.name == LAB).unwrap();
    assert!(
        lab.not_proven
            .iter()
            .any(|open| open.contains("stage `send`"))
    );
}

/// A verdict that was proven when the learner looked again, in the same go.
#[test]
fn a_verdict_that_was_proven_later_is_the_one_that_is_shown() {
    let mut session = Session::at("send");
    session.say(Message::Next);
    let first: Vec<Entry> = session
        .runner
        .journal
        .iter()
        .filter_map(|entry| match entry {
            Entry::Judgement(one) if one.stage == "send" => {
                let mut open = one.clone();
                open.verdict.outcome = Outcome::Unproven;
                Some(Entry::Judgement(open))
            }
            _ => None,
        })
        .collect();
    assert!(!first.is_empty());
    let at = session
        .runner
        .journal
        .iter()
        .position(|entry| matches!(entry, Entry::Judgement(one) if one.stage == "send"));
    session
        .runner
        .journal
        .splice(at.unwrap()..at.unwrap(), first);
    assert_eq!(shown(session), ["passed"; 3]);
}

/// A pod that ended with the program is no failure of the learner, in a bundle either.
#[test]
fn a_go_that_was_cut_off_is_unproven_where_a_lost_pod_looks_like_a_failure() {
    let mut session = Session::at("send");
    let stopped = Fate::Stopped {
        layer: Layer::Run,
        reason: Reason::WorkflowFailed,
    };
    session.runner.fates.insert("nested".to_owned(), stopped);
    session.say(Message::Next);
    assert_eq!(phase_at(&bundle_of(&session, true), "send"), "failed");
    session.cut_off();
    assert_eq!(phase_at(&bundle_of(&session, true), "send"), "unproven");
    session.say(Message::GoTo {
        lab: "first-order".to_owned(),
        stage: 0,
    });
    assert_eq!(phase_at(&bundle_of(&session, true), "send"), "unproven");
}

proptest! {
    #[test]
    fn any_bytes_are_read_or_refused(bytes in proptest::collection::vec(any::<u8>(), 0..400), at in 0_usize..400, with in any::<u8>()) {
        let _ = open(&bytes);
        let mut damaged = packed();
        let length = damaged.len();
        damaged[at % length] = with;
        let _ = open(&damaged);
    }
}

/// What was missing when it was packed is missing in what is shown: the report says so on both sides.
#[test]
fn what_could_not_be_read_of_the_session_is_said_in_its_bundle() {
    let bundle = bundle_of(&Session::at("send"), true);
    let said = "line 7 is damaged".to_owned();
    assert!(bundle.notes.contains(&said), "{:?}", bundle.notes);
    assert!(bundle.report().notes.contains(&said));
}
