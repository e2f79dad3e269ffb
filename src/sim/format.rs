//! From a scenario file to a [`Scenario`]. `docs/scenarios.md` is the reference.

use crate::report::meant;
use std::time::Duration;

use super::error::Malformed;
use super::fields::{
    Fields, count, duration, duration_range, exit_code, list, number, text, texts, truth, word,
};
use super::scenario::{
    Delivery, Effect, Family, Fault, Group, KubeletLife, NodeAround, Owner, Ready, Runtime, Scenario,
    Successor,
};
use super::tree::{Value, Wrong, parse};
use crate::cri::{CgroupDriver, Code, Rpc};

const MIB: u64 = 1024 * 1024;
/// Shorter lives than this would make more events than anybody could follow.
const SHORTEST_LIFE: Duration = Duration::from_millis(100);
/// More containers than this, the dead ones included, fit no memory that we would want to fill.
const MOST_CONTAINERS: u64 = 500_000;
/// More restarts than this before the simulation begins take too long to be played.
const MOST_RESTARTS: u128 = 10_000;
/// The most bytes of padding.
const MOST_PADDING: u64 = 256 * MIB;

/// Reads the scenario called `name` out of the text of its file.
pub fn read(name: &str, file: &[u8]) -> Result<Scenario, Malformed> {
    parse(file).and_then(|value| scenario(name, &value)).map_err(|wrong| Malformed {
        file: name.to_owned(),
        at: wrong.at,
        problem: wrong.problem,
        hint: wrong.hint,
    })
}

fn scenario(name: &str, value: &Value) -> Result<Scenario, Wrong> {
    let mut fields = Fields::of(value, "a scenario")?;
    let scenario = Scenario {
        name: name.to_owned(),
        title: text(fields.need("title")?)?,
        teaches: text(fields.need("teaches")?)?,
        wrong: text(fields.need("wrong")?)?,
        kubelet: text(fields.need("kubelet")?)?,
        attempts: fields.or("try", Vec::new(), texts)?,
        seed: fields.or("seed", 1, number)?,
        runtime: runtime(fields.get("runtime"))?,
        groups: groups(fields.need("pods")?)?,
        faults: Vec::new(),
        around: None,
    };
    let around = fields.maybe("node", |value| node(value, &scenario.groups))?;
    let faults = match fields.get("faults") {
        Some(faults) => {
            list(faults)?.iter().map(|value| fault(value, &scenario.groups)).collect::<Result<_, _>>()?
        }
        None => Vec::new(),
    };
    fields.end()?;
    Ok(Scenario { faults, around, ..scenario })
}

fn runtime(value: Option<&Value>) -> Result<Runtime, Wrong> {
    let Some(value) = value else { return Ok(typical(Family::Containerd)) };
    let mut fields = Fields::of(value, "a runtime")?;
    let families = [("containerd", Family::Containerd), ("cri-o", Family::CriO)];
    let usual = typical(fields.or("name", Family::Containerd, |name| word(name, &families))?);
    let drivers = [
        ("systemd", Some(CgroupDriver::Systemd)),
        ("cgroupfs", Some(CgroupDriver::Cgroupfs)),
        ("unimplemented", None),
    ];
    let deliveries = [
        ("broadcast", Delivery::Broadcast),
        ("competing", Delivery::Competing),
        ("unimplemented", Delivery::Unimplemented),
        ("ends", Delivery::Ends),
    ];
    let runtime = Runtime {
        family: usual.family,
        version: fields.or("version", usual.version, text)?,
        events: fields.or("events", usual.events, |events| word(events, &deliveries))?,
        loses_every: fields.or("loses-every", 0, count)?,
        streamed_lists: fields.or("streamed-lists", false, truth)?,
        cgroup_driver: fields.or("cgroup-driver", usual.cgroup_driver, |driver| word(driver, &drivers))?,
        send_limit: fields.or("send-limit", usual.send_limit, number)?,
        ready: Ready {
            runtime: fields.or("ready", true, truth)?,
            network: fields.or("network-ready", true, truth)?,
        },
        listens: fields.or("listens", true, truth)?,
    };
    fields.end()?;
    Ok(runtime)
}

