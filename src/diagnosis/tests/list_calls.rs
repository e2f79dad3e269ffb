//! Whether the size of a list is a problem depends on how the kubelet lists. Each row of the matrix is a node with a list of one
//! size and with what plegctl knows about its kubelet.

use std::fs::File;
use std::io::Read;
use std::path::Path;
use std::time::Duration;

use flate2::read::GzDecoder;

use super::node::FakeNode;
use super::scripted::{Behaviour, Scripted, container, id, inputs};
use super::travels::judge;
use crate::clock::{Mono, Wall};
use crate::cri::{Container, ContainerState, Error, Outcome, Rpc};
use crate::diagnosis::calls::RelistSettings;
use crate::diagnosis::evidence::Evidence;
use crate::diagnosis::gather;
use crate::diagnosis::journal::Journal;
use crate::diagnosis::kubelet::files::settings;
use crate::diagnosis::kubelet::{KubeletEvidence, KubeletInputs, MetricsReading};
use crate::diagnosis::report::{Confidence, HealthFinding, HealthReport, RuleId, Severity, Verdict};
use crate::diagnosis::{NodeFacts, VerdictFacts, judge as judge_once, verdict};
use crate::kubelet::{KubeletVersion, Metrics, Sourced};
use crate::pleg::CallRecord;
use crate::pleg::relist_calls::RelistCalls;

const MIB: u64 = 1 << 20;

/// Returns D03 for a node with a list of 17.6 MiB, whose kubelet's program is of this release.
async fn of_node_with_kubelet(release: &str) -> HealthFinding {
    let node = FakeNode::new(&format!("release-{release}")).with_pods(65);
    // A program of Go with the note about the release 1.35.
    let recorded = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/recordings/go-program.gz");
    let mut program = Vec::new();
    GzDecoder::new(File::open(recorded).unwrap()).read_to_end(&mut program).unwrap();
    let place = program.windows(5).position(|text| text == b"v1.35").unwrap();
    program[place..place + 5].copy_from_slice(release.as_bytes());
    std::fs::write(node.proc().join("100/exe"), program).unwrap();
    let mut script = Scripted::with_pods(65);
    script.refuses_over = Some(16 << 20);
    for sandbox in script.sandboxes.iter_mut().skip(5) {
        sandbox.annotations = [("example.com/large", "x".repeat(300_000))].into_iter().collect();
    }
    let evidence = node.gathered(script).await;
    // A replay reads no program.
    let facts = serde_json::to_vec(&NodeFacts::from(evidence.clone())).unwrap();
    let mut replayed = Evidence { kubelet: KubeletEvidence::default(), ..evidence.clone() };
    serde_json::from_slice::<NodeFacts>(&facts).unwrap().put_in(&mut replayed);
    assert_eq!(settings(&KubeletInputs::default(), &replayed.kubelet), evidence.settings);
    let report = judge(&evidence);
    report.findings.into_iter().find(|finding| finding.id == RuleId::LargeList).unwrap()
}

#[tokio::test]
async fn the_release_in_the_kubelets_program_decides_whether_a_large_list_is_certainly_refused() {
    assert_eq!(of_node_with_kubelet("v1.35").await.confidence, Confidence::Certain);
    let found = of_node_with_kubelet("v1.38").await;
    assert_eq!(found.confidence, Confidence::Likely, "{found:#?}");
}

/// A size of the list of containers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Size {
    Small,
    /// 15 MiB in 12 000 entries: close to the limit as a list, and far below it in messages.
    Near,
    /// 40 MiB in 25 000 entries, whose messages have 8 MiB.
    Over,
    /// 40 MiB in 6 000 entries: a message of 5 000 entries is too large too.
    LargeBatch,
}

impl Size {
    const ALL: [Self; 4] = [Self::Small, Self::Near, Self::Over, Self::LargeBatch];

    fn bytes_and_items(self) -> (u64, usize) {
        match self {
            Self::Small => (2400, 3),
            Self::Near => (15 * MIB, 12_000),
            Self::Over => (40 * MIB, 25_000),
            Self::LargeBatch => (40 * MIB, 6000),
        }
    }
}

/// What plegctl can know about how the kubelet lists.
#[derive(Clone, Copy, Debug)]
struct Known {
    minor: u8,
    gate: Option<bool>,
    gauge: Option<bool>,
    logged: bool,
}

/// What follows from [`Known`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Lists {
    Unary,
    Stream,
    Either,
}

