//! Says which CRI call, which pod and which container hold up the kubelet's PLEG.
//!
//! See `docs/design.md` for how the modules lean on each other.
//!
//! What is public is public for a reason, and shown by an example in its module:
//!
//! * [`cri`] to ask a runtime, every call timed, counted and told apart from its failures; its server side for whoever plays one;
//! * [`pleg`] to relist as the kubelet of a release does;
//! * [`diagnosis`] to ask what holds PLEG up;
//! * [`manifests`] to know what a kubelet makes of a static pod;
//! * [`stacks`] to know who waits for whom in a dump of goroutines;
//! * [`capture`] to read what a flight recorder kept;
//! * [`sim`] to try all of that without a node;
//! * [`clock`], [`kubelet`] and [`report`] because the others take or give what is in them.
//!
//! Everything else is this program's own: the command line, the node's files, the fleet behind an API server.

#![warn(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::print_stdout,
    clippy::print_stderr,
    clippy::exit
)]
// What the unit tests inside the library need not follow.
#![cfg_attr(
    not(test),
    warn(missing_docs, clippy::disallowed_methods, clippy::large_futures, clippy::missing_panics_doc)
)]

pub mod capture;
mod children;
pub mod clock;
mod cmd;
pub mod cri;
pub mod diagnosis;
mod fleet;
mod host;
pub mod kubelet;
pub mod manifests;
mod panics;
pub mod pleg;
pub mod report;
pub mod sim;
pub mod stacks;
mod test_settings;
mod threads;

pub use cmd::{Exit, main};
