//! Hands arguments to a template: each input gets its argument, its default, or an error; then text is put in.

use serde_json::{Value, json};

use super::spec::{AnyString, Parameter, Parameters, Template};
use super::substitute::{Scope, replace};
use crate::embedded::misfit;

/// Where a template's inputs come from.
#[derive(Clone, Copy)]
pub(super) enum Arguments<'a> {
    Given(&'a Parameters),
    /// While a template is checked alone: every input has some value.
    Any,
}

/// Reads a key of a ConfigMap in the Workflow's namespace: `Err` says why there is none.
pub(super) type ConfigMapValue<'a> = &'a dyn Fn(&str, &str) -> Result<String, String>;

/// The template with its inputs set and every known variable put in, as JSON.
pub(super) fn process(
    template: &Value,
    arguments: Arguments<'_>,
    globals: &Scope,
    locals: &Scope,
    config_map: ConfigMapValue<'_>,
) -> Result<Value, String> {
    let mut template = template.clone();
    let inputs = template
        .pointer_mut("/inputs/parameters")
        .and_then(Value::as_array_mut);
    for input in inputs.into_iter().flatten() {
        let mut parameter: Parameter =
            serde_json::from_value(input.clone()).map_err(|error| error.to_string())?;
        supply(&mut parameter, arguments, globals, config_map)?;
        *input = serde_json::to_value(&parameter).map_err(|error| error.to_string())?;
    }
    substitute(&template, globals, locals)
}

fn supply(
    input: &mut Parameter,
    arguments: Arguments<'_>,
    globals: &Scope,
    config_map: ConfigMapValue<'_>,
) -> Result<(), String> {
    if input.value.is_none() {
        input.value.clone_from(&input.default);
    }
    match arguments {
        Arguments::Any => {
            (input.value, input.value_from) = (Some(AnyString("placeholder".into())), None)
        }
        Arguments::Given(arguments) => {
            if let Some(argument) = arguments.get(&input.name) {
                input.value.clone_from(&argument.value);
                input.value_from = if argument.value.is_some() {
                    None
                } else {
                    argument.value_from.clone()
                };
            }
        }
    }
    let Some(reference) = input
        .value_from
        .as_ref()
        .and_then(|from| from.config_map_key_ref.clone())
    else {
        let missing = || format!("inputs.parameters.{} was not supplied", input.name);
        return if input.value.is_some() {
            Ok(())
        } else {
            Err(missing())
        };
    };
    let put = |text: &str| {
        super::substitute::replace_text(text, globals, &[]).map_err(|error| error.to_string())
    };
    let default = input
        .value_from
        .as_ref()
        .and_then(|from| from.default.clone());
    match (
        config_map(&put(&reference.name)?, &put(&reference.key)?),
        default,
    ) {
        (Ok(value), _) => input.value = Some(AnyString(value)),
        (Err(_), Some(default)) => input.value = Some(default),
        (Err(why), None) => {
            return Err(format!(
                "unable to retrieve inputs.parameters.{} from ConfigMap: {why}",
                input.name
            ));
        }
    }
    Ok(())
}

/// Puts globals and locals in, then the inputs (whose values may have held globals).
pub(super) fn substitute(
    template: &Value,
    globals: &Scope,
    locals: &Scope,
) -> Result<Value, String> {
    let mut scope = globals.clone();
    scope.extend(locals.clone());
    let put = |value: &Value, scope: &Scope| {
        replace(value, scope, &[]).map_err(|error| error.to_string())
    };
    let template = put(template, &scope)?;
    for input in template
        .pointer("/inputs/parameters")
        .and_then(Value::as_array)
        .into_iter()
        .flatten()
    {
        if let (Some(name), Some(value)) = (input["name"].as_str(), input["value"].as_str()) {
            scope.insert(format!("inputs.parameters.{name}"), value.to_owned());
        }
    }
    let all = template
        .pointer("/inputs/parameters")
        .cloned()
        .unwrap_or_else(|| json!([]));
    scope.insert("inputs.parameters".to_owned(), all.to_string());
    for output in template
        .pointer("/outputs/parameters")
        .and_then(Value::as_array)
        .into_iter()
        .flatten()
    {
        if let (Some(name), Some(path)) = (
            output["name"].as_str(),
            output["valueFrom"]["path"].as_str(),
        ) {
            scope.insert(format!("outputs.parameters.{name}.path"), path.to_owned());
        }
    }
    put(&template, &scope)
}

