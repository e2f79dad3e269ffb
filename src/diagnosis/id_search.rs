//! Searches for ids of sandboxes and containers on the node, without the CRI, when a list call does not answer. With an
//! id, `health` can make a status call.
//!
//! It has three sources: the links in `/var/log/containers`, the runtime's state directories with the OCI bundles, and
//! the cgroups and command lines of processes. A runtime may keep its state in any directory, so the working directories
//! of shims show further state directories.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use serde::Deserialize;

use super::budget::RunBudget;
use super::limits::MAX_OUTSIDE_IDS;
use super::names::{ItemKind, OutsideId};
use super::offload;
use super::proc::cgroup::container_id;
use super::proc::{ProcessTrust, Role, command_line, conmon_container, is_conmon, waits_uninterruptibly};
use super::report::PodRef;
use crate::host::{Arguments, KernelDir, kernel_text};
use crate::report::load::load;

/// The directories, below the host root, in which runtimes keep one directory for each container.
const STATE_DIRS: [&str; 4] = [
    "run/containerd/io.containerd.runtime.v2.task/k8s.io",
    "run/k3s/containerd/io.containerd.runtime.v2.task/k8s.io",
    "run/k0s/containerd/io.containerd.runtime.v2.task/k8s.io",
    "run/containers/storage/overlay-containers",
];
/// The largest `config.json` of a bundle that is read.
const MAX_CONFIG: usize = 1024 * 1024;
/// The time limit for the search.
const TIME_LIMIT: Duration = Duration::from_millis(800);

/// Collects ids within a time limit, also if a file system does not answer.
pub(super) async fn collect(host_root: &Path, proc: Option<&Path>, budget: &RunBudget) -> Vec<OutsideId> {
    let host_root = host_root.to_owned();
    let proc = proc.map(Path::to_owned);
    let limit = TIME_LIMIT.min(budget.left());
    let (parts, _) = offload::collect(limit, move |send: &dyn Fn(Vec<OutsideId>)| {
        send(from_logs(&host_root));
        let (ids, working_dirs) = proc.as_deref().map(from_processes).unwrap_or_default();
        send(ids);
        let mut dirs: BTreeSet<PathBuf> = STATE_DIRS.iter().map(|dir| host_root.join(dir)).collect();
        dirs.extend(working_dirs.iter().map(|dir| under_root(&host_root, dir)));
        for dir in dirs {
            send(from_state_dir(&dir));
        }
    })
    .await;
    merge(parts.into_iter().flatten())
}

/// A pod, or one of its containers.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct KnownName {
    /// The pod's namespace.
    pub namespace: String,
    /// The pod's UID.
    pub uid: String,
    /// The container's name; `None` for the pod itself.
    pub container: Option<String>,
}

/// Returns the pods that run or ran on this node and their containers, from the names of the pod log directories
/// (`NAMESPACE_NAME_UID/CONTAINER`).
pub(super) async fn logged_names(host_root: &Path, budget: &RunBudget) -> Vec<KnownName> {
    let dir = host_root.join("var/log/pods");
    let found = offload::value(TIME_LIMIT.min(budget.left()), move || {
        let of_pod = |pod: &String| {
            let mut parts = pod.splitn(3, '_');
            let (namespace, _, uid) = (parts.next()?, parts.next()?, parts.next()?);
            let containers = entries(&dir.join(pod)).into_iter().map(Some);
            let name = |container| KnownName { namespace: namespace.into(), uid: uid.into(), container };
            Some(std::iter::once(None).chain(containers).map(name).collect::<Vec<_>>())
        };
        let names: Vec<KnownName> =
            entries(&dir).iter().filter_map(of_pod).flatten().take(MAX_OUTSIDE_IDS).collect();
        names
    })
    .await;
    found.unwrap_or_default()
}

/// Returns an absolute path of the node as a path below `root`.
pub(super) fn under_root(root: &Path, path: &Path) -> PathBuf {
    root.join(path.strip_prefix("/").unwrap_or(path))
}

fn entries(dir: &Path) -> Vec<String> {
    let Ok(found) = fs::read_dir(dir) else {
        return Vec::new();
    };
    found.take(MAX_OUTSIDE_IDS).filter_map(|entry| entry.ok()?.file_name().into_string().ok()).collect()
}

