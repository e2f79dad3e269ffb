//! The state of a recording that relists, the incident handler and the metrics page share, and the recorder's own metrics for
//! Prometheus.

use std::fmt::{self, Write as _};

use crate::capture::incident::IncidentDetector;
use crate::capture::recorder::RecorderStatus;
use crate::clock::Mono;
use crate::pleg::OpenCall;
use crate::report::escape::label_value;

/// The state that relists, the incident handler and the metrics page share.
pub struct RecordingState {
    pub detector: IncidentDetector,
    /// When pending calls and the age of PLEG were last checked.
    pub checked: Mono,
    /// The pending call of the relist.
    pub open_call: Option<OpenCall>,
    /// Whether PLEG was healthy at the last check after the first relist.
    pub healthy: Option<bool>,
    /// The number of incidents so far.
    pub incidents: u64,
    /// The culprit that the last diagnosis of the open incident named.
    pub culprit: Option<IncidentCulprit>,
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
    /// Creates the state at the start of a recording.
    pub const fn new(detector: IncidentDetector, now: Mono) -> Self {
        Self { detector, checked: now, open_call: None, healthy: None, incidents: 0, culprit: None }
    }

    /// Renders the recorder's own metrics for Prometheus.
    pub fn metrics_page(&self, recorder: &RecorderStatus) -> String {
        let mut page = String::new();
        // Writing to a String cannot fail.
        let _ = self.write_metrics(&mut page, recorder);
        page
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
            "# HELP {name} What the diagnosis of the incident that lasts names.\n# TYPE {name} gauge\n\
             {name}{{rule={},rpc={},namespace={},pod={},container={}}} 1",
            label_value(&culprit.rule),
            label_value(&culprit.rpc),
            label_value(&culprit.namespace),
            label_value(&culprit.pod),
            label_value(&culprit.container),
        )
    }
}