/// The typed template.
pub(super) fn parse(template: Value) -> Result<Template, String> {
    let name = template["name"].as_str().unwrap_or_default().to_owned();
    misfit::typed(&template).map_err(|error| format!("templates.{name}: {error}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn template() -> Value {
        json!({
            "name": "apply",
            "inputs": {"parameters": [{"name": "order"}, {"name": "mode", "default": "naive-{{workflow.name}}"}]},
            "container": {"image": "eventlab:dev", "args": ["{{inputs.parameters.order}}", "{{inputs.parameters.mode}}", "{{pod.name}}"]},
        })
    }

    fn globals() -> Scope {
        Scope::from([("workflow.name".to_owned(), "w".to_owned())])
    }

    fn nothing(_: &str, _: &str) -> Result<String, String> {
        Err("configmap not found".into())
    }

    #[test]
    fn arguments_win_over_defaults() {
        let arguments: Parameters =
            serde_json::from_value(json!({"parameters": [{"name": "order", "value": 1001}]}))
                .expect("arguments");
        let locals = Scope::from([("pod.name".to_owned(), "p".to_owned())]);
        let processed = process(
            &template(),
            Arguments::Given(&arguments),
            &globals(),
            &locals,
            &nothing,
        )
        .expect("processed");
        assert_eq!(
            processed["container"]["args"],
            json!(["1001", "naive-w", "p"])
        );
    }

    #[test]
    fn an_input_without_argument_and_default_is_missing() {
        let none = Parameters::default();
        let error = process(
            &template(),
            Arguments::Given(&none),
            &globals(),
            &Scope::new(),
            &nothing,
        );
        assert_eq!(
            error,
            Err("inputs.parameters.order was not supplied".into())
        );
        assert!(
            process(
                &template(),
                Arguments::Any,
                &globals(),
                &Scope::new(),
                &nothing
            )
            .is_ok()
        );
    }

    #[test]
    fn an_empty_text_is_a_value() {
        let arguments: Parameters =
            serde_json::from_value(json!({"parameters": [{"name": "order", "value": ""}]}))
                .expect("arguments");
        assert!(
            process(
                &template(),
                Arguments::Given(&arguments),
                &globals(),
                &Scope::new(),
                &nothing
            )
            .is_ok()
        );
    }

    #[test]
    fn a_config_map_is_read_or_its_default_taken() {
        let with = |from: Value| json!({"name": "t", "inputs": {"parameters": [{"name": "a", "valueFrom": from}]}, "container": {"args": ["{{inputs.parameters.a}}"]}});
        let key = json!({"name": "settings", "key": "{{workflow.name}}"});
        let found = |name: &str, key: &str| Ok(format!("{name}/{key}"));
        let run = |from: Value, value: ConfigMapValue<'_>| {
            process(
                &with(from),
                Arguments::Given(&Parameters::default()),
                &globals(),
                &Scope::new(),
                value,
            )
        };
        assert_eq!(
            run(json!({"configMapKeyRef": key}), &found)
                .map(|one| one["container"]["args"][0].clone()),
            Ok(json!("settings/w"))
        );
        assert_eq!(
            run(json!({"configMapKeyRef": key, "default": "d"}), &nothing)
                .map(|one| one["container"]["args"][0].clone()),
            Ok(json!("d"))
        );
        assert!(run(json!({"configMapKeyRef": key}), &nothing).is_err());
    }
}
