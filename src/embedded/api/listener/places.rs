//! Places for connections: when there is none left, one that no request is under way on gives way.
//!
//! So whoever opens connections and sends nothing, or no whole request, keeps nobody out. A request is under way until its
//! answer is handed over, however slowly its client reads. Streams have a part of the places, never all of them: whoever
//! opens more watches than that is refused, and others still get their answers.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use http::Request;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio_util::sync::CancellationToken;

use crate::embedded::api::request::Query;

/// All places of a listener.
#[derive(Clone, Debug)]
pub(super) struct Places {
    free: Arc<Semaphore>,
    /// For streams.
    streams: Arc<Semaphore>,
    idle: Arc<Mutex<Idle>>,
}

/// Connections that no request is under way on, in the order in which they became so.
#[derive(Debug, Default)]
struct Idle {
    next: u64,
    holds: BTreeMap<u64, Arc<Hold>>,
}

/// What a connection holds, until another takes it.
#[derive(Debug)]
struct Hold {
    end: CancellationToken,
    permit: Mutex<Option<OwnedSemaphorePermit>>,
}

impl Idle {
    fn enter(&mut self, hold: &Arc<Hold>) -> u64 {
        self.next += 1;
        self.holds.insert(self.next, Arc::clone(hold));
        self.next
    }

    /// Ends the connection that has been idle for longest, and takes what it held.
    fn end_oldest(&mut self) -> Option<OwnedSemaphorePermit> {
        // One that was ended a moment ago holds nothing any more.
        while let Some((_, oldest)) = self.holds.pop_first() {
            oldest.end.cancel();
            let mut permit = oldest.permit.lock().unwrap_or_else(PoisonError::into_inner);
            if let Some(permit) = permit.take() {
                return Some(permit);
            }
        }
        None
    }
}

impl Places {
    pub(super) fn new(connections: usize) -> Self {
        Places {
            free: Arc::new(Semaphore::new(connections)),
            streams: Arc::new(Semaphore::new(connections - connections / 4)),
            idle: Arc::default(),
        }
    }

    /// A place, though somebody may have to give way; `None` if nobody can.
    pub(super) fn take(&self) -> Option<Place> {
        let free = Arc::clone(&self.free).try_acquire_owned().ok();
        let permit = free.or_else(|| self.idle().end_oldest())?;
        let hold = Arc::new(Hold {
            end: CancellationToken::new(),
            permit: Mutex::new(Some(permit)),
        });
        let number = self.idle().enter(&hold);
        Some(Place(Arc::new(Seat {
            places: self.clone(),
            hold,
            at: Mutex::new((0, Some(number))),
        })))
    }

    fn idle(&self) -> MutexGuard<'_, Idle> {
        self.idle.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The place of one connection.
#[derive(Clone, Debug)]
pub(super) struct Place(Arc<Seat>);

#[derive(Debug)]
struct Seat {
    places: Places,
    hold: Arc<Hold>,
    /// Requests under way, and the number among the idle while there are none.
    at: Mutex<(usize, Option<u64>)>,
}

impl Seat {
    fn at(&self) -> MutexGuard<'_, (usize, Option<u64>)> {
        self.at.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Seat {
    fn drop(&mut self) {
        if let Some(number) = self.at().1 {
            self.places.idle().holds.remove(&number);
        }
    }
}

impl Place {
    /// Done once the connection has to give way.
    pub(super) async fn given_way(&self) {
        self.0.hold.end.cancelled().await;
    }

    /// Makes the connection give way.
    pub(super) fn end(&self) -> &CancellationToken {
        &self.0.hold.end
    }

    /// A request begins; `None` if it asks for a stream and there are too many of them.
    pub(super) fn begin<T>(&self, request: &Request<T>) -> Option<Underway> {
        let stream = if is_stream(request) {
            let streams = Arc::clone(&self.0.places.streams);
            Some(streams.try_acquire_owned().ok()?)
        } else {
            None
        };
        let mut at = self.0.at();
        at.0 += 1;
        if let Some(number) = at.1.take() {
            self.0.places.idle().holds.remove(&number);
        }
        drop(at);
        Some(Underway {
            place: self.clone(),
            _stream: stream,
        })
    }
}

/// A watch, or a log that is followed; no write is either, whatever it says.
fn is_stream<T>(request: &Request<T>) -> bool {
    if !request.method().is_safe() {
        return false;
    }
    let query = Query::parse(request.uri().query().unwrap_or(""));
    query.flag("watch") || query.flag("follow")
}

/// A request that is under way, until its answer is written.
#[derive(Debug)]
pub(super) struct Underway {
    place: Place,
    _stream: Option<OwnedSemaphorePermit>,
}

impl Drop for Underway {
    fn drop(&mut self) {
        let seat = &self.place.0;
        let mut at = seat.at();
        at.0 = at.0.saturating_sub(1);
        if at.0 == 0 {
            at.1 = Some(seat.places.idle().enter(&seat.hold));
        }
    }
}
