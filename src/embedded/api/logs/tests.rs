use std::collections::HashMap;
use std::io::Write as _;
use std::time::Duration;

use futures::{FutureExt as _, StreamExt as _};
use http_body_util::BodyExt as _;
use proptest::prelude::*;
use serde_json::json;
use tokio::sync::watch;

use super::*;

const LINES: &str = "2026-01-02T03:04:05.000000001Z first\n2026-01-02T03:04:06.5Z second line\n2026-01-02T03:04:07Z \n\
                     2026-01-02T03:04:08Z last\n";

fn options(pairs: &[(&str, &str)]) -> Result<LogOptions, Box<Status>> {
    let map: HashMap<&str, &str> = pairs.iter().copied().collect();
    LogOptions::parse("p", &|key: &str| {
        map.get(key).map(|value| (*value).to_owned())
    })
}

async fn read(text: &str, options: &LogOptions) -> String {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("0.log");
    std::fs::write(&path, text).unwrap();
    let stream = FileLog::open(&path, None)
        .await
        .unwrap()
        .stream(options)
        .await
        .unwrap();
    let chunks: Vec<_> = stream.collect().await;
    chunks
        .into_iter()
        .map(|chunk| String::from_utf8_lossy(&chunk.unwrap()).into_owned())
        .collect()
}

async fn read_with(pairs: &[(&str, &str)]) -> String {
    read(LINES, &options(pairs).unwrap()).await
}

#[tokio::test]
async fn times_are_cut_unless_asked_for() {
    assert_eq!(read_with(&[]).await, "first\nsecond line\n\nlast\n");
    assert_eq!(read_with(&[("timestamps", "true")]).await, LINES);
}

#[tokio::test]
async fn tail_counts_from_the_end() {
    assert_eq!(read_with(&[("tailLines", "1")]).await, "last\n");
    assert_eq!(read_with(&[("tailLines", "2")]).await, "\nlast\n");
    assert_eq!(read_with(&[("tailLines", "0")]).await, "");
    assert_eq!(
        read_with(&[("tailLines", "4")]).await,
        "first\nsecond line\n\nlast\n"
    );
    assert_eq!(
        read_with(&[("tailLines", "99999999")]).await,
        "first\nsecond line\n\nlast\n"
    );
}

#[tokio::test]
async fn since_drops_older_lines_after_the_tail() {
    assert_eq!(
        read_with(&[("sinceTime", "2026-01-02T03:04:07Z")]).await,
        "\nlast\n"
    );
    assert_eq!(
        read_with(&[("sinceTime", "2026-01-02T03:04:07Z"), ("tailLines", "1")]).await,
        "last\n"
    );
    assert_eq!(read_with(&[("sinceSeconds", "5")]).await, "");
}

#[tokio::test]
async fn the_limit_cuts_within_a_line() {
    assert_eq!(read_with(&[("limitBytes", "8")]).await, "first\nse");
    assert_eq!(
        read_with(&[("limitBytes", "3"), ("timestamps", "1")]).await,
        "202"
    );
}

#[tokio::test]
async fn lines_without_a_time_and_torn_ends_are_kept() {
    let keep = LogOptions::default();
    assert_eq!(read("no time here\n\nx", &keep).await, "no time here\n\nx");
    assert_eq!(read("2026-01-02T03:04:05Z torn", &keep).await, "torn");
    assert_eq!(read("2026-01-02T03:0", &keep).await, "2026-01-02T03:0");
    assert_eq!(read("", &keep).await, "");
    let long = format!("2026-01-02T03:04:05Z {}\n", "x".repeat(200_000));
    assert_eq!(read(&long, &keep).await.len(), 200_001);
}

#[tokio::test]
async fn the_tail_is_found_across_blocks() {
    let many: String = (0..20_000)
        .map(|n| format!("2026-01-02T03:04:05Z line {n}\n"))
        .collect();
    let output = read(&many, &options(&[("tailLines", "15000")]).unwrap()).await;
    assert_eq!(output.lines().count(), 15_000);
    assert!(output.starts_with("line 5000\n"));
}

