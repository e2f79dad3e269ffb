//! Finds what one goroutine waits for, from its innermost frames. Each function is one rule and examines one
//! goroutine only.

use super::dump::{Frame, Goroutine, Token};

/// A CRI call that a goroutine serves or makes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CriCall<'a> {
    /// `ListContainers`
    pub rpc: &'a str,
    /// The index of the frame that shows the call.
    pub at: usize,
}

/// The CRI call of a goroutine: `_RuntimeService_X_Handler` on the server's side, `runtimeServiceClient).X` on the
/// client's.
pub fn call(goroutine: &Goroutine) -> Option<CriCall<'_>> {
    const CLIENTS: [&str; 2] = ["runtimeServiceClient).", "imageServiceClient)."];
    for (at, frame) in goroutine.frames.iter().enumerate() {
        let function = &*frame.function;
        for server in ["._RuntimeService_", "._ImageService_"] {
            if let Some((_, rest)) = function.split_once(server)
                && let Some((rpc, _)) = rest.split_once("_Handler")
            {
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

/// The address of the request that the server's method for `rpc` received: its last argument.
pub fn request(goroutine: &Goroutine, rpc: &str) -> Option<u64> {
    const SERVERS: [&str; 2] = ["server.(*Server).", "(*criService)."];
    let is_method = |frame: &&Frame| {
        let name = SERVERS.iter().find_map(|server| frame.function.split_once(server));
        name.is_some_and(|(_, name)| name == rpc)
    };
    let (address, certain) = goroutine.frames.iter().find(is_method)?.outer_words().last()?;
    certain.then_some(address)
}

/// The kind of a lock and how it is wanted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum LockKind {
    /// A mutex.
    Mutex,
    /// A read-write mutex, for reading.
    Read,
    /// A read-write mutex, for writing.
    Write,
}

impl LockKind {
    /// Go's name of the kind.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Mutex => "Mutex.Lock",
            Self::Read => "RWMutex.RLock",
            Self::Write => "RWMutex.Lock",
        }
    }
}

/// A lock for which a goroutine waits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Lock {
    /// The kind.
    pub kind: LockKind,
    /// The lock's address, if the Go runtime prints it.
    pub address: Option<u64>,
    /// The index of the frame that wants the lock: the first frame outside `sync`.
    pub owner: usize,
}

/// Whether a frame belongs to the Go runtime or to `sync`, not to the program.
pub fn is_below(frame: &Frame) -> bool {
    let function = &*frame.function;
    ["runtime.", "sync.", "internal/sync.", "internal/runtime/"]
        .iter()
        .any(|package| function.starts_with(package))
}

/// The index of the first frame of the program itself.
pub fn innermost_frame(goroutine: &Goroutine) -> usize {
    goroutine.frames.iter().take_while(|frame| is_below(frame)).count()
}

/// The lock for which a goroutine waits: its innermost frames are in `sync`, and `lockSlow` has its address.
pub fn lock(goroutine: &Goroutine) -> Option<Lock> {
    if matches!(&*goroutine.state, "running" | "runnable") {
        return None;
    }
    let owner = innermost_frame(goroutine);
    let (mut kind, mut address) = (None, None);
    for frame in goroutine.frames.get(..owner)? {
        let function = &*frame.function;
        let Some((_, what)) = function.split_once("sync.") else { continue };
        let found = match what {
            "(*Mutex).lockSlow" | "(*Mutex).Lock" => LockKind::Mutex,
            "(*RWMutex).RLock" | "runtime_SemacquireRWMutexR" => LockKind::Read,
            "(*RWMutex).Lock" | "runtime_SemacquireRWMutex" => LockKind::Write,
            _ if what.starts_with("(*WaitGroup)") || what.starts_with("(*Cond)") => return None,
            _ => continue,
        };
        // The outermost `sync` frame shows what was wanted: a writer behind another writer waits in the inner mutex.
        kind = Some(found);
        if what == "(*Mutex).lockSlow"
            && let Some((bits, true)) = frame.first_word()
        {
            address = Some(bits);
        }
    }
    (owner < goroutine.frames.len()).then_some(Lock { kind: kind?, address, owner })
}

