//! What a container's paths mean on the host.
//!
//! A path below a mount is the volume's; any other one is in the container's own root, which is an empty folder.

use std::path::{Path, PathBuf};

/// Options of the workload's commands whose value is a path. Other arguments are text, whatever they look like: an
/// order id may well begin with a slash.
const PATH_OPTIONS: [&str; 1] = ["--db"];

/// One volume as a container sees it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Mount {
    /// Absolute and normal.
    pub path: String,
    pub host: PathBuf,
}

/// All mounts of a container and its empty root.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Mounts {
    mounts: Vec<Mount>,
    root: PathBuf,
}

impl Mounts {
    pub(super) fn new(mut mounts: Vec<Mount>, root: PathBuf) -> Mounts {
        // The longest path first: it is the one that a path below it is in.
        mounts.sort_by_key(|mount| std::cmp::Reverse(mount.path.len()));
        Mounts { mounts, root }
    }

    /// The host path of a path in the container; a relative one counts from `/`.
    pub(super) fn resolve(&self, path: &str) -> PathBuf {
        let path = normalize(path);
        for mount in &self.mounts {
            if let Some(rest) = below(&path, &mount.path) {
                return join(&mount.host, rest);
            }
        }
        join(&self.root, &path)
    }

    /// Arguments of a workload with the values of path options resolved.
    pub(super) fn arguments(&self, words: &[String]) -> Vec<std::ffi::OsString> {
        let mut is_path = false;
        let mut resolved = Vec::with_capacity(words.len());
        for word in words {
            let option = word
                .split_once('=')
                .filter(|(name, _)| PATH_OPTIONS.contains(name));
            resolved.push(match option {
                _ if is_path => self.resolve(word).into_os_string(),
                Some((name, value)) => {
                    let mut argument = std::ffi::OsString::from(format!("{name}="));
                    argument.push(self.resolve(value));
                    argument
                }
                None => word.into(),
            });
            is_path = !is_path && PATH_OPTIONS.contains(&word.as_str());
        }
        resolved
    }

    /// A line of output with host paths as the container knows them.
    pub(super) fn hide_host(&self, line: &str) -> String {
        let mut line = line.to_owned();
        for Mount { path, host } in &self.mounts {
            if let Some(host) = host.to_str().filter(|host| line.contains(host)) {
                line = line.replace(host, path);
            }
        }
        match self.root.to_str() {
            Some(root) if line.contains(root) => line.replace(root, ""),
            _ => line,
        }
    }

    pub(super) fn root(&self) -> &Path {
        &self.root
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = &Mount> {
        self.mounts.iter()
    }
}

/// The part of `path` below `folder`, both normal; empty for the folder itself.
fn below<'a>(path: &'a str, folder: &str) -> Option<&'a str> {
    if folder == "/" {
        return Some(path);
    }
    let rest = path.strip_prefix(folder)?;
    (rest.is_empty() || rest.starts_with('/')).then_some(rest)
}

fn join(folder: &Path, rest: &str) -> PathBuf {
    let rest = rest.trim_start_matches('/');
    if rest.is_empty() {
        folder.to_path_buf()
    } else {
        folder.join(rest)
    }
}

/// An absolute path without `.`, `..` and empty parts; `..` at the root stays there.
pub(super) fn normalize(path: &str) -> String {
    let mut parts: Vec<&str> = Vec::new();
    for part in path.split('/') {
        match part {
            "" | "." => {}
            ".." => {
                parts.pop();
            }
            part => parts.push(part),
        }
    }
    format!("/{}", parts.join("/"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mounts() -> Mounts {
        let mount = |path: &str, host: &str| Mount {
            path: path.into(),
            host: host.into(),
        };
        Mounts::new(
            vec![mount("/data", "/host/a"), mount("/data/inner", "/host/b")],
            "/host/root".into(),
        )
    }

    #[test]
    fn paths_stay_in_their_volume_or_in_the_empty_root() {
        for (path, host) in [
            ("/data", "/host/a"),
            ("/data/ledger.db", "/host/a/ledger.db"),
            ("//data/./x/../ledger.db", "/host/a/ledger.db"),
            ("/data/inner/x", "/host/b/x"),
            ("/data/inner/../x", "/host/a/x"),
            ("/data/../data/x", "/host/a/x"),
            ("/data2/x", "/host/root/data2/x"),
            ("/etc/passwd", "/host/root/etc/passwd"),
            ("/data/../etc/passwd", "/host/root/etc/passwd"),
            ("/data/../../../etc/passwd", "/host/root/etc/passwd"),
            ("../../etc/passwd", "/host/root/etc/passwd"),
            ("ledger.db", "/host/root/ledger.db"),
            ("", "/host/root"),
            ("file:/etc/passwd", "/host/root/file:/etc/passwd"),
            (":memory:", "/host/root/:memory:"),
        ] {
            assert_eq!(mounts().resolve(path), Path::new(host), "{path}");
        }
    }

    #[test]
    fn only_path_options_are_paths() {
        let words: Vec<String> = [
            "ledger",
            "apply",
            "--db",
            "/data/x",
            "--db=/etc/x",
            "--order-id",
            "/data/o",
            "--db",
            "--db",
            "/data",
        ]
        .map(Into::into)
        .into();
        let expected = [
            "ledger",
            "apply",
            "--db",
            "/host/a/x",
            "--db=/host/root/etc/x",
            "--order-id",
            "/data/o",
            "--db",
            "/host/root/--db",
            "/data",
        ];
        assert_eq!(mounts().arguments(&words), expected);
    }

    #[test]
    fn every_path_option_of_the_workloads_is_known() {
        use clap::Subcommand;
        let paths = clap::value_parser!(PathBuf).type_id();
        let ledger = crate::ledger::commands::LedgerCommand::augment_subcommands(
            clap::Command::new("ledger"),
        );
        let crm = crate::ledger::crm::commands::CrmCommand::augment_subcommands(
            clap::Command::new("crm"),
        );
        for subcommand in ledger.get_subcommands().chain(crm.get_subcommands()) {
            for argument in subcommand.get_arguments() {
                if argument.get_value_parser().type_id() != paths {
                    continue;
                }
                let long = argument.get_long().map(|name| format!("--{name}"));
                let known = long
                    .as_deref()
                    .is_some_and(|name| PATH_OPTIONS.contains(&name));
                assert!(
                    known && argument.get_short().is_none(),
                    "{}: {argument}",
                    subcommand.get_name()
                );
            }
        }
    }

    #[test]
    fn output_does_not_show_the_host() {
        let line = "open ledger /host/b/x in /host/a: not /host/root/etc";
        assert_eq!(
            mounts().hide_host(line),
            "open ledger /data/inner/x in /data: not /etc"
        );
    }
}
