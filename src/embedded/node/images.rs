//! Which images exist here, and what a container's command line runs.

use std::collections::BTreeMap;

use super::process::Service;
use crate::kinds::{ARGO_EVENTS_IMAGE, ARGO_EXEC_IMAGE, NATS_IMAGE, WORKLOAD_IMAGE};

/// Functions that run in process, by image and the word of the command line that picks one (`sensor-service`); an empty
/// word stands for whatever else the image is asked.
pub type Services = BTreeMap<(String, String), Service>;

/// Subcommands of this program that the workload image offers.
const WORKLOADS: [&str; 3] = ["ledger", "crm", "argo"];
/// Those of them that people run in a container.
const TOOLS: [&str; 2] = ["ledger", "crm"];
/// Where they listen when nothing else is said.
const DEFAULT_PORT: u16 = 8080;
/// Annotation that runs an Argo image as a child process, where a real `kill -9` is wanted.
pub const PROCESS_ANNOTATION: &str = "eventlab.dev/run-as";
/// Value of [`PROCESS_ANNOTATION`].
pub const AS_PROCESS: &str = "process";

/// What to run.
#[derive(Clone, Debug)]
pub(super) enum Launch {
    /// A function of this program, with the arguments after the image's entrypoint.
    Service(Service, Vec<String>),
    /// A child of this program, with its arguments.
    Child(Vec<String>),
}

/// Why nothing runs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Refusal {
    /// The image does not exist here.
    Image(String),
    /// The runtime cannot start the command (the kubelet's `StartError`).
    Start(String),
    /// The program started, and ended at once with this code and message.
    Exit(i32, String),
}

/// What a container asks to run.
#[derive(Clone, Copy, Debug)]
pub(super) struct Command<'a> {
    pub image: &'a str,
    /// Command and arguments, expanded.
    pub words: &'a [String],
    /// Whether `command` was given, which replaces the image's entrypoint.
    pub has_command: bool,
    /// Whether Argo's executor starts the command (then its errors are the executor's).
    pub by_executor: bool,
    pub as_process: bool,
}

/// Picks what runs for a container.
pub(super) fn launch(command: Command<'_>, services: &Services) -> Result<Launch, Refusal> {
    let image = canonical(command.image);
    if image == canonical(WORKLOAD_IMAGE) {
        return workload(command);
    }
    let known = [ARGO_EVENTS_IMAGE, ARGO_EXEC_IMAGE, NATS_IMAGE]
        .into_iter()
        .find(|known| canonical(known) == image);
    let Some(known) = known else {
        return Err(Refusal::Image(no_such_image(command.image)));
    };
    let arguments = without_program(command.words);
    if command.as_process {
        let words = std::iter::once("argo".to_owned()).chain(arguments.iter().cloned());
        return Ok(Launch::Child(words.collect()));
    }
    let service = arguments
        .iter()
        .find_map(|word| services.get(&(known.to_owned(), word.clone())))
        .or_else(|| services.get(&(known.to_owned(), String::new())));
    match service {
        Some(service) => Ok(Launch::Service(*service, arguments.to_vec())),
        None => Err(Refusal::Exit(
            1,
            format!(
                "eventlab: image {known} does not run {:?} here",
                arguments.join(" ")
            ),
        )),
    }
}

/// The text that says which images exist.
fn no_such_image(image: &str) -> String {
    format!(
        "image {image:?} does not exist on the embedded cluster, which pulls nothing; it has {WORKLOAD_IMAGE}, \
         {ARGO_EVENTS_IMAGE}, {ARGO_EXEC_IMAGE} and {NATS_IMAGE}"
    )
}

/// An image name with the registry and tag that container runtimes fill in.
fn canonical(image: &str) -> String {
    let image = image.strip_prefix("docker.io/").unwrap_or(image);
    let image = image.strip_prefix("library/").unwrap_or(image);
    let image = image.strip_prefix("localhost/").unwrap_or(image);
    let last = image.rsplit('/').next().unwrap_or(image);
    if last.contains([':', '@']) {
        image.to_owned()
    } else {
        format!("{image}:latest")
    }
}

/// Command lines may begin with the program itself, as a path or by its name.
fn without_program(words: &[String]) -> &[String] {
    const PROGRAMS: [&str; 4] = ["argoexec", "argo-events", "nats-server", "eventlab"];
    match words.split_first() {
        Some((first, rest)) if first.starts_with('/') || PROGRAMS.contains(&first.as_str()) => rest,
        _ => words,
    }
}

/// `argoexec emissary [flags] -- command`: the command, when the executor is asked to start it.
fn behind_executor(words: &[String]) -> Option<&[String]> {
    let (first, rest) = words.split_first()?;
    let (second, _) = rest.split_first()?;
    let program = first.rsplit('/').next()?;
    if program != "argoexec" || second != "emissary" {
        return None;
    }
    let dashes = words.iter().position(|word| word == "--")?;
    words.get(dashes + 1..)
}

