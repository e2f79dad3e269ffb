//! Checks whether the host paths that a pod mounts exist and have their type (SP087). The caller does this only for the
//! files of this node.

use std::os::unix::fs::FileTypeExt;
use std::path::PathBuf;
use std::sync::mpsc;
use std::thread;
use std::time::Duration;
use std::{fs, io};

use crate::host::HostRoot;
use crate::manifests::Check;
use crate::manifests::{FileReport, LintFinding, PodField};

/// The time limit for each path. A path below a dead network mount never answers.
const TIME_LIMIT: Duration = Duration::from_secs(2);

pub fn check(files: &mut [FileReport], host: &HostRoot) {
    let wanted: Vec<(usize, MountedPath)> = files
        .iter()
        .enumerate()
        .flat_map(|(index, file)| volumes(file).into_iter().map(move |wanted| (index, wanted)))
        .collect();
    let (sender, answers) = mpsc::channel();
    let questions: Vec<(PathBuf, String)> =
        wanted.iter().map(|(_, wanted)| (host.path(&wanted.path), wanted.kind.clone())).collect();
    let ask = move || {
        for (path, kind) in questions {
            // The receiver is gone after the time limit.
            if sender.send(problem(&path, &kind)).is_err() {
                return;
            }
        }
    };
    // Without a thread, a path that never answers would block without a limit.
    if thread::Builder::new().name("paths".into()).spawn(ask).is_err() {
        return;
    }
    for (index, wanted) in wanted {
        let Ok(answer) = answers.recv_timeout(TIME_LIMIT) else { return };
        if let (Some(problem), Some(file)) = (answer, files.get_mut(index)) {
            file.findings.push(wanted.finding(&problem));
        }
    }
}

struct MountedPath {
    path: String,
    kind: String,
    finding: LintFinding,
}

impl MountedPath {
    fn finding(self, problem: &str) -> LintFinding {
        let what = if self.kind.is_empty() {
            "the runtime may make an empty directory there"
        } else {
            "the pod does not start"
        };
        LintFinding {
            message: format!("the hostPath {} {problem} on this node: {what}", self.path),
            ..self.finding
        }
    }
}

fn volumes(file: &FileReport) -> Vec<MountedPath> {
    let Some(pod) = file.document.as_ref().and_then(|document| document.pod.as_ref()) else {
        return Vec::new();
    };
    let volumes = PodField::root(&pod.pod).get("spec").get("volumes").items();
    let host_paths = volumes.iter().map(|volume| volume.get("hostPath"));
    host_paths
        .filter(|host_path| host_path.get("path").str().starts_with('/'))
        .map(|host_path| {
            let path = host_path.get("path");
            MountedPath {
                path: path.str().to_owned(),
                kind: host_path.get("type").str().to_owned(),
                finding: LintFinding::warning(Check::HostPathMissing, "")
                    .with_fix(
                        "create it, or set the type to DirectoryOrCreate or FileOrCreate; if it exists, correct \
                         the path or the type",
                    )
                    .on_field(path.path())
                    .at(path.position()),
            }
        })
        .collect()
}

/// Returns why a path does not exist or is not of the `hostPath` type.
fn problem(path: &PathBuf, kind: &str) -> Option<String> {
    let meta = match fs::metadata(path) {
        Ok(meta) => meta,
        Err(why) if why.kind() == io::ErrorKind::NotFound => {
            return (!kind.ends_with("OrCreate")).then(|| "does not exist".to_owned());
        }
        Err(why) => return Some(format!("cannot be looked at ({why})")),
    };
    let found = meta.file_type();
    let has_type = match kind {
        "Directory" | "DirectoryOrCreate" => found.is_dir(),
        "File" | "FileOrCreate" => found.is_file(),
        "Socket" => found.is_socket(),
        "CharDevice" => found.is_char_device(),
        "BlockDevice" => found.is_block_device(),
        _ => true,
    };
    (!has_type).then(|| format!("is not of the type {}", kind.trim_end_matches("OrCreate")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sp087_knows_each_type() {
        let directory = PathBuf::from("/dev");
        let missing = PathBuf::from("/nowhere/at/all");
        for kind in ["", "Directory", "DirectoryOrCreate"] {
            assert_eq!(problem(&directory, kind), None, "{kind}");
        }
        for kind in ["File", "FileOrCreate", "Socket", "BlockDevice"] {
            assert!(problem(&directory, kind).is_some(), "{kind}");
        }
        assert_eq!(problem(&PathBuf::from("/dev/null"), "CharDevice"), None);
        assert!(problem(&missing, "").is_some());
        assert_eq!(problem(&missing, "DirectoryOrCreate"), None);
    }
}
