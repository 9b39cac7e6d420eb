//! `eventlab doctor --context C`: what is missing on a real cluster, point by point.

use clap::Args;

use super::exit::{Exit, Failure};
use super::output::{self, note};
use super::place::Place;
use super::run::Format;
use super::waits;
use crate::cluster::doctor::{self, Options, Point, Verdict};
use crate::cluster::{Cluster, Context};
use crate::kinds::NAMESPACE;
use crate::words::counted;

/// Arguments of `doctor`.
#[derive(Clone, Debug, Args)]
pub struct DoctorArgs {
    #[arg(long, value_enum, default_value_t)]
    pub format: Format,
    /// Run a pod with the image in the lab's namespace, and delete it: only that tells whether the image is there
    #[arg(long)]
    pub try_image: bool,
}

/// Examines the cluster of the context. It only looks, so that a context that looks like production is examined, too.
///
/// # Errors
/// No context was named, or there is no such one.
pub async fn run(place: &Place, args: &DoctorArgs) -> Result<Exit, Failure> {
    let Some(request) = place.real.request() else {
        return Err(Failure::usage(
            "doctor examines a real cluster: name one with --context NAME (`kubectl config get-contexts` lists them)",
        ));
    };
    let context = Context::load(&request).await.map_err(Failure::usage)?;
    if args.try_image {
        context.confirm(&request).map_err(Failure::usage)?;
    }
    waits::tell(context.hearing());
    let cluster = Cluster::of_context(&context, NAMESPACE, place.real.options(None));
    let options = Options {
        try_image: args.try_image,
    };
    let mut seen = Vec::new();
    let mut tell = |point: Point| {
        print(&point, args.format);
        seen.push(point.verdict);
    };
    let answered = doctor::examine(&context, &cluster, &options, &mut tell).await;
    if args.format == Format::Text {
        note!("{}", summary(&seen));
    }
    Ok(if !answered {
        Exit::Environment
    } else if seen.contains(&Verdict::Missing) {
        Exit::NotProven
    } else {
        Exit::Proven
    })
}

fn print(point: &Point, format: Format) {
    let text = match format {
        Format::Json => serde_json::to_string(point).unwrap_or_default(),
        _ => words(point),
    };
    output::line(&text);
}

fn words(point: &Point) -> String {
    let verdict = match point.verdict {
        Verdict::Good => "good",
        Verdict::Warn => "warn",
        Verdict::Missing => "MISSING",
        Verdict::Unknown => "unknown",
    };
    let mut text = format!("{verdict:<8} {:<15} {}", point.name, point.found);
    if point.verdict != Verdict::Good {
        if let Some(mend) = &point.mend {
            text.push_str(&format!("\n{:24} mend: {mend}", ""));
        }
        text.push_str(&format!("\n{:24} see:  {}", "", point.shows));
    }
    text
}

fn summary(seen: &[Verdict]) -> String {
    let count = |verdict: Verdict| seen.iter().filter(|one| **one == verdict).count();
    format!(
        "{}: {} good, {} to know, {} missing, {} that could not be looked at",
        counted(seen.len(), "point"),
        count(Verdict::Good),
        count(Verdict::Warn),
        count(Verdict::Missing),
        count(Verdict::Unknown)
    )
}
