//! Reading a ledger that other processes write.
//!
//! A [`Reader`] never writes, sees every committed row at once, and takes a file that is not there yet for an empty ledger.
//! A file that it has read and that is gone, or another one now, is none: rows that it held may be missing from what is there.

use std::fs::Metadata;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};

use rusqlite::{Connection, Row, params};
use serde::{Deserialize, Serialize};

use super::error::AtPath;
use super::{
    ClaimRow, LedgerError, TransitionRow, Verification, clock, format_clock, schema, verify,
};

/// A business key with the effect that registered it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct OrderRow {
    /// Sequence of the effect that registered the key.
    pub seq: i64,
    pub order_id: String,
    pub action: String,
    pub amount_cents: i64,
    pub workflow_uid: String,
    pub arrival: String,
    pub clock: String,
}

/// One run of the workload.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct AttemptRow {
    pub seq: i64,
    pub order_id: String,
    pub action: String,
    pub amount_cents: i64,
    pub mode: String,
    pub workflow_uid: String,
    pub workflow_name: String,
    pub arrival: String,
    pub trace: String,
    /// `applied`, `duplicate`, `conflict`, `unresolved`, `busy`, `failed` or `refused`.
    pub outcome: String,
    /// The effect it made or met; 0 when there is none.
    pub effect: i64,
    pub clock: String,
}

/// An amount that was added.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct EffectRow {
    pub seq: i64,
    pub order_id: String,
    pub action: String,
    pub amount_cents: i64,
    pub workflow_uid: String,
    pub arrival: String,
    pub clock: String,
}

/// The sum of a key's effects.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct BalanceRow {
    /// Sequence of its last effect, so that a changed balance comes again after it.
    pub seq: i64,
    pub order_id: String,
    pub action: String,
    pub balance_cents: i64,
    pub effects: i64,
    pub clock: String,
}

/// Rows after a sequence number, oldest first.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Page<T> {
    pub items: Vec<T>,
    /// Sequence to ask after for more; the one asked for when there was nothing.
    pub next: i64,
    /// Whether more rows were there.
    pub more: bool,
    /// The ledger's time when the rows were read; `None` while there is no ledger.
    pub clock: Option<String>,
}

/// A kind of row that can be read in pages.
pub(super) trait Table: Sized {
    /// Schema version that brought the table; in an older file it is empty.
    const SINCE: i64 = 1;
    /// Its path in the HTTP view.
    const VIEW: &'static str;
    /// Takes `?1` as the sequence to start after and `?2` as the limit.
    const SQL: &'static str;
    fn from_row(row: &Row<'_>) -> rusqlite::Result<Self>;
    fn seq(&self) -> i64;
}

impl Table for OrderRow {
    const VIEW: &'static str = "/orders";
    const SQL: &'static str = "SELECT o.effect_seq, o.order_id, o.action, o.amount_cents, e.workflow_uid, e.arrival, o.clock_ms
        FROM orders o JOIN effects e ON e.seq = o.effect_seq WHERE o.effect_seq > ?1 ORDER BY o.effect_seq LIMIT ?2";

    fn from_row(row: &Row<'_>) -> rusqlite::Result<Self> {
        Ok(OrderRow {
            seq: row.get(0)?,
            order_id: row.get(1)?,
            action: row.get(2)?,
            amount_cents: row.get(3)?,
            workflow_uid: row.get(4)?,
            arrival: row.get(5)?,
            clock: format_clock(row.get(6)?),
        })
    }

    fn seq(&self) -> i64 {
        self.seq
    }
}

impl Table for AttemptRow {
    const VIEW: &'static str = "/attempts";
    const SQL: &'static str = "SELECT seq, order_id, action, amount_cents, mode, workflow_uid, workflow_name, arrival, trace,
        outcome, coalesce(effect_seq, 0), clock_ms FROM attempts WHERE seq > ?1 ORDER BY seq LIMIT ?2";

