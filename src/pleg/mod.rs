//! Reproduces the kubelet's pod lifecycle event generator (PLEG) without I/O of its own.
//!
//! The engine calls the runtime only through [`crate::cri::Runtime`], reads only the clock that its caller passes, prints
//! nothing and never sleeps. Only the event stream (`guarded_stream`) has its own connection and pauses.
//!
//! Given the same answers, the engine makes the same calls and emits the same events as the kubelet of the chosen release.
//! Where the kubelet's order is random, the engine has a fixed order.
//!
//! ```
//! # async fn example() -> Result<(), Box<dyn std::error::Error>> {
//! use std::path::Path;
//! use std::sync::Arc;
//! use std::time::Duration;
//!
//! use plegctl_pleg::clock::SystemClock;
//! use plegctl_pleg::cri::Client;
//! use plegctl_pleg::kubelet::KubeletVersion;
//! use plegctl_pleg::pleg::single_relist::{Inspect, RelistRequest, relist};
//! use plegctl_pleg::report::RuntimeRef;
//!
//! let socket = "/run/containerd/containerd.sock";
//! let clock = Arc::new(SystemClock::start());
//! let client = Client::new(Path::new(socket), socket, Duration::from_secs(10), clock.clone());
//! let request = RelistRequest {
//!     node: None,
//!     runtime: RuntimeRef::default(),
//!     era: KubeletVersion::parse("1.31")?.era(),
//!     inspect: Inspect::Nothing,
//! };
//! let report = relist(&client, &*clock, request).await?;
//! println!("{} pods in {:?}", report.counts.pods, report.relist.duration_seconds.duration());
//! # Ok(())
//! # }
//! ```

mod addresses;
pub mod cache;
mod caller;
pub mod calls;
pub mod compare;
pub mod diff;
pub mod evented;
mod fetch;
pub mod generic;
pub mod guarded_stream;
pub mod health;
pub mod latency;
pub mod metrics;
pub mod pods;
pub mod readers;
pub mod records;
pub mod relist_calls;
pub mod relist_timer;
pub mod report;
pub mod shared_state;
pub mod silence;
pub mod single_relist;
pub mod status;
pub mod stream;
pub mod watch_totals;

pub use crate::kubelet::{Era, KubeletVersion};
pub use crate::report::{PodRef, RuntimeRef, Seconds, document};
pub use caller::Sink;
pub use calls::{CallFailure, CallLog, CallRecord, OpenCall};
pub use compare::Comparison;
pub use diff::{DiffReport, diff};
pub use evented::EventedPleg;
pub use generic::{GenericPleg, PlegSettings};
pub use pods::{KubeletState, PlegState};
pub use relist_timer::{PlegTiming, RelistTimer, TimerAction};
pub use report::{ReadError, RelistReport};
pub use shared_state::SharedState;
pub use watch_totals::WatchTotals;
