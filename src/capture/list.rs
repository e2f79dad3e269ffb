//! What is in a capture, and what is gone: the documents of `capture ls` and `capture check`.

use serde::Serialize;

use super::entry::Incident;
use super::read::{Capture, Place};
use crate::clock::Wall;
use crate::report::{Seconds, fits_in_memory};

/// What is in a capture.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(tag = "kind", rename_all = "camelCase")]
pub struct CaptureList {
    /// Its first moment.
    pub from: Wall,
    /// Its last.
    pub to: Wall,
    /// The node.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub node: String,
    /// How many relists.
    pub relists: u64,
    /// Its size on the disk.
    pub bytes: u64,
    /// In how many files.
    pub segments: u64,
    /// Segments given up to keep within bounds.
    pub dropped: u64,
    /// Bytes that cannot be read.
    pub damaged_bytes: u64,
    /// The incidents, oldest first.
    pub incidents: Vec<ListedIncident>,
}

/// One incident.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ListedIncident {
    /// Its number.
    pub number: u64,
    /// Since when.
    pub from: Wall,
    /// Until when; absent while it lasts, or if its recorder ended first.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub to: Option<Wall>,
    /// How long it lasted; absent while it lasts, or if its recorder ended first.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub lasted_seconds: Option<Seconds>,
    /// How long it lasted at least, where its recorder ended before it did.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub at_least_seconds: Option<Seconds>,
    /// What opened it.
    pub why: String,
    /// The verdict; absent if nobody judged.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub verdict: Option<String>,
    /// Line 1 of the diagnosis.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub summary: Option<String>,
    /// The finding to start with.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub primary: Option<serde_json::Value>,
    /// Whether its beginning is still in the capture.
    pub pinned: bool,
}

/// What is gone.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(tag = "kind", rename_all = "camelCase")]
pub struct CheckReport {
    /// Whole entries.
    pub entries: u64,
    /// Bytes that are no entry.
    pub damaged_bytes: u64,
    /// Bytes of last entries that were never whole: their recorder was killed, or the file was cut.
    pub cut_bytes: u64,
    /// Answers that are gone, themselves or with what they lean on.
    pub missing_answers: u64,
    /// Answers that were not judged, because unpacking them would have cost more than a capture of this size may.
    #[serde(skip_serializing_if = "is_zero")]
    pub not_judged_answers: u64,
    /// The files.
    pub segments: Vec<CheckedSegment>,
    /// What the recorder could not keep.
    pub losses: Vec<CheckedLoss>,
}

/// One file.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct CheckedSegment {
    /// Where it is.
    pub path: String,
    /// Its size.
    pub bytes: u64,
    /// Whole entries.
    pub entries: u64,
    /// Bytes that are no entry.
    pub damaged_bytes: u64,
    /// Bytes of a last entry that was never whole.
    pub cut_bytes: u64,
    /// Where the first fault is.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub fault_at: Option<usize>,
}

/// Something that was not kept.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct CheckedLoss {
    /// When the recorder could say so.
    pub time: Wall,
    /// How many entries.
    pub entries: u64,
    /// Why.
    pub why: String,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde's signature")]
const fn is_zero(number: &u64) -> bool {
    *number == 0
}

fn said(text: &str) -> Option<String> {
    (!text.is_empty()).then(|| text.to_owned())
}

impl CaptureList {
    /// Of this capture.
    pub fn of(capture: &Capture) -> Self {
        let (from, to) = capture.span().unwrap_or_default();
        let count = |number: usize| u64::try_from(number).unwrap_or(u64::MAX);
        Self {
            from,
            to,
            node: capture.runs.last().map(|run| run.session.node.clone()).unwrap_or_default(),
            relists: count(capture.relists.len()),
            bytes: capture.segments.iter().map(|segment| segment.bytes).sum(),
            segments: count(capture.segments.len()),
            dropped: capture.dropped,
            damaged_bytes: capture.damaged(),
            incidents: capture.incidents.values().map(|incident| listed(capture, incident)).collect(),
        }
    }
}

fn listed(capture: &Capture, incident: &Incident) -> ListedIncident {
    let from = Wall::from_nanos(incident.from);
    let spans = capture.segments.iter().filter_map(|segment| segment.span);
    ListedIncident {
        number: incident.number,
        from,
        to: Wall::known(incident.to),
        lasted_seconds: incident.duration().map(Seconds::from),
        at_least_seconds: capture.left_open(incident).map(|last| last.duration_since(from).into()),
        why: incident.why.clone(),
        verdict: said(&incident.verdict),
        summary: said(&incident.summary),
        primary: fits_in_memory(incident.primary.as_bytes())
            .then(|| serde_json::from_str(&incident.primary).ok())
            .flatten(),
        pinned: spans.into_iter().any(|(first, last)| first <= from && from <= last),
    }
}

impl CheckReport {
    /// Of this capture; every answer is looked at.
    pub fn of(capture: &Capture) -> Self {
        let ends = capture.calls.iter().filter_map(|call| call.end.as_ref());
        // What a recorder gives up while we read is not damaged.
        let given_up = |places: &[Place]| places.iter().any(|place| capture.is_given_up(*place));
        let (mut missing, mut not_judged) = (0, 0);
        let mut look = |is_there: &dyn Fn() -> bool, places: &[Place]| {
            let refusals = capture.refusals();
            if !is_there() && !given_up(places) {
                let refused = capture.refusals() > refusals;
                *(if refused { &mut not_judged } else { &mut missing }) += 1;
            }
        };
        for end in ends.filter(|end| !end.omitted) {
            look(&|| capture.messages(end).is_some(), &end.answers);
        }
        for told in &capture.told {
            look(&|| capture.message(told.place).is_some(), &[told.place]);
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
                    fault_at: segment.fault,
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

    /// Whether anything is gone.
    pub const fn is_damaged(&self) -> bool {
        self.damaged_bytes > 0 || self.cut_bytes > 0 || self.missing_answers > 0
    }
}
