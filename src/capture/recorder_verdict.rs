//! What a recorder says of its node: [`RecorderVerdict`] and [`IncidentList`], which it serves over HTTP. They contain only what
//! the recorder knows already: they need no call to the runtime and no access to the disk. The parameter of the types of
//! incidents is what a reader needs of a finding.

use std::sync::Arc;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::entry::Incident;
use super::recording::{IncidentSnapshot, RecordingSnapshot};
use crate::clock::Wall;
use crate::cri::Outcome;
use crate::diagnosis::calls::{RelistSettings, hung, list_size, long_relist, troubles};
use crate::diagnosis::forecast::{LimitForecast, known};
use crate::diagnosis::report::{
    CulpritReport, EstimateReport, HealthFinding, NotChecked, Phase, ReportSource, SourceKind, Verdict,
};
use crate::diagnosis::rules::approaching_limit::findings_of;
use crate::diagnosis::{HealthReport, Relists, VerdictFacts, Weight, step_of_a_capture, verdict};
use crate::pleg::relist_calls::SilentCall;
use crate::pleg::report::ListCallsReport;
use crate::report::duration::{elapsed, in_sentence};
use crate::report::{RuntimeRef, Seconds, json};

/// The time after which a recorder that has not looked at the runtime knows nothing about it.
const OUTDATED: Duration = Duration::from_secs(30);

/// What a recorder that never diagnoses does not look at, so that a node which it sees as healthy may be degraded.
const NOT_LOOKED_AT: &str = "not looked at: processes, network, disks, the kubelet's journal";

/// The largest number of culprits, and of ids in a finding, that the recorder shows.
const MAX_SHOWN: usize = 20;

/// The present verdict of a recorder on its node.
#[crate::report::omit_none]
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "testing", derive(schemars::JsonSchema))]
#[serde(tag = "kind", rename_all = "camelCase")]
pub struct RecorderVerdict {
    /// The time of the answer, by the node's clock.
    pub taken_at: Wall,
    /// The node's name.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub node: String,
    /// The runtime.
    pub runtime: RuntimeRef,
    /// The list calls that the recorder makes.
    pub list_calls: Option<ListCallsReport>,
    /// The verdict.
    pub verdict: Verdict,
    /// The beginning of the open incident, else the end of the last one, else the start of the recorder.
    pub since: Wall,
    /// The reason for the verdict, in one sentence.
    pub summary: String,
    /// The most important finding of the diagnosis of the open incident.
    pub primary: Option<HealthFinding>,
    /// The calls that kept the kubelet waiting at the time of the diagnosis, the most certain one first; at most 20.
    #[serde(default)]
    pub culprits: Vec<CulpritReport>,
    /// The estimate of the diagnosis, with the time at which the node becomes `NotReady`.
    pub estimate: Option<EstimateReport>,
    /// The age of the last diagnosis.
    pub diagnosis_age_seconds: Option<Seconds>,
    /// The open incident.
    pub incident: Option<OpenIncident>,
    /// The last finished relist whose list calls succeeded; absent before the end of the first one.
    pub last_relist: Option<LastRelist>,
    /// The limits that will be reached, the first one first.
    #[serde(default, skip_serializing_if = "Vec::is_empty", deserialize_with = "known")]
    pub forecasts: Vec<LimitForecast>,
    /// What the last diagnosis did not check, unless its finding is shown.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub not_checked: Vec<NotChecked>,
    /// Why the answer to a request with `facts=true` has no facts.
    pub no_facts: Option<String>,
}

/// The incident that is open now.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "testing", derive(schemars::JsonSchema))]
pub struct OpenIncident {
    /// The number in the capture.
    pub number: u64,
    /// The beginning.
    pub from: Wall,
    /// Why the incident was opened.
    pub why: String,
}

/// The last finished relist of a recorder whose list calls succeeded.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "testing", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct LastRelist {
    /// The number of the relist since the start of the recorder.
    pub number: u64,
    /// When the relist ended.
    pub ended_at: Wall,
    /// The time since then.
    pub age_seconds: Seconds,
    /// The duration.
    pub duration_seconds: Seconds,
    /// Whether both list calls succeeded.
    pub outcome: Outcome,
    /// Why a list call failed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
    /// The number of listed pods.
    pub pods: u64,
    /// The number of listed containers.
    pub containers: u64,
}

