//! The flight recorder: records every call to the runtime with its result, in files of limited size, so that you can
//! query it later.
//!
//! There are four parts. The *store* writes and reads segments: each entry has a length and a checksum, equal answers
//! are stored once, and lists are stored as differences. The *recorder* records the calls of a client with their
//! answers, and opens and closes incidents. The *replay* is another implementation of the runtime: it returns the
//! recorded answers, and its clock shows recorded time. The *report* is the data for a post-mortem.
//!
//! A capture never contains verbose status information, environments or secrets, because the recorder never requests
//! them.
//!
//! ```
//! use plegctl::capture::Capture;
//!
//! let capture = Capture::open("tests/captures/0.1.0.plegcap".as_ref())?;
//! assert!(!capture.relists.is_empty());
//! # Ok::<(), plegctl::capture::Error>(())
//! ```

mod anonymise;
mod budget;
mod clock;
mod delta;
pub(crate) mod entry;
mod error;
mod export;
mod frame;
mod incident;
mod keeper;
pub(crate) mod list;
mod moment;
pub(crate) mod node;
mod order;
mod pack;
mod phrases;
mod play;
mod private;
mod read;
mod recent;
pub(crate) mod recorder;
pub(crate) mod recording;
pub(crate) mod replay;
pub(crate) mod report;
mod segment;
mod stacks;
mod store;
mod timeline;

#[cfg(test)]
mod hostile_tests;
#[cfg(test)]
mod store_tests;
#[cfg(test)]
mod testing;
#[cfg(test)]
mod tests;

pub use anonymise::Pseudonyms;
pub use clock::ReplayClock;
pub use error::Error;
pub use export::{Exported, Range, export};
pub use incident::{
    FindingSubject, IncidentAction, IncidentDetector, IncidentRules, IncidentVerdict, Observation,
};
pub use moment::parts;
pub use play::StreamReplay;
pub use read::{
    CallState, Capture, CaptureMoment, DocumentEntry, RecordedCall, RecordedEnd, RecordedEvent,
    RecordedRelist, RecorderSession, SegmentState,
};
pub use recorder::{LivePendingCall, Recorder};
pub use replay::{AnyClientService, Playback, PlaybackStep, ReplayServer, Speed, Unanswered};
pub use store::{Extent, Limits, SMALLEST, Store};

/// The error of a call that a capture does not contain, or without its answer.
pub(crate) fn not_recorded(rpc: crate::cri::Rpc, why: String) -> crate::cri::Error {
    crate::cri::Error::Unanswerable {
        rpc,
        problem: "is not recorded",
        why,
        hint: "try another time: `-r capture:PATH@TIME` (`plegctl capture ls` lists the incidents)",
    }
}
