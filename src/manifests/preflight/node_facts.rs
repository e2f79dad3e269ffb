//! The files of a node that decide whether its kubelet starts: certificates, swap, kernel settings, inotify instances,
//! the runtime's socket and configuration.
//!
//! Reading may wait for a disk, so call this in a thread that can be abandoned.

use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::os::unix::fs::FileTypeExt;
use std::path::{Path, PathBuf};

use super::settings::MergedSettings;
use crate::host::{HostRoot, KernelDir, kernel_text};
use crate::kubelet::{CertificateChain, KubeletSettings};
use crate::manifests::reader::read;
use crate::manifests::tree::ManifestNode;
use crate::report::load::load;

/// The largest certificate, kubeconfig or configuration file that is read.
const LARGEST_FILE: usize = 1 << 20;

/// The kernel settings that protectKernelDefaults compares, with the kubelet's values
/// (`pkg/kubelet/util/sysctl` and `setupKernelTunables`).
pub const KERNEL_SETTINGS: [(&str, i64); 6] = [
    ("kernel/keys/root_maxbytes", 25_000_000),
    ("kernel/keys/root_maxkeys", 1_000_000),
    ("kernel/panic", 10),
    ("kernel/panic_on_oops", 1),
    ("vm/overcommit_memory", 1),
    ("vm/panic_on_oom", 0),
];

/// What a certificate is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CertificateUse {
    /// The kubelet presents it to the API server.
    Client,
    /// The kubelet presents it to its callers.
    Serving,
    /// The kubelet's callers are checked against it.
    CallerAuthority,
}

/// A file with certificates.
#[derive(Clone, Debug)]
pub struct CertificateFile {
    /// The path, as the kubelet sees it.
    pub path: String,
    /// What it is for.
    pub usage: CertificateUse,
    /// The setting that names the file; `None` for a usual path.
    pub named_by: Option<&'static str>,
    /// The certificates, or why they cannot be read.
    pub content: Result<CertificateChain, io::ErrorKind>,
}

/// The use of a limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LimitUse {
    /// How many are used, without those of the kubelet that runs.
    pub used: u64,
    /// The limit.
    pub limit: u64,
}

/// A list in containerd's configuration file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DisabledPlugins {
    /// The file.
    pub path: String,
    /// The line of the list.
    pub line: u32,
    /// The plugins.
    pub plugins: Vec<String>,
}

/// What a node has. An absent value was not read.
#[derive(Clone, Debug, Default)]
pub struct NodeFacts {
    /// The time in seconds since the Unix epoch.
    pub now: i64,
    /// The swap areas that are in use.
    pub swaps: Option<Vec<String>>,
    /// The kernel settings that protectKernelDefaults compares.
    pub kernel: BTreeMap<&'static str, i64>,
    /// The certificates.
    pub certificates: Vec<CertificateFile>,
    /// Whether there is a bootstrap kubeconfig, with which the kubelet replaces an expired client certificate.
    pub can_bootstrap: bool,
    /// Whether the runtime's socket exists: its path, and whether it is there.
    pub runtime_socket: Option<(String, bool)>,
    /// The plugins that containerd's configuration switches off.
    pub disabled_plugins: Option<DisabledPlugins>,
    /// The inotify instances of root.
    pub inotify: Option<LimitUse>,
    /// The root directory, if it is no directory.
    pub root_is_no_directory: Option<String>,
}

/// Where containerd's configuration is, if no flag names another file.
const CONTAINERD_CONFIG: &str = "/etc/containerd/config.toml";

/// The kubelet's default endpoint.
const DEFAULT_ENDPOINT: &str = "unix:///run/containerd/containerd.sock";

/// The sockets of a containerd with that configuration.
const CONTAINERD_SOCKETS: [&str; 2] =
    ["/run/containerd/containerd.sock", "/var/run/containerd/containerd.sock"];

impl NodeFacts {
    /// Reads the node below `host` with the process table `proc`, for a kubelet with these settings. `pid` is the
    /// kubelet that runs now.
    pub fn read(
        settings: &KubeletSettings,
        host: &HostRoot,
        proc: &Path,
        pid: Option<u32>,
        now: i64,
    ) -> Self {
        let endpoint = settings.setting("container-runtime-endpoint", "containerRuntimeEndpoint");
        let endpoint = endpoint
            .ok()
            .map(|endpoint| endpoint.map_or_else(|| DEFAULT_ENDPOINT.to_owned(), |setting| setting.value));
        let socket = endpoint.and_then(|endpoint| endpoint.strip_prefix("unix://").map(str::to_owned));
        // A program that contains a kubelet gives it an endpoint that is not on the command line.
        let socket = socket.filter(|_| settings.is_plain_kubelet());
        let is_containerd = socket.as_deref().is_some_and(|socket| CONTAINERD_SOCKETS.contains(&socket));
        let root = settings.flag("root-dir").unwrap_or("/var/lib/kubelet");
        Self {
            now,
            // A program that contains a kubelet may set failSwapOn where nobody sees it.
            swaps: if is_given(settings, "fail-swap-on", "failSwapOn") { swaps(proc) } else { None },
            kernel: kernel(proc),
            certificates: certificates(settings, host),
            can_bootstrap: settings.flag("bootstrap-kubeconfig").is_some_and(|path| host.path(path).exists()),
            runtime_socket: socket
                .and_then(|socket| is_socket(&socket, host).map(|is_there| (socket, is_there))),
            disabled_plugins: if is_containerd { disabled_plugins(host) } else { None },
            inotify: inotify(proc, pid),
            root_is_no_directory: fs::metadata(host.path(root))
                .is_ok_and(|about| !about.is_dir())
                .then(|| root.to_owned()),
        }
    }
}

