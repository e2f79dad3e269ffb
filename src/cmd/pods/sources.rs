//! Finds the kubelet's sources of pods (manifest files, a URL, the API server): those that the user names, else those
//! of the running kubelet. This module reads each source once; the module `live` watches the sources for changes.

use std::cell::Cell;
use std::collections::BTreeMap;
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::sync::Arc;

use serde_json::value::RawValue;

use super::report::SourceRow;
use super::{PodsArgs, States};
use crate::clock::{Clock, Wall};
use crate::cmd::Error;
use crate::cmd::flags::manifest_url;
use crate::cmd::node::Node;
use crate::cmd::static_pods::KUBEADM_MANIFESTS;
use crate::kubelet::kubeconfig::KubeconfigSources;
use crate::kubelet::{KubeletProcess, http};
use crate::manifests::Kubelet;
use crate::manifests::podconfig::{
    ApiPods, ApiServer, FileSource, PodConfig, PodListDocument, PodListError, PodSource, ReadTimes,
    SourceState, UrlAnswer, UrlSource, WantedPod,
};
use crate::report::load::open_with_timeout;
use crate::threads;

/// The largest list of pods that is read. The list of ten thousand pods has about sixty megabytes.
const MAX_POD_LIST_SIZE: u64 = 256 << 20;

/// The sources of one kubelet.
pub struct Configured {
    /// The directory or file of manifests.
    pub file: Option<FileSource>,
    /// The manifest URL.
    pub url: Option<Url>,
    /// The source of the API server's pods.
    pub api: Option<Api>,
    /// The sources that plegctl cannot read, with the reason.
    pub unread: BTreeMap<PodSource, String>,
}

/// A manifest URL and its headers.
pub struct Url {
    /// Parses the answers.
    pub source: UrlSource,
    /// The URL.
    pub address: String,
    /// Headers to send.
    pub headers: Vec<(String, String)>,
}

/// The source of the API server's pods.
pub enum Api {
    /// A list in a file or on standard input.
    Document(PodListInput),
    /// The list of a simulated API server.
    Simulated(Vec<u8>),
    /// The API server.
    Server(Box<ApiServer>),
}

/// A list of pods that the user provides.
pub struct PodListInput {
    /// The file, or `-`.
    pub path: PathBuf,
    /// The name of the node. plegctl ignores pods of other nodes.
    pub node: String,
}

impl Configured {
    /// Returns the names of the sources, whether or not they can be read.
    pub fn names(&self) -> Vec<PodSource> {
        let read = [
            self.file.as_ref().map(|_| PodSource::File),
            self.url.as_ref().map(|_| PodSource::Http),
            self.api.as_ref().map(|_| PodSource::Api),
        ];
        read.into_iter().flatten().chain(self.unread.keys().copied()).collect()
    }
}

/// Returns an error if this directory of manifests does not exist, and is not the kubelet's, for which that is no fault.
fn refuse_mistyped(path: &Path, node: &Node) -> Result<(), Error> {
    let setting = |running: &KubeletProcess| running.setting("pod-manifest-path", "staticPodPath").ok()?;
    let of_kubelet = || node.kubelet().and_then(setting).map(|set| PathBuf::from(set.value));
    let read = path.to_path_buf();
    let is_missing = node.in_time("the directory of manifests", move || {
        read.symlink_metadata().is_err_and(|why| why.kind() == io::ErrorKind::NotFound)
    });
    if is_missing == Some(true)
        && path != Path::new(KUBEADM_MANIFESTS)
        && of_kubelet().as_deref() != Some(path)
    {
        return Err(Error::NoManifests(path.display().to_string()));
    }
    Ok(())
}

/// Returns the sources that the user named, else those of the running kubelet.
pub fn configured(arguments: &PodsArgs, node: &Node, kubelet: &Kubelet) -> Result<Configured, Error> {
    let file = |path: &Path, manifest_dir: Option<PathBuf>| {
        FileSource::new(
            path,
            Kubelet {
                manifest_dir: manifest_dir.or_else(|| kubelet.manifest_dir.clone()),
                ..kubelet.clone()
            },
        )
    };
    // The UID of a static pod depends on the absolute path of the manifests, so plegctl makes a relative path
    // absolute.
    let given =
        arguments.manifests.as_deref().map(|path| std::path::absolute(path).unwrap_or_else(|_| path.into()));
    if let Some(path) = given.as_deref().filter(|_| !arguments.watch) {
        refuse_mistyped(path, node)?;
    }
    let url =
        |url: String, headers| Url { source: UrlSource::new(&url, kubelet.clone()), address: url, headers };
    let node_name = || kubelet.node_name.clone();
    let input = arguments
        .api_pods
        .as_ref()
        .map(|path| Api::Document(PodListInput { path: path.clone(), node: node_name() }));
    let server = arguments.kubeconfig.as_ref().map(|path| {
        let places = KubeconfigSources::of_environment(Some(path.clone()));
        let (name, request_timeout) = (arguments.context.clone(), node.global.timeout);
        Api::Server(Box::new(ApiServer {
            kubeconfig: places,
            context: name,
            node: node_name(),
            request_timeout,
        }))
    });
    let mut found = Configured {
        file: given.map(|path| file(&path, None)),
        url: arguments.manifest_url.clone().map(|text| url(text, arguments.manifest_url_header.clone())),
        api: input.or(server),
        unread: BTreeMap::new(),
    };
    if let Some(documents) = node.simulated_pods()?.filter(|_| !arguments.names_a_source()) {
        found.api = Some(Api::Simulated(documents.api));
    } else if !arguments.names_a_source() {
        // This machine's kubelet is not that of a simulated or recorded node.
        let Some(running) = node.kubelet().filter(|_| node.is_live()) else {
            return Err(Error::NoSource);
        };
        add_kubelets_sources(&mut found, running, node, file, url);
        add_api_source(&mut found, running, node, node_name());
        if found.names().is_empty() {
            return Err(Error::NoSource);
        }
    }
    if let Some(url) = &found.url {
        http::check(&url.address).map_err(Error::Kubelet)?;
    }
    Ok(found)
}

