//! Which error texts speak of this program's own limits, where upstream might go on.
//!
//! From above: [`is_own`].

/// Beginnings and parts of the texts with which this program stops work that upstream would do.
const OWN: [&str; 14] = [
    "eventlab: ",
    "script stopped: one event ",
    "script is longer than ",
    "chunk has too many syntax levels",
    "resulting string too large",
    "run the script: ",
    "template takes too many steps",
    "template is longer than ",
    "levels; split the template",
    "output is longer than 4 MiB",
    "templates call one another too deeply",
    "value is too large; build smaller",
    "Expression is longer than ",
    "Text is longer than 16 MiB",
];

/// Whether an error says that this program stops here, so that it proves nothing about upstream.
#[must_use]
pub fn is_own(text: &str) -> bool {
    OWN.iter().any(|part| text.contains(part))
}
