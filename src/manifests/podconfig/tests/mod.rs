//! Builds wanted pods and runtime pods for the tests of verdicts and mirror pods.

mod compare;
mod mirror;
mod verdict;

use std::collections::BTreeMap;

use super::{
    CompactJson, KubeletPods, PodContent, PodSource, ReadTimes, RuntimePod, SourceState, VerdictInput,
    WantedPod,
};
use crate::clock::Wall;
use crate::cri::{
    Container, ContainerMetadata, ContainerState, Labels, Sandbox, SandboxMetadata, SandboxState, label,
};
use crate::manifests::PodIdentity;

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

fn sandbox(identity: PodIdentity, uid: &str, source: &str, state: SandboxState, age: i64) -> Sandbox {
    let PodIdentity { namespace, name } = identity;
    Sandbox {
        id: format!("s-{uid}"),
        metadata: Some(SandboxMetadata { name, uid: uid.into(), namespace, attempt: 0 }),
        state,
        created_at: NOW.nanos() - age,
        labels: Labels::default(),
        annotations: [("kubernetes.io/config.source", source)].into_iter().collect(),
    }
}

fn container(uid: &str, state: ContainerState) -> Container {
    Container {
        id: format!("c{uid}"),
        sandbox_id: format!("s-{uid}"),
        metadata: Some(ContainerMetadata { name: "main".into(), attempt: 0 }),
        image: None,
        image_ref: String::new(),
        state,
        created_at: NOW.nanos(),
        labels: [(label::POD_UID, uid)].into_iter().collect(),
        annotations: Labels::default(),
    }
}
