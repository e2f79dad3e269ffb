//! Reads the settings of a kubelet from its command line, its configuration file and its drop-in files.
//!
//! A flag overrides every file, and a later file overrides an earlier file. Each setting has one text as its value; a
//! list becomes one text with commas, as in a flag.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::KubeletVersion;
use super::program::release_of_program;
use crate::host::{Arguments, HostRoot, ScalarsError, file_scalars, scalars};
use plegctl_base::report::load::load;

/// The maximum number of drop-in files that are read.
const MAX_DROP_INS: usize = 256;
/// The maximum depth of subdirectories of the drop-in directory.
const MAX_DEPTH: usize = 8;
/// The largest file of arguments that is read.
const LARGEST_ARGUMENTS: usize = 64 * 1024;

/// Flags whose value is a path, which may be relative to the kubelet's working directory.
const PATH_FLAGS: [&str; 12] = [
    "bootstrap-kubeconfig",
    "cert-dir",
    "config",
    "config-dir",
    "image-credential-provider-bin-dir",
    "image-credential-provider-config",
    "kubeconfig",
    "kubelet-args-file",
    "pod-manifest-path",
    "root-dir",
    "tls-cert-file",
    "tls-private-key-file",
];
/// Configuration keys whose value is a path. The kubelet resolves a relative path from the directory of its
/// configuration file, and in a drop-in from its working directory (`KubeletConfigurationPathRefs` and `Load` in its
/// `configfiles.go`).
const PATH_KEYS: [&str; 4] =
    ["authentication.x509.clientCAFile", "staticPodPath", "tlsCertFile", "tlsPrivateKeyFile"];

/// The settings of a kubelet from its flags and files.
#[derive(Clone, Debug, Default)]
pub struct KubeletSettings {
    arguments: Arguments,
    /// The kubelet's own arguments, without the program's name. If a program contains the kubelet (k3s), the
    /// program's arguments are left out.
    own_arguments: Vec<String>,
    /// The absolute path for each flag with a relative path; `None` if the working directory is not known.
    absolute_paths: BTreeMap<&'static str, Option<String>>,
    /// The settings of the files, by key.
    files: BTreeMap<String, Setting>,
    file_error: Option<Arc<ScalarsError>>,
}

/// The value of a setting, and its source.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Setting {
    /// The value.
    pub value: String,
    /// The flag, or the key and its file.
    pub source: String,
}

impl KubeletSettings {
    /// Reads the release from the program on the command line, for a kubelet that does not run; `None` if no absolute path names
    /// it. A read can wait for a disk forever, so call this in a thread that can be abandoned.
    pub fn program_release(&self, host: &HostRoot) -> Option<KubeletVersion> {
        let program = self.arguments.iter().next().map(Path::new).filter(|program| program.is_absolute())?;
        release_of_program(&File::open(host.path(program)).ok()?)
    }

    /// Reads the settings of a kubelet with this command line and the working directory `cwd`, whose files are below
    /// the root `host`. A relative path is never resolved from plegctl's own directory. A file may be on a disk that
    /// does not answer, so call this in a thread that can be abandoned.
    pub fn read(arguments: Arguments, cwd: Option<&Path>, host: &HostRoot) -> Self {
        let outer = Self { absolute_paths: absolute_paths(&arguments, cwd), arguments, ..Self::default() };
        let inner = inner_arguments(&outer, host);
        let arguments: Arguments = outer.arguments.iter().chain(&inner).cloned().collect();
        let own_arguments = if outer.is_plain_kubelet() {
            outer.arguments.get(1..).unwrap_or_default().to_vec()
        } else {
            inner
        };
        let absolute_paths = absolute_paths(&arguments, cwd);
        let mut settings = Self { arguments, own_arguments, absolute_paths, ..Self::default() };
        for flag in ["config", "config-dir"] {
            settings.file_error = settings.unresolved_path(flag).map(Arc::new).or(settings.file_error);
        }
        let main = settings.flag("config").map(PathBuf::from);
        let drop_ins = settings.flag("config-dir").map(|path| drop_ins(&host.path(path))).unwrap_or_default();
        if let Some(main) = main {
            settings.add_file(&host.path(&main), main.parent());
        }
        for file in drop_ins {
            settings.add_file(&file, cwd);
        }
        settings
    }