/// What a goroutine waits for outside of the process, if it waits for no lock.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum ExternalWait {
    /// A shim or another ttrpc plugin: the client's address.
    Shim(Option<u64>),
    /// A child process: the descriptor of its pidfd, if it has one.
    Child(Option<u64>),
    /// The output pipe of a child. The child may have ended while another process keeps the pipe open.
    Pipe,
    /// A file: the operation, and the file's descriptor if known.
    File(&'static str, Option<u64>),
    /// The network.
    Network,
    /// The runtime's answer to a CRI call, in a kubelet.
    Runtime,
    /// D-Bus.
    Bus,
    /// A client that reads the event stream.
    Reader,
}

/// What the goroutine waits for outside of the process, from the innermost frames outwards.
pub fn external_wait(goroutine: &Goroutine) -> Option<ExternalWait> {
    if matches!(&*goroutine.state, "running" | "runnable") {
        return None;
    }
    let inner = goroutine.frames.get(innermost_frame(goroutine)..)?;
    // The wait is in the innermost frames; the frames of a call's handler begin after some thirty.
    for frame in inner.iter().take(24) {
        let function = &*frame.function;
        if let Some(found) = external_wait_in(function, goroutine) {
            return Some(found);
        }
        if function.contains("_Handler") {
            return None;
        }
    }
    None
}

fn external_wait_in(function: &str, goroutine: &Goroutine) -> Option<ExternalWait> {
    let ends = |name: &str| function.ends_with(name);
    if ends("ttrpc.(*Client).dispatch") {
        return Some(ExternalWait::Shim(shim(goroutine)));
    }
    if ends("os.(*Process).wait")
        || ends("os.(*Process).blockUntilWaitable")
        || ends("os.(*Process).pidfdWait")
    {
        return Some(ExternalWait::Child(pidfd(goroutine)));
    }
    if ends("os/exec.(*Cmd).awaitGoroutines") {
        return Some(ExternalWait::Pipe);
    }
    if ends("os/exec.(*Cmd).Wait") || ends("reaper.(*Monitor).Wait") {
        return Some(ExternalWait::Child(pidfd(goroutine)));
    }
    if ends("(*writeQuota).get") {
        return Some(ExternalWait::Reader);
    }
    if ends("godbus/dbus/v5.(*Object).Call") || ends("dbus.(*Object).Call") {
        return Some(ExternalWait::Bus);
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
        .find(|(name, _)| ends(name))
        .map(|(_, what)| ExternalWait::File(what, file(goroutine).map(|(_, fd)| fd)))
}

/// Functions that wait for a file system, with the operation.
const FILE_CALLS: &[(&str, &str)] = &[
    ("syscall.pwrite", "write"),
    ("syscall.Pwrite", "write"),
    ("syscall.write", "write"),
    ("syscall.Write", "write"),
    ("syscall.Fsync", "sync"),
    ("syscall.Fdatasync", "sync"),
    ("syscall.fdatasync", "sync"),
    ("unix.Fdatasync", "sync"),
    ("unix.Fsync", "sync"),
    ("unix.Syncfs", "sync"),
    ("unix.Pwrite", "write"),
    ("unix.Write", "write"),
    ("unix.Openat", "open"),
    ("unix.Mkdirat", "mkdir"),
    ("unix.Renameat", "rename"),
    ("unix.Unlinkat", "unlink"),
    ("unix.Ftruncate", "truncate"),
    ("syscall.Mkdirat", "mkdir"),
    ("syscall.Mkdir", "mkdir"),
    ("syscall.Renameat", "rename"),
    ("syscall.Rename", "rename"),
    ("syscall.openat", "open"),
    ("syscall.Open", "open"),
    ("syscall.unlinkat", "unlink"),
    ("syscall.Unlink", "unlink"),
    ("syscall.fstatat", "stat"),
    ("syscall.Fstatat", "stat"),
    ("unix.Fstatat", "stat"),
    ("syscall.Stat", "stat"),
    ("syscall.Lstat", "stat"),
    ("syscall.Statfs", "statfs"),
    ("unix.Statfs", "statfs"),
    ("unix.Unmount", "umount"),
    ("syscall.Unmount", "umount"),
    ("unix.Mount", "mount"),
    ("syscall.Mount", "mount"),
    ("syscall.Ftruncate", "truncate"),
    ("unix.Flock", "lock"),
    ("syscall.Flock", "lock"),
    ("syscall.FcntlFlock", "lock"),
];

/// The shim's client: the first argument of ttrpc's `dispatch`, which all waiters for one shim share.
pub fn shim(goroutine: &Goroutine) -> Option<u64> {
    let frame = goroutine.frames.iter().find(|frame| frame.function.ends_with("ttrpc.(*Client).dispatch"))?;
    frame.receiver().and_then(|(bits, certain)| certain.then_some(bits))
}

/// The shim call: the frame of a task or sandbox client that called `dispatch`.
pub fn shim_call(goroutine: &Goroutine) -> Option<&str> {
    goroutine.frames.iter().find_map(|frame| {
        ["askClient).", "andboxClient).", "luginClient).", "luginService)."]
            .iter()
            .find_map(|client| frame.function.split_once(client))
            .map(|(_, rpc)| rpc)
    })
}

/// A processor architecture. Each has its own system call numbers (`syscall_64.tbl` and `asm-generic/unistd.h` of the
/// kernel).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Machine {
    Amd64,
    Arm64,
}

