//! The CRM's database: entries, and the faults that wait to happen.

use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use jiff::Timestamp;
use rusqlite::{Connection, OpenFlags, OptionalExtension, Row, TransactionBehavior, params};

use super::{Entry, FaultPoint, NewEntry, Written};
use crate::ledger::schema::name_file;

const TABLES: &str = "
    CREATE TABLE IF NOT EXISTS entries (
        seq INTEGER PRIMARY KEY AUTOINCREMENT,
        source_id TEXT NOT NULL CHECK (length(source_id) BETWEEN 1 AND 600),
        order_id TEXT NOT NULL CHECK (length(order_id) BETWEEN 1 AND 256),
        amount_cents INTEGER NOT NULL CHECK (amount_cents > 0),
        idempotency_key TEXT NOT NULL,
        workflow_uid TEXT NOT NULL,
        arrival TEXT NOT NULL,
        time TEXT NOT NULL
    ) STRICT;
    CREATE TABLE IF NOT EXISTS keys (
        idempotency_key TEXT NOT NULL PRIMARY KEY CHECK (length(idempotency_key) BETWEEN 1 AND 600),
        entry INTEGER NOT NULL REFERENCES entries (seq)
    ) STRICT;
    CREATE TABLE IF NOT EXISTS faults (
        point TEXT NOT NULL PRIMARY KEY,
        times INTEGER NOT NULL CHECK (times >= 0)
    ) STRICT;
";

/// Why the CRM did not do what was asked.
#[derive(Debug, thiserror::Error)]
pub enum CrmError {
    #[error("{0}")]
    Invalid(String),
    /// The key came before with another content.
    #[error("idempotency key {0:?} was used for another entry")]
    KeyReused(String),
    #[error("crm database {}: {source}", path.display())]
    Database {
        path: PathBuf,
        source: rusqlite::Error,
    },
}

/// The CRM's database.
#[derive(Debug)]
pub struct Store {
    connection: Mutex<Connection>,
    path: PathBuf,
}

impl Store {
    /// Opens the database at `path`, or makes it.
    pub fn open(path: &Path) -> Result<Store, CrmError> {
        let flags = OpenFlags::SQLITE_OPEN_READ_WRITE
            | OpenFlags::SQLITE_OPEN_CREATE
            | OpenFlags::SQLITE_OPEN_NO_MUTEX;
        let open = || -> rusqlite::Result<Connection> {
            let fresh = path.metadata().map_or(true, |found| found.len() == 0);
            let connection = Connection::open_with_flags(path, flags)?;
            connection.busy_timeout(Duration::from_secs(10))?;
            if fresh {
                name_file(&connection)?;
            }
            connection.query_row("PRAGMA journal_mode = WAL", [], |_| Ok(()))?;
            connection.execute_batch(
                "PRAGMA synchronous = FULL; PRAGMA foreign_keys = ON; PRAGMA trusted_schema = OFF",
            )?;
            connection.execute_batch(TABLES)?;
            Ok(connection)
        };
        let connection = open().map_err(|source| CrmError::Database {
            path: path.to_path_buf(),
            source,
        })?;
        Ok(Store {
            connection: Mutex::new(connection),
            path: path.to_path_buf(),
        })
    }

