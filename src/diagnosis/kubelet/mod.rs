//! Reads what the kubelet shows of itself: its process, its configuration, `/healthz` and its metrics.
//!
//! It does not request `/stats/summary` and `/metrics/cadvisor`, for which the kubelet makes many calls to the runtime. Of
//! the requested documents, only `/metrics` can hang together with the runtime, because of one list call.

pub(super) mod files;
mod lazy_api;
mod pods;
pub(super) mod requests;
mod runs;
pub(super) mod start;

pub use self::lazy_api::LazyKubeletApi;
#[cfg(test)]
pub use self::pods::read as read_stuck_pods;
pub use self::pods::{PodsSource, StuckPod};
pub use self::runs::{KubeletExit, KubeletRuns};

use std::borrow::Cow;
use std::path::PathBuf;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::clock::Wall;
use crate::cri::Outcome;
use crate::kubelet::{Config, KubeletVersion, Metrics};
use crate::manifests::preflight::{CertificateUse, StartFinding};
use crate::report::Rename;

/// Where the kubelet's metrics come from.
#[derive(Clone, Debug)]
pub enum MetricsSource {
    /// A URL that needs no credential.
    Url(String),
    /// The kubelet's API.
    Api(LazyKubeletApi),
    /// A file that the run has to read.
    File(PathBuf),
    /// The standard input, which the run has to read.
    Stdin,
    /// Text that was already read from a file or from the standard input.
    Text {
        /// The name to show.
        name: String,
        /// The text.
        text: String,
        /// When it was written, if it is a file.
        written: Option<Wall>,
    },
    /// A request in a capture that was silent for this long.
    Silent(Duration),
}

/// The user's flags about the kubelet.
#[derive(Clone, Debug, Default)]
pub struct KubeletInputs {
    /// The URL of `/healthz`, or its path in [`Self::api`]; `None` leaves the check out.
    pub healthz: Option<String>,
    /// The URL of `/healthz` on this node, which needs neither a credential nor an API server. An answer from this URL is
    /// used instead of an answer from [`Self::healthz`].
    pub healthz_on_node: Option<String>,
    /// The kubelet's API, for the configuration, and for the metrics unless [`Self::metrics`] names another source.
    pub api: Option<LazyKubeletApi>,
    /// Where the metrics come from.
    pub metrics: Option<MetricsSource>,
    /// Where the kubelet's own pods come from.
    pub pods: Option<PodsSource>,
    /// The kubelet's release.
    pub version: Option<KubeletVersion>,
    /// The time-out of one runtime call.
    pub request_timeout: Option<Duration>,
    /// The age at which PLEG is unhealthy.
    pub threshold: Option<Duration>,
}

/// The outcome of `/healthz`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, Rename)]
#[names(Text(text))]
#[serde(rename_all = "camelCase", rename_all_fields = "camelCase")]
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

/// A certificate that is not valid now.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, Rename)]
#[names(NodePath(path))]
#[serde(rename_all = "camelCase")]
pub struct InvalidCertificate {
    /// The file.
    pub path: String,
    /// What it is for.
    pub usage: CertificateUse,
    /// Whether the certificate has expired; otherwise it is not valid yet.
    pub is_expired: bool,
    /// When it expired, or when it becomes valid, in seconds since the Unix epoch.
    pub at: i64,
    /// Whether the kubelet replaces it at its next start.
    pub is_replaced_at_start: bool,
}

/// One reading of the metrics.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, Rename)]
#[serde(rename_all = "camelCase")]
pub struct MetricsReading {
    /// When the metrics were read.
    pub at: Wall,
    /// The metrics.
    pub metrics: Metrics,
}

/// The kubelet's process, settings and answers.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, Rename)]
#[names(Version(program_version), Word(requests), Text(not_accepted))]
#[serde(rename_all = "camelCase", default)]
pub struct KubeletEvidence {
    /// The process id, if a kubelet runs here.
    pub pid: Option<u32>,
    /// The age of the process.
    pub age: Option<Duration>,
    /// Whether a kubelet is or was installed on this node: its directory exists.
    pub installed: bool,
    /// The settings from the command line, the configuration file and `/configz`.
    pub config: Config,
    /// The version in the kubelet's program, if it was read.
    pub program_version: Option<String>,
    /// The first error that preflight finds in the settings of a kubelet that does not run.
    pub start_error: Option<StartFinding>,
    /// The certificates that the kubelet's settings name and that are not valid now.
    pub certificates: Vec<InvalidCertificate>,
    /// The outcome of `/healthz`.
    pub healthz: Option<Healthz>,
    /// The HTTP requests to the kubelet: name, outcome and duration.
    pub requests: Vec<(Cow<'static, str>, Outcome, Duration)>,
    /// The pods that wait to start or should have ended, as the kubelet's Pods API lists them.
    pub stuck_pods: Vec<StuckPod>,
    /// How long `/metrics` was silent while another path with the same permission was answered, so that the kubelet
    /// itself waits. `None` for a silence that an API server may have caused.
    pub metrics_silent: Option<Duration>,
    /// Why the API refused plegctl's credential, or plegctl the API's certificate.
    pub not_accepted: Option<String>,
    /// The first reading of the metrics.
    pub first: Option<MetricsReading>,
    /// The second reading, some seconds later.
    pub second: Option<MetricsReading>,
}

impl KubeletEvidence {
    /// Returns the second reading, or the first one if there is no second.
    pub fn latest(&self) -> Option<&MetricsReading> {
        self.second.as_ref().or(self.first.as_ref())
    }

    /// Returns the seconds from the latest reading to `now`.
    pub fn reading_age(&self, now: Wall) -> Option<f64> {
        Some(now.seconds_since(self.latest()?.at).max(0.0))
    }

    /// Returns the age of the last relist in seconds, at the time of the latest reading.
    pub fn pleg_age(&self) -> Option<f64> {
        self.latest()?.pleg_age()
    }

    /// Returns whether Evented PLEG is on, if the configuration or the metrics show it. The configuration counts first.
    pub fn evented(&self) -> Option<bool> {
        let by_metrics = |reading: &MetricsReading| reading.metrics.evented_connections.unwrap_or(0.0) > 0.0;
        self.config.evented.or_else(|| self.latest().map(by_metrics))
    }
}

impl MetricsReading {
    /// Returns the age of the last relist in seconds, at the time of the reading.
    pub fn pleg_age(&self) -> Option<f64> {
        let last_relist = self.metrics.last_seen?;
        let now = self.at.seconds_since(Wall::from_nanos(0));
        // The metric has whole seconds, so it may be slightly in the future.
        Some((now - last_relist).max(0.0))
    }
}
