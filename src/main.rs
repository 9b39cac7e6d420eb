//! Parses arguments, picks an exit code.

use std::process::ExitCode;

use eventlab::embedded::node::child;

fn main() -> ExitCode {
    // A workload of the embedded cluster must not outlive it, so this comes before anything else.
    if let Some(code) = child::guard() {
        return ExitCode::from(code);
    }
    ExitCode::from(eventlab::cli::run(std::env::args_os()))
}
