//! `bus.db`: what survives a kill. Every write is committed before its caller goes on.
//!
//! `synchronous=NORMAL` keeps acknowledged writes through a kill of the process, not through a power cut.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use rusqlite::{Connection, ErrorCode, OptionalExtension, Row, Transaction, params};

use super::consumer::{Consumer, Pending};
use super::stream::{Head, Stream, stored_size};
use super::{BusError, ConsumerConfig, StreamConfig};
use crate::embedded::stores;

/// Version of the tables below.
const SCHEMA: i64 = 1;
const TABLES: &str = "
CREATE TABLE streams (id INTEGER PRIMARY KEY, name TEXT NOT NULL UNIQUE, config TEXT NOT NULL, created INTEGER NOT NULL) STRICT;
CREATE TABLE sequences (stream TEXT PRIMARY KEY, last INTEGER NOT NULL) STRICT;
CREATE TABLE messages (id INTEGER PRIMARY KEY, stream INTEGER NOT NULL, sequence INTEGER NOT NULL, subject TEXT NOT NULL,
  message_id TEXT, time INTEGER NOT NULL, payload BLOB NOT NULL, UNIQUE (stream, sequence)) STRICT;
CREATE TABLE consumers (id INTEGER PRIMARY KEY, stream INTEGER NOT NULL, durable TEXT NOT NULL, config TEXT NOT NULL,
  created INTEGER NOT NULL, created_at_sequence INTEGER NOT NULL, delivered_stream INTEGER NOT NULL, deliveries INTEGER NOT NULL,
  UNIQUE (stream, durable)) STRICT;
CREATE TABLE pending (id INTEGER PRIMARY KEY, consumer INTEGER NOT NULL, sequence INTEGER NOT NULL, delivered INTEGER NOT NULL,
  redeliver_at INTEGER NOT NULL, UNIQUE (consumer, sequence)) STRICT;
CREATE TABLE buckets (id INTEGER PRIMARY KEY, bucket TEXT NOT NULL, key TEXT NOT NULL, value BLOB NOT NULL, UNIQUE (bucket, key)) STRICT;
";
/// Tables that a rewind replaces; `sequences` is merged instead, so that no sequence is given out twice.
const REPLACED: [&str; 5] = ["streams", "messages", "consumers", "pending", "buckets"];

/// Why `bus.db` cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum BusOpenError {
    #[error(
        "cannot open the bus database {path}: another eventlab uses it; end that one or name another session"
    )]
    Locked { path: PathBuf },
    #[error(
        "the bus database {path} is damaged ({reason}); it was left as it is: move it away, and {path}-wal if it is there, to start with an empty bus"
    )]
    Damaged { path: PathBuf, reason: String },
    #[error(
        "the bus database {path} cannot be written; check the permissions of the file and its directory"
    )]
    ReadOnly { path: PathBuf },
    #[error(
        "the bus database {path} has format {found}, this eventlab knows up to {SCHEMA}; use the newer eventlab, or another session with --session NAME"
    )]
    Newer { path: PathBuf, found: i64 },
    #[error(
        "cannot write the bus database {path}: {reason}; is its disk full (`df`)? Free some space, or choose another --state-dir"
    )]
    NoSpace { path: PathBuf, reason: String },
    #[error(
        "cannot open the bus database {path}: {reason}; check that its directory exists and may be written"
    )]
    Failed { path: PathBuf, reason: String },
}

impl BusOpenError {
    /// What SQLite says of the file, told apart by what is to be done.
    #[must_use]
    pub fn from_sqlite(path: &Path, error: &rusqlite::Error) -> Self {
        let path = path.to_owned();
        let reason = error.to_string();
        match error.sqlite_error_code() {
            Some(ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked) => {
                BusOpenError::Locked { path }
            }
            Some(ErrorCode::DatabaseCorrupt | ErrorCode::NotADatabase) => {
                BusOpenError::Damaged { path, reason }
            }
            Some(ErrorCode::ReadOnly | ErrorCode::PermissionDenied) => {
                BusOpenError::ReadOnly { path }
            }
            Some(ErrorCode::DiskFull | ErrorCode::SystemIoFailure) => {
                BusOpenError::NoSpace { path, reason }
            }
            _ => BusOpenError::Failed { path, reason },
        }
    }
}

impl From<rusqlite::Error> for BusError {
    fn from(error: rusqlite::Error) -> Self {
        BusError::Storage(error.to_string())
    }
}

