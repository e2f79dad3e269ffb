//! Whether the size of a list is a problem depends on how the kubelet lists. Each row of the matrix is a node with a list of one
//! size and with what plegctl knows about its kubelet.

use std::fs::File;
use std::io::Read;
use std::path::Path;
use std::time::Duration;

use flate2::read::GzDecoder;

use super::node::FakeNode;
use super::scripted::{Behaviour, Scripted, container, container_id, id, inputs};
use super::travels::judge;
use crate::clock::{Mono, Wall};
use crate::cri::{Container, ContainerState, Error, Outcome, Rpc, StreamedAnswer};
use crate::diagnosis::calls::RelistSettings;
use crate::diagnosis::evidence::{Evidence, StreamProbe};
use crate::diagnosis::gather;
use crate::diagnosis::journal::Journal;
use crate::diagnosis::kubelet::files::settings;
use crate::diagnosis::kubelet::{KubeletEvidence, KubeletInputs, MetricsReading, MetricsSource};
use crate::diagnosis::report::{Confidence, HealthFinding, HealthReport, RuleId, Severity, Verdict};
use crate::diagnosis::{NodeFacts, VerdictFacts, judge as judge_once, verdict};
use crate::kubelet::{KubeletVersion, ListCalls, ListGates, ListLimit, Metrics, Sourced};
use crate::pleg::CallRecord;
use crate::pleg::relist_calls::RelistCalls;
use crate::pleg::stream::Relist;

const MIB: u64 = 1 << 20;

/// Returns D03 for a node with a list of 17.6 MiB, whose kubelet's program is of this release.
async fn of_node_with_kubelet(release: &str) -> HealthFinding {
    let node = FakeNode::new(&format!("release-{release}")).with_pods(65);
    // A program of Go with the note about the release 1.35.
    let recorded = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/recordings/go-program.gz");
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

    fn gates(self) -> ListGates {
        self.gate.map(|gate| Sourced::new(gate, "configz").into()).unwrap_or_default()
    }

    fn tell(self, evidence: &mut Evidence) {
        evidence.settings.kubelet.value = KubeletVersion::parse(&format!("1.{}", self.minor)).unwrap();
        evidence.kubelet.config.list_gates = self.gates();
        let metrics = Metrics { streams_lists: self.gauge, ..Metrics::default() };
        evidence.kubelet.first = Some(MetricsReading { at: Wall::from_nanos(0), metrics });
        let line = "1.0 n kubelet[7]: \"StreamContainers not implemented, falling back to ListContainers\"";
        evidence.journal = self.logged.then(|| Journal::of(line));
    }
}

/// The streaming calls that the runtime implements. Each missing one makes a kubelet fall back, and plegctl only those of lists.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Implements {
    All,
    ListsOnly,
    None,
}

impl Implements {
    const ALL: [Self; 3] = [Self::All, Self::ListsOnly, Self::None];

    fn batch(self) -> Option<usize> {
        match self {
            Self::All | Self::ListsOnly => Some(BATCH),
            Self::None => None,
        }
    }
}

/// The entries in each message of the runtime's streams.
const BATCH: usize = 5000;

/// Returns a node with a list of this size, as it was received by these calls.
async fn evidence_by(size: Size, made: ListCalls) -> Evidence {
    let mut inputs = inputs(Scripted::with_pods(3).with_streams(Some(BATCH)));
    inputs.wanted_lists = Some(made);
    let mut evidence = gather(&inputs, &|_| ()).await;
    let (bytes, items) = size.bytes_and_items();
    // So many status calls would be a finding of their own.
    for record in &mut evidence.runtime.status_calls {
        record.duration = Duration::from_micros(10);
    }
    let list = evidence.runtime.containers.first.as_mut().unwrap();
    list.response_bytes = bytes;
    if let Some(stream) = &mut list.stream {
        let (entries, all) = (items.min(BATCH) as u64, items as u64);
        *stream = StreamedAnswer { entries: all, largest_message_bytes: bytes * entries / all };
    }
    let listed = list.result.as_mut().unwrap();
    let example = listed[0].clone();
    listed.extend((listed.len()..items).map(|at| Container { id: id(at, 'd'), ..example.clone() }));
    evidence
}

