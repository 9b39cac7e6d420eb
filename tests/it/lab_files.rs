//! Lab files: the bundled ones load, and what is wrong in a file is named.

use std::collections::BTreeSet;
use std::path::Path;

use eventlab::lab::{Catalog, LabError, Stage, StageKind};

fn folder_with(lab: &str) -> tempfile::TempDir {
    let dir = tempfile::tempdir().unwrap();
    std::fs::write(dir.path().join("own.yaml"), lab).unwrap();
    dir
}

fn bundled_text(name: &str) -> String {
    std::fs::read_to_string(
        Path::new(env!("CARGO_MANIFEST_DIR"))
            .join("labs")
            .join(name),
    )
    .unwrap()
}

#[test]
fn bundled_labs_load_in_course_order() {
    let catalog = Catalog::bundled().unwrap();
    let names: Vec<_> = catalog.labs().iter().map(|lab| lab.name.clone()).collect();
    assert_eq!(names[0], "first-order");
    for name in ["readiness", "filter-path", "duplicates"] {
        assert!(names.contains(&name.to_owned()), "{name} is missing");
    }
}

#[test]
fn every_file_of_the_folders_is_bundled() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let mut files = BTreeSet::new();
    let mut pending = vec![root.join("manifests")];
    while let Some(dir) = pending.pop() {
        for entry in std::fs::read_dir(dir).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                pending.push(path);
            } else {
                files.insert(
                    path.strip_prefix(root.join("manifests"))
                        .unwrap()
                        .to_string_lossy()
                        .into_owned(),
                );
            }
        }
    }
    let catalog = Catalog::bundled().unwrap();
    for file in &files {
        assert!(catalog.manifest(file).is_ok(), "{file} is not compiled in");
    }
    let labs = std::fs::read_dir(root.join("labs"))
        .unwrap()
        .filter(|entry| {
            entry
                .as_ref()
                .unwrap()
                .path()
                .extension()
                .is_some_and(|e| e == "yaml")
        })
        .count();
    assert_eq!(labs, catalog.labs().len());
}

#[test]
fn an_unknown_key_is_refused_with_its_place() {
    let text = bundled_text("readiness.yaml")
        .replace("    kind: read\n", "    kind: read\n    colour: red\n");
    let error = Catalog::folder(folder_with(&text).path()).unwrap_err();
    let text = error.to_string();
    assert!(matches!(error, LabError::Format { .. }), "{text}");
    assert!(text.contains("colour") && text.contains("line"), "{text}");
}

#[test]
fn broken_yaml_is_refused_with_line_and_column() {
    let error = Catalog::folder(folder_with("name: [unclosed\ntitle: x").path())
        .unwrap_err()
        .to_string();
    assert!(
        error.contains("line") && error.contains("column"),
        "{error}"
    );
}

#[test]
fn references_that_lead_nowhere_are_named() {
    for (from, to, expected) in [
        (
            "readiness/sensor.yaml",
            "readiness/nowhere.yaml",
            "no manifest `readiness/nowhere.yaml`",
        ),
        (
            "predicts: early",
            "predicts: nowhere",
            "names no stage with probes",
        ),
        (
            "      probe: early\n",
            "      probe: nobody\n",
            "names no probe `nobody`",
        ),
        (
            "          right: true\n",
            "          because: x\n",
            "exactly one cause must be right",
        ),
        (
            "fails: {gate: no-subscribed-line}",
            "fails: {probe: proven, observed: applied}",
            "nothing would fail",
        ),
    ] {
        let text = bundled_text("readiness.yaml").replace(from, to);
        let error = Catalog::folder(folder_with(&text).path())
            .unwrap_err()
            .to_string();
        assert!(error.contains(expected), "{from} -> {to}: {error}");
    }
}

