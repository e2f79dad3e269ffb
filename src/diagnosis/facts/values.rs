//! The types of the fields of facts. A text from outside plegctl has a type that says what it is, so that an anonymised export
//! knows what to rename.

use std::fmt;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::words::with;
use super::{FactKind, WaitOwner};
use crate::cri::Rpc;
use crate::diagnosis::kernel_waits::KernelWaitReason;
use crate::diagnosis::proc::{NodeMount, Process, Psi, ResourcePressure};
use crate::diagnosis::words::{seconds, short};
use crate::report::bytes::bytes;
use crate::report::duration::elapsed;
use crate::report::rename::{NameKind, Rename, ReplaceName};
use crate::report::{PodRef, Seconds, word_enum};

/// A measured duration. `{:#}` writes it roughly, as an age: `3m20s`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, Rename)]
pub struct Took {
    /// The length.
    seconds: Seconds,
}

impl From<Duration> for Took {
    fn from(duration: Duration) -> Self {
        Self { seconds: duration.into() }
    }
}

impl Took {
    /// Returns the duration.
    pub fn duration(self) -> Duration {
        self.seconds.duration()
    }
}

impl fmt::Display for Took {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let text = if f.alternate() { elapsed(self.duration()) } else { seconds(self.duration()) };
        f.write_str(&text)
    }
}

impl From<f64> for Took {
    fn from(seconds: f64) -> Self {
        Duration::try_from_secs_f64(seconds).unwrap_or(Duration::MAX).into()
    }
}

/// A size in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, Rename)]
#[serde(transparent)]
pub struct Bytes(pub u64);

impl fmt::Display for Bytes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&bytes(self.0))
    }
}

/// A number with a fraction.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, Rename)]
#[serde(transparent)]
pub struct Decimal(Seconds);

impl From<f64> for Decimal {
    fn from(number: f64) -> Self {
        let sign = if number < 0.0 { -1 } else { 1 };
        let size = Duration::try_from_secs_f64(number.abs()).unwrap_or(Duration::MAX);
        Self(Seconds::from_nanos(i64::try_from(size.as_nanos()).unwrap_or(i64::MAX) * sign))
    }
}

impl Decimal {
    /// Returns the number.
    pub fn value(self) -> f64 {
        self.0.as_f64()
    }
}

/// Written with the digits that the format asks for: `{:.0}`.
impl fmt::Display for Decimal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.as_f64().fmt(f)
    }
}

/// A sandbox or a container, with the names that are known. `{}` writes the names or else the short id, and `{:#}` the names
/// with the short id.
#[crate::report::document_part]
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, Rename)]
#[names(Id(id), Container(container))]
#[serde(default)]
pub struct Item {
    /// The full id.
    pub id: String,
    /// Its pod.
    pub pod: Option<PodRef>,
    /// The container's name, if it is a container.
    pub container: Option<String>,
}

impl fmt::Display for Item {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let short = short(&self.id);
        match (&self.pod, &self.container) {
            (Some(pod), Some(container)) => write!(f, "{pod}/{container}")?,
            (Some(pod), None) => write!(f, "{pod}")?,
            (None, _) => return f.write_str(short),
        }
        if f.alternate() { write!(f, " ({short})") } else { Ok(()) }
    }
}

