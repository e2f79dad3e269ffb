//! Every kind of fact as JSON and back, with sample values for each type of field.

use std::cell::Cell;

use super::*;
use crate::clock::Wall;
use crate::cri::{Code, Rpc};
use crate::diagnosis::evidence::oddities::OddKind;
use crate::diagnosis::failing_pods::{FailingStep, FailureCause};
use crate::diagnosis::forecast::{LimitForecast, LimitKind};
use crate::diagnosis::proc::clients::IoCounters;
use crate::diagnosis::report::{RuleId, Verdict};
use crate::manifests::preflight::CertificateUse;
use crate::report::{Confidence, PodRef};

thread_local! {
    static OTHER_WORDS: Cell<bool> = const { Cell::new(false) };
}

/// Whether this thread's facts have other words, as if each row of the table had been changed.
pub(super) fn has_other_words() -> bool {
    OTHER_WORDS.get()
}

/// Calls `function` while each fact has other words.
pub fn with_other_words<T>(function: impl FnOnce() -> T) -> T {
    OTHER_WORDS.set(true);
    let result = function();
    OTHER_WORDS.set(false);
    result
}

/// Sample values of a type of field.
pub(super) trait Sample {
    /// Returns a value that has everything, or one that is as empty as possible.
    fn sample(is_full: bool) -> Self;
}

/// Defines the sample values of types: a full one and an empty one.
macro_rules! samples {
    ($($type:ty: $full:expr, $empty:expr;)+) => {$(
        impl Sample for $type {
            fn sample(is_full: bool) -> Self {
                if is_full { $full } else { $empty }
            }
        }
    )+};
}

samples! {
    bool: true, false;
    char: 'T', 'D';
    i32: 137, -1;
    u8: 4, 0;
    u16: 503, 0;
    u32: 812, 0;
    u64: 16 << 20, 0;
    usize: 12, 0;
    Address: Address::from("unix:///run/containerd/containerd.sock"), Address::from("unix:");
    Bytes: Bytes(12_345), Bytes(0);
    Call: Call { rpc: Rpc::ContainerStatus, of: Some(Item::sample(true)) }, Call { rpc: Rpc::Version, of: None };
    CertificateUse: CertificateUse::CallerAuthority, CertificateUse::Client;
    Code: Code::Unavailable, Code::Unknown;
    ConditionName: ConditionName::from("RuntimeReady"), ConditionName::from("");
    Confidence: Confidence::Likely, Confidence::Certain;
    Counted: Counted::InSmallerLists, Counted::All;
    Decimal: Decimal::from(2.5), Decimal::from(-0.25);
    DescriptorUse: DescriptorUse { process: ProcessRef::sample(true), open: 1024, limit: 1024 },
        DescriptorUse { process: ProcessRef::sample(false), open: 0, limit: 0 };
    ExpectedLoad: ExpectedLoad { containers: 3, sandboxes: 2, shims: 2 },
        ExpectedLoad { containers: 0, sandboxes: 0, shims: 0 };
    Fact: FactKind::ListAnswered { rpc: Rpc::Version, took: Took::sample(true) }.into(), Fact::line(String::new());
    FailingStep: FailingStep::StopSandbox, FailingStep::CreateSandbox;
    FailureCause: FailureCause::Network, FailureCause::Other;
    FilePath: FilePath::from("/etc/containerd/config.toml:3:1"), FilePath::from("/");
    FileSystem: FileSystem::from("nfs4"), FileSystem::from("");
    Function: Function::from("rtnl_lock"), Function::from("");
    IoCounters: IoCounters { read_bytes: 6 << 20, reads: 433, written_bytes: 36 << 10, writes: 806 }, IoCounters::default();
    Item: Item {
            id: "0123456789abcdef".to_owned(),
            pod: Some(PodRef::sample(true)),
            container: Some("app".to_owned()),
        },
        Item { id: "0123456789abcdef".to_owned(), pod: None, container: None };
    Items: Items::Containers, Items::Sandboxes;
    LimitForecast: LimitForecast {
            limit: LimitKind::Threads,
            process: Some(ProcessRef::sample(true)),
            used: 6312,
            max: 10_000,
            per_minute: Decimal::from(3.4),
            since: Wall::from_nanos(0),
            taken_at: Wall::from_nanos(3_600_000_000_000),
            full_at: Wall::from_nanos(7_200_000_000_000),
            confidence: Confidence::Likely,
        },
        LimitForecast { limit: LimitKind::SandboxList, process: None, ..LimitForecast::sample(true) };
    LimitKind: LimitKind::Threads, LimitKind::ContainerList;
    Name: Name::from("shop/web-*"), Name::from("");
    OddKind: OddKind::NoProcess, OddKind::TwiceReady;
    OwnerProcess: OwnerProcess { process: ProcessRef::sample(true), is_stopped: true },
        OwnerProcess { process: ProcessRef::sample(false), is_stopped: false };
    PodAge: PodAge { pod: PodRef::sample(true), age: Took::sample(true) },
        PodAge { pod: PodRef::sample(false), age: Took::sample(false) };
    PodBytes: PodBytes { pod: PodRef::sample(true), bytes: Bytes(1) },
        PodBytes { pod: PodRef::sample(false), bytes: Bytes(0) };
    PodChange: PodChange::Deleted, PodChange::Created;
    PodRef: PodRef { uid: "a1".to_owned(), namespace: "shop".to_owned(), name: "db-0".to_owned() },
        PodRef { uid: "a1".to_owned(), ..PodRef::default() };
    ProcessRef: ProcessRef { name: "containerd".to_owned(), pid: 812 }, ProcessRef { name: String::new(), pid: 0 };
    Program: Program::from("runc"), Program::from("");
    Quoted: Quoted::from("error: \"x\"\n"), Quoted::from("");
    Refusal: Refusal::from("unknown flag: --x"), Refusal::from("");
    Release: Release::from("1.7.2"), Release::from("");
    Resource: Resource::Cpu, Resource::Memory;
    RuleId: RuleId::HungStatus, RuleId::NothingFound;
    Rpc: Rpc::ListContainers, Rpc::Version;
    Share: Share { name: Name::sample(true), count: 2600 }, Share { name: Name::sample(false), count: 0 };
    Took: Took::from(std::time::Duration::new(3, 900_000_001)), Took::from(std::time::Duration::ZERO);
    Verdict: Verdict::Unhealthy, Verdict::Healthy;
    Waits: Waits { reason: Word::from("KR01"), owner: Some(WaitOwner::sample(true)) },
        Waits { reason: Word::from("KR01"), owner: None };
    WaitOwner: WaitOwner::Mounted {
            source: Address::sample(true),
            file_system: FileSystem::sample(true),
            daemon: Some(OwnerProcess::sample(true)),
        },
        WaitOwner::Process { process: OwnerProcess::sample(false) };
    Word: Word::from("exec"), Word::from("");
    Wall: Wall::from_nanos(1_700_000_000_000_000_001), Wall::from_nanos(0);
}

