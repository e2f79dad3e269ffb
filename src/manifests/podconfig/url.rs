//! The URL source: turns each answer into a set of pods (pkg/kubelet/config/http.go).

use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::WantedPod;
use crate::manifests::pipeline::{judge, judge_item};
use crate::manifests::tree::{ManifestNode, Value};
use crate::manifests::uid::uid_from_url;
use crate::manifests::{FileReport, FileVerdict, Kubelet, PathKind, SourceReport};

/// The largest body that the kubelet reads (maxConfigLength in pkg/kubelet/config/file.go).
pub const BODY_LIMIT: u64 = 10 << 20;

/// A URL that serves manifests.
#[derive(Debug)]
pub struct UrlSource {
    url: String,
    kubelet: Kubelet,
    /// The last body that was not empty, whether or not it could be parsed.
    last: Option<Vec<u8>>,
}

/// The result of one answer.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct UrlAnswer {
    /// The complete set of pods, if the source sends one.
    pub set: Option<Vec<Arc<WantedPod>>>,
    /// The error that the kubelet logs.
    pub error: Option<String>,
}

impl UrlSource {
    /// Creates a source that has not received an answer.
    pub fn new(url: &str, kubelet: Kubelet) -> Self {
        Self { url: url.to_owned(), kubelet, last: None }
    }

    /// Handles an answer with `status` and `body`.
    pub fn answered(&mut self, status: u16, body: &[u8]) -> UrlAnswer {
        let url = &self.url;
        let trouble = |why: String| UrlAnswer { set: None, error: Some(why) };
        if status != 200 {
            return trouble(format!("{url}: {status}"));
        }
        if body.is_empty() {
            let error = Some(format!("zero-length data received from {url}"));
            return UrlAnswer { set: Some(Vec::new()), error };
        }
        if self.last.as_deref() == Some(body) {
            return UrlAnswer::default();
        }
        // Stored before parsing, as in the kubelet: a bad body is not tried again, and a return to an old body is a
        // change.
        self.last = Some(body.to_vec());
        match served(url, body, &self.kubelet) {
            Ok(reports) => match reports.iter().map(|report| taken(report).map(Arc::new)).collect() {
                Ok(set) => UrlAnswer { set: Some(set), error: None },
                Err(why) => trouble(why),
            },
            Err((_, why)) => trouble(why),
        }
    }
}

/// Returns the kubelet's verdict on what a URL serves, file by file, as for a path.
pub fn inspect_url(url: &str, body: &[u8], kubelet: &Kubelet) -> SourceReport {
    let mut files = match served(url, body, kubelet) {
        Ok(files) => files,
        Err((report, why)) => vec![FileReport { kubelet_reason: Some(why), ..*report }],
    };
    let several = files.len() > 1;
    let any = |verdict| files.iter().any(|file| file.verdict == verdict);
    let (refused, unjudged) = (any(FileVerdict::Rejected), any(FileVerdict::NotJudged));
    for (number, file) in files.iter_mut().enumerate().filter(|_| several) {
        file.path = PathBuf::from(format!("{url}#{number}"));
        if refused && file.verdict == FileVerdict::Loaded {
            file.verdict = FileVerdict::Rejected;
            file.kubelet_reason = Some(
                "the kubelet refuses another pod of the list, and therefore takes none of the list"
                    .to_owned(),
            );
        } else if unjudged && file.verdict == FileVerdict::Loaded {
            file.verdict = FileVerdict::NotJudged;
        }
    }
    SourceReport { path: PathBuf::from(url), kind: PathKind::File, files, findings: Vec::new() }
}

/// Parses one Pod or the items of a list. On failure, returns the parsed file and the kubelet's error text.
fn served(url: &str, body: &[u8], kubelet: &Kubelet) -> Result<Vec<FileReport>, (Box<FileReport>, String)> {
    let mut one = judge(Path::new(url), None, body, kubelet);
    let Some(document) = &one.document else { return Err(neither(url, one)) };
    let json = document.notes.json;
    let mut reports = if document.pod.is_some() {
        vec![one]
    } else if let Some(items) = document.root.as_ref().and_then(pod_list) {
        items.iter().map(|item| judge_item(Path::new(url), item, document, kubelet)).collect()
    } else {
        // The kubelet logs no more than that; the findings about the Pod stay.
        one.verdict = FileVerdict::Rejected;
        return Err(neither(url, one));
    };
    for report in &mut reports {
        let pod = report.document.as_ref().and_then(|document| document.pod.as_ref());
        report.uid = pod.map(|pod| uid_from_url(&pod.pod, kubelet, url, json));
    }
    Ok(reports)
}

fn neither(url: &str, report: FileReport) -> (Box<FileReport>, String) {
    let why = report.kubelet_reason.as_deref().unwrap_or_default();
    let why = format!("{url}: received what is neither a Pod nor a PodList: {why}");
    (Box::new(report), why)
}

/// If the kubelet rejects one item, it rejects all.
fn taken(report: &FileReport) -> Result<WantedPod, String> {
    let refused = || report.kubelet_reason.clone().unwrap_or_else(|| "it is not taken".to_owned());
    WantedPod::of_file(report).ok_or_else(refused)
}

/// Returns the items of a `PodList`. The kubelet does not accept a `List` of Pods.
fn pod_list(root: &ManifestNode) -> Option<Vec<ManifestNode>> {
    let is = |key: &str, text: &str| root.get(key).and_then(ManifestNode::as_str) == Some(text);
    if !is("kind", "PodList") || !is("apiVersion", "v1") {
        return None;
    }
    Some(match root.get("items") {
        Some(ManifestNode { value: Value::List(items), .. }) => items.to_vec(),
        _ => Vec::new(),
    })
}