/// Defines types of several values: the fields, with their kinds if they are texts, and after `=>` the arguments of `write!` that
/// write the words. In these arguments, a field is a reference.
macro_rules! values {
    ($($(#[$about:meta])* $name:ident {
        $($(#[$of_field:meta])* $field:ident: $type:ty,)+
    } => $words:literal $(, $argument:expr)*;)+) => {$(
        #[derive(Clone, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize, crate::report::Rename)]
        $(#[$about])*
        pub struct $name {
            $($(#[$of_field])* pub $field: $type,)+
        }

        impl std::fmt::Display for $name {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                let Self { $($field),+ } = self;
                write!(f, $words $(, $argument)*)
            }
        }

    )+};
}
pub(super) use values;

values! {
    /// A process: `containerd[812]`.
    #[names(Process(name))]
    ProcessRef {
        /// Its name.
        name: String,
        /// Its id.
        pid: u32,
    } => "{name}[{pid}]";
    /// A call, perhaps about a sandbox or a container.
    Call {
        /// The RPC.
        rpc: Rpc,
        /// The sandbox or the container.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        of: Option<Item>,
    } => "{rpc}{}", with(" of ", of.as_ref());
    /// How many pods, sandboxes or containers have this name or this namespace: `kube-system 12`.
    Share {
        /// The name.
        name: Name,
        /// The number.
        count: usize,
    } => "{name} {count}";
    /// The size of a pod's entries in the lists: `shop/web-0 12.3 KiB`.
    PodBytes {
        /// The pod.
        pod: PodRef,
        /// The size.
        bytes: Bytes,
    } => "{pod} {bytes}";
    /// For how long something has been the case for a pod: `shop/web-0 (3m20s)`.
    PodAge {
        /// The pod.
        pod: PodRef,
        /// The time.
        age: Took,
    } => "{pod} ({age:#})";
    /// The descriptors of a process: `containerd[812] has 1024 of 1024 descriptors open`.
    DescriptorUse {
        /// The process.
        process: ProcessRef,
        /// The number of open descriptors.
        open: u64,
        /// How many it may open.
        limit: u64,
    } => "{process} has {open} of {limit} descriptors open";
    /// The numbers on which the threads and file descriptors of a healthy runtime depend.
    #[derive(Copy)]
    ExpectedLoad {
        /// Containers in the list.
        containers: usize,
        /// Sandboxes in the list.
        sandboxes: usize,
        /// Processes.
        shims: usize,
    } => "{containers} containers, {sandboxes} sandboxes and {shims} shims";
    /// What a task waits for in the kernel, in the words of the catalogue: `waits for the security agent falcon-sensor[812]`.
    Waits {
        /// The id of the reason in the catalogue.
        reason: Word,
        /// Who or what keeps the task waiting.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        owner: Option<WaitOwner>,
    } => "{}", KernelWaitReason::with_id(&reason.0).map_or_else(
        || format!("waits in the kernel ({reason})"),
        |known| known.describe(owner.as_ref()),
    );
}

impl From<&Process> for ProcessRef {
    fn from(process: &Process) -> Self {
        Self { name: process.comm.clone(), pid: process.pid }
    }
}

/// Defines types for texts, each with its kind. One without a kind has a [`Rename`] of its own.
macro_rules! texts {
    ($($(#[$about:meta])* $name:ident $(: $kind:ident)?;)+) => {$(
        $(#[$about])*
        #[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
        #[serde(transparent)]
        $(#[derive(Rename)] #[names($kind($name))])?
        pub struct $name(pub String);

        impl<T: fmt::Display + ?Sized> From<&T> for $name {
            fn from(text: &T) -> Self {
                Self(text.to_string())
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(&self.0)
            }
        }
    )+};
}

texts! {
    /// Words of another program: an error message, a line of a journal.
    Quoted: Text;
    /// A path on the node, perhaps with a line and a column.
    FilePath: NodePath;
    /// The type of a file system.
    FileSystem: FileSystem;
    /// The last message of a kubelet that exits.
    Refusal: Refusal;
    /// The address of an endpoint or of a file server.
    Address: Address;
    /// A function of the kernel.
    Function: Function;
    /// The name of a program.
    Program: Process;
    /// A version of a program.
    Release: Version;
    /// A condition of the runtime, or the reason for it.
    ConditionName: Condition;
    /// A word from a list, such as a sub-command of runc or the id of a rule.
    Word: Word;
    /// A name in Kubernetes: that of a namespace, or `NAMESPACE/NAME` of pods.
    Name;
}

impl Rename for Name {
    fn rename(&mut self, replace: ReplaceName<'_>) {
        self.0 = match self.0.split_once('/') {
            Some((namespace, pod)) => {
                format!("{}/{}", replace(NameKind::Namespace, namespace), replace(NameKind::Pod, pod))
            }
            None => replace(NameKind::Namespace, &self.0),
        };
    }
}

impl Call {
    /// Describes a call about a sandbox or a container of a pod; without an id, a list call.
    pub fn of_pod(rpc: Rpc, id: Option<&str>, pod: Option<&PodRef>) -> Self {
        let pod = pod.filter(|pod| !pod.name.is_empty()).cloned();
        let of = id.map(|id| Item { id: id.to_owned(), pod: pod.clone(), container: None });
        Self { rpc, of: of.or_else(|| pod.map(|pod| Item { pod: Some(pod), ..Item::default() })) }
    }
}

word_enum! {
    /// Which sandboxes and containers a number counts.
    pub json enum Counted: as_str {
        /// All, in the two lists.
        All = "all",
        /// All, in smaller lists.
        InSmallerLists = "smaller lists",
        /// Not all, in smaller lists.
        Partly = "partly",
        /// Those in the part of the lists that was read.
        PartRead = "part read",
    }
}

word_enum! {
    /// What a list has.
    pub json enum Items: as_str {
        /// Sandboxes.
        Sandboxes = "sandbox",
        /// Containers.
        Containers = "container",
    }
}

word_enum! {
    /// A change of a pod.
    pub json enum PodChange: as_str {
        /// The pod was created.
        Created = "created",
        /// A container started.
        ContainerStarted = "containerStarted",
        /// A container ended.
        ContainerFinished = "containerFinished",
        /// Somebody deleted the pod.
        Deleted = "deleted",
        /// The time was over that the containers of a deleted pod get for their end.
        GraceOver = "graceOver",
    }
}

word_enum! {
    /// For what tasks wait.
    pub json enum Resource: as_str {
        /// For a processor.
        Cpu = "CPU",
        /// For storage.
        Io = "I/O",
        /// For memory.
        Memory = "memory",
    }
}

impl Resource {
    /// Returns how long tasks waited for it: all tasks, or some for a processor. `None` if the kernel measures nothing.
    pub fn pressure(self, pressure: &ResourcePressure) -> Option<FactKind> {
        let percent = |psi: &Psi| if self == Self::Cpu { psi.some_waited() } else { psi.all_waited() };
        let [node, runtime] = [pressure.node, pressure.daemon].map(|psi| Some(percent(&psi?).into()));
        node.or(runtime).map(|_| FactKind::Pressure { resource: self, node, runtime })
    }
}

impl FactKind {
    /// Returns where a network or user-space file system is mounted.
    pub fn of_mount(mount: &NodeMount) -> Self {
        Self::SourceIsMountedAt {
            source: (&mount.source).into(),
            file_system: Some((&mount.kind).into()),
            path: (&mount.target).into(),
        }
    }
}
