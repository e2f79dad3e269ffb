//! A pod's life as a table of moments: nothing in it depends on when it is looked at.
//!
//! Times are nanoseconds of simulated time, 0 being the start of the simulation; what was there before has negative
//! ones.

use std::ops::RangeInclusive;
use std::sync::Arc;
use std::time::Duration;

use super::scenario::{Group, Successor};
use super::seed::Seed;

/// A moment of simulated time.
pub type Nanos = i64;

/// From the sandbox to its first container.
const TO_FIRST_CONTAINER: Nanos = 400_000_000;
/// From one container to the next.
const BETWEEN_CONTAINERS: Nanos = 250_000_000;
/// From creation of a container to its start, without jitter.
const TO_START: Nanos = 90_000_000;
/// From deletion of a pod to the end of its first container.
const TO_STOP: Nanos = 200_000_000;
/// From the end of one container to that of the next.
const BETWEEN_STOPS: Nanos = 100_000_000;
/// From the removal of one container to that of the next.
const BETWEEN_REMOVALS: Nanos = 10_000_000;
/// From the end of the last container to the end of the sandbox.
const TO_SANDBOX_STOP: Nanos = 300_000_000;
/// From the sandbox's CREATED event to its STARTED event.
const TO_SANDBOX_STARTED: Nanos = 20_000;
/// The kubelet removes a dead container some time after its successor's successor is there.
const TO_COLLECTION: Nanos = 1_000_000_000;
/// Exit code of a container that ended because it was told to.
const TERMINATED: i32 = 143;

/// Nanoseconds of a duration.
pub fn nanos(duration: Duration) -> Nanos {
    i64::try_from(duration.as_nanos()).unwrap_or(i64::MAX)
}

/// One place of a group: a pod lives in it, and perhaps its successors.
#[derive(Clone, Debug)]
pub struct Slot {
    /// Whose place it is.
    pub group: Arc<Group>,
    index: u32,
    seed: Seed,
    /// The first generation that is of interest.
    oldest: i64,
}

/// One pod with all that happens to it.
#[derive(Clone, Debug)]
pub struct Pod {
    /// What it is one of.
    pub group: Arc<Group>,
    /// Where its name and UID come from.
    pub identity: Seed,
    /// Where the ids of its sandbox and containers come from.
    pub seed: Seed,
    /// Which of its slot.
    pub index: u32,
    /// Which one in its slot.
    pub generation: i64,
    /// When the sandbox was created.
    pub created: Nanos,
    /// When the sandbox ends.
    pub stopped: Option<Nanos>,
    /// When it is collected.
    pub removed: Option<Nanos>,
    /// Its containers, oldest first.
    pub containers: Vec<ContainerLife>,
}

/// One container with all that happens to it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ContainerLife {
    /// Position of its name in the group.
    pub position: usize,
    /// How many of that name came before it.
    pub attempt: u32,
    /// When it was created.
    pub created: Nanos,
    /// When it started.
    pub started: Nanos,
    /// When it ends, and how.
    pub finished: Option<(Nanos, i32)>,
    /// When it is collected.
    pub removed: Option<Nanos>,
}

/// What happened, in the words of the CRI's events.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LifeEvent {
    /// Created
    Created,
    /// Started
    Started,
    /// Stopped
    Stopped,
    /// Deleted
    Deleted,
}

/// To whom it happened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Subject {
    /// The sandbox.
    Sandbox,
    /// The container at this position of [`Pod::containers`].
    Container(usize),
}

/// Something that happens to a pod.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Moment {
    /// When.
    pub at: Nanos,
    /// What.
    pub what: LifeEvent,
    /// To whom.
    pub subject: Subject,
}

impl Slot {
    /// The `index`th place of `group`.
    pub fn new(group: Arc<Group>, index: u32, scenario: Seed) -> Self {
        let seed = scenario.of(&group.name).nth(index.into());
        Self { group, index, seed, oldest: 0 }
    }

    /// Takes out the pods that are there at `at` and to which nothing happens any more.
    pub fn settle(&mut self, at: Nanos) -> Vec<Pod> {
        // Who came first is done first.
        let settled: Vec<Pod> = self.pods_at(at).take_while(|pod| pod.is_settled(at)).collect();
        if let Some(newest) = settled.last() {
            self.oldest = newest.generation + 1;
        }
        settled
    }

