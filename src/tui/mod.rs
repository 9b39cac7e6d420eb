//! Screens, keys, theme. Draws state, never decides.
//!
//! [`app::App`] is what the screen itself remembers, [`view::draw`] draws it with the session's state, and [`screen`] runs
//! the loop on a terminal.

pub mod app;
pub mod keys;
pub mod logs;
pub mod markdown;
pub mod theme;
pub mod view;
