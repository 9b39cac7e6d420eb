//! The Dockerfile, read as `docker build` reads it: what it copies is there and is all that the program is built from, and what
//! it leaves runs as the manifests expect.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

fn root() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR"))
}

fn read(path: impl AsRef<Path>) -> String {
    let path = root().join(path);
    std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// Instructions, each with its arguments; continued lines are joined.
fn instructions() -> Vec<(String, String)> {
    let text = read("Dockerfile").replace("\\\n", " ");
    let lines = text.lines().map(str::trim);
    lines
        .filter(|line| !line.is_empty() && !line.starts_with('#'))
        .filter_map(|line| line.split_once(' '))
        .map(|(word, rest)| (word.to_owned(), rest.trim().to_owned()))
        .collect()
}

/// What is copied from this repository.
fn copied() -> BTreeSet<String> {
    instructions()
        .iter()
        .filter(|(word, rest)| word == "COPY" && !rest.starts_with("--from="))
        .flat_map(|(_, rest)| {
            let mut words: Vec<String> = rest.split_whitespace().map(str::to_owned).collect();
            words.pop();
            words
        })
        .collect()
}

fn rust_files(folder: &Path, found: &mut Vec<PathBuf>) {
    for entry in std::fs::read_dir(folder).unwrap().flatten() {
        let path = entry.path();
        if path.is_dir() {
            rust_files(&path, found);
        } else if path.extension().is_some_and(|end| end == "rs") {
            found.push(path);
        }
    }
}

#[test]
fn everything_that_the_program_is_built_from_is_copied() {
    let copied = copied();
    let ignored = read(".dockerignore");
    for path in &copied {
        assert!(
            root().join(path).exists(),
            "{path} is copied and is not there"
        );
        assert!(
            !ignored.lines().any(|line| line.trim() == path),
            "{path} is ignored"
        );
    }
    let mut files = Vec::new();
    rust_files(&root().join("src"), &mut files);
    for file in files {
        let text = std::fs::read_to_string(&file).unwrap();
        for rest in text
            .split("include_str!(")
            .skip(1)
            .chain(text.split("include_bytes!(").skip(1))
        {
            let Some(name) = rest
                .trim_start()
                .strip_prefix('"')
                .and_then(|rest| rest.split('"').next())
            else {
                continue;
            };
            let path = file.parent().unwrap().join(name).canonicalize().unwrap();
            let inside = path
                .strip_prefix(root().canonicalize().unwrap())
                .unwrap()
                .to_owned();
            let top = inside
                .components()
                .next()
                .unwrap()
                .as_os_str()
                .to_string_lossy()
                .into_owned();
            assert!(
                copied.contains(&top),
                "{} includes {}, which is not copied",
                file.display(),
                inside.display()
            );
        }
    }
    // Targets that Cargo.toml names must be there, or cargo refuses the manifest.
    for needed in ["Cargo.toml", "Cargo.lock", "src", "benches", "tests"] {
        assert!(copied.contains(needed), "{needed}");
    }
}

#[test]
fn it_runs_without_root_without_a_shell_and_on_the_library_it_was_linked_with() {
    let all = instructions();
    let of = |word: &str| -> Vec<&str> {
        let found = all.iter().filter(|(known, _)| known == word);
        found.map(|(_, rest)| rest.as_str()).collect()
    };
    let arguments = of("ARG");
    let base = |name: &str| {
        let found = arguments
            .iter()
            .find_map(|one| one.strip_prefix(name)?.strip_prefix('='));
        found.unwrap().to_owned()
    };
    let by_digest = |image: String| -> String {
        let (name, digest) = image.split_once("@sha256:").unwrap();
        assert!(
            digest.len() == 64 && digest.bytes().all(|byte| byte.is_ascii_hexdigit()),
            "{image}"
        );
        name.to_owned()
    };
    let (rust, runtime) = (by_digest(base("RUST")), by_digest(base("BASE")));
    // Both are Debian 12: the binary needs a C library that is as new as the one it was linked with.
    assert!(
        rust.ends_with("-bookworm") && runtime.contains("debian12"),
        "{rust} {runtime}"
    );
    let wanted = read("Cargo.toml");
    let wanted = wanted
        .lines()
        .find_map(|line| line.strip_prefix("rust-version = "))
        .unwrap();
    assert!(
        rust.contains(&format!(":{}", wanted.trim_matches('"'))),
        "{rust} {wanted}"
    );
    assert!(!rust.ends_with(":latest") && !runtime.ends_with(":latest"));
    assert!(runtime.contains("distroless"), "{runtime}");
    assert_eq!(of("USER"), ["65532:65532"]);
    assert_eq!(of("ENTRYPOINT"), ["[\"/eventlab\"]"]);
    // After the last FROM nothing is run: there is no shell to run it.
    let last = all.iter().rposition(|(word, _)| word == "FROM").unwrap();
    assert!(all[last..].iter().all(|(word, _)| word != "RUN"));
    let build = of("RUN").join(" ");
    assert!(
        build.contains("--locked") && build.contains("--release"),
        "{build}"
    );
}