    /// Reads the settings of a file. A relative path in the file is resolved from `base`.
    fn add_file(&mut self, file: &Path, base: Option<&Path>) {
        let mut scalars = match file_scalars(file) {
            Ok(scalars) => scalars,
            Err(why) => {
                self.file_error = Some(Arc::new(why));
                return;
            }
        };
        for key in PATH_KEYS {
            let Some(path) = scalars.get_mut(key).filter(|path| is_relative(path)) else { continue };
            if let Some(absolute_paths) = absolute(base, path) {
                *path = absolute_paths;
            } else {
                self.file_error = Some(Arc::new(ScalarsError::Relative { path: PathBuf::from(&*path) }));
                scalars.remove(key);
            }
        }
        self.add_values(scalars, file);
    }

    /// Combines a command line with the text of a configuration file. Text that cannot be parsed has no settings.
    pub fn parse(arguments: Arguments, file: &[u8]) -> Self {
        let mut settings = Self { arguments, ..Self::default() };
        settings.add_values(scalars(file).unwrap_or_default(), Path::new("the configuration file"));
        settings
    }

    fn add_values(&mut self, scalars: BTreeMap<String, String>, file: &Path) {
        for (key, value) in scalars {
            let source = format!("{key} in {}", file.display());
            self.files.insert(key, Setting { value, source });
        }
    }

    /// Returns the value of a flag; if the flag is repeated, the last value, as in the kubelet.
    pub fn flag(&self, name: &str) -> Option<&str> {
        match self.absolute_paths.get(name) {
            Some(absolute_paths) => absolute_paths.as_deref(),
            None => self.arguments.flag(name),
        }
    }

    /// Returns why the relative path of a flag cannot be resolved; `None` if the flag is missing or its path is
    /// known.
    pub fn unresolved_path(&self, flag: &str) -> Option<ScalarsError> {
        let is_unknown = self.absolute_paths.get(flag).is_some_and(Option::is_none);
        let path = self.arguments.flag(flag).filter(|_| is_unknown)?;
        Some(ScalarsError::Relative { path: PathBuf::from(path) })
    }

    /// Returns all values of a flag that may be repeated, in order.
    pub fn all_values(&self, name: &str) -> Vec<&str> {
        self.arguments.all_values(name)
    }

    /// Returns the value of a configuration key.
    pub fn key(&self, key: &str) -> Option<&str> {
        self.files.get(key).map(|setting| setting.value.as_str()).filter(|value| !value.is_empty())
    }

    /// Returns the kubelet's own arguments, without the program's name. For a program that contains a kubelet (k3s
    /// and others), returns only the arguments that it passes to the kubelet.
    pub fn own_arguments(&self) -> &[String] {
        &self.own_arguments
    }

    /// Whether the program is a kubelet and nothing else.
    pub fn is_plain_kubelet(&self) -> bool {
        let program = self.arguments.first().and_then(|program| Path::new(program).file_name());
        program.is_some_and(|name| name == "kubelet")
    }

    /// Whether this is a kubelet without an API server. Programs that contain a kubelet (k3s and others) always give
    /// it an API server.
    pub fn is_standalone(&self) -> bool {
        self.is_plain_kubelet()
            && ["kubeconfig", "bootstrap-kubeconfig"].iter().all(|flag| self.flag(flag).is_none())
    }