#[test]
fn checks_that_could_not_hold_are_named() {
    for (from, to, expected) in [
        (
            "verb: get, resource: secrets",
            "verb: '*', resource: secrets",
            "must name one account, verb and resource",
        ),
        (
            "{access: {account: order-runner, verb: patch, resource: pods}}",
            "{access: {account: nobody, verb: patch, resource: pods}}",
            "names no access check `nobody patch pods`",
        ),
        (
            "{stage: half, probe: order}",
            "{stage: run, probe: order}",
            "names no probe `order` of an earlier stage `run`",
        ),
        (
            "    gate: open\n    fix:\n",
            "    gate: open\n    gate-fails: invalid-sensor\n    fix:\n",
            "a fix is to be live",
        ),
        (
            "verb: list, resource: workflows, group: argoproj.io, allowed: false",
            "verb: create, resource: workflows, group: argoproj.io, allowed: false",
            "is there twice",
        ),
        ("allowed: true}", "allowed: true, colour: red}", "colour"),
    ] {
        let original = bundled_text("rbac.yaml");
        let text = original.replace(from, to);
        assert_ne!(text, original, "{from}");
        let error = Catalog::folder(folder_with(&text).path())
            .unwrap_err()
            .to_string();
        assert!(error.contains(expected), "{from} -> {to}: {error}");
    }
    let text = bundled_text("operator.yaml").replace(
        "    gate: open\n    gate-fails",
        "    gate: intake\n    gate-fails",
    );
    let error = Catalog::folder(folder_with(&text).path()).unwrap_err();
    assert!(error.to_string().contains("looks at the Sensor"), "{error}");
}

#[test]
fn the_guided_course_is_there_in_its_order() {
    let catalog = Catalog::bundled().unwrap();
    for name in eventlab::lab::GUIDE {
        assert!(catalog.lab(name).is_ok(), "{name} is missing");
    }
    let order: Vec<_> = eventlab::lab::COURSE
        .iter()
        .map(|(name, _)| *name)
        .filter(|name| eventlab::lab::GUIDE.contains(name))
        .collect();
    assert_eq!(order, eventlab::lab::GUIDE);
}

#[test]
fn a_lab_of_the_course_that_is_not_there_says_so() {
    let text = bundled_text("first-order.yaml");
    let catalog = Catalog::folder(folder_with(&text).path()).unwrap();
    assert!(matches!(
        catalog.lab("incident"),
        Err(LabError::NotYet { .. })
    ));
    assert!(matches!(
        catalog.lab("nonsense"),
        Err(LabError::Unknown { .. })
    ));
}

/// All labs share one ledger: an order id of two labs would make the second a duplicate, whichever fix was tried.
#[test]
fn no_two_labs_send_the_same_order() {
    let catalog = Catalog::bundled().unwrap();
    let mut owners = std::collections::BTreeMap::new();
    for lab in catalog.labs().iter() {
        for probe in lab.stages.iter().flat_map(|stage| &stage.probes) {
            let Some(id) = probe
                .body
                .split("\"orderId\":\"")
                .nth(1)
                .and_then(|rest| rest.split('"').next())
            else {
                continue;
            };
            let owner = owners.entry(id.to_owned()).or_insert(&lab.name);
            assert_eq!(*owner, &lab.name, "order {id}");
        }
    }
}

/// Nothing is sent in a lab that the learner has not predicted first; a fix is its own prediction. Where chance decides
/// about every request, there is nothing to predict; the matrix and the drill ask for something else.
#[test]
fn every_send_is_predicted_first() {
    let catalog = Catalog::bundled().unwrap();
    for lab in catalog.labs().iter() {
        if lab.intro || lab.matrix || lab.faults.is_some() {
            continue;
        }
        let chance = |stage: &Stage| stage.probes.iter().all(|probe| !probe.or.is_empty());
        for stage in lab
            .stages
            .iter()
            .filter(|stage| stage.kind == StageKind::Send && !chance(stage))
        {
            let predicted = lab
                .stages
                .iter()
                .take_while(|other| other.name != stage.name)
                .any(|other| other.predicts.as_deref() == Some(&stage.name));
            assert!(predicted, "{}: {}", lab.name, stage.name);
        }
    }
}
