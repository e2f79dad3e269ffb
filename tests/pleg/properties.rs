//! Property tests of the PLEG engine: each property must hold for any generated node.

use std::collections::BTreeMap;
use std::sync::Arc;

use plegctl_engine::clock::{ManualClock, Wall};
use plegctl_engine::cri::{Code, Container, ContainerState, Labels, Sandbox, SandboxState};
use plegctl_engine::pleg::report::ReportedPod;
use plegctl_engine::pleg::single_relist::{self, Inspect, RelistRequest};
use plegctl_engine::pleg::stream::{Event, EventType};
use plegctl_engine::pleg::{
    Era, GenericPleg, KubeletState, PlegSettings, PlegState, RelistReport, RuntimeRef, SharedState, diff,
    document,
};
use proptest::prelude::*;

use crate::pleg::scripted::{Fault, Scripted, container, sandbox};

/// The containers and sandboxes that a runtime lists.
#[derive(Clone, Debug)]
struct Listing {
    sandboxes: Vec<Sandbox>,
    containers: Vec<Container>,
}

impl Listing {
    /// Makes the runtime answer with this listing.
    fn play(&self, runtime: &Scripted) {
        runtime.set(|state| {
            state.sandboxes.clone_from(&self.sandboxes);
            state.containers.clone_from(&self.containers);
        });
    }

    fn report(&self, inspect: Inspect) -> RelistReport {
        let runtime = Scripted::default();
        self.play(&runtime);
        let request = RelistRequest {
            node: Some("n1".into()),
            runtime: RuntimeRef::default(),
            era: Era::OnDemand,
            inspect,
        };
        block_on(single_relist::relist(&runtime, &clock(), request)).unwrap()
    }

    /// The state that PLEG has for every container and sandbox, by pod and id.
    fn states(&self) -> States {
        let sandboxes = self.sandboxes.iter().map(|sandbox| {
            let uid = sandbox.metadata.as_ref().unwrap().uid.clone();
            ((uid, sandbox.id.clone()), KubeletState::from(sandbox.state).pleg())
        });
        let containers = self.containers.iter().map(|container| {
            let uid = container.labels.get("io.kubernetes.pod.uid").unwrap().to_owned();
            ((uid, container.id.clone()), KubeletState::from(container.state).pleg())
        });
        sandboxes.chain(containers).collect()
    }
}

type States = BTreeMap<(String, String), PlegState>;

fn clock() -> ManualClock {
    ManualClock::at(Wall::from_nanos(1_800_000_000_000_000_000))
}

fn block_on<F: Future>(future: F) -> F::Output {
    tokio::runtime::Builder::new_current_thread().build().unwrap().block_on(future)
}

fn container_state() -> impl Strategy<Value = ContainerState> {
    use ContainerState::{Created, Exited, Running, Unknown};
    prop::sample::select(vec![Created, Running, Exited, Unknown])
}

fn sandbox_state() -> impl Strategy<Value = SandboxState> {
    use SandboxState::{NotReady, Ready, Unknown};
    prop::sample::select(vec![Ready, NotReady, Unknown])
}

/// Generates listings in any order. Two pods may have the same id, but one pod has each id only once.
fn listing() -> impl Strategy<Value = Listing> {
    let sandboxes = prop::collection::btree_map((0..4_u8, 0..3_u8), (sandbox_state(), 1..9_i64), 0..6);
    let containers = prop::collection::btree_map((0..4_u8, 0..5_u8), (container_state(), 1..9_i64), 0..10);
    (sandboxes, containers)
        .prop_map(|(sandboxes, containers)| Listing {
            sandboxes: sandboxes
                .into_iter()
                .map(|((pod, number), (state, created_at))| Sandbox {
                    created_at,
                    ..sandbox(&format!("s{number}"), &format!("pod{pod}"), u32::from(number), state)
                })
                .collect(),
            containers: containers
                .into_iter()
                .map(|((pod, number), (state, created_at))| Container {
                    created_at,
                    ..container(&format!("c{number}"), &format!("pod{pod}"), state)
                })
                .collect(),
        })
        .prop_flat_map(|listing| {
            let sandboxes = Just(listing.sandboxes).prop_shuffle();
            let containers = Just(listing.containers).prop_shuffle();
            (sandboxes, containers)
        })
        .prop_map(|(sandboxes, containers)| Listing { sandboxes, containers })
}

