//! Reads the properties of a node that decide whether its kubelet starts: certificates, swap, kernel settings, inotify
//! instances, the runtime's socket and containerd's configuration.
//!
//! A read may block on a broken disk, so the caller must use a thread that it can give up. `node_checks` and
//! `runtime_checks` check the result.

use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::os::unix::fs::FileTypeExt;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use base64::Engine;
use base64::engine::general_purpose::STANDARD;

use super::credential_providers::CredentialProviders;
use super::node_resources::NodeResources;
use super::subordinate_ids::SubordinateIds;
use plegctl_api_values::reader::read;
use plegctl_api_values::tree::ManifestNode;
use plegctl_base::report::load::load;
use plegctl_node::host::proc::{ProcPaths, sample};
use plegctl_node::host::{ContainerdConfig, HostRoot, InotifyUse, containerd_config_path, kernel_text};
use plegctl_node::kubelet::{CertificateChain, CertificateFacts, KubeletSettings};

/// The maximum size of a certificate or kubeconfig.
const MAX_FILE_BYTES: usize = 1 << 20;

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

/// The use of a certificate.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", rename_all_fields = "camelCase")]
pub enum CertificateUse {
    /// The kubelet presents the certificate to the API server.
    Client,
    /// The kubelet presents the certificate to its callers.
    Serving,
    /// The kubelet verifies its callers with this certificate authority.
    CallerAuthority,
    /// The kubelet verifies the API server with this certificate authority.
    ServerAuthority,
}

impl CertificateUse {
    /// Returns the name in messages.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Client => "the client certificate",
            Self::Serving => "the serving certificate",
            Self::CallerAuthority => "the authority of the kubelet's callers",
            Self::ServerAuthority => "the authority of the API server",
        }
    }

    /// Whether the kubelet cannot use the API server without this certificate.
    pub const fn is_needed_for_the_server(self) -> bool {
        matches!(self, Self::Client | Self::ServerAuthority)
    }
}

/// The validity of a certificate at a given time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Validity {
    /// The certificate is valid.
    Valid,
    /// The certificate expired at this time, in seconds since the Unix epoch.
    Expired(i64),
    /// The certificate is valid only from this time on, in seconds since the Unix epoch.
    NotYet(i64),
}

/// A file with certificates.
#[derive(Clone, Debug)]
pub struct CertificateFile {
    /// The path, as the kubelet sees it.
    pub path: String,
    /// The use of its certificates.
    pub usage: CertificateUse,
    /// The setting with the path; `None` for the kubelet's default path.
    pub named_by: Option<&'static str>,
    /// The certificates, or why they cannot be read.
    pub content: Result<CertificateChain, io::ErrorKind>,
}

impl CertificateFile {
    /// Returns the certificate that counts: the newest in a file of authorities, which may also contain old authorities;
    /// the first in any other file.
    pub fn deciding(&self) -> Option<&CertificateFacts> {
        let certificates = &self.content.as_ref().ok()?.certificates;
        match self.usage {
            CertificateUse::CallerAuthority | CertificateUse::ServerAuthority => {
                certificates.iter().max_by_key(|certificate| certificate.not_after)
            }
            CertificateUse::Client | CertificateUse::Serving => certificates.first(),
        }
    }

    /// Returns the validity at `now`, in seconds since the Unix epoch; `None` if the file has no certificate.
    pub fn validity(&self, now: i64) -> Option<Validity> {
        let certificate = self.deciding()?;
        Some(if now > certificate.not_after {
            Validity::Expired(certificate.not_after)
        } else if now < certificate.not_before {
            Validity::NotYet(certificate.not_before)
        } else {
            Validity::Valid
        })
    }
}

/// The certificates in a kubelet's settings.
#[derive(Clone, Debug, Default)]
pub struct KubeletCertificates {
    /// The files.
    pub files: Vec<CertificateFile>,
    /// Whether the node has a bootstrap kubeconfig, with which the kubelet replaces an expired client certificate at its
    /// start.
    pub can_bootstrap: bool,
}

impl KubeletCertificates {
    /// Reads the files.
    pub fn read(settings: &KubeletSettings, host: &HostRoot) -> Self {
        Self {
            files: certificates(settings, host),
            can_bootstrap: settings.flag("bootstrap-kubeconfig").is_some_and(|path| host.path(path).exists()),
        }
    }
}

