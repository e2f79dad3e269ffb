//! A simulated container runtime, for a laptop, for training and for tests.
//!
//! It is an honest CRI server: a client meets it over HTTP/2 and gRPC and cannot tell it from a runtime. What it plays
//! is a [`Scenario`]: a node whose pods start, restart, finish and are collected, and faults that befall some of the
//! calls. Its state is a pure function of scenario, seed and time, so that two runs tell the same story.
//!
//! It answers what the product asks and nothing else: no pod can be made or changed through it.
//!
//! ```
//! # async fn example() -> Result<(), Box<dyn std::error::Error>> {
//! use std::sync::Arc;
//! use std::time::Duration;
//!
//! use plegctl::clock::SystemClock;
//! use plegctl::cri::Runtime;
//! use plegctl::sim::{self, Simulator};
//!
//! let clock = Arc::new(SystemClock::start());
//! let simulator = Simulator::start(&sim::load("quiet")?, clock.clone())?;
//! let client = simulator.client(Duration::from_secs(10), clock);
//! assert!(client.version().await.result.is_ok());
//! # Ok(())
//! # }
//! # tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(example()).unwrap();
//! ```

mod catalogue;
mod error;
mod events;
mod fault;
mod fields;
mod format;
mod life;
mod naming;
mod node;
mod scenario;
mod scribe;
mod seed;
mod simulation;
mod simulator;
mod story;
#[cfg(test)]
mod tests;
mod tree;

use crate::clock::Wall;

pub use catalogue::{built_in, load, names};
pub use error::{Error, Malformed, Position};
pub use scenario::{Delivery, Effect, Family, Fault, Group, Owner, Ready, Runtime, Scenario, Successor};
pub use simulator::{Simulator, Socket};

/// When the story began that is told at `now`: at midnight (UTC), so that it goes on from one command to the next.
pub fn beginning(now: Wall) -> Wall {
    const DAY: i64 = 24 * 60 * 60 * 1_000_000_000;
    Wall::from_nanos(now.nanos() - now.nanos().rem_euclid(DAY))
}

/// Namespace and name of each pod that the node has when the simulation begins.
pub fn pods(scenario: &Scenario) -> Vec<(String, String)> {
    let sandboxes = node::Node::new(scenario, 0).sandboxes(0, |_| true).into_iter();
    let named = sandboxes.filter_map(|sandbox| sandbox.metadata);
    named.map(|metadata| (metadata.namespace, metadata.name)).collect()
}

/// What the node calls itself in the names of static pods.
pub const NODE_NAME: &str = "sim-node";
