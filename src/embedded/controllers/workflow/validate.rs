//! Checks a Workflow once, before its first node: what is wrong here ends it as `Failed`, `invalid spec: …`.
//!
//! Order and texts follow `workflow/validate` of Argo Workflows 4.1, for the kinds of templates that are executed here.

use std::collections::BTreeSet;

use kube::api::ObjectMeta;
use serde_json::{Value, json};

use super::arguments::{Arguments, process};
use super::spec::{Parameter, Parameters, Spec, Step, Template};
use super::substitute::{Scope, tags};
use super::{MAX_DEPTH, TOO_DEEP, arguments};

/// Longest name of a Workflow: it becomes a label.
const MAX_NAME: usize = 63;
/// Prefixes of variables; other tags are custom and not looked at.
const PREFIXES: [&str; 7] = [
    "item.",
    "steps.",
    "inputs.",
    "outputs.",
    "pod.",
    "workflow.",
    "tasks.",
];
/// Variables that come into being later.
const LATER: [&str; 6] = [
    "outputs.",
    "workflow.creationTimestamp",
    "workflow.scheduledTime",
    "workflow.duration",
    "steps.name",
    "tasks.name",
];

type Check = Result<(), String>;

/// What is to be executed, and where it came from.
pub(super) struct Subject<'a> {
    pub meta: &'a ObjectMeta,
    /// The merged spec.
    pub spec: &'a Spec,
    /// The name in `workflowTemplateRef`.
    pub template_ref: Option<&'a str>,
}

/// Checks the executed spec.
///
/// # Errors
/// The message after `invalid spec: `.
pub(super) fn validate(subject: &Subject<'_>) -> Check {
    let (name, spec) = (
        subject.meta.name.as_deref().unwrap_or_default(),
        subject.spec,
    );
    if name.len() > MAX_NAME {
        let length = name.len();
        return Err(format!(
            "workflow name \"{name}\" must not be more than {MAX_NAME} characters long (currently {length})"
        ));
    }
    check_template_names(spec)?;
    check_arguments("spec.arguments.", &spec.arguments)?;
    if spec.entrypoint.is_empty() {
        return Err("spec.entrypoint is required".to_owned());
    }
    let mut checker = Checker {
        subject,
        globals: global_placeholders(subject),
        checked: BTreeSet::new(),
        depth: 0,
    };
    checker.holder(&spec.entrypoint, Arguments::Given(&spec.arguments))?;
    if !spec.on_exit.is_empty() {
        checker
            .globals
            .insert("workflow.failures".to_owned(), "placeholder".to_owned());
        checker.holder(&spec.on_exit, Arguments::Given(&spec.arguments))?;
    }
    check_pod_gc(spec)?;
    for template in &spec.templates {
        let name = template["name"].as_str().unwrap_or_default();
        checker
            .holder(name, Arguments::Any)
            .map_err(|error| format!("templates.{name} {error}"))?;
    }
    Ok(())
}

fn check_template_names(spec: &Spec) -> Check {
    let names = spec
        .templates
        .iter()
        .map(|template| template["name"].as_str().unwrap_or_default());
    check_names(names, is_field_name, FIELD_NAME_RULE)
        .map_err(|error| format!("spec.templates{error}"))
}

const FIELD_NAME_RULE: &str = "name must consist of alpha-numeric characters or '-', and must start with an alpha-numeric character (e.g. My-name1-2, 123-NAME)";
const PARAMETER_NAME_RULE: &str = "Parameter/Artifact name must consist of alpha-numeric characters, '_' or '-' e.g. my_param_1, MY-PARAM-1";

fn is_field_name(name: &str) -> bool {
    name.len() <= 128
        && name.starts_with(|c: char| c.is_ascii_alphanumeric())
        && name.chars().all(|c| c.is_ascii_alphanumeric() || c == '-')
}

fn is_parameter_name(name: &str) -> bool {
    !name.is_empty()
        && name
            .chars()
            .all(|c| c.is_ascii_alphanumeric() || matches!(c, '-' | '_'))
}

fn check_names<'a>(
    names: impl Iterator<Item = &'a str>,
    is_valid: fn(&str) -> bool,
    rule: &str,
) -> Check {
    let mut seen = BTreeSet::new();
    for (number, name) in names.enumerate() {
        if name.is_empty() {
            return Err(format!("[{number}].name is required"));
        }
        if !is_valid(name) {
            return Err(format!("[{number}].name: '{name}' is invalid: {rule}"));
        }
        if !seen.insert(name) {
            return Err(format!("[{number}].name '{name}' is not unique"));
        }
    }
    Ok(())
}

