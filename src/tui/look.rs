//! Looking something up for the screen: an object, a message, the ledger's tables, the report. Runs beside the loop.

use std::path::PathBuf;
use std::sync::Arc;

use k8s_openapi::api::core::v1::Pod;
use kube::Api;
use kube::api::LogParams;
use serde_json::Value;

use super::brief::brief;
use crate::cluster::Cluster;
use crate::evidence::{Fact, Observation};
use crate::kinds;
use crate::lab::Lab;
use crate::report::{Report, markdown};
use crate::runner::looking;
use crate::session::SessionView;

/// Services of the ledger's and the CRM's read-only views, and their port.
const LEDGER: &str = "order-ledger";
const CRM: &str = "crm";
const PORT: u16 = 8080;
/// Rows of a table that are shown.
const ROWS: usize = 500;
/// Lines of a log that are read at once, and their bytes.
const LAST: i64 = 40;
const LOG_BYTES: i64 = 256 << 10;

/// What is to be looked up.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Look {
    Workflow {
        name: String,
    },
    Sensor,
    Message {
        sequence: u64,
    },
    Tables,
    Report,
    /// The pods and their containers.
    Pods,
    /// The last lines of a container, the first whose `pod/container` begins so.
    Log {
        of: String,
    },
}

/// One table: its title, column names, and rows of text.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Table {
    pub title: String,
    pub columns: Vec<String>,
    pub rows: Vec<Vec<String>>,
    /// Why there are no rows, where that is known.
    pub remark: Option<String>,
    /// What shows the same in the field.
    pub command: String,
}

/// The ledger's tables and the CRM's records.
pub type Tables = Vec<Table>;

/// What was found.
#[derive(Clone, Debug, PartialEq)]
pub enum Answer {
    Object {
        title: String,
        lines: Vec<String>,
        command: String,
    },
    Tables(Tables),
    Report(String),
}

/// What stands behind a fact that is not from a log.
#[must_use]
pub fn behind(fact: &Fact) -> Option<Look> {
    match &fact.observation {
        Observation::WorkflowCreated { name } | Observation::WorkflowPhase { name, .. } => {
            Some(Look::Workflow { name: name.clone() })
        }
        Observation::Stored { .. } => fact.sequence.map(|sequence| Look::Message { sequence }),
        Observation::LedgerAttempt { .. }
        | Observation::LedgerEffect { .. }
        | Observation::DestinationRecord { .. }
        | Observation::ClaimChanged { .. }
        | Observation::OrderState { .. }
        | Observation::NoEffect => Some(Look::Tables),
        Observation::Consumer { .. } | Observation::Gate { .. } => Some(Look::Sensor),
        _ => None,
    }
}

/// Where things are looked up.
#[derive(Clone)]
pub struct Looker {
    pub cluster: Cluster,
    /// The session's directory.
    pub dir: PathBuf,
    pub labs: Arc<[Lab]>,
}

impl Looker {
    /// Looks it up; an error is a sentence for the screen.
    ///
    /// # Errors
    /// What could not be read, and why.
    pub async fn look(&self, look: &Look) -> Result<Answer, String> {
        match look {
            Look::Workflow { name } => self.object(&kinds::workflow(), name).await,
            Look::Sensor => self.object(&kinds::sensor(), looking::SENSOR).await,
            Look::Message { sequence } => self.message(*sequence).await,
            Look::Tables => Ok(Answer::Tables(self.tables().await)),
            Look::Report => self.report().await,
            Look::Pods => self.pods().await,
            Look::Log { of } => self.log(of).await,
        }
    }

    async fn object(
        &self,
        resource: &kube::core::ApiResource,
        name: &str,
    ) -> Result<Answer, String> {
        let found = looking::get(&self.cluster, resource, name)
            .await
            .map_err(|error| error.to_string())?;
        let Some(mut object) = found else {
            return Err(format!("{} {name} is not there any more", resource.kind));
        };
        if let Some(metadata) = object
            .pointer_mut("/metadata")
            .and_then(Value::as_object_mut)
        {
            metadata.remove("managedFields");
        }
        let text = serde_saphyr::to_string(&object).map_err(|error| error.to_string())?;
        Ok(Answer::Object {
            title: format!("{} {name}", resource.kind),
            lines: text.lines().map(str::to_owned).collect(),
            command: format!(
                "kubectl -n {} get {} {name} -o yaml",
                self.cluster.namespace(),
                resource.plural
            ),
        })
    }

    /// Names of all containers, as `pod/container`.
    async fn containers(&self) -> Result<Vec<String>, String> {
        let pods = looking::pods(&self.cluster, "")
            .await
            .map_err(|error| error.to_string())?;
        let of_pod = |pod: &Value| -> Vec<String> {
            let name = pod.pointer("/metadata/name").and_then(Value::as_str);
            ["/spec/initContainers", "/spec/containers"]
                .iter()
                .filter_map(|list| pod.pointer(list)?.as_array())
                .flatten()
                .filter_map(|container| container.get("name")?.as_str())
                .map(|container| format!("{}/{container}", name.unwrap_or_default()))
                .collect()
        };
        Ok(pods.iter().flat_map(of_pod).collect())
    }

    async fn pods(&self) -> Result<Answer, String> {
        Ok(Answer::Object {
            title: "Pods and their containers; logs NAME reads one".to_owned(),
            lines: self.containers().await?,
            command: format!("kubectl -n {} get pods", self.cluster.namespace()),
        })
    }

