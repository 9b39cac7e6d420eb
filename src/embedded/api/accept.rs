//! What a client takes for an answer: the Accept header, read as kube-apiserver reads it, and YAML for those who want it.
//!
//! Answers are made as JSON; [`into_yaml`] rewrites one that goes to a client which asked for YAML first.

use axum::body::{Body, HttpBody as _};
use axum::response::{IntoResponse as _, Response};
use http::{HeaderMap, HeaderValue, header};
use serde_json::Value;
use tokio::sync::Semaphore;

use super::status::Failure;
use super::yaml;

const JSON: &str = "application/json";
const YAML: &str = "application/yaml";

/// How an answer shall look, from the Accept header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    Json,
    /// `as=Table`, with the version of meta.k8s.io asked for.
    Table(&'static str),
    /// `as=PartialObjectMetadata`.
    Metadata(&'static str),
    /// `as=PartialObjectMetadataList`.
    MetadataList(&'static str),
    /// Aggregated discovery, `v2` or `v2beta1`.
    Discovery(&'static str),
}

/// One entry of the header that we can serve.
#[derive(Clone, Copy, Debug)]
struct Entry {
    format: Format,
    yaml: bool,
    weight: f32,
}

/// What the client takes and we have, best first; `None` if it says nothing.
fn entries(headers: &HeaderMap) -> Option<Vec<Entry>> {
    let values = headers.get_all(header::ACCEPT).iter();
    let items = values.flat_map(|value| value.to_str().unwrap_or("?").split(','));
    let mut items = items
        .map(str::trim)
        .filter(|item| !item.is_empty())
        .peekable();
    items.peek()?;
    let mut found: Vec<Entry> = items.filter_map(entry).collect();
    found.sort_by(|one, other| other.weight.total_cmp(&one.weight));
    Some(found)
}

fn entry(item: &str) -> Option<Entry> {
    let mut parts = item.split(';').map(str::trim);
    let yaml = match parts.next()?.to_ascii_lowercase().as_str() {
        JSON | "*/*" | "application/*" => false,
        YAML => true,
        _ => return None,
    };
    let (mut shape, mut group, mut version, mut weight) = ("", "", "", 1.0);
    for (key, value) in parts.filter_map(|part| part.split_once('=')) {
        match key {
            "as" => shape = value,
            "g" => group = value,
            "v" => version = value,
            "q" => weight = value.parse().unwrap_or(1.0),
            _ => {}
        }
    }
    let format = shaped(shape, group, version)?;
    Some(Entry {
        format,
        yaml,
        weight,
    })
}

fn shaped(shape: &str, group: &str, version: &str) -> Option<Format> {
    let meta = match version {
        "v1" => "v1",
        "v1beta1" => "v1beta1",
        _ => "",
    };
    match (shape, group) {
        ("", _) => Some(Format::Json),
        ("Table", "meta.k8s.io") if !meta.is_empty() => Some(Format::Table(meta)),
        ("PartialObjectMetadata", "meta.k8s.io") if !meta.is_empty() => {
            Some(Format::Metadata(meta))
        }
        ("PartialObjectMetadataList", "meta.k8s.io") if !meta.is_empty() => {
            Some(Format::MetadataList(meta))
        }
        ("APIGroupDiscoveryList", "apidiscovery.k8s.io") if version == "v2" => {
            Some(Format::Discovery("v2"))
        }
        ("APIGroupDiscoveryList", "apidiscovery.k8s.io") if version == "v2beta1" => {
            Some(Format::Discovery("v2beta1"))
        }
        _ => None,
    }
}

/// All representations that the client takes and we have, best first; JSON when it names none.
#[must_use]
pub fn formats(headers: &HeaderMap) -> Vec<Format> {
    let entries = entries(headers).unwrap_or_default();
    let mut found: Vec<Format> = entries.into_iter().map(|one| one.format).collect();
    if found.is_empty() {
        found.push(Format::Json);
    }
    found
}

/// What is asked, as far as it decides which representations there are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Asked {
    Objects,
    Watch,
    Discovery,
}

/// Refuses a client that takes nothing of what there is.
///
/// # Errors
/// 406, with what would be accepted.
pub fn check(headers: &HeaderMap, asked: Asked) -> Result<(), Failure> {
    let Some(entries) = entries(headers) else {
        return Ok(());
    };
    let good = |one: &Entry| match (asked, one.format) {
        (Asked::Discovery, Format::Json | Format::Discovery(_)) => true,
        (Asked::Discovery, _) | (_, Format::Discovery(_)) => false,
        (Asked::Watch, _) => !one.yaml,
        (Asked::Objects, _) => true,
    };
    if entries.iter().any(good) {
        return Ok(());
    }
    let have = match asked {
        Asked::Watch => "application/json;stream=watch",
        Asked::Objects | Asked::Discovery => "application/json, application/yaml",
    };
    Err(Failure::not_acceptable(format!(
        "only the following media types are accepted: {have}"
    )))
}

/// True if the client would rather have YAML than JSON.
#[must_use]
pub fn wants_yaml(headers: &HeaderMap) -> bool {
    let entries = entries(headers).unwrap_or_default();
    entries.first().is_some_and(|best| best.yaml)
}

/// Large answers that are rewritten at once: each takes several times its size meanwhile.
static REWRITTEN: Semaphore = Semaphore::const_new(4);
/// An answer up to this size is not large (bytes).
const SMALL: u64 = 1 << 20;

/// Rewrites a whole JSON answer as YAML; a stream, and what is not JSON, stays as it is. Of many large ones those that were
/// only `read` may be refused.
pub async fn into_yaml(response: Response, read: bool) -> Response {
    let json = response.headers().get(header::CONTENT_TYPE);
    let Some(size) = response.body().size_hint().exact() else {
        return response;
    };
    if json.is_none_or(|media| media != JSON) {
        return response;
    }
    let _turn = match (size > SMALL, read) {
        (false, _) => None,
        (true, false) => REWRITTEN.acquire().await.ok(),
        (true, true) => match REWRITTEN.try_acquire() {
            Ok(turn) => Some(turn),
            Err(_) => {
                return Failure::busy("too many large answers are made; try again").into_response();
            }
        },
    };
    let (mut parts, body) = response.into_parts();
    // The body lies in memory already; it is not read from anywhere.
    let bytes = axum::body::to_bytes(body, usize::MAX)
        .await
        .unwrap_or_default();
    let text = bytes.clone();
    let text = tokio::task::spawn_blocking(move || {
        let value: Value = serde_json::from_slice(&text).ok()?;
        Some(yaml::document(&value))
    });
    let Some(text) = text.await.ok().flatten() else {
        return Response::from_parts(parts, Body::from(bytes));
    };
    parts.headers.remove(header::CONTENT_LENGTH);
    parts
        .headers
        .insert(header::CONTENT_TYPE, HeaderValue::from_static(YAML));
    Response::from_parts(parts, Body::from(text))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn accept(value: &str) -> HeaderMap {
        let mut headers = HeaderMap::new();
        headers.insert(header::ACCEPT, value.parse().expect("header"));
        headers
    }

    /// Rewriting takes memory: reads wait for none, and writes are answered in their turn.
    #[tokio::test]
    async fn of_many_large_answers_reads_are_refused_and_writes_wait() {
        let large = || {
            let text = format!("[\"{}\"]", "x".repeat(2 << 20));
            let mut response = Response::new(Body::from(text));
            let media = HeaderValue::from_static(JSON);
            response.headers_mut().insert(header::CONTENT_TYPE, media);
            response
        };
        let held = REWRITTEN.acquire_many(4).await.expect("all turns");
        assert_eq!(into_yaml(large(), true).await.status(), 429);
        let write = tokio::spawn(into_yaml(large(), false));
        tokio::task::yield_now().await;
        assert!(!write.is_finished());
        drop(held);
        let written = write.await.expect("an answer");
        assert_eq!(written.status(), 200);
        assert_eq!(written.headers()[header::CONTENT_TYPE], YAML);
    }

    #[test]
    fn kubectl_asks_for_tables() {
        let headers = accept(
            "application/json;as=Table;v=v1;g=meta.k8s.io,application/json;as=Table;v=v1beta1;g=meta.k8s.io,application/json",
        );
        assert_eq!(
            formats(&headers),
            [Format::Table("v1"), Format::Table("v1beta1"), Format::Json]
        );
    }

    #[test]
    fn what_cannot_be_served_is_refused() {
        for good in [
            "",
            "*/*",
            "application/*",
            "text/html, application/json;q=0.1",
            "application/yaml",
            "APPLICATION/JSON",
            "application/json; charset=utf-8",
            "application/vnd.kubernetes.protobuf,application/json",
        ] {
            assert_eq!(check(&accept(good), Asked::Objects), Ok(()), "{good}");
        }
        for bad in [
            "text/html",
            "garbage",
            "application/cbor",
            "application/vnd.kubernetes.protobuf",
            "application/json;as=Foo;g=x;v=v1",
            "application/json;as=Table;v=v2;g=meta.k8s.io",
            "application/json;as=APIGroupDiscoveryList;v=v2;g=apidiscovery.k8s.io",
        ] {
            let refused = check(&accept(bad), Asked::Objects).expect_err(bad);
            assert_eq!(refused.code(), 406, "{bad}");
        }
        assert!(check(&accept("application/yaml"), Asked::Watch).is_err());
        assert!(
            check(
                &accept("application/json;as=Table;v=v1;g=meta.k8s.io"),
                Asked::Discovery
            )
            .is_err()
        );
        assert_eq!(check(&HeaderMap::new(), Asked::Watch), Ok(()));
    }

    #[test]
    fn the_better_liked_one_of_two_is_given() {
        assert!(wants_yaml(&accept("application/yaml,application/json")));
        assert!(!wants_yaml(&accept(
            "application/yaml;q=0.1,application/json;q=0.9"
        )));
        assert!(!wants_yaml(&accept("*/*")));
    }
}
