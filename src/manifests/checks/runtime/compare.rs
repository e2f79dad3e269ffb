//! Compares each file with the runtime, and then reports pods without a file.

use std::collections::{HashMap, HashSet};
use std::time::Duration;

use super::RuntimeFinding;
use super::hash::{SINCE_MINOR, container_hash};
use super::made::{self, MadeFromFile};
use super::running::{MANY_RESTARTS, NewestContainer, PodInstance, RunningStaticPods};
use crate::clock::Wall;
use crate::cri::ContainerState;
use crate::manifests::Check;
use crate::manifests::checks::containers::containers;
use crate::manifests::podconfig::PodSource;
use crate::manifests::{
    FileReport, FileVerdict, Kubelet, PathKind, PodField, PodIdentity, Severity, SourceReport,
};

/// How often the kubelet scans its files (fileCheckFrequency).
const PERIOD: Duration = crate::kubelet::timing::FILE_CHECK_FREQUENCY;
/// The longest back-off. A container that has run for longer is not in a crash loop.
const LONGEST_BACK_OFF: Duration = Duration::from_secs(300);
/// A pod with at least this many dead sandboxes is reported.
const MANY_SANDBOXES: usize = 5;

const HASH: &str = "io.kubernetes.container.hash";

/// The input of the comparison.
#[derive(Clone, Copy, Debug)]
pub struct CompareInput<'a> {
    /// The kubelet whose pods are compared.
    pub kubelet: &'a Kubelet,
    /// Whether the user gave the kubelet release; if not, the newest one is assumed.
    pub version_given: bool,
    /// Whether the input contains every file that the kubelet reads. Only then is a running pod without a file reported.
    pub whole_directory: bool,
    /// The time.
    pub now: Wall,
}

/// The result of the comparison.
#[derive(Clone, Debug, Default)]
pub struct RuntimeComparison {
    /// The findings.
    pub findings: Vec<RuntimeFinding>,
    /// For the path of each file: whether the running pod was made from the file's present text.
    pub made: HashMap<String, MadeFromFile>,
    /// Whether plegctl computed the UID of at least one running pod. Only then does a different UID prove anything.
    pub uids_reproduced: bool,
}

/// Compares the files with the running static pods.
pub fn compare(
    sources: &[SourceReport],
    running: &RunningStaticPods,
    input: &CompareInput<'_>,
) -> RuntimeComparison {
    let mut findings = Vec::new();
    let files: Vec<(&SourceReport, &FileReport)> =
        sources.iter().flat_map(|source| source.files.iter().map(move |file| (source, file))).collect();
    let node = node_name(&files, running, input.kubelet);
    findings.extend(other_node(&node, running, input.kubelet));
    let kubelet = Kubelet { node_name: node.clone(), ..input.kubelet.clone() };
    let matches = TextMatches::of(&files, running, &kubelet);
    let mut expected = HashSet::new();
    for (source, file) in &files {
        let Some(pod) = identity(file, &node) else { continue };
        let instances = running.of(&pod);
        let mut found = match file.verdict {
            FileVerdict::Loaded => check_loaded(file, &pod, instances, &matches.of_file(file), input),
            FileVerdict::Rejected => check_rejected(&pod, instances, source.kind),
            FileVerdict::NotJudged => Vec::new(),
            FileVerdict::Ignored | FileVerdict::Shadowed => continue,
        };
        for finding in &mut found {
            finding.file = Some(file.path.to_string_lossy().into_owned());
        }
        findings.extend(found);
        expected.insert(pod);
    }
    for (pod, instances) in running.pods() {
        if input.whole_directory && !expected.contains(pod) {
            findings.extend(check_orphan(pod, instances));
        }
        findings.extend(check_two_sandboxes(pod, instances));
        findings.extend(check_dead_sandboxes(pod, instances));
    }
    for finding in &mut findings {
        let pod = PodIdentity { namespace: finding.pod.namespace.clone(), name: finding.pod.name.clone() };
        finding.pod.uid = running.of(&pod).first().map(|instance| instance.uid().to_owned());
    }
    findings.sort_by(|left, right| {
        (&left.pod.namespace, &left.pod.name, left.id).cmp(&(&right.pod.namespace, &right.pod.name, right.id))
    });
    RuntimeComparison { findings, uids_reproduced: matches.uids_reproduced, made: matches.made }
}

