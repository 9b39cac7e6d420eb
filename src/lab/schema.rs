//! The lab format as JSON Schema, made from the types that read it.

use super::format::Lab;

/// The JSON Schema (draft 2020-12) of a lab file.
#[must_use]
pub fn schema() -> serde_json::Value {
    let mut schema = schemars::schema_for!(Lab).to_value();
    if let Some(fields) = schema.as_object_mut() {
        fields.insert("title".to_owned(), "A lab of eventlab".into());
    }
    schema
}
