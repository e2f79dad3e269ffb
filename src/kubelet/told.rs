//! What a kubelet was told: its command line, its configuration file and the drop-ins beside it.
//!
//! A flag beats every file, and of files the later one beats the earlier. Single values are kept, and lists of them as one
//! text with commas, as a flag has them.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::host::{Arguments, HostRoot, ScalarsError, file_scalars, scalars};
use crate::report::load::load;

/// Drop-ins that are read; a directory with more of them is none.
const MOST_DROP_INS: usize = 256;
/// How deep below the directory they may lie.
const DEEPEST: usize = 8;
/// A file of arguments above this size is none.
const LARGEST_ARGUMENTS: usize = 64 * 1024;

/// The settings of a kubelet, as far as they are single values.
#[derive(Clone, Debug, Default)]
pub struct Told {
    arguments: Arguments,
    files: BTreeMap<String, Setting>,
    trouble: Option<Arc<ScalarsError>>,
}

/// A value that the kubelet was given, and where.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Setting {
    /// The value.
    pub value: String,
    /// The flag, or the key and its file.
    pub source: String,
}

impl Told {
    /// Reads what a command line leads to, below `host`. A file may be on a disk that does not answer: this belongs into
    /// a thread that can be left behind.
    pub fn read(arguments: Arguments, host: &HostRoot) -> Self {
        let arguments = with_inner_arguments(arguments, host);
        let mut told = Self { arguments, ..Self::default() };
        let main = told.flag("config").map(|path| host.path(path));
        let drop_ins = told.flag("config-dir").map(|path| drop_ins(&host.path(path))).unwrap_or_default();
        for file in main.into_iter().chain(drop_ins) {
            match file_scalars(&file) {
                Ok(scalars) => told.take(scalars, &file),
                Err(why) => told.trouble = Some(Arc::new(why)),
            }
        }
        told
    }

    /// A command line and the text of its configuration file. A text that is not what it should be says nothing.
    pub fn of(arguments: Arguments, file: &[u8]) -> Self {
        let mut told = Self { arguments, ..Self::default() };
        told.take(scalars(file).unwrap_or_default(), Path::new("the configuration file"));
        told
    }

    fn take(&mut self, scalars: BTreeMap<String, String>, file: &Path) {
        for (key, value) in scalars {
            let source = format!("{key} in {}", file.display());
            self.files.insert(key, Setting { value, source });
        }
    }

    /// The value of a flag; the last one, as the kubelet takes it.
    pub fn flag(&self, name: &str) -> Option<&str> {
        self.arguments.flag(name)
    }

    /// Every value of a flag that adds up, in order.
    pub fn every(&self, name: &str) -> Vec<&str> {
        self.arguments.every(name)
    }

    /// The value of a key of the files.
    pub fn key(&self, key: &str) -> Option<&str> {
        self.files.get(key).map(|setting| setting.value.as_str()).filter(|value| !value.is_empty())
    }

    /// Whether it is a kubelet of its own that was given no API server. What has a kubelet inside gives it one by itself.
    pub fn is_standalone(&self) -> bool {
        let program = self.arguments.first().and_then(|program| Path::new(program).file_name());
        program.is_some_and(|name| name == "kubelet")
            && ["kubeconfig", "bootstrap-kubeconfig"].iter().all(|flag| self.flag(flag).is_none())
    }

    /// The headers that it sends to its manifest URL: those of the flags, else those of the files.
    pub fn url_headers(&self) -> Vec<(String, String)> {
        let flags = self.every("manifest-url-header");
        let pair = |(key, value): (&str, &str)| (key.trim().to_owned(), value.trim().to_owned());
        if !flags.is_empty() {
            let pairs = flags.into_iter().flat_map(|flag| flag.split(','));
            return pairs.filter_map(|text| text.split_once(':')).map(pair).collect();
        }
        // Several values of one header are one with commas, to whoever reads it.
        let headers = self.files.iter().filter_map(|(key, setting)| {
            Some(pair((key.strip_prefix("staticPodURLHeader.")?, &setting.value)))
        });
        headers.collect()
    }

    /// A setting: the flag if it is given, else the key of the files.
    pub fn setting(&self, flag: &str, key: &str) -> Result<Option<Setting>, Arc<ScalarsError>> {
        if let Some(value) = self.flag(flag) {
            return Ok(Some(Setting { value: value.to_owned(), source: format!("the kubelet's --{flag}") }));
        }
        let found = self.files.get(key).filter(|setting| !setting.value.is_empty()).cloned();
        match (found, &self.trouble) {
            (None, Some(why)) => Err(Arc::clone(why)),
            (found, _) => Ok(found),
        }
    }
}

/// The files of a drop-in directory in the order in which the kubelet merges them: by name, directories in their place,
/// and only `.conf`.
fn drop_ins(directory: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    walk(directory, 0, &mut found);
    found
}

fn walk(directory: &Path, depth: usize, found: &mut Vec<PathBuf>) {
    let Ok(entries) = fs::read_dir(directory) else {
        return;
    };
    let mut entries: Vec<_> = entries.flatten().take(MOST_DROP_INS).collect();
    entries.sort_unstable_by_key(fs::DirEntry::file_name);
    for entry in entries {
        let path = entry.path();
        if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
            if depth < DEEPEST {
                walk(&path, depth + 1, found);
            }
        } else if path.extension().is_some_and(|ending| ending == "conf") && found.len() < MOST_DROP_INS {
            found.push(path);
        }
    }
}