impl Machine {
    /// The architecture in the name of a frame's file, such as `zsyscall_linux_arm64.go`. Otherwise this machine's,
    /// because only a process on this machine has descriptors that plegctl can read.
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

    /// The number of `waitid`.
    const fn waitid(self) -> u64 {
        match self {
            Self::Amd64 => 247,
            Self::Arm64 => 95,
        }
    }

    /// The numbers of the calls whose first argument is a file descriptor: `write`, `pwrite64`, `fsync`, `fdatasync`,
    /// `ftruncate`, `flock`.
    const fn by_descriptor(self) -> [u64; 6] {
        match self {
            Self::Amd64 => [1, 18, 74, 75, 77, 73],
            Self::Arm64 => [64, 68, 82, 83, 46, 32],
        }
    }
}

/// The number and one argument of the raw system call.
fn raw_call(goroutine: &Goroutine, nth: usize) -> Option<(u64, u64)> {
    let frame = goroutine
        .frames
        .iter()
        .find(|frame| matches!(&*frame.function, "syscall.Syscall6" | "syscall.Syscall"))?;
    let mut words = frame.words();
    let number = words.next().filter(|(_, certain)| *certain)?.0;
    let word = words.nth(nth).filter(|(_, certain)| *certain)?.0;
    Some((number, word))
}

/// The descriptor of a child's pidfd: `waitid(P_PIDFD, fd, …)`, since Go 1.23.
pub fn pidfd(goroutine: &Goroutine) -> Option<u64> {
    const P_PIDFD: u64 = 3;
    let (number, kind) = raw_call(goroutine, 0)?;
    let waits = number == Machine::of(goroutine).waitid() && kind == P_PIDFD;
    waits.then(|| raw_call(goroutine, 1))?.map(|(_, fd)| fd)
}

/// The descriptor of an open file: `pwrite64(fd, …)` and similar calls.
pub fn file(goroutine: &Goroutine) -> Option<(u64, u64)> {
    let known = Machine::of(goroutine).by_descriptor();
    raw_call(goroutine, 0).filter(|(number, _)| known.contains(number))
}

/// The strings of a container that is passed by value: pointers and lengths of its id, its name and its sandbox's id.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ByValue {
    /// The id of the container or sandbox.
    pub id: (u64, u64),
    /// The name.
    pub name: (u64, u64),
    /// The sandbox's id, if this is a container.
    pub sandbox: Option<(u64, u64)>,
}

/// The length of an id.
pub const ID_LENGTH: u64 = 0x40;

