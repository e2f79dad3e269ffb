//! What the recorder gives only to a client that sends the token of `--serve-token-file`: `/capture`, a part of its capture,
//! and `/verdict?facts=true`, its verdict with what its last diagnosis measured.
//!
//! A thread makes each answer, so that no request delays a relist: it makes no call to the runtime and writes nothing to the
//! disk. Only one answer is made at a time. The token file is read for each request, so that a new token counts at once.

use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use tokio::sync::Semaphore;

use crate::capture::entry::Incident;
use crate::capture::recorder_verdict::{RecorderVerdict, verdict_facts};
use crate::capture::recording::{IncidentSnapshot, RecordingView};
use crate::capture::{self, Error, Pseudonyms, Range, Renames, open_part};
use crate::clock::Wall;
use crate::cmd::health::SavedReport;
use crate::cmd::serve::metrics_server::{HttpReply, HttpRequest, JobOutput, PageReply};
use crate::cmd::serve::token_file::RecorderToken;
use crate::report::{document, json};

/// The largest answer, in bytes.
pub const LARGEST: usize = 64 << 20;

/// The number of requests whose token is checked at the same time.
const MAX_CHECKS: usize = 2;

const UNAVAILABLE: &str = "503 Service Unavailable";

/// The protected pages of a recorder.
pub struct Exports {
    view: RecordingView,
    node: String,
    endpoint: String,
    directory: PathBuf,
    token_file: Option<PathBuf>,
    /// Other names for the node and its pods, if they are simulated.
    renames: Renames,
    /// The places for requests whose token is being checked.
    checks: Arc<Semaphore>,
    /// The place for the answer that is being made.
    answers: Semaphore,
}

/// A request for a protected page.
enum ExportRequest {
    /// A part of the capture.
    Capture(CaptureRequest),
    /// The verdict with the facts of its diagnosis.
    VerdictWithFacts,
}

/// The wanted part of the capture.
#[derive(Debug, Default, PartialEq, Eq)]
struct CaptureRequest {
    incident: Option<u64>,
    range: Range,
    anonymise: bool,
}

impl Exports {
    /// Describes the recorder of `node` at `endpoint`, whose capture is in `directory`.
    pub fn new(
        view: RecordingView,
        (node, endpoint): (String, String),
        directory: PathBuf,
        token_file: Option<PathBuf>,
    ) -> Self {
        let (checks, answers) = (Arc::new(Semaphore::new(MAX_CHECKS)), Semaphore::new(1));
        let renames = Renames::default();
        Self { view, node, endpoint, directory, token_file, renames, checks, answers }
    }

    /// Gives the node and its pods other names than the capture does.
    pub fn with_renames(self, renames: Renames) -> Self {
        Self { renames, ..self }
    }

    /// Answers a request for a protected page; `None` if the path is another one.
    pub fn page(self: &Arc<Self>, request: &HttpRequest<'_>) -> Option<PageReply> {
        let wanted = match request.path {
            "/capture" => CaptureRequest::parse(request),
            "/verdict" => verdict_request(request)?,
            _ => return None,
        };
        let Some(token_file) = self.token_file.clone() else {
            let why = "this recorder gives no captures and facts, because it runs without --serve-token-file";
            return Some(HttpReply::error("404 Not Found", why).into());
        };
        let Some(sent) = request.token.cloned() else {
            let path = request.path;
            let why = format!("{path} needs the recorder's token in the header X-Plegctl-Token");
            return Some(HttpReply::error("401 Unauthorized", &why).into());
        };
        let Ok(place) = Arc::clone(&self.checks).try_acquire_owned() else {
            return Some(HttpReply::error(UNAVAILABLE, "the recorder checks other requests").into());
        };
        let exports = Arc::clone(self);
        Some(PageReply::Job(Box::new(move |output| {
            let allowed = RecorderToken::of_server(&token_file).map(|token| token.matches(&sent.0));
            drop(place);
            match (allowed, wanted) {
                (Err(why), _) => {
                    let why = format!("/capture and the facts are closed: the recorder's token file: {why}");
                    output.reply(HttpReply::error(UNAVAILABLE, &why));
                }
                (Ok(false), _) => {
                    output.reply(HttpReply::error("403 Forbidden", "the recorder has another token"));
                }
                (Ok(true), Err(why)) => output.reply(HttpReply::bad_request(why)),
                (Ok(true), Ok(wanted)) => exports.answer(wanted, output),
            }
        })))
    }

    fn answer(&self, wanted: ExportRequest, output: JobOutput) {
        let Ok(place) = self.answers.try_acquire() else {
            let why = "the recorder makes another export; try again in a minute";
            return output.reply(HttpReply::error(UNAVAILABLE, why));
        };
        // The place is free before the client sees the end of the answer, so that its next request is not refused. After a
        // failure, the client sees an answer without an end.
        let _ = match wanted {
            ExportRequest::Capture(wanted) => match wanted.open(&self.directory, &self.view) {
                Err(reply) => {
                    drop(place);
                    return output.reply(reply);
                }
                Ok((capture, range)) => output.stream("application/octet-stream", LARGEST, |out| {
                    let _place = place;
                    let exported = if wanted.anonymise {
                        capture::export(&capture, range, Some(Pseudonyms::default()), out)
                    } else {
                        capture::export_renamed(&capture, range, &self.renames, out)
                    };
                    exported.map(drop)
                }),
            },
            ExportRequest::VerdictWithFacts => output.stream("application/json", LARGEST, |out| {
                let _place = place;
                self.write_verdict(out)
            }),
        };
    }

