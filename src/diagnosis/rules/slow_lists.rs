//! D30: lists are slow, cause not found.

use super::prelude::*;
use super::{Trait, many_clients, row};

/// Applies D30: a list is slow, and no other finding explains it.
pub(super) fn find(case: &Case<'_>, findings: &[HealthFinding]) -> Option<HealthFinding> {
    let runtime = &case.evidence.runtime;
    let [sandboxes, containers] = runtime.list_rpcs();
    let took = [(sandboxes, runtime.sandboxes.duration()), (containers, runtime.containers.duration())];
    let slowest = took.into_iter().filter_map(|(rpc, took)| Some((took?, rpc))).max();
    let (took, rpc) = slowest.filter(|(took, _)| *took > limits::LIST_SLOW)?;
    let explained = findings.iter().any(|found| {
        found.confidence != Confidence::Possible && row(found.id).traits.contains(&Trait::ExplainsSlowList)
    });
    if explained {
        return None;
    }
    let severity = if took >= limits::LIST_VERY_SLOW { Severity::Critical } else { Severity::Warning };
    let title = FactKind::ListSlow { rpc, took: took.into() };
    let mut found = finding(RuleId::SlowLists, severity, Confidence::Certain, title);
    found.rpc = Some(rpc.name().to_owned());
    let again = [
        runtime.sandboxes.second.as_ref().map(|call| call.duration),
        runtime.containers.second.as_ref().map(|call| call.duration),
    ];
    let again = again.into_iter().flatten().max();
    found.add_fact(FactKind::ListAnsweredLate { rpc, took: took.into() });
    found.add_facts(again.map(|again| FactKind::ListRepeated {
        took: again.into(),
        is_recovered: again <= limits::LIST_SLOW,
    }));
    let others = runtime.status_calls.iter().map(|record| record.duration);
    found.add_facts(others.max().map(|longest| FactKind::LongestStatusCall { took: longest.into() }));
    found.add_facts(many_clients::busiest_client(case));
    Some(found)
}
