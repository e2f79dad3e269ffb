//! Reads what names the pods of one node: the API server's pods, the kubelet's own list of them, and the kubelet's log. Each
//! document that is refused or absent is one note, with the right that would allow it.

use std::time::Duration;

use serde_json::Value;

use super::journals::{self, JournalError, JournalPeriod};
use super::preflight::pods_of_node;
use super::{ListedNode, error_text};
use crate::clock::Wall;
use crate::diagnosis::input_file::InputFile;
use crate::diagnosis::outside::OutsidePod;
use crate::diagnosis::report::NotChecked;
use crate::kubelet::KubeletApi;
use crate::kubelet::kubeconfig::Cluster;

/// What the kubelet logs of a call that had no answer within its time limit.
const NO_ANSWER: [&str; 2] = ["DeadlineExceeded", "context deadline exceeded"];

/// The number of the last lines about calls without an answer that are kept.
const MAX_LINES: usize = 200;

/// What names the pods of a node.
#[derive(Clone, Debug, Default)]
pub struct NodeObjects {
    /// The pods that the API server or the kubelet has.
    pub pods: Vec<OutsidePod>,
    /// The lines of the kubelet's log about calls that had no answer.
    pub log: Vec<String>,
    /// What could not be read.
    pub not_checked: Vec<NotChecked>,
    /// What was read, without secrets, if it is to be kept.
    pub input_files: Vec<InputFile>,
}

/// Reads the documents, one after the other. The kubelet's log is read from ten minutes before `from` on.
pub async fn read_objects(
    cluster: &Cluster,
    node: &ListedNode,
    from: Wall,
    timeout: Duration,
    keep: bool,
) -> NodeObjects {
    let mut objects = NodeObjects::default();
    let mut session = cluster.client.session();
    match pods_of_node::<Value>(&mut session, &cluster.server, &node.name, "*/*", timeout).await {
        Ok(pods) => objects.pods = pods.iter().filter_map(OutsidePod::of).collect(),
        Err(why) => objects.skip("the node's pods", &why, "`list` on pods"),
    }
    let has_pods = !objects.pods.is_empty();
    match kubelets_pods(&KubeletApi::through(cluster, &node.name), timeout).await {
        Ok(kubelets) if has_pods => OutsidePod::add_kubelets(&mut objects.pods, kubelets),
        Ok(kubelets) => objects.pods = kubelets,
        Err(why) => objects.skip("the kubelet's /pods", &why, "`get` on nodes/proxy"),
    }
    let unit = journals::units(node).first().copied().unwrap_or("kubelet");
    let period = JournalPeriod::of_incident(from, None);
    match journals::read(cluster, &node.name, unit, period, timeout).await {
        Ok(text) => {
            objects.log = lines_without_answer(&text);
            let about = "the kubelet's journal, without secrets";
            objects.input_files.extend(keep.then(|| InputFile::new("journal.txt", about, text)));
        }
        Err(JournalError::NotServed(why)) => {
            objects.skip(
                "the kubelet's log",
                &why,
                "`get` on nodes/proxy and the setting enableSystemLogQuery",
            );
        }
        Err(JournalError::Empty(_) | JournalError::NoUnit(_)) => {}
    }
    if let Some(pods) = serde_json::to_vec_pretty(&objects.pods).ok().filter(|_| keep) {
        let about = "the node's pods: names, containers and times of changes, and nothing else of them";
        objects.input_files.push(InputFile::whole("pods.json", about, pods));
    }
    objects
}

/// Reads the kubelet's own list of its pods.
async fn kubelets_pods(kubelet: &KubeletApi, timeout: Duration) -> Result<Vec<OutsidePod>, String> {
    let answer = kubelet.get("/pods", timeout).await;
    let text = answer.and_then(|answer| answer.document("/pods")).map_err(|why| error_text(&why))?;
    let list: Value =
        serde_json::from_str(&text).map_err(|why| format!("the answer is not a list of pods: {why}"))?;
    Ok(OutsidePod::all_of(&list))
}

fn lines_without_answer(text: &str) -> Vec<String> {
    let is_wanted = |line: &&str| NO_ANSWER.iter().any(|words| line.contains(words));
    let lines: Vec<String> = text.lines().filter(is_wanted).map(str::to_owned).collect();
    lines.get(lines.len().saturating_sub(MAX_LINES)..).unwrap_or_default().to_vec()
}

impl NodeObjects {
    fn skip(&mut self, what: &str, why: &str, right: &str) {
        self.not_checked.push(NotChecked { what: what.to_owned(), why: format!("{why}; it needs {right}") });
    }
}
