//! Manifests as Kubernetes reads YAML: documents to JSON objects, with the place of what is wrong.

use serde_json::Value;

use crate::sensor::yaml;

/// A manifest may be this long.
const LIMIT: usize = 1 << 20;

/// Why a manifest cannot be used.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
pub enum ManifestError {
    #[error("{file}: larger than {LIMIT} bytes; split it")]
    TooLarge { file: String },
    #[error("{file}: YAML error at {place}{message}; correct the file")]
    Yaml {
        file: String,
        place: String,
        message: String,
    },
    #[error("{file}, document {document}: {message}")]
    Shape {
        file: String,
        document: usize,
        message: String,
    },
}

/// One object of a manifest.
#[derive(Clone, Debug, PartialEq)]
pub struct Manifest {
    pub file: String,
    pub object: Value,
}

impl Manifest {
    /// Reads all documents of a file; empty documents are passed over, and a `List` counts as its items.
    ///
    /// # Errors
    /// YAML errors with line and column; documents and items without apiVersion, kind or a name.
    pub fn read(file: &str, text: &str) -> Result<Vec<Manifest>, ManifestError> {
        if text.len() > LIMIT {
            return Err(ManifestError::TooLarge {
                file: file.to_owned(),
            });
        }
        let documents = yaml::documents(text).map_err(|error| yaml_error(file, &error))?;
        let mut manifests = Vec::new();
        for (index, document) in documents.into_iter().enumerate() {
            let (objects, of_list) = match unpacked(document) {
                Ok(items) => (items, true),
                Err(object) => (vec![object], false),
            };
            for (place, object) in objects.into_iter().enumerate() {
                if object.is_null() && !of_list {
                    continue;
                }
                check_shape(&object).map_err(|message| ManifestError::Shape {
                    file: file.to_owned(),
                    document: index + 1,
                    message: if of_list {
                        format!("items[{place}]: {message}")
                    } else {
                        message
                    },
                })?;
                manifests.push(Manifest {
                    file: file.to_owned(),
                    object,
                });
            }
        }
        Ok(manifests)
    }

    /// `Kind/name`.
    #[must_use]
    pub fn title(&self) -> String {
        format!(
            "{}/{}",
            text(&self.object, "/kind"),
            text(&self.object, "/metadata/name")
        )
    }
}

/// The items of a list as `kubectl get -o yaml` writes it; anything else as it is.
fn unpacked(mut document: Value) -> Result<Vec<Value>, Value> {
    let is_list =
        text(&document, "/kind").ends_with("List") && !text(&document, "/apiVersion").is_empty();
    match document.get_mut("items").map(Value::take) {
        Some(Value::Array(items)) if is_list => Ok(items),
        Some(items) => {
            document["items"] = items;
            Err(document)
        }
        None => Err(document),
    }
}

fn yaml_error(file: &str, error: &serde_saphyr::Error) -> ManifestError {
    let yaml::Unreadable { place, message, .. } = error.into();
    ManifestError::Yaml {
        file: file.to_owned(),
        place,
        message,
    }
}

fn check_shape(object: &Value) -> Result<(), String> {
    if !object.is_object() {
        return Err("an object is expected (apiVersion, kind, metadata, …)".to_owned());
    }
    for pointer in ["/apiVersion", "/kind", "/metadata/name"] {
        match object.pointer(pointer) {
            Some(Value::String(value)) if !value.is_empty() => {}
            Some(Value::Null) | None => return Err(format!("`{}` is missing", dotted(pointer))),
            Some(_) => return Err(format!("`{}` must be a text", dotted(pointer))),
        }
    }
    Ok(())
}

fn dotted(pointer: &str) -> String {
    pointer.trim_start_matches('/').replace('/', ".")
}

