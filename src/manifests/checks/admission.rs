//! Checks whether the kubelet runs a pod that it has loaded: SP073 and SP074, as far as the file and the facts of this
//! node decide.
//!
//! The kubelet's admission may refuse a pod after its source has loaded it, and some containers can never be created.
//! The verdict does not show either, and the kubelet does not try again before the file changes.

use std::fs;
use std::path::Path;

use super::CheckContext;
use super::containers::containers;
use crate::host::proc::Memory;
use crate::host::{HostRoot, kernel_text};
use crate::manifests::pod_resources;
use crate::manifests::{Check, FileReport, FileVerdict, KubeletVersion, LintFinding, PodField};

/// The kubelet's root directory, unless it is configured.
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

pub fn check(files: &mut [FileReport], context: &CheckContext<'_>) {
    let node = context.host.filter(|_| context.on_node).map(|host| NodeFacts::of(host, context));
    for file in files.iter_mut().filter(|file| file.verdict == FileVerdict::Loaded) {
        let Some(pod) = file.document.as_ref().and_then(|document| document.pod.as_ref()) else { continue };
        let spec = PodField::root(&pod.pod).get("spec");
        let mut findings = Vec::new();
        let version = context.kubelet.version;
        operating_system(&spec, &mut findings);
        sysctls(&spec, version, context, &mut findings);
        for container in containers(&spec) {
            image_name(&container, &mut findings);
            root_against_policy(&container, &spec, &mut findings);
        }
        if let Some(node) = &node {
            node.resources(&spec, version, &mut findings);
            node.app_armor(&spec, &mut findings);
            node.seccomp(&spec, &mut findings);
            node.user_namespace(&spec, version, &mut findings);
        }
        file.findings.extend(findings);
    }
}

/// Reports a pod that is refused at admission: it fails, and no container of it is created.
fn refused(at: &PodField<'_>, why: &str, fix: &str) -> LintFinding {
    let message = format!("the kubelet loads this pod and then refuses to run it: {why}");
    LintFinding::warning(Check::Refused, message).with_fix(fix).on_field(at.path()).at(at.position())
}

/// Reports a pod that is admitted, but whose containers cannot be created.
fn never_starts(at: &PodField<'_>, why: &str, fix: &str) -> LintFinding {
    let message = format!("the kubelet loads this pod, but it can never start: {why}");
    LintFinding::warning(Check::NeverStarts, message).with_fix(fix).on_field(at.path()).at(at.position())
}

fn operating_system(spec: &PodField<'_>, findings: &mut Vec<LintFinding>) {
    let name = spec.get("os").get("name");
    if !name.is_empty() && name.str() != "linux" {
        let why = format!("it is for {}, and this kubelet runs on linux (PodOSNotSupported)", name.str());
        findings.push(refused(&name, &why, "write `name: linux`, or remove os"));
    }
}

fn sysctls(
    spec: &PodField<'_>,
    version: KubeletVersion,
    context: &CheckContext<'_>,
    findings: &mut Vec<LintFinding>,
) {
    let kubelet_settings = context
        .kubelet_settings
        .map(|kubelet_settings| kubelet_settings.setting("allowed-unsafe-sysctls", "allowedUnsafeSysctls"));
    let allowed = match kubelet_settings {
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
        let why = format!(
            "the sysctl {name} is not a safe one, and a kubelet allows others only if it is told so (SysctlForbidden)"
        );
        let fix = format!("remove it, or give the kubelet allowedUnsafeSysctls: [{name}]");
        findings.push(refused(&at, &why, &fix));
    }
}

/// Converts `net/ipv4/x` into `net.ipv4.x`. In the spelling with slashes, a dot is part of a name, and vice versa.
fn dotted(name: &str) -> String {
    match name.find(['.', '/']) {
        Some(first) if name.get(first..).is_some_and(|rest| rest.starts_with('/')) => name
            .chars()
            .map(|letter| match letter {
                '/' => '.',
                '.' => '/',
                other => other,
            })
            .collect(),
        _ => name.to_owned(),
    }
}

