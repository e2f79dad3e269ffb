//! Finds out from the frames of one goroutine what the goroutine waits for (a lock, a shim, a child process, a file, the
//! network) and for which CRI call and container it works.
//!
//! Each function reads one kind of fact from one goroutine. `holders` and `judge` combine several goroutines.

use super::dump::{ArgumentToken, Frame, Goroutine};
use plegctl_base::report::word_enum;

/// A CRI call that a goroutine serves or makes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CriCall<'a> {
    /// The RPC's name: `ListContainers`.
    pub rpc: &'a str,
    /// The index of the frame that shows the call.
    pub at: usize,
}

/// Returns the CRI call of a goroutine. A server's goroutine shows it as `_RuntimeService_X_Handler`, a client's as
/// `runtimeServiceClient).X`.
pub fn cri_call(goroutine: &Goroutine) -> Option<CriCall<'_>> {
    const CLIENTS: [&str; 2] = ["runtimeServiceClient).", "imageServiceClient)."];
    // The client waits in the function that reads the stream (cri-client/pkg/remote_runtime.go).
    const STREAMED_LISTS: [(&str, &str); 2] = [
        ("remoteRuntimeService).streamContainersV1", "StreamContainers"),
        ("remoteRuntimeService).streamPodSandboxesV1", "StreamPodSandboxes"),
    ];
    for (at, frame) in goroutine.frames.iter().enumerate() {
        let function = &*frame.function;
        for server in ["._RuntimeService_", "._ImageService_"] {
            if let Some((_, rest)) = function.split_once(server)
                && let Some((rpc, _)) = rest.split_once("_Handler")
            {
                return Some(CriCall { rpc, at });
            }
        }
        for (part, rpc) in STREAMED_LISTS {
            if function.ends_with(part) {
                return Some(CriCall { rpc, at });
            }
        }
        for client in CLIENTS {
            if let Some((_, rpc)) = function.split_once(client) {
                return Some(CriCall { rpc, at });
            }
        }
    }
    None
}

/// Returns the address of the request message of `rpc`, which is the last argument of the server's method.
pub fn request_address(goroutine: &Goroutine, rpc: &str) -> Option<u64> {
    const SERVERS: [&str; 2] = ["server.(*Server).", "(*criService)."];
    let is_method = |frame: &&Frame| {
        let name = SERVERS.iter().find_map(|server| frame.function.split_once(server));
        name.is_some_and(|(_, name)| name == rpc)
    };
    let (address, certain) = goroutine.frames.iter().find(is_method)?.outer_words().last()?;
    certain.then_some(address)
}

word_enum! {
    /// The kind of a lock, and whether the goroutine wants to read or to write.
    #[derive(PartialOrd, Ord, Hash)]
    pub enum LockKind: as_str {
        /// A mutex.
        Mutex = "Mutex.Lock",
        /// A read-write mutex, for reading.
        Read = "RWMutex.RLock",
        /// A read-write mutex, for writing.
        Write = "RWMutex.Lock",
    }
}

/// A lock for which a goroutine waits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Lock {
    /// The kind of the lock.
    pub kind: LockKind,
    /// The lock's address, if the Go runtime prints it.
    pub address: Option<u64>,
    /// The index of the frame that wants the lock: the innermost frame outside the `sync` package.
    pub owner: usize,
}

/// Returns whether a frame belongs to the Go runtime or to `sync`, not to the program.
fn is_go_internal(frame: &Frame) -> bool {
    let function = &*frame.function;
    ["runtime.", "sync.", "internal/sync.", "internal/runtime/"]
        .iter()
        .any(|package| function.starts_with(package))
}

/// Returns the index of the innermost frame of the program itself.
pub fn innermost_frame(goroutine: &Goroutine) -> usize {
    goroutine.frames.iter().take_while(|frame| is_go_internal(frame)).count()
}

