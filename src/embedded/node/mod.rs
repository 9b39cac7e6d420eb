//! Runs pods; owns host paths, sockets and child processes.

pub mod child;
pub mod children;
mod environment;
mod expand;
mod fields;
mod files;
mod images;
mod lines;
pub mod logs;
mod mounts;
mod pid;
pub mod process;
mod refuse;
mod sources;
pub mod sweep;
mod tokens;
mod volumes;
