//! What an API server said, or why nothing was heard of it, in one line and with the next step.

use std::error::Error;

use kube::client::AuthError;

use super::login::NotEnded;

/// What an API server said, or why nothing was heard of it, in one line and with the next step.
#[must_use]
pub fn told(error: &kube::Error) -> String {
    match error {
        kube::Error::Api(status) if status.code == 401 => format!(
            "{}: the login of the context is not taken, it may have run out; log in again (`kubectl auth whoami` says who you are), and start eventlab again if that does not help",
            status.message
        ),
        kube::Error::Api(status) if status.code == 403 => format!(
            "{}; ask whoever runs the cluster for that right (`eventlab doctor` names those that the labs take)",
            status.message
        ),
        kube::Error::Api(status) => told_status(status),
        kube::Error::Service(source) if login_of(source.as_ref()).is_none() => format!(
            "the API server does not answer ({}); once it does, the same command goes on where it was (`eventlab status`)",
            unanswered(error)
        ),
        kube::Error::Service(_) | kube::Error::Auth(_) => unanswered(error),
        error => format!(
            "{}; is the cluster there? (`eventlab status`)",
            unanswered(error)
        ),
    }
}

/// Why nothing was heard of an API server, down to the first cause.
#[must_use]
pub fn unanswered(error: &kube::Error) -> String {
    let first: &(dyn Error + 'static) = match error {
        kube::Error::Service(source) => source.as_ref(),
        kube::Error::Api(status) => return told_status(status),
        error => error,
    };
    if let Some(login) = login_of(first) {
        return login;
    }
    let text = causes(first);
    if text.contains("UnknownIssuer") {
        return format!(
            "{text}: the CA that the kubeconfig names for it has to be the one that signed the server's certificate (a proxy that opens TLS shows one of its own)"
        );
    }
    text
}

fn told_status(status: &kube::core::Status) -> String {
    match (status.code, status.message.as_str()) {
        (code, "") => format!("HTTP {code} {}", status.reason),
        (_, message) => message.to_owned(),
    }
}

/// An error with what it comes from, each said once.
fn causes(first: &(dyn Error + 'static)) -> String {
    let mut text = first.to_string();
    let mut next = first.source();
    while let Some(cause) = next {
        let said = cause.to_string();
        if !text.contains(&said) {
            text = format!("{text}: {said}");
        }
        next = cause.source();
    }
    text
}

/// Why the login program of the context (`exec` in the kubeconfig) gave no login, where that is what is lacking.
fn login_of(first: &(dyn Error + 'static)) -> Option<String> {
    let mut next = Some(first);
    while let Some(cause) = next {
        if let Some(error) = cause.downcast_ref::<AuthError>() {
            return Some(login(error));
        }
        if let Some(error) = cause.downcast_ref::<NotEnded>() {
            return Some(error.to_string());
        }
        next = cause.source();
    }
    None
}

fn login(error: &AuthError) -> String {
    match error {
        AuthError::AuthExecStart(error) => {
            format!("the context's login program cannot be started: {error}")
        }
        AuthError::AuthExecRun { out, .. } => {
            // What it wrote to the terminal was seen there.
            let said = String::from_utf8_lossy(&out.stderr);
            let said: String = said.trim().chars().take(400).collect();
            let said = if said.is_empty() {
                said
            } else {
                format!(": {said}")
            };
            format!(
                "the context's login program gave no login ({}){said}",
                out.status
            )
        }
        AuthError::AuthExecParse(_) => {
            "the context's login program wrote no ExecCredential to its standard output".to_owned()
        }
        error => causes(error),
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::process::ExitStatusExt as _;

    use super::*;

    #[derive(Debug, thiserror::Error)]
    #[error("client error (Connect)")]
    struct Outer(#[source] std::io::Error);

    fn service(cause: impl Into<Box<dyn Error + Send + Sync>>) -> kube::Error {
        kube::Error::Service(Box::new(Outer(std::io::Error::other(cause.into()))))
    }

    #[test]
    fn silence_is_told_with_its_first_cause() {
        let text = told(&service("connection refused"));
        assert!(text.contains("does not answer"), "{text}");
        assert!(text.contains("(Connect): connection refused"), "{text}");
        assert!(!text.contains("ServiceError"), "{text}");
        for (cause, signed) in [
            ("invalid peer certificate: UnknownIssuer", true),
            ("invalid peer certificate: certificate expired", false),
            ("failed to load client certificate", false),
        ] {
            let text = told(&service(cause));
            let of_ca = text.contains("the CA that the kubeconfig names");
            assert_eq!(of_ca, signed, "{text}");
        }
    }

    #[test]
    fn a_login_program_is_told_without_its_innards() {
        let ended = |stderr: &str| AuthError::AuthExecRun {
            cmd: "secret".into(),
            out: Box::new(std::process::Output {
                status: std::process::ExitStatus::from_raw(256),
                stdout: b"token".to_vec(),
                stderr: stderr.into(),
            }),
        };
        for error in [
            kube::Error::Auth(ended("run `aws sso login`\n")),
            kube::Error::Service(Box::new(ended("run `aws sso login`\n"))),
        ] {
            let text = told(&error);
            assert!(text.ends_with(": run `aws sso login`"), "{text}");
            assert!(
                !text.contains("token") && !text.contains("secret"),
                "{text}"
            );
            assert!(!text.contains("does not answer"), "{text}");
        }
        assert!(told(&kube::Error::Auth(ended(""))).ends_with("(exit status: 1)"));
    }
}