fn workload(command: Command<'_>) -> Result<Launch, Refusal> {
    let behind = behind_executor(command.words);
    let by_executor = command.by_executor || behind.is_some();
    let words = behind.unwrap_or(command.words);
    // Without a command, the image's entrypoint gets the arguments.
    let (program, arguments) = match words.split_first() {
        Some((program, arguments)) if command.has_command => (program.as_str(), arguments),
        _ => ("/eventlab", words),
    };
    if !matches!(program, "/eventlab" | "eventlab") {
        return Err(not_found(program, by_executor));
    }
    match arguments.first().map(String::as_str) {
        Some(subcommand) if WORKLOADS.contains(&subcommand) => {
            Ok(Launch::Child(arguments.to_vec()))
        }
        other => {
            let message = format!(
                "eventlab: {:?} does not run in a pod; {} do",
                other.unwrap_or(""),
                WORKLOADS.join(", ")
            );
            Err(Refusal::Exit(64, message))
        }
    }
}

/// The port that a workload command is told to listen on, whatever its container declares: on the host it gets another.
pub(super) fn served_port(arguments: &[String]) -> Option<u16> {
    let mut words = arguments.iter().map(String::as_str);
    while let Some(word) = words.next() {
        match word.split_once('=') {
            Some(("--port", value)) => return value.parse().ok(),
            None if word == "--port" => return words.next()?.parse().ok(),
            _ => {}
        }
    }
    let serves = arguments.iter().any(|word| word == "serve");
    serves.then_some(DEFAULT_PORT)
}

/// Picks what a second command in a container runs: arguments of this program.
pub(super) fn exec(image: &str, words: &[String]) -> Result<Vec<String>, Refusal> {
    let (program, arguments) = words
        .split_first()
        .map_or(("", words), |(program, arguments)| {
            (program.as_str(), arguments)
        });
    if canonical(image) != canonical(WORKLOAD_IMAGE) || !matches!(program, "/eventlab" | "eventlab")
    {
        return Err(Refusal::Start(format!(
            "error executing command in container: failed to exec in container: failed to start exec: OCI runtime exec \
             failed: exec failed: unable to start container process: {}: unknown",
            missing(program)
        )));
    }
    match arguments.first().map(String::as_str) {
        Some(subcommand) if TOOLS.contains(&subcommand) => Ok(arguments.to_vec()),
        other => Err(Refusal::Exit(
            64,
            format!(
                "eventlab: {:?} does not run in a pod; {} do",
                other.unwrap_or(""),
                TOOLS.join(", ")
            ),
        )),
    }
}

/// The image holds one file and no shell.
fn not_found(program: &str, by_executor: bool) -> Refusal {
    let error = missing(program);
    if by_executor {
        // Argo's executor is the program that started, and reports its own failure with 64.
        return Refusal::Exit(64, format!("failed to find name in PATH: {error}"));
    }
    Refusal::Start(format!(
        "failed to create containerd task: failed to create shim task: OCI runtime create failed: runc create failed: \
         unable to start container process: error during container init: {error}"
    ))
}

fn missing(program: &str) -> String {
    let reason = if program.contains('/') {
        format!("stat {program}: no such file or directory")
    } else {
        "executable file not found in $PATH".to_owned()
    };
    format!("exec: {program:?}: {reason}")
}

#[cfg(test)]
mod tests {
    use futures::future::BoxFuture;

    use super::*;
    use crate::embedded::node::process::ServiceContext;

