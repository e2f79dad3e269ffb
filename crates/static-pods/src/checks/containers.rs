//! Checks of images, probes, environment and volumes: SP081, SP082, SP086, SP088, SP091, SP093 and SP094. `validate`
//! finds the errors for which the kubelet rejects a file.

use std::collections::HashSet;

use crate::{FileReport, LintFinding, PodField, image_name};

/// Adds findings to a file with a decoded Pod.
pub fn check(file: &mut FileReport) {
    let Some(document) = &file.document else { return };
    let Some(pod) = &document.pod else { return };
    let written = document.root.as_ref().map(PodField::root);
    let spec = PodField::root(&pod.pod).get("spec");
    let mut findings = Vec::new();
    for container in containers(&spec) {
        check_image(&container, &mut findings);
        check_probes(&container, &mut findings);
        check_environment(&container, &mut findings);
    }
    if let Some(written) = written {
        check_volumes(&spec, &written.get("spec"), &mut findings);
    }
    let metadata = PodField::root(&pod.pod).get("metadata");
    findings.extend(check_control_plane(&spec, &metadata));
    file.findings.extend(findings);
}

/// Returns the init containers, then the regular containers.
pub fn containers<'a>(spec: &PodField<'a>) -> impl Iterator<Item = PodField<'a>> + use<'a> {
    spec.get("initContainers").items().into_iter().chain(spec.get("containers").items())
}

/// Reports an image that may change between two starts of the container, and a pinned image that is pulled at each
/// start.
fn check_image(container: &PodField<'_>, findings: &mut Vec<LintFinding>) {
    let at = container.get("image");
    let image = at.str();
    let Some(tag) = image_name::tag(image) else { return };
    let may_change = !image.contains('@') && tag == "latest";
    if may_change {
        let what = if image.ends_with(":latest") { "has the tag latest" } else { "has no tag" };
        findings.push(LintFinding::of("moving-tag", &[("image", &image), ("what", &what)]).about(&at));
    }
    let policy = container.get("imagePullPolicy");
    if policy.str() == "Always" && !may_change {
        findings.push(LintFinding::of("always-pulled", &[]).about(&policy));
    }
}

/// Reports probes of a port that the container does not have.
fn check_probes(container: &PodField<'_>, findings: &mut Vec<LintFinding>) {
    let ports: HashSet<&str> =
        container.get("ports").items().iter().map(|port| port.get("name").str()).collect();
    for probe in ["startupProbe", "livenessProbe", "readinessProbe"] {
        let probe = container.get(probe);
        for handler in ["httpGet", "tcpSocket"] {
            let port = probe.get(handler).get("port");
            let Some(name) = port.opt_str().filter(|name| !name.is_empty()) else { continue };
            if !ports.contains(name) && !name.bytes().all(|byte| byte.is_ascii_digit()) {
                findings.push(LintFinding::of("no-port-of-name", &[("name", &name)]).about(&port));
            }
        }
    }
}

/// Reports a variable that a container sets more than once.
fn check_environment(container: &PodField<'_>, findings: &mut Vec<LintFinding>) {
    let mut seen = HashSet::new();
    for variable in container.get("env").items() {
        let name = variable.get("name");
        if !name.is_empty() && !seen.insert(name.str()) {
            findings.push(LintFinding::of("env-twice", &[("name", &name.str())]).about(&name));
        }
    }
}

/// Reports volumes without a known source, and unused volumes.
///
/// `written` is the spec before decoding. Only it shows whether a volume has a source, because the kubelet's defaults turn
/// a missing source into an empty directory.
fn check_volumes(spec: &PodField<'_>, written: &PodField<'_>, findings: &mut Vec<LintFinding>) {
    let used: HashSet<&str> = containers(spec)
        .flat_map(|container| {
            let mounts = container.get("volumeMounts").items().into_iter();
            let devices = container.get("volumeDevices").items().into_iter();
            mounts.chain(devices).map(|mount| mount.get("name").str()).collect::<Vec<_>>()
        })
        .collect();
    for (volume, written) in spec.get("volumes").items().iter().zip(written.get("volumes").items()) {
        let name = volume.get("name").str();
        if volume.get("emptyDir").is_set() && !written.get("emptyDir").is_set() {
            let other = written.entries().into_iter().find(|(entry, _)| &*entry.key != "name");
            let (at, fix) = match &other {
                Some((entry, at)) if entry.key.eq_ignore_ascii_case("hostpath") => {
                    (at, "did you mean `hostPath`?".to_owned())
                }
                Some((entry, at)) => (at, format!("correct `{}`: it is not a kind of volume", entry.key)),
                None => (volume, "give it a source, such as hostPath, or write `emptyDir: {}`".to_owned()),
            };
            let finding = LintFinding::of("no-source", &[("name", &name), ("fix", &fix)]).about(at);
            findings.push(finding.on_field(volume.path()));
        }
        if !name.is_empty() && !used.contains(name) {
            findings.push(LintFinding::of("unused-volume", &[("name", &name)]).about(volume));
        }
    }
}

