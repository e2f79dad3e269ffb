//! Finds the endpoint of the runtime.
//!
//! The sources are read in the order of the command-line contract. The first source with a value decides; a bad value
//! is an error, not a reason to read the next source.

use std::fmt;
use std::fs;
use std::os::unix::fs::FileTypeExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use crate::host::{HostRoot, ScalarsError, WELL_KNOWN_SOCKETS, file_scalars, open_to_others};
use crate::kubelet::KubeletProcess;
use crate::threads;

/// The configuration file of crictl.
const CRICTL_CONFIG: &str = "/etc/crictl.yaml";

/// A runtime to connect to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Endpoint {
    /// A Unix socket.
    Unix {
        /// The path that plegctl opens, below the host root.
        path: PathBuf,
        /// The name in the user's words and in reports.
        name: String,
    },
    /// A capture of the flight recorder.
    Capture {
        /// `PATH[@TIME]`, as the user gave it.
        what: String,
    },
    /// The built-in simulator.
    Sim {
        /// The name of the scenario.
        scenario: String,
    },
}

impl Endpoint {
    /// The socket's path as the node's own processes see it.
    pub fn path_on_node(&self) -> Option<&str> {
        match self {
            Self::Unix { name, .. } => name.strip_prefix("unix://"),
            Self::Sim { .. } | Self::Capture { .. } => None,
        }
    }
}

impl fmt::Display for Endpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unix { name, .. } => f.write_str(name),
            Self::Sim { scenario } => write!(f, "sim:{scenario}"),
            Self::Capture { what } => write!(f, "capture:{what}"),
        }
    }
}

/// An endpoint and its source.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Resolved {
    /// The endpoint.
    pub endpoint: Endpoint,
    /// The source, in words for `-v`.
    pub source: String,
    /// A configuration file that could not be read in time and was therefore skipped.
    pub silent_file: Option<PathBuf>,
}

/// Why there is no endpoint.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum EndpointError {
    /// The endpoint's scheme is not one that runtimes on Linux use.
    #[error("cannot use the endpoint `{value}` of {from}: `{scheme}` is not a scheme we speak")]
    Scheme {
        /// The value.
        value: String,
        /// The scheme of the value.
        scheme: String,
        /// The source of the value.
        from: String,
    },
    /// The socket's path is not absolute. The kubelet reads `unix://run/x` as the path `/x`.
    #[error("cannot use the endpoint `{value}` of {from}: the path of the socket is not absolute")]
    NotAbsolute {
        /// The value.
        value: String,
        /// The source of the value.
        from: String,
    },
    /// The kubelet names a socket in a directory in which any user may create one.
    #[error(
        "cannot use the endpoint `{value}` of {from}: others may write to `{}`, so that anybody may listen there",
        directory.display()
    )]
    OpenToOthers {
        /// The value.
        value: String,
        /// The source of the value.
        from: String,
        /// The directory.
        directory: PathBuf,
    },
    /// A configuration file exists and cannot be used.
    #[error("cannot take the endpoint from a settings file: {0}")]
    Settings(#[from] ScalarsError),
    /// No source has a value, and no well-known socket exists.
    #[error("no container runtime found; tried {}", tried.join(", "))]
    NothingFound {
        /// Every source that was read.
        tried: Vec<String>,
    },
}

impl EndpointError {
    /// What the user can do.
    pub fn hint(&self) -> &'static str {
        match self {
            Self::Scheme { .. } => {
                "on Linux a runtime is reached as `unix:///path/of/the.sock` or `/path/of/the.sock`"
            }
            Self::NotAbsolute { .. } => "three slashes: `unix:///run/containerd/containerd.sock`",
            Self::OpenToOthers { .. } => "if it is the right one, name it with --runtime-endpoint",
            Self::Settings(_) => "mend the file, or name the runtime with --runtime-endpoint",
            Self::NothingFound { .. } => {
                "name the runtime with --runtime-endpoint, the node's root with --host-root (a debug pod has it by \
                 `kubectl debug node/NODE --profile=sysadmin`), or try the simulator: `--runtime-endpoint sim:quiet`"
            }
        }
    }
}

/// The time limit for reading a configuration file.
const READ_LIMIT: Duration = Duration::from_secs(1);

/// The time limit for each further path once one path has not answered: a person waits for all of them together.
const NEXT_READ_LIMIT: Duration = Duration::from_millis(200);

