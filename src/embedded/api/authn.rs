//! Who is asking: bearer tokens, the anonymous user, and impersonation.
//!
//! From above: one [`Authenticator`] per API server issues tokens and reads them back from request headers;
//! [`impersonate`] then applies the `Impersonate-*` headers.

mod impersonation;

use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, Mutex, PoisonError};

use http::HeaderMap;
use http::header::AUTHORIZATION;
use jiff::{SignedDuration, Timestamp};
use kube::core::Status;
use ring::{digest, hmac};

use super::attributes::User;
use super::token::{self, Bound, Claims, Reference};

pub use impersonation::impersonate;

/// Every authenticated user is in this group.
pub const AUTHENTICATED: &str = "system:authenticated";
/// The group of requests without credentials.
pub const UNAUTHENTICATED: &str = "system:unauthenticated";
/// The name of requests without credentials.
pub const ANONYMOUS: &str = "system:anonymous";
/// Issuer of service account tokens, and the audience they need to be accepted here.
pub const ISSUER: &str = "https://kubernetes.default.svc.cluster.local";

/// Tokens whose claims are remembered; beyond that the memory is emptied.
const MAX_CACHED: usize = 4096;

/// Tells the time; injected so that tests can move it.
pub type Clock = Arc<dyn Fn() -> Timestamp + Send + Sync>;

/// The present uid of an object, by bucket, namespace and name, if it exists.
pub type Present<'a> = &'a dyn Fn(&str, &str, &str) -> Option<String>;

/// The credentials were there, but they are no good (401).
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("Unauthorized")]
pub struct Unauthorized;

impl Unauthorized {
    /// The Status of the answer.
    #[must_use]
    pub fn status(self) -> Status {
        Status::failure("Unauthorized", "Unauthorized").with_code(401)
    }
}

/// Why a token is refused where its audience is asked for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// As [`Unauthorized`].
    Invalid,
    /// It is meant for these audiences only.
    Audience(Vec<String>),
}

impl From<Unauthorized> for Refusal {
    fn from(_: Unauthorized) -> Self {
        Refusal::Invalid
    }
}

/// The pod that a token is made for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PodBinding {
    pub name: String,
    pub uid: String,
}

/// A new token and when it ends.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct IssuedToken {
    pub token: String,
    pub expires: Timestamp,
}

/// Issues and checks bearer tokens with one signing key.
pub struct Authenticator {
    key: hmac::Key,
    now: Clock,
    /// By SHA-256 of the token, so that a lookup tells nothing about a token's bytes.
    cache: Mutex<HashMap<[u8; 32], Arc<Claims>>>,
}

impl std::fmt::Debug for Authenticator {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Authenticator")
    }
}

impl Authenticator {
    /// Uses `signing_key` (32 random bytes or more) and the system's clock.
    #[must_use]
    pub fn new(signing_key: &[u8]) -> Authenticator {
        Authenticator::with_clock(signing_key, Arc::new(Timestamp::now))
    }

    /// As [`Authenticator::new`], with a clock of the caller's.
    #[must_use]
    pub fn with_clock(signing_key: &[u8], now: Clock) -> Authenticator {
        let key = hmac::Key::new(hmac::HMAC_SHA256, signing_key);
        Authenticator {
            key,
            now,
            cache: Mutex::default(),
        }
    }

    /// The caller of a request. Without a bearer token it is anonymous; a wrong token is refused, never anonymous.
    ///
    /// # Errors
    /// A token that is malformed, signed by another key, expired, for another audience, or of a service account or for a
    /// pod that is gone or was made anew since.
    pub fn authenticate(
        &self,
        headers: &HeaderMap,
        present: Present<'_>,
    ) -> Result<User, Unauthorized> {
        match bearer_token(headers) {
            None => Ok(anonymous()),
            Some(token) => self.authenticate_token(&token, present),
        }
    }