/// The incidents that a recorder knows.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "testing", derive(schemars::JsonSchema), schemars(rename = "IncidentList"))]
#[serde(tag = "kind", rename_all = "camelCase")]
pub struct IncidentList<F = serde_json::Value> {
    /// The time of the answer, by the node's clock.
    pub taken_at: Wall,
    /// The node's name.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub node: String,
    /// The beginning of the period.
    pub from: Wall,
    /// The incidents that overlap this period, oldest first.
    pub incidents: Vec<KnownIncident<F>>,
}

/// One incident that a recorder knows.
#[crate::report::omit_none]
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "testing", derive(schemars::JsonSchema), schemars(rename = "KnownIncident"))]
#[serde(rename_all = "camelCase")]
pub struct KnownIncident<F = serde_json::Value> {
    /// The number in the capture.
    pub number: u64,
    /// The beginning.
    pub from: Wall,
    /// The end; absent if the incident still lasts, or if an earlier recorder ended before the incident.
    pub to: Option<Wall>,
    /// The duration, if the end is known.
    pub lasted_seconds: Option<Seconds>,
    /// Whether the incident still lasts.
    pub open: bool,
    /// Why the incident was opened.
    pub why: String,
    /// The verdict; absent without a diagnosis.
    pub verdict: Option<String>,
    /// Line 1 of the diagnosis.
    pub summary: Option<String>,
    /// The primary finding, without its steps.
    #[cfg_attr(feature = "testing", schemars(with = "Option<crate::diagnosis::report::HealthFinding>"))]
    pub primary: Option<F>,
}

/// The part of a diagnosis that the recorder shows over HTTP.
#[derive(Serialize, Deserialize)]
struct ShownDiagnosis {
    runtime: RuntimeRef,
    verdict: Verdict,
    summary: String,
    primary: Option<HealthFinding>,
    culprits: Vec<CulpritReport>,
    estimate: Option<EstimateReport>,
}

impl ShownDiagnosis {
    fn from_report(report: &HealthReport) -> Self {
        let mut primary = report.primary.clone();
        if let Some(primary) = &mut primary {
            primary.ids.truncate(MAX_SHOWN);
            // An incident may last for hours, and the steps were for the processes at the time of the diagnosis.
            primary.steps = vec![step_of_a_capture()];
        }
        Self {
            runtime: report.runtime.clone(),
            verdict: report.verdict,
            summary: report.summary.clone(),
            primary,
            culprits: report.culprits.iter().take(MAX_SHOWN).cloned().collect(),
            estimate: report.estimate.clone(),
        }
    }

    /// Returns the summary as it reads at `now`.
    fn summary_at(&self, now: Wall) -> String {
        let not_ready = self.estimate.as_ref().and_then(EstimateReport::not_ready);
        match (not_ready, &self.primary) {
            (Some(not_ready), Some(primary)) => not_ready.summary(&primary.title, now),
            _ => self.summary.clone(),
        }
    }
}

/// Returns the part of a report that the recorder shows over HTTP, as JSON.
pub fn shown_part(report: &HealthReport) -> Arc<str> {
    json::text(&ShownDiagnosis::from_report(report)).unwrap_or_default().into()
}

impl IncidentList {
    /// Lists the incidents that lasted in the `period` before this moment.
    pub fn from_snapshot(known: &IncidentSnapshot, period: Duration, node: &str) -> Self {
        let from = known.taken_at.minus(period);
        // The end of an incident is not known if its recorder ended before it.
        let last = |incident: &Incident| match Wall::known(incident.to) {
            Some(to) => to,
            None if Some(incident.number) == known.open => known.taken_at,
            None => Wall::from_nanos(incident.peak.max(incident.from)),
        };
        let incidents = known.incidents.iter().filter(|incident| last(incident) >= from);
        let filled = |text: &String| (!text.is_empty()).then(|| text.clone());
        let incidents = incidents.map(|incident| KnownIncident {
            number: incident.number,
            from: Wall::from_nanos(incident.from),
            to: Wall::known(incident.to),
            lasted_seconds: incident.duration().map(Seconds::from),
            open: Some(incident.number) == known.open,
            why: incident.why.clone(),
            verdict: filled(&incident.verdict),
            summary: filled(&incident.summary),
            primary: incident.finding(),
        });
        Self { taken_at: known.taken_at, node: node.to_owned(), from, incidents: incidents.collect() }
    }
}

