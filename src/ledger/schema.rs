//! Opening a ledger file, and its tables.
//!
//! Migrations are append-only: `PRAGMA user_version` counts how many of [`MIGRATIONS`] a file has seen.

use std::path::Path;
use std::time::{Duration, Instant};

use rusqlite::{Connection, OpenFlags, TransactionBehavior};

use super::LedgerError;
use super::error::AtPath;

/// How long a statement waits for another process's transaction.
pub(super) const BUSY_TIMEOUT: Duration = Duration::from_secs(10);

const MIGRATIONS: &[&str] = &[
    // 1: orders, the effects and balances they lead to, and an attempt for every run.
    "
    CREATE TABLE clock (
        id INTEGER PRIMARY KEY CHECK (id = 1),
        offset_ms INTEGER NOT NULL CHECK (offset_ms BETWEEN 0 AND 3153600000000),
        last_ms INTEGER NOT NULL
    ) STRICT;
    INSERT INTO clock (id, offset_ms, last_ms) VALUES (1, 0, 0);

    CREATE TABLE effects (
        seq INTEGER PRIMARY KEY AUTOINCREMENT,
        order_id TEXT NOT NULL CHECK (length(order_id) BETWEEN 1 AND 256),
        action TEXT NOT NULL CHECK (length(action) BETWEEN 1 AND 256),
        amount_cents INTEGER NOT NULL CHECK (amount_cents BETWEEN 1 AND 1000000000000),
        workflow_uid TEXT NOT NULL CHECK (length(workflow_uid) BETWEEN 1 AND 256),
        arrival TEXT NOT NULL CHECK (length(arrival) BETWEEN 1 AND 256),
        clock_ms INTEGER NOT NULL
    ) STRICT;

    CREATE TABLE orders (
        order_id TEXT NOT NULL CHECK (length(order_id) BETWEEN 1 AND 256),
        action TEXT NOT NULL CHECK (length(action) BETWEEN 1 AND 256),
        amount_cents INTEGER NOT NULL CHECK (amount_cents BETWEEN 1 AND 1000000000000),
        effect_seq INTEGER NOT NULL UNIQUE REFERENCES effects (seq),
        clock_ms INTEGER NOT NULL,
        PRIMARY KEY (order_id, action)
    ) STRICT;

    CREATE TABLE balances (
        order_id TEXT NOT NULL CHECK (length(order_id) BETWEEN 1 AND 256),
        action TEXT NOT NULL CHECK (length(action) BETWEEN 1 AND 256),
        balance_cents INTEGER NOT NULL CHECK (balance_cents > 0),
        effects INTEGER NOT NULL CHECK (effects > 0),
        effect_seq INTEGER NOT NULL UNIQUE REFERENCES effects (seq),
        clock_ms INTEGER NOT NULL,
        PRIMARY KEY (order_id, action)
    ) STRICT;

    CREATE TABLE attempts (
        seq INTEGER PRIMARY KEY AUTOINCREMENT,
        order_id TEXT NOT NULL CHECK (length(order_id) BETWEEN 1 AND 256),
        action TEXT NOT NULL CHECK (length(action) BETWEEN 1 AND 256),
        amount_cents INTEGER NOT NULL CHECK (amount_cents BETWEEN 1 AND 1000000000000),
        mode TEXT NOT NULL CHECK (mode IN ('naive', 'check-then-write', 'atomic')),
        workflow_uid TEXT NOT NULL CHECK (length(workflow_uid) BETWEEN 1 AND 256),
        workflow_name TEXT NOT NULL,
        arrival TEXT NOT NULL CHECK (length(arrival) BETWEEN 1 AND 256),
        trace TEXT NOT NULL,
        outcome TEXT NOT NULL CHECK (outcome IN ('applied', 'duplicate', 'conflict')),
        effect_seq INTEGER NOT NULL REFERENCES effects (seq),
        clock_ms INTEGER NOT NULL
    ) STRICT;

    CREATE TRIGGER attempts_are_kept BEFORE DELETE ON attempts
        BEGIN SELECT RAISE(ABORT, 'attempts are append-only'); END;
    CREATE TRIGGER attempts_are_fixed BEFORE UPDATE ON attempts
        BEGIN SELECT RAISE(ABORT, 'attempts are append-only'); END;
    CREATE TRIGGER effects_are_kept BEFORE DELETE ON effects
        BEGIN SELECT RAISE(ABORT, 'effects are append-only'); END;
    CREATE TRIGGER effects_are_fixed BEFORE UPDATE ON effects
        BEGIN SELECT RAISE(ABORT, 'effects are append-only'); END;
    ",
    // 2: claims on work with an effect elsewhere, and how each of them changed.
    "
    CREATE TABLE transitions (
        seq INTEGER PRIMARY KEY AUTOINCREMENT,
        order_id TEXT NOT NULL CHECK (length(order_id) BETWEEN 1 AND 256),
        action TEXT NOT NULL CHECK (length(action) BETWEEN 1 AND 256),
        state TEXT NOT NULL CHECK (state IN ('processing', 'completed', 'unresolved', 'failed')),
        workflow_uid TEXT NOT NULL CHECK (length(workflow_uid) BETWEEN 1 AND 256),
        reference TEXT NOT NULL,
        detail TEXT NOT NULL,
        clock_ms INTEGER NOT NULL
    ) STRICT;

    CREATE TABLE claims (
        seq INTEGER NOT NULL UNIQUE REFERENCES transitions (seq),
        order_id TEXT NOT NULL CHECK (length(order_id) BETWEEN 1 AND 256),
        action TEXT NOT NULL CHECK (length(action) BETWEEN 1 AND 256),
        amount_cents INTEGER NOT NULL CHECK (amount_cents BETWEEN 1 AND 1000000000000),
        state TEXT NOT NULL CHECK (state IN ('processing', 'completed', 'unresolved', 'failed')),
        sending INTEGER NOT NULL CHECK (sending IN (0, 1)),
        owner TEXT NOT NULL CHECK ((state = 'processing') = (owner <> '')),
        reference TEXT NOT NULL CHECK ((state = 'completed') = (reference <> '')),
        detail TEXT NOT NULL,
        workflow_uid TEXT NOT NULL CHECK (length(workflow_uid) BETWEEN 1 AND 256),
        arrival TEXT NOT NULL CHECK (length(arrival) BETWEEN 1 AND 256),
        lease_ms INTEGER NOT NULL,
        clock_ms INTEGER NOT NULL,
        PRIMARY KEY (order_id, action)
    ) STRICT;

    CREATE TRIGGER transitions_are_kept BEFORE DELETE ON transitions
        BEGIN SELECT RAISE(ABORT, 'transitions are append-only'); END;
    CREATE TRIGGER transitions_are_fixed BEFORE UPDATE ON transitions
        BEGIN SELECT RAISE(ABORT, 'transitions are append-only'); END;
    ",
    // 3: an attempt for every run, also for those that deliver; who has looked at a key; deliveries that wait.
    "
    CREATE TABLE attempts_3 (
        seq INTEGER PRIMARY KEY AUTOINCREMENT,
        order_id TEXT NOT NULL CHECK (length(order_id) BETWEEN 1 AND 256),
        action TEXT NOT NULL CHECK (length(action) BETWEEN 1 AND 256),
        amount_cents INTEGER NOT NULL,
        mode TEXT NOT NULL CHECK (length(mode) BETWEEN 1 AND 64),
        workflow_uid TEXT NOT NULL CHECK (length(workflow_uid) BETWEEN 1 AND 256),
        workflow_name TEXT NOT NULL,
        arrival TEXT NOT NULL CHECK (length(arrival) BETWEEN 1 AND 256),
        trace TEXT NOT NULL,
        outcome TEXT NOT NULL
            CHECK (outcome IN ('applied', 'duplicate', 'conflict', 'unresolved', 'busy', 'failed', 'refused')),
        effect_seq INTEGER REFERENCES effects (seq) CHECK (outcome <> 'applied' OR effect_seq IS NOT NULL),
        clock_ms INTEGER NOT NULL
    ) STRICT;
    INSERT INTO attempts_3 SELECT * FROM attempts;
    DROP TABLE attempts;
    ALTER TABLE attempts_3 RENAME TO attempts;
    CREATE TRIGGER attempts_are_kept BEFORE DELETE ON attempts
        BEGIN SELECT RAISE(ABORT, 'attempts are append-only'); END;
    CREATE TRIGGER attempts_are_fixed BEFORE UPDATE ON attempts
        BEGIN SELECT RAISE(ABORT, 'attempts are append-only'); END;

    CREATE TABLE looks (
        order_id TEXT NOT NULL CHECK (length(order_id) BETWEEN 1 AND 256),
        action TEXT NOT NULL CHECK (length(action) BETWEEN 1 AND 256),
        workflow_uid TEXT NOT NULL CHECK (length(workflow_uid) BETWEEN 1 AND 256),
        PRIMARY KEY (order_id, action, workflow_uid)
    ) STRICT;

    CREATE TABLE outbox (
        seq INTEGER PRIMARY KEY AUTOINCREMENT,
        order_id TEXT NOT NULL CHECK (length(order_id) BETWEEN 1 AND 256),
        action TEXT NOT NULL CHECK (length(action) BETWEEN 1 AND 256),
        amount_cents INTEGER NOT NULL CHECK (amount_cents BETWEEN 1 AND 1000000000000),
        workflow_uid TEXT NOT NULL CHECK (length(workflow_uid) BETWEEN 1 AND 256),
        arrival TEXT NOT NULL CHECK (length(arrival) BETWEEN 1 AND 256),
        clock_ms INTEGER NOT NULL,
        UNIQUE (order_id, action)
    ) STRICT;
    ",
];