/// Returns the lock for which a goroutine waits. Its innermost frames are in `sync`, and the first argument of
/// `lockSlow` is the lock's address.
pub fn awaited_lock(goroutine: &Goroutine) -> Option<Lock> {
    if matches!(&*goroutine.state, "running" | "runnable") {
        return None;
    }
    let owner = innermost_frame(goroutine);
    let (mut kind, mut address) = (None, None);
    for frame in goroutine.frames.get(..owner)? {
        let function = &*frame.function;
        let Some((_, method)) = function.split_once("sync.") else { continue };
        let found = match method {
            "(*Mutex).lockSlow" | "(*Mutex).Lock" => LockKind::Mutex,
            "(*RWMutex).RLock" | "runtime_SemacquireRWMutexR" => LockKind::Read,
            "(*RWMutex).Lock" | "runtime_SemacquireRWMutex" => LockKind::Write,
            _ if method.starts_with("(*WaitGroup)") || method.starts_with("(*Cond)") => return None,
            _ => continue,
        };
        // The outermost `sync` frame has the kind: a writer that waits for another writer waits in the mutex inside
        // the read-write mutex.
        kind = Some(found);
        if method == "(*Mutex).lockSlow"
            && let Some((bits, true)) = frame.first_word()
        {
            address = Some(bits);
        }
    }
    (owner < goroutine.frames.len()).then_some(Lock { kind: kind?, address, owner })
}

/// What a goroutine waits for outside its process.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum ExternalWait {
    /// The answer of a shim or of another ttrpc server, with the address of the ttrpc client if known.
    Shim(Option<u64>),
    /// The end of a child process, with the file descriptor of its pidfd if known.
    Child(Option<u64>),
    /// The end of a child's output pipe. The child may have ended while another process keeps the pipe open.
    Pipe,
    /// A file: the operation, and the file descriptor if known.
    File(&'static str, Option<u64>),
    /// The network.
    Network,
    /// The runtime's answer to a CRI call, in a kubelet.
    Runtime,
    /// An answer over D-Bus.
    DBus,
    /// A client that does not read the event stream.
    EventReader,
}

/// Returns what a goroutine waits for outside its process. The search goes from the innermost frame outwards.
pub fn external_wait(goroutine: &Goroutine) -> Option<ExternalWait> {
    if matches!(&*goroutine.state, "running" | "runnable") {
        return None;
    }
    let inner = goroutine.frames.get(innermost_frame(goroutine)..)?;
    // The wait is in the innermost frames; the frames of a call's handler begin after about thirty frames.
    for frame in inner.iter().take(24) {
        let function = &*frame.function;
        if let Some(found) = external_wait_of_function(function, goroutine) {
            return Some(found);
        }
        if function.contains("_Handler") {
            return None;
        }
    }
    None
}

fn external_wait_of_function(function: &str, goroutine: &Goroutine) -> Option<ExternalWait> {
    let ends = |name: &str| function.ends_with(name);
    if ends("ttrpc.(*Client).dispatch") {
        return Some(ExternalWait::Shim(shim_client(goroutine)));
    }
    let of_child = [
        "os.(*Process).wait",
        "os.(*Process).blockUntilWaitable",
        "os.(*Process).pidfdWait",
        "os/exec.(*Cmd).Wait",
        "reaper.(*Monitor).Wait",
    ];
    if of_child.into_iter().any(ends) {
        return Some(ExternalWait::Child(child_pidfd(goroutine)));
    }
    if ends("os/exec.(*Cmd).awaitGoroutines") {
        return Some(ExternalWait::Pipe);
    }
    if ends("(*writeQuota).get") {
        return Some(ExternalWait::EventReader);
    }
    if ends("godbus/dbus/v5.(*Object).Call") || ends("dbus.(*Object).Call") {
        return Some(ExternalWait::DBus);
    }
    if ends("transport.(*ClientStream).waitOnHeader")
        || ends("transport.(*Stream).waitOnHeader")
        || ends("transport.(*recvBufferReader).readClient")
    {
        return Some(ExternalWait::Runtime);
    }
    if function.starts_with("net/http.(*persistConn).roundTrip")
        || function.starts_with("net.(*conn).Read")
        || ends("net.(*netFD).connect")
    {
        return Some(ExternalWait::Network);
    }
    FILE_CALLS
        .iter()
        .find(|(_, functions)| functions.iter().any(|name| ends(name)))
        .map(|(operation, _)| ExternalWait::File(operation, file_descriptor(goroutine)))
}