    /// Returns the headers that the kubelet sends to its manifest URL, from the flags or, without flags, from the
    /// files.
    pub fn url_headers(&self) -> Vec<(String, String)> {
        let flags = self.all_values("manifest-url-header");
        let pair = |(key, value): (&str, &str)| (key.trim().to_owned(), value.trim().to_owned());
        if !flags.is_empty() {
            let pairs = flags.into_iter().flat_map(|flag| flag.split(','));
            return pairs.filter_map(|text| text.split_once(':')).map(pair).collect();
        }
        // HTTP allows several values of a header as one value with commas.
        let headers = self.files.iter().filter_map(|(key, setting)| {
            Some(pair((key.strip_prefix("staticPodURLHeader.")?, &setting.value)))
        });
        headers.collect()
    }

    /// Returns a setting: the flag if present, otherwise the configuration key, as far as the files could be read. Fails
    /// if no file that could be read has the key, and another file could not be read.
    pub fn setting(&self, flag: &str, key: &str) -> Result<Option<Setting>, Arc<ScalarsError>> {
        if let Some(why) = self.unresolved_path(flag) {
            return Err(Arc::new(why));
        }
        if let Some(value) = self.flag(flag) {
            return Ok(Some(Setting { value: value.to_owned(), source: format!("the kubelet's --{flag}") }));
        }
        let found = self.files.get(key).filter(|setting| !setting.value.is_empty()).cloned();
        match (found, &self.file_error) {
            (None, Some(why)) => Err(Arc::clone(why)),
            (found, _) => Ok(found),
        }
    }
}

/// Returns the flags with a relative path, each with its absolute path if the working directory is known.
fn absolute_paths(arguments: &Arguments, cwd: Option<&Path>) -> BTreeMap<&'static str, Option<String>> {
    let relative = |flag: &'static str| {
        let path = arguments.flag(flag).filter(|path| is_relative(path))?;
        Some((flag, absolute(cwd, path)))
    };
    PATH_FLAGS.into_iter().filter_map(relative).collect()
}

fn is_relative(path: &str) -> bool {
    !path.is_empty() && !path.starts_with('/')
}

fn absolute(base: Option<&Path>, path: &str) -> Option<String> {
    let base = base.filter(|base| base.is_absolute())?;
    Some(base.join(path).to_string_lossy().into_owned())
}

/// Returns the `.conf` files of a drop-in directory and its subdirectories by name, the order in which the kubelet
/// merges them.
pub fn drop_ins(directory: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    walk(directory, 0, &mut found);
    found
}

fn walk(directory: &Path, depth: usize, found: &mut Vec<PathBuf>) {
    let Ok(entries) = fs::read_dir(directory) else {
        return;
    };
    let mut entries: Vec<_> = entries.flatten().take(MAX_DROP_INS).collect();
    entries.sort_by_key(fs::DirEntry::file_name);
    for entry in entries {
        let path = entry.path();
        if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
            if depth < MAX_DEPTH {
                walk(&path, depth + 1, found);
            }
        } else if path.extension().is_some_and(|ending| ending == "conf") && found.len() < MAX_DROP_INS {
            found.push(path);
        }
    }
}

/// Returns the arguments that a program passes to the kubelet inside it: k3s passes the values of `--kubelet-arg`,
/// and kubelite of `MicroK8s` reads the arguments from a file.
fn inner_arguments(settings: &KubeletSettings, host: &HostRoot) -> Vec<String> {
    let arguments = &settings.arguments;
    let passed_on = arguments.all_values("kubelet-arg").into_iter().map(|argument| format!("--{argument}"));
    let node_name = arguments.flag("node-name").map(|name| format!("--hostname-override={name}"));
    let file =
        settings.flag("kubelet-args-file").map(|file| arguments_of_file(file, host)).unwrap_or_default();
    passed_on.chain(node_name).chain(file).collect()
}

