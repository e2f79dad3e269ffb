//! Measures what the runtime does with an update: the time until the pod has a sandbox, runs, or is gone.

use std::collections::BTreeMap;
use std::time::Duration;

use serde::Serialize;

use super::runtime_pods::RuntimePod;
use super::{Op, Update};
use crate::clock::Mono;
use crate::manifests::PodIdentity;

/// How long a pod is followed. After that, `pods` without `--watch` says why the pod does not progress.
const FOLLOW_LIMIT: Duration = Duration::from_secs(600);

/// How far a pod has progressed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum PodStage {
    /// The pod has a sandbox.
    Sandbox,
    /// A container of the pod runs.
    Running,
    /// No sandbox of the pod is ready and no container of it runs.
    Gone,
}

impl PodStage {
    /// The name in JSON and in messages.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Sandbox => "sandbox",
            Self::Running => "running",
            Self::Gone => "gone",
        }
    }
}

/// A stage that a pod has reached.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PodProgress {
    /// The namespace and name of the pod.
    pub identity: PodIdentity,
    /// The UID of the pod.
    pub uid: String,
    /// The stage.
    pub stage: PodStage,
    /// The time since the update.
    pub after: Duration,
    /// Whether another version of the pod has been added since, so that this is the old version.
    pub replaced: bool,
}

/// The pods that are followed.
#[derive(Debug, Default)]
pub struct PodFollower {
    followed: BTreeMap<String, FollowedPod>,
}

#[derive(Debug)]
struct FollowedPod {
    identity: PodIdentity,
    since: Mono,
    until: PodStage,
    seen: Option<PodStage>,
    replaced: bool,
    /// Whether the runtime has not been read since the update: a stage seen at first was reached before.
    unobserved: bool,
}

impl PodFollower {
    /// Starts to follow the pods of an update.
    pub fn follow(&mut self, update: &Update, now: Mono) {
        let until = match update.op {
            Op::Add | Op::Update => PodStage::Running,
            Op::Remove | Op::Delete => PodStage::Gone,
            Op::Reconcile => return,
        };
        let own = update.pods.iter().filter(|pod| pod.mirror_of.is_none() && pod.known_uid().is_some());
        for pod in own {
            if until == PodStage::Running {
                for (_, other) in self.followed.iter_mut().filter(|(uid, _)| **uid != pod.uid) {
                    other.replaced |= other.until == PodStage::Gone && other.identity == pod.identity;
                }
            }
            let identity = pod.identity.clone();
            let followed =
                FollowedPod { identity, since: now, until, seen: None, replaced: false, unobserved: true };
            self.followed.insert(pod.uid.clone(), followed);
        }
    }

    /// Whether a pod is followed.
    pub fn is_following(&self) -> bool {
        !self.followed.is_empty()
    }

    /// The time since the newest update of a followed pod.
    pub fn youngest(&self, now: Mono) -> Option<Duration> {
        self.followed.values().map(|followed| now.since(followed.since)).min()
    }

    /// Returns the stages that followed pods have reached in the runtime.
    pub fn observe(&mut self, runtime: &BTreeMap<String, RuntimePod>, now: Mono) -> Vec<PodProgress> {
        let mut progress = Vec::new();
        self.followed.retain(|uid, followed| {
            let after = now.since(followed.since);
            let stage = stage(runtime.get(uid));
            let first = std::mem::take(&mut followed.unobserved);
            // A pod that ran before its update is not reported: the watch has just started.
            if first && followed.until == stage && stage == PodStage::Running {
                return false;
            }
            let new = followed.seen.is_none_or(|seen| seen != stage);
            let wanted = match followed.until {
                PodStage::Gone => stage == PodStage::Gone,
                PodStage::Sandbox | PodStage::Running => stage != PodStage::Gone,
            };
            if new && wanted {
                followed.seen = Some(stage);
                progress.push(PodProgress {
                    identity: followed.identity.clone(),
                    uid: uid.clone(),
                    stage,
                    after,
                    replaced: followed.replaced,
                });
            }
            followed.seen != Some(followed.until) && after < FOLLOW_LIMIT
        });
        progress
    }
}

fn stage(pod: Option<&RuntimePod>) -> PodStage {
    match pod {
        Some(pod) if pod.runs() => PodStage::Running,
        Some(pod) if pod.is_alive() => PodStage::Sandbox,
        _ => PodStage::Gone,
    }
}
