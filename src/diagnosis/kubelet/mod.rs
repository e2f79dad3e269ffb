//! Reads the kubelet's own view: its process, its configuration, `/healthz` and its metrics.
//!
//! It requests only documents that the kubelet produces without a call to the runtime. `/stats/summary` and
//! `/metrics/cadvisor` make such calls, and hang with the runtime.

pub(super) mod files;
mod lazy_api;
pub(super) mod requests;

pub use self::lazy_api::LazyKubeletApi;

use std::path::PathBuf;
use std::time::Duration;

use crate::clock::Wall;
use crate::cri::Outcome;
use crate::kubelet::{Config, KubeletVersion, Metrics};

/// Where the kubelet's metrics come from.
#[derive(Clone, Debug)]
pub enum MetricsSource {
    /// A URL that needs no credential.
    Url(String),
    /// The kubelet's API.
    Api(LazyKubeletApi),
    /// A file, read while the probes run.
    File(PathBuf),
    /// Standard input, read while the probes run.
    Stdin,
    /// Text that was read from a file or from standard input.
    Text {
        /// The name to show.
        name: String,
        /// The text.
        text: String,
        /// When it was written, if it is a file.
        written: Option<Wall>,
    },
    /// A recorded request that was silent for this long.
    Silent(Duration),
}

/// The user's flags about the kubelet.
#[derive(Clone, Debug, Default)]
pub struct KubeletInputs {
    /// The URL of `/healthz`, or its path in [`Self::api`]; `None` leaves the check out.
    pub healthz: Option<String>,
    /// The URL of `/healthz` on this node, which needs neither a credential nor an API server. If it answers,
    /// its answer is used instead of that of [`Self::healthz`].
    pub healthz_on_node: Option<String>,
    /// The kubelet's API, for the configuration, and for the metrics unless they come from elsewhere.
    pub api: Option<LazyKubeletApi>,
    /// Where the metrics come from.
    pub metrics: Option<MetricsSource>,
    /// The kubelet's release.
    pub version: Option<KubeletVersion>,
    /// The time-out of one runtime call.
    pub request_timeout: Option<Duration>,
    /// The age from which on PLEG is unhealthy.
    pub threshold: Option<Duration>,
}

/// The outcome of `/healthz`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Healthz {
    /// The kubelet answered 200.
    Ok,
    /// The kubelet answered with an error.
    Failing {
        /// HTTP status.
        status: u16,
        /// The text of the answer.
        text: String,
    },
    /// The connection was refused.
    Refused,
    /// The kubelet did not answer for this long.
    Silent(Duration),
}

/// One reading of the metrics.
#[derive(Clone, Debug, PartialEq)]
pub struct MetricsReading {
    /// When the metrics were read.
    pub at: Wall,
    /// The metrics.
    pub metrics: Metrics,
}

/// The kubelet's process, settings and answers.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct KubeletEvidence {
    /// The process id, if a kubelet runs here.
    pub pid: Option<u32>,
    /// The age of the process.
    pub age: Option<Duration>,
    /// Whether this node ever had a kubelet: its directory exists.
    pub installed: bool,
    /// The settings from the command line, the configuration file and `/configz`.
    pub config: Config,
    /// The outcome of `/healthz`.
    pub healthz: Option<Healthz>,
    /// The HTTP requests to the kubelet: name, outcome and duration.
    pub requests: Vec<(&'static str, Outcome, Duration)>,
    /// How long `/metrics` was silent while another path with the same permission was answered: the kubelet
    /// itself waits. `None` for a silence that an API server may have caused.
    pub metrics_silent: Option<Duration>,
    /// Why the API gives nothing although it was requested: a credential or a certificate is not accepted.
    pub not_accepted: Option<String>,
    /// First reading of the metrics.
    pub first: Option<MetricsReading>,
    /// The second reading, some seconds later.
    pub second: Option<MetricsReading>,
}

impl KubeletEvidence {
    /// Returns the second reading, else the first one.
    pub fn latest(&self) -> Option<&MetricsReading> {
        self.second.as_ref().or(self.first.as_ref())
    }

    /// Returns the seconds from the latest reading to `now`.
    pub fn reading_age(&self, now: Wall) -> Option<f64> {
        Some(now.seconds_since(self.latest()?.at).max(0.0))
    }

    /// Returns the age of the last relist, by the latest reading.
    pub fn pleg_age(&self) -> Option<f64> {
        let reading = self.latest()?;
        reading.pleg_age()
    }

    /// Whether Evented PLEG is on, as far as the configuration or the metrics show.
    pub fn evented(&self) -> Option<bool> {
        let by_metrics =
            self.latest().map(|reading| reading.metrics.evented_connections.unwrap_or(0.0) > 0.0);
        let by_config = self.config.evented;
        match (by_config, by_metrics) {
            (Some(on), _) => Some(on),
            (None, Some(true)) => Some(true),
            (None, by_metrics) => by_metrics,
        }
    }
}

impl MetricsReading {
    /// Seconds since the last relist, at the time of the reading.
    pub fn pleg_age(&self) -> Option<f64> {
        let seen = self.metrics.last_seen?;
        let now = self.at.seconds_since(Wall::from_nanos(0));
        // The metric has whole seconds, so it may be slightly in the future.
        Some((now - seen).max(0.0))
    }
}
