//! Lists the content and the damage of a capture, as JSON documents: [`CaptureList`] for `capture ls`, [`CheckReport`] for
//! `capture check`.

use serde::Serialize;

use super::entry::Incident;
use super::read::{Capture, MessageId};
use crate::clock::Wall;
use crate::report::Seconds;

/// The content of a capture.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[cfg_attr(feature = "testing", derive(schemars::JsonSchema))]
#[serde(tag = "kind", rename_all = "camelCase")]
pub struct CaptureList {
    /// The time of the first entry.
    pub from: Wall,
    /// The time of the last entry.
    pub to: Wall,
    /// The name of the node.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub node: String,
    /// The number of relists.
    pub relists: u64,
    /// The size on the disk.
    pub bytes: u64,
    /// The number of segments.
    pub segments: u64,
    /// The number of segments that were deleted to stay within the limits.
    pub dropped: u64,
    /// The number of bytes that cannot be read.
    pub damaged_bytes: u64,
    /// The incidents, oldest first.
    pub incidents: Vec<ListedIncident>,
}

/// One incident.
#[crate::report::omit_none]
#[derive(Clone, Debug, PartialEq, Serialize)]
#[cfg_attr(feature = "testing", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct ListedIncident {
    /// The number of the incident.
    pub number: u64,
    /// The beginning.
    pub from: Wall,
    /// The end; absent if the incident still lasts, or if the recorder ended before the incident.
    pub to: Option<Wall>,
    /// The duration; absent if the incident still lasts, or if the recorder ended before the incident.
    pub lasted_seconds: Option<Seconds>,
    /// The recorded part of the duration, if the recorder ended before the incident.
    pub at_least_seconds: Option<Seconds>,
    /// Why the incident was opened.
    pub why: String,
    /// The verdict; absent without a diagnosis.
    pub verdict: Option<String>,
    /// Line 1 of the diagnosis.
    pub summary: Option<String>,
    /// The primary finding, without its steps.
    #[cfg_attr(feature = "testing", schemars(with = "Option<crate::diagnosis::report::HealthFinding>"))]
    pub primary: Option<serde_json::Value>,
    /// Whether the capture still contains the beginning.
    pub pinned: bool,
}

/// The damage and the losses of a capture.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[cfg_attr(feature = "testing", derive(schemars::JsonSchema))]
#[serde(tag = "kind", rename_all = "camelCase")]
pub struct CheckReport {
    /// The number of complete entries.
    pub entries: u64,
    /// The number of bytes that are not part of an entry.
    pub damaged_bytes: u64,
    /// The number of bytes of incomplete last entries: the recorder was killed, or the file was truncated.
    pub cut_bytes: u64,
    /// The number of answers that cannot be read, because they are damaged or depend on a damaged answer.
    pub missing_answers: u64,
    /// The number of answers that were not judged: unpacking them exceeds the limit for a capture of this size, or a difference
    /// on which they depend cannot be applied.
    #[serde(skip_serializing_if = "crate::report::is_zero")]
    pub not_judged_answers: u64,
    /// The segments.
    pub segments: Vec<CheckedSegment>,
    /// The losses that the recorder noticed.
    pub losses: Vec<CheckedLoss>,
}

/// One segment.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "testing", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct CheckedSegment {
    /// The path of the segment.
    pub path: String,
    /// The size in bytes.
    pub bytes: u64,
    /// The number of complete entries.
    pub entries: u64,
    /// The number of bytes that are not part of an entry.
    pub damaged_bytes: u64,
    /// The number of bytes of an incomplete last entry.
    pub cut_bytes: u64,
    /// The offset of the first fault.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub fault_offset: Option<usize>,
}

/// A loss of entries.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "testing", derive(schemars::JsonSchema))]
pub struct CheckedLoss {
    /// When the recorder could write again.
    pub time: Wall,
    /// The number of lost entries.
    pub entries: u64,
    /// The reason for the loss.
    pub why: String,
}

fn non_empty(text: &str) -> Option<String> {
    (!text.is_empty()).then(|| text.to_owned())
}

impl CaptureList {
    /// Lists this capture.
    pub fn of(capture: &Capture) -> Self {
        let (from, to) = capture.span().unwrap_or_default();
        let count = |number: usize| u64::try_from(number).unwrap_or(u64::MAX);
        Self {
            from,
            to,
            node: capture.sessions.last().map(|run| run.session.node.clone()).unwrap_or_default(),
            relists: count(capture.relists.len()),
            bytes: capture.segments.iter().map(|segment| segment.bytes).sum(),
            segments: count(capture.segments.len()),
            dropped: capture.dropped,
            damaged_bytes: capture.damaged(),
            incidents: capture
                .incidents
                .values()
                .map(|incident| listed_incident(capture, incident))
                .collect(),
        }
    }
}

/// Converts an incident for the list.
fn listed_incident(capture: &Capture, incident: &Incident) -> ListedIncident {
    let from = Wall::from_nanos(incident.from);
    let spans = capture.segments.iter().filter_map(|segment| segment.span);
    ListedIncident {
        number: incident.number,
        from,
        to: Wall::known(incident.to),
        lasted_seconds: incident.duration().map(Seconds::from),
        at_least_seconds: capture.left_open(incident).map(|last| last.duration_since(from).into()),
        why: incident.why.clone(),
        verdict: non_empty(&incident.verdict),
        summary: non_empty(&incident.summary),
        primary: incident.finding(),
        pinned: spans.into_iter().any(|(first, last)| first <= from && from <= last),
    }
}

impl CheckReport {
    /// Checks this capture, and reads every answer.
    pub fn of(capture: &Capture) -> Self {
        let ends = capture.calls.iter().filter_map(|call| call.end.as_ref());
        // A recorder may delete segments during this check. That is not damage.
        let deleted = |ids: &[MessageId]| ids.iter().any(|id| capture.is_deleted(*id));
        let (mut missing, mut not_judged) = (0, 0);
        let mut check = |is_readable: &dyn Fn() -> bool, ids: &[MessageId]| {
            let refusals = capture.refusals();
            if !is_readable() && !deleted(ids) {
                let refused = capture.refusals() > refusals;
                *(if refused { &mut not_judged } else { &mut missing }) += 1;
            }
        };
        for end in ends.filter(|end| !end.omitted) {
            check(&|| capture.messages(end).is_some(), &end.answers);
        }
        Self {
            entries: capture.segments.iter().map(|segment| segment.entries).sum(),
            damaged_bytes: capture.damaged(),
            cut_bytes: capture.cut(),
            missing_answers: missing,
            not_judged_answers: not_judged,
            segments: capture
                .segments
                .iter()
                .map(|segment| CheckedSegment {
                    path: segment.path.display().to_string(),
                    bytes: segment.bytes,
                    entries: segment.entries,
                    damaged_bytes: segment.damaged,
                    cut_bytes: segment.cut,
                    fault_offset: segment.fault,
                })
                .collect(),
            losses: capture
                .losses
                .iter()
                .map(|(_, time, lost)| CheckedLoss {
                    time: *time,
                    entries: lost.entries,
                    why: lost.why.clone(),
                })
                .collect(),
        }
    }

    /// Whether bytes or answers are damaged. Losses that the recorder noticed and wrote down do not count.
    pub const fn is_damaged(&self) -> bool {
        self.damaged_bytes > 0 || self.cut_bytes > 0 || self.missing_answers > 0
    }
}
