//! The errors of calls to a runtime, with hints for the user.

use std::io;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::{Outcome, Rpc};
use crate::report::bytes::bytes;
use crate::report::word_enum;

/// The reason why a call has no usable answer.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", rename_all_fields = "camelCase")]
pub enum Error {
    /// The socket's path does not exist.
    #[error("cannot reach the runtime at `{endpoint}`: no such socket")]
    NoSuchSocket {
        /// The endpoint.
        endpoint: String,
    },
    /// The path exists but is not a socket.
    #[error("cannot reach the runtime at `{endpoint}`: it is {kind}, not a socket")]
    NotASocket {
        /// The endpoint.
        endpoint: String,
        /// The kind of file at the path.
        kind: FileKind,
    },
    /// The user may not open the socket or a directory above it.
    #[error("cannot reach the runtime at `{endpoint}`: permission denied")]
    PermissionDenied {
        /// The endpoint.
        endpoint: String,
    },
    /// The socket exists, but no process listens on it.
    #[error("cannot reach the runtime at `{endpoint}`: connection refused")]
    Refused {
        /// The endpoint.
        endpoint: String,
    },
    /// Connecting failed for another reason.
    #[error("cannot reach the runtime at `{endpoint}`: {detail}")]
    Unreachable {
        /// The endpoint.
        endpoint: String,
        /// The operating system's error.
        detail: String,
    },
    /// The other side answers, but not with gRPC over HTTP/2.
    #[error("`{endpoint}` does not speak gRPC: {detail}")]
    WrongProtocol {
        /// The endpoint.
        endpoint: String,
        /// What the other side sent.
        detail: String,
    },
    /// No answer arrived within the deadline. The call may still be pending in the runtime.
    #[error("{rpc} did not answer within {}", wait_in_words(*.waited))]
    Silent {
        /// The RPC.
        rpc: Rpc,
        /// The deadline.
        waited: Duration,
    },
    /// A part of the answer arrived within the deadline: the answer is too large or too slow, and the runtime is not
    /// silent.
    #[error(
        "the answer to {rpc} did not arrive completely within {}: {} had arrived",
        wait_in_words(*.waited),
        bytes(*.received)
    )]
    Unfinished {
        /// The RPC.
        rpc: Rpc,
        /// The deadline.
        waited: Duration,
        /// The number of bytes of the answer that had arrived.
        received: u64,
    },
    /// The connection ended during the call.
    #[error("the runtime closed the connection during {rpc}: {detail}")]
    ClosedMidCall {
        /// The RPC.
        rpc: Rpc,
        /// The transport's error.
        detail: String,
    },
    /// The runtime does not implement this RPC.
    #[error("{rpc} is not implemented by this runtime: {message}")]
    Unimplemented {
        /// The RPC.
        rpc: Rpc,
        /// The runtime's message.
        message: String,
    },
    /// The answer exceeds a message size limit of the runtime or of plegctl.
    #[error("the answer to {rpc} is too large: {message}")]
    TooLarge {
        /// The RPC.
        rpc: Rpc,
        /// The message of the side whose limit was exceeded, with the sizes if they are known.
        message: String,
    },
    /// The answer cannot be decoded.
    #[error("cannot decode the answer to {rpc}: {detail}")]
    Decode {
        /// The RPC.
        rpc: Rpc,
        /// The decoder's error.
        detail: String,
    },
    /// The answer would need far more memory than its bytes justify.
    #[error("the answer to {rpc} is refused: {detail}")]
    Implausible {
        /// The RPC.
        rpc: Rpc,
        /// What is wrong with the answer.
        detail: String,
    },
    /// plegctl itself failed while it handled the answer.
    #[error("plegctl itself failed while it processed the answer to {rpc}: {detail}")]
    Internal {
        /// The RPC.
        rpc: Rpc,
        /// The place and the reason of the failure.
        detail: String,
    },
    /// The other side is a part of plegctl (a replayed capture, for example) that does not know the answer. This error shows
    /// nothing about a runtime.
    #[error("{rpc} {problem}: {why}")]
    #[serde(skip)]
    Unanswerable {
        /// The RPC.
        rpc: Rpc,
        /// The problem, as the end of a sentence about the call.
        #[serde(skip)]
        problem: &'static str,
        /// Why there is no answer.
        why: String,
        /// The advice for the user.
        #[serde(skip)]
        hint: &'static str,
    },
    /// The runtime answered with an error.
    #[error("{rpc} failed: {code}: {message}")]
    Runtime {
        /// The RPC.
        rpc: Rpc,
        /// The gRPC status code.
        code: Code,
        /// The runtime's message.
        message: String,
    },
}

