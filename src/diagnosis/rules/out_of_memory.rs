//! D12: memory is exhausted.

use super::load::{from_signs, grown, per_second};
use super::prelude::*;

/// Applies D12: the node lacks memory. This rule never reports a memory leak, because a run of plegctl is too short to
/// show a leak.
pub(super) fn find(case: &Case<'_>) -> Option<HealthFinding> {
    let host = case.evidence.node()?;
    let sample = host.latest();
    let mut signs = Vec::new();
    let pressure = sample.pressure_on(|pressure| pressure.memory);
    if pressure.highest(Psi::all_waited) >= limits::MEMORY_FULL {
        signs.extend(Resource::Memory.pressure(&pressure));
    }
    let memory = sample.memory;
    if memory.total > 0 && memory.available * 100 < memory.total * limits::MEMORY_AVAILABLE_PERCENT {
        let (available_bytes, bytes) = (memory.available * 1024, memory.total * 1024);
        signs.push(FactKind::MemoryIsAvailable { available_bytes, bytes });
    }
    if let Some((processes, within)) = grown(host, "oom_kill").filter(|(killed, _)| *killed > 0) {
        signs.push(FactKind::KilledForMemory { processes, within: within.into() });
    }
    if let Some((faults, apart)) = grown(host, "pgmajfault")
        && per_second(faults, apart) >= limits::MAJOR_FAULTS_PER_SECOND
    {
        signs.push(FactKind::MajorPageFaults { faults, within: apart.into() });
    }
    let logged = case.evidence.journal.as_ref().and_then(|journal| journal.out_of_memory.as_ref());
    let names_a_daemon = |line: &&String| {
        ["kubelet", "containerd", "crio", "runc", "conmon"].iter().any(|name| line.contains(name))
    };
    signs.extend(logged.filter(names_a_daemon).map(|line| FactKind::Logged { line: line.into() }));
    from_signs(case, RuleId::OutOfMemory, FactKind::NodeIsOutOfMemory, signs)
}
