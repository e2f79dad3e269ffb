//! The comparison of a run of `health` with what the relists of the same simulated node show, as `top` and `record` judge
//! them: fewer facts give the same verdict or *unknown*. A healthy verdict of the relists must not contradict a finding about a
//! call. The clock is paused.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use super::seen_calls::{SeenCalls, assert_agrees};
use crate::clock::{Clock, Mono};
use crate::cri::Client;
use crate::diagnosis::report::{HealthReport, Verdict};
use crate::diagnosis::{Inputs, run};
use crate::pleg::{GenericPleg, PlegSettings, SharedState};
use crate::sim;
use crate::sim::tests::{PausedClock, RunningSimulation, containers_of};
use crate::threads::locked;

const TIMEOUT: Duration = Duration::from_secs(120);

/// The seconds after which `health` is run: during the first relist, and after two relists that a hung call delays.
const MOMENTS: [u64; 3] = [1, 130, 400];

/// With so many containers, a relist takes seconds of real time in a debug build, so one moment and few relists have to be enough.
const MANY_CONTAINERS: usize = 2000;

/// Relists for ever, as the kubelet does.
async fn relist(client: Client, pause: Duration, mut seen: SeenCalls, shared: Arc<SharedState>) {
    let clock = Arc::clone(&seen.clock);
    let settings = PlegSettings { inspect: true, ..PlegSettings::default() };
    let mut generic = GenericPleg::new(Arc::clone(&shared), settings);
    loop {
        locked(&seen.calls).relist_begins(clock.mono());
        let report = generic.relist(&client, &*clock, &mut seen).await;
        let error = shared.lock().list_error.clone();
        locked(&seen.calls).relist_ended(&report, error);
        tokio::time::sleep(pause).await;
    }
}

/// Returns the verdicts of the relists and of `health` at each of [`MOMENTS`].
async fn verdicts(scenario: &str) -> Vec<(Verdict, HealthReport)> {
    let scenario = sim::load(scenario).unwrap();
    let simulation = RunningSimulation::new(&scenario);
    let clock: Arc<dyn Clock> = Arc::new(PausedClock::start());
    let (seen, shared) = (SeenCalls::new(&clock), Arc::new(SharedState::new(false)));
    let is_large = containers_of(&scenario).len() > MANY_CONTAINERS;
    let (pause, moments) = if is_large { (50, 1) } else { (1, MOMENTS.len()) };
    let client = simulation.client_with(TIMEOUT);
    let relists = relist(client, Duration::from_secs(pause), seen.clone(), Arc::clone(&shared));
    let relists = tokio::spawn(relists);
    let mut found = Vec::new();
    for moment in MOMENTS.into_iter().take(moments) {
        let until = Mono::at(Duration::from_secs(moment));
        tokio::time::sleep(until.since(clock.mono())).await;
        let [main, control] = [(); 2].map(|()| Arc::new(simulation.client_with(TIMEOUT)));
        let mut inputs = Inputs::new(main, control, Arc::clone(&clock));
        inputs.host_root = PathBuf::from("/nonexistent");
        inputs.proc = None;
        let report = run(&inputs, &|_| ()).await;
        found.push((seen.verdict(&shared), report));
    }
    relists.abort();
    found
}

async fn compare(scenario: &str) {
    for (by_calls, report) in verdicts(scenario).await {
        assert_agrees(scenario, by_calls, &report);
    }
}

/// One test for each scenario, so that they run at the same time and each failure has a name.
macro_rules! compared {
    ($($test:ident: $scenario:literal,)*) => {
        mod relists_do_not_contradict_health {
            $(#[tokio::test(start_paused = true)]
            async fn $test() {
                super::compare($scenario).await;
            })*
        }
    };
}

each_scenario!(compared);

#[tokio::test(start_paused = true)]
async fn two_hung_pods_are_never_degraded_for_the_relists() {
    let found = verdicts("hung-two-pods").await.into_iter().map(|(by_calls, _)| by_calls);
    assert_eq!(found.collect::<Vec<_>>(), [Verdict::Unknown, Verdict::Unhealthy, Verdict::Unhealthy]);
}
