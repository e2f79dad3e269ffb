//! Decides for every node whether a kubelet of another release would start with the settings that the node's kubelet
//! reports, and whether it would restart the node's static pods.
//!
//! Reads `/configz` of each kubelet. It shows only the fields of the kubelet's configuration. It does not show flags that set
//! no such field, and neither files nor hardware of the node. The report lists these as not checked.

use std::sync::Arc;
use std::time::Duration;

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use super::verdict::error_text;
use super::{FleetRequest, ListedNode, read_each};
use crate::clock::Wall;
use crate::kubelet::KubeletVersion;
use crate::kubelet::http::{self, HttpSession, encoded};
use crate::kubelet::kubeconfig::Cluster;
use crate::manifests::preflight::{
    Builder, StartFinding, TargetKubelet, configz_findings, restarts_every_static_pod,
    unlisted_gates_and_flags,
};
use crate::report::{NotChecked, Severity, plural, word_enum};

/// The number of pods in one page of the list. A node has a few hundred at most.
const PAGE: usize = 500;

/// The maximum number of pages of one node's pods.
const MAX_PAGES: usize = 20;

/// What was read of one node.
#[derive(Clone, Debug)]
pub struct SettingsReading {
    /// The node in the API server's list.
    pub listed: ListedNode,
    /// The kubelet's `/configz`, or the error.
    pub configz: Result<String, http::Error>,
}

#[derive(Deserialize)]
struct PodPage<T> {
    #[serde(default)]
    metadata: super::PageMetadata,
    items: Vec<T>,
}

/// Reads the configuration of every node, and calls `done` after each.
pub async fn read_settings(
    cluster: &Arc<Cluster>,
    nodes: Vec<ListedNode>,
    request: &FleetRequest,
    done: impl Fn(&SettingsReading),
) -> Vec<SettingsReading> {
    let timeout = request.timeout;
    read_each(cluster, nodes, request, done, async move |session, server, listed: ListedNode| {
        let url = format!("{server}/api/v1/nodes/{}/proxy/configz", encoded(&listed.name));
        let configz = session.get(&url, timeout).await.and_then(|answer| answer.document(&url));
        SettingsReading { listed, configz }
    })
    .await
}

/// Lists the pods of a node from the API server.
pub(super) async fn pods_of_node<T: DeserializeOwned>(
    session: &mut HttpSession<'_>,
    server: &str,
    node: &str,
    timeout: Duration,
) -> Result<Vec<T>, String> {
    let selector = encoded(&format!("spec.nodeName={node}"));
    let (mut found, mut next) = (Vec::new(), String::new());
    for _ in 0..MAX_PAGES {
        let mut url = format!("{server}/api/v1/pods?limit={PAGE}&fieldSelector={selector}");
        if !next.is_empty() {
            url.extend(["&continue=", &encoded(&next)]);
        }
        let answer = session.get_as(&url, "*/*", timeout).await;
        let text = answer.and_then(|answer| answer.document(&url)).map_err(|why| error_text(&why))?;
        let page: PodPage<T> =
            serde_json::from_str(&text).map_err(|why| format!("the answer is not a list of pods: {why}"))?;
        found.extend(page.items);
        next = page.metadata.next;
        if next.is_empty() {
            break;
        }
    }
    Ok(found)
}

word_enum! {
    /// Whether a kubelet would start. The variants are ordered from good to bad.
    #[derive(PartialOrd, Ord)]
    pub json enum StartVerdict: as_str {
        /// A kubelet of the other release would accept all settings that the node's kubelet reports.
        Starts = "starts",
        /// The settings could not be read.
        Unknown = "unknown",
        /// A kubelet of the other release would refuse a setting and would not start.
        Refused = "refused",
    }
}

impl StartVerdict {
    /// All verdicts, the worst first.
    pub const ALL: [Self; 3] = [Self::Refused, Self::Unknown, Self::Starts];
}

/// Whether a kubelet of another release would start on each node of a cluster.
#[derive(Clone, Debug, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(tag = "kind", rename_all = "camelCase")]
pub struct FleetPreflight {
    /// When the last node was read.
    pub taken_at: Wall,
    /// The API server.
    pub server: String,
    /// The kubeconfig context.
    pub context: String,
    /// The release that is to start.
    pub upgrade_to: String,
    /// The number of nodes with each verdict, and of those whose static pods restart.
    pub counts: StartCounts,
    /// The answer in one sentence.
    pub summary: String,
    /// The nodes, the worst first.
    pub nodes: Vec<NodePreflight>,
    /// What plegctl could not check on any node, and why.
    pub not_checked: Vec<NotChecked>,
}