    /// When the first pod of this slot starts. Pods that have successors start in turn, others at random.
    fn first_start(&self) -> Nanos {
        let age = nanos(self.group.age);
        let offset = match self.period() {
            Some(period) => i128::from(period) * i128::from(self.index) / i128::from(self.group.count.max(1)),
            None => i128::from(self.seed.of("start").below(age.unsigned_abs() / 8)),
        };
        i64::try_from(offset).unwrap_or_default() - age
    }

    /// From one pod of this slot to the next; `None` if there is only one.
    fn period(&self) -> Option<Nanos> {
        self.group.every.or(self.group.lives).map(nanos).filter(|period| *period > 0)
    }

    /// From the start of a pod to its collection; `None` if it is never collected.
    fn whole_life(&self) -> Option<Nanos> {
        let pod = self.pod(0, i64::MIN);
        pod.removed.map(|removed| removed - pod.created)
    }

    /// The pods of which something is to be seen between two moments.
    fn generations(&self, from: Nanos, to: Nanos) -> RangeInclusive<i64> {
        let first = self.first_start();
        let Some(period) = self.period() else { return self.oldest..=0 };
        let newest = (to - first).div_euclid(period);
        // Lives differ by their jitter.
        let longest = self.whole_life().map(|life| life + TO_COLLECTION);
        let oldest = longest.map_or(0, |life| (from - first - life).div_euclid(period));
        oldest.max(self.oldest)..=newest
    }

    /// The pods that are there at `at`.
    pub fn pods_at(&self, at: Nanos) -> impl Iterator<Item = Pod> + '_ {
        self.generations(at, at)
            .map(move |generation| self.pod(generation, at))
            .filter(move |pod| pod.is_there(at))
    }

    /// Every pod to which something happens after `from` and up to `to`, with what happens.
    pub fn happenings(&self, from: Nanos, to: Nanos) -> impl Iterator<Item = (Pod, Vec<Moment>)> + '_ {
        self.generations(from, to).filter_map(move |generation| {
            let pod = self.pod(generation, to);
            let mut moments = pod.moments();
            moments.retain(|moment| moment.at > from && moment.at <= to);
            (!moments.is_empty()).then_some((pod, moments))
        })
    }

    /// When something next happens after `at`.
    pub fn next_after(&self, at: Nanos) -> Option<Nanos> {
        let generations = self.generations(at, at);
        // The newest pod and its successor, which may not be there yet.
        let successor = self.period().map(|_| generations.end() + 1);
        generations
            .chain(successor)
            .flat_map(|generation| self.pod(generation.max(self.oldest), at).moments())
            .map(|moment| moment.at)
            .filter(|moment| *moment > at)
            .min()
    }

    /// The pod of one generation, with the restarts up to `until` and a few beyond.
    fn pod(&self, generation: i64, until: Nanos) -> Pod {
        let group = &self.group;
        let seed = self.seed.nth(generation.unsigned_abs().wrapping_add(1));
        let created = self.first_start() + generation * self.period().unwrap_or_default();
        let stay = Stay { seed, created, deleted: group.lives.map(|lives| created + nanos(lives)), until };
        let mut containers: Vec<ContainerLife> =
            (0..group.containers.len()).flat_map(|position| stay.containers(group, position)).collect();
        let stopped = end_of(&containers, group, stay.deleted);
        let removed = collection(group, stopped, stay.deleted);
        for container in &mut containers {
            let with_pod = removed.map(|removed| before_sandbox(removed, container.position));
            container.removed = [container.removed, with_pod].into_iter().flatten().min();
        }
        containers.sort_by_key(|container| (container.created, container.position));
        let identity = match group.successor {
            Successor::Pod => seed,
            Successor::Sandbox => self.seed,
        };
        let (group, index) = (Arc::clone(group), self.index);
        Pod { group, identity, seed, index, generation, created, stopped, removed, containers }
    }
}

/// The frame of a pod's life.
struct Stay {
    seed: Seed,
    created: Nanos,
    deleted: Option<Nanos>,
    until: Nanos,
}

