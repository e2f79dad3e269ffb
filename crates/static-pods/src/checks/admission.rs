//! Checks whether the kubelet really runs a pod that it has loaded: SP073 and SP074.
//!
//! After loading a pod, the kubelet decides about its admission and may refuse it (SP073); and the containers of an
//! admitted pod cannot always be created (SP074). The verdict on the file shows neither. These checks know the file, the
//! kubelet's settings and this node, but not the other pods of the node.

use std::fs;
use std::path::Path;

use super::CheckContext;
use super::containers::containers;
use crate::image_name::tag;
use crate::pod_resources;
use crate::sysctl::dotted;
use crate::{FileReport, FileVerdict, KubeletVersion, LintFinding, PodField};
use plegctl_base::report::Places;
use plegctl_node::host::proc::Memory;
use plegctl_node::host::{HostRoot, kernel_text};

/// The kubelet's root directory if no flag sets another one.
const ROOT_DIRECTORY: &str = "/var/lib/kubelet";

/// The sysctls that a pod may set without kubelet configuration, and the first release of each
/// (`pkg/kubelet/sysctl/safe_sysctls.go`).
const SAFE_SYSCTLS: &[(&str, u8)] = &[
    ("kernel.shm_rmid_forced", 28),
    ("net.ipv4.ip_local_port_range", 28),
    ("net.ipv4.tcp_syncookies", 28),
    ("net.ipv4.ping_group_range", 28),
    ("net.ipv4.ip_unprivileged_port_start", 28),
    ("net.ipv4.ip_local_reserved_ports", 28),
    ("net.ipv4.tcp_keepalive_time", 29),
    ("net.ipv4.tcp_fin_timeout", 29),
    ("net.ipv4.tcp_keepalive_intvl", 29),
    ("net.ipv4.tcp_keepalive_probes", 29),
    ("net.ipv4.tcp_rmem", 32),
    ("net.ipv4.tcp_wmem", 32),
    ("net.ipv4.tcp_slow_start_after_idle", 37),
    ("net.ipv4.tcp_notsent_lowat", 37),
];

/// The first release that applies `hostUsers: false` with default gates (`UserNamespacesSupport`).
const USER_NAMESPACES: u8 = 33;

/// Adds findings to all files that load.
pub fn check(files: &mut [FileReport], context: &CheckContext<'_>) {
    let node = context.host.filter(|_| context.on_node).map(|host| NodeCapabilities::read(host, context));
    for file in files.iter_mut().filter(|file| file.verdict == FileVerdict::Loaded) {
        let Some(spec) = file.decoded_root().map(|root| root.get("spec")) else { continue };
        let mut findings = Vec::new();
        let version = context.kubelet.version;
        check_operating_system(&spec, &mut findings);
        check_sysctls(&spec, version, context, &mut findings);
        for container in containers(&spec) {
            check_image_name(&container, &mut findings);
            check_root_user(&container, &spec, &mut findings);
        }
        if let Some(node) = &node {
            node.check_requests(&spec, version, &mut findings);
            node.check_app_armor(&spec, &mut findings);
            node.check_seccomp(&spec, &mut findings);
            node.check_user_namespace(&spec, version, &mut findings);
        }
        file.findings.extend(findings);
    }
}

fn check_operating_system(spec: &PodField<'_>, findings: &mut Vec<LintFinding>) {
    let name = spec.get("os").get("name");
    if !name.is_empty() && name.str() != "linux" {
        findings.push(LintFinding::of("other-system", &[("system", &name.str())]).about(&name));
    }
}

