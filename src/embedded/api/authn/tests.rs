use std::sync::atomic::{AtomicI64, Ordering};

use http::HeaderValue;
use proptest::prelude::*;
use serde_json::json;

use super::*;
use crate::embedded::api::rbac::Policy;

const KEY: &[u8] = b"an unguessable key of some thirty-two bytes";

fn uid_of(bucket: &str, namespace: &str, name: &str) -> Option<String> {
    let uid = match (bucket, namespace, name) {
        ("serviceaccounts", "lab", "worker") => "uid-1",
        ("pods", "lab", "p") => "pod-uid",
        _ => return None,
    };
    Some(uid.to_owned())
}

fn headers(authorization: &str) -> HeaderMap {
    let mut headers = HeaderMap::new();
    headers.insert(
        AUTHORIZATION,
        HeaderValue::from_bytes(authorization.as_bytes()).unwrap(),
    );
    headers
}

fn worker(authenticator: &Authenticator, uid: &str, audience: &[String]) -> IssuedToken {
    let pod = PodBinding {
        name: "p".into(),
        uid: "pod-uid".into(),
    };
    authenticator.issue_service_account(
        "lab",
        "worker",
        uid,
        audience,
        SignedDuration::from_hours(1),
        Some(&pod),
    )
}

#[test]
fn a_service_account_token_names_account_groups_and_pod() {
    let authenticator = Authenticator::new(KEY);
    let issued = worker(&authenticator, "uid-1", &[]);
    let user = authenticator
        .authenticate(&headers(&format!("Bearer {}", issued.token)), &uid_of)
        .unwrap();
    assert_eq!(user.name, "system:serviceaccount:lab:worker");
    assert_eq!(user.uid, "uid-1");
    assert_eq!(
        user.groups,
        [
            "system:serviceaccounts",
            "system:serviceaccounts:lab",
            "system:authenticated"
        ]
    );
    assert_eq!(user.extra["authentication.kubernetes.io/pod-name"], ["p"]);
    assert!(user.extra["authentication.kubernetes.io/credential-id"][0].starts_with("JTI="));
}

#[test]
fn an_ordinary_user_keeps_groups_and_gets_authenticated() {
    let authenticator = Authenticator::new(KEY);
    let token = authenticator.issue_user("admin", &["system:masters"]);
    let user = authenticator
        .authenticate(&headers(&format!("bearer {token}")), &uid_of)
        .unwrap();
    assert_eq!(
        (user.name.as_str(), user.groups),
        (
            "admin",
            vec!["system:masters".into(), "system:authenticated".into()]
        )
    );
}

#[test]
fn no_credentials_are_anonymous() {
    let authenticator = Authenticator::new(KEY);
    for authorization in ["", "Basic YTpi", "Bearer", "Bearer ", "token"] {
        assert_eq!(
            authenticator.authenticate(&headers(authorization), &uid_of),
            Ok(anonymous()),
            "{authorization:?}"
        );
    }
    assert_eq!(
        authenticator.authenticate(&HeaderMap::new(), &uid_of),
        Ok(anonymous())
    );
    assert_eq!(anonymous().groups, ["system:unauthenticated"]);
}

#[test]
fn a_wrong_token_is_refused() {
    let authenticator = Authenticator::new(KEY);
    let foreign = worker(&Authenticator::new(b"another key"), "uid-1", &[]).token;
    let gone = authenticator
        .issue_service_account(
            "lab",
            "ghost",
            "u",
            &[],
            SignedDuration::from_hours(1),
            None,
        )
        .token;
    let before = worker(&authenticator, "uid-0", &[]).token;
    let elsewhere = worker(&authenticator, "uid-1", &["vault".into()]).token;
    let hour = SignedDuration::from_hours(1);
    let [earlier, missing] = [("p", "uid-0"), ("q", "pod-uid")].map(|(name, uid)| {
        let (name, uid) = (name.to_owned(), uid.to_owned());
        let pod = PodBinding { name, uid };
        let issued =
            authenticator.issue_service_account("lab", "worker", "uid-1", &[], hour, Some(&pod));
        issued.token
    });
    for token in [
        "x",
        "a.b.c",
        "..",
        &foreign,
        &gone,
        &before,
        &elsewhere,
        &earlier,
        &missing,
        &"y".repeat(100_000),
    ] {
        assert_eq!(
            authenticator.authenticate(&headers(&format!("Bearer {token}")), &uid_of),
            Err(Unauthorized)
        );
    }
    assert_eq!(Unauthorized.status().code, 401);
}

