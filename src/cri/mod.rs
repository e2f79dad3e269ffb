//! The client of the container runtime: finds the socket, sends calls, and converts the answers into plain types.
//! [`server`] is the opposite side, which the simulator and the replay of captures use.
//!
//! This is the only module that knows gRPC. All other modules use the plain types of `node` (sandboxes, containers),
//! [`Call`] and the [`Runtime`] trait. The client sends only the RPCs of [`Rpc`], and never retries a call. [`PodsApi`] is
//! the client of a kubelet's Pods API, with its own list of RPCs, [`KubeletRpc`]. Every call except the event stream returns
//! its duration, the number of received bytes and its outcome.
//!
//! ```
//! # async fn example() -> Result<(), Box<dyn std::error::Error>> {
//! use std::path::Path;
//! use std::sync::Arc;
//! use std::time::Duration;
//!
//! use plegctl_pleg::clock::SystemClock;
//! use plegctl_pleg::cri::{Client, Filter, Runtime};
//!
//! let socket = "/run/containerd/containerd.sock";
//! let clock = Arc::new(SystemClock::start());
//! let client = Client::new(Path::new(socket), socket, Duration::from_secs(10), clock);
//! let call = client.list_sandboxes(&Filter::default()).await;
//! println!("{} took {:?} and {} bytes", call.rpc, call.duration, call.response_bytes);
//! println!("{} sandboxes", call.result?.len());
//! # Ok(())
//! # }
//! ```

mod call;
mod client;
mod codec;
mod connect;
mod convert;
mod decode_budget;
mod decoded_list;
mod endpoint;
mod error;
mod events;
#[expect(clippy::pedantic, clippy::enum_variant_names, reason = "prost generates this code")]
pub(crate) mod generated;
mod grpc_check;
pub mod list_items;
mod node;
mod observer;
mod pods_api;
mod progress;
pub mod rename;
mod rpc;
mod runtime;
pub mod server;
mod status;
pub mod stream_guard;

pub use call::{Call, Outcome, StreamedAnswer, WaitEnd};
pub use client::{Client, KUBELET_RECEIVE_LIMIT, OutcomeOverride};
pub use codec::RawCodec;
pub use decoded_list::DecodedList;
pub use endpoint::{Endpoint, EndpointError, Resolved, Sources, resolve};
pub use error::{Code, Error, FileKind};
pub use events::{ConnectionCloser, EventConnection};
pub use node::{
    CgroupDriver, Container, ContainerEvent, ContainerEventType, ContainerMetadata, ContainerState,
    ContainerStatus, Image, Labels, Mount, Network, RuntimeCondition, RuntimeStatus, Sandbox,
    SandboxMetadata, SandboxState, SandboxStatus, SandboxStatusAnswer, Version, label, program_of,
};
pub use observer::{CallEnd, CallObserver};
pub use pods_api::{KubeletRpc, PODS_API_SOCKET, PodsApi, PodsApiError};
pub use progress::{ProgressObserver, observe_progress, report_progress, report_stream};
pub use rpc::Rpc;
pub use runtime::{EventFeed, EventStream, Filter, ReceivedEvent, Runtime};
