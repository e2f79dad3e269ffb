//! The reasons why a capture cannot be written or read.

use std::io;
use std::path::PathBuf;

use rustix::io::Errno;

use crate::clock::Wall;

/// The reasons why a capture cannot be written or read.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The directory cannot be made, opened or read.
    #[error("cannot use `{}` for a capture: {source}", path.display())]
    Directory {
        /// The directory, or a file in it.
        path: PathBuf,
        /// Why not.
        source: io::Error,
    },
    /// Another user could write to the directory, or could replace it.
    #[error("will not use `{}` for a capture: {why}", path.display())]
    Unsafe {
        /// The directory.
        path: PathBuf,
        /// What is wrong with it.
        why: String,
    },
    /// A segment cannot be read.
    #[error("cannot read the capture's segment `{}`: {source}", path.display())]
    Segment {
        /// The segment.
        path: PathBuf,
        /// Why not.
        source: io::Error,
    },
    /// The path is not a capture.
    #[error("`{}` is not a capture: {why}", path.display())]
    NotACapture {
        /// What was opened.
        path: PathBuf,
        /// What is wrong with it.
        why: String,
    },
    /// The capture has a version that this release cannot read.
    #[error("`{}` is a capture of version {found}; this plegctl reads version {}", path.display(), super::segment::VERSION)]
    OtherVersion {
        /// What was opened.
        path: PathBuf,
        /// Its version.
        found: u16,
    },
    /// Another recorder is writing to the directory.
    #[error("another recorder is using `{}`{}", path.display(), holder.map(|pid| format!(" (process {pid})")).unwrap_or_default())]
    TwoRecorders {
        /// The directory.
        path: PathBuf,
        /// The process id of the other recorder, if it is known.
        holder: Option<u32>,
    },
    /// The requested moment is outside the recorded time.
    #[error("`{time}` is outside of the capture, which goes from {from} to {to}")]
    Outside {
        /// The moment as the user wrote it.
        time: String,
        /// The beginning of the capture.
        from: Wall,
        /// The end of the capture.
        to: Wall,
    },
    /// The text is not a moment.
    #[error("`{time}` is not a moment of the capture")]
    Moment {
        /// The moment as the user wrote it.
        time: String,
    },
    /// The capture has no incident with this number.
    #[error("the capture has no incident {number}{}", listed(known))]
    NoIncident {
        /// The requested number.
        number: u64,
        /// The numbers of the incidents in the capture.
        known: Vec<u64>,
    },
    /// The capture has no entries.
    #[error("the capture `{}` is empty", path.display())]
    Empty {
        /// What was opened.
        path: PathBuf,
    },
    /// The threads of the recorder or of the replay cannot be started.
    #[error("cannot start: {0}")]
    Start(#[source] io::Error),
}

fn listed(known: &[u64]) -> String {
    match known {
        [] => "; it has none".to_owned(),
        [one] => format!("; it has {one}"),
        [first, .., last] => format!("; it has {first} to {last}"),
    }
}

impl Error {
    /// Whether the disk causes the error, so that a later attempt may succeed. Any other error needs a change by the
    /// user.
    pub fn is_of_the_disk(&self) -> bool {
        use std::io::ErrorKind as Kind;
        let kinds = [
            Kind::StorageFull,
            Kind::QuotaExceeded,
            Kind::ReadOnlyFilesystem,
            Kind::StaleNetworkFileHandle,
            Kind::TimedOut,
            Kind::HostUnreachable,
            Kind::NetworkUnreachable,
            Kind::OutOfMemory,
        ];
        // These have no stable `ErrorKind`: EIO, ENODEV, ENFILE, EMFILE, and ENOTCONN of a FUSE file system.
        let numbers = [Errno::IO, Errno::NODEV, Errno::NFILE, Errno::MFILE, Errno::NOTCONN];
        let Self::Directory { source, .. } = self else { return false };
        kinds.contains(&source.kind())
            || numbers.iter().any(|number| source.raw_os_error() == Some(number.raw_os_error()))
    }

    /// Returns what the user can do about the error.
    pub fn hint(&self) -> Option<String> {
        match self {
            Self::Directory { .. } => {
                Some("the directory must be yours to write to, on a disk that is neither full nor read-only".into())
            }
            Self::Unsafe { .. } => Some(
                "name a directory of your own that nobody else may write to, such as a new one in it; `record` makes what does \
                 not exist"
                    .into(),
            ),
            Self::NotACapture { .. } => {
                Some("a capture is what `plegctl record DIR` or `plegctl capture export` makes".into())
            }
            Self::OtherVersion { .. } => Some("read it with the plegctl that wrote it, or a later one".into()),
            Self::TwoRecorders { .. } => Some("give each recorder a directory of its own".into()),
            Self::Outside { .. } | Self::Moment { .. } => Some(
                "write it as RFC 3339, `HH:MM:SS`, `+90s` from the start or `incident:N`; `plegctl capture ls` shows \
                 what there is"
                    .into(),
            ),
            Self::NoIncident { .. } => Some("`plegctl capture ls` shows the incidents".into()),
            Self::Segment { .. } | Self::Empty { .. } | Self::Start(_) => None,
        }
    }
}
