//! Makes the pages that the recorder serves over HTTP in addition to its metrics: `/verdict` ([`RecorderVerdict`]) and
//! `/incidents` ([`IncidentList`]). `plegctl health --node` reads the verdict through the API server. Pages that need a token
//! are in [`crate::cmd::serve::recorder_exports`].

use std::sync::Arc;
use std::time::Duration;

use crate::capture::recorder_verdict::{IncidentList, RecorderVerdict};
use crate::capture::recording::{IncidentSnapshot, RecordingSnapshot, RecordingView};
use crate::cmd::render::page::Page;
use crate::cmd::render::{PLAIN, health as text};
use crate::cmd::serve::metrics_server::{HttpReply, HttpRequest, Pages};
use crate::cmd::serve::recorder_exports::Exports;
use crate::report::document;

/// The period of `/incidents` without `since`.
const DEFAULT_PERIOD: Duration = Duration::from_secs(24 * 60 * 60);

/// Returns the pages of a recording of `node` at `endpoint`.
pub fn pages(view: RecordingView, (node, endpoint): (String, String), exports: Arc<Exports>) -> Pages {
    Arc::new(move |request| {
        exports.page(request).or_else(|| match request.path {
            "/verdict" => Some(verdict_page(request, &view.snapshot(), &node, &endpoint).into()),
            "/incidents" => Some(incidents_page(request, &view.incidents(), &node).into()),
            _ => None,
        })
    })
}

fn verdict_page(
    request: &HttpRequest<'_>,
    snapshot: &RecordingSnapshot,
    node: &str,
    endpoint: &str,
) -> HttpReply {
    let mut wants_json = request.accepts_json;
    for (name, value) in request.parameters() {
        match (name, value) {
            ("o", "json") => wants_json = true,
            ("o", "text") => wants_json = false,
            _ => return HttpReply::bad_request("/verdict takes only o=json, o=text and facts=true"),
        }
    }
    let verdict = RecorderVerdict::from_snapshot(snapshot, node, endpoint);
    if wants_json {
        return HttpReply::json(&document(&verdict));
    }
    let mut screen = Vec::new();
    let mut page = Page::new(&mut screen, PLAIN);
    // Writing to memory cannot fail.
    let _ = text::screen(&verdict.into_report(), &mut page, text::ScreenStyle::default());
    HttpReply::text(String::from_utf8_lossy(&screen).into_owned())
}

fn incidents_page(request: &HttpRequest<'_>, known: &IncidentSnapshot, node: &str) -> HttpReply {
    let mut period = DEFAULT_PERIOD;
    for (name, value) in request.parameters() {
        match (name, humantime::parse_duration(value)) {
            ("since", Ok(since)) => period = since,
            ("since", Err(_)) => return HttpReply::bad_request("since takes a duration such as 24h"),
            ("o", _) if value == "json" => {}
            _ => {
                return HttpReply::bad_request("/incidents takes only since=DURATION, for example since=24h");
            }
        }
    }
    HttpReply::json(&document(&IncidentList::from_snapshot(known, period, node)))
}