/// Reports a control-plane pod without probes or without a cpu request.
fn check_control_plane(spec: &PodField<'_>, metadata: &PodField<'_>) -> Option<LintFinding> {
    if metadata.get("labels").key("tier").str() != "control-plane" {
        return None;
    }
    let containers = spec.get("containers").items();
    let has_probe = containers.iter().any(|container| {
        ["startupProbe", "livenessProbe", "readinessProbe"].iter().any(|probe| container.get(probe).is_set())
    });
    let has_cpu_request =
        containers.iter().any(|container| container.get("resources").get("requests").get("cpu").is_set());
    let missing = match (has_probe, has_cpu_request) {
        (true, true) => return None,
        (false, true) => "no probe",
        (true, false) => "no cpu request",
        (false, false) => "no probe and no cpu request",
    };
    let finding = LintFinding::of("no-probe-or-cpu-request", &[("missing", &missing)]);
    Some(finding.about(&spec.get("containers")))
}

#[cfg(test)]
mod tests {
    use crate::checks::testing::{NONE, found, in_container, in_metadata, in_spec, with};

    #[test]
    fn sp080_to_sp092_reject_the_pod() {
        for (fields, id) in [
            ("name: Web", 80),
            ("ports: [{containerPort: 0}]", 83),
            ("ports: [{containerPort: 1, hostPort: 9}, {containerPort: 2, hostPort: 9}]", 84),
            ("volumeMounts: [{name: a, mountPath: /a}]", 85),
            ("imagePullPolicy: always", 89),
            ("livenessProbe: {}", 90),
            ("resources: {requests: {cpu: 2}, limits: {cpu: 1}}", 92),
            ("terminationMessagePolicy: x", 89),
            ("securityContext: {seccompProfile: {type: Localhost}}", 95),
        ] {
            assert!(found(in_container(fields)).contains(&id), "{fields}: {:?}", found(in_container(fields)));
        }
    }

    #[test]
    fn sp081_reports_images_without_a_fixed_tag() {
        for unpinned in ["nginx", "nginx:latest", "localhost:5000/app"] {
            assert_eq!(found(with("registry.k8s.io/app:1.0", unpinned)), [81], "{unpinned}");
        }
        let digest = "0123456789abcdef".repeat(4);
        assert_eq!(found(with("registry.k8s.io/app:1.0", "nginx:1")), NONE);
        assert_eq!(found(with("registry.k8s.io/app:1.0", &format!("nginx@sha256:{digest}"))), NONE);
        // The kubelet pulls every image with the tag latest on each start.
        assert_eq!(found(with("registry.k8s.io/app:1.0", &format!("nginx:latest@sha256:{digest}"))), [82]);
    }

    #[test]
    fn sp082_reports_a_pinned_image_that_is_always_pulled() {
        assert_eq!(found(in_container("imagePullPolicy: Always")), [82]);
        assert_eq!(found(in_container("imagePullPolicy: IfNotPresent")), NONE);
    }

    #[test]
    fn sp086_reports_volumes_without_a_known_source() {
        let mounted = |volume: &str| {
            in_container("volumeMounts: [{name: v, mountPath: /v}]") + &format!("  volumes:\n  - {volume}\n")
        };
        assert_eq!(found(mounted("{name: v, hostpath: {path: /etc}}")), [53, 86]);
        assert_eq!(found(mounted("{name: v}")), [86]);
        assert_eq!(found(mounted("{name: v, emptyDir: {}}")), NONE);
        assert_eq!(found(mounted("{name: v, hostPath: {path: /etc}}")), NONE);
    }

    #[test]
    fn sp088_reports_relative_paths_and_unused_volumes() {
        assert_eq!(found(in_spec("volumes: [{name: v, hostPath: {path: /etc}}]")), [88]);
        let relative = in_container("volumeMounts: [{name: v, mountPath: v}]")
            + "  volumes: [{name: v, emptyDir: {}}]\n";
        assert_eq!(found(relative), [88]);
    }

    #[test]
    fn sp091_reports_probes_that_cannot_succeed() {
        let probed = |port: &str, path: &str| {
            in_container(&format!(
                "ports: [{{name: web, containerPort: 80}}]\nlivenessProbe: {{httpGet: {{port: {port}, path: {path}}}}}"
            ))
        };
        assert_eq!(found(probed("other", "/")), [91]);
        assert_eq!(found(probed("web", "healthz")), [91]);
        assert_eq!(found(probed("web", "/healthz")), NONE);
        assert_eq!(found(probed("81", "/")), NONE);
    }

    #[test]
    fn sp093_reports_control_plane_pods_without_probe_and_cpu_request() {
        let labelled = |fields: &str| in_metadata("labels: {tier: control-plane}") + fields;
        assert_eq!(found(labelled("")), [93]);
        let both = "    livenessProbe: {exec: {command: [a]}}\n    resources: {requests: {cpu: 100m}}\n";
        assert_eq!(found(labelled(both)), NONE);
    }

    #[test]
    fn sp094_reports_a_variable_that_is_set_twice() {
        assert_eq!(found(in_container("env: [{name: A, value: b}, {name: A, value: c}]")), [94]);
        assert_eq!(found(in_container("env: [{name: A, value: b}, {name: B, value: c}]")), NONE);
    }
}
