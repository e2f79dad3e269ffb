//! The channel between PLEG and the kubelet's sync loop: bounded, and what does not fit is lost.

use std::collections::VecDeque;

use super::stream::{Event, EventType};

/// How many events the kubelet lets wait.
pub const EVENT_CHANNEL_CAPACITY: usize = 1000;

/// Who takes events out of the channel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Consumer {
    /// A sync loop that is always faster than PLEG: nothing waits, nothing is lost.
    Prompt,
    /// Whoever calls [`EventChannel::receive`].
    Explicit,
}

/// What the sync loop gets of an event.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PodEvent {
    /// The pod.
    pub uid: String,
    /// Type of the event.
    pub event_type: EventType,
    /// Container or sandbox id; `None` for `PodSync`.
    pub id: Option<String>,
}

/// The channel.
#[derive(Debug)]
pub struct EventChannel {
    waiting: VecDeque<PodEvent>,
    capacity: usize,
    consumer: Consumer,
}

impl EventChannel {
    /// An empty channel.
    pub const fn new(capacity: usize, consumer: Consumer) -> Self {
        Self { waiting: VecDeque::new(), capacity, consumer }
    }

    /// Puts an event in, or says that there was no room.
    pub fn send(&mut self, event: &Event) -> bool {
        if self.consumer == Consumer::Prompt {
            return self.capacity > 0;
        }
        if self.is_full() {
            return false;
        }
        self.waiting.push_back(PodEvent {
            uid: event.pod.uid.clone(),
            event_type: event.event_type,
            id: event.id.clone(),
        });
        true
    }

    /// Takes the oldest event out.
    pub fn receive(&mut self) -> Option<PodEvent> {
        self.waiting.pop_front()
    }

    /// How many events wait.
    pub fn len(&self) -> usize {
        self.waiting.len()
    }

    /// Whether none waits.
    pub fn is_empty(&self) -> bool {
        self.waiting.is_empty()
    }

    /// How many could wait.
    pub const fn capacity(&self) -> usize {
        self.capacity
    }

    /// Whether the next event would be lost.
    pub fn is_full(&self) -> bool {
        self.waiting.len() >= self.capacity
    }
}
