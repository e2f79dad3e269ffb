//! The [`Runtime`] trait, through which all other modules call a container runtime, and the [`EventStream`] with its bounded
//! queue.

use std::future::Future;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use tokio::sync::mpsc;

use super::{
    Call, CgroupDriver, Container, ContainerEvent, ContainerState, ContainerStatus, DecodedList, Error, Rpc,
    RuntimeStatus, Sandbox, SandboxState, SandboxStatusAnswer, Version, label,
};
use crate::clock::Wall;
use crate::kubelet::ListCalls;

/// A container runtime. Each method sends its call once and never retries.
pub trait Runtime: Send + Sync {
    /// Requests the runtime's name and version.
    fn version(&self) -> impl Future<Output = Call<Version>> + Send;
    /// Requests whether the runtime and its network are ready.
    fn status(&self) -> impl Future<Output = Call<RuntimeStatus>> + Send;
    /// Requests the component that creates cgroups; `None` if the answer does not contain it.
    fn cgroup_driver(&self) -> impl Future<Output = Call<Option<CgroupDriver>>> + Send;
    /// Returns the calls with which sandboxes and containers are listed next.
    fn list_calls(&self) -> ListCalls {
        ListCalls::Unary
    }
    /// Lists with these calls from now on, if this runtime can.
    fn list_with(&self, _calls: ListCalls) {}
    /// Returns the RPCs of [`Self::list_calls`]: that of sandboxes, then that of containers.
    fn list_rpcs(&self) -> [Rpc; 2] {
        Rpc::lists(self.list_calls())
    }
    /// Lists pod sandboxes, in the runtime's order.
    fn list_sandboxes(
        &self,
        filter: &Filter<SandboxState>,
    ) -> impl Future<Output = Call<Vec<Sandbox>>> + Send;
    /// Lists containers, in the runtime's order.
    fn list_containers(
        &self,
        filter: &Filter<ContainerState>,
    ) -> impl Future<Output = Call<Vec<Container>>> + Send;
    /// Lists all pod sandboxes again. Items that are the same as in `last`, the list before, may come from there.
    fn relist_sandboxes(
        &self,
        last: DecodedList<Sandbox>,
    ) -> impl Future<Output = Call<DecodedList<Sandbox>>> + Send {
        drop(last);
        async { self.list_sandboxes(&Filter::default()).await.map(DecodedList::from) }
    }
    /// Lists all containers again. Items that are the same as in `last`, the list before, may come from there.
    fn relist_containers(
        &self,
        last: DecodedList<Container>,
    ) -> impl Future<Output = Call<DecodedList<Container>>> + Send {
        drop(last);
        async { self.list_containers(&Filter::default()).await.map(DecodedList::from) }
    }
    /// Requests the status of one pod sandbox.
    fn sandbox_status(&self, sandbox_id: &str) -> impl Future<Output = Call<SandboxStatusAnswer>> + Send;
    /// Requests the status of one container; `None` is an answer without a status.
    fn container_status(
        &self,
        container_id: &str,
    ) -> impl Future<Output = Call<Option<ContainerStatus>>> + Send;
    /// Requests the resource usage of one container. The result only shows whether the container's shim answers.
    fn container_stats(&self, container_id: &str) -> impl Future<Output = Call<()>> + Send;
    /// Opens the stream of container events.
    fn container_events(&self) -> impl Future<Output = Result<EventStream, Error>> + Send;
}

/// Selects sandboxes or containers in a list call. The default selects all.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Filter<S> {
    /// The state that an entry must have; `None` for any state.
    pub state: Option<S>,
    /// The labels that an entry must have.
    pub labels: Vec<(String, String)>,
}

impl<S> Filter<S> {
    /// Selects the sandboxes or containers of one pod.
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
    /// The size of the encoded event.
    pub bytes: u64,
    /// The estimated memory of the event in bytes.
    pub memory: u64,
}

/// The limit for the estimated memory of unread events. Each event contains the status of its whole pod.
const MAX_QUEUED_MEMORY: u64 = 64 * 1024 * 1024;

/// The receiving end of an event stream. The sending end ([`EventFeed`]) never waits to send an event: an event that does not
/// fit into the queue counts as dropped. Only the final error waits for space. Dropping this value closes the stream.
#[derive(Debug)]
pub struct EventStream {
    queue: mpsc::Receiver<Result<ReceivedEvent, Error>>,
    counters: Arc<QueueCounters>,
}

/// Counters that both ends of the queue share.
#[derive(Debug, Default)]
struct QueueCounters {
    memory: AtomicU64,
    dropped: AtomicU64,
}

impl EventStream {
    /// Creates both ends of a stream that holds up to `capacity` unread events.
    pub fn bounded(capacity: usize) -> (EventFeed, Self) {
        let (sender, queue) = mpsc::channel(capacity);
        let counters = Arc::new(QueueCounters::default());
        (EventFeed { queue: sender, counters: Arc::clone(&counters) }, Self { queue, counters })
    }

    /// Waits for the next event; `Ok(None)` when the runtime ended the stream without an error.
    pub async fn next(&mut self) -> Result<Option<ReceivedEvent>, Error> {
        let next = self.queue.recv().await.transpose();
        if let Ok(Some(event)) = &next {
            self.counters.memory.fetch_sub(event.memory, Ordering::Relaxed);
        }
        next
    }

    /// Returns the number of events in the queue.
    pub fn waiting(&self) -> u64 {
        u64::try_from(self.queue.len()).unwrap_or(u64::MAX)
    }

    /// Returns the number of events that did not fit into the queue so far.
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
        // An empty queue accepts any event, however large.
        let fits = queued == 0 || queued.saturating_add(memory) <= MAX_QUEUED_MEMORY;
        if !fits || self.queue.try_send(Ok(event)).is_err() {
            self.counters.memory.fetch_sub(memory, Ordering::Relaxed);
            self.counters.dropped.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// Ends the stream with an error, after waiting for space in the queue.
    pub async fn fail(self, error: Error) {
        // The reader may be gone.
        let _ = self.queue.send(Err(error)).await;
    }

    /// Waits until the reader no longer exists.
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
    async fn events_that_do_not_fit_are_counted_and_the_others_arrive() {
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
    async fn large_events_fill_the_queue_and_free_it_when_they_are_read() {
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
