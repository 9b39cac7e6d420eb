//! Whether anything is heard of an API server, asked in a rhythm of its own: whoever waits for one is told so within
//! seconds, and not only once an answer is given up.

use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use kube::Client;
use tokio::sync::watch;
use tokio::task::AbortHandle;
use tokio::time::{sleep, timeout};

use super::login::Login;
use super::unanswered;

/// How a server is asked.
#[derive(Clone, Copy, Debug)]
struct Rhythm {
    /// Pause between an answer and the next question.
    pause: Duration,
    /// An answer that takes longer is told to be waited for.
    late: Duration,
    /// So much later it is asked anew: what was asked on a connection that has broken is never answered.
    lost: Duration,
    /// Pause after a question that came to nothing.
    again: Duration,
}

const RHYTHM: Rhythm = Rhythm {
    pause: Duration::from_secs(2),
    late: Duration::from_secs(2),
    lost: Duration::from_secs(5),
    again: Duration::from_millis(500),
};

/// Most characters of what a gateway says in the place of the server.
const SAID: usize = 120;

/// That nothing is heard of an API server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Silence {
    /// What is waited for, with the reason as far as it is known.
    pub what: String,
    /// When it was asked what is not answered.
    pub since: Timestamp,
}

/// Asks for as long as it or a copy of it is kept.
#[derive(Clone, Debug)]
pub struct Hearing {
    said: watch::Receiver<Option<Silence>>,
    _asker: Arc<Asker>,
}

#[derive(Debug)]
struct Asker(AbortHandle);

impl Drop for Asker {
    fn drop(&mut self) {
        self.0.abort();
    }
}

impl Hearing {
    /// Begins to ask. To be called inside a tokio runtime.
    pub(super) fn start(client: Client, server: String, login: Option<Login>) -> Self {
        Self::in_rhythm(client, server, login, RHYTHM)
    }

    fn in_rhythm(client: Client, server: String, login: Option<Login>, rhythm: Rhythm) -> Self {
        let (says, said) = watch::channel(None);
        let asker = tokio::spawn(ask(client, server, login, rhythm, says));
        Self {
            said,
            _asker: Arc::new(Asker(asker.abort_handle())),
        }
    }

    /// What is to be said next: that nothing is heard any more, for another reason, or that something is again. For ever
    /// pending while there is nothing new.
    pub async fn next(&mut self) -> Option<Silence> {
        if self.said.changed().await.is_err() {
            std::future::pending::<()>().await;
        }
        self.said.borrow_and_update().clone()
    }
}

async fn ask(
    client: Client,
    server: String,
    login: Option<Login>,
    rhythm: Rhythm,
    says: watch::Sender<Option<Silence>>,
) {
    let no_answer = || match &login {
        Some(login) if login.is_under_way() => {
            "the context's login program, which has not ended: end the login where it asks for it"
                .to_owned()
        }
        _ => format!("the API server, which does not answer ({server})"),
    };
    loop {
        let asked = Timestamp::now();
        let answer = client.apiserver_version();
        let mut answer = std::pin::pin!(answer);
        let mut known = timeout(rhythm.late, &mut answer).await;
        if known.is_err() {
            tell(&says, asked, no_answer());
            known = timeout(rhythm.lost, &mut answer).await;
        }
        match known {
            Ok(answer) => match answer.err().and_then(|error| unheard(&error)) {
                None => {
                    says.send_if_modified(|said| said.take().is_some());
                    sleep(rhythm.pause).await;
                    continue;
                }
                Some(why) => {
                    let what = format!("the API server, which is not reached: {why} ({server})");
                    tell(&says, asked, what);
                }
            },
            Err(_) => tell(&says, asked, no_answer()),
        }
        sleep(rhythm.again).await;
    }
}

fn tell(says: &watch::Sender<Option<Silence>>, asked: Timestamp, what: String) {
    says.send_if_modified(|said| {
        let since = said.as_ref().map_or(asked, |before| before.since);
        let new = said.as_ref().is_none_or(|before| before.what != what);
        *said = Some(Silence { what, since });
        new
    });
}

