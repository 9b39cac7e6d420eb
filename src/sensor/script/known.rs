//! What the functions of upstream's engine return, as far as that is known.

use super::returns::{FALSE, NIL, NUMBER, OTHER, TEXT, TRUE, Text};

/// What `type` says.
pub(super) const TYPES: [&str; 9] = [
    "nil", "boolean", "number", "string", "function", "userdata", "thread", "table", "channel",
];

/// Global names of the engine beside libraries and the functions that are known.
pub(super) const GLOBALS: [&str; 16] = [
    "_VERSION",
    "_GOPHER_LUA_VERSION",
    "_printregs",
    "assert",
    "channel",
    "coroutine",
    "io",
    "ipairs",
    "next",
    "pairs",
    "pcall",
    "rawget",
    "select",
    "unpack",
    "xpcall",
    "arg",
];

/// Names through which a script may change what others stand for.
pub(super) const REACH_FURTHER: [&str; 15] = [
    "_G",
    "debug",
    "dofile",
    "getfenv",
    "getmetatable",
    "load",
    "loadfile",
    "loadstring",
    "module",
    "newproxy",
    "package",
    "rawset",
    "require",
    "setfenv",
    "setmetatable",
];

/// The kinds of a function's first and last value, and what is known of its text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Known {
    pub first: u8,
    pub last: u8,
    pub text: Option<Text<'static>>,
}

/// Whether a global name is that of a library.
pub(super) fn is_library(name: &str) -> bool {
    matches!(name, "string" | "table" | "math" | "os")
}

/// A function of a library, or a global one.
pub(super) fn function(library: &str, name: &str) -> Option<Known> {
    let of = |first, last| {
        Some(Known {
            first,
            last,
            text: None,
        })
    };
    let one = |kinds| of(kinds, kinds);
    let text = |text| {
        Some(Known {
            first: TEXT,
            last: TEXT,
            text: Some(text),
        })
    };
    match (library, name) {
        ("", "type") => text(Text::Type),
        ("string", "lower") => text(Text::Lower),
        ("string", "upper") => text(Text::Upper),
        ("", "error") => one(0),
        ("", "rawequal") => one(TRUE | FALSE),
        ("", "print" | "collectgarbage") | ("table", "insert" | "sort") => one(NIL),
        ("", "tostring") | ("string", "char" | "format" | "rep" | "reverse" | "sub") => one(TEXT),
        ("string", "len") | ("table", "getn" | "maxn") | ("os", "clock" | "difftime" | "time") => {
            one(NUMBER)
        }
        ("", "tonumber") | ("string", "byte") => one(NUMBER | NIL),
        ("string", "find") => of(NUMBER | NIL, NUMBER | TEXT | NIL),
        ("string", "match") => one(NUMBER | TEXT | NIL),
        ("string", "gsub") => of(TEXT, NUMBER),
        ("table", "concat") => one(TEXT | NUMBER),
        ("os", "getenv") => one(TEXT | NIL),
        ("os", "date") => one(TEXT | OTHER),
        ("math", name) => match name {
            "randomseed" => one(NIL),
            "abs" | "acos" | "asin" | "atan" | "atan2" | "ceil" | "cos" | "cosh" | "deg"
            | "exp" | "floor" | "fmod" | "frexp" | "ldexp" | "log" | "log10" | "max" | "min"
            | "mod" | "modf" | "pow" | "rad" | "random" | "sin" | "sinh" | "sqrt" | "tan"
            | "tanh" => one(NUMBER),
            _ => None,
        },
        _ => None,
    }
}
