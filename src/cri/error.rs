//! What can go wrong between plegctl and a runtime: one variant for each kind of night.

use std::fmt;
use std::time::Duration;

use super::{Outcome, Rpc};
use crate::report::bytes::bytes;

/// Why a call has no answer.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// The path of the socket does not exist.
    #[error("cannot reach the runtime at `{endpoint}`: no such socket")]
    NoSuchSocket {
        /// What was dialled.
        endpoint: String,
    },
    /// The path exists and is something else.
    #[error("cannot reach the runtime at `{endpoint}`: it is {kind}, not a socket")]
    NotASocket {
        /// What was dialled.
        endpoint: String,
        /// What is there instead.
        kind: FileKind,
    },
    /// The socket, or a directory above it, may not be opened by this user.
    #[error("cannot reach the runtime at `{endpoint}`: permission denied")]
    PermissionDenied {
        /// What was dialled.
        endpoint: String,
    },
    /// The socket exists and nobody listens on it.
    #[error("cannot reach the runtime at `{endpoint}`: connection refused")]
    Refused {
        /// What was dialled.
        endpoint: String,
    },
    /// Connecting failed in some other way.
    #[error("cannot reach the runtime at `{endpoint}`: {detail}")]
    Unreachable {
        /// What was dialled.
        endpoint: String,
        /// The operating system's words.
        detail: String,
    },
    /// The other side talks, but not gRPC over HTTP/2.
    #[error("`{endpoint}` does not speak gRPC: {detail}")]
    WrongProtocol {
        /// What was dialled.
        endpoint: String,
        /// What it said instead.
        detail: String,
    },
    /// No answer within the deadline. The call may still be pending in the runtime.
    #[error("{rpc} did not answer within {}", humantime::format_duration(*.waited))]
    Silent {
        /// What was asked.
        rpc: Rpc,
        /// The deadline.
        waited: Duration,
    },
    /// An answer was on its way and not at its end within the deadline: too large or too slow for it, and not silent.
    #[error(
        "the answer to {rpc} was not read to its end within {}: {} of it had come",
        humantime::format_duration(*.waited),
        bytes(*.received)
    )]
    Unfinished {
        /// What was asked.
        rpc: Rpc,
        /// The deadline.
        waited: Duration,
        /// Bytes of it that had come.
        received: u64,
    },
    /// The connection ended while the call was under way.
    #[error("the runtime closed the connection during {rpc}: {detail}")]
    ClosedMidCall {
        /// What was asked.
        rpc: Rpc,
        /// What the transport said.
        detail: String,
    },
    /// The runtime does not know this RPC.
    #[error("{rpc} is not implemented by this runtime: {message}")]
    Unimplemented {
        /// What was asked.
        rpc: Rpc,
        /// The runtime's words.
        message: String,
    },
    /// An answer over a message size limit, the runtime's own or ours.
    #[error("the answer to {rpc} is too large: {message}")]
    TooLarge {
        /// What was asked.
        rpc: Rpc,
        /// The limit's owner in its own words, with the sizes where it gives them.
        message: String,
    },
    /// The answer is not the message it should be.
    #[error("cannot decode the answer to {rpc}: {detail}")]
    Decode {
        /// What was asked.
        rpc: Rpc,
        /// What the decoder said.
        detail: String,
    },
    /// The answer would take far more memory than it has bytes.
    #[error("the answer to {rpc} is refused: {detail}")]
    Implausible {
        /// What was asked.
        rpc: Rpc,
        /// What is wrong with it.
        detail: String,
    },
    /// We failed over the answer; what the runtime sent is not known.
    #[error("plegctl itself failed over the answer to {rpc}: {detail}")]
    Own {
        /// What was asked.
        rpc: Rpc,
        /// Where and why.
        detail: String,
    },
    /// A capture is asked, and nobody asked this then, or the answer was not kept.
    #[error("{rpc} is not recorded: {why}")]
    NotRecorded {
        /// What was asked.
        rpc: Rpc,
        /// Why there is no answer.
        why: String,
    },
    /// The runtime answered with an error of its own.
    #[error("{rpc} failed: {code}: {message}")]
    Runtime {
        /// What was asked.
        rpc: Rpc,
        /// gRPC status code.
        code: Code,
        /// The runtime's words.
        message: String,
    },
}

impl Error {
    /// How a call that ends so is counted.
    pub const fn outcome(&self) -> Outcome {
        match self {
            Self::Silent { .. } => Outcome::Silent,
            _ => Outcome::Error,
        }
    }

    /// Whether no connection came about: whatever the runtime does, this call cannot tell.
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

