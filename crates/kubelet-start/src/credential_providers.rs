//! Reads and checks the programs that give the kubelet credentials for images: `--image-credential-provider-config` and
//! `--image-credential-provider-bin-dir` (KP058; `RegisterCredentialProviderPlugins` in the kubelet).
//!
//! [`CredentialProviders::read`] reads files, which may block on a broken disk. [`CredentialProviders::fault`] is a pure
//! function. Programs are never started, and unknown fields of the configuration are not reported.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use super::catalogue::StartCheck;
use super::finding::StartFinding;
use super::node_facts::{NamedFile, followed, is_missing};
use super::release::TargetKubelet;
use super::settings::Origin;
use plegctl_api_values::reader::read;
use plegctl_api_values::tree::{ManifestNode, Position};
use plegctl_base::report::load::load;
use plegctl_node::host::HostRoot;
use plegctl_node::kubelet::KubeletSettings;

const CONFIG_FLAG: &str = "image-credential-provider-config";
const DIRECTORY_FLAG: &str = "image-credential-provider-bin-dir";

/// The kind of the configuration file.
const KIND: &str = "CredentialProviderConfig";

/// The versions of the configuration file that the kubelet reads.
const VERSIONS: [&str; 3] =
    ["kubelet.config.k8s.io/v1", "kubelet.config.k8s.io/v1beta1", "kubelet.config.k8s.io/v1alpha1"];

/// The versions of the interface between kubelet and program.
const INTERFACES: [&str; 3] = [
    "credentialprovider.kubelet.k8s.io/v1",
    "credentialprovider.kubelet.k8s.io/v1alpha1",
    "credentialprovider.kubelet.k8s.io/v1beta1",
];

/// The first minor release that also reads a directory of configuration files.
const READS_DIRECTORIES: u8 = 34;

/// The first minor release that checks whether a program is executable.
const CHECKS_EXECUTABLES: u8 = 30;

/// The largest configuration file that is read.
const LARGEST_FILE: usize = 1 << 20;

/// The largest number of files of a directory that are read.
const MOST_FILES: usize = 64;

/// What the kubelet's command line says about credential programs, and what is on the node.
#[derive(Clone, Debug)]
pub struct CredentialProviders {
    config: Option<NamedFile>,
    directory: Option<NamedFile>,
    /// Whether `config` is a directory.
    is_config_a_directory: bool,
    /// The configuration files, as the kubelet sees them, with their bytes if plegctl can read them.
    files: Vec<(String, Option<Vec<u8>>)>,
    /// The programs that the files name, by name.
    programs: BTreeMap<String, Program>,
}

/// Whether the kubelet can start a program.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Program {
    Usable,
    Missing,
    NotExecutable,
}

/// Returns the finding about a fault. `reason` has the kubelet's words, and `origin` is the flag that names the wrong path, or the
/// file with the fault.
fn fault(message: String, reason: &str, origin: &Origin) -> StartFinding {
    StartFinding::new(StartCheck::CredentialProviders, message)
        .at(origin)
        .with_reason(format!("\"Failed to register CRI auth plugins\" err={reason:?}"))
}

impl CredentialProviders {
    /// Reads the files; `None` if the kubelet uses no such programs.
    pub fn read(settings: &KubeletSettings, host: &HostRoot) -> Option<Self> {
        let config = NamedFile::of_flag(settings, CONFIG_FLAG, host);
        let directory = NamedFile::of_flag(settings, DIRECTORY_FLAG, host);
        if config.is_none() && directory.is_none() {
            return None;
        }
        let config_path = config.as_ref().map_or("", |config| config.path.as_str());
        let below = host.path(config_path);
        let is_config_a_directory = below.is_dir();
        let paths =
            if is_config_a_directory { files_of(config_path, &below) } else { vec![config_path.to_owned()] };
        let read = |path: String| {
            let bytes = load(&followed(&path, host), LARGEST_FILE).ok();
            (path, bytes)
        };
        let files: Vec<_> = paths.into_iter().map(read).collect();
        let folder = directory.as_ref().map_or("", |directory| directory.path.as_str());
        let texts = files.iter().filter_map(|(_, bytes)| bytes.as_deref());
        let names = texts.flat_map(|text| {
            providers(text).iter().map(|one| text_of(one, "name").to_owned()).collect::<Vec<_>>()
        });
        let programs = names.map(|name| {
            let program = program(&format!("{}/{name}", folder.trim_end_matches('/')), host);
            (name, program)
        });
        let programs = programs.collect();
        Some(Self { config, directory, is_config_a_directory, files, programs })
    }

