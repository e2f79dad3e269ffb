//! `health` on a capture: gives the diagnosis the calls, processes and metrics that the recorder knew at one moment,
//! and nothing of the machine on which plegctl runs.

use std::path::PathBuf;

use crate::capture::Playback;
use crate::capture::node::{NodeSample, SampledKubeletState};
use crate::cri::Client;
use crate::cri::rename::ListedOwner;
use crate::diagnosis::report::{HealthReport, JudgedMoment};
use crate::diagnosis::stacks::WantedDump;
use crate::diagnosis::{
    CallersPendingCall, Inputs, ItemKind, MetricsSource, OutsideId, SimulatedPod, SimulatedProcesses,
};
use crate::host::cpu_and_waiting_time;

/// Copies the recorded facts into the inputs of a diagnosis. The answers of the runtime come from the replay server.
pub(super) fn fill_inputs(inputs: &mut Inputs<Client>, playback: &Playback) {
    playback.answer_for_verdict();
    let (at, incident) = playback.chosen();
    inputs.recorded = Some(JudgedMoment { time: at, incident });
    inputs.callers_pending = playback
        .unanswered()
        .into_iter()
        .map(|call| CallersPendingCall { rpc: call.rpc, id: call.id, waited: call.waited, ended: None })
        .collect();
    inputs.outside = Some(listed_owners(playback));
    inputs.host_root = PathBuf::new();
    inputs.proc = None;
    inputs.simulated_processes = playback.node_sample().and_then(simulated_processes);
    if let Some(stacks) = playback.stacks() {
        inputs.stacks = WantedDump::Recorded(Box::new(stacks));
    }
    inputs.cpu_time = cpu_and_waiting_time;
    if let Some((sample, at)) = playback.kubelet_metrics() {
        let name = "the capture".to_owned();
        let text = sample.text.map(|text| MetricsSource::Text { name, text, written: Some(at) });
        let silent = sample.silent.then(|| MetricsSource::Silent(sample.took.duration()));
        inputs.kubelet.metrics = inputs.kubelet.metrics.take().or(text).or(silent);
    }
}

/// Converts the recorder's last sample of the processes; `None` if the sample has neither a kubelet nor a stopped
/// shim.
fn simulated_processes(sample: NodeSample) -> Option<SimulatedProcesses> {
    let pods = sample.stopped_shims.into_iter().map(|shim| SimulatedPod {
        sandbox_id: shim.id.unwrap_or_default(),
        shim: 'T',
        shim_process: Some((shim.pid, shim.name)),
        ..SimulatedPod::default()
    });
    let pods: Vec<SimulatedPod> = pods.collect();
    let kubelet = match sample.kubelet {
        Some(SampledKubeletState::Running { pid }) => Some((pid, 'S')),
        Some(SampledKubeletState::Stopped { pid }) => Some((pid, 'T')),
        Some(SampledKubeletState::Gone) | None => None,
    };
    let has_kubelet = sample.kubelet.is_some();
    (has_kubelet || !pods.is_empty()).then_some(SimulatedProcesses {
        kubelet,
        has_kubelet,
        owns_socket: true,
        pods,
        ..SimulatedProcesses::default()
    })
}

/// Returns the pod and the container of each id, from the last list answers before the moment and from the recorder's last
/// diagnosis. While a list hangs, only the diagnosis names the container whose status call is silent.
fn listed_owners(playback: &Playback) -> Vec<OutsideId> {
    let [sandboxes, containers] = playback.last_listed();
    let found = |kind, ListedOwner { id, pod, container, sandbox_id }| OutsideId {
        id,
        kind: Some(kind),
        pod: Some(pod),
        container,
        sandbox_id,
    };
    let sandboxes = sandboxes.into_iter().map(|listed| found(ItemKind::Sandbox, listed));
    let listed = sandboxes.chain(containers.into_iter().map(|listed| found(ItemKind::Container, listed)));
    let diagnosis: Option<HealthReport> = playback.diagnosis();
    let culprits = diagnosis.into_iter().flat_map(|report| report.culprits);
    let named = culprits.map(|culprit| OutsideId {
        kind: Some(if culprit.container.is_some() { ItemKind::Container } else { ItemKind::Sandbox }),
        pod: culprit.pod,
        container: culprit.container.map(|container| container.name),
        ..OutsideId::bare(&culprit.id)
    });
    listed.chain(named).collect()
}
