//! Reads what a verdict on contradicting views needs: when the runtime changed a container, a second look at the kubelet and
//! the API server, the lease of the node and the kubelet's connection to the API server.
//!
//! Nothing here is read if the views agree.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::time::Duration;

use tokio::time::sleep;

use super::kubelet_view::KubeletView;
use crate::clock::Wall;
use crate::cmd::node::Node;
use crate::cri::{Client, Error, Runtime};
use crate::host;
use crate::host::proc::{is_connected, process_age};
use crate::manifests::podconfig::{
    ApiServer, ApiServerLink, Contradiction, PodRow, PodSource, ReadTimes, SourceState, Suspects,
    VerdictInput, suspects,
};
use crate::report::Seconds;
use crate::threads;

/// The number of contradicting containers whose status is read from the runtime.
const MAX_STATUS_CALLS: usize = 8;

/// The pause before the second look. An update of a pod needs less than a second to the kubelet.
const SECOND_LOOK: Duration = Duration::from_secs(3);

/// Returns when this node's kubelet started, if its process is visible.
pub fn kubelet_started(node: &Node) -> Option<Wall> {
    let pid = node.kubelet()?.pid;
    let age = node.in_time("the kubelet's age", move || process_age(&host::proc(), pid)).flatten()?;
    Some(node.clock.wall().minus(age))
}

/// Asks the runtime when it changed the contradicting containers. After a call that hangs, no other is made.
pub async fn changes(runtime: &Client, contradictions: &[Contradiction]) -> BTreeMap<String, Wall> {
    let mut changes = BTreeMap::new();
    for one in contradictions.iter().take(MAX_STATUS_CALLS) {
        let status = match runtime.container_status(&one.id).await.result {
            Ok(Some(status)) => status,
            Err(Error::Silent { .. } | Error::Unfinished { .. }) => break,
            // The container may be gone, which is no change that can be dated.
            Ok(None) | Err(_) => continue,
        };
        let at = if one.runs { status.started_at } else { status.finished_at };
        changes.extend(Wall::known(at).map(|at| (one.id.clone(), at)));
    }
    changes
}

/// Keeps only the suspects that a second look finds again. The API server's pods are read before the kubelet's.
pub async fn second_look(
    found: &mut Suspects,
    first: &VerdictInput<'_>,
    node_name: &str,
    started: Option<Wall>,
    (view, server, node): (&KubeletView, Option<&ApiServer>, &Node),
) {
    sleep(SECOND_LOOK).await;
    let mut sources = first.sources.clone();
    let mut times = ReadTimes { sources: first.times.sources.clone(), runtime: first.times.runtime };
    if let Some(server) = server {
        let pods = server.list().await.ok().map(|list| list.pods);
        times.sources.insert(PodSource::Api, node.clock.wall());
        sources.insert(PodSource::Api, SourceState { pods, refused: Vec::new() });
    }
    let kubelet = view.read(node).await.and_then(Result::ok);
    let now = node.clock.wall();
    let again =
        VerdictInput { sources: &sources, runtime: None, kubelet: kubelet.as_ref(), times: &times, now };
    found.confirmed_by(&suspects(&again, node_name, started));
}

/// Whether a row needs the facts about the kubelet's connection: its static pod has lost its mirror pod.
pub fn has_lost_its_mirror(row: &PodRow) -> bool {
    row.mirror.as_ref().is_some_and(|mirror| mirror.state == "lost")
}

/// Reads the lease of the node and whether the kubelet of this node is connected to the API server.
pub async fn link(server: &ApiServer, node: &Node, is_own: bool) -> ApiServerLink {
    let mut link = ApiServerLink::default();
    let (url, renewed) = match server.lease().await {
        Ok(read) => read,
        Err(why) => {
            link.not_checked.push(format!("the node's lease is not known: {why}"));
            return link;
        }
    };
    match renewed {
        Ok(renewed) => {
            link.lease_renewed_at = Some(renewed);
            link.lease_age_seconds = Some(Seconds::from(node.clock.wall().duration_since(renewed)));
        }
        Err(why) => link.not_checked.push(format!("the node's lease is not known: {why}")),
    }
    let Some((address, port)) = place(&url) else { return link };
    link.address = Some(format!("{address}:{port}"));
    let Some(pid) = node.kubelet().filter(|_| is_own).map(|kubelet| kubelet.pid) else {
        return link;
    };
    // A host name may have many addresses, so then only the port is compared.
    let ip = address.trim_matches(['[', ']']).parse::<IpAddr>().ok();
    let looked = threads::blocking(move || is_connected(&host::proc(), pid, ip, port)).await;
    match looked.and_then(|found| found) {
        Ok(connected) => link.is_connected = Some(connected),
        Err(why) => link.not_checked.push(format!("the kubelet's connections are not known: {why}")),
    }
    link
}

/// Returns the host and the port of a URL.
fn place(url: &str) -> Option<(String, u16)> {
    let uri: ::http::Uri = url.parse().ok()?;
    let port = uri.port_u16().unwrap_or(if uri.scheme_str() == Some("http") { 80 } else { 443 });
    Some((uri.host()?.to_owned(), port))
}