    /// Returns the finding about the first fault that a kubelet of this release finds.
    pub fn fault(&self, kubelet: TargetKubelet) -> Option<StartFinding> {
        let of_flag =
            |flag: &str, message, reason: &str| Some(fault(message, reason, &Origin::Flag(flag.to_owned())));
        let directory = self.directory.as_ref();
        let folder = directory.map_or("", |directory| directory.path.as_str());
        if directory.is_none_or(|directory| directory.is_missing) {
            let message = match directory {
                Some(_) => format!("the directory {folder} does not exist"),
                None => format!("--{CONFIG_FLAG} needs --{DIRECTORY_FLAG}"),
            };
            return of_flag(
                DIRECTORY_FLAG,
                message,
                &format!("plugin binary directory {folder} did not exist"),
            );
        }
        let Some(config) = &self.config else {
            let message = format!("--{DIRECTORY_FLAG} needs --{CONFIG_FLAG}");
            return of_flag(CONFIG_FLAG, message, "credential provider config path is empty");
        };
        if let Some((message, reason)) = self.unread_config(config, kubelet) {
            return of_flag(CONFIG_FLAG, message, &reason);
        }
        let files = || self.files.iter().filter_map(|(path, bytes)| Some((path, bytes.as_deref()?)));
        let undecoded = files().find_map(|(path, bytes)| undecoded(path, bytes, kubelet));
        let refused = || files().find_map(|(path, bytes)| refused(path, bytes));
        let unusable =
            || files().find_map(|(path, bytes)| self.unusable_program(path, bytes, folder, kubelet));
        undecoded.or_else(refused).or_else(unusable)
    }

    /// Returns the message and the kubelet's words about a configuration that cannot be read.
    fn unread_config(&self, config: &NamedFile, kubelet: TargetKubelet) -> Option<(String, String)> {
        let path = &config.path;
        let reads_directories = kubelet.release.at_least(READS_DIRECTORIES);
        let unable = "unable to read external registry credential provider configuration from";
        if config.is_missing {
            let reason = if reads_directories {
                format!("unable to access path {path:?}: stat {path}: no such file or directory")
            } else {
                format!("{unable} {path:?}: open {path}: no such file or directory")
            };
            return Some((format!("{path} does not exist"), reason));
        }
        match (self.is_config_a_directory, reads_directories) {
            (true, true) if self.files.is_empty() => Some((
                format!("the directory {path} has no .json, .yaml or .yml file"),
                format!("no configuration files found in directory {path:?}"),
            )),
            (true, false) => Some((
                format!("{path} is a directory, but kubelet {} reads a file", kubelet.release),
                format!("{unable} {path:?}: read {path}: is a directory"),
            )),
            _ => None,
        }
    }

