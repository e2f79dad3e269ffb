//! Measures how long the runtime takes to apply an update: the time until the pod has a sandbox, runs, or is gone.
//!
//! The caller passes in the updates and the runtime's pods; this module makes no calls.

use std::collections::BTreeMap;
use std::time::Duration;

use super::runtime_pods::RuntimePod;
use super::{Op, Update};
use crate::PodIdentity;
use plegctl_base::clock::Mono;
use plegctl_base::report::word_enum;

/// How long a pod is followed. For a pod that takes longer, `pods` without `--watch` shows the reason.
const FOLLOW_LIMIT: Duration = Duration::from_secs(600);

word_enum! {
    /// How far a pod has progressed.
    #[derive(PartialOrd, Ord, Hash)]
    pub json enum PodStage: as_str {
        /// The pod has a sandbox.
        Sandbox = "sandbox",
        /// A container of the pod runs.
        Running = "running",
        /// No sandbox of the pod is ready and no container of it runs.
        Gone = "gone",
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
    /// Whether this is the old version of a pod, because another version was added since.
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
    /// The time of the update.
    since: Mono,
    /// The stage with which the pod is no longer followed.
    until: PodStage,
    /// The last stage that was reported.
    reported: Option<PodStage>,
    replaced: bool,
    /// Whether the runtime has not been read since the update. A stage in the first reading may be older than the update.
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
            let followed = FollowedPod {
                identity,
                since: now,
                until,
                reported: None,
                replaced: false,
                unobserved: true,
            };
            self.followed.insert(pod.uid.clone(), followed);
        }
    }

    /// Whether a pod is followed.
    pub fn is_following(&self) -> bool {
        !self.followed.is_empty()
    }

    /// Returns the time since the newest update of a followed pod.
    pub fn youngest(&self, now: Mono) -> Option<Duration> {
        self.followed.values().map(|followed| now.since(followed.since)).min()
    }

    /// Returns the stages that followed pods have newly reached in the runtime.
    pub fn observe(&mut self, runtime: &BTreeMap<String, RuntimePod>, now: Mono) -> Vec<PodProgress> {
        let mut progress = Vec::new();
        self.followed.retain(|uid, followed| {
            let after = now.since(followed.since);
            let stage = stage(runtime.get(uid));
            let first = std::mem::take(&mut followed.unobserved);
            // A pod that runs already in the first reading has run before its update, so there is nothing to measure.
            if first && followed.until == stage && stage == PodStage::Running {
                return false;
            }
            let is_new = followed.reported.is_none_or(|reported| reported != stage);
            let is_on_the_way = match followed.until {
                PodStage::Gone => stage == PodStage::Gone,
                PodStage::Sandbox | PodStage::Running => stage != PodStage::Gone,
            };
            if is_new && is_on_the_way {
                followed.reported = Some(stage);
                progress.push(PodProgress {
                    identity: followed.identity.clone(),
                    uid: uid.clone(),
                    stage,
                    after,
                    replaced: followed.replaced,
                });
            }
            followed.reported != Some(followed.until) && after < FOLLOW_LIMIT
        });
        progress
    }
}

/// Returns the stage of a pod in the runtime.
fn stage(pod: Option<&RuntimePod>) -> PodStage {
    match pod {
        Some(pod) if pod.runs() => PodStage::Running,
        Some(pod) if pod.is_alive() => PodStage::Sandbox,
        _ => PodStage::Gone,
    }
}
