//! Explaining again whenever a file changes.

use std::path::Path;
use std::time::{Duration, SystemTime};

use jiff::Zoned;

use super::super::exit::{Exit, Failure};
use super::super::output::{self, note};
use super::{ExplainArgs, is_stdin, once, text};

/// How often files are looked at.
const LOOK: Duration = Duration::from_millis(250);

/// Time of the last change and length of each file; `None` for one that is not there.
type Stamp = Vec<Option<(SystemTime, u64)>>;

/// Explains until it is interrupted, or nobody reads what it writes.
///
/// # Errors
/// Input from stdin, which cannot be read again.
pub(super) fn run(args: &ExplainArgs) -> Result<Exit, Failure> {
    let input = [&args.input.body_file, &args.input.event];
    let files: Vec<&Path> = args
        .file
        .iter()
        .chain(input.into_iter().flatten())
        .map(AsRef::as_ref)
        .collect();
    if args.input.stdin.is_some() || files.iter().any(|file| is_stdin(file)) {
        return Err(Failure::usage(
            "stdin can be read once; --watch needs the Sensor and the body in files",
        ));
    }
    loop {
        // The stamp comes first: what changes while it is read is read again.
        let stamp = stamp(&files);
        let explained = once(args);
        if output::is_gone() {
            return explained;
        }
        match &explained {
            Ok(Exit::Proven) => note!("-- {}: passes", clock()),
            Ok(Exit::NotProven) => note!("-- {}: rejected", clock()),
            Ok(_) => note!("-- {}: not all of it can be judged here", clock()),
            Err(failure) => note!("-- {}: {}", clock(), text::lines(&failure.message)),
        }
        while self::stamp(&files) == stamp {
            std::thread::sleep(LOOK);
            if output::is_gone() {
                // What failed has been told.
                return explained.or_else(|failure| Ok(failure.exit));
            }
        }
    }
}

fn clock() -> String {
    Zoned::now().strftime("%H:%M:%S").to_string()
}

fn stamp(files: &[&Path]) -> Stamp {
    let one = |file: &&Path| {
        let metadata = std::fs::metadata(file).ok()?;
        Some((metadata.modified().ok()?, metadata.len()))
    };
    files.iter().map(one).collect()
}