    fn from_row(row: &Row<'_>) -> rusqlite::Result<Self> {
        Ok(AttemptRow {
            seq: row.get(0)?,
            order_id: row.get(1)?,
            action: row.get(2)?,
            amount_cents: row.get(3)?,
            mode: row.get(4)?,
            workflow_uid: row.get(5)?,
            workflow_name: row.get(6)?,
            arrival: row.get(7)?,
            trace: row.get(8)?,
            outcome: row.get(9)?,
            effect: row.get(10)?,
            clock: format_clock(row.get(11)?),
        })
    }

    fn seq(&self) -> i64 {
        self.seq
    }
}

impl Table for EffectRow {
    const VIEW: &'static str = "/effects";
    const SQL: &'static str =
        "SELECT seq, order_id, action, amount_cents, workflow_uid, arrival, clock_ms
        FROM effects WHERE seq > ?1 ORDER BY seq LIMIT ?2";

    fn from_row(row: &Row<'_>) -> rusqlite::Result<Self> {
        Ok(EffectRow {
            seq: row.get(0)?,
            order_id: row.get(1)?,
            action: row.get(2)?,
            amount_cents: row.get(3)?,
            workflow_uid: row.get(4)?,
            arrival: row.get(5)?,
            clock: format_clock(row.get(6)?),
        })
    }

    fn seq(&self) -> i64 {
        self.seq
    }
}

impl Table for BalanceRow {
    const VIEW: &'static str = "/balances";
    const SQL: &'static str =
        "SELECT effect_seq, order_id, action, balance_cents, effects, clock_ms
        FROM balances WHERE effect_seq > ?1 ORDER BY effect_seq LIMIT ?2";

    fn from_row(row: &Row<'_>) -> rusqlite::Result<Self> {
        Ok(BalanceRow {
            seq: row.get(0)?,
            order_id: row.get(1)?,
            action: row.get(2)?,
            balance_cents: row.get(3)?,
            effects: row.get(4)?,
            clock: format_clock(row.get(5)?),
        })
    }

    fn seq(&self) -> i64 {
        self.seq
    }
}

/// Reads the ledger at a path, whoever writes it.
#[derive(Debug)]
pub struct Reader {
    path: PathBuf,
    open: Mutex<Option<Opened>>,
}

/// A connection and the file it belongs to.
#[derive(Debug)]
struct Opened {
    connection: Connection,
    file: FileId,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct FileId(u64, u64);

impl FileId {
    fn of(metadata: &Metadata) -> FileId {
        use std::os::unix::fs::MetadataExt;
        FileId(metadata.dev(), metadata.ino())
    }
}

impl Reader {
    /// Reads at `path`; nothing is opened before the first question.
    #[must_use]
    pub fn new(path: impl Into<PathBuf>) -> Reader {
        Reader {
            path: path.into(),
            open: Mutex::new(None),
        }
    }

    /// The file it reads.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Whether there is a ledger in the file: its first writer has made the tables.
    pub fn has_tables(&self) -> Result<bool, LedgerError> {
        Ok(self.with(|_| Ok(()))?.is_some())
    }

    /// Keys with a sequence above `after`, at most `limit`.
    pub fn orders(&self, after: i64, limit: usize) -> Result<Page<OrderRow>, LedgerError> {
        self.page(after, limit)
    }

    /// Runs with a sequence above `after`, at most `limit`.
    pub fn attempts(&self, after: i64, limit: usize) -> Result<Page<AttemptRow>, LedgerError> {
        self.page(after, limit)
    }

    /// Added amounts with a sequence above `after`, at most `limit`.
    pub fn effects(&self, after: i64, limit: usize) -> Result<Page<EffectRow>, LedgerError> {
        self.page(after, limit)
    }

    /// Balances changed after the effect `after`, at most `limit`.
    pub fn balances(&self, after: i64, limit: usize) -> Result<Page<BalanceRow>, LedgerError> {
        self.page(after, limit)
    }

