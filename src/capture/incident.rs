//! When an incident begins and when it is over. Decides from what it is shown; asks nobody and waits for nothing.

use std::collections::BTreeSet;
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

/// A relist that ended well and took too long.
const SLOW: &str = "slow";

/// A silence of this length is a hang, and its last moment the worst.
const HANG: Duration = Duration::from_secs(5);

/// How long after a diagnosis another may begin in the same incident. Each further one waits twice as long as the one before,
/// and no longer than the last figure: a diagnosis costs the runtime some calls.
const AGAIN_AFTER: Duration = Duration::from_secs(5);
const AGAIN_AT_MOST: Duration = Duration::from_secs(300);

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
    /// The call of the relist that has not been answered for long: which, and about whom.
    pub call: Option<String>,
    /// How long Version has not been answered.
    pub version: Option<Duration>,
    /// What is wrong with the kubelet, in words.
    pub kubelet: Option<String>,
    /// What just happened to it and is over: a restart.
    pub restarted: Option<String>,
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
    /// How much the verdict matters and how sure it is, so that a later one does not hide a worse one.
    weight: (u8, u8),
    /// What the verdict is about.
    subject: Option<Subject>,
    /// Whether the peak is the moment of a verdict.
    peak_is_judged: bool,
    /// What was wrong when the last diagnosis began, when that was, and how long the next one waits.
    asked: BTreeSet<String>,
    asked_at: Mono,
    pause: Duration,
    /// What the last relist failed over.
    failing: Option<String>,
}

/// What a verdict is about.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Subject {
    /// The rule.
    pub rule: String,
    /// Ids of sandboxes and containers.
    pub ids: Vec<String>,
}

