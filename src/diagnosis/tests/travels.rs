//! [`judge`]: judges evidence, and asserts that the facts of the node, written and read again as a capture has them, give the
//! same report, that they give the same findings without names, and that a report with other words differs in nothing but its
//! words. The other tests use it, so each node that they make is such a case.

use super::printed_commands::assert_a_shell_reads_them;
use crate::capture::Pseudonyms;
use crate::clock::Wall;
use crate::diagnosis::facts::tests::with_other_words;
use crate::diagnosis::kubelet::KubeletEvidence;
use crate::diagnosis::report::{
    Confidence, CulpritReport, HealthFinding, HealthReport, JudgedMoment, KubeletReport, NotChecked, RuleId,
    Verdict,
};
use crate::diagnosis::runtime_start::RuntimeStart;
use crate::diagnosis::{Evidence, NodeFacts, RunFacts, judge as judge_once};

/// Judges the evidence.
#[track_caller]
pub fn judge(evidence: &Evidence) -> HealthReport {
    let here = about_the_past(evidence.clone());
    let text = serde_json::to_vec(&NodeFacts::from(here.clone())).unwrap();
    let facts: NodeFacts = serde_json::from_slice(&text).unwrap();
    let without_facts = Evidence {
        host: None,
        kubelet: KubeletEvidence::default(),
        journal: None,
        systemd: None,
        runtime_start: RuntimeStart::default(),
        cni_directory: None,
        forecasts: Vec::new(),
        not_checked: Vec::new(),
        ended_early: None,
        socket: None,
        ..here.clone()
    };
    let of_facts = |facts: NodeFacts| {
        let mut there = without_facts.clone();
        facts.put_in(&mut there);
        there
    };
    let mut there = of_facts(facts.clone());
    let of_calls = here.not_checked.iter().filter(|skipped| !there.not_checked.contains(skipped));
    let of_calls: Vec<NotChecked> = of_calls.cloned().collect();
    there.not_checked.extend(of_calls.clone());
    let judged_here = judge_once(&here);
    assert_eq!(judge_once(&there), judged_here, "the facts: {}", String::from_utf8_lossy(&text));
    let mut renamed = facts;
    Pseudonyms::that_keep_ids().rename(&mut renamed);
    let mut there = of_facts(renamed);
    there.not_checked.extend(of_calls);
    assert_eq!(judgement(judge_once(&there)), judgement(judged_here), "{}", String::from_utf8_lossy(&text));
    let report = judge_once(evidence);
    if let Some(read) = saved_and_read(evidence) {
        let stacks = report.stacks.clone();
        assert_eq!(HealthReport { stacks, ..judge_once(&read) }, report, "the facts of a run");
    }
    let other = with_other_words(|| judge_once(evidence));
    assert_eq!(without_words(other), without_words(report.clone()), "something reads the words of a fact");
    assert_a_shell_reads_them(evidence, &report);
    report
}

/// Returns the evidence as a file with it has it; `None` if it is too large for a file.
fn saved_and_read(evidence: &Evidence) -> Option<Evidence> {
    let text = RunFacts::from(evidence.clone()).text(usize::MAX)?;
    Some(RunFacts::read(text.as_bytes()).unwrap().into())
}

/// Returns the verdict, and the rule and the confidence of each finding.
fn judgement(report: HealthReport) -> (Verdict, Vec<(RuleId, Confidence)>) {
    let findings = report.findings.into_iter().map(|finding| (finding.id, finding.confidence));
    (report.verdict, findings.collect())
}

/// Returns a report without the words of its facts.
fn without_words(report: HealthReport) -> HealthReport {
    let finding = |finding: HealthFinding| HealthFinding {
        title: String::new(),
        evidence: vec![String::new(); finding.evidence.len()],
        ..finding
    };
    let kubelet = report.kubelet.map(|kubelet| KubeletReport {
        disagreements: vec![String::new(); kubelet.disagreements.len()],
        ..kubelet
    });
    let culprit =
        |culprit: CulpritReport| CulpritReport { holder: culprit.holder.map(|_| String::new()), ..culprit };
    HealthReport {
        summary: String::new(),
        primary: report.primary.map(finding),
        findings: report.findings.into_iter().map(finding).collect(),
        culprits: report.culprits.into_iter().map(culprit).collect(),
        kubelet,
        ..report
    }
}

/// A replay prints no step that changes the state or names a process, and the facts have not all of what such a step needs.
fn about_the_past(evidence: Evidence) -> Evidence {
    let moment = evidence.moment.or(Some(JudgedMoment { time: Wall::from_nanos(0), incident: None }));
    Evidence { moment, ..evidence }
}
