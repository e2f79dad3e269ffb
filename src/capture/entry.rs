//! The entries of a capture, as protobuf messages. A [`CaptureEntry`] has a time and a [`Body`].
//!
//! A call has two entries with the same call number: [`CallStarted`] before the call is sent, and [`CallFinished`] when
//! the call is over.
//!
//! Later releases may add fields, but the meaning of a field never changes. A release ignores fields and kinds of entries
//! that it does not know.

use std::time::Duration;

use prost::bytes::Bytes;

use crate::clock::Wall;
use crate::cri::{Code, Error, FileKind, Rpc};
use crate::report::fits_in_memory;

/// One entry: a time and its content.
#[derive(Clone, PartialEq, prost::Message)]
pub struct CaptureEntry {
    /// The time by the wall clock, in nanoseconds since the Unix epoch.
    #[prost(sfixed64, tag = "1")]
    pub wall: i64,
    /// The time by the monotonic clock, in nanoseconds since the recorder started.
    #[prost(uint64, tag = "2")]
    pub mono: u64,
    /// The content.
    #[prost(oneof = "Body", tags = "3, 4, 5, 6, 7, 8, 9, 10, 11")]
    pub body: Option<Body>,
}

/// The content of an entry.
#[derive(Clone, PartialEq, prost::Oneof)]
pub enum Body {
    /// A session of a recorder begins or continues; the entries that follow belong to it.
    #[prost(message, tag = "3")]
    Session(Session),
    /// A call is about to be sent.
    #[prost(message, tag = "4")]
    CallStarted(CallStarted),
    /// A call is over.
    #[prost(message, tag = "5")]
    CallFinished(CallFinished),
    /// A relist is over.
    #[prost(message, tag = "6")]
    Relist(RelistDone),
    /// A document, for example an event, a diagnosis or a sample of the node; see [`kind`].
    #[prost(message, tag = "7")]
    Document(StoredDocument),
    /// An incident is opened, diagnosed or closed.
    #[prost(message, tag = "8")]
    Incident(Incident),
    /// The wall clock was set.
    #[prost(message, tag = "9")]
    Jump(Jump),
    /// The recorder could not write some entries.
    #[prost(message, tag = "10")]
    Lost(Lost),
    /// The recorder ended normally.
    #[prost(message, tag = "11")]
    Stopped(Stopped),
}

/// One run of the recorder, with the runtime and the settings. Every segment begins with this entry, so that each segment
/// can be read without the others.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct Session {
    /// A random number that identifies this run of the recorder.
    #[prost(fixed64, tag = "1")]
    pub id: u64,
    /// The release of plegctl.
    #[prost(string, tag = "2")]
    pub release: String,
    /// The node's name.
    #[prost(string, tag = "3")]
    pub node: String,
    /// The endpoint as the user wrote it.
    #[prost(string, tag = "4")]
    pub endpoint: String,
    /// The runtime's name.
    #[prost(string, tag = "5")]
    pub runtime: String,
    /// The runtime's version.
    #[prost(string, tag = "6")]
    pub runtime_version: String,
    /// The pause between relists, in nanoseconds.
    #[prost(uint64, tag = "7")]
    pub period: u64,
    /// The maximum age of the last relist at which PLEG is healthy, in nanoseconds.
    #[prost(uint64, tag = "8")]
    pub threshold: u64,
    /// The minimum duration of a slow call or a slow relist, in nanoseconds.
    #[prost(uint64, tag = "9")]
    pub slow: u64,
    /// A kubelet release. The recorder relists in the same way as this release.
    #[prost(string, tag = "10")]
    pub kubelet: String,
    /// The number of segments that were deleted since the capture was created: the capture was too large, or the
    /// segments were too old.
    #[prost(uint64, tag = "11")]
    pub dropped: u64,
    /// The number of the segment, counted from 1.
    #[prost(uint64, tag = "12")]
    pub segment: u64,
    /// The deadline of each call, in nanoseconds.
    #[prost(uint64, tag = "13")]
    pub timeout: u64,
}

