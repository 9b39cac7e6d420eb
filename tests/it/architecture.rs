//! The house: arrows (`use crate::…`) go down only, and borders hold.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

/// From the top to the bottom.
const HOUSE: [&str; 14] = [
    "cli", "tui", "report", "runner", "session", "lab", "evidence", "cluster", "lint", "embedded",
    "sensor", "ledger", "kinds", "words",
];

fn sources(folder: &Path) -> Vec<(PathBuf, String)> {
    let mut files = Vec::new();
    let mut pending = vec![folder.to_owned()];
    while let Some(folder) = pending.pop() {
        for entry in std::fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                pending.push(path);
            } else if path.extension().is_some_and(|extension| extension == "rs") {
                let text = std::fs::read_to_string(&path).unwrap();
                files.push((path, text));
            }
        }
    }
    files
}

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("src")
}

/// What `crate::` leads to in a text, with or without `use`.
fn arrows(text: &str) -> Vec<String> {
    let mut targets = Vec::new();
    for (place, _) in text.match_indices("crate::") {
        let rest = &text[place + "crate::".len()..];
        let names: Vec<&str> = match rest.strip_prefix('{') {
            Some(list) => list
                .split('}')
                .next()
                .unwrap_or_default()
                .split(',')
                .map(str::trim)
                .collect(),
            None => vec![rest],
        };
        targets.extend(names.into_iter().map(|name| {
            name.chars()
                .take_while(|character| character.is_alphanumeric() || *character == '_')
                .collect::<String>()
        }));
    }
    targets
}

fn room(path: &Path) -> String {
    let relative = path.strip_prefix(root()).unwrap();
    relative
        .components()
        .next()
        .unwrap()
        .as_os_str()
        .to_string_lossy()
        .trim_end_matches(".rs")
        .to_owned()
}

#[test]
fn arrows_go_down_only() {
    let floor: BTreeMap<&str, usize> = HOUSE
        .iter()
        .enumerate()
        .map(|(floor, room)| (*room, floor))
        .collect();
    let mut wrong = Vec::new();
    for (path, text) in sources(&root()) {
        let room = room(&path);
        if room == "lib" || room == "main" {
            continue;
        }
        let from = floor
            .get(room.as_str())
            .unwrap_or_else(|| panic!("{room} is not in the house"));
        for target in arrows(&text) {
            match floor.get(target.as_str()) {
                Some(to) if to >= from => {}
                Some(_) => wrong.push(format!("{} uses crate::{target}", path.display())),
                None => wrong.push(format!(
                    "{} uses crate::{target}, which is not in the house",
                    path.display()
                )),
            }
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
}

#[test]
fn sensor_and_evidence_do_no_io() {
    for room in ["sensor", "evidence"] {
        for (path, text) in sources(&root().join(room)) {
            if path.to_string_lossy().contains("test") {
                continue;
            }
            let code = text.split("#[cfg(test)]").next().unwrap();
            for word in [
                "tokio::",
                "std::fs",
                "kube::",
                "reqwest",
                "rusqlite",
                "std::net",
                "std::process",
            ] {
                assert!(!code.contains(word), "{} uses {word}", path.display());
            }
        }
    }
}

/// What a command prints is kept track of in one place; `println!` and `eprintln!` would end in a panic besides.
#[test]
fn commands_write_in_one_place() {
    for (path, text) in sources(&root().join("cli")) {
        let name = path.file_name().unwrap().to_string_lossy().into_owned();
        // A workload writes as its container does.
        if name == "output.rs" || name == "pod.rs" {
            continue;
        }
        for word in [
            "print!(",
            "println!(",
            "stdout().lock()",
            "writeln!(std::io",
            "write_all(&mut std::io",
        ] {
            assert!(!text.contains(word), "{} uses {word}", path.display());
        }
    }
}

#[test]
fn controllers_and_services_reach_the_api_by_client_only() {
    for room in ["controllers", "services", "node"] {
        for (path, text) in sources(&root().join("embedded").join(room)) {
            for word in ["api::store", "ApiServer", "api::server"] {
                assert!(
                    !text.contains(word),
                    "{} reaches into {word}",
                    path.display()
                );
            }
        }
    }
}

#[test]
fn nobody_asks_for_panics() {
    for (path, text) in sources(&root()) {
        if path.to_string_lossy().contains("tests") {
            continue;
        }
        let code = text.split("#[cfg(test)]").next().unwrap();
        for word in ["todo!(", "unimplemented!(", ".unwrap()"] {
            assert!(!code.contains(word), "{} has {word}", path.display());
        }
    }
}