#[test]
fn an_unbound_token_follows_the_name() {
    let authenticator = Authenticator::new(KEY);
    let token = worker(&authenticator, "", &[]).token;
    assert_eq!(
        authenticator
            .authenticate_token(&token, &uid_of)
            .unwrap()
            .uid,
        "uid-1"
    );
}

#[test]
fn tokens_end_by_the_injected_clock_also_when_remembered() {
    let seconds = Arc::new(AtomicI64::new(1_000_000));
    let clock = seconds.clone();
    let now = move || Timestamp::from_second(clock.load(Ordering::Relaxed)).unwrap();
    let authenticator = Authenticator::with_clock(KEY, Arc::new(now));
    let issued = worker(&authenticator, "uid-1", &[]);
    assert_eq!(issued.expires.as_second(), 1_003_600);
    for (at, valid) in [
        (1_000_000, true),
        (1_003_599, true),
        (1_003_600, false),
        // The clock was set back: this server has issued it all the same.
        (999_999, true),
        (0, true),
        (1_000_001, true),
    ] {
        seconds.store(at, Ordering::Relaxed);
        assert_eq!(
            authenticator
                .authenticate_token(&issued.token, &uid_of)
                .is_ok(),
            valid,
            "{at}"
        );
    }
}

/// A clock may be set by years: what this server gave to its own controllers and pods stays good.
#[test]
fn no_jump_of_the_clock_ends_what_the_cluster_runs_on() {
    let seconds = Arc::new(AtomicI64::new(1_000_000));
    let clock = seconds.clone();
    let now = move || Timestamp::from_second(clock.load(Ordering::Relaxed)).unwrap();
    let authenticator = Authenticator::with_clock(KEY, Arc::new(now));
    let pod = SignedDuration::from_secs(1 << 32);
    let tokens = [
        authenticator.issue_user("admin", &["system:masters"]),
        authenticator
            .issue_service_account("lab", "worker", "", &[], SignedDuration::MAX, None)
            .token,
        authenticator
            .issue_service_account("lab", "worker", "uid-1", &[], pod, None)
            .token,
    ];
    let (hour, year) = (3_600, 365 * 24 * 3_600);
    for jump in [0, -120, -hour, -1_000_000, hour, 2 * year, 60 * year] {
        seconds.store(1_000_000 + jump, Ordering::Relaxed);
        for token in &tokens {
            let known = authenticator.authenticate_token(token, &uid_of);
            assert!(known.is_ok(), "{jump}");
        }
    }
}

#[test]
fn an_absurd_lifetime_does_not_overflow() {
    let authenticator = Authenticator::new(KEY);
    let issued = authenticator.issue_service_account(
        "lab",
        "worker",
        "uid-1",
        &[],
        SignedDuration::MAX,
        None,
    );
    assert!(
        authenticator
            .authenticate_token(&issued.token, &uid_of)
            .is_ok()
    );
}

#[test]
fn the_memory_of_tokens_is_bounded() {
    let authenticator = Authenticator::new(KEY);
    for n in 0..MAX_CACHED + 10 {
        let token = authenticator.issue_user(&format!("u{n}"), &[]);
        assert!(authenticator.authenticate_token(&token, &uid_of).is_ok());
    }
    assert!(authenticator.cached().len() <= MAX_CACHED);
}

proptest! {
    #[test]
    fn no_changed_token_is_accepted(position in 0usize..2000, replacement in any::<char>(), cut in any::<bool>()) {
        let authenticator = Authenticator::new(KEY);
        let token = worker(&authenticator, "uid-1", &[]).token;
        let position = position % token.len();
        let mut changed = token[..position].to_owned();
        if !cut {
            changed.push(replacement);
            changed.push_str(&token[position + 1..]);
        }
        prop_assume!(changed != token);
        prop_assert_eq!(authenticator.authenticate_token(&changed, &uid_of), Err(Unauthorized));
        prop_assert!(authenticator.authenticate_token(&token, &uid_of).is_ok());
    }

    #[test]
    fn arbitrary_bytes_never_panic(bytes in prop::collection::vec(any::<u8>(), 0..300)) {
        let mut headers = HeaderMap::new();
        if let Ok(value) = HeaderValue::from_bytes(&[b"Bearer ", bytes.as_slice()].concat()) {
            headers.insert(AUTHORIZATION, value);
        }
        let _ = Authenticator::new(KEY).authenticate(&headers, &uid_of);
    }
}

