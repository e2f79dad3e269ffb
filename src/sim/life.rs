//! A pod's life as a table of moments: nothing in it depends on when it is looked at.
//!
//! Times are nanoseconds of simulated time, 0 being the start of the simulation; what was there before has negative
//! ones.

use std::ops::RangeInclusive;
use std::sync::Arc;
use std::time::Duration;

use super::scenario::{Group, Owner};
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
}

/// One pod with all that happens to it.
#[derive(Clone, Debug)]
pub struct Pod {
    /// What it is one of.
    pub group: Arc<Group>,
    /// Everything random about it.
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
pub enum Happening {
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
    pub what: Happening,
    /// To whom.
    pub subject: Subject,
}

impl Slot {
    /// The `index`th place of `group`.
    pub fn new(group: Arc<Group>, index: u32, scenario: Seed) -> Self {
        let seed = scenario.of(&group.name).nth(index.into());
        Self { group, index, seed }
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
        let Some(period) = self.period() else { return 0..=0 };
        let newest = (to - first).div_euclid(period);
        let oldest = self.whole_life().map_or(0, |life| (from - first - life).div_euclid(period));
        oldest.max(0)..=newest
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
            .flat_map(|generation| self.pod(generation.max(0), at).moments())
            .map(|moment| moment.at)
            .filter(|moment| *moment > at)
            .min()
    }

    /// The pod of one generation, with the restarts up to `until` and a few beyond.
    fn pod(&self, generation: i64, until: Nanos) -> Pod {
        let seed = self.seed.nth(generation.unsigned_abs().wrapping_add(1));
        let group = &self.group;
        let created = self.first_start() + generation * self.period().unwrap_or_default();
        let deleted = group.lives.map(|lives| created + nanos(lives));
        let mut containers = Vec::with_capacity(group.containers.len());
        for position in 0..group.containers.len() {
            self.run(position, seed, created, deleted, until, &mut containers);
        }
        let stopped = end_of(&containers, group, deleted);
        let collected = stopped.and_then(|stopped| group.kept.map(|kept| stopped + nanos(kept)));
        // Who is done before being deleted is collected no later than then.
        let with_deletion = deleted
            .filter(|deleted| stopped.is_some_and(|stopped| stopped < *deleted))
            .map(|deleted| deleted + TO_SANDBOX_STOP);
        let removed = [collected, with_deletion].into_iter().flatten().min();
        for container in &mut containers {
            // The kubelet removes the containers before their sandbox.
            let with_pod = removed.map(|removed| removed - TO_SANDBOX_STOP);
            container.removed = [container.removed, with_pod].into_iter().flatten().min();
        }
        containers.sort_by_key(|container| (container.created, container.position));
        Pod {
            group: Arc::clone(group),
            seed,
            index: self.index,
            generation,
            created,
            stopped,
            removed,
            containers,
        }
    }

    /// One container of a pod with all its restarts.
    fn run(
        &self,
        position: usize,
        seed: Seed,
        pod_created: Nanos,
        deleted: Option<Nanos>,
        until: Nanos,
        out: &mut Vec<ContainerLife>,
    ) {
        let group = &self.group;
        let rank = i64::try_from(position).unwrap_or_default();
        let told_to_stop = deleted.map(|deleted| deleted + TO_STOP + rank * TO_STOP / 2);
        let mut created = pod_created + TO_FIRST_CONTAINER + rank * BETWEEN_CONTAINERS;
        let mut beyond = 0;
        let mine = out.len();
        for attempt in 0.. {
            if deleted.is_some_and(|deleted| created >= deleted) && attempt > 0 {
                break;
            }
            let jitter = seed.nth(u64::from(attempt)).below(TO_START.unsigned_abs() / 2);
            let started = created + TO_START + i64::try_from(jitter).unwrap_or_default();
            let own_end = group.runs.map(|runs| started + nanos(runs));
            let finished = match (own_end, told_to_stop) {
                (Some(own), Some(told)) if told < own => Some((told.max(started), TERMINATED)),
                (Some(own), _) => Some((own, group.exit_code)),
                (None, told) => told.map(|told| (told.max(started), TERMINATED)),
            };
            out.push(ContainerLife { position, attempt, created, started, finished, removed: None });
            // Of each name the kubelet keeps the newest dead container only.
            if let Some(replaced) = out.len().checked_sub(3).filter(|index| *index >= mine)
                && let Some(old) = out.get_mut(replaced)
            {
                old.removed = Some(created + TO_COLLECTION);
            }
            let (Some((finished, _)), true) = (finished, group.restarts) else { break };
            // Three more, so that what they do to the ones before is known.
            beyond += u32::from(created > until && deleted.is_none());
            if beyond > 3 {
                break;
            }
            created = finished + backoff(group, attempt);
        }
    }
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

    /// Everything that happens to it, in order.
    fn moments(&self) -> Vec<Moment> {
        let mut moments = vec![
            Moment { at: self.created, what: Happening::Created, subject: Subject::Sandbox },
            Moment {
                at: self.created + TO_SANDBOX_STARTED,
                what: Happening::Started,
                subject: Subject::Sandbox,
            },
        ];
        for (index, container) in self.containers.iter().enumerate() {
            let subject = Subject::Container(index);
            let mut push = |at, what| moments.push(Moment { at, what, subject });
            push(container.created, Happening::Created);
            push(container.started, Happening::Started);
            if let Some((finished, _)) = container.finished {
                push(finished, Happening::Stopped);
            }
            if let Some(removed) = container.removed {
                push(removed, Happening::Deleted);
            }
        }
        let mut push = |at, what| moments.push(Moment { at, what, subject: Subject::Sandbox });
        if let Some(stopped) = self.stopped {
            push(stopped, Happening::Stopped);
        }
        if let Some(removed) = self.removed {
            push(removed, Happening::Deleted);
        }
        moments.sort_by_key(|moment| moment.at);
        moments
    }

    /// Its name.
    pub fn name(&self) -> String {
        let stem = self.group.pod_name.as_deref().unwrap_or(&self.group.name);
        let template = self.seed_of_template();
        match self.group.owner {
            Owner::Deployment => format!("{stem}-{}-{}", template.suffix(10), self.seed.suffix(5)),
            Owner::DaemonSet => format!("{stem}-{}", self.seed.suffix(5)),
            Owner::StatefulSet => format!("{stem}-{}", self.index),
            Owner::Job => {
                // The number that a CronJob's controller would have put there grows with time.
                let number =
                    29_000_000 + self.generation * i64::from(self.group.count) + i64::from(self.index);
                format!("{stem}-{number}-{}", self.seed.suffix(5))
            }
            Owner::Static => format!("{stem}-{}", super::NODE_NAME),
        }
    }

    /// Its UID.
    pub fn uid(&self) -> String {
        match self.group.owner {
            Owner::Static => self.seed.of("uid").short_hex(),
            _ => self.seed.of("uid").uuid(),
        }
    }

    /// Id of its sandbox.
    pub fn sandbox_id(&self) -> String {
        self.seed.of("sandbox").id()
    }

    /// Id of one of its containers.
    pub fn container_id(&self, container: &ContainerLife) -> String {
        self.seed.of(self.container_name(container)).nth(container.attempt.into()).id()
    }

    /// Name of one of its containers.
    pub fn container_name(&self, container: &ContainerLife) -> &str {
        self.group.containers.get(container.position).map_or("", String::as_str)
    }

    /// The seed that pods of one rollout share.
    fn seed_of_template(&self) -> Seed {
        Seed::new(0).of(&self.group.name).nth(self.generation.unsigned_abs())
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
