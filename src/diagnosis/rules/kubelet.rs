//! What several rules ask of the kubelet, and what its metrics and the measurements of plegctl disagree about.

use super::prelude::*;
use super::runtime_state;

impl Evidence {
    /// Returns whether the kubelet uses Evented PLEG as it was up to 1.36: it relists only every 300 s, and its last-seen
    /// metric does not show the last relist.
    pub fn relists_seldom(&self) -> bool {
        self.kubelet.evented() == Some(true) && !self.settings.kubelet.value.evented_is_a_hint()
    }

    /// Returns whether the age of PLEG in the kubelet's metrics is over the threshold.
    pub fn kubelet_is_over(&self) -> bool {
        self.kubelet_age().is_some_and(|age| age > self.settings.threshold.value)
    }

    /// Returns the age of PLEG in the kubelet's metrics, if they show it.
    pub fn kubelet_age(&self) -> Option<Duration> {
        // In a capture, the reading may be older than the judged moment, and the kubelet may have relisted since.
        let reading_age = self.moment.and_then(|moment| self.kubelet.reading_age(moment.time));
        let is_recent = reading_age.is_none_or(|age| age <= limits::RECORDED_READING.as_secs_f64());
        let age = self.kubelet.pleg_age().filter(|_| is_recent && !self.relists_seldom())?;
        // An age that no duration holds is over every threshold.
        Some(Duration::try_from_secs_f64(age).unwrap_or(Duration::MAX))
    }
}

/// Returns whether the runtime answers all calls quickly now, so that it does not explain an old relist.
pub(super) fn runtime_answers_well(case: &Case<'_>) -> bool {
    let runtime = &case.evidence.runtime;
    runtime_state::quick(runtime.sandboxes.first.as_ref())
        && runtime_state::quick(runtime.containers.first.as_ref())
        && !case.hangs()
        && case.estimate.full_answering < limits::RELIST_SLOW
}

/// Describes contradictions between the kubelet's answers and plegctl's measurements.
pub fn disagreements(case: &Case<'_>) -> Vec<FactKind> {
    let evidence = case.evidence;
    let kubelet = &evidence.kubelet;
    let mut facts = Vec::new();
    let well = runtime_answers_well(case);
    if let Some(age) = kubelet.pleg_age().filter(|_| !evidence.relists_seldom()) {
        if well && age > limits::PLEG_AGE_STALE.as_secs_f64() {
            facts.push(FactKind::OwnRelistIsQuick { age: age.into(), own: case.estimate.serial.into() });
        }
        if case.estimate.would_trip && age < limits::PLEG_AGE_YOUNG.as_secs_f64() {
            facts.push(FactKind::KubeletRelistedMeanwhile { age: age.into() });
        }
        if evidence.kubelet_is_over() && kubelet.healthz == Some(Healthz::Ok) {
            facts.push(FactKind::HealthzDoesNotCheckPleg);
        }
    }
    if well && let Some(Healthz::Failing { status, .. }) = &kubelet.healthz {
        facts.push(FactKind::HealthzFailsAlone { status: *status });
    }
    if kubelet.metrics_silent.is_some() && kubelet.healthz == Some(Healthz::Ok) {
        let lists_hang = !evidence.runtime.hung_lists().is_empty();
        facts.push(FactKind::MetricsSilentThoughHealthy { lists_hang });
    }
    if let Some(used) = &kubelet.config.endpoint {
        let plain = |endpoint: &str| endpoint.trim_start_matches("unix://").to_owned();
        if plain(&used.value) != plain(&evidence.endpoint) && evidence.socket.is_some() {
            let (kubelet, plegctl) = ((&used.value).into(), (&evidence.endpoint).into());
            facts.push(FactKind::EndpointsDiffer { kubelet, plegctl });
        }
    }
    facts
}
