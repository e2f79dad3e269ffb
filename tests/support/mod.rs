//! The support code of the tests: a scripted runtime, sockets without a runtime, recordings of kubelets, and a runner
//! for the real binary.

pub mod address;
mod answer;
pub mod captures;
pub mod crictl;
pub mod difference;
pub mod events;
pub mod fake;
mod log;
pub mod memory_use;
pub mod node;
pub mod plegctl;
pub mod pods_api;
pub mod raw_server;
pub mod recording;
mod reply;
mod server;
pub mod simulated_fleet;
pub mod socket;
pub mod static_pods;
pub mod terminal;
pub mod wire;

pub use answer::{RuntimeKind, STREAM_BATCH};
pub use fake::FakeRuntime;
pub use log::{CallState, ReceivedCall};
pub use node::Node;
pub use reply::{ConnectionFault, Gate, Reply};
