//! Measures the PLEG engine without a runtime: the time of a relist, of grouping and of a diff over lists in memory,
//! and the growth of memory over many relists.

pub mod support;

use std::sync::Arc;
use std::time::Duration;

use plegctl_engine::clock::SystemClock;
use plegctl_engine::cri::{Filter, Runtime as _};
use plegctl_engine::pleg::Sink;
use plegctl_engine::pleg::pods::listed_pods;
use plegctl_engine::pleg::single_relist::{Inspect, RelistRequest, relist};
use plegctl_engine::pleg::stream::Event;
use plegctl_engine::pleg::{Era, GenericPleg, PlegSettings, RelistReport, SharedState, diff};
use plegctl_engine::report::RuntimeRef;
use support::memory::{Lists, Memory, lists};
use support::process::resident;
use support::{alone, figure, heading, in_turn, mebibytes, milliseconds, nanoseconds_each, time};
use tokio::runtime::Runtime;

const SIZES: [usize; 4] = [1_000, 10_000, 100_000, 200_000];

/// The number of relists over which the bench measures the growth of memory.
const RELISTS: usize = 200;

/// The number of relists before the measurement, in which the allocator and the engine reach their final size.
const SETTLING: usize = 50;

fn main() {
    let network = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
    unchanged(&network);
    grouping();
    differences(&network);
    retained(&network);
}

/// Drops all events.
struct NullSink;

impl Sink for NullSink {
    fn event(&mut self, _event: Event) {}
}

/// A generic PLEG and the node in memory that it relists.
struct Watched<'a> {
    network: &'a Runtime,
    clock: SystemClock,
    memory: Memory,
    generic: GenericPleg,
}

impl<'a> Watched<'a> {
    fn new(network: &'a Runtime, inspect: bool) -> Self {
        let settings = PlegSettings { inspect, ..PlegSettings::default() };
        let generic = GenericPleg::new(Arc::new(SharedState::new(false)), settings);
        Self { network, clock: SystemClock::start(), memory: Memory::default(), generic }
    }

    /// Returns the time of one relist of these lists, without the time to create the lists.
    fn relist(&mut self, lists: Lists) -> Duration {
        self.memory.load(lists);
        let Self { network, clock, memory, generic } = self;
        time(|| network.block_on(generic.relist(memory, clock, &mut NullSink)))
    }
}

/// Returns the time of the same two list calls alone: their answers are dropped at once.
fn list_calls(network: &Runtime, memory: &Memory, lists: Lists) -> Duration {
    memory.load(lists);
    time(|| {
        network.block_on(async {
            drop(memory.list_sandboxes(&Filter::default()).await);
            drop(memory.list_containers(&Filter::default()).await);
        });
    })
}

/// Measures a relist in which nothing has changed.
fn unchanged(network: &Runtime) {
    heading("GenericPleg::relist, unchanged containers, two in each pod: time per container", "engine");
    let each = SIZES.map(|size| {
        let prototype = lists(size, 0);
        // Without inspection, because only the first relist would make status calls.
        let mut watched = Watched::new(network, false);
        let memory = Memory::default();
        let turns = (2_000_000 / size).clamp(11, 501);
        let (relist, calls) = in_turn(
            turns,
            || watched.relist(prototype.clone()),
            || list_calls(network, &memory, prototype.clone()),
        );
        let without_calls = nanoseconds_each(relist.median_excess(&calls), size);
        figure(&format!("{size} containers, without the list calls"), &format!("{without_calls:.1} ns"));
        let whole = nanoseconds_each(relist.median().as_secs_f64(), size);
        figure(&format!("{size} containers, with the list calls"), &format!("{whole:.1} ns"));
        without_calls
    });
    let [smallest, .., largest] = each;
    figure("200000 containers divided by 1000 containers", &format!("{:.2}", largest / smallest));
}

/// Measures how long it takes to group the lists into pods.
fn grouping() {
    heading("listed_pods, per container", "engine");
    for size in SIZES {
        let (sandboxes, containers) = lists(size, 0);
        let order = Era::OnDemand.into();
        let group = alone(31, || time(|| listed_pods(&sandboxes, &containers, order)));
        let each = nanoseconds_each(group.median().as_secs_f64(), size);
        figure(&format!("{size} containers"), &format!("{each:.1} ns"));
    }
}

/// Measures a diff of two reports.
fn differences(network: &Runtime) {
    heading("diff of two reports: a tenth of the pods replaced", "engine");
    for size in [1_000, 50_000] {
        let before = report(network, lists(size, 0));
        let after = report(network, lists(size, size / 20));
        let took = alone(11, || time(|| diff(&before, &after)));
        figure(&format!("{size} containers"), &milliseconds(took.median()));
        figure("  events", &diff(&before, &after).events.len().to_string());
    }
}

/// Runs one relist in this process; no message crosses a socket.
fn report(network: &Runtime, lists: Lists) -> RelistReport {
    let memory = Memory::default();
    memory.load(lists);
    let request = RelistRequest {
        node: None,
        runtime: RuntimeRef::default(),
        era: Era::OnDemand,
        inspect: Inspect::Nothing,
    };
    network.block_on(relist(&memory, &SystemClock::start(), request)).expect("both lists answer")
}

/// Measures the growth of resident memory over many relists.
fn retained(network: &Runtime) {
    const CONTAINERS: usize = 10_000;
    heading("resident memory over 200 relists of 10000 containers, after 50 more", "engine");
    let mut watched = Watched::new(network, true);
    growth("nothing changes", |_| watched.relist(lists(CONTAINERS, 0)));
    let mut watched = Watched::new(network, true);
    growth("1 % of the pods is replaced each time", |number| {
        watched.relist(lists(CONTAINERS, number * CONTAINERS / 200))
    });
}

/// Prints the resident memory before and after [`RELISTS`] relists.
fn growth(name: &str, mut relist: impl FnMut(usize) -> Duration) {
    for number in 0..SETTLING {
        relist(number);
    }
    let before = resident();
    for number in SETTLING..SETTLING + RELISTS {
        relist(number);
    }
    let after = resident();
    figure(&format!("{name}: before"), &mebibytes(before));
    figure(&format!("{name}: after"), &mebibytes(after));
}