/// Whether the value of a setting is known: it is written, or it is the default of a kubelet that no other program
/// contains.
pub fn is_given(settings: &KubeletSettings, flag: &str, key: &str) -> bool {
    settings.is_plain_kubelet() || settings.setting(flag, key).is_ok_and(|setting| setting.is_some())
}

/// Whether there is a socket; `None` if that cannot be seen. `/var/run` is a link to `/run`, which leads out of a node
/// that is mounted below another root.
fn is_socket(path: &str, host: &HostRoot) -> Option<bool> {
    let plain = path.strip_prefix("/var").filter(|rest| rest.starts_with("/run/")).unwrap_or(path);
    let mut is_missing = true;
    for path in [path, plain] {
        match fs::metadata(host.path(path)) {
            Ok(about) if about.file_type().is_socket() => return Some(true),
            Ok(_) => {}
            Err(why) => is_missing &= why.kind() == io::ErrorKind::NotFound,
        }
    }
    is_missing.then_some(false)
}

/// The kubelet counts the lines of this file below its heading (`isSwapOnAccordingToProcSwaps`).
fn swaps(proc: &Path) -> Option<Vec<String>> {
    let text = kernel_text(&proc.join("swaps")).ok()?;
    let names = text.lines().skip(1).filter_map(|line| line.split_ascii_whitespace().next());
    Some(names.map(str::to_owned).collect())
}

fn kernel(proc: &Path) -> BTreeMap<&'static str, i64> {
    let values = KERNEL_SETTINGS.iter().filter_map(|(name, _)| {
        let text = kernel_text(&proc.join("sys").join(name)).ok()?;
        Some((*name, text.trim().parse().ok()?))
    });
    values.collect()
}

/// Counts the inotify instances of processes of root, as far as all of them can be seen.
fn inotify(proc: &Path, kubelet: Option<u32>) -> Option<LimitUse> {
    let limit = kernel_text(&proc.join("sys/fs/inotify/max_user_instances")).ok()?.trim().parse().ok()?;
    let mut used = 0;
    for pid in KernelDir::open(proc).ok()?.numbered() {
        let process = proc.join(pid.to_string());
        let status = kernel_text(&process.join("status")).unwrap_or_default();
        let is_of_root = status
            .lines()
            .find_map(|line| line.strip_prefix("Uid:"))
            .is_some_and(|ids| ids.split_ascii_whitespace().next() == Some("0"));
        if Some(pid) == kubelet || !is_of_root {
            continue;
        }
        // A process whose descriptors are hidden would make the sum too small.
        let descriptors = match fs::read_dir(process.join("fd")) {
            Ok(descriptors) => descriptors,
            Err(why) if why.kind() == io::ErrorKind::PermissionDenied => return None,
            Err(_) => continue,
        };
        for descriptor in descriptors.flatten() {
            let target = fs::read_link(descriptor.path());
            used += u64::from(target.is_ok_and(|target| target.as_os_str() == "anon_inode:inotify"));
        }
    }
    Some(LimitUse { used, limit })
}

fn disabled_plugins(host: &HostRoot) -> Option<DisabledPlugins> {
    let text = load(&host.path(CONTAINERD_CONFIG), LARGEST_FILE).ok()?;
    disabled_in(&String::from_utf8_lossy(&text))
}

/// Reads the list `disabled_plugins` of a TOML file. The key is above the first table.
fn disabled_in(text: &str) -> Option<DisabledPlugins> {
    let mut lines = (1_u32..).zip(text.lines());
    let (line, first) = lines.find_map(|(number, line)| {
        let line = without_comment(line);
        if line.starts_with('[') {
            return Some(None);
        }
        let (key, value) = line.split_once('=')?;
        let is_wanted = key.trim().trim_matches(['"', '\'']) == "disabled_plugins";
        is_wanted.then(|| Some((number, value.to_owned())))
    })??;
    let mut list = first;
    while !list.contains(']') {
        list.push_str(without_comment(lines.next()?.1));
    }
    let (list, _) = list.split_once(']')?;
    let items = list.trim().trim_start_matches('[').split(',');
    let plugins = items.map(|item| item.trim().trim_matches(['"', '\'']).to_owned());
    let plugins = plugins.filter(|plugin| !plugin.is_empty()).collect();
    Some(DisabledPlugins { path: CONTAINERD_CONFIG.to_owned(), line, plugins })
}

