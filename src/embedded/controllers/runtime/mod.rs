//! What every controller is built from: a cache fed by a watch, a queue of keys, workers, events.
//!
//! Nothing here knows a kind. A controller lists and watches through [`informer`], puts keys into a
//! [`queue::WorkQueue`], and answers them in a [`worker::Reconcile`].

pub mod cache;
pub mod error;
pub mod events;
pub mod informer;
pub mod objects;
pub mod queue;
pub mod worker;

pub use cache::{Cache, Change, ObjectKey};
pub use error::{ReconcileError, Result};
pub use informer::Informer;
pub use queue::WorkQueue;
pub use worker::{Next, Reconcile, Tasks};
