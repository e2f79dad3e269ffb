//! `--list-calls`: the calls with which a command lists sandboxes and containers.

use clap::{Args, ValueEnum};

use super::context::Context;
use crate::cri::Client;
use crate::kubelet::{KubeletVersion, ListCalls, ListCallsSource};

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

    /// The same as `--list-calls stream`
    #[arg(long, hide = true, conflicts_with = "list_calls")]
    stream_lists: bool,
}

impl ListCallsArgs {
    /// Returns the choice as the value of `--list-calls`.
    pub fn value(self) -> &'static str {
        match self.choice() {
            ListCallsChoice::Auto => "auto",
            ListCallsChoice::Unary => "unary",
            ListCallsChoice::Stream => "stream",
        }
    }

    fn choice(self) -> ListCallsChoice {
        if self.stream_lists { ListCallsChoice::Stream } else { self.list_calls }
    }

    /// Returns the client with the list calls that the user wants. `release` is the kubelet's release.
    pub fn apply(self, client: Client, context: &Context, release: KubeletVersion) -> Client {
        let (client, calls, why) = match self.choice() {
            ListCallsChoice::Unary => (client, ListCalls::Unary, "--list-calls".to_owned()),
            ListCallsChoice::Stream => {
                (client.with_streamed_lists(), ListCalls::Stream, "--list-calls".to_owned())
            }
            ListCallsChoice::Auto => {
                let lists = context.kubelet_lists(release);
                let client = match lists.calls {
                    ListCalls::Unary => client,
                    ListCalls::Stream => client.with_lists_of_gate(),
                };
                if lists.source == ListCallsSource::NotKnown {
                    context.remark(&format!("the list calls are the unary ones: {}", lists.why()));
                    return client;
                }
                (client, lists.calls, lists.why())
            }
        };
        let names = match calls {
            ListCalls::Unary => "ListPodSandbox and ListContainers",
            ListCalls::Stream => "StreamPodSandboxes and StreamContainers",
        };
        context.note(1, &format!("the list calls are {names}: {why}"));
        client
    }
}
