//! One event through somebody's own pipeline: what is looked at, what was seen, and what each of it proves.
//!
//! [`Pipeline::look`] reads EventSource and Sensor; [`Search`] follows one event and answers [`Finding`]s, one a layer.
//! The pipeline has none of the labs' parameters: what nothing in it names stays unproven.

mod findings;
mod pipeline;
mod search;
mod verdict;

pub use findings::{Finding, Standing};
pub use pipeline::{Pipeline, SecretKey, TraceError, Webhook};
pub use search::{Search, Seen, Sought};
pub use verdict::{Verdict, verdict};
