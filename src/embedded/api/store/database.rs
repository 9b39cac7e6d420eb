//! `cluster.db`: one table of objects, one row with the counter, one table of keys.

mod errors;

use std::path::{Path, PathBuf};
use std::time::Duration;

use rusqlite::{Connection, OpenFlags, OptionalExtension, params};

use crate::embedded::stores;
pub use errors::{DatabaseError, OpenError};

/// `PRAGMA application_id` of our files: "evlc".
const APPLICATION_ID: i32 = 0x6576_6c63;
/// `PRAGMA user_version` that this program writes.
const VERSION: i32 = 1;
/// How long to wait for a file that another process is just letting go of.
const PATIENCE: Duration = Duration::from_millis(500);

const SCHEMA: &str = "
CREATE TABLE IF NOT EXISTS objects(id INTEGER PRIMARY KEY, key TEXT NOT NULL UNIQUE, rv INTEGER NOT NULL, json BLOB NOT NULL) STRICT;
CREATE TABLE IF NOT EXISTS counter(id INTEGER PRIMARY KEY CHECK (id = 1), rv INTEGER NOT NULL) STRICT;
CREATE TABLE IF NOT EXISTS secrets(name TEXT PRIMARY KEY NOT NULL, value BLOB NOT NULL) STRICT;
INSERT OR IGNORE INTO counter(id, rv) VALUES (1, 0);
";

/// One object as it lies in the file.
#[derive(Clone, Debug)]
pub struct Row {
    /// `bucket/namespace/name`.
    pub key: String,
    pub rv: u64,
    pub json: Vec<u8>,
}

/// The open file.
pub struct Database {
    /// `None` once it was closed.
    connection: Option<Connection>,
    path: PathBuf,
}

impl Database {
    /// Opens or makes the file and reads everything.
    pub fn open(path: &Path) -> Result<(Self, u64, Vec<Row>), OpenError> {
        let refused = |error: rusqlite::Error| OpenError::from_sqlite(path, &error);
        let fresh = path.metadata().map_or(true, |meta| meta.len() == 0);
        if !fresh {
            inspect(path)?;
        }
        let connection = Connection::open(path).map_err(refused)?;
        take(&connection).map_err(refused)?;
        restrict(path);
        prepare(&connection, fresh).map_err(refused)?;
        let (counter, rows) = load(&connection).map_err(refused)?;
        let connection = Some(connection);
        let path = path.to_owned();
        Ok((Database { connection, path }, counter, rows))
    }

    /// Brings everything into the file itself and lets go of it; later writes fail.
    pub fn close(&mut self) {
        let Some(connection) = self.connection.take() else {
            return;
        };
        if let Err((_, error)) = connection.close() {
            tracing::warn!(path = %self.path.display(), %error, "cannot close the cluster database");
        }
    }

    /// Runs a piece of work on the open file.
    fn with<T>(
        &mut self,
        action: &'static str,
        work: impl FnOnce(&mut Connection) -> rusqlite::Result<T>,
    ) -> Result<T, DatabaseError> {
        let path = &self.path;
        match self.connection.as_mut() {
            Some(connection) => {
                work(connection).map_err(|error| DatabaseError::from_sqlite(action, path, &error))
            }
            None => Err(DatabaseError::closed(action, path)),
        }
    }

    /// Inserts or replaces an object and moves the counter, in one transaction.
    pub fn put(&mut self, key: &str, rv: u64, json: &[u8]) -> Result<(), DatabaseError> {
        let sql = "INSERT INTO objects(key, rv, json) VALUES (?1, ?2, ?3) \
                   ON CONFLICT(key) DO UPDATE SET rv = excluded.rv, json = excluded.json";
        self.write("store an object", rv, |connection| {
            let mut statement = connection.prepare_cached(sql)?;
            statement.execute(params![key, signed(rv), json]).map(drop)
        })
    }