#[tokio::test]
async fn following_gives_new_lines_and_ends_with_the_writer() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("0.log");
    let mut file = std::fs::File::create(&path).unwrap();
    let (sender, growth) = watch::channel(0u64);
    let follow = options(&[("follow", "true")]).unwrap();
    let mut stream = FileLog::open(&path, Some(growth))
        .await
        .unwrap()
        .stream(&follow)
        .await
        .unwrap();
    let mut expect = async |text: &str| {
        let next = tokio::time::timeout(Duration::from_secs(30), stream.next())
            .await
            .unwrap();
        assert_eq!(
            next.map(|chunk| String::from_utf8_lossy(&chunk.unwrap()).into_owned())
                .unwrap_or_default(),
            text
        );
    };
    file.write_all(b"2026-01-02T03:04:05Z one\n").unwrap();
    sender.send_replace(1);
    expect("one\n").await;
    file.write_all(b"2026-01-02T03:04:06Z two\n").unwrap();
    sender.send_replace(2);
    expect("two\n").await;
    file.write_all(b"2026-01-02T03:04:07Z three\n").unwrap();
    drop(sender);
    expect("three\n").await;
    expect("").await;
}

#[tokio::test]
async fn a_quiet_follower_waits() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("0.log");
    std::fs::write(&path, "").unwrap();
    let (_sender, growth) = watch::channel(0u64);
    let follow = options(&[("follow", "true")]).unwrap();
    let mut stream = FileLog::open(&path, Some(growth))
        .await
        .unwrap()
        .stream(&follow)
        .await
        .unwrap();
    for _ in 0..10 {
        assert!(stream.next().now_or_never().is_none());
        tokio::task::yield_now().await;
    }
}

#[tokio::test]
async fn a_missing_file_is_gone() {
    let missing = FileLog::open(std::path::Path::new("/nonexistent/0.log"), None).await;
    assert!(matches!(missing, Err(LogError::Gone)));
}

#[test]
fn senseless_options_are_refused_in_upstreams_words() {
    let cases = [
        (
            [("tailLines", "-1"), ("", "")],
            422,
            "PodLogOptions \"p\" is invalid: tailLines: Invalid value: -1: must be greater than or equal to 0",
        ),
        (
            [("limitBytes", "0"), ("", "")],
            422,
            "PodLogOptions \"p\" is invalid: limitBytes: Invalid value: 0: must be greater than 0",
        ),
        (
            [("tailLines", "abc"), ("", "")],
            400,
            "strconv.ParseInt: parsing \"abc\": invalid syntax",
        ),
        (
            [("tailLines", "99999999999999999999"), ("", "")],
            400,
            "strconv.ParseInt: parsing \"99999999999999999999\": value out of range",
        ),
        (
            [("tailLines", "-1"), ("sinceSeconds", "0")],
            422,
            "PodLogOptions \"p\" is invalid: [tailLines: Invalid value: -1: must be greater than or equal to 0, sinceSeconds: Invalid value: 0: must be greater than 0]",
        ),
    ];
    for (pairs, code, message) in cases {
        let status = options(&pairs).unwrap_err();
        assert_eq!((status.code, status.message.as_str()), (code, message));
    }
    assert_eq!(
        options(&[("sinceTime", "yesterday")]).unwrap_err().code,
        400
    );
    assert_eq!(
        options(&[("sinceTime", "2026-01-02T03:04:07Z"), ("sinceSeconds", "3")])
            .unwrap_err()
            .code,
        422
    );
    assert!(
        options(&[("sinceSeconds", "9223372036854775807"), ("follow", "")])
            .unwrap()
            .follow
    );
}

type Open = fn() -> Result<LogStream, LogError>;

struct Scripted(Open);

impl PodLogs for Scripted {
    fn open(&self, request: LogRequest) -> BoxFuture<'_, Result<LogStream, LogError>> {
        assert_eq!(
            (request.namespace.as_str(), request.uid.as_str()),
            ("lab", "u-1")
        );
        std::future::ready((self.0)()).boxed()
    }
}