fn allows(pattern: &str, name: &str) -> bool {
    match pattern.strip_suffix('*') {
        Some(start) => name.starts_with(start),
        None => pattern == name,
    }
}

/// Applies the kubelet's check of an image name before the name is passed to the runtime
/// (`reference.ParseNormalizedNamed`).
fn image_name(container: &PodField<'_>, findings: &mut Vec<LintFinding>) {
    let at = container.get("image");
    if let Some(why) = bad_image(at.str()) {
        let why = format!("`{}` is not an image name, {why} (InvalidImageName)", at.str());
        findings.push(never_starts(&at, &why, "correct the image"));
    }
}

fn bad_image(image: &str) -> Option<&'static str> {
    if image.is_empty() {
        return None;
    }
    let (name, digest) = image.split_once('@').map_or((image, None), |(name, digest)| (name, Some(digest)));
    let (domain, rest) = match name.split_once('/') {
        Some((first, rest)) if is_domain(first) => (Some(first), rest),
        _ => (None, name),
    };
    let (repository, tag) = rest.split_once(':').map_or((rest, None), |(path, tag)| (path, Some(tag)));
    if repository.chars().any(char::is_uppercase) {
        return Some("because a repository is written in lower case");
    }
    let good = domain.is_none_or(is_host)
        && repository.split('/').all(is_component)
        && tag.is_none_or(is_tag)
        && digest.is_none_or(is_digest)
        && !(domain.is_none() && repository.len() == 64 && repository.bytes().all(is_hex));
    (!good).then_some("because it is not written like one")
}

/// Whether the part before the first slash is a registry.
fn is_domain(first: &str) -> bool {
    first.contains(['.', ':']) || first == "localhost" || first.chars().any(char::is_uppercase)
}

fn is_host(domain: &str) -> bool {
    if let Some(rest) = domain.strip_prefix('[') {
        let Some((address, port)) = rest.split_once(']') else { return false };
        return address.bytes().all(|byte| is_hex(byte.to_ascii_lowercase()) || byte == b':')
            && (port.is_empty() || port.strip_prefix(':').is_some_and(is_number));
    }
    let (host, port) = domain.split_once(':').map_or((domain, None), |(host, port)| (host, Some(port)));
    let label = |label: &str| {
        !label.is_empty()
            && !label.starts_with('-')
            && !label.ends_with('-')
            && label.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-')
    };
    host.split('.').all(label) && port.is_none_or(is_number)
}

fn is_number(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit())
}

const fn is_hex(byte: u8) -> bool {
    matches!(byte, b'0'..=b'9' | b'a'..=b'f')
}

/// Whether a text has letters and digits, joined by `.`, `_`, `__` or dashes.
fn is_component(component: &str) -> bool {
    let alphanumeric = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit();
    let ends = component.bytes().next().is_some_and(alphanumeric)
        && component.bytes().next_back().is_some_and(alphanumeric);
    let mut separators = component.split(|letter: char| u8::try_from(letter).is_ok_and(alphanumeric));
    ends && separators
        .all(|held| matches!(held, "" | "." | "_" | "__") || held.bytes().all(|byte| byte == b'-'))
}

fn is_tag(tag: &str) -> bool {
    let word = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_';
    tag.len() <= 128
        && tag.bytes().next().is_some_and(word)
        && tag.bytes().all(|byte| word(byte) || matches!(byte, b'.' | b'-'))
}

fn is_digest(digest: &str) -> bool {
    digest.split_once(':').is_some_and(|(algorithm, sum)| {
        algorithm.bytes().next().is_some_and(|byte| byte.is_ascii_alphabetic())
            && sum.len() >= 32
            && sum.bytes().all(|byte| byte.is_ascii_hexdigit())
    })
}

