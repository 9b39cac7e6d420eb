//! Paths with slashes.

use super::{Function, new_text};
use crate::sensor::template::value::Value;

pub(super) const TABLE: &[Function] = &[
    Function("base", 1, Some(1), |_, a| new_text(base(a.text(0)?))),
    Function("dir", 1, Some(1), |_, a| new_text(dir(a.text(0)?))),
    Function("clean", 1, Some(1), |_, a| new_text(clean(a.text(0)?))),
    Function("ext", 1, Some(1), |_, a| new_text(ext(a.text(0)?))),
    Function("isAbs", 1, Some(1), |_, a| {
        Ok(Value::Bool(a.text(0)?.starts_with('/')))
    }),
    Function("osBase", 1, Some(1), |_, a| new_text(base(a.text(0)?))),
    Function("osDir", 1, Some(1), |_, a| new_text(dir(a.text(0)?))),
    Function("osClean", 1, Some(1), |_, a| new_text(clean(a.text(0)?))),
    Function("osExt", 1, Some(1), |_, a| new_text(ext(a.text(0)?))),
    Function("osIsAbs", 1, Some(1), |_, a| {
        Ok(Value::Bool(a.text(0)?.starts_with('/')))
    }),
];

fn base(path: &str) -> &str {
    let trimmed = path.trim_end_matches('/');
    match (path.is_empty(), trimmed.is_empty()) {
        (true, _) => ".",
        (_, true) => "/",
        _ => trimmed.rsplit('/').next().unwrap_or(trimmed),
    }
}

fn dir(path: &str) -> String {
    clean(&path[..path.rfind('/').map_or(0, |slash| slash + 1)])
}

fn ext(path: &str) -> &str {
    let name = path.rsplit('/').next().unwrap_or(path);
    name.rfind('.').map_or("", |dot| &name[dot..])
}

fn clean(path: &str) -> String {
    let rooted = path.starts_with('/');
    let mut parts: Vec<&str> = Vec::new();
    for part in path.split('/') {
        match part {
            "" | "." => {}
            ".." if parts.last().is_some_and(|last| *last != "..") => drop(parts.pop()),
            ".." if rooted => {}
            part => parts.push(part),
        }
    }
    match (rooted, parts.is_empty()) {
        (true, _) => format!("/{}", parts.join("/")),
        (false, true) => ".".to_string(),
        (false, false) => parts.join("/"),
    }
}
