//! The login that a program gives (`exec` in the kubeconfig). Whoever needs it waits for the same one: it is not dropped
//! with the request that asked for it, and not asked for again while it is under way or was just refused.

use std::error::Error;
use std::fmt;
use std::future::{Ready, ready};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll};
use std::time::Duration;

use futures::FutureExt as _;
use futures::future::{BoxFuture, Shared};
use http::header::AUTHORIZATION;
use http::{HeaderValue, Request, Response};
use kube::Client;
use kube::client::{Body, ConfigExt as _};
use kube::config::Config;
use tokio::task::AbortHandle;
use tokio::time::{Instant, timeout};
use tower::util::BoxCloneSyncService;
use tower::{BoxError, Layer as _, Service, ServiceExt as _};

/// How long one request waits for a login; the login itself goes on.
const PATIENCE: Duration = Duration::from_secs(30);
/// So long after a refusal the program is not started again.
const REFUSED: Duration = Duration::from_secs(10);

type Header = Option<HeaderValue>;
type Given = Shared<BoxFuture<'static, Result<Header, NotGiven>>>;
/// Answers a request with the login that it would carry.
type Asked = BoxCloneSyncService<Request<Body>, Response<Header>, BoxError>;

/// Why there is no login, for everybody who waited for it.
#[derive(Clone, Debug)]
struct NotGiven(Arc<dyn Error + Send + Sync>);

impl fmt::Display for NotGiven {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl Error for NotGiven {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        Some(self.0.as_ref())
    }
}

/// The program has not ended.
#[derive(Debug, thiserror::Error)]
#[error(
    "the context's login program has not ended within {seconds} s: it is waited for and not started again; end the login where it asks for it"
)]
pub(super) struct NotEnded {
    seconds: u64,
}

/// The login of a context.
#[derive(Clone)]
pub(super) struct Login {
    asked: Asked,
    standing: Arc<Mutex<Standing>>,
    patience: Duration,
    refused: Duration,
}

enum Standing {
    Idle,
    UnderWay(Given, AbortHandle),
    Refused(Instant, NotGiven),
}

impl Login {
    /// Asks the program for the first time. `None` where the context has none, or one that gives a certificate, which kube
    /// takes when it connects.
    pub(super) fn of(config: &Config) -> Result<Option<Self>, kube::Error> {
        if config.auth_info.exec.is_none() {
            return Ok(None);
        }
        let layer = config.auth_layer()?;
        let asked = layer.map(|layer| layer.layer(tower::service_fn(shown)));
        Ok(asked.map(|asked| Self::asking(Asked::new(asked))))
    }

    fn asking(asked: Asked) -> Self {
        Self {
            asked,
            standing: Arc::new(Mutex::new(Standing::Idle)),
            patience: PATIENCE,
            refused: REFUSED,
        }
    }

    /// A client that shows this login with each request.
    pub(super) fn before(&self, client: Client, namespace: &str) -> Client {
        let login = self.clone();
        Client::new(LoggedIn { login, client }, namespace)
    }

    /// Whether the program is at work.
    pub(super) fn is_under_way(&self) -> bool {
        matches!(&*self.standing(), Standing::UnderWay(_, task) if !task.is_finished())
    }

    fn standing(&self) -> MutexGuard<'_, Standing> {
        self.standing.lock().unwrap_or_else(PoisonError::into_inner)
    }

    async fn header(&self) -> Result<Header, BoxError> {
        match timeout(self.patience, self.given()).await {
            Ok(given) => Ok(given?),
            Err(_) => Err(NotEnded {
                seconds: self.patience.as_secs(),
            }
            .into()),
        }
    }

    /// The login that is under way, or else a new one; one that holds costs nothing.
    fn given(&self) -> Given {
        let mut standing = self.standing();
        match &*standing {
            Standing::UnderWay(given, task) if !task.is_finished() => return given.clone(),
            Standing::Refused(at, why) if at.elapsed() < self.refused => {
                return ready(Err(why.clone())).boxed().shared();
            }
            _ => {}
        }
        let login = self.clone();
        let task = tokio::spawn(async move {
            let given = login.ask().await;
            *login.standing() = match &given {
                Ok(_) => Standing::Idle,
                Err(why) => Standing::Refused(Instant::now(), why.clone()),
            };
            given
        });
        let handle = task.abort_handle();
        let given = async move {
            task.await
                .unwrap_or_else(|error| Err(NotGiven(Arc::new(error))))
        };
        let given = given.boxed().shared();
        *standing = Standing::UnderWay(given.clone(), handle);
        given
    }

    async fn ask(&self) -> Result<Header, NotGiven> {
        let answer = self.asked.clone().oneshot(Request::new(Body::empty()));
        let answer = answer.await.map_err(|error| NotGiven(Arc::from(error)))?;
        Ok(answer.into_body())
    }
}