/// Adds the file and URL sources of this node's kubelet to `found`.
fn add_kubelets_sources(
    found: &mut Configured,
    running: &KubeletProcess,
    node: &Node,
    file: impl Fn(&Path, Option<PathBuf>) -> FileSource,
    url: impl Fn(String, Vec<(String, String)>) -> Url,
) {
    match running.setting("pod-manifest-path", "staticPodPath") {
        Ok(Some(setting)) => {
            node.note(1, &format!("source file: {} ({})", setting.value, setting.source));
            // UIDs depend on the path that the kubelet uses, not on the path below the host root.
            let host_path = node.host.path(&setting.value);
            let manifest_dir = (host_path != Path::new(&setting.value)).then(|| PathBuf::from(setting.value));
            found.file = Some(file(&host_path, manifest_dir));
        }
        Ok(None) => {}
        Err(why) => {
            found
                .unread
                .insert(PodSource::File, format!("the kubelet's configuration cannot be read: {why}"));
        }
    }
    if let Ok(Some(setting)) = running.setting("manifest-url", "staticPodURL") {
        node.note(1, &format!("source http: {} ({})", setting.value, setting.source));
        if http::check(&setting.value).is_ok() {
            found.url = Some(url(setting.value, running.settings().url_headers()));
        } else {
            found.unread.insert(PodSource::Http, format!("`{}` is not a usable URL", setting.value));
        }
    }
}

/// Adds the API server as a source, with the kubelet's own credential, which may list the pods of its node.
fn add_api_source(found: &mut Configured, running: &KubeletProcess, node: &Node, node_name: String) {
    if let Some(path) = running.flag("kubeconfig") {
        let places = KubeconfigSources::of_kubelet(path, &node.host);
        node.note(1, &format!("source api: by the kubelet's own {path}"));
        found.api = Some(Api::Server(Box::new(ApiServer {
            kubeconfig: places,
            context: None,
            node: node_name,
            request_timeout: node.global.timeout,
        })));
    } else if let Some(why) = running.settings().unresolved_path("kubeconfig") {
        found.unread.insert(PodSource::Api, format!("cannot find the kubelet's kubeconfig: {why}"));
    } else if running.flag("bootstrap-kubeconfig").is_some() {
        let why = "the kubelet has no credential yet: it has not joined the cluster";
        found.unread.insert(PodSource::Api, why.to_owned());
    }
}

/// Reads each source once; slow sources are read in parallel. Also returns when each of them was read.
pub async fn read_once(configured: Configured, clock: &dyn Clock) -> (States, Vec<SourceRow>, ReadTimes) {
    let names = configured.names();
    let mut config = PodConfig::new(names.iter().copied());
    let mut errors: BTreeMap<PodSource, String> = configured.unread;
    let mut refused = BTreeMap::new();
    let (mut url, api) = (configured.url, configured.api);
    let mut times = ReadTimes::default();
    let fetched = async {
        match &mut url {
            Some(url) => Some((fetch_url(url).await, clock.wall())),
            None => None,
        }
    };
    let listed = async {
        match api {
            Some(api) => {
                let (list, written) = api_once(api).await;
                // A document is as old as its file.
                Some((list, written.map_or(clock.wall(), |written| written.min(clock.wall()))))
            }
            None => None,
        }
    };
    let (answer, list) = tokio::join!(fetched, listed);
    if let Some(mut source) = configured.file {
        let scan = source.scan();
        times.sources.insert(PodSource::File, clock.wall());
        errors.extend(scan.error.map(|why| (PodSource::File, format!("{}: {why}", source.path().display()))));
        refused.insert(PodSource::File, scan.refused);
        if let Some(set) = scan.set {
            config.set(PodSource::File, set);
        }
    }
    if let Some((answer, at)) = answer {
        times.sources.insert(PodSource::Http, at);
        errors.extend(answer.error.map(|why| (PodSource::Http, why)));
        if let Some(set) = answer.set {
            config.set(PodSource::Http, set);
        }
    }
    if let Some((list, at)) = list {
        times.sources.insert(PodSource::Api, at);
        match list {
            Ok(set) => _ = config.set(PodSource::Api, set),
            Err(why) => _ = errors.insert(PodSource::Api, why),
        }
    }
    let mut states = States::new();
    let mut rows = Vec::new();
    for name in names {
        let ready = config.is_ready(name);
        let pods: Vec<_> = config.wanted(name).cloned().collect();
        rows.push(SourceRow { name, ready, pods: pods.len(), error: errors.remove(&name) });
        let refused = refused.remove(&name).unwrap_or_default();
        states.insert(name, SourceState { pods: ready.then_some(pods), refused });
    }
    (states, rows, times)
}