impl RecorderVerdict {
    /// Judges the node from what the recorder knows.
    pub fn from_snapshot(snapshot: &RecordingSnapshot, node: &str, endpoint: &str) -> Self {
        let shown = shown_diagnosis(snapshot);
        let (verdict, summary) = judge(snapshot, shown.as_ref());
        let shown_age = snapshot.diagnosis.as_ref().filter(|_| shown.is_some()).map(|(age, _)| *age);
        let looked = snapshot.looked.as_ref();
        let not_checked = match (shown_age, looked) {
            (Some(_), _) => Vec::new(),
            (None, Some((_, what))) => what.clone(),
            (None, None) => vec![NotChecked::new(
                "what a relist does not show",
                "the recorder has not diagnosed the node",
            )],
        };
        let diagnosis_age = shown_age.or(looked.map(|(age, _)| *age));
        let known = runtime_of(snapshot, endpoint);
        let urgent = forecasts(snapshot).into_iter().find(needs_person);
        let mut shown = shown.unwrap_or_else(|| ShownDiagnosis {
            runtime: known.clone(),
            verdict,
            summary: String::new(),
            primary: None,
            culprits: Vec::new(),
            estimate: None,
        });
        if shown.runtime.name.is_none() {
            // The runtime was silent during the diagnosis.
            shown.runtime = known;
        }
        Self {
            taken_at: snapshot.taken_at,
            node: node.to_owned(),
            runtime: shown.runtime,
            list_calls: Some(snapshot.list_calls.clone()),
            verdict,
            since: snapshot.since,
            summary,
            primary: shown.primary.or(urgent),
            culprits: shown.culprits,
            estimate: shown.estimate,
            diagnosis_age_seconds: diagnosis_age.map(Seconds::from),
            incident: snapshot.incident.as_ref().map(|incident| OpenIncident {
                number: incident.number,
                from: Wall::from_nanos(incident.from),
                why: incident.why.clone(),
            }),
            last_relist: snapshot.last_relist.as_ref().map(|(age, relist)| LastRelist {
                number: relist.number,
                ended_at: relist.time,
                age_seconds: (*age).into(),
                duration_seconds: relist.duration,
                outcome: relist.outcome,
                error: relist.error.clone(),
                pods: relist.pods,
                containers: relist.containers,
            }),
            forecasts: snapshot.forecasts.clone(),
            not_checked,
            no_facts: None,
        }
    }

    /// Returns the verdict of a recorder whose diagnosis gave this report. `facts` decided its present verdict.
    #[must_use]
    pub fn with_diagnosis(self, report: &HealthReport, facts: &VerdictFacts) -> Self {
        let shown = ShownDiagnosis::from_report(report);
        let verdict = verdict(&VerdictFacts { reported: Some(shown.verdict), ..*facts });
        let summary = match self.incident.as_ref().filter(|_| verdict != self.verdict) {
            _ if shown.verdict == verdict => shown.summary_at(self.taken_at),
            Some(incident) => incident_lasts(incident.number, &incident.why, shown.verdict),
            None => self.summary,
        };
        Self {
            verdict,
            summary,
            primary: shown.primary,
            culprits: shown.culprits,
            estimate: shown.estimate,
            ..self
        }
    }

    /// Converts the verdict to the report of `plegctl health`, which has the same screen and exit status.
    pub fn into_report(self) -> HealthReport {
        let seconds = |seconds: Seconds| seconds.duration().as_secs_f64();
        HealthReport {
            source: Some(ReportSource {
                kind: SourceKind::Recorder,
                pod: None,
                since: Some(self.since),
                incident: self.incident.map(|incident| incident.number),
                diagnosis_age_seconds: self.diagnosis_age_seconds.map(seconds),
                last_relist_age_seconds: self.last_relist.map(|relist| seconds(relist.age_seconds)),
                clock_ahead_seconds: None,
                no_recorder: None,
            }),
            node: self.node,
            runtime: self.runtime,
            list_calls: self.list_calls,
            verdict: self.verdict,
            phase: self.primary.as_ref().map_or(Phase::None, |primary| primary.phase),
            summary: self.summary,
            findings: {
                let forecasts = findings_of(&self.forecasts, self.taken_at);
                let others = forecasts.into_iter().filter(|found| Some(found) != self.primary.as_ref());
                self.primary.iter().cloned().chain(others).collect()
            },
            primary: self.primary,
            culprits: self.culprits,
            not_checked: self.not_checked,
            estimate: self.estimate,
            ..HealthReport::new(self.taken_at)
        }
    }
}