/// Operations on a file system, each with the functions that wait for it.
const FILE_CALLS: &[(&str, &[&str])] = &[
    (
        "write",
        &["syscall.pwrite", "syscall.Pwrite", "syscall.write", "syscall.Write", "unix.Pwrite", "unix.Write"],
    ),
    (
        "sync",
        &[
            "syscall.Fsync",
            "syscall.Fdatasync",
            "syscall.fdatasync",
            "unix.Fdatasync",
            "unix.Fsync",
            "unix.Syncfs",
        ],
    ),
    ("open", &["unix.Openat", "syscall.openat", "syscall.Open"]),
    ("mkdir", &["unix.Mkdirat", "syscall.Mkdirat", "syscall.Mkdir"]),
    ("rename", &["unix.Renameat", "syscall.Renameat", "syscall.Rename"]),
    ("unlink", &["unix.Unlinkat", "syscall.unlinkat", "syscall.Unlink"]),
    ("truncate", &["unix.Ftruncate", "syscall.Ftruncate"]),
    ("stat", &["syscall.fstatat", "syscall.Fstatat", "unix.Fstatat", "syscall.Stat", "syscall.Lstat"]),
    ("statfs", &["syscall.Statfs", "unix.Statfs"]),
    ("umount", &["unix.Unmount", "syscall.Unmount"]),
    ("mount", &["unix.Mount", "syscall.Mount"]),
    ("lock", &["unix.Flock", "syscall.Flock", "syscall.FcntlFlock"]),
];

/// Returns the address of the ttrpc client on which a goroutine waits. It is the receiver of `dispatch`, and all
/// goroutines that wait for the same shim have the same client.
pub fn shim_client(goroutine: &Goroutine) -> Option<u64> {
    let frame = goroutine.frames.iter().find(|frame| frame.function.ends_with("ttrpc.(*Client).dispatch"))?;
    frame.receiver().and_then(|(bits, certain)| certain.then_some(bits))
}

/// Returns the name of the RPC to a shim or plugin, such as `Create`, from the frame of the ttrpc client's method.
pub fn shim_call(goroutine: &Goroutine) -> Option<&str> {
    goroutine.frames.iter().find_map(|frame| {
        ["askClient).", "andboxClient).", "luginClient).", "luginService)."]
            .iter()
            .find_map(|client| frame.function.split_once(client))
            .map(|(_, rpc)| rpc)
    })
}

/// A processor architecture. Each architecture has its own system call numbers (`syscall_64.tbl` and
/// `asm-generic/unistd.h` of the kernel).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Architecture {
    Amd64,
    Arm64,
}

impl Architecture {
    /// Returns the architecture in the file name of a frame, such as `zsyscall_linux_arm64.go`. Without one, it returns
    /// the architecture of this machine, because plegctl can use file descriptors only of processes on this machine.
    fn of(goroutine: &Goroutine) -> Self {
        let files = goroutine.frames.iter().filter_map(|frame| frame.place.as_ref().map(|(file, _)| file));
        let named = files.filter_map(|file| file.rsplit('/').next()).find_map(|file| {
            let (stem, _) = file.rsplit_once('.')?;
            match stem.rsplit('_').next()? {
                "amd64" => Some(Self::Amd64),
                "arm64" => Some(Self::Arm64),
                _ => None,
            }
        });
        named.unwrap_or(if cfg!(target_arch = "aarch64") { Self::Arm64 } else { Self::Amd64 })
    }

    /// Returns the number of the system call `waitid`.
    const fn waitid(self) -> u64 {
        match self {
            Self::Amd64 => 247,
            Self::Arm64 => 95,
        }
    }

    /// Returns the numbers of the system calls that have a file descriptor as their first argument: `write`,
    /// `pwrite64`, `fsync`, `fdatasync`, `ftruncate`, `flock`.
    const fn calls_with_descriptor(self) -> [u64; 6] {
        match self {
            Self::Amd64 => [1, 18, 74, 75, 77, 73],
            Self::Arm64 => [64, 68, 82, 83, 46, 32],
        }
    }
}

