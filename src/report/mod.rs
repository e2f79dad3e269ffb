//! The words that all parts share: the frame of a document, how it names pods, containers and runtimes, how bad something is
//! and how sure we are, what was not looked at, what is known of a rule by its id; text from outside made harmless and rid of its secrets, and a
//! file written whole or not at all, and one read whatever it is.
//!
//! Knows neither terminals nor runtimes. Commands and engines speak it; what they write in JSON follows from it.
//!
//! ```
//! use std::time::Duration;
//!
//! use plegctl::report::{PodRef, Seconds, Severity};
//!
//! let pod = PodRef { uid: "a1".into(), namespace: "shop".into(), name: "web-0".into() };
//! assert_eq!(pod.to_string(), "shop/web-0");
//! assert_eq!(serde_json::to_string(&Seconds::from(Duration::from_millis(1500)))?, "1.5");
//! assert!(Severity::Warning < Severity::Error);
//! # Ok::<(), serde_json::Error>(())
//! ```

pub(crate) mod bytes;
mod confidence;
mod document;
pub(crate) mod duration;
pub(crate) mod escape;
pub(crate) mod json;
pub(crate) mod load;
mod meant;
mod patience;
pub(crate) mod redaction;
mod reference;
mod rule;
pub(crate) mod save;
mod seconds;
mod severity;

pub use confidence::{Confidence, NotChecked};
pub use document::{API_VERSION, Document, document};
pub(crate) use document::{is_light, weight};
pub use meant::meant;
pub use reference::{ContainerRef, PodRef, RuntimeRef, known};
pub use rule::Rule;
pub use seconds::Seconds;
pub use severity::Severity;
