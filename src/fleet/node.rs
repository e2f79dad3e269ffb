//! One node: what its kubelet's two documents say, or why they say nothing.

use std::time::Duration;

use super::Listed;
use super::histogram::Histogram;
use crate::clock::{Clock, Wall};
use crate::kubelet::http::{self, Session};
use crate::kubelet::{Configz, Metrics};
use crate::report::Seconds;

/// What came back from a node.
#[derive(Clone, Debug)]
pub struct NodeReading {
    /// What the API server says of it.
    pub listed: Listed,
    /// Its configuration, or why not.
    pub configz: Result<Configz, http::Error>,
    /// Its metrics, or why not.
    pub metrics: Result<Read, MetricsTrouble>,
    /// Whether its configuration was answered once more after the metrics had been silent.
    pub answers_after: bool,
    /// What both took.
    pub took: Seconds,
}

/// Metrics, and the kubelet's own time of day with them.
#[derive(Clone, Debug, PartialEq)]
pub struct Read {
    /// The series.
    pub metrics: Metrics,
    /// Of relists, all since its start.
    pub relists: Histogram,
    /// Seconds since the epoch by the clock of who answered, else by ours: an age must not be a difference of two clocks.
    pub now: f64,
}

/// Why there are no metrics.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum MetricsTrouble {
    /// No answer.
    #[error(transparent)]
    Http(#[from] http::Error),
    /// An answer that is something else.
    #[error("its /metrics answers something else: {0}")]
    Other(String),
}

/// What came back from all of them.
#[derive(Clone, Debug)]
pub struct Readings {
    /// When the last one had answered.
    pub taken_at: Wall,
    /// One for each node, in the order of their answers.
    pub readings: Vec<NodeReading>,
}

/// Asks one node. `/configz` comes first: it answers where `/metrics` hangs, and so tells a hang from a node that is gone.
pub(super) async fn read(
    session: &mut Session<'_>,
    server: &str,
    listed: Listed,
    patience: Duration,
    clock: &dyn Clock,
) -> NodeReading {
    let started = clock.mono();
    let base = format!("{server}/api/v1/nodes/{}/proxy", http::encoded(&listed.name));
    let url = format!("{base}/configz");
    let configz = match session.get(&url, patience).await.and_then(|answer| answer.document(&url)) {
        // One that says nothing of use is no reason not to ask on.
        Ok(text) => Ok(Configz::parse(&text).unwrap_or_default()),
        Err(why) => Err(why),
    };
    let metrics = metrics(session, &format!("{base}/metrics"), patience, clock).await;
    let silent = matches!(&metrics, Err(MetricsTrouble::Http(why)) if why.is_silent());
    // An API server that fell silent after the first answer makes no hang of the kubelet.
    let answers_after = silent && configz.is_ok() && {
        let again = session.get(&url, patience).await.and_then(|answer| answer.document(&url));
        again.is_ok()
    };
    NodeReading { listed, configz, metrics, answers_after, took: clock.mono().since(started).into() }
}

async fn metrics(
    session: &mut Session<'_>,
    url: &str,
    patience: Duration,
    clock: &dyn Clock,
) -> Result<Read, MetricsTrouble> {
    let answer = session.get(url, patience).await?;
    let now = answer.date.unwrap_or_else(|| clock.wall().seconds_since(Wall::from_nanos(0)));
    let text = answer.document(url)?;
    let mut metrics = Metrics::parse(&text).map_err(|why| MetricsTrouble::Other(why.to_string()))?;
    let relists = Histogram::new(std::mem::take(&mut metrics.relist_buckets));
    Ok(Read { metrics, relists, now })
}
