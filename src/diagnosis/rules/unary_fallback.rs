//! D43: the kubelet fell back to unary lists.

use super::large_list::stream_again;
use super::list_size::percent_of_limit;
use super::prelude::*;
use crate::diagnosis::evidence::StreamProbe;

/// Applies D43: the kubelet fell back to unary lists, the runtime streams lists now, and a list is large.
pub(super) fn find(case: &Case<'_>) -> Option<HealthFinding> {
    let evidence = case.evidence;
    let StreamProbe { rpc, answer } = evidence.stream_probe.filter(|_| evidence.fallback_matters())?;
    let title = FactKind::KubeletFellBack;
    let mut found = finding(RuleId::UnaryFallback, Severity::Warning, Confidence::Certain, title);
    found.rpc = Some(rpc.name().to_owned());
    let why = Quoted(evidence.kubelet_lists().reason());
    found.add_fact(FactKind::KubeletListsBy { streams: Some(false), why });
    let logged = evidence.journal.as_ref().and_then(|journal| journal.list_fallback.as_ref());
    found.add_fact(match logged {
        Some(fallback) => FactKind::RefusedStream { call: Quoted(fallback.call.clone()) },
        None => FactKind::RefusedStreamNotKnown,
    });
    let StreamedAnswer { entries, largest_message_bytes } = answer;
    let size_bytes = Bytes(largest_message_bytes);
    found.add_fact(FactKind::MessageSize {
        rpc,
        entries,
        size_bytes,
        percent: percent_of_limit(largest_message_bytes),
    });
    let largest = evidence.list_sizes().max_by_key(|(_, bytes)| *bytes);
    found.add_facts(largest.map(|(rpc, bytes)| FactKind::WholeListSize {
        rpc: rpc.unary(),
        size_bytes: Bytes(bytes),
        percent: percent_of_limit(bytes),
    }));
    found.steps = evidence.steps("fallback", &[]);
    found.steps.extend(stream_again(case).unwrap_or_else(|| steps_of("noRestart", &[])));
    Some(found)
}
