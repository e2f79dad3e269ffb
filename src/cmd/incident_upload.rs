//! `record --on-incident-put URL`: sends the capture of each incident to an object store, so that the evidence outlives the
//! node: once when the incident has begun and is diagnosed, and again, complete, when the period after its end is over too
//! (`--after`).
//!
//! A separate thread sends one capture at a time, so that no relist is delayed, and another one exports it, piece by piece,
//! so that the export is never in memory as a whole. The query of the URL may be a signature, so no message contains it.

use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::oneshot;

use super::incident_delivery::{DeliveryCounts, deliver};
use super::incident_steps::{IncidentStep, IncidentSteps, PERIOD};
use super::recorder_exports::IncidentExport;
use crate::capture::entry::Incident;
use crate::capture::recording::RecordingView;
use crate::clock::Wall;
use crate::kubelet::http::{self, HttpClient, PieceWriter, RequestBody, WriteMethod, encoded};
use crate::report::load::load;
use crate::threads;

/// The longest URL in bytes.
const MAX_URL: usize = 8192;

/// A header that Azure's object store needs for a PUT, and that other stores ignore.
const BLOB_TYPE: (&str, &str) = ("x-ms-blob-type", "BlockBlob");

/// The pauses between the attempts to send a capture.
const PAUSES: [Duration; 3] = [Duration::from_secs(5), Duration::from_secs(30), Duration::from_secs(120)];

/// Why there is no result of a thread that has panicked.
const FAILED: &str = "plegctl itself failed";

/// The time limit of one attempt, in which the capture is exported too.
const TIMEOUT: Duration = Duration::from_secs(120);

/// Where captures are sent: a URL, or a file that contains it and is read each time.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum UploadTarget {
    Url(String),
    File(PathBuf),
}

impl UploadTarget {
    /// Parses a URL or `@FILE`.
    pub fn parse(text: &str) -> Result<Self, String> {
        if let Some(file) = text.strip_prefix('@').filter(|file| !file.is_empty()) {
            return Ok(Self::File(PathBuf::from(file)));
        }
        let target = Self::Url(text.to_owned());
        target.url("node", 1, Wall::default()).map(|_| target)
    }

    /// Whether captures are sent without encryption.
    pub fn is_plain(&self) -> bool {
        self.url("node", 1, Wall::default()).is_ok_and(|url| url.starts_with("http://"))
    }

    /// Returns the URL for an incident of a node.
    fn url(&self, node: &str, incident: u64, from: Wall) -> Result<String, String> {
        let text = match self {
            Self::Url(text) => text.clone(),
            Self::File(path) => {
                let bytes = load(path, MAX_URL).map_err(|why| format!("{}: {why}", path.display()))?;
                String::from_utf8_lossy(&bytes).trim().to_owned()
            }
        };
        let url = text.replace("{node}", &encoded(node)).replace("{incident}", &incident.to_string());
        let url = url.replace("{from}", &from.compact());
        http::check(&url).map_err(|_| "it is not an http or https URL with a host".to_owned())?;
        Ok(url)
    }
}

/// Starts the thread that sends the captures of `node`, which are in `directory`.
pub fn start(
    target: UploadTarget,
    node: String,
    directory: PathBuf,
    view: RecordingView,
) -> io::Result<Arc<DeliveryCounts>> {
    let counts = Arc::new(DeliveryCounts::default());
    let sent = Arc::clone(&counts);
    threads::run_event_loop("uploads", async move {
        let (mut steps, mut waiting) = (IncidentSteps::default(), Vec::new());
        loop {
            let known = view.incidents();
            waiting.extend(steps.due(&known));
            // The end of an incident is exported when the period that is kept after it is over too.
            let is_due = |step: &IncidentStep, incident: &Incident| {
                *step == IncidentStep::Begun || Wall::from_nanos(incident.pinned_to) <= known.taken_at
            };
            for (_, incident) in waiting.extract_if(.., |(step, incident)| is_due(step, incident)) {
                let outcome = deliver(&PAUSES, || send(&target, &node, &directory, &view, &incident)).await;
                sent.add("cannot send the capture of an incident", outcome);
            }
            tokio::time::sleep(PERIOD).await;
        }
    })?;
    Ok(counts)
}