async fn evidence(size: Size) -> Evidence {
    evidence_by(size, ListCalls::Unary).await
}

fn size_finding(report: &HealthReport) -> Option<&HealthFinding> {
    report.findings.iter().find(|finding| finding.id == RuleId::LargeList)
}

/// Returns the metrics of a kubelet of this release with this gauge.
fn metrics(minor: u8, gauge: Option<bool>) -> MetricsSource {
    let series =
        |streams| format!("kubelet_cri_streaming_enabled{{service=\"runtime\"}} {}\n", u8::from(streams));
    let gauge = gauge.map(series).unwrap_or_default();
    let text = format!("kubernetes_build_info{{git_version=\"v1.{minor}.0\"}} 1\n{gauge}");
    MetricsSource::Text { name: "the test".to_owned(), text, written: None }
}

/// Returns the list calls that a run makes in the end, and the RPCs of lists that it sent.
async fn calls_made(known: Known, implements: Implements) -> (ListCalls, Vec<Rpc>) {
    let script = Scripted::with_pods(1).with_streams(implements.batch());
    let mut inputs = inputs(script);
    inputs.kubelet.metrics = Some(metrics(known.minor, known.gauge));
    inputs.list_gates = known.gates();
    let evidence = gather(&inputs, &|_| ()).await;
    let calls = inputs.runtime.calls.lock().unwrap();
    let sent = calls.iter().filter(|(rpc, about)| rpc.is_list() && about.is_empty()).map(|(rpc, _)| *rpc);
    (evidence.runtime.lists_by.unwrap().calls, sent.collect())
}

#[tokio::test(start_paused = true)]
async fn long_a_list_is_too_large_only_for_unary_calls_and_a_message_only_for_streamed_ones() {
    for size in Size::ALL {
        let mut by_unary = evidence_by(size, ListCalls::Unary).await;
        let mut by_stream = evidence_by(size, ListCalls::Stream).await;
        for (known, implements) in
            Known::all().into_iter().flat_map(|known| Implements::ALL.map(|implements| (known, implements)))
        {
            let row = format!("{size:?} {known:?} {implements:?}");
            let (made, sent) = calls_made(known, implements).await;
            let streams = match known {
                Known { minor: ..=35, .. } | Known { gauge: Some(false), .. } => false,
                Known { gauge: Some(true), .. } => true,
                // The journal is read after the lists.
                Known { gate, .. } => gate == Some(true),
            };
            let unary = Rpc::lists(ListCalls::Unary);
            let (expected, rpcs) = match (streams, implements) {
                (false, _) => (ListCalls::Unary, unary.to_vec()),
                (true, Implements::None) => {
                    (ListCalls::Unary, [[Rpc::StreamPodSandboxes].as_slice(), &unary].concat())
                }
                (true, _) => (ListCalls::Stream, Rpc::lists(ListCalls::Stream).to_vec()),
            };
            assert_eq!((made, sent), (expected, rpcs), "{row}");
            let is_measured = made == ListCalls::Stream;
            let evidence = if is_measured { &mut by_stream } else { &mut by_unary };
            known.tell(evidence);
            // The messages of these lists are small, or one is too large.
            evidence.stream_probe = implements.batch().map(|_| {
                let largest_message_bytes = if size == Size::LargeBatch { 33 * MIB } else { 8 * MIB };
                StreamProbe {
                    rpc: Rpc::StreamContainers,
                    answer: StreamedAnswer { entries: 9, largest_message_bytes },
                }
            });
            let report = judge_once(evidence);
            let found = size_finding(&report).map(|found| found.confidence);
            let is_over = matches!(size, Size::Over | Size::LargeBatch);
            let (certain, likely, possible) = (Confidence::Certain, Confidence::Likely, Confidence::Possible);
            let expected = match (known.lists(), size) {
                (_, Size::Small) => (None, Verdict::Healthy),
                (Lists::Unary, _) if is_over => (Some(certain), Verdict::Unhealthy),
                (Lists::Unary, _) => (Some(certain), Verdict::Degraded),
                (Lists::Stream | Lists::Either, Size::LargeBatch) if is_measured => {
                    (Some(certain), Verdict::Unhealthy)
                }
                (Lists::Stream, Size::LargeBatch) => (Some(likely), Verdict::Unknown),
                (Lists::Stream, _) => (None, Verdict::Healthy),
                (Lists::Either, _) if is_over => (Some(likely), Verdict::Unknown),
                // With other facts, the list needs a person or does not.
                (Lists::Either, _) => (Some(possible), Verdict::Unknown),
            };
            assert_eq!((found, report.verdict), expected, "{row}: {}", report.summary);
            // Only a streamed list shows that the runtime implements the stream.
            let fell_back =
                known.minor >= 36 && (known.gauge == Some(false) || known.gauge.is_none() && known.logged);
            let matters = fell_back && size != Size::Small && implements != Implements::None;
            let found = report.findings.iter().find(|found| found.id == RuleId::UnaryFallback);
            assert_eq!(found.map(|found| found.confidence), matters.then_some(certain), "{row}");
        }
    }
}

