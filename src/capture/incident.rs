//! When an incident begins and when it is over. Decides from what it is shown; asks nobody and waits for nothing.

use std::time::Duration;

use super::entry::Incident;
use crate::clock::{Mono, Wall};
use crate::cri::Outcome;
use crate::pleg::Seconds;
use crate::pleg::stream::Relist;

/// How many relists in a row must be good before an incident is over.
const GOOD_ENOUGH: u32 = 3;

/// From which share of the threshold on the age of the last relist is near it.
const NEAR: f64 = 0.75;

/// What is slow, and what is kept around it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rules {
    /// A call or a relist beyond this is slow.
    pub slow: Duration,
    /// Age from which on PLEG is not healthy.
    pub threshold: Duration,
    /// How much before an incident is pinned.
    pub before: Duration,
    /// How much after it.
    pub after: Duration,
}

/// What is to be done.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Step {
    /// Write this down; it was opened, learned of, or closed.
    Write(Incident),
    /// Find out what it is, while it lasts.
    Diagnose,
}

/// What lasts right now.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Look {
    /// How long the open call, or else the open relist, has lasted.
    pub waited: Duration,
    /// What that is, in words.
    pub what: String,
    /// Age of the last relist whose lists succeeded.
    pub age: Option<Duration>,
}

/// Watches for incidents.
#[derive(Debug)]
pub struct Watchman {
    rules: Rules,
    last: u64,
    open: Option<Open>,
}

#[derive(Debug)]
struct Open {
    incident: Incident,
    /// When it began, by the clock that never jumps.
    began: Mono,
    /// When it was last bad, by both.
    bad: (Wall, Mono),
    /// How many relists have been good since.
    good: u32,
    /// The longest wait so far.
    worst: Duration,
    /// Whether it has been looked into near the threshold.
    looked_near: bool,
    /// How much the verdict matters, so that a later one does not hide a worse one.
    weight: u8,
}

/// A verdict on an incident.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Judgement {
    /// In one word.
    pub verdict: String,
    /// In one line.
    pub summary: String,
    /// The finding to start with, as JSON.
    pub primary: Option<String>,
    /// How much it matters: the higher, the more.
    pub weight: u8,
}

impl Watchman {
    /// Watches; `last` is the number of the last incident that there was.
    pub const fn new(rules: Rules, last: u64) -> Self {
        Self { rules, last, open: None }
    }

    /// The incident that lasts.
    pub fn open(&self) -> Option<&Incident> {
        self.open.as_ref().map(|open| &open.incident)
    }

    /// How much older the last relist gets until there is something to say about its age; `None` if that is said.
    pub fn until_turn(&self, age: Duration) -> Option<Duration> {
        let threshold = self.rules.threshold;
        let left = |turn: Duration| turn.checked_sub(age).filter(|left| !left.is_zero());
        [threshold.mul_f64(NEAR), threshold].into_iter().find_map(left)
    }

    /// Looks at what lasts.
    pub fn look(&mut self, now: (Wall, Mono), look: &Look) -> Vec<Step> {
        let near = look.age.is_some_and(|age| age >= self.rules.threshold.mul_f64(NEAR));
        let slow = look.waited >= self.rules.slow;
        let mut steps = Vec::new();
        if self.open.is_none() {
            let why = match look.age {
                _ if slow => format!("{} has not been answered for {}", look.what, rounded(look.waited)),
                Some(age) if near => format!("the last relist is {} old", rounded(age)),
                _ => return steps,
            };
            steps.extend(self.begin(now, why));
        }
        if let Some(open) = &mut self.open {
            if slow || near {
                open.bad = now;
                open.good = 0;
            }
            if slow && look.waited >= open.worst {
                open.worst = look.waited;
                open.incident.peak = now.0.nanos();
            }
            if near && !open.looked_near {
                open.looked_near = true;
                if !steps.contains(&Step::Diagnose) {
                    steps.push(Step::Diagnose);
                }
            }
        }
        steps
    }

    /// A relist is over.
    pub fn relist(&mut self, mono: Mono, relist: &Relist) -> Vec<Step> {
        let now = (relist.time, mono);
        let Some(why) = self.trouble(relist) else { return self.one_more_good() };
        if let Some(open) = &mut self.open {
            open.bad = now;
            open.good = 0;
            return Vec::new();
        }
        self.begin(now, why)
    }

