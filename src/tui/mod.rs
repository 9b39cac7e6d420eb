//! Screens, keys, theme. Draws state, never decides.

pub mod markdown;
pub mod theme;
