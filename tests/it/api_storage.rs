//! What survives: a restart, a rewind, and files that are not as they should be.

use std::path::PathBuf;

use eventlab::embedded::api::{ApiServer, OpenError, Options};
use futures::TryStreamExt;
use k8s_openapi::api::core::v1::{ConfigMap, ServiceAccount};
use kube::Api;
use kube::api::{DeleteParams, ListParams, PostParams, WatchEvent, WatchParams};
use serde_json::json;

use crate::api_support::object;

fn open(path: &std::path::Path) -> Result<std::sync::Arc<ApiServer>, OpenError> {
    ApiServer::open(path, Options::default())
}

struct Home {
    directory: tempfile::TempDir,
}

impl Home {
    fn new() -> Home {
        Home {
            directory: tempfile::tempdir().unwrap(),
        }
    }

    fn file(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }
}

fn maps(server: &std::sync::Arc<ApiServer>) -> Api<ConfigMap> {
    let token = server.user_token("admin", &["system:masters"]);
    Api::namespaced(server.client(&token), "eventlab")
}

async fn make(server: &std::sync::Arc<ApiServer>, name: &str) -> ConfigMap {
    let map = object(json!({"metadata": {"name": name}, "data": {"k": name}}));
    maps(server)
        .create(&PostParams::default(), &map)
        .await
        .unwrap()
}

async fn names(server: &std::sync::Arc<ApiServer>) -> Vec<String> {
    let list = maps(server).list(&ListParams::default()).await.unwrap();
    list.into_iter()
        .filter_map(|map| map.metadata.name)
        .collect()
}

async fn version(server: &std::sync::Arc<ApiServer>) -> u64 {
    let list = maps(server).list(&ListParams::default()).await.unwrap();
    list.metadata.resource_version.unwrap().parse().unwrap()
}

#[tokio::test]
async fn a_restart_keeps_objects_versions_and_tokens() {
    let home = Home::new();
    let server = open(&home.file("cluster.db")).unwrap();
    let made = make(&server, "a").await;
    make(&server, "gone").await;
    maps(&server)
        .delete("gone", &DeleteParams::default())
        .await
        .unwrap();
    let (before, token) = (
        version(&server).await,
        server.service_account_token("eventlab", "default"),
    );
    server.close();
    let server = open(&home.file("cluster.db")).unwrap();
    assert_eq!(version(&server).await, before);
    let kept = maps(&server).get("a").await.unwrap();
    assert_eq!(kept, made);
    assert_eq!(names(&server).await, ["a"]);
    // A stranger to this cluster would be 401; a known account without rights is 403.
    let accounts: Api<ServiceAccount> = Api::namespaced(server.client(&token), "eventlab");
    let error = accounts.list(&ListParams::default()).await.unwrap_err();
    assert!(
        matches!(error, kube::Error::Api(ref status) if status.code == 403),
        "{error}"
    );
    let old = made.metadata.resource_version.unwrap();
    let events = maps(&server)
        .watch(&WatchParams::default(), &old)
        .await
        .unwrap();
    let first = events.try_collect::<Vec<_>>().await.unwrap();
    assert!(matches!(&first[..], [WatchEvent::Error(status)] if status.code == 410));
}

#[tokio::test]
async fn a_rewind_puts_objects_back_and_versions_go_on() {
    let home = Home::new();
    let server = open(&home.file("cluster.db")).unwrap();
    let kept = make(&server, "kept").await;
    server.snapshot(&home.file("stage")).unwrap();
    assert!(server.snapshot(&home.file("stage")).is_err());
    make(&server, "later").await;
    maps(&server)
        .delete("kept", &DeleteParams::default())
        .await
        .unwrap();
    let before = version(&server).await;
    let events = maps(&server)
        .watch(&WatchParams::default(), &before.to_string())
        .await
        .unwrap();
    server.restore(&home.file("stage")).unwrap();
    let told = events.try_collect::<Vec<_>>().await.unwrap();
    assert!(matches!(&told[..], [WatchEvent::Error(status)] if status.code == 410));
    assert_eq!(names(&server).await, ["kept"]);
    assert_eq!(maps(&server).get("kept").await.unwrap(), kept);
    let after: u64 = make(&server, "new")
        .await
        .metadata
        .resource_version
        .unwrap()
        .parse()
        .unwrap();
    assert!(after > before);
    server.close();
    let server = open(&home.file("cluster.db")).unwrap();
    assert_eq!(names(&server).await, ["kept", "new"]);
    // A snapshot is a database of its own, too.
    let copy = open(&home.file("stage")).unwrap();
    assert_eq!(names(&copy).await, ["kept"]);
}

#[tokio::test]
async fn rights_follow_a_rewind() {
    let home = Home::new();
    let server = open(&home.file("cluster.db")).unwrap();
    server.snapshot(&home.file("stage")).unwrap();
    let admin = server.user_token("admin", &["system:masters"]);
    let roles: Api<k8s_openapi::api::rbac::v1::RoleBinding> =
        Api::namespaced(server.client(&admin), "eventlab");
    let binding = object(json!({
        "metadata": {"name": "b"}, "subjects": [{"kind": "User", "name": "ann"}],
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "view"},
    }));
    roles
        .create(&PostParams::default(), &binding)
        .await
        .unwrap();
    let ann = server.client(&server.user_token("ann", &[]));
    let maps: Api<ConfigMap> = Api::namespaced(ann, "eventlab");
    assert!(maps.list(&ListParams::default()).await.is_ok());
    server.restore(&home.file("stage")).unwrap();
    assert!(maps.list(&ListParams::default()).await.is_err());
}

