//! An API server that stopped answering is an error after a while, not silence for ever.
//!
//! What streams (watches, followed logs, upgrades) may be quiet as long as it likes: kube's watcher and the log follower
//! reconnect by themselves.

use std::task::{Context, Poll};
use std::time::Duration;

use futures::FutureExt as _;
use futures::future::BoxFuture;
use http::{Request, Response, header};
use tower::layer::LayerFn;
use tower::{BoxError, Service, layer::layer_fn};

/// How long an answer may be on its way.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(30);

/// The layer around a client's service.
pub(super) fn layer<S>() -> LayerFn<fn(S) -> Steady<S>> {
    layer_fn(|inner| Steady {
        inner,
        limit: ANSWER_TIMEOUT,
    })
}

/// See [`layer`].
#[derive(Clone)]
pub(super) struct Steady<S> {
    inner: S,
    limit: Duration,
}

impl<S, B, R> Service<Request<B>> for Steady<S>
where
    S: Service<Request<B>, Response = Response<R>>,
    S::Error: Into<BoxError>,
    S::Future: Send + 'static,
{
    type Response = Response<R>;
    type Error = BoxError;
    type Future = BoxFuture<'static, Result<Response<R>, BoxError>>;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), BoxError>> {
        self.inner.poll_ready(context).map_err(Into::into)
    }

    fn call(&mut self, request: Request<B>) -> Self::Future {
        let (patient, limit) = (streams(&request), self.limit);
        let answer = self
            .inner
            .call(request)
            .map(|answer| answer.map_err(Into::into));
        async move {
            if patient {
                return answer.await;
            }
            match tokio::time::timeout(limit, answer).await {
                Ok(answer) => answer,
                Err(_) => Err(format!(
                    "the API server did not answer within {} s",
                    limit.as_secs()
                )
                .into()),
            }
        }
        .boxed()
    }
}

fn streams<B>(request: &Request<B>) -> bool {
    let query = request.uri().query().unwrap_or_default();
    query
        .split('&')
        .any(|pair| matches!(pair, "watch=true" | "watch=1" | "follow=true"))
        || request.headers().contains_key(header::UPGRADE)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn only_what_streams_may_take_its_time() {
        let silent = tower::service_fn(|_: Request<()>| {
            std::future::pending::<Result<Response<()>, std::convert::Infallible>>()
        });
        let mut service = Steady {
            inner: silent,
            limit: Duration::from_millis(20),
        };
        let request = |uri: &str| Request::builder().uri(uri).body(()).unwrap();
        let error = service
            .call(request("/api/v1/pods?limit=5"))
            .await
            .unwrap_err();
        assert!(error.to_string().contains("did not answer"), "{error}");
        for uri in ["/api/v1/pods?watch=true", "/log?container=main&follow=true"] {
            let answer = service.call(request(uri));
            let waited = tokio::time::timeout(Duration::from_millis(200), answer).await;
            assert!(waited.is_err(), "{uri}");
        }
    }
}