/// No name of a plugin has a `#`.
fn without_comment(line: &str) -> &str {
    line.split('#').next().unwrap_or_default().trim()
}

fn certificates(settings: &KubeletSettings, host: &HostRoot) -> Vec<CertificateFile> {
    let mut files = Vec::new();
    let directory = settings.flag("cert-dir").unwrap_or("/var/lib/kubelet/pki");
    if let Some(path) = settings.flag("kubeconfig") {
        files.extend(client_certificate(path, host));
    }
    let setting = |flag, key| settings.setting(flag, key).ok().flatten().map(|setting| setting.value);
    let key = setting("tls-private-key-file", "tlsPrivateKeyFile");
    if let Some(path) = setting("tls-cert-file", "tlsCertFile") {
        files.push(file(&path, key.as_deref(), CertificateUse::Serving, Some("tlsCertFile"), host));
    } else if setting("rotate-server-certificates", "serverTLSBootstrap").as_deref() == Some("true") {
        let path = format!("{directory}/kubelet-server-current.pem");
        if fs::symlink_metadata(host.path(&path)).is_ok() {
            files.push(file(&path, None, CertificateUse::Serving, None, host));
        }
    }
    if let Some(path) = setting("client-ca-file", "authentication.x509.clientCAFile") {
        let name = Some("authentication.x509.clientCAFile");
        files.push(file(&path, None, CertificateUse::CallerAuthority, name, host));
    }
    files
}

/// Reads a file with certificates. Without `key`, the file itself may have the key.
fn file(
    path: &str,
    key: Option<&str>,
    usage: CertificateUse,
    named_by: Option<&'static str>,
    host: &HostRoot,
) -> CertificateFile {
    let read = |path: &str| load(&followed(path, host), LARGEST_FILE).map_err(|why| why.kind());
    let content = read(path).map(|pem| {
        let own = match (usage, key) {
            (CertificateUse::CallerAuthority, _) => None,
            (_, Some(key)) => read(key).ok(),
            (_, None) => Some(pem.clone()),
        };
        CertificateChain::read(&pem, own.as_deref())
    });
    CertificateFile { path: path.to_owned(), usage, named_by, content }
}

/// The path below the host root. A link of the kubelet to its newest certificate is absolute, on the node.
fn followed(path: &str, host: &HostRoot) -> PathBuf {
    let below = host.path(path);
    match fs::read_link(&below) {
        Ok(to) if to.is_absolute() => host.path(to),
        _ => below,
    }
}

/// The client certificate that a kubeconfig names by a path.
fn client_certificate(kubeconfig: &str, host: &HostRoot) -> Option<CertificateFile> {
    let text = load(&host.path(kubeconfig), LARGEST_FILE).ok()?;
    let root = read(&text).root.ok()?;
    let named = |list: &str, name: &str| {
        let entries = root.get(list).and_then(ManifestNode::as_list).unwrap_or_default();
        entries.iter().find(|entry| entry.get("name").and_then(ManifestNode::as_str) == Some(name)).cloned()
    };
    let current = root.get("current-context").and_then(ManifestNode::as_str)?;
    let context = named("contexts", current)?;
    let user = context.get("context")?.get("user")?.as_str()?.to_owned();
    let user = named("users", &user)?;
    let text = |key: &str| user.get("user").and_then(|user| user.get(key)?.as_str().map(str::to_owned));
    let path = text("client-certificate")?;
    // A relative path begins at the directory of the kubeconfig.
    let directory = Path::new(kubeconfig).parent().unwrap_or(Path::new("/"));
    let absolute = |path: String| directory.join(path).display().to_string();
    let key = text("client-key").map(absolute);
    Some(file(&absolute(path), key.as_deref(), CertificateUse::Client, Some("kubeconfig"), host))
}

/// Whether the settings of files and flags ask for a renewal of the client certificate.
pub fn rotates(settings: &MergedSettings) -> bool {
    settings.is_on("rotateCertificates", false)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_list_of_disabled_plugins_is_read_in_every_form() {
        let plugins = |text: &str| disabled_in(text).map(|found| (found.line, found.plugins));
        let cri = |line| Some((line, vec!["cri".to_owned()]));
        assert_eq!(plugins("version = 2\ndisabled_plugins = [\"cri\"]\n"), cri(2));
        assert_eq!(plugins("disabled_plugins = [\n  'cri', # no Kubernetes\n]\n[grpc]\n"), cri(1));
        assert_eq!(plugins("#disabled_plugins = [\"cri\"]\ndisabled_plugins = []\n"), Some((2, Vec::new())));
        assert_eq!(plugins("[plugins]\ndisabled_plugins = [\"cri\"]\n"), None);
        assert_eq!(plugins("disabled_plugins = [\"cri\""), None);
    }
}