fn check_parameter_names(parameters: &Parameters) -> Check {
    check_names(
        parameters.parameters.iter().map(|one| one.name.as_str()),
        is_parameter_name,
        PARAMETER_NAME_RULE,
    )
}

fn check_arguments(prefix: &str, arguments: &Parameters) -> Check {
    check_parameter_names(arguments).map_err(|error| format!("{prefix}parameters{error}"))?;
    arguments
        .parameters
        .iter()
        .try_for_each(|parameter| check_argument(prefix, parameter))
}

fn check_argument(prefix: &str, parameter: &Parameter) -> Check {
    let path = format!("{prefix}{}", parameter.name);
    if parameter.value.is_none() && parameter.value_from.is_none() {
        return Err(format!("{path}.value or {path}.valueFrom is required"));
    }
    if let Some(from) = &parameter.value_from {
        let allowed = from.config_map_key_ref.is_some() || from.supplied.is_some();
        if !allowed
            || !from.path.is_empty()
            || !from.parameter.is_empty()
            || !from.expression.is_empty()
        {
            return Err(format!(
                "{path}.valueFrom only allows: default, configMapKeyRef and supplied"
            ));
        }
    }
    match (&parameter.allowed, &parameter.value) {
        (Some(allowed), _) if allowed.is_empty() => {
            Err(format!("{path}.enum should contain at least one value"))
        }
        (Some(_), None) => Err(format!("{path}.value is required")),
        (Some(allowed), Some(value)) if !allowed.contains(value) => Err(format!(
            "{path}.value should be present in {path}.enum list"
        )),
        _ => Ok(()),
    }
}

fn check_pod_gc(spec: &Spec) -> Check {
    let strategy = spec
        .pod_gc
        .as_ref()
        .map(|gc| gc.strategy.as_str())
        .unwrap_or_default();
    let known = [
        "",
        "OnPodCompletion",
        "OnPodSuccess",
        "OnWorkflowCompletion",
        "OnWorkflowSuccess",
    ];
    if known.contains(&strategy) {
        Ok(())
    } else {
        Err(format!("podGC.strategy unknown strategy '{strategy}'"))
    }
}

fn global_placeholders(subject: &Subject<'_>) -> Scope {
    let (spec, meta) = (subject.spec, subject.meta);
    let fixed = [
        "name",
        "namespace",
        "uid",
        "mainEntrypoint",
        "serviceAccountName",
        "status",
        "labels",
        "labels.json",
        "annotations",
        "annotations.json",
    ];
    let mut names: Vec<String> = fixed.iter().map(|name| (*name).to_owned()).collect();
    if !spec.arguments.parameters.is_empty() {
        names.extend(["parameters".to_owned(), "parameters.json".to_owned()]);
    }
    names.extend(
        spec.arguments
            .parameters
            .iter()
            .map(|one| format!("parameters.{}", one.name)),
    );
    let labels = meta
        .labels
        .iter()
        .flatten()
        .chain(&spec.workflow_metadata.labels);
    names.extend(labels.map(|(key, _)| format!("labels.{key}")));
    let annotations = meta
        .annotations
        .iter()
        .flatten()
        .chain(&spec.workflow_metadata.annotations);
    names.extend(annotations.map(|(key, _)| format!("annotations.{key}")));
    names.extend(spec.priority.map(|_| "priority".to_owned()));
    let mut globals: Scope = names
        .into_iter()
        .map(|name| (format!("workflow.{name}"), "placeholder".into()))
        .collect();
    for parameter in &spec.arguments.parameters {
        if let Some(value) = &parameter.value {
            globals.insert(
                format!("workflow.parameters.{}", parameter.name),
                value.0.clone(),
            );
        }
    }
    globals
}

struct Checker<'a> {
    subject: &'a Subject<'a>,
    globals: Scope,
    /// Templates whose inside has been looked at.
    checked: BTreeSet<String>,
    depth: usize,
}

