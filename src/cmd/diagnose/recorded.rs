//! `health` on a capture: gives the diagnosis the calls, processes and metrics that the recorder knew at one moment,
//! and nothing of the machine on which plegctl runs.

use std::collections::BTreeMap;
use std::path::PathBuf;

use crate::capture::Playback;
use crate::capture::node::{NodeSample, ProcessSample, SampledKubeletState, ShimSample};
use crate::cri::Client;
use crate::cri::rename::ListedOwner;
use crate::diagnosis::limits::SAMPLES_APART;
use crate::diagnosis::report::{HealthReport, JudgedMoment};
use crate::diagnosis::stacks::WantedDump;
use crate::diagnosis::{CallersPendingCall, Inputs, ItemKind, MetricsSource, OutsideId, RecordedProcesses};
use crate::host::cpu_and_waiting_time;
use crate::host::proc::{PAGE, ProcSample, Process, Role, Shims, is_conmon, of_ticks};
use crate::report::Seconds;

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
    inputs.simulated_processes = None;
    inputs.recorded_processes = None;
    inputs.cpu_time = cpu_and_waiting_time;
    if !playback.is_recorded() {
        return;
    }
    inputs.recorded_facts = playback.facts().map(Box::new);
    if let Some(stacks) = playback.stacks() {
        inputs.stacks = WantedDump::Recorded(Box::new(stacks));
    }
    if inputs.recorded_facts.is_none() {
        inputs.recorded_processes = recorded_processes(playback);
        inputs.recorded_diagnosis = playback.diagnosis_of_incident();
    }
    inputs.forecasts = playback.forecasts();
    let has_metrics = inputs.recorded_facts.as_ref().is_some_and(|facts| facts.has_metrics());
    if let Some((sample, at)) = playback.kubelet_metrics().filter(|_| !has_metrics) {
        let name = "the capture".to_owned();
        let text = sample.text.map(|text| MetricsSource::Text { name, text, written: Some(at) });
        let silent = sample.silent.then(|| MetricsSource::Silent(sample.took.duration()));
        inputs.kubelet.metrics = inputs.kubelet.metrics.take().or(text).or(silent);
    }
}

/// Returns the last two samples of the recorder; `None` if there was none in time.
fn recorded_processes(playback: &Playback) -> Option<RecordedProcesses> {
    let mut samples = playback.node_samples(SAMPLES_APART).into_iter();
    let (latest, place) = samples.next()?;
    let runtime = playback.runtime();
    let earlier =
        samples.next().map(|(sample, before)| (place.at.since(before.at), proc_sample(&sample, runtime)));
    Some(RecordedProcesses {
        taken_at: place.wall,
        latest: proc_sample(&latest, runtime),
        earlier,
        has_kubelet: latest.kubelet.is_some(),
    })
}

/// Converts a sample of the recorder. `runtime` is the name in the runtime's answer to Version.
fn proc_sample(sample: &NodeSample, runtime: Option<&str>) -> ProcSample {
    let kubelet = sample.kubelet.and_then(SampledKubeletState::pid);
    let mut processes: BTreeMap<u32, Process> =
        sample.processes.iter().map(|process| (process.pid, sampled_process(process, kubelet))).collect();
    if let (Some(state), Some(pid)) = (sample.kubelet, kubelet) {
        // Captures of older releases have only the state of the kubelet.
        let letter = if matches!(state, SampledKubeletState::Stopped { .. }) { 'T' } else { 'S' };
        let unnamed =
            || Process { pid, comm: "kubelet".to_owned(), role: Role::Kubelet, ..Process::default() };
        processes.entry(pid).or_insert_with(unnamed).state = letter;
    }
    processes.extend(sample.stopped_shims.iter().map(|shim| (shim.pid, stopped_shim(shim))));
    ProcSample {
        socket_owner: daemon_of(&processes, runtime),
        processes,
        // The shims that run are not in the sample.
        shims: Shims::Counted,
        ..ProcSample::default()
    }
}

fn sampled_process(process: &ProcessSample, kubelet: Option<u32>) -> Process {
    let role = match Role::of(&process.name) {
        Role::Daemon => Role::Daemon,
        _ if kubelet == Some(process.pid) => Role::Kubelet,
        _ => Role::Other,
    };
    Process {
        pid: process.pid,
        comm: process.name.clone(),
        role,
        state: process.state.chars().next().unwrap_or_default(),
        age: process.age.map(Seconds::duration).unwrap_or_default(),
        threads: process.threads,
        resident: process.resident_pages.saturating_mul(PAGE),
        cpu: of_ticks(process.cpu_ticks),
        ..Process::default()
    }
}

fn stopped_shim(shim: &ShimSample) -> Process {
    let flag = if is_conmon(&shim.name) { "-c" } else { "-id" };
    let about = shim.id.iter().flat_map(|id| [flag, id]);
    Process {
        pid: shim.pid,
        comm: shim.name.clone(),
        role: Role::Shim,
        state: 'T',
        command: std::iter::once(shim.name.as_str()).chain(about).collect(),
        ..Process::default()
    }
}

/// Returns the only process that can be the runtime's daemon. A node may have a second containerd, for Docker.
fn daemon_of(processes: &BTreeMap<u32, Process>, runtime: Option<&str>) -> Option<u32> {
    let name = match runtime {
        Some("cri-o") => "crio",
        Some("docker") => "cri-dockerd",
        other => other.unwrap_or_default(),
    };
    let daemons = || processes.values().filter(|process| process.role == Role::Daemon);
    let only = |mut found: Vec<u32>| found.pop().filter(|_| found.is_empty());
    let named = daemons().filter(|process| process.comm == name).map(|process| process.pid).collect();
    only(named).or_else(|| only(daemons().map(|process| process.pid).collect()))
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
