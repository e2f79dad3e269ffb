//! Counts the connections to the runtime's socket and finds the processes at their other ends, with the kernel's socket
//! diagnosis (`sock_diag(7)`, `UNIX_DIAG`), which changes nothing and needs no privilege.
//!
//! The kernel lists only the sockets of plegctl's own network namespace. A client in another one, as in a pod with its own
//! network, is found by the table of that namespace ([`in_other_networks`]). The kernel counts no bytes of a unix socket, only
//! those of a process, for all files and sockets together.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::time::Duration;
use std::{fmt, fs};

use rustix::net::{
    AddressFamily, RecvFlags, SendFlags, SocketFlags, SocketType, netlink, recv, send, socket_with,
};
use serde::{Deserialize, Serialize};

use super::{same_socket, socket_inode};
use crate::host::kernel_text;
use plegctl_base::clock::Mono;
use plegctl_base::report::bytes::bytes;
use plegctl_base::report::{Rename, plural};

/// The most bytes of the kernel's answer that are read: about 100 bytes for each unix socket of the node.
const MAX_BYTES: usize = 4 << 20;
/// The size of one part of the answer; the kernel uses at most 32 KiB.
const PART: usize = 32 * 1024;

/// A process with connections to the runtime's socket.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, Rename)]
#[names(Process(comm))]
#[serde(rename_all = "camelCase", default)]
pub struct SocketClient {
    /// Process id.
    pub pid: u32,
    /// The kernel's name of the process.
    pub comm: String,
    /// The number of its connections.
    pub connections: usize,
    /// The bytes that it has not read yet.
    pub unread: u64,
}

/// What a process has read and written, in files and sockets together (`/proc/PID/io`). The kernel counts `read` and `write`,
/// which programs in Go use for sockets, but not `recvmsg` and `recvfrom`, which those in C++, Python and Rust use.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, Rename)]
#[serde(rename_all = "camelCase", default)]
pub struct IoCounters {
    /// The bytes that it has read.
    pub read_bytes: u64,
    /// In how many reads.
    pub reads: u64,
    /// The bytes that it has written.
    pub written_bytes: u64,
    /// In how many writes.
    pub writes: u64,
}

impl IoCounters {
    /// Reads the counters of these processes, by process id.
    pub fn of(proc: &Path, pids: &[u32]) -> BTreeMap<u32, Self> {
        let read = |pid: &u32| {
            let text = kernel_text(&proc.join(pid.to_string()).join("io")).ok()?;
            Some((*pid, Self::parse(&text)?))
        };
        pids.iter().filter_map(read).collect()
    }

    fn parse(text: &str) -> Option<Self> {
        let number = |key: &str| {
            text.lines().find_map(|line| line.strip_prefix(key)?.strip_prefix(": ")?.trim().parse().ok())
        };
        Some(Self {
            read_bytes: number("rchar")?,
            reads: number("syscr")?,
            written_bytes: number("wchar")?,
            writes: number("syscw")?,
        })
    }

    /// Returns what was added since `before`; `None` if another process has got the process id.
    fn since(&self, before: &Self) -> Option<Self> {
        Some(Self {
            read_bytes: self.read_bytes.checked_sub(before.read_bytes)?,
            reads: self.reads.checked_sub(before.reads)?,
            written_bytes: self.written_bytes.checked_sub(before.written_bytes)?,
            writes: self.writes.checked_sub(before.writes)?,
        })
    }
}

/// Writes `read 6.1 MiB in 433 reads, wrote 36.0 KiB in 806 writes`.
impl fmt::Display for IoCounters {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (read, reads) = (bytes(self.read_bytes), plural(self.reads, "read"));
        let (wrote, writes) = (bytes(self.written_bytes), plural(self.writes, "write"));
        write!(f, "read {read} in {reads}, wrote {wrote} in {writes}")
    }
}