/// Opens (and makes) the file at `path` for writing, with its tables up to date.
pub(super) fn open_for_writing(path: &Path) -> Result<Connection, LedgerError> {
    let flags = OpenFlags::SQLITE_OPEN_READ_WRITE
        | OpenFlags::SQLITE_OPEN_CREATE
        | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    check_path(path)?;
    let mut connection = Connection::open_with_flags(path, flags).at(path)?;
    prepare(&mut connection).at(path)?;
    migrate(&mut connection, path)?;
    Ok(connection)
}

/// Opens an existing file read-only; `None` while its first writer has not finished making the tables.
pub(super) fn open_for_reading(path: &Path) -> Result<Option<Connection>, LedgerError> {
    let flags = OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    check_path(path)?;
    let connection = Connection::open_with_flags(path, flags).at(path)?;
    connection.busy_timeout(BUSY_TIMEOUT).at(path)?;
    connection
        .execute_batch("PRAGMA query_only = ON; PRAGMA trusted_schema = OFF")
        .at(path)?;
    match version(&connection).at(path)? {
        0 => Ok(None),
        found if found > known() => Err(LedgerError::Newer {
            path: path.into(),
            found,
            known: known(),
        }),
        _ => Ok(Some(connection)),
    }
}

/// SQLite gives an empty name and `:memory:` a database that is gone at exit: never what a ledger is for.
fn check_path(path: &Path) -> Result<(), LedgerError> {
    let name = path.as_os_str();
    if name.is_empty() || name == ":memory:" {
        return Err(LedgerError::Invalid {
            field: "database",
            reason: "must be the path of a file".into(),
        });
    }
    Ok(())
}

