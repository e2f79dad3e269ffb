//! [`SavedReport`]: a report as `health --save`, `--bundle` and a recorder write it, with what was measured. `health --from FILE`
//! reads it from a file, standard input or a bundle, and judges what was measured again, because a newer plegctl may know more.
//! `health --node` does the same with the answer of a recorder. A `HealthReport` without it is returned as it is. A
//! `RelistReport` is converted to evidence and judged.

use std::path::Path;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use super::bundle;
use crate::cmd::Error;
use crate::cri::{
    Call, Code, Container, ContainerMetadata, ContainerState, Labels, Outcome, Rpc, Sandbox, SandboxMetadata,
    SandboxState, Version, label,
};
use crate::diagnosis::evidence::{Evidence, ListEvidence, StatusFacts, StatusRecord, StatusTarget};
use crate::diagnosis::names::ItemKind;
use crate::diagnosis::report::HealthReport;
use crate::diagnosis::{RunFacts, VerdictFacts, judge};
use crate::pleg::report::{RelistReport, ReportedContainer, ReportedPod};
use crate::pleg::{CallRecord, KubeletState};
use crate::report::load::{self, LARGEST_REPORT, load};

/// A report, with what its run measured.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub struct SavedReport<'a, T> {
    #[serde(flatten)]
    report: &'a T,
    #[serde(skip_serializing_if = "Option::is_none")]
    measured: Option<Box<RawValue>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    verdict_facts: Option<VerdictFacts>,
}

impl<'a, T> SavedReport<'a, T> {
    /// Adds to a report what its run measured, which is the text of [`RunFacts`], on one line; and what decided
    /// the present verdict of a recorder.
    pub fn new(report: &'a T, measured: Option<String>, verdict_facts: Option<VerdictFacts>) -> Self {
        Self { report, measured: measured.and_then(|text| RawValue::from_string(text).ok()), verdict_facts }
    }
}

/// What a [`SavedReport`] has beside its report.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct MeasuredPart<'a> {
    #[serde(borrow)]
    pub measured: Option<&'a RawValue>,
    pub verdict_facts: Option<VerdictFacts>,
}

/// Reads the report at `path`; `-` is standard input. Returns also a note, if the report was judged again with another result, or
/// could not be judged again.
pub(super) fn read_report(path: &Path) -> Result<(HealthReport, Option<String>), Error> {
    let (name, bytes) = if path == Path::new("-") {
        ("stdin".to_owned(), load::stdin(LARGEST_REPORT))
    } else {
        (path.display().to_string(), load(path, LARGEST_REPORT))
    };
    let bytes = bytes.map_err(|source| Error::Read {
        name: name.clone(),
        source,
        made_by: Some("plegctl health --save FILE"),
    })?;
    let report = if bundle::is_gzip(&bytes) {
        bundle::extract_report(&bytes).and_then(|bytes| parse_report(&bytes))
    } else {
        parse_report(&bytes)
    };
    report.map_err(|why| Error::NoHealthReport { name, why })
}

fn parse_report(bytes: &[u8]) -> Result<(HealthReport, Option<String>), String> {
    #[derive(Default, Deserialize)]
    #[serde(rename_all = "camelCase", default)]
    struct ReportHeading {
        kind: String,
        api_version: String,
    }
    let ReportHeading { kind, api_version } = serde_json::from_slice(bytes).map_err(|why| why.to_string())?;
    if api_version != HealthReport::API_VERSION {
        return Err(match kind.as_str() {
            "" => "it has no kind".to_owned(),
            kind => format!("it is {kind} of `{api_version}`"),
        });
    }
    match kind.as_str() {
        HealthReport::KIND => {
            let saved: HealthReport = serde_json::from_slice(bytes).map_err(|why| why.to_string())?;
            let part: MeasuredPart<'_> = serde_json::from_slice(bytes).map_err(|why| why.to_string())?;
            Ok(match part.measured {
                Some(measured) => judge_again(saved, measured),
                None => (saved, None),
            })
        }
        "RelistReport" => {
            let relist = RelistReport::read(bytes).map_err(|why| why.to_string())?;
            Ok((judge(&evidence_of(&relist)), None))
        }
        kind => Err(format!("it is {kind}")),
    }
}

