//! Finds the pod and the container of a cgroup path.

/// The container id in a path component such as `cri-containerd-<id>.scope`, `crio-<id>.scope` or `<id>`: 64 hex
/// digits.
pub fn container_id(component: &str) -> Option<&str> {
    const DIGITS: usize = 64;
    let stem = component.strip_suffix(".scope").unwrap_or(component);
    // Start at the end: a node has thousands of paths, and few of them end in an id.
    let (front, id) = stem.split_at_checked(stem.len().checked_sub(DIGITS)?)?;
    // systemd-style cgroups of containerd write `<slice>:cri-containerd:<id>`.
    let apart = matches!(front.as_bytes().last(), None | Some(b'-' | b':'));
    (apart && id.bytes().all(|byte| byte.is_ascii_hexdigit())).then_some(id)
}

/// The pod UID in a component such as `pod<uid>` or `kubepods-burstable-pod<uid with underscores>.slice`.
fn pod_uid(component: &str) -> Option<String> {
    let stem = component.strip_suffix(".slice").unwrap_or(component);
    let start = match stem.rfind("-pod") {
        Some(at) => at + 4,
        None if stem.starts_with("pod") => 3,
        None => return None,
    };
    let uid = stem.get(start..)?.replace('_', "-");
    (!uid.is_empty()).then_some(uid)
}

/// The most specific path in a `/proc/<pid>/cgroup` file, preferably one with a container id, and that id.
pub fn path_of(text: &str) -> (&str, Option<&str>) {
    let mut best = ("", None);
    for path in text.lines().filter_map(|line| line.splitn(3, ':').nth(2)) {
        // In most hierarchies, a process has the same path.
        if path != best.0 {
            let id = path.rsplit('/').find_map(container_id);
            if (id.is_some(), path.len()) >= (best.1.is_some(), best.0.len()) {
                best = (path, id);
            }
        }
    }
    best
}

/// The container id in a `/proc/<pid>/cgroup` file.
pub fn id_of(text: &str) -> Option<String> {
    path_of(text).1.map(str::to_owned)
}

/// The pod UID in a cgroup path.
pub fn pod_uid_of(path: &str) -> Option<String> {
    path.rsplit('/').find_map(pod_uid)
}

#[cfg(test)]
mod tests {
    use super::*;

    const ID: &str = "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef";

    #[test]
    fn every_spelling_of_a_container_cgroup_gives_its_id() {
        for component in [
            ID.to_owned(),
            format!("cri-containerd-{ID}.scope"),
            format!("crio-{ID}.scope"),
            format!("kubepods-pod1.slice:cri-containerd:{ID}"),
        ] {
            assert_eq!(container_id(&component), Some(ID), "{component}");
        }
        assert_eq!(container_id("user.slice"), None);
        assert_eq!(container_id(&ID[1..]), None);
    }

    #[test]
    fn the_pod_uid_is_read_from_both_drivers() {
        assert_eq!(
            pod_uid_of("/kubepods.slice/kubepods-burstable.slice/kubepods-burstable-pod1234_5.slice/x.scope"),
            Some("1234-5".into())
        );
        assert_eq!(pod_uid_of("/kubepods/besteffort/pod1234-5/abc"), Some("1234-5".into()));
        assert_eq!(pod_uid_of("/user.slice"), None);
    }

    #[test]
    fn of_many_hierarchies_the_one_with_the_id_wins() {
        let text = format!(
            "12:pids:/kubepods/podx/{ID}\n1:name=systemd:/a/very/long/path/that/says/nothing/at/all/{}\n0::/\n",
            "x".repeat(80)
        );
        assert_eq!(id_of(&text).as_deref(), Some(ID));
        assert_eq!(id_of("0::/\n"), None);
    }
}
