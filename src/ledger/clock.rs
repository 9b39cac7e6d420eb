//! The ledger's one clock: the machine's clock plus an offset that only ever grows.
//!
//! Retention is judged by it, so tomorrow's replay can be shown today. It never goes back, also when the machine's does.

use jiff::Timestamp;
use rusqlite::{Connection, params};

/// RFC 3339 with milliseconds, as rows print ledger time (`milliseconds` since 1970).
#[must_use]
pub fn format_clock(milliseconds: i64) -> String {
    match Timestamp::from_millisecond(milliseconds) {
        Ok(time) => format!("{time:.3}"),
        Err(_) => format!("{milliseconds} ms"),
    }
}

/// Reads the clock without moving it.
pub(super) fn now(connection: &Connection) -> rusqlite::Result<i64> {
    let (offset, last): (i64, i64) = connection
        .prepare_cached("SELECT offset_ms, last_ms FROM clock WHERE id = 1")?
        .query_row([], |row| Ok((row.get(0)?, row.get(1)?)))?;
    Ok(Timestamp::now()
        .as_millisecond()
        .saturating_add(offset)
        .max(last))
}

/// Reads the clock inside a write transaction and remembers it, so that no later row is older.
pub(super) fn tick(connection: &Connection) -> rusqlite::Result<i64> {
    let now = now(connection)?;
    connection
        .prepare_cached("UPDATE clock SET last_ms = ?1 WHERE id = 1")?
        .execute(params![now])?;
    Ok(now)
}

/// Moves the clock forward by `milliseconds`.
pub(super) fn advance(connection: &Connection, milliseconds: i64) -> rusqlite::Result<i64> {
    connection.execute(
        "UPDATE clock SET offset_ms = offset_ms + ?1 WHERE id = 1",
        params![milliseconds],
    )?;
    tick(connection)
}