/// A call is about to be sent.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct CallStarted {
    /// The number of the call within the session.
    #[prost(uint64, tag = "1")]
    pub call: u64,
    /// The number of the RPC; see [`rpc_number`].
    #[prost(uint32, tag = "2")]
    pub rpc: u32,
    /// The encoded request.
    #[prost(bytes = "bytes", tag = "3")]
    pub request: Bytes,
    /// The number of the relist that made the call; 0 if the call belongs to no relist.
    #[prost(uint64, tag = "4")]
    pub relist: u64,
}

/// A call is over.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct CallFinished {
    /// The number of the call within the session.
    #[prost(uint64, tag = "1")]
    pub call: u64,
    /// The duration of the call, in nanoseconds.
    #[prost(uint64, tag = "2")]
    pub took: u64,
    /// The number of the [`RecordedOutcome`].
    #[prost(uint32, tag = "3")]
    pub outcome: u32,
    /// A detail whose meaning depends on the outcome: a gRPC status code, or the kind of file found instead of a
    /// socket.
    #[prost(uint32, tag = "4")]
    pub code: u32,
    /// The error message; for an unfinished answer, the number of received bytes.
    #[prost(string, tag = "5")]
    pub message: String,
    /// The messages of the answer.
    #[prost(message, repeated, tag = "6")]
    pub answers: Vec<StoredMessage>,
    /// Whether `answers` is empty because the answer did not fit into a segment.
    #[prost(bool, tag = "7")]
    pub omitted: bool,
    /// The time limit of a call without a complete answer (silent or unfinished), in nanoseconds.
    #[prost(uint64, tag = "8")]
    pub waited: u64,
}

/// One message of an answer: the message itself, its difference from an earlier message, or a reference to one.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct StoredMessage {
    /// The number of the message in its segment, counted from 1. If no other field is set, an earlier entry of the
    /// segment has the message with this number.
    #[prost(uint32, tag = "1")]
    pub number: u32,
    /// The number of the message from which `bytes` is the difference; 0 if `bytes` is the whole message.
    #[prost(uint32, tag = "2")]
    pub base: u32,
    /// The bytes of the message or of the difference.
    #[prost(bytes = "bytes", tag = "3")]
    pub bytes: Bytes,
    /// The size of `bytes` before they were compressed; 0 if they are not compressed.
    #[prost(uint64, tag = "4")]
    pub inflated: u64,
    /// Whether this entry stores the message or its difference. If not, this entry only refers to an earlier one. Empty
    /// `bytes` do not show this, because a stored message may be empty.
    #[prost(bool, tag = "5")]
    pub is_stored_here: bool,
    /// For a list in canonical order: the permutation that restores its original order; see `capture::list_order`. If
    /// this message is the base of a later one, the difference is from its canonical order.
    #[prost(bytes = "bytes", tag = "6")]
    pub order: Bytes,
}

/// A relist is over.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct RelistDone {
    /// The number of the relist within the session.
    #[prost(uint64, tag = "1")]
    pub number: u64,
    /// When the relist began, by the monotonic clock.
    #[prost(uint64, tag = "2")]
    pub began: u64,
    /// The error of a list call; empty if both list calls succeeded.
    #[prost(string, tag = "3")]
    pub error: String,
    /// The number of listed pods.
    #[prost(uint64, tag = "4")]
    pub pods: u64,
    /// The number of listed containers.
    #[prost(uint64, tag = "5")]
    pub containers: u64,
    /// The number of events that the relist emitted.
    #[prost(uint64, tag = "6")]
    pub events: u64,
}

/// A document in JSON.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct StoredDocument {
    /// The kind of document; see [`kind`].
    #[prost(uint32, tag = "1")]
    pub kind: u32,
    /// The text.
    #[prost(bytes = "bytes", tag = "2")]
    pub text: Bytes,
    /// The size of the text before it was compressed; 0 if it is not compressed.
    #[prost(uint64, tag = "3")]
    pub inflated: u64,
}

