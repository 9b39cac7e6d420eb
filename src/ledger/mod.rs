//! The order ledger and its claims on SQLite; the CRM that stands for an external system.
//!
//! Workflow pods write through [`Ledger`]; everybody else reads through [`serve`] or a [`Reader`]. The commands behind
//! `eventlab ledger …` are in [`commands`]. Nothing here knows about the cluster.

mod apply;
mod clock;
pub mod commands;
mod error;
mod order;
mod read;
mod schema;
mod serve;
mod verify;

pub use apply::{Ledger, Options};
pub use clock::format_clock;
pub use error::LedgerError;
pub use order::{FirstEffect, MAX_AMOUNT_CENTS, Mode, Order, Outcome, Receipt};
pub use read::{AttemptRow, BalanceRow, EffectRow, OrderRow, Page, Reader};
pub use serve::{MAX_PAGE, router, serve};
pub use verify::{BalanceDifference, RepeatedKey, Verification};

#[cfg(test)]
mod tests;
