//! Decides when `record` reports an incident to another system: when the incident has begun and is diagnosed, and when it is
//! over. `record --events` and `record --on-incident-put` follow these steps, each in its own thread, so that
//! they never delay a relist.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use crate::capture::entry::Incident;
use crate::capture::recording::IncidentSnapshot;
use crate::clock::Wall;

/// How often the incidents are looked at.
pub const PERIOD: Duration = Duration::from_secs(2);

/// How long after the kept period of an incident its steps are reported. The steps of an older incident, which is in the
/// recording from before, were reported by an earlier run or are of no use any more.
const OLD: Duration = Duration::from_secs(15 * 60);

/// How long a step waits for the first diagnosis of an incident.
const DIAGNOSIS_WAIT: Duration = Duration::from_secs(30);

/// A step of an incident.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum IncidentStep {
    /// The incident has begun, and its diagnosis is known or takes too long.
    Begun,
    /// The incident is over.
    Ended,
}

/// The steps that were reported, by the beginning of the incident.
#[derive(Debug, Default)]
pub struct IncidentSteps {
    reported: BTreeMap<i64, IncidentStep>,
}

impl IncidentSteps {
    /// Returns the steps that are due, each once.
    pub fn due(&mut self, known: &IncidentSnapshot) -> Vec<(IncidentStep, Incident)> {
        let is_open = |incident: &Incident| Some(incident.number) == known.open;
        let reported = &mut self.reported;
        let mut due = Vec::new();
        for incident in &known.incidents {
            let before = reported.get(&incident.from).copied();
            let age = known.taken_at.duration_since(Wall::from_nanos(incident.from));
            let is_over = !is_open(incident);
            // The end of an incident is recorded a moment after it is no longer open. If the recorder ended before, there is none.
            if is_over && incident.to == 0 {
                continue;
            }
            if before.is_none() && is_over && Wall::from_nanos(incident.pinned_to).plus(OLD) < known.taken_at
            {
                reported.insert(incident.from, IncidentStep::Ended);
                continue;
            }
            let is_ready = is_over || !incident.verdict.is_empty() || age >= DIAGNOSIS_WAIT;
            if before.is_none() && is_ready {
                due.push((IncidentStep::Begun, incident.clone()));
                reported.insert(incident.from, IncidentStep::Begun);
            }
            if before != Some(IncidentStep::Ended) && is_over {
                due.push((IncidentStep::Ended, incident.clone()));
                reported.insert(incident.from, IncidentStep::Ended);
            }
        }
        let listed: BTreeSet<i64> = known.incidents.iter().map(|incident| incident.from).collect();
        reported.retain(|from, _| listed.contains(from));
        due
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn incident(number: u64, verdict: &str, to: i64) -> Incident {
        let from = 1_000_000_000 * i64::try_from(number).unwrap();
        let (to, pinned_to) = (1_000_000_000 * to, 1_000_000_000 * (to + 300));
        Incident { number, from, to, pinned_to, verdict: verdict.to_owned(), ..Incident::default() }
    }

    fn at(second: u64, open: Option<u64>, incidents: &[Incident]) -> IncidentSnapshot {
        let taken_at = Wall::from_nanos(0).plus(Duration::from_secs(second));
        IncidentSnapshot { taken_at, open, incidents: incidents.to_vec() }
    }

    fn due(steps: &mut IncidentSteps, known: &IncidentSnapshot) -> Vec<(IncidentStep, u64)> {
        steps.due(known).into_iter().map(|(step, incident)| (step, incident.number)).collect()
    }

    #[test]
    fn each_step_is_due_once_and_waits_for_the_diagnosis() {
        let mut steps = IncidentSteps::default();
        let old = incident(1, "unhealthy", 2);
        // An earlier run of the recorder did not record the end of the second one.
        let earlier = [old.clone(), incident(3, "unhealthy", 0)];
        assert_eq!(due(&mut steps, &at(5000, None, &earlier)), []);
        let open = |verdict| [old.clone(), incident(5001, verdict, 0)];
        assert_eq!(due(&mut steps, &at(5003, Some(5001), &open(""))), [], "it is not diagnosed yet");
        assert_eq!(due(&mut steps, &at(5005, Some(5001), &open("unhealthy"))), [(IncidentStep::Begun, 5001)]);
        assert_eq!(due(&mut steps, &at(5007, Some(5001), &open("degraded"))), []);
        assert_eq!(due(&mut steps, &at(5008, None, &open("degraded"))), [], "its end is not recorded yet");
        let over = [old, incident(5001, "degraded", 5008)];
        assert_eq!(due(&mut steps, &at(5009, None, &over)), [(IncidentStep::Ended, 5001)]);
        assert_eq!(due(&mut steps, &at(5011, None, &over)), []);
        // A recorder that starts again soon reports again: the Event has the same name, and the capture the same URL.
        let again = [(IncidentStep::Begun, 5001), (IncidentStep::Ended, 5001)];
        assert_eq!(due(&mut IncidentSteps::default(), &at(5100, None, &over)), again);
    }

    #[test]
    fn incident_without_a_diagnosis_or_shorter_than_the_period_has_both_steps() {
        let mut steps = IncidentSteps::default();
        // The recorder starts during an incident.
        assert_eq!(due(&mut steps, &at(10, Some(1), &[incident(1, "", 0)])), []);
        assert_eq!(due(&mut steps, &at(31, Some(1), &[incident(1, "", 0)])), [(IncidentStep::Begun, 1)]);
        let short = [incident(1, "", 32), incident(33, "", 34)];
        let all = [(IncidentStep::Ended, 1), (IncidentStep::Begun, 33), (IncidentStep::Ended, 33)];
        assert_eq!(due(&mut steps, &at(40, None, &short)), all);
    }
}
