//! Replays the recorded event stream: each recorded event at its time, and no other event.

use std::sync::{Mutex, MutexGuard, PoisonError};

use super::entry::Outcome;
use super::read::{Capture, Moment, Place};
use crate::clock::Wall;
use crate::cri::{Error, EventFeed, EventStream, ReceivedEvent, Rpc};

/// The capacity of the queue of events. It is small, because the replay waits until each event is processed.
const QUEUE: usize = 16;

/// Something that happened to the stream.
#[derive(Clone, Debug)]
enum What {
    Opened,
    Told(Place),
    /// The stream ended; `None` means without an error.
    Ended(Option<Error>),
    /// From here on the events were not recorded; the text is the reason.
    Gap(String),
}

/// The recorded changes and events of the stream, in order, and the position of the replay.
pub struct Stream {
    items: Vec<(Moment, Wall, What)>,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    place: usize,
    /// Whether the stream was open at this position of the recording.
    open: bool,
    feed: Option<EventFeed>,
}

impl Stream {
    /// Creates the stream of `capture`, starting at `from`.
    pub(super) fn of(capture: &Capture, from: Moment) -> Self {
        let mut items: Vec<(Moment, Wall, What)> = Vec::new();
        for call in capture.calls.iter().filter(|call| call.rpc == Rpc::GetContainerEvents) {
            items.push((call.asked, call.wall, What::Opened));
            let last = capture.runs.get(call.asked.session).map_or(call.asked, |run| run.to);
            let (ended, what) = match &call.end {
                None => (last, What::Gap("the record ends here".to_owned())),
                Some(end) => (call.asked.plus(end.took), ended(&end.outcome)),
            };
            items.push((ended, call.wall.plus(ended.since(call.asked)), what));
        }
        items.extend(capture.told.iter().map(|told| (told.at, told.wall, What::Told(told.place))));
        items.extend(capture.losses.iter().map(|(at, wall, lost)| {
            (*at, *wall, What::Gap(format!("{} entries were not kept: {}", lost.entries, lost.why)))
        }));
        items.sort_by_key(|(at, ..)| *at);
        let place = items.partition_point(|(at, ..)| *at < from);
        let before = items.iter().take(place).rev();
        let open = before.map(|(.., what)| what).find(|what| !matches!(what, What::Told(_) | What::Gap(_)));
        let open = matches!(open, Some(What::Opened));
        Self { items, state: Mutex::new(State { place, open, feed: None }) }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether the recorder had the stream open at this position or later.
    pub fn is_recorded(&self) -> bool {
        let state = self.state();
        let mut rest = self.items.iter().skip(state.place);
        state.open || rest.any(|(.., what)| matches!(what, What::Opened))
    }

    /// Whether the stream is open at this position.
    pub fn is_open(&self) -> bool {
        self.state().open
    }

    /// Returns a receiver for the events that are replayed from now on.
    pub fn listen(&self) -> EventStream {
        let (feed, events) = EventStream::bounded(QUEUE);
        self.state().feed = Some(feed);
        events
    }

    /// Returns the time of the next item.
    pub(super) fn next(&self) -> Option<(Moment, Wall)> {
        let place = self.state().place;
        self.items.get(place).map(|(at, wall, _)| (*at, *wall))
    }

    /// Sends the next item to the receiver.
    pub(super) fn tell(&self, capture: &Capture) {
        let mut state = self.state();
        let Some((_, wall, what)) = self.items.get(state.place) else { return };
        state.place += 1;
        let not_recorded = |why: String| Error::NotRecorded { rpc: Rpc::GetContainerEvents, why };
        let end = match what {
            What::Opened => {
                state.open = true;
                return;
            }
            What::Told(place) => {
                let event = capture.message(*place).and_then(|text| ReceivedEvent::recorded(text, *wall));
                match (event, &state.feed) {
                    (Some(event), Some(feed)) => {
                        feed.offer(event);
                        return;
                    }
                    (_, None) => return,
                    (None, Some(_)) => Some(not_recorded("an event is lost".to_owned())),
                }
            }
            What::Ended(error) => {
                state.open = false;
                error.clone()
            }
            // The recorded stream continues after the gap: a receiver that opens it again gets the later events.
            What::Gap(why) => Some(not_recorded(why.clone())),
        };
        if let Some(feed) = state.feed.take() {
            feed.end(end);
        }
    }

    /// Whether the receiver has processed all events that were sent.
    pub(super) fn is_taken(&self) -> bool {
        self.state().feed.as_ref().is_none_or(EventFeed::all_processed)
    }
}

fn ended(outcome: &Outcome) -> What {
    match outcome {
        Outcome::Answered => What::Ended(None),
        Outcome::Failed(error) => What::Ended(Some(error.clone())),
        Outcome::Abandoned | Outcome::Unknown => What::Ended(Some(Error::NotRecorded {
            rpc: Rpc::GetContainerEvents,
            why: "closed by the recorder".to_owned(),
        })),
    }
}
