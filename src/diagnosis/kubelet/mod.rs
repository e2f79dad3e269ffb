//! The kubelet's own view: its process, its configuration, `/healthz` and its metrics.
//!
//! Only what answers without asking the runtime is read. `/stats/summary` and `/metrics/cadvisor` ask it, and hang
//! with it.

pub(super) mod ask;
mod way;

pub use self::way::Way;

use std::path::PathBuf;
use std::time::Duration;

use crate::clock::Wall;
use crate::cri::Outcome;
use crate::kubelet::{Config, KubeletVersion, Metrics};

/// Where the kubelet's metrics come from.
#[derive(Clone, Debug)]
pub enum MetricsSource {
    /// Asked for without a credential.
    Url(String),
    /// Asked for by its API.
    Api(Way),
    /// Read while the runtime is asked.
    File(PathBuf),
    /// The same of standard input.
    Stdin,
    /// Text that was read from a file or from standard input.
    Text {
        /// What to call it.
        name: String,
        /// The text.
        text: String,
        /// When it was written, if it is a file.
        written: Option<Wall>,
    },
    /// Somebody has asked, and was not answered for so long.
    Silent(Duration),
}

/// What the user said about the kubelet.
#[derive(Clone, Debug, Default)]
pub struct KubeletInputs {
    /// URL of `/healthz`, or its path in [`Self::api`]; `None` leaves it out.
    pub healthz: Option<String>,
    /// URL of `/healthz` on this node, which needs neither a credential nor an API server; where it answers, its answer
    /// counts and not that of [`Self::healthz`].
    pub healthz_on_node: Option<String>,
    /// Its API, for its configuration, and for its metrics unless they come from elsewhere.
    pub api: Option<Way>,
    /// Where its metrics are.
    pub metrics: Option<MetricsSource>,
    /// Its release.
    pub version: Option<KubeletVersion>,
    /// Its time-out of one call.
    pub request_timeout: Option<Duration>,
    /// Age at which PLEG is unhealthy.
    pub threshold: Option<Duration>,
}

/// What `/healthz` came to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Healthz {
    /// It answered 200.
    Ok,
    /// It answered something else, with this text.
    Failing {
        /// HTTP status.
        status: u16,
        /// Its words.
        text: String,
    },
    /// Nobody listens.
    Refused,
    /// It did not answer in time.
    Silent(Duration),
}

/// One reading of the metrics.
#[derive(Clone, Debug, PartialEq)]
pub struct Reading {
    /// When.
    pub at: Wall,
    /// What.
    pub metrics: Metrics,
}

/// What the kubelet shows of itself: its process, what it was told, what it answers.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct KubeletEvidence {
    /// Its process, if one runs here.
    pub pid: Option<u32>,
    /// Age of its process.
    pub age: Option<Duration>,
    /// Whether this node ever had a kubelet: its directory is there.
    pub installed: bool,
    /// What it was told on its command line and in its file.
    pub config: Config,
    /// `/healthz`.
    pub healthz: Option<Healthz>,
    /// What was asked of it over HTTP, and how long that took.
    pub asked: Vec<(&'static str, Outcome, Duration)>,
    /// `/metrics` was silent for so long while another path under the same right answered: the kubelet itself waits. A
    /// silence that an API server may have caused is not here.
    pub metrics_silent: Option<Duration>,
    /// Why its API is of no use although it was asked: a credential or a certificate is not accepted.
    pub not_accepted: Option<String>,
    /// First reading of the metrics.
    pub first: Option<Reading>,
    /// A second one, some seconds later.
    pub second: Option<Reading>,
}

impl KubeletEvidence {
    /// The later reading, or the only one.
    pub fn latest(&self) -> Option<&Reading> {
        self.second.as_ref().or(self.first.as_ref())
    }

    /// How long before `now` the latest reading was made.
    pub fn reading_age(&self, now: Wall) -> Option<f64> {
        Some(now.seconds_since(self.latest()?.at).max(0.0))
    }

    /// Age of the last relist by the latest reading.
    pub fn pleg_age(&self) -> Option<f64> {
        let reading = self.latest()?;
        reading.pleg_age()
    }

    /// Whether Evented PLEG is on, as far as anybody says.
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

impl Reading {
    /// Seconds since the last relist, at the time of the reading.
    pub fn pleg_age(&self) -> Option<f64> {
        let seen = self.metrics.last_seen?;
        let now = self.at.seconds_since(Wall::from_nanos(0));
        // The series has whole seconds; what lies in the future by less is now.
        Some((now - seen).max(0.0))
    }
}
