//! `retryStrategy`: a Retry node above its attempts, and the decision whether there is another.
//!
//! Order after a failed attempt: shutdown or deadline, `maxDuration`, back-off, policy, limit, new attempt.

use std::time::Duration;

use jiff::{SignedDuration, Timestamp};

use super::nodes::pod_name;
use super::operation::Operation;
use super::spec::{AnyString, Backoff, Parameters, RetryStrategy, duration};
use super::status::{Node, NodeFlag, NodeType, Phase};
use super::substitute::Scope;
use super::template::{ExecError, Options, Prepared};

/// What a Retry node does next.
#[derive(Debug, PartialEq, Eq)]
enum Decision {
    /// Follows its last attempt, makes a new one, or has ended.
    GoOn,
    /// Waits for its back-off.
    Wait,
}

/// Which bad ends a policy tries again.
fn retries(policy: &str, last: &Node) -> Result<(bool, bool), String> {
    Ok(match policy {
        "Always" => (true, true),
        "OnError" => (false, true),
        "OnFailure" => (true, false),
        "OnTransientError" => {
            let transient = is_transient_text(&last.message);
            (transient, transient)
        }
        other => return Err(format!("{other} is not a valid RetryPolicy")),
    })
}

/// Texts of errors that may pass by themselves.
fn is_transient_text(message: &str) -> bool {
    const TEXTS: [&str; 10] = [
        "exceeded quota",
        "too many requests",
        "connection refused",
        "connection reset by peer",
        "i/o timeout",
        "TLS handshake timeout",
        "no such host",
        "etcdserver: request timed out",
        "transport is closing",
        "the object has been modified",
    ];
    TEXTS.iter().any(|text| message.contains(text))
}

impl RetryStrategy {
    /// The policy that counts: stated, `Always` beside an expression, else `OnFailure`.
    fn policy(&self) -> &str {
        match (self.retry_policy.as_str(), self.expression.is_empty()) {
            ("", true) => "OnFailure",
            ("", false) => "Always",
            (stated, _) => stated,
        }
    }

    /// How many attempts there may be after the first; `None` is endless.
    fn limit(&self) -> Result<Option<usize>, String> {
        let Some(AnyString(text)) = &self.limit else {
            return Ok(None);
        };
        text.parse()
            .map(Some)
            .map_err(|_| format!("retryStrategy.limit: {text:?} is not a number"))
    }
}