/// Finds a container that is passed by value: `{{{0xPTR, 0x40}, {0xPTR2, 0x1f}, {0xPTR3, 0x40}…`.
pub fn by_value(goroutine: &Goroutine) -> Option<ByValue> {
    goroutine.frames.iter().find_map(|frame| in_frame(&frame.arguments))
}

fn in_frame(arguments: &[Token]) -> Option<ByValue> {
    let start = arguments.windows(3).position(|tokens| tokens == [Token::Open, Token::Open, Token::Open])?;
    let rest = arguments.get(start + 2..)?;
    let (id, rest) = string(rest)?;
    let (name, rest) = string(rest)?;
    (id.1 == ID_LENGTH).then(|| ByValue {
        id,
        name,
        sandbox: string(rest).map(|(sandbox, _)| sandbox).filter(|sandbox| sandbox.1 == ID_LENGTH),
    })
}

/// Parses `{0xPTR, 0xLEN}` and returns the rest.
fn string(tokens: &[Token]) -> Option<((u64, u64), &[Token])> {
    match tokens {
        [
            Token::Open,
            Token::Word { bits: pointer, certain: true },
            Token::Word { bits: length, certain: true },
            Token::Close,
            rest @ ..,
        ] => Some(((*pointer, *length), rest)),
        _ => None,
    }
}