pub(crate) fn text<'a>(object: &'a Value, pointer: &str) -> &'a str {
    object
        .pointer(pointer)
        .and_then(Value::as_str)
        .unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn documents_are_read_as_kubernetes_reads_them() {
        let text = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a}\ndata: {x: on, mode: 0755, no: 1, 'on': 2}\n---\n---\napiVersion: v1\nkind: Secret\nmetadata: {name: b}\n";
        let manifests = Manifest::read("f.yaml", text).unwrap();
        assert_eq!(manifests.len(), 2);
        assert_eq!(manifests[0].object["data"]["x"], true);
        assert_eq!(manifests[0].object["data"]["mode"], 493);
        assert_eq!(manifests[0].object["data"]["false"], 1);
        assert_eq!(manifests[0].object["data"]["on"], 2);
        assert_eq!(manifests[1].title(), "Secret/b");
    }

    /// Whatever is wrong is said of the file, not of the program that reads it.
    #[test]
    fn what_the_parser_refuses_for_its_own_settings_is_said_in_words() {
        let mut bomb = "a0: &a0 [x, x, x, x, x, x, x, x, x, x]\n".to_owned();
        for depth in 1..9 {
            let below = format!("*a{}", depth - 1);
            bomb.push_str(&format!(
                "a{depth}: &a{depth} [{}]\n",
                [below.as_str(); 10].join(", ")
            ));
        }
        let deep = format!("a: {}{}\n", "[".repeat(100_000), "]".repeat(100_000));
        for (text, said) in [
            ("kind: A\nkind: B\n".to_owned(), "is there twice"),
            ("a: &x {k: 1, k: 2}\nb: *x\n".to_owned(), "is there twice"),
            (bomb, "larger or deeper than any manifest"),
            (deep, "larger or deeper than any manifest"),
        ] {
            let error = Manifest::read("f.yaml", &text).unwrap_err().to_string();
            for word in [said, "line ", "column "] {
                assert!(error.contains(word), "{word}: {error}");
            }
            for internal in ["Policy", "Options", "budget", "{ "] {
                assert!(!error.contains(internal), "{internal}: {error}");
            }
        }
    }

    #[test]
    fn a_list_counts_as_its_items() {
        let item = |name: &str| {
            format!("  - {{apiVersion: v1, kind: Secret, metadata: {{name: {name}}}}}\n")
        };
        let list = format!(
            "apiVersion: v1\nkind: List\nitems:\n{}{}",
            item("a"),
            item("b")
        );
        let manifests = Manifest::read("f.yaml", &list).unwrap();
        let titles: Vec<String> = manifests.iter().map(Manifest::title).collect();
        assert_eq!(titles, ["Secret/a", "Secret/b"]);
        let bad = format!("{list}  - {{kind: Secret}}\n");
        let error = Manifest::read("f.yaml", &bad).unwrap_err().to_string();
        assert!(
            error.contains("items[2]: `apiVersion` is missing"),
            "{error}"
        );
        let other = "apiVersion: v1\nkind: Thing\nmetadata: {name: a}\nitems: [1]\n";
        assert_eq!(
            Manifest::read("f.yaml", other).unwrap()[0].object["items"],
            serde_json::json!([1])
        );
    }

    #[test]
    fn a_yaml_error_has_line_and_column() {
        for text in [
            "kind: [a\nb: c\n",
            "a: b: c\n",
            "a:\n\t- b\n",
            "path: \"body.order\\.type\"\n",
        ] {
            let error = Manifest::read("f.yaml", text).unwrap_err().to_string();
            assert!(
                error.contains("line ") && error.contains("column "),
                "{text:?}: {error}"
            );
        }
    }

    #[test]
    fn missing_fields_are_named() {
        for (text, field) in [
            ("kind: A\nmetadata: {name: x}\n", "apiVersion"),
            ("apiVersion: v1\nmetadata: {name: x}\n", "kind"),
            ("apiVersion: v1\nkind: A\n", "metadata.name"),
            ("apiVersion: v1\nkind: 5\nmetadata: {name: x}\n", "kind"),
            ("- a\n", "object"),
        ] {
            let error = Manifest::read("f.yaml", text).unwrap_err().to_string();
            assert!(error.contains(field), "{error}");
        }
    }
}
