//! Why a command has no answer.

use std::io;
use std::net::SocketAddr;
use std::path::PathBuf;

use crate::cri;

/// Why a command has no answer.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// There is no runtime to ask.
    #[error(transparent)]
    Endpoint(#[from] cri::EndpointError),
    /// The runtime did not answer, or not with what was asked for.
    #[error(transparent)]
    Runtime(#[from] cri::Error),
    /// A file that was named on the command line could not be written.
    #[error("cannot write `{}`: {source}", path.display())]
    Write {
        /// The file.
        path: PathBuf,
        /// Why not.
        source: io::Error,
    },
    /// The address to serve metrics on cannot be had.
    #[error("cannot serve metrics on {address}: {source}")]
    Listen {
        /// The address.
        address: SocketAddr,
        /// Why not.
        source: io::Error,
    },
    /// The result could not be written to stdout.
    #[error("cannot write the result: {0}")]
    Output(#[from] io::Error),
    /// The simulator is not there yet.
    #[error("cannot play `sim:{0}`: this build has no simulator")]
    NoSimulator(String),
    /// The process could not get what it needs from the operating system.
    #[error("cannot start: {0}")]
    Start(io::Error),
}

impl Error {
    /// What to do about it.
    pub fn hint(&self) -> Option<String> {
        match self {
            Self::Endpoint(why) => Some(why.hint().to_owned()),
            Self::Runtime(why) => why.hint(),
            Self::Write { .. } => Some("the directory must exist and be writable".to_owned()),
            Self::Listen { .. } => {
                Some("is the port taken? `--metrics-listen 127.0.0.1:0` is never".to_owned())
            }
            Self::Output(_) | Self::Start(_) | Self::NoSimulator(_) => None,
        }
    }

    /// Whether the reader of our output has gone, which is no fault of anybody.
    pub fn is_broken_pipe(&self) -> bool {
        matches!(self, Self::Output(why) if why.kind() == io::ErrorKind::BrokenPipe)
    }
}