/// The files with which a kubelet finds its API server.
#[derive(Clone, Debug, Default)]
pub struct ClientFiles {
    /// The kubeconfig.
    pub kubeconfig: Option<NamedFile>,
    /// The kubeconfig with which the kubelet gets its first certificate.
    pub bootstrap: Option<NamedFile>,
}

/// A path on the kubelet's command line.
#[derive(Clone, Debug)]
pub struct NamedFile {
    /// The path, as the kubelet sees it.
    pub path: String,
    /// Whether there is no such file.
    pub is_missing: bool,
}

impl NamedFile {
    /// Returns the file that a flag names.
    pub fn of_flag(settings: &KubeletSettings, flag: &str, host: &HostRoot) -> Option<Self> {
        let path = settings.flag(flag)?.to_owned();
        let is_missing = is_missing(&path, host);
        Some(Self { path, is_missing })
    }
}

/// Whether a file of the node does not exist. In a container, plegctl may see only a part of the node's files, so the
/// file's directory must exist.
pub fn is_missing(path: &str, host: &HostRoot) -> bool {
    let below = followed(path, host);
    fs::metadata(&below).is_err_and(|why| why.kind() == io::ErrorKind::NotFound)
        && below.parent().is_some_and(Path::is_dir)
}

/// Why a call to the runtime failed, as far as it shows whether a kubelet could make the call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CallRefusal {
    /// Nobody listens on the socket, or the socket does not exist.
    NobodyListens,
    /// The runtime does not implement the call; its message.
    Unimplemented(String),
    /// What listens on the socket does not speak gRPC.
    WrongProtocol,
    /// An error that does not show whether the runtime serves CRI v1, in words.
    Unjudged(String),
}

/// The runtime's answers to the calls that a kubelet makes first.
#[derive(Clone, Debug)]
pub struct RuntimeAnswer {
    /// Whether Version was answered.
    pub version: Result<(), CallRefusal>,
    /// The answer to `RuntimeConfig`, `systemd` or `cgroupfs`, if Version was answered.
    pub cgroup_driver: Option<Result<Option<&'static str>, CallRefusal>>,
}

/// The properties of a node. A property that plegctl could not read, or had no reason to read, is `None`.
#[derive(Clone, Debug, Default)]
pub struct NodeFacts {
    /// The current time in seconds since the Unix epoch.
    pub now: i64,
    /// The active swap areas.
    pub swaps: Option<Vec<String>>,
    /// The values of `KERNEL_SETTINGS`.
    pub kernel: BTreeMap<&'static str, i64>,
    /// The files with which the kubelet finds its API server, if its whole command line is known.
    pub client: Option<ClientFiles>,
    /// The certificates in the kubelet's settings.
    pub certificates: KubeletCertificates,
    /// The online CPUs, as the kernel lists them.
    pub online_cpus: Option<String>,
    /// The programs that give the kubelet credentials for images, if its command line names some.
    pub credential_providers: Option<CredentialProviders>,
    /// The path of the image service's socket, and whether the socket exists, if the settings name one.
    pub image_socket: Option<(String, bool)>,
    /// Why nobody can be called on the image service's socket, if plegctl called.
    pub image_refusal: Option<CallRefusal>,
    /// The path of the runtime's socket, and whether the socket exists.
    pub runtime_socket: Option<(String, bool)>,
    /// The runtime's answers, if plegctl called the runtime.
    pub runtime: Option<RuntimeAnswer>,
    /// containerd's configuration, if the runtime is containerd.
    pub containerd: Option<ContainerdConfig>,
    /// The inotify instances of root's processes, without the running kubelet.
    pub inotify: Option<InotifyUse>,
    /// The path of the kubelet's root directory, if it exists and is not a directory.
    pub root_is_no_directory: Option<String>,
    /// The ids from which the kubelet gives pods their user namespaces.
    pub subordinate_ids: SubordinateIds,
    /// What the kubelet shares with other programs.
    pub resources: NodeResources,
}

/// The kubelet's default endpoint.
const DEFAULT_ENDPOINT: &str = "unix:///run/containerd/containerd.sock";

