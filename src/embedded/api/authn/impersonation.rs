//! `Impersonate-*` headers: acting as somebody else, for those with the verb `impersonate`.

use std::collections::BTreeMap;

use http::HeaderMap;
use kube::core::Status;

use super::{ANONYMOUS, AUTHENTICATED, UNAUTHENTICATED, service_account_groups};
use crate::embedded::api::attributes::{Attributes, ResourceAttributes, User};
use crate::embedded::api::go_text::quote;
use crate::embedded::api::rbac::{Policy, forbidden};

const USER: &str = "impersonate-user";
const GROUP: &str = "impersonate-group";
const UID: &str = "impersonate-uid";
const EXTRA: &str = "impersonate-extra-";
const AUTHENTICATION: &str = "authentication.k8s.io";

/// Headers beyond this number are refused rather than checked one by one.
const MAX_HEADERS: usize = 256;

/// What the headers of one request ask for.
#[derive(Default)]
struct Wanted {
    user: String,
    groups: Vec<String>,
    uid: String,
    extra: Vec<(String, String)>,
}

/// The user that a request acts as: the one its `Impersonate-*` headers name, or `user` itself without such headers.
///
/// # Errors
/// The Status to answer: 403 when `user` may not impersonate, 400 (as upstream) for a group, uid or extra without a user.
pub fn impersonate(user: User, headers: &HeaderMap, policy: &Policy) -> Result<User, Box<Status>> {
    let wanted = Wanted::read(headers)?;
    if wanted.user.is_empty() {
        return if wanted.is_empty() {
            Ok(user)
        } else {
            Err(without_user(wanted))
        };
    }
    for attributes in wanted.rights() {
        let attributes = Attributes::Resource(attributes);
        let verdict = policy.authorize(&user, &attributes);
        if !verdict.allowed {
            return Err(Box::new(forbidden(&user, &attributes, &verdict)));
        }
    }
    Ok(wanted.into_user())
}

/// Upstream prints the user as Go prints a struct.
fn without_user(wanted: Wanted) -> Box<Status> {
    let list = |all: &[String]| {
        let quoted: Vec<String> = all.iter().map(|one| quote(one)).collect();
        format!("[]string{{{}}}", quoted.join(", "))
    };
    let groups = if wanted.groups.is_empty() {
        "[]string(nil)".to_owned()
    } else {
        list(&wanted.groups)
    };
    let user = wanted.into_user();
    let extra: Vec<String> = user
        .extra
        .iter()
        .map(|(key, values)| format!("{}:{}", quote(key), list(values)))
        .collect();
    let extra = if extra.is_empty() {
        "map[string][]string(nil)".to_owned()
    } else {
        format!("map[string][]string{{{}}}", extra.join(", "))
    };
    let message = format!(
        "requested &user.DefaultInfo{{Name:\"\", UID:{}, Groups:{groups}, Extra:{extra}}} without impersonating a user name",
        quote(&user.uid)
    );
    Box::new(Status::failure(&message, "BadRequest").with_code(400))
}

fn internal_error(message: &str) -> Box<Status> {
    Box::new(Status::failure(message, "InternalError").with_code(500))
}

impl Wanted {
    fn read(headers: &HeaderMap) -> Result<Wanted, Box<Status>> {
        let mut wanted = Wanted::default();
        for (name, value) in headers {
            let value = || String::from_utf8_lossy(value.as_bytes()).into_owned();
            match name.as_str() {
                USER if wanted.user.is_empty() => wanted.user = value(),
                UID if wanted.uid.is_empty() => wanted.uid = value(),
                GROUP => wanted.groups.push(value()),
                other => {
                    if let Some(key) = other.strip_prefix(EXTRA) {
                        wanted.extra.push((unescape(key), value()));
                    }
                }
            }
            if wanted.groups.len() + wanted.extra.len() > MAX_HEADERS {
                return Err(internal_error(
                    "too many Impersonate-Group and Impersonate-Extra headers",
                ));
            }
        }
        Ok(wanted)
    }