/// Reports sysctls that are neither safe in this release nor allowed by the kubelet's settings.
fn check_sysctls(
    spec: &PodField<'_>,
    version: KubeletVersion,
    context: &CheckContext<'_>,
    findings: &mut Vec<LintFinding>,
) {
    let setting = context
        .kubelet_settings
        .map(|kubelet_settings| kubelet_settings.setting("allowed-unsafe-sysctls", "allowedUnsafeSysctls"));
    let allowed = match setting {
        // A setting that cannot be read may allow the sysctl.
        Some(Err(_)) => return,
        Some(Ok(list)) => list.map(|list| list.value).unwrap_or_default(),
        None => String::new(),
    };
    for sysctl in spec.get("securityContext").get("sysctls").items() {
        let at = sysctl.get("name");
        // Both spellings name the same sysctl: the first separator decides which one is used.
        let name = dotted(at.str());
        let safe = SAFE_SYSCTLS.iter().any(|(safe, since)| *safe == name && version.at_least(*since));
        if name.is_empty() || safe || allowed.split(',').any(|pattern| allows(&dotted(pattern), &name)) {
            continue;
        }
        findings.push(LintFinding::of("unsafe-sysctl", &[("name", &name)]).about(&at));
    }
}

/// Whether an entry of `allowedUnsafeSysctls`, such as `kernel.msg*`, allows a sysctl.
fn allows(pattern: &str, name: &str) -> bool {
    match pattern.strip_suffix('*') {
        Some(start) => name.starts_with(start),
        None => pattern == name,
    }
}

/// Reports an image name that the kubelet refuses before it passes the name to the runtime
/// (`reference.ParseNormalizedNamed`).
fn check_image_name(container: &PodField<'_>, findings: &mut Vec<LintFinding>) {
    let at = container.get("image");
    if let Some(why) = image_name_error(at.str()) {
        let places: &Places<'_> = &[("image", &at.str()), ("why", &why)];
        findings.push(LintFinding::of("wrong-image-name", places).about(&at));
    }
}

/// Returns why an image name is not valid; `None` if it is valid or empty.
fn image_name_error(image: &str) -> Option<&'static str> {
    if image.is_empty() || tag(image).is_some() {
        return None;
    }
    let name = image.split('@').next().unwrap_or(image);
    if tag(name).is_none() && tag(&name.to_lowercase()).is_some() {
        return Some("a repository must be in lower case");
    }
    Some("the form is [REGISTRY/]REPOSITORY[:TAG][@DIGEST]")
}

/// Returns a field of the container's security context, or of the pod's if the container does not set it.
fn effective<'a>(container: &PodField<'a>, spec: &PodField<'a>, field: &str) -> PodField<'a> {
    let own = container.get("securityContext").get(field);
    if own.is_set() { own } else { spec.get("securityContext").get(field) }
}

/// Reports a container that must not run as root but has user 0.
fn check_root_user(container: &PodField<'_>, spec: &PodField<'_>, findings: &mut Vec<LintFinding>) {
    let user = effective(container, spec, "runAsUser");
    if effective(container, spec, "runAsNonRoot").is_true() && user.opt_int() == Some(0) {
        let name = container.get("name");
        findings.push(LintFinding::of("root-user", &[("name", &name.str())]).about(&user));
    }
}

/// The properties of this node on which admission and the creation of containers depend.
struct NodeCapabilities {
    /// The number of online processors, if it is known.
    processors: Option<u64>,
    /// The memory in bytes, if it is known.
    memory: Option<u64>,
    /// Whether the kernel enforces `AppArmor`.
    app_armor: bool,
    /// The names of the loaded `AppArmor` profiles, if they can be read.
    app_armor_profiles: Option<Vec<String>>,
    /// Whether the kernel supports user namespaces.
    user_namespaces: bool,
    /// The directory in which the kubelet looks for seccomp profiles.
    seccomp_directory: String,
    host: HostRoot,
}