/// Returns a field of the container's security context, or else of the pod's.
fn effective<'a>(container: &PodField<'a>, spec: &PodField<'a>, field: &str) -> PodField<'a> {
    let own = container.get("securityContext").get(field);
    if own.is_set() { own } else { spec.get("securityContext").get(field) }
}

fn root_against_policy(container: &PodField<'_>, spec: &PodField<'_>, findings: &mut Vec<LintFinding>) {
    let user = effective(container, spec, "runAsUser");
    if effective(container, spec, "runAsNonRoot").is_true() && user.opt_int() == Some(0) {
        let why = format!(
            "container {} has runAsNonRoot and user 0, which contradict each other \
             (CreateContainerConfigError)",
            container.get("name").str()
        );
        findings.push(never_starts(&user, &why, "remove runAsNonRoot, or give another runAsUser"));
    }
}

/// The facts of this node.
struct NodeFacts {
    /// The number of online processors.
    processors: Option<u64>,
    /// The memory in bytes.
    memory: Option<u64>,
    /// Whether the kernel enforces `AppArmor`.
    app_armor: bool,
    /// The loaded profiles, if they can be read.
    profiles: Option<Vec<String>>,
    /// Whether the kernel supports user namespaces.
    user_namespaces: bool,
    /// The directory in which the kubelet looks for seccomp profiles.
    seccomp: String,
    host: HostRoot,
}

impl NodeFacts {
    fn of(host: &HostRoot, context: &CheckContext<'_>) -> Self {
        let text = |path: &str| kernel_text(&host.path(path)).ok();
        let root = context
            .kubelet_settings
            .and_then(|kubelet_settings| kubelet_settings.flag("root-dir"))
            .unwrap_or(ROOT_DIRECTORY);
        let profiles = fs::read_to_string(host.path("/sys/kernel/security/apparmor/profiles")).ok();
        Self {
            processors: text("/sys/devices/system/cpu/online").and_then(|list| counted(&list)),
            memory: text("/proc/meminfo").and_then(|text| total_memory(&text)),
            app_armor: text("/sys/module/apparmor/parameters/enabled")
                .is_some_and(|enabled| enabled.trim().starts_with('Y')),
            profiles: profiles.map(|text| text.lines().map(|line| profile(line).to_owned()).collect()),
            // A kernel without this file has no limit, or `/proc` is incomplete.
            user_namespaces: text("/proc/sys/user/max_user_namespaces").is_none_or(|most| most.trim() != "0"),
            seccomp: format!("{}/seccomp", root.trim_end_matches('/')),
            host: host.clone(),
        }
    }

    /// Checks whether a pod requests more than the node has. What the kubelet reserves is not subtracted.
    fn resources(&self, spec: &PodField<'_>, version: KubeletVersion, findings: &mut Vec<LintFinding>) {
        let Some(node) = spec.node() else { return };
        for (name, amount) in pod_resources::requested(node, version) {
            let (has, unit, reason) = match &*name {
                "cpu" => (self.processors, "processors", "OutOfcpu"),
                "memory" => (self.memory, "bytes of memory", "OutOfmemory"),
                _ => continue,
            };
            let Some(has) = has.and_then(|has| i64::try_from(has).ok()) else { continue };
            if amount.cmp_whole(has).is_gt() {
                let why = format!("it requests {name} {amount}, and this node has {has} {unit} ({reason})");
                let at = spec.get("containers");
                findings.push(refused(&at, &why, "request less"));
            }
        }
    }

    fn app_armor(&self, spec: &PodField<'_>, findings: &mut Vec<LintFinding>) {
        for container in containers(spec) {
            let profile = effective(&container, spec, "appArmorProfile");
            let kind = profile.get("type").str();
            if !matches!(kind, "RuntimeDefault" | "Localhost") {
                continue;
            }
            if !self.app_armor {
                let why = "it asks for AppArmor, which this node's kernel does not enforce (AppArmor)";
                findings.push(refused(&profile, why, "remove appArmorProfile, or load AppArmor"));
                // Reported once: the kubelet refuses the pod for the first container.
                return;
            }
            let name = profile.get("localhostProfile");
            let missing = |profiles: &Vec<String>| !profiles.iter().any(|loaded| loaded == name.str());
            if kind == "Localhost" && self.profiles.as_ref().is_some_and(missing) {
                let why = format!("the AppArmor profile {} is not loaded on this node", name.str());
                findings.push(never_starts(&name, &why, "load it with apparmor_parser"));
            }
        }
    }