/// Returns the report of a node whose kubelet lists as the gauge says, with a list of this size.
async fn diagnosed(gauge: bool, list_bytes: u64, streams: Option<usize>) -> (HealthReport, usize) {
    let mut script = Scripted::with_pods(3).with_streams(streams);
    script.list_bytes = Some(list_bytes);
    let mut inputs = inputs(script);
    inputs.kubelet.metrics = Some(metrics(38, Some(gauge)));
    let evidence = gather(&inputs, &|_| ()).await;
    (judge(&evidence), inputs.runtime.times_called(Rpc::StreamContainers, ""))
}

#[tokio::test(start_paused = true)]
async fn a_kubelet_that_fell_back_is_found_if_the_runtime_streams_lists_now_and_a_list_is_large() {
    let (report, streamed) = diagnosed(false, 9 * MIB, Some(2)).await;
    let primary = report.primary.as_ref().unwrap();
    assert_eq!((report.verdict, primary.id), (Verdict::Degraded, RuleId::UnaryFallback), "{report:#?}");
    assert_eq!(primary.confidence, Confidence::Certain);
    let evidence = primary.evidence.join("\n");
    for part in [
        "kubelet_cri_streaming_enabled is 0",
        "is not known: the kubelet's message is not in the journal that was read",
        "StreamContainers: the largest message has 6.0 MiB, 37 % of the kubelet's limit; all messages have 3 entries",
        "ListContainers: the whole list has 9.0 MiB, 56 % of the kubelet's limit",
    ] {
        assert!(evidence.contains(part), "{part}: {evidence}");
    }
    let restarts = |report: &HealthReport| {
        let steps = &report.primary.as_ref().unwrap().steps;
        steps.iter().any(|step| step.changes_state && step.purpose.contains("lists with streams"))
    };
    assert!(restarts(&report), "{report:#?}");
    // plegctl makes the kubelet's calls, and one streamed list to find out whether the runtime implements it.
    assert_eq!((streamed, &report.list_calls.as_ref().unwrap().rpcs[1]), (1, &"ListContainers".to_owned()));
    // Above the limit, the restart comes before removing anything.
    let (report, _) = diagnosed(false, 17 * MIB, Some(1)).await;
    assert_eq!(
        (report.verdict, report.primary.as_ref().unwrap().id),
        (Verdict::Unhealthy, RuleId::LargeList)
    );
    assert!(restarts(&report), "{report:#?}");
    assert!(report.findings.iter().any(|found| found.id == RuleId::UnaryFallback));
    // A message that is too large is refused after a restart too.
    let (report, _) = diagnosed(false, 17 * MIB, Some(5000)).await;
    assert!(!restarts(&report) && report.findings.iter().any(|found| found.id == RuleId::UnaryFallback));
}

