//! [`RunFacts`]: everything that one run measured, as a document. `health --save` and `--bundle` write it beside the report, and a
//! recorder gives it beside its verdict, so that a newer plegctl judges the same facts again.
//!
//! It has the runtime's answers beside the facts of the node ([`NodeFacts`]). Of labels and annotations, only those
//! of the kubelet travel.

use std::collections::BTreeSet;
use std::mem::swap;
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

    /// Exchanges what both have with the evidence.
    fn exchange(&mut self, evidence: &mut Evidence) {
        swap(&mut self.runtime, &mut evidence.runtime);
        swap(&mut self.settings, &mut evidence.settings);
        swap(&mut self.took, &mut evidence.took);
        swap(&mut self.moment, &mut evidence.moment);
        swap(&mut self.recorded_diagnosis, &mut evidence.recorded_diagnosis);
        swap(&mut self.node_name, &mut evidence.node);
        swap(&mut self.endpoint, &mut evidence.endpoint);
        swap(&mut self.other_sockets, &mut evidence.other_sockets);
        swap(&mut self.stacks, &mut evidence.stacks);
        swap(&mut self.debug_socket, &mut evidence.debug_socket);
        swap(&mut self.no_thread, &mut evidence.no_thread);
        swap(&mut self.lacks_second_samples, &mut evidence.lacks_second_samples);
        swap(&mut self.interrupted, &mut evidence.interrupted);
        swap(&mut self.bad_input, &mut evidence.bad_input);
        swap(&mut self.not_checked, &mut evidence.not_checked);
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
        let runtime = &evidence.runtime;
        let listed: BTreeSet<&str> = runtime.listed_ids().collect();
        let calls = runtime.status_calls.iter().chain(&runtime.shims).map(|record| record.target.id.as_str());
        let unlisted = calls.filter(|id| !listed.contains(id));
        let names = unlisted.map(|id| evidence.names.outside(id)).collect();
        let plegctl = env!("CARGO_PKG_VERSION").to_owned();
        let mut facts = Self { plegctl, names, ..Self::default() };
        facts.exchange(&mut evidence);
        // The facts of the node read the calls too.
        evidence.runtime.clone_from(&facts.runtime);
        Self { node: NodeFacts::from(evidence), ..facts }
    }
}

impl From<RunFacts> for Evidence {
    fn from(mut facts: RunFacts) -> Self {
        let mut evidence = Self { taken_at: facts.node.taken_at(), ..Self::default() };
        std::mem::take(&mut facts.node).put_in(&mut evidence);
        facts.exchange(&mut evidence);
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