/// Generates listings with missing fields, colliding ids and impossible times.
fn broken_listing() -> impl Strategy<Value = Listing> {
    let damage = (0..8_u8, prop::sample::select(vec![0, -1, i64::MIN, i64::MAX, -6_795_364_578_871_345_152]));
    (listing(), prop::collection::vec(damage, 16)).prop_map(|(mut listing, damages)| {
        for (sandbox, (what, time)) in listing.sandboxes.iter_mut().zip(&damages) {
            match what {
                0 => sandbox.metadata = None,
                1 => sandbox.id = String::new(),
                2 => sandbox.id = "c1".into(),
                3 => sandbox.created_at = *time,
                4 => sandbox.labels = Labels::default(),
                _ => {}
            }
        }
        for (container, (what, time)) in listing.containers.iter_mut().rev().zip(&damages) {
            match what {
                0 => container.metadata = None,
                1 => container.id = String::new(),
                2 => container.id = "c1".into(),
                3 => container.created_at = *time,
                4 => container.labels = Labels::default(),
                5 => container.image = None,
                _ => {}
            }
        }
        listing
    })
}

/// Changes the states as the events say.
fn apply(states: &mut States, events: &[Event]) {
    for event in events {
        let Some(id) = &event.id else { continue };
        let key = (event.pod.uid.clone(), id.clone());
        match event.event_type {
            EventType::ContainerStarted => drop(states.insert(key, PlegState::Running)),
            EventType::ContainerDied => drop(states.insert(key, PlegState::Exited)),
            EventType::ContainerChanged => drop(states.insert(key, PlegState::Unknown)),
            EventType::ContainerRemoved => drop(states.remove(&key)),
            EventType::PodSync => {}
        }
    }
}

fn by_pod(events: &[Event]) -> BTreeMap<&str, Vec<(EventType, Option<&str>)>> {
    let mut pods: BTreeMap<&str, Vec<_>> = BTreeMap::new();
    for event in events {
        let pod_events = pods.entry(event.pod.uid.as_str()).or_default();
        pod_events.push((event.event_type, event.id.as_deref()));
    }
    pods
}

/// Generates one of the groups of kubelet releases whose relists differ.
fn era() -> impl Strategy<Value = Era> {
    prop::sample::select(vec![Era::TwoRounds, Era::OneRound, Era::OnDemand])
}

