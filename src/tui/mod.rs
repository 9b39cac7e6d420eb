//! Screens, keys, theme. Draws state, never decides.
//!
//! [`app::App`] is what the screen itself remembers, [`view::draw`] draws it with the session's state, and [`screen`] runs
//! the loop on a terminal.

pub mod app;
mod editor;
pub mod keys;
pub mod logs;
mod manifest;
pub mod markdown;
pub mod screen;
mod terminal;
pub mod theme;
pub mod view;
