//! The [`Runtime`] trait: the interface between the runtime's API and everything that uses it.

use std::future::Future;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use tokio::sync::mpsc;

use super::{
    Call, CgroupDriver, Container, ContainerEvent, ContainerState, ContainerStatus, Error, Rpc,
    RuntimeStatus, Sandbox, SandboxState, SandboxStatusAnswer, Version, label,
};
use crate::clock::Wall;

/// A container runtime. Each method sends its call once and never retries.
pub trait Runtime: Send + Sync {
    /// The runtime's name and version.
    fn version(&self) -> impl Future<Output = Call<Version>> + Send;
    /// Runtime and network readiness.
    fn status(&self) -> impl Future<Output = Call<RuntimeStatus>> + Send;
    /// Which component creates cgroups; `None` if the answer does not contain it.
    fn cgroup_driver(&self) -> impl Future<Output = Call<Option<CgroupDriver>>> + Send;
    /// The two RPCs that list sandboxes and containers.
    fn list_rpcs(&self) -> [Rpc; 2] {
        [Rpc::ListPodSandbox, Rpc::ListContainers]
    }
    /// Pod sandboxes, in the runtime's order.
    fn list_sandboxes(
        &self,
        filter: &Filter<SandboxState>,
    ) -> impl Future<Output = Call<Vec<Sandbox>>> + Send;
    /// Containers, in the runtime's order.
    fn list_containers(
        &self,
        filter: &Filter<ContainerState>,
    ) -> impl Future<Output = Call<Vec<Container>>> + Send;
    /// One pod sandbox.
    fn sandbox_status(&self, sandbox_id: &str) -> impl Future<Output = Call<SandboxStatusAnswer>> + Send;
    /// One container; `None` is an answer without a status.
    fn container_status(
        &self,
        container_id: &str,
    ) -> impl Future<Output = Call<Option<ContainerStatus>>> + Send;
    /// Requests the usage of one container, which shows whether its shim answers.
    fn container_stats(&self, container_id: &str) -> impl Future<Output = Call<()>> + Send;
    /// Opens the stream of container events.
    fn container_events(&self) -> impl Future<Output = Result<EventStream, Error>> + Send;
}

/// Selects sandboxes or containers in a list call. The default selects all.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Filter<S> {
    /// Only those in this state.
    pub state: Option<S>,
    /// Only those with all of these labels.
    pub labels: Vec<(String, String)>,
}

impl<S> Default for Filter<S> {
    fn default() -> Self {
        Self { state: None, labels: Vec::new() }
    }
}

impl<S> Filter<S> {
    /// Selects what belongs to one pod.
    pub fn pod(uid: &str) -> Self {
        Self { state: None, labels: vec![(label::POD_UID.into(), uid.into())] }
    }
}

/// An event and the time at which it arrived.
#[derive(Clone, Debug)]
pub struct ReceivedEvent {
    /// The event.
    pub event: ContainerEvent,
    /// When the event was read from the stream, before it waited in the queue.
    pub at: Wall,
    /// The event's size on the wire.
    pub bytes: u64,
    /// About how many bytes of memory the event needs.
    pub memory: u64,
}

/// About how much memory unread events may need. Each event contains the status of its whole pod.
const MAX_QUEUED_MEMORY: u64 = 64 * 1024 * 1024;

/// An open event stream. Its feed never waits for the reader: an event that does not fit into the queue is counted as
/// dropped. Dropping the stream closes it.
#[derive(Debug)]
pub struct EventStream {
    queue: mpsc::Receiver<Result<ReceivedEvent, Error>>,
    counters: Arc<QueueCounters>,
    /// How many events the reader has received.
    delivered: u64,
}

/// Counters that both ends of the queue share.
#[derive(Debug, Default)]
struct QueueCounters {
    memory: AtomicU64,
    dropped: AtomicU64,
    /// How many events entered the queue, and how many the reader has processed. An event is processed when the
    /// reader fetches the next one.
    offered: AtomicU64,
    processed: AtomicU64,
}

impl EventStream {
    /// Creates a stream that holds up to `capacity` unread events, and its feed.
    pub fn bounded(capacity: usize) -> (EventFeed, Self) {
        let (sender, queue) = mpsc::channel(capacity);
        let counters = Arc::new(QueueCounters::default());
        (EventFeed { queue: sender, counters: Arc::clone(&counters) }, Self { queue, counters, delivered: 0 })
    }

