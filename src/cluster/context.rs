//! A context of a kubeconfig, read once and pinned: every call of the session goes where this says.
//!
//! The current context is never taken: a name is always asked for. A context that looks like production is refused
//! unless its name is given a second time.

use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use kube::Client;
use kube::client::{AuthError, ClientBuilder};
use kube::config::{Config, KubeConfigOptions, Kubeconfig, KubeconfigError};

use super::hearing::Hearing;
use super::login::Login;
use super::proxy::{self, Surroundings};
use super::{doctor, steady, unanswered};
use crate::embedded::api::tls::init_tls;

/// A connection to the API server takes no longer than this.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);
/// Words that production goes by.
const PRODUCTION: [&str; 5] = ["prod", "production", "prd", "live", "prod1"];

/// Why a context cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum ContextError {
    #[error("cannot read the kubeconfig {place}: {source}; name one with --kubeconfig")]
    Read {
        place: String,
        #[source]
        source: Box<KubeconfigError>,
    },
    #[error(
        "there is no context `{name}` in {place}; it has {known}. `kubectl config get-contexts` lists them"
    )]
    Unknown {
        name: String,
        place: String,
        known: String,
    },
    #[error(
        "context `{name}` looks like production ({why}); eventlab makes objects and sends events there. If it is meant, add --yes-really-this-context {name}"
    )]
    Production { name: String, why: String },
    #[error("--yes-really-this-context {said} names another context than --context {name}")]
    NotConfirmed { name: String, said: String },
    #[error("context `{name}` of {place} cannot be used: {reason}")]
    Unusable {
        name: String,
        place: String,
        reason: String,
    },
}

/// What was asked for on the command line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ContextRequest {
    pub name: String,
    /// `None` for `$KUBECONFIG`, else `~/.kube/config`.
    pub kubeconfig: Option<PathBuf>,
    /// The name once more, for a context that looks like production.
    pub confirmed: Option<String>,
}

/// A context with its client.
#[derive(Clone)]
pub struct Context {
    pub name: String,
    /// URL of the API server.
    pub server: String,
    /// The namespace that the context names, else `default`.
    pub namespace: String,
    /// Why it looks like production, if it does.
    pub production: Option<String>,
    pub client: Client,
    config: Config,
    login: Option<Login>,
    kubeconfig: Option<PathBuf>,
    hearing: Arc<OnceLock<Hearing>>,
}

impl Context {
    /// Reads the kubeconfig and makes the client. Nothing is asked of the cluster.
    ///
    /// # Errors
    /// [`ContextError`], except for production: see [`Context::confirm`].
    pub async fn load(request: &ContextRequest) -> Result<Self, ContextError> {
        init_tls();
        let place = place(request.kubeconfig.as_deref());
        let file = read(request.kubeconfig.as_deref()).map_err(|source| ContextError::Read {
            place: place.clone(),
            source: Box::new(source),
        })?;
        let known: Vec<&str> = file.contexts.iter().map(|one| one.name.as_str()).collect();
        if !known.contains(&request.name.as_str()) {
            return Err(ContextError::Unknown {
                name: request.name.clone(),
                known: listed(&known),
                place,
            });
        }
        let production = production_signs(&file, &request.name);
        let named_proxy = cluster_of(&file, &request.name)
            .and_then(|cluster| cluster.proxy_url.clone())
            .filter(|proxy| !proxy.is_empty());
        let options = KubeConfigOptions {
            context: Some(request.name.clone()),
            ..KubeConfigOptions::default()
        };
        let unusable = |reason: String| ContextError::Unusable {
            name: request.name.clone(),
            place: place.clone(),
            reason,
        };
        let mut config = Config::from_custom_kubeconfig(file, &options)
            .await
            .map_err(|error| unusable(error.to_string()))?;
        config.connect_timeout = Some(CONNECT_TIMEOUT);
        config.proxy_url = match named_proxy {
            Some(named) => proxy::address(&named).map(Some),
            None => Surroundings::here().proxy(&config.cluster_url),
        }
        .map_err(unusable)?;
        let without = |error| unusable(without_client(&config, &error));
        let login = Login::of(&config).map_err(without)?;
        let client = client(config.clone(), login.as_ref()).map_err(without)?;
        Ok(Self {
            name: request.name.clone(),
            server: config.cluster_url.to_string(),
            namespace: config.default_namespace.clone(),
            production,
            client,
            config,
            login,
            kubeconfig: request.kubeconfig.clone().or_else(only_listed),
            hearing: Arc::default(),
        })
    }

