//! The kubelet's pod lifecycle event generator as a pure engine.
//!
//! It does no I/O but through [`crate::cri::Runtime`], asks no clock but the one it is given, prints nothing and never
//! sleeps. Given the same answers it makes the same calls and the same events as the kubelet of the chosen release;
//! where the kubelet leaves an order open, the order here is fixed.
//!
//! ```
//! # async fn example() -> Result<(), Box<dyn std::error::Error>> {
//! use std::sync::Arc;
//! use std::time::Duration;
//!
//! use plegctl::clock::SystemClock;
//! use plegctl::kubelet::KubeletVersion;
//! use plegctl::pleg::inspect::{Inspect, Order, relist};
//! use plegctl::report::RuntimeRef;
//! use plegctl::sim::{self, Simulator};
//!
//! let clock = Arc::new(SystemClock::start());
//! let simulator = Simulator::start(&sim::load("quiet")?, clock.clone())?;
//! let client = simulator.client(Duration::from_secs(10), clock.clone());
//! let order = Order {
//!     node: None,
//!     runtime: RuntimeRef::default(),
//!     era: KubeletVersion::parse("1.31")?.era(),
//!     inspect: Inspect::Nothing,
//! };
//! let report = relist(&client, &*clock, order).await?;
//! println!("{} pods in {:?}", report.counts.pods, report.relist.duration_seconds.duration());
//! assert_eq!(report.relist.calls.len(), 2);
//! # Ok(())
//! # }
//! # tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(example()).unwrap();
//! ```

mod addresses;
pub mod cache;
mod caller;
pub(crate) mod calls;
pub(crate) mod compare;
pub mod diff;
pub mod evented;
mod fetch;
pub(crate) mod generic;
mod go_sort;
pub(crate) mod health;
pub(crate) mod hub;
pub mod inspect;
mod known;
pub(crate) mod latency;
pub mod metrics;
pub mod pods;
pub(crate) mod readers;
pub(crate) mod records;
pub mod report;
pub(crate) mod silence;
pub(crate) mod status;
pub mod stream;
pub(crate) mod tally;
pub(crate) mod worker;

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