/// Returns the number of the system call in which a goroutine is, and its argument `nth`, counted from 0.
fn system_call(goroutine: &Goroutine, nth: usize) -> Option<(u64, u64)> {
    let frame = goroutine
        .frames
        .iter()
        .find(|frame| matches!(&*frame.function, "syscall.Syscall6" | "syscall.Syscall"))?;
    let mut words = frame.words();
    let number = words.next().filter(|(_, certain)| *certain)?.0;
    let word = words.nth(nth).filter(|(_, certain)| *certain)?.0;
    Some((number, word))
}

/// Returns the file descriptor of the pidfd of a child process, from `waitid(P_PIDFD, fd, …)`, which Go calls since
/// 1.23.
pub fn child_pidfd(goroutine: &Goroutine) -> Option<u64> {
    const P_PIDFD: u64 = 3;
    let (number, id_type) = system_call(goroutine, 0)?;
    let waits = number == Architecture::of(goroutine).waitid() && id_type == P_PIDFD;
    waits.then(|| system_call(goroutine, 1))?.map(|(_, fd)| fd)
}

/// Returns the file descriptor of the file on which a goroutine works, from `pwrite64(fd, …)` and similar calls.
fn file_descriptor(goroutine: &Goroutine) -> Option<u64> {
    let known = Architecture::of(goroutine).calls_with_descriptor();
    system_call(goroutine, 0).filter(|(number, _)| known.contains(number)).map(|(_, fd)| fd)
}

/// Where the strings of a container lie in the memory of the dump's process, each as its address and its length. They
/// are known if a function receives the container by value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ContainerStrings {
    /// The id of the container or sandbox.
    pub id: (u64, u64),
    /// The name of the container or sandbox.
    pub name: (u64, u64),
    /// The sandbox's id, if this is a container.
    pub sandbox: Option<(u64, u64)>,
}

/// The length of the id of a container or sandbox.
pub const ID_LENGTH: u64 = 0x40;

/// Finds a container that a function receives by value: `{{{0xPTR, 0x40}, {0xPTR2, 0x1f}, {0xPTR3, 0x40}…`.
pub fn container_strings(goroutine: &Goroutine) -> Option<ContainerStrings> {
    goroutine.frames.iter().find_map(|frame| container_strings_in(&frame.arguments))
}

fn container_strings_in(arguments: &[ArgumentToken]) -> Option<ContainerStrings> {
    let start = arguments
        .windows(3)
        .position(|tokens| tokens == [ArgumentToken::Open, ArgumentToken::Open, ArgumentToken::Open])?;
    let rest = arguments.get(start + 2..)?;
    let (id, rest) = string(rest)?;
    let (name, rest) = string(rest)?;
    (id.1 == ID_LENGTH).then(|| ContainerStrings {
        id,
        name,
        sandbox: string(rest).map(|(sandbox, _)| sandbox).filter(|sandbox| sandbox.1 == ID_LENGTH),
    })
}

/// Parses a string argument `{0xPTR, 0xLEN}`. Returns its address and length, and the tokens after it.
pub(crate) fn string(tokens: &[ArgumentToken]) -> Option<((u64, u64), &[ArgumentToken])> {
    match tokens {
        [
            ArgumentToken::Open,
            ArgumentToken::Word { bits: pointer, certain: true },
            ArgumentToken::Word { bits: length, certain: true },
            ArgumentToken::Close,
            rest @ ..,
        ] => Some(((*pointer, *length), rest)),
        _ => None,
    }
}

/// Returns the addresses of all string arguments `{0xPTR, 0x40}`, which have the length of an id, innermost frame first.
pub fn id_addresses(goroutine: &Goroutine) -> Vec<u64> {
    let mut found = Vec::new();
    for frame in &goroutine.frames {
        for tokens in frame.arguments.windows(4) {
            if let Some(((pointer, ID_LENGTH), _)) = string(tokens)
                && !found.contains(&pointer)
            {
                found.push(pointer);
            }
        }
    }
    found
}