    /// Refuses a context that looks like production, unless its name was given twice.
    ///
    /// # Errors
    /// [`ContextError::Production`], [`ContextError::NotConfirmed`].
    pub fn confirm(&self, request: &ContextRequest) -> Result<(), ContextError> {
        match (&request.confirmed, &self.production) {
            (Some(said), _) if *said != self.name => Err(ContextError::NotConfirmed {
                name: self.name.clone(),
                said: said.clone(),
            }),
            (None, Some(why)) => Err(ContextError::Production {
                name: self.name.clone(),
                why: why.clone(),
            }),
            _ => Ok(()),
        }
    }

    /// Tells while nothing is heard of the API server; asks from the first call on. To be called inside a tokio runtime.
    #[must_use]
    pub fn hearing(&self) -> Hearing {
        let start = || {
            let (client, server) = (self.client.clone(), self.server.clone());
            Hearing::start(client, server, self.login.clone())
        };
        self.hearing.get_or_init(start).clone()
    }

    /// The options by which a command of `kubectl` or `eventlab` goes to this context.
    #[must_use]
    pub fn options(&self) -> String {
        let context = format!("--context {}", doctor::quoted(&self.name));
        match &self.kubeconfig {
            Some(path) => {
                // Whoever pastes it may stand in another folder.
                let path = std::path::absolute(path).unwrap_or_else(|_| path.clone());
                let path = path.display().to_string();
                format!("--kubeconfig {} {context}", doctor::quoted(&path))
            }
            None => context,
        }
    }

    /// A client of the same cluster that acts as somebody else, by impersonation.
    ///
    /// # Errors
    /// [`ContextError::Unusable`].
    pub fn impersonating(&self, user: &str, groups: &[&str]) -> Result<Client, ContextError> {
        let mut config = self.config.clone();
        config.auth_info.impersonate = Some(user.to_owned());
        config.auth_info.impersonate_groups =
            (!groups.is_empty()).then(|| groups.iter().map(|group| (*group).to_owned()).collect());
        self.made(config)
    }

    /// A client of the same cluster that shows a bearer token and nothing else.
    ///
    /// # Errors
    /// [`ContextError::Unusable`].
    pub fn with_token(&self, token: &str) -> Result<Client, ContextError> {
        let mut config = self.config.clone();
        config.auth_info = kube::config::AuthInfo {
            token: Some(token.to_owned().into()),
            ..kube::config::AuthInfo::default()
        };
        self.made(config)
    }

    /// The CA certificate of the API server, PEM; empty where the kubeconfig names none.
    #[must_use]
    pub fn ca_pem(&self) -> String {
        use base64::Engine as _;
        let encode = |der: &Vec<u8>| {
            let text = base64::engine::general_purpose::STANDARD.encode(der);
            let lines: Vec<&str> = text
                .as_bytes()
                .chunks(64)
                .filter_map(|line| std::str::from_utf8(line).ok())
                .collect();
            format!(
                "-----BEGIN CERTIFICATE-----\n{}\n-----END CERTIFICATE-----\n",
                lines.join("\n")
            )
        };
        self.config.root_cert.iter().flatten().map(encode).collect()
    }

    fn made(&self, config: Config) -> Result<Client, ContextError> {
        let login = self.login.as_ref();
        client(config, login).map_err(|error| ContextError::Unusable {
            name: self.name.clone(),
            place: place(self.kubeconfig.as_deref()),
            reason: unanswered(&error),
        })
    }
}