    /// Returns the fault about a program that the kubelet cannot start.
    fn unusable_program(
        &self,
        path: &str,
        bytes: &[u8],
        folder: &str,
        kubelet: TargetKubelet,
    ) -> Option<StartFinding> {
        let checks_executables = kubelet.release.at_least(CHECKS_EXECUTABLES);
        let document = read(bytes).root.ok()?;
        let mut list = providers_of(&document).iter();
        list.find_map(|provider| {
            let name = text_of(provider, "name");
            let program = format!("{}/{name}", folder.trim_end_matches('/'));
            let (message, reason) = match self.programs.get(name)? {
                // Since 1.30, the message has no name.
                Program::Missing => {
                    let named = if checks_executables { "" } else { &program };
                    let reason = format!("plugin binary executable {named} did not exist");
                    (format!("{program} does not exist"), reason)
                }
                Program::NotExecutable if checks_executables => (
                    format!("{program} is not an executable file"),
                    format!("error inspecting binary executable : exec: {program:?}"),
                ),
                Program::NotExecutable | Program::Usable => return None,
            };
            Some(fault(message, &reason, &place(path, provider.get("name").unwrap_or(provider))))
        })
    }
}

/// Returns the configuration files in a directory, in the order in which the kubelet reads them.
fn files_of(directory: &str, below: &Path) -> Vec<String> {
    let entries = fs::read_dir(below).into_iter().flatten().flatten().take(MOST_FILES);
    let is_config = |path: &Path| {
        path.extension().is_some_and(|ending| ["json", "yaml", "yml"].iter().any(|known| ending == *known))
    };
    let files = entries.map(|entry| entry.path()).filter(|path| is_config(path) && !path.is_dir());
    let names = files.filter_map(|path| path.file_name()?.to_str().map(str::to_owned));
    let mut paths: Vec<String> =
        names.map(|name| format!("{}/{name}", directory.trim_end_matches('/'))).collect();
    paths.sort();
    paths
}

fn program(path: &str, host: &HostRoot) -> Program {
    match fs::metadata(followed(path, host)) {
        Ok(about) if about.is_dir() || about.permissions().mode() & 0o111 == 0 => Program::NotExecutable,
        Err(_) if is_missing(path, host) => Program::Missing,
        // plegctl may not see what the kubelet sees.
        Ok(_) | Err(_) => Program::Usable,
    }
}

fn text_of<'a>(node: &'a ManifestNode, key: &str) -> &'a str {
    node.get(key).and_then(ManifestNode::as_str).unwrap_or_default()
}

fn providers_of(document: &ManifestNode) -> &[ManifestNode] {
    document.get("providers").and_then(ManifestNode::as_list).unwrap_or_default()
}

fn providers(text: &[u8]) -> Vec<ManifestNode> {
    read(text).root.map(|document| providers_of(&document).to_vec()).unwrap_or_default()
}

fn place(path: &str, node: &ManifestNode) -> Origin {
    Origin::File { file: path.into(), position: node.position }
}

/// Returns the fault of a file that the kubelet cannot decode.
fn undecoded(path: &str, bytes: &[u8], kubelet: TargetKubelet) -> Option<StartFinding> {
    let shown =
        if kubelet.release.at_least(READS_DIRECTORIES) { format!("{path:?}") } else { path.to_owned() };
    let fault = |message: &str, why: &str, position: Position| {
        let origin = Origin::File { file: path.into(), position };
        Some(fault(format!("{message}: {path}"), &format!("error decoding config {shown}: {why}"), &origin))
    };
    if bytes.is_empty() {
        return fault("the file is empty", "Object 'Kind' is missing in ''", Position::START);
    }
    let document = match read(bytes).root {
        Ok(document) => document,
        Err(why) => return fault(&why.message, &why.reason, why.position.unwrap_or(Position::START)),
    };
    let (kind, version) = (text_of(&document, "kind"), text_of(&document, "apiVersion"));
    let why = match (kind, version) {
        ("", _) => "Object 'Kind' is missing in".to_owned(),
        (_, "") => "Object 'apiVersion' is missing in".to_owned(),
        (KIND, version) if VERSIONS.contains(&version) => return None,
        ("KubeletConfiguration" | "SerializedNodeConfigSource", _) => {
            format!("failed to decode {kind:?} (wrong Kind)")
        }
        _ => format!("no kind {kind:?} is registered for version {version:?}"),
    };
    let message = format!("the file is not a {KIND} of {}", VERSIONS[0]);
    fault(&message, &why, document.position)
}

