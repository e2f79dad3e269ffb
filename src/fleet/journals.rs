//! Reads the journal of a node's kubelet. The kubelet reads it and answers through the API server's node proxy, if its setting `enableSystemLogQuery` is on.
//!
//! A kubelet up to 1.37 logs the header of `--manifest-url`, which may contain a password, so secrets are removed.

use std::time::Duration;

use super::ListedNode;
use super::verdict::error_text;
use crate::clock::{MONTHS, Wall};
use crate::diagnosis::failing_pods::{FailingPod, add_line};
use crate::kubelet::http::encoded;
use crate::kubelet::kubeconfig::Cluster;
use crate::report::escape;
use crate::report::redaction::without_secrets_of_log;

/// How long before an incident its journal begins.
const BEFORE: Duration = Duration::from_secs(10 * 60);

/// The end of the journal of an incident, counted from its beginning.
const LONGEST: Duration = Duration::from_secs(20 * 60);

/// The number of bytes of an answer that are read.
const MAX_BYTES: usize = 32 * 1024 * 1024;

/// The largest distance of a time zone west of UTC.
const WEST: Duration = Duration::from_secs(12 * 3600);

/// How the kubelet's answer begins if journald does not know the unit: the kubelet then looks for a log file, and rejects a query
/// that contains times.
const NO_UNIT: &str = "options present and query resolved to log files";

/// Why there is no journal.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum JournalError {
    /// The journal of this unit has no entries of the period.
    Empty,
    /// The node has no journal of this unit.
    NoUnit,
    /// The kubelet answers no query.
    NotServed(String),
}

/// The journal of a kubelet.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct KubeletJournal {
    /// The text, without secrets.
    pub(super) text: String,
    /// The steps for pods that fail.
    pub(super) failing: Vec<FailingPod>,
}

/// The period for which journals are read, by the clock of the node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct JournalPeriod {
    since: Wall,
    until: Wall,
}

impl JournalPeriod {
    /// Returns the period around the beginning of an incident.
    pub(super) fn around(from: Wall) -> Self {
        Self { since: from.minus(BEFORE), until: from.plus(LONGEST) }
    }

    /// Returns a moment in each minute of this period.
    fn minutes(self) -> impl Iterator<Item = Wall> {
        let minutes = self.until.duration_since(self.since).as_secs() / 60;
        (0..=minutes).map(move |number| self.since.plus(Duration::from_secs(60 * number))).chain([self.until])
    }

    /// Returns when a message of this period was written.
    fn time_of(self, message: &str) -> Option<Wall> {
        let (minute, rest) = message.split_at_checked(MINUTE_SIZE)?;
        let minute = self.minutes().find(|at| minute_of(*at) == minute)?.to_string();
        format!("{}{}Z", minute.get(..RFC_MINUTE_SIZE)?, rest.split(' ').next()?).parse().ok()
    }

    /// Returns the steps for pods that fail, by the errors of the kubelet.
    fn failing(self, messages: &str) -> Vec<FailingPod> {
        let mut failing = Vec::new();
        for message in messages.lines().filter(|line| line.contains("Error syncing pod")) {
            if let (Some(at), Some(line)) = (self.time_of(message), message.get(DATE_SIZE..)) {
                add_line(&mut failing, line, at);
            }
        }
        failing
    }

    /// Returns the messages of this period. Each message begins with its time in UTC, such as `Nov 21 02:00:01.123456`, and its
    /// other lines do not. A text without such times is returned unchanged.
    fn messages(self, text: &str) -> String {
        let inside: Vec<String> = self.minutes().map(minute_of).collect();
        let (mut kept, mut is_inside, mut has_times) = (String::new(), false, false);
        for line in text.split_inclusive('\n') {
            let begin = line.get(..MINUTE_SIZE).unwrap_or_default();
            if begins_with_time(begin) {
                has_times = true;
                is_inside = inside.iter().any(|minute| minute == begin);
                if !is_inside && !kept.is_empty() {
                    break;
                }
            }
            if is_inside {
                kept.push_str(line);
            }
        }
        if has_times { kept } else { text.to_owned() }
    }
}

/// The number of bytes of a time such as `Nov 21 02:00`, of its date with the blank, and of a minute in RFC 3339.
const MINUTE_SIZE: usize = 12;
const DATE_SIZE: usize = 7;
const RFC_MINUTE_SIZE: usize = 16;

/// Returns a time as `journalctl` writes it, up to the minute.
fn minute_of(time: Wall) -> String {
    let text = time.to_string();
    let month = text.get(5..7).and_then(|month| month.parse::<usize>().ok()).unwrap_or(1);
    let month = MONTHS.get(month.wrapping_sub(1)).copied().unwrap_or_default();
    format!("{month} {} {}", text.get(8..10).unwrap_or_default(), text.get(11..16).unwrap_or_default())
}

