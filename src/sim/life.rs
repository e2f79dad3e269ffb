//! Computes when each simulated pod and its containers are created, start, end and are removed. The times depend only
//! on the scenario and its seed, and not on when they are computed.
//!
//! Times are nanoseconds of simulated time; 0 is the start of the simulation, and earlier times are negative.

use std::ops::RangeInclusive;
use std::sync::Arc;
use std::time::Duration;

use super::scenario::{PodGroup, Successor};
use super::seed::Seed;

/// A simulated time in nanoseconds.
pub type Nanos = i64;

/// The time from the creation of the sandbox to the creation of its first container.
const TO_FIRST_CONTAINER: Nanos = 400_000_000;
/// The time from the creation of one container to the creation of the next.
const BETWEEN_CONTAINERS: Nanos = 250_000_000;
/// The time from the creation of a container to its start, without jitter.
const TO_START: Nanos = 90_000_000;
/// The time from the deletion of a pod to the end of its first container.
const TO_STOP: Nanos = 200_000_000;
/// The time from the end of one container to the end of the next.
const BETWEEN_STOPS: Nanos = 100_000_000;
/// The time from the removal of one container to the removal of the next.
const BETWEEN_REMOVALS: Nanos = 10_000_000;
/// The time from the end of the last container to the end of the sandbox.
const TO_SANDBOX_STOP: Nanos = 300_000_000;
/// The time from the sandbox's CREATED event to its STARTED event.
const TO_SANDBOX_STARTED: Nanos = 20_000;
/// The kubelet removes the dead container of attempt N this long after it creates the container of attempt N + 2.
const TO_COLLECTION: Nanos = 1_000_000_000;
/// A pod lives at most this much longer than the first pod of its slot: the delay of each start is random.
const LIFE_MARGIN: Nanos = 1_000_000_000;
/// The exit code of a container that was terminated.
const TERMINATED: i32 = 143;

/// Converts a duration to nanoseconds.
pub fn nanos(duration: Duration) -> Nanos {
    i64::try_from(duration.as_nanos()).unwrap_or(i64::MAX)
}

/// One place of a group. A group has [`PodGroup::count`] places. A pod fills the place, and then its successors fill
/// it.
#[derive(Clone, Debug)]
pub struct Slot {
    /// The group.
    pub group: Arc<PodGroup>,
    index: u32,
    seed: Seed,
    /// The first generation that [`Self::settle`] has not taken out.
    oldest: i64,
}

/// One pod with all times of its life.
#[derive(Clone, Debug)]
pub struct PodLife {
    /// The group.
    pub group: Arc<PodGroup>,
    /// The seed of the pod's name and UID.
    pub identity: Seed,
    /// The seed of the ids of the sandbox and the containers.
    pub seed: Seed,
    /// The index of the pod's slot.
    pub index: u32,
    /// The number of earlier pods in the slot.
    pub generation: i64,
    /// When the sandbox was created.
    pub created: Nanos,
    /// When the sandbox ends.
    pub stopped: Option<Nanos>,
    /// When the sandbox is removed.
    pub removed: Option<Nanos>,
    /// The containers, the oldest first.
    pub containers: Vec<ContainerLife>,
}

/// One container with all times of its life.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ContainerLife {
    /// The index of the container's name in the group.
    pub position: usize,
    /// The number of earlier containers with this name.
    pub attempt: u32,
    /// When the container was created.
    pub created: Nanos,
    /// When the container started.
    pub started: Nanos,
    /// When the container ends, and its exit code.
    pub finished: Option<(Nanos, i32)>,
    /// When the container is removed.
    pub removed: Option<Nanos>,
}

/// The type of a change, as in the CRI's events.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LifeEvent {
    /// The object was created.
    Created,
    /// The object was started.
    Started,
    /// The object has stopped.
    Stopped,
    /// The object was removed.
    Deleted,
}

