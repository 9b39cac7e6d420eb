//! `cluster.db`: one table of objects, one row with the counter, one table of keys.

use std::path::{Path, PathBuf};
use std::time::Duration;

use rusqlite::{Connection, ErrorCode, OpenFlags, OptionalExtension, params};

/// `PRAGMA application_id` of our files: "evlc".
const APPLICATION_ID: i32 = 0x6576_6c63;
/// `PRAGMA user_version` that this program writes.
const VERSION: i32 = 1;

const SCHEMA: &str = "
CREATE TABLE IF NOT EXISTS objects(id INTEGER PRIMARY KEY, key TEXT NOT NULL UNIQUE, rv INTEGER NOT NULL, json BLOB NOT NULL) STRICT;
CREATE TABLE IF NOT EXISTS counter(id INTEGER PRIMARY KEY CHECK (id = 1), rv INTEGER NOT NULL) STRICT;
CREATE TABLE IF NOT EXISTS secrets(name TEXT PRIMARY KEY NOT NULL, value BLOB NOT NULL) STRICT;
INSERT OR IGNORE INTO counter(id, rv) VALUES (1, 0);
";

/// Why `cluster.db` was refused.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    #[error(
        "cannot open the cluster database {path}: {detail}; check that the directory exists and may be written"
    )]
    Unreachable { path: PathBuf, detail: String },
    #[error(
        "cannot write the cluster database {path}: it is read-only; make it writable or choose another --state-dir"
    )]
    ReadOnly { path: PathBuf },
    #[error(
        "the cluster database {path} is in use by another eventlab; stop that one or choose another --session"
    )]
    Locked { path: PathBuf },
    #[error(
        "the cluster database {path} is damaged ({detail}); it was left as it is: move it aside to begin anew, or restore a snapshot"
    )]
    Damaged { path: PathBuf, detail: String },
    #[error(
        "the file {path} is not a cluster database of eventlab; it was left as it is: choose another --state-dir"
    )]
    Foreign { path: PathBuf },
    #[error(
        "the cluster database {path} was written by a newer eventlab (format {found}, this one knows {known}); use that version"
    )]
    Newer {
        path: PathBuf,
        found: i32,
        known: i32,
    },
    #[error("cannot prepare the cluster database: {0}")]
    Write(#[from] DatabaseError),
}

/// Why the open database could not be read or written.
#[derive(Debug, thiserror::Error)]
#[error("cannot {action} in {path}: {detail}; {next}")]
pub struct DatabaseError {
    pub action: &'static str,
    pub path: PathBuf,
    pub detail: String,
    pub next: &'static str,
}

impl DatabaseError {
    fn new(action: &'static str, path: &Path, error: &rusqlite::Error) -> Self {
        let next = match error.sqlite_error_code() {
            Some(ErrorCode::DiskFull) => "free disk space and try again",
            Some(ErrorCode::ReadOnly | ErrorCode::PermissionDenied) => {
                "make the file and its directory writable and try again"
            }
            Some(ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked) => {
                "end whatever else has the file open and try again"
            }
            Some(ErrorCode::DatabaseCorrupt | ErrorCode::NotADatabase) => {
                "restore a snapshot or begin anew"
            }
            _ => "check the disk and try again",
        };
        DatabaseError {
            action,
            path: path.to_owned(),
            detail: error.to_string(),
            next,
        }
    }
}

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
    connection: Connection,
    path: PathBuf,
}

impl Database {
    /// Opens or makes the file and reads everything.
    pub fn open(path: &Path) -> Result<(Self, u64, Vec<Row>), OpenError> {
        let fresh = path.metadata().map_or(true, |meta| meta.len() == 0);
        let connection = Connection::open(path).map_err(|error| refusal(path, &error))?;
        restrict(path);
        let prepared = prepare(&connection, fresh).map_err(|error| refusal(path, &error))?;
        prepared.check(path)?;
        connection
            .execute_batch(SCHEMA)
            .map_err(|error| refusal(path, &error))?;
        let (counter, rows) = load(&connection).map_err(|error| refusal(path, &error))?;
        Ok((
            Database {
                connection,
                path: path.to_owned(),
            },
            counter,
            rows,
        ))
    }