    /// Writes the verdict with what its diagnosis measured.
    fn write_verdict(&self, out: &mut dyn Write) -> io::Result<()> {
        let snapshot = self.view.snapshot();
        let mut verdict = RecorderVerdict::from_snapshot(&snapshot, &self.node, &self.endpoint);
        let facts = verdict_facts(&snapshot);
        let measured = match snapshot.measured.transpose() {
            Ok(measured) => measured.and_then(|measured| measured.text()),
            Err(why) => {
                verdict.no_facts = Some(why.to_owned());
                None
            }
        };
        json::line(&SavedReport::new(&document(&verdict), measured, Some(facts)), out)
    }
}

/// Reads the parameters of a request for the verdict with facts; `None` for a request without them.
fn verdict_request(request: &HttpRequest<'_>) -> Option<Result<ExportRequest, &'static str>> {
    let (facts, others): (Vec<_>, Vec<_>) = request.parameters().partition(|(name, _)| *name == "facts");
    let wanted = match (&facts[..], &others[..]) {
        ([], _) => return None,
        ([(_, "true")], [] | [("o", "json")]) => Ok(ExportRequest::VerdictWithFacts),
        _ => Err("/verdict with facts takes only facts=true and o=json"),
    };
    Some(wanted)
}

impl CaptureRequest {
    /// Reads the parameters.
    fn parse(request: &HttpRequest<'_>) -> Result<ExportRequest, &'static str> {
        let mut wanted = Self::default();
        for (name, value) in request.parameters() {
            match name {
                "incident" => {
                    let number = value.parse().map_err(|_| "incident takes the number of an incident")?;
                    wanted.incident = Some(number);
                }
                "from" => wanted.range.from = Some(time(value)?),
                "to" => wanted.range.to = Some(time(value)?),
                "anonymise" => {
                    wanted.anonymise = match value {
                        "" | "1" | "true" => true,
                        "0" | "false" => false,
                        _ => return Err("anonymise takes 1 or 0"),
                    }
                }
                _ => return Err("/capture takes only incident=N, from=TIME, to=TIME and anonymise=1"),
            }
        }
        if wanted.incident.is_some() && wanted.range != Range::default() {
            return Err("incident cannot be combined with from and to");
        }
        Ok(ExportRequest::Capture(wanted))
    }

    /// Opens the wanted part of the capture.
    fn open(&self, directory: &Path, view: &RecordingView) -> Result<(capture::Capture, Range), HttpReply> {
        let range = match self.incident {
            None => self.range,
            Some(number) => {
                let found = pinned(&view.incidents(), |incident| incident.number == number);
                let why = "the capture has no such incident; see /incidents";
                found.ok_or_else(|| HttpReply::error("404 Not Found", why))?
            }
        };
        let opened = open_part(directory, range, view.clock());
        let capture = opened.map_err(|why| match why {
            Error::LargePart { .. } => HttpReply::error("413 Content Too Large", &why.to_string()),
            _ => HttpReply::error(UNAVAILABLE, &why.to_string()),
        })?;
        Ok((capture, range))
    }
}

/// Returns the period that is pinned for the first incident that is wanted.
fn pinned(known: &IncidentSnapshot, is_wanted: impl Fn(&Incident) -> bool) -> Option<Range> {
    let incident = known.incidents.iter().find(|incident| is_wanted(incident))?;
    let to = Wall::known(incident.to).map(|_| Wall::from_nanos(incident.pinned_to));
    Some(Range { from: Some(Wall::from_nanos(incident.pinned_from)), to })
}

/// Parses a time in a query, in which a colon may be encoded.
fn time(text: &str) -> Result<Wall, &'static str> {
    let text = text.replace("%3A", ":").replace("%3a", ":");
    text.parse().map_err(|_| "from and to take a time in UTC such as 2026-11-21T03:00:00Z")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(query: &str) -> Result<CaptureRequest, &'static str> {
        match CaptureRequest::parse(&HttpRequest::for_page("/capture", query))? {
            ExportRequest::Capture(wanted) => Ok(wanted),
            ExportRequest::VerdictWithFacts => Err("another page"),
        }
    }

    #[test]
    fn wanted_part_is_read_from_the_query() {
        assert_eq!(parse("").unwrap(), CaptureRequest::default());
        let wanted = parse("incident=3&anonymise=1").unwrap();
        assert_eq!((wanted.incident, wanted.anonymise), (Some(3), true));
        let wanted = parse("from=2026-11-21T03%3A00:00Z&to=2026-11-21T03:10:00Z&anonymise=0").unwrap();
        let (from, to) = (wanted.range.from.unwrap(), wanted.range.to.unwrap());
        assert_eq!((to.duration_since(from).as_secs(), wanted.anonymise), (600, false));
        for wrong in [
            "incident=x",
            "incident=-1",
            "from=yesterday",
            "anonymise=maybe",
            "since=1h",
            "incident=1&from=2026-11-21T03:00:00Z",
        ] {
            assert!(parse(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn open_incident_is_pinned_to_the_end_of_the_capture() {
        let incident = |number, to| Incident {
            number,
            from: 20,
            to,
            pinned_from: 10,
            pinned_to: 40,
            ..Incident::default()
        };
        let known = IncidentSnapshot {
            taken_at: Wall::from_nanos(50),
            open: Some(2),
            incidents: vec![incident(1, 30), incident(2, 0)],
        };
        let (from, to) = (Some(Wall::from_nanos(10)), Some(Wall::from_nanos(40)));
        let pinned = |number| pinned(&known, |incident| incident.number == number);
        assert_eq!(pinned(1), Some(Range { from, to }));
        assert_eq!(pinned(2), Some(Range { from, to: None }));
        assert_eq!(pinned(3), None);
    }
}
