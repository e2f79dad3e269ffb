//! The file source: a directory or a file, its store of pods, and inotify events between two scans
//! (pkg/kubelet/config/file.go and `file_linux.go`).
//!
//! Like the kubelet, the source has two unexpected effects. If two files define the same pod, the removal of either file
//! removes the pod until the next scan. And a scan that finds no pod leaves the store unchanged, so that a later event can
//! bring old pods back.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::WantedPod;
use crate::{FileReport, FileVerdict, Kubelet, PathKind, PodIdentity, each_file, inspect_file};

/// A file that the kubelet refuses, and the reason.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RefusedFile {
    /// The file.
    pub path: PathBuf,
    /// The kubelet's error text.
    pub reason: String,
}

/// The result of a scan of the path, or of an event for one file.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct FileScan {
    /// The complete set of pods, if the source sends a set.
    pub set: Option<Vec<Arc<WantedPod>>>,
    /// The files that the kubelet refuses.
    pub refused: Vec<RefusedFile>,
    /// The error of the path itself.
    pub error: Option<String>,
}

/// The kubelet's file source, which reads `staticPodPath`.
#[derive(Debug)]
pub struct FileSource {
    path: PathBuf,
    kubelet: Kubelet,
    /// The pods in the order in which they were read. The kubelet's order is the order of a Go map, which is not defined.
    store: Vec<Arc<WantedPod>>,
    /// The index of each pod in the store.
    indexes: HashMap<PodIdentity, usize>,
    /// The pod that each file contained when it was last read.
    pods_by_path: HashMap<PathBuf, PodIdentity>,
    /// The number of pods read so far, which gives each pod its [`WantedPod::object`].
    objects: u64,
}

impl FileSource {
    /// Creates a source that has not read its path yet.
    pub fn new(path: impl Into<PathBuf>, kubelet: Kubelet) -> Self {
        Self {
            path: path.into(),
            kubelet,
            store: Vec::new(),
            indexes: HashMap::new(),
            pods_by_path: HashMap::new(),
            objects: 0,
        }
    }

    /// Returns the manifest path.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Scans the whole path. The kubelet does this every `fileCheckFrequency`.
    pub fn scan(&mut self) -> FileScan {
        let mut scan = FileScan::default();
        let mut pods: Vec<WantedPod> = Vec::new();
        let (path, kubelet) = (self.path.clone(), self.kubelet.clone());
        let report = each_file(&path, &kubelet, &mut |file| {
            scan.refused.extend(refused(&file));
            pods.extend(self.remember(&file));
        });
        match report.kind {
            PathKind::Missing => {
                scan.set = Some(Vec::new());
                scan.error = Some("path does not exist, ignoring".to_owned());
            }
            PathKind::Special => scan.error = Some("path is not a directory or file".to_owned()),
            PathKind::Unreadable => {
                scan.error =
                    Some(report.findings.first().map_or_else(String::new, |found| found.message.clone()));
            }
            // A path that is a single file without a pod sends no set; a directory without pods sends an empty set.
            PathKind::File if pods.is_empty() => {}
            PathKind::Directory if pods.is_empty() => scan.set = Some(Vec::new()),
            PathKind::File | PathKind::Directory => {
                // The pods are in the order of the files. If two files define the same pod, the later file wins.
                self.store.clear();
                self.indexes.clear();
                for pod in pods {
                    self.store_pod(pod);
                }
                scan.set = Some(self.store.clone());
            }
        }
        scan
    }

    /// Handles an inotify event that `path` was created or changed.
    pub fn changed(&mut self, path: &Path) -> FileScan {
        let report = inspect_file(path, &self.kubelet);
        match self.remember(&report) {
            Some(pod) => {
                // The pod must be the last in the store, even if a scan has read the file before, because the merge uses
                // the later of two pods with the same UID.
                self.drop_pod(&pod.identity);
                self.store_pod(pod);
                FileScan { set: Some(self.store.clone()), ..FileScan::default() }
            }
            None => FileScan { refused: refused(&report).into_iter().collect(), ..FileScan::default() },
        }
    }