/// The number of nodes with each verdict, and of those whose static pods restart.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct StartCounts {
    /// All nodes.
    pub nodes: u64,
    /// Nodes on which a kubelet of the release would start.
    pub starts: u64,
    /// Nodes whose settings could not be read.
    pub unknown: u64,
    /// Nodes on which a kubelet of the release would not start.
    pub refused: u64,
    /// Nodes whose static pods the upgrade restarts.
    pub restarts: u64,
}

impl StartCounts {
    /// Returns the number of nodes with this verdict.
    pub const fn with_verdict(mut self, verdict: StartVerdict) -> u64 {
        *self.count_of(verdict)
    }

    const fn count_of(&mut self, verdict: StartVerdict) -> &mut u64 {
        match verdict {
            StartVerdict::Starts => &mut self.starts,
            StartVerdict::Unknown => &mut self.unknown,
            StartVerdict::Refused => &mut self.refused,
        }
    }
}

/// One node.
#[crate::report::omit_none]
#[derive(Clone, Debug, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct NodePreflight {
    /// Its name.
    pub name: String,
    /// Its verdict.
    pub verdict: StartVerdict,
    /// The first error or warning, or why the verdict is not known.
    pub why: Option<String>,
    /// The version of its kubelet.
    pub kubelet_version: Option<String>,
    /// The findings, in the order in which a starting kubelet would find them.
    pub findings: Vec<StartFinding>,
    /// Whether the upgrade stops and starts again each static pod of the node. Absent if that depends on their manifests,
    /// which are not visible.
    pub restarts_static_pods: Option<bool>,
}

/// Decides the verdicts for the release `target`, the worst first.
pub fn judge(
    readings: Vec<SettingsReading>,
    target: KubeletVersion,
    taken_at: Wall,
    server: &str,
    context: &str,
) -> FleetPreflight {
    let mut nodes: Vec<NodePreflight> = readings.into_iter().map(|reading| node(reading, target)).collect();
    nodes.sort_by(|one, other| other.verdict.cmp(&one.verdict).then_with(|| one.name.cmp(&other.name)));
    let mut counts = StartCounts::default();
    for node in &nodes {
        counts.nodes += 1;
        *counts.count_of(node.verdict) += 1;
        counts.restarts += u64::from(node.restarts_static_pods == Some(true));
    }
    let merged = "/configz has the merged fields only; plegctl preflight on a node sees the flags";
    let unseen = "only plegctl preflight on a node sees them";
    let mut not_checked = vec![
        NotChecked::new("flags that set no field", merged),
        NotChecked::new("certificates, swap, cgroups, ports and disks", unseen),
    ];
    not_checked.extend(unlisted_gates_and_flags(target));
    FleetPreflight {
        taken_at,
        server: server.to_owned(),
        context: context.to_owned(),
        upgrade_to: target.to_string(),
        counts,
        summary: sentence(&counts, target),
        nodes,
        not_checked,
    }
}

/// Formats the summary.
fn sentence(counts: &StartCounts, target: KubeletVersion) -> String {
    let mut text = match counts.refused {
        0 if counts.nodes == counts.unknown => {
            format!("it is not known whether kubelet {target} would start")
        }
        0 => format!("no setting that these kubelets report keeps kubelet {target} from starting"),
        refused => format!("kubelet {target} would not start on {}", plural(refused, "node")),
    };
    if counts.unknown > 0 && counts.unknown < counts.nodes {
        text = format!("{text}; {} could not be judged", plural(counts.unknown, "node"));
    }
    match counts.restarts {
        0 => text,
        nodes => format!(
            "{text}; the upgrade restarts all static pods of {}: upgrade control-plane nodes one after another",
            plural(nodes, "node")
        ),
    }
}

/// Decides the verdict for one node.
fn node(reading: SettingsReading, target: KubeletVersion) -> NodePreflight {
    let SettingsReading { listed, configz } = reading;
    let running = listed.kubelet_version.as_deref().and_then(|version| KubeletVersion::parse(version).ok());
    let kubelet = TargetKubelet { release: target, builder: builder_of(listed.system.as_deref()) };
    let findings = match configz {
        // Without an object `kubeletconfig`, the answer does not come from a kubelet's `/configz`.
        Ok(text) => configz_findings(&text, running, kubelet)
            .ok_or_else(|| "its /configz answers something else".to_owned()),
        Err(why @ (http::Error::Unauthorized { .. } | http::Error::Forbidden { .. })) => {
            Err(format!("no permission to read it: {}", error_text(&why)))
        }
        Err(why) => Err(error_text(&why)),
    };
    let (verdict, why, findings) = match findings {
        Err(why) => (StartVerdict::Unknown, Some(why), Vec::new()),
        Ok(findings) => {
            let first_with = |least: Severity| findings.iter().find(|finding| finding.severity >= least);
            let is_refused = first_with(Severity::Error).is_some();
            let first = first_with(Severity::Error).or_else(|| first_with(Severity::Warning));
            let verdict = if is_refused { StartVerdict::Refused } else { StartVerdict::Starts };
            (verdict, first.map(|finding| finding.message.clone()), findings)
        }
    };
    NodePreflight {
        name: listed.name,
        verdict,
        why,
        kubelet_version: listed.kubelet_version,
        findings,
        restarts_static_pods: running.and_then(|running| restarts_every_static_pod(running, target)),
    }
}

