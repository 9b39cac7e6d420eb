//! What Argo Events decides about one event, pure: paths, filters, scripts, parameters, conditions.
//!
//! Called from above through `Filter::compile` and `Filter::evaluate`, `parameters` and `validate`.

pub mod cases;
pub mod conditions;
mod context;
pub mod cron;
mod data;
mod decode;
mod event;
mod explain;
pub mod expression;
mod expression_filter;
mod filter;
pub mod go_duration;
mod go_json;
pub mod json;
pub mod layout;
mod list_group;
mod lua;
pub mod number;
pub mod parameters;
pub mod path;
mod payload;
pub mod printf;
pub mod rate;
pub mod regex;
pub mod script;
pub mod set;
mod spec;
pub mod template;
pub mod time;
pub mod transform;
pub mod trigger;
pub mod validate;
pub mod yaml;

pub use decode::DecodeError;
pub use event::Event;
pub use explain::{
    ConditionReport, Explanation, Found, Group, GroupReport, Operator, Outcome, Reason, ValueReport,
};
pub use filter::{CompileError, Decision, Filter, FilterError};
