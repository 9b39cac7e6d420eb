//! The shape of bearer tokens: JSON Web Tokens signed with HMAC-SHA256 (RFC 7515, RFC 7519).
//!
//! Only this signature and header are accepted; there is no algorithm to choose.

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use ring::hmac;
use serde::{Deserialize, Serialize};

/// Longer tokens are refused unread, in bytes.
pub(super) const MAX_LENGTH: usize = 16 * 1024;

const HEADER: &str = r#"{"alg":"HS256","typ":"JWT"}"#;

/// The claims of a token, named as kube-apiserver names them.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Claims {
    pub iss: String,
    pub sub: String,
    pub aud: Vec<String>,
    pub jti: String,
    /// Seconds since 1970, as the others.
    pub iat: i64,
    pub nbf: i64,
    /// Never expires when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub exp: Option<i64>,
    /// Groups of an ordinary user.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub groups: Vec<String>,
    /// What a service account token is bound to.
    #[serde(
        rename = "kubernetes.io",
        default,
        skip_serializing_if = "Option::is_none"
    )]
    pub kubernetes: Option<Bound>,
}

/// The claim `kubernetes.io`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Bound {
    pub namespace: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pod: Option<Reference>,
    pub serviceaccount: Reference,
}

/// A name and the uid it had.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Reference {
    pub name: String,
    pub uid: String,
}

/// Signs `claims`; `None` only if they cannot be written as JSON, which these types always can.
pub(super) fn sign(key: &hmac::Key, claims: &Claims) -> Option<String> {
    let payload = serde_json::to_vec(claims).ok()?;
    let mut token = format!(
        "{}.{}",
        URL_SAFE_NO_PAD.encode(HEADER),
        URL_SAFE_NO_PAD.encode(payload)
    );
    let tag = hmac::sign(key, token.as_bytes());
    token.push('.');
    token.push_str(&URL_SAFE_NO_PAD.encode(tag));
    Some(token)
}

/// The claims of `token` if this key signed it. The signature is compared in constant time, before anything is parsed.
pub(super) fn verify(key: &hmac::Key, token: &str) -> Option<Claims> {
    if token.len() > MAX_LENGTH {
        return None;
    }
    let (signed, tag) = token.rsplit_once('.')?;
    let tag = URL_SAFE_NO_PAD.decode(tag).ok()?;
    hmac::verify(key, signed.as_bytes(), &tag).ok()?;
    let (_, payload) = signed.split_once('.')?;
    serde_json::from_slice(&URL_SAFE_NO_PAD.decode(payload).ok()?).ok()
}