/// Who built the kubelet, from the name of the node's operating system.
fn builder_of(system: Option<&str>) -> Builder {
    match system {
        Some(name) if name.contains("CoreOS") => {
            let is_openshift = ["Red Hat", "CentOS Stream"].iter().any(|vendor| name.contains(vendor));
            // Fedora CoreOS runs kubelets of both kinds.
            if is_openshift { Builder::OpenShift } else { Builder::Unknown }
        }
        Some(_) => Builder::Upstream,
        None => Builder::Unknown,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn reading(name: &str, version: &str, gates: &str) -> SettingsReading {
        SettingsReading {
            listed: ListedNode {
                name: name.to_owned(),
                kubelet_version: Some(version.to_owned()),
                system: Some("Debian GNU/Linux 13 (trixie)".to_owned()),
                ..ListedNode::default()
            },
            configz: Ok(format!("{{\"kubeletconfig\":{{\"featureGates\":{{{gates}}}}}}}")),
        }
    }

    fn judged(readings: Vec<SettingsReading>, target: &str) -> FleetPreflight {
        judge(readings, KubeletVersion::parse(target).unwrap(), Wall::from_nanos(0), "s", "c")
    }

    #[test]
    fn a_node_whose_gate_is_removed_is_refused_and_comes_first() {
        let gate = "\"SidecarContainers\":true";
        let report = judged(vec![reading("n1", "v1.36.2", ""), reading("n2", "v1.36.2", gate)], "1.37");
        let verdicts: Vec<_> = report.nodes.iter().map(|node| (node.name.as_str(), node.verdict)).collect();
        assert_eq!(verdicts, [("n2", StartVerdict::Refused), ("n1", StartVerdict::Starts)]);
        assert!(report.nodes[0].why.as_deref().unwrap().contains("SidecarContainers was removed in 1.37"));
        assert_eq!((report.counts.restarts, report.nodes[0].restarts_static_pods), (2, Some(true)));
        assert!(report.summary.starts_with("kubelet 1.37 would not start on 1 node;"), "{}", report.summary);
        assert!(report.summary.ends_with("one after another"), "{}", report.summary);
    }

    #[test]
    fn an_upgrade_within_a_minor_release_restarts_no_static_pod() {
        let report = judged(vec![reading("n1", "v1.36.2", "")], "1.36");
        assert_eq!((report.counts.restarts, report.nodes[0].restarts_static_pods), (0, Some(false)));
    }

    #[test]
    fn restarts_are_not_known_for_a_release_without_known_uids() {
        let report = judged(vec![reading("n1", "v1.37.1", "")], "1.38");
        assert_eq!((report.counts.restarts, report.nodes[0].restarts_static_pods), (0, None));
    }

    #[test]
    fn a_node_that_cannot_be_read_has_the_verdict_unknown() {
        let url = String::new();
        let mut gone = reading("n1", "v1.36.2", "");
        gone.configz = Err(http::Error::Forbidden { url, text: "no".to_owned() });
        let report = judged(vec![gone], "1.37");
        assert_eq!(report.nodes[0].verdict, StartVerdict::Unknown);
        assert_eq!(report.nodes[0].why.as_deref(), Some("no permission to read it: no"));
        assert!(report.summary.starts_with("it is not known whether kubelet 1.37 would start;"));
    }

    #[test]
    fn the_operating_system_shows_who_built_the_kubelet() {
        assert_eq!(builder_of(Some("Red Hat Enterprise Linux CoreOS 418.94")), Builder::OpenShift);
        assert_eq!(builder_of(Some("Fedora CoreOS 42.20260301")), Builder::Unknown);
        assert_eq!(builder_of(Some("Ubuntu 24.04.3 LTS")), Builder::Upstream);
        assert_eq!(builder_of(None), Builder::Unknown);
    }
}
