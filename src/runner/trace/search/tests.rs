use super::super::findings::Standing;
use super::super::pipeline::tests::pipeline;
use super::super::verdict;
use super::*;
use crate::cluster::{BusAccess, ContainerInstance, Context, RealCluster};

/// For an event that is on the bus, where nobody answers.
async fn search() -> Search {
    let context = Context::silent("c").await;
    let options = RealCluster {
        bus: BusAccess::LogOnly,
        ..RealCluster::default()
    };
    let cluster = Cluster::of_context(&context, "ns", options);
    let sought = Sought {
        arrival: Some("a1".to_owned()),
        trace: None,
    };
    let mut search = Search::begin(&cluster, &pipeline(), sought, false).await;
    search.message = Some(BusMessage {
        sequence: 1,
        subject: "default.web.order".to_owned(),
        time: Timestamp::UNIX_EPOCH,
        arrival: "a1".to_owned(),
        trace: None,
    });
    search
}

/// Names, phases and what is said of the runs that were seen one after another.
#[tokio::test]
async fn a_workflow_that_is_cleaned_up_stays_seen() {
    let one = |name: &str, phase: &str| Candidate {
        name: name.to_owned(),
        trigger: String::new(),
        phase: phase.to_owned(),
        message: String::new(),
        created: String::new(),
        names_the_event: true,
        gone: false,
    };
    let triggered = triggered();
    for (looks, ended, standing, said) in [
        (
            vec![vec![one("w", "Running")], vec![]],
            true,
            Standing::Unproven,
            "not there any more",
        ),
        (
            vec![vec![one("w", "Succeeded")], vec![]],
            true,
            Standing::Through,
            "not there any more",
        ),
        (
            vec![vec![one("w", "Failed")], vec![]],
            true,
            Standing::Stopped,
            "not there any more",
        ),
        (
            vec![vec![one("w", "Running")], vec![one("w", "Failed")]],
            true,
            Standing::Stopped,
            "Failed",
        ),
        (
            vec![vec![one("w", "Running")]],
            false,
            Standing::Unproven,
            "Running",
        ),
        // Gone before anybody looked, or it names nothing of the event.
        (vec![vec![]], true, Standing::Unproven, "names it"),
    ] {
        let mut search = search().await;
        search.take(triggered.clone());
        for listed in looks {
            search.take_workflows(listed);
        }
        assert_eq!(search.runs_ended(), ended, "{said}");
        let findings = search.findings(&pipeline());
        let runs: Vec<_> = findings.iter().filter(|one| one.layer == "run").collect();
        let [run] = runs.as_slice() else {
            panic!("{findings:?}");
        };
        assert_eq!(run.standing, standing, "{run:?}");
        assert!(run.line.contains(said), "{run:?}");
    }
}

/// A trigger that has made a Workflow is proven by one of its own.
#[tokio::test]
async fn as_many_triggers_as_many_workflows() {
    let mut two = pipeline();
    let template = |name: &str| serde_json::json!({"template": {"name": name, "k8s": {"source": {"resource": {"kind": "Workflow"}}}}});
    two.sensor["spec"]["triggers"] = serde_json::json!([template("t"), template("u")]);
    two.subscriptions = crate::runner::expected::subscriptions(&two.sensor);
    let one = |name: &str, trigger: &str| Candidate {
        name: name.to_owned(),
        trigger: trigger.to_owned(),
        phase: "Succeeded".to_owned(),
        message: String::new(),
        created: String::new(),
        names_the_event: true,
        gone: false,
    };
    for (lines, listed, proven, said) in [
        (
            vec!["t", "u"],
            vec![one("a", "t"), one("b", "u")],
            true,
            "run",
        ),
        (
            vec!["t", "u"],
            vec![one("a", ""), one("b", "")],
            true,
            "run",
        ),
        (
            vec!["t", "u"],
            vec![one("a", "t")],
            false,
            "no Workflow of trigger u",
        ),
        // Made twice by the same trigger.
        (
            vec!["t", "u"],
            vec![one("a", "t"), one("b", "t")],
            false,
            "of trigger u",
        ),
        (
            vec!["t", "u"],
            vec![one("a", "")],
            false,
            "no Workflow of trigger",
        ),
        (vec!["t", "u"], vec![], false, "no Workflow of trigger t, u"),
        (
            vec!["t", "t"],
            vec![one("a", "t")],
            false,
            "no line of trigger u",
        ),
    ] {
        let mut search = search().await;
        for trigger in &lines {
            search.take(triggered_by(trigger));
        }
        search.take_workflows(listed);
        let findings = search.findings(&two);
        let verdict = verdict::verdict(&findings);
        assert_eq!(verdict.proven, proven, "{lines:?} {verdict:?}");
        assert!(verdict.text.contains(said), "{said}: {verdict:?}");
    }
}

