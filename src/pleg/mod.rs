//! The kubelet's pod lifecycle event generator as a pure engine.
//!
//! It does no I/O but through [`crate::cri::Runtime`], asks no clock but the one it is given, prints nothing and never
//! sleeps. Given the same answers it makes the same calls and the same events as the kubelet of the chosen release;
//! where the kubelet leaves an order open, the order here is fixed.

mod addresses;
pub mod cache;
mod caller;
pub mod calls;
pub mod channel;
pub mod compare;
pub mod diff;
pub mod evented;
mod fetch;
mod fingerprints;
pub mod generic;
pub mod health;
pub mod hub;
pub mod inspect;
pub mod latency;
pub mod metrics;
pub mod pods;
pub mod readers;
pub mod records;
pub mod report;
pub mod status;
pub mod stream;
pub mod tally;
pub mod worker;

pub use crate::kubelet::{Era, KubeletVersion};
pub use crate::report::{PodRef, RuntimeRef, Seconds, document};
pub use caller::Sink;
pub use calls::{CallLog, CallRecord, Failure, OpenCall};
pub use compare::Comparison;
pub use diff::{DiffReport, diff};
pub use evented::Evented;
pub use generic::{Generic, Settings};
pub use hub::Hub;
pub use pods::{KubeletState, PlegState};
pub use report::{ReadError, RelistReport};
pub use tally::Tally;
pub use worker::{Timing, Turn, Worker};
