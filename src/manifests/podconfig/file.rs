//! The file source: a directory or a file, its store, and what inotify says between two scans
//! (pkg/kubelet/config/file.go and `file_linux.go`).
//!
//! What the kubelet's code does by accident is kept: removing one of two files of a pod removes the pod until the next
//! scan, and a scan that finds nothing leaves the store as it was, so that a later event can bring old entries back.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::Wanted;
use crate::manifests::{FileReport, Kubelet, PathKind, PodIdentity, Verdict, each_file, inspect_file};

/// A file that holds no pod which the kubelet would run, and why.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refused {
    /// The file.
    pub path: PathBuf,
    /// The kubelet's words.
    pub reason: String,
}

/// What a look at the path, or at one file of it, comes to.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Scan {
    /// The whole set, if the source sends one.
    pub set: Option<Vec<Arc<Wanted>>>,
    /// Files that were not taken.
    pub refused: Vec<Refused>,
    /// What is wrong with the path itself.
    pub error: Option<String>,
}

/// The path that `staticPodPath` names.
#[derive(Debug)]
pub struct FileSource {
    path: PathBuf,
    kubelet: Kubelet,
    /// In the order in which the pods came. The kubelet's own is that of a Go map: none.
    store: Vec<Arc<Wanted>>,
    /// Where in the store each pod is.
    places: HashMap<PodIdentity, usize>,
    /// The pod that each file was last seen to hold.
    pods_of: HashMap<PathBuf, PodIdentity>,
    /// How many pods were read.
    objects: u64,
}

impl FileSource {
    /// A path that has not been looked at.
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

    /// A whole look at the path, as every fileCheckFrequency.
    pub fn scan(&mut self) -> Scan {
        let mut scan = Scan::default();
        let mut pods: Vec<Wanted> = Vec::new();
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
            // A single file that cannot be read as a pod sends nothing; a directory without pods does.
            PathKind::File if pods.is_empty() => {}
            PathKind::Directory if pods.is_empty() => scan.set = Some(Vec::new()),
            PathKind::File | PathKind::Directory => {
                // In the order of the files: the later file of a pod wins.
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

    /// inotify saw `path` made or changed.
    pub fn changed(&mut self, path: &Path) -> Scan {
        let report = inspect_file(path, &self.kubelet);
        match self.remember(&report) {
            Some(pod) => {
                // The newest comes last, whether a scan has seen the file before: of two pods with one UID the later counts.
                self.drop_pod(&pod.identity);
                self.keep(pod);
                Scan { set: Some(self.stored()), ..Scan::default() }
            }
            None => Scan { refused: refused(&report).into_iter().collect(), ..Scan::default() },
        }
    }

    /// inotify saw `path` removed, or renamed to somewhere.
    pub fn removed(&mut self, path: &Path) -> Scan {
        let Some(pod) = self.pods_of.get(path).cloned() else { return Scan::default() };
        if !self.drop_pod(&pod) {
            return Scan::default();
        }
        self.pods_of.remove(path);
        Scan { set: Some(self.stored()), ..Scan::default() }
    }

    /// Takes a pod out of the store; whether it was there.
    fn drop_pod(&mut self, pod: &PodIdentity) -> bool {
        let Some(place) = self.places.remove(pod) else { return false };
        self.store.remove(place);
        for later in self.places.values_mut().filter(|later| **later > place) {
            *later -= 1;
        }
        true
    }

    fn stored(&self) -> Vec<Arc<Wanted>> {
        self.store.clone()
    }

    /// In place of what was there under the same namespace and name.
    fn keep(&mut self, pod: Wanted) {
        let place = *self.places.entry(pod.identity.clone()).or_insert(self.store.len());
        match self.store.get_mut(place) {
            Some(stored) => *stored = Arc::new(pod),
            None => self.store.push(Arc::new(pod)),
        }
    }

    fn remember(&mut self, file: &FileReport) -> Option<Wanted> {
        let pod = Wanted::of_file(file)?;
        self.pods_of.insert(file.path.clone(), pod.identity.clone());
        self.objects += 1;
        Some(Wanted { object: Some(self.objects), ..pod })
    }
}

fn refused(file: &FileReport) -> Option<Refused> {
    let reason = file.kubelet_reason.clone().filter(|_| file.verdict == Verdict::Rejected)?;
    Some(Refused { path: file.path.clone(), reason })
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;
    use crate::kubelet::KubeletVersion;
    use crate::manifests::podconfig::{Op, PodConfig, Source};

    fn manifest(name: &str, uid: &str, image: &str) -> String {
        format!(
            "{{\"apiVersion\": \"v1\", \"kind\": \"Pod\", \"metadata\": {{\"name\": \"{name}\", \"uid\": \"{uid}\"}}, \
             \"spec\": {{\"containers\": [{{\"name\": \"main\", \"image\": \"{image}\"}}]}}}}"
        )
    }

    #[test]
    fn renamed_file_is_the_same_news_whether_a_scan_saw_it_before_its_event() {
        let directory = std::env::temp_dir().join(format!("plegctl-file-source-{}", std::process::id()));
        for scan_comes_first in [false, true] {
            fs::create_dir_all(&directory).unwrap();
            let write = |file: &str, text: String| fs::write(directory.join(file), text).unwrap();
            write("web.yaml", manifest("web", "fixed", "app:1"));
            // It has the name of the pod of etcd.yaml, and comes after it in each scan.
            write("web.yaml.bak", manifest("etcd", "other", "app:2"));
            let kubelet = Kubelet::new(KubeletVersion::NEWEST, "n1");
            let mut source = FileSource::new(&directory, kubelet);
            let mut config = PodConfig::new([Source::File]);
            let mut news = |scan: Scan| -> Vec<(Op, usize)> {
                let updates = config.set(Source::File, scan.set.unwrap_or_default());
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