impl NodeCapabilities {
    fn read(host: &HostRoot, context: &CheckContext<'_>) -> Self {
        let text = |path: &str| kernel_text(&host.path(path)).ok();
        let root = context
            .kubelet_settings
            .and_then(|kubelet_settings| kubelet_settings.flag("root-dir"))
            .unwrap_or(ROOT_DIRECTORY);
        let profiles = fs::read_to_string(host.path("/sys/kernel/security/apparmor/profiles")).ok();
        Self {
            processors: text("/sys/devices/system/cpu/online").and_then(|list| processor_count(&list)),
            memory: text("/proc/meminfo").and_then(|text| total_memory(&text)),
            app_armor: text("/sys/module/apparmor/parameters/enabled")
                .is_some_and(|enabled| enabled.trim().starts_with('Y')),
            app_armor_profiles: profiles
                .map(|text| text.lines().map(|line| profile_name(line).to_owned()).collect()),
            // If this file is missing, the kernel has no limit, or `/proc` is incomplete.
            user_namespaces: text("/proc/sys/user/max_user_namespaces").is_none_or(|most| most.trim() != "0"),
            seccomp_directory: format!("{}/seccomp", root.trim_end_matches('/')),
            host: host.clone(),
        }
    }

    /// Reports a pod that requests more processors or memory than the node has. Reservations for the system are not
    /// subtracted.
    fn check_requests(&self, spec: &PodField<'_>, version: KubeletVersion, findings: &mut Vec<LintFinding>) {
        let Some(node) = spec.node() else { return };
        for (name, amount) in pod_resources::requested(node, version) {
            let (has, unit, reason) = match &*name {
                "cpu" => (self.processors, "processors", "OutOfcpu"),
                "memory" => (self.memory, "bytes of memory", "OutOfmemory"),
                _ => continue,
            };
            let Some(has) = has.and_then(|has| i64::try_from(has).ok()) else { continue };
            if amount.cmp_whole(has).is_gt() {
                let places: &Places<'_> = &[
                    ("name", &name),
                    ("amount", &amount),
                    ("has", &has),
                    ("unit", &unit),
                    ("reason", &reason),
                ];
                findings.push(LintFinding::of("large-request", places).about(&spec.get("containers")));
            }
        }
    }

    /// Reports an `AppArmor` profile on a kernel without `AppArmor`, and a profile that is not loaded.
    fn check_app_armor(&self, spec: &PodField<'_>, findings: &mut Vec<LintFinding>) {
        for container in containers(spec) {
            let profile = effective(&container, spec, "appArmorProfile");
            let kind = profile.get("type").str();
            if !matches!(kind, "RuntimeDefault" | "Localhost") {
                continue;
            }
            if !self.app_armor {
                findings.push(LintFinding::of("no-app-armor", &[]).about(&profile));
                // The kubelet refuses the pod because of its first container, so one finding is enough.
                return;
            }
            let name = profile.get("localhostProfile");
            let missing = |profiles: &Vec<String>| !profiles.iter().any(|loaded| loaded == name.str());
            if kind == "Localhost" && self.app_armor_profiles.as_ref().is_some_and(missing) {
                findings.push(LintFinding::of("unloaded-profile", &[("name", &name.str())]).about(&name));
            }
        }
    }

    /// Reports a seccomp profile whose file does not exist.
    fn check_seccomp(&self, spec: &PodField<'_>, findings: &mut Vec<LintFinding>) {
        for container in containers(spec) {
            let profile = effective(&container, spec, "seccompProfile");
            let name = profile.get("localhostProfile");
            if profile.get("type").str() != "Localhost" || name.is_empty() {
                continue;
            }
            let path = format!("{}/{}", self.seccomp_directory, name.str());
            let absent = matches!(fs::metadata(self.host.path(Path::new(&path))),
                Err(error) if error.kind() == std::io::ErrorKind::NotFound);
            if absent {
                findings.push(LintFinding::of("no-seccomp-profile", &[("path", &path)]).about(&name));
            }
        }
    }

    /// Reports a pod with its own user namespace on a kernel that allows none.
    fn check_user_namespace(
        &self,
        spec: &PodField<'_>,
        version: KubeletVersion,
        findings: &mut Vec<LintFinding>,
    ) {
        let at = spec.get("hostUsers");
        if at.opt_bool() == Some(false) && version.at_least(USER_NAMESPACES) && !self.user_namespaces {
            findings.push(LintFinding::of("no-user-namespaces", &[]).about(&at));
        }
    }
}

