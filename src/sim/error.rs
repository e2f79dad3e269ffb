//! [`Error`]: why a simulation cannot start, and [`Malformed`]: what is wrong in a scenario file.

pub use crate::yaml::Position;
use std::io;
use std::path::PathBuf;

/// Why a simulation cannot start.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// No built-in scenario has this name.
    #[error("there is no scenario `{name}`; known are {}", known.join(", "))]
    UnknownScenario {
        /// The requested name.
        name: String,
        /// The built-in name that is most similar.
        nearest: Option<String>,
        /// All built-in names.
        known: Vec<String>,
    },
    /// A scenario file cannot be read.
    #[error("cannot read the scenario `{}`: {source}", path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// Why not.
        source: io::Error,
    },
    /// A scenario file is invalid.
    #[error("{0}")]
    Malformed(#[from] Malformed),
    /// The path of the socket already exists.
    #[error("cannot listen on `{}`: the path exists", path.display())]
    PathTaken {
        /// The path.
        path: PathBuf,
    },
    /// The socket cannot be created.
    #[error("cannot listen on `{}`: {source}", path.display())]
    Listen {
        /// The path.
        path: PathBuf,
        /// Why not.
        source: io::Error,
    },
    /// The operating system cannot start a thread or an event loop.
    #[error("cannot start the simulator: {source}")]
    Start {
        /// Why not.
        source: io::Error,
    },
}

impl Error {
    /// Returns the hint for the user.
    pub fn hint(&self) -> Option<String> {
        match self {
            Self::UnknownScenario { nearest: Some(nearest), .. } => {
                Some(format!("did you mean `{nearest}`?"))
            }
            Self::UnknownScenario { .. } => Some(
                "`plegctl sim list` describes them; name your own file by its path, such as `./mine.yaml`"
                    .into(),
            ),
            Self::Malformed(malformed) => malformed.hint.clone(),
            Self::PathTaken { .. } => {
                Some("remove it, if nothing listens there, or choose another path".into())
            }
            Self::Listen { .. } => {
                Some("the directory must exist and be writable, and the path short".into())
            }
            Self::Read { .. } | Self::Start { .. } => None,
        }
    }
}

/// An error in a scenario file.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{file}:{}:{}: {problem}", .at.line, .at.column)]
pub struct Malformed {
    /// The file, or the name of the built-in scenario.
    pub file: String,
    /// The position.
    pub at: Position,
    /// The problem.
    pub problem: String,
    /// What the author may have meant.
    pub hint: Option<String>,
}
