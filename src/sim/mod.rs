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
mod kubelet;
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
use crate::cri::{ContainerState, SandboxState};

pub use catalogue::{built_in, load, names};
pub use error::{Error, Malformed, Position};
pub use kubelet::KubeletPages;
pub use scenario::{
    Delivery, Effect, Family, Fault, Group, KubeletLife, NodeAround, Owner, Ready, Runtime, Scenario,
    Successor,
};
pub use simulator::{Simulator, Socket};

/// When the story began that is told at `now`: at midnight (UTC), so that it goes on from one command to the next.
pub fn beginning(now: Wall) -> Wall {
    const DAY: i64 = 24 * 60 * 60 * 1_000_000_000;
    Wall::from_nanos(now.nanos() - now.nanos().rem_euclid(DAY))
}

/// A pod as the node's processes show it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PodAround {
    /// Id of its sandbox.
    pub sandbox_id: String,
    /// UID.
    pub uid: String,
    /// Whether its shim is stopped.
    pub shim_is_stopped: bool,
    /// Ids and names of its running containers.
    pub containers: Vec<(String, String)>,
}

/// The pods of a scenario that run at `now`, as the node's processes show them.
pub fn pods_around(scenario: &Scenario, around: &NodeAround, now: Wall) -> Vec<PodAround> {
    let begun = beginning(now);
    let node = node::Node::new(scenario, begun.nanos());
    let at = now.nanos().saturating_sub(begun.nanos());
    let stopped = |group: Option<&str>| {
        group.is_some_and(|group| around.stopped_shims.iter().any(|stopped| stopped == group))
    };
    let running = node.sandboxes(at, |sandbox| sandbox.state == SandboxState::Ready).into_iter();
    let pods = running.map(|sandbox| {
        let containers = node.containers(at, |container| {
            container.sandbox_id == sandbox.id && container.state == ContainerState::Running
        });
        let named =
            containers.into_iter().filter_map(|container| Some((container.id, container.metadata?.name)));
        PodAround {
            shim_is_stopped: stopped(sandbox.labels.get("app")),
            containers: named.collect(),
            uid: sandbox.metadata.map(|metadata| metadata.uid).unwrap_or_default(),
            sandbox_id: sandbox.id,
        }
    });
    pods.collect()
}

/// Namespace and name of each pod that the node has when the simulation begins.
pub fn pods(scenario: &Scenario) -> Vec<(String, String)> {
    let sandboxes = node::Node::new(scenario, 0).sandboxes(0, |_| true).into_iter();
    let named = sandboxes.filter_map(|sandbox| sandbox.metadata);
    named.map(|metadata| (metadata.namespace, metadata.name)).collect()
}

/// What the node calls itself in the names of static pods.
pub const NODE_NAME: &str = "sim-node";