/// Describes the runtime by its answer to Version, if it has answered.
fn runtime_of(snapshot: &RecordingSnapshot, endpoint: &str) -> RuntimeRef {
    let version = snapshot.runtime.clone();
    RuntimeRef {
        endpoint: endpoint.to_owned(),
        name: version.as_ref().map(|version| version.runtime_name.clone()),
        api_version: version.as_ref().map(|version| version.runtime_api_version.clone()),
        version: version.map(|version| version.runtime_version),
    }
}

/// Returns the settings by which the recorder's calls are judged.
fn relist_settings(snapshot: &RecordingSnapshot) -> RelistSettings {
    RelistSettings {
        era: snapshot.era,
        threshold: snapshot.threshold,
        list_limit: snapshot.list_limit,
        ..RelistSettings::default()
    }
}

/// Returns what decides the verdict of the recorder.
pub fn verdict_facts(snapshot: &RecordingSnapshot) -> VerdictFacts {
    facts(snapshot, shown_diagnosis(snapshot).as_ref())
}

/// Returns what the recorder shows of the diagnosis of the open incident.
fn shown_diagnosis(snapshot: &RecordingSnapshot) -> Option<ShownDiagnosis> {
    snapshot.diagnosis.as_ref().and_then(|(_, text)| serde_json::from_str(text).ok())
}

/// Returns what the recorder knows: its own calls, and the diagnosis of the open incident.
fn facts(snapshot: &RecordingSnapshot, shown: Option<&ShownDiagnosis>) -> VerdictFacts {
    let settings = relist_settings(snapshot);
    let facts = VerdictFacts::of_calls(&snapshot.calls, &settings, snapshot.last_list, snapshot.now);
    // An incident without a diagnosis may be more than its calls show.
    let relists = match facts.relists {
        Relists::Succeed { peak_age, .. } if snapshot.incident.is_some() && shown.is_none() => {
            Relists::Succeed { peak_age, may_be_higher: true }
        }
        relists => relists,
    };
    VerdictFacts {
        is_blind: facts.is_blind || snapshot.unchecked > OUTDATED,
        relists,
        is_incomplete: facts.is_incomplete || snapshot.incident.is_some() && snapshot.is_diagnosis_outdated,
        reported: shown.map(|shown| shown.verdict),
        found: forecasts(snapshot).iter().map(Weight::of).fold(facts.found, Weight::max),
        ..facts
    }
}

/// Returns the findings about limits that will be reached.
fn forecasts(snapshot: &RecordingSnapshot) -> Vec<HealthFinding> {
    findings_of(&snapshot.forecasts, snapshot.taken_at)
}

/// Whether a finding makes the node degraded.
fn needs_person(found: &HealthFinding) -> bool {
    Weight::of(found) == Weight::NeedsPerson
}

/// Decides the verdict, and says why.
fn judge(snapshot: &RecordingSnapshot, shown: Option<&ShownDiagnosis>) -> (Verdict, String) {
    let verdict = verdict(&facts(snapshot, shown));
    (verdict, summary(snapshot, shown, verdict))
}