impl Operation<'_> {
    /// Executes a template with retries: the node of this name is the Retry node.
    pub(super) fn execute_with_retries(
        &mut self,
        name: &str,
        arguments: &Parameters,
        prepared: &Prepared,
        strategy: &RetryStrategy,
        options: &Options,
    ) -> Result<(), ExecError> {
        if self.node(name).is_none() {
            self.init_executable(name, NodeType::Retry, Phase::Running, prepared, options);
        }
        let mut attempt_options = options.clone();
        match self.decide(name, strategy, &mut attempt_options) {
            Ok(Decision::GoOn) => {}
            Ok(Decision::Wait) => return Ok(()),
            Err(error) => {
                self.mark_error(name, &error);
                return Err(ExecError::Other(error));
            }
        }
        let attempts = self.attempts(name);
        if self.node(name).is_some_and(|node| node.is_fulfilled()) {
            self.hand_on_outputs(name, &attempts);
            return Ok(());
        }
        let hooked = options.flag.is_some_and(|flag| flag.hooked);
        attempt_options.flag = Some(NodeFlag {
            hooked,
            retried: true,
        });
        let (attempt, number) = self.next_attempt(name, &attempts);
        let locals =
            self.attempt_variables(&attempt, number, &prepared.template.name, attempts.last());
        let late = match self.with_locals(prepared, &locals) {
            Ok(late) => late,
            Err(error) => {
                let new = super::template::new_node(
                    &attempt,
                    NodeType::Skipped,
                    &prepared.template.name,
                    &attempt_options,
                );
                self.init_or_mark_error(&new, &error);
                self.add_child(name, &attempt);
                return Err(ExecError::Other(error));
            }
        };
        let outcome = self.dispatch(&attempt, &late, &attempt_options);
        self.add_child(name, &attempt);
        if let Err(error) = outcome
            && !matches!(strategy.policy(), "Always" | "OnError" | "OnTransientError")
        {
            return Err(error);
        }
        let ended = self.node(&attempt).is_some_and(|node| node.is_fulfilled());
        if ended && self.node(name).is_some_and(|node| !node.is_fulfilled()) {
            // The attempt ended in this very pass: the Retry node follows at once.
            return self.execute_template(name, &prepared.template.name, arguments, options);
        }
        Ok(())
    }

    /// The attempts of a Retry node, oldest first.
    fn attempts(&self, name: &str) -> Vec<Node> {
        let children = self
            .node(name)
            .map(|node| node.children.as_slice())
            .unwrap_or_default();
        let attempts = children.iter().filter_map(|id| self.by_id(id));
        attempts
            .filter(|node| node.node_flag.is_some_and(|flag| flag.retried))
            .cloned()
            .collect()
    }

    fn hand_on_outputs(&mut self, name: &str, attempts: &[Node]) {
        let outputs = attempts.last().and_then(|last| last.outputs.clone());
        if let (Some(node), Some(outputs)) = (self.node_mut(name), outputs) {
            node.outputs = Some(outputs);
        }
    }

    /// The attempt that runs, or the name of a new one.
    fn next_attempt(&self, name: &str, attempts: &[Node]) -> (String, usize) {
        match attempts.last().filter(|last| !last.is_fulfilled()) {
            Some(last) => (last.name.clone(), attempts.len() - 1),
            None => (format!("{name}({})", attempts.len()), attempts.len()),
        }
    }

    fn attempt_variables(
        &self,
        attempt: &str,
        number: usize,
        template: &str,
        last: Option<&Node>,
    ) -> Scope {
        let code = last
            .and_then(|last| last.outputs.as_ref()?.exit_code.clone())
            .unwrap_or_else(|| "0".to_owned());
        let took = last.map_or_else(|| "0".to_owned(), |last| seconds_between(last).to_string());
        Scope::from([
            (
                "pod.name".to_owned(),
                pod_name(self.name(), attempt, template),
            ),
            ("retries".to_owned(), number.to_string()),
            ("lastRetry.exitCode".to_owned(), code),
            ("lastRetry.duration".to_owned(), took),
            (
                "lastRetry.status".to_owned(),
                last.map(|last| super::status::text(last.phase))
                    .unwrap_or_default()
                    .to_owned(),
            ),
            (
                "lastRetry.message".to_owned(),
                last.map(|last| last.message.clone()).unwrap_or_default(),
            ),
        ])
    }

    fn decide(
        &mut self,
        name: &str,
        strategy: &RetryStrategy,
        options: &mut Options,
    ) -> Result<Decision, String> {
        let attempts = self.attempts(name);
        let fulfilled = self.node(name).is_some_and(|node| node.is_fulfilled());
        let Some(last) = attempts
            .last()
            .filter(|last| last.is_fulfilled() && !fulfilled)
        else {
            return Ok(Decision::GoOn);
        };
        let phase = last.phase.unwrap_or(Phase::Error);
        if !last.is_bad() {
            self.hand_on_outputs(name, &attempts);
            self.mark(name, Phase::Succeeded, None);
            return Ok(Decision::GoOn);
        }
        let message = match (self.shutdown(), self.deadline()) {
            (Some(strategy), _) => Some(format!("Stopped with strategy '{strategy}'")),
            (None, Some(deadline)) if self.is_past_deadline() => Some(format!(
                "retry exceeded workflow deadline {}",
                deadline.strftime("%Y-%m-%d %H:%M:%S +0000 UTC")
            )),
            _ => None,
        };
        if let Some(message) = message {
            self.log.info(&message, &[]);
            self.mark(name, phase, Some(&message));
            return Ok(Decision::GoOn);
        }
        if let Some(backoff) = &strategy.backoff
            && let Some(decision) = self.back_off(name, strategy, backoff, &attempts, options)?
        {
            return Ok(decision);
        }
        self.apply_policy(name, strategy, &attempts, last, phase)
    }

    fn apply_policy(
        &mut self,
        name: &str,
        strategy: &RetryStrategy,
        attempts: &[Node],
        last: &Node,
        phase: Phase,
    ) -> Result<Decision, String> {
        let policy = strategy.policy();
        let (on_failed, on_error) = retries(policy, last)?;
        let (failed, error) = (on_failed.to_string(), on_error.to_string());
        self.log.info(
            "Retry Policy",
            &[
                ("onError", &error),
                ("onFailed", &failed),
                ("policy", policy),
            ],
        );
        if (phase == Phase::Failed && !on_failed) || (phase == Phase::Error && !on_error) {
            self.log
                .info("Node not set to be retried", &[("phase", phase.as_str())]);
            self.mark(name, phase, Some(&last.message.clone()));
            return Ok(Decision::GoOn);
        }
        if strategy
            .limit()?
            .is_some_and(|limit| attempts.len() > limit)
        {
            self.log.info("No more retries left. Failing...", &[]);
            self.mark(name, phase, Some("No more retries left"));
            return Ok(Decision::GoOn);
        }
        if !strategy.expression.is_empty() {
            return Err(
                "eventlab: retryStrategy.expression is not evaluated on the embedded cluster; use retryPolicy".to_owned()
            );
        }
        let count = attempts.len().to_string();
        self.log.info(
            "child nodes failed, trying again",
            &[("count", count.as_str()), ("nodeName", name)],
        );
        Ok(Decision::GoOn)
    }

    /// Looks at `maxDuration` and the wait before the next attempt; `None` lets the policy decide.
    fn back_off(
        &mut self,
        name: &str,
        strategy: &RetryStrategy,
        backoff: &Backoff,
        attempts: &[Node],
        options: &mut Options,
    ) -> Result<Option<Decision>, String> {
        let (Some(first), Some(last)) = (attempts.first(), attempts.last()) else {
            return Ok(None);
        };
        let phase = last.phase.unwrap_or(Phase::Error);
        let mut ends = None;
        if let Some(AnyString(text)) = backoff
            .max_duration
            .as_ref()
            .filter(|text| !text.0.is_empty())
        {
            let started = first
                .started_at
                .as_ref()
                .map_or(self.world.now, |time| time.0);
            ends = Some(plus(started, duration(text)?));
            if ends.is_some_and(|ends| self.world.now > ends) {
                self.log
                    .info("Max duration limit exceeded. Failing...", &[]);
                self.mark(name, phase, Some("Max duration limit exceeded"));
                return Ok(Some(Decision::GoOn));
            }
        }
        let wait = wait(backoff, attempts.len())?;
        let finished = last
            .finished_at
            .as_ref()
            .map_or(self.world.now, |time| time.0);
        let next = plus(finished, wait);
        if ends.is_some_and(|ends| next > ends) {
            self.log
                .info("Backoff would exceed max duration limit. Failing...", &[]);
            self.mark(name, phase, Some("Backoff would exceed max duration limit"));
            return Ok(Some(Decision::GoOn));
        }
        if self.world.now < next
            && strategy
                .limit()?
                .is_some_and(|limit| attempts.len() <= limit)
        {
            self.look_again(self.until(next));
            self.mark(
                name,
                Phase::Running,
                Some(&format!("Backoff for {}", human(wait))),
            );
            return Ok(Some(Decision::Wait));
        }
        options.limit = ends;
        self.mark(name, Phase::Running, Some(""));
        Ok(None)
    }
}

