//! The command line: one file per subcommand, and the exit codes.
