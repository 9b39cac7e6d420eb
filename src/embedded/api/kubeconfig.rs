//! The kubeconfig for `kubectl` and everything else that reads one: a user and a context per persona.

use std::io;
use std::path::{Path, PathBuf};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde::Serialize;

use super::private_file;
use super::rbac;
use super::server::ApiServer;
use crate::kinds::NAMESPACE;

/// Name of the cluster entry.
const CLUSTER: &str = "eventlab";

/// Somebody to act as; the context has the same name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Persona {
    pub name: String,
    pub token: String,
}

/// The personas of the lab: `admin` may do everything, `learner` works in the lab namespace, and the lab's two service
/// accounts show what their roles allow. They may do nothing until a lab gives them rights.
#[must_use]
pub fn personas(server: &ApiServer) -> Vec<Persona> {
    let user = |name: &str, groups: &[&str]| Persona {
        name: name.to_owned(),
        token: server.user_token(name, groups),
    };
    let account = |name: &str| Persona {
        name: name.to_owned(),
        token: server.service_account_token(NAMESPACE, name),
    };
    vec![
        user("admin", &[rbac::MASTERS]),
        user("learner", &[]),
        account("order-sensor"),
        account("order-runner"),
    ]
}

/// What goes into the file.
#[derive(Clone, Debug)]
pub struct Kubeconfig<'a> {
    /// `https://127.0.0.1:PORT`.
    pub server: &'a str,
    /// The authority's certificate.
    pub ca_pem: &'a str,
    /// Namespace of every context.
    pub namespace: &'a str,
    pub personas: &'a [Persona],
    /// The persona that `kubectl` is without `--context`.
    pub current: &'a str,
}

/// Why there is no kubeconfig.
#[derive(Debug, thiserror::Error)]
pub enum KubeconfigError {
    #[error("cannot put the kubeconfig into words: {0}")]
    Render(#[from] serde_yaml::Error),
    #[error(
        "cannot write the kubeconfig to {path}: {source}; {}",
        next_step(source)
    )]
    Write { path: PathBuf, source: io::Error },
}

fn next_step(error: &io::Error) -> &'static str {
    match error.kind() {
        io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded | io::ErrorKind::FileTooLarge => {
            "free some space and try again"
        }
        io::ErrorKind::IsADirectory => "move away what has this name",
        _ => "make its directory writable, or take another one with --state-dir DIR",
    }
}

#[derive(Serialize)]
#[serde(rename_all = "kebab-case")]
struct File<'a> {
    #[serde(rename = "apiVersion")]
    api_version: &'static str,
    kind: &'static str,
    clusters: [Named<'a, Cluster<'a>>; 1],
    users: Vec<Named<'a, User<'a>>>,
    contexts: Vec<Named<'a, Context<'a>>>,
    current_context: &'a str,
    preferences: std::collections::BTreeMap<String, String>,
}

/// `{name, cluster: …}` and the like: the body's key says what it is.
#[derive(Serialize)]
struct Named<'a, T> {
    name: &'a str,
    #[serde(flatten)]
    body: T,
}

#[derive(Serialize)]
#[serde(rename_all = "lowercase")]
enum Cluster<'a> {
    #[serde(rename_all = "kebab-case")]
    Cluster {
        certificate_authority_data: String,
        server: &'a str,
    },
}

#[derive(Serialize)]
#[serde(rename_all = "lowercase")]
enum User<'a> {
    User { token: &'a str },
}

#[derive(Serialize)]
#[serde(rename_all = "lowercase")]
enum Context<'a> {
    Context {
        cluster: &'static str,
        namespace: &'a str,
        user: &'a str,
    },
}

impl Kubeconfig<'_> {
    /// The file's text.
    ///
    /// # Errors
    /// It cannot be written as YAML, which these values always can.
    pub fn render(&self) -> Result<String, KubeconfigError> {
        let cluster = Cluster::Cluster {
            certificate_authority_data: STANDARD.encode(self.ca_pem),
            server: self.server,
        };
        let file = File {
            api_version: "v1",
            kind: "Config",
            clusters: [Named {
                name: CLUSTER,
                body: cluster,
            }],
            users: self
                .personas
                .iter()
                .map(|persona| Named {
                    name: &persona.name,
                    body: User::User {
                        token: &persona.token,
                    },
                })
                .collect(),
            contexts: self
                .personas
                .iter()
                .map(|persona| self.context(&persona.name))
                .collect(),
            current_context: self.current,
            preferences: Default::default(),
        };
        Ok(serde_yaml::to_string(&file)?)
    }

    fn context<'b>(&'b self, persona: &'b str) -> Named<'b, Context<'b>> {
        let body = Context::Context {
            cluster: CLUSTER,
            namespace: self.namespace,
            user: persona,
        };
        Named {
            name: persona,
            body,
        }
    }

    /// Writes the file for its owner alone, replacing an older one as a whole.
    ///
    /// # Errors
    /// The directory is not writable.
    pub fn write(&self, path: &Path) -> Result<(), KubeconfigError> {
        let text = self.render()?;
        private_file::replace(path, text.as_bytes()).map_err(|source| KubeconfigError::Write {
            path: path.to_owned(),
            source,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn personas() -> Vec<Persona> {
        ["admin", "learner"]
            .map(|name| Persona {
                name: name.into(),
                token: format!("{name}.token: \"x\""),
            })
            .into()
    }

    fn kubeconfig(personas: &[Persona]) -> Kubeconfig<'_> {
        Kubeconfig {
            server: "https://127.0.0.1:6443",
            ca_pem: "-----BEGIN CERTIFICATE-----\n",
            namespace: "eventlab",
            personas,
            current: "learner",
        }
    }

    #[test]
    fn clients_read_it() {
        let personas = personas();
        let read =
            kube::config::Kubeconfig::from_yaml(&kubeconfig(&personas).render().unwrap()).unwrap();
        assert_eq!(read.current_context.as_deref(), Some("learner"));
        let cluster = read.clusters[0].cluster.as_ref().unwrap();
        assert_eq!(read.clusters[0].name, "eventlab");
        assert_eq!(cluster.server.as_deref(), Some("https://127.0.0.1:6443"));
        let data = cluster.certificate_authority_data.as_deref().unwrap();
        assert_eq!(
            STANDARD.decode(data).unwrap(),
            b"-----BEGIN CERTIFICATE-----\n"
        );
        let context = read.contexts[0].context.as_ref().unwrap();
        assert_eq!(
            (context.cluster.as_str(), context.user.as_deref()),
            ("eventlab", Some("admin"))
        );
        assert_eq!(context.namespace.as_deref(), Some("eventlab"));
        assert_eq!((read.auth_infos.len(), read.contexts.len()), (2, 2));
    }

    #[test]
    fn a_failure_names_the_path() {
        let error = kubeconfig(&[])
            .write(Path::new("/proc/nowhere/config"))
            .unwrap_err();
        assert!(
            error
                .to_string()
                .starts_with("cannot write the kubeconfig to /proc/nowhere/config: "),
            "{error}"
        );
    }
}
