//! Retries as Argo Events does them: steps, a duration, a factor, and a random share on top.

use std::fmt::Display;
use std::future::Future;
use std::time::Duration;

/// How often to try and how long to wait in between.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Backoff {
    /// Tries in all.
    pub steps: u32,
    pub duration: Duration,
    pub factor: f64,
    /// Up to this share of the wait is added at random.
    pub jitter: f64,
}

impl Backoff {
    /// Upstream's default: five tries, one to two seconds apart.
    pub(super) const DEFAULT: Backoff = Backoff {
        steps: 5,
        duration: Duration::from_secs(1),
        factor: 1.0,
        jitter: 1.0,
    };

    /// The waits between the tries.
    pub(super) fn waits(self) -> impl Iterator<Item = Duration> {
        let mut base = self.duration.as_secs_f64();
        (1..self.steps).map(move |_| {
            let wait = base * (1.0 + self.jitter.max(0.0) * random_share());
            if self.factor != 0.0 {
                base *= self.factor;
            }
            Duration::try_from_secs_f64(wait).unwrap_or(Duration::from_secs(86_400))
        })
    }

    /// Tries until it works or the steps are used up; the last error is worded as upstream words it.
    pub(super) async fn retry<T, E, F, Try>(self, mut attempt: F) -> Result<T, String>
    where
        E: Display,
        F: FnMut() -> Try,
        Try: Future<Output = Result<T, E>>,
    {
        let mut waits = self.waits();
        loop {
            match attempt().await {
                Ok(value) => return Ok(value),
                Err(error) => match waits.next() {
                    Some(wait) => tokio::time::sleep(wait).await,
                    None => return Err(format!("failed after retries: {error}")),
                },
            }
        }
    }
}

/// A random number from 0 to below 1.
pub(super) fn random_share() -> f64 {
    // The low 48 bits of a version 4 UUID are all random.
    let bits = uuid::Uuid::new_v4().as_u128() & ((1 << 48) - 1);
    u32::try_from(bits >> 16).map_or(0.0, |bits| f64::from(bits) / (f64::from(u32::MAX) + 1.0))
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicU32, Ordering};

    use super::*;

    #[tokio::test]
    async fn it_tries_as_often_as_it_has_steps() {
        let tries = AtomicU32::new(0);
        let quick = Backoff {
            duration: Duration::from_millis(1),
            ..Backoff::DEFAULT
        };
        let result: Result<(), String> = quick
            .retry(|| async {
                tries.fetch_add(1, Ordering::Relaxed);
                Err("no")
            })
            .await;
        assert_eq!(result.unwrap_err(), "failed after retries: no");
        assert_eq!(tries.load(Ordering::Relaxed), 5);
    }

    #[test]
    fn the_default_waits_one_to_two_seconds() {
        let waits: Vec<_> = Backoff::DEFAULT.waits().collect();
        assert_eq!(waits.len(), 4);
        assert!(
            waits
                .iter()
                .all(|wait| (1.0..2.0).contains(&wait.as_secs_f64())),
            "{waits:?}"
        );
    }

    #[test]
    fn the_factor_grows_the_wait() {
        let backoff = Backoff {
            steps: 4,
            duration: Duration::from_secs(1),
            factor: 2.0,
            jitter: 0.0,
        };
        assert_eq!(
            backoff
                .waits()
                .map(|wait| wait.as_secs())
                .collect::<Vec<_>>(),
            [1, 2, 4]
        );
    }
}