/// The open database.
pub(super) struct Store {
    connection: Connection,
}

impl Store {
    /// Opens or makes the database and takes it for this process alone.
    pub(super) fn open(path: &Path) -> Result<(Store, Vec<Stream>), BusOpenError> {
        let fail = |error: rusqlite::Error| BusOpenError::from_sqlite(path, &error);
        let connection = Connection::open(path).map_err(fail)?;
        let mut store = Store { connection };
        store.configure().map_err(fail)?;
        let found: i64 = store
            .connection
            .pragma_query_value(None, "user_version", |row| row.get(0))
            .map_err(fail)?;
        match found {
            0 => store.make_tables().map_err(fail)?,
            SCHEMA => store.check(path)?,
            found => {
                return Err(BusOpenError::Newer {
                    path: path.to_owned(),
                    found,
                });
            }
        }
        let streams = store.load().map_err(|error| match error {
            LoadError::Sqlite(error) => fail(error),
            LoadError::Content(reason) => BusOpenError::Damaged {
                path: path.to_owned(),
                reason,
            },
        })?;
        Ok((store, streams))
    }

    fn configure(&self) -> rusqlite::Result<()> {
        self.connection.busy_timeout(Duration::from_millis(200))?;
        self.connection
            .pragma_update(None, "locking_mode", "EXCLUSIVE")?;
        self.connection.pragma_update(None, "journal_mode", "WAL")?;
        self.connection
            .pragma_update(None, "synchronous", "NORMAL")?;
        // Without a write SQLite would take the lock only later, in the middle of an event.
        self.connection.execute_batch("BEGIN IMMEDIATE; COMMIT")
    }

    fn make_tables(&mut self) -> rusqlite::Result<()> {
        let transaction = self.connection.transaction()?;
        transaction.execute_batch(TABLES)?;
        transaction.pragma_update(None, "user_version", SCHEMA)?;
        transaction.commit()
    }

    fn check(&self, path: &Path) -> Result<(), BusOpenError> {
        let verdict: String = self
            .connection
            .query_row("PRAGMA quick_check(1)", [], |row| row.get(0))
            .map_err(|error| BusOpenError::from_sqlite(path, &error))?;
        if verdict == "ok" {
            return Ok(());
        }
        Err(BusOpenError::Damaged {
            path: path.to_owned(),
            reason: verdict,
        })
    }

    /// Reads streams, heads and consumers; payloads stay in the file.
    pub(super) fn load(&self) -> Result<Vec<Stream>, LoadError> {
        let mut statement = self.connection.prepare(
            "SELECT s.id, s.config, s.created, coalesce(q.last, 0) FROM streams s LEFT JOIN sequences q ON q.stream = s.name",
        )?;
        let rows = statement.query_map([], |row| {
            Ok((
                row.get::<_, i64>(0)?,
                row.get::<_, String>(1)?,
                row.get::<_, i64>(2)?,
                unsigned(row, 3)?,
            ))
        })?;
        let mut streams = Vec::new();
        for row in rows {
            let (id, config, created, last) = row?;
            let config: StreamConfig = parse(&config)?;
            let mut stream = Stream::new(id, config, timestamp(created)?, last);
            self.load_heads(&mut stream)?;
            self.load_consumers(&mut stream)?;
            streams.push(stream);
        }
        Ok(streams)
    }

    fn load_heads(&self, stream: &mut Stream) -> Result<(), LoadError> {
        let mut statement = self.connection.prepare(
            "SELECT sequence, subject, message_id, time, length(payload) FROM messages WHERE stream = ?1 ORDER BY sequence",
        )?;
        let mut rows = statement.query([stream.id])?;
        while let Some(row) = rows.next()? {
            let subject: Arc<str> =
                Arc::from(row.get_ref(1)?.as_str().map_err(rusqlite::Error::from)?);
            let message_id = row.get::<_, Option<String>>(2)?;
            let payload = usize::try_from(unsigned(row, 4)?).unwrap_or(usize::MAX >> 1);
            stream.push(Head {
                sequence: unsigned(row, 0)?,
                size: stored_size(&subject, message_id.as_deref().unwrap_or_default(), payload),
                subject,
                message_id: message_id.map(Arc::from),
                time: timestamp(row.get(3)?)?,
            });
        }
        Ok(())
    }

