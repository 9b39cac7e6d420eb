//! What Argo Events decides about one event, pure: paths, filters, scripts, parameters, conditions.
//!
//! Called from above through `Filter::compile` and `Filter::evaluate`, `parameters` and `validate`.

mod context;
mod data;
#[allow(dead_code)]
mod decode;
mod event;
mod explain;
mod filter;
pub mod json;
pub mod number;
#[allow(dead_code)]
pub mod path;
mod payload;
pub mod regex;
#[allow(dead_code)]
mod spec;
#[allow(dead_code)]
mod time;

pub use decode::DecodeError;
pub use event::Event;
pub use explain::{
    ConditionReport, Explanation, Found, Group, GroupReport, Operator, Outcome, Reason, ValueReport,
};
pub use filter::{CompileError, Decision, Filter, FilterError};
