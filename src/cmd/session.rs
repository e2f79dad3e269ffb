//! [`Session`]: the open runtime of a node: one behind a socket, a simulated one, or a capture that is replayed. A command
//! opens it once, and all its clients call the same runtime.

use std::cell::OnceCell;
use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use super::args::GlobalArgs;
use super::node::Node;
use super::{CAPTURE, Error};
use crate::capture::{self, Capture, CaptureMoment, Playback, ReplayServer};
use crate::clock::{Clock, Wall};
use crate::cri::{self, CallObserver, Client, Endpoint, Runtime as _};
use crate::kubelet::{KubeletLists, KubeletVersion, ListCalls, ListSigns, Metrics};
use crate::report::RuntimeRef;
use crate::sim::{self, Simulator};

/// The default deadline of a call in a command that runs once.
pub const ONE_SHOT_TIMEOUT: Duration = Duration::from_secs(10);

/// The open runtime of a node.
pub struct Session {
    pub node: Rc<Node>,
    /// The endpoint of the runtime.
    pub endpoint: Endpoint,
    /// The list calls of `--list-calls`; `None` for those of the node's kubelet.
    pub wanted_lists: Option<ListCalls>,
    runtime: OpenRuntime,
    /// The recorder, or the printer of `-vv`, which sees every call.
    observer: Option<Arc<dyn CallObserver>>,
    /// How the node's kubelet lists, once it is known.
    lists: OnceCell<KubeletLists>,
}

/// What the clients of a session call.
enum OpenRuntime {
    /// A runtime behind a socket, to which each client connects.
    Live { path: PathBuf, name: String },
    /// A simulated runtime in this process.
    Simulated(Simulator),
    /// A capture, replayed in this process.
    Replayed(ReplayServer),
}

impl OpenRuntime {
    /// Starts the simulation, or opens the capture at its moment and sets the node's clock to that moment.
    fn open(node: &Node, endpoint: &Endpoint) -> Result<Self, Error> {
        Ok(match endpoint {
            Endpoint::Unix { path, name } => Self::Live { path: path.clone(), name: name.clone() },
            Endpoint::Sim { scenario } => {
                let start = sim::timeline_start(node.clock.wall());
                let scenario = sim::load(scenario)?;
                Self::Simulated(Simulator::since(&scenario, Arc::clone(&node.clock), start)?)
            }
            Endpoint::Custom { name, .. } => {
                let playback = open_capture(name, node)?;
                let server = ReplayServer::open(&format!("{CAPTURE}{name}"), playback);
                Self::Replayed(server.map_err(Error::Start)?)
            }
        })
    }
}

/// Opens the capture `what`, which is `PATH[@TIME]`, at its moment, and sets the node's clock to that moment.
fn open_capture(what: &str, node: &Node) -> Result<Playback, Error> {
    let (path, time) = capture::split_path_and_time(what);
    let capture = Capture::open(Path::new(path))?;
    let start = capture.moment(time)?;
    let incident = capture.chosen_incident(time);
    node.note(1, &format!("showing the capture at {}", start.1));
    Ok(Playback::at(capture, start, node.replay_clock()).of_incident(incident))
}

impl Session {
    /// Opens the runtime that the arguments, the environment or the node's files name.
    pub fn open(global: &GlobalArgs) -> Result<Self, Error> {
        Self::of_node(&Node::named_by(global))
    }

    /// Opens the runtime like [`Self::open`], and a capture without a moment at its beginning.
    pub fn open_from_the_start(global: &GlobalArgs) -> Result<Self, Error> {
        let node = Node::named_by(global);
        Self::at(&node, from_the_start(node.endpoint()?))
    }

    /// Opens the runtime of a node.
    pub fn of_node(node: &Rc<Node>) -> Result<Self, Error> {
        Self::at(node, node.endpoint()?)
    }

    /// Opens the runtime of a node at this endpoint.
    pub fn at(node: &Rc<Node>, endpoint: Endpoint) -> Result<Self, Error> {
        let runtime = OpenRuntime::open(node, &endpoint)?;
        Ok(Self::new(Rc::clone(node), endpoint, runtime))
    }

    fn new(node: Rc<Node>, endpoint: Endpoint, runtime: OpenRuntime) -> Self {
        Self { node, endpoint, runtime, wanted_lists: None, observer: None, lists: OnceCell::new() }
    }

    /// Lists with these calls; `None` for those of the node's kubelet.
    #[must_use]
    pub fn listing_with(self, wanted_lists: Option<ListCalls>) -> Self {
        Self { wanted_lists, ..self }
    }

    /// Lets `observer` see the calls of every client.
    #[must_use]
    pub fn observed_by(self, observer: Arc<dyn CallObserver>) -> Self {
        Self { observer: Some(observer), ..self }
    }

