//! get, list and watch.

use std::time::Duration;

use serde_json::{Map, Value, json};

use super::page::Page;
use super::{Answer, Call};
use crate::embedded::api::accept::Format;
use crate::embedded::api::go_json;
use crate::embedded::api::go_text::quote;
use crate::embedded::api::registry::Storage;
use crate::embedded::api::selectors::{FieldSelector, LabelSelector, Selector};
use crate::embedded::api::status::{Cause, Failure, json_response};
use crate::embedded::api::store::{Interest, Listing};
use crate::embedded::api::table::Include;
use crate::embedded::api::watch;

/// One object.
pub(super) fn get(call: &Call) -> Answer {
    let stored = call.current()?;
    check_shape(call, false)?;
    Ok(call.answer(200, &stored))
}

fn check_shape(call: &Call, list: bool) -> Result<(), Failure> {
    call.shape().check(list, call.query.text("includeObject"))
}

/// The options of list and watch.
struct ListOptions {
    interest: Interest,
    limit: usize,
    timeout: Option<Duration>,
    /// The page that a list goes on with.
    page: Option<Page>,
    /// `None`: not given.
    version: Option<u64>,
    version_match: String,
    initial_events: Option<bool>,
}

fn integer(call: &Call, key: &str) -> Result<i64, Failure> {
    let given = call.query.get(key).map_or(Ok(0), go_json::integer);
    given.map_err(Failure::bad_request)
}

fn options(call: &Call) -> Result<ListOptions, Failure> {
    let labels = LabelSelector::parse(call.query.text("labelSelector"))?;
    let fields = FieldSelector::parse(call.query.text("fieldSelector"), call.kind)?;
    let namespace = Some(call.namespace()).filter(|namespace| !namespace.is_empty());
    let mut interest = Interest::new(call.bucket(), namespace, Selector { labels, fields });
    if matches!(call.kind.storage, Storage::Shared(_)) {
        // The sibling kind offers other names for the same stored fields.
        interest.fields = Some(call.kind.fields);
    }
    let limit = usize::try_from(integer(call, "limit")?.max(0)).unwrap_or(0);
    let seconds = u64::try_from(integer(call, "timeoutSeconds")?.max(0)).unwrap_or(0);
    let watch = call.attributes.verb == "watch";
    let initial_events = call.query.get("sendInitialEvents");
    let initial_events = initial_events.map(|_| call.query.flag("sendInitialEvents"));
    check(call, initial_events, watch)?;
    let page = match call.query.text("continue") {
        token if !watch && !token.is_empty() => Some(Page::parse(token)?),
        _ => None,
    };
    Ok(ListOptions {
        interest,
        limit,
        timeout: (seconds > 0).then(|| Duration::from_secs(seconds.min(86_400))),
        page,
        version: version(call.query.text("resourceVersion"), watch)?,
        version_match: call.query.text("resourceVersionMatch").to_owned(),
        initial_events,
    })
}

fn version(text: &str, watch: bool) -> Result<Option<u64>, Failure> {
    if text.is_empty() {
        return Ok(None);
    }
    let number = go_json::unsigned(text).map_err(|why| {
        let why = format!("resourceVersion: Invalid value: {}: {why}", quote(text));
        if watch {
            Failure::status(500, "", why, None)
        } else {
            Failure::bad_request(format!("invalid resource version: {why}"))
        }
    })?;
    Ok(Some(number))
}

/// The rules of `metainternalversion.ValidateListOptions`.
fn check(call: &Call, initial_events: Option<bool>, watch: bool) -> Result<(), Failure> {
    const FIELD: &str = "resourceVersionMatch";
    let text = |key: &str| call.query.text(key);
    let (matched, version) = (text(FIELD), text("resourceVersion"));
    // A watch from now or from the cache begins with what is there, as if that had been asked for.
    let implied = watch && initial_events.is_none() && matches!(version, "" | "0");
    let given = !matched.is_empty();
    let forbid = |wrong: bool, why: &str| wrong.then(|| Cause::forbidden(FIELD, why));
    let unsupported = |known: &[&str]| {
        let wrong = given && !known.contains(&matched);
        wrong.then(|| Cause::unsupported(FIELD, matched, known))
    };
    let continued = forbid(
        (given || implied) && !text("continue").is_empty(),
        "resourceVersionMatch is forbidden when continue is provided",
    );
    let causes = if watch {
        vec![
            forbid(
                initial_events.is_some() && matched != "NotOlderThan",
                "sendInitialEvents requires setting resourceVersionMatch to NotOlderThan",
            ),
            forbid(
                initial_events.is_none() && given,
                "resourceVersionMatch is forbidden for watch unless sendInitialEvents is provided",
            ),
            unsupported(&["NotOlderThan"]),
            continued,
        ]
    } else {
        let initial = "sendInitialEvents is forbidden for list";
        vec![
            forbid(
                given && version.is_empty(),
                "resourceVersionMatch is forbidden unless resourceVersion is provided",
            ),
            continued,
            unsupported(&["Exact", "NotOlderThan", ""]),
            forbid(
                matched == "Exact" && version == "0",
                "resourceVersionMatch \"exact\" is forbidden for resourceVersion \"0\"",
            ),
            initial_events.map(|_| Cause::forbidden("sendInitialEvents", initial)),
        ]
    };
    let causes: Vec<Cause> = causes.into_iter().flatten().collect();
    if causes.is_empty() {
        return Ok(());
    }
    let (group, kind) = ("meta.k8s.io", "ListOptions");
    Err(Failure::invalid_as(group, kind, "", causes))
}