    /// Writes an entry; with a key that is known already, answers the entry that it made.
    pub fn write(&self, new: &NewEntry, key: Option<&str>) -> Result<Written, CrmError> {
        check(new, key)?;
        let mut connection = self.lock();
        let written = (|| -> rusqlite::Result<Option<Written>> {
            let transaction =
                connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
            if let Some(known) = key
                .map(|key| by_key(&transaction, key))
                .transpose()?
                .flatten()
            {
                let same = (&known.source_id, &known.order_id, known.amount_cents)
                    == (&new.source_id, &new.order_id, new.amount_cents);
                return Ok(same.then_some(Written {
                    reference: known.reference,
                    created: false,
                }));
            }
            let seq: i64 = transaction.query_row(
                "INSERT INTO entries (source_id, order_id, amount_cents, idempotency_key, workflow_uid, arrival, time)
                 VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7) RETURNING seq",
                params![
                    new.source_id,
                    new.order_id,
                    new.amount_cents,
                    key.unwrap_or_default(),
                    new.workflow_uid,
                    new.arrival,
                    format!("{:.3}", Timestamp::now())
                ],
                |row| row.get(0),
            )?;
            if let Some(key) = key {
                transaction.execute("INSERT INTO keys VALUES (?1, ?2)", params![key, seq])?;
            }
            transaction.commit()?;
            Ok(Some(Written {
                reference: reference(seq),
                created: true,
            }))
        })();
        match written {
            Ok(Some(written)) => Ok(written),
            Ok(None) => Err(CrmError::KeyReused(key.unwrap_or_default().to_owned())),
            Err(source) => Err(self.database(source)),
        }
    }

    /// Entries after a sequence, oldest first; all of them, or those with one source id.
    pub fn entries(
        &self,
        source_id: Option<&str>,
        after: i64,
        limit: i64,
    ) -> Result<Vec<Entry>, CrmError> {
        let connection = self.lock();
        let read = || -> rusqlite::Result<Vec<Entry>> {
            let mut statement = connection.prepare_cached(
                "SELECT seq, source_id, order_id, amount_cents, idempotency_key, workflow_uid, arrival, time FROM entries
                 WHERE seq > ?1 AND (?2 IS NULL OR source_id = ?2) ORDER BY seq LIMIT ?3",
            )?;
            statement
                .query_map(params![after, source_id, limit], entry)?
                .collect()
        };
        read().map_err(|source| self.database(source))
    }

    /// Lets the next `times` requests fail at `point`.
    pub fn set_fault(&self, point: FaultPoint, times: u32) -> Result<(), CrmError> {
        let sql = "INSERT INTO faults VALUES (?1, ?2) ON CONFLICT (point) DO UPDATE SET times = excluded.times";
        let done = self.lock().execute(sql, params![name(point), times]);
        done.map(drop).map_err(|source| self.database(source))
    }

    /// Takes one fault at `point`, if any waits.
    pub fn take_fault(&self, point: FaultPoint) -> Result<bool, CrmError> {
        let sql = "UPDATE faults SET times = times - 1 WHERE point = ?1 AND times > 0";
        let done = self.lock().execute(sql, params![name(point)]);
        done.map(|changed| changed > 0)
            .map_err(|source| self.database(source))
    }

    fn database(&self, source: rusqlite::Error) -> CrmError {
        CrmError::Database {
            path: self.path.clone(),
            source,
        }
    }

    fn lock(&self) -> MutexGuard<'_, Connection> {
        self.connection
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }
}

fn check(new: &NewEntry, key: Option<&str>) -> Result<(), CrmError> {
    let text = |value: &str, most: usize| {
        !value.trim().is_empty() && value.len() <= most && !value.contains('\0')
    };
    if !text(&new.source_id, 600) || !text(&new.order_id, 256) {
        return Err(CrmError::Invalid(
            "source_id and order_id must be given".to_owned(),
        ));
    }
    if new.workflow_uid.len() > 256 || new.arrival.len() > 256 {
        return Err(CrmError::Invalid(
            "workflow_uid and arrival must not be longer than 256 bytes".to_owned(),
        ));
    }
    if new.amount_cents <= 0 {
        return Err(CrmError::Invalid(
            "amount_cents must be positive".to_owned(),
        ));
    }
    if key.is_some_and(|key| !text(key, 600)) {
        return Err(CrmError::Invalid(
            "the idempotency key is empty or too long".to_owned(),
        ));
    }
    Ok(())
}

fn by_key(connection: &Connection, key: &str) -> rusqlite::Result<Option<Entry>> {
    let sql = "SELECT e.seq, e.source_id, e.order_id, e.amount_cents, e.idempotency_key, e.workflow_uid, e.arrival, e.time
        FROM keys k JOIN entries e ON e.seq = k.entry WHERE k.idempotency_key = ?1";
    connection.query_row(sql, [key], entry).optional()
}

fn entry(row: &Row<'_>) -> rusqlite::Result<Entry> {
    let seq = row.get(0)?;
    Ok(Entry {
        seq,
        reference: reference(seq),
        source_id: row.get(1)?,
        order_id: row.get(2)?,
        amount_cents: row.get(3)?,
        idempotency_key: row.get(4)?,
        workflow_uid: row.get(5)?,
        arrival: row.get(6)?,
        time: row.get(7)?,
    })
}

fn reference(seq: i64) -> String {
    format!("crm-{seq}")
}

fn name(point: FaultPoint) -> &'static str {
    match point {
        FaultPoint::BeforeCommit => "before-commit",
        FaultPoint::AfterCommit => "after-commit",
        FaultPoint::WrongAnswer => "wrong-answer",
        FaultPoint::Hang => "hang",
    }
}
