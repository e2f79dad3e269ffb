//! The URL source: converts each answer of a manifest URL into a set of pods (pkg/kubelet/config/http.go).
//!
//! This module makes no request; the caller passes in the answers.

use std::path::Path;
use std::sync::Arc;

use super::WantedPod;
use crate::pipeline::{judge, judge_item};
use crate::uid::uid_from_url;
use crate::{FileReport, Kubelet};
use plegctl_api_values::tree::{ManifestNode, Value};

/// The largest body that the kubelet reads (maxConfigLength in pkg/kubelet/config/file.go).
pub const BODY_LIMIT: u64 = 10 << 20;

/// The kubelet's URL source, which reads `staticPodURL`.
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
    /// The complete set of pods, if the source sends a set.
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
        let failed = |why: String| UrlAnswer { set: None, error: Some(why) };
        if status != 200 {
            return failed(format!("{url}: {status}"));
        }
        if body.is_empty() {
            let error = Some(format!("zero-length data received from {url}"));
            return UrlAnswer { set: Some(Vec::new()), error };
        }
        if self.last.as_deref() == Some(body) {
            return UrlAnswer::default();
        }
        // Like the kubelet, stores the body before parsing it, so that an invalid body is parsed only once.
        self.last = Some(body.to_vec());
        match judge_body(url, body, &self.kubelet) {
            Ok(reports) => match reports.iter().map(|report| accepted_pod(report).map(Arc::new)).collect() {
                Ok(set) => UrlAnswer { set: Some(set), error: None },
                Err(why) => failed(why),
            },
            Err(why) => failed(why),
        }
    }
}

/// Returns the verdict on a Pod or on each item of a `PodList`. If the body is neither, returns the kubelet's error
/// text.
fn judge_body(url: &str, body: &[u8], kubelet: &Kubelet) -> Result<Vec<FileReport>, String> {
    let whole = judge(Path::new(url), None, body, kubelet);
    let Some(document) = &whole.document else { return Err(neither(url, &whole)) };
    let json = document.notes.json;
    let mut reports = if document.pod.is_some() {
        vec![whole]
    } else if let Some(items) = document.root.as_ref().and_then(pod_list) {
        items.iter().map(|item| judge_item(Path::new(url), item, document, kubelet)).collect()
    } else {
        return Err(neither(url, &whole));
    };
    for report in &mut reports {
        let pod = report.document.as_ref().and_then(|document| document.pod.as_ref());
        report.uid = pod.map(|pod| uid_from_url(&pod.pod, kubelet, url, json));
    }
    Ok(reports)
}

/// Returns the kubelet's error for a body that is neither a Pod nor a `PodList`.
fn neither(url: &str, report: &FileReport) -> String {
    let why = report.kubelet_reason.as_deref().unwrap_or_default();
    format!("{url}: the answer is neither a Pod nor a PodList: {why}")
}

/// Returns the pod of an item, or why the kubelet rejects the item and so the whole list.
fn accepted_pod(report: &FileReport) -> Result<WantedPod, String> {
    let reason = || report.kubelet_reason.clone().unwrap_or_else(|| "the pod is not accepted".to_owned());
    WantedPod::of_file(report).ok_or_else(reason)
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
