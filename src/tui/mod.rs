//! Screens, keys, theme. Draws state, never decides.
//!
//! [`app::App`] is what the screen itself remembers, [`scene`] computes what a frame shows, [`view::draw`] draws it, and
//! [`screen`] runs the loop on a terminal. [`keys`] is the one table of keys; [`linear`] is the screen without a screen,
//! for readers of screens. [`viewer`] shows an evidence bundle on the same screen.

pub mod app;
pub mod brief;
pub mod builtin;
pub mod cursor;
pub mod editor;
pub mod keys;
pub mod linear;
pub mod logs;
pub mod look;
pub mod manifest;
pub mod markdown;
pub mod own_colors;
pub mod palette;
pub mod panes;
pub mod places;
pub mod preview;
pub mod replay;
pub mod scene;
pub mod screen;
pub mod search;
mod signals;
pub mod terminal;
pub mod theme;
mod typed;
pub mod vetting;
pub mod view;
pub mod viewer;
