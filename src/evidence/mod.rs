//! Layers, facts, correlation and verdict rules. Pure: no I/O.
