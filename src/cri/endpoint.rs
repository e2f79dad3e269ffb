//! Finds the endpoint of the runtime, from `--runtime-endpoint`, `$CONTAINER_RUNTIME_ENDPOINT`, crictl's configuration file,
//! the running kubelet's settings and the well-known sockets, in this order.
//!
//! The first source with a value decides. If this value is invalid, plegctl returns an error and does not read the next
//! source. A kubelet configuration that cannot be read counts as a source without a value.

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
        /// The name for the user and in reports.
        name: String,
    },
    /// The built-in simulator.
    Sim {
        /// The name of the scenario.
        scenario: String,
    },
    /// A runtime that the program itself provides, for example from a capture. Its scheme is in
    /// [`Sources::custom_schemes`].
    Custom {
        /// The scheme, without its colon.
        scheme: &'static str,
        /// The text after the colon, as the user gave it.
        name: String,
    },
}

impl Endpoint {
    /// Returns the socket's path as the node's own processes see it; `None` if there is no socket.
    pub fn path_on_node(&self) -> Option<&str> {
        match self {
            Self::Unix { name, .. } => name.strip_prefix("unix://"),
            Self::Sim { .. } | Self::Custom { .. } => None,
        }
    }
}

impl fmt::Display for Endpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unix { name, .. } => f.write_str(name),
            Self::Sim { scenario } => write!(f, "sim:{scenario}"),
            Self::Custom { scheme, name } => write!(f, "{scheme}:{name}"),
        }
    }
}

/// An endpoint and its source.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Resolved {
    /// The endpoint.
    pub endpoint: Endpoint,
    /// The source, as text for `-v`.
    pub source: String,
    /// A path that was skipped because its disk did not answer in time: crictl's configuration file or a well-known
    /// socket.
    pub silent_path: Option<PathBuf>,
}

/// The reason why there is no endpoint.
#[derive(Debug, thiserror::Error)]
pub enum EndpointError {
    /// No runtime on Linux uses the scheme of the endpoint.
    #[error("cannot use the endpoint `{value}` of {from}: plegctl does not support the scheme `{scheme}`")]
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
    /// The kubelet names a socket in a directory in which any user may create a socket.
    #[error(
        "cannot use the endpoint `{value}` of {from}: other users can write to `{}`, so anybody could serve this socket",
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
    /// A configuration file exists but cannot be used.
    #[error("cannot read the endpoint from a settings file: {0}")]
    Settings(#[from] ScalarsError),
    /// No source has a value, and no well-known socket exists.
    #[error("no container runtime found; tried {}", tried.join(", "))]
    NothingFound {
        /// Every source that was read.
        tried: Vec<String>,
    },
}

impl EndpointError {
    /// Returns advice for the user.
    pub fn hint(&self) -> String {
        let hint = match self {
            Self::NotAbsolute { value, .. } if value.starts_with("unix:") => {
                let path = value.trim_start_matches("unix:").trim_start_matches('/');
                return format!("did you mean `unix:///{path}`?");
            }
            Self::Scheme { .. } => {
                "on Linux a runtime is reached as `unix:///path/of/the.sock` or `/path/of/the.sock`"
            }
            Self::NotAbsolute { .. } => "write the whole path, `unix:///path/of/the.sock`, or `sim:SCENARIO`",
            Self::OpenToOthers { .. } => "if this is the right socket, name it with --runtime-endpoint",
            Self::Settings(_) => "correct the file, or name the runtime with --runtime-endpoint",
            Self::NothingFound { .. } => {
                "name the runtime with --runtime-endpoint, the node's root with --host-root (a debug pod has it by \
                 `kubectl debug node/NODE --profile=sysadmin`), or try the simulator: `--runtime-endpoint sim:quiet`"
            }
        };
        hint.to_owned()
    }
}

/// The time limit for reading a configuration file.
const READ_LIMIT: Duration = Duration::from_secs(1);

/// The time limit for each further path after one path has not answered. It is short, because the user waits for the
/// sum of all these times.
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
    /// The schemes of the runtimes that the program itself provides, without their colons.
    pub custom_schemes: &'static [&'static str],
}

/// A value, followed by the description of its source.
type ValueAndSource = (String, String);

/// Finds the endpoint: reads the sources in their order until one has a value.
pub fn resolve(sources: &Sources<'_>) -> Result<Resolved, EndpointError> {
    let mut silent_path = None;
    let given = non_empty(sources.flag, "--runtime-endpoint");
    let given = given.or_else(|| non_empty(sources.variable, "$CONTAINER_RUNTIME_ENDPOINT"));
    let named = match given {
        Some(named) => Some(named),
        None => from_crictl(sources, &mut silent_path)?,
    };
    if let Some((value, source)) = named {
        let endpoint = parse(&value, &source, sources)?;
        return Ok(Resolved { endpoint, source, silent_path });
    }
    if let Some((value, source)) = from_kubelet(sources) {
        let endpoint = parse(&value, &source, sources)?;
        if let Endpoint::Unix { path, .. } = &endpoint
            && let Some(directory) = open_to_others(sources.host, path)
        {
            return Err(EndpointError::OpenToOthers { value, from: source, directory });
        }
        return Ok(Resolved { endpoint, source, silent_path });
    }
    let found = well_known(sources.host, &mut silent_path).map(|found| Resolved { silent_path, ..found });
    found.ok_or_else(|| EndpointError::NothingFound { tried: tried_sources(sources) })
}

