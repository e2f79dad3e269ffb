//! What one call to the runtime came to.

use std::time::Duration;

use super::{Error, Rpc};

/// One finished call: the answer or the error, and in both cases how long it took and what it weighed.
#[derive(Clone, Debug)]
pub struct Call<T> {
    /// What was asked.
    pub rpc: Rpc,
    /// From sending the request to the end of the answer.
    pub duration: Duration,
    /// Size of the answer's messages on the wire, without gRPC's five-byte frame: the figure that the kubelet's
    /// receive limit is about.
    pub response_bytes: u64,
    /// The answer, or why there is none.
    pub result: Result<T, Error>,
}

impl<T> Call<T> {
    /// The same call with another answer.
    pub fn map<U>(self, f: impl FnOnce(T) -> U) -> Call<U> {
        Call {
            rpc: self.rpc,
            duration: self.duration,
            response_bytes: self.response_bytes,
            result: self.result.map(f),
        }
    }

    /// How it ended, in one word.
    pub fn outcome(&self) -> Outcome {
        self.result.as_ref().err().map_or(Outcome::Ok, Error::outcome)
    }
}

/// How a call ended, in the words of the JSON contract.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Outcome {
    /// It was answered.
    Ok,
    /// It was answered with an error, or the way to the runtime is broken.
    Error,
    /// It was not answered in time.
    Silent,
}

impl Outcome {
    /// The word itself.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Ok => "ok",
            Self::Error => "error",
            Self::Silent => "silent",
        }
    }
}

/// How a call that several wait for ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WaitEnd {
    /// It was answered after so long.
    Answered(Duration),
    /// It was given up after so long without an answer.
    GivenUp(Duration),
}
