//! Adds to the evidence of a live run which limits will be reached, by the recorder that runs on this node.

use std::time::Duration;

use crate::capture::on_node::forecasts_on_node;
use crate::cri::Client;
use crate::diagnosis::evidence::Evidence;
use crate::diagnosis::{Inputs, OWN_NAME};
use crate::threads::with_time_limit;

/// How long the report waits for the recorder's file. The recorder's disk may not answer.
const TIME_LIMIT: Duration = Duration::from_millis(200);

/// Puts the forecasts of the recorder in the evidence, or why its file could not be read. Reads nothing without a recorder among
/// the processes, and beside a simulated or recorded runtime.
pub(super) fn add_forecasts(inputs: &Inputs<Client>, evidence: &mut Evidence) {
    let candidates = other_processes_of_plegctl(evidence);
    let Some(proc) = inputs.proc.clone().filter(|_| !candidates.is_empty()) else { return };
    let (endpoint, now) = (inputs.endpoint.clone(), inputs.clock.wall());
    let read = move || forecasts_on_node(&proc, &candidates, &endpoint, now);
    match with_time_limit(TIME_LIMIT, read).and_then(|read| read) {
        Ok(found) => evidence.forecasts.extend(found),
        Err(why) => evidence.skip("the forecasts of the recorder on this node", why.to_string()),
    }
}

fn other_processes_of_plegctl(evidence: &Evidence) -> Vec<u32> {
    let processes = evidence.host.iter().flat_map(|host| host.first.processes.values());
    let others = processes.filter(|process| process.comm == OWN_NAME && process.pid != std::process::id());
    others.map(|process| process.pid).collect()
}