impl Error {
    /// Returns the outcome of a call with this error.
    pub const fn outcome(&self) -> Outcome {
        match self {
            Self::Silent { .. } => Outcome::Silent,
            _ => Outcome::Error,
        }
    }

    /// Whether no connection was made, so that the call shows nothing about the runtime's state.
    pub const fn is_unreachable(&self) -> bool {
        matches!(
            self,
            Self::NoSuchSocket { .. }
                | Self::NotASocket { .. }
                | Self::PermissionDenied { .. }
                | Self::Refused { .. }
                | Self::Unreachable { .. }
        )
    }

    /// Whether the call shows nothing about the runtime: there is no way to it, another program listens there, or plegctl does
    /// not know the whole answer. A refused connection shows that no runtime listens.
    pub const fn leaves_runtime_unknown(&self) -> bool {
        self.is_unread()
            || self.is_unanswerable()
            || (self.is_connection_error() && !matches!(self, Self::Refused { .. }))
    }

    /// Whether the connection to the runtime failed, which affects every other call too.
    pub const fn is_connection_error(&self) -> bool {
        self.is_unreachable() || matches!(self, Self::WrongProtocol { .. })
    }

    /// Creates the error for a connection that failed with `why`.
    pub(super) fn unreachable(endpoint: &str, why: &io::Error) -> Self {
        Self::Unreachable { endpoint: endpoint.to_owned(), detail: why.to_string() }
    }

    /// Returns the gRPC status code that corresponds to this error, if there is one.
    pub const fn code(&self) -> Option<Code> {
        match self {
            Self::Runtime { code, .. } => Some(*code),
            Self::Silent { .. } => Some(Code::DeadlineExceeded),
            Self::Unimplemented { .. } => Some(Code::Unimplemented),
            Self::TooLarge { .. } => Some(Code::ResourceExhausted),
            Self::ClosedMidCall { .. } => Some(Code::Unavailable),
            Self::NoSuchSocket { .. }
            | Self::NotASocket { .. }
            | Self::PermissionDenied { .. }
            | Self::Refused { .. }
            | Self::Unreachable { .. }
            | Self::WrongProtocol { .. }
            | Self::Decode { .. }
            | Self::Implausible { .. }
            | Self::Unanswerable { .. }
            | Self::Unfinished { .. }
            | Self::Internal { .. } => None,
        }
    }

    /// Whether the runtime does not know the id. The kubelet treats this as a race, not as a failure.
    pub const fn is_not_found(&self) -> bool {
        matches!(self, Self::Runtime { code: Code::NotFound, .. })
    }

    /// Whether the runtime answered but plegctl did not read the whole answer, because of the time limit
    /// or of the estimated memory for its content. The runtime is then neither silent nor failing.
    pub const fn is_unread(&self) -> bool {
        matches!(self, Self::Unfinished { .. } | Self::Implausible { .. })
    }

    /// Whether the call failed, for any reason but these: the runtime is silent, plegctl did not read the whole answer, or
    /// the runtime does not know the id. The reason is not always the runtime: plegctl itself may be at fault
    /// (`Internal`), or a capture may not contain the answer (`Unanswerable`).
    pub const fn is_failure(&self) -> bool {
        !matches!(self, Self::Silent { .. }) && !self.is_unread() && !self.is_not_found()
    }

    /// Whether the other side is a part of plegctl that does not know the answer, which shows nothing about the runtime.
    pub const fn is_unanswerable(&self) -> bool {
        matches!(self, Self::Unanswerable { .. })
    }

