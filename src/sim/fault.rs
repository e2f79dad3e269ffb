//! What befalls a call: a pure function of the faults, the call and the moment.

use std::time::Duration;

use super::life::{Nanos, nanos};
use super::scenario::{Effect, Fault};
use super::seed::Seed;
use crate::cri::{Code, Rpc};

/// A call, as far as faults tell calls apart.
#[derive(Clone, Copy, Debug)]
pub struct Asked<'a> {
    /// Which RPC.
    pub rpc: Rpc,
    /// The group of the pod that it is about.
    pub pod: Option<&'a str>,
    /// The name of the container that it is about.
    pub container: Option<&'a str>,
    /// The id that it names.
    pub id: &'a str,
}

/// What befalls a call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Fate {
    /// It waits so long and then goes on, perhaps to its next fate.
    Waits(Duration),
    /// It is never answered.
    Hangs,
    /// It is answered with an error.
    Fails(Code, String),
}

/// What befalls `asked` at `at`, in the order of the scenario.
pub fn fates(faults: &[Fault], seed: Seed, asked: Asked<'_>, at: Nanos) -> Vec<Fate> {
    let concerned = faults.iter().filter(|fault| concerns(fault, asked));
    concerned.filter_map(|fault| fate(fault, seed, asked, remaining(fault, at)?)).collect()
}

fn concerns(fault: &Fault, asked: Asked<'_>) -> bool {
    let same = |wanted: &Option<String>, given: Option<&str>| {
        wanted.as_deref().is_none_or(|wanted| given == Some(wanted))
    };
    fault.calls.contains(&asked.rpc) && same(&fault.pod, asked.pod) && same(&fault.container, asked.container)
}

/// How much longer a fault that holds at `at` will last.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Remaining {
    ForEver,
    For(Duration),
}

/// `None` if the fault does not hold at `at`.
fn remaining(fault: &Fault, at: Nanos) -> Option<Remaining> {
    let since = at.checked_sub(nanos(fault.after)).filter(|since| *since >= 0)?;
    let Some(lasts) = fault.lasts.map(nanos) else { return Some(Remaining::ForEver) };
    let period = fault.every.map(nanos).filter(|period| *period > 0);
    let into = period.map_or(since, |period| since.rem_euclid(period));
    let left = u64::try_from(lasts - into).ok().filter(|left| *left > 0)?;
    Some(Remaining::For(Duration::from_nanos(left)))
}

fn fate(fault: &Fault, seed: Seed, asked: Asked<'_>, remaining: Remaining) -> Option<Fate> {
    match (&fault.effect, remaining) {
        (Effect::Hangs, Remaining::ForEver) => Some(Fate::Hangs),
        // Whoever waits for a lock goes on when it is released.
        (Effect::Hangs, Remaining::For(left)) => Some(Fate::Waits(left)),
        (Effect::Takes { least, most }, _) => {
            let room = u64::try_from(most.saturating_sub(*least).as_nanos()).ok()?;
            let extra = seed.of(asked.rpc.name()).of(asked.id).below(room.saturating_add(1));
            Some(Fate::Waits(*least + Duration::from_nanos(extra)))
        }
        (Effect::Fails { code, message }, _) => Some(Fate::Fails(*code, message.clone())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Nanos = 1_000_000_000;

    fn hang() -> Fault {
        Fault {
            calls: vec![Rpc::ContainerStatus],
            pod: Some("db".into()),
            container: Some("postgres".into()),
            effect: Effect::Hangs,
            after: Duration::ZERO,
            lasts: None,
            every: None,
        }
    }

    fn asked<'a>(pod: &'a str, container: &'a str) -> Asked<'a> {
        Asked { rpc: Rpc::ContainerStatus, pod: Some(pod), container: Some(container), id: "x" }
    }

    #[test]
    fn only_the_named_container_hangs() {
        let faults = [hang()];
        let of = |pod, container| fates(&faults, Seed::new(1), asked(pod, container), 0);
        assert_eq!(of("db", "postgres"), [Fate::Hangs]);
        assert_eq!(of("db", "exporter"), []);
        assert_eq!(of("web", "postgres"), []);
        let listed = Asked { rpc: Rpc::ListContainers, pod: None, container: None, id: "" };
        assert_eq!(fates(&faults, Seed::new(1), listed, 0), []);
    }

    #[test]
    fn a_fault_that_ends_lets_its_callers_go_on() {
        let fault = Fault {
            after: Duration::from_secs(10),
            lasts: Some(Duration::from_secs(5)),
            every: Some(Duration::from_secs(60)),
            ..hang()
        };
        let at = |seconds: Nanos| {
            fates(std::slice::from_ref(&fault), Seed::new(1), asked("db", "postgres"), seconds * SECOND)
        };
        assert_eq!(at(9), []);
        assert_eq!(at(10), [Fate::Waits(Duration::from_secs(5))]);
        assert_eq!(at(14), [Fate::Waits(Duration::from_secs(1))]);
        assert_eq!(at(15), []);
        assert_eq!(at(72), [Fate::Waits(Duration::from_secs(3))]);
    }

    #[test]
    fn a_slow_answer_is_as_slow_for_the_same_id_each_time() {
        let effect = Effect::Takes { least: Duration::from_millis(100), most: Duration::from_millis(300) };
        let faults = [Fault { pod: None, container: None, effect, ..hang() }];
        let of = |id| fates(&faults, Seed::new(1), Asked { id, ..asked("db", "postgres") }, 0);
        assert_eq!(of("a"), of("a"));
        assert_ne!(of("a"), of("b"));
        for id in ["a", "b", "c", "d"] {
            let [Fate::Waits(time)] = of(id)[..] else { panic!("it is slow") };
            assert!(time >= Duration::from_millis(100) && time <= Duration::from_millis(300));
        }
    }
}
