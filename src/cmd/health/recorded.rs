//! `health` on a capture: uses what was known at one moment, and nothing of this machine.

use std::path::PathBuf;

use crate::capture::Playback;
use crate::capture::node::{NodeSample, SampledKubelet};
use crate::cri::Client;
use crate::cri::rename::ListedOwner;
use crate::diagnosis::report::JudgedMoment;
use crate::diagnosis::stacks::Wanted;
use crate::diagnosis::{
    CallersPendingCall, Inputs, ItemKind, MetricsSource, OutsideId, SimulatedPod, SimulatedProcesses,
};
use crate::host::time_on_and_for_processors;
use crate::report::PodRef;

/// Copies the recorded facts into the inputs of a run; the answers come from the replay.
pub(super) fn take(inputs: &mut Inputs<Client>, playback: &Playback) {
    playback.answer_for_verdict();
    let (at, incident) = playback.chosen();
    inputs.recorded = Some(JudgedMoment { at, incident });
    inputs.callers_pending = playback
        .unanswered()
        .into_iter()
        .map(|call| CallersPendingCall { rpc: call.rpc, id: call.id, waited: call.waited, ended: None })
        .collect();
    inputs.outside = Some(outside(playback));
    inputs.host_root = PathBuf::new();
    inputs.proc = None;
    inputs.played = playback.node_sample().and_then(played);
    if let Some(stacks) = playback.stacks() {
        inputs.stacks = Wanted::Kept(Box::new(stacks));
    }
    inputs.cpu_time = time_on_and_for_processors;
    if let Some((sample, at)) = playback.kubelet_metrics() {
        let name = "the capture".to_owned();
        let text = sample.text.map(|text| MetricsSource::Text { name, text, written: Some(at) });
        let silent = sample.silent.then(|| MetricsSource::Silent(sample.took.duration()));
        inputs.kubelet.metrics = inputs.kubelet.metrics.take().or(text).or(silent);
    }
}

/// Converts the recorder's last sample of the processes; `None` if it has neither a kubelet nor a stopped shim.
fn played(sample: NodeSample) -> Option<SimulatedProcesses> {
    let pods = sample.stopped_shims.into_iter().map(|shim| SimulatedPod {
        sandbox_id: shim.id.unwrap_or_default(),
        shim: 'T',
        shim_process: Some((shim.pid, shim.name)),
        ..SimulatedPod::default()
    });
    let pods: Vec<SimulatedPod> = pods.collect();
    let kubelet = match sample.kubelet {
        Some(SampledKubelet::Running { pid }) => Some((pid, 'S')),
        Some(SampledKubelet::Stopped { pid }) => Some((pid, 'T')),
        Some(SampledKubelet::Gone) | None => None,
    };
    let has_kubelet = sample.kubelet.is_some();
    (has_kubelet || !pods.is_empty()).then_some(SimulatedProcesses {
        kubelet,
        has_kubelet,
        owns_socket: true,
        pods,
    })
}

/// Returns the names behind ids, from the last lists that were answered.
fn outside(playback: &Playback) -> Vec<OutsideId> {
    let [sandboxes, containers] = playback.last_listed();
    let found = |kind, ListedOwner { id, owner, sandbox_id }| {
        let mut parts = owner.splitn(3, '/').map(str::to_owned);
        let (namespace, name) = (parts.next().unwrap_or_default(), parts.next().unwrap_or_default());
        let pod = Some(PodRef { uid: String::new(), namespace, name });
        OutsideId { id, kind: Some(kind), pod, container: parts.next(), sandbox_id }
    };
    let sandboxes = sandboxes.into_iter().map(|listed| found(ItemKind::Sandbox, listed));
    sandboxes.chain(containers.into_iter().map(|listed| found(ItemKind::Container, listed))).collect()
}