    /// The gRPC status code, where one stands for this error.
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
            | Self::NotRecorded { .. }
            | Self::Unfinished { .. }
            | Self::Own { .. } => None,
        }
    }

    /// Whether the runtime says that it does not know the id. The kubelet takes this for a race, not for a failure.
    pub const fn is_not_found(&self) -> bool {
        matches!(self, Self::Runtime { code: Code::NotFound, .. })
    }

    /// Whether the runtime answers and it is we who have not read it, for want of time or of memory: that is no silence and
    /// no failure of its own.
    pub const fn is_unread(&self) -> bool {
        matches!(self, Self::Unfinished { .. } | Self::Implausible { .. })
    }

    /// Whether the runtime failed: it is neither silent nor unread, and did not just say that it does not know the id.
    pub const fn is_failure(&self) -> bool {
        !matches!(self, Self::Silent { .. }) && !self.is_unread() && !self.is_not_found()
    }

    /// Whether a capture is asked for what it does not have, which says nothing about the runtime.
    pub const fn is_not_recorded(&self) -> bool {
        matches!(self, Self::NotRecorded { .. })
    }

    /// What the person on call can do about it, where that can be said.
    pub fn hint(&self) -> Option<String> {
        match self {
            Self::NoSuchSocket { endpoint } => Some(format!(
                "is {} running? give another socket with --runtime-endpoint, or try `--runtime-endpoint sim:quiet`",
                unit_of(endpoint)
            )),
            Self::NotASocket { .. } => Some("give the runtime's socket with --runtime-endpoint".into()),
            Self::PermissionDenied { .. } => Some("run plegctl as root (runtime sockets are root's)".into()),
            Self::Refused { endpoint } => Some(format!(
                "the socket file is there but nobody listens: is {} running?",
                unit_of(endpoint)
            )),
            Self::WrongProtocol { .. } => Some("this is not a CRI socket; give the runtime's own one".into()),
            Self::Silent { rpc: Rpc::Version, .. } => Some(
                "the daemon accepts connections and does not answer: is it stopped, starved or stuck? \
                 `plegctl health` looks further"
                    .into(),
            ),
            Self::Silent { .. } => Some(
                "the call may still be pending in the runtime, so it is not repeated; `plegctl health` finds out what it \
                 waits for"
                    .into(),
            ),
            Self::Unfinished { .. } => Some("it is large or comes slowly: give it more time (--timeout; --budget of health)".into()),
            Self::ClosedMidCall { .. } => Some("did the runtime restart? its journal says why".into()),
            Self::Unimplemented { rpc: Rpc::Version, .. } => Some(
                "this runtime does not serve the CRI v1 API (containerd before 1.6 and CRI-O before 1.23 do not)".into(),
            ),
            Self::TooLarge { .. } => {
                Some("too many dead containers or sandboxes, or very long annotations; the kubelet fails here too".into())
            }
            Self::Own { .. } => Some("that is a fault of plegctl: please report it with this line".into()),
            Self::Implausible { .. } => Some(
                "plegctl bounds its own memory by this, the kubelet bounds bytes alone (16 MiB an answer): is it the runtime that listens there, and is it sound?".into(),
            ),
            Self::NotRecorded { .. } => {
                Some("another moment may have it: `-r capture:PATH@TIME`; `plegctl capture ls` shows the incidents".into())
            }
            Self::Unreachable { .. } | Self::Unimplemented { .. } | Self::Decode { .. } | Self::Runtime { .. } => None,
        }
    }
}

/// The systemd unit that usually owns a socket.
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

/// What stands where a socket should.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FileKind {
    /// A regular file.
    File,
    /// A directory.
    Directory,
    /// A pipe or a device.
    Other,
}

impl fmt::Display for FileKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::File => "a regular file",
            Self::Directory => "a directory",
            Self::Other => "a pipe or a device",
        })
    }
}

/// gRPC status codes, by the names that everybody greps for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[expect(missing_docs, reason = "the names are gRPC's own")]
pub enum Code {
    Cancelled,
    Unknown,
    InvalidArgument,
    DeadlineExceeded,
    NotFound,
    AlreadyExists,
    PermissionDenied,
    ResourceExhausted,
    FailedPrecondition,
    Aborted,
    OutOfRange,
    Unimplemented,
    Internal,
    Unavailable,
    DataLoss,
    Unauthenticated,
}

impl Code {
    /// Every one of them.
    pub const ALL: [Self; 16] = [
        Self::Cancelled,
        Self::Unknown,
        Self::InvalidArgument,
        Self::DeadlineExceeded,
        Self::NotFound,
        Self::AlreadyExists,
        Self::PermissionDenied,
        Self::ResourceExhausted,
        Self::FailedPrecondition,
        Self::Aborted,
        Self::OutOfRange,
        Self::Unimplemented,
        Self::Internal,
        Self::Unavailable,
        Self::DataLoss,
        Self::Unauthenticated,
    ];

    /// The name, as Go and the kubelet's log write it.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Cancelled => "Canceled",
            Self::Unknown => "Unknown",
            Self::InvalidArgument => "InvalidArgument",
            Self::DeadlineExceeded => "DeadlineExceeded",
            Self::NotFound => "NotFound",
            Self::AlreadyExists => "AlreadyExists",
            Self::PermissionDenied => "PermissionDenied",
            Self::ResourceExhausted => "ResourceExhausted",
            Self::FailedPrecondition => "FailedPrecondition",
            Self::Aborted => "Aborted",
            Self::OutOfRange => "OutOfRange",
            Self::Unimplemented => "Unimplemented",
            Self::Internal => "Internal",
            Self::Unavailable => "Unavailable",
            Self::DataLoss => "DataLoss",
            Self::Unauthenticated => "Unauthenticated",
        }
    }
}

impl fmt::Display for Code {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}
