//! Replays the recorded event stream: delivers the events, and the ends and gaps of the stream, at their recorded times.

use std::sync::{Mutex, MutexGuard};

use super::entry::RecordedOutcome;
use super::not_recorded;
use super::read::{Capture, CaptureMoment, MessageId};
use crate::clock::Wall;
use crate::cri::{Error, EventFeed, EventStream, ReceivedEvent, Rpc};
use crate::threads::locked;

/// The capacity of the queue of events. A small queue is enough, because the replay waits until each event is processed.
const QUEUE: usize = 16;

/// A change of the recorded stream.
#[derive(Clone, Debug)]
enum StreamChange {
    /// The stream was opened.
    Opened,
    /// An event arrived.
    Event(MessageId),
    /// The stream ended; `None` means without an error.
    Ended(Option<Error>),
    /// From here on events are missing in the capture, for this reason.
    Gap(String),
}

/// The recorded event stream, and the position of the replay in it.
pub struct StreamReplay {
    /// The recorded changes in order, each with its times.
    items: Vec<(CaptureMoment, Wall, StreamChange)>,
    position: Mutex<StreamPosition>,
}

/// The position of the replay in the event stream.
#[derive(Default)]
struct StreamPosition {
    /// The index of the next item.
    next: usize,
    /// Whether the recorder had the stream open at this position.
    open: bool,
    /// Sends events to the receiver, if there is one.
    feed: Option<EventFeed>,
}

impl StreamReplay {
    /// Collects the recorded event stream of `capture`; the replay starts at `from`.
    pub(super) fn from_moment(capture: &Capture, from: CaptureMoment) -> Self {
        let mut items: Vec<(CaptureMoment, Wall, StreamChange)> = Vec::new();
        for call in capture.calls.iter().filter(|call| call.rpc == Rpc::GetContainerEvents) {
            items.push((call.sent, call.wall, StreamChange::Opened));
            let last = capture.sessions.get(call.sent.session).map_or(call.sent, |run| run.to);
            let (ended, what) = match &call.end {
                None => (last, StreamChange::Gap("the recording ends here".to_owned())),
                Some(end) => (call.sent.plus(end.took), ended(&end.outcome)),
            };
            items.push((ended, call.wall.plus(ended.since(call.sent)), what));
        }
        items.extend(
            capture
                .stream_events
                .iter()
                .map(|event| (event.at, event.wall, StreamChange::Event(event.message))),
        );
        items.extend(capture.losses.iter().map(|(at, wall, lost)| {
            let entries = if lost.entries == 1 { "entry" } else { "entries" };
            let why = format!("the recorder lost {} {entries}: {}", lost.entries, lost.why);
            (*at, *wall, StreamChange::Gap(why))
        }));
        items.sort_by_key(|(at, ..)| *at);
        let next = items.partition_point(|(at, ..)| *at < from);
        let before = items.iter().take(next).rev();
        let open = before
            .map(|(.., what)| what)
            .find(|what| !matches!(what, StreamChange::Event(_) | StreamChange::Gap(_)));
        let open = matches!(open, Some(StreamChange::Opened));
        Self { items, position: Mutex::new(StreamPosition { next, open, feed: None }) }
    }

    fn position(&self) -> MutexGuard<'_, StreamPosition> {
        locked(&self.position)
    }

    /// Whether the recorder had the stream open at this position or later.
    pub fn is_recorded(&self) -> bool {
        let position = self.position();
        let mut rest = self.items.iter().skip(position.next);
        position.open || rest.any(|(.., what)| matches!(what, StreamChange::Opened))
    }

    /// Whether the stream is open at this position.
    pub fn is_open(&self) -> bool {
        self.position().open
    }

    /// Returns a receiver for the events that are replayed from now on.
    pub fn listen(&self) -> EventStream {
        let (feed, events) = EventStream::bounded(QUEUE);
        self.position().feed = Some(feed);
        events
    }

    /// Returns the time of the next item.
    pub(super) fn next(&self) -> Option<(CaptureMoment, Wall)> {
        let next = self.position().next;
        self.items.get(next).map(|(at, wall, _)| (*at, *wall))
    }

    /// Sends the next item to the receiver.
    pub(super) fn send_next(&self, capture: &Capture) {
        let mut position = self.position();
        let Some((_, wall, what)) = self.items.get(position.next) else { return };
        position.next += 1;
        let missing = |why: String| not_recorded(Rpc::GetContainerEvents, why);
        let end = match what {
            StreamChange::Opened => {
                position.open = true;
                return;
            }
            StreamChange::Event(message) => {
                let event = capture.message(*message).and_then(|text| ReceivedEvent::decode(text, *wall));
                match (event, &position.feed) {
                    (Some(event), Some(feed)) => {
                        feed.offer(event);
                        return;
                    }
                    (_, None) => return,
                    (None, Some(_)) => Some(missing("an event is lost".to_owned())),
                }
            }
            StreamChange::Ended(error) => {
                position.open = false;
                error.clone()
            }
            // A gap ends the receiver's stream with an error, so that the receiver knows that it missed events. The recorded
            // stream stays open: a receiver that opens the stream again gets the events after the gap.
            StreamChange::Gap(why) => Some(missing(why.clone())),
        };
        if let Some(feed) = position.feed.take() {
            feed.end(end);
        }
    }

    /// Whether the receiver has processed all events that were sent.
    pub(super) fn is_processed(&self) -> bool {
        self.position().feed.as_ref().is_none_or(EventFeed::all_processed)
    }
}

/// Returns the end of the stream for the outcome of its call.
fn ended(outcome: &RecordedOutcome) -> StreamChange {
    match outcome {
        RecordedOutcome::Answered => StreamChange::Ended(None),
        RecordedOutcome::Failed(error) => StreamChange::Ended(Some(error.clone())),
        RecordedOutcome::Abandoned | RecordedOutcome::Unknown => {
            let why = "closed by the recorder".to_owned();
            StreamChange::Ended(Some(not_recorded(Rpc::GetContainerEvents, why)))
        }
    }
}
