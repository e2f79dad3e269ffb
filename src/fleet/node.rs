//! Reads the verdict of one node's recorder, and `/configz` and `/metrics` of its kubelet, through the API server.

use std::time::Duration;

use super::histogram::BucketHistogram;
use super::recorders::{RecorderPods, RecorderReading};
use super::{ListedNode, wall};
use crate::clock::{Clock, Wall};
use crate::kubelet::http::{self, HttpSession};
use crate::kubelet::{Configz, Metrics};
use crate::report::Seconds;

/// The documents of one node, or why they could not be read.
#[derive(Clone, Debug)]
pub struct NodeReading {
    /// The node in the API server's list.
    pub listed: ListedNode,
    /// The answer of the node's recorder; `None` if no recorder was asked.
    pub recorder: Option<RecorderReading>,
    /// The kubelet's configuration; `None` if it could not be read, or was not requested.
    pub configz: Option<Configz>,
    /// The kubelet's metrics, or the error.
    pub metrics: Result<KubeletMetrics, MetricsError>,
    /// Whether `/configz` was answered again after `/metrics` was silent. Only then does the kubelet itself hang, and
    /// not the API server.
    pub answers_after: bool,
    /// The time that the requests took.
    pub took: Seconds,
}

impl NodeReading {
    /// Returns the time of the metrics, by the API server's clock.
    pub fn measured_at(&self) -> Option<Wall> {
        self.metrics.as_ref().ok().map(|metrics| wall(metrics.now))
    }
}

/// The metrics of a kubelet, with the kubelet's own time.
#[derive(Clone, Debug, PartialEq)]
pub struct KubeletMetrics {
    pub metrics: Metrics,
    /// The histogram of relists since the kubelet started.
    pub relists: BucketHistogram,
    /// The kubelet's time in seconds since the epoch, so that ages are computed with one clock; plegctl's time if the
    /// answer has no date.
    pub now: f64,
}

/// Why the metrics are not known.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum MetricsError {
    /// The request failed.
    #[error(transparent)]
    Http(#[from] http::Error),
    /// The answer is not a page of metrics.
    #[error("its /metrics answers something else: {0}")]
    Other(String),
    /// Nothing was requested, because the recorder reports that a list call hangs, for which `/metrics` waits too.
    #[error("its /metrics was not requested, because a list call hangs")]
    NotRequested,
}

/// The documents of all nodes.
#[derive(Clone, Debug)]
pub struct FleetReading {
    /// When the last node was read.
    pub taken_at: Wall,
    /// The nodes, in the order of their answers.
    pub readings: Vec<NodeReading>,
}

/// Reads what shows whether PLEG is healthy on one node: first its recorder, which answers while a list call hangs. Then
/// `/configz`, which a kubelet answers even if `/metrics` hangs: so a hang is distinguished from a node that cannot be reached.
pub(super) async fn read(
    session: &mut HttpSession<'_>,
    server: &str,
    listed: ListedNode,
    recorders: &RecorderPods,
    timeout: Duration,
    clock: &dyn Clock,
) -> NodeReading {
    let started = clock.mono();
    let recorder = recorders.read_verdict(session, server, &listed.name, timeout).await;
    if recorder.as_ref().is_some_and(RecorderReading::has_silent_list) {
        let took = clock.mono().since(started).into();
        let metrics = Err(MetricsError::NotRequested);
        return NodeReading { listed, recorder, configz: None, metrics, answers_after: false, took };
    }
    let base = format!("{server}/api/v1/nodes/{}/proxy", http::encoded(&listed.name));
    let url = format!("{base}/configz");
    let configz = session.get(&url, timeout).await.and_then(|answer| answer.document(&url));
    // The metrics are read even if the configuration cannot be parsed.
    let configz = configz.ok().map(|text| Configz::parse(&text).unwrap_or_default());
    let metrics = metrics(session, &format!("{base}/metrics"), timeout, clock).await;
    let silent = matches!(&metrics, Err(MetricsError::Http(why)) if why.is_silent());
    // `/configz` is requested again, to find out whether the API server has become silent.
    let answers_after = silent && configz.is_some() && {
        let again = session.get(&url, timeout).await.and_then(|answer| answer.document(&url));
        again.is_ok()
    };
    let took = clock.mono().since(started).into();
    NodeReading { listed, recorder, configz, metrics, answers_after, took }
}

async fn metrics(
    session: &mut HttpSession<'_>,
    url: &str,
    timeout: Duration,
    clock: &dyn Clock,
) -> Result<KubeletMetrics, MetricsError> {
    let answer = session.get(url, timeout).await?;
    let now = answer.date.unwrap_or_else(|| clock.wall().seconds_since(Wall::from_nanos(0)));
    let text = answer.document(url)?;
    let mut metrics = Metrics::parse(&text).map_err(|why| MetricsError::Other(why.to_string()))?;
    let relists = BucketHistogram::new(std::mem::take(&mut metrics.relist_buckets));
    Ok(KubeletMetrics { metrics, relists, now })
}
