//! Finds the sockets and files of this node that offer a dump, and reads a dump from a socket.
//!
//! To a socket, this module sends one of two constant requests and nothing else: CRI-O's socket also serves paths that
//! change state, so no path is built from input. It uses no file and no socket that another user may have created.

use std::fs;
use std::io;
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use rustix::fs::{Mode, OFlags};
use rustix::process::geteuid;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::UnixStream;

use super::report::PastDump;
use plegctl_base::clock::Wall;
use plegctl_node::host::proc::{ProcessTrust, Role, command_line, process_age, waits_uninterruptibly};
use plegctl_node::host::{
    CONTAINERD_CONFIG, HostRoot, KernelDir, debug_address, kernel_text, open_to_others,
};

/// The time limit for an answer.
const TIME_LIMIT: Duration = Duration::from_secs(5);

/// The largest answer in bytes, equal to the parser's limit.
const MAX_ANSWER: u64 = 64 << 20;

/// The request to CRI-O's CRI socket. This one and the next are the only requests that are sent to a socket.
const CRIO_REQUEST: &str = "GET /debug/goroutines HTTP/1.0\r\nHost: localhost\r\nConnection: close\r\n\r\n";

/// The request of Go's pprof, to containerd's debug socket.
const PPROF_REQUEST: &str =
    "GET /debug/pprof/goroutine?debug=2 HTTP/1.0\r\nHost: localhost\r\nConnection: close\r\n\r\n";

/// Chooses the request by the socket's file name. No socket gets both requests.
fn request_to(socket: &Path) -> &'static str {
    let is_debug = socket.file_name().is_some_and(|name| name.to_string_lossy().contains("debug"));
    if is_debug { PPROF_REQUEST } else { CRIO_REQUEST }
}

/// A source of a dump that the user named.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum DumpLocation {
    /// `-`: the standard input.
    Stdin,
    /// A path of a file.
    File(PathBuf),
    /// `unix://PATH`: a socket.
    Socket(PathBuf),
    /// `http://…` or `https://…`.
    Url(String),
}

impl DumpLocation {
    /// Parses an argument of the command line.
    pub fn parse(text: &str) -> Self {
        if text == "-" {
            Self::Stdin
        } else if let Some(path) = text.strip_prefix("unix://") {
            Self::Socket(path.into())
        } else if text.starts_with("http://") || text.starts_with("https://") {
            Self::Url(text.to_owned())
        } else {
            Self::File(text.into())
        }
    }
}

/// A source of a dump that this node offers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NodeSource {
    /// A socket to send a request to.
    Socket(PathBuf),
    /// An existing file.
    File(PathBuf),
}

/// Why a socket or a URL did not provide a dump.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// Connecting or reading failed.
    #[error("cannot connect or read: {0}")]
    Io(#[from] io::Error),
    /// No answer arrived in time.
    #[error("no answer within {}s", TIME_LIMIT.as_secs())]
    Silent,
    /// The server does not serve dumps.
    #[error("the server does not provide goroutine dumps (HTTP status {0})")]
    Status(u16),
    /// The answer is not HTTP.
    #[error("the answer is not HTTP/1: this socket does not provide dumps")]
    Protocol,
}

impl Error {
    /// What the user can do.
    pub fn hint(&self) -> Option<&'static str> {
        match self {
            Self::Io(why) if why.kind() == io::ErrorKind::PermissionDenied => Some("run as root"),
            Self::Status(401 | 403) => Some(
                "a kubelet provides dumps to clients that may `get` nodes/proxy: use --kubelet-url with --kubelet-token-file or a client certificate",
            ),
            Self::Status(_) | Self::Protocol => Some(
                "CRI-O provides dumps on its socket since 1.32, containerd on the socket that `[debug] address` names",
            ),
            Self::Io(_) | Self::Silent => None,
        }
    }
}

/// The answer of a socket.
#[derive(Debug)]
pub struct DumpAnswer {
    /// The unparsed dump.
    pub body: Vec<u8>,
    /// The process that listens on the socket.
    pub pid: Option<u32>,
}