    /// What is bad about a relist.
    fn trouble(&self, relist: &Relist) -> Option<String> {
        if let Some(error) = relist.error.as_ref().filter(|_| relist.outcome != Outcome::Ok) {
            return Some(error.clone());
        }
        // What is gone between the list and the question is a race that every node has.
        let failed = |call: &&crate::pleg::CallRecord| {
            call.outcome != Outcome::Ok && call.code.as_deref() != Some("NotFound")
        };
        if let Some(call) = relist.calls.iter().find(failed) {
            let message = call.message.clone().unwrap_or_else(|| call.outcome.as_str().to_owned());
            return Some(format!("{}: {message}", about(call)));
        }
        let slow = Seconds::from(self.rules.slow);
        if let Some(call) = relist.calls.iter().find(|call| call.duration_seconds >= slow) {
            return Some(format!("{} took {}", about(call), rounded(call.duration_seconds.duration())));
        }
        (relist.duration_seconds >= slow)
            .then(|| format!("relist {} took {}", relist.relist, rounded(relist.duration_seconds.duration())))
    }

    fn begin(&mut self, (now, mono): (Wall, Mono), why: String) -> Vec<Step> {
        self.last += 1;
        let before = i64::try_from(self.rules.before.as_nanos()).unwrap_or(i64::MAX);
        let incident = Incident {
            number: self.last,
            from: now.nanos(),
            peak: now.nanos(),
            why,
            pinned_from: now.nanos().saturating_sub(before),
            // If nobody sees how it ends.
            pinned_to: now.plus(self.rules.after).nanos(),
            ..Incident::default()
        };
        self.open = Some(Open {
            incident: incident.clone(),
            began: mono,
            bad: (now, mono),
            good: 0,
            worst: Duration::ZERO,
            looked_near: false,
            weight: 0,
        });
        vec![Step::Write(incident), Step::Diagnose]
    }

    fn one_more_good(&mut self) -> Vec<Step> {
        let Some(open) = &mut self.open else { return Vec::new() };
        open.good += 1;
        if open.good < GOOD_ENOUGH {
            return Vec::new();
        }
        let (mut incident, (end, mono)) = (open.incident.clone(), open.bad);
        incident.to = end.nanos();
        incident.lasted = u64::try_from(mono.since(open.began).as_nanos()).unwrap_or(u64::MAX);
        // Where the wall clock was set meanwhile, what was written by either of its readings is pinned.
        let before = Wall::from_nanos(incident.from);
        let earlier = i64::try_from(self.rules.before.as_nanos()).unwrap_or(i64::MAX);
        incident.pinned_from = incident.pinned_from.min(end.nanos().saturating_sub(earlier));
        incident.pinned_to = end.max(before).plus(self.rules.after).nanos();
        self.open = None;
        vec![Step::Write(incident)]
    }

    /// Somebody has judged what lasts. A verdict does not replace a worse one.
    pub fn judged(&mut self, judgement: Judgement) -> Option<Incident> {
        let open = self.open.as_mut()?;
        if judgement.weight < open.weight {
            return None;
        }
        open.weight = judgement.weight;
        open.incident.verdict = judgement.verdict;
        open.incident.summary = judgement.summary;
        open.incident.primary = judgement.primary.unwrap_or_default();
        Some(open.incident.clone())
    }
}

fn about(call: &crate::pleg::CallRecord) -> String {
    match call.pod.as_ref().filter(|pod| !pod.name.is_empty()) {
        Some(pod) => format!("{} of {}/{}", call.rpc, pod.namespace, pod.name),
        None => call.rpc.clone(),
    }
}