/// Kinds of documents.
pub mod kind {
    /// A pod lifecycle event.
    pub const EVENT: u32 = 1;
    /// PLEG's health changed.
    pub const HEALTH: u32 = 2;
    /// A diagnosis.
    pub const DIAGNOSIS: u32 = 3;
    /// A sample of the node's pressure and processes.
    pub const NODE: u32 = 4;
    /// The waits in the runtime's goroutines.
    pub const STACKS: u32 = 5;
    /// A sample of the kubelet's metrics, or a note that the kubelet did not send them.
    pub const KUBELET: u32 = 6;
    /// The facts of the node that a diagnosis measured, beside this diagnosis.
    pub const FACTS: u32 = 7;
}

/// An incident that was opened, diagnosed or closed. An entry replaces all earlier entries with the same number.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct Incident {
    /// The number of the incident in the capture, counted from 1.
    #[prost(uint64, tag = "1")]
    pub number: u64,
    /// The beginning, by the wall clock.
    #[prost(sfixed64, tag = "2")]
    pub from: i64,
    /// The end, by the wall clock; 0 while the incident lasts.
    #[prost(sfixed64, tag = "3")]
    pub to: i64,
    /// The reason why the incident was opened.
    #[prost(string, tag = "4")]
    pub why: String,
    /// The verdict; empty before the first diagnosis.
    #[prost(string, tag = "5")]
    pub verdict: String,
    /// Line 1 of the diagnosis.
    #[prost(string, tag = "6")]
    pub summary: String,
    /// The primary finding as JSON; empty if there is none.
    #[prost(string, tag = "7")]
    pub primary: String,
    /// The worst moment, by the wall clock.
    #[prost(sfixed64, tag = "8")]
    pub peak: i64,
    /// The beginning of the pinned time, by the wall clock. When the recorder needs space, it deletes the segments of
    /// this time last.
    #[prost(sfixed64, tag = "9")]
    pub pinned_from: i64,
    /// The end of the pinned time, by the wall clock.
    #[prost(sfixed64, tag = "10")]
    pub pinned_to: i64,
    /// How long the incident lasted by the monotonic clock, in nanoseconds; 0 while it lasts.
    #[prost(uint64, tag = "11")]
    pub lasted: u64,
    /// `why` as a fact in JSON.
    #[prost(string, tag = "12")]
    pub reason: String,
}

impl Incident {
    /// Returns how long the incident lasted; `None` while it lasts.
    pub fn duration(&self) -> Option<Duration> {
        Wall::known(self.to).map(|_| Duration::from_nanos(self.lasted))
    }

    /// Returns the primary finding in JSON, without its steps: they were for the node as it was at the diagnosis.
    pub fn finding(&self) -> Option<serde_json::Value> {
        let text = self.primary.as_bytes();
        let mut finding = fits_in_memory(text).then(|| serde_json::from_slice(text).ok()).flatten();
        if let Some(serde_json::Value::Object(finding)) = &mut finding {
            finding.insert("steps".to_owned(), serde_json::Value::Array(Vec::new()));
        }
        finding
    }
}

/// The wall clock was set.
#[derive(Clone, Copy, PartialEq, Eq, prost::Message)]
pub struct Jump {
    /// The difference between the new and the old time, in nanoseconds.
    #[prost(sint64, tag = "1")]
    pub by: i64,
}

/// A loss: entries that the recorder could not write.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct Lost {
    /// The number of lost entries.
    #[prost(uint64, tag = "1")]
    pub entries: u64,
    /// The reason for the loss.
    #[prost(string, tag = "2")]
    pub why: String,
    /// The calls whose [`CallFinished`] entries were lost.
    #[prost(message, repeated, tag = "3")]
    pub ends: Vec<LostEnd>,
    /// The time of the first lost entry, in nanoseconds since the recorder started.
    #[prost(uint64, tag = "4")]
    pub since: u64,
    /// Whether `ends` is incomplete.
    #[prost(bool, tag = "5")]
    pub more_ends: bool,
}