/// Counts the processors in the kernel's list format, such as `0-3,8`.
fn processor_count(list: &str) -> Option<u64> {
    let ranges = list.trim().split(',').map(|range| {
        let (from, to) = range.split_once('-').unwrap_or((range, range));
        let (from, to): (u64, u64) = (from.parse().ok()?, to.parse().ok()?);
        to.checked_sub(from)?.checked_add(1)
    });
    ranges.sum()
}

/// Returns the total memory of the node in bytes, from `/proc/meminfo`.
fn total_memory(meminfo: &str) -> Option<u64> {
    Memory::parse(meminfo).total.checked_mul(1024).filter(|bytes| *bytes > 0)
}

/// Returns the profile name in a line `name (enforce)`.
fn profile_name(line: &str) -> &str {
    line.rsplit_once(" (").map_or(line, |(name, _)| name)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::checks::testing::{NONE, TestDirectory, found, ids, in_container, in_spec, kubelet};
    use crate::inspect;
    use plegctl_node::host::Arguments;
    use plegctl_node::kubelet::KubeletSettings;

    #[test]
    fn sp073_reports_pods_for_another_operating_system() {
        assert_eq!(found(in_spec("os: {name: windows}")), [73]);
        assert_eq!(found(in_spec("os: {name: linux}")), NONE);
    }

    #[test]
    fn sp073_accepts_safe_sysctls_in_both_spellings() {
        let with =
            |name: &str| in_spec(&format!("securityContext: {{sysctls: [{{name: {name}, value: \"1\"}}]}}"));
        for safe in ["kernel.shm_rmid_forced", "net/ipv4/tcp_syncookies", "net.ipv4.tcp_rmem"] {
            assert_eq!(found(with(safe)), NONE, "{safe}");
        }
        assert_eq!(found(with("kernel.msgmax")), [73]);
        assert_eq!(found(with("net/ipv4/ip_forward")), [73]);
        assert!(allows("kernel.msg*", "kernel.msgmax") && !allows("kernel.sem", "kernel.semx"));
    }

    #[test]
    fn sp074_accepts_the_image_names_that_the_kubelet_accepts() {
        let sum = "a".repeat(64);
        for good in [
            "nginx".to_owned(),
            "Registry.local/app".to_owned(),
            "registry.k8s.io/kube-apiserver:v1.36.2".to_owned(),
            "localhost:5000/a/b-c__d.e:V1_x".to_owned(),
            "[::1]:5000/a".to_owned(),
            format!("a/b@sha256:{sum}"),
            format!("a/b:1@sha256:{sum}"),
        ] {
            assert_eq!(image_name_error(&good), None, "{good}");
        }
        for bad in
            ["Nginx", "library/NGINX:1", "a//b", "a:", "a b", "$(IMAGE)", "-a", "a@sha256:12", "http://a/b"]
        {
            assert!(image_name_error(bad).is_some(), "{bad}");
        }
        assert!(image_name_error(&sum).is_some());
    }

    #[test]
    fn sp074_reports_user_0_with_run_as_non_root_in_pod_and_container() {
        let root = "securityContext: {runAsNonRoot: true, runAsUser: 0}";
        assert_eq!(found(in_container(root)), [74]);
        assert_eq!(found(in_spec(root)), [74]);
        assert_eq!(found(in_spec("securityContext: {runAsNonRoot: true}")), NONE);
        assert_eq!(found(in_spec("securityContext: {runAsNonRoot: true, runAsUser: 1}")), NONE);
        let overridden = in_container("securityContext: {runAsUser: 7}");
        let overridden = overridden.replace("spec:\n", &format!("spec:\n  {root}\n"));
        assert_eq!(found(overridden), NONE);
    }

    /// Returns a node with two processors and one gibibyte, without `AppArmor` and user namespaces.
    fn small_node() -> TestDirectory {
        let node = TestDirectory::new();
        for (path, text) in [
            ("sys/devices/system/cpu/online", "0-1\n"),
            ("proc/meminfo", "MemTotal:        1048576 kB\nMemFree: 1 kB\n"),
            ("proc/sys/user/max_user_namespaces", "0\n"),
            ("var/lib/kubelet/seccomp/default.json", "{}"),
            ("other-root/seccomp/other.json", "{}"),
        ] {
            let path = node.0.join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        }
        node
    }

    /// Returns the numbers of the findings that a manifest has on a node.
    fn found_on(node: &TestDirectory, text: &str, kubelet_settings: Option<&KubeletSettings>) -> Vec<u16> {
        let directory = TestDirectory::new().with("a.yaml", text);
        let kubelet = kubelet();
        let mut report = inspect(&directory.0, &kubelet);
        let host = HostRoot::resolve(Some(&node.0));
        let context = CheckContext {
            kubelet: &kubelet,
            configured: None,
            on_node: true,
            host: Some(&host),
            kubelet_settings,
        };
        check(&mut report.files, &context);
        ids(&report.files[0])
    }

    #[test]
    fn sp073_and_sp074_compare_the_pod_with_the_node() {
        let node = small_node();
        let requests = |what: &str| in_container(&format!("resources: {{requests: {{{what}}}}}"));
        assert_eq!(found_on(&node, &requests("cpu: 2, memory: 1Gi"), None), NONE);
        assert_eq!(found_on(&node, &requests("cpu: 2001m"), None), [73]);
        assert_eq!(found_on(&node, &requests("memory: 1025Mi"), None), [73]);
        let profile =
            |kind: &str| in_spec(&format!("securityContext: {{appArmorProfile: {{type: {kind}}}}}"));
        assert_eq!(found_on(&node, &profile("RuntimeDefault"), None), [73]);
        assert_eq!(found_on(&node, &profile("Unconfined"), None), NONE);
        assert_eq!(found_on(&node, &in_spec("hostUsers: false"), None), [74]);
        assert_eq!(found_on(&node, &in_spec("hostUsers: true"), None), NONE);
        let seccomp = |name: &str| {
            in_spec(&format!(
                "securityContext: {{seccompProfile: {{type: Localhost, localhostProfile: {name}}}}}"
            ))
        };
        assert_eq!(found_on(&node, &seccomp("default.json"), None), NONE);
        assert_eq!(found_on(&node, &seccomp("other.json"), None), [74]);
        // A node without these files gives no facts, and so no findings.
        let empty = TestDirectory::new();
        assert_eq!(found_on(&empty, &requests("cpu: 9000"), None), NONE);
    }

    #[test]
    fn sp073_and_sp074_use_the_kubelets_settings() {
        let node = small_node();
        let kubelet_settings =
            |flags: &[&str]| KubeletSettings::parse(flags.iter().copied().collect::<Arguments>(), b"");
        let sysctl = in_spec("securityContext: {sysctls: [{name: kernel.msgmax, value: \"1\"}]}");
        assert_eq!(found_on(&node, &sysctl, None), [73]);
        let allows =
            kubelet_settings(&["kubelet", "--allowed-unsafe-sysctls=net.core.somaxconn,kernel.msg*"]);
        assert_eq!(found_on(&node, &sysctl, Some(&allows)), NONE);
        let seccomp =
            in_spec("securityContext: {seccompProfile: {type: Localhost, localhostProfile: other.json}}");
        let other_root = kubelet_settings(&["kubelet", "--root-dir=/other-root/"]);
        assert_eq!(found_on(&node, &seccomp, Some(&other_root)), NONE);
    }

    #[test]
    fn processors_are_counted_in_the_kernels_list_format() {
        assert_eq!(processor_count("0-3,8,10-11\n"), Some(7));
        assert_eq!(processor_count(""), None);
        assert_eq!(processor_count("3-1"), None);
    }

    #[test]
    fn the_profile_name_is_the_text_before_the_mode() {
        assert_eq!(profile_name("cri-containerd.apparmor.d (enforce)"), "cri-containerd.apparmor.d");
        assert_eq!(profile_name("/usr/bin/man (complain)"), "/usr/bin/man");
    }
}
