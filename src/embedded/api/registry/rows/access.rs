//! Rows of roles and bindings, and of the kinds that are questions.

use k8s_openapi::api;

use super::{CREATE, built_in, typed};
use crate::embedded::api::registry::{Decode, Kind, Storage};

const fn rbac(
    kind: &'static str,
    plural: &'static str,
    singular: &'static str,
    decode: Decode,
) -> Kind {
    built_in(
        "rbac.authorization.k8s.io",
        "v1",
        kind,
        plural,
        singular,
        decode,
    )
}

const fn review(
    group: &'static str,
    kind: &'static str,
    plural: &'static str,
    singular: &'static str,
    decode: Decode,
) -> Kind {
    Kind {
        verbs: CREATE,
        storage: Storage::Virtual,
        namespaced: false,
        ..built_in(group, "v1", kind, plural, singular, decode)
    }
}

pub(super) fn rbac_rows() -> Vec<Kind> {
    use api::rbac::v1 as types;
    vec![
        Kind {
            namespaced: false,
            ..rbac(
                "ClusterRoleBinding",
                "clusterrolebindings",
                "clusterrolebinding",
                typed::<types::ClusterRoleBinding>,
            )
        },
        Kind {
            namespaced: false,
            ..rbac(
                "ClusterRole",
                "clusterroles",
                "clusterrole",
                typed::<types::ClusterRole>,
            )
        },
        rbac(
            "RoleBinding",
            "rolebindings",
            "rolebinding",
            typed::<types::RoleBinding>,
        ),
        rbac("Role", "roles", "role", typed::<types::Role>),
    ]
}

pub(super) fn review_rows() -> Vec<Kind> {
    use api::{authentication, authorization};
    const AUTHN: &str = "authentication.k8s.io";
    const AUTHZ: &str = "authorization.k8s.io";
    vec![
        review(
            AUTHN,
            "SelfSubjectReview",
            "selfsubjectreviews",
            "selfsubjectreview",
            typed::<authentication::v1::SelfSubjectReview>,
        ),
        review(
            AUTHN,
            "TokenReview",
            "tokenreviews",
            "tokenreview",
            typed::<authentication::v1::TokenReview>,
        ),
        Kind {
            namespaced: true,
            ..review(
                AUTHZ,
                "LocalSubjectAccessReview",
                "localsubjectaccessreviews",
                "localsubjectaccessreview",
                typed::<authorization::v1::LocalSubjectAccessReview>,
            )
        },
        review(
            AUTHZ,
            "SelfSubjectAccessReview",
            "selfsubjectaccessreviews",
            "selfsubjectaccessreview",
            typed::<authorization::v1::SelfSubjectAccessReview>,
        ),
        review(
            AUTHZ,
            "SelfSubjectRulesReview",
            "selfsubjectrulesreviews",
            "selfsubjectrulesreview",
            typed::<authorization::v1::SelfSubjectRulesReview>,
        ),
        review(
            AUTHZ,
            "SubjectAccessReview",
            "subjectaccessreviews",
            "subjectaccessreview",
            typed::<authorization::v1::SubjectAccessReview>,
        ),
    ]
}