    /// The user of one bearer token.
    ///
    /// `nbf` is written and not checked: a signature of this key says that this server has issued the token before now, by
    /// the clock of this very machine, so that an `nbf` that is still to come only tells that the clock was set back. An API
    /// server checks it because tokens reach it from servers with clocks of their own.
    ///
    /// # Errors
    /// As [`Authenticator::authenticate`].
    pub fn authenticate_token(
        &self,
        token: &str,
        present: Present<'_>,
    ) -> Result<User, Unauthorized> {
        let here = [ISSUER.to_owned()];
        let authenticated = self.authenticate_for(token, &here, present);
        authenticated
            .map(|(user, _)| user)
            .map_err(|_| Unauthorized)
    }

    /// The user of a token that is meant for one of these audiences, and those that it is meant for.
    ///
    /// # Errors
    /// As [`Authenticator::authenticate_token`].
    pub fn authenticate_for(
        &self,
        token: &str,
        audiences: &[String],
        present: Present<'_>,
    ) -> Result<(User, Vec<String>), Refusal> {
        let claims = self.claims(token)?;
        let now = (self.now)().as_second();
        if claims.exp.is_some_and(|end| now >= end) {
            return Err(Refusal::Invalid);
        }
        let meant = audiences.iter().filter(|one| claims.aud.contains(one));
        let meant: Vec<String> = meant.cloned().collect();
        if meant.is_empty() {
            return Err(Refusal::Audience(claims.aud.clone()));
        }
        let user = match &claims.kubernetes {
            None => ordinary_user(&claims),
            Some(bound) => service_account_user(&claims, bound, present)?,
        };
        Ok((user, meant))
    }

    fn claims(&self, token: &str) -> Result<Arc<Claims>, Unauthorized> {
        if token.len() > token::MAX_LENGTH {
            return Err(Unauthorized);
        }
        let mut fingerprint = [0u8; 32];
        fingerprint.copy_from_slice(digest::digest(&digest::SHA256, token.as_bytes()).as_ref());
        if let Some(claims) = self.cached().get(&fingerprint) {
            return Ok(claims.clone());
        }
        let claims = Arc::new(token::verify(&self.key, token).ok_or(Unauthorized)?);
        let mut cache = self.cached();
        if cache.len() >= MAX_CACHED {
            cache.clear();
        }
        cache.insert(fingerprint, claims.clone());
        Ok(claims)
    }

    fn cached(&self) -> std::sync::MutexGuard<'_, HashMap<[u8; 32], Arc<Claims>>> {
        self.cache.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A token for a service account, as TokenRequest issues it.
    ///
    /// `uid` binds it to the present account of that name; an empty one follows the name through a delete and a
    /// create. `audience` empty means this API server; a token for others only is not accepted here.
    #[must_use]
    pub fn issue_service_account(
        &self,
        namespace: &str,
        name: &str,
        uid: &str,
        audience: &[String],
        lifetime: SignedDuration,
        pod: Option<&PodBinding>,
    ) -> IssuedToken {
        let now = (self.now)();
        let expires = now.saturating_add(lifetime).unwrap_or(Timestamp::MAX);
        let claims = Claims {
            exp: Some(expires.as_second()),
            aud: if audience.is_empty() {
                vec![ISSUER.to_owned()]
            } else {
                audience.to_vec()
            },
            kubernetes: Some(Bound {
                namespace: namespace.to_owned(),
                pod: pod.map(|pod| Reference {
                    name: pod.name.clone(),
                    uid: pod.uid.clone(),
                }),
                serviceaccount: Reference {
                    name: name.to_owned(),
                    uid: uid.to_owned(),
                },
            }),
            ..claims(service_account_user_name(namespace, name), now)
        };
        let expires = Timestamp::from_second(expires.as_second()).unwrap_or(expires);
        IssuedToken {
            token: token::sign(&self.key, &claims).unwrap_or_default(),
            expires,
        }
    }