/// A client; with the login of the context, where its configuration has that login's program.
fn client(mut config: Config, login: Option<&Login>) -> Result<Client, kube::Error> {
    let login = login.filter(|_| config.auth_info.exec.is_some());
    if login.is_some() {
        config.auth_info.exec = None;
    }
    let namespace = config.default_namespace.clone();
    let client = match config.proxy_url.clone() {
        Some(through) => proxy::client(config, &through)?,
        None => ClientBuilder::try_from(config)?
            .with_layer(&steady::layer())
            .build(),
    };
    Ok(match login {
        // Outside of what limits an answer: a login takes as long as a person takes.
        Some(login) => login.before(client, &namespace),
        None => client,
    })
}

/// Why there is no client; a login program that is not there is named, with what the kubeconfig says of getting it.
fn without_client(config: &Config, error: &kube::Error) -> String {
    let why = unanswered(error);
    let started = !matches!(error, kube::Error::Auth(AuthError::AuthExecStart(_)));
    match &config.auth_info.exec {
        Some(exec) if !started => format!(
            "{why} (`{}`). {}",
            exec.command.as_deref().unwrap_or_default(),
            exec.install_hint
                .as_deref()
                .unwrap_or("Is it installed, and on the PATH?")
                .trim()
        ),
        _ => why,
    }
}

fn read(path: Option<&Path>) -> Result<Kubeconfig, KubeconfigError> {
    let listed = std::env::var_os("KUBECONFIG").unwrap_or_default();
    match path {
        Some(path) => Kubeconfig::read_from(path),
        None if listed.is_empty() => Kubeconfig::read(),
        None => {
            let paths: Vec<PathBuf> = std::env::split_paths(&listed).collect();
            merged(&paths)
        }
    }
}

/// The one file of `KUBECONFIG`: another terminal has to be told of it.
fn only_listed() -> Option<PathBuf> {
    let listed = std::env::var_os("KUBECONFIG")?;
    let mut paths = std::env::split_paths(&listed).filter(|path| !path.as_os_str().is_empty());
    let first = paths.next()?;
    paths.next().is_none().then_some(first)
}

/// Several files as one. As for kubectl, one that is not there is no fault, unless none is.
fn merged(paths: &[PathBuf]) -> Result<Kubeconfig, KubeconfigError> {
    let there: Vec<&PathBuf> = paths.iter().filter(|path| path.exists()).collect();
    match (there.is_empty(), paths.first()) {
        (true, Some(first)) => Kubeconfig::read_from(first),
        _ => there
            .into_iter()
            .try_fold(Kubeconfig::default(), |all, path| {
                all.merge(Kubeconfig::read_from(path)?)
            }),
    }
}

fn place(path: Option<&Path>) -> String {
    match (path, std::env::var("KUBECONFIG")) {
        (Some(path), _) => path.display().to_string(),
        (None, Ok(paths)) if !paths.is_empty() => paths,
        _ => "~/.kube/config".to_owned(),
    }
}

fn listed(known: &[&str]) -> String {
    if known.is_empty() {
        return "no context at all".to_owned();
    }
    let shown: Vec<String> = known
        .iter()
        .take(12)
        .map(|name| format!("`{name}`"))
        .collect();
    let more = known.len().saturating_sub(shown.len());
    match more {
        0 => shown.join(", "),
        more => format!("{} and {more} more", shown.join(", ")),
    }
}

fn context_of<'a>(file: &'a Kubeconfig, name: &str) -> Option<&'a kube::config::Context> {
    let mut contexts = file.contexts.iter();
    contexts.find(|one| one.name == name)?.context.as_ref()
}

fn cluster_of<'a>(file: &'a Kubeconfig, name: &str) -> Option<&'a kube::config::Cluster> {
    let wanted = &context_of(file, name)?.cluster;
    let mut clusters = file.clusters.iter();
    clusters.find(|one| one.name == *wanted)?.cluster.as_ref()
}

