//! The event stream of a recording. It only keeps the stream open: the client's observer records the events.

use std::cell::Cell;
use std::sync::Arc;
use std::time::Duration;

use super::{RecordingHost, RecordingNotice};
use crate::cri::{Endpoint, Version};
use crate::optional_future::or_pending;
use crate::pleg::guarded_stream::{GuardedStream, StreamItem, StreamObserver, StreamSettings};
use crate::pleg::readers::{StreamReaders, readers_of, reason_of_empty_stream};
use crate::pleg::stream::{Event, Stream};
use crate::pleg::{SharedState, Sink};

/// The age at which the event stream is closed and opened again, the same as in `watch`.
const MAX_STREAM_AGE: Duration = Duration::from_secs(600);

/// The event stream, if this runtime has one that the recorder may read.
pub struct RecorderStream {
    guarded: Option<GuardedStream>,
    availability: StreamAvailability,
}

impl RecorderStream {
    /// Prepares the stream of a runtime, whose `version` is `None` if it has not answered so far.
    pub fn new(host: &impl RecordingHost, version: Option<Version>) -> Self {
        let mut stream = Self { guarded: None, availability: StreamAvailability::default() };
        if let Some(version) = version {
            stream.prepare(host, version);
        }
        stream
    }

    /// Prepares the stream of a runtime that has answered Version. The stream is opened after a relist.
    pub fn prepare(&mut self, host: &impl RecordingHost, version: Version) {
        self.availability.reason_of_empty.set(reason_of_empty_stream(&version));
        self.guarded = guarded_stream(host, version);
    }

    /// Notes that a relist begins.
    pub fn relist_begins(&mut self) {
        if let Some(guarded) = &mut self.guarded {
            guarded.relist_begins();
        }
    }

    /// Opens the stream after a relist if it is due, as the kubelet does.
    pub async fn open_if_due(&mut self, host: &impl RecordingHost) {
        let Some(guarded) = &mut self.guarded else { return };
        let availability = &self.availability;
        if let Err(why) = guarded.open_if_due(availability).await {
            // The process may have run out of threads or file descriptors, so a later attempt may succeed.
            guarded.postpone(&why.to_string(), availability);
            if !availability.reported_unavailable.replace(true) {
                host.notify(RecordingNotice::StreamUnavailable(why));
            }
        } else if availability.ended_at_once.get() {
            let why = availability.reason_of_empty.get().unwrap_or_default();
            host.notify(RecordingNotice::StreamNotRecorded(why));
            self.guarded = None;
        } else if guarded.is_open() {
            availability.reported_unavailable.set(false);
        }
    }

    /// Waits for an event or the end of the stream; without a stream, for ever.
    pub async fn next(&mut self) -> StreamItem {
        let item = self.guarded.as_mut().map(|guarded| guarded.next_item(std::future::ready(())));
        or_pending(item).await
    }

    /// Handles an event or the end of the stream.
    pub fn handle(&mut self, item: StreamItem) {
        if let Some(guarded) = &mut self.guarded {
            guarded.handle(item, &self.availability);
        }
    }

    /// Closes the stream, for this reason.
    pub fn release(&mut self, why: &str) {
        if let Some(guarded) = &mut self.guarded {
            guarded.release(why, &self.availability);
        }
    }
}

/// Tracks whether the runtime's event stream can be read. It ignores the events, because the client's observer records
/// them.
#[derive(Default)]
struct StreamAvailability {
    /// The error with which this runtime ends the stream at once, because its events are switched off; `None` if it has no
    /// such error.
    reason_of_empty: Cell<Option<&'static str>>,
    /// Whether the stream has ended with the error in `reason_of_empty`.
    ended_at_once: Cell<bool>,
    /// Whether the user knows that the stream cannot be opened at the moment.
    reported_unavailable: Cell<bool>,
}

impl StreamObserver for StreamAvailability {
    fn stream(&self, notice: Stream) {
        let reason_of_empty = self.reason_of_empty.get();
        if reason_of_empty.is_some() && notice.error.as_deref() == reason_of_empty {
            self.ended_at_once.set(true);
        }
    }

    fn sink(&self) -> Box<dyn Sink + '_> {
        Box::<Vec<Event>>::default()
    }
}

/// Returns the event stream, if the runtime allows a second reader next to the kubelet.
fn guarded_stream(host: &impl RecordingHost, version: Version) -> Option<GuardedStream> {
    let replayed = matches!(host.endpoint(), Endpoint::Custom { .. });
    if replayed || readers_of(&version) != StreamReaders::Several {
        return None;
    }
    let settings = StreamSettings {
        // A recorder outlives any number of restarts of its runtime.
        retries: u32::MAX,
        max_age: MAX_STREAM_AGE,
        guarded: matches!(host.endpoint(), Endpoint::Unix { .. }),
        // The recorder does not process the events.
        hint: true,
    };
    let shared = Arc::new(SharedState::new(true));
    Some(GuardedStream::new(host.client()?, version, Arc::clone(host.clock()), shared, settings))
}