/// The sources of the endpoint.
#[derive(Debug)]
pub struct Sources<'a> {
    /// `--runtime-endpoint`
    pub flag: Option<&'a str>,
    /// `$CONTAINER_RUNTIME_ENDPOINT`
    pub variable: Option<&'a str>,
    /// `--config` or `$CRI_CONFIG_FILE`
    pub crictl_config: Option<&'a Path>,
    /// The kubelet that runs on this node.
    pub kubelet: Option<&'a KubeletProcess>,
    /// The node's root.
    pub host: &'a HostRoot,
}

/// A value and its source.
type NamedValue = Option<(String, String)>;

/// Finds the endpoint.
pub fn resolve(sources: &Sources<'_>) -> Result<Resolved, EndpointError> {
    let mut silent_file = None;
    let named = match from_flag(sources).or_else(|| from_variable(sources)) {
        Some(named) => Some(named),
        None => from_crictl(sources, &mut silent_file)?,
    };
    if let Some((value, source)) = named {
        let endpoint = parse(&value, &source, sources.host)?;
        return Ok(Resolved { endpoint, source, silent_file });
    }
    if let Some((value, source)) = from_kubelet(sources) {
        let endpoint = parse(&value, &source, sources.host)?;
        if let Endpoint::Unix { path, .. } = &endpoint
            && let Some(directory) = open_to_others(sources.host, path)
        {
            return Err(EndpointError::OpenToOthers { value, from: source, directory });
        }
        return Ok(Resolved { endpoint, source, silent_file });
    }
    let found = well_known(sources.host, &mut silent_file).map(|found| Resolved { silent_file, ..found });
    found.ok_or_else(|| EndpointError::NothingFound { tried: tried_sources(sources) })
}

fn non_empty(value: Option<&str>, source: &str) -> NamedValue {
    let value = value?.trim();
    (!value.is_empty()).then(|| (value.to_owned(), source.to_owned()))
}

fn from_flag(sources: &Sources<'_>) -> NamedValue {
    non_empty(sources.flag, "--runtime-endpoint")
}

fn from_variable(sources: &Sources<'_>) -> NamedValue {
    non_empty(sources.variable, "$CONTAINER_RUNTIME_ENDPOINT")
}

/// Reads crictl's configuration. Unless the user named the file, it may be missing or too slow to read.
fn from_crictl(
    sources: &Sources<'_>,
    silent_file: &mut Option<PathBuf>,
) -> Result<NamedValue, EndpointError> {
    let file = sources.crictl_config.map_or_else(|| sources.host.path(CRICTL_CONFIG), Path::to_path_buf);
    let read = {
        let file = file.clone();
        threads::with_time_limit_if_possible(READ_LIMIT, move || file_scalars(&file))
    };
    let read = match read {
        Ok(read) => read,
        Err(_) if sources.crictl_config.is_none() => {
            *silent_file = Some(file);
            return Ok(None);
        }
        Err(why) => return Err(ScalarsError::Read { path: file, source: why }.into()),
    };
    match read {
        Ok(scalars) => {
            let value = scalars.get("runtime-endpoint").map(String::as_str);
            Ok(non_empty(value, &format!("runtime-endpoint in {}", file.display())))
        }
        Err(why) if why.is_missing() && sources.crictl_config.is_none() => Ok(None),
        Err(why) => Err(why.into()),
    }
}

/// Reads the kubelet's setting. A kubelet configuration that cannot be read is skipped; the user need not fix it for
/// plegctl.
fn from_kubelet(sources: &Sources<'_>) -> NamedValue {
    let setting = sources.kubelet?.setting("container-runtime-endpoint", "containerRuntimeEndpoint");
    setting.ok()?.map(|setting| (setting.value, setting.source))
}

/// Returns the first well-known socket that exists. A path on a disk that does not answer is skipped.
fn well_known(host: &HostRoot, silent: &mut Option<PathBuf>) -> Option<Resolved> {
    let mut patience = READ_LIMIT;
    let mut occupied = None;
    for (runtime, socket) in WELL_KNOWN_SOCKETS {
        let path = host.path(socket);
        let found = || Resolved {
            endpoint: Endpoint::Unix { path: path.clone(), name: format!("unix://{socket}") },
            source: format!("the well-known socket of {runtime}"),
            silent_file: None,
        };
        match path_state(host, &path, patience) {
            Some(PathState::Socket) => return Some(found()),
            // A file that is not a socket only matters if there is no socket at all.
            Some(PathState::Occupied) => {
                occupied.get_or_insert_with(found);
            }
            Some(PathState::Empty) => {}
            None => {
                silent.get_or_insert(path);
                patience = NEXT_READ_LIMIT;
            }
        }
    }
    occupied
}