/// The object that changes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LifeSubject {
    /// The sandbox.
    Sandbox,
    /// The container with this index in [`PodLife::containers`].
    Container(usize),
}

/// One change in a pod's life.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LifeChange {
    /// The time.
    pub at: Nanos,
    /// The type.
    pub what: LifeEvent,
    /// The object.
    pub subject: LifeSubject,
}

impl Slot {
    /// Creates the slot with this `index` of `group`.
    pub fn new(group: Arc<PodGroup>, index: u32, scenario: Seed) -> Self {
        let seed = scenario.of(&group.name).nth(index.into());
        Self { group, index, seed, oldest: 0 }
    }

    /// Takes the pods out of this slot that exist at `at` and do not change any more, and returns them. In the
    /// simulation, these pods still exist.
    pub fn settle(&mut self, at: Nanos) -> Vec<PodLife> {
        // The pods come in the order of their generations, and an earlier pod stops changing earlier.
        let settled: Vec<PodLife> = self.pods_at(at).take_while(|pod| pod.is_settled(at)).collect();
        if let Some(newest) = settled.last() {
            self.oldest = newest.generation + 1;
        }
        settled
    }

    /// Returns when the first pod of this slot starts. In a group with successors, the slots start one after the
    /// other; in other groups, at random times.
    fn first_start(&self) -> Nanos {
        let age = nanos(self.group.age);
        let offset = match self.period() {
            Some(period) => i128::from(period) * i128::from(self.index) / i128::from(self.group.count.max(1)),
            None => i128::from(self.seed.of("start").below(age.unsigned_abs() / 8)),
        };
        i64::try_from(offset).unwrap_or_default() - age
    }

    /// Returns the time from one pod of this slot to the next; `None` if there is only one.
    fn period(&self) -> Option<Nanos> {
        self.group.every.or(self.group.lives).map(nanos).filter(|period| *period > 0)
    }

    /// Returns the time from the start of a pod to its removal; `None` if it is never removed.
    fn whole_life(&self) -> Option<Nanos> {
        let pod = self.pod(0, i64::MIN);
        pod.removed.map(|removed| removed - pod.created)
    }

    /// Returns the numbers of the pods that exist between two times.
    fn generations(&self, from: Nanos, to: Nanos) -> RangeInclusive<i64> {
        let first = self.first_start();
        let Some(period) = self.period() else { return self.oldest..=0 };
        let newest = (to - first).div_euclid(period);
        let longest = self.whole_life().map(|life| life + LIFE_MARGIN);
        let oldest = longest.map_or(0, |life| (from - first - life).div_euclid(period));
        oldest.max(self.oldest)..=newest
    }

    /// Returns the pods that exist at `at`.
    pub fn pods_at(&self, at: Nanos) -> impl Iterator<Item = PodLife> + '_ {
        self.generations(at, at)
            .map(move |generation| self.pod(generation, at))
            .filter(move |pod| pod.exists(at))
    }

    /// Returns every pod that changes after `from` and up to `to`, with its changes.
    pub fn changes(&self, from: Nanos, to: Nanos) -> impl Iterator<Item = (PodLife, Vec<LifeChange>)> + '_ {
        self.generations(from, to).filter_map(move |generation| {
            let pod = self.pod(generation, to);
            let mut changes = pod.changes();
            changes.retain(|change| change.at > from && change.at <= to);
            (!changes.is_empty()).then_some((pod, changes))
        })
    }

    /// Returns the time of the next change after `at`.
    pub fn next_after(&self, at: Nanos) -> Option<Nanos> {
        let generations = self.generations(at, at);
        // The next pod of the slot does not exist yet, and its creation may be the next change.
        let successor = self.period().map(|_| generations.end() + 1);
        generations
            .chain(successor)
            .flat_map(|generation| self.pod(generation.max(self.oldest), at).changes())
            .map(|change| change.at)
            .filter(|change| *change > at)
            .min()
    }

    /// Returns the pod with this number, with its restarts up to `until` and a few more.
    fn pod(&self, generation: i64, until: Nanos) -> PodLife {
        let group = &self.group;
        let seed = self.seed.nth(generation.unsigned_abs().wrapping_add(1));
        let created = self.first_start() + generation * self.period().unwrap_or_default();
        let span = PodSpan { seed, created, deleted: group.lives.map(|lives| created + nanos(lives)), until };
        let mut containers: Vec<ContainerLife> =
            (0..group.containers.len()).flat_map(|position| span.containers(group, position)).collect();
        let stopped = end_of(&containers, group, span.deleted);
        let removed = removal(group, stopped, span.deleted);
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
        PodLife { group, identity, seed, index, generation, created, stopped, removed, containers }
    }
}