/// Merges the entries of several sources for the same id.
fn merge(found: impl Iterator<Item = OutsideId>) -> Vec<OutsideId> {
    let mut by_id: BTreeMap<String, OutsideId> = BTreeMap::new();
    for new in found {
        let known = by_id.entry(new.id.clone()).or_insert_with(|| OutsideId::bare(&new.id));
        known.kind = known.kind.or(new.kind);
        known.pod = known.pod.take().or(new.pod);
        known.container = known.container.take().or(new.container);
        known.sandbox_id = known.sandbox_id.take().or(new.sandbox_id);
    }
    let sandboxes: BTreeSet<String> = by_id.values().filter_map(|found| found.sandbox_id.clone()).collect();
    for sandbox in sandboxes {
        if let Some(found) = by_id.get_mut(&sandbox) {
            found.kind = Some(ItemKind::Sandbox);
        }
    }
    by_id.into_values().take(MAX_OUTSIDE_IDS).collect()
}

fn from_logs(host_root: &Path) -> Vec<OutsideId> {
    entries(&host_root.join("var/log/containers")).iter().filter_map(|name| from_log_name(name)).collect()
}

/// Parses the name of a link that the kubelet creates: `<pod>_<namespace>_<container>-<id>.log`.
fn from_log_name(name: &str) -> Option<OutsideId> {
    let stem = name.strip_suffix(".log")?;
    let (front, id) = stem.rsplit_once('-')?;
    let id = container_id(id)?;
    let mut parts = front.splitn(3, '_');
    let (pod, namespace, container) = (parts.next()?, parts.next()?, parts.next()?);
    Some(OutsideId {
        id: id.to_owned(),
        kind: Some(ItemKind::Container),
        pod: Some(PodRef { uid: String::new(), namespace: namespace.to_owned(), name: pod.to_owned() }),
        container: Some(container.to_owned()),
        sandbox_id: None,
    })
}

/// Returns the ids in cgroup paths and on command lines of conmon, and the state directories of shims: each shim's
/// working directory is the bundle of its sandbox, and its parent is the state directory.
fn from_processes(proc: &Path) -> (Vec<OutsideId>, BTreeSet<PathBuf>) {
    let mut ids = Vec::new();
    let mut dirs = BTreeSet::new();
    let trust = ProcessTrust::of_table(proc);
    for pid in KernelDir::open(proc).map(|proc| proc.numbered()).unwrap_or_default() {
        let dir = proc.join(pid.to_string());
        let cgroups = kernel_text(&dir.join("cgroup")).unwrap_or_default();
        if let Some(id) = super::proc::cgroup::id_of(&cgroups) {
            ids.push(OutsideId::bare(&id));
        }
        let comm = kernel_text(&dir.join("comm")).unwrap_or_default();
        // Any user can start a process with a shim's name and choose its command line and directory.
        let is_trusted = |opened: &KernelDir| trust.judge(opened, Role::Shim, true).is_ok();
        if is_conmon(&comm) && KernelDir::open(&dir).is_ok_and(|opened| is_trusted(&opened)) {
            ids.extend(from_conmon(&command_line(&dir)));
        }
        if comm.starts_with("containerd-shim")
            && !waits_uninterruptibly(&dir)
            && let Ok(opened) = KernelDir::open(&dir)
            && is_trusted(&opened)
            && let Ok(bundle) = opened.link("cwd")
            && let Some(parent) = bundle.parent()
        {
            dirs.insert(parent.to_owned());
        }
    }
    (ids, dirs)
}

/// Parses conmon's command line: `-c` has the container's id, and `-n` a name that contains pod and container.
fn from_conmon(command: &Arguments) -> Option<OutsideId> {
    let (id, name) = conmon_container(command)?;
    let name = name?;
    let kind = if name.container.is_some() { ItemKind::Container } else { ItemKind::Sandbox };
    Some(OutsideId {
        id: id.to_owned(),
        kind: Some(kind),
        pod: Some(name.pod),
        container: name.container,
        sandbox_id: None,
    })
}

#[derive(Deserialize)]
struct BundleConfig {
    #[serde(default)]
    annotations: BTreeMap<String, String>,
}

fn from_state_dir(dir: &Path) -> Vec<OutsideId> {
    entries(dir)
        .iter()
        .filter_map(|name| {
            let id = container_id(name)?;
            let annotations = bundle_annotations(&dir.join(name)).unwrap_or_default();
            Some(from_annotations(id, &annotations))
        })
        .collect()
}

/// Returns the names of the container `id` from its bundle in `dir`.
pub(super) fn bundle_identity(dir: &Path, id: &str) -> Option<OutsideId> {
    Some(from_annotations(id, &bundle_annotations(dir)?))
}

