//! Finds the pod UID and the container id in a cgroup path.

/// Returns the container id, 64 hex digits, in a path component such as `cri-containerd-<id>.scope`,
/// `crio-<id>.scope` or `<id>`.
pub fn container_id(component: &str) -> Option<&str> {
    const DIGITS: usize = 64;
    let stem = component.strip_suffix(".scope").unwrap_or(component);
    // A node has thousands of paths, and few of them end in an id, so the end is checked first.
    let (front, id) = stem.split_at_checked(stem.len().checked_sub(DIGITS)?)?;
    // systemd-style cgroups of containerd write `<slice>:cri-containerd:<id>`.
    let is_separated = matches!(front.as_bytes().last(), None | Some(b'-' | b':'));
    (is_separated && id.bytes().all(|byte| byte.is_ascii_hexdigit())).then_some(id)
}

/// Returns the pod UID in a component such as `pod<uid>` or `kubepods-burstable-pod<uid with underscores>.slice`.
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

/// Returns the longest path in a `/proc/<pid>/cgroup` file, preferably a path with a container id, and that id.
pub fn path_of(text: &str) -> (&str, Option<&str>) {
    let mut best = ("", None);
    for path in text.lines().filter_map(|line| line.splitn(3, ':').nth(2)) {
        // Most hierarchies have the same path, which need not be parsed again.
        if path != best.0 {
            let id = path_id(path);
            if (id.is_some(), path.len()) >= (best.1.is_some(), best.0.len()) {
                best = (path, id);
            }
        }
    }
    best
}

/// Returns the container id in a cgroup path.
pub fn path_id(path: &str) -> Option<&str> {
    path.rsplit('/').find_map(container_id)
}

/// Returns the path in the hierarchy of a controller: in cgroup v1 its own, whose paths may differ from those of the others, in
/// cgroup v2 the only one.
pub fn path_in<'a>(text: &'a str, controller: &str) -> &'a str {
    let mut unified = "";
    for line in text.lines() {
        let mut parts = line.splitn(3, ':').skip(1);
        let (Some(controllers), Some(path)) = (parts.next(), parts.next()) else { continue };
        if controllers.split(',').any(|one| one == controller) {
            return path;
        }
        if controllers.is_empty() {
            unified = path;
        }
    }
    unified
}

/// Returns the container id in a `/proc/<pid>/cgroup` file.
pub fn id_of(text: &str) -> Option<String> {
    path_of(text).1.map(str::to_owned)
}

/// Returns the pod UID in a cgroup path.
pub fn pod_uid_of(path: &str) -> Option<String> {
    path.rsplit('/').find_map(pod_uid)
}

#[cfg(test)]
mod tests {
    use super::*;

    const ID: &str = "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef";

    #[test]
    fn the_container_id_is_found_in_the_cgroup_names_of_all_runtimes() {
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
    fn the_pod_uid_is_found_with_both_cgroup_drivers() {
        assert_eq!(
            pod_uid_of("/kubepods.slice/kubepods-burstable.slice/kubepods-burstable-pod1234_5.slice/x.scope"),
            Some("1234-5".into())
        );
        assert_eq!(pod_uid_of("/kubepods/besteffort/pod1234-5/abc"), Some("1234-5".into()));
        assert_eq!(pod_uid_of("/user.slice"), None);
    }

    #[test]
    fn the_cpu_controller_may_have_a_hierarchy_of_its_own() {
        let v1 = "4:memory:/a/long/path\n2:cpu,cpuacct:/limited\n0::/\n";
        assert_eq!((path_in(v1, "cpu"), path_of(v1).0), ("/limited", "/a/long/path"));
        assert_eq!(path_in("0::/system.slice/crio.service\n", "cpu"), "/system.slice/crio.service");
        assert_eq!(path_in("", "cpu"), "");
    }

    #[test]
    fn among_several_hierarchies_the_path_with_a_container_id_is_preferred() {
        let text = format!(
            "12:pids:/kubepods/podx/{ID}\n1:name=systemd:/a/very/long/path/that/says/nothing/at/all/{}\n0::/\n",
            "x".repeat(80)
        );
        assert_eq!(id_of(&text).as_deref(), Some(ID));
        assert_eq!(id_of("0::/\n"), None);
    }
}
