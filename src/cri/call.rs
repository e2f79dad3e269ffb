//! [`Call`]: the result of one call to the runtime: answer or error, duration, size and outcome.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::{Error, Rpc};
use crate::report::{Rename, word_enum};

/// One finished call: its answer or error, its duration and the size of the answer.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Call<T> {
    /// The RPC.
    pub rpc: Rpc,
    /// The time from sending the request to the end of the answer.
    pub duration: Duration,
    /// The size of the answer's encoded messages, without gRPC's five-byte frame. The kubelet's receive limit applies to
    /// this size, unless the answer is a stream.
    pub response_bytes: u64,
    /// What has arrived of a streamed list; `None` for every other call.
    pub stream: Option<StreamedAnswer>,
    /// The answer, or the error if there is no answer.
    pub result: Result<T, Error>,
}

impl<T> Call<T> {
    /// Converts the answer.
    pub fn map<U>(self, f: impl FnOnce(T) -> U) -> Call<U> {
        Call {
            rpc: self.rpc,
            duration: self.duration,
            response_bytes: self.response_bytes,
            stream: self.stream,
            result: self.result.map(f),
        }
    }

    /// Returns for how long a call without an answer was silent.
    pub const fn silence(&self) -> Option<(Rpc, Duration)> {
        match self.result {
            Err(Error::Silent { rpc, waited }) => Some((rpc, waited)),
            _ => None,
        }
    }

    /// Returns the outcome of the call.
    pub fn outcome(&self) -> Outcome {
        self.result.as_ref().err().map_or(Outcome::Ok, Error::outcome)
    }
}

/// What has arrived of a streamed list, also if the call failed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, Rename)]
#[cfg_attr(feature = "testing", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct StreamedAnswer {
    /// The number of entries in the messages that arrived completely.
    pub entries: u64,
    /// The size of the largest of these messages. The kubelet's receive limit applies to it.
    pub largest_message_bytes: u64,
}

word_enum! {
    /// How a call ended, in the words of the JSON contract.
    #[derive(Hash)]
    pub json enum Outcome: as_str {
        /// The runtime answered.
        Ok = "ok",
        /// The runtime answered with an error, or the connection failed.
        Error = "error",
        /// The runtime did not answer in time.
        Silent = "silent",
    }
}

/// The end of a call, for those who wait for it in addition to its caller.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WaitEnd {
    /// The runtime answered after this time.
    Answered(Duration),
    /// The caller gave up after this time without an answer.
    GivenUp(Duration),
}