/// Returns the process id of the init process of the container whose resources a goroutine updates:
/// `UpdateContainerResources.func1({0xPID, …`.
pub fn updated_init_pid(goroutine: &Goroutine) -> Option<u32> {
    let frame =
        goroutine.frames.iter().find(|frame| frame.function.ends_with(").UpdateContainerResources.func1"))?;
    match frame.arguments.get(..2)? {
        [ArgumentToken::Open, ArgumentToken::Word { bits, certain: true }] => {
            u32::try_from(*bits).ok().filter(|pid| *pid > 1)
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::super::read::{Bounds, read};
    use super::*;

    fn goroutine(text: &str) -> Goroutine {
        read(text.as_bytes(), Bounds::default()).unwrap().dumps.remove(0).goroutines.remove(0)
    }

    #[test]
    fn the_cri_call_is_found_in_a_server_and_in_a_client() {
        let server = goroutine(
            "goroutine 1 [select]:\nmain.f(0x1)\n\t/a.go:1\nx/v1._RuntimeService_ListContainers_Handler({0x1, 0x2})\n\t/b.go:2\n",
        );
        assert_eq!(cri_call(&server).unwrap().rpc, "ListContainers");
        let client =
            goroutine("goroutine 1 [select]:\nx/v1.(*runtimeServiceClient).StopPodSandbox(0x1)\n\t/a.go:1\n");
        assert_eq!(cri_call(&client).unwrap().rpc, "StopPodSandbox");
    }

    #[test]
    fn a_writer_that_waits_in_the_inner_mutex_wants_the_read_write_mutex() {
        let text = "goroutine 1 [sync.Mutex.Lock]:\ninternal/sync.(*Mutex).lockSlow(0xc000a388)\n\t/m.go:1\nsync.(*Mutex).Lock(...)\n\t/m.go:2\n\
                    sync.(*RWMutex).Lock(0x1?)\n\t/m.go:3\na.(*S).stop(0xc000a200)\n\t/a.go:4\n";
        let lock = awaited_lock(&goroutine(text)).unwrap();
        assert_eq!((lock.kind, lock.address, lock.owner), (LockKind::Write, Some(0xc000_a388), 3));
    }

    #[test]
    fn dumps_of_old_go_releases_and_of_crashes_show_the_lock_too() {
        let old = "goroutine 1 [semacquire]:\nsync.runtime_SemacquireMutex(0x1)\n\t/s.go:1\nsync.(*RWMutex).RLock(...)\n\t/m.go:2\na.(*S).Get(0xc000a200)\n\t/a.go:4\n";
        assert_eq!(awaited_lock(&goroutine(old)).unwrap().kind, LockKind::Read);
        let crash = "goroutine 1 gp=0x1 m=nil [sync.RWMutex.RLock]:\nruntime.gopark(0x1?)\n\t/p.go:1\nsync.runtime_SemacquireRWMutexR(0x1)\n\t/s.go:1\na.(*S).Get(0xc000a200)\n\t/a.go:4\n";
        let found = awaited_lock(&goroutine(crash)).unwrap();
        assert_eq!((found.kind, found.owner), (LockKind::Read, 2));
    }

    #[test]
    fn a_goroutine_in_a_wait_group_or_running_waits_for_no_lock() {
        let group = "goroutine 1 [sync.WaitGroup.Wait]:\nsync.runtime_SemacquireWaitGroup(0x1)\n\t/s.go:1\nsync.(*WaitGroup).Wait(0xc000a200)\n\t/w.go:2\nmain.f(0x1)\n\t/a.go:4\n";
        assert_eq!(awaited_lock(&goroutine(group)), None);
        let running = "goroutine 1 [runnable]:\nsync.(*Mutex).lockSlow(0xc000a388)\n\t/m.go:1\nmain.f(0x1)\n\t/a.go:4\n";
        assert_eq!(awaited_lock(&goroutine(running)), None);
    }

    #[test]
    fn a_child_is_known_by_its_pidfd_and_a_file_by_its_descriptor() {
        let child = goroutine(
            "goroutine 1 [syscall]:\nsyscall.Syscall6(0xf7, 0x3, 0x1d, 0x14ace73a580, 0x4, 0x1, 0x0)\n\t/s.s:1\nos.(*Process).pidfdWait(0x1)\n\t/e.go:2\n",
        );
        assert_eq!(
            (child_pidfd(&child), external_wait(&child)),
            (Some(0x1d), Some(ExternalWait::Child(Some(0x1d))))
        );
        let write = goroutine(
            "goroutine 1 [syscall]:\nsyscall.Syscall6(0x12, 0x6, 0x2d4f69257000, 0x1000, 0x21000, 0x0, 0x0)\n\t/s.s:1\nsyscall.pwrite(0x8?)\n\t/e.go:2\n",
        );
        assert_eq!(external_wait(&write), Some(ExternalWait::File("write", Some(6))));
        // A `waitid` on a process id has no pidfd.
        let by_pid = goroutine(
            "goroutine 1 [syscall]:\nsyscall.Syscall6(0xf7, 0x1, 0x1d, 0x1, 0x4, 0x1, 0x0)\n\t/s.s:1\nos.(*Process).wait(0x1)\n\t/e.go:2\n",
        );
        assert_eq!(child_pidfd(&by_pid), None);
    }

    #[test]
    fn system_call_numbers_are_those_of_the_dumps_architecture() {
        let pwrite = |number: &str, architecture: &str| {
            goroutine(&format!(
                "goroutine 1 [syscall]:\nsyscall.Syscall6({number}, 0x6, 0x2d4f69257000, 0x1000, 0x21000, 0x0, 0x0)\n\tsyscall/syscall_linux.go:96\n\
                 syscall.pwrite(0x8?)\n\tsyscall/zsyscall_linux_{architecture}.go:1246\n"
            ))
        };
        assert_eq!(file_descriptor(&pwrite("0x44", "arm64")), Some(6));
        assert_eq!(file_descriptor(&pwrite("0x12", "amd64")), Some(6));
        // On arm64, 0x49 is ppoll and 0x12 is lookup_dcookie; neither has a file descriptor.
        for number in ["0x49", "0x12"] {
            assert_eq!(file_descriptor(&pwrite(number, "arm64")), None, "{number}");
        }
        assert_eq!(file_descriptor(&pwrite("0x44", "amd64")), None);
        let waitid = |number: &str, architecture: &str| {
            goroutine(&format!(
                "goroutine 1 [syscall]:\nsyscall.Syscall6({number}, 0x3, 0x1d, 0x14ace73a580, 0x4, 0x1, 0x0)\n\ts.go:1\n\
                 os.(*Process).pidfdWait(0x1)\n\tos/x_{architecture}.s:2\n"
            ))
        };
        assert_eq!(child_pidfd(&waitid("0x5f", "arm64")), Some(0x1d));
        assert_eq!(child_pidfd(&waitid("0xf7", "amd64")), Some(0x1d));
        assert_eq!(child_pidfd(&waitid("0x5f", "amd64")), None, "on amd64, 0x5f is umask");
    }

    #[test]
    fn a_container_argument_has_the_strings_id_name_and_sandbox() {
        let text = "goroutine 1 [select]:\na.(*S).stop(0x1, {0x2, 0x3}, {{{0xc000a080, 0x40}, {0xc000ad20, 0x1f}, {0xc000a4c0, 0x40}, 0x4, ...}, ...})\n\t/a.go:1\n";
        let found = container_strings(&goroutine(text)).unwrap();
        assert_eq!(
            (found.id, found.name, found.sandbox),
            ((0xc000_a080, 0x40), (0xc000_ad20, 0x1f), Some((0xc000_a4c0, 0x40)))
        );
        let stale = text.replace("0xc000a080,", "0xc000a080?,");
        assert_eq!(container_strings(&goroutine(&stale)), None);
    }

    #[test]
    fn the_frame_of_a_resource_update_has_the_containers_init_process() {
        let text = "goroutine 1 [select]:\na/server.(*criService).UpdateContainerResources.func1({0x6002, 0x18ea231741b139a6, ...})\n\t/a.go:1\n";
        assert_eq!(updated_init_pid(&goroutine(text)), Some(0x6002));
    }
}
