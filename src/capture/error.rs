//! Why there is no capture to write to or to read.

use std::io;
use std::path::PathBuf;

use rustix::io::Errno;

use crate::clock::Wall;

/// Why there is no capture to write to or to read.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The directory cannot be made, opened or read.
    #[error("cannot use `{}` for a capture: {source}", path.display())]
    Directory {
        /// The directory, or a file in it.
        path: PathBuf,
        /// Why not.
        source: io::Error,
    },
    /// Somebody else could put something into the directory, or has chosen where it is.
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
    /// It is something else.
    #[error("`{}` is not a capture: {why}", path.display())]
    NotACapture {
        /// What was opened.
        path: PathBuf,
        /// What is wrong with it.
        why: String,
    },
    /// A later release wrote it in a way that this one does not know.
    #[error("`{}` is a capture of version {found}; this plegctl reads version {}", path.display(), super::segment::VERSION)]
    OtherVersion {
        /// What was opened.
        path: PathBuf,
        /// Its version.
        found: u16,
    },
    /// Another recorder writes it.
    #[error("another recorder is using `{}`{}", path.display(), holder.map(|pid| format!(" (process {pid})")).unwrap_or_default())]
    TwoRecorders {
        /// The directory.
        path: PathBuf,
        /// The other process, where it can be told.
        holder: Option<u32>,
    },
    /// The moment is outside of what was recorded.
    #[error("`{asked}` is outside of the capture, which goes from {from} to {to}")]
    Outside {
        /// What was asked for.
        asked: String,
        /// Where it begins.
        from: Wall,
        /// Where it ends.
        to: Wall,
    },
    /// Nobody can tell which moment is meant.
    #[error("`{asked}` is not a moment of the capture")]
    Moment {
        /// What was asked for.
        asked: String,
    },
    /// There is no such incident.
    #[error("the capture has no incident {number}{}", listed(known))]
    NoIncident {
        /// Which was asked for.
        number: u64,
        /// Which there are.
        known: Vec<u64>,
    },
    /// Nothing was recorded.
    #[error("the capture `{}` is empty", path.display())]
    Empty {
        /// What was opened.
        path: PathBuf,
    },
    /// The threads that write or answer cannot be started.
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
    /// Whether the disk is at fault, and may be well again later. Anything else is for the user to change.
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
        // These have no kind that can be named: EIO, ENODEV, ENFILE, EMFILE, ENOTCONN of a FUSE file system.
        let numbers = [Errno::IO, Errno::NODEV, Errno::NFILE, Errno::MFILE, Errno::NOTCONN];
        let Self::Directory { source, .. } = self else { return false };
        kinds.contains(&source.kind())
            || numbers.iter().any(|number| source.raw_os_error() == Some(number.raw_os_error()))
    }

    /// What to do about it.
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