#[tokio::test(start_paused = true)]
async fn a_fallback_is_no_finding_without_the_stream_with_a_small_list_or_while_the_kubelet_streams() {
    for (gauge, bytes, streams, made) in [
        // The runtime does not implement the stream, so the kubelet does what it must.
        (false, 9 * MIB, None, 1),
        (false, 7 * MIB, Some(2), 0),
        (true, 9 * MIB, Some(2), 1),
    ] {
        let (report, streamed) = diagnosed(gauge, bytes, streams).await;
        assert_eq!((report.verdict, streamed), (Verdict::Healthy, made), "{gauge} {bytes}: {report:#?}");
    }
}

#[tokio::test(start_paused = true)]
async fn the_call_that_was_refused_is_the_one_in_the_kubelets_journal() {
    let mut evidence = evidence(Size::Near).await;
    Known { minor: 38, gate: None, gauge: None, logged: true }.tell(&mut evidence);
    let answer = StreamedAnswer { entries: 12_000, largest_message_bytes: MIB };
    evidence.stream_probe = Some(StreamProbe { rpc: Rpc::StreamContainers, answer });
    let line =
        "1.0 n kubelet[7]: \"StreamContainerStats not implemented, falling back to ListContainerStats\"";
    evidence.journal = Some(Journal::of(line));
    let report = judge(&evidence);
    let found = report.findings.iter().find(|found| found.id == RuleId::UnaryFallback).unwrap();
    let refused =
        "the runtime did not implement StreamContainerStats then; one of the five streaming calls is enough";
    assert!(found.evidence.iter().any(|line| line == refused), "{found:#?}");
}