/// Whether each running pod was made from its file's text.
struct TextMatches {
    made: HashMap<String, MadeFromFile>,
    /// Whether the computed UID of at least one file equals that of its running pod. Then plegctl computes UIDs as this
    /// kubelet does, so a UID that differs proves that the file was changed.
    uids_reproduced: bool,
}

impl TextMatches {
    fn of(files: &[(&SourceReport, &FileReport)], running: &RunningStaticPods, kubelet: &Kubelet) -> Self {
        let mut made = HashMap::new();
        for (_, file) in files.iter().filter(|(_, file)| file.verdict == FileVerdict::Loaded) {
            let instances =
                identity(file, &kubelet.node_name).map(|pod| running.of(&pod)).unwrap_or_default();
            if let Some(newest) = ready(instances).next() {
                made.insert(path_text(file), made::made(file, newest.uid(), kubelet));
            }
        }
        let uids_reproduced = made.values().any(|made| matches!(made, MadeFromFile::Same { .. }));
        if !uids_reproduced {
            for made in made.values_mut() {
                *made = MadeFromFile::Unknown;
            }
        }
        Self { made, uids_reproduced }
    }

    fn of_file(&self, file: &FileReport) -> MadeFromFile {
        self.made.get(&path_text(file)).cloned().unwrap_or(MadeFromFile::Unknown)
    }
}

fn path_text(file: &FileReport) -> String {
    file.path.to_string_lossy().into_owned()
}

/// Returns the name under which the pod of a file would run. For a file that does not load, this is a guess.
fn identity(file: &FileReport, node: &str) -> Option<PodIdentity> {
    let (namespace, name) = bare_names(file)?;
    Some(PodIdentity { namespace, name: format!("{name}-{node}") })
}

fn bare_names(file: &FileReport) -> Option<(String, String)> {
    let document = file.document.as_ref();
    let decoded = document.and_then(|document| document.pod.as_ref()).map(|decoded| &decoded.pod);
    let root = decoded.or_else(|| document?.root.as_ref());
    let metadata = root.map(|root| PodField::root(root).get("metadata"));
    let text = |field: &str| {
        let found = metadata.as_ref().map(|metadata| metadata.get(field).str().to_owned());
        found.filter(|text| !text.is_empty())
    };
    if let Some(name) = text("name") {
        return Some((text("namespace").unwrap_or_else(|| "default".to_owned()), name));
    }
    // If the file cannot be parsed, the file's name is probably the pod's name.
    let stem = file.path.file_stem()?.to_string_lossy().into_owned();
    let written = document.map(|document| &*document.text).unwrap_or_default();
    let namespace = if written.contains("namespace: kube-system") { "kube-system" } else { "default" };
    Some((namespace.to_owned(), stem))
}

/// Returns the node name with which the names of the running pods end. That is the assumed name if a pod ends with it, or
/// if the pods do not agree on one other name.
fn node_name(
    files: &[(&SourceReport, &FileReport)],
    running: &RunningStaticPods,
    kubelet: &Kubelet,
) -> String {
    let assumed = kubelet.node_name.to_lowercase();
    let mut others = HashSet::new();
    for (_, file) in files.iter().filter(|(_, file)| file.verdict == FileVerdict::Loaded) {
        let Some((namespace, name)) = bare_names(file) else { continue };
        let here = PodIdentity { namespace: namespace.clone(), name: format!("{name}-{assumed}") };
        if !running.of(&here).is_empty() {
            return assumed;
        }
        let named = |pod: &PodIdentity| {
            let rest = pod.name.strip_prefix(&name)?.strip_prefix('-')?;
            (pod.namespace == namespace && !rest.is_empty()).then(|| rest.to_owned())
        };
        let mut suffixes: Vec<String> = running.pods().filter_map(|(pod, _)| named(pod)).collect();
        // Both `etcd-n1` and `etcd-backup-n1` start with `etcd-`; the shortest rest (`n1`) is the node name.
        suffixes.sort_by_key(String::len);
        others.extend(suffixes.into_iter().next());
    }
    let mut others = others.into_iter();
    match (others.next(), others.next()) {
        (Some(only), None) => only,
        _ => assumed,
    }
}