    fn load_consumers(&self, stream: &mut Stream) -> Result<(), LoadError> {
        let mut statement = self.connection.prepare(
            "SELECT id, config, created, created_at_sequence, delivered_stream, deliveries FROM consumers WHERE stream = ?1",
        )?;
        let mut rows = statement.query([stream.id])?;
        while let Some(row) = rows.next()? {
            let config: ConsumerConfig = parse(&row.get::<_, String>(1)?)?;
            let name = config.durable.clone();
            let mut consumer = Consumer::new(
                row.get(0)?,
                config,
                timestamp(row.get(2)?)?,
                unsigned(row, 3)?,
            );
            consumer.delivered_stream = unsigned(row, 4)?;
            consumer.deliveries = unsigned(row, 5)?;
            self.load_pending(&mut consumer)?;
            stream.consumers.insert(name, consumer);
        }
        Ok(())
    }

    /// What was delivered and not acknowledged is due again: whoever held it has ended with the process, or ends with the
    /// state that is replaced. Nothing waits for a time that a clock may never come to.
    fn load_pending(&self, consumer: &mut Consumer) -> Result<(), LoadError> {
        let now = Timestamp::now();
        let mut statement = self
            .connection
            .prepare("SELECT sequence, delivered, redeliver_at FROM pending WHERE consumer = ?1")?;
        let mut rows = statement.query([consumer.id])?;
        while let Some(row) = rows.next()? {
            let pending = Pending {
                delivered: unsigned(row, 1)?,
                redeliver_at: timestamp(row.get(2)?)?.min(now),
            };
            consumer.pending.insert(unsigned(row, 0)?, pending);
        }
        Ok(())
    }

    /// Makes a stream; answers its row and the last sequence that any stream of this name gave out.
    pub(super) fn add_stream(
        &self,
        config: &StreamConfig,
        created: Timestamp,
    ) -> Result<(i64, u64), BusError> {
        self.connection.execute(
            "INSERT INTO streams (name, config, created) VALUES (?1, ?2, ?3)",
            params![config.name, render(config)?, nanoseconds(created)],
        )?;
        let id = self.connection.last_insert_rowid();
        let last = self
            .connection
            .query_row(
                "SELECT last FROM sequences WHERE stream = ?1",
                [&config.name],
                |row| unsigned(row, 0),
            )
            .optional()?;
        Ok((id, last.unwrap_or(0)))
    }

    /// Stores a message, with the messages that the limits no longer keep removed.
    pub(super) fn append(
        &mut self,
        stream: &Stream,
        head: &Head,
        payload: &[u8],
        outdated: Option<u64>,
    ) -> Result<(), BusError> {
        let transaction = self.connection.transaction()?;
        transaction
            .prepare_cached(
                "INSERT INTO messages (stream, sequence, subject, message_id, time, payload) VALUES (?1, ?2, ?3, ?4, ?5, ?6)",
            )?
            .execute(params![
                stream.id,
                signed(head.sequence),
                &*head.subject,
                head.message_id.as_deref(),
                nanoseconds(head.time),
                payload
            ])?;
        transaction
            .prepare_cached(
                "INSERT INTO sequences (stream, last) VALUES (?1, ?2) ON CONFLICT (stream) DO UPDATE SET last = excluded.last",
            )?
            .execute(params![stream.config.name, signed(head.sequence)])?;
        if let Some(outdated) = outdated {
            remove_messages(&transaction, stream.id, outdated)?;
        }
        transaction.commit()?;
        Ok(())
    }

    /// Removes everything up to `sequence`.
    pub(super) fn prune(&mut self, stream: i64, sequence: u64) -> Result<(), BusError> {
        let transaction = self.connection.transaction()?;
        remove_messages(&transaction, stream, sequence)?;
        transaction.commit()?;
        Ok(())
    }

    /// The payload of a stored message.
    pub(super) fn payload(&self, stream: i64, sequence: u64) -> Result<Vec<u8>, BusError> {
        let mut statement = self
            .connection
            .prepare_cached("SELECT payload FROM messages WHERE stream = ?1 AND sequence = ?2")?;
        Ok(statement.query_row(params![stream, signed(sequence)], |row| row.get(0))?)
    }