#[tokio::test(start_paused = true)]
async fn line_1_says_why_a_list_close_to_the_limit_is_not_judged() {
    let mut evidence = evidence(Size::Near).await;
    Known { minor: 38, gate: None, gauge: None, logged: false }.tell(&mut evidence);
    let report = judge(&evidence);
    let why = "not judged: a list has more than half of 16 MiB, and it is not known whether the kubelet receives it in one message";
    assert_eq!((report.verdict, report.summary.as_str()), (Verdict::Unknown, why));
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

fn list(rpc: Rpc, response_bytes: u64, largest_message: Option<u64>) -> CallRecord {
    CallRecord {
        rpc: rpc.name().to_owned(),
        id: None,
        pod: None,
        duration_seconds: Duration::from_millis(100).into(),
        response_bytes,
        stream: largest_message
            .map(|largest_message_bytes| StreamedAnswer { entries: 9, largest_message_bytes }),
        outcome: Outcome::Ok,
        code: None,
        message: None,
    }
}

#[test]
fn relists_are_judged_by_list_or_by_message_as_far_as_it_is_certain_what_has_the_limit() {
    use Verdict::{Degraded, Healthy, Unhealthy, Unknown};
    let begun = Mono::at(Duration::ZERO);
    let unary = |size| list(Rpc::ListContainers, size, None);
    let streamed = |size, message| list(Rpc::StreamContainers, size, Some(message));
    // The verdicts if the limit is for the list, for a message, for one of both, or for the list since a fallback. Only
    // health finds out whether the runtime streams lists since then.
    let rows = [
        (unary(MIB), [Healthy, Healthy, Healthy, Healthy]),
        (unary(9 * MIB), [Healthy, Unknown, Unknown, Unknown]),
        (unary(15 * MIB), [Degraded, Unknown, Unknown, Degraded]),
        (unary(40 * MIB), [Unhealthy, Unknown, Unknown, Unhealthy]),
        (streamed(MIB, MIB), [Healthy, Healthy, Healthy, Healthy]),
        (streamed(9 * MIB, MIB), [Healthy, Healthy, Unknown, Unknown]),
        (streamed(15 * MIB, MIB), [Degraded, Healthy, Unknown, Degraded]),
        (streamed(40 * MIB, MIB), [Unhealthy, Healthy, Unknown, Unhealthy]),
        (streamed(15 * MIB, 15 * MIB), [Degraded, Degraded, Degraded, Degraded]),
        (streamed(40 * MIB, 15 * MIB), [Unhealthy, Degraded, Unknown, Unhealthy]),
        (streamed(40 * MIB, 17 * MIB), [Unhealthy, Unhealthy, Unhealthy, Unhealthy]),
    ];
    for (call, expected) in rows {
        let mut calls = RelistCalls::new(begun);
        calls.relist_begins(begun);
        calls.call_finished(&call);
        calls.relist_ended(&Relist::new(Wall::from_nanos(0), 1), None);
        let by = [ListLimit::List, ListLimit::Message, ListLimit::NotKnown, ListLimit::FallenBack].map(
            |list_limit| {
                let settings = RelistSettings { list_limit, ..RelistSettings::default() };
                verdict(&VerdictFacts::of_calls(&calls, &settings, Some(begun), begun))
            },
        );
        assert_eq!(by, expected, "{call:?}");
    }
}

/// A fault, the runtime that has it, and the rule that finds it.
type Fault<'a> = (&'a str, &'a dyn Fn() -> Scripted, RuleId);

/// What streaming changes is the size that counts, and nothing else.
#[tokio::test(start_paused = true)]
async fn a_fault_has_the_same_verdict_cause_and_culprits_with_streamed_lists() {
    let hang = |rpcs: &[Rpc]| {
        rpcs.iter().fold(Scripted::with_pods(5), |script, rpc| script.on(*rpc, Behaviour::Hangs))
    };
    let all = [
        Rpc::Version,
        Rpc::Status,
        Rpc::ListPodSandbox,
        Rpc::ListContainers,
        Rpc::StreamPodSandboxes,
        Rpc::StreamContainers,
        Rpc::PodSandboxStatus,
        Rpc::ContainerStatus,
    ];
    let lock = [Rpc::ListContainers, Rpc::StreamContainers];
    let faults: [Fault<'_>; 4] = [
        ("a stopped daemon", &|| hang(&all), RuleId::SilentRuntime),
        ("a lock that a list needs", &|| hang(&lock), RuleId::HungList),
        (
            "two containers",
            &|| {
                let script = Scripted::with_pods(5).on_id(container_id(1), Behaviour::Hangs);
                script.on_id(container_id(2), Behaviour::Hangs)
            },
            RuleId::HungStatus,
        ),
        ("nothing", &|| Scripted::with_pods(5), RuleId::NothingFound),
    ];
    for (what, script, rule) in faults {
        let mut reports = Vec::new();
        for calls in [ListCalls::Unary, ListCalls::Stream] {
            let mut inputs = inputs(script().with_streams(Some(2)));
            inputs.wanted_lists = Some(calls);
            reports.push(judge(&gather(&inputs, &|_| ()).await));
        }
        let seen: Vec<_> = reports
            .iter()
            .map(|report| {
                let culprits: Vec<&str> = report.culprits.iter().map(|culprit| culprit.id.as_str()).collect();
                let trips = report.estimate.as_ref().map(|estimate| estimate.would_trip);
                let primary = report.primary.as_ref().unwrap();
                (report.verdict, primary.id, primary.confidence, culprits, trips)
            })
            .collect();
        assert_eq!(seen[0], seen[1], "{what}");
        assert_eq!(seen[0].1, rule, "{what}");
    }
}