/// The kubelet's own arguments where another program has it inside: k3s hands on `--kubelet-arg`, and kubelite of
/// `MicroK8s` reads them from a file.
fn with_inner_arguments(arguments: Arguments, host: &HostRoot) -> Arguments {
    let handed_on = arguments.every("kubelet-arg").into_iter().map(|argument| format!("--{argument}"));
    let node_name = arguments.flag("node-name").map(|name| format!("--hostname-override={name}"));
    let file =
        arguments.flag("kubelet-args-file").map(|file| arguments_of_file(file, host)).unwrap_or_default();
    let inner: Vec<String> = handed_on.chain(node_name).chain(file).collect();
    if inner.is_empty() {
        return arguments;
    }
    arguments.iter().cloned().chain(inner).collect()
}

/// One argument a line. `$SNAP_DATA` is the directory that the file's own is in.
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

    /// A directory below the temporary one that goes when the test ends.
    struct Scratch(PathBuf);

    impl Scratch {
        fn new(name: &str) -> Self {
            let path = std::env::temp_dir().join(format!("plegctl-told-{name}-{}", std::process::id()));
            let _ = fs::remove_dir_all(&path);
            fs::create_dir_all(&path).unwrap();
            Self(path)
        }

        fn write(&self, name: &str, text: &str) {
            let path = self.0.join(name);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        }

        fn told(&self, line: &str) -> Told {
            Told::read(line.split(' ').collect(), &HostRoot::resolve(Some(&self.0)))
        }
    }

    impl Drop for Scratch {
        fn drop(&mut self) {
            let _ = fs::remove_dir_all(&self.0);
        }
    }

    #[test]
    fn a_flag_beats_the_file() {
        let host = Scratch::new("flag");
        host.write("etc/k.yaml", "staticPodPath: /file\n");
        let told = host.told("kubelet --config=/etc/k.yaml --pod-manifest-path=/flag");
        let found = told.setting("pod-manifest-path", "staticPodPath").unwrap().unwrap();
        assert_eq!(
            (found.value.as_str(), found.source.as_str()),
            ("/flag", "the kubelet's --pod-manifest-path")
        );
        let found = host.told("kubelet --config /etc/k.yaml").setting("pod-manifest-path", "staticPodPath");
        assert_eq!(found.unwrap().unwrap().value, "/file");
    }

    #[test]
    fn drop_ins_are_merged_over_the_file_by_name_and_only_conf_counts() {
        let host = Scratch::new("drop-ins");
        host.write("etc/k.yaml", "a: file\nb: file\nc: file\nd: file\nm: {x: file, y: file}\n");
        host.write("etc/k.d/20-b.conf", "b: twenty\nc: twenty\nm: {y: twenty}\n");
        host.write("etc/k.d/10-a.conf", "a: ten\nb: ten\n");
        host.write("etc/k.d/30-more/one.conf", "c: thirty\n");
        host.write("etc/k.d/90.yaml", "d: ignored\n");
        let told = host.told("kubelet --config=/etc/k.yaml --config-dir=/etc/k.d");
        let keys = ["a", "b", "c", "d", "m.x", "m.y"].map(|key| told.key(key).unwrap_or_default());
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
            let headers = host.told(line).url_headers();
            headers.into_iter().map(|(key, value)| format!("{key}={value}")).collect()
        };
        let file = "kubelet --config=/etc/k.yaml";
        assert_eq!(pairs(file), ["Authorization=Bearer a,b", "X-Node=n1"]);
        assert_eq!(pairs(&format!("{file} --config-dir=/etc/k.d")), ["Authorization=c", "X-Node=n1"]);
        let flags = format!("{file} --manifest-url-header=a:hello,b:again --manifest-url-header c:world");
        assert_eq!(pairs(&flags), ["a=hello", "b=again", "c=world"]);
    }

    #[test]
    fn a_file_that_cannot_be_read_is_not_an_empty_one() {
        let host = Scratch::new("missing");
        let told = host.told("kubelet --config=/none.yaml --v=4");
        assert!(told.setting("pod-manifest-path", "staticPodPath").unwrap_err().is_missing());
        assert_eq!(told.setting("v", "logging.verbosity").unwrap().unwrap().value, "4");
        assert_eq!(host.told("kubelet").setting("pod-manifest-path", "staticPodPath").unwrap(), None);
    }

    #[test]
    fn a_kubelet_inside_another_program_has_its_arguments_elsewhere() {
        let host = Scratch::new("inside");
        host.write(
            "var/snap/microk8s/7/args/kubelet",
            "# comment\n--config=${SNAP_DATA}/k.yaml\n--hostname-override=a b\n",
        );
        host.write("var/snap/microk8s/7/k.yaml", "readOnlyPort: 10255\n");
        let told = host.told("kubelite --kubelet-args-file=/var/snap/microk8s/7/args/kubelet");
        assert_eq!(told.key("readOnlyPort"), Some("10255"));
        assert_eq!(told.flag("hostname-override"), Some("a b"));
        let k3s = host.told("k3s-server server --kubelet-arg=v=4 --kubelet-arg v=5 --node-name n1");
        assert_eq!((k3s.flag("v"), k3s.flag("hostname-override")), (Some("5"), Some("n1")));
    }
}