    fn failed<'a>(
        &'a self,
        action: &'static str,
    ) -> impl Fn(rusqlite::Error) -> DatabaseError + 'a {
        move |error| DatabaseError::new(action, &self.path, &error)
    }

    /// Inserts or replaces an object and moves the counter, in one transaction.
    pub fn put(&mut self, key: &str, rv: u64, json: &[u8]) -> Result<(), DatabaseError> {
        let sql = "INSERT INTO objects(key, rv, json) VALUES (?1, ?2, ?3) \
                   ON CONFLICT(key) DO UPDATE SET rv = excluded.rv, json = excluded.json";
        self.write("store an object", rv, |connection| {
            connection
                .prepare_cached(sql)?
                .execute(params![key, signed(rv), json])
                .map(drop)
        })
    }

    /// Removes an object and moves the counter, in one transaction.
    pub fn remove(&mut self, key: &str, rv: u64) -> Result<(), DatabaseError> {
        self.write("remove an object", rv, |connection| {
            connection
                .prepare_cached("DELETE FROM objects WHERE key = ?1")?
                .execute([key])
                .map(drop)
        })
    }

    fn write(
        &mut self,
        action: &'static str,
        rv: u64,
        change: impl FnOnce(&Connection) -> rusqlite::Result<()>,
    ) -> Result<(), DatabaseError> {
        let path = &self.path;
        let run = |connection: &mut Connection| {
            let transaction = connection.transaction()?;
            change(&transaction)?;
            transaction
                .prepare_cached("UPDATE counter SET rv = ?1 WHERE id = 1")?
                .execute([signed(rv)])?;
            transaction.commit()
        };
        run(&mut self.connection).map_err(|error| DatabaseError::new(action, path, &error))
    }

    /// Replaces all objects.
    pub fn replace(&mut self, rows: &[Row], counter: u64) -> Result<(), DatabaseError> {
        self.write("restore a snapshot", counter, |connection| {
            connection.execute("DELETE FROM objects", [])?;
            let mut insert =
                connection.prepare("INSERT INTO objects(key, rv, json) VALUES (?1, ?2, ?3)")?;
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
        let select = "SELECT value FROM secrets WHERE name = ?1";
        let found = self
            .connection
            .query_row(select, [name], |row| row.get(0))
            .optional();
        if let Some(value) = found.map_err(self.failed("read a key"))? {
            return Ok(value);
        }
        let value = make();
        let insert = "INSERT INTO secrets(name, value) VALUES (?1, ?2)";
        self.connection
            .execute(insert, params![name, value])
            .map_err(self.failed("store a key"))?;
        Ok(value)
    }

    /// Copies the file as it stands now.
    pub fn snapshot(&mut self, path: &Path) -> Result<(), DatabaseError> {
        let target = path.to_string_lossy().into_owned();
        if path.exists() {
            return Err(DatabaseError {
                action: "write a snapshot",
                path: path.to_owned(),
                detail: "the file exists already".to_owned(),
                next: "choose another name",
            });
        }
        self.connection
            .execute("VACUUM INTO ?1", [target])
            .map_err(|error| {
                // Best effort: the copy is of no use, and the error below tells what happened.
                drop(std::fs::remove_file(path));
                DatabaseError::new("write a snapshot", path, &error)
            })?;
        restrict(path);
        Ok(())
    }
}

/// Reads a snapshot without changing it.
pub fn read(path: &Path) -> Result<(u64, Vec<Row>), OpenError> {
    if !path.is_file() {
        return Err(OpenError::Unreachable {
            path: path.to_owned(),
            detail: "no such snapshot".to_owned(),
        });
    }
    let flags = OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let connection =
        Connection::open_with_flags(path, flags).map_err(|error| refusal(path, &error))?;
    let marks = Marks::read(&connection, false).map_err(|error| refusal(path, &error))?;
    marks.check(path)?;
    load(&connection).map_err(|error| refusal(path, &error))
}

/// What the file says about itself.
struct Marks {
    fresh: bool,
    application: i32,
    version: i32,
    check: String,
}

impl Marks {
    fn read(connection: &Connection, fresh: bool) -> rusqlite::Result<Self> {
        let number = |pragma: &str| connection.query_row(pragma, [], |row| row.get::<_, i32>(0));
        Ok(Marks {
            fresh,
            application: number("PRAGMA application_id")?,
            version: number("PRAGMA user_version")?,
            check: connection.query_row("PRAGMA quick_check(1)", [], |row| row.get(0))?,
        })
    }

    fn check(&self, path: &Path) -> Result<(), OpenError> {
        let path = path.to_owned();
        if self.fresh {
            return Ok(());
        }
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

/// Takes the lock for life. Nothing is written before the file has proved to be ours.
fn prepare(connection: &Connection, fresh: bool) -> rusqlite::Result<Marks> {
    connection.busy_timeout(Duration::from_millis(500))?;
    connection.pragma_update(None, "locking_mode", "EXCLUSIVE")?;
    let marks = Marks::read(connection, fresh)?;
    let ours =
        marks.application == APPLICATION_ID && marks.check == "ok" && marks.version <= VERSION;
    if fresh || ours {
        let mode: String =
            connection.query_row("PRAGMA journal_mode = WAL", [], |row| row.get(0))?;
        tracing::debug!(mode, "cluster database opened");
        connection.pragma_update(None, "synchronous", "NORMAL")?;
        connection.execute_batch("BEGIN IMMEDIATE; COMMIT")?;
    }
    if fresh {
        connection.pragma_update(None, "application_id", APPLICATION_ID)?;
        connection.pragma_update(None, "user_version", VERSION)?;
    }
    Ok(marks)
}

fn load(connection: &Connection) -> rusqlite::Result<(u64, Vec<Row>)> {
    let counter: i64 =
        connection.query_row("SELECT rv FROM counter WHERE id = 1", [], |row| row.get(0))?;
    let newest: i64 =
        connection.query_row("SELECT COALESCE(MAX(rv), 0) FROM objects", [], |row| {
            row.get(0)
        })?;
    let mut select = connection.prepare("SELECT key, rv, json FROM objects ORDER BY key")?;
    let rows = select.query_map([], |row| {
        Ok(Row {
            key: row.get(0)?,
            rv: unsigned(row.get(1)?),
            json: row.get(2)?,
        })
    })?;
    Ok((
        unsigned(counter.max(newest)),
        rows.collect::<rusqlite::Result<_>>()?,
    ))
}

fn refusal(path: &Path, error: &rusqlite::Error) -> OpenError {
    let path = path.to_owned();
    match error.sqlite_error_code() {
        Some(ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked) => OpenError::Locked { path },
        Some(ErrorCode::ReadOnly | ErrorCode::PermissionDenied) => OpenError::ReadOnly { path },
        Some(ErrorCode::NotADatabase) => OpenError::Foreign { path },
        Some(ErrorCode::DatabaseCorrupt) => OpenError::Damaged {
            path,
            detail: error.to_string(),
        },
        Some(ErrorCode::CannotOpen | ErrorCode::DiskFull | ErrorCode::SystemIoFailure) => {
            OpenError::Unreachable {
                path,
                detail: error.to_string(),
            }
        }
        _ => OpenError::Damaged {
            path,
            detail: error.to_string(),
        },
    }
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
