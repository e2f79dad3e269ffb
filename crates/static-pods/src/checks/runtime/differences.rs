//! Describes how a running pod differs from its file: containers, images, labels and annotations.

use super::hash::{SINCE_MINOR, container_hash};
use crate::PodField;
use crate::checks::containers::containers;
use crate::{RunningContainer, RunningPod};

/// How many differences a message lists; it only counts the rest.
const LISTED: usize = 3;

/// Joins the first differences for a message: `A; B; C; and 2 more`.
pub fn joined(mut differences: Vec<String>) -> String {
    let more = differences.len().saturating_sub(LISTED);
    differences.truncate(LISTED);
    let more = if more == 0 { String::new() } else { format!("; and {more} more") };
    format!("{}{more}", differences.join("; "))
}

/// The kubelet release that made the containers.
#[derive(Clone, Copy, Debug)]
pub struct CreatorRelease {
    /// Its minor version.
    pub minor: u8,
    /// Whether the user gave the release; if not, it is an assumption.
    pub is_given: bool,
}

/// Returns the containers of the running pod that the file does not have or that have another image: a description of
/// each, and their ids.
pub fn of_containers(
    newest: &RunningPod,
    root: &PodField<'_>,
    release: CreatorRelease,
) -> (Vec<String>, Vec<String>) {
    let in_file: Vec<PodField<'_>> = containers(&root.get("spec")).collect();
    let difference = |name: &String, latest: &RunningContainer| {
        let in_file = in_file.iter().find(|container| container.get("name").str() == name);
        match in_file {
            None => Some(format!("container {name} is in the running pod but not in the file")),
            Some(container) => of_image(name, latest, container.get("image").str(), release),
        }
    };
    let running = newest.containers.iter();
    running.filter_map(|(name, latest)| Some((difference(name, latest)?, latest.id.clone()))).unzip()
}

/// Describes the difference if a container runs another image than the file has. Compares the image name that the
/// kubelet gave to the runtime; if the runtime does not report that name, compares the kubelet's hash of the container.
fn of_image(
    name: &str,
    latest: &RunningContainer,
    file_image: &str,
    release: CreatorRelease,
) -> Option<String> {
    let RunningContainer { given_image, image: resolved_image, .. } = latest;
    if !given_image.is_empty() {
        return (given_image != file_image)
            .then(|| format!("container {name} runs {given_image}, but the file has {file_image}"));
    }
    let hash = latest.hash.as_ref()?;
    if release.minor < SINCE_MINOR || *hash == container_hash(name, file_image) {
        return None;
    }
    // If the release is only assumed, an older kubelet may have hashed more fields, so its hash counts only if the image
    // differs too.
    if !release.is_given && resolved_image == file_image {
        return None;
    }
    Some(format!(
        "the file has image {file_image} for container {name}, which was created from another image and runs \
         {resolved_image}"
    ))
}

/// Describes the labels and annotations of the file that the sandbox does not have or that have another value there.
pub fn of_metadata(newest: &RunningPod, root: &PodField<'_>) -> Vec<String> {
    let metadata = root.get("metadata");
    let mut differences = Vec::new();
    for (kind, field, running) in
        [("label", "labels", &newest.labels), ("annotation", "annotations", &newest.annotations)]
    {
        for (entry, value) in metadata.get(field).entries() {
            let key = &*entry.key;
            let is_kubelets = key.starts_with("io.kubernetes.") || key.starts_with("kubernetes.io/config.");
            if is_kubelets || running.get(key).is_some_and(|own| own == value.str()) {
                continue;
            }
            differences.push(match running.get(key) {
                Some(other) => {
                    format!("{kind} {key} is {other} in the running pod and {} in the file", value.str())
                }
                None => format!("{kind} {key} is in the file but not in the running pod"),
            });
        }
    }
    differences
}
