//! The result of one call to the runtime.

use std::time::Duration;

use super::{Error, Rpc};

/// One finished call: its answer or error, its duration and the size of the answer.
#[derive(Clone, Debug)]
pub struct Call<T> {
    /// The RPC.
    pub rpc: Rpc,
    /// The time from sending the request to the end of the answer.
    pub duration: Duration,
    /// The size of the answer's messages on the wire, without gRPC's five-byte frame. The kubelet's receive limit
    /// applies to this size.
    pub response_bytes: u64,
    /// The answer, or why there is none.
    pub result: Result<T, Error>,
}

impl<T> Call<T> {
    /// Converts the answer.
    pub fn map<U>(self, f: impl FnOnce(T) -> U) -> Call<U> {
        Call {
            rpc: self.rpc,
            duration: self.duration,
            response_bytes: self.response_bytes,
            result: self.result.map(f),
        }
    }

    /// How the call ended.
    pub fn outcome(&self) -> Outcome {
        self.result.as_ref().err().map_or(Outcome::Ok, Error::outcome)
    }
}

/// How a call ended, in the words of the JSON contract.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Outcome {
    /// The runtime answered.
    Ok,
    /// The runtime answered with an error, or the connection failed.
    Error,
    /// The runtime did not answer in time.
    Silent,
}

impl Outcome {
    /// The word in JSON.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Ok => "ok",
            Self::Error => "error",
            Self::Silent => "silent",
        }
    }
}

/// How a call ended for which several callers wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WaitEnd {
    /// The runtime answered after this time.
    Answered(Duration),
    /// The caller gave up after this time without an answer.
    GivenUp(Duration),
}
