//! Simulates the event stream in the two ways in which runtimes serve several listeners: each listener gets every
//! event (broadcast), or the listeners take events away from each other (competing).

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio::sync::mpsc;
use tokio_stream::StreamExt;
use tokio_stream::wrappers::ReceiverStream;

use super::life::{Nanos, nanos};
use super::node::TimedEvent;
use super::scenario::{EventDelivery, RuntimeFamily};
use super::timeline::NodeTimeline;
use crate::cri::server::{Answer, Bytes, message};

/// How many events a slow listener may be behind, in addition to HTTP/2 buffers (containerd, CRI-O).
const LISTENER_BUFFER: usize = 100;
/// How many events wait in the queue of a runtime that has one queue for all listeners; later events are lost
/// (containerd 1.7, CRI-O).
const QUEUE: usize = 1000;
/// How long containerd 2.x keeps events without a listener.
const KEPT_FOR: Duration = Duration::from_secs(300);

/// A time before the first event of the simulation.
const BEGINNING: Nanos = -1;

/// Distributes the events of a simulation to its listeners.
#[derive(Debug, Default)]
pub struct EventDistributor {
    /// The listeners that each receive every event.
    listeners: Mutex<Listeners>,
    /// The next event for the listeners that compete; `None` before the first of them.
    shared: tokio::sync::Mutex<Option<Cursor>>,
}

/// The listeners of a broadcast.
#[derive(Debug, Default)]
struct Listeners {
    count: u32,
    /// The time up to which events were delivered; `None` before the first listener.
    delivered_until: Option<Nanos>,
}

/// A position in the sequence of events.
#[derive(Debug)]
struct Cursor {
    /// The time up to which events were read from the timeline.
    at: Nanos,
    /// Events that were read and not delivered yet.
    pending: VecDeque<TimedEvent>,
}

impl Cursor {
    /// Starts after the events up to `at`.
    fn new(at: Nanos) -> Self {
        Self { at, pending: VecDeque::new() }
    }

    /// Waits for the next event and returns it.
    async fn next(&mut self, timeline: &NodeTimeline) -> TimedEvent {
        loop {
            if let Some(event) = self.pending.pop_front() {
                return event;
            }
            let now = timeline.elapsed();
            self.pending = timeline.events(self.at, now).into();
            // Events beyond the size of the queue are lost, the newest first.
            self.pending.truncate(QUEUE);
            self.at = self.at.max(now);
            if self.pending.is_empty() {
                match timeline.until_next(now) {
                    Some(wait) => tokio::time::sleep(wait).await,
                    None => std::future::pending().await,
                }
            }
        }
    }
}

/// Adds a listener that receives every event. If there was no other listener, it also receives the events that the
/// runtime kept for it.
pub fn broadcast(distributor: &Arc<EventDistributor>, timeline: &Arc<NodeTimeline>) -> Answer {
    let (sender, stream) = mpsc::channel(LISTENER_BUFFER);
    let mut cursor = Cursor::new(join(distributor, timeline));
    let listener = EventListener { distributor: Arc::clone(distributor), timeline: Arc::clone(timeline) };
    tokio::spawn(async move {
        loop {
            let event = tokio::select! {
                event = cursor.next(&listener.timeline) => event,
                () = sender.closed() => return,
            };
            if sender.send(message::event(event.message)).await.is_err() {
                return;
            }
        }
    });
    answer_of(stream)
}

/// Adds a listener that takes events away from the others. The runtime notices a closed stream only when it sends the
/// next event, which is then lost.
pub fn compete(distributor: &Arc<EventDistributor>, timeline: &Arc<NodeTimeline>) -> Answer {
    let (sender, stream) = mpsc::channel(1);
    let (distributor, timeline) = (Arc::clone(distributor), Arc::clone(timeline));
    tokio::spawn(async move {
        loop {
            let event = {
                let mut shared = distributor.shared.lock().await;
                shared.get_or_insert_with(|| Cursor::new(BEGINNING)).next(&timeline).await
            };
            if sender.send(message::event(event.message)).await.is_err() {
                return;
            }
        }
    });
    answer_of(stream)
}

fn answer_of(events: mpsc::Receiver<Bytes>) -> Answer {
    Answer::stream(ReceiverStream::new(events).map(Ok))
}

/// Returns the time since which a runtime that nobody has listened to has kept its events at `now`.
pub fn oldest_kept_event(family: RuntimeFamily, delivery: EventDelivery, now: Nanos) -> Nanos {
    match (family, delivery) {
        (RuntimeFamily::Containerd, EventDelivery::Broadcast) => BEGINNING.max(now - nanos(KEPT_FOR)),
        _ => BEGINNING,
    }
}

/// Registers a listener. Returns the time since which the listener receives events.
fn join(distributor: &EventDistributor, timeline: &NodeTimeline) -> Nanos {
    let now = timeline.elapsed();
    let mut listeners = distributor.listeners();
    let oldest = oldest_kept_event(timeline.family(), EventDelivery::Broadcast, now);
    let kept_from = match (timeline.family(), listeners.delivered_until) {
        (_, None) => oldest,
        (RuntimeFamily::Containerd, Some(delivered)) => delivered.max(oldest),
        // CRI-O keeps events only for its first listener.
        (RuntimeFamily::CriO, Some(_)) => now,
    };
    let from = if listeners.count == 0 { kept_from } else { now };
    listeners.count += 1;
    listeners.delivered_until.get_or_insert(from);
    from
}

impl EventDistributor {
    fn listeners(&self) -> std::sync::MutexGuard<'_, Listeners> {
        self.listeners.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A registered listener, which is removed when this is dropped.
struct EventListener {
    distributor: Arc<EventDistributor>,
    timeline: Arc<NodeTimeline>,
}

impl Drop for EventListener {
    fn drop(&mut self) {
        let now = self.timeline.elapsed();
        let mut listeners = self.distributor.listeners();
        listeners.count = listeners.count.saturating_sub(1);
        listeners.delivered_until = Some(now);
    }
}