proptest! {
    #[test]
    fn events_transform_any_listing_into_any_other(listings in prop::collection::vec(listing(), 1..5), era in era()) {
        let runtime = Scripted::default();
        let settings = PlegSettings { era, ..PlegSettings::default() };
        let mut generic = GenericPleg::new(Arc::new(SharedState::new(false)), settings);
        let mut states = States::new();
        for listing in &listings {
            listing.play(&runtime);
            let mut events = Vec::new();
            block_on(generic.relist(&runtime, &clock(), &mut events));
            apply(&mut states, &events);
            prop_assert_eq!(&states, &listing.states());
        }
    }

    #[test]
    fn events_delayed_by_failing_fetches_follow_when_the_fetches_succeed(
        listings in prop::collection::vec((listing(), prop::collection::vec(0..5_u8, 0..4)), 1..5),
        era in era(),
    ) {
        let runtime = Scripted::default();
        let settings = PlegSettings { era, ..PlegSettings::default() };
        let mut generic = GenericPleg::new(Arc::new(SharedState::new(false)), settings);
        let mut states = States::new();
        let mut relist = |runtime: &Scripted| {
            let mut events = Vec::new();
            block_on(generic.relist(runtime, &clock(), &mut events));
            apply(&mut states, &events);
            states.clone()
        };
        for (listing, failing) in &listings {
            listing.play(&runtime);
            let fault = |number: &u8| (format!("c{number}"), Fault::Code(Code::Internal));
            runtime.set(|state| state.faults = failing.iter().map(fault).collect());
            relist(&runtime);
        }
        runtime.set(|state| state.faults.clear());
        let last = &listings.last().unwrap().0;
        prop_assert_eq!(relist(&runtime), last.states());
    }

    #[test]
    fn a_broken_listing_is_relisted_without_a_failure(listings in prop::collection::vec(broken_listing(), 1..4), era in era()) {
        let runtime = Scripted::default();
        let settings = PlegSettings { era, ..PlegSettings::default() };
        let mut generic = GenericPleg::new(Arc::new(SharedState::new(false)), settings);
        for listing in &listings {
            listing.play(&runtime);
            let report = block_on(generic.relist(&runtime, &clock(), &mut Vec::new()));
            prop_assert_eq!(report.error, None);
            let mut events = Vec::new();
            let report = block_on(generic.relist(&runtime, &clock(), &mut events));
            prop_assert!(report.reinspect > 0 || events.is_empty(), "the same lists again: {:?}", events);
        }
    }

    #[test]
    fn a_relist_and_a_report_have_the_same_counts(listings in prop::collection::vec(broken_listing(), 1..4)) {
        let runtime = Scripted::default();
        let shared_state = Arc::new(SharedState::new(false));
        let settings = PlegSettings { inspect: false, ..PlegSettings::default() };
        let mut generic = GenericPleg::new(Arc::clone(&shared_state), settings);
        // Relists each listing twice, because PLEG counts an unchanged listing in another way.
        for listing in listings.iter().flat_map(|listing| [listing, listing]) {
            listing.play(&runtime);
            let relist = block_on(generic.relist(&runtime, &clock(), &mut Vec::new()));
            let report = listing.report(Inspect::Nothing);
            let (pods, sandboxes, containers) = (&report.pods, report.counts.sandboxes, report.counts.containers);
            prop_assert_eq!(relist.pods, report.counts.pods);
            prop_assert_eq!(relist.sandboxes, sandboxes.running + sandboxes.exited + sandboxes.unknown);
            let all = containers.created + containers.running + containers.exited + containers.unknown;
            prop_assert_eq!(relist.containers, all);
            let runs = |pod: &&ReportedPod| pod.sandboxes.iter().any(|sandbox| sandbox.state == KubeletState::Running);
            let running = i64::try_from(pods.iter().filter(runs).count()).unwrap();
            prop_assert_eq!(shared_state.lock().metrics.running_pods(), running);
            if containers.created > 0 {
                let created = i64::try_from(containers.created).ok();
                prop_assert_eq!(shared_state.lock().metrics.running_containers(KubeletState::Created), created);
            }
        }
    }

    #[test]
    fn a_saved_report_is_read_unchanged(listing in broken_listing()) {
        let mut report = listing.report(Inspect::Everything { concurrency: 3 });
        let text = serde_json::to_vec(&document(&report)).unwrap();
        // Labels select pods and are not part of the document.
        report.pods.iter_mut().for_each(|pod| pod.labels = Labels::default());
        prop_assert_eq!(RelistReport::read(&text).unwrap(), report);
    }

    #[test]
    fn a_truncated_report_is_rejected(listing in listing(), cut in 0.0..1.0_f64) {
        let text = serde_json::to_string_pretty(&document(&listing.report(Inspect::Nothing))).unwrap();
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, clippy::cast_precision_loss)]
        let end = (text.len() as f64 * cut) as usize;
        prop_assert!(RelistReport::read(&text.as_bytes()[..end]).is_err());
    }

    #[test]
    fn a_report_does_not_differ_from_itself(listing in broken_listing()) {
        let report = listing.report(Inspect::Everything { concurrency: 1 });
        prop_assert!(diff(&report, &report).is_empty());
    }

    #[test]
    fn a_diff_has_the_events_of_a_relist(before in broken_listing(), after in broken_listing()) {
        let runtime = Scripted::default();
        let settings = PlegSettings { inspect: false, ..PlegSettings::default() };
        let mut generic = GenericPleg::new(Arc::new(SharedState::new(false)), settings);
        let mut events = Vec::new();
        for listing in [&before, &after] {
            events.clear();
            listing.play(&runtime);
            block_on(generic.relist(&runtime, &clock(), &mut events));
        }
        let found = diff(&before.report(Inspect::Nothing), &after.report(Inspect::Nothing));
        prop_assert_eq!(by_pod(&found.events), by_pod(&events));
    }

    #[test]
    fn inspecting_pods_concurrently_gives_the_same_report(listing in listing(), concurrency in 2..9_usize) {
        let serial = listing.report(Inspect::Everything { concurrency: 1 });
        prop_assert_eq!(listing.report(Inspect::Everything { concurrency }), serial);
    }
}