/// Requests the dump of the process that listens on a socket.
pub async fn request_dump(path: &Path) -> Result<DumpAnswer, Error> {
    match tokio::time::timeout(TIME_LIMIT, exchange(path)).await {
        Ok(answer) => answer,
        Err(_) => Err(Error::Silent),
    }
}

async fn exchange(path: &Path) -> Result<DumpAnswer, Error> {
    let mut stream = UnixStream::connect(path).await?;
    let pid = peer_pid(&stream);
    stream.write_all(request_to(path).as_bytes()).await?;
    let mut answer = Vec::new();
    stream.take(MAX_ANSWER).read_to_end(&mut answer).await?;
    let (status, body) = split_answer(answer).ok_or(Error::Protocol)?;
    if status == 200 { Ok(DumpAnswer { body, pid }) } else { Err(Error::Status(status)) }
}

/// Splits an HTTP answer, whose body ends with the connection, into status and body.
fn split_answer(mut answer: Vec<u8>) -> Option<(u16, Vec<u8>)> {
    let end = answer.windows(4).position(|bytes| bytes == b"\r\n\r\n")?;
    let body = answer.split_off(end + 4);
    let head = String::from_utf8(answer).ok()?;
    let first = head.lines().next()?.strip_prefix("HTTP/1.")?;
    Some((first.split(' ').nth(1)?.parse().ok()?, body))
}

/// The path under which a kubelet provides its dump.
pub const GOROUTINES: &str = "/debug/pprof/goroutine?debug=2";

/// Adds the path of the dump to a URL that has no path.
pub fn with_path(url: &str) -> String {
    let rest = url.split_once("://").map_or(url, |(_, rest)| rest);
    match rest.split_once('/') {
        None | Some((_, "")) => format!("{}{GOROUTINES}", url.trim_end_matches('/')),
        Some(_) => url.to_owned(),
    }
}

/// The sources of dumps that a node offers.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct NodeSources {
    /// The sockets and files to read.
    pub usable: Vec<NodeSource>,
    /// A sentence for each file or socket that is not trusted, with the reason.
    pub refused: Vec<String>,
    /// Whether the runtime is CRI-O.
    pub is_crio: bool,
}

/// Returns the process that listens on a socket. The kernel names it to whoever connects; nothing is sent.
pub async fn listening_pid(socket: &Path) -> Option<u32> {
    let stream = tokio::time::timeout(TIME_LIMIT, UnixStream::connect(socket)).await.ok()?.ok()?;
    peer_pid(&stream)
}

fn peer_pid(stream: &UnixStream) -> Option<u32> {
    stream.peer_cred().ok().and_then(|peer| peer.pid()).and_then(|pid| u32::try_from(pid).ok())
}

/// Finds the source for the runtime that serves the CRI on `socket`. `daemon` is the process that listens there, if
/// known. CRI-O provides dumps on the same socket; a containerd names its debug socket in its configuration.
pub fn sources_of_runtime(host: &HostRoot, proc: &Path, socket: &Path, daemon: Option<u32>) -> NodeSources {
    let mut refused = Vec::new();
    let comm = daemon.and_then(|pid| kernel_text(&proc.join(pid.to_string()).join("comm")).ok());
    let is_crio = match comm.as_deref().map(str::trim) {
        Some("crio") => true,
        Some("containerd") => false,
        _ => socket.file_name().is_some_and(|name| name.to_string_lossy().contains("crio")),
    };
    if is_crio {
        return NodeSources { usable: vec![NodeSource::Socket(socket.to_owned())], refused, is_crio };
    }
    let config = daemon.and_then(|pid| config_flag(proc, pid));
    if let Some(debug) = debug_socket(host, config.as_deref(), &mut refused) {
        return NodeSources { usable: vec![NodeSource::Socket(debug)], refused, is_crio };
    }
    let file = newest_dump_file(&host.path("/tmp"), proc, &mut refused)
        .filter(|path| daemon.is_none() || pid_in_name(path).is_some_and(|pid| Some(pid) == daemon));
    NodeSources { usable: file.map(NodeSource::File).into_iter().collect(), refused, is_crio }
}

