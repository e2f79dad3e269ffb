//! The boundary that everything above `cri` is written against.

use std::future::Future;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use tokio::sync::mpsc;

use super::{
    Call, CgroupDriver, Container, ContainerEvent, ContainerState, ContainerStatus, Error, Rpc,
    RuntimeStatus, Sandbox, SandboxState, SandboxStatusAnswer, Version, label,
};
use crate::clock::Wall;

/// A runtime that can be asked. Each question is asked once, however it ends.
pub trait Runtime: Send + Sync {
    /// Who are you?
    fn version(&self) -> impl Future<Output = Call<Version>> + Send;
    /// Runtime and network readiness.
    fn status(&self) -> impl Future<Output = Call<RuntimeStatus>> + Send;
    /// Who makes the cgroups; `None` is an answer that does not say.
    fn cgroup_driver(&self) -> impl Future<Output = Call<Option<CgroupDriver>>> + Send;
    /// With which two calls sandboxes and containers are listed.
    fn lists_by(&self) -> [Rpc; 2] {
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
    /// Whether the shim of one container answers.
    fn container_stats(&self, container_id: &str) -> impl Future<Output = Call<()>> + Send;
    /// Opens the stream of container events.
    fn container_events(&self) -> impl Future<Output = Result<EventStream, Error>> + Send;
}

/// Which sandboxes or containers to list. The default lists all of them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Filter<S> {
    /// Only those in this state.
    pub state: Option<S>,
    /// Only those that carry all of these labels.
    pub labels: Vec<(String, String)>,
}

impl<S> Default for Filter<S> {
    fn default() -> Self {
        Self { state: None, labels: Vec::new() }
    }
}

impl<S> Filter<S> {
    /// What belongs to one pod.
    pub fn pod(uid: &str) -> Self {
        Self { state: None, labels: vec![(label::POD_UID.into(), uid.into())] }
    }
}

/// An event and when it reached us.
#[derive(Clone, Debug)]
pub struct ReceivedEvent {
    /// The event.
    pub event: ContainerEvent,
    /// When it was read from the stream, before it waited for anybody here.
    pub at: Wall,
    /// Its size on the wire.
    pub bytes: u64,
    /// About how much memory it takes.
    pub weight: u64,
}

/// About how much memory unread events may take: each event brings its whole pod along.
const MOST_QUEUED: u64 = 64 * 1024 * 1024;

/// An open event stream. Whatever feeds it never waits for the reader: what does not fit the queue is counted as
/// dropped. Dropping it closes the stream.
#[derive(Debug)]
pub struct EventStream {
    queue: mpsc::Receiver<Result<ReceivedEvent, Error>>,
    levels: Arc<Levels>,
    /// How many events the reader has got.
    given: u64,
}

/// What both ends of a queue keep count of.
#[derive(Debug, Default)]
struct Levels {
    weight: AtomicU64,
    dropped: AtomicU64,
    /// How many were handed on, and how many of them the reader is done with: it has come back for the next.
    offered: AtomicU64,
    taken: AtomicU64,
}

impl EventStream {
    /// A stream that holds up to `capacity` unread events, and its feeding end.
    pub fn bounded(capacity: usize) -> (EventFeed, Self) {
        let (sender, queue) = mpsc::channel(capacity);
        let levels = Arc::new(Levels::default());
        (EventFeed { queue: sender, levels: Arc::clone(&levels) }, Self { queue, levels, given: 0 })
    }

    /// The next event; `Ok(None)` when the runtime has ended the stream in good order.
    pub async fn next(&mut self) -> Result<Option<ReceivedEvent>, Error> {
        self.levels.taken.store(self.given, Ordering::SeqCst);
        let next = self.queue.recv().await.transpose();
        self.gives(&next);
        next
    }

    fn gives(&mut self, next: &Result<Option<ReceivedEvent>, Error>) {
        if let Ok(Some(event)) = next {
            self.levels.weight.fetch_sub(event.weight, Ordering::Relaxed);
            self.given += 1;
        }
    }

    /// The next event or the end, if it is here.
    pub fn ready(&mut self) -> Option<Result<Option<ReceivedEvent>, Error>> {
        self.levels.taken.store(self.given, Ordering::SeqCst);
        let next = match self.queue.try_recv() {
            Ok(next) => next.map(Some),
            Err(mpsc::error::TryRecvError::Disconnected) => Ok(None),
            Err(mpsc::error::TryRecvError::Empty) => return None,
        };
        self.gives(&next);
        Some(next)
    }

    /// How many events wait to be taken.
    pub fn waiting(&self) -> u64 {
        u64::try_from(self.queue.len()).unwrap_or(u64::MAX)
    }

    /// How many events did not fit the queue so far.
    pub fn dropped(&self) -> u64 {
        self.levels.dropped.load(Ordering::Relaxed)
    }
}

/// The feeding end of an [`EventStream`].
#[derive(Debug)]
pub struct EventFeed {
    queue: mpsc::Sender<Result<ReceivedEvent, Error>>,
    levels: Arc<Levels>,
}

impl EventFeed {
    /// Hands an event on, or counts it as dropped; never waits.
    pub fn offer(&self, event: ReceivedEvent) {
        let weight = event.weight;
        let queued = self.levels.weight.fetch_add(weight, Ordering::Relaxed);
        // One event always fits, however large it is.
        let fits = queued == 0 || queued.saturating_add(weight) <= MOST_QUEUED;
        if fits && self.queue.try_send(Ok(event)).is_ok() {
            self.levels.offered.fetch_add(1, Ordering::SeqCst);
        } else {
            self.levels.weight.fetch_sub(weight, Ordering::Relaxed);
            self.levels.dropped.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// Ends the stream with an error, once the reader has taken what is queued.
    pub async fn fail(self, error: Error) {
        // A reader that is gone does not want to know.
        let _ = self.queue.send(Err(error)).await;
    }

    /// The same without waiting, where the queue is known to have room.
    pub fn end(self, error: Option<Error>) {
        if let Some(error) = error {
            let _ = self.queue.try_send(Err(error));
        }
    }

    /// Whether the reader is done with everything, or is gone.
    pub fn is_taken(&self) -> bool {
        let taken = self.levels.taken.load(Ordering::SeqCst);
        self.queue.is_closed() || taken == self.levels.offered.load(Ordering::SeqCst)
    }

    /// Resolves when nobody reads any more.
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
        ReceivedEvent { event, at: Wall::default(), bytes, weight: bytes }
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
        feed.offer(event(MOST_QUEUED + 1));
        feed.offer(event(1));
        assert_eq!((events.waiting(), events.dropped()), (1, 1));
        events.next().await.unwrap();
        feed.offer(event(MOST_QUEUED / 2));
        feed.offer(event(MOST_QUEUED / 2));
        assert_eq!((events.waiting(), events.dropped()), (2, 1));
    }
}
