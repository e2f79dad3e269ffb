//! Parses a scenario file into a [`Scenario`], and limits the size of the simulation. `docs/scenarios.md` describes
//! the format.

use crate::report::most_similar;
use std::time::Duration;

use super::error::Malformed;
use super::fields::{Fields, boolean, duration, duration_range, exit_code, list, number, one_of, text, word};
use super::manifests::StaticManifest;
use super::scenario::{
    EventDelivery, FailingEnd, FaultEffect, KubeletProcessState, NodeProcesses, Owner, PodGroup,
    RuntimeFamily, RuntimeSettings, Scenario, ScenarioFault, SimulatedUmount, SimulatedWait, Successor,
};
use super::tree::{FieldProblem, parse};
use crate::cri::{Code, Rpc};
use crate::yaml::YamlNode;

const MIB: u64 = 1024 * 1024;
/// The shortest life of a pod or a container. Shorter lives would cause too many events.
const MIN_LIFE: Duration = Duration::from_millis(100);
/// The maximum number of containers, including dead ones, which limits memory.
const MAX_CONTAINERS: u64 = 500_000;
/// The maximum number of restarts before the simulation starts, which limits the time to start.
const MAX_RESTARTS: u128 = 10_000;
/// The maximum size of all annotations that enlarge objects, in bytes.
const MAX_PADDING: u64 = 256 * MIB;

/// Parses the scenario `name` from the text of its file.
pub fn read(name: &str, file: &[u8]) -> Result<Scenario, Malformed> {
    parse(file).and_then(|value| scenario(name, &value)).map_err(|wrong| Malformed {
        file: name.to_owned(),
        at: wrong.at,
        problem: wrong.problem,
        hint: wrong.hint,
    })
}

fn scenario(name: &str, value: &YamlNode) -> Result<Scenario, FieldProblem> {
    let mut fields = Fields::of(value, "a scenario")?;
    let scenario = Scenario {
        name: name.to_owned(),
        title: text(fields.need("title")?)?,
        teaches: text(fields.need("teaches")?)?,
        wrong: text(fields.need("wrong")?)?,
        finds: fields.maybe("finds", text)?,
        verdict: fields.maybe("verdict", one_of(["healthy", "degraded", "unhealthy"], |word| word))?,
        kubelet: text(fields.need("kubelet")?)?,
        attempts: fields.list("try", text)?,
        seed: fields.or("seed", 1, number)?,
        runtime: runtime(fields.get("runtime"))?,
        groups: groups(fields.need("pods")?)?,
        faults: Vec::new(),
        processes: None,
    };
    let processes = fields.maybe("node", |value| node(value, &scenario.groups))?;
    let faults = fields.list("faults", |value| fault(value, &scenario.groups))?;
    fields.end()?;
    Ok(Scenario { faults, processes, ..scenario })
}

/// Reads the settings of the simulated runtime; without `value`, all of them have their default values.
fn runtime(value: Option<&YamlNode>) -> Result<RuntimeSettings, FieldProblem> {
    const WHAT: &str = "a runtime";
    let mut fields = value.map_or_else(|| Ok(Fields::none(WHAT)), |value| Fields::of(value, WHAT))?;
    let family = one_of(RuntimeFamily::ALL, RuntimeFamily::word);
    let family = fields.or("name", RuntimeFamily::Containerd, family)?;
    let (version, events) = match family {
        RuntimeFamily::Containerd => ("2.1.9", EventDelivery::Broadcast),
        RuntimeFamily::CriO => ("1.34.2", EventDelivery::Ends),
    };
    let runtime = RuntimeSettings {
        family,
        version: fields.or("version", version.to_owned(), text)?,
        events: fields.or("events", events, one_of(EventDelivery::ALL, EventDelivery::word))?,
        loses_every: fields.or("loses-every", 0, number)?,
        streamed_lists: fields.or("streamed-lists", false, boolean)?,
        ready: fields.or("ready", true, boolean)?,
        listens: fields.or("listens", true, boolean)?,
    };
    fields.end()?;
    Ok(runtime)
}

