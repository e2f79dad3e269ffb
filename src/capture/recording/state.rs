//! [`RecordingState`]: the data that three parts of a recording share: its relists, the incident handler and the page with
//! metrics. It renders the recorder's own metrics for Prometheus.

use std::fmt::{self, Write as _};
use std::sync::Arc;
use std::time::Duration;

use prost::bytes::Bytes;

use crate::capture::entry::Incident;
use crate::capture::incident::IncidentDetector;
use crate::capture::node::{LimitSample, NodeSample};
use crate::capture::pack;
use crate::capture::recorder::RecorderStatus;
use crate::clock::{Mono, Wall};
use crate::cri::{Outcome, Version};
use crate::diagnosis::calls::limited_sizes;
use crate::diagnosis::forecast::{LimitForecast, LimitHistory, LimitKind};
use crate::diagnosis::report::NotChecked;
use crate::kubelet::ListLimit;
use crate::kubelet::timing;
use crate::pleg::relist_calls::RelistCalls;
use crate::pleg::report::ListCallsReport;
use crate::pleg::stream::Relist;
use crate::pleg::{Era, Seconds};
use crate::report::Confidence;
use crate::report::escape::label_value;
use crate::test_settings;

/// The data that the relists, the incident handler and the page with metrics share.
pub struct RecordingState {
    pub detector: IncidentDetector,
    /// When pending calls and the age of PLEG were last checked.
    pub checked: Mono,
    /// How the simulated kubelet relists.
    era: Era,
    list_limit: ListLimit,
    pub list_calls: ListCallsReport,
    /// What the calls of the relists have shown.
    pub calls: RelistCalls,
    /// Whether PLEG was healthy at the last check after the first relist.
    pub healthy: Option<bool>,
    /// The number of incidents so far.
    pub incidents: u64,
    /// The culprit that the last diagnosis of the open incident named.
    pub culprit: Option<IncidentCulprit>,
    /// The last diagnosis of the open incident: when it ended, its report in JSON, and what it measured.
    pub diagnosis: Option<(Mono, Arc<str>, Result<MeasuredText, &'static str>)>,
    /// The last finished relist whose list calls succeeded.
    pub last_relist: Option<FinishedRelist>,
    /// When the time without an incident began: the end of the last incident, or the start of the recording.
    pub quiet_since: Wall,
    /// The runtime's answer to Version, if it has answered.
    pub runtime: Option<Version>,
    /// The last state of each incident of this recording, at most [`MAX_LISTED`], oldest first.
    pub listed: Vec<Incident>,
    /// What was measured of each limit.
    limits: LimitHistory,
    /// The limits that will be reached, by the last sample.
    forecasts: Vec<LimitForecast>,
    /// When the last diagnosis ended, and what it did not check.
    pub looked: Option<(Mono, Vec<NotChecked>)>,
}

/// What a diagnosis measured, as JSON, packed.
#[derive(Clone, Debug)]
pub struct MeasuredText {
    packed: Bytes,
    size: u64,
}

impl MeasuredText {
    /// The largest text, in bytes.
    pub const MAX_SIZE: usize = 4 << 20;

    /// How many bytes of memory the recorder uses for it at most.
    const MAX_PACKED: usize = 512 << 10;

    /// Packs a text; `None` if it is too large.
    pub fn pack(text: String) -> Option<Self> {
        let (packed, size) = pack::packed(text.into());
        (packed.len() <= Self::MAX_PACKED).then_some(Self { packed, size })
    }