/// Returns the reason for a verdict.
fn summary(snapshot: &RecordingSnapshot, shown: Option<&ShownDiagnosis>, verdict: Verdict) -> String {
    if snapshot.unchecked > OUTDATED {
        return format!("the recorder has not looked at the runtime for {}", elapsed(snapshot.unchecked));
    }
    if let Some(shown) = shown.filter(|shown| shown.verdict == verdict) {
        return shown.summary_at(snapshot.taken_at);
    }
    let age = snapshot.last_list.map(|last| snapshot.now.since(last));
    if let Some(age) = age.filter(|age| *age > snapshot.threshold) {
        let (age, threshold) = (elapsed(age), elapsed(snapshot.threshold));
        return format!(
            "the last relist whose lists were answered is {age} old, the threshold is {threshold}"
        );
    }
    if let Some(incident) = &snapshot.incident {
        let (number, why) = (incident.number, &incident.why);
        let silent = snapshot.calls.silent(snapshot.now);
        return match (hung(&silent).next(), shown) {
            (Some(call), None) => undiagnosed(snapshot, call, number),
            (None, None) => format!("incident {number} is not diagnosed yet: {why}"),
            (_, Some(shown)) => incident_lasts(number, why, shown.verdict),
        };
    }
    let Some((age, relist)) = &snapshot.last_relist else {
        return "no relist has ended yet".to_owned();
    };
    // A list that grows opens no incident, because no call fails yet.
    if let Some((_, title)) = list_size(&snapshot.calls, &relist_settings(snapshot)) {
        return title.to_string();
    }
    if let Some((call, is_new)) = troubles(&snapshot.calls).first() {
        let took = in_sentence(call.duration_seconds.duration());
        let pod = call.pod.as_ref().map_or_else(String::new, |pod| format!(" of {pod}"));
        let how = if call.outcome == Outcome::Error { "failed" } else { "was answered" };
        let old = if *is_new { "" } else { ", and has not been made again" };
        return format!("{}{pod} {how} after {took}{old}", call.rpc);
    }
    if let Some((took, _)) = long_relist(&snapshot.calls) {
        return format!("a relist of all pods took {}", in_sentence(took));
    }
    if let Some(forecast) = forecasts(snapshot).into_iter().find(needs_person) {
        return forecast.title;
    }
    let (took, age) = (in_sentence(relist.duration.duration()), elapsed(*age));
    let looked = snapshot.looked.as_ref();
    let looked = looked.map(|(age, _)| format!("the last diagnosis ended {} ago", elapsed(*age)));
    let looked = looked.as_deref().unwrap_or(NOT_LOOKED_AT);
    format!("no incident is open; the last relist took {took} and ended {age} ago; {looked}")
}

/// Describes an incident that lasts although its diagnosis, with this verdict, does not say why.
fn incident_lasts(number: u64, why: &str, diagnosed: Verdict) -> String {
    if diagnosed == Verdict::Healthy {
        format!("incident {number} lasts, and its diagnosis found nothing: {why}")
    } else {
        format!("incident {number} lasts: {why}")
    }
}