    /// Claims changed after the transition `after`, at most `limit`.
    pub fn claims(&self, after: i64, limit: usize) -> Result<Page<ClaimRow>, LedgerError> {
        self.page(after, limit)
    }

    /// Changes of claims with a sequence above `after`, at most `limit`.
    pub fn transitions(
        &self,
        after: i64,
        limit: usize,
    ) -> Result<Page<TransitionRow>, LedgerError> {
        self.page(after, limit)
    }

    /// Recomputes the balances from the effects; an absent ledger is a correct empty one.
    pub fn verify(&self) -> Result<Verification, LedgerError> {
        Ok(self.with(verify::verify)?.unwrap_or_default())
    }

    pub(super) fn page<T: Table>(&self, after: i64, limit: usize) -> Result<Page<T>, LedgerError> {
        let empty = Page {
            items: Vec::new(),
            next: after,
            more: false,
            clock: None,
        };
        Ok(self
            .with(|connection| read_page(connection, after, limit))?
            .unwrap_or(empty))
    }

    /// Runs a question in one read transaction; `None` while there is no ledger.
    fn with<T>(
        &self,
        question: impl FnOnce(&Connection) -> rusqlite::Result<T>,
    ) -> Result<Option<T>, LedgerError> {
        let mut open = self.lock();
        if !self.refresh(&mut open)? {
            return Ok(None);
        }
        let Some(opened) = open.as_mut() else {
            return Ok(None);
        };
        let transaction = opened.connection.transaction().at(&self.path)?;
        let answer = question(&transaction).at(&self.path)?;
        transaction.commit().at(&self.path)?;
        Ok(Some(answer))
    }

    /// Opens the file that is at the path now; answers whether there is a ledger in it.
    fn refresh(&self, open: &mut Option<Opened>) -> Result<bool, LedgerError> {
        let file = match std::fs::metadata(&self.path) {
            Ok(metadata) if metadata.is_dir() => {
                return Err(LedgerError::Open {
                    path: self.path.clone(),
                    reason: "it is a directory; name the file in it".into(),
                });
            }
            Ok(metadata) => FileId::of(&metadata),
            Err(error) if error.kind() == ErrorKind::NotFound && open.is_none() => {
                return Ok(false);
            }
            Err(error) if error.kind() == ErrorKind::NotFound => {
                return Err(LedgerError::Gone(self.path.clone()));
            }
            Err(error) => {
                return Err(LedgerError::Open {
                    path: self.path.clone(),
                    reason: error.to_string(),
                });
            }
        };
        if let Some(opened) = open.as_ref() {
            // Who writes to the file that was read still does so, unseen from the path.
            return match opened.file == file {
                true => Ok(true),
                false => Err(LedgerError::Gone(self.path.clone())),
            };
        }
        *open = schema::open_for_reading(&self.path)?.map(|connection| Opened { connection, file });
        Ok(open.is_some())
    }

    fn lock(&self) -> MutexGuard<'_, Option<Opened>> {
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn read_page<T: Table>(
    connection: &Connection,
    after: i64,
    limit: usize,
) -> rusqlite::Result<Page<T>> {
    let asked = i64::try_from(limit.saturating_add(1)).unwrap_or(i64::MAX);
    if schema::version(connection)? < T::SINCE {
        return Ok(Page {
            items: Vec::new(),
            next: after,
            more: false,
            clock: None,
        });
    }
    let mut statement = connection.prepare_cached(T::SQL)?;
    let mut items: Vec<T> = statement
        .query_map(params![after, asked], |row| T::from_row(row))?
        .collect::<rusqlite::Result<_>>()?;
    let more = items.len() > limit;
    items.truncate(limit);
    let next = items.last().map_or(after, Table::seq);
    Ok(Page {
        items,
        next,
        more,
        clock: Some(format_clock(clock::now(connection)?)),
    })
}
