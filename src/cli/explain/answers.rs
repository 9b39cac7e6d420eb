//! Answers to the lines of a file of cases, in the shape of the golden files.

use std::io::{BufRead, BufReader, Read as _, Write as _};
use std::path::Path;

use super::super::exit::{Exit, Failure};
use super::super::output::Stdout;
use super::source::{MAX_INPUT, open};
use crate::sensor::cases;

/// Answers every line of a file of cases; a line that is no case ends it.
pub(super) fn answer(file: &Path) -> Result<Exit, Failure> {
    let mut out = std::io::BufWriter::new(Stdout);
    let name = file.display();
    let mut lines = BufReader::new(open(file)?);
    for place in 1_u64.. {
        let wrong = |why: String| Failure::usage(format!("{name}, line {place}: {why}"));
        let Some(line) = next(&mut lines).map_err(wrong)? else {
            break;
        };
        if line.trim().is_empty() {
            continue;
        }
        let answer = cases::answer(&line).map_err(|error| wrong(error.to_string()))?;
        if writeln!(out, "{answer}").is_err() {
            return Ok(Exit::Proven);
        }
    }
    let _ = out.flush();
    Ok(Exit::Proven)
}

/// The next line of bounded length, none at the end.
fn next(lines: &mut impl BufRead) -> Result<Option<String>, String> {
    let mut bytes = Vec::new();
    lines
        .take(MAX_INPUT + 1)
        .read_until(b'\n', &mut bytes)
        .map_err(|error| error.to_string())?;
    if bytes.len() as u64 > MAX_INPUT {
        return Err(format!("it has more than {MAX_INPUT} bytes"));
    }
    if bytes.is_empty() {
        return Ok(None);
    }
    let text = String::from_utf8(bytes);
    text.map(Some).map_err(|_| "it is not UTF-8".to_owned())
}
