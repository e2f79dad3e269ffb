//! Types and functions that all parts of plegctl share: the frame of a document, references to pods, containers and
//! runtimes, severities, escaping and redaction of text, and safe reading and writing of files.
//!
//! This module depends on neither terminals nor runtimes. The other modules use its types, so their JSON has the same
//! structure.
//!
//! ```
//! use std::time::Duration;
//!
//! use plegctl_base::report::{PodRef, Seconds, Severity};
//!
//! let pod = PodRef { uid: "a1".into(), namespace: "shop".into(), name: "web-0".into() };
//! assert_eq!(pod.to_string(), "shop/web-0");
//! assert_eq!(serde_json::to_string(&Seconds::from(Duration::from_millis(1500)))?, "1.5");
//! assert!(Severity::Warning < Severity::Error);
//! # Ok::<(), serde_json::Error>(())
//! ```

pub mod bytes;
mod check;
mod confidence;
mod directory;
mod document;
pub mod duration;
pub mod escape;
pub mod json;
pub mod load;
pub mod redaction;
mod reference;
pub mod rename;
mod retry;
mod rule;
pub mod save;
mod seconds;
mod severity;
pub mod shell_lines;
mod similar;
mod step;
mod texts;
mod word_enum;
mod words;

pub use crate::{check_table, word_enum};
pub use check::CheckRow;
pub use confidence::{Confidence, NotChecked};
pub use directory::{
    DirectoryRefusal, DirectoryUse, is_private_directory, names_in, open_directory, others_may_change,
};
pub use document::memory_bound;
pub use document::{API_VERSION, Document, document};
pub use document::{MAX_MEMORY, fits_in_memory, is_zero};
pub use plegctl_omit_none::{document_part, omit_none};
pub use reference::{ContainerRef, PodRef, RuntimeRef, optional_pod};
pub use rename::Rename;
pub use rule::Rule;
pub use seconds::Seconds;
pub use severity::Severity;
pub use similar::most_similar;
pub use step::{Command, Step, split_at_place};
pub use texts::{Places, TextTable};
pub use words::{grouped, plural};