    fn is_empty(&self) -> bool {
        self.user.is_empty()
            && self.groups.is_empty()
            && self.uid.is_empty()
            && self.extra.is_empty()
    }

    /// The rights that the real user needs, in the order upstream asks for them.
    fn rights(&self) -> Vec<ResourceAttributes> {
        let mut rights = Vec::new();
        match split_service_account(&self.user) {
            Some((namespace, name)) => {
                let right = right("", "serviceaccounts", name);
                rights.push(ResourceAttributes {
                    namespace: namespace.to_owned(),
                    ..right
                });
            }
            None => rights.push(right("", "users", &self.user)),
        }
        rights.extend(self.groups.iter().map(|group| right("", "groups", group)));
        rights.extend(self.extra.iter().map(|(key, value)| ResourceAttributes {
            subresource: key.clone(),
            ..right(AUTHENTICATION, "userextras", value)
        }));
        if !self.uid.is_empty() {
            rights.push(right(AUTHENTICATION, "uids", &self.uid));
        }
        rights
    }

    fn into_user(self) -> User {
        let mut groups = self.groups;
        if groups.is_empty()
            && let Some((namespace, _)) = split_service_account(&self.user)
        {
            groups = service_account_groups(namespace);
        }
        let has = |wanted: &str| groups.iter().any(|group| group == wanted);
        if self.user == ANONYMOUS {
            if !has(UNAUTHENTICATED) {
                groups.push(UNAUTHENTICATED.to_owned());
            }
        } else if !has(AUTHENTICATED) && !has(UNAUTHENTICATED) {
            groups.push(AUTHENTICATED.to_owned());
        }
        let mut extra: BTreeMap<String, Vec<String>> = BTreeMap::new();
        for (key, value) in self.extra {
            extra.entry(key).or_default().push(value);
        }
        User {
            name: self.user,
            uid: self.uid,
            groups,
            extra,
        }
    }
}

fn right(group: &str, resource: &str, name: &str) -> ResourceAttributes {
    ResourceAttributes {
        verb: "impersonate".to_owned(),
        group: group.to_owned(),
        version: "v1".to_owned(),
        resource: resource.to_owned(),
        name: name.to_owned(),
        ..ResourceAttributes::default()
    }
}

/// Namespace and name of a well-formed service account user name.
fn split_service_account(user: &str) -> Option<(&str, &str)> {
    let (namespace, name) = user
        .strip_prefix("system:serviceaccount:")?
        .split_once(':')?;
    let is_word = |text: &str, dots: bool| {
        let inner = |b: u8| {
            b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'-' || (dots && b == b'.')
        };
        let edge = |b: Option<&u8>| b.is_some_and(u8::is_ascii_alphanumeric);
        text.bytes().all(inner) && edge(text.as_bytes().first()) && edge(text.as_bytes().last())
    };
    (is_word(namespace, false) && is_word(name, true)).then_some((namespace, name))
}

/// Percent-decodes the key of an extra header; a key that does not decode stands for itself.
fn unescape(key: &str) -> String {
    let mut bytes = Vec::with_capacity(key.len());
    let mut rest = key.as_bytes();
    while let [first, tail @ ..] = rest {
        rest = tail;
        if *first != b'%' {
            bytes.push(*first);
            continue;
        }
        let Some((pair, tail)) = rest.split_at_checked(2) else {
            return key.to_owned();
        };
        let digits = std::str::from_utf8(pair)
            .ok()
            .filter(|pair| pair.bytes().all(|b| b.is_ascii_hexdigit()));
        let Some(byte) = digits.and_then(|digits| u8::from_str_radix(digits, 16).ok()) else {
            return key.to_owned();
        };
        bytes.push(byte);
        rest = tail;
    }
    String::from_utf8(bytes).unwrap_or_else(|_| key.to_owned())
}