/// What a path where a socket may be leads to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum PathState {
    Socket,
    /// A file that is no socket.
    Occupied,
    /// Nothing, or a socket that others may replace.
    Empty,
}

impl PathState {
    fn of(host: &HostRoot, path: &Path) -> Self {
        if open_to_others(host, path).is_some() {
            return Self::Empty;
        }
        match fs::metadata(path) {
            Ok(about) if about.file_type().is_socket() => Self::Socket,
            Ok(_) => Self::Occupied,
            Err(_) => Self::Empty,
        }
    }
}

/// What is at `path`; `None` if its disk does not answer in time.
fn path_state(host: &HostRoot, path: &Path, patience: Duration) -> Option<PathState> {
    let (root, wanted) = (host.clone(), path.to_path_buf());
    threads::with_time_limit_if_possible(patience, move || PathState::of(&root, &wanted)).ok()
}

fn tried_sources(sources: &Sources<'_>) -> Vec<String> {
    let mut tried_sources = vec!["--runtime-endpoint".to_owned(), "$CONTAINER_RUNTIME_ENDPOINT".to_owned()];
    tried_sources.push(sources.host.path(CRICTL_CONFIG).display().to_string());
    tried_sources.push(match sources.kubelet {
        Some(_) => "the running kubelet's settings".to_owned(),
        None => "a running kubelet (there is none)".to_owned(),
    });
    tried_sources
        .extend(WELL_KNOWN_SOCKETS.iter().map(|(_, socket)| sources.host.path(socket).display().to_string()));
    tried_sources
}

