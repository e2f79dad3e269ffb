//! The errors of writing and reading captures, with hints for the user.

use std::io;
use std::path::PathBuf;

use rustix::io::Errno;

use crate::clock::Wall;
use crate::report::bytes::bytes as size_text;

/// The reason why a capture cannot be written or read.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The directory cannot be created, opened or read.
    #[error("cannot use `{}` for a capture: {source}", path.display())]
    Directory {
        /// The directory, or a file in it.
        path: PathBuf,
        /// The operating system's error.
        source: io::Error,
    },
    /// The capture cannot be opened for reading.
    #[error("cannot read the capture `{}`: {source}", path.display())]
    Read {
        /// The path that the user named.
        path: PathBuf,
        /// The operating system's error.
        source: io::Error,
    },
    /// Another user could write to the directory, or could replace it.
    #[error("will not use `{}` for a capture: {why}", path.display())]
    Unsafe {
        /// The directory.
        path: PathBuf,
        /// What is wrong with the directory.
        why: String,
    },
    /// A segment cannot be read.
    #[error("cannot read the capture's segment `{}`: {source}", path.display())]
    Segment {
        /// The segment.
        path: PathBuf,
        /// The operating system's error.
        source: io::Error,
    },
    /// The path is not a capture.
    #[error("`{}` is not a capture: {why}", path.display())]
    NotACapture {
        /// The path that the user named.
        path: PathBuf,
        /// The reason, for example that the directory has no segments.
        why: String,
    },
    /// The capture has a version that this release cannot read.
    #[error("`{}` is a capture of version {found}; this plegctl reads version {}", path.display(), super::segment::VERSION)]
    OtherVersion {
        /// The path that the user named.
        path: PathBuf,
        /// The version of the capture.
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
    #[error("the capture has no incident {number}{}", known_numbers(known))]
    NoIncident {
        /// The requested number.
        number: u64,
        /// The numbers of the incidents in the capture.
        known: Vec<u64>,
    },
    /// The capture has no entries.
    #[error("the capture `{}` is empty", path.display())]
    Empty {
        /// The path that the user named.
        path: PathBuf,
    },
    /// The period contains more of the recording than a running recorder exports.
    #[error(
        "this period has {} of the recording, and a running recorder exports at most {}",
        size_text(*bytes),
        size_text(*limit)
    )]
    LargePart {
        /// The size of the segments.
        bytes: u64,
        /// The size limit.
        limit: u64,
    },
}

/// Returns the numbers of the incidents that the capture has, as the end of an error message.
fn known_numbers(known: &[u64]) -> String {
    match known {
        [] => "; it has none".to_owned(),
        [one] => format!("; it has {one}"),
        [first, .., last] => format!("; it has {first} to {last}"),
    }
}

impl Error {
    /// Whether the disk causes the error, so that a later attempt may succeed. The user must correct every other error.
    pub fn is_disk_error(&self) -> bool {
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
        // These error numbers have no stable `ErrorKind`. A FUSE file system reports ENOTCONN.
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
            Self::Read { source, .. } => Some(match source.kind() {
                io::ErrorKind::PermissionDenied => "read it as the user who recorded it, or as root".into(),
                _ => "name the directory of `plegctl record`, or a file of `plegctl capture export`".into(),
            }),
            Self::Unsafe { .. } => Some(
                "name a directory that only you may write to, for example a new one in it; `record` creates a missing directory"
                    .into(),
            ),
            Self::NotACapture { .. } => {
                Some("`plegctl record DIR` and `plegctl capture export` make captures".into())
            }
            Self::OtherVersion { .. } => Some("read it with the plegctl that wrote it, or a later one".into()),
            Self::TwoRecorders { .. } => Some("give each recorder its own directory".into()),
            Self::Outside { .. } | Self::Moment { .. } => Some(
                "write it as RFC 3339, `HH:MM:SS`, `+90s` from the start or `incident:N`; `plegctl capture ls` shows \
                 the recorded time"
                    .into(),
            ),
            Self::LargePart { .. } => Some("choose a shorter period with `from` and `to`".into()),
            Self::NoIncident { .. } => Some("`plegctl capture ls` shows the incidents".into()),
            Self::Segment { .. } | Self::Empty { .. } => None,
        }
    }
}