/// What a request would carry.
fn shown(request: Request<Body>) -> Ready<Result<Response<Header>, BoxError>> {
    let header = request.headers().get(AUTHORIZATION).cloned();
    ready(Ok(Response::new(header)))
}

/// A client behind a login.
#[derive(Clone)]
struct LoggedIn {
    login: Login,
    client: Client,
}

impl Service<Request<Body>> for LoggedIn {
    type Response = Response<Body>;
    type Error = BoxError;
    type Future = BoxFuture<'static, Result<Response<Body>, BoxError>>;

    fn poll_ready(&mut self, _context: &mut Context<'_>) -> Poll<Result<(), BoxError>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, mut request: Request<Body>) -> Self::Future {
        let Self { login, client } = self.clone();
        async move {
            if let Some(header) = login.header().await? {
                request.headers_mut().insert(AUTHORIZATION, header);
            }
            Ok(client.send(request).await?)
        }
        .boxed()
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use tokio::sync::Semaphore;

    use super::*;

    /// A program that ends when it is let go on, and how often it was started.
    fn program(succeeds: bool) -> (Login, Arc<AtomicUsize>, Arc<Semaphore>) {
        let (starts, goes_on) = (Arc::new(AtomicUsize::new(0)), Arc::new(Semaphore::new(0)));
        let (counted, waited) = (Arc::clone(&starts), Arc::clone(&goes_on));
        let asked = tower::service_fn(move |_: Request<Body>| {
            counted.fetch_add(1, Ordering::SeqCst);
            let waited = Arc::clone(&waited);
            async move {
                waited.acquire().await?.forget();
                match succeeds {
                    true => Ok(Response::new(Some(HeaderValue::from_static("Bearer a")))),
                    false => Err(BoxError::from("session expired")),
                }
            }
        });
        let mut login = Login::asking(Asked::new(asked));
        login.patience = Duration::from_millis(20);
        (login, starts, goes_on)
    }

    #[tokio::test]
    async fn a_slow_login_is_waited_for_and_not_begun_again() {
        let (mut login, starts, goes_on) = program(true);
        for _ in 0..5 {
            let error = login.header().await.unwrap_err();
            assert!(error.downcast_ref::<NotEnded>().is_some(), "{error}");
            assert!(login.is_under_way());
        }
        // Whoever gives up early takes nothing away from the others.
        drop(timeout(Duration::from_millis(1), login.header()).await);
        goes_on.add_permits(1);
        login.patience = Duration::from_secs(60);
        let header = login.header().await.unwrap();
        assert_eq!(header.unwrap(), "Bearer a");
        assert_eq!(starts.load(Ordering::SeqCst), 1);
        assert!(!login.is_under_way());
    }

    #[tokio::test]
    async fn a_refused_login_is_not_asked_for_at_once_again() {
        let (mut login, starts, goes_on) = program(false);
        goes_on.add_permits(10);
        login.patience = Duration::from_secs(60);
        for _ in 0..5 {
            let error = login.header().await.unwrap_err();
            assert!(error.to_string().contains("session expired"), "{error}");
        }
        assert_eq!(starts.load(Ordering::SeqCst), 1);
        login.refused = Duration::ZERO;
        assert!(login.header().await.is_err());
        assert_eq!(starts.load(Ordering::SeqCst), 2);
    }
}
