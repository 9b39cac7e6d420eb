//! Redaction of secrets on write.
