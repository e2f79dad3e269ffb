//! Checks each running static pod by itself: it has no file (SP121), several ready sandboxes (SP126, SP127) or many dead
//! ones (SP132).

use std::collections::HashSet;

use super::RuntimeFinding;
use super::running::{ready, ready_sandbox_ids};
use crate::PodIdentity;
use crate::PodSource;
use crate::RunningPod;
use crate::pod_versions::PodVersions;
use plegctl_base::clock::Wall;
use plegctl_base::report::{Places, Step};

/// A pod with at least this many dead sandboxes is reported.
const MANY_SANDBOXES: usize = 5;

/// Reports a running pod that no file defines.
pub fn check_without_file(pod: &PodIdentity, sandboxes: &[RunningPod]) -> Option<RuntimeFinding> {
    let newest = ready(sandboxes).next()?;
    let ids = ready_sandbox_ids(sandboxes);
    let row = match newest.source? {
        PodSource::File => "no-manifest",
        PodSource::Http => "no-manifest-of-url",
        PodSource::Api => return None,
    };
    Some(RuntimeFinding::of(row, pod, &[]).with_ids(ids))
}

/// Reports a pod with more than one ready sandbox. `wanted` is the UID that its file wants, if it is known.
pub fn check_ready_sandboxes(
    pod: &PodIdentity,
    sandboxes: &[RunningPod],
    wanted: Option<&str>,
    now: Wall,
) -> Option<RuntimeFinding> {
    let ids = ready_sandbox_ids(sandboxes);
    if ids.len() < 2 {
        return None;
    }
    let uids: HashSet<&str> = ready(sandboxes).map(|sandbox| sandbox.uid.as_str()).collect();
    Some(if uids.len() > 1 {
        let versions = PodVersions { instances: ready(sandboxes).collect(), wanted, now };
        let fix = versions.steps().iter().map(Step::to_string).collect::<Vec<_>>().join("; ");
        let places: &Places<'_> =
            &[("count", &uids.len()), ("versions", &versions.describe().join("; ")), ("fix", &fix)];
        RuntimeFinding::of("two-versions", pod, places).with_ids(ids)
    } else {
        RuntimeFinding::of("several-sandboxes", pod, &[("count", &ids.len())]).with_ids(ids)
    })
}

/// Reports a pod whose sandbox was replaced many times.
pub fn check_dead_sandboxes(pod: &PodIdentity, sandboxes: &[RunningPod]) -> Option<RuntimeFinding> {
    let dead: Vec<&RunningPod> = sandboxes.iter().filter(|sandbox| !sandbox.is_ready).collect();
    if dead.len() < MANY_SANDBOXES {
        return None;
    }
    let since = dead.last().and_then(|oldest| Wall::known(oldest.created_at));
    let since = since.map(|since| format!(" since {since}")).unwrap_or_default();
    Some(RuntimeFinding::of("many-sandboxes", pod, &[("count", &dead.len()), ("since", &since)]))
}