impl NodeFacts {
    /// Reads the node below `host` with the process table `proc`, for a kubelet with these settings. `pid` is the running
    /// kubelet.
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
        // In a program with a built-in kubelet, such as k3s, no flag shows the kubelet's endpoint.
        let socket = socket.filter(|_| settings.is_plain_kubelet());
        let containerd = socket.as_deref().and_then(|socket| containerd(socket, host, proc));
        let image_socket = settings.setting("image-service-endpoint", "imageServiceEndpoint").ok().flatten();
        let image_socket = image_socket.and_then(|set| set.value.strip_prefix("unix://").map(str::to_owned));
        let with_existence = |socket: String| socket_exists(&socket, host).map(|exists| (socket, exists));
        let root = settings.flag("root-dir").unwrap_or("/var/lib/kubelet");
        Self {
            now,
            resources: NodeResources::read(settings, host, proc, pid, socket.as_deref(), containerd.as_ref()),
            // A program that contains a kubelet may set failSwapOn where nobody sees it.
            swaps: if is_given(settings, "fail-swap-on", "failSwapOn") { swaps(proc) } else { None },
            kernel: kernel(proc),
            client: settings.is_plain_kubelet().then(|| ClientFiles {
                kubeconfig: NamedFile::of_flag(settings, "kubeconfig", host),
                bootstrap: NamedFile::of_flag(settings, "bootstrap-kubeconfig", host),
            }),
            certificates: KubeletCertificates::read(settings, host),
            online_cpus: kernel_text(&host.path("/sys/devices/system/cpu/online"))
                .ok()
                .map(|list| list.trim().to_owned()),
            credential_providers: CredentialProviders::read(settings, host),
            image_socket: image_socket.and_then(with_existence),
            image_refusal: None,
            runtime_socket: socket.and_then(with_existence),
            runtime: None,
            containerd,
            inotify: InotifyUse::count(proc, pid),
            subordinate_ids: SubordinateIds::read(root, host),
            root_is_no_directory: fs::metadata(host.path(root))
                .is_ok_and(|about| !about.is_dir())
                .then(|| root.to_owned()),
        }
    }
}

/// Whether the value of a setting is known: the settings contain it, or the kubelet is not built into another program, so
/// that its default applies.
pub fn is_given(settings: &KubeletSettings, flag: &str, key: &str) -> bool {
    settings.is_plain_kubelet() || settings.setting(flag, key).is_ok_and(|setting| setting.is_some())
}

/// Whether a path is a socket; `None` if plegctl cannot see this.
fn socket_exists(path: &str, host: &HostRoot) -> Option<bool> {
    let mut is_missing = true;
    for path in socket_paths(path, host) {
        match fs::metadata(path) {
            Ok(about) if about.file_type().is_socket() => return Some(true),
            Ok(_) => {}
            Err(why) => is_missing &= why.kind() == io::ErrorKind::NotFound,
        }
    }
    is_missing.then_some(false)
}

/// Returns the paths at which plegctl may find a socket of the node. For a path below `/var/run`, the second one is below `/run`, because the link
/// is absolute and so does not work if the node's files are mounted below another root.
fn socket_paths(path: &str, host: &HostRoot) -> [PathBuf; 2] {
    let without_var = path.strip_prefix("/var").filter(|rest| rest.starts_with("/run/")).unwrap_or(path);
    [host.path(path), host.path(without_var)]
}

/// Returns the path at which plegctl finds a socket of the node, if the socket exists.
pub fn socket_below(path: &str, host: &HostRoot) -> Option<PathBuf> {
    let is_socket = |path: &PathBuf| fs::metadata(path).is_ok_and(|about| about.file_type().is_socket());
    socket_paths(path, host).into_iter().find(is_socket)
}

/// Returns the active swap areas: the lines of `/proc/swaps` after the heading, as the kubelet reads them
/// (`isSwapOnAccordingToProcSwaps`).
fn swaps(proc: &Path) -> Option<Vec<String>> {
    let text = kernel_text(&proc.join("swaps")).ok()?;
    let names = text.lines().skip(1).filter_map(|line| line.split_ascii_whitespace().next());
    Some(names.map(str::to_owned).collect())
}

/// Returns the values of [`KERNEL_SETTINGS`].
fn kernel(proc: &Path) -> BTreeMap<&'static str, i64> {
    let values = KERNEL_SETTINGS.iter().filter_map(|(name, _)| {
        let text = kernel_text(&proc.join("sys").join(name)).ok()?;
        Some((*name, text.trim().parse().ok()?))
    });
    values.collect()
}

/// Reads the configuration of the containerd behind `socket`.
fn containerd(socket: &str, host: &HostRoot, proc: &Path) -> Option<ContainerdConfig> {
    let paths = ProcPaths {
        proc: proc.to_path_buf(),
        cgroup: host.path("/sys/fs/cgroup"),
        socket: Some(PathBuf::from(socket)),
    };
    let path = containerd_config_path(Some(&sample(&paths)), socket)?;
    ContainerdConfig::read(&path, host)
}