    /// Removes an object and moves the counter, in one transaction.
    pub fn remove(&mut self, key: &str, rv: u64) -> Result<(), DatabaseError> {
        self.write("remove an object", rv, |connection| {
            let mut statement = connection.prepare_cached("DELETE FROM objects WHERE key = ?1")?;
            statement.execute([key]).map(drop)
        })
    }

    fn write(
        &mut self,
        action: &'static str,
        rv: u64,
        change: impl FnOnce(&Connection) -> rusqlite::Result<()>,
    ) -> Result<(), DatabaseError> {
        self.with(action, |connection| {
            let transaction = connection.transaction()?;
            change(&transaction)?;
            let sql = "UPDATE counter SET rv = ?1 WHERE id = 1";
            transaction.prepare_cached(sql)?.execute([signed(rv)])?;
            transaction.commit()
        })
    }

    /// Replaces all objects.
    pub fn replace(&mut self, rows: &[Row], counter: u64) -> Result<(), DatabaseError> {
        self.write("restore a snapshot", counter, |connection| {
            connection.execute("DELETE FROM objects", [])?;
            let sql = "INSERT INTO objects(key, rv, json) VALUES (?1, ?2, ?3)";
            let mut insert = connection.prepare(sql)?;
            for row in rows {
                insert.execute(params![row.key, signed(row.rv), row.json])?;
            }
            Ok(())
        })
    }

    /// A named value, made at its first use.
    pub fn secret(
        &mut self,
        name: &str,
        make: impl FnOnce() -> Vec<u8>,
    ) -> Result<Vec<u8>, DatabaseError> {
        self.with("keep a key", |connection| {
            let select = "SELECT value FROM secrets WHERE name = ?1";
            let found = connection
                .query_row(select, [name], |row| row.get(0))
                .optional()?;
            if let Some(value) = found {
                return Ok(value);
            }
            let value = make();
            let insert = "INSERT INTO secrets(name, value) VALUES (?1, ?2)";
            connection.execute(insert, params![name, value])?;
            Ok(value)
        })
    }

    /// Writes into the file whose it is.
    pub fn sign(&mut self, now: &str, before: &str) -> Result<(), DatabaseError> {
        self.with("sign the file", |connection| {
            stores::sign(connection, now, before)
        })
    }

    /// Copies the file as it stands now.
    pub fn snapshot(&mut self, path: &Path) -> Result<(), DatabaseError> {
        if path.exists() {
            return Err(DatabaseError::exists("write a snapshot", path));
        }
        let target = path.to_string_lossy().into_owned();
        self.with("write a snapshot", |connection| {
            connection.execute("VACUUM INTO ?1", [target])
        })
        .map_err(|error| {
            // Best effort: the copy is of no use, and the error tells what happened.
            drop(std::fs::remove_file(path));
            DatabaseError {
                path: path.to_owned(),
                ..error
            }
        })?;
        restrict(path);
        Ok(())
    }

    /// Lets the file grow no further, or as it likes: what a full disk does.
    #[cfg(test)]
    pub(super) fn limit_growth(&self, limit: bool) {
        let connection = self.connection.as_ref().expect("open");
        let number = |row: &rusqlite::Row<'_>| row.get::<_, i64>(0);
        let pages = connection.query_row("PRAGMA page_count", [], number);
        let most = if limit {
            pages.expect("pages")
        } else {
            1_000_000
        };
        let pragma = format!("PRAGMA max_page_count = {most}");
        connection.query_row(&pragma, [], number).expect("limit");
    }
}

/// Reads a snapshot without changing it.
pub fn read(path: &Path) -> Result<(u64, Vec<Row>), OpenError> {
    if !path.is_file() {
        let detail = "no such snapshot".to_owned();
        return Err(OpenError::Unreachable {
            path: path.to_owned(),
            detail,
        });
    }
    let connection = inspect(path)?;
    load(&connection).map_err(|error| OpenError::from_sqlite(path, &error))
}