    /// Returns the same session with its capture, `playback`, replayed from another moment.
    pub fn at_moment(&self, playback: &Playback, start: (CaptureMoment, Wall)) -> Result<Self, Error> {
        let clock = Arc::default();
        let playback = playback.moved_to(start, Arc::clone(&clock));
        let server = ReplayServer::open(&self.endpoint.to_string(), playback).map_err(Error::Start)?;
        let node = self.node.with_replay_clock(clock);
        let session = Self::new(node, self.endpoint.clone(), OpenRuntime::Replayed(server));
        Ok(session.listing_with(self.wanted_lists))
    }

    /// Creates a client whose calls end after `--timeout`, or else after `default`. This works only on an event loop,
    /// which runs the connection.
    pub fn client(&self, default: Duration) -> Client {
        let deadline = self.node.global.timeout.unwrap_or(default);
        let client = match &self.runtime {
            OpenRuntime::Live { path, name } => Client::new(path, name, deadline, self.clock()),
            OpenRuntime::Simulated(simulator) => simulator.client(deadline, self.clock()),
            OpenRuntime::Replayed(server) => {
                let client = server.client(deadline);
                client.list_with(server.playback().list_calls());
                client
            }
        };
        match &self.observer {
            Some(observer) => client.with_observer(Arc::clone(observer)),
            None => client,
        }
    }

    /// Returns the clock of the node.
    pub fn clock(&self) -> Arc<dyn Clock> {
        Arc::clone(&self.node.clock)
    }

    /// Returns the capture that is replayed, if the runtime is one.
    pub const fn playback(&self) -> Option<&Arc<Playback>> {
        match &self.runtime {
            OpenRuntime::Replayed(server) => Some(server.playback()),
            OpenRuntime::Live { .. } | OpenRuntime::Simulated(_) => None,
        }
    }

    /// Returns the node's name. A capture contains its node's name.
    pub fn node_name(&self) -> Option<String> {
        match self.playback() {
            Some(playback) => playback.node(),
            None => self.node.name(),
        }
    }

    /// Returns how the node's kubelet lists. `release` is its release, if the caller knows it. The signs are read once.
    pub async fn kubelet_lists(&self, release: Option<KubeletVersion>) -> &KubeletLists {
        if let Some(lists) = self.lists.get() {
            return lists;
        }
        let lists = self.find_kubelet_lists(release).await;
        self.lists.get_or_init(|| lists)
    }

    async fn find_kubelet_lists(&self, release: Option<KubeletVersion>) -> KubeletLists {
        let gates = self.node.list_gates();
        let mut signs = ListSigns {
            release: KubeletVersion::CONFIRMED,
            gates: &gates,
            gauge: None,
            logged_fallback: false,
        };
        if let Some(playback) = self.playback() {
            signs.release = release.or_else(|| playback.kubelet_release()).unwrap_or(signs.release);
            let sample = playback.kubelet_metrics().and_then(|(sample, _)| sample.text);
            signs.gauge = sample.and_then(|text| Metrics::parse(&text).ok()?.streams_lists);
            return KubeletLists::of(signs);
        }
        let release = match release {
            Some(release) => Some(release),
            None => self.node.release_by_program_or_metrics().await,
        };
        signs.release = release.unwrap_or(signs.release);
        if KubeletLists::of(signs).may_differ() {
            signs.gauge = self.node.metrics().await.and_then(|metrics| metrics.streams_lists);
        }
        KubeletLists::of(signs)
    }
}

/// Adds the beginning of the recording to a capture endpoint without a time.
fn from_the_start(endpoint: Endpoint) -> Endpoint {
    match endpoint {
        Endpoint::Custom { scheme, name } if capture::split_path_and_time(&name).1.is_none() => {
            Endpoint::Custom { scheme, name: format!("{name}@+0s") }
        }
        endpoint => endpoint,
    }
}

/// Converts the runtime's answer to `Version` for a report.
pub fn runtime_ref(endpoint: &Endpoint, version: cri::Version) -> RuntimeRef {
    let non_empty = |text: String| (!text.is_empty()).then_some(text);
    RuntimeRef {
        endpoint: endpoint.to_string(),
        name: non_empty(version.runtime_name),
        version: non_empty(version.runtime_version),
        api_version: non_empty(version.runtime_api_version),
    }
}

#[cfg(test)]
mod tests {
    use super::super::CAPTURE_SCHEME;
    use super::*;

    #[test]
    fn a_capture_without_a_moment_is_played_from_its_start() {
        let played = |name: &str| {
            from_the_start(Endpoint::Custom { scheme: CAPTURE_SCHEME, name: name.to_owned() }).to_string()
        };
        assert_eq!(played("/var/cap"), "capture:/var/cap@+0s");
        assert_eq!(played("/var/cap@03:00:00"), "capture:/var/cap@03:00:00");
    }
}
