//! Parses arguments, picks an exit code.

fn main() {}
