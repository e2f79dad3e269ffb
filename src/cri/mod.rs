//! The container runtime as plegctl sees it: where its socket is, what can be asked of it, what it answered.
//!
//! The only place that knows gRPC. Above it there are plain node types, a [`Call`] for every question asked, and the
//! [`Runtime`] trait. It sends the RPCs of [`Rpc`] and no others, never retries one, and keeps none of them secret:
//! each comes back with its duration, the bytes it received and how it ended.
//!
//! ```
//! # async fn example() -> Result<(), Box<dyn std::error::Error>> {
//! use std::sync::Arc;
//! use std::time::Duration;
//!
//! use plegctl::clock::SystemClock;
//! use plegctl::cri::{Filter, Runtime};
//! use plegctl::sim::{self, Simulator};
//!
//! let clock = Arc::new(SystemClock::start());
//! let simulator = Simulator::start(&sim::load("quiet")?, clock.clone())?;
//! let client = simulator.client(Duration::from_secs(10), clock);
//! let call = client.list_sandboxes(&Filter::default()).await;
//! println!("{} took {:?} and {} bytes", call.rpc, call.duration, call.response_bytes);
//! assert!(!call.result?.is_empty());
//! # Ok(())
//! # }
//! # tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(example()).unwrap();
//! ```

mod arrival;
mod call;
mod client;
mod codec;
mod connect;
mod convert;
mod endpoint;
mod error;
mod events;
#[expect(
    clippy::pedantic,
    clippy::enum_variant_names,
    reason = "made by prost, whose taste is not ours to judge"
)]
pub(crate) mod generated;
mod guard;
mod node;
pub(crate) mod rename;
mod rpc;
mod runtime;
pub mod server;
mod status;
mod tape;
mod weight;

#[cfg(test)]
pub(crate) use arrival::tell;
pub use arrival::{Arriving, watched};
pub use call::{Call, Outcome, WaitEnd};
pub use client::{Client, Interpreter, KUBELET_RECEIVE_LIMIT};
pub use codec::RawCodec;
pub use endpoint::{Endpoint, EndpointError, Resolved, Sources, resolve};
pub use error::{Code, Error, FileKind};
pub use events::{EventConnection, HangUp};
pub use node::{
    CgroupDriver, Condition, Container, ContainerEvent, ContainerEventType, ContainerMetadata,
    ContainerState, ContainerStatus, Image, Labels, Mount, Network, RuntimeStatus, Sandbox, SandboxMetadata,
    SandboxState, SandboxStatus, SandboxStatusAnswer, Version, label,
};
pub use rpc::Rpc;
pub use runtime::{EventFeed, EventStream, Filter, ReceivedEvent, Runtime};
pub use tape::{CallEnd, Tape};