impl Stay {
    /// The containers of one name, one after another.
    fn containers(&self, group: &Group, position: usize) -> Vec<ContainerLife> {
        let rank = i64::try_from(position).unwrap_or_default();
        let mut created = self.created + TO_FIRST_CONTAINER + rank * BETWEEN_CONTAINERS;
        let mut out: Vec<ContainerLife> = Vec::with_capacity(1);
        let mut beyond = 0;
        for attempt in 0.. {
            let container = self.container(group, position, attempt, created);
            let finished = container.finished;
            out.push(container);
            // Of each name the kubelet keeps the newest dead container only.
            let replaced = out.len().checked_sub(3).and_then(|index| out.get_mut(index));
            if let Some(replaced) = replaced {
                replaced.removed = Some(created + TO_COLLECTION);
            }
            let (Some((finished, _)), true) = (finished, group.restarts) else { break };
            // A few more, so that what they do to those before them is known.
            beyond += u32::from(created > self.until && self.deleted.is_none());
            created = finished + backoff(group, attempt);
            if beyond > 3 || self.deleted.is_some_and(|deleted| created >= deleted) {
                break;
            }
        }
        out
    }

    fn container(&self, group: &Group, position: usize, attempt: u32, created: Nanos) -> ContainerLife {
        let rank = i64::try_from(position).unwrap_or_default();
        let jitter = self.seed.nth(attempt.into()).below(TO_START.unsigned_abs() / 2);
        let started = created + TO_START + i64::try_from(jitter).unwrap_or_default();
        let by_itself = group.runs.map(|runs| (started + nanos(runs), group.exit_code));
        let told = self
            .deleted
            .map(|deleted| deleted + TO_STOP + rank * BETWEEN_STOPS)
            .map(|told| (told.max(started), TERMINATED));
        let finished = [by_itself, told].into_iter().flatten().min_by_key(|(at, _)| *at);
        ContainerLife { position, attempt, created, started, finished, removed: None }
    }
}

/// The kubelet removes the containers one after another before their sandbox.
fn before_sandbox(removed: Nanos, position: usize) -> Nanos {
    let rank = i64::try_from(position).unwrap_or(i64::MAX);
    removed - TO_SANDBOX_STOP + rank.saturating_mul(BETWEEN_REMOVALS).min(TO_SANDBOX_STOP / 2)
}

/// When a dead pod is collected; who is done before being deleted, no later than then.
fn collection(group: &Group, stopped: Option<Nanos>, deleted: Option<Nanos>) -> Option<Nanos> {
    let stopped = stopped?;
    let kept = group.kept.map(|kept| stopped + nanos(kept));
    let deleted = deleted.filter(|deleted| stopped < *deleted).map(|deleted| deleted + TO_SANDBOX_STOP);
    [kept, deleted].into_iter().flatten().min()
}

/// When the sandbox ends: after its last container, if that one is not started again.
fn end_of(containers: &[ContainerLife], group: &Group, deleted: Option<Nanos>) -> Option<Nanos> {
    let last = containers.iter().filter_map(|container| container.finished).map(|(at, _)| at).max();
    let ends_by_itself = group.runs.is_some() && !group.restarts;
    let end =
        if ends_by_itself { last } else { deleted.and_then(|deleted| last.max(Some(deleted + TO_STOP))) };
    end.map(|end| end + TO_SANDBOX_STOP)
}

fn backoff(group: &Group, attempt: u32) -> Nanos {
    let doubled = group.backoff.saturating_mul(1_u32.checked_shl(attempt).unwrap_or(u32::MAX));
    // A pause of nothing at all would make the life endless within one moment.
    nanos(doubled.min(group.backoff_limit)).max(1_000_000)
}

impl Pod {
    /// Whether the runtime lists its sandbox at `at`.
    pub fn is_there(&self, at: Nanos) -> bool {
        self.created <= at && self.removed.is_none_or(|removed| at < removed)
    }

    /// Whether its sandbox is ready at `at`.
    pub fn is_ready(&self, at: Nanos) -> bool {
        self.stopped.is_none_or(|stopped| at < stopped)
    }

    /// Its containers that the runtime lists at `at`.
    pub fn containers_at(&self, at: Nanos) -> impl Iterator<Item = &ContainerLife> {
        self.containers.iter().filter(move |container| container.is_there(at))
    }

    /// Whether nothing happens to it after `at`.
    fn is_settled(&self, at: Nanos) -> bool {
        self.moments().last().is_none_or(|last| last.at <= at)
    }