impl Known {
    fn all() -> Vec<Self> {
        let options = [None, Some(false), Some(true)];
        let mut all = Vec::new();
        for minor in [35, 37, 38] {
            for gate in options {
                all.extend(options.map(|gauge| Self { minor, gate, gauge, logged: false }));
                all.push(Self { minor, gate, gauge: None, logged: true });
            }
        }
        all
    }

    fn lists(self) -> Lists {
        match self {
            Self { minor: ..=35, .. } | Self { gauge: Some(false), .. } => Lists::Unary,
            Self { gauge: Some(true), .. } => Lists::Stream,
            Self { logged: true, .. } | Self { gate: Some(false), .. } => Lists::Unary,
            Self { gate: Some(true), .. } => Lists::Either,
            Self { minor, .. } => {
                if minor >= 38 {
                    Lists::Either
                } else {
                    Lists::Unary
                }
            }
        }
    }

    fn tell(self, evidence: &mut Evidence) {
        evidence.settings.kubelet.value = KubeletVersion::parse(&format!("1.{}", self.minor)).unwrap();
        evidence.kubelet.config.streamed_lists = self.gate.map(|gate| Sourced::new(gate, "configz"));
        let metrics = Metrics { streams_lists: self.gauge, ..Metrics::default() };
        evidence.kubelet.first = Some(MetricsReading { at: Wall::from_nanos(0), metrics });
        let line = "1.0 n kubelet[7]: \"StreamContainers not implemented, falling back to ListContainers\"";
        evidence.journal = self.logged.then(|| Journal::of(line));
    }
}

async fn evidence(size: Size) -> Evidence {
    let mut evidence = gather(&inputs(Scripted::with_pods(3)), &|_| ()).await;
    let (bytes, items) = size.bytes_and_items();
    // So many status calls would be a finding of their own.
    for record in &mut evidence.runtime.status_calls {
        record.duration = Duration::from_micros(10);
    }
    let list = evidence.runtime.containers.first.as_mut().unwrap();
    list.response_bytes = bytes;
    let listed = list.result.as_mut().unwrap();
    let example = listed[0].clone();
    listed.extend((listed.len()..items).map(|at| Container { id: id(at, 'd'), ..example.clone() }));
    evidence
}

fn size_finding(report: &HealthReport) -> Option<&HealthFinding> {
    report.findings.iter().find(|finding| finding.id == RuleId::LargeList)
}

#[tokio::test(start_paused = true)]
async fn a_list_is_too_large_only_for_a_kubelet_that_lists_unary_and_a_message_only_for_one_that_streams() {
    for size in Size::ALL {
        let mut evidence = evidence(size).await;
        for known in Known::all() {
            known.tell(&mut evidence);
            let report = judge_once(&evidence);
            let found = size_finding(&report).map(|found| found.confidence);
            let is_over = matches!(size, Size::Over | Size::LargeBatch);
            let expected = match (known.lists(), size) {
                (_, Size::Small) => (None, Verdict::Healthy),
                (Lists::Unary, _) if is_over => (Some(Confidence::Certain), Verdict::Unhealthy),
                (Lists::Unary, _) => (Some(Confidence::Certain), Verdict::Degraded),
                (Lists::Stream, Size::LargeBatch) => (Some(Confidence::Likely), Verdict::Unknown),
                (Lists::Stream, _) => (None, Verdict::Healthy),
                (Lists::Either, _) if is_over => (Some(Confidence::Likely), Verdict::Unknown),
                (Lists::Either, _) => (Some(Confidence::Possible), Verdict::Healthy),
            };
            assert_eq!((found, report.verdict), expected, "{size:?} {known:?}: {}", report.summary);
        }
    }
}

#[tokio::test(start_paused = true)]
async fn the_messages_of_cri_o_have_fewer_entries_than_those_of_containerd() {
    let mut evidence = evidence(Size::Near).await;
    evidence.runtime.containers.first.as_mut().unwrap().response_bytes = 40 * MIB;
    Known { minor: 37, gate: Some(true), gauge: Some(true), logged: false }.tell(&mut evidence);
    let severity_and_entries = |evidence: &Evidence| {
        let report = judge_once(evidence);
        let found = size_finding(&report).unwrap();
        (found.title.clone(), found.evidence[0].split(' ').nth(1).unwrap().to_owned())
    };
    let (title, entries) = severity_and_entries(&evidence);
    assert!(title.contains("probably refuses StreamContainers") && entries == "5000", "{title} {entries}");
    evidence.runtime.version.as_mut().unwrap().result.as_mut().unwrap().runtime_name = "cri-o".into();
    let (title, entries) = severity_and_entries(&evidence);
    assert!(title.contains("StreamContainers grow towards") && entries == "3000", "{title} {entries}");
}

