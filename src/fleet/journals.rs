//! Reads the journals of a node's kubelet and runtime. The kubelet reads them and answers through the API server's node
//! proxy, if its setting `enableSystemLogQuery` is on.
//!
//! A kubelet up to 1.37 logs the header of `--manifest-url`, which may contain a password, so secrets are removed.

use std::time::Duration;

use super::verdict::error_text;
use super::{ListedNode, NodeRuntime};
use crate::clock::Wall;
use crate::kubelet::http::encoded;
use crate::kubelet::kubeconfig::Cluster;
use crate::report::redaction::without_secrets_of_log;

/// How long before an incident its journals begin.
const BEFORE: Duration = Duration::from_secs(10 * 60);

/// How long after the beginning of an incident its journals end at the latest.
const LONGEST: Duration = Duration::from_secs(20 * 60);

/// How long after the end of an incident its journals end.
const AFTER: Duration = Duration::from_secs(60);

/// The maximum number of lines of one journal: those closest to its end.
const MAX_LINES: usize = 50_000;

/// The largest answer in bytes.
const MAX_BYTES: usize = 32 * 1024 * 1024;

/// What `journalctl` prints if it finds nothing.
const NO_ENTRIES: &str = "-- No entries --";

/// The time of a node whose journals are read, by the clock of the node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct JournalPeriod {
    since: Wall,
    until: Wall,
}

impl JournalPeriod {
    /// Returns the period for an incident, which may still be open.
    pub(super) fn of_incident(from: Wall, to: Option<Wall>) -> Self {
        let longest = from.plus(LONGEST);
        Self { since: from.minus(BEFORE), until: to.map_or(longest, |to| to.plus(AFTER).min(longest)) }
    }
}

/// Returns the units of a node's kubelet and runtime. In k3s and RKE2, both are in one unit, which has another name on a server
/// than on an agent.
pub(super) fn units(node: &ListedNode) -> Vec<&'static str> {
    let version = node.kubelet_version.as_deref().unwrap_or_default();
    if version.contains("+k3s") {
        return vec!["k3s", "k3s-agent"];
    }
    if version.contains("+rke2") {
        return vec!["rke2-server", "rke2-agent"];
    }
    let runtime = match node.runtime.as_ref().map(|NodeRuntime { name, .. }| name.as_str()) {
        Some("cri-o") => "crio",
        _ => "containerd",
    };
    vec!["kubelet", runtime]
}

/// Reads the journal of a unit, without secrets.
pub(super) async fn read(
    cluster: &Cluster,
    node: &str,
    unit: &str,
    period: JournalPeriod,
    timeout: Duration,
) -> Result<String, String> {
    let JournalPeriod { since, until } = period;
    let url = format!(
        "{}/api/v1/nodes/{}/proxy/logs/?query={unit}&sinceTime={}&untilTime={}&tailLines={MAX_LINES}",
        cluster.server,
        encoded(node),
        seconds(since),
        seconds(until)
    );
    let client = cluster.client.clone().with_largest(MAX_BYTES);
    let answer = client.get(&url, timeout).await.and_then(|answer| answer.document(&url));
    let text = answer.map_err(|why| error_text(&why))?;
    // A kubelet without the setting ignores the query, and lists its directory of logs as HTML.
    if text.trim_start().starts_with('<') {
        return Err("the kubelet does not answer log queries (enableSystemLogQuery is off)".to_owned());
    }
    if text.trim().is_empty() || text.trim() == NO_ENTRIES {
        return Err("the journal has no entries".to_owned());
    }
    Ok(without_secrets_of_log(&text))
}

/// Returns a time in RFC 3339, in whole seconds.
fn seconds(time: Wall) -> String {
    let text = time.to_string();
    format!("{}Z", text.get(..19).unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn units_follow_the_distribution_and_the_runtime() {
        let node = |version: &str, runtime: &str| ListedNode {
            kubelet_version: Some(version.to_owned()),
            runtime: Some(NodeRuntime { name: runtime.to_owned(), version: "2.1.4".to_owned() }),
            ..ListedNode::default()
        };
        assert_eq!(units(&node("v1.34.2", "containerd")), ["kubelet", "containerd"]);
        assert_eq!(units(&node("v1.34.2", "cri-o")), ["kubelet", "crio"]);
        assert_eq!(units(&node("v1.34.2+k3s1", "containerd")), ["k3s", "k3s-agent"]);
        assert_eq!(units(&node("v1.34.2+rke2r1", "containerd")), ["rke2-server", "rke2-agent"]);
        assert_eq!(units(&ListedNode::default()), ["kubelet", "containerd"]);
    }

    #[test]
    fn period_begins_before_the_incident_and_is_bounded() {
        let at = |minute: u64| Wall::from_nanos(0).plus(Duration::from_secs(60 * minute));
        let period = |from, to| {
            let period = JournalPeriod::of_incident(from, to);
            (seconds(period.since), seconds(period.until))
        };
        let texts =
            |since: &str, until: &str| (format!("1970-01-01T{since}:00Z"), format!("1970-01-01T{until}:00Z"));
        assert_eq!(period(at(60), Some(at(65))), texts("00:50", "01:06"));
        assert_eq!(period(at(60), Some(at(600))), texts("00:50", "01:20"));
        assert_eq!(period(at(60), None), texts("00:50", "01:20"));
    }
}
