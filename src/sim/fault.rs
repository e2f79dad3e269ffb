//! Computes how the faults of a scenario affect a call: a pure function of the faults, the call and the time.

use std::time::Duration;

use super::life::{Nanos, nanos};
use super::scenario::{FaultEffect, ScenarioFault};
use super::seed::Seed;
use crate::cri::{Code, Rpc};

/// The properties of a call that faults can select.
#[derive(Clone, Copy, Debug)]
pub struct FaultTarget<'a> {
    /// The RPC.
    pub rpc: Rpc,
    /// The group of the pod that the call is about.
    pub group: Option<&'a str>,
    /// The name of the container that the call is about.
    pub container: Option<&'a str>,
    /// The id in the request.
    pub id: &'a str,
}

/// The outcome of a call under a fault.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CallOutcome {
    /// The call waits for this time. Then its next outcome follows, or the answer if there is no other outcome.
    Waits(Duration),
    /// The call is never answered.
    Hangs,
    /// The call is answered with an error.
    Fails(Code, String),
}

/// Returns what happens to the call `target` at `at`, one outcome after the other, in the order of the scenario's
/// faults.
pub fn call_outcomes(
    faults: &[ScenarioFault],
    seed: Seed,
    target: FaultTarget<'_>,
    at: Nanos,
) -> Vec<CallOutcome> {
    let affecting = faults.iter().filter(|fault| affects(fault, target));
    affecting.filter_map(|fault| call_outcome(fault, seed, target, remaining(fault, at)?)).collect()
}

/// Whether the fault is for calls like this one.
fn affects(fault: &ScenarioFault, target: FaultTarget<'_>) -> bool {
    let same = |wanted: &Option<String>, given: Option<&str>| {
        wanted.as_deref().is_none_or(|wanted| given == Some(wanted))
    };
    fault.calls.contains(&target.rpc)
        && same(&fault.pod, target.group)
        && same(&fault.container, target.container)
}

/// How much longer a fault lasts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Remaining {
    ForEver,
    For(Duration),
}

/// Returns how much longer the fault lasts, or `None` if it is not active at `at`.
fn remaining(fault: &ScenarioFault, at: Nanos) -> Option<Remaining> {
    let since = at.checked_sub(nanos(fault.after)).filter(|since| *since >= 0)?;
    let Some(lasts) = fault.lasts.map(nanos) else { return Some(Remaining::ForEver) };
    let period = fault.every.map(nanos).filter(|period| *period > 0);
    let since_repetition = period.map_or(since, |period| since.rem_euclid(period));
    let left = u64::try_from(lasts - since_repetition).ok().filter(|left| *left > 0)?;
    Some(Remaining::For(Duration::from_nanos(left)))
}

/// Returns how an active fault affects a call.
fn call_outcome(
    fault: &ScenarioFault,
    seed: Seed,
    target: FaultTarget<'_>,
    remaining: Remaining,
) -> Option<CallOutcome> {
    match (&fault.effect, remaining) {
        (FaultEffect::Hangs, Remaining::ForEver) => Some(CallOutcome::Hangs),
        // A call that waits for a lock continues when the lock is released.
        (FaultEffect::Hangs, Remaining::For(left)) => Some(CallOutcome::Waits(left)),
        (FaultEffect::Takes { least, most }, _) => {
            let room = u64::try_from(most.saturating_sub(*least).as_nanos()).ok()?;
            let extra = seed.of(target.rpc.name()).of(target.id).below(room.saturating_add(1));
            Some(CallOutcome::Waits(*least + Duration::from_nanos(extra)))
        }
        (FaultEffect::Fails { code, message }, _) => Some(CallOutcome::Fails(*code, message.clone())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Nanos = 1_000_000_000;

    fn hang() -> ScenarioFault {
        ScenarioFault {
            calls: vec![Rpc::ContainerStatus],
            pod: Some("db".into()),
            container: Some("postgres".into()),
            effect: FaultEffect::Hangs,
            after: Duration::ZERO,
            lasts: None,
            every: None,
        }
    }

    fn target<'a>(group: &'a str, container: &'a str) -> FaultTarget<'a> {
        FaultTarget { rpc: Rpc::ContainerStatus, group: Some(group), container: Some(container), id: "x" }
    }

    #[test]
    fn only_calls_about_the_named_container_hang() {
        let faults = [hang()];
        let of = |pod, container| call_outcomes(&faults, Seed::new(1), target(pod, container), 0);
        assert_eq!(of("db", "postgres"), [CallOutcome::Hangs]);
        assert_eq!(of("db", "exporter"), []);
        assert_eq!(of("web", "postgres"), []);
        let listed = FaultTarget { rpc: Rpc::ListContainers, group: None, container: None, id: "" };
        assert_eq!(call_outcomes(&faults, Seed::new(1), listed, 0), []);
    }

    #[test]
    fn a_call_continues_when_its_fault_ends() {
        let fault = ScenarioFault {
            after: Duration::from_secs(10),
            lasts: Some(Duration::from_secs(5)),
            every: Some(Duration::from_secs(60)),
            ..hang()
        };
        let at = |seconds: Nanos| {
            call_outcomes(
                std::slice::from_ref(&fault),
                Seed::new(1),
                target("db", "postgres"),
                seconds * SECOND,
            )
        };
        assert_eq!(at(9), []);
        assert_eq!(at(10), [CallOutcome::Waits(Duration::from_secs(5))]);
        assert_eq!(at(14), [CallOutcome::Waits(Duration::from_secs(1))]);
        assert_eq!(at(15), []);
        assert_eq!(at(72), [CallOutcome::Waits(Duration::from_secs(3))]);
    }

    #[test]
    fn a_delay_is_the_same_for_the_same_id() {
        let effect =
            FaultEffect::Takes { least: Duration::from_millis(100), most: Duration::from_millis(300) };
        let faults = [ScenarioFault { pod: None, container: None, effect, ..hang() }];
        let of = |id| call_outcomes(&faults, Seed::new(1), FaultTarget { id, ..target("db", "postgres") }, 0);
        assert_eq!(of("a"), of("a"));
        assert_ne!(of("a"), of("b"));
        for id in ["a", "b", "c", "d"] {
            let [CallOutcome::Waits(time)] = of(id)[..] else {
                panic!("the call with id {id} is not delayed")
            };
            assert!(time >= Duration::from_millis(100) && time <= Duration::from_millis(300));
        }
    }
}
