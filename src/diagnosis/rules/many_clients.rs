//! D39: several programs call the runtime, or one calls it all the time.

use std::cmp::Reverse;

use super::load::per_second;
use super::prelude::*;
use crate::diagnosis::proc::clients::{IoCounters, SocketClient, SocketClients};

/// The most clients that the evidence names.
const MAX_NAMED: usize = 8;

/// Applies D39. The kernel shows who is connected and what is not read, but not who sends which calls.
pub(super) fn find(case: &Case<'_>) -> Option<HealthFinding> {
    let clients = case.evidence.node()?.clients.as_ref()?;
    let others = clients.clients.iter().filter(|client| is_other(case, client)).count();
    let slow = clients.clients.iter().find(|client| !keeps_up(client));
    let title = match (slow, busiest_client(case)) {
        (Some(slow), _) => FactKind::DoesNotReadAnswers { process: process(slow) },
        (None, Some(busiest)) => busiest,
        (None, None) if others < limits::SOCKET_CLIENTS => return None,
        (None, None) => FactKind::ManyClients { others },
    };
    let mut found = finding(RuleId::ManyClients, Severity::Info, Confidence::Possible, title);
    let SocketClients { connections, waiting, .. } = clients;
    found.add_fact(FactKind::SocketConnections { connections: *connections, waiting: *waiting });
    let counted =
        daemon_io(case).map(|(within, io)| FactKind::RuntimeReadsAndWrites { within: within.into(), io });
    let is_counted = counted.is_some();
    found.add_facts(counted);
    // What the kubelet reads and writes is there to compare with.
    let mut named: Vec<&SocketClient> = clients.clients.iter().collect();
    named.retain(|client| is_counted || is_other(case, client) || !keeps_up(client));
    let read = |client: &SocketClient| clients.io_of(client.pid).map(|io| io.read_bytes);
    named.sort_by_key(|client| (keeps_up(client), Reverse(read(client))));
    found.add_facts(named.into_iter().take(MAX_NAMED).map(|client| FactKind::SocketClient {
        process: process(client),
        connections: client.connections,
        unread: client.unread,
        io: clients.io_of(client.pid),
    }));
    found.add_facts(is_counted.then_some(FactKind::CountersHaveAll));
    let again =
        if is_counted { "whether these numbers stay so" } else { "how much each of them reads and writes" };
    found.add_step(Step::look(again).with(Command::new("plegctl health --deep")));
    Some(found)
}

/// Returns the fact that most of what the runtime writes is read by one client besides the kubelet, which calls it often or
/// reads much.
pub(super) fn busiest_client(case: &Case<'_>) -> Option<FactKind> {
    let clients = case.evidence.node()?.clients.as_ref()?;
    let (within, of_daemon) = daemon_io(case)?;
    let others = clients.clients.iter().filter(|client| is_other(case, client));
    let mut counted = others.filter_map(|client| Some((client, clients.io_of(client.pid)?)));
    let (client, io) = counted.find(|(_, io)| is_served(io, &of_daemon) && is_busy(io, within))?;
    let (read, within) = (Bytes(io.read_bytes), within.into());
    Some(FactKind::ReadsMostAnswers { process: process(client), read, within })
}

/// Returns whether a client's reads can be the runtime's answers, and its writes the requests for them: each is most of what
/// the runtime writes and reads, and nearly nothing besides. The output of containers, which containerd copies into files and
/// the client may read there, is excluded by its sizes: containerd reads it, and a short line makes a short write.
fn is_served(client: &IoCounters, daemon: &IoCounters) -> bool {
    let is_most = |part: u64, whole: u64| part >= whole / 2 && part <= whole.saturating_add(whole / 10);
    is_most(client.read_bytes, daemon.written_bytes)
        && is_most(client.written_bytes, daemon.read_bytes)
        && daemon.read_bytes <= daemon.written_bytes / 2
        && daemon.written_bytes >= daemon.writes.saturating_mul(limits::ANSWER_BYTES)
        && client.written_bytes <= client.writes.saturating_mul(limits::REQUEST_BYTES)
}

fn is_busy(client: &IoCounters, within: Duration) -> bool {
    per_second(client.writes, within) >= limits::CLIENT_WRITES_PER_SECOND
        || per_second(client.read_bytes, within) >= limits::CLIENT_BYTES_PER_SECOND
}

/// Returns the time between the two looks, and what the runtime has read and written in it.
fn daemon_io(case: &Case<'_>) -> Option<(Duration, IoCounters)> {
    let clients = case.evidence.node()?.clients.as_ref()?;
    let (within, _) = clients.counted_again.as_ref()?;
    Some((*within, clients.io_of(case.evidence.daemon()?.pid)?))
}

/// Returns whether a client is neither the kubelet nor the runtime itself.
fn is_other(case: &Case<'_>, client: &SocketClient) -> bool {
    let Some(host) = case.evidence.node() else { return false };
    let role = host.first.processes.get(&client.pid).map_or(Role::Other, |process| process.role);
    role != Role::Kubelet && case.evidence.daemon().is_none_or(|daemon| daemon.pid != client.pid)
}

/// Returns whether a client reads its answers.
const fn keeps_up(client: &SocketClient) -> bool {
    client.unread < limits::UNREAD_BYTES
}

fn process(client: &SocketClient) -> ProcessRef {
    ProcessRef { name: client.comm.clone(), pid: client.pid }
}
