//! [`NodeTimeline`]: a simulated node whose simulated time follows a clock, without the events that the scenario
//! loses.

use std::sync::Arc;
use std::time::Duration;

use super::events::oldest_kept_event;
use super::life::{Nanos, nanos};
use super::node::{SimulatedNode, TimedEvent};
use super::scenario::{RuntimeFamily, Scenario};
use super::seed::Seed;
use crate::clock::{Clock, Mono, Wall};
use crate::cri::ContainerEventType;

/// A simulated node whose time passes.
pub struct NodeTimeline {
    /// The node.
    pub node: SimulatedNode,
    loses_every: u32,
    seed: Seed,
    clock: Arc<dyn Clock>,
    started: Mono,
    /// The simulated time at the start of this process.
    elapsed_at_start: Nanos,
}

impl NodeTimeline {
    /// Creates the timeline of a simulation that started at `start_time`.
    pub fn begin(scenario: &Scenario, clock: Arc<dyn Clock>, start_time: Wall) -> Self {
        let elapsed_at_start = clock.wall().nanos().saturating_sub(start_time.nanos()).max(0);
        let runtime = &scenario.runtime;
        let oldest_event = oldest_kept_event(runtime.family, runtime.events, elapsed_at_start).max(0);
        Self {
            node: SimulatedNode::new(scenario, start_time.nanos(), oldest_event),
            elapsed_at_start,
            loses_every: scenario.runtime.loses_every,
            seed: Seed::new(scenario.seed).of("faults"),
            started: clock.mono(),
            clock,
        }
    }

    /// Returns the present simulated time.
    pub fn elapsed(&self) -> Nanos {
        self.elapsed_at_start.saturating_add(nanos(self.clock.mono().since(self.started)))
    }

    /// Returns the runtime whose behaviour is simulated.
    pub fn family(&self) -> RuntimeFamily {
        self.node.message_builder.family
    }

    /// Returns the events after `from` and up to `to` that are not lost.
    pub fn events(&self, from: Nanos, to: Nanos) -> Vec<TimedEvent> {
        let mut events = self.node.events(from, to);
        events.retain(|event| !self.is_lost(event));
        events
    }

    /// Returns the time from `at` to the next change; `None` if nothing changes any more.
    pub fn until_next(&self, at: Nanos) -> Option<Duration> {
        let next = self.node.next_after(at)?;
        Some(Duration::from_nanos(u64::try_from(next - at).unwrap_or_default()))
    }

    fn is_lost(&self, event: &TimedEvent) -> bool {
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
