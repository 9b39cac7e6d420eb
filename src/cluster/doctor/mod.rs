//! What is missing on a real cluster: one point after another, each with a verdict, what was seen, and what mends it.
//!
//! Only looks, except for access reviews, and for the pod that a look at the image needs ([`Options::try_image`]).
//! A point that could not be looked at is [`Verdict::Unknown`], never a fault.

mod argo;
mod bus;
mod image;
mod rights;
mod server;
mod storage;

use serde::Serialize;

use super::Cluster;
use super::context::Context;

/// How a point stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Verdict {
    Good,
    /// The labs run; something of them will not be seen, or is at risk.
    Warn,
    /// The labs do not run until it is mended.
    Missing,
    /// It could not be looked at.
    Unknown,
}

/// One point of the examination.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Point {
    pub name: &'static str,
    pub verdict: Verdict,
    /// What was seen, or why nothing was.
    pub found: String,
    /// The command that mends it; only what is good needs none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub mend: Option<String>,
    /// The command that shows the same.
    pub shows: String,
}

impl Point {
    fn new(
        name: &'static str,
        verdict: Verdict,
        found: impl Into<String>,
        shows: impl Into<String>,
    ) -> Self {
        Self {
            name,
            verdict,
            found: found.into(),
            mend: None,
            shows: shows.into(),
        }
    }

    fn good(name: &'static str, found: impl Into<String>, shows: impl Into<String>) -> Self {
        Self::new(name, Verdict::Good, found, shows)
    }

    fn warn(name: &'static str, found: impl Into<String>, shows: impl Into<String>) -> Self {
        Self::new(name, Verdict::Warn, found, shows)
    }

    fn missing(name: &'static str, found: impl Into<String>, shows: impl Into<String>) -> Self {
        Self::new(name, Verdict::Missing, found, shows)
    }

    fn unknown(name: &'static str, why: impl Into<String>, shows: impl Into<String>) -> Self {
        let shows = shows.into();
        let mend = format!(
            "look yourself (`{shows}`), or ask whoever runs the cluster for the right to look"
        );
        Self::new(name, Verdict::Unknown, why, shows).mended_by(mend)
    }

    fn mended_by(mut self, command: impl Into<String>) -> Self {
        self.mend = Some(command.into());
        self
    }
}

/// What the examination may do beyond looking.
#[derive(Clone, Debug, Default)]
pub struct Options {
    /// Run a pod with the image, in the lab's namespace, and delete it.
    pub try_image: bool,
}

/// What all points look with.
struct Patient<'a> {
    context: &'a Context,
    cluster: &'a Cluster,
    /// `kubectl --context NAME`.
    kubectl: String,
    /// The cluster is eventlab's own, whose controllers have no Deployments.
    embedded: bool,
    /// `eventlab node` works on the cluster: its controllers have no Deployments, and it makes volumes.
    node: bool,
}

impl Patient<'_> {
    fn namespace(&self) -> &str {
        self.cluster.namespace()
    }

    /// `kubectl --context NAME -n NAMESPACE`.
    fn kubectl_here(&self) -> String {
        format!("{} -n {}", self.kubectl, self.namespace())
    }

    /// What `eventlab` has to be told to mend something here.
    fn eventlab(&self, command: &str) -> String {
        format!("eventlab {} {command}", self.context.options())
    }
}

/// Examines a cluster and tells each point as soon as it is known. Answers false when the API server could not be asked.
pub async fn examine(
    context: &Context,
    cluster: &Cluster,
    options: &Options,
    tell: &mut (dyn FnMut(Point) + Send),
) -> bool {
    let mut patient = Patient {
        context,
        cluster,
        kubectl: format!("kubectl {}", context.options()),
        embedded: false,
        node: false,
    };
    let (points, version) = server::points(&patient).await;
    points.into_iter().for_each(&mut *tell);
    let Some(version) = version else {
        return false;
    };
    patient.embedded = version.contains("+eventlab");
    patient.node = !patient.embedded && server::has_our_node(&patient).await;
    rights::points(&patient)
        .await
        .into_iter()
        .for_each(&mut *tell);
    argo::points(&patient)
        .await
        .into_iter()
        .for_each(&mut *tell);
    storage::points(&patient)
        .await
        .into_iter()
        .for_each(&mut *tell);
    tell(image::point(&patient, options).await);
    bus::points(&patient).await.into_iter().for_each(&mut *tell);
    true
}

/// A word for a shell.
pub(super) fn quoted(text: &str) -> String {
    let plain = text
        .chars()
        .all(|one| one.is_ascii_alphanumeric() || "-_./@:".contains(one));
    if plain && !text.is_empty() {
        text.to_owned()
    } else {
        format!("'{}'", text.replace('\'', r"'\''"))
    }
}

#[cfg(test)]
mod tests;

/// Why something could not be looked at, in one line.
fn why(error: &kube::Error) -> String {
    match error {
        kube::Error::Api(status) if status.code == 403 => {
            format!("you may not look: {}", status.message)
        }
        error => format!("could not look: {}", crate::cluster::told(error)),
    }
}