    fn nothing(_context: ServiceContext) -> BoxFuture<'static, i32> {
        Box::pin(async { 0 })
    }

    fn services() -> Services {
        let service: Service = nothing;
        BTreeMap::from([
            (
                (ARGO_EVENTS_IMAGE.to_owned(), "sensor-service".to_owned()),
                service,
            ),
            ((ARGO_EXEC_IMAGE.to_owned(), "wait".to_owned()), service),
            ((NATS_IMAGE.to_owned(), String::new()), service),
        ])
    }

    fn run(
        image: &str,
        command: &[&str],
        args: &[&str],
        by_executor: bool,
    ) -> Result<Launch, Refusal> {
        let words: Vec<String> = command
            .iter()
            .chain(args)
            .map(|word| (*word).to_owned())
            .collect();
        let has_command = !command.is_empty();
        launch(
            Command {
                image,
                words: &words,
                has_command,
                by_executor,
                as_process: false,
            },
            &services(),
        )
    }

    #[test]
    fn workloads_are_children_with_a_listed_subcommand() {
        for (command, args) in [
            (&["/eventlab"][..], &["ledger", "apply"][..]),
            (&["eventlab", "ledger"], &["apply"]),
            (&[], &["ledger", "apply"]),
            (
                &[
                    "/var/run/argo/argoexec",
                    "emissary",
                    "--loglevel",
                    "info",
                    "--",
                    "/eventlab",
                ],
                &["ledger", "apply"],
            ),
        ] {
            for image in [
                WORKLOAD_IMAGE,
                "docker.io/library/eventlab:dev",
                "localhost/eventlab:dev",
            ] {
                let Ok(Launch::Child(arguments)) = run(image, command, args, false) else {
                    panic!("{command:?}")
                };
                assert_eq!(arguments, ["ledger", "apply"]);
            }
        }
        for args in [&["run"][..], &[], &["cluster", "start"]] {
            let refused = run(WORKLOAD_IMAGE, &["/eventlab"], args, false).err();
            assert!(
                matches!(refused, Some(Refusal::Exit(64, _))),
                "{args:?}: {refused:?}"
            );
        }
    }

    #[test]
    fn there_is_no_shell() {
        let refused = run(WORKLOAD_IMAGE, &["sh", "-c"], &["echo"], true).err();
        let text = "failed to find name in PATH: exec: \"sh\": executable file not found in $PATH";
        assert_eq!(refused, Some(Refusal::Exit(64, text.to_owned())));
        let refused = run(WORKLOAD_IMAGE, &["/bin/sh"], &[], false).err();
        let Some(Refusal::Start(text)) = refused else {
            panic!("{refused:?}")
        };
        assert!(
            text.ends_with("exec: \"/bin/sh\": stat /bin/sh: no such file or directory"),
            "{text}"
        );
        for program in [
            "/eventlab/../bin/sh",
            "./eventlab",
            "/usr/bin/eventlab",
            "",
            "eventlab ",
        ] {
            assert!(
                run(WORKLOAD_IMAGE, &[program], &["ledger"], false).is_err(),
                "{program:?}"
            );
        }
    }

    #[test]
    fn people_run_the_workload_commands_only() {
        let words = |text: &str| -> Vec<String> { text.split(' ').map(str::to_owned).collect() };
        let run = |image, text| exec(image, &words(text));
        assert_eq!(
            run(WORKLOAD_IMAGE, "/eventlab ledger show"),
            Ok(words("ledger show"))
        );
        for other in [
            "/eventlab argo sensor-service",
            "/eventlab cluster start",
            "eventlab",
        ] {
            let refused = run(WORKLOAD_IMAGE, other);
            assert!(
                matches!(refused, Err(Refusal::Exit(64, _))),
                "{other}: {refused:?}"
            );
        }
        for (image, other) in [
            (WORKLOAD_IMAGE, "sh -c ls"),
            (WORKLOAD_IMAGE, "/bin/sh"),
            (WORKLOAD_IMAGE, ""),
            (ARGO_EVENTS_IMAGE, "/eventlab ledger show"),
            (NATS_IMAGE, "sh"),
        ] {
            let Err(Refusal::Start(text)) = run(image, other) else {
                panic!("{image} {other}")
            };
            let program = other.split(' ').next().unwrap();
            assert!(text.contains(&format!("exec: {program:?}: ")), "{text}");
        }
    }

    #[test]
    fn the_port_of_a_command_is_known() {
        let port = |text: &str| {
            let words: Vec<String> = text.split(' ').map(str::to_owned).collect();
            served_port(&words)
        };
        assert_eq!(port("ledger serve --db /l.db --port 9000"), Some(9000));
        assert_eq!(port("ledger serve --port=9001"), Some(9001));
        assert_eq!(port("ledger serve --db /l.db"), Some(8080));
        for none in [
            "ledger show",
            "ledger serve --port",
            "ledger serve --port x",
            "",
        ] {
            assert_eq!(port(none), None, "{none}");
        }
    }

    #[test]
    fn argo_images_run_in_process() {
        let sensor = run(ARGO_EVENTS_IMAGE, &[], &["sensor-service"], false);
        assert!(matches!(sensor, Ok(Launch::Service(_, args)) if args == ["sensor-service"]));
        let wait = run(
            ARGO_EXEC_IMAGE,
            &["argoexec", "wait", "--loglevel", "info"],
            &[],
            false,
        );
        assert!(matches!(wait, Ok(Launch::Service(_, args)) if args[0] == "wait"));
        let bus = run(
            "nats:2.10.29",
            &["nats-server"],
            &["--config", "/etc/nats.conf"],
            false,
        );
        assert!(matches!(bus, Ok(Launch::Service(..))));
        assert!(matches!(
            run(ARGO_EVENTS_IMAGE, &[], &["sh"], false),
            Err(Refusal::Exit(1, _))
        ));
    }

    #[test]
    fn other_images_do_not_exist() {
        for image in [
            "busybox",
            "eventlab",
            "eventlab:other",
            "nats",
            "quay.io/argoproj/argo-events:v1.0.0",
            "",
        ] {
            let refused = run(image, &["/eventlab"], &["ledger"], false).err();
            assert!(
                matches!(&refused, Some(Refusal::Image(text)) if text.contains(WORKLOAD_IMAGE)),
                "{image}"
            );
        }
    }
}