impl<T: Sample> Sample for Option<T> {
    fn sample(is_full: bool) -> Self {
        is_full.then(|| T::sample(true))
    }
}

impl<T: Sample> Sample for Vec<T> {
    fn sample(is_full: bool) -> Self {
        if is_full { vec![T::sample(true), T::sample(false)] } else { Self::new() }
    }
}

impl<T: Sample> Sample for Box<T> {
    fn sample(is_full: bool) -> Self {
        Self::new(T::sample(is_full))
    }
}

#[test]
fn a_fact_of_every_kind_is_the_same_after_it_was_json() {
    for kind in FactKind::samples() {
        let fact = Fact::from(kind);
        let text = serde_json::to_string(&fact).unwrap();
        assert!(text.starts_with("{\"kind\":\"") && !text.contains("null"), "{text}");
        let read: Fact = serde_json::from_str(&text).unwrap();
        assert_eq!((&read, read.to_string()), (&fact, fact.to_string()), "{text}");
    }
}

#[test]
fn no_two_kinds_of_facts_have_the_same_words() {
    let mut seen = std::collections::HashMap::new();
    // These repeat the words of another program.
    let is_quote = |kind: &FactKind| matches!(kind, FactKind::Line { .. } | FactKind::Logged { .. });
    for kind in FactKind::samples().into_iter().filter(|kind| !is_quote(kind)) {
        let discriminant = std::mem::discriminant(&kind);
        let other = seen.insert(kind.to_string(), discriminant).filter(|other| *other != discriminant);
        assert_eq!(other, None, "another kind has the words of {kind:?}: {kind}");
    }
}

#[test]
fn a_fact_of_a_kind_or_a_field_that_is_not_known_is_read_as_unknown() {
    for text in [
        r#"{"kind": "ofALaterRelease", "rpc": "Version", "took": 3}"#,
        r#"{"kind": "listAnswered", "rpc": "OfALaterRelease", "took": {"seconds": 3}}"#,
        r#"{"kind": "listAnswered", "took": {"seconds": 3}}"#,
    ] {
        assert_eq!(serde_json::from_str::<Fact>(text).unwrap(), Fact(FactKind::Unknown), "{text}");
    }
}
