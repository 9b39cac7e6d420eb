//! Runs pods; owns host paths, sockets and child processes.

pub mod child;
pub mod children;
mod files;
mod lines;
pub mod logs;
mod pid;
pub mod process;
pub mod sweep;