fn non_empty(value: Option<&str>, source: &str) -> Option<ValueAndSource> {
    let value = value?.trim();
    (!value.is_empty()).then(|| (value.to_owned(), source.to_owned()))
}

/// Reads crictl's configuration file. If the user did not name the file, a missing or silent file is skipped.
fn from_crictl(
    sources: &Sources<'_>,
    silent_path: &mut Option<PathBuf>,
) -> Result<Option<ValueAndSource>, EndpointError> {
    let file = sources.crictl_config.map_or_else(|| sources.host.path(CRICTL_CONFIG), Path::to_path_buf);
    // If no thread can be started, the file is read in this thread and without a time limit.
    let read = {
        let file = file.clone();
        threads::with_time_limit_if_possible(READ_LIMIT, move || file_scalars(&file))
    };
    let read = match read {
        Ok(read) => read,
        Err(_) if sources.crictl_config.is_none() => {
            *silent_path = Some(file);
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

/// Returns the kubelet's setting; `None` if the kubelet's configuration cannot be read. plegctl then reads the next
/// source, because the user should not have to correct the kubelet's file first.
fn from_kubelet(sources: &Sources<'_>) -> Option<ValueAndSource> {
    let setting = sources.kubelet?.setting("container-runtime-endpoint", "containerRuntimeEndpoint");
    setting.ok()?.map(|setting| (setting.value, setting.source))
}

/// Returns the first well-known socket that exists. A path on a disk that does not answer is skipped.
fn well_known(host: &HostRoot, silent: &mut Option<PathBuf>) -> Option<Resolved> {
    let mut limit = READ_LIMIT;
    let mut occupied = None;
    for (runtime, socket) in WELL_KNOWN_SOCKETS {
        let path = host.path(socket);
        let found = || Resolved {
            endpoint: Endpoint::Unix { path: path.clone(), name: format!("unix://{socket}") },
            source: format!("the well-known socket of {runtime}"),
            silent_path: None,
        };
        match path_state_within(host, &path, limit) {
            Some(PathState::Socket) => return Some(found()),
            // This file is not a socket. If no well-known path has a socket, plegctl tries to connect to this file.
            // That fails, and the error tells the user which file is in the place of a socket.
            Some(PathState::Occupied) => {
                occupied.get_or_insert_with(found);
            }
            Some(PathState::Unusable) => {}
            None => {
                silent.get_or_insert(path);
                limit = NEXT_READ_LIMIT;
            }
        }
    }
    occupied
}

/// The state of a path at which a socket is expected.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum PathState {
    /// The path is a socket.
    Socket,
    /// The path is another kind of file.
    Occupied,
    /// The path does not exist, or other users could have created the socket.
    Unusable,
}

impl PathState {
    fn of(host: &HostRoot, path: &Path) -> Self {
        if open_to_others(host, path).is_some() {
            return Self::Unusable;
        }
        match fs::metadata(path) {
            Ok(about) if about.file_type().is_socket() => Self::Socket,
            Ok(_) => Self::Occupied,
            Err(_) => Self::Unusable,
        }
    }
}

/// Returns the state of `path`; `None` if its disk does not answer within `limit`.
fn path_state_within(host: &HostRoot, path: &Path, limit: Duration) -> Option<PathState> {
    let (root, wanted) = (host.clone(), path.to_path_buf());
    threads::with_time_limit_if_possible(limit, move || PathState::of(&root, &wanted)).ok()
}

/// Returns the sources without a value, for the error message.
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

/// Parses `unix:///path`, `unix:/path`, `/path`, `sim:SCENARIO` or an endpoint with one of the custom schemes.
fn parse(value: &str, from: &str, sources: &Sources<'_>) -> Result<Endpoint, EndpointError> {
    let Sources { host, custom_schemes, .. } = sources;
    if let Some(scenario) = value.strip_prefix("sim:") {
        return Ok(Endpoint::Sim { scenario: scenario.to_owned() });
    }
    for scheme in *custom_schemes {
        if let Some(name) = value.strip_prefix(scheme).and_then(|rest| rest.strip_prefix(':')) {
            return Ok(Endpoint::Custom { scheme, name: name.to_owned() });
        }
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
    // This path comes from the user or a configuration file. In tests, such a path may have another root than the
    // well-known sockets have.
    Ok(Endpoint::Unix { path: host.given_path(path), name: format!("unix://{path}") })
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    fn root() -> HostRoot {
        HostRoot::resolve(Some(Path::new("/")))
    }

    fn sources(host: &HostRoot) -> Sources<'_> {
        let (flag, variable, crictl_config, kubelet) = (None, None, None, None);
        Sources { flag, variable, crictl_config, kubelet, host, custom_schemes: &["recording"] }
    }

    fn parsed(value: &str) -> Result<Endpoint, EndpointError> {
        parse(value, "--runtime-endpoint", &sources(&root()))
    }

    #[test]
    fn a_path_and_a_unix_url_are_the_same_socket() {
        let url = parsed("unix:///run/x.sock").unwrap();
        assert_eq!(parsed("/run/x.sock").unwrap(), url);
        assert_eq!(parsed("unix:/run/x.sock").unwrap(), url);
        assert_eq!(url.to_string(), "unix:///run/x.sock");
    }

    #[test]
    fn the_caller_has_schemes_of_its_own() {
        let endpoint = parsed("recording:/a:b").unwrap();
        assert_eq!(endpoint, Endpoint::Custom { scheme: "recording", name: "/a:b".to_owned() });
        assert_eq!(endpoint.to_string(), "recording:/a:b");
    }

    #[test]
    fn an_unsupported_scheme_is_refused_with_its_name() {
        assert!(
            matches!(parsed("tcp://1.2.3.4:5").unwrap_err(), EndpointError::Scheme { scheme, .. } if scheme == "tcp")
        );
        assert!(matches!(parsed("npipe:////./pipe/x").unwrap_err(), EndpointError::Scheme { .. }));
    }

    #[test]
    fn a_url_with_two_slashes_is_refused() {
        let why = parsed("unix://run/x.sock").unwrap_err();
        assert!(matches!(why, EndpointError::NotAbsolute { .. }));
        assert_eq!(why.hint(), "did you mean `unix:///run/x.sock`?");
        assert!(parsed("quiet").unwrap_err().hint().contains("sim:SCENARIO"));
    }

    #[test]
    fn sockets_are_opened_below_the_host_root() {
        let host = HostRoot::resolve(Some(Path::new("/host")));
        let endpoint = parse("/run/x.sock", "x", &sources(&host)).unwrap();
        assert_eq!(
            endpoint,
            Endpoint::Unix { path: "/host/run/x.sock".into(), name: "unix:///run/x.sock".into() }
        );
    }

    #[test]
    fn a_socket_has_priority_over_a_file_at_another_well_known_path() {
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
    fn a_well_known_socket_in_a_directory_that_others_may_write_to_is_not_used() {
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
    fn the_flag_has_priority_over_the_variable() {
        let host = root();
        let sources = Sources {
            flag: Some("/a.sock"),
            variable: Some("/b.sock"),
            crictl_config: Some(Path::new("/nowhere/at/all")),
            kubelet: None,
            host: &host,
            custom_schemes: &[],
        };
        let resolved = resolve(&sources).unwrap();
        assert_eq!(resolved.endpoint.to_string(), "unix:///a.sock");
        assert_eq!(resolved.source, "--runtime-endpoint");
    }

    #[test]
    fn a_configuration_file_that_the_user_names_must_exist() {
        let host = root();
        let sources = Sources {
            flag: None,
            variable: None,
            crictl_config: Some(Path::new("/nowhere/at/all")),
            kubelet: None,
            host: &host,
            custom_schemes: &[],
        };
        assert!(matches!(resolve(&sources), Err(EndpointError::Settings(_))));
    }

    #[test]
    fn configuration_file_that_does_not_answer_is_skipped() {
        let root = std::env::temp_dir().join(format!("plegctl-silent-settings-{}", std::process::id()));
        fs::create_dir_all(root.join("etc")).unwrap();
        fs::create_dir_all(root.join("run/crio")).unwrap();
        // Nobody writes into the FIFO.
        let fifo = root.join("etc/crictl.yaml");
        rustix::fs::mknodat(rustix::fs::CWD, &fifo, rustix::fs::FileType::Fifo, 0o600.into(), 0).unwrap();
        let listening = std::os::unix::net::UnixListener::bind(root.join("run/crio/crio.sock")).unwrap();
        let host = HostRoot::resolve(Some(&root));
        let found = |crictl_config| {
            resolve(&Sources {
                flag: None,
                variable: None,
                crictl_config,
                kubelet: None,
                host: &host,
                custom_schemes: &[],
            })
        };
        let resolved = found(None).unwrap();
        let named = found(Some(fifo.as_path()));
        drop(listening);
        fs::remove_dir_all(&root).unwrap();
        assert_eq!(resolved.endpoint.to_string(), "unix:///run/crio/crio.sock");
        assert_eq!(resolved.silent_path, Some(fifo));
        assert!(
            matches!(named, Err(EndpointError::Settings(_))),
            "a file that the user named must be readable"
        );
    }
}
