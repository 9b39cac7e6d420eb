//! Parses arguments, picks an exit code.

use std::process::ExitCode;

fn main() -> ExitCode {
    ExitCode::from(eventlab::cli::run(std::env::args_os()))
}