    fn seccomp(&self, spec: &PodField<'_>, findings: &mut Vec<LintFinding>) {
        for container in containers(spec) {
            let profile = effective(&container, spec, "seccompProfile");
            let name = profile.get("localhostProfile");
            if profile.get("type").str() != "Localhost" || name.is_empty() {
                continue;
            }
            let path = format!("{}/{}", self.seccomp, name.str());
            let absent = matches!(fs::metadata(self.host.path(Path::new(&path))),
                Err(error) if error.kind() == std::io::ErrorKind::NotFound);
            if absent {
                let why = format!("the seccomp profile {path} is not there (CreateContainerError)");
                findings.push(never_starts(&name, &why, "put the profile there"));
            }
        }
    }

    fn user_namespace(&self, spec: &PodField<'_>, version: KubeletVersion, findings: &mut Vec<LintFinding>) {
        let at = spec.get("hostUsers");
        if at.opt_bool() == Some(false) && version.at_least(USER_NAMESPACES) && !self.user_namespaces {
            let why = "it requests its own user namespace, but this kernel allows none \
                       (user.max_user_namespaces is 0)";
            findings.push(never_starts(&at, why, "remove hostUsers, or raise user.max_user_namespaces"));
        }
    }
}

/// Counts the numbers in the kernel's list format, such as `0-3,8`.
fn counted(list: &str) -> Option<u64> {
    let ranges = list.trim().split(',').map(|range| {
        let (from, to) = range.split_once('-').unwrap_or((range, range));
        let (from, to): (u64, u64) = (from.parse().ok()?, to.parse().ok()?);
        to.checked_sub(from)?.checked_add(1)
    });
    ranges.sum()
}

/// The total memory of the node in bytes, from `/proc/meminfo`.
fn total_memory(meminfo: &str) -> Option<u64> {
    Memory::parse(meminfo).total.checked_mul(1024).filter(|bytes| *bytes > 0)
}