    pub(super) fn add_consumer(
        &self,
        stream: i64,
        config: &ConsumerConfig,
        created: Timestamp,
        created_at_sequence: u64,
    ) -> Result<i64, BusError> {
        self.connection.execute(
            "INSERT INTO consumers (stream, durable, config, created, created_at_sequence, delivered_stream, deliveries)
             VALUES (?1, ?2, ?3, ?4, ?5, ?5, 0)",
            params![stream, config.durable, render(config)?, nanoseconds(created), signed(created_at_sequence)],
        )?;
        Ok(self.connection.last_insert_rowid())
    }

    pub(super) fn remove_consumer(&mut self, consumer: i64) -> Result<(), BusError> {
        let transaction = self.connection.transaction()?;
        transaction.execute("DELETE FROM pending WHERE consumer = ?1", [consumer])?;
        transaction.execute("DELETE FROM consumers WHERE id = ?1", [consumer])?;
        transaction.commit()?;
        Ok(())
    }

    /// Records that `sequence` was handed out.
    pub(super) fn deliver(
        &mut self,
        consumer: &Consumer,
        sequence: u64,
        pending: Pending,
    ) -> Result<(), BusError> {
        let transaction = self.connection.transaction()?;
        transaction
            .prepare_cached(
                "UPDATE consumers SET delivered_stream = ?2, deliveries = ?3 WHERE id = ?1",
            )?
            .execute(params![
                consumer.id,
                signed(consumer.delivered_stream.max(sequence)),
                signed(consumer.deliveries + 1)
            ])?;
        save_pending(&transaction, consumer.id, sequence, pending)?;
        transaction.commit()?;
        Ok(())
    }

    /// Records a longer ack wait.
    pub(super) fn extend(
        &self,
        consumer: i64,
        sequence: u64,
        pending: Pending,
    ) -> Result<(), BusError> {
        Ok(save_pending(&self.connection, consumer, sequence, pending)?)
    }

    /// Records an ack.
    pub(super) fn acknowledge(&self, consumer: i64, sequence: u64) -> Result<(), BusError> {
        self.connection
            .prepare_cached("DELETE FROM pending WHERE consumer = ?1 AND sequence = ?2")?
            .execute(params![consumer, signed(sequence)])?;
        Ok(())
    }

    pub(super) fn bucket_get(&self, bucket: &str, key: &str) -> Result<Option<Vec<u8>>, BusError> {
        let mut statement = self
            .connection
            .prepare_cached("SELECT value FROM buckets WHERE bucket = ?1 AND key = ?2")?;
        Ok(statement
            .query_row([bucket, key], |row| row.get(0))
            .optional()?)
    }

    pub(super) fn bucket_put(&self, bucket: &str, key: &str, value: &[u8]) -> Result<(), BusError> {
        self.connection
            .prepare_cached(
                "INSERT INTO buckets (bucket, key, value) VALUES (?1, ?2, ?3)
                 ON CONFLICT (bucket, key) DO UPDATE SET value = excluded.value",
            )?
            .execute(params![bucket, key, value])?;
        Ok(())
    }

    pub(super) fn bucket_delete(&self, bucket: &str, key: &str) -> Result<(), BusError> {
        self.connection
            .prepare_cached("DELETE FROM buckets WHERE bucket = ?1 AND key = ?2")?
            .execute([bucket, key])?;
        Ok(())
    }

    /// Names of the buckets and how many keys each holds.
    pub(super) fn buckets(&self) -> Result<Vec<(String, u64)>, BusError> {
        let mut statement = self
            .connection
            .prepare_cached("SELECT bucket, count(*) FROM buckets GROUP BY bucket")?;
        let rows = statement.query_map([], |row| Ok((row.get(0)?, unsigned(row, 1)?)))?;
        Ok(rows.collect::<Result<_, _>>()?)
    }

    /// Writes into the file whose it is.
    pub(super) fn sign(&self, now: &str, before: &str) -> rusqlite::Result<()> {
        stores::sign(&self.connection, now, before)
    }

    /// Writes a consistent copy to `path`, which is replaced when it is there.
    pub(super) fn snapshot(&self, path: &Path) -> Result<(), BusError> {
        let partial = path.with_extension("partial");
        let io = |error: std::io::Error| {
            BusError::Storage(format!(
                "cannot write the bus snapshot {}: {error}",
                path.display()
            ))
        };
        match std::fs::remove_file(&partial) {
            Err(error) if error.kind() != std::io::ErrorKind::NotFound => return Err(io(error)),
            _ => {}
        }
        self.connection
            .execute("VACUUM INTO ?1", [partial.to_string_lossy()])?;
        std::fs::rename(&partial, path).map_err(io)
    }

