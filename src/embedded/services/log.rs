//! Log lines as Argo Events writes them: zap's production JSON, its levels and its sampling.

use std::collections::HashMap;
use std::panic::Location;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use jiff::Timestamp;
use serde_json::Value;

use crate::embedded::node::process::LogSink;

/// Of one text and level, so many lines a second are written, ...
const FIRST: u64 = 100;
/// ... and then every so-many-th.
const THEREAFTER: u64 = 100;
/// zap counts texts in so many buckets a level, by hash.
const BUCKETS: u32 = 4096;

/// A level of zap, as its name in the line.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Level {
    Debug,
    Info,
    Warn,
    Error,
    Fatal,
}

impl Level {
    /// The level that `LOG_LEVEL` sets: only these four exact words count, everything else means info.
    #[must_use]
    pub fn from_environment(value: Option<&str>) -> Level {
        match value {
            Some("debug") => Level::Debug,
            Some("warn") => Level::Warn,
            Some("error") => Level::Error,
            _ => Level::Info,
        }
    }

    fn name(self) -> &'static str {
        match self {
            Level::Debug => "debug",
            Level::Info => "info",
            Level::Warn => "warn",
            Level::Error => "error",
            Level::Fatal => "fatal",
        }
    }
}

/// A field of a line.
pub type Field<'a> = (&'a str, Value);

/// A logger with its name and fields; clones share the sampling.
#[derive(Clone)]
pub struct Logger {
    core: Arc<Core>,
    name: Arc<str>,
    fields: Vec<(Arc<str>, Value)>,
}

struct Core {
    sink: Arc<dyn LogSink>,
    level: Level,
    sampler: Mutex<Sampler>,
}

impl Logger {
    /// A logger such as `argo-events.sensor`.
    #[must_use]
    pub fn new(sink: Arc<dyn LogSink>, level: Level, name: &str) -> Logger {
        let core = Core {
            sink,
            level,
            sampler: Mutex::new(Sampler::default()),
        };
        Logger {
            core: Arc::new(core),
            name: Arc::from(name),
            fields: Vec::new(),
        }
    }

    /// The same logger with one more field; a field of that name is replaced.
    #[must_use]
    pub fn with(&self, key: &str, value: impl Into<Value>) -> Logger {
        let mut logger = self.clone();
        logger.fields.retain(|(name, _)| &**name != key);
        logger.fields.push((Arc::from(key), value.into()));
        logger
    }