/// The connections to the runtime's socket.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, Rename)]
#[names(emptied(counted_at))]
#[serde(rename_all = "camelCase", default)]
pub struct SocketClients {
    /// The number of connections that the runtime has accepted.
    pub connections: usize,
    /// The number of connections that the runtime has not accepted yet.
    pub waiting: u32,
    /// The processes at the other ends, as far as plegctl can see them, those with most connections first.
    pub clients: Vec<SocketClient>,
    /// The counters of the clients and of the runtime at the first look, if the run takes two.
    pub counted: BTreeMap<u32, IoCounters>,
    /// The time of the first look.
    #[serde(skip)]
    pub counted_at: Mono,
    /// The time between the looks, and the counters at the second one.
    pub counted_again: Option<(Duration, BTreeMap<u32, IoCounters>)>,
}

impl SocketClients {
    /// Returns what a client or the runtime has read and written between two looks.
    pub fn io_of(&self, pid: u32) -> Option<IoCounters> {
        let (_, again) = self.counted_again.as_ref()?;
        again.get(&pid)?.since(self.counted.get(&pid)?)
    }
}

/// One unix socket in the kernel's answer.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct UnixSocket {
    inode: u32,
    is_listening: bool,
    /// The path that it is bound to. A connection that a server has accepted has the path of the server.
    path: PathBuf,
    /// The inode of the other end; 0 if there is none.
    peer: u32,
    /// The bytes that were not read, or the connections that were not accepted.
    queue: u32,
}

/// From which numbers on the clients of a socket are of interest.
#[derive(Clone, Copy, Debug)]
pub struct Crowd {
    /// The number of connections besides those of the programs that are expected to have some.
    pub connections: usize,
    /// The number of bytes that were not read, of all connections together.
    pub unread: u64,
}

/// The processes that may be clients.
#[derive(Clone, Debug, Default)]
pub struct Candidates {
    /// The programs that are expected to have connections: the kubelet and plegctl.
    pub expected: Vec<(u32, String)>,
    /// All other processes, with their names.
    pub others: Vec<(u32, String)>,
}

/// Finds the clients of the runtime's socket among these processes; `None` if the kernel does not answer. The descriptors of
/// the other processes, which may be a hundred thousand, are read only if the kernel shows a crowd.
pub fn read(proc: &Path, socket: &Path, candidates: &Candidates, crowd: Crowd) -> Option<SocketClients> {
    let sockets = dump(CONNECTED | LISTENING)?;
    let is_server = |found: &&UnixSocket| same_socket(&found.path, socket);
    let servers: Vec<&UnixSocket> = sockets.iter().filter(is_server).collect();
    let accepted = servers.iter().filter(|found| !found.is_listening);
    let peers: BTreeSet<u32> = accepted.clone().map(|found| found.peer).filter(|peer| *peer != 0).collect();
    let waiting = servers.iter().filter(|found| found.is_listening).map(|found| found.queue).sum();
    let unread: BTreeMap<u32, u32> = sockets
        .iter()
        .filter(|found| peers.contains(&found.inode))
        .map(|found| (found.inode, found.queue))
        .collect();
    let clients_among = |processes: &[(u32, String)]| -> Vec<SocketClient> {
        processes.iter().filter_map(|(pid, comm)| client(proc, *pid, comm, &unread)).collect()
    };
    let mut clients = clients_among(&candidates.expected);
    let known: usize = clients.iter().map(|client| client.connections).sum();
    let all_unread: u64 = unread.values().copied().map(u64::from).sum();
    if unread.len().saturating_sub(known) >= crowd.connections || all_unread >= crowd.unread {
        clients.extend(clients_among(&candidates.others));
    }
    clients.sort_by(|one, other| (other.connections, one.pid).cmp(&(one.connections, other.pid)));
    Some(SocketClients { connections: accepted.count(), waiting, clients, ..SocketClients::default() })
}

