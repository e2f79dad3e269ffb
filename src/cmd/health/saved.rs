//! [`SavedReport`]: a report as `health --save`, `--bundle` and a recorder write it, with what was measured. `health --from FILE`
//! reads it from a file, standard input or a bundle, and judges what was measured again, because a newer plegctl may know more.
//! `health --node` does the same with the answer of a recorder. A `HealthReport` without it is returned as it is.

use std::path::Path;

use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use super::bundle;
use crate::cmd::{Error, named_file};
use crate::diagnosis::report::HealthReport;
use crate::diagnosis::{RunFacts, VerdictFacts, judge};
use crate::report::load::LARGEST_REPORT;

/// A report, with what its run measured.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub struct SavedReport<'a, T> {
    #[serde(flatten)]
    report: &'a T,
    #[serde(skip_serializing_if = "Option::is_none")]
    measured: Option<Box<RawValue>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    verdict_facts: Option<VerdictFacts>,
}

impl<'a, T> SavedReport<'a, T> {
    /// Adds to a report what its run measured, which is the text of [`RunFacts`], on one line; and what decided
    /// the present verdict of a recorder.
    pub fn new(report: &'a T, measured: Option<String>, verdict_facts: Option<VerdictFacts>) -> Self {
        Self { report, measured: measured.and_then(|text| RawValue::from_string(text).ok()), verdict_facts }
    }
}

/// What a [`SavedReport`] has beside its report.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct MeasuredPart<'a> {
    #[serde(borrow)]
    pub measured: Option<&'a RawValue>,
    pub verdict_facts: Option<VerdictFacts>,
}

/// Reads the report at `path`; `-` is standard input. Returns also a note, if the report was judged again with another result, or
/// could not be judged again.
pub(super) fn read_report(path: &Path) -> Result<(HealthReport, Option<String>), Error> {
    let if_missing = Some("make one with `plegctl health --save FILE`");
    let (name, bytes) = named_file::read(path, LARGEST_REPORT, if_missing)?;
    let report = if bundle::is_gzip(&bytes) {
        bundle::extract_report(&bytes).and_then(|bytes| parse_report(&bytes))
    } else {
        parse_report(&bytes)
    };
    report.map_err(|why| Error::NoHealthReport { name, why })
}

fn parse_report(bytes: &[u8]) -> Result<(HealthReport, Option<String>), String> {
    #[derive(Default, Deserialize)]
    #[serde(rename_all = "camelCase", default)]
    struct ReportHeading {
        kind: String,
        api_version: String,
    }
    let ReportHeading { kind, api_version } = serde_json::from_slice(bytes).map_err(|why| why.to_string())?;
    if api_version != HealthReport::API_VERSION {
        return Err(match kind.as_str() {
            "" => "it has no kind".to_owned(),
            kind => format!("it is {kind} of `{api_version}`"),
        });
    }
    if kind != HealthReport::KIND {
        return Err(format!("it is {kind}"));
    }
    let saved: HealthReport = serde_json::from_slice(bytes).map_err(|why| why.to_string())?;
    let part: MeasuredPart<'_> = serde_json::from_slice(bytes).map_err(|why| why.to_string())?;
    Ok(match part.measured {
        Some(measured) => judge_again(saved, measured),
        None => (saved, None),
    })
}

/// Judges what the run of a saved report measured. Returns also a note if the result differs from the saved report; if the facts
/// cannot be read, returns the saved report and the reason.
fn judge_again(saved: HealthReport, measured: &RawValue) -> (HealthReport, Option<String>) {
    let facts = match RunFacts::read(measured.get().as_bytes()) {
        Ok(facts) => facts,
        Err(why) => return (saved, Some(unreadable(&why))),
    };
    let measured_by = facts.plegctl().to_owned();
    let report = HealthReport { source: saved.source.clone(), stacks: None, ..judge(&facts.into()) };
    let note = (report != saved).then(|| difference(&measured_by, &report, &saved));
    (report, note)
}

/// Says that the facts of a report cannot be read.
pub(super) fn unreadable(why: &str) -> String {
    format!("this report is as it was saved: its facts cannot be read: {why}")
}

/// Says how a report that was judged again differs from what was saved.
pub(super) fn difference(measured_by: &str, report: &HealthReport, saved: &HealthReport) -> String {
    let of_facts = format!("judged again from what plegctl {measured_by} measured");
    if (report.verdict, &report.summary) == (saved.verdict, &saved.summary) {
        format!("{of_facts}; its report has other words")
    } else {
        format!("{of_facts}; it said: {}: {}", saved.verdict, saved.summary)
    }
}
