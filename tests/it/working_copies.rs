//! What the learner edits may be anything. What is no manifest is theirs to mend: nothing is applied, nothing is judged, no
//! attempt is used up, and they are told what is wrong in their file.

use std::fs;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::time::{Duration, Instant};

use serde_json::Value;

use super::program::{command, text};
use super::terminal::own_lab;

/// A hang guard, far above what anything here takes.
const PATIENCE: Duration = Duration::from_secs(60);

const NAME: &str = "base/process-order.yaml";

struct Place {
    state: tempfile::TempDir,
    labs: String,
}

impl Place {
    fn new() -> Self {
        let state = tempfile::tempdir().unwrap();
        let labs = own_lab(state.path());
        Self { state, labs }
    }

    fn session(&self) -> PathBuf {
        self.state.path().join("embedded")
    }

    fn copy(&self) -> PathBuf {
        self.session().join("manifests").join(NAME)
    }

    fn command(&self, arguments: &[&str]) -> Command {
        let mut command = command(self.state.path(), &["--labs", &self.labs]);
        command.args(arguments);
        command
    }

    /// Runs it to its end, which must come.
    fn ended(&self, arguments: &[&str], input: &str) -> Output {
        let mut child = self
            .command(arguments)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        child
            .stdin
            .take()
            .unwrap()
            .write_all(input.as_bytes())
            .unwrap();
        let begun = Instant::now();
        while child.try_wait().unwrap().is_none() {
            if begun.elapsed() > PATIENCE {
                child.kill().unwrap();
                panic!("{arguments:?} comes to no end");
            }
            std::thread::sleep(Duration::from_millis(20));
        }
        child.wait_with_output().unwrap()
    }

    fn status(&self) -> (u64, Value) {
        let output = self.ended(&["status", "--format", "json"], "");
        let value: Value = serde_json::from_slice(&output.stdout).unwrap();
        (value["attempt"].as_u64().unwrap(), value["phase"].clone())
    }

    fn journal(&self) -> usize {
        let text = fs::read_to_string(self.session().join("evidence.jsonl")).unwrap_or_default();
        text.lines().count()
    }
}

fn clear(path: &Path) {
    if path.is_dir() {
        fs::remove_dir_all(path).unwrap();
    } else if fs::symlink_metadata(path).is_ok() {
        fs::remove_file(path).unwrap();
    }
}

type Put = Box<dyn Fn(&Path)>;

/// What stands in the copy's place, and the words that must be said of it.
fn wrong() -> Vec<(&'static str, Put, Vec<&'static str>)> {
    let bytes = |bytes: Vec<u8>| -> Put { Box::new(move |path| fs::write(path, &bytes).unwrap()) };
    let words = |text: &str| bytes(text.as_bytes().to_vec());
    let mut bomb = "a0: &a0 [x, x, x, x, x, x, x, x, x, x]\n".to_owned();
    for depth in 1..9 {
        let below = format!("*a{}", depth - 1);
        bomb.push_str(&format!(
            "a{depth}: &a{depth} [{}]\n",
            [below.as_str(); 10].join(", ")
        ));
    }
    let named = |kind: &str| format!("apiVersion: v1\nkind: {kind}\nmetadata: {{name: x}}\n");
    vec![
        (
            "broken",
            words("kind: [a\nb: c\n"),
            vec!["line ", "column "],
        ),
        (
            "no object",
            words("just words"),
            vec!["an object is expected"],
        ),
        (
            "no name",
            words("apiVersion: v1\nkind: ConfigMap\n"),
            vec!["`metadata.name` is missing"],
        ),
        (
            "no kind",
            words("apiVersion: v1\n"),
            vec!["`kind` is missing"],
        ),
        ("unknown kind", words(&named("Nonsense")), vec!["Nonsense"]),
        (
            "elsewhere",
            words("apiVersion: v1\nkind: ConfigMap\nmetadata: {name: x, namespace: other}\n"),
            vec!["namespace other"],
        ),
        (
            "a key twice",
            words("kind: A\nkind: B\n"),
            vec!["there twice", "line 2", "column "],
        ),
        (
            "a bomb",
            bytes(bomb.into_bytes()),
            vec!["aliases", "line ", "column "],
        ),
        ("no text", bytes(vec![0xff, 0xfe, 0x00]), vec!["UTF-8"]),
        ("too long", bytes(vec![b' '; 5 << 20]), vec!["bytes"]),
        (
            "a folder",
            Box::new(|path| fs::create_dir(path).unwrap()),
            vec!["is no file"],
        ),
        (
            "a pipe",
            Box::new(|path| {
                assert!(Command::new("mkfifo").arg(path).status().unwrap().success());
            }),
            vec!["is no file"],
        ),
    ]
}

