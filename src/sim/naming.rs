//! Derives the names and ids of simulated pods, sandboxes and containers from seeds.

use super::NODE_NAME;
use super::life::{ContainerLife, PodLife};
use super::scenario::{Owner, Successor};
use super::seed::Seed;

/// The number of the first pod of a simulated `CronJob`. A controller would use the minutes since the epoch.
const FIRST_RUN: i64 = 29_000_000;

impl PodLife {
    /// Returns the pod's name, in the form that its owner's controller would give it.
    pub fn name(&self) -> String {
        let stem = self.group.pod_name.as_deref().unwrap_or(&self.group.name);
        match self.group.owner {
            Owner::Deployment => {
                format!("{stem}-{}-{}", self.template().suffix(10), self.identity.suffix(5))
            }
            Owner::DaemonSet => format!("{stem}-{}", self.identity.suffix(5)),
            Owner::StatefulSet => format!("{stem}-{}", self.index),
            Owner::Job => {
                let runs_before = self.generation * i64::from(self.group.count) + i64::from(self.index);
                format!("{stem}-{}-{}", FIRST_RUN + runs_before, self.identity.suffix(5))
            }
            Owner::Static => format!("{stem}-{NODE_NAME}"),
        }
    }

    /// Returns the pod's UID.
    pub fn uid(&self) -> String {
        if let Some(uid) = self.group.manifest.as_ref().and_then(|manifest| manifest.uid.clone()) {
            return uid;
        }
        let seed = self.identity.of("uid");
        if self.group.owner == Owner::Static { seed.short_hex() } else { seed.uuid() }
    }

    /// Returns the id of the pod's sandbox.
    pub fn sandbox_id(&self) -> String {
        self.seed.of("sandbox").id()
    }

    /// Returns the number of sandboxes that the pod had before this one.
    pub fn sandbox_attempt(&self) -> u32 {
        match self.group.successor {
            Successor::Pod => 0,
            Successor::Sandbox => u32::try_from(self.generation).unwrap_or_default(),
        }
    }

    /// Returns the id of one of the pod's containers.
    pub fn container_id(&self, container: &ContainerLife) -> String {
        self.seed.of("container").of(self.container_name(container)).nth(container.attempt.into()).id()
    }

    /// Returns the name of one of the pod's containers.
    pub fn container_name(&self, container: &ContainerLife) -> &str {
        self.group.containers.get(container.position).map_or("", String::as_str)
    }

    /// Returns the number of earlier containers of this name in all sandboxes of the pod.
    pub fn container_attempt(&self, container: &ContainerLife) -> u32 {
        self.sandbox_attempt() + container.attempt
    }

    /// Returns the seed that the pods of one rollout share.
    fn template(&self) -> Seed {
        let rollout = match self.group.successor {
            Successor::Pod => self.generation.unsigned_abs(),
            Successor::Sandbox => 0,
        };
        Seed::new(0).of(&self.group.name).nth(rollout)
    }
}