/// As many digits as somebody reads.
fn rounded(duration: Duration) -> humantime::FormattedDuration {
    let millis = u64::try_from(duration.as_millis()).unwrap_or(u64::MAX);
    humantime::format_duration(Duration::from_millis(if millis >= 1000 {
        millis / 100 * 100
    } else {
        millis
    }))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::pleg::CallRecord;

    const RULES: Rules = Rules {
        slow: Duration::from_secs(2),
        threshold: Duration::from_secs(180),
        before: Duration::from_secs(600),
        after: Duration::from_secs(300),
    };

    fn at(second: u64) -> Wall {
        Wall::from_nanos(1_700_000_000_000_000_000).plus(Duration::from_secs(second))
    }

    fn mono(second: u64) -> Mono {
        Mono::at(Duration::from_secs(second))
    }

    fn now(second: u64) -> (Wall, Mono) {
        (at(second), mono(second))
    }

    fn relist(second: u64, took: u64) -> Relist {
        let duration_seconds = Duration::from_secs(took).into();
        Relist { duration_seconds, pods: 1, sandboxes: 1, containers: 1, ..Relist::new(at(second), second) }
    }

    fn waiting(seconds: u64, age: u64) -> Look {
        let (waited, age) = (Duration::from_secs(seconds), Some(Duration::from_secs(age)));
        Look { waited, what: "ListContainers".into(), age }
    }

    fn written(steps: &[Step]) -> Vec<&Incident> {
        let incidents = steps.iter().filter_map(|step| match step {
            Step::Write(incident) => Some(incident),
            Step::Diagnose => None,
        });
        incidents.collect()
    }

    #[test]
    fn a_hang_is_one_incident_looked_into_twice() {
        let mut watchman = Watchman::new(RULES, 4);
        assert!(watchman.look(now(1), &waiting(1, 1)).is_empty());
        let steps = watchman.look(now(2), &waiting(2, 2));
        assert_eq!(written(&steps)[0].number, 5);
        assert_eq!(written(&steps)[0].why, "ListContainers has not been answered for 2s");
        assert_eq!(written(&steps)[0].pinned_from, at(2).nanos() - 600_000_000_000);
        assert!(steps.contains(&Step::Diagnose));
        let mut looks = 0;
        for second in 3..300 {
            looks += watchman.look(now(second), &waiting(second, second)).len();
        }
        assert_eq!(looks, 1, "once more near the threshold");
        assert!(watchman.relist(mono(300), &relist(300, 300)).is_empty());
        assert!(watchman.relist(mono(305), &relist(305, 0)).is_empty());
        assert!(watchman.relist(mono(310), &relist(310, 0)).is_empty());
        let closed = watchman.relist(mono(315), &relist(315, 0));
        let closed = written(&closed)[0];
        assert_eq!((closed.number, closed.to, closed.peak), (5, at(300).nanos(), at(299).nanos()));
        assert_eq!(closed.pinned_to, at(600).nanos());
        assert!(watchman.open().is_none());
    }

    #[test]
    fn an_incident_lasts_as_long_as_it_does_however_the_wall_clock_is_set() {
        for (set, by) in [(3600_i64, "forward"), (-3600, "back")] {
            let mut watchman = Watchman::new(RULES, 0);
            watchman.look(now(2), &waiting(2, 2));
            let then = |second: u64| Wall::from_nanos(at(second).nanos() + set * 1_000_000_000);
            watchman.look((then(60), mono(60)), &waiting(60, 60));
            let good = |second: u64| Relist { time: then(second), ..relist(second, 0) };
            let closed =
                (61..64).flat_map(|second| watchman.relist(mono(second), &good(second))).collect::<Vec<_>>();
            let closed = written(&closed)[0];
            assert_eq!(closed.duration(), Some(Duration::from_secs(58)), "{by}");
            assert_eq!((closed.from, closed.to), (at(2).nanos(), then(60).nanos()), "{by}");
            for kept in [at(2), at(59), then(60)] {
                assert!(
                    closed.pinned_from <= kept.nanos() && kept.nanos() <= closed.pinned_to,
                    "{by}: {kept}"
                );
            }
        }
    }

    #[test]
    fn the_age_is_looked_at_when_it_means_something_else() {
        let watchman = Watchman::new(RULES, 0);
        let (near, threshold) = (RULES.threshold.mul_f64(NEAR), RULES.threshold);
        for (age, turn) in [(Duration::ZERO, Some(near)), (near, Some(threshold)), (threshold, None)] {
            assert_eq!(watchman.until_turn(age).map(|left| age + left), turn, "{age:?}");
        }
    }

    #[test]
    fn a_failed_call_is_one_and_a_race_is_none() {
        let mut watchman = Watchman::new(RULES, 0);
        let call = |code: &str| CallRecord {
            rpc: "ContainerStatus".into(),
            id: Some("c".into()),
            pod: None,
            duration_seconds: Seconds::default(),
            response_bytes: 0,
            outcome: Outcome::Error,
            code: Some(code.into()),
            message: Some("no".into()),
        };
        let race = Relist { calls: vec![call("NotFound")], ..relist(1, 0) };
        assert!(watchman.relist(mono(1), &race).is_empty());
        let failed = Relist { calls: vec![call("Unknown")], ..relist(2, 0) };
        assert_eq!(written(&watchman.relist(mono(2), &failed))[0].why, "ContainerStatus: no");
        // The same again is the same incident.
        assert!(watchman.relist(mono(2), &failed).is_empty());
    }

    #[test]
    fn a_worse_verdict_stays() {
        let mut watchman = Watchman::new(RULES, 0);
        watchman.relist(mono(1), &relist(1, 5));
        let judgement = |verdict: &str, weight| Judgement {
            verdict: verdict.into(),
            summary: String::new(),
            primary: None,
            weight,
        };
        assert_eq!(watchman.judged(judgement("unhealthy", 3)).unwrap().verdict, "unhealthy");
        assert_eq!(watchman.judged(judgement("healthy", 1)), None);
        assert_eq!(watchman.open().unwrap().verdict, "unhealthy");
    }
}