#[test]
fn what_is_no_manifest_is_a_bad_file_and_nothing_is_judged_by_it() {
    let place = Place::new();
    let first = place.ended(&["check"], "");
    assert!(first.status.success(), "{}", text(&first));
    let (stood, lines) = (place.status(), place.journal());
    // What another program makes of the copy once the stage has passed is not what has passed.
    let own = fs::read_to_string(place.copy()).unwrap();
    fs::write(place.copy(), format!("{own}# mine\n")).unwrap();
    let output = place.ended(&["check"], "");
    let said = text(&output);
    assert!(output.status.success(), "{said}");
    for word in [NAME, "is not applied", "eventlab check --again"] {
        assert!(said.contains(word), "{word}: {said}");
    }
    assert_eq!(place.status(), stood);
    for (what, put, words) in wrong() {
        clear(&place.copy());
        put(&place.copy());
        let output = place.ended(&["check", "--again"], "");
        let said = text(&output);
        assert_eq!(output.status.code(), Some(2), "{what}: {said}");
        let path = place.copy().display().to_string();
        for word in words
            .iter()
            .copied()
            .chain([path.as_str(), "nothing is judged"])
        {
            assert!(said.contains(word), "{what}: {word}: {said}");
        }
        for word in ["refuted", "proven", "Policy", "budget", "the disk"] {
            assert!(!said.contains(word), "{what}: {word}: {said}");
        }
        assert_eq!(place.status(), stood, "{what}");
        assert_eq!(place.journal(), lines, "{what}");
        // The same on the screen's words.
        let output = place.ended(&["--accessible"], "again\nquit\n");
        let said = text(&output);
        assert!(said.contains("nothing is judged"), "{what}: {said}");
        assert_eq!(place.status(), stood, "{what}");
        assert_eq!(place.journal(), lines, "{what}");
    }
    // Mended, it is applied.
    clear(&place.copy());
    let output = place.ended(&["check", "--again"], "");
    let said = text(&output);
    assert!(output.status.success(), "{said}");
    assert!(
        said.contains(&format!("there is no working copy of {NAME}"))
            && said.contains("the lab's own text is applied"),
        "{said}"
    );
    assert!(place.status().0 > stood.0);
}

/// A stage that was never tried stays so.
#[test]
fn a_bad_file_leaves_a_fresh_stage_fresh() {
    let place = Place::new();
    fs::create_dir_all(place.copy().parent().unwrap()).unwrap();
    fs::write(place.copy(), "kind: [\n").unwrap();
    for arguments in [&["check"][..], &["check", "--format", "json"]] {
        let output = place.ended(arguments, "");
        assert_eq!(output.status.code(), Some(2), "{}", text(&output));
        assert_eq!(place.status(), (0, Value::from("fresh")));
    }
}

/// The learner's own link stays one: what is saved goes where it leads.
#[test]
fn a_copy_that_is_a_link_stays_one() {
    let place = Place::new();
    let own = place.state.path().join("mine.yaml");
    fs::create_dir_all(place.copy().parent().unwrap()).unwrap();
    std::os::unix::fs::symlink(&own, place.copy()).unwrap();
    fs::write(&own, "").unwrap();
    let copies = eventlab::session::SessionView::copies(&place.session());
    copies.write(NAME, "kind: A\n").unwrap();
    assert!(place.copy().is_symlink());
    assert_eq!(fs::read_to_string(own).unwrap(), "kind: A\n");
}