fn plus(time: Timestamp, wait: Duration) -> Timestamp {
    let wait = SignedDuration::try_from(wait).unwrap_or(SignedDuration::MAX);
    time.checked_add(wait).unwrap_or(Timestamp::MAX)
}

fn seconds_between(node: &Node) -> i64 {
    match (&node.started_at, &node.finished_at) {
        (Some(started), Some(finished)) => finished.0.as_second() - started.0.as_second(),
        _ => 0,
    }
}

/// The wait before attempt number `attempts`: duration × factor^(attempts−1), at most `cap`.
fn wait(backoff: &Backoff, attempts: usize) -> Result<Duration, String> {
    let text = |value: &Option<AnyString>| {
        value
            .as_ref()
            .map(|text| text.0.clone())
            .filter(|text| !text.is_empty())
    };
    let base = text(&backoff.duration)
        .ok_or("no base duration specified for retryStrategy backoff")
        .map_err(str::to_owned)
        .and_then(|text| duration(&text))?;
    let mut wait = base;
    if let Some(text) = text(&backoff.factor) {
        let factor: u32 = text
            .parse()
            .map_err(|_| format!("retryStrategy.backoff.factor: {text:?} is not a number"))?;
        if factor > 0 {
            let power = u32::try_from(attempts.saturating_sub(1)).unwrap_or(u32::MAX);
            wait = base.saturating_mul(factor.saturating_pow(power));
        }
    }
    match text(&backoff.cap) {
        Some(cap) => Ok(wait.min(duration(&cap)?)),
        None => Ok(wait),
    }
}