impl Checker<'_> {
    /// Checks the template that an entrypoint or a step names, with its arguments.
    fn holder(&mut self, name: &str, given: Arguments<'_>) -> Check {
        let spec = self.subject.spec;
        let Some(raw) = spec.template(name) else {
            return Err(match self.subject.template_ref {
                Some(reference) => format!("template reference {reference}.{name} not found"),
                None => format!("template name '{name}' undefined"),
            });
        };
        if self.depth >= MAX_DEPTH {
            return Err(TOO_DEEP.to_owned());
        }
        self.depth += 1;
        let checked = self.template(name, raw, given);
        self.depth -= 1;
        checked
    }

    fn template(&mut self, name: &str, raw: &Value, given: Arguments<'_>) -> Check {
        check_kind(name, raw)?;
        let typed = arguments::parse(raw.clone())?;
        check_retry_policy(&typed)?;
        check_parameter_names(&typed.inputs)
            .map_err(|error| format!("templates.{name}.inputs.parameters{error}"))?;
        let locals = local_placeholders(&typed, self.subject.spec);
        let any = |_: &str, _: &str| Ok("placeholder".to_owned());
        let processed = process(raw, given, &self.globals, &locals, &any)
            .map_err(|error| format!("templates.{name} {error}"))?;
        let typed = arguments::parse(processed.clone())?;
        check_timeout(&typed)?;
        if !self.checked.insert(name.to_owned()) {
            return Ok(());
        }
        let mut scope = self.scope_of(&typed, &locals);
        match &typed.steps {
            Some(steps) => self.steps(&typed, steps, &mut scope)?,
            None => check_leaf(&typed, &processed, &scope)?,
        }
        check_outputs(&typed, &processed, &scope)
    }

    fn scope_of(&self, template: &Template, locals: &Scope) -> BTreeSet<String> {
        let mut scope: BTreeSet<String> =
            self.globals.keys().chain(locals.keys()).cloned().collect();
        scope.extend(
            template
                .inputs
                .parameters
                .iter()
                .map(|one| format!("inputs.parameters.{}", one.name)),
        );
        if !template.inputs.parameters.is_empty() {
            scope.insert("inputs.parameters".to_owned());
        }
        for output in &template.outputs.parameters {
            if output
                .value_from
                .as_ref()
                .is_some_and(|from| !from.path.is_empty())
            {
                scope.insert(format!("outputs.parameters.{}.path", output.name));
            }
        }
        scope
    }

    fn steps(
        &mut self,
        template: &Template,
        groups: &[Vec<Step>],
        scope: &mut BTreeSet<String>,
    ) -> Check {
        let path = format!("templates.{}.steps", template.name);
        if template.active_deadline_seconds.is_some() {
            return Err(format!(
                "templates.{}.activeDeadlineSeconds is only valid for leaf templates",
                template.name
            ));
        }
        let mut names = BTreeSet::new();
        for (number, group) in groups.iter().enumerate() {
            for step in group {
                let (name, at) = (&step.name, format!("{path}[{number}]"));
                if name.is_empty() {
                    return Err(format!("{at}.name is required"));
                }
                if !names.insert(name) {
                    return Err(format!("{at}.name '{name}' is not unique"));
                }
                if !is_field_name(name) {
                    return Err(format!("{at}.name '{name}' is invalid: {FIELD_NAME_RULE}"));
                }
                self.step(&path, &at, step, scope)?;
            }
        }
        Ok(())
    }

    fn step(&mut self, path: &str, at: &str, step: &Step, scope: &mut BTreeSet<String>) -> Check {
        let name = &step.name;
        scope.insert(format!("steps.{name}.status"));
        check_arguments(&format!("{at}.{name}.arguments."), &step.arguments)?;
        let inside = |error: String| format!("{at}.{name} {error}");
        self.holder(&step.template, Arguments::Any)
            .map_err(inside)?;
        check_tags(&json!(step), scope).map_err(|error| format!("{path} {error}"))?;
        self.add_outputs(step, scope);
        self.holder(&step.template, Arguments::Given(&step.arguments))
            .map_err(inside)
    }

    fn add_outputs(&self, step: &Step, scope: &mut BTreeSet<String>) {
        let name = &step.name;
        let fields = [
            "id",
            "startedAt",
            "finishedAt",
            "hostNodeName",
            "outputs.result",
            "exitCode",
        ];
        scope.extend(fields.iter().map(|field| format!("steps.{name}.{field}")));
        let outputs = self
            .subject
            .spec
            .template(&step.template)
            .map(|template| &template["outputs"]["parameters"]);
        for output in outputs.and_then(Value::as_array).into_iter().flatten() {
            if let Some(output) = output["name"].as_str() {
                scope.insert(format!("steps.{name}.outputs.parameters.{output}"));
            }
        }
    }
}

fn check_kind(name: &str, template: &Value) -> Check {
    let kinds = ["container", "steps"]
        .iter()
        .filter(|kind| !template[**kind].is_null())
        .count();
    let choice = "choose one of: container, containerSet, steps, script, resource, dag, suspend, template, template ref";
    match kinds {
        0 => Err(format!(
            "templates.{name} template type unspecified. {choice}"
        )),
        1 => Ok(()),
        _ => Err(format!(
            "templates.{name} multiple template types specified. {choice}"
        )),
    }
}