/// Reads a file with one argument per line. `$SNAP_DATA` is the parent of the file's directory.
fn arguments_of_file(file: &str, host: &HostRoot) -> Vec<String> {
    let Ok(text) = load(&host.path(file), LARGEST_ARGUMENTS) else { return Vec::new() };
    let text = String::from_utf8_lossy(&text);
    let data = Path::new(file).parent().and_then(Path::parent).unwrap_or(Path::new("/")).to_string_lossy();
    text.lines()
        .map(str::trim)
        .filter(|line| line.starts_with('-'))
        .map(|line| line.replace("${SNAP_DATA}", &data).replace("$SNAP_DATA", &data))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A temporary directory that is deleted when the test ends.
    struct Scratch(PathBuf);

    impl Scratch {
        fn new(name: &str) -> Self {
            let path = std::env::temp_dir().join(format!("plegctl-settings-{name}-{}", std::process::id()));
            let _ = fs::remove_dir_all(&path);
            fs::create_dir_all(&path).unwrap();
            Self(path)
        }

        fn write(&self, name: &str, text: &str) {
            let path = self.0.join(name);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        }

        fn settings(&self, line: &str) -> KubeletSettings {
            self.settings_in(line, None)
        }

        /// Reads the settings of a process with this working directory.
        fn settings_in(&self, line: &str, cwd: Option<&str>) -> KubeletSettings {
            KubeletSettings::read(
                line.split(' ').collect(),
                cwd.map(Path::new),
                &HostRoot::resolve(Some(&self.0)),
            )
        }
    }

    impl Drop for Scratch {
        fn drop(&mut self) {
            let _ = fs::remove_dir_all(&self.0);
        }
    }

    #[test]
    fn a_flag_overrides_the_file() {
        let host = Scratch::new("flag");
        host.write("etc/k.yaml", "staticPodPath: /file\n");
        let settings = host.settings("kubelet --config=/etc/k.yaml --pod-manifest-path=/flag");
        let found = settings.setting("pod-manifest-path", "staticPodPath").unwrap().unwrap();
        assert_eq!(
            (found.value.as_str(), found.source.as_str()),
            ("/flag", "the kubelet's --pod-manifest-path")
        );
        let found =
            host.settings("kubelet --config /etc/k.yaml").setting("pod-manifest-path", "staticPodPath");
        assert_eq!(found.unwrap().unwrap().value, "/file");
    }

    #[test]
    fn drop_ins_override_the_file_in_the_order_of_their_names_and_only_conf_files_count() {
        let host = Scratch::new("drop-ins");
        host.write("etc/k.yaml", "a: file\nb: file\nc: file\nd: file\nm: {x: file, y: file}\n");
        host.write("etc/k.d/20-b.conf", "b: twenty\nc: twenty\nm: {y: twenty}\n");
        host.write("etc/k.d/10-a.conf", "a: ten\nb: ten\n");
        host.write("etc/k.d/30-more/one.conf", "c: thirty\n");
        host.write("etc/k.d/90.yaml", "d: ignored\n");
        let settings = host.settings("kubelet --config=/etc/k.yaml --config-dir=/etc/k.d");
        let keys = ["a", "b", "c", "d", "m.x", "m.y"].map(|key| settings.key(key).unwrap_or_default());
        assert_eq!(keys, ["ten", "twenty", "thirty", "file", "file", "twenty"]);
    }

    #[test]
    fn the_headers_of_the_manifest_url_are_those_of_the_flags_else_of_the_files() {
        let host = Scratch::new("headers");
        host.write(
            "etc/k.yaml",
            "staticPodURLHeader:\n  Authorization: [\"Bearer a\", b]\n  X-Node:\n  - n1\n",
        );
        host.write("etc/k.d/10.conf", "staticPodURLHeader: {Authorization: [c]}\n");
        let pairs = |line: &str| -> Vec<String> {
            let headers = host.settings(line).url_headers();
            headers.into_iter().map(|(key, value)| format!("{key}={value}")).collect()
        };
        let file = "kubelet --config=/etc/k.yaml";
        assert_eq!(pairs(file), ["Authorization=Bearer a,b", "X-Node=n1"]);
        assert_eq!(pairs(&format!("{file} --config-dir=/etc/k.d")), ["Authorization=c", "X-Node=n1"]);
        let flags = format!("{file} --manifest-url-header=a:hello,b:again --manifest-url-header c:world");
        assert_eq!(pairs(&flags), ["a=hello", "b=again", "c=world"]);
    }

    #[test]
    fn a_relative_path_is_resolved_from_the_kubelets_directory_and_never_from_plegctls() {
        let host = Scratch::new("relative");
        host.write("var/lib/k/k.yaml", "staticPodPath: manifests\ntlsCertFile: pki/k.pem\n");
        host.write("var/lib/k/k.d/10.conf", "tlsCertFile: own.pem\n");
        let line = "kubelet --config=k.yaml --config-dir k.d --kubeconfig=kc";
        let settings = host.settings_in(line, Some("/var/lib/k"));
        let value = |settings: &KubeletSettings, flag: &str, key: &str| {
            settings.setting(flag, key).unwrap().unwrap().value
        };
        assert_eq!(value(&settings, "pod-manifest-path", "staticPodPath"), "/var/lib/k/manifests");
        assert_eq!(value(&settings, "tls-cert-file", "tlsCertFile"), "/var/lib/k/own.pem");
        assert_eq!(settings.flag("kubeconfig"), Some("/var/lib/k/kc"));
        let by_flag = host.settings_in("kubelet --pod-manifest-path=m", Some("/etc"));
        assert_eq!(value(&by_flag, "pod-manifest-path", "staticPodPath"), "/etc/m");

        // If the working directory is not known, the path is an error and not a missing setting.
        let unknown = host.settings_in(line, None);
        assert_eq!((unknown.flag("kubeconfig"), unknown.flag("config")), (None, None));
        let why = unknown.setting("pod-manifest-path", "staticPodPath").unwrap_err();
        assert!(why.to_string().contains("`k.d` is relative to the kubelet's working directory"), "{why}");
        assert!(
            host.settings_in("kubelet --pod-manifest-path=m", None)
                .setting("pod-manifest-path", "x")
                .is_err()
        );
    }

    #[test]
    fn a_file_that_cannot_be_read_is_an_error_and_not_an_empty_file() {
        let host = Scratch::new("missing");
        let settings = host.settings("kubelet --config=/none.yaml --v=4");
        assert!(settings.setting("pod-manifest-path", "staticPodPath").unwrap_err().is_missing());
        assert_eq!(settings.setting("v", "logging.verbosity").unwrap().unwrap().value, "4");
        assert_eq!(host.settings("kubelet").setting("pod-manifest-path", "staticPodPath").unwrap(), None);
    }

    #[test]
    fn arguments_of_a_kubelet_inside_k3s_or_kubelite_are_found() {
        let host = Scratch::new("inside");
        host.write(
            "var/snap/microk8s/7/args/kubelet",
            "# comment\n--config=${SNAP_DATA}/k.yaml\n--hostname-override=a b\n",
        );
        host.write("var/snap/microk8s/7/k.yaml", "readOnlyPort: 10255\n");
        let settings = host.settings("kubelite --kubelet-args-file=/var/snap/microk8s/7/args/kubelet");
        assert_eq!(settings.key("readOnlyPort"), Some("10255"));
        assert_eq!(settings.flag("hostname-override"), Some("a b"));
        let k3s = host.settings("k3s-server server --kubelet-arg=v=4 --kubelet-arg v=5 --node-name n1");
        assert_eq!((k3s.flag("v"), k3s.flag("hostname-override")), (Some("5"), Some("n1")));
        assert_eq!(k3s.own_arguments(), ["--v=4", "--v=5", "--hostname-override=n1"]);
        assert_eq!(host.settings("/usr/bin/kubelet --v=2").own_arguments(), ["--v=2"]);
    }
}
