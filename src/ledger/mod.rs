//! The order ledger and its claims on SQLite; the CRM that stands for an external system.
