//! [`NodeFacts`]: what a diagnosis measured of its node. They travel: a recorder stores them beside each diagnosis, and a replay
//! judges them as if it had measured them.
//!
//! They are the measured types themselves, so a rule needs no second form of a fact. The calls to the runtime are not among
//! them, because a capture has these. Values that no rule reads stay behind: a command line travels without the words that may
//! be secrets, and nothing of an environment does.

use std::mem::swap;
use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use super::evidence::oddities::lasting_oddities;
use super::evidence::{Evidence, HostEvidence, StreamProbe, missing};
use super::forecast::LimitForecast;
use super::journal::{Journal, SystemState};
use super::kubelet::KubeletEvidence;
use super::names::OutsideId;
use super::proc::{ProcSample, Process, Role};
use super::report::NotChecked;
use super::runtime_start::RuntimeStart;
use crate::clock::Wall;
use crate::report::{Rename, fits_in_memory, json};

/// The largest text of the facts of one diagnosis, in bytes. Two samples of 60 pods with 240 processes beside 112 others, and 452
/// mounts, have 362 KB, of which deflate makes 34 KB; this is enough for 250 such pods. A recorder keeps the text in memory for a
/// moment.
pub const MAX_TEXT: usize = 2 * 1024 * 1024;

/// What a diagnosis measured of its node.
#[derive(Clone, Debug, Default, Serialize, Deserialize, Rename)]
#[names(Endpoint(socket), NodePath(cni_directory), Text(ended_early), Id(lasting_oddities))]
#[serde(rename_all = "camelCase", default)]
pub struct NodeFacts {
    /// When the diagnosis began. The ages of the processes count from about then.
    taken_at: Wall,
    /// The runtime's socket, as a path in the daemon's file system.
    socket: Option<PathBuf>,
    host: Option<HostEvidence>,
    kubelet: KubeletEvidence,
    journal: Option<Journal>,
    systemd: Option<SystemState>,
    stream_probe: Option<StreamProbe>,
    runtime_start: RuntimeStart,
    cni_directory: Option<String>,
    forecasts: Vec<LimitForecast>,
    lasting_oddities: Option<Vec<String>>,
    /// The names of what overdue processes work for, which may be in no list.
    names: Vec<OutsideId>,
    not_checked: Vec<NotChecked>,
    ended_early: Option<String>,
}

impl From<Evidence> for NodeFacts {
    fn from(mut evidence: Evidence) -> Self {
        let overdue = evidence.host.iter().flat_map(|host| host.overdue_ids.values().map(String::as_str));
        let restored = evidence.hung_state_process().map(|(_, id)| id);
        let names = overdue.chain(restored).map(|id| evidence.names.outside(id)).collect();
        let (lasting, again) = lasting_oddities(&evidence);
        evidence.lasting_oddities =
            again.then(|| lasting.iter().map(|oddity| oddity.id.to_owned()).collect());
        let of_calls = missing::missing_answers(&evidence);
        evidence.not_checked.retain(|skipped| !of_calls.contains(skipped));
        if let Some(host) = evidence.host.as_mut().filter(|host| host.second.is_some()) {
            // The rules read the mounts of the latest sample.
            host.first.mounts.clear();
        }
        let not_checked = std::mem::take(&mut evidence.not_checked);
        let mut facts = Self { taken_at: evidence.taken_at, names, not_checked, ..Self::default() };
        facts.exchange(&mut evidence);
        facts
    }
}

impl NodeFacts {
    /// Returns the facts as JSON. If they are too large, the processes that belong neither to the runtime nor to the kubelet nor
    /// to a container are left out; `None` if that is not enough, or if the diagnosis could not look at the node.
    pub fn text(mut self) -> Option<String> {
        if self.is_empty() {
            return None;
        }
        let whole = json::text(&self)?;
        if whole.len() <= MAX_TEXT {
            return Some(whole);
        }
        self.leave_out_others();
        json::text(&self).filter(|text| text.len() <= MAX_TEXT)
    }

