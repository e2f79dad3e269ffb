//! Compares the manifest files with the static pods that the runtime runs.
//!
//! [`compare`] finds the running pod of each file and checks the two against each other (`loaded_file`), then checks each
//! running pod by itself (`running_pod`).

use std::collections::{HashMap, HashSet};

use super::RuntimeFinding;
use super::input::CompareInput;
use super::loaded_file::LoadedFile;
use super::made::{self, MadeFromFile};
use super::names::{expected_pod, node_name};
use super::running::{RunningStaticPods, ready, ready_sandbox_ids};
use super::running_pod;
use crate::RunningPod;
use crate::{FileReport, FileVerdict, Kubelet, PathKind, PodIdentity, SourceReport};
use plegctl_base::report::Places;

/// The result of the comparison.
#[derive(Clone, Debug, Default)]
pub struct RuntimeComparison {
    /// The findings.
    pub findings: Vec<RuntimeFinding>,
    /// For the path of each file: whether the running pod was made from the file's present text.
    pub made: HashMap<String, MadeFromFile>,
    /// Whether at least one running pod has the UID that plegctl computed. Only then does a different UID prove anything.
    pub uids_reproduced: bool,
}

/// Compares the files with the running static pods.
pub fn compare(
    sources: &[SourceReport],
    running: &RunningStaticPods,
    input: &CompareInput<'_>,
) -> RuntimeComparison {
    let mut findings = Vec::new();
    let files: Vec<&FileReport> = sources.iter().flat_map(|source| &source.files).collect();
    let node = node_name(&files, running, input.kubelet);
    findings.extend(check_node_name(&node, running, input.kubelet));
    let kubelet = Kubelet { node_name: node.clone(), ..input.kubelet.clone() };
    let origins = PodOrigins::find(&files, running, &kubelet);
    let (mut expected, mut wanted) = (HashSet::new(), HashMap::new());
    for source in sources {
        for file in &source.files {
            let Some(pod) = expected_pod(file, &node) else { continue };
            let sandboxes = running.sandboxes_of(&pod);
            let mut file_findings = match file.verdict {
                FileVerdict::Loaded => {
                    wanted.extend(wanted_uid(file, sandboxes, &kubelet).map(|uid| (pod.clone(), uid)));
                    LoadedFile::new(file, &pod, input)
                        .map(|loaded| loaded.check(sandboxes, &origins.of_file(file)))
                        .unwrap_or_default()
                }
                FileVerdict::Rejected => check_rejected(&pod, sandboxes, source.kind).into_iter().collect(),
                FileVerdict::NotJudged => Vec::new(),
                FileVerdict::Ignored | FileVerdict::Shadowed => continue,
            };
            for finding in &mut file_findings {
                finding.file = Some(file.path.to_string_lossy().into_owned());
            }
            findings.extend(file_findings);
            expected.insert(pod);
        }
    }
    for (pod, sandboxes) in running.pods() {
        if input.whole_directory && !expected.contains(pod) {
            findings.extend(running_pod::check_without_file(pod, sandboxes));
        }
        let wanted = wanted.get(pod).map(String::as_str);
        findings.extend(running_pod::check_ready_sandboxes(pod, sandboxes, wanted, input.now));
        findings.extend(running_pod::check_dead_sandboxes(pod, sandboxes));
    }
    for finding in &mut findings {
        let pod = PodIdentity { namespace: finding.pod.namespace.clone(), name: finding.pod.name.clone() };
        finding.pod.uid = running.sandboxes_of(&pod).first().map(|newest| newest.uid.as_str().to_owned());
    }
    findings.sort_by(|left, right| {
        (&left.pod.namespace, &left.pod.name, left.id).cmp(&(&right.pod.namespace, &right.pod.name, right.id))
    });
    RuntimeComparison { findings, uids_reproduced: origins.uids_reproduced, made: origins.by_path }
}

/// For each file with a running pod: whether that pod was made from the file's text.
struct PodOrigins {
    by_path: HashMap<String, MadeFromFile>,
    /// Whether the computed UID of at least one file equals the UID of its running pod. Then plegctl computes UIDs as
    /// this kubelet does, so a UID that differs proves that the file was changed.
    uids_reproduced: bool,
}

impl PodOrigins {
    fn find(files: &[&FileReport], running: &RunningStaticPods, kubelet: &Kubelet) -> Self {
        let mut by_path = HashMap::new();
        for file in files.iter().filter(|file| file.verdict == FileVerdict::Loaded) {
            let sandboxes = expected_pod(file, &kubelet.node_name)
                .map(|pod| running.sandboxes_of(&pod))
                .unwrap_or_default();
            if let Some(newest) = ready(sandboxes).next() {
                by_path.insert(path_text(file), made::compare_uid(file, newest.uid.as_str(), kubelet));
            }
        }
        let uids_reproduced = by_path.values().any(|made| matches!(made, MadeFromFile::Same { .. }));
        if !uids_reproduced {
            for made in by_path.values_mut() {
                *made = MadeFromFile::Unknown;
            }
        }
        Self { by_path, uids_reproduced }
    }

    fn of_file(&self, file: &FileReport) -> MadeFromFile {
        self.by_path.get(&path_text(file)).cloned().unwrap_or(MadeFromFile::Unknown)
    }
}

/// Returns the UID of the ready sandbox that was made from the file, if there are several.
fn wanted_uid(file: &FileReport, sandboxes: &[RunningPod], kubelet: &Kubelet) -> Option<String> {
    let is_wanted = |uid: &&str| match file.fixed_uid() {
        Some(fixed) => fixed == *uid,
        None => matches!(made::compare_uid(file, uid, kubelet), MadeFromFile::Same { .. }),
    };
    let mut uids = ready(sandboxes).map(|sandbox| sandbox.uid.as_str());
    if ready(sandboxes).count() < 2 { None } else { uids.find(is_wanted).map(str::to_owned) }
}

fn path_text(file: &FileReport) -> String {
    file.path.to_string_lossy().into_owned()
}

/// Reports that the running pods belong to another node name than the assumed one (SP131).
fn check_node_name(node: &str, running: &RunningStaticPods, kubelet: &Kubelet) -> Option<RuntimeFinding> {
    if node == kubelet.node_name.to_lowercase() {
        return None;
    }
    let (pod, _) = running.pods().find(|(pod, _)| pod.name.ends_with(&format!("-{node}")))?;
    let places: &Places<'_> = &[("node", &node), ("other", &kubelet.node_name)];
    Some(RuntimeFinding::of("other-node", pod, places))
}

/// Reports a rejected file whose pod still runs (SP122).
fn check_rejected(pod: &PodIdentity, sandboxes: &[RunningPod], kind: PathKind) -> Option<RuntimeFinding> {
    let ids = ready_sandbox_ids(sandboxes);
    if ids.is_empty() {
        return None;
    }
    let until = match kind {
        PathKind::Directory => "the kubelet stops it at its next scan, within 20 s",
        _ => "after a restart, the kubelet does not start that pod again",
    };
    Some(RuntimeFinding::of("rejected-still-runs", pod, &[("until", &until)]).with_ids(ids))
}