    /// Handles an inotify event that `path` was removed or renamed.
    pub fn removed(&mut self, path: &Path) -> FileScan {
        let Some(pod) = self.pods_by_path.get(path).cloned() else { return FileScan::default() };
        if !self.drop_pod(&pod) {
            return FileScan::default();
        }
        self.pods_by_path.remove(path);
        FileScan { set: Some(self.store.clone()), ..FileScan::default() }
    }

    /// Removes a pod from the store. Returns whether the pod was there.
    fn drop_pod(&mut self, pod: &PodIdentity) -> bool {
        let Some(index) = self.indexes.remove(pod) else { return false };
        self.store.remove(index);
        for later in self.indexes.values_mut().filter(|later| **later > index) {
            *later -= 1;
        }
        true
    }

    /// Stores a pod, or replaces the pod with the same namespace and name.
    fn store_pod(&mut self, pod: WantedPod) {
        let index = *self.indexes.entry(pod.identity.clone()).or_insert(self.store.len());
        match self.store.get_mut(index) {
            Some(stored) => *stored = Arc::new(pod),
            None => self.store.push(Arc::new(pod)),
        }
    }

    /// Returns the pod of a file, and notes which pod the file contains.
    fn remember(&mut self, file: &FileReport) -> Option<WantedPod> {
        let pod = WantedPod::of_file(file)?;
        self.pods_by_path.insert(file.path.clone(), pod.identity.clone());
        self.objects += 1;
        Some(WantedPod { object: Some(self.objects), ..pod })
    }
}

/// Returns the file with the kubelet's reason, if the kubelet rejects the file.
fn refused(file: &FileReport) -> Option<RefusedFile> {
    let reason = file.kubelet_reason.clone().filter(|_| file.verdict == FileVerdict::Rejected)?;
    Some(RefusedFile { path: file.path.clone(), reason })
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;
    use crate::podconfig::{Op, PodConfig, PodSource};
    use plegctl_node::kubelet::KubeletVersion;

    fn manifest(name: &str, uid: &str, image: &str) -> String {
        format!(
            "{{\"apiVersion\": \"v1\", \"kind\": \"Pod\", \"metadata\": {{\"name\": \"{name}\", \"uid\": \"{uid}\"}}, \
             \"spec\": {{\"containers\": [{{\"name\": \"main\", \"image\": \"{image}\"}}]}}}}"
        )
    }

    #[test]
    fn a_new_file_makes_the_same_updates_whether_an_event_or_a_scan_finds_it_first() {
        let directory = std::env::temp_dir().join(format!("plegctl-file-source-{}", std::process::id()));
        for scan_comes_first in [false, true] {
            fs::create_dir_all(&directory).unwrap();
            let write = |file: &str, text: String| fs::write(directory.join(file), text).unwrap();
            write("web.yaml", manifest("web", "fixed", "app:1"));
            // This file and etcd.yaml below define a pod with the same name. In a scan, this file is the later one.
            write("web.yaml.bak", manifest("etcd", "other", "app:2"));
            let kubelet = Kubelet::new(KubeletVersion::NEWEST_WITH_UIDS, "n1");
            let mut source = FileSource::new(&directory, kubelet);
            let mut config = PodConfig::new([PodSource::File]);
            let mut updates = |scan: FileScan| -> Vec<(Op, usize)> {
                let updates = config.set(PodSource::File, scan.set.unwrap_or_default());
                updates.iter().map(|update| (update.op, update.pods.len())).collect()
            };
            assert_eq!(updates(source.scan()), [(Op::Add, 2)]);
            write("etcd.yaml", manifest("etcd", "fixed", "app:3"));
            if scan_comes_first {
                assert_eq!(updates(source.scan()), []);
            }
            let event = source.changed(&directory.join("etcd.yaml"));
            assert_eq!(updates(event), [(Op::Remove, 1), (Op::Update, 1)], "{scan_comes_first}");
            assert_eq!(updates(source.scan()), [(Op::Add, 1), (Op::Update, 1)], "{scan_comes_first}");
            fs::remove_dir_all(&directory).unwrap();
        }
    }
}
