//! [`RunFacts`]: everything that one run measured, as a document. `health --save` and `--bundle` write it beside the report, and a
//! recorder gives it beside its verdict, so that a newer plegctl judges the same facts again.
//!
//! It has the runtime's answers beside the facts of the node ([`NodeFacts`]). Of labels and annotations, only those
//! of the kubelet travel.

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::evidence::{Evidence, RuntimeEvidence, Settings};
use super::names::OutsideId;
use super::node_facts::NodeFacts;
use super::report::{JudgedMoment, NotChecked};
use crate::report::{MAX_MEMORY, fits_in_memory, json};
use crate::stacks::report::StackReport;

/// Everything that one run measured.
#[derive(Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct RunFacts {
    /// The version of plegctl that measured.
    plegctl: String,
    node: NodeFacts,
    runtime: RuntimeEvidence,
    settings: Settings,
    took: Duration,
    moment: Option<JudgedMoment>,
    recorded_diagnosis: Option<String>,
    node_name: String,
    endpoint: String,
    other_sockets: Vec<String>,
    /// The names of what the calls are about and no list has.
    names: Vec<OutsideId>,
    stacks: Option<StackReport>,
    debug_socket: Option<PathBuf>,
    no_thread: bool,
    lacks_second_samples: bool,
    interrupted: bool,
    bad_input: Vec<String>,
    /// What was not checked, with what concerns the calls.
    not_checked: Vec<NotChecked>,
}

impl RunFacts {
    /// Returns the facts as JSON of at most `largest` bytes. If they are too large, the processes of other programs are left out;
    /// `None` if that is not enough.
    pub fn text(&mut self, largest: usize) -> Option<String> {
        let largest = largest.min(MAX_MEMORY);
        let fits = |text: &String| fits_in_memory(text.as_bytes());
        json::text_of_at_most(self, largest).filter(fits).or_else(|| {
            let all = self.node.clone();
            self.node.leave_out_others();
            let text = json::text_of_at_most(self, largest).filter(fits);
            self.node = all;
            text
        })
    }

    /// Returns the facts of the node.
    pub fn into_node(self) -> NodeFacts {
        self.node
    }

    /// Reads the facts of a run.
    pub fn read(text: &[u8]) -> Result<Self, String> {
        if !fits_in_memory(text) {
            return Err("they are too large".to_owned());
        }
        let facts: Self = serde_json::from_slice(text).map_err(|why| why.to_string())?;
        // Each field may be missing, so an empty list would be facts too.
        if facts.plegctl.is_empty() {
            return Err("they do not say who measured".to_owned());
        }
        Ok(facts)
    }

    /// Returns the version of plegctl that measured.
    pub fn plegctl(&self) -> &str {
        &self.plegctl
    }
}

impl From<Evidence> for RunFacts {
    fn from(mut evidence: Evidence) -> Self {
        // The facts of the node read the calls too.
        let runtime = evidence.runtime.clone();
        let listed: BTreeSet<&str> = runtime.listed_ids().collect();
        let calls = runtime.status_calls.iter().chain(&runtime.shims).map(|record| record.target.id.as_str());
        let unlisted = calls.filter(|id| !listed.contains(id));
        let names = unlisted.map(|id| evidence.names.outside(id)).collect();
        Self {
            plegctl: env!("CARGO_PKG_VERSION").to_owned(),
            runtime,
            settings: evidence.settings.clone(),
            took: evidence.took,
            moment: evidence.moment,
            recorded_diagnosis: evidence.recorded_diagnosis.take(),
            node_name: std::mem::take(&mut evidence.node),
            endpoint: std::mem::take(&mut evidence.endpoint),
            other_sockets: std::mem::take(&mut evidence.other_sockets),
            names,
            stacks: evidence.stacks.take(),
            debug_socket: evidence.debug_socket.take(),
            no_thread: evidence.no_thread,
            lacks_second_samples: evidence.lacks_second_samples,
            interrupted: evidence.interrupted,
            bad_input: std::mem::take(&mut evidence.bad_input),
            not_checked: std::mem::take(&mut evidence.not_checked),
            node: NodeFacts::from(evidence),
        }
    }
}

impl From<RunFacts> for Evidence {
    fn from(facts: RunFacts) -> Self {
        let mut evidence = Self {
            taken_at: facts.node.taken_at(),
            runtime: facts.runtime,
            settings: facts.settings,
            took: facts.took,
            moment: facts.moment,
            recorded_diagnosis: facts.recorded_diagnosis,
            node: facts.node_name,
            endpoint: facts.endpoint,
            other_sockets: facts.other_sockets,
            stacks: facts.stacks,
            debug_socket: facts.debug_socket,
            no_thread: facts.no_thread,
            lacks_second_samples: facts.lacks_second_samples,
            interrupted: facts.interrupted,
            bad_input: facts.bad_input,
            ..Self::default()
        };
        facts.node.put_in(&mut evidence);
        evidence.not_checked = facts.not_checked;
        evidence.learn_listed_names();
        evidence.names.learn_outside(&facts.names);
        evidence
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::diagnosis::evidence::HostEvidence;
    use crate::diagnosis::proc::{ProcSample, Process};

    #[test]
    fn facts_that_are_too_large_travel_without_the_processes_of_other_programs_or_not_at_all() {
        let program = |pid| (pid, Process { pid, parent: 1, comm: "program".into(), ..Process::default() });
        let first = ProcSample { processes: (100..2100).map(program).collect(), ..ProcSample::default() };
        let host = Some(HostEvidence { first, ..HostEvidence::default() });
        let mut facts = RunFacts::from(Evidence { host, ..Evidence::default() });
        let whole = facts.text(usize::MAX).unwrap();
        let smaller = facts.text(whole.len() - 1).unwrap();
        assert!(whole.contains("\"program\"") && !smaller.contains("\"program\""), "{smaller}");
        assert!(smaller.contains("processes of other programs"), "{smaller}");
        assert_eq!(facts.text(smaller.len() - 1), None);
        // What was left out is not lost.
        assert_eq!(facts.text(usize::MAX), Some(whole));
    }

    #[test]
    fn facts_that_do_not_say_who_measured_are_not_read() {
        for text in ["{}", "[]", "null", r#"{"later": 1}"#] {
            assert!(RunFacts::read(text.as_bytes()).is_err(), "{text}");
        }
        assert!(RunFacts::read(br#"{"plegctl": "0.1.0"}"#).is_ok());
    }
}