impl Subject {
    /// Whether both may be the same trouble: one container or sandbox in both, or the same rule where either names nobody.
    fn is_same(&self, other: &Self) -> bool {
        let named = !self.ids.is_empty() && !other.ids.is_empty();
        if named { self.ids.iter().any(|id| other.ids.contains(id)) } else { self.rule == other.rule }
    }
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
    /// How sure it is: the higher, the more.
    pub certainty: u8,
    /// What it is about; `None` where nothing was found that is more than possible.
    pub subject: Option<Subject>,
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
        let silent = look.version.is_some_and(|waited| waited >= self.rules.slow);
        let bad = slow || near || silent || look.kubelet.is_some() || look.restarted.is_some();
        let mut steps = Vec::new();
        if self.open.is_none() {
            let why = match look.age {
                _ if slow => format!("{} has not been answered for {}", look.what, rounded(look.waited)),
                _ if silent => {
                    format!("Version has not been answered for {}", rounded(look.version.unwrap_or_default()))
                }
                Some(age) if near => format!("the last relist is {} old", rounded(age)),
                _ => match look.kubelet.as_ref().or(look.restarted.as_ref()) {
                    Some(words) => words.clone(),
                    None => return steps,
                },
            };
            steps.extend(self.begin(now, why));
        }
        if let Some(open) = &mut self.open {
            if bad {
                open.bad = now;
                open.good = 0;
            }
            if slow && look.waited >= open.worst {
                open.worst = look.waited;
                if look.waited >= HANG || !open.peak_is_judged {
                    open.incident.peak = now.0.nanos();
                    open.peak_is_judged = false;
                }
            }
            let diagnose = !steps.contains(&Step::Diagnose);
            if near && !open.looked_near {
                open.looked_near = true;
                if diagnose {
                    steps.push(Step::Diagnose);
                }
            } else if diagnose && open.is_another(&open.causes(&self.rules, look), now.1) {
                steps.push(Step::Diagnose);
            }
        }
        steps
    }

    /// A diagnosis of what lasts has begun.
    pub fn asked(&mut self, now: Mono, look: &Look) {
        let Some(open) = &mut self.open else { return };
        open.pause = (open.pause * 2).clamp(AGAIN_AFTER, AGAIN_AT_MOST);
        open.asked = open.causes(&self.rules, look);
        open.asked_at = now;
    }

    /// A relist is over.
    pub fn relist(&mut self, mono: Mono, relist: &Relist) -> Vec<Step> {
        let now = (relist.time, mono);
        let trouble = self.trouble(relist);
        if let Some(open) = &mut self.open {
            open.failing = trouble.as_ref().map(|(what, _)| what.clone());
        }
        let Some((what, why)) = trouble else { return self.one_more_good() };
        if let Some(open) = &mut self.open {
            open.bad = now;
            open.good = 0;
            return Vec::new();
        }
        let steps = self.begin(now, why);
        if let Some(open) = &mut self.open {
            open.failing = Some(what);
        }
        steps
    }

    /// What is bad about a relist: what failed or was slow, and that in words.
    fn trouble(&self, relist: &Relist) -> Option<(String, String)> {
        if let Some(error) = relist.error.as_ref().filter(|_| relist.outcome != Outcome::Ok) {
            return Some((error.clone(), error.clone()));
        }
        // What is gone between the list and the question is a race that every node has.
        let failed = |call: &&crate::pleg::CallRecord| {
            call.outcome != Outcome::Ok && call.code.as_deref() != Some("NotFound")
        };
        if let Some(call) = relist.calls.iter().find(failed) {
            let message = call.message.clone().unwrap_or_else(|| call.outcome.as_str().to_owned());
            return Some((about(call), format!("{}: {message}", about(call))));
        }
        let slow = Seconds::from(self.rules.slow);
        if let Some(call) = relist.calls.iter().find(|call| call.duration_seconds >= slow) {
            let took = rounded(call.duration_seconds.duration());
            return Some((SLOW.to_owned(), format!("{} took {took}", about(call))));
        }
        let took = rounded(relist.duration_seconds.duration());
        (relist.duration_seconds >= slow)
            .then(|| (SLOW.to_owned(), format!("relist {} took {took}", relist.relist)))
    }

    fn begin(&mut self, now: (Wall, Mono), why: String) -> Vec<Step> {
        let open = self.opened(now, why);
        let incident = open.incident.clone();
        self.open = Some(open);
        vec![Step::Write(incident), Step::Diagnose]
    }

    fn opened(&mut self, (now, mono): (Wall, Mono), why: String) -> Open {
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
        Open {
            incident,
            began: mono,
            bad: (now, mono),
            good: 0,
            worst: Duration::ZERO,
            looked_near: false,
            weight: (0, 0),
            subject: None,
            peak_is_judged: false,
            asked: BTreeSet::new(),
            asked_at: mono,
            pause: Duration::ZERO,
            failing: None,
        }
    }

    fn one_more_good(&mut self) -> Vec<Step> {
        let Some(open) = &mut self.open else { return Vec::new() };
        open.good += 1;
        if open.good < GOOD_ENOUGH {
            return Vec::new();
        }
        let bad = open.bad;
        self.close(bad).into_iter().map(Step::Write).collect()
    }

    /// Ends the incident that lasts, at a moment by both clocks.
    fn close(&mut self, (end, mono): (Wall, Mono)) -> Option<Incident> {
        let open = self.open.take()?;
        let mut incident = open.incident;
        incident.to = end.nanos();
        incident.lasted = u64::try_from(mono.since(open.began).as_nanos()).unwrap_or(u64::MAX);
        // Where the wall clock was set meanwhile, what was written by either of its readings is pinned.
        let before = Wall::from_nanos(incident.from);
        let earlier = i64::try_from(self.rules.before.as_nanos()).unwrap_or(i64::MAX);
        incident.pinned_from = incident.pinned_from.min(end.nanos().saturating_sub(earlier));
        incident.pinned_to = end.max(before).plus(self.rules.after).nanos();
        Some(incident)
    }

    /// Somebody has judged what lasts. A verdict does not replace a worse or a surer one; one about something else ends this
    /// incident and begins another.
    pub fn judged(&mut self, now: (Wall, Mono), judgement: Judgement) -> Vec<Incident> {
        let Some(open) = &mut self.open else { return Vec::new() };
        let mut written = Vec::new();
        if let (Some(known), Some(found)) = (&open.subject, &judgement.subject)
            && !known.is_same(found)
        {
            let again = Open {
                asked: open.asked.clone(),
                asked_at: open.asked_at,
                failing: open.failing.clone(),
                ..self.opened(now, judgement.summary.clone())
            };
            written.extend(self.close(now));
            self.open = Some(again);
        }
        let Some(open) = &mut self.open else { return written };
        let weight = (judgement.weight, judgement.certainty);
        if weight < open.weight {
            return written;
        }
        // What hangs is at its worst when it has hung for longest.
        if open.worst < HANG && weight > open.weight {
            open.incident.peak = now.0.nanos();
            open.peak_is_judged = true;
        }
        open.weight = weight;
        open.subject = judgement.subject;
        open.incident.verdict = judgement.verdict;
        open.incident.summary = judgement.summary;
        open.incident.primary = judgement.primary.unwrap_or_default();
        written.push(open.incident.clone());
        written
    }
}

