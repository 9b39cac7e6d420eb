//! The command line: one file per subcommand, and the exit codes.

mod argo;
mod asked;
mod author;
mod bundle;
mod bus;
pub mod cluster;
mod doctor;
pub mod exit;
mod explain;
mod inspect;
mod learn;
mod ledger;
mod lint;
mod metrics;
mod node;
mod output;
pub mod place;
mod pod;
mod prepare;
mod progress;
mod run;
mod screen;
mod seeds;
mod shell;
mod start;
mod status;
mod target;
mod trace;
mod waits;

use std::ffi::OsString;

use clap::{CommandFactory, Parser, Subcommand};

use crate::embedded::node::child;
use crate::ledger::commands::{self, LedgerCommand};
use crate::ledger::crm::commands::{self as crm, CrmCommand};
use exit::{Exit, Failure};
use place::Place;

/// A terminal lab for event-driven workflows with Argo Events and Argo Workflows.
///
/// Without a command it opens the lab on the screen, where it was left.
#[derive(Debug, Parser)]
#[command(name = "eventlab", version, disable_help_subcommand = true, after_help = EXAMPLES)]
struct Cli {
    #[command(flatten)]
    place: Place,
    #[command(flatten)]
    look: screen::Look,
    /// Seed of the fault that the lab `incident` draws (default: any)
    #[arg(long, value_name = "N", value_parser = seeds::parse)]
    seed: Option<u32>,
    #[command(subcommand)]
    command: Option<Command>,
}

const EXAMPLES: &str = "Examples:
  eventlab                        the lab on screen
  eventlab run filter-path        one lab without a screen, with its reference solution
  eventlab status                 where the session stands, and the webhook's real address
  eventlab report > report.md     the incident report
  eventlab run incident --seed 7  a fault drawn by a seed, found and fixed
  eventlab explain -f sensor.yaml --body '{…}'   why a Sensor passes or drops an event
  eventlab lint -f sensor.yaml    hazards in your own Sensor
  eventlab cluster start          the embedded cluster for kubectl in another terminal

Exit codes: 0 all proven, 1 refuted or unproven, 2 usage or a bad file, 3 could not look, 4 internal, 130 interrupted, 143 terminated.";

#[derive(Debug, Subcommand)]
enum Command {
    /// Run labs without a screen, with the reference solutions
    Run(run::RunArgs),
    /// List the labs
    List(inspect::PrintArgs),
    /// Say where the session stands
    Status(inspect::PrintArgs),
    /// Show the next hint of the present stage
    Hint,
    /// Do the present stage's work and say how it stands
    Check(learn::CheckArgs),
    /// Go on: from a stage that has passed, or in which there is nothing to do
    Next(learn::NextArgs),
    /// Start a lab over
    Reset(learn::ResetArgs),
    /// Print the incident report
    Report(inspect::ReportArgs),
    /// Show an evidence bundle that `report --bundle FILE` made
    Open(bundle::OpenArgs),
    /// Say why a Sensor would pass or drop an event
    Explain(explain::ExplainArgs),
    /// Say what is missing on a real cluster, and what mends it (--context)
    Doctor(doctor::DoctorArgs),
    /// Print or serve the four counters of the session for Prometheus
    Metrics(metrics::MetricsArgs),
    /// Run the embedded controllers and node against another API server (--context)
    Node(node::NodeArgs),
    /// Follow one event through a pipeline of your own
    Trace(trace::TraceArgs),
    /// Find hazards in Sensors: unanchored, unescaped, coerced, misspelt, never live
    Lint(lint::LintArgs),
    /// For authors of labs
    #[command(subcommand)]
    Lab(LabCommand),
    /// The embedded cluster for kubectl
    #[command(subcommand)]
    Cluster(cluster::ClusterCommand),
    /// The order ledger
    #[command(subcommand)]
    Ledger(LedgerCommand),
    /// The CRM that stands for an external system
    #[command(subcommand)]
    Crm(CrmCommand),
    /// Print completions for a shell
    Completions(shell::CompletionsArgs),
    /// Print the man page
    Man(shell::ManArgs),
    /// What runs in the pods of Argo's images
    #[command(subcommand, hide = true)]
    Argo(argo::ArgoCommand),
}

/// For authors of labs.
#[derive(Debug, Subcommand)]
enum LabCommand {
    /// Prove labs: every wrong fix fails for its reason, and the solution passes
    Test(run::TestArgs),
    /// Write a small lab that runs and proves itself, to be changed
    New(author::NewArgs),
    /// Print the JSON Schema of lab files
    Schema,
}

