//! D39: programs besides the kubelet that call the runtime through the same socket.

use super::{Case, finding};
use crate::diagnosis::limits;
use crate::diagnosis::proc::clients::SocketClient;
use crate::diagnosis::proc::{Ownership, Role};
use crate::diagnosis::report::{Confidence, HealthFinding, RuleId, Severity};
use crate::report::{Command, Step, plural};

/// The most clients that the evidence names.
const MAX_NAMED: usize = 8;

/// Applies D39. The kernel shows who is connected and what is not read, but not who sends which calls.
pub(super) fn many(case: &Case<'_>) -> Option<HealthFinding> {
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
    let title = match slow.first() {
        Some(slow) => format!("{}[{}] does not read the runtime's answers", slow.comm, slow.pid),
        None if others.len() < limits::SOCKET_CLIENTS => return None,
        None => format!("{} programs besides the kubelet call the runtime", others.len()),
    };
    let mut found = finding(RuleId::D39, Severity::Info, Confidence::Possible, title);
    found.add_evidence(format!(
        "{} to the runtime's socket, {} not accepted yet",
        plural(clients.connections, "connection"),
        clients.waiting
    ));
    let named = slow.iter().chain(others.iter().filter(|client| client.unread < limits::UNREAD_BYTES));
    found.evidence.extend(named.take(MAX_NAMED).map(|client| {
        let unread = match client.unread {
            0 => String::new(),
            bytes => format!(", {} not read", plural(usize::try_from(bytes).unwrap_or(usize::MAX), "byte")),
        };
        let connections = plural(client.connections, "connection");
        format!("{}[{}]: {connections}{unread}", client.comm, client.pid)
    }));
    let list = Command::new("ss -xp | grep .sock");
    found.add_step(Step::look("each of them may list all containers; find out how often").with(list));
    Some(found)
}