    async fn log(&self, of: &str) -> Result<Answer, String> {
        let found = self.containers().await?;
        let found = found.iter().find(|name| name.starts_with(of));
        let Some((pod, container)) = found.and_then(|name| name.split_once('/')) else {
            return Err(format!("no pod's name begins with {of}; logs lists them"));
        };
        let api: Api<Pod> =
            Api::namespaced(self.cluster.client().clone(), self.cluster.namespace());
        let params = LogParams {
            container: Some(container.to_owned()),
            tail_lines: Some(LAST),
            limit_bytes: Some(LOG_BYTES),
            ..LogParams::default()
        };
        let text = api
            .logs(pod, &params)
            .await
            .map_err(|error| format!("cannot read the log of {pod}/{container}: {error}"))?;
        Ok(Answer::Object {
            title: format!("Last lines of {pod}/{container}"),
            lines: text.lines().map(brief).collect(),
            command: format!(
                "kubectl -n {} logs {pod} -c {container} --tail={LAST}",
                self.cluster.namespace()
            ),
        })
    }

    async fn message(&self, sequence: u64) -> Result<Answer, String> {
        let messages = self
            .cluster
            .bus()
            .messages(sequence.saturating_sub(1))
            .await
            .map_err(|error| error.to_string())?;
        let Some(message) = messages
            .into_iter()
            .find(|message| message.sequence == sequence)
        else {
            return Err(format!("message {sequence} is not on the bus any more"));
        };
        let trace = message.trace.unwrap_or_else(|| "none".to_owned());
        let lines = vec![
            format!("sequence  {}", message.sequence),
            format!("subject   {}", message.subject),
            format!("time      {}", message.time),
            format!("arrival   {}", message.arrival),
            format!("trace     {trace}"),
        ];
        Ok(Answer::Object {
            title: format!("Message {sequence} on the bus"),
            lines,
            command: format!("nats stream get default {sequence}"),
        })
    }

    async fn tables(&self) -> Tables {
        let views = [
            ("orders", LEDGER, "/orders"),
            ("attempts", LEDGER, "/attempts"),
            ("effects", LEDGER, "/effects"),
            ("claims", LEDGER, "/claims"),
            ("CRM records", CRM, "/admin/entries"),
        ];
        let mut tables = Vec::new();
        for (title, service, path) in views {
            let read = self.cluster.get_json::<Value>(service, PORT, path).await;
            let read = match read {
                Err(_) if service == CRM && self.has_no_crm().await => {
                    Err("this lab has none".to_owned())
                }
                read => read.map_err(|error| error.to_string()),
            };
            tables.push(table(title, service, path, read));
        }
        tables
    }

    async fn has_no_crm(&self) -> bool {
        matches!(self.cluster.has_destination().await, Ok(false))
    }

    /// Reads the journal as any reader does.
    async fn report(&self) -> Result<Answer, String> {
        let (dir, labs) = (self.dir.clone(), Arc::clone(&self.labs));
        let read = tokio::task::spawn_blocking(move || {
            SessionView::open(&dir)
                .map(|view| {
                    markdown::render(&Report::new(&view.entries, &labs).with_notes(&view.notes))
                })
                .map_err(|error| error.to_string())
        });
        read.await
            .map_err(|error| error.to_string())?
            .map(Answer::Report)
    }
}

/// A list of JSON objects as a table; its columns are the fields in their order.
fn table(title: &str, service: &str, path: &str, read: Result<Value, String>) -> Table {
    let mut table = Table {
        title: title.to_owned(),
        command: format!(
            "kubectl -n {} get --raw /api/v1/namespaces/{}/services/{service}:{PORT}/proxy{path}",
            kinds::NAMESPACE,
            kinds::NAMESPACE
        ),
        ..Table::default()
    };
    let rows = match read {
        Ok(Value::Array(rows)) => rows,
        Ok(Value::Object(fields)) => fields
            .into_iter()
            .find_map(|(_, value)| match value {
                Value::Array(rows) => Some(rows),
                _ => None,
            })
            .unwrap_or_default(),
        Ok(_) => Vec::new(),
        Err(error) => {
            table.remark = Some(error);
            return table;
        }
    };
    let skipped = rows.len().saturating_sub(ROWS);
    if skipped > 0 {
        table.remark = Some(format!("{skipped} older rows are left out"));
    }
    for row in rows.into_iter().skip(skipped) {
        let Value::Object(fields) = row else { continue };
        let mut cells = vec![String::new(); table.columns.len()];
        for (name, value) in fields {
            let text = match value {
                Value::String(text) => text,
                Value::Null => String::new(),
                other => other.to_string(),
            };
            let place = table.columns.iter().position(|column| *column == name);
            match place {
                Some(place) => cells[place] = text,
                None => {
                    table.columns.push(name);
                    cells.push(text);
                }
            }
        }
        table.rows.push(cells);
    }
    table
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn fields_become_columns_whatever_rows_lack() {
        let rows = json!([{"a": 1, "b": "x"}, {"b": null, "c": [1]}, "no row"]);
        let table = table("orders", LEDGER, "/orders", Ok(rows));
        assert_eq!(table.columns, ["a", "b", "c"]);
        assert_eq!(table.rows, [vec!["1", "x"], vec!["", "", "[1]"]]);
        let wrapped = super::table(
            "crm",
            CRM,
            "/admin/entries",
            Ok(json!({"entries": [{"id": 1}]})),
        );
        assert_eq!(wrapped.rows, [vec!["1"]]);
        let failed = super::table("orders", LEDGER, "/orders", Err("no".to_owned()));
        assert_eq!(failed.remark.as_deref(), Some("no"));
    }
}
