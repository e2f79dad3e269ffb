//! Checks whether the host paths that a pod mounts exist on this node and have the type that the volume names (SP087).
//! The caller runs these checks only for the files of this node.

use std::os::unix::fs::FileTypeExt;
use std::path::PathBuf;
use std::time::Duration;
use std::{fs, io};

use crate::{FileReport, LintFinding, Position};
use plegctl_base::report::Places;
use plegctl_base::threads;
use plegctl_node::host::HostRoot;

/// The time limit for each path. A system call on a path below a dead network mount never returns.
const TIME_LIMIT: Duration = Duration::from_secs(2);

/// Adds findings to all files. After the first path that exceeds the time limit, no further path is checked.
pub fn check(files: &mut [FileReport], host: &HostRoot) {
    let mounted: Vec<(usize, MountedPath)> = files
        .iter()
        .enumerate()
        .flat_map(|(index, file)| mounted_paths(file).into_iter().map(move |mounted| (index, mounted)))
        .collect();
    for (index, mounted) in mounted {
        let (path, volume_type) = (host.path(&mounted.path), mounted.volume_type.clone());
        // A thread reads the path, because a dead network mount would block the command without a limit.
        let looked = threads::with_time_limit(TIME_LIMIT, move || problem(&path, &volume_type));
        let Ok(problem) = looked else { return };
        if let (Some(problem), Some(file)) = (problem, files.get_mut(index)) {
            file.findings.push(mounted.finding(&problem));
        }
    }
}

/// A host path that a volume mounts.
struct MountedPath {
    path: String,
    /// The type of the `hostPath`, such as `Directory`; may be empty.
    volume_type: String,
    /// The field that names the path, and its position.
    field: (String, Position),
}

impl MountedPath {
    fn finding(self, problem: &str) -> LintFinding {
        let consequence = if self.volume_type.is_empty() {
            "the runtime may create an empty directory there"
        } else {
            "the pod does not start"
        };
        let places: &Places<'_> =
            &[("path", &self.path), ("problem", &problem), ("consequence", &consequence)];
        LintFinding::of("host-path-missing", places).on_field(self.field.0).at(self.field.1)
    }
}

fn mounted_paths(file: &FileReport) -> Vec<MountedPath> {
    let Some(root) = file.decoded_root() else { return Vec::new() };
    let volumes = root.get("spec").get("volumes").items();
    let host_paths = volumes.iter().map(|volume| volume.get("hostPath"));
    host_paths
        .filter(|host_path| host_path.get("path").str().starts_with('/'))
        .map(|host_path| {
            let path = host_path.get("path");
            MountedPath {
                path: path.str().to_owned(),
                volume_type: host_path.get("type").str().to_owned(),
                field: (path.path().to_owned(), path.position()),
            }
        })
        .collect()
}

/// Returns what is wrong with a path: it does not exist, cannot be read, or has another type than the `hostPath` names.
fn problem(path: &PathBuf, volume_type: &str) -> Option<String> {
    let meta = match fs::metadata(path) {
        Ok(meta) => meta,
        Err(why) if why.kind() == io::ErrorKind::NotFound => {
            return (!volume_type.ends_with("OrCreate")).then(|| "does not exist".to_owned());
        }
        Err(why) => return Some(format!("cannot be read ({why})")),
    };
    let found = meta.file_type();
    let has_type = match volume_type {
        "Directory" | "DirectoryOrCreate" => found.is_dir(),
        "File" | "FileOrCreate" => found.is_file(),
        "Socket" => found.is_socket(),
        "CharDevice" => found.is_char_device(),
        "BlockDevice" => found.is_block_device(),
        _ => true,
    };
    (!has_type).then(|| format!("is not a {}", volume_type.trim_end_matches("OrCreate")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sp087_compares_the_path_with_each_type_of_host_path() {
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