    #[track_caller]
    pub fn debug(&self, message: &str, fields: &[Field<'_>]) {
        self.write(Level::Debug, message, fields);
    }

    #[track_caller]
    pub fn info(&self, message: &str, fields: &[Field<'_>]) {
        self.write(Level::Info, message, fields);
    }

    #[track_caller]
    pub fn warn(&self, message: &str, fields: &[Field<'_>]) {
        self.write(Level::Warn, message, fields);
    }

    #[track_caller]
    pub fn error(&self, message: &str, fields: &[Field<'_>]) {
        self.write(Level::Error, message, fields);
    }

    /// A line after which the caller ends with code 1.
    #[track_caller]
    pub fn fatal(&self, message: &str, fields: &[Field<'_>]) {
        self.write(Level::Fatal, message, fields);
    }

    /// Whether debug lines are written; building a text may be costly.
    #[must_use]
    pub fn debugs(&self) -> bool {
        self.core.level <= Level::Debug
    }

    #[track_caller]
    fn write(&self, level: Level, message: &str, fields: &[Field<'_>]) {
        if level < self.core.level {
            return;
        }
        let sampler = &self.core.sampler;
        if !sampler
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .passes(level, message, Instant::now())
        {
            return;
        }
        self.core
            .sink
            .line(&self.render(level, message, fields, Location::caller()));
    }

    fn render(
        &self,
        level: Level,
        message: &str,
        fields: &[Field<'_>],
        caller: &Location<'_>,
    ) -> String {
        let mut line = String::with_capacity(256 + message.len());
        let caller = short(caller);
        line.push_str("{\"level\":\"");
        line.push_str(level.name());
        line.push('"');
        push_text(&mut line, "ts", &Timestamp::now().to_string());
        push_text(&mut line, "logger", &self.name);
        push_text(&mut line, "caller", &caller);
        push_text(&mut line, "msg", message);
        for (key, value) in &self.fields {
            if !fields.iter().any(|(name, _)| *name == &**key) {
                push(&mut line, key, value);
            }
        }
        for (key, value) in fields {
            push(&mut line, key, value);
        }
        if level >= Level::Error {
            push_text(&mut line, "stacktrace", &caller);
        }
        line.push('}');
        line
    }
}

/// The last two parts of the path and the line, as zap writes it.
fn short(caller: &Location<'_>) -> String {
    let mut parts = caller.file().rsplit('/');
    let file = parts.next().unwrap_or_default();
    match parts.next() {
        Some(directory) => format!("{directory}/{file}:{}", caller.line()),
        None => format!("{file}:{}", caller.line()),
    }
}

fn push(line: &mut String, key: &str, value: &Value) {
    line.push(',');
    push_quoted(line, key);
    line.push(':');
    line.push_str(&value.to_string());
}

fn push_text(line: &mut String, key: &str, text: &str) {
    line.push(',');
    push_quoted(line, key);
    line.push(':');
    push_quoted(line, text);
}

fn push_quoted(line: &mut String, text: &str) {
    line.push_str(&Value::from(text).to_string());
}

/// zap's sampler: counts lines by level and hash of the text, anew every second.
#[derive(Default)]
struct Sampler {
    counts: HashMap<(Level, u32), (Instant, u64)>,
}

impl Sampler {
    fn passes(&mut self, level: Level, message: &str, now: Instant) -> bool {
        let bucket = fnv1a(message.as_bytes()) % BUCKETS;
        let (since, count) = self.counts.entry((level, bucket)).or_insert((now, 0));
        if now.duration_since(*since) >= Duration::from_secs(1) {
            (*since, *count) = (now, 0);
        }
        *count += 1;
        *count <= FIRST || (*count - FIRST).is_multiple_of(THEREAFTER)
    }
}

/// FNV-1a, 32 bits.
pub(super) fn fnv1a(bytes: &[u8]) -> u32 {
    bytes.iter().fold(0x811c_9dc5, |hash, byte| {
        (hash ^ u32::from(*byte)).wrapping_mul(0x0100_0193)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Default)]
    struct Lines(Mutex<Vec<String>>);

    impl LogSink for Lines {
        fn line(&self, line: &str) {
            self.0.lock().unwrap().push(line.to_owned());
        }
    }

    fn logger(level: &str) -> (Logger, Arc<Lines>) {
        let lines = Arc::new(Lines::default());
        let sink: Arc<dyn LogSink> = Arc::clone(&lines) as _;
        (
            Logger::new(
                sink,
                Level::from_environment(Some(level)),
                "argo-events.sensor",
            ),
            lines,
        )
    }

    #[test]
    fn a_line_has_zaps_fields_in_order() {
        let (logger, lines) = logger("info");
        let logger = logger.with("sensorName", "orders");
        logger.error(
            "bad \"thing\"\n",
            &[("error", "e".into()), ("triggeredBy", vec!["dep"].into())],
        );
        let line = lines.0.lock().unwrap().first().cloned().unwrap();
        let value: serde_json::Map<String, Value> = serde_json::from_str(&line).unwrap();
        let keys: Vec<_> = value.keys().map(String::as_str).collect();
        let wanted = [
            "level",
            "ts",
            "logger",
            "caller",
            "msg",
            "sensorName",
            "error",
            "triggeredBy",
            "stacktrace",
        ];
        assert_eq!(keys, wanted);
        assert_eq!(value["msg"], "bad \"thing\"\n");
        assert!(
            value["caller"]
                .as_str()
                .unwrap()
                .starts_with("services/log.rs:"),
            "{line}"
        );
        value["ts"].as_str().unwrap().parse::<Timestamp>().unwrap();
    }

    #[test]
    fn only_exact_words_set_the_level() {
        for (word, lines_written) in [
            ("debug", 4),
            ("DEBUG", 3),
            ("", 3),
            ("warn", 2),
            ("error", 1),
            ("trace", 3),
        ] {
            let (logger, lines) = logger(word);
            logger.debug("d", &[]);
            logger.info("i", &[]);
            logger.warn("w", &[]);
            logger.error("e", &[]);
            assert_eq!(lines.0.lock().unwrap().len(), lines_written, "{word}");
        }
    }

    #[test]
    fn a_text_is_sampled_by_the_second_and_by_level() {
        let mut sampler = Sampler::default();
        let start = Instant::now();
        let mut pass = |level, count: usize, now| {
            (0..count)
                .filter(|_| sampler.passes(level, "same", now))
                .count()
        };
        assert_eq!(pass(Level::Info, 100, start), 100);
        assert_eq!(pass(Level::Info, 99, start), 0);
        assert_eq!(pass(Level::Info, 1, start), 1, "the 200th");
        assert_eq!(pass(Level::Error, 5, start), 5);
        assert_eq!(pass(Level::Info, 5, start + Duration::from_secs(1)), 5);
    }

    #[test]
    fn the_hash_is_fnv1a() {
        assert_eq!(fnv1a(b"order-1001[0].charge"), 3_706_419_028);
    }
}
