//! The file source: a directory or a file, its store of pods, and inotify events between two scans
//! (pkg/kubelet/config/file.go and `file_linux.go`).
//!
//! Two accidental effects of the kubelet's code are reproduced. Removing one of two files of a pod removes the pod
//! until the next scan. A scan that finds nothing leaves the store unchanged, so that a later event can bring old pods
//! back.
//! scan, and a scan that finds nothing leaves the store as it was, so that a later event can bring old entries back.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::WantedPod;
use crate::manifests::{FileReport, FileVerdict, Kubelet, PathKind, PodIdentity, each_file, inspect_file};

/// A file without a pod that the kubelet would run, and the reason.
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
    /// The complete set of pods, if the source sends one.
    pub set: Option<Vec<Arc<WantedPod>>>,
    /// Files that the kubelet rejects.
    pub refused: Vec<RefusedFile>,
    /// The error of the path itself.
    pub error: Option<String>,
}

/// The source that `staticPodPath` names.
#[derive(Debug)]
pub struct FileSource {
    path: PathBuf,
    kubelet: Kubelet,
    /// The pods in the order in which they were read. The kubelet's order is that of a Go map, which is not defined.
    store: Vec<Arc<WantedPod>>,
    /// The index of each pod in the store.
    places: HashMap<PodIdentity, usize>,
    /// The pod that each file contained when it was last read.
    pods_of: HashMap<PathBuf, PodIdentity>,
    /// The number of pods read so far.
    objects: u64,
}

impl FileSource {
    /// Creates a source that has not read its path yet.
    pub fn new(path: impl Into<PathBuf>, kubelet: Kubelet) -> Self {
        Self {
            path: path.into(),
            kubelet,
            store: Vec::new(),
            places: HashMap::new(),
            pods_of: HashMap::new(),
            objects: 0,
        }
    }

    /// The path.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Scans the whole path, as the kubelet does every fileCheckFrequency.
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
            // A single file that is not a pod sends no set; a directory without pods sends an empty one.
            PathKind::File if pods.is_empty() => {}
            PathKind::Directory if pods.is_empty() => scan.set = Some(Vec::new()),
            PathKind::File | PathKind::Directory => {
                // In the order of the files: of two files of the same pod the later wins.
                self.store.clear();
                self.places.clear();
                for pod in pods {
                    self.keep(pod);
                }
                scan.set = Some(self.stored());
            }
        }
        scan
    }

    /// Handles an inotify event that `path` was created or changed.
    pub fn changed(&mut self, path: &Path) -> FileScan {
        let report = inspect_file(path, &self.kubelet);
        match self.remember(&report) {
            Some(pod) => {
                // The newest pod goes last, even if a scan has read the file before: of two pods with one UID the later
                // counts.
                self.drop_pod(&pod.identity);
                self.keep(pod);
                FileScan { set: Some(self.stored()), ..FileScan::default() }
            }
            None => FileScan { refused: refused(&report).into_iter().collect(), ..FileScan::default() },
        }
    }

    /// Handles an inotify event that `path` was removed or renamed.
    pub fn removed(&mut self, path: &Path) -> FileScan {
        let Some(pod) = self.pods_of.get(path).cloned() else { return FileScan::default() };
        if !self.drop_pod(&pod) {
            return FileScan::default();
        }
        self.pods_of.remove(path);
        FileScan { set: Some(self.stored()), ..FileScan::default() }
    }

    /// Removes a pod from the store. Returns whether the pod was there.
    fn drop_pod(&mut self, pod: &PodIdentity) -> bool {
        let Some(place) = self.places.remove(pod) else { return false };
        self.store.remove(place);
        for later in self.places.values_mut().filter(|later| **later > place) {
            *later -= 1;
        }
        true
    }

    fn stored(&self) -> Vec<Arc<WantedPod>> {
        self.store.clone()
    }

    /// Stores a pod in place of the pod with the same namespace and name.
    fn keep(&mut self, pod: WantedPod) {
        let place = *self.places.entry(pod.identity.clone()).or_insert(self.store.len());
        match self.store.get_mut(place) {
            Some(stored) => *stored = Arc::new(pod),
            None => self.store.push(Arc::new(pod)),
        }
    }

    fn remember(&mut self, file: &FileReport) -> Option<WantedPod> {
        let pod = WantedPod::of_file(file)?;
        self.pods_of.insert(file.path.clone(), pod.identity.clone());
        self.objects += 1;
        Some(WantedPod { object: Some(self.objects), ..pod })
    }
}

fn refused(file: &FileReport) -> Option<RefusedFile> {
    let reason = file.kubelet_reason.clone().filter(|_| file.verdict == FileVerdict::Rejected)?;
    Some(RefusedFile { path: file.path.clone(), reason })
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;
    use crate::kubelet::KubeletVersion;
    use crate::manifests::podconfig::{Op, PodConfig, PodSource};

    fn manifest(name: &str, uid: &str, image: &str) -> String {
        format!(
            "{{\"apiVersion\": \"v1\", \"kind\": \"Pod\", \"metadata\": {{\"name\": \"{name}\", \"uid\": \"{uid}\"}}, \
             \"spec\": {{\"containers\": [{{\"name\": \"main\", \"image\": \"{image}\"}}]}}}}"
        )
    }

    #[test]
    fn a_renamed_file_gives_the_same_set_before_and_after_a_scan() {
        let directory = std::env::temp_dir().join(format!("plegctl-file-source-{}", std::process::id()));
        for scan_comes_first in [false, true] {
            fs::create_dir_all(&directory).unwrap();
            let write = |file: &str, text: String| fs::write(directory.join(file), text).unwrap();
            write("web.yaml", manifest("web", "fixed", "app:1"));
            // This file has the name of the pod of etcd.yaml, and comes after etcd.yaml in each scan.
            write("web.yaml.bak", manifest("etcd", "other", "app:2"));
            let kubelet = Kubelet::new(KubeletVersion::NEWEST, "n1");
            let mut source = FileSource::new(&directory, kubelet);
            let mut config = PodConfig::new([PodSource::File]);
            let mut news = |scan: FileScan| -> Vec<(Op, usize)> {
                let updates = config.set(PodSource::File, scan.set.unwrap_or_default());
                updates.iter().map(|update| (update.op, update.pods.len())).collect()
            };
            assert_eq!(news(source.scan()), [(Op::Add, 2)]);
            write("etcd.yaml", manifest("etcd", "fixed", "app:3"));
            if scan_comes_first {
                assert_eq!(news(source.scan()), []);
            }
            let event = source.changed(&directory.join("etcd.yaml"));
            assert_eq!(news(event), [(Op::Remove, 1), (Op::Update, 1)], "{scan_comes_first}");
            assert_eq!(news(source.scan()), [(Op::Add, 1), (Op::Update, 1)], "{scan_comes_first}");
            fs::remove_dir_all(&directory).unwrap();
        }
    }
}