/// A rejection does not say whose it is: the silence of two triggers is not explained by one.
#[tokio::test]
async fn as_many_silent_triggers_as_many_rejections() {
    let template = |name: &str, conditions: &str| serde_json::json!({"template": {"name": name, "conditions": conditions, "log": {}}});
    let mut many = pipeline();
    let known = many.sensor["spec"]["dependencies"][0].clone();
    let named = |name: &str| {
        let mut dependency = known.clone();
        dependency["name"] = name.into();
        dependency
    };
    let discarded =
        line("Event [ID 'a1', Source 'o', Time 'x', Data '{}'] discarded due to filtering");
    for (conditions, rejections, proven) in [
        (vec!["a", "b"], 0, false),
        (vec!["a", "b"], 1, true),
        (vec!["a", "b", "a"], 1, false),
        (vec!["a", "b", "a"], 2, true),
        // Of those that share a consumer each judges by itself.
        (vec!["a || b", "b"], 1, false),
        (vec!["a || b", "b"], 2, true),
        (vec!["a", "a || b"], 1, false),
        (vec!["a", "a || b"], 2, true),
    ] {
        many.sensor["spec"]["dependencies"] = serde_json::json!([named("a"), named("b")]);
        let triggers = conditions.iter().enumerate();
        let triggers = triggers.map(|(at, one)| template(&format!("t{at}"), one));
        many.sensor["spec"]["triggers"] = triggers.collect();
        many.subscriptions = crate::runner::expected::subscriptions(&many.sensor);
        let mut search = search().await;
        search.take(triggered_by("t0"));
        for _ in 0..rejections {
            search.take(discarded.clone());
        }
        let verdict = verdict::verdict(&search.findings(&many));
        assert_eq!(
            verdict.proven, proven,
            "{conditions:?} {rejections}: {verdict:?}"
        );
    }
}

/// One trigger that failed beside one that was done is told, and so is what the other made.
#[tokio::test]
async fn a_trigger_that_failed_is_not_covered_by_another() {
    let mut search = search().await;
    search.take(triggered());
    let text = r#"{"level":"error","msg":"Failed to execute a trigger","triggerName":"u","error":"no right","triggeredBy":["d"],"triggeredByEvents":["a1"]}"#;
    search.take(LogLine {
        text: text.to_owned(),
        ..line("")
    });
    let findings = search.findings(&pipeline());
    let verdict = verdict::verdict(&findings);
    assert!(
        !verdict.text.starts_with("proven: it came through"),
        "{verdict:?}"
    );
    assert!(
        verdict.text.contains("trigger u failed: no right"),
        "{verdict:?}"
    );
    assert!(
        findings.iter().any(|one| one.line == "done: t"),
        "{findings:?}"
    );
}

/// That nothing is in the stream drops an event only while everything was heard.
#[tokio::test]
async fn silence_is_no_evidence_where_nobody_was_heard() {
    let mut filtering = pipeline();
    filtering.event_source["spec"]["webhook"]["order"]["filter"] =
        serde_json::json!({"expression": "a == 1"});
    let failing = |search: &mut Search, what: &str| match what {
        "bus" => search.no_bus = Some("no answer".to_owned()),
        "server" => search.unheard = Some("no answer".to_owned()),
        _ => {}
    };
    for what in ["", "bus", "server"] {
        let mut search = search().await;
        search.message = None;
        search.answer = Some(Ok(Response {
            status: 200,
            body: String::new(),
        }));
        (search.read_to, search.no_bus) = (Some(7), None);
        failing(&mut search, what);
        let findings = search.findings(&filtering);
        let bus = findings.iter().find(|one| one.layer == "bus").unwrap();
        let stopped = bus.standing == Standing::Stopped;
        assert_eq!(stopped, what.is_empty(), "{what}: {bus:?}");
        assert_eq!(bus.line.contains("no answer"), !stopped, "{bus:?}");
        assert_eq!(bus.line.contains("own filter dropped"), stopped, "{bus:?}");
    }
}