    /// Everything that happens to it, in order.
    fn moments(&self) -> Vec<Moment> {
        let mut moments = vec![
            Moment { at: self.created, what: LifeEvent::Created, subject: Subject::Sandbox },
            Moment {
                at: self.created + TO_SANDBOX_STARTED,
                what: LifeEvent::Started,
                subject: Subject::Sandbox,
            },
        ];
        for (index, container) in self.containers.iter().enumerate() {
            let subject = Subject::Container(index);
            let mut push = |at, what| moments.push(Moment { at, what, subject });
            push(container.created, LifeEvent::Created);
            push(container.started, LifeEvent::Started);
            if let Some((finished, _)) = container.finished {
                push(finished, LifeEvent::Stopped);
            }
            if let Some(removed) = container.removed {
                push(removed, LifeEvent::Deleted);
            }
        }
        let mut push = |at, what| moments.push(Moment { at, what, subject: Subject::Sandbox });
        if let Some(stopped) = self.stopped {
            push(stopped, LifeEvent::Stopped);
        }
        if let Some(removed) = self.removed {
            push(removed, LifeEvent::Deleted);
        }
        moments.sort_by_key(|moment| moment.at);
        moments
    }
}

impl ContainerLife {
    /// Whether the runtime lists it at `at`.
    pub fn is_there(&self, at: Nanos) -> bool {
        self.created <= at && self.removed.is_none_or(|removed| at < removed)
    }

    /// When it started, if it has by `at`.
    pub fn started_by(&self, at: Nanos) -> Option<Nanos> {
        (self.started <= at).then_some(self.started)
    }