fn check_retry_policy(template: &Template) -> Check {
    let policy = template
        .retry_strategy
        .as_ref()
        .map(|strategy| strategy.retry_policy.as_str())
        .unwrap_or_default();
    let known = ["", "Always", "OnFailure", "OnError", "OnTransientError"];
    if known.contains(&policy) {
        Ok(())
    } else {
        Err(format!("{policy} is not a valid RetryPolicy"))
    }
}

fn check_timeout(template: &Template) -> Check {
    if template.timeout.is_empty() {
        return Ok(());
    }
    if !template.is_pod() {
        return Err("Steps template doesn't support timeout field".to_owned());
    }
    match template.timeout.parse::<i64>() {
        Ok(_) => Err(format!(
            "{} has invalid duration format in timeout",
            template.name
        )),
        Err(_) => Ok(()),
    }
}

fn local_placeholders(template: &Template, spec: &Spec) -> Scope {
    let mut names = vec!["node.name"];
    if template.is_pod() {
        names.push("pod.name");
    }
    if template.retry_strategy.is_some() || spec.retry_strategy.is_some() {
        names.extend([
            "retries",
            "lastRetry.exitCode",
            "lastRetry.status",
            "lastRetry.duration",
            "lastRetry.message",
        ]);
    }
    names
        .into_iter()
        .map(|name| (name.to_owned(), "placeholder".to_owned()))
        .collect()
}

fn check_leaf(template: &Template, processed: &Value, scope: &BTreeSet<String>) -> Check {
    let name = &template.name;
    check_tags(processed, scope).map_err(|error| format!("templates.{name}: {error}"))?;
    let container = &processed["container"];
    let mut mounts = std::collections::BTreeMap::new();
    for (number, mount) in container["volumeMounts"]
        .as_array()
        .into_iter()
        .flatten()
        .enumerate()
    {
        let path = mount["mountPath"].as_str().unwrap_or_default();
        let this = format!(
            "container.volumeMounts.{}",
            mount["name"].as_str().unwrap_or_default()
        );
        if let Some(other) = mounts.insert(path, this) {
            return Err(format!(
                "templates.{name}.container.volumeMounts[{number}].mountPath '{path}' already mounted in {other}"
            ));
        }
    }
    if container["image"].as_str().unwrap_or_default().is_empty() {
        return Err(format!("templates.{name}.container.image may not be empty"));
    }
    let deadline = template
        .active_deadline_seconds
        .as_ref()
        .map(|seconds| seconds.0.parse::<i64>());
    if deadline.is_some_and(|seconds| seconds.is_err() || seconds.is_ok_and(|seconds| seconds < 0))
    {
        return Err(format!(
            "templates.{name}.activeDeadlineSeconds must be a positive integer > 0 or an argo variable"
        ));
    }
    Ok(())
}

fn check_outputs(template: &Template, processed: &Value, scope: &BTreeSet<String>) -> Check {
    let name = &template.name;
    check_parameter_names(&template.outputs)
        .map_err(|error| format!("templates.{name}.outputs.parameters {error}"))?;
    check_tags(&processed["outputs"], scope)
        .map_err(|error| format!("templates.{name}.outputs {error}"))?;
    for output in &template.outputs.parameters {
        let path = format!("templates.{name}.outputs.parameters.{}", output.name);
        let Some(from) = &output.value_from else {
            continue;
        };
        if template.is_pod() && from.path.is_empty() {
            return Err(format!(
                "{path}.path must be specified for Container templates"
            ));
        }
        if !template.is_pod() && from.parameter.is_empty() {
            return Err(format!(
                "{path}.parameter or expression must be specified for Steps templates"
            ));
        }
    }
    Ok(())
}