/// The facts of a pod that decide when its containers start and end.
struct PodSpan {
    seed: Seed,
    created: Nanos,
    deleted: Option<Nanos>,
    /// The time up to which a caller needs the restarts of a pod that is never deleted.
    until: Nanos,
}

impl PodSpan {
    /// Returns the containers of one name, one after the other.
    fn containers(&self, group: &PodGroup, position: usize) -> Vec<ContainerLife> {
        let rank = i64::try_from(position).unwrap_or_default();
        let mut created = self.created + TO_FIRST_CONTAINER + rank * BETWEEN_CONTAINERS;
        let mut out: Vec<ContainerLife> = Vec::with_capacity(1);
        let mut attempts_after_until = 0;
        for attempt in 0.. {
            let container = self.container(group, position, attempt, created);
            let finished = container.finished;
            out.push(container);
            // Of each name, the kubelet keeps only the newest dead container.
            let replaced = out.len().checked_sub(3).and_then(|index| out.get_mut(index));
            if let Some(replaced) = replaced {
                replaced.removed = Some(created + TO_COLLECTION);
            }
            let (Some((finished, _)), true) = (finished, group.restarts) else { break };
            // Some attempts after `until` are also computed, because attempt N + 2 decides when attempt N is removed.
            attempts_after_until += u32::from(created > self.until && self.deleted.is_none());
            created = finished + backoff(group, attempt);
            if attempts_after_until > 3 || self.deleted.is_some_and(|deleted| created >= deleted) {
                break;
            }
        }
        out
    }

    fn container(&self, group: &PodGroup, position: usize, attempt: u32, created: Nanos) -> ContainerLife {
        let rank = i64::try_from(position).unwrap_or_default();
        let jitter = self.seed.nth(attempt.into()).below(TO_START.unsigned_abs() / 2);
        let started = created + TO_START + i64::try_from(jitter).unwrap_or_default();
        let by_itself = group.runs.map(|runs| (started + nanos(runs), group.exit_code));
        let terminated = self
            .deleted
            .map(|deleted| deleted + TO_STOP + rank * BETWEEN_STOPS)
            .map(|terminated| (terminated.max(started), TERMINATED));
        let finished = [by_itself, terminated].into_iter().flatten().min_by_key(|(at, _)| *at);
        ContainerLife { position, attempt, created, started, finished, removed: None }
    }
}

/// Returns when the kubelet removes the container at `position` of a pod. It removes the containers one after the
/// other, and their sandbox at `sandbox_removed`.
fn before_sandbox(sandbox_removed: Nanos, position: usize) -> Nanos {
    let rank = i64::try_from(position).unwrap_or(i64::MAX);
    sandbox_removed - TO_SANDBOX_STOP + rank.saturating_mul(BETWEEN_REMOVALS).min(TO_SANDBOX_STOP / 2)
}

/// Returns when a dead pod is removed: when it has been dead for the time [`PodGroup::kept`]. If a pod finishes by
/// itself and is deleted later, it is removed shortly after the deletion, if that is earlier. `None` means never.
fn removal(group: &PodGroup, stopped: Option<Nanos>, deleted: Option<Nanos>) -> Option<Nanos> {
    let stopped = stopped?;
    let kept = group.kept.map(|kept| stopped + nanos(kept));
    let deleted = deleted.filter(|deleted| stopped < *deleted).map(|deleted| deleted + TO_SANDBOX_STOP);
    [kept, deleted].into_iter().flatten().min()
}

