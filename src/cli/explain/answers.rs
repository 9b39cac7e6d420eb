//! Answers to the lines of a file of cases, in the shape of the golden files.

use std::io::{BufRead, BufReader, Write as _};
use std::path::Path;

use super::super::exit::{Exit, Failure};
use super::super::output::Stdout;
use super::source::open;
use crate::sensor::cases;

/// Answers every line of a file of cases; a line that is no case ends it.
pub(super) fn answer(file: &Path) -> Result<Exit, Failure> {
    let mut out = std::io::BufWriter::new(Stdout);
    let name = file.display();
    for (place, line) in BufReader::new(open(file)?).lines().enumerate() {
        let wrong = |why: String| Failure::usage(format!("{name}, line {}: {why}", place + 1));
        let line = line.map_err(|error| wrong(error.to_string()))?;
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