    /// Waits for the next event; `Ok(None)` when the runtime ended the stream without an error.
    pub async fn next(&mut self) -> Result<Option<ReceivedEvent>, Error> {
        self.counters.processed.store(self.delivered, Ordering::SeqCst);
        let next = self.queue.recv().await.transpose();
        self.count_delivered(&next);
        next
    }

    fn count_delivered(&mut self, next: &Result<Option<ReceivedEvent>, Error>) {
        if let Ok(Some(event)) = next {
            self.counters.memory.fetch_sub(event.memory, Ordering::Relaxed);
            self.delivered += 1;
        }
    }

    /// The next event or the end of the stream, if it is already there.
    pub fn ready(&mut self) -> Option<Result<Option<ReceivedEvent>, Error>> {
        self.counters.processed.store(self.delivered, Ordering::SeqCst);
        let next = match self.queue.try_recv() {
            Ok(next) => next.map(Some),
            Err(mpsc::error::TryRecvError::Disconnected) => Ok(None),
            Err(mpsc::error::TryRecvError::Empty) => return None,
        };
        self.count_delivered(&next);
        Some(next)
    }

    /// How many events wait in the queue.
    pub fn waiting(&self) -> u64 {
        u64::try_from(self.queue.len()).unwrap_or(u64::MAX)
    }

    /// How many events did not fit into the queue so far.
    pub fn dropped(&self) -> u64 {
        self.counters.dropped.load(Ordering::Relaxed)
    }
}

/// The sending end of an [`EventStream`].
#[derive(Debug)]
pub struct EventFeed {
    queue: mpsc::Sender<Result<ReceivedEvent, Error>>,
    counters: Arc<QueueCounters>,
}

impl EventFeed {
    /// Puts an event into the queue or counts it as dropped; never waits.
    pub fn offer(&self, event: ReceivedEvent) {
        let memory = event.memory;
        let queued = self.counters.memory.fetch_add(memory, Ordering::Relaxed);
        // One event always fits, however large it is.
        let fits = queued == 0 || queued.saturating_add(memory) <= MAX_QUEUED_MEMORY;
        if fits && self.queue.try_send(Ok(event)).is_ok() {
            self.counters.offered.fetch_add(1, Ordering::SeqCst);
        } else {
            self.counters.memory.fetch_sub(memory, Ordering::Relaxed);
            self.counters.dropped.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// Waits for room in the queue, then ends the stream with an error.
    pub async fn fail(self, error: Error) {
        // The reader may be gone.
        let _ = self.queue.send(Err(error)).await;
    }

    /// Ends the stream without waiting; the caller knows that the queue has room.
    pub fn end(self, error: Option<Error>) {
        if let Some(error) = error {
            let _ = self.queue.try_send(Err(error));
        }
    }

    /// Whether the reader has processed all events, or is gone.
    pub fn all_processed(&self) -> bool {
        let processed = self.counters.processed.load(Ordering::SeqCst);
        self.queue.is_closed() || processed == self.counters.offered.load(Ordering::SeqCst)
    }

    /// Resolves when the reader is gone.
    pub async fn abandoned(&self) {
        self.queue.closed().await;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cri::ContainerEventType;

    fn event(bytes: u64) -> ReceivedEvent {
        let event = ContainerEvent {
            container_id: "c".into(),
            kind: ContainerEventType::Started,
            created_at: 0,
            sandbox: None,
            containers: Vec::new(),
        };
        ReceivedEvent { event, at: Wall::default(), bytes, memory: bytes }
    }

    #[tokio::test]
    async fn what_does_not_fit_is_counted_and_the_rest_arrives() {
        let (feed, mut events) = EventStream::bounded(3);
        (0..10).for_each(|_| feed.offer(event(1)));
        drop(feed);
        assert_eq!((events.waiting(), events.dropped()), (3, 7));
        let mut arrived = 0;
        while events.next().await.unwrap().is_some() {
            arrived += 1;
        }
        assert_eq!(arrived, 3);
    }

    #[tokio::test]
    async fn large_events_fill_the_queue_by_their_bytes_and_make_room_when_taken() {
        let (feed, mut events) = EventStream::bounded(100);
        feed.offer(event(MAX_QUEUED_MEMORY + 1));
        feed.offer(event(1));
        assert_eq!((events.waiting(), events.dropped()), (1, 1));
        events.next().await.unwrap();
        feed.offer(event(MAX_QUEUED_MEMORY / 2));
        feed.offer(event(MAX_QUEUED_MEMORY / 2));
        assert_eq!((events.waiting(), events.dropped()), (2, 1));
    }
}