/// Finds the sources of this node: CRI-O's socket and containerd's debug socket, otherwise the newest dump file. If
/// `daemon` is known, containerd's configuration is the file with which this process was started.
pub fn sources_of_node(host: &HostRoot, proc: &Path, daemon: Option<u32>) -> NodeSources {
    let mut refused = Vec::new();
    let mut found: Vec<NodeSource> = Vec::new();
    let mut crio = ["/run/crio/crio.sock", "/var/run/crio/crio.sock"].map(|path| host.path(path)).into_iter();
    found.extend(crio.find(|path| is_trusted_socket(host, path, &mut refused)).map(NodeSource::Socket));
    let is_crio = !found.is_empty();
    let config = daemon.and_then(|pid| config_flag(proc, pid));
    found.extend(debug_socket(host, config.as_deref(), &mut refused).map(NodeSource::Socket));
    if found.is_empty() {
        found.extend(newest_dump_file(&host.path("/tmp"), proc, &mut refused).map(NodeSource::File));
    }
    NodeSources { usable: found, refused, is_crio }
}

/// Returns whether a socket exists that only root or plegctl's user can have created. Adds the reason to `refused` if
/// another user can have created it.
fn is_trusted_socket(host: &HostRoot, path: &Path, refused: &mut Vec<String>) -> bool {
    if !fs::metadata(path).is_ok_and(|about| about.file_type().is_socket()) {
        return false;
    }
    let open_directory = open_to_others(host, path);
    refused.extend(open_directory.as_ref().map(|directory| {
        format!("{} is not used: others may write to {}", path.display(), directory.display())
    }));
    open_directory.is_none()
}

/// Finds containerd's debug socket: the one that its configuration names, otherwise the one at the well-known path. `config` is
/// the absolute path with which containerd was started. Adds to `refused` why a socket is not trusted.
pub fn debug_socket(host: &HostRoot, config: Option<&str>, refused: &mut Vec<String>) -> Option<PathBuf> {
    let config = config.unwrap_or(CONTAINERD_CONFIG);
    let configured = debug_address(Path::new(config), host).map(|path| host.path(path));
    let well_known = host.path("/run/containerd/debug.sock");
    configured.into_iter().chain([well_known]).find(|path| is_trusted_socket(host, path, refused))
}

/// Returns the value of `--config` on a daemon's command line.
fn config_flag(proc: &Path, pid: u32) -> Option<String> {
    let dir = &proc.join(pid.to_string());
    let opened = KernelDir::open(dir).ok()?;
    // Another user's process may have the daemon's name and name any file.
    ProcessTrust::of_table(proc).judge(&opened, Role::Daemon, !waits_uninterruptibly(dir)).ok()?;
    let arguments = command_line(dir);
    let file = arguments.flag("config").or_else(|| arguments.flag("c"))?;
    file.starts_with('/').then(|| file.to_owned())
}

/// Finds the newest dump file in a temporary directory. A file whose process still runs comes before a newer file whose
/// process has ended. Any user may write a file there, so only files of root and of plegctl's user are used.
fn newest_dump_file(tmp: &Path, proc: &Path, refused: &mut Vec<String>) -> Option<PathBuf> {
    let entries = fs::read_dir(tmp).ok()?;
    entries
        .filter_map(Result::ok)
        .filter(|entry| {
            let name = entry.file_name();
            let name = name.to_string_lossy();
            (name.starts_with("containerd.") && name.ends_with(".stacks.log"))
                || (name.starts_with("crio-goroutine-stacks-") && name.ends_with(".log"))
        })
        .filter_map(|entry| {
            let path = entry.path();
            let modified = match open_dump_file(&path).and_then(|dump| dump.metadata()?.modified()) {
                Ok(modified) => modified,
                Err(why) => {
                    refused.push(format!("{} is not read: {why}", path.display()));
                    return None;
                }
            };
            let runs = pid_in_name(&path).is_some_and(|pid| proc.join(pid.to_string()).exists());
            Some((runs, modified, path))
        })
        .max()
        .map(|(_, _, path)| path)
}

