//! The rules: id, level, what Argo Events does, and an example of what is found and of what is not.

mod places;
mod programs;
mod triggers;
mod values;

use super::finding::Level;

/// Where the lines of an example belong.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Place {
    /// Under a dependency's `filters`.
    Filters,
    /// Under `spec.dependencies`.
    Dependencies,
    /// Under `spec.triggers`.
    Triggers,
    /// Under `spec`.
    Spec,
    /// They are a whole file.
    File,
    /// There are none.
    None,
}

/// A rule.
#[derive(Clone, Copy, Debug)]
pub struct Rule {
    /// Its id.
    pub id: &'static str,
    /// How bad its findings are.
    pub level: Level,
    /// What it finds, in one line.
    pub summary: &'static str,
    /// What Argo Events does, and what to do about it.
    pub why: &'static str,
    /// Where the lines of the examples belong.
    pub place: Place,
    /// What it finds.
    pub bad: &'static str,
    /// What it does not find.
    pub good: &'static str,
}

/// All rules.
pub fn all() -> impl Iterator<Item = &'static Rule> {
    values::RULES
        .iter()
        .chain(&places::RULES)
        .chain(&programs::RULES)
        .chain(&triggers::RULES)
}

/// The rule of this id.
#[must_use]
pub fn find(id: &str) -> Option<&'static Rule> {
    all().find(|rule| rule.id == id)
}

/// The level of a rule's findings.
pub(super) fn level(id: &str) -> Level {
    find(id).map_or(Level::Warning, |rule| rule.level)
}

/// An example as a whole file.
#[must_use]
pub fn example(place: Place, lines: &str) -> String {
    const HEAD: &str = "apiVersion: argoproj.io/v1alpha1\nkind: Sensor\nmetadata:\n  name: orders\n  namespace: shop\nspec:\n";
    const DEPENDENCY: &str =
        "    - name: order\n      eventSourceName: web\n      eventName: orders\n";
    const TRIGGER: &str = "    - template:\n        name: run\n        k8s:\n          operation: create\n          source:\n            resource:\n              apiVersion: argoproj.io/v1alpha1\n              kind: Workflow\n              metadata:\n                generateName: order-\n";
    let indented = |by: usize| {
        lines
            .lines()
            .map(|line| format!("{}{line}\n", " ".repeat(by)))
            .collect::<String>()
    };
    match place {
        Place::Filters => format!(
            "{HEAD}  dependencies:\n{DEPENDENCY}      filters:\n{}  triggers:\n{TRIGGER}",
            indented(8)
        ),
        Place::Dependencies => format!(
            "{HEAD}  dependencies:\n{}  triggers:\n{TRIGGER}",
            indented(4)
        ),
        Place::Triggers => format!(
            "{HEAD}  dependencies:\n{DEPENDENCY}  triggers:\n{}",
            indented(4)
        ),
        Place::Spec => format!("{HEAD}{}", indented(2)),
        Place::File => indented(0),
        Place::None => String::new(),
    }
}