/// Several dependencies listen: a line of one says nothing of the other.
#[tokio::test]
async fn one_rejection_of_several_listeners_needs_the_silence_of_the_rest() {
    let discarded =
        line("Event [ID 'a1', Source 'o', Time 'x', Data '{}'] discarded due to filtering");
    let mut two = pipeline();
    let listener = two.sensor["spec"]["dependencies"][0].clone();
    let mut other = listener.clone();
    other["name"] = "other".into();
    two.sensor["spec"]["dependencies"] = serde_json::json!([listener, other]);
    two.subscriptions = crate::runner::expected::subscriptions(&two.sensor);
    let second = |pod: &str| LogLine {
        pod: ContainerInstance {
            uid: pod.to_owned(),
            ..discarded.pod.clone()
        },
        ..discarded.clone()
    };
    let (same, next) = (second("u"), second("v"));
    for (pipeline, heard, more, standing) in [
        (pipeline(), true, None, Standing::Stopped),
        (pipeline(), false, None, Standing::Stopped),
        (two.clone(), true, None, Standing::Unproven),
        (two.clone(), true, Some(&same), Standing::Stopped),
        // The same rejection, told again by the pod that came after.
        (two.clone(), true, Some(&next), Standing::Unproven),
        (two, false, Some(&same), Standing::Unproven),
    ] {
        let mut search = search().await;
        search.take(discarded.clone());
        more.into_iter().for_each(|line| search.take(line.clone()));
        search.unheard = (!heard).then(|| "no answer".to_owned());
        let findings = search.findings(&pipeline);
        let filter = findings.iter().find(|one| one.layer == "filter").unwrap();
        assert_eq!(filter.standing, standing, "{filter:?}");
    }
}

/// A consumer is handed what is stored after it was made, on its own subject.
#[tokio::test]
async fn a_consumer_has_not_judged_what_it_was_never_handed() {
    let pipeline = pipeline();
    let durable = pipeline.subscriptions[0].durable.clone();
    for (made, floor, subject, judged) in [
        (0, 1, "default.web.order", true),
        (0, 0, "default.web.order", false),
        (1, 1, "default.web.order", false),
        (1, 5, "default.web.order", false),
        (0, 5, "default.web.other", false),
    ] {
        let mut search = search().await;
        search.no_consumers = None;
        search.consumers = vec![ConsumerInfo {
            durable: durable.clone(),
            filter_subject: "default.web.order".to_owned(),
            created: Timestamp::UNIX_EPOCH,
            created_at_sequence: made,
            delivered_stream: floor,
            ack_floor_stream: floor,
            num_ack_pending: 0,
            num_redelivered: 0,
            num_waiting: 1,
            num_pending: 0,
        }];
        if let Some(message) = &mut search.message {
            message.subject = subject.to_owned();
        }
        let findings = search.findings(&pipeline);
        let finding = findings.iter().find(|one| one.layer == "judged").unwrap();
        let through = finding.standing == Standing::Through;
        assert_eq!(through, judged, "{made} {floor} {subject}: {finding:?}");
    }
}

#[tokio::test]
async fn consumers_that_could_not_be_read_are_not_called_absent() {
    let mut search = search().await;
    search.look_at_consumers(&pipeline()).await;
    let findings = search.findings(&pipeline());
    let judged = findings.iter().find(|one| one.layer == "judged").unwrap();
    assert_eq!(judged.standing, Standing::Unproven);
    assert!(judged.line.contains("could not look"), "{judged:?}");
    assert!(!judged.line.contains("not there"), "{judged:?}");
}

#[tokio::test]
async fn what_may_not_be_listed_is_not_called_gone() {
    let mut search = search().await;
    search.take(triggered());
    search.look_at_workflows(&pipeline()).await;
    let findings = search.findings(&pipeline());
    let run = findings.last().unwrap();
    assert_eq!((run.layer, run.standing), ("run", Standing::Unproven));
    assert!(run.line.contains("does not answer"), "{run:?}");
}

fn triggered() -> LogLine {
    triggered_by("t")
}

fn triggered_by(trigger: &str) -> LogLine {
    let text = format!(
        r#"{{"level":"info","msg":"Successfully processed trigger '{trigger}'","triggerName":"{trigger}","triggeredBy":["d"],"triggeredByEvents":["a1"]}}"#
    );
    LogLine { text, ..line("") }
}

fn line(message: &str) -> LogLine {
    let pod = ContainerInstance {
        pod: "p".to_owned(),
        uid: "u".to_owned(),
        container: "main".to_owned(),
        instance: 0,
    };
    let text = format!(r#"{{"level":"info","msg":"{message}"}}"#);
    LogLine { pod, text }
}

/// What cannot be read is said of many lines of which none is known; of a log that is quiet it is not.
#[tokio::test]
async fn a_quiet_log_is_no_unknown_one() {
    for (strange, known, unreadable) in
        [(0, 0, false), (3, 0, false), (40, 0, true), (40, 1, false)]
    {
        let mut search = search().await;
        for _ in 0..strange {
            search.take(line("event discarded by filter"));
        }
        for _ in 0..known {
            search.take(line("Sensor started."));
        }
        let findings = search.findings(&pipeline());
        let filter = findings.iter().find(|one| one.layer == "filter").unwrap();
        let said = filter.line.starts_with("no line of the logs is one");
        assert_eq!(said, unreadable, "{strange} {known}: {filter:?}");
        if !unreadable {
            assert!(
                filter
                    .would_prove
                    .as_ref()
                    .unwrap()
                    .contains("LOG_LEVEL=debug")
            );
        }
    }
}
