//! The order ledger and its claims on SQLite; the CRM that stands for an external system.
//!
//! Workflow pods write through [`Ledger`]; everybody else reads through [`serve`] or a [`Reader`]. The commands behind
//! `eventlab ledger …` are in [`commands`]. Nothing here knows about the cluster.

mod apply;
mod claims;
mod clock;
pub mod commands;
pub mod crm;
mod deliver;
mod error;
mod mishap;
mod order;
mod outbox;
mod read;
mod rows;
mod schema;
mod serve;
mod verify;

pub use apply::{Ledger, Options};
pub use claims::{
    Abandoned, ClaimOutcome, ClaimRequest, ClaimRow, Finding, Owner, Person, Settlement,
    TransitionRow,
};
pub use clock::format_clock;
pub use deliver::{
    Delivery, LookUp, Reconciled, Relayed, deliver, deliver_blindly, reconcile, relay, source_id,
};
pub use error::LedgerError;
pub use mishap::{CrashPoint, Fault, Mishap};
pub use order::{FirstEffect, MAX_AMOUNT_CENTS, Mode, Order, Outcome, Receipt};
pub use outbox::OutboxRow;
pub use read::{AttemptRow, BalanceRow, EffectRow, OrderRow, Page, Reader};
pub use serve::{MAX_PAGE, router, serve};
pub use verify::{BalanceDifference, RepeatedKey, Verification};

#[cfg(test)]
mod tests;
