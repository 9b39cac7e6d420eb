//! What the API server says of an object before anybody reads its spec: version and names.

use super::super::site::Site;
use super::{Check, short};

/// The one version of Argo's kinds.
const VERSION: &str = "argoproj.io/v1alpha1";
/// Longest name of an object.
const LONGEST: usize = 253;

/// Checks version and name of the Sensor.
pub(super) fn check(check: &mut Check<'_>, root: &Site<'_>) {
    let site = root.get("apiVersion").unwrap_or_else(|| root.clone());
    if site.node.text() != Some(VERSION) {
        let written = site.node.text().unwrap_or_default();
        let what = if written.is_empty() {
            "the file is not applied: `apiVersion not set`".to_owned()
        } else {
            format!(
                "`{}` has no Sensors, so the file is not applied: `no matches for kind \"Sensor\"`",
                short(written)
            )
        };
        let fix = check.text_fix(&site, VERSION, format!("write `{VERSION}`"), true);
        let finding = check.report("api-version", &site, what);
        finding.meant = Some(format!("`{VERSION}`"));
        finding.fix = fix;
    }
    if let Some(site) = root.get("metadata").and_then(|meta| meta.get("name"))
        && let Some(name) = site.node.text()
        && !is_name(name)
    {
        refused(check, &site, name, "the Sensor is not stored");
    }
}

/// Checks the name that a trigger's object has in the Sensor.
pub(super) fn check_created(check: &mut Check<'_>, resource: &Site<'_>) {
    // Names of RBAC objects are looser.
    if resource
        .text("apiVersion")
        .starts_with("rbac.authorization.k8s.io/")
    {
        return;
    }
    let Some(metadata) = resource.get("metadata") else {
        return;
    };
    let name = metadata.text("name");
    let (key, whole) = if name.is_empty() {
        let prefix = metadata.text("generateName");
        // Some letters and digits follow.
        (
            "generateName",
            format!("{prefix}{}", if prefix.is_empty() { "" } else { "x" }),
        )
    } else {
        ("name", name.to_owned())
    };
    if whole.is_empty() || is_name(&whole) {
        return;
    }
    if let Some(site) = metadata.get(key) {
        let text = site.node.text().unwrap_or_default();
        let then = "every event's object is refused, and the event is lost";
        refused(check, &site, text, then);
    }
}

fn refused(check: &mut Check<'_>, site: &Site<'_>, name: &str, then: &str) {
    let finding = check.report(
        "object-name",
        site,
        format!("`{}` is no name of an object: {then}", short(name)),
    );
    finding.meant =
        Some("small letters, digits, `-` and `.`, with a letter or digit at both ends".to_owned());
}

/// A lower case RFC 1123 subdomain.
fn is_name(text: &str) -> bool {
    let inner = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit();
    let label = |label: &str| {
        label.starts_with(inner)
            && label.ends_with(inner)
            && label.chars().all(|c| inner(c) || c == '-')
    };
    text.len() <= LONGEST && text.split('.').all(label)
}