fn prepare(connection: &mut Connection) -> rusqlite::Result<()> {
    // The timeout comes first: switching a fresh file to WAL needs a lock that another first writer may hold.
    connection.busy_timeout(BUSY_TIMEOUT)?;
    switch_to_wal(connection)?;
    connection.execute_batch(
        "PRAGMA synchronous = FULL; PRAGMA foreign_keys = ON; PRAGMA trusted_schema = OFF; PRAGMA cell_size_check = ON",
    )
}

/// The switch itself does not wait for the busy timeout in every case, so it is tried again until the timeout is over.
fn switch_to_wal(connection: &Connection) -> rusqlite::Result<()> {
    let end = Instant::now() + BUSY_TIMEOUT;
    loop {
        match connection.query_row("PRAGMA journal_mode = WAL", [], |row| {
            row.get::<_, String>(0)
        }) {
            Err(error) if is_busy(&error) && Instant::now() < end => {
                std::thread::sleep(Duration::from_millis(5))
            }
            Err(error) => return Err(error),
            Ok(_) => return Ok(()),
        }
    }
}

fn is_busy(error: &rusqlite::Error) -> bool {
    use rusqlite::ErrorCode::{DatabaseBusy, DatabaseLocked};
    matches!(
        error.sqlite_error_code(),
        Some(DatabaseBusy | DatabaseLocked)
    )
}

fn known() -> i64 {
    i64::try_from(MIGRATIONS.len()).unwrap_or(i64::MAX)
}

pub(super) fn version(connection: &Connection) -> rusqlite::Result<i64> {
    connection.query_row("PRAGMA user_version", [], |row| row.get(0))
}

fn migrate(connection: &mut Connection, path: &Path) -> Result<(), LedgerError> {
    if version(connection).at(path)? == known() {
        return Ok(());
    }
    let transaction = connection
        .transaction_with_behavior(TransactionBehavior::Immediate)
        .at(path)?;
    // Read again under the lock: another process may have made the tables meanwhile.
    let found = version(&transaction).at(path)?;
    if found > known() {
        return Err(LedgerError::Newer {
            path: path.into(),
            found,
            known: known(),
        });
    }
    if found == 0 {
        name_file(&transaction).at(path)?;
    }
    for migration in MIGRATIONS.iter().skip(usize::try_from(found).unwrap_or(0)) {
        transaction.execute_batch(migration).at(path)?;
    }
    transaction
        .pragma_update(None, "user_version", known())
        .at(path)?;
    transaction.commit().at(path)
}

/// Writes into a fresh file's header what tells it from every other one.
pub(super) fn name_file(connection: &Connection) -> rusqlite::Result<()> {
    let (random, _) = uuid::Uuid::new_v4().as_u64_pair();
    let number = i32::try_from(random >> 33).unwrap_or(i32::MAX).max(1);
    connection.pragma_update(None, "application_id", number)
}

/// A file as an older program left it, for tests.
#[cfg(test)]
pub(super) fn make_version(path: &Path, version: usize) {
    let connection = Connection::open(path).unwrap();
    for migration in &MIGRATIONS[..version] {
        connection.execute_batch(migration).unwrap();
    }
    connection
        .pragma_update(None, "user_version", i64::try_from(version).unwrap())
        .unwrap();
}
