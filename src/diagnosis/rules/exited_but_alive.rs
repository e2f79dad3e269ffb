//! D42: the runtime says exited, and the container runs.

use super::prelude::*;
use crate::diagnosis::living_exits::LivingExit;

/// The most findings of D42.
const MAX_LIVING: usize = 5;

/// Applies D42, the reverse of D19. The first sample is as old as the list, and a container that is just ending looks the
/// same. So only the second sample or an end that was recorded earlier makes the finding certain.
pub(super) fn find(case: &Case<'_>) -> Vec<HealthFinding> {
    let evidence = case.evidence;
    let Some(host) = evidence.node() else { return Vec::new() };
    let living = host.living_exits.iter().filter_map(|living| Some((living, living.process(evidence)?)));
    let finding_of = |(living, process): (&LivingExit, &Process)| {
        let (id, of) = (&living.id, evidence.names.item(&living.id));
        let title = FactKind::ExitedButAlive { of: of.clone(), process: process.into() };
        let status = evidence.runtime.status_calls.iter().find(|record| record.target.id == *id);
        let status = status.and_then(|record| record.result.as_ref().ok());
        let ended = status.and_then(|facts| Some(evidence.taken_at.duration_since(facts.finished_at?)));
        let (confidence, lasts) = match (&host.second, ended.filter(|ended| *ended >= limits::SAMPLES_APART))
        {
            (Some((apart, _)), _) => (Confidence::Certain, FactKind::RanAfterList { after: (*apart).into() }),
            (None, Some(ended)) => (Confidence::Certain, FactKind::EndRecorded { ago: ended.into() }),
            (None, None) => (Confidence::Possible, FactKind::SeenOnceMayEnd),
        };
        let mut found = case
            .about(finding(RuleId::ExitedButAlive, Severity::Warning, confidence, title), Some(id.as_str()));
        let monitor = host.latest().processes.get(&process.parent);
        found.add_fact(FactKind::FirstProcess {
            process: process.into(),
            of,
            age: process.age.into(),
            state: process.state,
            below: monitor.map(Into::into),
        });
        let is_crio = evidence.family() == DaemonFamily::Crio;
        if let Some(code) = status.and_then(|facts| facts.exit_code) {
            let is_of_failed_state = is_crio && code == 255;
            found.add_fact(FactKind::ExitCodeRecorded { code, is_of_failed_state });
        }
        found.add_fact(FactKind::KubeletActsOnFalseExit);
        found.add_fact(lasts);
        let places = [("pid", Place::Process(process.pid)), ("id", Place::word(short(id)))];
        found.steps = evidence.steps("exitedButAlive", &places);
        found
    };
    living.map(finding_of).take(MAX_LIVING).collect()
}
