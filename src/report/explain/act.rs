//! What the triggers do with the events that passed: conditions, objects, and where the way ends.

use std::collections::BTreeMap;

use jiff::Timestamp;
use serde_json::{Value, json};

use super::walk::LOGGER;
use super::{
    Act, Dependency, DependencyStep, LogLine, Made, Sensor, Stop, TriggerStep, Walk, hints,
    objects, text_at,
};
use crate::sensor::conditions::{Conditions, ConditionsError};
use crate::sensor::parameters::Events;
use crate::sensor::rate::Rate;
use crate::sensor::trigger::{self, Action, Origin, TriggerError};

impl Walk {
    /// What the triggers that name one of the dependencies do.
    pub(super) fn act(
        &mut self,
        sensor: &Sensor,
        listening: &[&Dependency],
        passed: &Events,
        now: Timestamp,
    ) {
        let origin = Origin {
            sensor: &sensor.name,
            namespace: &sensor.namespace,
            now,
        };
        let mut triggers = sensor.triggers.iter();
        let culprit = triggers.find(|value| Rate::of(value) == Rate::Zero);
        for value in &sensor.triggers {
            let conditions = text_at(value, "/template/conditions");
            let step = match Conditions::parse(&conditions, &sensor.names) {
                Err(error) => self.unreadable(text_at(value, "/template/name"), &error),
                Ok(conditions) => {
                    let wants = |one: &&Dependency| conditions.dependencies().contains(&one.name);
                    if !listening.iter().any(wants) {
                        continue;
                    }
                    match culprit {
                        Some(culprit) => self.crashed(value, culprit),
                        None => self.trigger(value, &conditions, passed, origin),
                    }
                }
            };
            self.triggers.push(step);
        }
        self.conclude(passed.is_empty());
    }

    /// A trigger whose conditions cannot be read.
    fn unreadable(&mut self, name: String, error: &ConditionsError) -> TriggerStep {
        let (mut step, text) = (blank(name), error.to_string());
        if matches!(error, ConditionsError::TooDeep) {
            not_shown(&mut step, text);
            return step;
        }
        self.logs.push(LogLine::new(
            "error",
            LOGGER,
            "failed to get dependency expression",
            &[("triggerName", json!(step.name)), ("error", json!(text))],
        ));
        self.change.push("name the Sensor's dependencies in `conditions`, joined with && and ||; until then the trigger is never subscribed".to_owned());
        (step.act, step.error) = (Act::Fails, Some(text));
        step
    }

    /// A trigger of a Sensor whose pod ends before it subscribes to anything.
    fn crashed(&mut self, value: &Value, culprit: &Value) -> TriggerStep {
        let mut step = blank(text_at(value, "/template/name"));
        let culprit = text_at(culprit, "/template/name");
        let change = format!(
            "set `requestsPerUnit` of trigger {culprit} to 1 or more, or leave its `rateLimit` out; until then no trigger of the Sensor is subscribed"
        );
        if !self.change.contains(&change) {
            self.change.push(change);
        }
        let error =
            "the Sensor's pod ends when it starts: panic: runtime error: integer divide by zero";
        (step.act, step.error) = (Act::Fails, Some(error.to_owned()));
        step
    }

    /// Hands the events that passed to a trigger one after the other, in the order of its conditions.
    fn trigger(
        &mut self,
        value: &Value,
        conditions: &Conditions,
        passed: &Events,
        origin: Origin<'_>,
    ) -> TriggerStep {
        let mut step = blank(text_at(value, "/template/name"));
        step.conditions = conditions.to_string();
        let (mut kept, mut fired) = (Events::new(), 0);
        for name in conditions.dependencies() {
            let Some(event) = passed.get(name) else {
                continue;
            };
            step.triggered_by.push(name.clone());
            kept.insert(name.clone(), event.clone());
            if conditions.needs_several() {
                self.tell_state(&step.name, conditions, &kept);
                if !conditions.holds(|name| kept.contains_key(name)) {
                    continue;
                }
            }
            self.logs.push(LogLine::new(
                "info",
                LOGGER,
                format!("Triggering actions after receiving dependency {name}"),
                &[("triggerName", json!(step.name))],
            ));
            self.fire(&mut step, value, &std::mem::take(&mut kept), origin);
            fired += 1;
        }
        if !kept.is_empty() {
            let missing = conditions.dependencies().iter();
            let missing = missing.filter(|name| !kept.contains_key(*name));
            step.waits_for = missing.cloned().collect();
            if fired == 0 {
                step.act = Act::Waits;
            }
        }
        if let Rate::Negative(requests) = Rate::of(value)
            && step.act == Act::Submits
        {
            let text =
                format!("what a rate limit of {requests} requests comes to is not known here");
            not_shown(&mut step, text);
        }
        self.several(&step);
        self.doubt(&mut step, conditions);
        step
    }

    fn tell_state(&mut self, trigger: &str, conditions: &Conditions, kept: &Events) {
        let state: BTreeMap<&str, bool> = conditions
            .dependencies()
            .iter()
            .map(|name| (name.as_str(), kept.contains_key(name)))
            .collect();
        let state: Vec<String> = state
            .iter()
            .map(|(name, seen)| format!("{name}:{seen}"))
            .collect();
        self.logs.push(LogLine::new(
            "info",
            LOGGER,
            format!("Current state of dependencies: map[{}]", state.join(" ")),
            &[("triggerName", json!(trigger))],
        ));
    }