/// Reads the API server's pods once. For a file, also returns when it was written.
async fn api_once(api: Api) -> (Result<Vec<Arc<WantedPod>>, String>, Option<Wall>) {
    match api {
        Api::Server(server) => {
            (server.list().await.map(|list| list.pods).map_err(|why| why.to_string()), None)
        }
        Api::Simulated(list) => (simulated_pods(&list), None),
        // Standard input may be silent for long, and must not delay the other sources.
        Api::Document(input) => {
            let read = move || (last_pod_list(&input), written_at(&input.path));
            threads::blocking(read).await.unwrap_or_else(|why| (Err(why.to_string()), None))
        }
    }
}

/// Reads the list of a simulated API server.
pub fn simulated_pods(list: &[u8]) -> Result<Vec<Arc<WantedPod>>, String> {
    ApiPods::parse(list, crate::sim::NODE_NAME).map(|list| list.pods).map_err(|why| why.to_string())
}

/// Returns when a regular file was written.
fn written_at(path: &Path) -> Option<Wall> {
    let about = std::fs::metadata(path).ok().filter(std::fs::Metadata::is_file)?;
    let since = about.modified().ok()?.duration_since(std::time::UNIX_EPOCH).ok()?;
    Wall::known(i64::try_from(since.as_nanos()).ok()?)
}

/// Fetches the URL once.
pub async fn fetch_url(url: &mut Url) -> UrlAnswer {
    match manifest_url::fetch(&url.address, &url.headers).await {
        Ok(answer) => url.source.answered(answer.status, &answer.body),
        Err(why) => UrlAnswer { set: None, error: Some(why) },
    }
}

/// Returns the last list of pods in a file or on stdin, or the error that ends the input.
fn last_pod_list(input: &PodListInput) -> Result<Vec<Arc<WantedPod>>, String> {
    let mut last = None;
    each_pod_list(input, &mut |pods| {
        last = Some(pods);
        true
    });
    last.unwrap_or_else(|| Err(format!("{} is empty", input.path.display())))
}

/// Passes every list of pods in a file or on stdin to `take`, one JSON document after the other, until `take`
/// returns `false` or a list cannot be used.
pub fn each_pod_list(
    input: &PodListInput,
    take: &mut dyn FnMut(Result<Vec<Arc<WantedPod>>, String>) -> bool,
) {
    let PodListInput { path, node } = input;
    let name = if path.as_os_str() == "-" { "stdin".into() } else { path.to_string_lossy() };
    let opened: io::Result<Box<dyn Read>> = match path.to_str() {
        Some("-") => Ok(Box::new(io::stdin())),
        _ => open_with_timeout(path).map(|file| Box::new(file) as Box<dyn Read>),
    };
    let input = match opened {
        Ok(input) => input,
        Err(why) => {
            take(Err(format!("cannot read {name}: {why}")));
            return;
        }
    };
    let bytes_left = Rc::new(Cell::new(MAX_POD_LIST_SIZE));
    let reader = io::BufReader::new(SizeLimited { input, bytes_left: Rc::clone(&bytes_left) });
    for document in serde_json::Deserializer::from_reader(reader).into_iter::<Box<RawValue>>() {
        let list = document.and_then(|document| serde_json::from_str::<PodListDocument>(document.get()));
        let pods = match list {
            _ if bytes_left.get() == 0 => {
                Err(format!("{name}: a list of more than {} MiB", MAX_POD_LIST_SIZE >> 20))
            }
            Ok(list) => {
                ApiPods::from_list(list, node).map(|list| list.pods).map_err(|why| format!("{name}: {why}"))
            }
            Err(why) => Err(format!("{name}: {}", PodListError::from(why))),
        };
        bytes_left.set(MAX_POD_LIST_SIZE);
        let is_error = pods.is_err();
        if !take(pods) || is_error {
            return;
        }
    }
}

/// Limits the size of one document, but not the number of documents.
struct SizeLimited {
    input: Box<dyn Read>,
    bytes_left: Rc<Cell<u64>>,
}

impl Read for SizeLimited {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let read = self.input.by_ref().take(self.bytes_left.get()).read(buffer)?;
        self.bytes_left.set(self.bytes_left.get().saturating_sub(u64::try_from(read).unwrap_or(u64::MAX)));
        Ok(read)
    }
}