/// Opens a file that exists, for reading alone: a connection that may write would bring a log left by a crash into a
/// file that is then refused.
fn inspect(path: &Path) -> Result<Connection, OpenError> {
    let refused = |error: rusqlite::Error| OpenError::from_sqlite(path, &error);
    let flags = OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let connection = Connection::open_with_flags(path, flags).map_err(refused)?;
    connection.busy_timeout(PATIENCE).map_err(refused)?;
    Marks::read(&connection).map_err(refused)?.check(path)?;
    Ok(connection)
}

/// What the file says about itself.
struct Marks {
    application: i32,
    version: i32,
    /// `ok`, or what is broken.
    check: String,
}

impl Marks {
    fn read(connection: &Connection) -> rusqlite::Result<Self> {
        let number = |pragma: &str| connection.query_row(pragma, [], |row| row.get::<_, i32>(0));
        Ok(Marks {
            application: number("PRAGMA application_id")?,
            version: number("PRAGMA user_version")?,
            check: connection.query_row("PRAGMA quick_check(1)", [], |row| row.get(0))?,
        })
    }

    fn check(&self, path: &Path) -> Result<(), OpenError> {
        let path = path.to_owned();
        if self.check != "ok" {
            return Err(OpenError::Damaged {
                path,
                detail: self.check.clone(),
            });
        }
        if self.application != APPLICATION_ID {
            return Err(OpenError::Foreign { path });
        }
        if self.version > VERSION {
            return Err(OpenError::Newer {
                path,
                found: self.version,
                known: VERSION,
            });
        }
        Ok(())
    }
}

/// Asks for the file for as long as it is open; nothing is written yet.
fn take(connection: &Connection) -> rusqlite::Result<()> {
    connection.busy_timeout(PATIENCE)?;
    connection.pragma_update(None, "locking_mode", "EXCLUSIVE")
}

/// Makes the file ready to write, once it has proved to be ours.
fn prepare(connection: &Connection, fresh: bool) -> rusqlite::Result<()> {
    if fresh {
        connection.pragma_update(None, "application_id", APPLICATION_ID)?;
        connection.pragma_update(None, "user_version", VERSION)?;
    }
    let mode: String = connection.query_row("PRAGMA journal_mode = WAL", [], |row| row.get(0))?;
    tracing::debug!(mode, "cluster database opened");
    connection.pragma_update(None, "synchronous", "NORMAL")?;
    connection.execute_batch("BEGIN IMMEDIATE; COMMIT")?;
    connection.execute_batch(SCHEMA)
}

fn load(connection: &Connection) -> rusqlite::Result<(u64, Vec<Row>)> {
    let number = |sql: &str| connection.query_row(sql, [], |row| row.get::<_, i64>(0));
    let counter = number("SELECT rv FROM counter WHERE id = 1")?;
    let newest = number("SELECT COALESCE(MAX(rv), 0) FROM objects")?;
    let mut select = connection.prepare("SELECT key, rv, json FROM objects ORDER BY key")?;
    let rows = select.query_map([], |row| {
        let (key, rv, json) = (row.get(0)?, unsigned(row.get(1)?), row.get(2)?);
        Ok(Row { key, rv, json })
    })?;
    Ok((
        unsigned(counter.max(newest)),
        rows.collect::<rusqlite::Result<_>>()?,
    ))
}

/// The file holds Secrets: only its owner may read it.
fn restrict(path: &Path) {
    use std::os::unix::fs::PermissionsExt;
    // Best effort: the state directory is 0700 already.
    drop(std::fs::set_permissions(
        path,
        std::fs::Permissions::from_mode(0o600),
    ));
}

fn signed(rv: u64) -> i64 {
    i64::try_from(rv).unwrap_or(i64::MAX)
}

fn unsigned(rv: i64) -> u64 {
    u64::try_from(rv).unwrap_or(0)
}