#[tokio::test]
async fn a_snapshot_that_is_not_one_changes_nothing() {
    let home = Home::new();
    let server = open(&home.file("cluster.db")).unwrap();
    make(&server, "a").await;
    std::fs::write(
        home.file("junk"),
        "this is no database, whatever its name says",
    )
    .unwrap();
    assert!(matches!(
        server.restore(&home.file("junk")),
        Err(OpenError::Foreign { .. })
    ));
    assert!(matches!(
        server.restore(&home.file("missing")),
        Err(OpenError::Unreachable { .. })
    ));
    assert_eq!(names(&server).await, ["a"]);
}

#[tokio::test]
async fn two_servers_do_not_share_a_file() {
    let home = Home::new();
    let server = open(&home.file("cluster.db")).unwrap();
    let error = open(&home.file("cluster.db")).unwrap_err();
    assert!(matches!(error, OpenError::Locked { .. }), "{error}");
    assert!(error.to_string().contains("cluster.db"));
    make(&server, "still-writable").await;
}

/// A file that is refused keeps every byte.
fn assert_refused(path: &std::path::Path) -> OpenError {
    let before = std::fs::read(path).unwrap();
    let error = open(path).unwrap_err();
    assert_eq!(std::fs::read(path).unwrap(), before, "{error}");
    assert!(
        error.to_string().contains(&path.display().to_string()),
        "{error}"
    );
    error
}

#[tokio::test]
async fn damaged_and_foreign_files_are_refused_and_left_alone() {
    let home = Home::new();
    let path = home.file("cluster.db");
    let server = open(&path).unwrap();
    for index in 0..50 {
        make(&server, &format!("m{index}")).await;
    }
    server.close();
    let good = std::fs::read(&path).unwrap();
    let mut bad = good.clone();
    for byte in bad.iter_mut().skip(8192).take(20_000) {
        *byte = 0xa5;
    }
    std::fs::write(&path, &bad).unwrap();
    assert!(matches!(assert_refused(&path), OpenError::Damaged { .. }));
    std::fs::write(&path, &good[..good.len() / 2]).unwrap();
    let error = assert_refused(&path);
    assert!(matches!(error, OpenError::Damaged { .. }), "{error:?}");
    std::fs::write(&path, "notes of mine, in the wrong place").unwrap();
    assert!(matches!(assert_refused(&path), OpenError::Foreign { .. }));
    std::fs::remove_file(&path).unwrap();
    rusqlite::Connection::open(&path)
        .unwrap()
        .execute_batch("CREATE TABLE mine(x); INSERT INTO mine VALUES (1)")
        .unwrap();
    assert!(matches!(assert_refused(&path), OpenError::Foreign { .. }));
    std::fs::write(&path, &good).unwrap();
    rusqlite::Connection::open(&path)
        .unwrap()
        .execute_batch("PRAGMA user_version = 99")
        .unwrap();
    assert!(matches!(
        assert_refused(&path),
        OpenError::Newer { found: 99, .. }
    ));
    std::fs::write(&path, &good).unwrap();
    rusqlite::Connection::open(&path)
        .unwrap()
        .execute_batch("UPDATE objects SET json = x'6e6f' WHERE id = 3")
        .unwrap();
    assert!(matches!(assert_refused(&path), OpenError::Damaged { .. }));
    let error = open(&home.file("no/such/directory/cluster.db")).unwrap_err();
    assert!(matches!(error, OpenError::Unreachable { .. }), "{error}");
    std::fs::write(&path, &good).unwrap();
    assert_eq!(names(&open(&path).unwrap()).await.len(), 50);
}

#[tokio::test]
async fn a_log_left_by_a_crash_is_taken_in_or_left_alone() {
    let home = Home::new();
    let server = open(&home.file("cluster.db")).unwrap();
    for index in 0..50 {
        make(&server, &format!("m{index}")).await;
    }
    // What a kill leaves behind: the file and its log as they are at this moment.
    let file = std::fs::read(home.file("cluster.db")).unwrap();
    let log = std::fs::read(home.file("cluster.db-wal")).unwrap();
    server.close();
    let after_crash = Home::new();
    std::fs::write(after_crash.file("cluster.db"), &file).unwrap();
    std::fs::write(after_crash.file("cluster.db-wal"), &log).unwrap();
    let server = open(&after_crash.file("cluster.db")).unwrap();
    assert_eq!(names(&server).await.len(), 50);
    server.close();
    let foreign = Home::new();
    let other = rusqlite::Connection::open(foreign.file("cluster.db")).unwrap();
    other
        .execute_batch(
            "PRAGMA journal_mode = WAL; CREATE TABLE mine(x); INSERT INTO mine VALUES (1)",
        )
        .unwrap();
    let before = std::fs::read(foreign.file("cluster.db-wal")).unwrap();
    assert!(matches!(
        assert_refused(&foreign.file("cluster.db")),
        OpenError::Foreign { .. }
    ));
    assert_eq!(
        std::fs::read(foreign.file("cluster.db-wal")).unwrap(),
        before
    );
}

#[test]
fn the_file_is_for_its_owner_alone() {
    use std::os::unix::fs::PermissionsExt;
    let home = Home::new();
    let server = open(&home.file("cluster.db")).unwrap();
    server.snapshot(&home.file("stage")).unwrap();
    for name in ["cluster.db", "stage"] {
        let mode = std::fs::metadata(home.file(name))
            .unwrap()
            .permissions()
            .mode();
        assert_eq!(mode & 0o777, 0o600, "{name}");
    }
}