    /// Leaves out the processes that belong neither to the runtime nor to the kubelet nor to a container.
    pub(super) fn leave_out_others(&mut self) {
        if let Some(host) = &mut self.host {
            let second = host.second.as_mut().map(|(_, sample)| sample);
            std::iter::once(&mut host.first).chain(second).for_each(leave_out_others);
        }
        let why = "not recorded: the node has too many";
        self.not_checked.push(NotChecked::new("processes of other programs", why));
    }

    /// Returns whether the diagnosis neither looked at the node nor looked twice at its lists.
    const fn is_empty(&self) -> bool {
        self.host.is_none() && self.lasting_oddities.is_none()
    }

    /// Reads the facts; `None` if the text is too large, damaged, empty, or has a value that this release does not know.
    pub fn read(text: &[u8]) -> Option<Self> {
        let is_small = text.len() <= MAX_TEXT && fits_in_memory(text);
        let facts: Option<Self> = is_small.then(|| serde_json::from_slice(text).ok())?;
        facts.filter(|facts| !facts.is_empty())
    }

    /// Returns when the diagnosis began.
    pub(super) const fn taken_at(&self) -> Wall {
        self.taken_at
    }

    /// Returns whether the diagnosis read the kubelet's metrics.
    pub fn has_metrics(&self) -> bool {
        self.kubelet.first.is_some()
    }

    /// Puts the facts in the evidence, in place of what the run measured. A reading of the kubelet's metrics that the run has
    /// comes from a file that the user named, or the diagnosis had none, so it stays.
    pub(super) fn put_in(mut self, evidence: &mut Evidence) {
        if let Some(metrics) = evidence.kubelet.first.take() {
            self.kubelet.first = Some(metrics);
            self.kubelet.second = None;
        }
        if self.forecasts.is_empty() {
            self.forecasts = std::mem::take(&mut evidence.forecasts);
        }
        self.exchange(evidence);
        evidence.names.learn_outside(&self.names);
        evidence.not_checked.extend(self.not_checked);
    }

    /// Exchanges what both have with the evidence.
    fn exchange(&mut self, evidence: &mut Evidence) {
        swap(&mut self.socket, &mut evidence.socket);
        swap(&mut self.host, &mut evidence.host);
        swap(&mut self.kubelet, &mut evidence.kubelet);
        swap(&mut self.journal, &mut evidence.journal);
        swap(&mut self.systemd, &mut evidence.systemd);
        swap(&mut self.stream_probe, &mut evidence.stream_probe);
        swap(&mut self.runtime_start, &mut evidence.runtime_start);
        swap(&mut self.cni_directory, &mut evidence.cni_directory);
        swap(&mut self.forecasts, &mut evidence.forecasts);
        swap(&mut self.lasting_oddities, &mut evidence.lasting_oddities);
        swap(&mut self.ended_early, &mut evidence.ended_early);
    }
}

