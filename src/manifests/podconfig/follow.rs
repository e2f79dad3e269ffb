//! What the runtime makes of an update: how long until a sandbox is there, until the pod runs, until the old one is gone.

use std::collections::BTreeMap;
use std::time::Duration;

use serde::Serialize;

use super::runtime_pods::RuntimePod;
use super::{Op, Update};
use crate::clock::Mono;
use crate::manifests::PodIdentity;

/// A pod that has not come this far by then is left to `pods` without `--watch`, which says why.
const PATIENCE: Duration = Duration::from_secs(600);

/// How far a pod has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Stage {
    /// It has a sandbox.
    Sandbox,
    /// A container of it runs.
    Running,
    /// Nothing of it lives any more.
    Gone,
}

impl Stage {
    /// The word itself.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Sandbox => "sandbox",
            Self::Running => "running",
            Self::Gone => "gone",
        }
    }
}

/// A step that was seen.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Step {
    /// Which pod.
    pub identity: PodIdentity,
    /// Under which UID.
    pub uid: String,
    /// How far.
    pub stage: Stage,
    /// How long after the update.
    pub after: Duration,
    /// Whether another version of the pod was added in the meantime, so that this is the old one.
    pub replaced: bool,
}

/// The pods that something is expected of.
#[derive(Debug, Default)]
pub struct Following {
    waiting: BTreeMap<String, Waiting>,
}

#[derive(Debug)]
struct Waiting {
    identity: PodIdentity,
    since: Mono,
    until: Stage,
    seen: Option<Stage>,
    replaced: bool,
    /// Not looked at yet: what is true at the first look was true before.
    fresh: bool,
}

impl Following {
    /// Notes what an update wants.
    pub fn told(&mut self, update: &Update, now: Mono) {
        let until = match update.op {
            Op::Add | Op::Update => Stage::Running,
            Op::Remove | Op::Delete => Stage::Gone,
            Op::Reconcile => return,
        };
        let own = update.pods.iter().filter(|pod| pod.mirror_of.is_none() && pod.told_uid().is_some());
        for pod in own {
            if until == Stage::Running {
                for (_, other) in self.waiting.iter_mut().filter(|(uid, _)| **uid != pod.uid) {
                    other.replaced |= other.until == Stage::Gone && other.identity == pod.identity;
                }
            }
            let identity = pod.identity.clone();
            let waiting = Waiting { identity, since: now, until, seen: None, replaced: false, fresh: true };
            self.waiting.insert(pod.uid.clone(), waiting);
        }
    }

    /// Whether there is anything to wait for.
    pub fn is_waiting(&self) -> bool {
        !self.waiting.is_empty()
    }

    /// How long ago the youngest of them was told.
    pub fn youngest(&self, now: Mono) -> Option<Duration> {
        self.waiting.values().map(|waiting| now.since(waiting.since)).min()
    }

    /// The steps that show in the runtime's pods.
    pub fn look(&mut self, runtime: &BTreeMap<String, RuntimePod>, now: Mono) -> Vec<Step> {
        let mut steps = Vec::new();
        self.waiting.retain(|uid, waiting| {
            let after = now.since(waiting.since);
            let stage = stage(runtime.get(uid));
            let first = std::mem::take(&mut waiting.fresh);
            // A pod that ran before it was announced has nothing to tell: the watch has just begun.
            if first && waiting.until == stage && stage == Stage::Running {
                return false;
            }
            let new = waiting.seen.is_none_or(|seen| seen != stage);
            let wanted = match waiting.until {
                Stage::Gone => stage == Stage::Gone,
                Stage::Sandbox | Stage::Running => stage != Stage::Gone,
            };
            if new && wanted {
                waiting.seen = Some(stage);
                steps.push(Step {
                    identity: waiting.identity.clone(),
                    uid: uid.clone(),
                    stage,
                    after,
                    replaced: waiting.replaced,
                });
            }
            waiting.seen != Some(waiting.until) && after < PATIENCE
        });
        steps
    }
}

fn stage(pod: Option<&RuntimePod>) -> Stage {
    match pod {
        Some(pod) if pod.runs() => Stage::Running,
        Some(pod) if pod.lives() => Stage::Sandbox,
        _ => Stage::Gone,
    }
}