impl Open {
    /// What is wrong right now.
    fn causes(&self, rules: &Rules, look: &Look) -> BTreeSet<String> {
        let call = look.call.clone().filter(|_| look.waited >= rules.slow);
        let version = look.version.filter(|waited| *waited >= rules.slow).map(|_| "Version".to_owned());
        let kubelet = look.kubelet.clone();
        [call, version, kubelet, self.failing.clone()].into_iter().flatten().collect()
    }

    /// Whether something else is wrong than what the last diagnosis was about, and another may begin.
    fn is_another(&self, causes: &BTreeSet<String>, now: Mono) -> bool {
        !causes.is_empty() && *causes != self.asked && now.since(self.asked_at) >= self.pause
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
        Look { waited, what: "ListContainers".into(), age, ..Look::default() }
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
            certainty: 0,
            subject: None,
        };
        assert_eq!(watchman.judged(now(2), judgement("unhealthy", 3))[0].verdict, "unhealthy");
        assert_eq!(watchman.judged(now(3), judgement("healthy", 1)), []);
        assert_eq!(watchman.open().unwrap().verdict, "unhealthy");
    }

    fn judgement(rule: &str, ids: &[&str], weight: u8, certainty: u8) -> Judgement {
        let ids = ids.iter().map(|id| (*id).to_owned()).collect();
        Judgement {
            verdict: "unhealthy".into(),
            summary: rule.into(),
            primary: Some(rule.into()),
            weight,
            certainty,
            subject: Some(Subject { rule: rule.into(), ids }),
        }
    }

    #[test]
    fn a_verdict_about_something_else_begins_an_incident_of_its_own() {
        let mut watchman = Watchman::new(RULES, 0);
        watchman.look(now(2), &waiting(2, 2));
        assert_eq!(watchman.judged(now(7), judgement("D01", &["c1"], 2, 1)).len(), 1);
        // A shim that was found for the same container is the same trouble.
        assert_eq!(watchman.judged(now(12), judgement("D10", &["c1"], 2, 2))[0].number, 1);
        let written = watchman.judged(now(30), judgement("D07", &[], 3, 2));
        let told = written.iter().map(|incident| (incident.number, incident.to, incident.primary.as_str()));
        assert_eq!(told.collect::<Vec<_>>(), [(1, at(30).nanos(), "D10"), (2, 0, "D07")]);
        assert_eq!(watchman.open().unwrap().from, at(30).nanos());
    }

    #[test]
    fn another_cause_is_looked_into_and_ever_more_seldom() {
        let mut watchman = Watchman::new(RULES, 0);
        let hung = |call: &str, second| Look { call: Some(call.into()), ..waiting(second, 1) };
        let first = hung("c1", 2);
        assert!(watchman.look(now(2), &first).contains(&Step::Diagnose));
        watchman.asked(mono(2), &first);
        assert!(watchman.look(now(20), &hung("c1", 20)).is_empty(), "it is the same");
        let silent = Look { version: Some(Duration::from_secs(3)), ..hung("c1", 21) };
        assert_eq!(watchman.look(now(21), &silent), [Step::Diagnose]);
        watchman.asked(mono(21), &silent);
        // Ten seconds must pass before the next, and then twenty.
        assert!(watchman.look(now(29), &hung("c2", 5)).is_empty());
        assert_eq!(watchman.look(now(31), &hung("c2", 7)), [Step::Diagnose]);
        watchman.asked(mono(31), &hung("c2", 7));
        assert!(watchman.look(now(50), &hung("c3", 5)).is_empty());
        assert_eq!(watchman.look(now(51), &hung("c3", 6)), [Step::Diagnose]);
    }

    #[test]
    fn a_silent_version_and_a_kubelet_in_trouble_open_incidents() {
        let looks = [
            (
                Look { version: Some(Duration::from_secs(3)), ..Look::default() },
                "Version has not been answered for 3s",
            ),
            (
                Look { kubelet: Some("the kubelet is stopped".into()), ..Look::default() },
                "the kubelet is stopped",
            ),
            (
                Look { restarted: Some("the kubelet was restarted".into()), ..Look::default() },
                "the kubelet was restarted",
            ),
        ];
        for (look, why) in looks {
            let mut watchman = Watchman::new(RULES, 0);
            let steps = watchman.look(now(5), &look);
            assert_eq!(written(&steps)[0].why, why);
            // It lasts until three relists are good after it.
            watchman.look(now(9), &look);
            let closed: Vec<_> =
                (10..13).flat_map(|second| watchman.relist(mono(second), &relist(second, 0))).collect();
            assert_eq!(written(&closed)[0].to, at(9).nanos());
        }
    }
}