/// Removes the processes that no rule about calls, shims, containers or the kubelet reads.
fn leave_out_others(sample: &mut ProcSample) {
    let roles: Vec<u32> =
        sample.processes.values().filter(|one| one.role != Role::Other).map(|one| one.pid).collect();
    let is_read = |process: &Process| {
        process.pid == 1
            || process.role != Role::Other
            || process.impostor.is_some()
            || !process.blocked.is_empty()
            || process.container_id.is_some()
            || process.pod_uid.is_some()
            || roles.binary_search(&process.parent).is_ok()
    };
    sample.processes.retain(|_, process| is_read(process));
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::diagnosis::proc::Ownership;

    /// Returns facts with this number of programs beside a daemon with a child and a container.
    fn facts(programs: u32) -> NodeFacts {
        let mut sample = ProcSample::default();
        let mut add = |pid, process: Process| sample.processes.insert(pid, Process { pid, ..process });
        add(2, Process { comm: "containerd".into(), role: Role::Daemon, ..Process::default() });
        add(3, Process { parent: 2, comm: "calico".into(), ..Process::default() });
        add(4, Process { container_id: Some("c".repeat(64)), ..Process::default() });
        for program in 0..programs {
            add(100 + program, Process { parent: 1, comm: "program".into(), ..Process::default() });
        }
        let ownership = Ownership::OfRuntime { daemon: Some(2) };
        let host = HostEvidence { ownership, first: sample, ..HostEvidence::default() };
        NodeFacts { host: Some(host), ..NodeFacts::default() }
    }

    fn processes(text: &str) -> Vec<u32> {
        let host = NodeFacts::read(text.as_bytes()).unwrap().host.unwrap();
        host.first.processes.into_keys().collect()
    }

    #[test]
    fn a_node_with_too_many_programs_travels_without_them_and_says_so() {
        assert_eq!(processes(&facts(2).text().unwrap()), [2, 3, 4, 100, 101]);
        let text = facts(40_000).text().unwrap();
        assert_eq!(processes(&text), [2, 3, 4]);
        assert!(text.contains("processes of other programs"), "{text}");
        let mut large = facts(0);
        large.host.as_mut().unwrap().first.processes =
            (0..40_000).map(|pid| (pid, Process { pid, role: Role::Shim, ..Process::default() })).collect();
        assert_eq!(large.text(), None);
        assert_eq!(NodeFacts::default().text(), None, "the diagnosis did not look at the node");
    }

    #[test]
    fn damaged_facts_are_not_read() {
        let text = facts(2).text().unwrap();
        for end in 0..text.len() {
            assert!(NodeFacts::read(&text.as_bytes()[..end]).is_none(), "{end}");
        }
        let many = json::text(&facts(100_000)).unwrap();
        for bad in [
            "null",
            "[]",
            r#"{"host": 7}"#,
            r#"{"host": {"first": {"processes": {"7": {"pid": "x"}}}}}"#,
            r#"{"host": {"first": {"processes": {"7": {"role": "of a later release"}}}}}"#,
            r#"{"host": {"waits": [{"reason": "KR99"}]}}"#,
            &many,
        ] {
            assert!(NodeFacts::read(bad.as_bytes()).is_none(), "{}", &bad[..bad.len().min(100)]);
        }
    }

    #[test]
    fn a_field_that_is_missing_or_not_known_does_not_matter() {
        let text = r#"{"later": 1, "host": {"first": {"processes": {"7": {"comm": "runc", "later": []}}}}}"#;
        assert_eq!(processes(text), [7]);
    }

    #[test]
    fn only_those_words_of_a_command_line_travel_that_rules_read() {
        let id = "c".repeat(64);
        let words = |command: &[&str]| {
            let mut facts = facts(0);
            let process = Process { command: command.iter().copied().collect(), ..Process::default() };
            facts.host.as_mut().unwrap().first.processes.insert(7, process);
            let host = NodeFacts::read(facts.text().unwrap().as_bytes()).unwrap().host.unwrap();
            host.first.processes[&7].command.to_vec()
        };
        assert_eq!(words(&["k3s", "server", "--token", "secret"]), ["k3s", "server", "", ""]);
        assert_eq!(
            words(&["runc", "--root", "/r", "exec", "--env=PASSWORD=x", &id, "mysql", "-psecret"]),
            ["runc", "", "", "exec", "", &id, "", ""]
        );
        let shim = ["shim", "-namespace", "k8s.io", "-id", &id, "--address=/s", "-debug", "start"];
        assert_eq!(words(&shim), ["shim", "-namespace", "k8s.io", "-id", &id, "--address=/s", "", "start"]);
        assert_eq!(words(&["conmon", "-n", "name", "-n"]), ["conmon", "-n", "name", "-n"]);
    }
}
