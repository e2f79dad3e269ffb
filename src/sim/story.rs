//! What happens on the simulated node, and what of it the runtime tells: a scenario on a clock.

use std::sync::Arc;
use std::time::Duration;

use super::life::{Nanos, nanos};
use super::node::{Event, Node};
use super::scenario::{Family, Scenario};
use super::seed::Seed;
use crate::clock::{Clock, Mono, Wall};
use crate::cri::ContainerEventType;

/// A node whose time passes.
pub struct Story {
    node: Node,
    family: Family,
    loses_every: u32,
    seed: Seed,
    clock: Arc<dyn Clock>,
    started: Mono,
    /// How much of the story was over then.
    already: Nanos,
}

impl Story {
    /// A story that began at `begun` and goes on from now.
    pub fn begin(scenario: &Scenario, clock: Arc<dyn Clock>, begun: Wall) -> Self {
        Self {
            node: Node::new(scenario, begun.nanos()),
            already: clock.wall().nanos().saturating_sub(begun.nanos()).max(0),
            family: scenario.runtime.family,
            loses_every: scenario.runtime.loses_every,
            seed: Seed::new(scenario.seed).of("faults"),
            started: clock.mono(),
            clock,
        }
    }

    /// The node.
    pub fn node(&self) -> &Node {
        &self.node
    }

    /// Simulated time.
    pub fn elapsed(&self) -> Nanos {
        self.already.saturating_add(nanos(self.clock.mono().since(self.started)))
    }

    /// Whose manners are played.
    pub fn family(&self) -> Family {
        self.family
    }

    /// The events after `from` and up to `to` that are not lost.
    pub fn events(&self, from: Nanos, to: Nanos) -> Vec<Event> {
        let mut events = self.node.events(from, to);
        events.retain(|event| !self.is_lost(event));
        events
    }

    /// How long until something happens after `at`; `None` if nothing will.
    pub fn until_next(&self, at: Nanos) -> Option<Duration> {
        let next = self.node.next_after(at)?;
        Some(Duration::from_nanos(u64::try_from(next - at).unwrap_or_default()))
    }

    fn is_lost(&self, event: &Event) -> bool {
        let kind = match event.message.kind {
            ContainerEventType::Created | ContainerEventType::Other(_) => 0,
            ContainerEventType::Started => 1,
            ContainerEventType::Stopped => 2,
            ContainerEventType::Deleted => 3,
        };
        let every = u64::from(self.loses_every);
        every > 0 && self.seed.of(&event.message.container_id).nth(kind).below(every) == 0
    }
}
