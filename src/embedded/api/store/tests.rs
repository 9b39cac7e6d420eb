//! Tests of the store alone.