fn pod(containers: &[&str], init: &[&str]) -> Value {
    let named = |names: &[&str]| {
        names
            .iter()
            .map(|name| json!({"name": name}))
            .collect::<Vec<_>>()
    };
    json!({"metadata": {"name": "p", "namespace": "lab", "uid": "u-1"},
           "spec": {"nodeName": "eventlab", "containers": named(containers), "initContainers": named(init)}})
}

async fn get(pod: &Value, container: &str, open: Open) -> Result<String, String> {
    let parameter =
        |key: &str| (key == "container" && !container.is_empty()).then(|| container.to_owned());
    let response = answer(pod, parameter, &Scripted(open))
        .await
        .map_err(|status| {
            assert!(status.is_failure());
            format!("{} {}", status.code, status.message)
        })?;
    assert_eq!(response.headers()[CONTENT_TYPE], "text/plain");
    let body = response.into_body().collect().await.unwrap().to_bytes();
    Ok(String::from_utf8_lossy(&body).into_owned())
}

fn hello() -> Result<LogStream, LogError> {
    Ok(futures::stream::iter([Ok(Bytes::from_static(b"hello\n"))]).boxed())
}

#[tokio::test]
async fn the_only_container_needs_no_name() {
    assert_eq!(
        get(&pod(&["main"], &["init"]), "", hello).await,
        Ok("hello\n".into())
    );
    assert_eq!(
        get(&pod(&["main", "wait"], &["init"]), "init", hello).await,
        Ok("hello\n".into())
    );
}

#[tokio::test]
async fn a_pod_without_a_node_has_an_empty_log() {
    let mut pod = pod(&["main"], &[]);
    pod["spec"]["nodeName"] = json!(null);
    assert_eq!(
        get(&pod, "", || Err(LogError::Gone)).await,
        Ok(String::new())
    );
}

#[tokio::test]
async fn every_refusal_text() {
    let two = pod(&["a", "b"], &[]);
    let wants = |text: &str| Err(format!("400 {text}"));
    assert_eq!(
        get(&two, "", hello).await,
        wants("a container name must be specified for pod p, choose one of: [a b]")
    );
    assert_eq!(
        get(&pod(&["a", "b"], &["i", "j"]), "", hello).await,
        wants(
            "a container name must be specified for pod p, choose one of: [a b] or one of the init containers: [i j]"
        )
    );
    assert_eq!(
        get(&two, "x", hello).await,
        wants("container x is not valid for pod p")
    );
    let states: [(Open, &str); 6] = [
        (
            || Err(LogError::WaitingToStart("ContainerCreating".into())),
            "container \"a\" in pod \"p\" is waiting to start: ContainerCreating",
        ),
        (
            || Err(LogError::WaitingToStart("ErrImagePull".into())),
            "container \"a\" in pod \"p\" is waiting to start: image can't be pulled",
        ),
        (
            || Err(LogError::WaitingToStart("ImagePullBackOff".into())),
            "container \"a\" in pod \"p\" is waiting to start: trying and failing to pull image",
        ),
        (
            || Err(LogError::WaitingToStart(String::new())),
            "container \"a\" in pod \"p\" is waiting to start - no logs yet",
        ),
        (
            || Err(LogError::NoPrevious),
            "previous terminated container \"a\" in pod \"p\" not found",
        ),
        (
            || Err(LogError::UnknownContainer),
            "container \"a\" in pod \"p\" is not available",
        ),
    ];
    for (open, text) in states {
        assert_eq!(get(&two, "a", open).await, wants(text));
    }
    assert!(
        get(&two, "a", || Err(LogError::Gone))
            .await
            .unwrap_err()
            .starts_with("404 ")
    );
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn any_file_reads_as_its_lines_do(lines in prop::collection::vec("[a-zé ]{0,60}", 0..20), tail in 0usize..25) {
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        let stamped: String = lines.iter().map(|line| format!("2026-01-02T03:04:05.123456789Z {line}\n")).collect();
        let kept = &lines[lines.len().saturating_sub(tail)..];
        let want: String = kept.iter().map(|line| format!("{line}\n")).collect();
        let options = LogOptions { tail_lines: Some(tail as u64), ..LogOptions::default() };
        prop_assert_eq!(runtime.block_on(read(&stamped, &options)), want);
    }
}