    /// Replaces the content by a snapshot's; the sequences stay as high as they are.
    pub(super) fn restore(&mut self, snapshot: &Path) -> Result<Vec<Stream>, BusError> {
        if !snapshot.is_file() {
            return Err(BusError::Storage(format!(
                "there is no bus snapshot {}",
                snapshot.display()
            )));
        }
        self.connection
            .execute("ATTACH ?1 AS snapshot", [snapshot.to_string_lossy()])?;
        let replaced = self.replace_content(snapshot);
        self.connection.execute("DETACH snapshot", [])?;
        replaced?;
        self.load()
            .map_err(|error| BusError::Storage(error.to_string()))
    }

    fn replace_content(&mut self, snapshot: &Path) -> Result<(), BusError> {
        let version: i64 =
            self.connection
                .query_row("PRAGMA snapshot.user_version", [], |row| row.get(0))?;
        if version != SCHEMA {
            let message = format!(
                "the bus snapshot {} has format {version}, not {SCHEMA}",
                snapshot.display()
            );
            return Err(BusError::Storage(message));
        }
        let transaction = self.connection.transaction()?;
        for table in REPLACED {
            transaction.execute_batch(&format!(
                "DELETE FROM main.{table}; INSERT INTO main.{table} SELECT * FROM snapshot.{table};"
            ))?;
        }
        transaction.execute_batch(
            "INSERT INTO main.sequences (stream, last) SELECT stream, last FROM snapshot.sequences WHERE true
             ON CONFLICT (stream) DO UPDATE SET last = max(last, excluded.last)",
        )?;
        transaction.commit()?;
        Ok(())
    }
}

fn remove_messages(
    transaction: &Transaction<'_>,
    stream: i64,
    sequence: u64,
) -> rusqlite::Result<()> {
    transaction
        .prepare_cached("DELETE FROM messages WHERE stream = ?1 AND sequence <= ?2")?
        .execute(params![stream, signed(sequence)])?;
    transaction
        .prepare_cached(
            "DELETE FROM pending WHERE sequence <= ?2 AND consumer IN (SELECT id FROM consumers WHERE stream = ?1)",
        )?
        .execute(params![stream, signed(sequence)])?;
    Ok(())
}

fn save_pending(
    connection: &Connection,
    consumer: i64,
    sequence: u64,
    pending: Pending,
) -> rusqlite::Result<()> {
    connection
        .prepare_cached(
            "INSERT INTO pending (consumer, sequence, delivered, redeliver_at) VALUES (?1, ?2, ?3, ?4)
             ON CONFLICT (consumer, sequence) DO UPDATE SET delivered = excluded.delivered, redeliver_at = excluded.redeliver_at",
        )?
        .execute(params![consumer, signed(sequence), signed(pending.delivered), nanoseconds(pending.redeliver_at)])?;
    Ok(())
}

/// Why the content could not be read.
#[derive(Debug, thiserror::Error)]
pub(super) enum LoadError {
    #[error(transparent)]
    Sqlite(#[from] rusqlite::Error),
    #[error("{0}")]
    Content(String),
}

fn parse<T: serde::de::DeserializeOwned>(text: &str) -> Result<T, LoadError> {
    serde_json::from_str(text).map_err(|error| {
        LoadError::Content(format!("a stored configuration is not readable: {error}"))
    })
}

fn render<T: serde::Serialize>(value: &T) -> Result<String, BusError> {
    serde_json::to_string(value).map_err(|error| BusError::Storage(error.to_string()))
}

/// SQLite's integers are signed; counts and sequences stay far below that.
fn signed(number: u64) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX)
}

fn unsigned(row: &Row<'_>, column: usize) -> rusqlite::Result<u64> {
    Ok(u64::try_from(row.get::<_, i64>(column)?).unwrap_or(0))
}

/// Nanoseconds since the epoch, held inside what SQLite's integers reach (year 2262).
fn nanoseconds(time: Timestamp) -> i64 {
    i64::try_from(time.as_nanosecond()).unwrap_or(i64::MAX)
}

fn timestamp(nanoseconds: i64) -> Result<Timestamp, LoadError> {
    Timestamp::from_nanosecond(i128::from(nanoseconds))
        .map_err(|error| LoadError::Content(format!("a stored time is out of range: {error}")))
}