fn begins_with_time(text: &str) -> bool {
    let shape: String =
        text.chars().map(|letter| if letter.is_ascii_digit() { '0' } else { letter }).collect();
    shape.get(..3).is_some_and(|month| MONTHS.contains(&month)) && shape.get(3..) == Some(" 00 00:00")
}

/// Returns the unit of a node's kubelet.
pub(super) fn unit(node: &ListedNode) -> &'static str {
    match node.kubelet_version.as_deref().unwrap_or_default() {
        version if version.contains("+k3s") => "k3s",
        version if version.contains("+rke2") => "rke2-server",
        _ => "kubelet",
    }
}

/// Reads the journal of a unit.
///
/// The query has no end, because some kubelets pass the beginning to `journalctl` as the end too. `journalctl` takes the beginning
/// as a local time. If the node is west of UTC, the first answer begins too late, so a second query begins twelve hours earlier.
pub(super) async fn read(
    cluster: &Cluster,
    node: &str,
    unit: &str,
    period: JournalPeriod,
    timeout: Duration,
) -> Result<KubeletJournal, JournalError> {
    let first = read_since(cluster, node, unit, period, period.since, timeout).await;
    match first {
        Err(JournalError::Empty) => {
            read_since(cluster, node, unit, period, period.since.minus(WEST), timeout).await
        }
        other => other,
    }
}

/// Reads the journal of a unit with one query.
async fn read_since(
    cluster: &Cluster,
    node: &str,
    unit: &str,
    period: JournalPeriod,
    since: Wall,
    timeout: Duration,
) -> Result<KubeletJournal, JournalError> {
    let url = format!(
        "{}/api/v1/nodes/{}/proxy/logs/?query={unit}&sinceTime={}",
        cluster.server,
        encoded(node),
        since.whole_seconds()
    );
    let answer = cluster.client.get_beginning(&url, MAX_BYTES, timeout).await;
    let text = answer.and_then(|answer| answer.document(&url));
    let text = text.map_err(|why| JournalError::NotServed(error_text(&why)))?;
    // A kubelet without the setting ignores the query, and lists its directory of logs as HTML.
    if text.trim_start().starts_with('<') {
        let why = "the kubelet does not answer log queries (enableSystemLogQuery is off)";
        return Err(JournalError::NotServed(why.to_owned()));
    }
    if text.trim_start().starts_with(NO_UNIT) {
        return Err(JournalError::NoUnit);
    }
    let messages = period.messages(&text);
    // Without entries, `journalctl` prints only remarks.
    if messages.lines().all(|line| line.trim().is_empty() || line.starts_with("-- ")) {
        return Err(JournalError::Empty);
    }
    let failing = period.failing(&messages);
    Ok(KubeletJournal { text: escape::log(&without_secrets_of_log(&messages)), failing })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unit_follows_the_distribution() {
        let node =
            |version: &str| ListedNode { kubelet_version: Some(version.to_owned()), ..ListedNode::default() };
        assert_eq!(unit(&node("v1.34.2")), "kubelet");
        assert_eq!(unit(&node("v1.34.2+k3s1")), "k3s");
        assert_eq!(unit(&node("v1.34.2+rke2r1")), "rke2-server");
        assert_eq!(unit(&ListedNode::default()), "kubelet");
    }

    #[test]
    fn only_messages_of_the_period_are_kept() {
        let from = "2026-12-31T23:58:50Z".parse::<Wall>().unwrap();
        let period = JournalPeriod::around(from);
        let before = "Dec 31 20:00:00.1 n1 kubelet[7]: x\n  more of x\n";
        let inside = "Dec 31 23:48:55.1 n1 kubelet[7]: a\n  more of a\nJan 01 00:18:09.9 n1 kubelet[7]: b\n";
        let after = "Jan 01 00:20:00.0 n1 kubelet[7]: c\n  more of c\n";
        assert_eq!(period.messages(&format!("{before}{inside}{after}")), inside);
        assert_eq!(period.messages(&format!("{before}{after}")), "");
        assert_eq!(period.messages("2026-12-31T23:50 a\nb\n"), "2026-12-31T23:50 a\nb\n");
    }

    #[test]
    fn time_of_a_message_has_the_year_of_its_period() {
        let period = JournalPeriod::around("2026-12-31T23:58:50Z".parse().unwrap());
        let time = |message: &str| period.time_of(message).map(|at| at.to_string());
        for (message, at) in [
            ("Dec 31 23:48:55.125 n1 kubelet[7]: a", "2026-12-31T23:48:55.125"),
            ("Jan 01 00:18:09.5 n1 kubelet[7]: b", "2027-01-01T00:18:09.5"),
        ] {
            assert!(time(message).unwrap().starts_with(at), "{:?}", time(message));
        }
        for other in ["Jan 01 00:40:00.1 n1 kubelet[7]: c", "Dec 31 23:48:é n1", "Dec", ""] {
            assert_eq!(time(other), None, "{other}");
        }
    }
}