/// Reads the annotations of a bundle. containerd writes `config.json` to the bundle's directory, CRI-O to the directory
/// `userdata` in it.
fn bundle_annotations(dir: &Path) -> Option<BTreeMap<String, String>> {
    let mut files = ["config.json", "userdata/config.json"].iter().map(|name| dir.join(name));
    let text = files.find_map(|file| load(&file, MAX_CONFIG).ok())?;
    serde_json::from_slice::<BundleConfig>(&text).ok().map(|config| config.annotations)
}

fn from_annotations(id: &str, annotations: &BTreeMap<String, String>) -> OutsideId {
    let any = |keys: [&str; 2]| keys.iter().find_map(|key| annotations.get(*key)).cloned();
    let kind = match any(["io.kubernetes.cri.container-type", "io.kubernetes.cri-o.ContainerType"]).as_deref()
    {
        Some("sandbox") => Some(ItemKind::Sandbox),
        Some("container") => Some(ItemKind::Container),
        _ => None,
    };
    let pod = PodRef {
        uid: any(["io.kubernetes.cri.sandbox-uid", "io.kubernetes.pod.uid"]).unwrap_or_default(),
        namespace: any(["io.kubernetes.cri.sandbox-namespace", "io.kubernetes.pod.namespace"])
            .unwrap_or_default(),
        name: any(["io.kubernetes.cri.sandbox-name", "io.kubernetes.pod.name"]).unwrap_or_default(),
    };
    let is_container = kind == Some(ItemKind::Container);
    OutsideId {
        id: id.to_owned(),
        kind,
        pod: (pod != PodRef::default()).then_some(pod),
        container: any(["io.kubernetes.cri.container-name", "io.kubernetes.container.name"])
            .filter(|_| is_container),
        sandbox_id: any(["io.kubernetes.cri.sandbox-id", "io.kubernetes.cri-o.SandboxID"])
            .filter(|_| is_container),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ID: &str = "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef";

    #[test]
    fn a_log_link_names_pod_namespace_container_and_id() {
        let found = from_log_name(&format!("web-0_default_app-with-dash-{ID}.log")).unwrap();
        assert_eq!(found.id, ID);
        assert_eq!(found.container.as_deref(), Some("app-with-dash"));
        assert_eq!(found.pod.unwrap().to_string(), "default/web-0");
        assert_eq!(from_log_name("web-0_default_app.log"), None);
        assert_eq!(from_log_name("messages.log"), None);
    }

    #[test]
    fn ids_of_all_processes_are_found_even_above_the_limit_of_other_sources() {
        let proc = std::env::temp_dir().join(format!("plegctl-id-search-{}", std::process::id()));
        let _ = fs::remove_dir_all(&proc);
        let pids = 1..=MAX_OUTSIDE_IDS + 100;
        for pid in pids.clone() {
            fs::create_dir_all(proc.join(pid.to_string())).unwrap();
        }
        fs::write(proc.join(format!("{}/cgroup", pids.end())), format!("0::/kubepods/podu/{ID}\n")).unwrap();
        for pid in pids.clone().take(MAX_OUTSIDE_IDS) {
            fs::write(proc.join(format!("{pid}/cgroup")), format!("0::/kubepods/podu/{pid:064x}\n")).unwrap();
        }
        let (ids, _) = from_processes(&proc);
        fs::remove_dir_all(&proc).unwrap();
        assert_eq!(ids.len(), MAX_OUTSIDE_IDS + 1);
    }

    #[test]
    fn an_id_that_a_container_names_as_its_sandbox_is_a_sandbox() {
        let sandbox = OutsideId::bare("a");
        let container = OutsideId { sandbox_id: Some("a".into()), ..OutsideId::bare("b") };
        let merged = merge([sandbox, container].into_iter());
        assert_eq!(merged[0].kind, Some(ItemKind::Sandbox));
        assert_eq!(merged[1].kind, None);
    }

    #[test]
    fn annotations_of_a_bundle_name_the_container() {
        let annotations = BTreeMap::from([
            ("io.kubernetes.cri.container-type".to_owned(), "container".to_owned()),
            ("io.kubernetes.cri.container-name".to_owned(), "app".to_owned()),
            ("io.kubernetes.cri.sandbox-id".to_owned(), "s".to_owned()),
            ("io.kubernetes.cri.sandbox-name".to_owned(), "web-0".to_owned()),
            ("io.kubernetes.cri.sandbox-namespace".to_owned(), "default".to_owned()),
        ]);
        let found = from_annotations(ID, &annotations);
        assert_eq!(found.kind, Some(ItemKind::Container));
        assert_eq!(found.container.as_deref(), Some("app"));
        assert_eq!(found.sandbox_id.as_deref(), Some("s"));
    }
}