    /// When and how it ended, if it has by `at`.
    pub fn finished_by(&self, at: Nanos) -> Option<(Nanos, i32)> {
        self.finished.filter(|(finished, _)| *finished <= at)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sim::scenario::Owner;

    const SECOND: Nanos = 1_000_000_000;

    fn seconds(number: u64) -> Duration {
        Duration::from_secs(number)
    }

    fn group() -> Group {
        Group {
            name: "web".into(),
            pod_name: None,
            namespace: "default".into(),
            owner: Owner::Deployment,
            count: 1,
            containers: vec!["app".into(), "proxy".into()],
            age: Duration::ZERO,
            runs: None,
            exit_code: 1,
            restarts: true,
            backoff: seconds(10),
            backoff_limit: seconds(300),
            lives: None,
            successor: Successor::Pod,
            every: None,
            kept: Some(seconds(10)),
            annotation_bytes: 0,
        }
    }

    fn slot(group: Group) -> Slot {
        Slot::new(Arc::new(group), 0, Seed::new(1))
    }

    /// What happens up to `to`, without the times.
    fn story(slot: &Slot, to: Nanos) -> Vec<(LifeEvent, Subject)> {
        let mut moments: Vec<Moment> = slot.happenings(-1, to).flat_map(|(_, moments)| moments).collect();
        moments.sort_by_key(|moment| moment.at);
        moments.into_iter().map(|moment| (moment.what, moment.subject)).collect()
    }

    #[test]
    fn a_pod_lives_and_dies_in_the_order_of_a_runtime() {
        use LifeEvent::{Created, Deleted, Started, Stopped};
        use Subject::{Container, Sandbox};
        let slot = slot(Group { lives: Some(seconds(60)), every: Some(seconds(3600)), ..group() });
        assert_eq!(
            story(&slot, 100 * SECOND),
            [
                (Created, Sandbox),
                (Started, Sandbox),
                (Created, Container(0)),
                (Started, Container(0)),
                (Created, Container(1)),
                (Started, Container(1)),
                (Stopped, Container(0)),
                (Stopped, Container(1)),
                (Stopped, Sandbox),
                (Deleted, Container(0)),
                (Deleted, Container(1)),
                (Deleted, Sandbox),
            ]
        );
    }

    #[test]
    fn a_pod_that_lives_on_is_never_heard_of_again() {
        let slot = slot(group());
        assert_eq!(story(&slot, 3600 * SECOND).len(), 6);
        assert_eq!(slot.next_after(10 * SECOND), None);
    }

    #[test]
    fn pauses_between_crashes_double_up_to_their_limit() {
        let group = Group {
            containers: vec!["app".into()],
            runs: Some(seconds(1)),
            backoff_limit: seconds(30),
            ..group()
        };
        let pod = slot(group).pods_at(500 * SECOND).next().unwrap();
        let pauses: Vec<Nanos> = pod
            .containers
            .windows(2)
            .map(|pair| (pair[1].created - pair[0].finished.unwrap().0) / SECOND)
            .take(5)
            .collect();
        assert_eq!(pauses, [10, 20, 30, 30, 30]);
    }

    #[test]
    fn of_a_crashing_container_the_newest_dead_one_is_kept() {
        let group = Group {
            containers: vec!["app".into()],
            runs: Some(seconds(1)),
            backoff_limit: seconds(30),
            ..group()
        };
        let slot = slot(group);
        for at in (5..1000).step_by(7) {
            let pod = slot.pods_at(at * SECOND).next().unwrap();
            let dead =
                pod.containers_at(at * SECOND).filter(|it| it.finished_by(at * SECOND).is_some()).count();
            assert!(dead <= 2, "{dead} at {at}");
            let attempts: Vec<u32> =
                pod.containers_at(at * SECOND).map(|container| container.attempt).collect();
            assert!(attempts.windows(2).all(|pair| pair[0] + 1 == pair[1]), "{attempts:?} at {at}");
        }
    }

    #[test]
    fn a_finished_pod_stays_until_it_is_collected() {
        let group = Group {
            runs: Some(seconds(3)),
            restarts: false,
            exit_code: 0,
            kept: Some(seconds(20)),
            ..group()
        };
        let slot = slot(group);
        let pod = slot.pods_at(10 * SECOND).next().unwrap();
        assert!(!pod.is_ready(10 * SECOND));
        assert!(pod.containers.iter().all(|container| container.finished_by(10 * SECOND).unwrap().1 == 0));
        assert_eq!(slot.pods_at(30 * SECOND).count(), 0);
    }

    #[test]
    fn each_slot_has_one_living_pod_at_a_time() {
        let group = Group {
            count: 3,
            age: seconds(600),
            lives: Some(seconds(30)),
            kept: Some(seconds(5)),
            ..group()
        };
        let group = Arc::new(group);
        for index in 0..3 {
            let slot = Slot::new(Arc::clone(&group), index, Seed::new(1));
            for at in 0..120 {
                let ready = slot.pods_at(at * SECOND).filter(|pod| pod.is_ready(at * SECOND)).count();
                // For a moment the old one is still stopping when the new one is there.
                assert!((1..=2).contains(&ready), "{ready} of slot {index} at {at}");
            }
        }
    }

    #[test]
    fn a_new_sandbox_belongs_to_the_same_pod() {
        let group = Group {
            age: seconds(100),
            lives: Some(seconds(30)),
            kept: Some(seconds(60)),
            successor: Successor::Sandbox,
            ..group()
        };
        let pods: Vec<Pod> = slot(group).pods_at(0).collect();
        assert!(pods.len() >= 2);
        assert!(
            pods.windows(2).all(|pair| pair[0].uid() == pair[1].uid() && pair[0].name() == pair[1].name())
        );
        assert!(pods.windows(2).all(|pair| pair[0].sandbox_attempt() + 1 == pair[1].sandbox_attempt()));
        assert!(pods.windows(2).all(|pair| pair[0].sandbox_id() != pair[1].sandbox_id()));
    }

    #[test]
    fn dead_pods_that_nobody_collects_settle_and_the_others_go_on() {
        let forever = Group {
            age: seconds(92),
            runs: Some(seconds(2)),
            restarts: false,
            every: Some(seconds(10)),
            kept: None,
            ..group()
        };
        let whole = slot(forever);
        let mut rest = whole.clone();
        let settled = rest.settle(0);
        assert_eq!(settled.len(), 9);
        for at in [0, 3 * SECOND, 60 * SECOND] {
            let mut pods: Vec<String> = settled.iter().map(Pod::uid).collect();
            pods.extend(rest.pods_at(at).map(|pod| pod.uid()));
            assert_eq!(pods, whole.pods_at(at).map(|pod| pod.uid()).collect::<Vec<_>>());
            assert_eq!(rest.next_after(at), whole.next_after(at));
        }
    }

    #[test]
    fn looking_more_often_does_not_change_the_story() {
        let groups = [
            Group { runs: Some(seconds(2)), backoff: seconds(1), backoff_limit: seconds(8), ..group() },
            Group { age: seconds(100), lives: Some(seconds(7)), kept: Some(seconds(3)), ..group() },
            Group {
                age: seconds(50),
                runs: Some(seconds(2)),
                restarts: false,
                every: Some(seconds(5)),
                ..group()
            },
        ];
        for group in groups {
            let slot = slot(group);
            let whole = slot.happenings(0, 100 * SECOND).flat_map(|(_, moments)| moments).count();
            let mut at = 0;
            let mut seen = 0;
            while let Some(next) = slot.next_after(at).filter(|next| *next <= 100 * SECOND) {
                seen += slot.happenings(at, next).flat_map(|(_, moments)| moments).count();
                at = next;
            }
            assert_eq!(seen, whole);
            assert!(whole > 20);
        }
    }
}
