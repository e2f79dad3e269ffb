//! The calls and the diagnosis that run in parallel with relists, at most one of each kind at a time.

use std::time::Duration;

use super::IncidentDiagnosis;
use crate::capture::node::{KubeletSample, SampledKubelet};
use crate::clock::{Mono, Wall};
use crate::cri::Version;
use crate::kubelet::{KubeletProcess, Metrics};
use crate::optional_future::SingleTask;

/// The work in parallel with relists, and when each part of it was last started.
#[derive(Default)]
pub struct Background<'a> {
    pub diagnosis: SingleTask<'a, Option<IncidentDiagnosis>>,
    pub version: SingleTask<'a, Option<Version>>,
    pub version_requested: Mono,
    /// The `Status` call; its result is whether it was answered.
    pub status: SingleTask<'a, bool>,
    pub status_requested: Option<Mono>,
    /// Whether the last `Status` call was silent. No further one is made until a list call is answered.
    pub status_hangs: bool,
    pub metrics: SingleTask<'a, KubeletSample>,
    pub metrics_requested: Mono,
    /// Whether the kubelet's metrics were silent: they wait for the runtime, so they are not read again until a list
    /// call is answered.
    pub metrics_hang: bool,
    /// The time of the kubelet's last relist, according to its metrics.
    pub kubelet_relisted: Option<Wall>,
    /// The search for the kubelet whose process was started since its settings were read.
    pub search: SingleTask<'a, Option<KubeletProcess>>,
    /// The process id of the kubelet whose settings were read last.
    pub searched: Option<u32>,
    /// When the states of shims were read last.
    pub shims_read: Mono,
    /// The state of the kubelet's process at the last check.
    pub kubelet: Option<SampledKubelet>,
}

/// The result of work in parallel with relists.
pub enum BackgroundResult {
    /// The result of a diagnosis, if it had one.
    Diagnosis(Option<Box<IncidentDiagnosis>>),
    /// The answer of Version, if it was answered.
    Version(Option<Version>),
    /// The `Status` call has ended.
    Status,
    /// A sample of the kubelet's metrics.
    KubeletMetrics(KubeletSample),
    /// The kubelet that runs now, if it was found.
    Kubelet(Option<Box<KubeletProcess>>),
}

impl Background<'_> {
    /// Creates the state for a node whose kubelet has this process id.
    pub fn new(kubelet: Option<u32>) -> Self {
        Self { searched: kubelet, ..Self::default() }
    }

    /// Waits for the next result.
    pub async fn next(&mut self) -> BackgroundResult {
        let Self { diagnosis, version, status, metrics, search, .. } = self;
        tokio::select! {
            diagnosis = diagnosis.result() => BackgroundResult::Diagnosis(diagnosis.map(Box::new)),
            version = version.result() => BackgroundResult::Version(version),
            answered = status.result() => {
                self.status_hangs = !answered;
                BackgroundResult::Status
            }
            sample = metrics.result() => {
                self.metrics_hang = sample.silent;
                let relisted = sample.text.as_ref().and_then(|text| Metrics::parse(text).ok()?.last_seen);
                let relisted = relisted.and_then(|seen| Duration::try_from_secs_f64(seen).ok());
                self.kubelet_relisted = relisted.map(|since| Wall::default().plus(since));
                BackgroundResult::KubeletMetrics(sample)
            }
            kubelet = search.result() => BackgroundResult::Kubelet(kubelet.map(Box::new)),
        }
    }
}