    /// Returns the text.
    pub fn text(&self) -> Option<String> {
        String::from_utf8(pack::unpacked(&self.packed, self.size)?.into()).ok()
    }
}

/// The maximum number of incidents of this recording that the state contains.
const MAX_LISTED: usize = 100;

/// A finished relist, without its calls.
#[derive(Clone, Debug, PartialEq)]
pub struct FinishedRelist {
    /// When the relist ended, by the monotonic clock.
    pub ended: Mono,
    /// The number of the relist, from 1.
    pub number: u64,
    /// When the relist ended.
    pub time: Wall,
    /// The duration.
    pub duration: Seconds,
    /// Whether both list calls succeeded.
    pub outcome: Outcome,
    /// Why a list call failed.
    pub error: Option<String>,
    /// The number of listed pods.
    pub pods: u64,
    /// The number of listed containers.
    pub containers: u64,
}

impl FinishedRelist {
    /// Describes a relist that ended at `ended`.
    pub fn new(ended: Mono, relist: &Relist) -> Self {
        Self {
            ended,
            number: relist.relist,
            time: relist.time,
            duration: relist.duration_seconds,
            outcome: relist.outcome,
            error: relist.error.clone(),
            pods: relist.pods,
            containers: relist.containers,
        }
    }
}

/// The state of a recording at one moment, for answers over HTTP.
#[derive(Clone, Debug)]
pub struct RecordingSnapshot {
    /// The moment.
    pub taken_at: Wall,
    /// The beginning of the open incident, else the end of the last one, else the start of the recording.
    pub since: Wall,
    /// The open incident, with its number in the capture.
    pub incident: Option<Incident>,
    /// The age of the last diagnosis of the open incident, and its report in JSON.
    pub diagnosis: Option<(Duration, Arc<str>)>,
    /// What that diagnosis measured, or why the recorder does not keep it.
    pub measured: Option<Result<MeasuredText, &'static str>>,
    /// Whether a fault was observed after the end of that diagnosis.
    pub is_diagnosis_outdated: bool,
    /// The time since the end of the last relist whose list calls succeeded, and the relist.
    pub last_relist: Option<(Duration, FinishedRelist)>,
    /// The moment, by the monotonic clock.
    pub now: Mono,
    /// How the simulated kubelet relists.
    pub era: Era,
    /// To what the limit for the size of the kubelet's lists applies.
    pub list_limit: ListLimit,
    /// The list calls that the recording makes.
    pub list_calls: ListCallsReport,
    /// What the calls of the relists have shown.
    pub calls: RelistCalls,
    /// The start of the last relist whose list calls succeeded.
    pub last_list: Option<Mono>,
    /// The age at which PLEG is not healthy.
    pub threshold: Duration,
    /// The time since the recording last checked pending calls and the age of PLEG.
    pub unchecked: Duration,
    /// The runtime's answer to Version, if it has answered.
    pub runtime: Option<Version>,
    /// The limits that will be reached, the first one first.
    pub forecasts: Vec<LimitForecast>,
    /// The time since the end of the last diagnosis, of a quiet node too, and what it did not check.
    pub looked: Option<(Duration, Vec<NotChecked>)>,
}

/// The incidents of a capture at one moment.
#[derive(Clone, Debug)]
pub struct IncidentSnapshot {
    /// The moment.
    pub taken_at: Wall,
    /// The number of the open incident.
    pub open: Option<u64>,
    /// The incidents, oldest first.
    pub incidents: Vec<Incident>,
}

/// The call that a diagnosis names, with its pod and container. An unknown part is empty.
#[derive(Clone, Debug, Default)]
pub struct IncidentCulprit {
    /// The id of the rule, for example `D03`.
    pub rule: String,
    /// The RPC.
    pub rpc: String,
    /// The pod's namespace.
    pub namespace: String,
    /// The pod's name.
    pub pod: String,
    /// The container's name.
    pub container: String,
}

impl RecordingState {
    /// Creates the state at the start of a recording. The second argument says how the kubelet relists, and to what the
    /// limit for the size of its lists applies.
    pub fn new(
        detector: IncidentDetector,
        (era, list_limit): (Era, ListLimit),
        (wall, mono): (Wall, Mono),
    ) -> Self {
        Self {
            detector,
            checked: mono,
            era,
            list_limit,
            list_calls: ListCallsReport::default(),
            calls: RelistCalls::new(mono),
            healthy: None,
            incidents: 0,
            culprit: None,
            diagnosis: None,
            last_relist: None,
            quiet_since: wall,
            runtime: None,
            listed: Vec::new(),
            limits: LimitHistory::default(),
            forecasts: Vec::new(),
            looked: None,
        }
    }

    /// Adds to a sample of the node what the last relist has shown: the sizes of the lists, and the number of pods.
    pub fn add_lists(&self, sample: &mut NodeSample) {
        let size = |(rpc, used)| {
            let limit = LimitKind::of_list(rpc)?;
            Some(LimitSample { limit, used, max: timing::RECEIVE_LIMIT, age: 0 })
        };
        sample.limits.extend(limited_sizes(&self.calls, self.list_limit).filter_map(size));
        sample.pods = self.last_relist.as_ref().map(|last| last.pods);
    }

