//! [`Rename`] replaces the names from outside in a document, for an anonymised export of a capture.

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::time::{Duration, SystemTime};

use super::{Confidence, ContainerRef, NotChecked, PodRef, RuntimeRef, Seconds, Severity};
use crate::clock::Wall;

/// The kind of a text from outside, which decides how it is replaced.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NameKind {
    /// A namespace.
    Namespace,
    /// A pod.
    Pod,
    /// A container.
    Container,
    /// A node.
    Node,
    /// An image.
    Image,
    /// The key of a label or an annotation.
    Key,
    /// The value of a label or an annotation.
    Value,
    /// An IP address of a pod, the address of a socket or of a file server.
    Address,
    /// The endpoint of a runtime.
    Endpoint,
    /// A path in a container or of a log.
    Path,
    /// A path on the node, whose parts are replaced one by one: it may have the id of a pod or a container.
    NodePath,
    /// The type of a file system.
    FileSystem,
    /// The value of a flag of a shim that names a namespace of containerd.
    RuntimeNamespace,
    /// The last message of a kubelet that exits.
    Refusal,
    /// The id of a sandbox, a container or a pod.
    Id,
    /// The value of a label or annotation that the kubelet or the runtime writes.
    KnownValue,
    /// The reason for a container's state.
    Reason,
    /// A condition of the runtime, or the reason for it.
    Condition,
    /// The name of a runtime.
    Runtime,
    /// The name of a process.
    Process,
    /// A function of the kernel, or several.
    Function,
    /// A version.
    Version,
    /// A word from a closed list: of plegctl, of the CRI or of the kernel.
    Word,
    /// A text that may contain any name, such as an error message.
    Text,
}

/// Returns the replacement for a text.
pub type ReplaceName<'a> = &'a mut dyn FnMut(NameKind, &str) -> String;

/// A value of a document whose names can be replaced.
pub trait Rename {
    /// Replaces the names.
    fn rename(&mut self, replace: ReplaceName<'_>);
}

/// A text, or several texts of one kind. A text has no [`Rename`], so that the compiler refuses a field with a text until
/// somebody says of which kind it is.
pub trait RenameAs {
    /// Replaces the text, which is of this kind.
    fn rename_as(&mut self, kind: NameKind, replace: ReplaceName<'_>);
}

impl RenameAs for String {
    fn rename_as(&mut self, kind: NameKind, replace: ReplaceName<'_>) {
        *self = replace(kind, self);
    }
}

impl<T: Rename> Rename for Option<T> {
    fn rename(&mut self, replace: ReplaceName<'_>) {
        if let Some(value) = self {
            value.rename(replace);
        }
    }
}

impl<T: RenameAs> RenameAs for Option<T> {
    fn rename_as(&mut self, kind: NameKind, replace: ReplaceName<'_>) {
        if let Some(value) = self {
            value.rename_as(kind, replace);
        }
    }
}

impl<T: Rename> Rename for Vec<T> {
    fn rename(&mut self, replace: ReplaceName<'_>) {
        for value in self {
            value.rename(replace);
        }
    }
}

impl<T: RenameAs> RenameAs for Vec<T> {
    fn rename_as(&mut self, kind: NameKind, replace: ReplaceName<'_>) {
        for value in self {
            value.rename_as(kind, replace);
        }
    }
}

impl<V: Rename> Rename for BTreeMap<u32, V> {
    fn rename(&mut self, replace: ReplaceName<'_>) {
        for value in self.values_mut() {
            value.rename(replace);
        }
    }
}

impl<V: RenameAs> RenameAs for BTreeMap<u32, V> {
    fn rename_as(&mut self, kind: NameKind, replace: ReplaceName<'_>) {
        for value in self.values_mut() {
            value.rename_as(kind, replace);
        }
    }
}

impl RenameAs for BTreeSet<String> {
    fn rename_as(&mut self, kind: NameKind, replace: ReplaceName<'_>) {
        *self = self.iter().map(|name| replace(kind, name)).collect();
    }
}

impl RenameAs for Cow<'static, str> {
    fn rename_as(&mut self, kind: NameKind, replace: ReplaceName<'_>) {
        *self = replace(kind, self).into();
    }
}

impl RenameAs for PathBuf {
    fn rename_as(&mut self, kind: NameKind, replace: ReplaceName<'_>) {
        *self = replace(kind, &self.to_string_lossy()).into();
    }
}

impl<A: Rename, B: Rename> Rename for (A, B) {
    fn rename(&mut self, replace: ReplaceName<'_>) {
        self.0.rename(replace);
        self.1.rename(replace);
    }
}

/// Only the first value is a text.
impl<T: RenameAs, A: Rename, B: Rename> RenameAs for (T, A, B) {
    fn rename_as(&mut self, kind: NameKind, replace: ReplaceName<'_>) {
        self.0.rename_as(kind, replace);
        self.1.rename(replace);
        self.2.rename(replace);
    }
}

impl<T: Rename> Rename for Box<T> {
    fn rename(&mut self, replace: ReplaceName<'_>) {
        (**self).rename(replace);
    }
}

/// Implements [`Rename`] for structs, whose fields are all listed: `field: Kind` is a text of this kind, `field = value` gets
/// this value, and any other field has a type that implements [`Rename`]. `=> function` is called at the end.
#[macro_export]
macro_rules! rename {
    (@field $field:ident $replace:ident) => { $crate::report::rename::Rename::rename($field, $replace) };
    (@field $field:ident $replace:ident : $kind:ident) => {
        $crate::report::rename::RenameAs::rename_as($field, $crate::report::rename::NameKind::$kind, $replace)
    };
    (@field $field:ident $replace:ident = $value:expr) => { *$field = $value };
    ($($name:ident { $($field:ident $(: $kind:ident)? $(= $value:expr)?),* $(,)? } $(=> $after:path)?;)+) => {$(
        impl $crate::report::rename::Rename for $name {
            fn rename(&mut self, replace: $crate::report::rename::ReplaceName<'_>) {
                let Self { $($field),* } = self;
                $($crate::rename!(@field $field replace $(: $kind)? $(= $value)?);)*
                $($after(self);)?
            }
        }
    )+};
}

/// Implements [`Rename`] for types without names.
#[macro_export]
macro_rules! without_names {
    ($($name:ty)+) => {$(
        impl $crate::report::rename::Rename for $name {
            fn rename(&mut self, _: $crate::report::rename::ReplaceName<'_>) {}
        }
    )+};
}

pub use crate::{rename, without_names};

rename! {
    PodRef { uid: Id, namespace: Namespace, name: Pod };
    ContainerRef { id: Id, name: Container };
    RuntimeRef { endpoint: Endpoint, name: Runtime, version: Version, api_version: Version };
    NotChecked { what: Word, why: Text };
}

without_names! { bool char f64 i32 i64 u8 u16 u32 u64 usize Confidence Duration Seconds Severity SystemTime Wall }