/// Returns when the sandbox ends: after its last container, if the containers are not restarted or the pod is
/// deleted.
fn end_of(containers: &[ContainerLife], group: &PodGroup, deleted: Option<Nanos>) -> Option<Nanos> {
    let last = containers.iter().filter_map(|container| container.finished).map(|(at, _)| at).max();
    let ends_by_itself = group.runs.is_some() && !group.restarts;
    let end =
        if ends_by_itself { last } else { deleted.and_then(|deleted| last.max(Some(deleted + TO_STOP))) };
    end.map(|end| end + TO_SANDBOX_STOP)
}

/// Returns the pause before the restart after `attempt`.
fn backoff(group: &PodGroup, attempt: u32) -> Nanos {
    let doubled = group.backoff.saturating_mul(1_u32.checked_shl(attempt).unwrap_or(u32::MAX));
    // Without a pause, endless restarts would happen at the same time.
    nanos(doubled.min(group.backoff_limit)).max(1_000_000)
}

impl PodLife {
    /// Whether the runtime lists the pod's sandbox at `at`.
    pub fn exists(&self, at: Nanos) -> bool {
        self.created <= at && self.removed.is_none_or(|removed| at < removed)
    }

    /// Whether the pod's sandbox is ready at `at`.
    pub fn is_ready(&self, at: Nanos) -> bool {
        self.stopped.is_none_or(|stopped| at < stopped)
    }

    /// Returns the pod's containers that the runtime lists at `at`.
    pub fn containers_at(&self, at: Nanos) -> impl Iterator<Item = &ContainerLife> {
        self.containers.iter().filter(move |container| container.exists(at))
    }

    /// Whether the pod does not change after `at`.
    fn is_settled(&self, at: Nanos) -> bool {
        self.changes().last().is_none_or(|last| last.at <= at)
    }

    /// Returns all changes of the pod, in order.
    fn changes(&self) -> Vec<LifeChange> {
        let of_sandbox = |at, what| LifeChange { at, what, subject: LifeSubject::Sandbox };
        let mut changes = vec![
            of_sandbox(self.created, LifeEvent::Created),
            of_sandbox(self.created + TO_SANDBOX_STARTED, LifeEvent::Started),
        ];
        for (index, container) in self.containers.iter().enumerate() {
            let of_container = |at, what| LifeChange { at, what, subject: LifeSubject::Container(index) };
            changes.push(of_container(container.created, LifeEvent::Created));
            changes.push(of_container(container.started, LifeEvent::Started));
            changes.extend(container.finished.map(|(at, _)| of_container(at, LifeEvent::Stopped)));
            changes.extend(container.removed.map(|at| of_container(at, LifeEvent::Deleted)));
        }
        changes.extend(self.stopped.map(|at| of_sandbox(at, LifeEvent::Stopped)));
        changes.extend(self.removed.map(|at| of_sandbox(at, LifeEvent::Deleted)));
        changes.sort_by_key(|change| change.at);
        changes
    }
}

impl ContainerLife {
    /// Whether the runtime lists the container at `at`.
    pub fn exists(&self, at: Nanos) -> bool {
        self.created <= at && self.removed.is_none_or(|removed| at < removed)
    }

    /// Returns when the container started, if it has started by `at`.
    pub fn started_by(&self, at: Nanos) -> Option<Nanos> {
        (self.started <= at).then_some(self.started)
    }

    /// Returns when the container ended and its exit code, if it has ended by `at`.
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

    fn group() -> PodGroup {
        PodGroup {
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
            manifest: None,
        }
    }

    fn slot(group: PodGroup) -> Slot {
        Slot::new(Arc::new(group), 0, Seed::new(1))
    }

