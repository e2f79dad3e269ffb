//! The rule about two versions of a pod that run at once, for `health` and `static-pods lint`: the version that the pod's file
//! does not want may be ended, but only if the other one works. It may be the only API server that works.

use std::time::Duration;

use super::checks::runtime::{LONGEST_BACK_OFF, MANY_RESTARTS};
use super::{ContainerState, RunningContainer, RunningPod};
use plegctl_base::clock::Wall;
use plegctl_base::report::duration::elapsed;
use plegctl_base::report::{Command, Step};

/// The versions of one pod, each with its own UID, and which of them is wanted.
pub struct PodVersions<'a> {
    /// The sandboxes with their containers, the newest first.
    pub instances: Vec<&'a RunningPod>,
    /// The UID of the version that the pod's file wants, if it is known.
    pub wanted: Option<&'a str>,
    /// The current time.
    pub now: Wall,
}

impl PodVersions<'_> {
    /// Describes each version: its sandbox, its age, its UID and how many of its containers run.
    pub fn describe(&self) -> Vec<String> {
        self.instances.iter().map(|version| self.describe_one(version)).collect()
    }

    fn describe_one(&self, version: &RunningPod) -> String {
        let age = elapsed(self.age(version.created_at));
        let containers = version.containers.values();
        let running = containers.clone().filter(|latest| runs(latest)).count();
        let restarts: u32 = containers.map(|latest| latest.restarts).sum();
        let restarted = if restarts > 0 { format!(", restarted {restarts} times") } else { String::new() };
        format!(
            "{} ({age} old, UID {}): {running} of {} containers run{restarted}",
            sandbox(version),
            version.uid,
            version.containers.len()
        )
    }

    fn age(&self, created_at: i64) -> Duration {
        self.now.duration_since(Wall::from_nanos(created_at))
    }

    /// Whether all containers run, and none of them only until its next crash.
    fn works(&self, version: &RunningPod) -> bool {
        let is_stable = |latest: &RunningContainer| {
            latest.restarts < MANY_RESTARTS || self.age(latest.created_at) > LONGEST_BACK_OFF
        };
        let mut containers = version.containers.values();
        !version.containers.is_empty() && containers.all(|latest| runs(latest) && is_stable(latest))
    }

    /// Returns what to do, in order.
    pub fn steps(&self) -> Vec<Step> {
        let of_file = |version: &&&RunningPod| Some(version.uid.as_str()) == self.wanted;
        let (wanted, others): (Vec<&RunningPod>, Vec<_>) =
            self.instances.iter().copied().partition(|version| of_file(&version));
        let working = |versions: &[&RunningPod]| {
            versions.iter().copied().find(|version| self.works(version)).map(sandbox)
        };
        let broken = self.instances.iter().copied().find(|version| !self.works(version));
        match (wanted.first(), working(&wanted), working(&others)) {
            (Some(_), Some(wanted), _) => {
                let end = others.iter().map(|version| {
                    let stop = Command::limited(60, "crictl --timeout {}s stopp {}");
                    Step::change(format!("the file wants {wanted}, which works; end the other version"))
                        .with(stop.arg(short(&version.sandbox_id)))
                });
                end.collect()
            }
            (Some(wanted), None, Some(other)) => vec![
                Step::look(format!(
                    "do not end {other}: it is the version that works. The file wants {}, which does not work",
                    sandbox(wanted)
                )),
                why_broken(wanted),
                Step::look(format!("if that names a port or a file that is in use, {other} has it")),
            ],
            (Some(wanted), None, None) => {
                vec![
                    Step::look(format!("none of them works, and the file wants {}", sandbox(wanted))),
                    why_broken(wanted),
                ]
            }
            (None, _, Some(other)) => match broken {
                Some(broken) => {
                    let keep = format!("do not end {other}: it is the version that works");
                    vec![Step::look(keep), why_broken(broken)]
                }
                None => vec![Step::look(
                    "end none of them before it is known which one the file wants: all of them work",
                )],
            },
            (None, ..) => broken.map(why_broken).into_iter().collect(),
        }
    }
}