/// The end of a call whose entry could not be written.
#[derive(Clone, Copy, PartialEq, Eq, prost::Message)]
pub struct LostEnd {
    /// The number of the call.
    #[prost(uint64, tag = "1")]
    pub call: u64,
    /// When the call ended, in nanoseconds since the recorder started.
    #[prost(uint64, tag = "2")]
    pub mono: u64,
}

/// The reason for the end of a recording after a certain number of relists.
pub const ENDED_BY_COUNT: &str = "--count";

/// The recorder ended normally.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct Stopped {
    /// The reason for the end, for example a signal.
    #[prost(string, tag = "1")]
    pub why: String,
}

/// Creates a [`StoredMessage`] that has only its bytes; the store encodes it later (see `answer_encoder`).
pub fn unencoded(bytes: Bytes) -> StoredMessage {
    StoredMessage { bytes, ..StoredMessage::default() }
}

/// Returns the number with which captures store this RPC. These numbers never change.
pub const fn rpc_number(rpc: Rpc) -> u32 {
    match rpc {
        Rpc::Version => 1,
        Rpc::Status => 2,
        Rpc::RuntimeConfig => 3,
        Rpc::ListPodSandbox => 4,
        Rpc::PodSandboxStatus => 5,
        Rpc::ListContainers => 6,
        Rpc::ContainerStatus => 7,
        Rpc::GetContainerEvents => 8,
        Rpc::StreamPodSandboxes => 9,
        Rpc::StreamContainers => 10,
        Rpc::ContainerStats => 11,
    }
}

/// Returns the RPC with this number.
pub fn rpc(number: u32) -> Option<Rpc> {
    Rpc::ALL.into_iter().find(|rpc| rpc_number(*rpc) == number)
}

/// The numbers with which captures store the outcomes of calls. These numbers never change.
mod outcome_number {
    pub const ANSWERED: u32 = 0;
    pub const STATUS: u32 = 1;
    pub const SILENT: u32 = 2;
    pub const NO_SUCH_SOCKET: u32 = 3;
    pub const NOT_A_SOCKET: u32 = 4;
    pub const PERMISSION_DENIED: u32 = 5;
    pub const REFUSED: u32 = 6;
    pub const UNREACHABLE: u32 = 7;
    pub const WRONG_PROTOCOL: u32 = 8;
    pub const CLOSED_MID_CALL: u32 = 9;
    pub const UNIMPLEMENTED: u32 = 10;
    pub const TOO_LARGE: u32 = 11;
    pub const UNDECODABLE: u32 = 12;
    pub const ABANDONED: u32 = 13;
    pub const IMPLAUSIBLE: u32 = 14;
    pub const INTERNAL: u32 = 15;
    pub const UNFINISHED: u32 = 16;
}

/// The outcome of a recorded call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RecordedOutcome {
    /// The runtime answered.
    Answered,
    /// The call failed.
    Failed(Error),
    /// The recorder stopped waiting before the call ended or reached its time limit.
    Abandoned,
    /// The outcome has a number that this release does not know.
    Unknown,
}

/// Returns a duration in nanoseconds, as entries store it.
pub fn nanos(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)
}

/// The number of [`Code::Unknown`].
const UNKNOWN_CODE: u32 = 2;

/// Returns the number with which captures store a gRPC code.
fn code_number(code: Code) -> u32 {
    (1_u32..).zip(Code::ALL).find(|(_, known)| *known == code).map_or(UNKNOWN_CODE, |(number, _)| number)
}

