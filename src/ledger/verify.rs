//! Recomputes balances from effects and says where they differ.

use rusqlite::Connection;
use serde::{Deserialize, Serialize};

/// At most so many differences and repeated keys are listed.
const MAX_LISTED: i64 = 100;

/// A stored balance that its effects do not add up to.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct BalanceDifference {
    pub order_id: String,
    pub action: String,
    pub stored_cents: i64,
    pub recomputed_cents: i64,
}

/// A business key with more than one effect: sums are right, the business is not.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RepeatedKey {
    pub order_id: String,
    pub action: String,
    pub effects: i64,
    pub balance_cents: i64,
}

/// What [`super::Reader::verify`] found.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Verification {
    pub attempts: i64,
    pub effects: i64,
    pub balances: i64,
    /// Effects that no attempt with outcome `applied` accounts for.
    pub unexplained_effects: i64,
    pub differences: Vec<BalanceDifference>,
    pub repeated: Vec<RepeatedKey>,
    /// What SQLite's own check of the file complains about.
    pub damage: Vec<String>,
}

impl Verification {
    /// Whether balances, effects and attempts agree; repeated keys do not count against it.
    #[must_use]
    pub fn consistent(&self) -> bool {
        self.differences.is_empty() && self.damage.is_empty() && self.unexplained_effects == 0
    }
}

pub(super) fn verify(connection: &Connection) -> rusqlite::Result<Verification> {
    Ok(Verification {
        attempts: count(connection, "SELECT count(*) FROM attempts")?,
        effects: count(connection, "SELECT count(*) FROM effects")?,
        balances: count(connection, "SELECT count(*) FROM balances")?,
        unexplained_effects: count(
            connection,
            "SELECT count(*) FROM effects e WHERE NOT EXISTS (
                SELECT 1 FROM attempts a WHERE a.effect_seq = e.seq AND a.outcome = 'applied')",
        )?,
        differences: differences(connection)?,
        repeated: repeated(connection)?,
        damage: damage(connection)?,
    })
}

fn count(connection: &Connection, sql: &str) -> rusqlite::Result<i64> {
    connection.query_row(sql, [], |row| row.get(0))
}

fn differences(connection: &Connection) -> rusqlite::Result<Vec<BalanceDifference>> {
    let mut statement = connection.prepare(
        "WITH sums AS (SELECT order_id, action, sum(amount_cents) AS cents FROM effects GROUP BY order_id, action)
         SELECT order_id, action, coalesce(b.balance_cents, 0), coalesce(s.cents, 0)
         FROM sums s FULL OUTER JOIN balances b USING (order_id, action)
         WHERE coalesce(b.balance_cents, 0) <> coalesce(s.cents, 0)
         ORDER BY order_id, action LIMIT ?1",
    )?;
    let rows = statement.query_map([MAX_LISTED], |row| {
        Ok(BalanceDifference {
            order_id: row.get(0)?,
            action: row.get(1)?,
            stored_cents: row.get(2)?,
            recomputed_cents: row.get(3)?,
        })
    })?;
    rows.collect()
}

fn repeated(connection: &Connection) -> rusqlite::Result<Vec<RepeatedKey>> {
    let mut statement = connection.prepare(
        "SELECT order_id, action, count(*), sum(amount_cents) FROM effects GROUP BY order_id, action
         HAVING count(*) > 1 ORDER BY order_id, action LIMIT ?1",
    )?;
    let rows = statement.query_map([MAX_LISTED], |row| {
        Ok(RepeatedKey {
            order_id: row.get(0)?,
            action: row.get(1)?,
            effects: row.get(2)?,
            balance_cents: row.get(3)?,
        })
    })?;
    rows.collect()
}

fn damage(connection: &Connection) -> rusqlite::Result<Vec<String>> {
    let mut statement = connection.prepare("PRAGMA quick_check(100)")?;
    let lines: Vec<String> = statement
        .query_map([], |row| row.get(0))?
        .collect::<rusqlite::Result<_>>()?;
    Ok(lines.into_iter().filter(|line| line != "ok").collect())
}
