//! Builds wanted pods and runtime pods for the tests of verdicts and mirror pods.

mod compare;
mod mirror;
mod verdict;

use std::collections::BTreeMap;

use super::{
    CompactJson, KubeletPods, PodContent, PodSource, ReadTimes, RuntimePod, SourceState, VerdictInput,
    WantedPod,
};
use crate::{ContainerState, PodIdentity, RunningContainer, RunningPod};
use plegctl_base::clock::Wall;

/// The input of verdicts whose views were all read now.
struct Asked<'a> {
    sources: &'a BTreeMap<PodSource, SourceState>,
    runtime: Option<&'a BTreeMap<String, RuntimePod>>,
    kubelet: Option<&'a KubeletPods>,
}

impl Asked<'_> {
    fn rows(&self) -> Vec<super::PodRow> {
        let Asked { sources, runtime, kubelet } = *self;
        super::pod_rows(&VerdictInput { sources, runtime, kubelet, times: &ReadTimes::default(), now: NOW })
    }
}

const NOW: Wall = Wall::from_nanos(1_000_000_000_000_000_000);
const HOUR: i64 = 3_600_000_000_000;

fn identity(namespace: &str, name: &str) -> PodIdentity {
    PodIdentity { namespace: namespace.into(), name: name.into() }
}

fn wanted(identity: PodIdentity, uid: &str) -> WantedPod {
    WantedPod {
        identity,
        uid: uid.into(),
        content: PodContent::default(),
        status: CompactJson::default(),
        finalizers: CompactJson::default(),
        mirror_of: None,
        changed: None,
        mirror_refusal: None,
        object: None,
    }
}

/// A sandbox of this age with the container `main`, which was created now.
fn running_pod(
    identity: PodIdentity,
    (uid, source): (&str, &str),
    is_ready: bool,
    age: i64,
    state: ContainerState,
) -> RunningPod {
    let id = format!("c{uid}");
    let container = RunningContainer { id, state, created_at: NOW.nanos(), ..RunningContainer::default() };
    RunningPod {
        sandbox_id: format!("s-{uid}"),
        uid: uid.to_owned(),
        identity: Some(identity),
        source: PodSource::named(source),
        is_ready,
        created_at: NOW.nanos() - age,
        containers: [("main".to_owned(), container)].into(),
        ..RunningPod::default()
    }
}
