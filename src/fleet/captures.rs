//! Chooses the nodes with the worst incidents, and downloads the captures of these incidents from the nodes' recorders.
//!
//! Only these requests have the recorder's token, in a header of its own.

use std::cmp::Reverse;
use std::time::Duration;

use serde::Serialize;

use super::incidents::IncidentReadings;
use super::recorder::RecorderPod;
use super::recorders::RecorderFinding;
use super::recorders::corrected;
use crate::capture::recorder_verdict::KnownIncident;
use crate::clock::Wall;
use crate::kubelet::kubeconfig::Cluster;

/// The captures that `plegctl nodes --fetch` has downloaded.
#[derive(Clone, Debug, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(tag = "kind", rename_all = "camelCase")]
pub struct FleetCaptures {
    /// When the last capture was downloaded.
    pub taken_at: Wall,
    /// The API server.
    pub server: String,
    /// The kubeconfig context.
    pub context: String,
    /// The directory.
    pub directory: String,
    /// The files, those of the worst incident first.
    pub files: Vec<FetchedFile>,
    /// The number of nodes with incidents beyond `--limit`.
    pub beyond_limit: usize,
    /// The number of nodes that have no recorder, or whose recorder gave no answer.
    pub not_known: usize,
}

/// The capture of one incident.
#[crate::report::omit_none]
#[derive(Clone, Debug, PartialEq, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct FetchedFile {
    /// The node's name.
    pub node: String,
    /// The number of the incident in the node's capture.
    pub incident: u64,
    /// The name of the file in the directory; absent if nothing could be downloaded.
    pub file: Option<String>,
    /// The size of the file.
    pub bytes: Option<usize>,
    /// Why there is no file.
    pub error: Option<String>,
}

/// The worst incident of a node.
#[derive(Clone, Debug, PartialEq)]
pub struct WorstIncident {
    /// The node's name.
    pub node: String,
    /// The number of the incident in the node's capture.
    pub number: u64,
    pod: RecorderPod,
    /// When the incident began, by the clock of the node.
    from: Wall,
}

/// Returns the worst incident of each node, the worst of all first, and the number of nodes of which nothing is known.
/// An incident that lasts is worse than one that is over, then an unhealthy node is worse, then a longer incident.
pub fn worst_incidents(readings: &IncidentReadings) -> (Vec<WorstIncident>, usize) {
    let rank = |incident: &KnownIncident<RecorderFinding>, taken_at: Wall| {
        // The recorder ended during an incident that has no end and is not open, so nobody knows how long it lasted.
        let last_known = if incident.open { taken_at } else { incident.from };
        let seconds = incident.to.unwrap_or(last_known).duration_since(incident.from).as_secs();
        Reverse((incident.open, incident.verdict.as_deref() == Some("unhealthy"), seconds))
    };
    let (mut found, mut not_known) = (Vec::new(), 0);
    for reading in &readings.readings {
        let Some((pod, Ok(known))) = &reading.answer else {
            not_known += 1;
            continue;
        };
        let list = &known.list;
        let ranked = list.incidents.iter().map(|incident| (rank(incident, list.taken_at), incident));
        found.extend(ranked.min_by_key(|(rank, _)| *rank).map(|(rank, worst)| {
            let incident = WorstIncident {
                node: reading.listed.name.clone(),
                number: worst.number,
                pod: pod.clone(),
                from: corrected(worst.from, -known.clock_ahead),
            };
            (rank, incident)
        }));
    }
    found.sort_by(|one, other| (one.0, &one.1.node).cmp(&(other.0, &other.1.node)));
    (found.into_iter().map(|(_, worst)| worst).collect(), not_known)
}

impl WorstIncident {
    /// Downloads the capture of the incident. `token` is the header with the recorder's token.
    pub async fn download(
        &self,
        cluster: &Cluster,
        token: &(String, String),
        anonymise: bool,
        timeout: Duration,
    ) -> Result<Vec<u8>, String> {
        let page = format!("capture?incident={}{}", self.number, if anonymise { "&anonymise=1" } else { "" });
        self.pod.export(cluster, &page, token, timeout).await.map_err(|why| why.to_string())
    }

    /// Returns the name of the file, without its ending; `None` if the node's name cannot be part of a file name. A name in
    /// Kubernetes has only small letters, digits, `-` and `.`. The name contains the time and not the number of the incident,
    /// because the numbers begin again in a new recording.
    pub fn file_name(&self) -> Option<String> {
        let is_known = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || b"-.".contains(&byte);
        let begins_well = self.node.bytes().next().is_some_and(|byte| byte.is_ascii_alphanumeric());
        let is_name = begins_well && self.node.len() <= 200 && self.node.bytes().all(is_known);
        is_name.then(|| format!("{}-{}", self.node, self.from.compact()))
    }
}
