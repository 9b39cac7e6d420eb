//! The lab format: types, loading, lint.