/// Reads `unix:///path`, `unix:/path`, `/path` and `sim:SCENARIO`.
fn parse(value: &str, from: &str, host: &HostRoot) -> Result<Endpoint, EndpointError> {
    if let Some(scenario) = value.strip_prefix("sim:") {
        return Ok(Endpoint::Sim { scenario: scenario.to_owned() });
    }
    if let Some(what) = value.strip_prefix("capture:") {
        return Ok(Endpoint::Capture { what: what.to_owned() });
    }
    let path = match value.split_once("://") {
        Some(("unix", path)) => path,
        Some((scheme, _)) => {
            return Err(EndpointError::Scheme {
                value: value.to_owned(),
                scheme: scheme.to_owned(),
                from: from.to_owned(),
            });
        }
        None => value.strip_prefix("unix:").unwrap_or(value),
    };
    if !path.starts_with('/') {
        return Err(EndpointError::NotAbsolute { value: value.to_owned(), from: from.to_owned() });
    }
    Ok(Endpoint::Unix { path: host.given_path(path), name: format!("unix://{path}") })
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    fn root() -> HostRoot {
        HostRoot::resolve(Some(Path::new("/")))
    }

    fn parsed(value: &str) -> Result<Endpoint, EndpointError> {
        parse(value, "--runtime-endpoint", &root())
    }

    #[test]
    fn a_path_and_a_unix_url_are_the_same_socket() {
        let url = parsed("unix:///run/x.sock").unwrap();
        assert_eq!(parsed("/run/x.sock").unwrap(), url);
        assert_eq!(parsed("unix:/run/x.sock").unwrap(), url);
        assert_eq!(url.to_string(), "unix:///run/x.sock");
    }

    #[test]
    fn a_foreign_scheme_is_named() {
        assert!(
            matches!(parsed("tcp://1.2.3.4:5").unwrap_err(), EndpointError::Scheme { scheme, .. } if scheme == "tcp")
        );
        assert!(matches!(parsed("npipe:////./pipe/x").unwrap_err(), EndpointError::Scheme { .. }));
    }

    #[test]
    fn two_slashes_are_not_silently_another_path() {
        assert!(matches!(parsed("unix://run/x.sock"), Err(EndpointError::NotAbsolute { .. })));
    }

    #[test]
    fn sockets_are_dialled_below_the_host_root() {
        let host = HostRoot::resolve(Some(Path::new("/host")));
        let endpoint = parse("/run/x.sock", "x", &host).unwrap();
        assert_eq!(
            endpoint,
            Endpoint::Unix { path: "/host/run/x.sock".into(), name: "unix:///run/x.sock".into() }
        );
    }

    #[test]
    fn a_file_where_one_runtime_would_listen_does_not_beat_the_socket_of_another() {
        let root = std::env::temp_dir().join(format!("plegctl-endpoint-{}", std::process::id()));
        for folder in ["run/containerd", "run/crio"] {
            fs::create_dir_all(root.join(folder)).unwrap();
        }
        fs::write(root.join("run/containerd/containerd.sock"), "stale").unwrap();
        let host = HostRoot::resolve(Some(&root));
        let stale = well_known(&host, &mut None).unwrap().endpoint.to_string();
        let listening = std::os::unix::net::UnixListener::bind(root.join("run/crio/crio.sock")).unwrap();
        let live = well_known(&host, &mut None).unwrap().endpoint.to_string();
        drop(listening);
        fs::remove_dir_all(&root).unwrap();
        assert_eq!(stale, "unix:///run/containerd/containerd.sock");
        assert_eq!(live, "unix:///run/crio/crio.sock");
    }

    #[test]
    fn a_well_known_socket_in_a_directory_that_others_may_write_to_is_not_asked() {
        let root = std::env::temp_dir().join(format!("plegctl-open-{}", std::process::id()));
        let folder = root.join("run/containerd");
        fs::create_dir_all(&folder).unwrap();
        let listening = std::os::unix::net::UnixListener::bind(folder.join("containerd.sock")).unwrap();
        let host = HostRoot::resolve(Some(&root));
        let of_mode = |mode| {
            fs::set_permissions(&folder, fs::Permissions::from_mode(mode)).unwrap();
            well_known(&host, &mut None).map(|found| found.source)
        };
        let found = [of_mode(0o777), of_mode(0o1777), of_mode(0o711)];
        drop(listening);
        fs::remove_dir_all(&root).unwrap();
        assert_eq!(found, [None, None, Some("the well-known socket of containerd".to_owned())]);
    }

    #[test]
    fn the_flag_beats_the_variable() {
        let host = root();
        let sources = Sources {
            flag: Some("/a.sock"),
            variable: Some("/b.sock"),
            crictl_config: Some(Path::new("/nowhere/at/all")),
            kubelet: None,
            host: &host,
        };
        let resolved = resolve(&sources).unwrap();
        assert_eq!(resolved.endpoint.to_string(), "unix:///a.sock");
        assert_eq!(resolved.source, "--runtime-endpoint");
    }

    #[test]
    fn a_settings_file_asked_for_by_name_must_exist() {
        let host = root();
        let sources = Sources {
            flag: None,
            variable: None,
            crictl_config: Some(Path::new("/nowhere/at/all")),
            kubelet: None,
            host: &host,
        };
        assert!(matches!(resolve(&sources), Err(EndpointError::Settings(_))));
    }

    #[test]
    fn settings_file_that_does_not_answer_is_passed_over() {
        let root = std::env::temp_dir().join(format!("plegctl-silent-settings-{}", std::process::id()));
        fs::create_dir_all(root.join("etc")).unwrap();
        fs::create_dir_all(root.join("run/crio")).unwrap();
        // Nobody writes into the FIFO.
        let fifo = root.join("etc/crictl.yaml");
        rustix::fs::mknodat(rustix::fs::CWD, &fifo, rustix::fs::FileType::Fifo, 0o600.into(), 0).unwrap();
        let listening = std::os::unix::net::UnixListener::bind(root.join("run/crio/crio.sock")).unwrap();
        let host = HostRoot::resolve(Some(&root));
        let found = |crictl_config| {
            resolve(&Sources { flag: None, variable: None, crictl_config, kubelet: None, host: &host })
        };
        let resolved = found(None).unwrap();
        let named = found(Some(fifo.as_path()));
        drop(listening);
        fs::remove_dir_all(&root).unwrap();
        assert_eq!(resolved.endpoint.to_string(), "unix:///run/crio/crio.sock");
        assert_eq!(resolved.silent_file, Some(fifo));
        assert!(matches!(named, Err(EndpointError::Settings(_))), "one that was named must answer");
    }
}