/// The profile name in a line `name (enforce)`.
fn profile(line: &str) -> &str {
    line.rsplit_once(" (").map_or(line, |(name, _)| name)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::host::Arguments;
    use crate::kubelet::KubeletSettings;
    use crate::manifests::checks::testing::{
        NONE, TestDirectory, found, ids, in_container, in_spec, kubelet,
    };
    use crate::manifests::inspect;

    #[test]
    fn sp073_is_about_pods_for_another_system() {
        assert_eq!(found(in_spec("os: {name: windows}")), [73]);
        assert_eq!(found(in_spec("os: {name: linux}")), NONE);
    }

    #[test]
    fn sp073_knows_the_safe_sysctls_of_each_release_and_in_both_spellings() {
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
    fn sp074_reads_names_of_images_as_the_kubelet_does() {
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
            assert_eq!(bad_image(&good), None, "{good}");
        }
        for bad in
            ["Nginx", "library/NGINX:1", "a//b", "a:", "a b", "$(IMAGE)", "-a", "a@sha256:12", "http://a/b"]
        {
            assert!(bad_image(bad).is_some(), "{bad}");
        }
        assert!(bad_image(&sum).is_some());
    }

    #[test]
    fn sp074_recognises_user_0_in_pod_and_container() {
        let root = "securityContext: {runAsNonRoot: true, runAsUser: 0}";
        assert_eq!(found(in_container(root)), [74]);
        assert_eq!(found(in_spec(root)), [74]);
        assert_eq!(found(in_spec("securityContext: {runAsNonRoot: true}")), NONE);
        assert_eq!(found(in_spec("securityContext: {runAsNonRoot: true, runAsUser: 1}")), NONE);
        let overridden = in_container("securityContext: {runAsUser: 7}");
        let overridden = overridden.replace("spec:\n", &format!("spec:\n  {root}\n"));
        assert_eq!(found(overridden), NONE);
    }

    /// A node with two processors and one gibibyte, without `AppArmor` and user namespaces.
    fn small_node() -> TestDirectory {
        let node = TestDirectory::new();
        for (path, text) in [
            ("sys/devices/system/cpu/online", "0-1\n"),
            ("proc/meminfo", "MemTotal:        1048576 kB\nMemFree: 1 kB\n"),
            ("proc/sys/user/max_user_namespaces", "0\n"),
            ("var/lib/kubelet/seccomp/there.json", "{}"),
            ("else/seccomp/other.json", "{}"),
        ] {
            let path = node.0.join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        }
        node
    }

    fn on(node: &TestDirectory, text: &str, kubelet_settings: Option<&KubeletSettings>) -> Vec<u16> {
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
    fn sp073_and_sp074_know_the_node() {
        let node = small_node();
        let requests = |what: &str| in_container(&format!("resources: {{requests: {{{what}}}}}"));
        assert_eq!(on(&node, &requests("cpu: 2, memory: 1Gi"), None), NONE);
        assert_eq!(on(&node, &requests("cpu: 2001m"), None), [73]);
        assert_eq!(on(&node, &requests("memory: 1025Mi"), None), [73]);
        let profile =
            |kind: &str| in_spec(&format!("securityContext: {{appArmorProfile: {{type: {kind}}}}}"));
        assert_eq!(on(&node, &profile("RuntimeDefault"), None), [73]);
        assert_eq!(on(&node, &profile("Unconfined"), None), NONE);
        assert_eq!(on(&node, &in_spec("hostUsers: false"), None), [74]);
        assert_eq!(on(&node, &in_spec("hostUsers: true"), None), NONE);
        let seccomp = |name: &str| {
            in_spec(&format!(
                "securityContext: {{seccompProfile: {{type: Localhost, localhostProfile: {name}}}}}"
            ))
        };
        assert_eq!(on(&node, &seccomp("there.json"), None), NONE);
        assert_eq!(on(&node, &seccomp("other.json"), None), [74]);
        // An empty node gives no facts.
        let silent = TestDirectory::new();
        assert_eq!(on(&silent, &requests("cpu: 9000"), None), NONE);
    }

    #[test]
    fn sp073_and_sp074_use_the_kubelets_settings() {
        let node = small_node();
        let kubelet_settings =
            |flags: &[&str]| KubeletSettings::of(flags.iter().copied().collect::<Arguments>(), b"");
        let sysctl = in_spec("securityContext: {sysctls: [{name: kernel.msgmax, value: \"1\"}]}");
        assert_eq!(on(&node, &sysctl, None), [73]);
        let allows =
            kubelet_settings(&["kubelet", "--allowed-unsafe-sysctls=net.core.somaxconn,kernel.msg*"]);
        assert_eq!(on(&node, &sysctl, Some(&allows)), NONE);
        let seccomp =
            in_spec("securityContext: {seccompProfile: {type: Localhost, localhostProfile: other.json}}");
        assert_eq!(on(&node, &seccomp, Some(&kubelet_settings(&["kubelet", "--root-dir=/else/"]))), NONE);
    }

    #[test]
    fn a_list_of_processors_is_counted() {
        assert_eq!(counted("0-3,8,10-11\n"), Some(7));
        assert_eq!(counted(""), None);
        assert_eq!(counted("3-1"), None);
    }

    #[test]
    fn a_profile_line_is_parsed_into_its_name() {
        assert_eq!(profile("cri-containerd.apparmor.d (enforce)"), "cri-containerd.apparmor.d");
        assert_eq!(profile("/usr/bin/man (complain)"), "/usr/bin/man");
    }
}