/// Returns the gRPC code with this number.
fn code_with_number(number: u32) -> Code {
    (1_u32..).zip(Code::ALL).find(|(known, _)| *known == number).map_or(Code::Unknown, |(_, code)| code)
}

/// The kinds of files that can be in the place of a socket. Captures store the index, so the order never changes.
const FILE_KINDS: [FileKind; 3] = [FileKind::Other, FileKind::File, FileKind::Directory];

impl CallFinished {
    /// Returns whether the message is the number of received bytes.
    pub const fn has_byte_count(&self) -> bool {
        self.outcome == outcome_number::UNFINISHED
    }

    /// Creates the entry for the end of `call`.
    pub fn new(call: u64, took: Duration, outcome: &RecordedOutcome) -> Self {
        let mut ended = Self { call, took: nanos(took), ..Self::default() };
        ended.set_outcome(outcome);
        ended
    }

    /// Sets the fields that store the outcome.
    fn set_outcome(&mut self, outcome: &RecordedOutcome) {
        use outcome_number as number;
        let mut set = |outcome: u32, message: &str| {
            self.outcome = outcome;
            message.clone_into(&mut self.message);
        };
        match outcome {
            RecordedOutcome::Answered => set(number::ANSWERED, ""),
            RecordedOutcome::Abandoned | RecordedOutcome::Unknown => set(number::ABANDONED, ""),
            RecordedOutcome::Failed(error) => match error {
                // This error occurs only if the recorder records a replay, and the replayed capture has no answer to the
                // call. So nothing is known about the outcome.
                Error::Unanswerable { .. } => set(number::ABANDONED, ""),
                Error::Silent { waited, .. } => {
                    set(number::SILENT, "");
                    self.waited = nanos(*waited);
                }
                Error::NoSuchSocket { .. } => set(number::NO_SUCH_SOCKET, ""),
                Error::NotASocket { kind, .. } => {
                    set(number::NOT_A_SOCKET, "");
                    let place = FILE_KINDS.iter().position(|known| known == kind).unwrap_or_default();
                    self.code = u32::try_from(place).unwrap_or_default();
                }
                Error::PermissionDenied { .. } => set(number::PERMISSION_DENIED, ""),
                Error::Refused { .. } => set(number::REFUSED, ""),
                Error::Unreachable { detail, .. } => set(number::UNREACHABLE, detail),
                Error::WrongProtocol { detail, .. } => set(number::WRONG_PROTOCOL, detail),
                Error::ClosedMidCall { detail, .. } => set(number::CLOSED_MID_CALL, detail),
                Error::Unimplemented { message, .. } => set(number::UNIMPLEMENTED, message),
                Error::TooLarge { message, .. } => set(number::TOO_LARGE, message),
                Error::Decode { detail, .. } => set(number::UNDECODABLE, detail),
                Error::Implausible { detail, .. } => set(number::IMPLAUSIBLE, detail),
                Error::Internal { detail, .. } => set(number::INTERNAL, detail),
                Error::Unfinished { waited, received, .. } => {
                    set(number::UNFINISHED, &received.to_string());
                    self.waited = nanos(*waited);
                }
                Error::Runtime { code, message, .. } => {
                    set(number::STATUS, message);
                    self.code = code_number(*code);
                }
            },
        }
    }