/// Why an error means that the API server was not heard: one that says no is there, the gateway before it is not it.
fn unheard(error: &kube::Error) -> Option<String> {
    match error {
        kube::Error::Api(status) if status.code < 502 => None,
        kube::Error::Api(status) => {
            let said: String = status.message.chars().take(SAID).collect();
            Some(format!("HTTP {} {said}", status.code))
        }
        kube::Error::SerdeError(_) => None,
        error => Some(unanswered(error)),
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Mutex;

    use http::{Request, Response};
    use kube::client::Body;

    use super::*;

    /// How a server of the test behaves.
    #[derive(Clone, Copy, PartialEq)]
    enum Mood {
        Answers(u16),
        Silent,
        Gone,
    }

    const VERSION: &str = r#"{"major":"1","minor":"36","gitVersion":"v1.36.2","gitCommit":"","gitTreeState":"","buildDate":"","goVersion":"","compiler":"","platform":""}"#;

    /// Asked as fast as a test wants it.
    const FAST: Rhythm = Rhythm {
        pause: Duration::from_millis(1),
        late: Duration::from_millis(20),
        lost: Duration::from_millis(20),
        again: Duration::from_millis(1),
    };

    fn server(mood: &Arc<Mutex<Mood>>) -> Hearing {
        let mood = Arc::clone(mood);
        let service = tower::service_fn(move |_: Request<Body>| {
            let mood = *mood.lock().unwrap();
            async move {
                let status = match mood {
                    Mood::Answers(status) => status,
                    Mood::Silent => std::future::pending().await,
                    Mood::Gone => return Err(std::io::Error::other("connection refused")),
                };
                let text = if status == 200 { VERSION } else { "no" };
                let body = Body::from(text.as_bytes().to_vec());
                Ok(Response::builder().status(status).body(body).unwrap())
            }
        });
        let client = Client::new(service, "default");
        Hearing::in_rhythm(client, "https://a:6443/".to_owned(), None, FAST)
    }

    /// Waits until this is said: nothing of a silence for `None`.
    async fn heard(hearing: &mut Hearing, told: Option<&str>) -> Option<Silence> {
        let said = async {
            loop {
                let said = hearing.next().await;
                let fits = match (&said, told) {
                    (Some(said), Some(told)) => said.what.contains(told),
                    (said, told) => said.is_none() && told.is_none(),
                };
                if fits {
                    return said;
                }
            }
        };
        let waited = timeout(Duration::from_secs(60), said).await;
        waited.unwrap_or_else(|_| panic!("{told:?} is not said"))
    }

    #[tokio::test]
    async fn silence_is_told_with_its_reason_and_its_end() {
        let mood = Arc::new(Mutex::new(Mood::Answers(200)));
        let mut hearing = server(&mood);
        for (becomes, told) in [
            (Mood::Silent, Some("does not answer (https://a:6443/)")),
            (Mood::Gone, Some("is not reached: connection refused")),
            (Mood::Answers(200), None),
            (Mood::Gone, Some("is not reached")),
            // Whoever refuses is there.
            (Mood::Answers(403), None),
            (Mood::Answers(503), Some("HTTP 503 no")),
            (Mood::Answers(500), None),
        ] {
            *mood.lock().unwrap() = becomes;
            heard(&mut hearing, told).await;
        }
    }

    #[tokio::test]
    async fn a_silence_has_one_beginning_and_is_said_once() {
        let mood = Arc::new(Mutex::new(Mood::Silent));
        let mut hearing = server(&mood);
        let first = heard(&mut hearing, Some("does not answer")).await.unwrap();
        let again = timeout(Duration::from_millis(200), hearing.next()).await;
        assert!(again.is_err(), "{again:?}");
        *mood.lock().unwrap() = Mood::Gone;
        let other = heard(&mut hearing, Some("is not reached")).await.unwrap();
        assert_eq!(other.since, first.since);
        *mood.lock().unwrap() = Mood::Answers(200);
        assert_eq!(heard(&mut hearing, None).await, None);
    }

    /// Nobody is told later than that, however a command began.
    #[test]
    fn silence_is_told_within_seconds() {
        assert!(RHYTHM.pause + RHYTHM.late <= Duration::from_secs(4));
    }

    #[tokio::test]
    async fn nobody_is_asked_once_nobody_listens() {
        let asked = Arc::new(());
        let held = Arc::clone(&asked);
        let service = tower::service_fn(move |_: Request<Body>| {
            let _held = &held;
            std::future::pending::<Result<Response<Body>, std::io::Error>>()
        });
        let client = Client::new(service, "default");
        let hearing = Hearing::in_rhythm(client, String::new(), None, FAST);
        let copy = hearing.clone();
        drop(hearing);
        tokio::time::sleep(Duration::from_millis(50)).await;
        assert_eq!(Arc::strong_count(&asked), 2);
        drop(copy);
        let ended = async {
            while Arc::strong_count(&asked) > 1 {
                tokio::task::yield_now().await;
            }
        };
        assert!(timeout(Duration::from_secs(60), ended).await.is_ok());
    }
}