/// Runs the program with its arguments (the first is its name) and answers its exit code.
pub fn run(arguments: impl IntoIterator<Item = OsString>) -> u8 {
    let arguments: Vec<OsString> = arguments.into_iter().collect();
    if child::has_node() {
        return pod::run(arguments);
    }
    match Cli::try_parse_from(&arguments) {
        Ok(Cli {
            command: Some(Command::Ledger(command)),
            place,
            ..
        }) => delivered(ledger::run(&place, &command)),
        Ok(Cli {
            command: Some(Command::Crm(command)),
            ..
        }) => crm::run(&command, &mut std::io::stderr()),
        Ok(cli) => finish(output::ended(block_on(command(cli)))),
        Err(error) => {
            // Help and version come as errors, too.
            let printed = error.print();
            match (error.use_stderr(), names_workload(&arguments)) {
                (false, _) => {
                    output::keep(printed);
                    finish(output::ended(Ok(Exit::Proven)))
                }
                (true, true) => commands::USAGE,
                (true, false) => Exit::Usage.code(),
            }
        }
    }
}

/// Whether the command is a workload's: these have exit codes of their own, which do not depend on where they run.
fn names_workload(arguments: &[OsString]) -> bool {
    let lenient = Cli::command().ignore_errors(true);
    lenient
        .try_get_matches_from(arguments)
        .is_ok_and(|found| matches!(found.subcommand_name(), Some("ledger" | "crm")))
}

fn finish(result: Result<Exit, Failure>) -> u8 {
    match result {
        Ok(exit) => exit.code(),
        Err(failure) => {
            output::note!("eventlab: {}", failure.message);
            failure.exit.code()
        }
    }
}

/// The exit code of a ledger command, unless what it printed did not arrive and it has not said so itself.
fn delivered(code: u8) -> u8 {
    match output::undelivered() {
        Some(_) if code == commands::DONE => finish(output::ended(Ok(Exit::Proven))),
        _ => code,
    }
}

/// Work is done in a spawned task: from the main future each call of a client in process costs fifteen times more.
fn block_on(
    work: impl Future<Output = Result<Exit, Failure>> + Send + 'static,
) -> Result<Exit, Failure> {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()
        .map_err(|error| Failure::environment(format!("cannot start threads: {error}")))?;
    let result = runtime.block_on(async { tokio::spawn(work).await });
    runtime.shutdown_timeout(std::time::Duration::from_millis(500));
    result.unwrap_or_else(|error| Err(Failure::internal(format!("a defect of eventlab: {error}"))))
}

async fn command(cli: Cli) -> Result<Exit, Failure> {
    let place = &cli.place;
    place.real.check()?;
    match &cli.command {
        None => screen::open(place, cli.look, cli.seed).await,
        Some(Command::Run(args)) => run::run(place, args).await,
        Some(Command::List(args)) => inspect::list(place, args),
        Some(Command::Status(args)) => status::status(place, args),
        Some(Command::Hint) => learn::hint(place).await,
        Some(Command::Check(args)) => learn::check(place, args).await,
        Some(Command::Next(args)) => learn::next(place, args).await,
        Some(Command::Reset(args)) => learn::reset(place, args).await,
        Some(Command::Report(args)) => inspect::report(place, args),
        Some(Command::Metrics(args)) => metrics::run(place, args).await,
        Some(Command::Node(args)) => node::run(place, args).await,
        Some(Command::Trace(args)) => trace::run(place, args).await,
        Some(Command::Doctor(args)) => doctor::run(place, args).await,
        Some(Command::Open(args)) => bundle::open(args, cli.look).await,
        Some(Command::Completions(args)) => shell::completions(Cli::command(), args),
        Some(Command::Man(args)) => shell::man(Cli::command(), args),
        Some(Command::Explain(args)) => explain::run(&place.real, args).await,
        Some(Command::Lint(args)) => lint::run(args),
        Some(Command::Lab(LabCommand::Test(args))) => run::test(place, args).await,
        Some(Command::Lab(LabCommand::New(args))) => author::new(args),
        Some(Command::Lab(LabCommand::Schema)) => author::print_schema(),
        Some(Command::Cluster(command)) => cluster::run(place, command).await,
        Some(Command::Argo(command)) => argo::run(command).await,
        // Handled before a runtime was made.
        Some(Command::Ledger(_) | Command::Crm(_)) => Ok(Exit::Proven),
    }
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory as _;

    use super::Cli;

    /// A global option reaches every subcommand: one of the same name there would be read as the other, and panic.
    #[test]
    fn no_argument_means_two_things() {
        Cli::command().debug_assert();
        let root = Cli::command();
        let global: Vec<String> = root
            .get_arguments()
            .filter(|argument| argument.is_global_set())
            .map(|argument| argument.get_id().to_string())
            .collect();
        let mut pending: Vec<clap::Command> = root.get_subcommands().cloned().collect();
        while let Some(command) = pending.pop() {
            for argument in command.get_arguments() {
                let id = argument.get_id().to_string();
                assert!(!global.contains(&id), "{} {id}", command.get_name());
            }
            pending.extend(command.get_subcommands().cloned());
        }
    }
}