/// All objects, or a page of them.
pub(super) fn list(call: &Call) -> Answer {
    let (listing, metadata) = listing(call)?;
    check_shape(call, true)?;
    Ok(json_response(
        200,
        call.shape().list(&listing.items, metadata),
    ))
}

/// What a list asks for, with the metadata of the answer. It is what it says it is: all pages of one list, and a list of
/// an exact version, show the objects as they were at that version.
pub(super) fn listing(call: &Call) -> Result<(Listing, Value), Failure> {
    let options = options(call)?;
    let page = &options.page;
    let version = options.version.unwrap_or(0);
    if page.is_some() && version > 0 {
        return Err(Failure::bad_request(
            "specifying resource version is not allowed when using continue",
        ));
    }
    let store = call.api.store();
    // A page of a version that is asked for without more is a page of just that version.
    let exact = options.version_match == "Exact"
        || (options.version_match.is_empty() && options.limit > 0 && version > 0);
    let wanted = match page {
        Some(page) => page.version,
        None => Some(version).filter(|_| exact),
    };
    let now = store.counter();
    if let Some(asked) = wanted.or(Some(version)).filter(|asked| *asked > now) {
        return Err(too_large(asked, now));
    }
    let after = page.as_ref().map(|page| page.after.as_str());
    let listing = match wanted {
        Some(wanted) => store.list_at(wanted, &options.interest, after, options.limit),
        None => Ok(store.list(&options.interest, after, options.limit)),
    };
    let listing = listing.map_err(|_| too_old(page.is_some()))?;
    let metadata = list_metadata(&listing, options.interest.selector.is_empty());
    Ok((listing, metadata))
}

fn too_old(continued: bool) -> Failure {
    Failure::expired(if continued {
        "The provided continue parameter is too old to display a consistent list result. You can start a new list without the continue parameter."
    } else {
        "The resourceVersion for the provided list is too old."
    })
}

fn list_metadata(listing: &Listing, everything: bool) -> Value {
    let mut metadata = Map::new();
    metadata.insert(
        "resourceVersion".to_owned(),
        Value::from(listing.rv.to_string()),
    );
    if let Some(next) = &listing.next {
        let page = Page {
            version: Some(listing.rv),
            after: next.clone(),
        };
        metadata.insert("continue".to_owned(), Value::from(page.token()));
        if everything {
            metadata.insert(
                "remainingItemCount".to_owned(),
                Value::from(listing.remaining),
            );
        }
    }
    Value::Object(metadata)
}

fn too_large(asked: u64, current: u64) -> Failure {
    let message = format!("Timeout: Too large resource version: {asked}, current: {current}");
    let details = json!({"causes": [{"reason": "ResourceVersionTooLarge", "message": "Too large resource version"}], "retryAfterSeconds": 1});
    Failure::status(504, "Timeout", message, details.as_object().cloned())
}

/// A stream of changes.
pub(super) fn watch(call: &Call) -> Answer {
    let options = options(call)?;
    if matches!(call.shape().format, Format::Table(_)) {
        Include::check(call.query.text("includeObject"))?;
    }
    let after = match (options.version.unwrap_or(0), options.initial_events) {
        (_, Some(true)) | (0, None) => None,
        (0, Some(false)) => Some(call.api.store().counter()),
        (version, _) => Some(version),
    };
    let stream = watch::Options {
        timeout: options.timeout,
        bookmarks: call.query.flag("allowWatchBookmarks"),
        // Who takes no bookmarks gets none.
        mark_initial: call.query.flag("allowWatchBookmarks")
            && match options.initial_events {
                Some(wanted) => wanted,
                None => options.version.unwrap_or(0) == 0,
            },
    };
    let now = call.api.store().counter();
    if let Some(asked) = options
        .version
        .filter(|asked| after.is_none() && *asked > now)
    {
        return Ok(json_response(200, watch::refused(&too_large(asked, now))));
    }
    let body = match call.api.store().subscribe(options.interest, after) {
        Ok(subscription) => {
            watch::body(call.api.shared_store(), subscription, call.shape(), stream)
        }
        Err(error) => watch::expired(error),
    };
    Ok(json_response(200, body))
}