/// A word of production in the context's name, its cluster's, its namespace or the server's host.
fn production_signs(file: &Kubeconfig, name: &str) -> Option<String> {
    let context = context_of(file, name);
    let cluster = context
        .map(|context| context.cluster.as_str())
        .unwrap_or_default();
    let server = cluster_of(file, name)
        .and_then(|cluster| cluster.server.as_deref())
        .unwrap_or_default();
    let namespace = context
        .and_then(|context| context.namespace.as_deref())
        .unwrap_or_default();
    [
        ("its name", name),
        ("its cluster", cluster),
        ("its namespace", namespace),
        ("its server", server),
    ]
    .into_iter()
    .find_map(|(what, text)| {
        production_word(text).map(|word| format!("{what} has the word `{word}`"))
    })
}

fn production_word(text: &str) -> Option<String> {
    text.to_ascii_lowercase()
        .split(|character: char| !character.is_ascii_alphanumeric())
        .find(|word| PRODUCTION.contains(word))
        .map(str::to_owned)
}

#[cfg(test)]
impl Context {
    /// Of a cluster where nobody answers.
    pub(crate) async fn silent(name: &str) -> Self {
        let text = format!(
            "apiVersion: v1\nkind: Config\nclusters: [{{name: c, cluster: {{server: 'http://127.0.0.1:9'}}}}]\nusers: []\ncontexts: [{{name: {name}, context: {{cluster: c}}}}]\n"
        );
        Context::of_text(&text, name).await.unwrap()
    }