fn other_node(node: &str, running: &RunningStaticPods, kubelet: &Kubelet) -> Option<RuntimeFinding> {
    if node == kubelet.node_name.to_lowercase() {
        return None;
    }
    let (pod, _) = running.pods().find(|(pod, _)| pod.name.ends_with(&format!("-{node}")))?;
    let message = format!("the static pods here belong to node {node}, not to {}", kubelet.node_name);
    Some(
        RuntimeFinding::new(Check::NodeNamedDifferently, Severity::Info, pod, message)
            .with_fix(format!("plegctl static-pods lint --node-name {node}")),
    )
}

fn ready(instances: &[PodInstance]) -> impl Iterator<Item = &PodInstance> {
    instances.iter().filter(|instance| instance.is_ready())
}

fn sandbox_ids(instances: &[PodInstance]) -> Vec<String> {
    ready(instances).map(|instance| instance.sandbox.id.clone()).collect()
}

fn check_loaded(
    file: &FileReport,
    pod: &PodIdentity,
    instances: &[PodInstance],
    made: &MadeFromFile,
    input: &CompareInput<'_>,
) -> Vec<RuntimeFinding> {
    let Some(decoded) = file.document.as_ref().and_then(|document| document.pod.as_ref()) else {
        return Vec::new();
    };
    let root = PodField::root(&decoded.pod);
    let Some(newest) = ready(instances).next() else {
        return nothing_runs(file, pod, instances, &root, input.now).into_iter().collect();
    };
    let mut findings = Vec::new();
    match made {
        MadeFromFile::Same { by } => findings.extend(other_release(pod, newest, by, input)),
        MadeFromFile::Another => findings.push(another_text(file, pod, newest, &root, input)),
        MadeFromFile::Unknown => {
            findings.extend(differences(pod, newest, &root, input));
            findings.extend(check_metadata(pod, newest, &root));
        }
    }
    findings.extend(not_started(pod, newest, &root, input.now));
    findings.extend(other_uid(pod, newest, &root));
    findings.extend(
        newest.containers.iter().filter_map(|(name, latest)| crash_loop(pod, name, latest, input.now)),
    );
    if *made == MadeFromFile::Unknown && !findings.iter().any(|finding| finding.severity > Severity::Info) {
        findings.extend(check_newer_file(file, pod, newest, &root));
    }
    findings
}

/// How long a change may take to show: one scan, and the termination of the old pod.
fn slack(root: &PodField<'_>) -> Duration {
    let grace = root.get("spec").get("terminationGracePeriodSeconds").opt_int().unwrap_or(30);
    PERIOD + Duration::from_secs(u64::try_from(grace).unwrap_or(0))
}

fn modified(file: &FileReport) -> Option<Wall> {
    file.meta.as_ref()?.modified_nanos.map(Wall::from_nanos)
}

fn nothing_runs(
    file: &FileReport,
    pod: &PodIdentity,
    instances: &[PodInstance],
    root: &PodField<'_>,
    now: Wall,
) -> Option<RuntimeFinding> {
    let changed = modified(file)?;
    if now.duration_since(changed) <= PERIOD + slack(root) {
        return None;
    }
    let restarts = !matches!(root.get("spec").get("restartPolicy").str(), "Never" | "OnFailure");
    if !restarts && !instances.is_empty() {
        return None;
    }
    let message = if instances.is_empty() {
        "the manifest loads, but its pod does not run"
    } else {
        "the manifest loads, but none of its sandboxes is ready"
    };
    let causes = "check that the kubelet runs and reads this path; search its log for \"Pod was rejected\", \
                  \"Could not process manifest file\" and errors while creating the sandbox";
    let dead = instances.iter().map(|instance| instance.sandbox.id.clone());
    Some(
        RuntimeFinding::new(Check::NothingRuns, Severity::Error, pod, message)
            .with_fix(causes)
            .with_ids(dead),
    )
}

fn check_rejected(pod: &PodIdentity, instances: &[PodInstance], kind: PathKind) -> Vec<RuntimeFinding> {
    let ids = sandbox_ids(instances);
    if ids.is_empty() {
        return Vec::new();
    }
    let until = match kind {
        PathKind::Directory => "the kubelet stops it at its next scan, within 20 s",
        _ => "after a restart, the kubelet does not start that pod again",
    };
    let message =
        format!("the kubelet rejects the manifest, but the pod of its older version still runs: {until}");
    vec![
        RuntimeFinding::new(Check::RejectedStillRuns, Severity::Error, pod, message)
            .with_fix("correct the file now")
            .with_ids(ids),
    ]
}