/// A runtime of this family as it is installed.
fn typical(family: Family) -> Runtime {
    let (version, events, send_limit) = match family {
        Family::Containerd => ("2.1.9", Delivery::Broadcast, 16 * MIB),
        Family::CriO => ("1.34.2", Delivery::Ends, 80 * MIB),
    };
    Runtime {
        family,
        version: version.to_owned(),
        events,
        loses_every: 0,
        streamed_lists: false,
        cgroup_driver: Some(CgroupDriver::Systemd),
        send_limit,
        ready: Ready { runtime: true, network: true },
        listens: true,
    }
}

fn groups(value: &Value) -> Result<Vec<Group>, Wrong> {
    let mut groups: Vec<Group> = Vec::new();
    let (mut containers, mut padding) = (0_u64, 0_u64);
    for value in list(value)? {
        let group = group(value)?;
        if groups.iter().any(|other| other.name == group.name) {
            return Err(Wrong::new(value.at, format!("there are two groups called `{}`", group.name)));
        }
        let its = at_a_time(&group);
        containers = containers.saturating_add(its);
        padding = padding.saturating_add(its.saturating_mul(u64::from(group.annotation_bytes)));
        if containers > MOST_CONTAINERS {
            let problem = format!("these are more than {MOST_CONTAINERS} containers, the dead ones included");
            return Err(Wrong::new(value.at, problem));
        }
        if padding > MOST_PADDING {
            return Err(Wrong::new(value.at, "these are more than 256 MiB of annotations"));
        }
        groups.push(group);
    }
    Ok(groups)
}

/// How many containers of a group, with their sandboxes, the runtime has at a time, about.
fn at_a_time(group: &Group) -> u64 {
    let members = u64::try_from(group.containers.len()).unwrap_or(u64::MAX).saturating_add(1);
    let period = group.every.or(group.lives).map_or(0, |period| period.as_millis());
    let life = match (group.lives.or(group.runs), group.kept) {
        (Some(life), Some(kept)) => life.saturating_add(kept),
        _ => group.age,
    };
    let generations = life.as_millis().checked_div(period).unwrap_or(0).saturating_add(1);
    u64::from(group.count)
        .saturating_mul(members)
        .saturating_mul(u64::try_from(generations).unwrap_or(u64::MAX))
}

fn group(value: &Value) -> Result<Group, Wrong> {
    let mut fields = Fields::of(value, "a group of pods")?;
    let owners = [
        ("deployment", Owner::Deployment),
        ("daemonset", Owner::DaemonSet),
        ("statefulset", Owner::StatefulSet),
        ("job", Owner::Job),
        ("static", Owner::Static),
    ];
    let successors = [("pod", Successor::Pod), ("sandbox", Successor::Sandbox)];
    let name = text(fields.need("name")?)?;
    let owner = fields.or("owner", Owner::Deployment, |owner| word(owner, &owners))?;
    let lives = fields.maybe("lives", life)?;
    // Who is deleted is collected soon; who has finished by itself stays until somebody deletes it.
    let kept = lives.map(|_| Duration::from_secs(10));
    let group = Group {
        pod_name: fields.maybe("pod-name", text)?,
        namespace: fields.or("namespace", "default".to_owned(), text)?,
        owner,
        count: fields.or("count", 1, count)?,
        containers: fields.or("containers", vec![name.clone()], names)?,
        age: fields.or("age", Duration::from_secs(86_400), duration)?,
        runs: fields.maybe("runs", life)?,
        exit_code: fields.or("exit-code", 0, exit_code)?,
        restarts: fields.or("restarts", owner != Owner::Job, truth)?,
        backoff: fields.or("backoff", Duration::from_secs(10), life)?,
        backoff_limit: fields.or("backoff-limit", Duration::from_secs(300), life)?,
        lives,
        successor: fields.or("successor", Successor::Pod, |value| word(value, &successors))?,
        every: fields.maybe("every", life)?,
        kept: fields.or("kept", kept, |value| duration(value).map(Some))?,
        annotation_bytes: fields.or("annotation-bytes", 0, count)?,
        name,
    };
    if group.successor == Successor::Sandbox && (group.lives.is_none() || group.runs.is_some()) {
        let problem = "`successor: sandbox` needs `lives`, and containers that run on (no `runs`)";
        return Err(Wrong::new(value.at, problem));
    }
    if let (Some(runs), true) = (group.runs, group.restarts) {
        let cycle = runs.saturating_add(group.backoff_limit).as_millis();
        if group.age.as_millis().checked_div(cycle).unwrap_or_default() > MOST_RESTARTS {
            return Err(Wrong::new(value.at, format!("these are more than {MOST_RESTARTS} restarts")));
        }
    }
    fields.end()?;
    Ok(group)
}