    /// Remembers what a sample of the node has shown of its limits, and forecasts when they are reached.
    pub fn follow_limits(&mut self, sample: &NodeSample, (wall, mono): (Wall, Mono)) {
        // Without a relist, nothing says whether a growth follows the number of pods.
        let Some(pods) = sample.pods else { return };
        let at = mono.since(Mono::default()) * test_settings::sampling_speed();
        let mut measured = sample.measured_limits();
        for limit in &mut measured {
            limit.age *= test_settings::sampling_speed();
        }
        self.limits.add(at, pods, &measured);
        self.forecasts = self.limits.forecasts(at, wall);
    }

    /// Returns the limits that will be reached, by the last sample.
    pub fn forecasts(&self) -> &[LimitForecast] {
        &self.forecasts
    }

    /// Remembers the last state of an incident, and forgets the oldest incident above the limit.
    pub fn list(&mut self, incident: &Incident) {
        if incident.to != 0 {
            self.quiet_since = Wall::from_nanos(incident.to);
        }
        self.listed.retain(|listed| listed.number != incident.number);
        self.listed.push(incident.clone());
        let surplus = self.listed.len().saturating_sub(MAX_LISTED);
        self.listed.drain(..surplus);
    }

    /// Returns the state at this moment.
    pub fn snapshot(&self, (wall, mono): (Wall, Mono)) -> RecordingSnapshot {
        let incident = self.detector.open_incident().cloned();
        let ended = self.diagnosis.as_ref().map(|(ended, ..)| *ended);
        RecordingSnapshot {
            taken_at: wall,
            since: incident.as_ref().map_or(self.quiet_since, |incident| Wall::from_nanos(incident.from)),
            is_diagnosis_outdated: self.detector.last_fault() > ended,
            incident,
            diagnosis: self.diagnosis.as_ref().map(|(ended, text, _)| (mono.since(*ended), Arc::clone(text))),
            measured: self.diagnosis.as_ref().map(|(_, _, measured)| measured.clone()),
            last_relist: self.last_relist.as_ref().map(|last| (mono.since(last.ended), last.clone())),
            now: mono,
            era: self.era,
            list_limit: self.list_limit,
            list_calls: self.list_calls.clone(),
            calls: self.calls.clone(),
            // Comes from the shared state of the relists, which the caller has.
            last_list: None,
            threshold: self.detector.threshold(),
            unchecked: mono.since(self.checked),
            runtime: self.runtime.clone(),
            forecasts: self.forecasts.clone(),
            looked: self.looked.as_ref().map(|(ended, what)| (mono.since(*ended), what.clone())),
        }
    }

    /// Renders the recorder's own metrics for Prometheus, as they are at `now`.
    pub fn metrics_page(&self, recorder: &RecorderStatus, now: Wall) -> String {
        let mut page = String::new();
        // Writing to a String cannot fail.
        let _ = self.write_metrics(&mut page, recorder);
        let _ = self.write_forecasts(&mut page, now);
        page
    }

    /// Writes the time until each limit that will likely be reached: an alert must not rest on what is only possible.
    fn write_forecasts(&self, page: &mut String, now: Wall) -> fmt::Result {
        let name = "plegctl_limit_seconds";
        writeln!(
            page,
            "# HELP {name} The time until a hard limit is reached, if it grows towards one.\n# TYPE {name} gauge"
        )?;
        for forecast in self.forecasts.iter().filter(|one| one.confidence == Confidence::Likely) {
            let process = forecast.process.as_ref().map_or("", |process| process.name.as_str());
            writeln!(
                page,
                "{name}{{limit={},process={}}} {}",
                label_value(forecast.limit.as_str()),
                label_value(process),
                forecast.left(now).as_secs(),
            )?;
        }
        Ok(())
    }

