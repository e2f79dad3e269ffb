//! D39: several programs call the runtime.

use super::prelude::*;
use crate::diagnosis::facts::ProcessRef;
use crate::diagnosis::proc::clients::{SocketClient, SocketClients};
use crate::diagnosis::proc::{Ownership, Role};

/// The most clients that the evidence names.
const MAX_NAMED: usize = 8;

/// Applies D39. The kernel shows who is connected and what is not read, but not who sends which calls.
pub(super) fn find(case: &Case<'_>) -> Option<HealthFinding> {
    let host = case.evidence.node()?;
    let clients = host.clients.as_ref()?;
    let is_other = |client: &&SocketClient| {
        let role = host.first.processes.get(&client.pid).map_or(Role::Other, |process| process.role);
        let is_daemon = host.ownership == (Ownership::OfRuntime { daemon: Some(client.pid) });
        role != Role::Kubelet && !is_daemon
    };
    let others: Vec<&SocketClient> = clients.clients.iter().filter(is_other).collect();
    let slow: Vec<&SocketClient> =
        clients.clients.iter().filter(|client| client.unread >= limits::UNREAD_BYTES).collect();
    let process = |client: &SocketClient| ProcessRef { name: client.comm.clone(), pid: client.pid };
    let title = match slow.first() {
        Some(slow) => FactKind::DoesNotReadAnswers { process: process(slow) },
        None if others.len() < limits::SOCKET_CLIENTS => return None,
        None => FactKind::ManyClients { others: others.len() },
    };
    let mut found = finding(RuleId::ManyClients, Severity::Info, Confidence::Possible, title);
    let SocketClients { connections, waiting, .. } = clients;
    found.add_fact(FactKind::SocketConnections { connections: *connections, waiting: *waiting });
    let named = slow.iter().chain(others.iter().filter(|client| client.unread < limits::UNREAD_BYTES));
    found.add_facts(named.take(MAX_NAMED).map(|client| FactKind::SocketClient {
        process: process(client),
        connections: client.connections,
        unread: client.unread,
    }));
    let list = Command::new("ss -xp | grep .sock");
    found.add_step(Step::look("each of them may list all containers; find out how often").with(list));
    Some(found)
}
