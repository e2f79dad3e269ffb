//! [`judge`]: judges evidence, and asserts that the facts of the node, written and read again as a capture has them, give the
//! same report. The other tests use it, so each node that they make is such a case.

use crate::clock::Wall;
use crate::diagnosis::kubelet::KubeletEvidence;
use crate::diagnosis::report::{HealthReport, JudgedMoment, NotChecked};
use crate::diagnosis::runtime_start::RuntimeStart;
use crate::diagnosis::{Evidence, NodeFacts, judge as judge_once};

/// Judges the evidence.
#[track_caller]
pub fn judge(evidence: &Evidence) -> HealthReport {
    let here = about_the_past(evidence.clone());
    let text = serde_json::to_vec(&NodeFacts::from(here.clone())).unwrap();
    let facts: NodeFacts = serde_json::from_slice(&text).unwrap();
    let mut there = Evidence {
        host: None,
        kubelet: KubeletEvidence::default(),
        journal: None,
        systemd: None,
        runtime_start: RuntimeStart::default(),
        cni_directory: None,
        not_checked: Vec::new(),
        ended_early: None,
        socket: None,
        ..here.clone()
    };
    facts.put_in(&mut there);
    let of_calls = here.not_checked.iter().filter(|skipped| !there.not_checked.contains(skipped));
    let of_calls: Vec<NotChecked> = of_calls.cloned().collect();
    there.not_checked.extend(of_calls);
    assert_eq!(judge_once(&there), judge_once(&here), "the facts: {}", String::from_utf8_lossy(&text));
    judge_once(evidence)
}

/// A replay prints no step that changes the state or names a process, and the facts have not all of what such a step needs.
fn about_the_past(evidence: Evidence) -> Evidence {
    let moment = evidence.moment.or(Some(JudgedMoment { time: Wall::from_nanos(0), incident: None }));
    Evidence { moment, ..evidence }
}