/// Counts the connections of a process; `None` if it has none, or if its descriptors are not readable.
fn client(proc: &Path, pid: u32, comm: &str, unread: &BTreeMap<u32, u32>) -> Option<SocketClient> {
    let descriptors = fs::read_dir(proc.join(pid.to_string()).join("fd")).ok()?;
    let mut found = SocketClient { pid, comm: comm.to_owned(), ..SocketClient::default() };
    for link in descriptors.filter_map(|entry| fs::read_link(entry.ok()?.path()).ok()) {
        if let Some(bytes) = link.to_str().and_then(socket_inode).and_then(|inode| unread.get(&inode)) {
            found.connections += 1;
            found.unread += u64::from(*bytes);
        }
    }
    (found.connections > 0).then_some(found)
}

/// Finds the clients of the runtime's socket in other network namespaces among these processes. The table of a namespace shows
/// how many connections the runtime has accepted there, but not from whom, so a client is found only if a single process there
/// has connected sockets.
pub fn in_other_networks(proc: &Path, socket: &Path, processes: &[(u32, String)]) -> Vec<SocketClient> {
    let own = fs::read_link("/proc/self/ns/net").ok();
    let mut by_network: BTreeMap<PathBuf, Vec<&(u32, String)>> = BTreeMap::new();
    for process in processes {
        let network = fs::read_link(proc.join(process.0.to_string()).join("ns/net")).ok();
        if let Some(network) = network.filter(|network| own.as_ref().is_some_and(|own| own != network)) {
            by_network.entry(network).or_default().push(process);
        }
    }
    by_network.values().filter_map(|processes| only_client(proc, socket, processes)).collect()
}

/// Returns the only one of these processes of one network namespace that may be a client.
fn only_client(proc: &Path, socket: &Path, processes: &[&(u32, String)]) -> Option<SocketClient> {
    let (pid, _) = processes.first()?;
    let table = kernel_text(&proc.join(pid.to_string()).join("net/unix")).ok()?;
    let connected: Vec<(u32, &str)> = table.lines().filter_map(connected_stream).collect();
    let connections = connected.iter().filter(|(_, path)| same_socket(Path::new(path), socket)).count();
    if connections == 0 {
        return None;
    }
    let unnamed =
        connected.iter().filter(|(_, path)| path.is_empty()).map(|(inode, _)| (*inode, 0)).collect();
    let mut clients = processes.iter().filter_map(|(pid, comm)| client(proc, *pid, comm, &unnamed));
    let first = clients.next()?;
    clients.next().is_none().then_some(SocketClient { connections, ..first })
}

/// Returns the inode and the path of a connected stream socket from a line of `/proc/PID/net/unix`. A socket that a server has
/// accepted has the path of the server, and the other end has none.
fn connected_stream(line: &str) -> Option<(u32, &str)> {
    let mut fields = line.split_ascii_whitespace().skip(4);
    let (kind, state, inode) = (fields.next()?, fields.next()?, fields.next()?);
    if (kind, state) != ("0001", "03") {
        return None;
    }
    Some((inode.parse().ok()?, fields.next().unwrap_or_default()))
}

/// Returns the inodes of the sockets that listen at this path; nothing if the kernel does not answer, or if their process has
/// another network namespace. Unlike `/proc/PID/net/unix`, the answer contains no connections.
pub(super) fn listening_inodes(socket: &Path) -> BTreeSet<u32> {
    let listening = dump(LISTENING).unwrap_or_default().into_iter();
    listening.filter(|found| same_socket(&found.path, socket)).map(|found| found.inode).collect()
}

/// The states of a socket as bits of a request to the kernel.
const CONNECTED: u32 = 1 << 1;
const LISTENING: u32 = 1 << 10;

/// Returns the unix sockets of this network namespace that are in one of the states.
fn dump(states: u32) -> Option<Vec<UnixSocket>> {
    let protocol = Some(netlink::SOCK_DIAG);
    let socket =
        socket_with(AddressFamily::NETLINK, SocketType::DGRAM, SocketFlags::CLOEXEC, protocol).ok()?;
    send(&socket, &request(states), SendFlags::empty()).ok()?;
    let mut sockets = Vec::new();
    let mut part = vec![0_u8; PART];
    let mut read = 0;
    while read < MAX_BYTES {
        let (_, length) = recv(&socket, part.as_mut_slice(), RecvFlags::DONTWAIT).ok()?;
        read += length;
        if length == 0 || parse(part.get(..length)?, &mut sockets)? {
            return Some(sockets);
        }
    }
    None
}