    fn write_metrics(&self, page: &mut String, recorder: &RecorderStatus) -> fmt::Result {
        let metrics = [
            ("plegctl_record_bytes", "gauge", "Size of the capture on the disk.", recorder.extent.bytes),
            ("plegctl_record_segments", "gauge", "Segments of the capture.", recorder.extent.segments),
            (
                "plegctl_record_lost_entries_total",
                "counter",
                "Entries that could not be kept.",
                recorder.lost,
            ),
            (
                "plegctl_record_writing",
                "gauge",
                "Whether the capture takes entries right now.",
                u64::from(recorder.trouble.is_none()),
            ),
            ("plegctl_record_incidents_total", "counter", "Incidents opened.", self.incidents),
            (
                "plegctl_record_incident_open",
                "gauge",
                "Whether an incident lasts right now.",
                u64::from(self.detector.open_incident().is_some()),
            ),
        ];
        for (name, kind, help, value) in metrics {
            writeln!(page, "# HELP {name} {help}\n# TYPE {name} {kind}\n{name} {value}")?;
        }
        let Some(culprit) = &self.culprit else { return Ok(()) };
        let name = "plegctl_incident_culprit";
        writeln!(
            page,
            "# HELP {name} The call, the pod and the container that the diagnosis of the open incident names.\n# TYPE {name} gauge\n\
             {name}{{rule={},rpc={},namespace={},pod={},container={}}} 1",
            label_value(&culprit.rule),
            label_value(&culprit.rpc),
            label_value(&culprit.namespace),
            label_value(&culprit.pod),
            label_value(&culprit.container),
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::capture::incident::IncidentRules;
    use crate::capture::node::ProcessSample;

    const RULES: IncidentRules = IncidentRules {
        slow: Duration::from_secs(2),
        threshold: Duration::from_secs(180),
        before: Duration::from_secs(600),
        after: Duration::from_secs(300),
    };

    /// A recording of a node whose containerd gets so many threads a minute, for an hour.
    fn recording(threads_a_minute: u64) -> RecordingState {
        let detector = IncidentDetector::new(RULES, 0);
        let start = (Wall::from_nanos(1_795_000_000_000_000_000), Mono::default());
        let mut state = RecordingState::new(detector, (Era::OneRound, ListLimit::List), start);
        for step in 0..=120 {
            let (wall, mono) = start;
            let since = Duration::from_secs(step * 30);
            let threads = 6000 + step * threads_a_minute / 2;
            let containerd =
                ProcessSample { pid: 812, name: "containerd".into(), threads, ..ProcessSample::default() };
            let sample = NodeSample { processes: vec![containerd], pods: Some(30), ..NodeSample::default() };
            state.follow_limits(&sample, (wall.plus(since), mono.plus(since)));
        }
        state
    }

    #[test]
    fn time_to_a_limit_is_a_metric_while_something_grows_towards_it() {
        let now = Wall::from_nanos(1_795_000_000_000_000_000).plus(Duration::from_secs(3600));
        let page = recording(20).metrics_page(&RecorderStatus::default(), now);
        let (_, seconds) =
            page.split_once(r#"plegctl_limit_seconds{limit="threads",process="containerd"} "#).unwrap();
        assert!((8390..=8400).contains(&seconds.trim().parse::<u64>().unwrap()), "{page}");
        assert!(page.contains("# TYPE plegctl_limit_seconds gauge"), "{page}");
        let quiet = recording(0).metrics_page(&RecorderStatus::default(), now);
        assert!(!quiet.contains("plegctl_limit_seconds{"), "{quiet}");
    }

    #[test]
    fn without_a_relist_no_limit_is_followed() {
        let mut state = recording(20);
        assert_eq!(state.forecasts.len(), 1);
        let detector = IncidentDetector::new(RULES, 0);
        let start = (Wall::default(), Mono::default());
        state = RecordingState {
            limits: state.limits,
            ..RecordingState::new(detector, (Era::OneRound, ListLimit::List), start)
        };
        state.follow_limits(&NodeSample::default(), start);
        assert_eq!(state.forecasts, []);
    }

    #[test]
    fn facts_that_need_too_much_memory_are_not_kept() {
        let mut random = 1_u32;
        let mut noise = || {
            random = random.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            format!("{random:08x}")
        };
        let text: String = (0..50_000).map(|_| noise()).collect();
        assert_eq!(MeasuredText::pack(text.clone()).unwrap().text(), Some(text.clone()));
        assert!(MeasuredText::pack(text.repeat(4)).is_none());
        assert!(MeasuredText::pack("x".repeat(MeasuredText::MAX_SIZE)).is_some());
    }
}