    /// Returns the outcome of the call. `rpc` and `endpoint` are parts of its error.
    pub fn outcome(&self, rpc: Rpc, endpoint: &str) -> RecordedOutcome {
        use outcome_number as number;
        let endpoint = || endpoint.to_owned();
        let message = || self.message.clone();
        RecordedOutcome::Failed(match self.outcome {
            number::ANSWERED => return RecordedOutcome::Answered,
            number::ABANDONED => return RecordedOutcome::Abandoned,
            number::STATUS => Error::Runtime { rpc, code: code_with_number(self.code), message: message() },
            number::UNFINISHED => Error::Unfinished {
                rpc,
                waited: Duration::from_nanos(self.waited),
                received: self.message.parse().unwrap_or_default(),
            },
            number::SILENT => Error::Silent { rpc, waited: Duration::from_nanos(self.waited) },
            number::NO_SUCH_SOCKET => Error::NoSuchSocket { endpoint: endpoint() },
            number::NOT_A_SOCKET => {
                let place = usize::try_from(self.code).unwrap_or_default();
                let kind = FILE_KINDS.get(place).copied().unwrap_or(FileKind::Other);
                Error::NotASocket { endpoint: endpoint(), kind }
            }
            number::PERMISSION_DENIED => Error::PermissionDenied { endpoint: endpoint() },
            number::REFUSED => Error::Refused { endpoint: endpoint() },
            number::UNREACHABLE => Error::Unreachable { endpoint: endpoint(), detail: message() },
            number::WRONG_PROTOCOL => Error::WrongProtocol { endpoint: endpoint(), detail: message() },
            number::CLOSED_MID_CALL => Error::ClosedMidCall { rpc, detail: message() },
            number::UNIMPLEMENTED => Error::Unimplemented { rpc, message: message() },
            number::TOO_LARGE => Error::TooLarge { rpc, message: message() },
            number::UNDECODABLE => Error::Decode { rpc, detail: message() },
            number::IMPLAUSIBLE => Error::Implausible { rpc, detail: message() },
            number::INTERNAL => Error::Internal { rpc, detail: message() },
            _ => return RecordedOutcome::Unknown,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn finding_of_an_incident_has_no_step_for_the_processes_of_that_moment() {
        let primary = r#"{"id": "D07", "facts": [],
            "steps": [{"purpose": "continue it", "command": "kill -CONT 812", "changesState": true}]}"#;
        let incident = Incident { primary: primary.into(), ..Incident::default() };
        assert_eq!(incident.finding(), Some(serde_json::json!({"id": "D07", "steps": [], "facts": []})));
    }

    #[test]
    fn every_rpc_has_its_own_number() {
        for known in Rpc::ALL {
            assert_eq!(rpc(rpc_number(known)), Some(known));
        }
        assert_eq!(rpc(0), None);
    }

    #[test]
    fn every_outcome_is_read_as_it_was_written() {
        let rpc = Rpc::ContainerStatus;
        let endpoint = || "unix:///x".to_owned();
        let words = || "words".to_owned();
        let failures = [
            Error::Silent { rpc, waited: Duration::from_secs(120) },
            Error::Unfinished { rpc, waited: Duration::from_secs(10), received: 40 << 20 },
            Error::NoSuchSocket { endpoint: endpoint() },
            Error::NotASocket { endpoint: endpoint(), kind: FileKind::File },
            Error::NotASocket { endpoint: endpoint(), kind: FileKind::Directory },
            Error::PermissionDenied { endpoint: endpoint() },
            Error::Refused { endpoint: endpoint() },
            Error::Unreachable { endpoint: endpoint(), detail: words() },
            Error::WrongProtocol { endpoint: endpoint(), detail: words() },
            Error::ClosedMidCall { rpc, detail: words() },
            Error::Unimplemented { rpc, message: words() },
            Error::TooLarge { rpc, message: words() },
            Error::Decode { rpc, detail: words() },
            Error::Implausible { rpc, detail: words() },
            Error::Internal { rpc, detail: words() },
        ];
        let statuses = Code::ALL.map(|code| Error::Runtime { rpc, code, message: words() });
        let ends = failures.into_iter().chain(statuses).map(RecordedOutcome::Failed);
        for end in ends.chain([RecordedOutcome::Answered, RecordedOutcome::Abandoned]) {
            let written = CallFinished::new(7, Duration::from_millis(3), &end);
            assert_eq!(written.outcome(rpc, "unix:///x"), end);
        }
        let later = CallFinished { outcome: 99, ..CallFinished::default() };
        assert_eq!(later.outcome(rpc, ""), RecordedOutcome::Unknown);
    }
}