/// Creates the request for the kernel: `struct nlmsghdr` and `struct unix_diag_req` (`linux/netlink.h`, `linux/unix_diag.h`).
fn request(states: u32) -> Vec<u8> {
    const SOCK_DIAG_BY_FAMILY: u16 = 20;
    const REQUEST_AND_DUMP: u16 = 0x301;
    const NAME_PEER_AND_QUEUE: u32 = 0x1 | 0x4 | 0x10;
    let mut bytes = Vec::with_capacity(40);
    bytes.extend(40_u32.to_ne_bytes());
    bytes.extend(SOCK_DIAG_BY_FAMILY.to_ne_bytes());
    bytes.extend(REQUEST_AND_DUMP.to_ne_bytes());
    bytes.extend([0; 8]);
    // The family AF_UNIX.
    bytes.extend([1, 0, 0, 0]);
    bytes.extend(states.to_ne_bytes());
    bytes.extend([0; 4]);
    bytes.extend(NAME_PEER_AND_QUEUE.to_ne_bytes());
    bytes.extend([0; 8]);
    bytes
}

/// Parses a part of the answer. Returns whether it was the last part; `None` if the kernel reports an error or the part
/// is not understood.
fn parse(mut part: &[u8], sockets: &mut Vec<UnixSocket>) -> Option<bool> {
    const ERROR: u16 = 2;
    const DONE: u16 = 3;
    const HEADER: usize = 16;
    while part.len() >= HEADER {
        let length = usize::try_from(number(part, 0)?).ok()?;
        match u16::from_ne_bytes(part.get(4..6)?.try_into().ok()?) {
            DONE => return Some(true),
            ERROR => return None,
            _ => sockets.extend(message(part.get(HEADER..length)?)),
        }
        part = part.get(aligned(length)..).unwrap_or_default();
    }
    Some(false)
}

/// Parses `struct unix_diag_msg` and its attributes.
fn message(bytes: &[u8]) -> Option<UnixSocket> {
    const LISTENING_STATE: u8 = 10;
    const NAME: u16 = 0;
    const PEER: u16 = 2;
    const QUEUE: u16 = 4;
    let mut found = UnixSocket {
        inode: number(bytes, 4)?,
        is_listening: *bytes.get(2)? == LISTENING_STATE,
        ..UnixSocket::default()
    };
    let mut rest = bytes.get(16..)?;
    while rest.len() >= 4 {
        let length = usize::from(u16::from_ne_bytes(rest.get(..2)?.try_into().ok()?));
        let value = rest.get(4..length)?;
        match u16::from_ne_bytes(rest.get(2..4)?.try_into().ok()?) {
            NAME => {
                let name = String::from_utf8_lossy(value);
                found.path = PathBuf::from(name.trim_end_matches('\0'));
            }
            PEER => found.peer = number(value, 0)?,
            QUEUE => found.queue = number(value, 0)?,
            _ => {}
        }
        rest = rest.get(aligned(length)..).unwrap_or_default();
    }
    Some(found)
}

/// Returns the four bytes at `at` as a number in the kernel's byte order.
fn number(bytes: &[u8], at: usize) -> Option<u32> {
    Some(u32::from_ne_bytes(bytes.get(at..at.checked_add(4)?)?.try_into().ok()?))
}

/// Messages and attributes begin at multiples of four bytes.
const fn aligned(length: usize) -> usize {
    length.saturating_add(3) & !3
}

#[cfg(test)]
mod tests {
    use std::io::Write;
    use std::os::fd::AsRawFd;
    use std::os::unix::net::{UnixListener, UnixStream};

    use super::*;