    /// Says so where one event makes a trigger act several times.
    fn several(&mut self, step: &TriggerStep) {
        if step.act != Act::Submits || step.objects.len() < 2 {
            return;
        }
        let of: Vec<String> = step
            .objects
            .iter()
            .map(|made| made.by.join(" and "))
            .collect();
        self.notes.push(format!(
            "trigger {}: {} objects from one event, as each of {} passes and acts by itself; a parameter of another dependency has its default or is left out",
            step.name,
            step.objects.len(),
            of.join(", ")
        ));
    }

    /// A trigger that names a dependency whose decision is not known may act on it, too.
    fn doubt(&self, step: &mut TriggerStep, conditions: &Conditions) {
        let unknown = self
            .dependencies
            .iter()
            .find(|one| one.unjudged.is_some() && conditions.dependencies().contains(&one.name));
        if let Some(unknown) = unknown
            && matches!(step.act, Act::NotReached | Act::Waits)
        {
            let text = format!(
                "whether dependency {} passes is not known here",
                unknown.name
            );
            not_shown(step, text);
        }
    }

    /// One execution of a trigger.
    fn fire(&mut self, step: &mut TriggerStep, value: &Value, events: &Events, origin: Origin<'_>) {
        let failed = match trigger::build(value, events, origin) {
            Ok(action) => return self.submit(step, value, events, &action),
            // Upstream makes parameters and payload before it calls anything, so these may fail all the same.
            Err(outside @ TriggerError::Unsupported(_)) => match trigger::resolve(value, events) {
                Err(error) if !error.is_own() => error,
                Err(error @ (TriggerError::Parameter(_) | TriggerError::Call { .. })) => error,
                _ => outside,
            },
            Err(error) => error,
        };
        if failed.is_own() {
            return not_shown(step, failed.to_string());
        }
        let change = hints::building(&failed, value, events);
        if matches!(failed, TriggerError::Crash(_)) {
            // What ends the process leaves no line of the logger's.
            self.change.extend(change);
            (step.act, step.error) = (Act::Fails, Some(failed.to_string()));
            return;
        }
        self.fail(step, events, failed.logged(), change);
    }

    /// Holds an action against what the API, Argo's command line and the trigger's policy say to it whatever the cluster holds.
    fn submit(&mut self, step: &mut TriggerStep, value: &Value, events: &Events, action: &Action) {
        let (operation, submission) = match action {
            Action::Log => {
                step.operation = Some("log".to_owned());
                return submits(step);
            }
            Action::Object(submission) => (submission.operation.as_str(), submission),
            Action::Workflow(submission) => ("submit", submission),
        };
        step.operation = Some(operation.to_owned());
        step.objects.push(Made {
            by: events.keys().cloned().collect(),
            object: submission.object.clone(),
        });
        match objects::refused(action, value) {
            Some(refused) => self.fail(step, events, refused.error, refused.change),
            None => submits(step),
        }
    }

    fn fail(
        &mut self,
        step: &mut TriggerStep,
        events: &Events,
        error: String,
        change: Vec<String>,
    ) {
        let ids: Vec<&String> = events.values().map(|event| &event.id).collect();
        let names: Vec<&String> = events.keys().collect();
        self.logs.push(LogLine::new(
            "error",
            LOGGER,
            "Failed to execute a trigger",
            &[
                ("error", json!(error)),
                ("triggerName", json!(step.name)),
                ("triggeredBy", json!(names)),
                ("triggeredByEvents", json!(ids)),
            ],
        ));
        for text in change {
            if !self.change.contains(&text) {
                self.change.push(text);
            }
        }
        (step.act, step.error) = (Act::Fails, Some(error));
    }

    /// Says where the way ends.
    fn conclude(&mut self, none_passed: bool) {
        let acts = |act: Act| self.triggers.iter().any(|trigger| trigger.act == act);
        // What only might have reached it did not fail for certain.
        let is_open = |name: &String| {
            let open = |one: &DependencyStep| one.unjudged.is_some() && one.name == *name;
            self.dependencies.iter().any(open)
        };
        let fails =
            |one: &TriggerStep| one.act == Act::Fails && !one.triggered_by.iter().any(is_open);
        let unknown = self.dependencies.iter().any(|one| one.unjudged.is_some());
        let none_judged = self.dependencies.iter().all(|step| step.filter.is_none());
        if none_passed && !unknown {
            self.stopped_at = Some(if none_judged {
                Stop::Transform
            } else {
                Stop::Filter
            });
        } else if self.triggers.iter().any(fails) {
            self.stopped_at = Some(Stop::Submit);
        } else if unknown || acts(Act::NotShown) {
            self.judged = false;
        } else if acts(Act::Submits) {
            self.passed = true;
        } else {
            self.passed = acts(Act::Waits);
            self.stopped_at = Some(Stop::Conditions);
        }
        if self.stopped_at == Some(Stop::Conditions) && !self.passed {
            let text = "no trigger's `conditions` name a dependency that passed; name it there";
            self.change.push(text.to_owned());
        }
    }
}

/// What fails or is not shown once is not taken back by what goes well.
fn submits(step: &mut TriggerStep) {
    if step.act == Act::NotReached {
        step.act = Act::Submits;
    }
}

fn not_shown(step: &mut TriggerStep, why: String) {
    if step.act != Act::Fails {
        (step.act, step.error) = (Act::NotShown, Some(why));
    }
}

fn blank(name: String) -> TriggerStep {
    TriggerStep {
        name,
        conditions: String::new(),
        act: Act::NotReached,
        triggered_by: Vec::new(),
        waits_for: Vec::new(),
        error: None,
        operation: None,
        objects: Vec::new(),
    }
}
