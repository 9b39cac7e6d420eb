//! What others read: the bundle for a colleague, JUnit for a CI server, completions and man page for a shell.

use std::fs;

use super::program::{eventlab_inside as eventlab, text};
use eventlab::lab::Catalog;

/// A seed whose fault ends soon.
fn a_seed() -> String {
    let catalog = Catalog::bundled().unwrap();
    let faults = catalog.lab("incident").unwrap().faults.clone().unwrap();
    let seeds = faults.seeds();
    let found = seeds.iter().find(|(_, fault)| *fault == "pattern");
    found.unwrap().0.to_string()
}

#[test]
fn a_session_is_packed_and_shown_elsewhere() {
    let state = tempfile::tempdir().unwrap();
    let seed = a_seed();
    let run = eventlab(
        state.path(),
        &[
            "run", "incident", "--keep", "--seed", &seed, "--format", "junit",
        ],
    );
    assert!(run.status.success(), "{}", text(&run));
    let junit = String::from_utf8(run.stdout.clone()).unwrap();
    for part in [
        "<testsuites name=\"eventlab\"",
        "<testsuite name=\"incident\"",
        "failures=\"0\" ",
        &format!("<property name=\"seed\" value=\"{seed}\"/>"),
        "classname=\"incident.fix\"",
        "\nprobe: created\n",
        "\nseen: applied\n",
    ] {
        assert!(junit.contains(part), "{part}\n{junit}");
    }
    let packed = eventlab(state.path(), &["report", "--bundle", "case.tgz"]);
    assert!(packed.status.success(), "{}", text(&packed));
    let elsewhere = tempfile::tempdir().unwrap();
    let file = elsewhere.path().join("case.tgz");
    fs::rename(state.path().join("case.tgz"), &file).unwrap();
    let file = file.to_str().unwrap();
    let opened = eventlab(elsewhere.path(), &["open", file]);
    let shown = text(&opened);
    assert!(opened.status.success(), "{shown}");
    for part in [
        "Session `embedded`",
        &format!("Incident {seed}: find the broken layer"),
        "### Timeline",
        "incident/found.yaml",
    ] {
        assert!(shown.contains(part), "{part}\n{shown}");
    }
    let manifest = eventlab(
        elsewhere.path(),
        &["open", file, "--manifest", "incident/found.yaml"],
    );
    assert!(
        text(&manifest).contains("kind: Sensor"),
        "{}",
        text(&manifest)
    );
    let own = eventlab(state.path(), &["report", "--format", "json"]);
    let theirs = eventlab(elsewhere.path(), &["open", file, "--format", "json"]);
    assert_eq!(
        String::from_utf8_lossy(&own.stdout),
        String::from_utf8_lossy(&theirs.stdout)
    );
    let left = fs::read_dir(elsewhere.path()).unwrap().count();
    assert_eq!(left, 1, "opening writes nothing");
    let missing = eventlab(elsewhere.path(), &["open", "nowhere.tgz"]);
    assert_eq!(missing.status.code(), Some(2), "{}", text(&missing));
    let cut = &fs::read(file).unwrap()[..500];
    fs::write(elsewhere.path().join("cut.tgz"), cut).unwrap();
    let cut = eventlab(elsewhere.path(), &["open", "cut.tgz"]);
    assert_eq!(cut.status.code(), Some(2), "{}", text(&cut));
    let unwritable = eventlab(state.path(), &["report", "--bundle", "nowhere/case.tgz"]);
    assert_eq!(unwritable.status.code(), Some(3), "{}", text(&unwritable));
}

#[test]
fn junit_tells_a_refuted_check_from_one_that_held() {
    let dir = tempfile::tempdir().unwrap();
    let made = eventlab(dir.path(), &["lab", "new", "mine"]);
    assert!(made.status.success(), "{}", text(&made));
    let lab = dir.path().join("mine/labs/mine.yaml");
    let changed = fs::read_to_string(&lab).unwrap().replace(
        "fate: {stops: filter, reason: mismatch}\n  - name: fix",
        "fate: {stops: filter, reason: bad-pattern}\n  - name: fix",
    );
    fs::write(&lab, changed).unwrap();
    let run = eventlab(
        dir.path(),
        &[
            "--labs", "mine", "run", "mine", "--keep", "--format", "junit",
        ],
    );
    assert_eq!(run.status.code(), Some(1), "{}", text(&run));
    let junit = text(&run);
    for part in [
        "failures=\"1\"",
        "<failure message=\"the filter layer stopped it: mismatch\" type=\"refuted\"/>",
        "\nexpected: stopped at filter: bad pattern\n",
    ] {
        assert!(junit.contains(part), "{part}\n{junit}");
    }
    // A bundle of it is for the colleague who is to help: that it is written is no question of what is proven in it.
    let report = eventlab(dir.path(), &["--labs", "mine", "report"]);
    assert_eq!(report.status.code(), Some(1), "{}", text(&report));
    let bundle = ["--labs", "mine", "report", "--bundle", "case.tgz"];
    let packed = eventlab(dir.path(), &bundle);
    assert!(packed.status.success(), "{}", text(&packed));
    assert!(
        text(&packed).contains("1 of them not finished"),
        "{}",
        text(&packed)
    );
    let opened = eventlab(dir.path(), &["open", "case.tgz"]);
    assert_eq!(opened.status.code(), Some(1), "{}", text(&opened));
}