/// Exports the capture of an incident and sends it once.
async fn send(
    target: &UploadTarget,
    node: &str,
    directory: &Path,
    view: &RecordingView,
    incident: &Incident,
) -> Result<(), String> {
    let (sender, export) = oneshot::channel();
    let (directory, view, from) = (directory.to_path_buf(), view.clone(), incident.from);
    threads::spawn("upload", move || export_in_pieces(&directory, &view, from, sender))
        .map_err(|why| why.to_string())?;
    let (body, written) = export.await.map_err(|_| FAILED)??;
    let url = target.url(node, incident.number, Wall::from_nanos(incident.from))?;
    let client = HttpClient::default().with_headers(&[(BLOB_TYPE.0.to_owned(), BLOB_TYPE.1.to_owned())]);
    match client.write(WriteMethod::Put, &url, "application/octet-stream", body, TIMEOUT).await {
        // A store may accept a body whose end is missing.
        Ok(answer) if (200..300).contains(&answer.status) => match written.await {
            Ok(written) => written.map_err(|why| format!("the capture has changed while it was sent: {why}")),
            Err(_) => Err(FAILED.to_owned()),
        },
        // The body of an answer may quote the URL.
        Ok(answer) => Err(format!("`{}` answers {}", without_query(&url), answer.status)),
        Err(why) => Err(why.to_string().replace(&url, without_query(&url))),
    }
}

/// The body of a request, and whether all of it could be written.
type WrittenBody = (RequestBody, oneshot::Receiver<io::Result<()>>);

/// Exports the capture of the incident that began at this time. Sends the body as soon as its length is known, and then writes
/// it. Everything happens in one thread, because the memory that a thread has freed is not available to another one.
fn export_in_pieces(
    directory: &Path,
    view: &RecordingView,
    from: i64,
    sender: oneshot::Sender<Result<WrittenBody, String>>,
) {
    let export = match IncidentExport::open(directory, view, from) {
        Ok(export) => export,
        Err(why) => {
            // Nobody waits for the result of a request that has failed; so below.
            let _ = sender.send(Err(why));
            return;
        }
    };
    let (writer, body) = RequestBody::pieces(export.length);
    let (written, result) = oneshot::channel();
    if sender.send(Ok((body, result))).is_ok() {
        let _ = written.send(write(&export, writer));
    }
}

/// Writes an export in pieces.
fn write(export: &IncidentExport, writer: PieceWriter) -> io::Result<()> {
    let mut pieces = io::BufWriter::new(writer);
    export.write(&mut pieces)?;
    pieces.flush()?;
    pieces.into_inner().map_err(io::IntoInnerError::into_error)?.end()
}

/// Returns a URL without the part that may be a signature.
fn without_query(url: &str) -> &str {
    url.split(['?', '#']).next().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn placeholders_are_filled_in_and_wrong_urls_are_refused() {
        let target =
            UploadTarget::parse("https://s.example/b/{node}/{from}-{incident}.plegcap?sig=a%2Fb").unwrap();
        let from = Wall::from_nanos(1_700_000_000_000_000_000);
        let url = "https://s.example/b/n%201/20231114T221320Z-3.plegcap?sig=a%2Fb";
        assert_eq!(target.url("n 1", 3, from).unwrap(), url);
        for wrong in ["", "@", "s3://bucket", "https://user@host/", "https://"] {
            assert!(UploadTarget::parse(wrong).is_err(), "{wrong}");
        }
        assert_eq!(UploadTarget::parse("@/upload/url"), Ok(UploadTarget::File("/upload/url".into())));
        assert_eq!(without_query("https://s/b?sig=x#y"), "https://s/b");
    }
}