/// How many differences are listed; the others are counted.
const NAMED: usize = 3;

fn named(mut differences: Vec<String>) -> String {
    let more = differences.len().saturating_sub(NAMED);
    differences.truncate(NAMED);
    let more = if more == 0 { String::new() } else { format!("; and {more} more") };
    format!("{}{more}", differences.join("; "))
}

/// Reports a pod whose UID proves that it was not made from the file's present text.
fn another_text(
    file: &FileReport,
    pod: &PodIdentity,
    newest: &PodInstance,
    root: &PodField<'_>,
    input: &CompareInput<'_>,
) -> RuntimeFinding {
    let changed = modified(file);
    let since = changed.map(|changed| format!(", which was last changed at {changed}")).unwrap_or_default();
    let (mut seen, ids) = other_containers(newest, root, input);
    seen.extend(other_metadata(newest, root));
    let what = if seen.is_empty() {
        "the runtime shows no difference, so the command, the arguments, the environment, the mounts or another field changed".to_owned()
    } else {
        named(seen)
    };
    let message = format!("the running pod was made from a different version of the file{since}: {what}");
    let ids = std::iter::once(newest.sandbox.id.clone()).chain(ids);
    let young = changed.is_some_and(|changed| input.now.duration_since(changed) <= slack(root));
    if young {
        let severity = Severity::Info;
        return RuntimeFinding::new(Check::OtherContent, severity, pod, message)
            .with_fix("wait for the kubelet's next scan and for the end of the old pod")
            .with_ids(ids);
    }
    RuntimeFinding::new(Check::OtherContent, Severity::Error, pod, message)
        .with_fix(NOT_TAKEN_UP)
        .with_ids(ids)
}

/// Reports a pod with the same text, but made by another kubelet release than the one whose rules are applied.
fn other_release(
    pod: &PodIdentity,
    newest: &PodInstance,
    by: &[String],
    input: &CompareInput<'_>,
) -> Option<RuntimeFinding> {
    let release = input.kubelet.version.to_string();
    if !input.version_given || by.contains(&release) {
        return None;
    }
    let message = format!(
        "a kubelet {} made the running pod from this file; kubelet {release} computes another UID and restarts the pod",
        by.join(" or ")
    );
    Some(
        RuntimeFinding::new(Check::OtherRelease, Severity::Info, pod, message)
            .with_fix("plegctl static-pods lint --upgrade-to says what an upgrade restarts")
            .with_ids([newest.sandbox.id.clone()]),
    )
}

const NOT_TAKEN_UP: &str = "the kubelet has not applied the file: look for a second file with this pod, a \
                            fixed uid, or a kubelet that does not run";

fn differences(
    pod: &PodIdentity,
    newest: &PodInstance,
    root: &PodField<'_>,
    input: &CompareInput<'_>,
) -> Option<RuntimeFinding> {
    let (seen, ids) = other_containers(newest, root, input);
    if seen.is_empty() {
        return None;
    }
    let ids = std::iter::once(newest.sandbox.id.clone()).chain(ids);
    Some(
        RuntimeFinding::new(Check::OtherContent, Severity::Error, pod, named(seen))
            .with_fix(NOT_TAKEN_UP)
            .with_ids(ids),
    )
}

/// Describes the containers that the file does not have or that have another image, and returns their ids.
fn other_containers(
    newest: &PodInstance,
    root: &PodField<'_>,
    input: &CompareInput<'_>,
) -> (Vec<String>, Vec<String>) {
    let spec = root.get("spec");
    let wanted: Vec<PodField<'_>> = containers(&spec).collect();
    let differs = |name: &String, latest: &NewestContainer| match wanted
        .iter()
        .find(|container| container.get("name").str() == name)
    {
        None => Some(format!("container {name} is in the running pod but not in the file")),
        Some(container) => other_image(name, latest, container.get("image").str(), input),
    };
    let found = newest.containers.iter();
    found.filter_map(|(name, latest)| Some((differs(name, latest)?, latest.container.id.clone()))).unzip()
}