/// Opens a dump file in a directory that every user can write to. Refuses symbolic links, files with a second name, and
/// files that another user owns or can write to.
pub fn open_dump_file(path: &Path) -> io::Result<fs::File> {
    let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC;
    let file = fs::File::from(rustix::fs::open(path, flags, Mode::empty())?);
    let about = file.metadata()?;
    let refused = |why: String| Err(io::Error::new(io::ErrorKind::PermissionDenied, why));
    if !about.is_file() || about.nlink() != 1 {
        return refused("it is not a regular file with a single name".to_owned());
    }
    if about.uid() != 0 && about.uid() != geteuid().as_raw() {
        return refused(format!("it belongs to user {}, who may have invented its content", about.uid()));
    }
    // All users may write to it, or a group that is not root's.
    let writable = about.mode() & 0o002 != 0 || (about.mode() & 0o020 != 0 && about.gid() != 0);
    if writable { refused("others may write to it".to_owned()) } else { Ok(file) }
}

/// The age from which a dump in a file does not show the present state.
const PAST: Duration = Duration::from_secs(60);

/// The error of the difference between a file's time and the start of a process, whose clocks are different.
const START_ERROR: Duration = Duration::from_secs(1);

impl PastDump {
    /// Judges a dump file by its age and by the process that wrote it. Returns `None` if the dump shows the present
    /// state.
    pub fn of(age: Duration, writer: Option<u32>, proc: &Path) -> Option<Self> {
        let runs = writer.map(|pid| has_run_for(age, pid, proc));
        let is_present = age < PAST && runs == Some(true);
        (!is_present).then(|| Self { age_seconds: age.into(), process_ended: runs == Some(false) })
    }

    /// Judges a dump for which nothing but its age is known.
    pub fn by_age(age: Duration) -> Option<Self> {
        (age >= PAST).then(|| Self { age_seconds: age.into(), process_ended: false })
    }
}

/// Returns whether a process runs and did so `age` ago. Another process may have received the process id since.
fn has_run_for(age: Duration, pid: u32, proc: &Path) -> bool {
    process_age(proc, pid).is_some_and(|ran| ran.saturating_add(START_ERROR) >= age)
}

/// Returns the process id in the name of a dump file: `containerd.812.stacks.log`.
pub fn pid_in_name(path: &Path) -> Option<u32> {
    let name = path.file_name()?.to_str()?;
    name.strip_prefix("containerd.")?.strip_suffix(".stacks.log")?.parse().ok()
}

