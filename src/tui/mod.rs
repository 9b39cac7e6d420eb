//! Screens, keys, theme. Draws state, never decides.