/// Describes the difference if a container's image is not that of the file. Compares the image name that the kubelet gave
/// to the runtime; if the runtime does not report that name, compares the kubelet's hash of the container.
fn other_image(
    name: &str,
    latest: &NewestContainer,
    image: &str,
    input: &CompareInput<'_>,
) -> Option<String> {
    let runs = latest.container.image.as_ref();
    let given_image =
        runs.map(|image| image.user_specified.as_str()).filter(|given_image| !given_image.is_empty());
    if let Some(given_image) = given_image {
        return (given_image != image)
            .then(|| format!("container {name} runs {given_image}, but the file has {image}"));
    }
    let hash = latest.container.annotations.get(HASH)?;
    if !input.kubelet.version.at_least(SINCE_MINOR) || hash == container_hash(name, image) {
        return None;
    }
    let resolved = runs.map(|image| image.image.as_str()).unwrap_or_default();
    // If the release is only assumed, an older kubelet may have hashed more fields, so its hash counts only if the image
    // differs too.
    if !input.version_given && resolved == image {
        return None;
    }
    Some(format!(
        "the file has image {image} for container {name}, which was created from another image and runs {resolved}"
    ))
}

/// Reports labels and annotations of the sandbox that differ from the file.
fn check_metadata(pod: &PodIdentity, newest: &PodInstance, root: &PodField<'_>) -> Option<RuntimeFinding> {
    let seen = other_metadata(newest, root);
    if seen.is_empty() {
        return None;
    }
    Some(
        RuntimeFinding::new(Check::OtherSettings, Severity::Warning, pod, named(seen))
            .with_fix(
                "check that the kubelet has read the file, and look for a second file that defines this pod",
            )
            .with_ids([newest.sandbox.id.clone()]),
    )
}

fn other_metadata(newest: &PodInstance, root: &PodField<'_>) -> Vec<String> {
    let metadata = root.get("metadata");
    let mut seen = Vec::new();
    for (kind, found) in [("label", &newest.sandbox.labels), ("annotation", &newest.sandbox.annotations)] {
        let wanted = metadata.get(if kind == "label" { "labels" } else { "annotations" });
        for (entry, value) in wanted.entries() {
            let key = &*entry.key;
            let is_kubelets = key.starts_with("io.kubernetes.") || key.starts_with("kubernetes.io/config.");
            if is_kubelets || found.get(key) == Some(value.str()) {
                continue;
            }
            seen.push(match found.get(key) {
                Some(other) => {
                    format!("{kind} {key} is {other} in the running pod and {} in the file", value.str())
                }
                None => format!("the running pod has no {kind} {key}, but the file has"),
            });
        }
    }
    seen
}

fn not_started(
    pod: &PodIdentity,
    newest: &PodInstance,
    root: &PodField<'_>,
    now: Wall,
) -> Vec<RuntimeFinding> {
    let created = Wall::known(newest.sandbox.created_at);
    if created.is_none_or(|created| now.duration_since(created) <= slack(root)) {
        return Vec::new();
    }
    let spec = root.get("spec");
    let unfinished = spec.get("initContainers").items().iter().any(|init| {
        let sidecar = init.get("restartPolicy").str() == "Always";
        let latest = newest.containers.get(init.get("name").str());
        // The kubelet removes finished init containers after a while.
        !sidecar && latest.is_some_and(|latest| latest.container.state != ContainerState::Exited)
    });
    if unfinished {
        return Vec::new();
    }
    let missing = spec.get("containers").items();
    let missing = missing.iter().map(|container| container.get("name").str());
    missing
        .filter(|name| !newest.containers.contains_key(*name))
        .map(|name| {
            RuntimeFinding::new(
                Check::NeverCreated,
                Severity::Warning,
                pod,
                format!("container {name} was never created"),
            )
            .with_fix("search the kubelet's log for errors about this container: image pull, hostPath volumes, configuration")
            .with_ids([newest.sandbox.id.clone()])
        })
        .collect()
}

fn other_uid(pod: &PodIdentity, newest: &PodInstance, root: &PodField<'_>) -> Option<RuntimeFinding> {
    let uid = root.get("metadata").get("uid").str();
    if uid.is_empty() || uid == newest.uid() {
        return None;
    }
    let message = format!(
        "the file sets the UID {uid}, but the running pod has {}: the pod was made from an older file",
        newest.uid()
    );
    Some(
        RuntimeFinding::new(Check::OtherUid, Severity::Warning, pod, message)
            .with_fix("wait 20 s for the next scan; if nothing changes, read the kubelet's log")
            .with_ids([newest.sandbox.id.clone()]),
    )
}