/// Describes the hung call of an incident whose diagnosis has not ended: a diagnosis takes up to half a minute while the
/// runtime is silent.
fn undiagnosed(snapshot: &RecordingSnapshot, call: &SilentCall, number: u64) -> String {
    let last = snapshot
        .last_relist
        .as_ref()
        .map_or_else(String::new, |(age, _)| format!("; the last relist ended {} ago", elapsed(*age)));
    let pod = call.pod.as_ref().map_or_else(String::new, |pod| format!(" of {pod}"));
    format!(
        "{}{pod} has not been answered for {}{last}; incident {number} is not diagnosed yet",
        call.rpc,
        elapsed(call.waited)
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::capture::recording::FinishedRelist;
    use crate::clock::Mono;
    use crate::cri::Rpc;
    use crate::diagnosis::report::{Confidence, RuleId};
    use crate::kubelet::{Era, KubeletVersion, ListLimit};
    use crate::pleg::relist_calls::RelistCalls;
    use crate::pleg::stream::Relist;
    use crate::pleg::{CallRecord, OpenCall, PodRef};

    fn at(second: u64) -> Wall {
        Wall::from_nanos(1_700_000_000_000_000_000).plus(Duration::from_secs(second))
    }

    fn relist() -> FinishedRelist {
        FinishedRelist {
            ended: mono(96),
            number: 7,
            time: at(96),
            duration: Duration::from_millis(12).into(),
            outcome: Outcome::Ok,
            error: None,
            pods: 3,
            containers: 5,
        }
    }

    fn mono(second: u64) -> Mono {
        Mono::at(Duration::from_secs(second))
    }

    fn era() -> Era {
        KubeletVersion::CONFIRMED.era()
    }

    fn call(rpc: Rpc, pod: Option<&str>, took: Duration) -> CallRecord {
        let pod = pod.map(|name| PodRef { uid: name.into(), namespace: "shop".into(), name: name.into() });
        CallRecord {
            rpc: rpc.name().to_owned(),
            id: pod.as_ref().map(|pod| format!("c-{}", pod.name)),
            pod,
            duration_seconds: took.into(),
            response_bytes: 4096,
            stream: None,
            outcome: Outcome::Ok,
            code: None,
            message: None,
        }
    }

    /// Returns what a relist with these calls has shown.
    fn seen(finished: &[CallRecord]) -> RelistCalls {
        let mut calls = RelistCalls::new(mono(0));
        calls.relist_begins(mono(95));
        for call in finished {
            calls.call_finished(call);
        }
        calls.relist_ended(&Relist::new(at(96), 7), None);
        calls
    }

    fn quiet() -> RecordingSnapshot {
        RecordingSnapshot {
            taken_at: at(100),
            since: at(0),
            incident: None,
            diagnosis: None,
            measured: None,
            is_diagnosis_outdated: false,
            last_relist: Some((Duration::from_secs(4), relist())),
            now: mono(100),
            era: era(),
            list_limit: ListLimit::List,
            list_calls: ListCallsReport::default(),
            calls: seen(&[]),
            last_list: Some(mono(95)),
            threshold: Duration::from_secs(180),
            unchecked: Duration::ZERO,
            runtime: None,
            forecasts: Vec::new(),
            looked: Some((Duration::from_secs(60), Vec::new())),
        }
    }

    fn forecast(confidence: Confidence) -> LimitForecast {
        let since = at(100).minus(Duration::from_secs(7200));
        LimitForecast {
            since,
            ..LimitForecast::of_threads(at(100), Duration::from_secs(18 * 3600), confidence)
        }
    }

    #[test]
    fn limit_that_will_be_reached_makes_a_quiet_node_degraded() {
        let snapshot = RecordingSnapshot { forecasts: vec![forecast(Confidence::Likely)], ..quiet() };
        let judged = RecorderVerdict::from_snapshot(&snapshot, "n1", "unix:///run/c.sock");
        assert_eq!(judged.verdict, Verdict::Degraded);
        let summary = "containerd[812] has 6,312 of 10,000 threads, +3.4 a minute since 20:15:00 UTC: full in about 18h";
        assert_eq!(judged.summary, summary);
        assert_eq!(judged.primary.as_ref().map(|found| found.id), Some(RuleId::ApproachingLimit));
        assert_eq!(judged.into_report().findings.len(), 1, "the primary finding is listed once");
        let possible = RecordingSnapshot { forecasts: vec![forecast(Confidence::Possible)], ..quiet() };
        let judged = RecorderVerdict::from_snapshot(&possible, "n1", "unix:///run/c.sock");
        assert_eq!((judged.verdict, judged.primary.is_none()), (Verdict::Healthy, true));
        assert_eq!(judged.into_report().findings.len(), 1, "what is only possible is shown too");
    }

    #[test]
    fn what_happens_now_comes_before_a_forecast() {
        let forecasts = vec![forecast(Confidence::Likely)];
        let old = RecordingSnapshot { now: mono(95 + 181), forecasts, ..quiet() };
        let (verdict, summary) = verdict(&old);
        assert_eq!(verdict, Verdict::Unhealthy);
        assert!(summary.starts_with("the last relist whose lists were answered is"), "{summary}");
    }

    fn diagnosis(verdict: Verdict) -> (Duration, Arc<str>) {
        let shown = ShownDiagnosis {
            runtime: RuntimeRef::default(),
            verdict,
            summary: "a call hangs".to_owned(),
            primary: None,
            culprits: Vec::new(),
            estimate: None,
        };
        (Duration::from_secs(9), json::text(&shown).unwrap().into())
    }

    fn verdict(snapshot: &RecordingSnapshot) -> (Verdict, String) {
        let verdict = RecorderVerdict::from_snapshot(snapshot, "n1", "unix:///run/c.sock");
        (verdict.verdict, verdict.summary)
    }

    #[test]
    fn recorder_is_healthy_only_while_it_looks_and_relists() {
        let healthy = verdict(&quiet());
        assert_eq!(healthy.0, Verdict::Healthy);
        let summary = "no incident is open; the last relist took 12 ms and ended 4s ago; ";
        assert_eq!(healthy.1, format!("{summary}the last diagnosis ended 60s ago"));
        let never = verdict(&RecordingSnapshot { looked: None, ..quiet() });
        assert_eq!(never.1, format!("{summary}{NOT_LOOKED_AT}"));
        let asleep = RecordingSnapshot { unchecked: Duration::from_secs(31), ..quiet() };
        assert_eq!(verdict(&asleep).0, Verdict::Unknown);
        let calls = RelistCalls::new(mono(99));
        let new = RecordingSnapshot { last_relist: None, last_list: None, calls, ..quiet() };
        assert_eq!(verdict(&new), (Verdict::Unknown, "no relist has ended yet".to_owned()));
        let old = RecordingSnapshot { now: mono(95 + 181), ..quiet() };
        assert_eq!(verdict(&old).0, Verdict::Unhealthy);
    }

    #[test]
    fn recorder_judges_the_size_of_the_lists_as_health_does() {
        let with = |bytes| {
            let list = call(Rpc::ListContainers, None, Duration::from_millis(9));
            let calls = seen(&[CallRecord { response_bytes: bytes, ..list }]);
            verdict(&RecordingSnapshot { calls, ..quiet() })
        };
        assert_eq!(with(9 << 20).0, Verdict::Healthy);
        let grows = "ListContainers grows towards the limit of gRPC";
        assert_eq!(with(11 << 20), (Verdict::Degraded, grows.to_owned()));
        assert_eq!(with(15 << 20).0, Verdict::Degraded);
        // The kubelet refuses a list of this size, whatever plegctl accepts.
        assert_eq!(with((16 << 20) + 1).0, Verdict::Unhealthy);
    }

    #[test]
    fn node_with_a_late_call_is_healthy_only_when_the_call_is_quick_again() {
        let status = |seconds| call(Rpc::ContainerStatus, Some("db-0"), Duration::from_secs(seconds));
        let mut calls = seen(&[status(7)]);
        let judged = |calls: &RelistCalls| verdict(&RecordingSnapshot { calls: calls.clone(), ..quiet() });
        let slow = "ContainerStatus of shop/db-0 was answered after 7.0 s";
        assert_eq!(judged(&calls), (Verdict::Degraded, slow.to_owned()));
        // The next relist does not visit the pod.
        calls.relist_begins(mono(97));
        calls.relist_ended(&Relist::new(at(97), 8), None);
        assert_eq!(judged(&calls), (Verdict::Unknown, format!("{slow}, and has not been made again")));
        calls.relist_begins(mono(98));
        calls.call_finished(&status(0));
        calls.relist_ended(&Relist::new(at(98), 9), None);
        assert_eq!(judged(&calls).0, Verdict::Healthy);
    }

    #[test]
    fn open_incident_has_the_verdict_of_its_diagnosis() {
        let incident = Some(Incident { number: 3, why: "why".to_owned(), ..Incident::default() });
        let open = RecordingSnapshot { incident, is_diagnosis_outdated: true, ..quiet() };
        assert_eq!(verdict(&open), (Verdict::Unknown, "incident 3 is not diagnosed yet: why".to_owned()));
        let hung = RecordingSnapshot { diagnosis: Some(diagnosis(Verdict::Unhealthy)), ..open.clone() };
        assert_eq!(verdict(&hung), (Verdict::Unhealthy, "a call hangs".to_owned()));
        // A fault that was observed after the diagnosis contradicts it.
        let found_nothing = RecordingSnapshot { diagnosis: Some(diagnosis(Verdict::Healthy)), ..open };
        assert_eq!(verdict(&found_nothing).0, Verdict::Unknown);
        let over = RecordingSnapshot { is_diagnosis_outdated: false, ..found_nothing };
        assert_eq!(verdict(&over).0, Verdict::Healthy);
        let too_old = RecordingSnapshot { now: mono(95 + 200), ..over };
        assert_eq!(verdict(&too_old).0, Verdict::Unhealthy);
    }

    #[test]
    fn diagnosis_is_shown_without_steps_for_the_processes_of_that_moment() {
        let text = r#"{"apiVersion": "plegctl/v1", "kind": "HealthReport", "takenAt": "2023-11-14T22:13:20Z",
            "runtime": {"endpoint": "unix:///x"}, "durationSeconds": 6.0, "verdict": "unhealthy", "phase": "list",
            "findings": [], "probes": [], "abandonedCalls": 1, "notChecked": [],
            "primary": {"id": "D07", "title": "the runtime is stopped", "severity": "critical", "confidence": "certain",
                "phase": "list",
                "steps": [{"purpose": "continue it", "command": "kill -CONT 812", "changesState": true}]}}"#;
        let shown = shown_part(&serde_json::from_str(text).unwrap());
        let shown: serde_json::Value = serde_json::from_str(&shown).unwrap();
        assert_eq!(shown["primary"]["steps"], serde_json::to_value([step_of_a_capture()]).unwrap());
    }

    #[test]
    fn time_of_notready_is_written_as_it_reads_when_the_verdict_is_requested() {
        let estimate = EstimateReport { not_ready_at: Some(at(146)), ..EstimateReport::default() };
        let primary: HealthFinding = serde_json::from_str(
            r#"{"id": "D02", "title": "ListContainers does not answer", "severity": "critical",
                "confidence": "certain", "phase": "list"}"#,
        )
        .unwrap();
        let (age, text) = diagnosis(Verdict::Unhealthy);
        let shown: ShownDiagnosis = serde_json::from_str(&text).unwrap();
        let shown = ShownDiagnosis { primary: Some(primary), estimate: Some(estimate), ..shown };
        let incident = Some(Incident { number: 3, ..Incident::default() });
        let open = RecordingSnapshot {
            incident,
            diagnosis: Some((age, json::text(&shown).unwrap().into())),
            ..quiet()
        };
        let later = RecordingSnapshot { taken_at: at(169), ..open.clone() };
        for (snapshot, distance) in [(open, "in 46s"), (later, "23s ago")] {
            let verdict = RecorderVerdict::from_snapshot(&snapshot, "n1", "unix:///run/c.sock");
            let time = format!("NotReady at the latest at 22:15:46 UTC ({distance})");
            assert_eq!(verdict.summary, format!("ListContainers does not answer: {time}"));
            assert_eq!(verdict.into_report().estimate.unwrap().not_ready_at, Some(at(146)));
        }
    }

    #[test]
    fn list_call_that_hangs_is_enough_for_a_verdict_before_the_diagnosis_has_ended() {
        let silent = |rpc, pod: Option<&str>, waited: u64| {
            let call = call(rpc, pod, Duration::ZERO);
            let mut calls = seen(&[]);
            calls.relist_begins(mono(100));
            calls.call_started(&OpenCall { rpc, id: call.id, pod: call.pod, started: mono(100) });
            let incident = Some(Incident { number: 3, why: "why".to_owned(), ..Incident::default() });
            let last_relist = Some((Duration::from_secs(14), relist()));
            verdict(&RecordingSnapshot { incident, last_relist, calls, now: mono(100 + waited), ..quiet() })
        };
        let young = silent(Rpc::ListContainers, None, 4);
        assert_eq!(young, (Verdict::Unknown, "incident 3 is not diagnosed yet: why".to_owned()));
        let hung = "ListContainers has not been answered for 12s; the last relist ended 14s ago; incident 3 is not \
                    diagnosed yet";
        assert_eq!(silent(Rpc::ListContainers, None, 12), (Verdict::Unhealthy, hung.to_owned()));
        // One hung status call may leave the node ready.
        assert_eq!(silent(Rpc::ContainerStatus, Some("db-0"), 12).0, Verdict::Unknown);
    }

    #[test]
    fn incident_list_has_the_incidents_of_the_period() {
        let incident = |number, from, to: Option<u64>| Incident {
            number,
            from: at(from).nanos(),
            to: to.map_or(0, |to| at(to).nanos()),
            ..Incident::default()
        };
        let known = IncidentSnapshot {
            taken_at: at(1000),
            open: Some(4),
            // The recorder of incident 2 ended before the incident.
            incidents: vec![
                incident(1, 10, Some(20)),
                incident(2, 30, None),
                incident(3, 800, Some(950)),
                incident(4, 20, None),
            ],
        };
        let listed = |seconds| {
            let list = IncidentList::from_snapshot(&known, Duration::from_secs(seconds), "n1");
            list.incidents.iter().map(|incident| (incident.number, incident.open)).collect::<Vec<_>>()
        };
        assert_eq!(listed(100), [(3, false), (4, true)]);
        assert_eq!(listed(1000), [(1, false), (2, false), (3, false), (4, true)]);
        assert_eq!(listed(u64::MAX / 2).len(), 4, "a period before the epoch is not an error");
    }
}