    /// Returns advice for the user, if there is any.
    pub fn hint(&self) -> Option<String> {
        match self {
            Self::NoSuchSocket { endpoint } => Some(format!(
                "is {} running? give another socket with --runtime-endpoint, or try `--runtime-endpoint sim:quiet`",
                unit_of(endpoint)
            )),
            Self::NotASocket { .. } => Some("give the runtime's socket with --runtime-endpoint".into()),
            Self::PermissionDenied { .. } => Some("run plegctl as root (runtime sockets belong to root)".into()),
            Self::Refused { endpoint } => Some(format!(
                "the socket file exists but nothing listens: is {} running?",
                unit_of(endpoint)
            )),
            Self::WrongProtocol { .. } => Some("this is not a CRI socket; give the runtime's socket".into()),
            Self::Silent { rpc: Rpc::Version, .. } => Some(
                "the daemon accepts connections but does not answer: is it stopped, out of CPU time or \
                 blocked? run `plegctl health` to find out"
                    .into(),
            ),
            Self::Silent { .. } => Some(
                "the call may still be pending in the runtime, so plegctl does not repeat it; `plegctl health` finds out \
                 what the call waits for"
                    .into(),
            ),
            Self::Unfinished { .. } => Some("the answer is large or slow: raise --timeout (for health: --budget)".into()),
            Self::ClosedMidCall { .. } => Some("did the runtime restart? its journal shows why".into()),
            Self::Unimplemented { rpc: Rpc::Version, .. } => Some(
                "this runtime does not serve the CRI v1 API (containerd before 1.6 and CRI-O before 1.23 do not)".into(),
            ),
            Self::TooLarge { .. } => {
                Some("too many dead containers or sandboxes, or very long annotations; the kubelet fails here too".into())
            }
            Self::Internal { .. } => Some("this is a bug in plegctl: please report it with this line".into()),
            Self::Implausible { .. } => Some(
                "plegctl limits its own memory, while the kubelet limits only bytes (16 MiB per answer): is \
                 the process on this socket really the runtime, and does it work?".into(),
            ),
            Self::Unanswerable { hint, .. } => Some((*hint).to_owned()),
            Self::Unreachable { .. } | Self::Unimplemented { .. } | Self::Decode { .. } | Self::Runtime { .. } => None,
        }
    }
}

/// Returns a deadline, or the measured wait of a recorded call, to the millisecond: `9s 989ms`.
fn wait_in_words(waited: Duration) -> humantime::FormattedDuration {
    let rest = Duration::from_nanos(u64::from(waited.subsec_nanos() % 1_000_000));
    humantime::format_duration(waited.saturating_sub(rest))
}

/// Returns the systemd unit that usually owns a socket.
fn unit_of(endpoint: &str) -> &'static str {
    const OWNERS: [(&str, &str); 6] = [
        ("k3s", "`k3s.service` or `rke2-server.service`"),
        ("k0s", "`k0scontroller.service` or `k0sworker.service`"),
        ("microk8s", "`snap.microk8s.daemon-containerd.service`"),
        ("cri-dockerd", "`cri-docker.service`"),
        ("crio", "`crio.service`"),
        ("containerd", "`containerd.service`"),
    ];
    OWNERS.iter().find(|(part, _)| endpoint.contains(part)).map_or("the runtime", |(_, unit)| unit)
}

word_enum! {
    /// What is at the path of the socket.
    pub json enum FileKind: words {
        /// A regular file.
        File = "a regular file",
        /// A directory.
        Directory = "a directory",
        /// A pipe or a device.
        Other = "a pipe or a device",
    }
}

word_enum! {
    /// gRPC status codes, with gRPC's own names. The words are those of Go and of the kubelet's log.
    #[derive(Hash)]
    #[expect(missing_docs, reason = "the names are gRPC's own")]
    pub json enum Code: name {
        Cancelled = "Canceled",
        Unknown = "Unknown",
        InvalidArgument = "InvalidArgument",
        DeadlineExceeded = "DeadlineExceeded",
        NotFound = "NotFound",
        AlreadyExists = "AlreadyExists",
        PermissionDenied = "PermissionDenied",
        ResourceExhausted = "ResourceExhausted",
        FailedPrecondition = "FailedPrecondition",
        Aborted = "Aborted",
        OutOfRange = "OutOfRange",
        Unimplemented = "Unimplemented",
        Internal = "Internal",
        Unavailable = "Unavailable",
        DataLoss = "DataLoss",
        Unauthenticated = "Unauthenticated",
    } ALL
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_recorded_wait_is_named_to_the_millisecond() {
        let words = |waited| Error::Silent { rpc: Rpc::Version, waited }.to_string();
        let recorded = Duration::new(9, 989_123_456);
        assert_eq!(words(recorded), "Version did not answer within 9s 989ms");
        assert_eq!(words(Duration::from_secs(10)), "Version did not answer within 10s");
    }
}
