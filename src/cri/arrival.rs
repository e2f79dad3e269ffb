//! How much of an answer has come, and when the last of it did: what is large or slow is not silent.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::task_local;

use super::{Error, Rpc};
use crate::clock::{Clock, Mono};

/// Told what comes of an answer while it is on its way. Called on the way of the call, and must not wait.
pub trait Arriving: Send + Sync {
    /// So many bytes have come; none when those that are there are being worked on.
    fn came(&self, bytes: u64);
}

task_local! {
    static WATCHER: Arc<dyn Arriving>;
}

/// Runs one call; `by` is told what comes of its answer.
pub async fn watched<T>(by: Arc<dyn Arriving>, call: impl Future<Output = T>) -> T {
    WATCHER.scope(by, call).await
}

/// Tells whoever watches the call that is being made here.
pub fn tell(bytes: u64) {
    // Most calls are watched by nobody.
    let _ = WATCHER.try_with(|watcher| watcher.came(bytes));
}

/// The answer to one call, as far as it has come.
pub(super) struct Arrival {
    clock: Arc<dyn Clock>,
    seen: Mutex<Seen>,
}

#[derive(Clone, Copy)]
struct Seen {
    bytes: u64,
    last: Mono,
}

impl Arrival {
    /// Nothing has come yet.
    pub fn awaited(clock: &Arc<dyn Clock>) -> Arc<Self> {
        let seen = Mutex::new(Seen { bytes: 0, last: clock.mono() });
        Arc::new(Self { clock: Arc::clone(clock), seen })
    }

    /// So many bytes have come.
    pub fn came(&self, bytes: usize) {
        let bytes = u64::try_from(bytes).unwrap_or(u64::MAX);
        let last = self.clock.mono();
        {
            let mut seen = self.seen();
            *seen = Seen { bytes: seen.bytes.saturating_add(bytes), last };
        }
        tell(bytes);
    }

    /// Bytes that are there are being worked on.
    pub fn goes_on(&self) {
        self.came(0);
    }

    /// How much has come.
    pub fn bytes(&self) -> u64 {
        self.seen().bytes
    }

    /// Why a call has no answer that was waited for so long: what was silent for half of that is silent, whatever it said
    /// before.
    pub fn missed(&self, rpc: Rpc, waited: Duration) -> Error {
        let Seen { bytes, last } = *self.seen();
        if bytes == 0 || self.clock.mono().since(last) >= waited / 2 {
            return Error::Silent { rpc, waited };
        }
        Error::Unfinished { rpc, waited, received: bytes }
    }

    fn seen(&self) -> MutexGuard<'_, Seen> {
        self.seen.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::clock::ManualClock;

    #[test]
    fn what_arrives_is_not_silent_until_it_stops() {
        let manual = Arc::new(ManualClock::default());
        let clock: Arc<dyn Clock> = Arc::<ManualClock>::clone(&manual);
        let second = Duration::from_secs(1);
        let arrival = Arrival::awaited(&clock);
        manual.advance(second);
        let silent = Error::Silent { rpc: Rpc::ListContainers, waited: 2 * second };
        assert_eq!(arrival.missed(Rpc::ListContainers, 2 * second), silent, "nothing came");
        arrival.came(7);
        manual.advance(second / 2);
        arrival.goes_on();
        manual.advance(second / 2);
        let unfinished = Error::Unfinished { rpc: Rpc::ListContainers, waited: 2 * second, received: 7 };
        assert_eq!(arrival.missed(Rpc::ListContainers, 2 * second), unfinished);
        manual.advance(second / 2);
        assert_eq!(arrival.missed(Rpc::ListContainers, 2 * second), silent, "it stopped");
    }

    #[tokio::test]
    async fn whoever_watches_a_call_is_told_what_comes_of_it() {
        #[derive(Default)]
        struct Sum(Mutex<u64>);
        impl Arriving for Sum {
            fn came(&self, bytes: u64) {
                *self.0.lock().unwrap() += bytes;
            }
        }
        let clock: Arc<dyn Clock> = Arc::new(ManualClock::default());
        let sum = Arc::new(Sum::default());
        watched(Arc::<Sum>::clone(&sum), async { Arrival::awaited(&clock).came(3) }).await;
        Arrival::awaited(&clock).came(4);
        assert_eq!(*sum.0.lock().unwrap(), 3);
    }
}