/// Judges what the run of a saved report measured. Returns also a note if the result differs from the saved report; if the facts
/// cannot be read, returns the saved report and the reason.
fn judge_again(saved: HealthReport, measured: &RawValue) -> (HealthReport, Option<String>) {
    let facts = match RunFacts::read(measured.get().as_bytes()) {
        Ok(facts) => facts,
        Err(why) => return (saved, Some(unreadable(&why))),
    };
    let measured_by = facts.plegctl().to_owned();
    let report = HealthReport { source: saved.source.clone(), stacks: None, ..judge(&facts.into()) };
    let note = (report != saved).then(|| difference(&measured_by, &report, &saved));
    (report, note)
}

/// Says that the facts of a report cannot be read.
pub(super) fn unreadable(why: &str) -> String {
    format!("this report is as it was saved: its facts cannot be read: {why}")
}

/// Says how a report that was judged again differs from what was saved.
pub(super) fn difference(measured_by: &str, report: &HealthReport, saved: &HealthReport) -> String {
    let of_facts = format!("judged again from what plegctl {measured_by} measured");
    if (report.verdict, &report.summary) == (saved.verdict, &saved.summary) {
        format!("{of_facts}; its report has other words")
    } else {
        format!("{of_facts}; it said: {}: {}", saved.verdict, saved.summary)
    }
}

/// Converts a relist into the evidence that `health` judges.
fn evidence_of(relist: &RelistReport) -> Evidence {
    let mut evidence = Evidence {
        taken_at: relist.taken_at,
        node: relist.node.clone().unwrap_or_default(),
        endpoint: relist.runtime.endpoint.clone(),
        took: relist.relist.duration_seconds.duration(),
        ..Evidence::default()
    };
    let calls = &relist.relist.calls;
    let text_of = |text: &Option<String>| text.clone().unwrap_or_default();
    let version = Version {
        version: String::new(),
        runtime_name: text_of(&relist.runtime.name),
        runtime_version: text_of(&relist.runtime.version),
        runtime_api_version: text_of(&relist.runtime.api_version),
    };
    let runtime = &mut evidence.runtime;
    runtime.version = Some(Call {
        rpc: Rpc::Version,
        duration: Duration::ZERO,
        response_bytes: 0,
        stream: None,
        result: Ok(version),
    });
    runtime.sandboxes = list(calls, Rpc::ListPodSandbox, relist.pods.iter().flat_map(sandboxes));
    runtime.containers = list(calls, Rpc::ListContainers, relist.pods.iter().flat_map(containers));
    runtime.status_calls = calls.iter().filter_map(|call| status(relist, call)).collect();
    let no_status_calls = runtime.status_calls.is_empty() && runtime.listed_ids().next().is_some();
    evidence.learn_listed_names();
    if no_status_calls {
        evidence.ended_early =
            Some("this relist has no status calls; save one with --inspect all".to_owned());
    }
    evidence.skip("the node, the kubelet and Status", "a RelistReport has the calls of a relist only");
    evidence
}

fn list<T>(calls: &[CallRecord], rpc: Rpc, items: impl Iterator<Item = T>) -> ListEvidence<T> {
    let listed_by = Rpc::ALL.into_iter().filter(|known| known.unary() == rpc);
    let mut call = listed_by.filter_map(|rpc| {
        let call = calls.iter().find(|call| call.rpc == rpc.name() && call.pod.is_none())?;
        Some((rpc, call))
    });
    let first = call.next().map(|(rpc, call)| Call {
        rpc,
        duration: call.duration_seconds.duration(),
        response_bytes: call.response_bytes,
        stream: call.stream,
        result: Ok(items.collect()),
    });
    ListEvidence { first, ..ListEvidence::default() }
}