/// Ids that are passed as plain strings, `{0xPTR, 0x40}`, the innermost first.
pub fn id_strings(goroutine: &Goroutine) -> Vec<u64> {
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

/// The init process of a resource update: `UpdateContainerResources.func1({0xPID, …`.
pub fn update_pid(goroutine: &Goroutine) -> Option<u32> {
    let frame =
        goroutine.frames.iter().find(|frame| frame.function.ends_with(").UpdateContainerResources.func1"))?;
    match frame.arguments.get(..2)? {
        [Token::Open, Token::Word { bits, certain: true }] => {
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
    fn a_call_is_known_on_both_sides() {
        let server = goroutine(
            "goroutine 1 [select]:\nmain.f(0x1)\n\t/a.go:1\nx/v1._RuntimeService_ListContainers_Handler({0x1, 0x2})\n\t/b.go:2\n",
        );
        assert_eq!(call(&server).unwrap().rpc, "ListContainers");
        let client =
            goroutine("goroutine 1 [select]:\nx/v1.(*runtimeServiceClient).StopPodSandbox(0x1)\n\t/a.go:1\n");
        assert_eq!(call(&client).unwrap().rpc, "StopPodSandbox");
    }

    #[test]
    fn a_writer_behind_a_writer_waits_for_the_whole_lock() {
        let text = "goroutine 1 [sync.Mutex.Lock]:\ninternal/sync.(*Mutex).lockSlow(0xc000a388)\n\t/m.go:1\nsync.(*Mutex).Lock(...)\n\t/m.go:2\n\
                    sync.(*RWMutex).Lock(0x1?)\n\t/m.go:3\na.(*S).stop(0xc000a200)\n\t/a.go:4\n";
        let lock = lock(&goroutine(text)).unwrap();
        assert_eq!((lock.kind, lock.address, lock.owner), (LockKind::Write, Some(0xc000_a388), 3));
    }

    #[test]
    fn old_releases_and_crashes_show_the_same_lock() {
        let old = "goroutine 1 [semacquire]:\nsync.runtime_SemacquireMutex(0x1)\n\t/s.go:1\nsync.(*RWMutex).RLock(...)\n\t/m.go:2\na.(*S).Get(0xc000a200)\n\t/a.go:4\n";
        assert_eq!(lock(&goroutine(old)).unwrap().kind, LockKind::Read);
        let crash = "goroutine 1 gp=0x1 m=nil [sync.RWMutex.RLock]:\nruntime.gopark(0x1?)\n\t/p.go:1\nsync.runtime_SemacquireRWMutexR(0x1)\n\t/s.go:1\na.(*S).Get(0xc000a200)\n\t/a.go:4\n";
        let found = lock(&goroutine(crash)).unwrap();
        assert_eq!((found.kind, found.owner), (LockKind::Read, 2));
    }

    #[test]
    fn a_wait_group_or_a_running_goroutine_is_at_no_lock() {
        let group = "goroutine 1 [sync.WaitGroup.Wait]:\nsync.runtime_SemacquireWaitGroup(0x1)\n\t/s.go:1\nsync.(*WaitGroup).Wait(0xc000a200)\n\t/w.go:2\nmain.f(0x1)\n\t/a.go:4\n";
        assert_eq!(lock(&goroutine(group)), None);
        let running = "goroutine 1 [runnable]:\nsync.(*Mutex).lockSlow(0xc000a388)\n\t/m.go:1\nmain.f(0x1)\n\t/a.go:4\n";
        assert_eq!(lock(&goroutine(running)), None);
    }

    #[test]
    fn a_child_is_known_by_its_pidfd_and_a_file_by_its_descriptor() {
        let child = goroutine(
            "goroutine 1 [syscall]:\nsyscall.Syscall6(0xf7, 0x3, 0x1d, 0x14ace73a580, 0x4, 0x1, 0x0)\n\t/s.s:1\nos.(*Process).pidfdWait(0x1)\n\t/e.go:2\n",
        );
        assert_eq!(
            (pidfd(&child), external_wait(&child)),
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
        assert_eq!(pidfd(&by_pid), None);
    }

    #[test]
    fn a_system_call_is_read_by_the_numbers_of_its_machine() {
        let pwrite = |number: &str, machine: &str| {
            goroutine(&format!(
                "goroutine 1 [syscall]:\nsyscall.Syscall6({number}, 0x6, 0x2d4f69257000, 0x1000, 0x21000, 0x0, 0x0)\n\tsyscall/syscall_linux.go:96\n\
                 syscall.pwrite(0x8?)\n\tsyscall/zsyscall_linux_{machine}.go:1246\n"
            ))
        };
        assert_eq!(file(&pwrite("0x44", "arm64")), Some((0x44, 6)));
        assert_eq!(file(&pwrite("0x12", "amd64")), Some((0x12, 6)));
        // On arm64, 0x49 is ppoll and 0x12 is lookup_dcookie; neither has a descriptor.
        for number in ["0x49", "0x12"] {
            assert_eq!(file(&pwrite(number, "arm64")), None, "{number}");
        }
        assert_eq!(file(&pwrite("0x44", "amd64")), None);
        let waitid = |number: &str, machine: &str| {
            goroutine(&format!(
                "goroutine 1 [syscall]:\nsyscall.Syscall6({number}, 0x3, 0x1d, 0x14ace73a580, 0x4, 0x1, 0x0)\n\ts.go:1\n\
                 os.(*Process).pidfdWait(0x1)\n\tos/x_{machine}.s:2\n"
            ))
        };
        assert_eq!(pidfd(&waitid("0x5f", "arm64")), Some(0x1d));
        assert_eq!(pidfd(&waitid("0xf7", "amd64")), Some(0x1d));
        assert_eq!(pidfd(&waitid("0x5f", "amd64")), None, "there it is umask");
    }

    #[test]
    fn a_container_by_value_has_three_strings() {
        let text = "goroutine 1 [select]:\na.(*S).stop(0x1, {0x2, 0x3}, {{{0xc000a080, 0x40}, {0xc000ad20, 0x1f}, {0xc000a4c0, 0x40}, 0x4, ...}, ...})\n\t/a.go:1\n";
        let found = by_value(&goroutine(text)).unwrap();
        assert_eq!(
            (found.id, found.name, found.sandbox),
            ((0xc000_a080, 0x40), (0xc000_ad20, 0x1f), Some((0xc000_a4c0, 0x40)))
        );
        let stale = text.replace("0xc000a080,", "0xc000a080?,");
        assert_eq!(by_value(&goroutine(&stale)), None);
    }

    #[test]
    fn an_update_has_the_init_process() {
        let text = "goroutine 1 [select]:\na/server.(*criService).UpdateContainerResources.func1({0x6002, 0x18ea231741b139a6, ...})\n\t/a.go:1\n";
        assert_eq!(update_pid(&goroutine(text)), Some(0x6002));
    }
}
