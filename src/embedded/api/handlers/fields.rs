//! What is made of fields that stand twice or are unknown: `fieldValidation`.

use std::sync::PoisonError;

use serde_json::Value;

use super::Call;
use crate::embedded::api::body;
use crate::embedded::api::repeated::{self, Findings};
use crate::embedded::api::request::content_type;
use crate::embedded::api::status::{Cause, Failure};

impl Call {
    /// The object as its type has it, in storage shape.
    ///
    /// # Errors
    /// 400 for a wrong type, or for a repeated or unknown field if the request is strict about them.
    pub fn typed(&self, value: Value) -> Result<Value, Failure> {
        let kind = self.kind;
        let refused = |why: &str| body::unhandled(kind, why);
        let typed = body::normalize(kind, value).map_err(|why| refused(&why.text))?;
        match self.strict(self.findings(&typed.unknown))? {
            Some(why) => Err(refused(&why)),
            None => Ok(typed.value),
        }
    }

    /// What is to be told of the body, which is an object of this kind with these unknown fields.
    fn findings(&self, unknown: &[String]) -> Findings {
        let mut found = Findings::unknown(unknown);
        if self.query.text("fieldValidation") == "Ignore" || self.attributes.verb == "patch" {
            return found;
        }
        match content_type(&self.headers).as_str() {
            "" | "application/json" if self.kind.custom => {
                found.fields.splice(0..0, repeated::json(&self.body, &[]));
            }
            "" | "application/json" => {
                let mut ordered = repeated::json(&self.body, unknown);
                found.fields.retain(|text| !ordered.contains(text));
                ordered.append(&mut found.fields);
                found.fields = ordered;
            }
            "application/yaml" => found.lines = repeated::yaml(&self.body),
            _ => {}
        }
        found
    }

    /// What is to be told of a patch, which made an object with these unknown fields.
    #[must_use]
    pub fn findings_of_patch(&self, unknown: &[String]) -> Findings {
        let mut found = Findings::unknown(unknown);
        let twice = match content_type(&self.headers).as_str() {
            // An apply is read before it is merged.
            "application/apply-patch+yaml" => Vec::new(),
            "application/json-patch+json" => repeated::json(&self.body, &[])
                .into_iter()
                .map(|text| format!("json patch {text}"))
                .collect(),
            _ => repeated::json(&self.body, &[]),
        };
        found.fields.splice(0..0, twice);
        found
    }

    /// Tells of keys that stand twice in an apply.
    ///
    /// # Errors
    /// 400 if the request wants none, 422 for an unknown value of the option.
    pub fn check_applied(&self) -> Result<(), Failure> {
        let lines = repeated::yaml(&self.body);
        let framed = repeated::in_yaml(&lines);
        let found = Findings {
            lines,
            fields: Vec::new(),
        };
        match self.strict(found)? {
            Some(_) => Err(Failure::bad_request(format!(
                "error strict decoding YAML: error converting YAML to JSON: {framed}"
            ))),
            None => Ok(()),
        }
    }

    /// What is wrong with these findings, if the request wants none (`fieldValidation`); else they become warnings.
    ///
    /// # Errors
    /// 422 for an unknown value of the option.
    pub fn strict(&self, found: Findings) -> Result<Option<String>, Failure> {
        match self.query.text("fieldValidation") {
            "Ignore" => Ok(None),
            "Strict" if found.is_empty() => Ok(None),
            "Strict" => Ok(Some(found.refusal())),
            "" | "Warn" => {
                let mut warnings = self.warnings.lock().unwrap_or_else(PoisonError::into_inner);
                for text in found.texts() {
                    // A write that is tried again tells nothing twice.
                    if !warnings.contains(&text) {
                        warnings.push(text);
                    }
                }
                Ok(None)
            }
            other => {
                let supported = ["", "Ignore", "Strict", "Warn"];
                let cause = Cause::unsupported("fieldValidation", other, &supported);
                let options = self.options();
                Err(Failure::invalid_as("meta.k8s.io", options, "", vec![cause]))
            }
        }
    }
}
