//! The `filters` of a dependency as typed values, decoded as the controller decodes them.

use super::decode::{DecodeError, Node};

/// `filters` of one dependency.
#[derive(Debug, Clone, Default)]
pub(super) struct FilterSpec {
    pub(super) exprs: Option<Vec<ExprSpec>>,
    pub(super) expr_operator: String,
    pub(super) data: Option<Vec<DataSpec>>,
    pub(super) data_operator: String,
    pub(super) context: Option<ContextSpec>,
    pub(super) time: Option<TimeSpec>,
    pub(super) script: String,
}

/// One entry of `filters.exprs`.
#[derive(Debug, Clone)]
pub(super) struct ExprSpec {
    pub(super) expr: String,
    /// Name and path of each field.
    pub(super) fields: Vec<(String, String)>,
}

/// One entry of `filters.data`.
#[derive(Debug, Clone)]
pub(super) struct DataSpec {
    pub(super) path: String,
    pub(super) kind: String,
    pub(super) values: Vec<String>,
    pub(super) comparator: String,
    pub(super) template: String,
}

/// `filters.context`; only these four attributes are compared.
#[derive(Debug, Clone)]
pub(super) struct ContextSpec {
    pub(super) kind: String,
    pub(super) subject: String,
    pub(super) source: String,
    pub(super) datacontenttype: String,
}

/// `filters.time`.
#[derive(Debug, Clone)]
pub(super) struct TimeSpec {
    pub(super) start: String,
    pub(super) stop: String,
    pub(super) timezone: String,
}

impl FilterSpec {
    pub(super) fn decode(node: &Node<'_>) -> Result<Self, DecodeError> {
        Ok(Self {
            exprs: each(node, "exprs", ExprSpec::decode)?,
            expr_operator: node.text("exprLogicalOperator")?,
            data: each(node, "data", DataSpec::decode)?,
            data_operator: node.text("dataLogicalOperator")?,
            context: node
                .object("context")?
                .as_ref()
                .map(ContextSpec::decode)
                .transpose()?,
            time: node
                .object("time")?
                .as_ref()
                .map(TimeSpec::decode)
                .transpose()?,
            script: node.text("script")?,
        })
    }

    /// What the Sensor's pod is given of it: an empty list is left out on the way, and is no group there.
    pub(super) fn handed_over(mut self) -> Self {
        self.exprs = self.exprs.filter(|list| !list.is_empty());
        self.data = self.data.filter(|list| !list.is_empty());
        self
    }
}

/// Decodes every entry of a list; a null entry is an empty object.
fn each<T>(
    node: &Node<'_>,
    name: &str,
    decode: impl Fn(&Node<'_>) -> Result<T, DecodeError>,
) -> Result<Option<Vec<T>>, DecodeError> {
    let Some(items) = node.list(name)? else {
        return Ok(None);
    };
    let empty = serde_json::json!({});
    let one = |item: &Node<'_>| {
        if item.value().is_null() {
            decode(&Node::new(&empty, item.path()))
        } else {
            decode(item)
        }
    };
    items.iter().map(one).collect::<Result<_, _>>().map(Some)
}

impl ExprSpec {
    fn decode(node: &Node<'_>) -> Result<Self, DecodeError> {
        let field = |node: &Node<'_>| Ok((node.text("name")?, node.text("path")?));
        Ok(Self {
            expr: node.text("expr")?,
            fields: each(node, "fields", field)?.unwrap_or_default(),
        })
    }
}

impl DataSpec {
    fn decode(node: &Node<'_>) -> Result<Self, DecodeError> {
        Ok(Self {
            path: node.text("path")?,
            kind: node.text("type")?,
            values: node.texts("value")?,
            comparator: node.text("comparator")?,
            template: node.text("template")?,
        })
    }
}

impl ContextSpec {
    fn decode(node: &Node<'_>) -> Result<Self, DecodeError> {
        node.text("id")?;
        node.text("specversion")?;
        if let Some(time) = node.field("time")? {
            time.as_text()?
                .parse::<jiff::Timestamp>()
                .map_err(|_| time.wrong("an RFC 3339 time"))?;
        }
        Ok(Self {
            kind: node.text("type")?,
            subject: node.text("subject")?,
            source: node.text("source")?,
            datacontenttype: node.text("datacontenttype")?,
        })
    }
}

impl TimeSpec {
    fn decode(node: &Node<'_>) -> Result<Self, DecodeError> {
        Ok(Self {
            start: node.text("start")?,
            stop: node.text("stop")?,
            timezone: node.text("timezone")?,
        })
    }
}