/// Names of containers: at least one, none twice.
fn names(value: &Value) -> Result<Vec<String>, Wrong> {
    let names = texts(value)?;
    if names.is_empty() {
        return Err(Wrong::new(value.at, "a pod has at least one container"));
    }
    for (index, name) in names.iter().enumerate() {
        if names.iter().take(index).any(|other| other == name) {
            return Err(Wrong::new(value.at, format!("there are two containers called `{name}`")));
        }
    }
    Ok(names)
}

/// A time that something takes: not too short.
fn life(value: &Value) -> Result<Duration, Wrong> {
    let time = duration(value)?;
    if time < SHORTEST_LIFE {
        return Err(Wrong::new(value.at, "nothing here takes less than 100ms"));
    }
    Ok(time)
}

/// What there is besides the runtime.
fn node(value: &Value, groups: &[Group]) -> Result<NodeAround, Wrong> {
    let mut fields = Fields::of(value, "a node")?;
    let lives =
        [("running", KubeletLife::Running), ("stopped", KubeletLife::Stopped), ("dead", KubeletLife::Dead)];
    let stopped = |value: &Value| {
        let names = list(value)?.iter().map(|item| find_group(item, groups).map(|group| group.name.clone()));
        names.collect::<Result<Vec<String>, Wrong>>()
    };
    let node = NodeAround {
        kubelet: fields.or("kubelet", KubeletLife::Running, |value| word(value, &lives))?,
        last_relist: fields.maybe("last-relist", duration)?,
        stopped_shims: fields.or("stopped-shims", Vec::new(), stopped)?,
    };
    fields.end()?;
    Ok(node)
}

fn fault(value: &Value, groups: &[Group]) -> Result<Fault, Wrong> {
    let mut fields = Fields::of(value, "a fault")?;
    let calls_value = fields.need("calls")?;
    let calls = calls(calls_value)?;
    let pod_value = fields.get("pod");
    let group = pod_value.map(|value| find_group(value, groups)).transpose()?;
    let container = fields.maybe("container", |value| find_container(value, group, groups))?;
    if (group.is_some() || container.is_some()) && calls.iter().any(|rpc| !is_about_one(*rpc)) {
        let problem =
            "only PodSandboxStatus, ContainerStatus and ContainerStats are about one pod or container";
        return Err(Wrong::new(calls_value.at, problem));
    }
    let lasts = fields.maybe("for", life)?;
    let every_value = fields.get("every");
    let every = every_value.map(life).transpose()?;
    if let (Some(value), Some(every)) = (every_value, every)
        && lasts.is_none_or(|lasts| lasts >= every)
    {
        return Err(Wrong::new(value.at, "what comes back needs a `for` that is shorter than `every`"));
    }
    let fault = Fault {
        calls,
        pod: group.map(|group| group.name.clone()),
        container,
        effect: effect(&mut fields, value)?,
        after: fields.or("after", Duration::ZERO, duration)?,
        lasts,
        every,
    };
    fields.end()?;
    Ok(fault)
}

fn calls(value: &Value) -> Result<Vec<Rpc>, Wrong> {
    let words: Vec<(&str, Rpc)> = Rpc::ALL.into_iter().map(|rpc| (rpc.name(), rpc)).collect();
    let items = list(value)?;
    if items.is_empty() {
        return Err(Wrong::new(value.at, "a fault has at least one call"));
    }
    items.iter().map(|item| word(item, &words)).collect()
}

fn is_about_one(rpc: Rpc) -> bool {
    matches!(rpc, Rpc::PodSandboxStatus | Rpc::ContainerStatus | Rpc::ContainerStats)
}

fn find_group<'a>(value: &Value, groups: &'a [Group]) -> Result<&'a Group, Wrong> {
    let words: Vec<(&str, &Group)> = groups.iter().map(|group| (group.name.as_str(), group)).collect();
    word(value, &words)
}

/// A container of `group`, or of any group if there is none.
fn find_container(value: &Value, group: Option<&Group>, groups: &[Group]) -> Result<String, Wrong> {
    let name = text(value)?;
    let of_group = group.map_or(groups, std::slice::from_ref);
    let names: Vec<&str> = of_group.iter().flat_map(|group| &group.containers).map(String::as_str).collect();
    if names.contains(&name.as_str()) {
        return Ok(name);
    }
    let hint = meant(&name, names).map(|meant| format!("did you mean `{meant}`?"));
    Err(Wrong { hint, ..Wrong::new(value.at, format!("there is no container `{name}`")) })
}

