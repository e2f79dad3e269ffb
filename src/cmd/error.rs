//! [`Error`]: why a command has no answer (exit status 2), with its message and a hint.

use std::io;
use std::net::SocketAddr;

use super::serve::token_file::TokenFileError;
use crate::capture;
use crate::cri;
use crate::fleet;
use crate::kubelet::http;
use crate::kubelet::kubeconfig::KubeconfigError;
use crate::pleg::ReadError;
use crate::pleg::diff::DifferentNodes;
use crate::report::save;
use crate::sim;

/// Why a command has no answer.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// No endpoint of a runtime was found.
    #[error(transparent)]
    Endpoint(#[from] cri::EndpointError),
    /// A call to the runtime failed.
    #[error(transparent)]
    Runtime(#[from] cri::Error),
    /// The runtime answered, but the kubelet's client would refuse the answer.
    #[error("cannot use the runtime's answer: {0}")]
    Refused(String),
    /// A report could not be read.
    #[error("cannot read {name}: {source}")]
    Read {
        /// The file, or stdin.
        name: String,
        /// The error.
        source: io::Error,
        /// The hint for a user whose file does not exist.
        if_missing: Option<&'static str>,
    },
    /// A side of `diff` is no saved relist.
    #[error("cannot compare {name}: {source}")]
    NoReport {
        /// The file, or stdin.
        name: String,
        /// The error.
        source: ReadError,
    },
    /// The directory in which `record` would create its own does not exist.
    #[error("there is no directory `{0}`")]
    NoDirectory(String),
    /// The user named no source of pods, and no kubelet runs here.
    #[error("no source of pods: none was given and no kubelet runs here")]
    NoSource,
    /// The path of the manifests that the user named does not exist.
    #[error("cannot read the manifests of `{0}`: no such file or directory")]
    NoManifests(String),
    /// No kubelet runs on this node, and nothing shows its settings.
    #[error("no kubelet runs here, and neither a unit of systemd nor the journal shows its settings")]
    NoKubelet,
    /// The release of the kubelet is not known.
    #[error("the release of the kubelet is not known")]
    NoRelease,
    /// The two reports do not belong together.
    #[error(transparent)]
    DifferentNodes(#[from] DifferentNodes),
    /// The user sorts by the duration of status calls, but no status calls were made.
    #[error("cannot sort by duration: no status calls were made")]
    NothingInspected,
    /// Stdin cannot be read twice.
    #[error("cannot read both sides from stdin")]
    StdinTwice,
    /// The file is no saved health report.
    #[error("cannot show {name}: it is not a HealthReport: {why}")]
    NoHealthReport {
        /// The file.
        name: String,
        /// The error.
        why: String,
    },
    /// Nothing has the name that the user typed.
    #[error("there is no {wanted}")]
    Unknown {
        /// What the user wanted, with its name.
        wanted: String,
        /// The most similar name.
        nearest: Option<String>,
        /// The command that lists all names, and what they are.
        list: &'static str,
    },
    /// The URL of the kubelet is invalid.
    #[error(transparent)]
    Kubelet(http::Error),
    /// A certificate, key or token for the kubelet cannot be used.
    #[error("cannot query the kubelet: {0}")]
    Credential(#[from] http::PemError),
    /// The kubeconfig gives no API server.
    #[error(transparent)]
    Kubeconfig(#[from] KubeconfigError),
    /// The user named a runtime of this machine and another node.
    #[error(
        "--runtime-endpoint and --config are about a runtime of this machine, and this command asks other nodes"
    )]
    RuntimeBesideNode,
    /// A flag needs the runtime of a node on which plegctl does not run.
    #[error("`{flag}` needs the runtime of `{node}`, and plegctl does not run on that node")]
    NeedsRuntime { flag: &'static str, node: String },
    /// The recorder of a node gives no usable answer.
    #[error("cannot read the recorder of `{node}`: {why}")]
    Recorder {
        node: String,
        /// The error.
        why: String,
    },
    /// The recorder gives its capture only to a client with its token.
    #[error("the recorder of `{node}` gives captures only with its token")]
    NoToken { node: String },
    /// The file of `--token-file` has no token.
    #[error("cannot use the token file `{name}`: {why}")]
    Token {
        /// The file.
        name: String,
        /// The error.
        why: TokenFileError,
    },
    /// The number of paths does not fit the other arguments.
    #[error("`capture export` needs {needed}")]
    ExportPaths {
        /// The needed paths.
        needed: &'static str,
    },
    /// The API server did not list the nodes.
    #[error(transparent)]
    Nodes(#[from] fleet::Error),
    /// The API server did not list the recorders' pods.
    #[error("cannot find the recorders: {0}")]
    Recorders(#[from] fleet::RecorderError),
    /// A file that the user named could not be written.
    #[error(transparent)]
    Write(#[from] save::Error),
    /// The address for metrics could not be bound.
    #[error("cannot serve metrics on {address}: {source}")]
    Listen {
        address: SocketAddr,
        /// The error.
        source: io::Error,
    },
    /// The result could not be written to stdout.
    #[error("cannot write the result: {0}")]
    Output(#[from] io::Error),
    /// The capture could not be read or written.
    #[error(transparent)]
    Capture(#[from] capture::Error),
    /// The scenario does not exist or is invalid.
    #[error(transparent)]
    Simulation(#[from] sim::Error),
    /// Reading the event stream would take events away from the kubelet, or might do so.
    #[error("will not read the event stream: {0}")]
    StealsEvents(String),
    /// The event stream cannot be read safely.
    #[error("cannot start the guard of the event stream: {0}")]
    Guard(io::Error),
    /// A source of goroutine dumps gave no dump.
    #[error("cannot read a goroutine dump from {name}: {why}")]
    Stacks {
        /// The file, the socket or the URL.
        name: String,
        /// The error.
        why: String,
        /// The hint for the user.
        hint: Option<String>,
    },
    /// The endpoint is a simulation or a capture without a goroutine dump.
    #[error("{0} provides no goroutine dump")]
    NoRuntimeStacks(String),
    /// No goroutine dump can be read on this node without sending a signal to a process.
    #[error(
        "no goroutine dump is available on this node without a signal: tried CRI-O's socket, containerd's \
         debug socket, dumps in /tmp"
    )]
    NoStacks {
        /// Whether the runtime is CRI-O.
        of_crio: bool,
    },
    /// The operating system refused a resource.
    #[error("cannot start: {0}")]
    Start(io::Error),
}

impl Error {
    /// Returns the hint for the user.
    pub fn hint(&self) -> Option<String> {
        let hint = match self {
            Self::Unknown { nearest, list, .. } => {
                let meant = nearest.as_ref().map(|nearest| format!("did you mean {nearest}? "));
                return Some(format!("{}plegctl {list}", meant.unwrap_or_default()));
            }
            Self::Endpoint(why) => return Some(why.hint()),
            Self::Runtime(why) => return why.hint(),
            Self::Simulation(why) => return why.hint(),
            Self::Write(why) => return why.hint().map(str::to_owned),
            Self::Capture(why) => return why.hint(),
            Self::Stacks { hint, .. } => return hint.clone(),
            Self::Kubelet(why) | Self::Nodes(fleet::Error::Http(why) | fleet::Error::Node { why, .. }) => {
                return why.hint().map(str::to_owned);
            }
            Self::Listen { .. } => "is the port in use? `--metrics-listen 127.0.0.1:0` takes any free port",
            Self::Read { if_missing: Some(hint), source, .. } if source.kind() == io::ErrorKind::NotFound => {
                hint
            }
            Self::NoReport { .. } => "make one with `plegctl relist --save FILE`",
            Self::NoHealthReport { .. } => "make one with `plegctl health --save FILE`",
            Self::Kubeconfig(KubeconfigError::Nothing) => {
                "pass one with --kubeconfig FILE; on a node without one, `plegctl health` works without the \
                 API server"
            }
            Self::Recorders(_) => {
                "you need `list` on pods and `get` on pods/proxy in the recorders' namespace"
            }
            Self::Recorder { .. } => {
                "`plegctl health --node NAME` works without a recorder; docs/captures.md says what the \
                 recorder needs"
            }
            Self::NoToken { .. } => {
                "give its file with --token-file; the recorder has it from --serve-token-file"
            }
            Self::ExportPaths { .. } => "see `plegctl capture export --help`",
            Self::RuntimeBesideNode => "leave out the runtime, or run a command about this node",
            Self::NeedsRuntime { .. } => "run it on the node, or leave the flag out",
            Self::Kubeconfig(KubeconfigError::Missing { kind: "context", .. }) => "choose one with --context",
            Self::Kubeconfig(KubeconfigError::UnsupportedLogin { .. }) => {
                "give it a token, a client certificate or an exec plugin"
            }
            Self::Kubeconfig(KubeconfigError::Proxy { variable: "proxy-url", .. }) => {
                "choose a context without proxy-url with --context, or run plegctl on the node"
            }
            Self::Kubeconfig(KubeconfigError::Proxy { .. }) => {
                "add the server to NO_PROXY if it can be reached without the proxy, or run plegctl on the node"
            }
            Self::DifferentNodes(_) => "use --force to compare them anyway",
            Self::NoSource => {
                "give the kubelet's sources: --manifests /etc/kubernetes/manifests, --manifest-url URL, \
                 --api-pods FILE, --kubeconfig FILE"
            }
            Self::NoManifests(_) => {
                "name a directory, a file or `-`; without a PATH, plegctl reads the directory of this node's \
                 kubelet"
            }
            Self::NoDirectory(_) => {
                "create it first with `mkdir -p`; `record` creates only the last directory"
            }
            Self::NoRuntimeStacks(_) => {
                "give a dump as a file, for example of a colleague: plegctl stacks FILE"
            }
            Self::NoKubelet => {
                "check files instead: plegctl preflight --config /var/lib/kubelet/config.yaml \
                 --kubelet-version VERSION"
            }
            Self::NoRelease => {
                "neither metrics nor the program show it; name it with --kubelet-version VERSION or --upgrade-to VERSION"
            }
            Self::NothingInspected => "--inspect all makes them",
            Self::StdinTwice => "give one of them as a file",
            Self::StealsEvents(_) => {
                "use --steal-events to read it anyway; this is harmless if the kubelet does not use \
                 EventedPLEG"
            }
            Self::Guard(_) => "--mode generic needs none",
            Self::NoStacks { of_crio: true } => {
                "CRI-O provides dumps on its socket since 1.32; otherwise, `kill -USR1 $(pidof crio)` writes one to \
                 /tmp/crio-goroutine-stacks-TIME.log; plegctl sends no signals"
            }
            Self::NoStacks { of_crio: false } => {
                "you can create one: `kill -USR1 $(pidof containerd)` writes /tmp/containerd.PID.stacks.log; \
                 plegctl sends no signals"
            }
            Self::Kubeconfig(_)
            | Self::Token { .. }
            | Self::Credential(_)
            | Self::Nodes(_)
            | Self::Read { .. }
            | Self::Refused(_)
            | Self::Output(_)
            | Self::Start(_) => return None,
        };
        Some(hint.to_owned())
    }

    /// Whether the reader of stdout, such as `head`, has ended; this is no failure.
    pub fn is_broken_pipe(&self) -> bool {
        matches!(self, Self::Output(why) if why.kind() == io::ErrorKind::BrokenPipe)
    }
}