#[tokio::test(start_paused = true)]
async fn a_finding_about_a_list_says_why_it_is_not_certain() {
    let mut evidence = evidence(Size::Over).await;
    let mut why = |known: Known| {
        known.tell(&mut evidence);
        let report = judge(&evidence);
        size_finding(&report).unwrap().evidence.join("\n")
    };
    let known = Known { minor: 38, gate: None, gauge: None, logged: false };
    assert!(why(known).contains("a kubelet from 1.38 on may stream (planned, not confirmed)"));
    let on = why(Known { gate: Some(true), ..known });
    assert!(on.contains("CRIListStreaming is on in configz"), "{on}");
    let fallen_back = why(Known { gate: Some(true), gauge: Some(false), ..known });
    assert!(fallen_back.contains("kubelet_cri_streaming_enabled is 0"), "{fallen_back}");
    let usual = why(Known { minor: 36, ..known });
    assert!(!usual.contains("the kubelet lists with"), "nothing to say: {usual}");
}

#[tokio::test(start_paused = true)]
async fn a_fallback_that_an_earlier_kubelet_logged_does_not_count() {
    let mut evidence = evidence(Size::Over).await;
    Known { minor: 38, gate: None, gauge: None, logged: true }.tell(&mut evidence);
    evidence.kubelet.pid = Some(7);
    assert_eq!(judge(&evidence).verdict, Verdict::Unhealthy);
    evidence.kubelet.pid = Some(8);
    assert_eq!(size_finding(&judge(&evidence)).unwrap().confidence, Confidence::Likely);
}

/// Returns a node whose runtime refuses the whole list of containers; its lists by state are answered.
async fn refused_list() -> Evidence {
    let mut script = Scripted::with_pods(3);
    let old = script.now - 3_600_000_000_000;
    script.containers.extend((1000..1300).map(|pod| container(pod, ContainerState::Exited, old)));
    let message = "trying to send message larger than max (18374652 vs. 16777216)";
    let error = Error::TooLarge { rpc: Rpc::ListContainers, message: message.into() };
    let script =
        script.on(Rpc::ListContainers, Behaviour::Fails(error)).on_id("by-state".into(), Behaviour::Answers);
    gather(&inputs(script), &|_| ()).await
}

#[tokio::test(start_paused = true)]
async fn a_list_that_the_runtime_refuses_to_plegctl_does_not_hurt_a_kubelet_that_streams() {
    let mut evidence = refused_list().await;
    let known = Known { minor: 37, gate: None, gauge: None, logged: false };
    known.tell(&mut evidence);
    let report = judge(&evidence);
    assert_eq!(
        (report.verdict, size_finding(&report).unwrap().severity),
        (Verdict::Unhealthy, Severity::Critical)
    );
    Known { gauge: Some(true), ..known }.tell(&mut evidence);
    let report = judge(&evidence);
    assert!(size_finding(&report).is_none(), "{report:#?}");
    assert_ne!(report.verdict, Verdict::Unhealthy, "{report:#?}");
    Known { minor: 38, ..known }.tell(&mut evidence);
    assert_eq!(judge(&evidence).verdict, Verdict::Unknown);
}

#[test]
fn relists_know_nothing_from_the_size_of_a_list_unless_the_kubelets_lists_are_unary() {
    let begun = Mono::at(Duration::ZERO);
    let mut calls = RelistCalls::new(begun);
    calls.call_finished(&CallRecord {
        rpc: Rpc::ListContainers.name().to_owned(),
        id: None,
        pod: None,
        duration_seconds: Duration::from_millis(100).into(),
        response_bytes: 40 * MIB,
        outcome: Outcome::Ok,
        code: None,
        message: None,
    });
    let by = |lists_are_unary| {
        let settings = RelistSettings { lists_are_unary, ..RelistSettings::default() };
        verdict(&VerdictFacts::of_calls(&calls, &settings, Some(begun), begun))
    };
    assert_eq!((by(true), by(false)), (Verdict::Unhealthy, Verdict::Unknown));
}