    /// A token without an end for an ordinary user; `system:authenticated` is added to its groups.
    #[must_use]
    pub fn issue_user(&self, name: &str, groups: &[&str]) -> String {
        let groups = groups.iter().map(|&group| group.to_owned()).collect();
        let claims = Claims {
            groups,
            ..claims(name.to_owned(), (self.now)())
        };
        token::sign(&self.key, &claims).unwrap_or_default()
    }
}

fn claims(sub: String, now: Timestamp) -> Claims {
    Claims {
        iss: ISSUER.to_owned(),
        sub,
        aud: vec![ISSUER.to_owned()],
        jti: uuid::Uuid::new_v4().to_string(),
        iat: now.as_second(),
        nbf: now.as_second(),
        exp: None,
        groups: Vec::new(),
        kubernetes: None,
    }
}

/// The token of `Authorization: Bearer TOKEN`; other schemes and empty tokens count as no credentials.
fn bearer_token(headers: &HeaderMap) -> Option<String> {
    let value = headers.get(AUTHORIZATION)?;
    let text = String::from_utf8_lossy(value.as_bytes());
    let mut words = text.trim().splitn(3, ' ');
    let is_bearer = words.next()?.eq_ignore_ascii_case("bearer");
    let token = words.next()?;
    (is_bearer && !token.is_empty()).then(|| token.to_owned())
}

/// The user of a request without credentials.
#[must_use]
pub fn anonymous() -> User {
    User {
        name: ANONYMOUS.to_owned(),
        groups: vec![UNAUTHENTICATED.to_owned()],
        ..User::default()
    }
}

/// `system:serviceaccount:NAMESPACE:NAME`.
#[must_use]
pub fn service_account_user_name(namespace: &str, name: &str) -> String {
    format!("system:serviceaccount:{namespace}:{name}")
}

/// The groups of every service account of `namespace`, without `system:authenticated`.
#[must_use]
pub fn service_account_groups(namespace: &str) -> Vec<String> {
    vec![
        "system:serviceaccounts".to_owned(),
        format!("system:serviceaccounts:{namespace}"),
    ]
}

fn ordinary_user(claims: &Claims) -> User {
    let mut groups = claims.groups.clone();
    if !groups.iter().any(|group| group == AUTHENTICATED) {
        groups.push(AUTHENTICATED.to_owned());
    }
    User {
        name: claims.sub.clone(),
        groups,
        extra: credential_id(claims),
        ..User::default()
    }
}

fn service_account_user(
    claims: &Claims,
    bound: &Bound,
    present: Present<'_>,
) -> Result<User, Unauthorized> {
    let account = &bound.serviceaccount;
    let uid = |bucket, name| present(bucket, &bound.namespace, name).ok_or(Unauthorized);
    if let Some(pod) = &bound.pod
        && uid("pods", &pod.name)? != pod.uid
    {
        return Err(Unauthorized);
    }
    let uid = uid("serviceaccounts", &account.name)?;
    if !account.uid.is_empty() && account.uid != uid {
        return Err(Unauthorized);
    }
    let mut groups = service_account_groups(&bound.namespace);
    groups.push(AUTHENTICATED.to_owned());
    let mut extra = credential_id(claims);
    if let Some(pod) = &bound.pod {
        extra.insert(
            "authentication.kubernetes.io/pod-name".to_owned(),
            vec![pod.name.clone()],
        );
        extra.insert(
            "authentication.kubernetes.io/pod-uid".to_owned(),
            vec![pod.uid.clone()],
        );
    }
    Ok(User {
        name: service_account_user_name(&bound.namespace, &account.name),
        uid,
        groups,
        extra,
    })
}

fn credential_id(claims: &Claims) -> BTreeMap<String, Vec<String>> {
    let id = vec![format!("JTI={}", claims.jti)];
    BTreeMap::from([("authentication.kubernetes.io/credential-id".to_owned(), id)])
}

#[cfg(test)]
mod tests;
