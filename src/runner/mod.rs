//! Carries effects out: apply, gate, send, collect; turns answers into messages.
