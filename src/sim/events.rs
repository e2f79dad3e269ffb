//! The event stream, in the two ways that runtimes have of feeding more than one listener.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio::sync::mpsc;
use tokio_stream::StreamExt;
use tokio_stream::wrappers::ReceiverStream;

use super::life::{Nanos, nanos};
use super::node::Event;
use super::scenario::Family;
use super::story::Story;
use crate::cri::server::{Answer, Bytes, message};

/// Events that a listener has not taken yet, beyond what HTTP/2 buffers (containerd, CRI-O).
const LISTENER_BUFFER: usize = 100;
/// Events that a runtime with one queue for all holds; later ones are lost (containerd 1.7, CRI-O).
const QUEUE: usize = 1000;
/// How long containerd 2.x keeps events that nobody listens to.
const KEPT_FOR: Duration = Duration::from_secs(300);

/// Before anything happens: what happens at the very start comes after it.
const BEGINNING: Nanos = -1;

/// Where the listeners meet.
#[derive(Debug, Default)]
pub struct Stage {
    audience: Mutex<Audience>,
    shared: tokio::sync::Mutex<Option<Cursor>>,
}

/// Who listens to a broadcast.
#[derive(Debug, Default)]
struct Audience {
    listeners: u32,
    /// Up to when events have reached somebody; `None` if nobody ever listened.
    heard: Option<Nanos>,
}

/// A place in the story of the node.
#[derive(Debug)]
struct Cursor {
    at: Nanos,
    pending: VecDeque<Event>,
}

impl Cursor {
    /// After the events up to `at`.
    fn new(at: Nanos) -> Self {
        Self { at, pending: VecDeque::new() }
    }

    /// The next event, when it happens.
    async fn next(&mut self, story: &Story) -> Event {
        loop {
            if let Some(event) = self.pending.pop_front() {
                return event;
            }
            let now = story.elapsed();
            self.pending = story.events(self.at, now).into();
            // What has gathered beyond the queue is lost, the newest first.
            self.pending.truncate(QUEUE);
            self.at = self.at.max(now);
            if self.pending.is_empty() {
                match story.until_next(now) {
                    Some(wait) => tokio::time::sleep(wait).await,
                    None => std::future::pending().await,
                }
            }
        }
    }
}

/// A listener that hears everything. The first one after a time without any hears what was kept for it.
pub fn broadcast(stage: &Arc<Stage>, story: &Arc<Story>) -> Answer {
    let (feed, stream) = mpsc::channel(LISTENER_BUFFER);
    let mut cursor = Cursor::new(enter(stage, story));
    let listener = Listener { stage: Arc::clone(stage), story: Arc::clone(story) };
    tokio::spawn(async move {
        loop {
            let event = tokio::select! {
                event = cursor.next(&listener.story) => event,
                () = feed.closed() => return,
            };
            if feed.send(message::event(event.message)).await.is_err() {
                return;
            }
        }
    });
    sent(stream)
}

/// A listener that takes its events from the others. That it is gone is only noticed with an event in hand, which is
/// then lost.
pub fn compete(stage: &Arc<Stage>, story: &Arc<Story>) -> Answer {
    let (feed, stream) = mpsc::channel(1);
    let (stage, story) = (Arc::clone(stage), Arc::clone(story));
    tokio::spawn(async move {
        loop {
            let event = {
                let mut shared = stage.shared.lock().await;
                shared.get_or_insert_with(|| Cursor::new(BEGINNING)).next(&story).await
            };
            if feed.send(message::event(event.message)).await.is_err() {
                return;
            }
        }
    });
    sent(stream)
}

fn sent(events: mpsc::Receiver<Bytes>) -> Answer {
    Answer::stream(ReceiverStream::new(events).map(Ok))
}

/// Joins the audience; returns from when on it hears events.
fn enter(stage: &Stage, story: &Story) -> Nanos {
    let now = story.elapsed();
    let mut audience = stage.audience();
    let kept_from = match story.family() {
        Family::Containerd => audience.heard.unwrap_or(BEGINNING).max(now - nanos(KEPT_FOR)),
        // CRI-O holds events for its first listener only.
        Family::CriO => audience.heard.map_or(BEGINNING, |_| now),
    };
    let from = if audience.listeners == 0 { kept_from } else { now };
    audience.listeners += 1;
    audience.heard.get_or_insert(from);
    from
}

impl Stage {
    fn audience(&self) -> std::sync::MutexGuard<'_, Audience> {
        self.audience.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// One of the audience, who leaves when this is dropped.
struct Listener {
    stage: Arc<Stage>,
    story: Arc<Story>,
}

impl Drop for Listener {
    fn drop(&mut self) {
        let now = self.story.elapsed();
        let mut audience = self.stage.audience();
        audience.listeners = audience.listeners.saturating_sub(1);
        audience.heard = Some(now);
    }
}