fn effect(fields: &mut Fields<'_>, whole: &Value) -> Result<Effect, Wrong> {
    let hangs = fields.or("hangs", false, truth)?;
    let takes = fields.maybe("takes", duration_range)?;
    let fails = fields.maybe("fails", failure)?;
    match (hangs, takes, fails) {
        (true, None, None) => Ok(Effect::Hangs),
        (false, Some((least, most)), None) => Ok(Effect::Takes { least, most }),
        (false, None, Some(failure)) => Ok(failure),
        _ => Err(Wrong::new(whole.at, "a fault needs one of `hangs: true`, `takes` and `fails`")),
    }
}

fn failure(value: &Value) -> Result<Effect, Wrong> {
    let mut fields = Fields::of(value, "a failure")?;
    let codes: Vec<(&str, Code)> = Code::ALL.into_iter().map(|code| (code.name(), code)).collect();
    let code = word(fields.need("code")?, &codes)?;
    let message = text(fields.need("message")?)?;
    fields.end()?;
    Ok(Effect::Fails { code, message })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A scenario that has the least, with `more` behind it.
    fn with(more: &str) -> Result<Scenario, Malformed> {
        read("mine.yaml", format!("title: a\nteaches: b\nwrong: c\nkubelet: d\n{more}").as_bytes())
    }

    fn wrong(more: &str) -> (String, Option<String>) {
        let malformed = with(more).unwrap_err();
        (malformed.to_string(), malformed.hint)
    }

    #[test]
    fn what_is_not_said_is_usual() {
        let scenario = with("pods: [{ name: web }]\n").unwrap();
        assert_eq!(scenario.runtime, typical(Family::Containerd));
        let group = &scenario.groups[0];
        assert_eq!((group.count, group.namespace.as_str()), (1, "default"));
        assert_eq!(group.containers, ["web"]);
        assert!(group.restarts && group.kept.is_none());
    }

    #[test]
    fn an_unknown_key_is_told_with_its_place_and_the_nearest_one() {
        assert_eq!(
            wrong("pods:\n  - name: web\n    conut: 3\n"),
            ("mine.yaml:7:5: a group of pods has no `conut`".into(), Some("did you mean `count`?".into()))
        );
        let (message, hint) = wrong("pods: []\ncolour: red\n");
        assert_eq!(message, "mine.yaml:6:1: a scenario has no `colour`");
        assert_eq!(
            hint.unwrap(),
            "a scenario has title, teaches, wrong, kubelet, try, seed, runtime, pods, node, faults"
        );
    }

    #[test]
    fn a_missing_key_is_told_at_the_beginning_of_what_needs_it() {
        assert_eq!(wrong("").0, "mine.yaml:1:1: a scenario needs `pods`");
        assert_eq!(wrong("pods:\n  - count: 3\n").0, "mine.yaml:6:5: a group of pods needs `name`");
    }

    #[test]
    fn a_value_of_the_wrong_kind_is_told_at_the_value() {
        let of_group = |rest: &str| wrong(&format!("pods:\n  - name: web\n    {rest}\n")).0;
        assert_eq!(of_group("count: few"), "mine.yaml:7:12: `few` is not a whole number");
        assert_eq!(of_group("age: 30"), "mine.yaml:7:10: `30` is not a time like `500ms`, `30s` or `2h`");
        assert_eq!(of_group("exit-code: 256"), "mine.yaml:7:16: `256` is not an exit code (0 to 255)");
        assert_eq!(of_group("restarts: maybe"), "mine.yaml:7:15: `maybe` is not `true` or `false`");
        assert_eq!(of_group("lives: 1ms"), "mine.yaml:7:12: nothing here takes less than 100ms");
        assert_eq!(of_group("age: 30y"), "mine.yaml:7:10: nothing here takes longer than ten years");
        assert_eq!(of_group("containers: app"), "mine.yaml:7:17: this has to be a list");
        assert_eq!(of_group("containers: [a, a]"), "mine.yaml:7:17: there are two containers called `a`");
    }

    #[test]
    fn an_unknown_word_is_answered_with_the_nearest_known_one() {
        let (message, hint) = wrong("pods: [{ name: web, owner: deploymnet }]\n");
        assert!(message.starts_with("mine.yaml:5:28: `deploymnet` is not one of deployment, "), "{message}");
        assert_eq!(hint.unwrap(), "did you mean `deployment`?");
    }

    #[test]
    fn a_fault_names_what_is_there() {
        let fault = |fault: &str| wrong(&format!("pods: [{{ name: web }}]\nfaults: [{{ {fault} }}]\n"));
        let (message, hint) = fault("calls: [ContainerStatus], pod: wbe, hangs: true");
        assert_eq!(message, "mine.yaml:6:43: `wbe` is not one of web");
        assert_eq!(hint, None);
        let (message, hint) = fault("calls: [ListContainer], hangs: true");
        assert!(message.starts_with("mine.yaml:6:20: `ListContainer` is not one of Version, "), "{message}");
        assert_eq!(hint.unwrap(), "did you mean `ListContainers`?");
        assert_eq!(
            fault("calls: [ListContainers], pod: web, hangs: true").0,
            "mine.yaml:6:19: only PodSandboxStatus, ContainerStatus and ContainerStats are about one pod or container"
        );
        assert_eq!(
            fault("calls: [Version]").0,
            "mine.yaml:6:10: a fault needs one of `hangs: true`, `takes` and `fails`"
        );
        assert_eq!(
            fault("calls: [Version], takes: 2s..1s").0,
            "mine.yaml:6:37: `2s..1s` ends before it begins"
        );
        assert_eq!(
            fault("calls: [Version], hangs: true, every: 1m").0,
            "mine.yaml:6:50: what comes back needs a `for` that is shorter than `every`"
        );
        assert_eq!(
            fault("calls: [ContainerStatus], container: app, hangs: true").0,
            "mine.yaml:6:49: there is no container `app`"
        );
    }

    #[test]
    fn a_fault_is_read_whole() {
        let scenario = with(
            "pods: [{ name: web, containers: [app] }]\nfaults:\n  - calls: [ContainerStatus]\n    pod: web\n    \
             container: app\n    fails: { code: Unavailable, message: not now }\n    after: 5s\n    for: 2s\n    every: 1m\n",
        )
        .unwrap();
        assert_eq!(
            scenario.faults,
            [Fault {
                calls: vec![Rpc::ContainerStatus],
                pod: Some("web".into()),
                container: Some("app".into()),
                effect: Effect::Fails { code: Code::Unavailable, message: "not now".into() },
                after: Duration::from_secs(5),
                lasts: Some(Duration::from_secs(2)),
                every: Some(Duration::from_secs(60)),
            }]
        );
    }

    #[test]
    fn what_is_around_the_runtime_is_read() {
        let scenario = with(
            "pods: [{ name: web }]\nnode: { kubelet: stopped, last-relist: 10m, stopped-shims: [web] }\n",
        )
        .unwrap();
        let around = scenario.around.unwrap();
        assert_eq!((around.kubelet, around.stopped_shims), (KubeletLife::Stopped, vec!["web".to_owned()]));
        assert_eq!(around.last_relist, Some(Duration::from_secs(600)));
        let (message, hint) = wrong("pods: [{ name: web }]\nnode: { kubelet: daed }\n");
        assert_eq!(message, "mine.yaml:6:18: `daed` is not one of running, stopped, dead");
        assert_eq!(hint.as_deref(), Some("did you mean `dead`?"));
        let (message, _) = wrong("pods: [{ name: web }]\nnode: { stopped-shims: [wed] }\n");
        assert!(message.starts_with("mine.yaml:6:25: `wed` is not one of web"), "{message}");
    }

    #[test]
    fn a_scenario_that_would_fill_the_memory_is_refused() {
        let too_many = |group: &str| {
            let (message, _) = wrong(&format!("pods: [{{ name: web, {group} }}]\n"));
            assert!(message.starts_with("mine.yaml:5:8: these are more than "), "{message}");
        };
        too_many("count: 300000");
        too_many("count: 4000000000, containers: [a, b]");
        too_many("owner: job, runs: 1s, every: 100ms, age: 400d");
        too_many("lives: 100ms, kept: 9y");
        too_many("runs: 100ms, backoff-limit: 100ms, age: 9y");
        too_many("count: 200000, annotation-bytes: 4000");
    }

    #[test]
    fn two_groups_of_one_name_could_not_be_told_apart() {
        let (message, _) = wrong("pods:\n  - name: web\n  - name: web\n");
        assert_eq!(message, "mine.yaml:7:5: there are two groups called `web`");
    }
}
