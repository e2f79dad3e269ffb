//! `--list-calls`: the calls with which a command lists sandboxes and containers.

use clap::{Args, ValueEnum};

use crate::cmd::node::Node;
use crate::cmd::session::Session;
use crate::cri::{Client, Runtime};
use crate::kubelet::{KubeletLists, KubeletVersion, ListCalls, ListCallsSource};
use crate::pleg::report::ListCallsReport;

/// The list calls that the user wants.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum ListCallsChoice {
    /// Those that this node's kubelet makes
    Auto,
    /// `ListPodSandbox` and `ListContainers`
    Unary,
    /// `StreamPodSandboxes` and `StreamContainers` (CRI 1.36)
    Stream,
}

#[derive(Clone, Copy, Debug, Args)]
pub struct ListCallsArgs {
    /// List calls to make; -v says which are made and why
    #[arg(long, value_name = "CALLS", default_value = "auto")]
    list_calls: ListCallsChoice,
}

impl ListCallsArgs {
    /// Returns the list calls that the user wants; `None` for those of the kubelet.
    pub fn wanted(self) -> Option<ListCalls> {
        match self.list_calls {
            ListCallsChoice::Auto => None,
            ListCallsChoice::Unary => Some(ListCalls::Unary),
            ListCallsChoice::Stream => Some(ListCalls::Stream),
        }
    }
}

/// Returns the client with the list calls that the user wants, or those of the kubelet, and why. `release` is the kubelet's
/// release, if the caller knows it.
pub async fn choose(
    client: Client,
    session: &Session,
    release: Option<KubeletVersion>,
) -> (Client, KubeletLists) {
    let wanted = session.wanted_lists;
    let lists = match wanted {
        Some(calls) => KubeletLists { calls, source: ListCallsSource::Option },
        None if session.playback().is_some() => {
            KubeletLists { calls: client.list_calls(), source: ListCallsSource::Capture }
        }
        None => session.kubelet_lists(release).await.clone(),
    };
    let client = match (lists.calls, wanted) {
        (ListCalls::Stream, Some(_)) => client.with_streamed_lists(),
        (ListCalls::Stream, None) => client.with_lists_of_gate(),
        (ListCalls::Unary, _) => {
            client.list_with(ListCalls::Unary);
            client
        }
    };
    note(&session.node, &lists);
    (client, lists)
}

/// Says which list calls are made, and why: with `-v`, or if nothing shows those of the kubelet.
pub fn note(node: &Node, lists: &KubeletLists) {
    let ListCallsReport { rpcs, why } = ListCallsReport::of(lists);
    if lists.source == ListCallsSource::NotKnown {
        node.remark(&format!("the list calls are the unary ones: {why}"));
    } else {
        node.note(1, &format!("the list calls are {}: {why}", rpcs.join(" and ")));
    }
}