/// Returns the fault of a file with values that the kubelet refuses.
fn refused(path: &str, bytes: &[u8]) -> Option<StartFinding> {
    let document = read(bytes).root.ok()?;
    let list = providers_of(&document);
    let fault = |field: &str, why: &str, node: &ManifestNode| {
        let reason = format!("failed to validate credential provider config: {field}: {why}");
        fault(format!("the kubelet does not accept {field} in {path}"), &reason, &place(path, node))
    };
    if list.is_empty() {
        let why = "Required value: at least 1 item in plugins is required";
        return Some(fault("providers", why, &document));
    }
    list.iter().find_map(|provider| {
        let name = text_of(provider, "name");
        let wrong_name = match name {
            _ if name.contains('/') => Some("provider name cannot contain '/'"),
            _ if name.contains(' ') => Some("provider name cannot contain spaces"),
            "." => Some("provider name cannot be '.'"),
            ".." => Some("provider name cannot be '..'"),
            _ => None,
        };
        if let Some(why) = wrong_name {
            return Some(fault("providers.name", &format!("Invalid value: {name:?}: {why}"), provider));
        }
        match text_of(provider, "apiVersion") {
            "" => return Some(fault("providers.apiVersion", "Required value", provider)),
            version if !INTERFACES.contains(&version) => {
                let why = format!("Unsupported value: {version:?}");
                return Some(fault("providers.apiVersion", &why, provider));
            }
            _ => {}
        }
        let has_images =
            provider.get("matchImages").and_then(ManifestNode::as_list).is_some_and(|list| !list.is_empty());
        if !has_images {
            let why = "Required value: at least 1 item in matchImages is required";
            return Some(fault("providers.matchImages", why, provider));
        }
        provider
            .get("defaultCacheDuration")
            .is_none_or(ManifestNode::is_null)
            .then(|| fault("providers.defaultCacheDuration", "Required value", provider))
    })
}

#[cfg(test)]
mod tests {
    use std::path::PathBuf;
    use std::sync::atomic::{AtomicU32, Ordering};

    use super::super::tests::recorded::{recorded_line, without_marks};
    use super::*;

    /// A node with configurations and programs in `/etc/kubelet`, deleted when the test ends.
    struct Node(PathBuf);

    impl Node {
        fn new() -> Self {
            static NEXT: AtomicU32 = AtomicU32::new(0);
            let number = NEXT.fetch_add(1, Ordering::Relaxed);
            let name = format!("plegctl-providers-{}-{number}", std::process::id());
            let node = Self(std::env::temp_dir().join(name));
            let folder = node.0.join("etc/kubelet");
            let _ = fs::remove_dir_all(&node.0);
            fs::create_dir_all(folder.join("cpempty")).unwrap();
            fs::create_dir_all(node.0.join("opt")).unwrap();
            let good = "apiVersion: kubelet.config.k8s.io/v1\nkind: CredentialProviderConfig\nproviders:\n\
                - name: NAME\n  apiVersion: credentialprovider.kubelet.k8s.io/v1\n  matchImages: ['*.example.com']\n  \
                defaultCacheDuration: 12h\n";
            let named = |name: &str| good.replace("NAME", name);
            for (file, text) in [
                ("cpgood.yaml", named("good")),
                ("cpnone.yaml", named("none")),
                ("cpnoexec.yaml", named("noexec")),
                ("cpspace.yaml", named("a b")),
                ("cpkind.yaml", good.replace("CredentialP", "CreentialP")),
                ("cpyaml.yaml", "[a\n".to_owned()),
                ("cpempty.yaml", String::new()),
                ("cpnoprov.yaml", good.split("providers").next().unwrap().to_owned()),
                ("cpapi.yaml", good.replace("credentialprovider.kubelet.k8s.io", "foo")),
                ("noexec", String::new()),
                ("good", String::new()),
            ] {
                fs::write(folder.join(file), text).unwrap();
            }
            fs::set_permissions(folder.join("good"), fs::Permissions::from_mode(0o755)).unwrap();
            node
        }