mod impersonating {
    use super::*;

    fn policy(rules: serde_json::Value) -> Policy {
        Policy::new(&[
            json!({"kind": "ClusterRole", "metadata": {"name": "r"}, "rules": rules}),
            json!({"kind": "ClusterRoleBinding", "metadata": {"name": "b"},
                   "roleRef": {"kind": "ClusterRole", "name": "r"}, "subjects": [{"kind": "User", "name": "alice"}]}),
        ])
    }

    fn all() -> Policy {
        policy(json!([{"apiGroups": ["*"], "resources": ["*"], "verbs": ["impersonate"]}]))
    }

    fn act(policy: &Policy, pairs: &[(&'static str, &str)]) -> Result<User, Box<Status>> {
        let mut headers = HeaderMap::new();
        for (name, value) in pairs {
            headers.append(*name, HeaderValue::from_str(value).unwrap());
        }
        impersonate(
            User {
                name: "alice".into(),
                ..User::default()
            },
            &headers,
            policy,
        )
    }

    #[test]
    fn without_headers_the_user_stays() {
        assert_eq!(act(&Policy::default(), &[]).unwrap().name, "alice");
    }

    #[test]
    fn groups_are_completed_as_upstream_does() {
        let user = act(
            &all(),
            &[("Impersonate-User", "bob"), ("Impersonate-Group", "dev")],
        )
        .unwrap();
        assert_eq!(
            (user.name.as_str(), user.groups),
            ("bob", vec!["dev".to_owned(), "system:authenticated".into()])
        );
        let account = act(
            &all(),
            &[("Impersonate-User", "system:serviceaccount:lab:worker")],
        )
        .unwrap();
        assert_eq!(
            account.groups,
            [
                "system:serviceaccounts",
                "system:serviceaccounts:lab",
                "system:authenticated"
            ]
        );
        let nobody = act(&all(), &[("Impersonate-User", "system:anonymous")]).unwrap();
        assert_eq!(nobody.groups, ["system:unauthenticated"]);
    }

    #[test]
    fn uid_and_extra_travel_along() {
        let user = act(
            &all(),
            &[
                ("Impersonate-User", "bob"),
                ("Impersonate-Uid", "7"),
                ("Impersonate-Extra-acme.com%2Fproject", "x"),
                ("Impersonate-Extra-Scopes", "a"),
                ("Impersonate-Extra-Scopes", "b"),
            ],
        )
        .unwrap();
        assert_eq!(user.uid, "7");
        assert_eq!(user.extra["acme.com/project"], ["x"]);
        assert_eq!(user.extra["scopes"], ["a", "b"]);
    }

    #[test]
    fn each_part_needs_its_own_right() {
        let users_only =
            policy(json!([{"apiGroups": [""], "resources": ["users"], "verbs": ["impersonate"]}]));
        assert!(act(&users_only, &[("Impersonate-User", "bob")]).is_ok());
        let denied = act(
            &users_only,
            &[
                ("Impersonate-User", "bob"),
                ("Impersonate-Group", "system:masters"),
            ],
        )
        .unwrap_err();
        assert_eq!(
            denied.message,
            r#"groups "system:masters" is forbidden: User "alice" cannot impersonate resource "groups" in API group "" at the cluster scope"#
        );
        let account = act(
            &users_only,
            &[("Impersonate-User", "system:serviceaccount:lab:worker")],
        )
        .unwrap_err();
        assert_eq!(
            account.message,
            r#"serviceaccounts "worker" is forbidden: User "alice" cannot impersonate resource "serviceaccounts" in API group "" in the namespace "lab""#
        );
        let extra = act(
            &users_only,
            &[
                ("Impersonate-User", "bob"),
                ("Impersonate-Extra-Scopes", "a"),
            ],
        )
        .unwrap_err();
        assert!(
            extra
                .message
                .contains(r#"resource "userextras/scopes" in API group "authentication.k8s.io""#)
        );
    }

    #[test]
    fn a_group_alone_is_an_error() {
        assert_eq!(
            act(&all(), &[("Impersonate-Group", "dev")])
                .unwrap_err()
                .code,
            400
        );
    }
}