    /// Out of the text of a kubeconfig.
    async fn of_text(text: &str, name: &str) -> Result<Self, ContextError> {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("config");
        std::fs::write(&path, text).unwrap();
        Context::load(&ContextRequest {
            name: name.to_owned(),
            kubeconfig: Some(path),
            confirmed: None,
        })
        .await
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn file(name: &str, server: &str) -> Kubeconfig {
        Kubeconfig::from_yaml(&format!(
            "apiVersion: v1\nkind: Config\nclusters: [{{name: c, cluster: {{server: '{server}'}}}}]\ncontexts: [{{name: '{name}', context: {{cluster: c, user: u}}}}]\nusers: []\n"
        ))
        .unwrap()
    }

    #[test]
    fn production_is_told_by_whole_words() {
        for (name, server, production) in [
            ("kind-lab", "https://127.0.0.1:6443", false),
            ("product-team-dev", "https://127.0.0.1:6443", false),
            ("reproduce", "https://delivery.example", false),
            ("gke_shop-prod_europe", "https://10.0.0.1", true),
            ("shop", "https://api.production.example.com", true),
            ("PRD", "https://10.0.0.1", true),
        ] {
            let signs = production_signs(&file(name, server), name);
            assert_eq!(signs.is_some(), production, "{name} {server}: {signs:?}");
        }
    }

    #[tokio::test]
    async fn an_unknown_context_is_told_with_those_there_are() {
        let text = "apiVersion: v1\nkind: Config\ncurrent-context: b\nclusters: []\nusers: []\ncontexts: [{name: a, context: {cluster: c}}, {name: b, context: {cluster: c}}]\n";
        let error = Context::of_text(text, "x").await.err().unwrap().to_string();
        assert!(error.contains("`a`, `b`"), "{error}");
        // The context is there and its cluster is not.
        let error = Context::of_text(text, "a").await.err().unwrap().to_string();
        assert!(error.contains("cannot be used"), "{error}");
        for bad in ["{", "", "- 1"] {
            assert!(Context::of_text(bad, "a").await.is_err(), "{bad:?}");
        }
    }

    fn config(name: &str, more: &str, user: &str) -> String {
        format!(
            "apiVersion: v1\nkind: Config\nclusters: [{{name: c, cluster: {{server: 'http://127.0.0.1:1'{more}}}}}]\nusers: [{{name: u, user: {{{user}}}}}]\ncontexts: [{{name: {name}, context: {{cluster: c, user: u}}}}]\n"
        )
    }

    #[test]
    fn files_that_are_not_there_are_passed_over_unless_none_is() {
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| folder.path().join(name);
        std::fs::write(at("one"), config("a", "", "")).unwrap();
        std::fs::write(at("two"), config("b", "", "")).unwrap();
        let names = |paths: &[PathBuf]| -> Vec<String> {
            let file = merged(paths).unwrap();
            file.contexts.into_iter().map(|one| one.name).collect()
        };
        assert_eq!(names(&[at("one"), at("none"), at("two")]), ["a", "b"]);
        assert_eq!(names(&[at("none"), at("two")]), ["b"]);
        let error = merged(&[at("none")]).unwrap_err().to_string();
        assert!(error.contains("none"), "{error}");
        std::fs::write(at("bad"), "{").unwrap();
        assert!(merged(&[at("one"), at("bad")]).is_err());
    }

    /// Programs that give no login: what is told names them, and what they said.
    #[tokio::test]
    async fn a_login_program_that_gives_none_is_told() {
        let exec = |command: &str, more: &str| {
            format!(
                "exec: {{apiVersion: client.authentication.k8s.io/v1, interactiveMode: Never, command: {command}{more}}}"
            )
        };
        let failing = ", args: [-c, 'echo session expired >&2; exit 3']";
        for (user, told) in [
            (
                exec("no-such-login", ", installHint: get it there"),
                "(`no-such-login`). get it there",
            ),
            (exec("no-such-login", ""), "on the PATH"),
            (exec("sh", failing), "(exit status: 3): session expired"),
            (
                exec("sh", ", args: [-c, 'echo hello']"),
                "no ExecCredential",
            ),
        ] {
            let error = Context::of_text(&config("a", "", &user), "a")
                .await
                .err()
                .unwrap();
            let error = error.to_string();
            assert!(error.contains(told), "{told}: {error}");
            assert!(!error.contains("Output {"), "{error}");
        }
    }

    /// A person who logs in by a browser does so once, however many clients are made and requests sent.
    #[tokio::test]
    async fn a_login_program_is_asked_once_for_all_clients() {
        let folder = tempfile::tempdir().unwrap();
        let (starts, given) = (folder.path().join("starts"), folder.path().join("given"));
        let credential = r#"{"apiVersion":"client.authentication.k8s.io/v1","kind":"ExecCredential","status":{"token":"t","expirationTimestamp":"2999-01-01T00:00:00Z"}}"#;
        std::fs::write(&given, credential).unwrap();
        let exec = format!(
            "exec: {{apiVersion: client.authentication.k8s.io/v1, interactiveMode: Never, command: sh, args: [-c, 'echo 1 >> {}; cat {}']}}",
            starts.display(),
            given.display()
        );
        let context = Context::of_text(&config("a", "", &exec), "a")
            .await
            .unwrap();
        let other = context.impersonating("dana", &[]).unwrap();
        for client in [&context.client, &context.client, &other] {
            // Nobody listens there; the login comes before that.
            assert!(client.apiserver_version().await.is_err());
        }
        assert_eq!(std::fs::read_to_string(&starts).unwrap(), "1\n");
    }

    #[tokio::test]
    async fn a_proxy_of_the_kubeconfig_is_gone_through() {
        let behind = |proxy: &str| config("a", &format!(", proxy-url: '{proxy}'"), "");
        for (proxy, told) in [
            ("http://127.0.0.1:1", "tunnel error"),
            ("socks5://127.0.0.1:1", "SOCKS error"),
        ] {
            let context = Context::of_text(&behind(proxy), "a").await.unwrap();
            let error = context.client.apiserver_version().await.unwrap_err();
            let why = unanswered(&error);
            assert!(why.contains(told), "{proxy}: {why}");
        }
        let error = Context::of_text(&behind("https://127.0.0.1:1"), "a").await;
        let error = error.err().unwrap().to_string();
        assert!(error.contains("kubectl proxy"), "{error}");
    }

    #[tokio::test]
    async fn production_needs_its_name_twice() {
        let context = Context::silent("shop-prod").await;
        let request = |confirmed: Option<&str>| ContextRequest {
            name: "shop-prod".to_owned(),
            kubeconfig: None,
            confirmed: confirmed.map(str::to_owned),
        };
        assert!(matches!(
            context.confirm(&request(None)),
            Err(ContextError::Production { .. })
        ));
        assert!(matches!(
            context.confirm(&request(Some("shop"))),
            Err(ContextError::NotConfirmed { .. })
        ));
        assert!(context.confirm(&request(Some("shop-prod"))).is_ok());
    }
}