        fn fault(&self, flags: &str, release: &str) -> Option<StartFinding> {
            let host = HostRoot::resolve(Some(&self.0));
            let arguments = format!("kubelet {flags}").split(' ').collect();
            let settings = KubeletSettings::read(arguments, None, &host);
            CredentialProviders::read(&settings, &host)?.fault(TargetKubelet::upstream(release))
        }
    }

    impl Drop for Node {
        fn drop(&mut self) {
            let _ = fs::remove_dir_all(&self.0);
        }
    }

    fn flags(config: &str, directory: &str) -> String {
        format!("--{CONFIG_FLAG}={config} --{DIRECTORY_FLAG}={directory}")
    }

    #[test]
    fn each_fault_has_the_message_of_the_kubelets_log() {
        let node = Node::new();
        let of_file = |name: &str| flags(&format!("/etc/kubelet/{name}"), "/etc/kubelet");
        for (case, flags, line) in [
            ("cp_missing", of_file("nope.yaml"), None),
            ("cp_dirmissing", flags("/etc/kubelet/cpgood.yaml", "/opt/none"), None),
            ("cp_yaml", of_file("cpyaml.yaml"), Some(2)),
            ("cp_kind", of_file("cpkind.yaml"), Some(1)),
            ("cp_empty", of_file("cpempty.yaml"), Some(1)),
            ("cp_emptydir", of_file("cpempty"), None),
            ("cp_noprov", of_file("cpnoprov.yaml"), Some(1)),
            ("cp_none", of_file("cpnone.yaml"), Some(4)),
            ("cp_noexec", of_file("cpnoexec.yaml"), Some(4)),
            ("cp_api", of_file("cpapi.yaml"), Some(4)),
            ("cp_space", of_file("cpspace.yaml"), Some(4)),
            ("cp_onlyconf", format!("--{CONFIG_FLAG}=/etc/kubelet/cpgood.yaml"), None),
            ("cp_onlydir", format!("--{DIRECTORY_FLAG}=/etc/kubelet"), None),
        ] {
            let finding = node.fault(&flags, "1.36").unwrap_or_else(|| panic!("{case}"));
            let reason = without_marks(finding.kubelet_reason.as_deref().unwrap());
            let recorded = recorded_line(case);
            // The end of some messages is left out.
            let start = reason.strip_suffix('"').unwrap();
            assert!(recorded.contains(start), "{case}: {recorded}\n{reason}");
            assert_eq!(finding.line, line, "{case}");
        }
        assert!(node.fault(&of_file("cpgood.yaml"), "1.36").is_none());
        assert!(node.fault("--v=2", "1.36").is_none());
    }

    #[test]
    fn older_releases_read_no_directory_and_start_with_a_program_that_is_not_executable() {
        let node = Node::new();
        let reason = |name: &str, release| {
            let flags = flags(&format!("/etc/kubelet/{name}"), "/etc/kubelet");
            node.fault(&flags, release).map(|finding| finding.kubelet_reason.unwrap())
        };
        assert_eq!(reason("cpnoexec.yaml", "1.29"), None);
        let absent = reason("cpnone.yaml", "1.29").unwrap();
        assert!(absent.contains("plugin binary executable /etc/kubelet/none did not exist"), "{absent}");
        let directory = reason("cpempty", "1.33").unwrap();
        assert!(directory.contains("read /etc/kubelet/cpempty: is a directory"), "{directory}");
        let missing = reason("nope.yaml", "1.33").unwrap();
        assert!(missing.contains("open /etc/kubelet/nope.yaml: no such file"), "{missing}");
    }
}