    /// Returns the changes up to `to`, without their times.
    fn timeline(slot: &Slot, to: Nanos) -> Vec<(LifeEvent, LifeSubject)> {
        let mut changes: Vec<LifeChange> = slot.changes(-1, to).flat_map(|(_, changes)| changes).collect();
        changes.sort_by_key(|change| change.at);
        changes.into_iter().map(|change| (change.what, change.subject)).collect()
    }

    #[test]
    fn the_changes_of_a_pod_have_the_order_of_a_real_runtime() {
        use LifeEvent::{Created, Deleted, Started, Stopped};
        use LifeSubject::{Container, Sandbox};
        let slot = slot(PodGroup { lives: Some(seconds(60)), every: Some(seconds(3600)), ..group() });
        assert_eq!(
            timeline(&slot, 100 * SECOND),
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
    fn a_pod_that_keeps_running_does_not_change_again() {
        let slot = slot(group());
        assert_eq!(timeline(&slot, 3600 * SECOND).len(), 6);
        assert_eq!(slot.next_after(10 * SECOND), None);
    }

    #[test]
    fn pauses_between_crashes_double_up_to_their_limit() {
        let group = PodGroup {
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
    fn a_crash_loop_has_at_most_two_dead_containers_of_a_name() {
        let group = PodGroup {
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
    fn a_finished_pod_stays_until_it_is_removed() {
        let group = PodGroup {
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
    fn each_slot_has_one_running_pod_at_a_time() {
        let group = PodGroup {
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
                // For a short time the old pod is still stopping when the new one exists.
                assert!((1..=2).contains(&ready), "{ready} of slot {index} at {at}");
            }
        }
    }

    #[test]
    fn a_new_sandbox_belongs_to_the_same_pod() {
        let group = PodGroup {
            age: seconds(100),
            lives: Some(seconds(30)),
            kept: Some(seconds(60)),
            successor: Successor::Sandbox,
            ..group()
        };
        let pods: Vec<PodLife> = slot(group).pods_at(0).collect();
        assert!(pods.len() >= 2);
        assert!(
            pods.windows(2).all(|pair| pair[0].uid() == pair[1].uid() && pair[0].name() == pair[1].name())
        );
        assert!(pods.windows(2).all(|pair| pair[0].sandbox_attempt() + 1 == pair[1].sandbox_attempt()));
        assert!(pods.windows(2).all(|pair| pair[0].sandbox_id() != pair[1].sandbox_id()));
    }

    #[test]
    fn settle_takes_dead_pods_out_and_leaves_the_changing_ones() {
        let forever = PodGroup {
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
            let mut pods: Vec<String> = settled.iter().map(PodLife::uid).collect();
            pods.extend(rest.pods_at(at).map(|pod| pod.uid()));
            assert_eq!(pods, whole.pods_at(at).map(|pod| pod.uid()).collect::<Vec<_>>());
            assert_eq!(rest.next_after(at), whole.next_after(at));
        }
    }

    #[test]
    fn reading_more_often_does_not_change_the_events() {
        let groups = [
            PodGroup { runs: Some(seconds(2)), backoff: seconds(1), backoff_limit: seconds(8), ..group() },
            PodGroup { age: seconds(100), lives: Some(seconds(7)), kept: Some(seconds(3)), ..group() },
            PodGroup {
                age: seconds(50),
                runs: Some(seconds(2)),
                restarts: false,
                every: Some(seconds(5)),
                ..group()
            },
        ];
        for group in groups {
            let slot = slot(group);
            let whole = slot.changes(0, 100 * SECOND).flat_map(|(_, changes)| changes).count();
            let mut at = 0;
            let mut seen = 0;
            while let Some(next) = slot.next_after(at).filter(|next| *next <= 100 * SECOND) {
                seen += slot.changes(at, next).flat_map(|(_, changes)| changes).count();
                at = next;
            }
            assert_eq!(seen, whole);
            assert!(whole > 20);
        }
    }
}
