//! Where the commands that print get their rows: a ledger file, or the HTTP view of a running session.

use std::io::Write;
use std::path::Path;

use serde::de::DeserializeOwned;

use super::CommandError;
use crate::ledger::read::Table;
use crate::ledger::{LedgerError, MAX_PAGE, Reader, Verification};

/// Rows that are asked for at once; their JSON stays well below what a client reads of an answer.
const VIEW_PAGE: usize = 500;

/// The HTTP view of a ledger, wherever it is reached.
pub trait View {
    /// The body of a `GET` of this path and query.
    ///
    /// # Errors
    /// Why it cannot be read, in words for people.
    fn get(&self, path: &str) -> Result<String, String>;
}

/// Rows of one ledger.
pub(super) enum Source<'a> {
    File(Reader),
    View(&'a dyn View),
}

impl<'a> Source<'a> {
    /// The file that was named, else the running session's view.
    pub(super) fn new(
        db: Option<&Path>,
        view: Option<&'a dyn View>,
    ) -> Result<Source<'a>, CommandError> {
        match (db, view) {
            (Some(path), _) => Ok(Source::File(existing(path)?)),
            (None, Some(view)) => Ok(Source::View(view)),
            (None, None) => Err(CommandError::NoLedger),
        }
    }

    /// Calls `head` once rows can be read, then `print` for every row, a page at a time.
    pub(super) fn each<T: Table + DeserializeOwned>(
        &self,
        out: &mut dyn Write,
        head: impl FnOnce(&mut dyn Write) -> std::io::Result<()>,
        mut print: impl FnMut(&mut dyn Write, &T) -> std::io::Result<()>,
    ) -> Result<(), CommandError> {
        let mut after = 0;
        let mut head = Some(head);
        loop {
            let (rows, more) = self.page::<T>(after)?;
            if let Some(head) = head.take() {
                head(out)?;
            }
            for row in &rows {
                print(out, row)?;
            }
            match rows.last() {
                // A view that repeats itself would never end.
                Some(last) if more && last.seq() > after => after = last.seq(),
                _ => return Ok(()),
            }
        }
    }

    /// What recomputing the balances finds.
    pub(super) fn verify(&self) -> Result<Verification, CommandError> {
        match self {
            Source::File(reader) => Ok(reader.verify()?),
            Source::View(view) => {
                let body = view.get("/verification").map_err(CommandError::View)?;
                serde_json::from_str(&body).map_err(|error| {
                    CommandError::View(format!(
                        "the ledger's answer to /verification cannot be read: {error}"
                    ))
                })
            }
        }
    }

    /// Rows after a sequence, and whether more may follow.
    fn page<T: Table + DeserializeOwned>(
        &self,
        after: i64,
    ) -> Result<(Vec<T>, bool), CommandError> {
        match self {
            Source::File(reader) => {
                let page = reader.page::<T>(after, MAX_PAGE)?;
                Ok((page.items, page.more))
            }
            Source::View(view) => {
                let path = format!("{}?after={after}&limit={VIEW_PAGE}", T::VIEW);
                let body = view.get(&path).map_err(CommandError::View)?;
                let rows: Vec<T> = serde_json::from_str(&body).map_err(|error| {
                    CommandError::View(format!(
                        "the ledger's answer to {path} cannot be read: {error}"
                    ))
                })?;
                let more = !rows.is_empty();
                Ok((rows, more))
            }
        }
    }
}

/// A reader of a ledger that must be there: whoever mistypes a path wants to hear it, not that nothing is in it.
pub(super) fn existing(path: &Path) -> Result<Reader, CommandError> {
    if !path.exists() {
        return Err(LedgerError::Missing(path.to_path_buf()).into());
    }
    let reader = Reader::new(path);
    if reader.has_tables()? {
        Ok(reader)
    } else {
        Err(CommandError::NoTables(path.to_path_buf()))
    }
}

#[cfg(test)]
mod tests {
    use std::cell::RefCell;

    use super::*;
    use crate::ledger::BalanceRow;

    struct Pages(RefCell<Vec<String>>, Vec<(&'static str, String)>);

    impl View for Pages {
        fn get(&self, path: &str) -> Result<String, String> {
            self.0.borrow_mut().push(path.to_owned());
            let found = self.1.iter().find(|(asked, _)| *asked == path);
            found.map_or_else(|| Ok("[]".to_owned()), |(_, body)| Ok(body.clone()))
        }
    }

    fn balance(seq: i64) -> String {
        format!(
            r#"{{"seq":{seq},"order_id":"o-{seq}","action":"place","balance_cents":1,"effects":1,"clock":"c"}}"#
        )
    }

    fn orders(view: &Pages) -> Result<Vec<String>, CommandError> {
        let mut seen = Vec::new();
        let each = |_: &mut dyn Write, row: &BalanceRow| {
            seen.push(row.order_id.clone());
            Ok(())
        };
        Source::new(None, Some(view))?.each(&mut Vec::new(), |_| Ok(()), each)?;
        Ok(seen)
    }

    #[test]
    fn a_view_is_read_to_its_end_page_by_page() {
        let view = Pages(
            RefCell::default(),
            vec![
                (
                    "/balances?after=0&limit=500",
                    format!("[{},{}]", balance(1), balance(7)),
                ),
                ("/balances?after=7&limit=500", format!("[{}]", balance(9))),
            ],
        );
        assert_eq!(orders(&view).unwrap(), ["o-1", "o-7", "o-9"]);
        assert_eq!(view.0.borrow().len(), 3);
    }

    #[test]
    fn a_view_that_repeats_itself_ends_and_nonsense_is_told() {
        let same = Pages(
            RefCell::default(),
            vec![
                ("/balances?after=0&limit=500", format!("[{}]", balance(1))),
                ("/balances?after=1&limit=500", format!("[{}]", balance(1))),
            ],
        );
        assert_eq!(orders(&same).unwrap(), ["o-1", "o-1"]);
        let nonsense = Pages(
            RefCell::default(),
            vec![("/balances?after=0&limit=500", "<html>".to_owned())],
        );
        let error = orders(&nonsense).unwrap_err().to_string();
        assert!(error.contains("/balances?after=0"), "{error}");
        assert!(matches!(
            Source::new(None, None).err(),
            Some(CommandError::NoLedger)
        ));
    }
}