/// A duration in words, as `Backoff for …` says it.
fn human(wait: Duration) -> String {
    let units = [
        (86_400, "day"),
        (3_600, "hour"),
        (60, "minute"),
        (1, "second"),
    ];
    let mut left = wait.as_secs();
    let mut parts = Vec::new();
    for (size, name) in units {
        let count = left / size;
        left %= size;
        if count > 0 {
            parts.push(format!(
                "{count} {name}{}",
                if count == 1 { "" } else { "s" }
            ));
        }
    }
    parts.truncate(2);
    if parts.is_empty() {
        "0 seconds".to_owned()
    } else {
        parts.join(" ")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waits_grow_up_to_their_cap() {
        let backoff: Backoff =
            serde_json::from_value(serde_json::json!({"duration": "5", "factor": 2, "cap": "30s"}))
                .expect("backoff");
        let waits: Vec<u64> = (1..6)
            .map(|attempts| wait(&backoff, attempts).expect("wait").as_secs())
            .collect();
        assert_eq!(waits, [5, 10, 20, 30, 30]);
        assert_eq!(
            wait(&backoff, usize::MAX).map(|wait| wait.as_secs()),
            Ok(30)
        );
        assert!(wait(&Backoff::default(), 1).is_err());
    }

    #[test]
    fn waits_are_said_in_words() {
        let said = |seconds| human(Duration::from_secs(seconds));
        assert_eq!(
            [said(5), said(1), said(60), said(90), said(3_661)],
            [
                "5 seconds",
                "1 second",
                "1 minute",
                "1 minute 30 seconds",
                "1 hour 1 minute"
            ]
        );
    }

    #[test]
    fn policies_differ_by_the_kind_of_end() {
        let node = Node {
            message: "pods is forbidden: exceeded quota".into(),
            ..Node::default()
        };
        assert_eq!(retries("OnFailure", &node), Ok((true, false)));
        assert_eq!(retries("OnError", &node), Ok((false, true)));
        assert_eq!(retries("Always", &node), Ok((true, true)));
        assert_eq!(retries("OnTransientError", &node), Ok((true, true)));
        assert_eq!(
            retries("OnTransientError", &Node::default()),
            Ok((false, false))
        );
        assert!(retries("Sometimes", &node).is_err());
        let with_expression = RetryStrategy {
            expression: "true".into(),
            ..RetryStrategy::default()
        };
        assert_eq!(
            (RetryStrategy::default().policy(), with_expression.policy()),
            ("OnFailure", "Always")
        );
    }
}
