//! When a call without an answer is worth a word: after 5 s, 10 s, 30 s, and then each minute.

use std::time::Duration;

use super::calls::OpenCall;
use crate::clock::Mono;

/// From when on a call is called silent.
pub const SILENT_AFTER: Duration = Duration::from_secs(5);

/// The times of the words after the first; from the last of them on there is one a minute.
const STEPS: [Duration; 3] = [Duration::from_secs(10), Duration::from_secs(30), MINUTE];

const MINUTE: Duration = Duration::from_secs(60);

/// What was said of the call that is open.
#[derive(Clone, Copy, Debug, Default)]
pub struct Silence {
    /// When the call began that something was said of, and how long it had been silent then.
    said: Option<(Mono, Duration)>,
}

impl Silence {
    /// For how long the open call has been silent, if it is time to say so.
    pub fn due(&mut self, open: Option<&OpenCall>, now: Mono) -> Option<Duration> {
        let started = open?.started;
        let said = self.said.filter(|(of, _)| *of == started).map(|(_, said)| said);
        let next = said.map_or(SILENT_AFTER, following);
        let waited = now.since(started);
        if waited < next {
            return None;
        }
        // Whoever looks late says what is true now, and not everything that was missed.
        let step = std::iter::successors(Some(next), |step| Some(following(*step)))
            .take_while(|step| *step <= waited)
            .last()
            .unwrap_or(next);
        self.said = Some((started, step));
        Some(step)
    }
}

fn following(said: Duration) -> Duration {
    STEPS.into_iter().find(|step| *step > said).unwrap_or_else(|| said.saturating_add(MINUTE))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cri::Rpc;

    fn at(seconds: u64) -> Mono {
        Mono::at(Duration::from_secs(seconds))
    }

    fn call(started: u64) -> OpenCall {
        OpenCall { rpc: Rpc::ContainerStatus, id: None, pod: None, started: at(started) }
    }

    #[test]
    fn a_silent_call_is_told_at_five_ten_thirty_and_each_minute() {
        let (mut silence, open) = (Silence::default(), call(100));
        let told: Vec<u64> = (100..400)
            .filter_map(|now| silence.due(Some(&open), at(now)))
            .map(|step| step.as_secs())
            .collect();
        assert_eq!(told, [5, 10, 30, 60, 120, 180, 240]);
    }

    #[test]
    fn another_call_begins_anew_and_a_late_look_says_it_once() {
        let mut silence = Silence::default();
        assert_eq!(silence.due(Some(&call(0)), at(47)), Some(Duration::from_secs(30)));
        assert_eq!(silence.due(Some(&call(0)), at(48)), None);
        assert_eq!(silence.due(Some(&call(50)), at(54)), None);
        assert_eq!(silence.due(Some(&call(50)), at(55)), Some(SILENT_AFTER));
        assert_eq!(silence.due(None, at(500)), None);
    }
}