/// Checks that every variable can have a value when it is needed.
fn check_tags(value: &Value, scope: &BTreeSet<String>) -> Check {
    for tag in tags(value) {
        let name = tag.trim();
        let is_variable = PREFIXES.iter().any(|prefix| name.starts_with(prefix));
        let comes_later = LATER.iter().any(|prefix| name.starts_with(prefix));
        if is_variable && !comes_later && !scope.contains(name) {
            return Err(format!("failed to resolve {{{{{tag}}}}}"));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::embedded::controllers::workflow::spec::without_nulls;

    fn run(spec: Value) -> Result<(), String> {
        let spec: Spec = serde_json::from_value(without_nulls(&spec)).expect("spec");
        let meta = ObjectMeta {
            name: Some("order-1".into()),
            ..ObjectMeta::default()
        };
        validate(&Subject {
            meta: &meta,
            spec: &spec,
            template_ref: None,
        })
    }

    fn container() -> Value {
        json!({"name": "apply", "inputs": {"parameters": [{"name": "order"}]},
               "container": {"image": "eventlab:dev", "command": ["/eventlab"], "args": ["{{inputs.parameters.order}}"]}})
    }

    fn steps(step: Value) -> Value {
        json!({"entrypoint": "main", "templates": [{"name": "main", "steps": [[step]]}, container()]})
    }

    fn fails(spec: Value, tail: &str) {
        let error = run(spec).expect_err("invalid");
        assert!(error.ends_with(tail), "{error}");
    }

    #[test]
    fn a_workflow_of_steps_passes() {
        let step = json!({"name": "record", "template": "apply", "arguments": {"parameters": [{"name": "order", "value": "{{workflow.uid}}"}]}});
        assert_eq!(run(steps(step)), Ok(()));
    }

    #[test]
    fn the_entrypoint_must_be_there() {
        fails(
            json!({"templates": [container()]}),
            "spec.entrypoint is required",
        );
        fails(
            json!({"entrypoint": "nope", "templates": [container()]}),
            "template name 'nope' undefined",
        );
        let spec: Spec = serde_json::from_value(json!({"entrypoint": "nope"})).expect("spec");
        let subject = Subject {
            meta: &ObjectMeta::default(),
            spec: &spec,
            template_ref: Some("process-order"),
        };
        assert_eq!(
            validate(&subject),
            Err("template reference process-order.nope not found".into())
        );
    }

    #[test]
    fn parameters_need_values() {
        let spec = json!({"entrypoint": "apply", "arguments": {"parameters": [{"name": "a"}]}, "templates": [container()]});
        fails(
            spec,
            "spec.arguments.a.value or spec.arguments.a.valueFrom is required",
        );
        let step = json!({"name": "record", "template": "apply"});
        assert_eq!(
            run(steps(step)),
            Err("templates.main.steps[0].record templates.apply inputs.parameters.order was not supplied".into())
        );
    }

    #[test]
    fn variables_must_be_known() {
        let step = json!({"name": "record", "template": "apply", "arguments": {"parameters": [{"name": "order", "value": "{{steps.other.outputs.result}}"}]}});
        fails(
            steps(step),
            "failed to resolve {{steps.other.outputs.result}}",
        );
        let spec = json!({"entrypoint": "a", "templates": [{"name": "a", "container": {"image": "x", "args": ["{{workflow.parameters.nope}}"]}}]});
        fails(
            spec,
            "templates.a: failed to resolve {{workflow.parameters.nope}}",
        );
    }

    #[test]
    fn names_are_checked() {
        let meta = ObjectMeta {
            name: Some("n".repeat(64)),
            ..ObjectMeta::default()
        };
        let error = validate(&Subject {
            meta: &meta,
            spec: &Spec::default(),
            template_ref: None,
        })
        .expect_err("long");
        assert!(
            error.ends_with("must not be more than 63 characters long (currently 64)"),
            "{error}"
        );
        fails(
            json!({"entrypoint": "a", "templates": [{"name": "a_b", "container": {}}]}),
            FIELD_NAME_RULE,
        );
        fails(
            json!({"entrypoint": "apply", "templates": [container(), container()]}),
            "[1].name 'apply' is not unique",
        );
    }

    #[test]
    fn kinds_and_images_are_checked() {
        fails(
            json!({"entrypoint": "a", "templates": [{"name": "a"}]}),
            "template, template ref",
        );
        let bare =
            json!({"entrypoint": "a", "templates": [{"name": "a", "container": {"args": []}}]});
        fails(bare, "templates.a.container.image may not be empty");
    }

    #[test]
    fn a_template_that_calls_itself_and_a_long_chain_end() {
        let itself = json!({"name": "again", "template": "main"});
        assert_eq!(
            run(steps(itself)),
            Ok(()),
            "recursion is legal, and ends at run time"
        );
        let mut templates: Vec<Value> = (0..500)
            .map(|n| json!({"name": format!("t{n}"), "steps": [[{"name": "a", "template": format!("t{}", n + 1)}]]}))
            .collect();
        templates.push(json!({"name": "t500", "container": {"image": "x"}}));
        fails(
            json!({"entrypoint": "t0", "templates": templates}),
            TOO_DEEP,
        );
    }
}