fn labels(pod: &ReportedPod) -> Labels {
    [(label::POD_UID, &pod.uid), (label::POD_NAMESPACE, &pod.namespace), (label::POD_NAME, &pod.name)]
        .into_iter()
        .filter(|(_, value)| !value.is_empty())
        .collect()
}

fn sandboxes(pod: &ReportedPod) -> impl Iterator<Item = Sandbox> {
    pod.sandboxes.iter().map(|sandbox| Sandbox {
        id: sandbox.id.clone(),
        metadata: Some(SandboxMetadata {
            name: pod.name.clone(),
            uid: pod.uid.clone(),
            namespace: pod.namespace.clone(),
            attempt: sandbox.attempt,
        }),
        state: match sandbox.state {
            KubeletState::Running => SandboxState::Ready,
            KubeletState::Exited => SandboxState::NotReady,
            KubeletState::Created | KubeletState::Unknown => SandboxState::Unknown,
        },
        created_at: sandbox.created_at.map_or(0, crate::clock::Wall::nanos),
        labels: labels(pod),
        annotations: Labels::default(),
    })
}

fn containers(pod: &ReportedPod) -> impl Iterator<Item = Container> {
    pod.containers.iter().map(|container| Container {
        id: container.id.clone(),
        sandbox_id: container.sandbox_id.clone().unwrap_or_default(),
        metadata: Some(ContainerMetadata { name: container.name.clone(), attempt: container.attempt }),
        state: match container.state {
            KubeletState::Created => ContainerState::Created,
            KubeletState::Running => ContainerState::Running,
            KubeletState::Exited => ContainerState::Exited,
            KubeletState::Unknown => ContainerState::Unknown,
        },
        created_at: container.created_at.map_or(0, crate::clock::Wall::nanos),
        image: None,
        image_ref: String::new(),
        labels: labels(pod),
        annotations: Labels::default(),
    })
}

fn status(relist: &RelistReport, call: &CallRecord) -> Option<StatusRecord> {
    let kind =
        [ItemKind::Sandbox, ItemKind::Container].into_iter().find(|kind| kind.rpc().name() == call.rpc)?;
    let (rpc, id) = (kind.rpc(), call.id.clone()?);
    let waited = call.duration_seconds.duration();
    let message = || call.message.clone().unwrap_or_default();
    let result = match call.outcome {
        Outcome::Ok => Ok(facts(relist, kind, &id)),
        Outcome::Silent => Err(crate::cri::Error::Silent { rpc, waited }),
        Outcome::Error => {
            let named = |code: &Code| Some(code.name()) == call.code.as_deref();
            let code = Code::ALL.into_iter().find(named).unwrap_or(Code::Unknown);
            Err(crate::cri::Error::Runtime { rpc, code, message: message() })
        }
    };
    Some(StatusRecord {
        target: StatusTarget { kind, id },
        rpc,
        duration: waited,
        response_bytes: call.response_bytes,
        result,
        serial: false,
        pending: false,
    })
}

/// Returns the facts of a status answer, as far as the report contains them.
fn facts(relist: &RelistReport, kind: ItemKind, id: &str) -> StatusFacts {
    // A relist reports a status answer without its required fields as an error, so an answer that is "ok" in the
    // report had them.
    let answered = StatusFacts { present: true, created_at: Some(relist.taken_at), ..StatusFacts::default() };
    let of_container = |container: &ReportedContainer| {
        let status = container.status.as_ref();
        StatusFacts {
            created_at: container.created_at,
            started_at: status.and_then(|status| status.started_at),
            finished_at: status.and_then(|status| status.finished_at),
            exit_code: status.and_then(|status| status.exit_code),
            ..answered
        }
    };
    match kind {
        ItemKind::Sandbox => answered,
        ItemKind::Container => {
            let mut all = relist.pods.iter().flat_map(|pod| &pod.containers);
            all.find(|container| container.id == id).map_or(answered, of_container)
        }
    }
}