fn runs(latest: &RunningContainer) -> bool {
    latest.state == ContainerState::Running
}

fn sandbox(version: &RunningPod) -> String {
    format!("sandbox {}", short(&version.sandbox_id))
}

/// Returns the step that shows why a version does not work.
fn why_broken(version: &RunningPod) -> Step {
    let which = sandbox(version);
    // A container that runs between two crashes has its last words in its log too.
    let worst = version.containers.values().max_by_key(|latest| (!runs(latest), latest.restarts));
    match worst {
        Some(latest) => Step::look(format!("why {which} does not work"))
            .with(Command::limited(20, "crictl --timeout {}s logs --tail 20 {}").arg(short(&latest.id))),
        None => Step::look(format!("why {which} has no container"))
            .with(Command::limited(20, "crictl --timeout {}s inspectp {}").arg(short(&version.sandbox_id))),
    }
}

fn short(id: &str) -> &str {
    id.get(..12).unwrap_or(id)
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: Wall = Wall::from_nanos(1_000_000_000_000_000_000);

    /// A version whose container is in this state, was created this many seconds ago and was restarted this often.
    fn version(uid: &str, state: ContainerState, seconds: i64, restarts: u32) -> RunningPod {
        let created_at = NOW.nanos() - seconds * 1_000_000_000;
        let id = format!("container-of-{uid}");
        let container = RunningContainer { id, state, created_at, restarts, ..RunningContainer::default() };
        RunningPod {
            sandbox_id: format!("sandbox-of-{uid}"),
            uid: uid.to_owned(),
            is_ready: true,
            created_at,
            containers: [("api".to_owned(), container)].into(),
            ..RunningPod::default()
        }
    }

    fn steps(newer: &RunningPod, older: &RunningPod, wanted: Option<&str>) -> String {
        let versions = PodVersions { instances: vec![newer, older], wanted, now: NOW };
        versions.steps().iter().map(ToString::to_string).collect::<Vec<_>>().join("; ")
    }

    #[test]
    fn a_command_ends_a_version_only_if_the_file_wants_the_other_one_and_the_other_one_works() {
        let states = [
            (ContainerState::Running, 3600, 0),
            (ContainerState::Running, 5, 9),
            (ContainerState::Exited, 5, 9),
        ];
        for new in states {
            for old in states {
                let (newer, older) =
                    (version("new", new.0, new.1, new.2), version("old", old.0, old.1, old.2));
                for wanted in [None, Some("new"), Some("old"), Some("another")] {
                    let steps = steps(&newer, &older, wanted);
                    let (works, end) = match wanted {
                        Some("new") => (new.1 == 3600, "stopp sandbox-of-o"),
                        Some("old") => (old.1 == 3600, "stopp sandbox-of-n"),
                        _ => (false, ""),
                    };
                    assert_eq!(steps.contains("changes state"), works, "{new:?} {old:?} {wanted:?}: {steps}");
                    assert!(!works || steps.ends_with(end), "{steps}");
                }
            }
        }
    }

    #[test]
    fn the_version_that_works_is_kept_and_the_log_of_the_other_one_is_shown() {
        let (newer, older) =
            (version("new", ContainerState::Exited, 5, 9), version("old", ContainerState::Running, 3600, 0));
        assert_eq!(
            steps(&newer, &older, Some("new")),
            "do not end sandbox sandbox-of-o: it is the version that works. The file wants sandbox sandbox-of-n, which does not \
             work; why sandbox sandbox-of-n does not work: crictl --timeout 20s logs --tail 20 container-of; if that names a \
             port or a file that is in use, sandbox sandbox-of-o has it"
        );
        assert!(steps(&newer, &older, None).starts_with("do not end sandbox sandbox-of-o"));
        // A container that was restarted often, long ago, works.
        let steady = version("new", ContainerState::Running, 3600, 9);
        assert!(steps(&steady, &older, Some("new")).contains("stopp sandbox-of-o"));
        assert!(steps(&steady, &older, None).starts_with("end none of them"));
    }
}
