//! Runs calls, searches and diagnoses in parallel with relists, at most one of each kind at a time. [`Background::next`]
//! returns their results.

use std::time::Duration;

use super::IncidentDiagnosis;
use crate::capture::node::{KubeletMetricsSample, SampledKubeletState};
use crate::clock::{Mono, Wall};
use crate::cri::Version;
use crate::diagnosis::facts::Fact;
use crate::kubelet::{KubeletProcess, Metrics};
use crate::optional_future::SingleTask;

/// The tasks in parallel with relists, and when each was last started.
#[derive(Default)]
pub struct Background<'a> {
    pub diagnosis: SingleTask<'a, Option<IncidentDiagnosis>>,
    /// When the last diagnosis began.
    pub diagnosis_began: Option<Mono>,
    /// Whether it looks for what no relist shows, so that it decides [`Self::found`]: it does on a quiet node, and while something
    /// was found. Other diagnoses are about the call that opened their incident.
    pub is_look: bool,
    /// The pause after the last look at the node.
    pub look_pause: Duration,
    /// What the last look at the node found, if it needs a person.
    pub found: Option<Fact>,
    pub version: SingleTask<'a, Option<Version>>,
    pub version_requested: Mono,
    /// The `Status` call; its result is whether it was answered.
    pub status: SingleTask<'a, bool>,
    pub status_requested: Option<Mono>,
    /// Whether the last `Status` call was silent. The next one is sent after a list call has been answered.
    pub status_hangs: bool,
    pub metrics: SingleTask<'a, KubeletMetricsSample>,
    pub metrics_requested: Mono,
    /// Whether the last request for the kubelet's metrics got no answer. The kubelet's answer waits for the runtime, so the
    /// next request is sent after a list call has been answered.
    pub metrics_hang: bool,
    /// The time of the kubelet's last relist, according to its metrics.
    pub kubelet_relisted: Option<Wall>,
    /// The search for the settings of a kubelet that was started or restarted.
    pub search: SingleTask<'a, Option<KubeletProcess>>,
    /// The process id of the kubelet whose settings were read last.
    pub searched: Option<u32>,
    /// When the states of shims were read last.
    pub shims_read: Mono,
    /// The state of the kubelet's process at the last check.
    pub kubelet: Option<SampledKubeletState>,
}

/// The result of work in parallel with relists.
pub enum BackgroundResult {
    /// The result of a diagnosis; `None` if the diagnosis failed.
    Diagnosis(Option<Box<IncidentDiagnosis>>),
    /// The answer to Version; `None` if the call failed.
    Version(Option<Version>),
    /// The `Status` call has ended.
    Status,
    /// A sample of the kubelet's metrics.
    KubeletMetrics(KubeletMetricsSample),
    /// The kubelet that runs now; `None` if the search did not find it.
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