/// Converts the time of a file.
pub fn wall(time: SystemTime) -> Wall {
    let since = time.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    Wall::from_nanos(0).plus(since)
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    #[test]
    fn an_argument_is_stdin_a_socket_a_url_or_a_file() {
        assert_eq!(DumpLocation::parse("-"), DumpLocation::Stdin);
        assert_eq!(DumpLocation::parse("unix:///run/a.sock"), DumpLocation::Socket("/run/a.sock".into()));
        assert_eq!(DumpLocation::parse("http://n:1/"), DumpLocation::Url("http://n:1/".to_owned()));
        assert_eq!(DumpLocation::parse("/tmp/dump.gz"), DumpLocation::File("/tmp/dump.gz".into()));
    }

    #[test]
    fn every_socket_without_debug_in_its_name_gets_crios_request() {
        for socket in ["/run/crio/crio.sock", "/var/run/crio/crio.sock", "/x/y.sock"] {
            let request = request_to(Path::new(socket));
            assert!(request.starts_with("GET /debug/goroutines HTTP/1.0\r\n"), "{request}");
        }
        assert_eq!(request_to(Path::new("/run/containerd/debug.sock")), PPROF_REQUEST);
        // Only the file name decides, not the directory.
        assert_eq!(request_to(Path::new("/debug/crio.sock")), CRIO_REQUEST);
    }

    #[test]
    fn the_dump_is_requested_from_the_runtime_behind_the_named_socket() {
        let root = std::env::temp_dir().join(format!("plegctl-sources-{}", std::process::id()));
        let _ = fs::remove_dir_all(&root);
        let host = HostRoot::resolve(Some(&root));
        let socket = |path: &str| {
            let path = root.join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            drop(std::os::unix::net::UnixListener::bind(&path).unwrap());
            path
        };
        let (crio, debug) = (socket("run/crio/crio.sock"), socket("run/containerd/debug.sock"));
        let (containerd, other) = (socket("run/containerd/containerd.sock"), socket("srv/runtime.sock"));
        let proc = root.join("proc");
        for (pid, comm) in [("7", "crio\n"), ("8", "containerd\n")] {
            fs::create_dir_all(proc.join(pid)).unwrap();
            fs::write(proc.join(pid).join("comm"), comm).unwrap();
        }
        let of = |socket: &Path, daemon| sources_of_runtime(&host, &proc, socket, daemon).usable;
        assert_eq!(of(&crio, None), [NodeSource::Socket(crio.clone())]);
        assert_eq!(of(&containerd, None), [NodeSource::Socket(debug.clone())]);
        assert_eq!(of(&other, Some(7)), [NodeSource::Socket(other.clone())]);
        assert_eq!(of(&other, Some(8)), [NodeSource::Socket(debug.clone())]);
        fs::remove_file(&debug).unwrap();
        fs::create_dir_all(root.join("tmp")).unwrap();
        let file = root.join("tmp/containerd.8.stacks.log");
        fs::write(&file, "").unwrap();
        assert_eq!(of(&containerd, Some(8)), [NodeSource::File(file)]);
        assert_eq!(of(&containerd, Some(9)), []);
        fs::remove_dir_all(&root).unwrap();
    }

    #[test]
    fn a_url_without_a_path_gets_the_path_of_the_dump() {
        assert_eq!(with_path("http://n:10250"), "http://n:10250/debug/pprof/goroutine?debug=2");
        assert_eq!(with_path("http://n:10250/"), "http://n:10250/debug/pprof/goroutine?debug=2");
        assert_eq!(with_path("http://n:10250/x?debug=2"), "http://n:10250/x?debug=2");
    }

    #[test]
    fn an_http_answer_is_split_and_another_protocol_is_refused() {
        assert_eq!(
            split_answer(b"HTTP/1.0 200 OK\r\nA: b\r\n\r\nbody".to_vec()),
            Some((200, b"body".to_vec()))
        );
        assert_eq!(split_answer(b"\0\0\x06\x04".to_vec()), None);
    }

    #[test]
    fn a_dump_file_that_another_user_may_have_written_is_not_read() {
        let tmp = std::env::temp_dir().join(format!("plegctl-dump-files-{}", std::process::id()));
        let _ = fs::remove_dir_all(&tmp);
        fs::create_dir_all(&tmp).unwrap();
        let file = |name: &str, mode: u32| {
            let path = tmp.join(name);
            fs::write(&path, "goroutine 1 [select]:\n").unwrap();
            fs::set_permissions(&path, fs::Permissions::from_mode(mode)).unwrap();
            path
        };
        assert!(open_dump_file(&file("containerd.1.stacks.log", 0o644)).is_ok());
        assert!(open_dump_file(&file("containerd.2.stacks.log", 0o666)).is_err(), "others may write to it");
        let secret = file("secret", 0o600);
        let (link, name) = (tmp.join("containerd.3.stacks.log"), tmp.join("containerd.4.stacks.log"));
        std::os::unix::fs::symlink(&secret, &link).unwrap();
        fs::hard_link(&secret, &name).unwrap();
        assert!(
            open_dump_file(&link).is_err() && open_dump_file(&name).is_err(),
            "a second name of another file"
        );
        let of_other_user = file("containerd.5.stacks.log", 0o644);
        if rustix::process::geteuid().is_root() {
            std::os::unix::fs::chown(&of_other_user, Some(65534), None).unwrap();
            assert!(open_dump_file(&of_other_user).unwrap_err().to_string().contains("user 65534"));
        } else {
            println!("skipped in part: only root can give a file to another user");
            fs::remove_file(of_other_user).unwrap();
        }
        let mut refused = Vec::new();
        let found = newest_dump_file(&tmp, Path::new("/plegctl-test-no-proc"), &mut refused);
        assert_eq!(found, Some(tmp.join("containerd.1.stacks.log")));
        assert!(refused.len() >= 3, "{refused:?}");
        fs::remove_dir_all(&tmp).unwrap();
    }

    #[test]
    fn the_process_id_is_in_the_name_of_the_dump_file() {
        assert_eq!(pid_in_name(Path::new("/tmp/containerd.812.stacks.log")), Some(812));
        assert_eq!(pid_in_name(Path::new("/tmp/containerd.log")), None);
    }
}