/// Reads the certificates in the settings.
fn certificates(settings: &KubeletSettings, host: &HostRoot) -> Vec<CertificateFile> {
    let mut files = Vec::new();
    let directory = settings.flag("cert-dir").unwrap_or("/var/lib/kubelet/pki");
    if let Some(path) = settings.flag("kubeconfig") {
        files.extend(of_kubeconfig(path, host));
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

/// Reads a file with certificates. `key` is the path of the private key; if there is none, the certificate file may contain
/// the key.
fn file(
    path: &str,
    key: Option<&str>,
    usage: CertificateUse,
    named_by: Option<&'static str>,
    host: &HostRoot,
) -> CertificateFile {
    let read = |path: &str| load(&followed(path, host), MAX_FILE_BYTES).map_err(|why| why.kind());
    let content = read(path).map(|pem| {
        let key = match (usage, key) {
            (CertificateUse::CallerAuthority | CertificateUse::ServerAuthority, _) => None,
            (_, Some(key)) => read(key).ok(),
            (_, None) => Some(pem.clone()),
        };
        CertificateChain::read(&pem, key.as_deref())
    });
    CertificateFile { path: path.to_owned(), usage, named_by, content }
}

/// Returns a path below the host root, and follows one absolute link on the node. The kubelet's link to its newest
/// certificate is absolute.
pub fn followed(path: &str, host: &HostRoot) -> PathBuf {
    let below = host.path(path);
    match fs::read_link(&below) {
        Ok(to) if to.is_absolute() => host.path(to),
        _ => below,
    }
}

/// Reads the client certificate and the certificate authority of a kubeconfig. The kubeconfig contains the certificates or
/// the paths of their files.
fn of_kubeconfig(kubeconfig: &str, host: &HostRoot) -> Vec<CertificateFile> {
    let Some(text) = load(&host.path(kubeconfig), MAX_FILE_BYTES).ok() else { return Vec::new() };
    let Ok(root) = read(&text).root else { return Vec::new() };
    let entry = |list: &str, name: &str, kind: &str| {
        let entries = root.get(list).and_then(ManifestNode::as_list).unwrap_or_default();
        let is_named = |entry: &&ManifestNode| entry.get("name").and_then(ManifestNode::as_str) == Some(name);
        entries.iter().find(is_named)?.get(kind).cloned()
    };
    let current = root.get("current-context").and_then(ManifestNode::as_str);
    let Some(context) = current.and_then(|name| entry("contexts", name, "context")) else {
        return Vec::new();
    };
    let part = |list: &str, kind: &str| entry(list, context.get(kind)?.as_str()?, kind);
    let (user, cluster) = (part("users", "user"), part("clusters", "cluster"));
    // A relative path is relative to the directory of the kubeconfig.
    let directory = Path::new(kubeconfig).parent().unwrap_or(Path::new("/"));
    let text = |node: &Option<ManifestNode>, key: &str| {
        node.as_ref()
            .and_then(|node| node.get(key)?.as_str().map(str::to_owned))
            .filter(|text| !text.is_empty())
    };
    let path = |node: &Option<ManifestNode>, key: &str| {
        text(node, key).map(|path| directory.join(path).display().to_string())
    };
    // Data in the kubeconfig overrides a file.
    let data = |node: &Option<ManifestNode>, key: &str| STANDARD.decode(text(node, key)?.trim()).ok();
    let embedded = |pem: Vec<u8>, key: Option<&[u8]>, usage| CertificateFile {
        path: kubeconfig.to_owned(),
        usage,
        named_by: Some("kubeconfig"),
        content: Ok(CertificateChain::read(&pem, key)),
    };
    let client = match data(&user, "client-certificate-data") {
        Some(pem) => Some(embedded(pem, data(&user, "client-key-data").as_deref(), CertificateUse::Client)),
        None => path(&user, "client-certificate").map(|certificate| {
            let key = path(&user, "client-key");
            file(&certificate, key.as_deref(), CertificateUse::Client, Some("kubeconfig"), host)
        }),
    };
    let authority = match data(&cluster, "certificate-authority-data") {
        Some(pem) => Some(embedded(pem, None, CertificateUse::ServerAuthority)),
        None => path(&cluster, "certificate-authority")
            .map(|path| file(&path, None, CertificateUse::ServerAuthority, Some("kubeconfig"), host)),
    };
    client.into_iter().chain(authority).collect()
}
