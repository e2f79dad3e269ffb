//! The flight recorder: records every call to the runtime with its answer, in files of limited size, so that commands can
//! be run later against a moment in the past.
//!
//! There are five parts:
//!
//! * The *store* ([`Store`]) writes segments: each entry has a length and a checksum, equal answers are stored once, and
//!   lists are stored as differences. [`Capture`] reads them.
//! * The *recorder* ([`Recorder`]) records the calls of a client with their answers. `recording` runs it, and opens,
//!   diagnoses and closes incidents.
//! * The *replay* ([`ReplayServer`]) is a CRI server that returns the recorded answers. Its clock shows recorded time.
//! * The *verdict* (`recorder_verdict`) is what a recorder says of its node, and of the incidents that it knows.
//! * The *report* (`report`) collects the data for a post-mortem.
//!
//! A capture never contains verbose status information, environments or secrets, because the recorder never requests
//! them.
//!
//! ```
//! use plegctl_engine::capture::Capture;
//!
//! let capture = Capture::open(concat!(env!("CARGO_MANIFEST_DIR"), "/../../tests/captures/0.1.0.plegcap").as_ref())?;
//! assert!(!capture.relists.is_empty());
//! # Ok::<(), plegctl_engine::capture::Error>(())
//! ```

mod anonymise;
mod answer_encoder;
mod budget;
mod clock;
mod delta;
pub mod entry;
mod error;
mod export;
mod frame;
mod incident;
mod known_words;
mod limits;
pub mod list;
mod list_order;
mod message_cache;
mod moment;
pub mod node;
pub mod on_node;
mod open_part;
mod pack;
mod private_directory;
mod processor_limit;
mod read;
pub mod recorder;
pub mod recorder_verdict;
pub mod recording;
mod renames;
pub mod replay;
pub mod report;
mod segment;
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

pub use anonymise::{MAX_NUMBERED, Pseudonyms};
pub use clock::ReplayClock;
pub use error::Error;
pub use export::export_renamed;
pub use export::{Exported, Range, export};
pub use incident::{
    FindingSubject, IncidentAction, IncidentDetector, IncidentRules, IncidentVerdict, Observation, Prediction,
};
pub use moment::split_path_and_time;
pub use open_part::open_part;
pub use read::{
    CallState, Capture, CaptureMoment, DocumentEntry, RecordedCall, RecordedEnd, RecordedRelist,
    RecorderSession, SegmentState,
};
pub use recorder::{LivePendingCall, Recorder};
pub use renames::Renames;
pub use replay::{Playback, PlaybackStep, ReplayServer, Speed, Unanswered};
pub use segment::check as check_header;
pub use store::{Extent, Limits, MIN_CAPTURE_SIZE, Store};

/// Creates the error for a call that the capture does not contain, or whose answer it does not contain.
pub fn not_recorded(rpc: crate::cri::Rpc, why: String) -> crate::cri::Error {
    crate::cri::Error::Unanswerable {
        rpc,
        problem: "is not recorded",
        why,
        hint: "try another time: `-r capture:PATH@TIME` (`plegctl capture ls` lists the incidents)",
    }
}
