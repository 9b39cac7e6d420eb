//! What Argo Events decides about one event, pure: paths, filters, scripts, parameters, conditions.
//!
//! Called from above through `Filter::compile` and `Filter::evaluate`, `parameters` and `validate`.

pub mod regex;