fn crash_loop(pod: &PodIdentity, name: &str, latest: &NewestContainer, now: Wall) -> Option<RuntimeFinding> {
    let ended = latest.ended.as_ref().filter(|ended| ended.exit_code != 0)?;
    let created = Wall::known(latest.container.created_at)?;
    let runs = latest.container.state == ContainerState::Running;
    if latest.restarts < MANY_RESTARTS || (runs && now.duration_since(created) > LONGEST_BACK_OFF) {
        return None;
    }
    let reason = if ended.reason.is_empty() { String::new() } else { format!(" ({})", ended.reason) };
    let message = format!(
        "container {name} ends again and again: {} restarts, last exit code {}{reason}",
        latest.restarts, ended.exit_code
    );
    let finding = RuntimeFinding::new(Check::CrashLoop, Severity::Error, pod, message)
        .with_ids([latest.container.id.clone(), ended.id.clone()]);
    Some(if ended.log_path.is_empty() {
        finding
    } else {
        finding.with_fix(format!("read {}", ended.log_path))
    })
}

/// Reports a file that is newer than its pod. This is weak evidence: a new modification time alone restarts no pod, and
/// the runtime does not show whether the command line changed.
fn check_newer_file(
    file: &FileReport,
    pod: &PodIdentity,
    newest: &PodInstance,
    root: &PodField<'_>,
) -> Option<RuntimeFinding> {
    let changed = modified(file)?;
    let created = Wall::known(newest.sandbox.created_at)?;
    if changed <= created.plus(slack(root)) {
        return None;
    }
    let fixed = !root.get("metadata").get("uid").is_empty();
    let (severity, message) = if fixed {
        (
            Severity::Warning,
            "the file was changed after the pod started, but it sets metadata.uid, so the kubelet does not apply a \
             changed command, args or env",
        )
    } else {
        (Severity::Info, "the file was touched after the pod started, and the pod was not replaced")
    };
    Some(
        RuntimeFinding::new(Check::TouchedSince, severity, pod, message)
            .with_ids([newest.sandbox.id.clone()]),
    )
}

fn check_orphan(pod: &PodIdentity, instances: &[PodInstance]) -> Option<RuntimeFinding> {
    let newest = ready(instances).next()?;
    let ids = sandbox_ids(instances);
    Some(match newest.source? {
        PodSource::File => RuntimeFinding::new(
            Check::NoManifest,
            Severity::Error,
            pod,
            "a static pod runs, but its manifest file is gone",
        )
        .with_fix(
            "check that the kubelet runs; after its start it removes no pod until the API server has answered",
        )
        .with_ids(ids),
        PodSource::Api => return None,
        PodSource::Http => RuntimeFinding::new(
            Check::NoManifest,
            Severity::Info,
            pod,
            "this static pod comes from the kubelet's staticPodURL, not from a file",
        )
        .with_ids(ids),
    })
}

fn check_two_sandboxes(pod: &PodIdentity, instances: &[PodInstance]) -> Option<RuntimeFinding> {
    let ids = sandbox_ids(instances);
    if ids.len() < 2 {
        return None;
    }
    let uids: HashSet<&str> = ready(instances).map(PodInstance::uid).collect();
    Some(if uids.len() > 1 {
        let message = format!("{} versions of this pod run at once", uids.len());
        let oldest = ids.last().cloned().unwrap_or_default();
        RuntimeFinding::new(Check::TwoVersions, Severity::Error, pod, message)
            .with_fix(format!("inspect both sandboxes, then stop the older one: crictl stopp {oldest}"))
            .with_ids(ids)
    } else {
        let message = format!("the pod has {} ready sandboxes: the kubelet will replace it", ids.len());
        RuntimeFinding::new(Check::SeveralSandboxes, Severity::Warning, pod, message).with_ids(ids)
    })
}

fn check_dead_sandboxes(pod: &PodIdentity, instances: &[PodInstance]) -> Option<RuntimeFinding> {
    let dead: Vec<&PodInstance> = instances.iter().filter(|instance| !instance.is_ready()).collect();
    if dead.len() < MANY_SANDBOXES {
        return None;
    }
    let since = dead.last().and_then(|oldest| Wall::known(oldest.sandbox.created_at));
    let since = since.map(|since| format!(" since {since}")).unwrap_or_default();
    let message = format!("{} sandboxes of this pod have ended{since}", dead.len());
    Some(RuntimeFinding::new(Check::ManySandboxes, Severity::Info, pod, message))
}