/// A bundle goes where its name leads, and nothing but a regular file is replaced.
#[test]
fn a_bundle_replaces_no_device_no_link_and_no_folder() {
    use std::os::unix::fs::{FileTypeExt as _, symlink};
    let dir = tempfile::tempdir().unwrap();
    let at = |name: &str| dir.path().join(name);
    let first = eventlab(dir.path(), &["check"]);
    assert!(first.status.success(), "{}", text(&first));
    let pack = |file: &str| eventlab(dir.path(), &["report", "--bundle", file]);
    fs::create_dir(at("below")).unwrap();
    symlink("below/real.tgz", at("link.tgz")).unwrap();
    symlink("/dev/null", at("null")).unwrap();
    // Not there yet, and there.
    for _ in 0..2 {
        let packed = pack("link.tgz");
        assert!(packed.status.success(), "{}", text(&packed));
        assert!(at("link.tgz").is_symlink());
        let opened = eventlab(dir.path(), &["open", "below/real.tgz"]);
        assert!(
            text(&opened).contains("Session `embedded`"),
            "{}",
            text(&opened)
        );
    }
    let packed = pack("null");
    assert!(packed.status.success(), "{}", text(&packed));
    assert!(at("null").is_symlink());
    assert!(
        fs::metadata("/dev/null")
            .unwrap()
            .file_type()
            .is_char_device()
    );
    let refused = pack("below");
    assert_eq!(refused.status.code(), Some(2), "{}", text(&refused));
    assert!(text(&refused).contains("is a folder"), "{}", text(&refused));
    // Into a pipe, with nothing else in it.
    let packed = pack("/dev/stdout");
    assert!(packed.status.success(), "{}", text(&packed));
    fs::write(at("piped.tgz"), &packed.stdout).unwrap();
    let opened = eventlab(dir.path(), &["open", "piped.tgz"]);
    assert!(
        text(&opened).contains("Session `embedded`"),
        "{}",
        text(&opened)
    );
    if fs::metadata("/dev/full").is_ok() {
        symlink("/dev/full", at("full")).unwrap();
        let refused = pack("full");
        assert_eq!(refused.status.code(), Some(3), "{}", text(&refused));
        assert!(at("full").is_symlink());
        assert!(
            fs::metadata("/dev/full")
                .unwrap()
                .file_type()
                .is_char_device()
        );
    }
}

#[test]
fn completions_and_man_pages_name_every_command() {
    let dir = tempfile::tempdir().unwrap();
    for shell in ["bash", "zsh", "fish", "elvish", "powershell"] {
        let made = eventlab(dir.path(), &["completions", shell]);
        assert!(made.status.success(), "{}", text(&made));
        let said = text(&made);
        // Elvish and PowerShell complete names of options, not their values.
        for word in ["explain", "format", "bundle"] {
            assert!(said.contains(word), "{shell}: {word}");
        }
    }
    let man = eventlab(dir.path(), &["man"]);
    let page = text(&man);
    assert!(
        page.contains(".TH eventlab 1") && page.contains("lab"),
        "{page}"
    );
    let pages = eventlab(dir.path(), &["man", "--dir", "pages"]);
    assert!(pages.status.success(), "{}", text(&pages));
    let names: Vec<String> = fs::read_dir(dir.path().join("pages"))
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    for name in ["eventlab.1", "eventlab-run.1", "eventlab-lab-test.1"] {
        assert!(names.iter().any(|known| known == name), "{name}: {names:?}");
    }
    let wrong = eventlab(dir.path(), &["completions", "tcsh"]);
    assert_eq!(wrong.status.code(), Some(2), "{}", text(&wrong));
}
