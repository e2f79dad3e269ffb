//! Measures how much of an answer has arrived, and when the last bytes arrived, so that a large or slow answer does not count
//! as silent.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::task_local;

use super::{Error, Rpc, StreamedAnswer};
use crate::clock::{Clock, Mono};

/// Receives the progress of a call while the call is running, so its method must not wait.
pub trait ProgressObserver: Send + Sync {
    /// This number of bytes arrived; 0 means that received bytes are still being decoded.
    fn received(&self, bytes: u64);
    /// A message of a streamed list arrived; this is what has arrived so far.
    fn streamed(&self, _so_far: StreamedAnswer) {}
}

task_local! {
    static OBSERVER: Arc<dyn ProgressObserver>;
}

/// Runs `call`, and reports its progress to `observer`.
pub async fn observe_progress<T>(observer: Arc<dyn ProgressObserver>, call: impl Future<Output = T>) -> T {
    OBSERVER.scope(observer, call).await
}

/// Reports progress to the observer of the call that runs in this task.
pub fn report_progress(bytes: u64) {
    // Most calls have no observer.
    let _ = OBSERVER.try_with(|observer| observer.received(bytes));
}

/// Reports a message of a streamed list to the observer of the call that runs in this task.
pub fn report_stream(so_far: StreamedAnswer) {
    let _ = OBSERVER.try_with(|observer| observer.streamed(so_far));
}

/// Counts the bytes of the answer to one call.
pub(super) struct AnswerProgress {
    clock: Arc<dyn Clock>,
    counters: Mutex<ReceivedBytes>,
}

/// The number of received bytes, and when the last bytes arrived.
#[derive(Clone, Copy)]
struct ReceivedBytes {
    bytes: u64,
    last: Mono,
    /// The entries and messages of a streamed list.
    stream: StreamedAnswer,
}

impl AnswerProgress {
    /// Creates a counter without any bytes.
    pub fn new(clock: &Arc<dyn Clock>) -> Arc<Self> {
        let counters =
            Mutex::new(ReceivedBytes { bytes: 0, last: clock.mono(), stream: StreamedAnswer::default() });
        Arc::new(Self { clock: Arc::clone(clock), counters })
    }

    /// Counts received bytes.
    pub fn received(&self, bytes: usize) {
        let bytes = u64::try_from(bytes).unwrap_or(u64::MAX);
        let last = self.clock.mono();
        {
            let mut counters = self.counters();
            counters.bytes = counters.bytes.saturating_add(bytes);
            counters.last = last;
        }
        report_progress(bytes);
    }

    /// Counts a message of a streamed list.
    pub fn streamed(&self, message: u64, entries: u64) {
        let so_far = {
            let stream = &mut self.counters().stream;
            stream.entries = stream.entries.saturating_add(entries);
            stream.largest_message_bytes = stream.largest_message_bytes.max(message);
            *stream
        };
        report_stream(so_far);
    }

    /// Returns what has arrived of a streamed list.
    pub fn stream(&self) -> StreamedAnswer {
        self.counters().stream
    }

    /// Notes that received bytes are still being decoded.
    pub fn still_decoding(&self) {
        self.received(0);
    }

    /// Returns the number of bytes that have arrived.
    pub fn bytes(&self) -> u64 {
        self.counters().bytes
    }

    /// Returns the error of a call that reached its deadline after `waited`: silent if nothing arrived during the second half
    /// of that time, otherwise unfinished.
    pub fn timeout_error(&self, rpc: Rpc, waited: Duration) -> Error {
        let ReceivedBytes { bytes, last, .. } = *self.counters();
        if bytes == 0 || self.clock.mono().since(last) >= waited / 2 {
            return Error::Silent { rpc, waited };
        }
        Error::Unfinished { rpc, waited, received: bytes }
    }

    fn counters(&self) -> MutexGuard<'_, ReceivedBytes> {
        self.counters.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::clock::ManualClock;

    #[test]
    fn an_answer_is_not_silent_while_it_arrives() {
        let manual = Arc::new(ManualClock::default());
        let clock: Arc<dyn Clock> = Arc::<ManualClock>::clone(&manual);
        let second = Duration::from_secs(1);
        let progress = AnswerProgress::new(&clock);
        manual.advance(second);
        let silent = Error::Silent { rpc: Rpc::ListContainers, waited: 2 * second };
        assert_eq!(progress.timeout_error(Rpc::ListContainers, 2 * second), silent, "nothing has arrived");
        progress.received(7);
        manual.advance(second / 2);
        progress.still_decoding();
        manual.advance(second / 2);
        let unfinished = Error::Unfinished { rpc: Rpc::ListContainers, waited: 2 * second, received: 7 };
        assert_eq!(progress.timeout_error(Rpc::ListContainers, 2 * second), unfinished);
        manual.advance(second / 2);
        assert_eq!(progress.timeout_error(Rpc::ListContainers, 2 * second), silent, "no more bytes arrive");
    }

    #[tokio::test]
    async fn an_observer_receives_the_progress_of_its_call_only() {
        #[derive(Default)]
        struct Sum(Mutex<u64>);
        impl ProgressObserver for Sum {
            fn received(&self, bytes: u64) {
                *self.0.lock().unwrap() += bytes;
            }
        }
        let clock: Arc<dyn Clock> = Arc::new(ManualClock::default());
        let sum = Arc::new(Sum::default());
        observe_progress(Arc::<Sum>::clone(&sum), async { AnswerProgress::new(&clock).received(3) }).await;
        AnswerProgress::new(&clock).received(4);
        assert_eq!(*sum.0.lock().unwrap(), 3);
    }
}
