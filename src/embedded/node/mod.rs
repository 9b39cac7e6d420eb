//! Runs pods; owns host paths, sockets and child processes.

pub mod process;