    #[test]
    fn the_kernel_names_both_ends_of_each_connection_and_what_nobody_reads() {
        let path = std::env::temp_dir().join(format!("plegctl-clients-{}.sock", std::process::id()));
        let listener = UnixListener::bind(&path).unwrap();
        let _clients = [(); 3].map(|()| UnixStream::connect(&path).unwrap());
        let (mut first, _) = listener.accept().unwrap();
        let _second = listener.accept().unwrap();
        first.write_all(b"12345").unwrap();
        let own = std::process::id();
        let this = || vec![(own, "this".to_owned())];
        let among = |expected, others, connections, unread| {
            let crowd = Crowd { connections, unread };
            read(Path::new("/proc"), &path, &Candidates { expected, others }, crowd).unwrap()
        };
        let found = among(this(), Vec::new(), 3, 6);
        assert_eq!((found.connections, found.waiting), (2, 1));
        let [client] = found.clients.as_slice() else { panic!("{found:?}") };
        assert_eq!((client.pid, client.connections, client.unread), (own, 2, 5));
        // Other processes are read only if they are a crowd or somebody does not read.
        assert_eq!(among(Vec::new(), this(), 3, 6).clients, []);
        assert_eq!(among(Vec::new(), this(), 2, 6).clients, found.clients);
        assert_eq!(among(Vec::new(), this(), 3, 5).clients, found.clients);
        // Connections that the listener has accepted have its path too, but do not listen.
        let listener = fs::read_link(format!("/proc/self/fd/{}", listener.as_raw_fd())).unwrap();
        let inode = listener.to_str().and_then(socket_inode).unwrap();
        assert_eq!(listening_inodes(&path), BTreeSet::from([inode]));
        assert_eq!(listening_inodes(&path.with_extension("other")), BTreeSet::new());
        fs::remove_file(&path).unwrap();
    }

    #[test]
    fn the_table_of_a_network_shows_both_ends_of_each_connection() {
        let lines = [
            "Num       RefCount Protocol Flags    Type St Inode Path",
            "00000000ccffb15e: 00000003 00000000 00000000 0001 03 173599 /run/containerd/containerd.sock",
            "00000000f35779f6: 00000003 00000000 00000000 0001 03 173598",
            "000000009c1a5f11: 00000002 00000000 00010000 0001 01 173590 /run/agent.sock",
            "00000000a2a2c3d4: 00000002 00000000 00000000 0002 03 173591",
        ];
        let connected: Vec<_> = lines.into_iter().filter_map(connected_stream).collect();
        assert_eq!(connected, [(173_599, "/run/containerd/containerd.sock"), (173_598, "")]);
    }

    #[test]
    fn the_counters_of_a_process_grow_with_what_it_reads() {
        let own = std::process::id();
        let count = || IoCounters::of(Path::new("/proc"), &[own])[&own];
        let before = count();
        let mut part = [0; 4096];
        std::io::Read::read_exact(&mut fs::File::open("/dev/zero").unwrap(), &mut part).unwrap();
        let read = count().since(&before).unwrap();
        assert!(read.read_bytes >= 4096 && read.reads >= 1, "{read}");
        assert_eq!(before.since(&IoCounters { writes: u64::MAX, ..before }), None);
    }

    #[test]
    fn a_damaged_answer_is_not_used() {
        let header = |length: u32, kind: u16| {
            let mut bytes = length.to_ne_bytes().to_vec();
            bytes.extend(kind.to_ne_bytes());
            bytes.extend([0; 10]);
            bytes
        };
        let mut sockets = Vec::new();
        assert_eq!(parse(&header(16, 3), &mut sockets), Some(true));
        assert_eq!(parse(&header(16, 2), &mut sockets), None);
        assert_eq!(parse(&header(15, 20), &mut sockets), None);
        assert_eq!(parse(&header(400, 20), &mut sockets), None);
        assert_eq!(parse(&header(16, 20), &mut sockets), Some(false));
        assert_eq!(sockets, []);
    }
}