fn groups(value: &YamlNode) -> Result<Vec<PodGroup>, FieldProblem> {
    let mut groups: Vec<PodGroup> = Vec::new();
    let (mut containers, mut padding) = (0_u64, 0_u64);
    for value in list(value)? {
        let group = group(value)?;
        if groups.iter().any(|other| other.name == group.name) {
            return Err(FieldProblem::new(value.at, format!("there are two groups called `{}`", group.name)));
        }
        let of_group = objects_at_a_time(&group);
        containers = containers.saturating_add(of_group);
        padding = padding.saturating_add(of_group.saturating_mul(u64::from(group.annotation_bytes)));
        if containers > MAX_CONTAINERS {
            let problem = format!("these are more than {MAX_CONTAINERS} containers, including the dead ones");
            return Err(FieldProblem::new(value.at, problem));
        }
        if padding > MAX_PADDING {
            return Err(FieldProblem::new(value.at, "these are more than 256 MiB of annotations"));
        }
        groups.push(group);
    }
    Ok(groups)
}

/// Estimates how many containers and sandboxes of a group the runtime has at a time.
fn objects_at_a_time(group: &PodGroup) -> u64 {
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

/// Reads a group of pods.
fn group(value: &YamlNode) -> Result<PodGroup, FieldProblem> {
    let mut fields = Fields::of(value, "a group of pods")?;
    let name = text(fields.need("name")?)?;
    let owner = fields.or("owner", Owner::Deployment, one_of(Owner::ALL, Owner::word))?;
    let lives = fields.maybe("lives", life)?;
    // A deleted pod is removed soon; a pod that has finished by itself stays until it is deleted.
    let kept = lives.map(|_| Duration::from_secs(10));
    let group = PodGroup {
        pod_name: fields.maybe("pod-name", text)?,
        namespace: fields.or("namespace", "default".to_owned(), text)?,
        owner,
        count: fields.or("count", 1, number)?,
        containers: fields.or("containers", vec![name.clone()], names)?,
        age: fields.or("age", Duration::from_secs(86_400), duration)?,
        runs: fields.maybe("runs", life)?,
        exit_code: fields.or("exit-code", 0, exit_code)?,
        restarts: fields.or("restarts", owner != Owner::Job, boolean)?,
        backoff: fields.or("backoff", Duration::from_secs(10), life)?,
        backoff_limit: fields.or("backoff-limit", Duration::from_secs(300), life)?,
        lives,
        successor: fields.or("successor", Successor::Pod, one_of(Successor::ALL, Successor::word))?,
        every: fields.maybe("every", life)?,
        kept: fields.or("kept", kept, |value| duration(value).map(Some))?,
        annotation_bytes: fields.or("annotation-bytes", 0, number)?,
        manifest: None,
        name,
    };
    let has_manifest = fields.or("manifest", true, boolean)?;
    let group = PodGroup { manifest: StaticManifest::of(&group).filter(|_| has_manifest), ..group };
    if group.successor == Successor::Sandbox && (group.lives.is_none() || group.runs.is_some()) {
        let problem = "`successor: sandbox` needs `lives`, and containers that run on (no `runs`)";
        return Err(FieldProblem::new(value.at, problem));
    }
    if let (Some(runs), true) = (group.runs, group.restarts) {
        let cycle = runs.saturating_add(group.backoff_limit).as_millis();
        if group.age.as_millis().checked_div(cycle).unwrap_or_default() > MAX_RESTARTS {
            return Err(FieldProblem::new(value.at, format!("these are more than {MAX_RESTARTS} restarts")));
        }
    }
    fields.end()?;
    Ok(group)
}

/// Reads the names of containers: at least one, without duplicates.
fn names(value: &YamlNode) -> Result<Vec<String>, FieldProblem> {
    let names = list(value)?.iter().map(text).collect::<Result<Vec<_>, _>>()?;
    if names.is_empty() {
        return Err(FieldProblem::new(value.at, "a pod has at least one container"));
    }
    for (index, name) in names.iter().enumerate() {
        if names.iter().take(index).any(|other| other == name) {
            return Err(FieldProblem::new(value.at, format!("there are two containers called `{name}`")));
        }
    }
    Ok(names)
}

/// Reads a duration of at least [`MIN_LIFE`].
fn life(value: &YamlNode) -> Result<Duration, FieldProblem> {
    let time = duration(value)?;
    if time < MIN_LIFE {
        return Err(FieldProblem::new(value.at, "times must be at least 100ms"));
    }
    Ok(time)
}

/// Reads the kubelet and the processes of the node.
fn node(value: &YamlNode, groups: &[PodGroup]) -> Result<NodeProcesses, FieldProblem> {
    let mut fields = Fields::of(value, "a node")?;
    let in_group = |value: &YamlNode| find_group(value, groups).map(|group| group.name.clone());
    let node = NodeProcesses {
        kubelet: fields.or(
            "kubelet",
            KubeletProcessState::Running,
            one_of(KubeletProcessState::ALL, KubeletProcessState::word),
        )?,
        last_relist: fields.maybe("last-relist", duration)?,
        stopped_shims: fields.list("stopped-shims", in_group)?,
        waiting_pods: fields.or("waiting-pods", 0, few)?,
        unknown_pods: fields.or("unknown-pods", 0, few)?,
        ending_pods: fields.list("ending-pods", in_group)?,
        left_over_shims: fields.or("left-over-shims", 0, few)?,
        kernel_waits: fields.list("kernel-waits", |value| kernel_wait(value, groups))?,
        hung_umounts: fields.list("hung-umounts", |value| hung_umount(value, groups))?,
        failing_ends: fields.list("failing-ends", |value| failing_end(value, groups))?,
    };
    fields.end()?;
    Ok(node)
}

/// Reads a number of shims or pods.
fn few(value: &YamlNode) -> Result<u32, FieldProblem> {
    /// A node runs out of memory before it has more.
    const MOST: u32 = 10_000;
    let count: u32 = number(value)?;
    if count > MOST {
        return Err(FieldProblem::new(value.at, format!("there can be at most {MOST} of them")));
    }
    Ok(count)
}

/// Reads a wait in the kernel.
fn kernel_wait(value: &YamlNode, groups: &[PodGroup]) -> Result<SimulatedWait, FieldProblem> {
    /// The reasons for which a task waits; KR11 is about processors.
    const REASONS: std::ops::RangeInclusive<&str> = "KR01"..="KR10";
    let mut fields = Fields::of(value, "a wait in the kernel")?;
    let reason_value = fields.need("reason")?;
    let reason = text(reason_value)?;
    if reason.len() != 4 || !REASONS.contains(&reason.as_str()) {
        return Err(FieldProblem::new(reason_value.at, "the reasons are KR01 to KR10"));
    }
    let pod = find_group(fields.need("pod")?, groups)?.name.clone();
    let wait = SimulatedWait { pod, reason, owner: fields.maybe("owner", text)? };
    fields.end()?;
    Ok(wait)
}

/// Reads an umount that does not return.
fn hung_umount(value: &YamlNode, groups: &[PodGroup]) -> Result<SimulatedUmount, FieldProblem> {
    let mut fields = Fields::of(value, "an umount")?;
    let umount = SimulatedUmount {
        pod: find_group(fields.need("pod")?, groups)?.name.clone(),
        since: duration(fields.need("since")?)?,
        grace: fields.or("grace", Duration::from_secs(30), duration)?,
        source: text(fields.need("source")?)?,
        by: text(fields.need("by")?)?,
        pid: number(fields.need("pid")?)?,
    };
    fields.end()?;
    Ok(umount)
}

/// Reads pods that cannot end.
fn failing_end(value: &YamlNode, groups: &[PodGroup]) -> Result<FailingEnd, FieldProblem> {
    let mut fields = Fields::of(value, "an end that fails")?;
    let failing = FailingEnd {
        pod: find_group(fields.need("pod")?, groups)?.name.clone(),
        since: duration(fields.need("since")?)?,
        error: text(fields.need("error")?)?,
    };
    fields.end()?;
    Ok(failing)
}

/// Reads a fault.
fn fault(value: &YamlNode, groups: &[PodGroup]) -> Result<ScenarioFault, FieldProblem> {
    let mut fields = Fields::of(value, "a fault")?;
    let calls_value = fields.need("calls")?;
    let calls = calls(calls_value)?;
    let pod_value = fields.get("pod");
    let group = pod_value.map(|value| find_group(value, groups)).transpose()?;
    let container = fields.maybe("container", |value| find_container(value, group, groups))?;
    if (group.is_some() || container.is_some()) && calls.iter().any(|rpc| !is_about_one(*rpc)) {
        let problem =
            "only PodSandboxStatus, ContainerStatus and ContainerStats are about one pod or container";
        return Err(FieldProblem::new(calls_value.at, problem));
    }
    let lasts = fields.maybe("for", life)?;
    let every_value = fields.get("every");
    let every = every_value.map(life).transpose()?;
    if let (Some(value), Some(every)) = (every_value, every)
        && lasts.is_none_or(|lasts| lasts >= every)
    {
        return Err(FieldProblem::new(value.at, "with `every`, `for` must be shorter than `every`"));
    }
    let fault = ScenarioFault {
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

fn calls(value: &YamlNode) -> Result<Vec<Rpc>, FieldProblem> {
    let items = list(value)?;
    if items.is_empty() {
        return Err(FieldProblem::new(value.at, "a fault has at least one call"));
    }
    items.iter().map(one_of(Rpc::ALL, Rpc::name)).collect()
}

/// Whether each call of this RPC is about one pod or container.
fn is_about_one(rpc: Rpc) -> bool {
    matches!(rpc, Rpc::PodSandboxStatus | Rpc::ContainerStatus | Rpc::ContainerStats)
}

fn find_group<'a>(value: &YamlNode, groups: &'a [PodGroup]) -> Result<&'a PodGroup, FieldProblem> {
    let words: Vec<(&str, &PodGroup)> = groups.iter().map(|group| (group.name.as_str(), group)).collect();
    word(value, &words)
}

/// Reads the name of a container of `group`, or of any group.
fn find_container(
    value: &YamlNode,
    group: Option<&PodGroup>,
    groups: &[PodGroup],
) -> Result<String, FieldProblem> {
    let name = text(value)?;
    let of_group = group.map_or(groups, std::slice::from_ref);
    let names: Vec<&str> = of_group.iter().flat_map(|group| &group.containers).map(String::as_str).collect();
    if names.contains(&name.as_str()) {
        return Ok(name);
    }
    let hint = most_similar(&name, names).map(|most_similar| format!("did you mean `{most_similar}`?"));
    Err(FieldProblem { hint, ..FieldProblem::new(value.at, format!("there is no container `{name}`")) })
}

/// Reads the effect of a fault: exactly one of `hangs`, `takes` and `fails`.
fn effect(fields: &mut Fields<'_>, whole: &YamlNode) -> Result<FaultEffect, FieldProblem> {
    let hangs = fields.or("hangs", false, boolean)?;
    let takes = fields.maybe("takes", duration_range)?;
    let fails = fields.maybe("fails", failure)?;
    match (hangs, takes, fails) {
        (true, None, None) => Ok(FaultEffect::Hangs),
        (false, Some((least, most)), None) => Ok(FaultEffect::Takes { least, most }),
        (false, None, Some(failure)) => Ok(failure),
        _ => Err(FieldProblem::new(whole.at, "a fault needs one of `hangs: true`, `takes` and `fails`")),
    }
}

fn failure(value: &YamlNode) -> Result<FaultEffect, FieldProblem> {
    let mut fields = Fields::of(value, "a failure")?;
    let code = one_of(Code::ALL, Code::name)(fields.need("code")?)?;
    let message = text(fields.need("message")?)?;
    fields.end()?;
    Ok(FaultEffect::Fails { code, message })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Parses the smallest scenario with `more` appended.
    fn with(more: &str) -> Result<Scenario, Malformed> {
        read("mine.yaml", format!("title: a\nteaches: b\nwrong: c\nkubelet: d\n{more}").as_bytes())
    }

    fn wrong(more: &str) -> (String, Option<String>) {
        let malformed = with(more).unwrap_err();
        (malformed.to_string(), malformed.hint)
    }

    #[test]
    fn omitted_keys_get_default_values() {
        let scenario = with("pods: [{ name: web }]\n").unwrap();
        let default_runtime = RuntimeSettings {
            family: RuntimeFamily::Containerd,
            version: "2.1.9".to_owned(),
            events: EventDelivery::Broadcast,
            loses_every: 0,
            streamed_lists: false,
            ready: true,
            listens: true,
        };
        assert_eq!(scenario.runtime, default_runtime);
        let group = &scenario.groups[0];
        assert_eq!((group.count, group.namespace.as_str()), (1, "default"));
        assert_eq!(group.containers, ["web"]);
        assert!(group.restarts && group.kept.is_none());
    }

    #[test]
    fn an_unknown_key_is_reported_with_its_position_and_a_similar_key() {
        assert_eq!(
            wrong("pods:\n  - name: web\n    conut: 3\n"),
            ("mine.yaml:7:5: a group of pods has no `conut`".into(), Some("did you mean `count`?".into()))
        );
        let (message, hint) = wrong("pods: []\ncolour: red\n");
        assert_eq!(message, "mine.yaml:6:1: a scenario has no `colour`");
        assert_eq!(
            hint.unwrap(),
            "a scenario has title, teaches, wrong, finds, verdict, kubelet, try, seed, runtime, pods, node, faults"
        );
    }

    #[test]
    fn a_verdict_is_one_of_three_words() {
        assert_eq!(with("pods: []\nverdict: degraded\n").unwrap().verdict, Some("degraded"));
        assert_eq!(
            wrong("pods: []\nverdict: healty\n"),
            (
                "mine.yaml:6:10: `healty` is not one of healthy, degraded, unhealthy".into(),
                Some("did you mean `healthy`?".into())
            )
        );
    }

    #[test]
    fn a_missing_key_is_reported_at_the_start_of_its_map() {
        assert_eq!(wrong("").0, "mine.yaml:1:1: a scenario needs `pods`");
        assert_eq!(wrong("pods:\n  - count: 3\n").0, "mine.yaml:6:5: a group of pods needs `name`");
    }

    #[test]
    fn a_value_of_the_wrong_type_is_reported_at_its_position() {
        let of_group = |rest: &str| wrong(&format!("pods:\n  - name: web\n    {rest}\n")).0;
        assert_eq!(of_group("count: few"), "mine.yaml:7:12: `few` is not a whole number");
        assert_eq!(of_group("age: 30"), "mine.yaml:7:10: `30` is not a time like `500ms`, `30s` or `2h`");
        assert_eq!(of_group("exit-code: 256"), "mine.yaml:7:16: `256` is not an exit code (0 to 255)");
        assert_eq!(of_group("restarts: maybe"), "mine.yaml:7:15: `maybe` is not `true` or `false`");
        assert_eq!(of_group("lives: 1ms"), "mine.yaml:7:12: times must be at least 100ms");
        assert_eq!(of_group("age: 30y"), "mine.yaml:7:10: times must be at most ten years");
        assert_eq!(of_group("containers: app"), "mine.yaml:7:17: this has to be a list");
        assert_eq!(of_group("containers: [a, a]"), "mine.yaml:7:17: there are two containers called `a`");
    }

    #[test]
    fn an_unknown_word_is_reported_with_a_similar_one() {
        let (message, hint) = wrong("pods: [{ name: web, owner: deploymnet }]\n");
        assert!(message.starts_with("mine.yaml:5:28: `deploymnet` is not one of deployment, "), "{message}");
        assert_eq!(hint.unwrap(), "did you mean `deployment`?");
    }

    #[test]
    fn a_fault_must_name_an_existing_group_and_container() {
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
            "mine.yaml:6:50: with `every`, `for` must be shorter than `every`"
        );
        assert_eq!(
            fault("calls: [ContainerStatus], container: app, hangs: true").0,
            "mine.yaml:6:49: there is no container `app`"
        );
    }

    #[test]
    fn all_keys_of_a_fault_are_read() {
        let scenario = with(
            "pods: [{ name: web, containers: [app] }]\nfaults:\n  - calls: [ContainerStatus]\n    pod: web\n    \
             container: app\n    fails: { code: Unavailable, message: not now }\n    after: 5s\n    for: 2s\n    every: 1m\n",
        )
        .unwrap();
        assert_eq!(
            scenario.faults,
            [ScenarioFault {
                calls: vec![Rpc::ContainerStatus],
                pod: Some("web".into()),
                container: Some("app".into()),
                effect: FaultEffect::Fails { code: Code::Unavailable, message: "not now".into() },
                after: Duration::from_secs(5),
                lasts: Some(Duration::from_secs(2)),
                every: Some(Duration::from_secs(60)),
            }]
        );
    }

    #[test]
    fn the_kubelet_and_the_processes_of_the_node_are_read() {
        let scenario = with(
            "pods: [{ name: web }]\nnode: { kubelet: stopped, last-relist: 10m, stopped-shims: [web] }\n",
        )
        .unwrap();
        let processes = scenario.processes.unwrap();
        assert_eq!(
            (processes.kubelet, processes.stopped_shims),
            (KubeletProcessState::Stopped, vec!["web".to_owned()])
        );
        assert_eq!(processes.last_relist, Some(Duration::from_secs(600)));
        let (message, hint) = wrong("pods: [{ name: web }]\nnode: { kubelet: daed }\n");
        assert_eq!(message, "mine.yaml:6:18: `daed` is not one of running, stopped, dead");
        assert_eq!(hint.as_deref(), Some("did you mean `dead`?"));
        let (message, _) = wrong("pods: [{ name: web }]\nnode: { stopped-shims: [wed] }\n");
        assert!(message.starts_with("mine.yaml:6:25: `wed` is not one of web"), "{message}");
    }

    #[test]
    fn a_scenario_that_needs_too_much_memory_is_rejected() {
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
    fn two_groups_with_the_same_name_are_rejected() {
        let (message, _) = wrong("pods:\n  - name: web\n  - name: web\n");
        assert_eq!(message, "mine.yaml:7:5: there are two groups called `web`");
    }
}
