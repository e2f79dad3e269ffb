//! [`Rename`] replaces the names from outside in a document, for an anonymised export of a capture.

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::time::{Duration, SystemTime};

use super::Seconds;
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

/// Implements [`Rename`] for types without names.
#[macro_export]
macro_rules! without_names {
    ($($name:ty)+) => {$(
        impl $crate::report::rename::Rename for $name {
            fn rename(&mut self, _: $crate::report::rename::ReplaceName<'_>) {}
        }
    )+};
}

pub use crate::without_names;
pub use plegctl_omit_none::Rename;

without_names! { bool char f64 i32 i64 u8 u16 u32 u64 usize Duration Seconds SystemTime Wall }

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Debug, PartialEq, Rename)]
    #[names(Id(id), Text(words), emptied(steps), kept(counters), then(count))]
    struct Part {
        id: Option<String>,
        words: Vec<String>,
        steps: Vec<String>,
        counters: BTreeMap<String, u64>,
        renamed: u32,
        source: Source,
    }

    #[derive(Debug, PartialEq, Rename)]
    #[names(Text(Logged), Pod(pod))]
    enum Source {
        Logged(String),
        Of { pod: String, age: Duration },
        Unknown,
    }

    impl Part {
        fn count(&mut self) {
            self.renamed += 1;
        }
    }

    #[test]
    fn a_derived_rename_replaces_each_field_as_its_kind_says() {
        let source = Source::Of { pod: "web-0".into(), age: Duration::from_secs(1) };
        let counters = BTreeMap::from([("oom_kill".to_owned(), 2)]);
        let words = vec!["a b".to_owned()];
        let steps = vec!["kill 7".to_owned()];
        let mut part =
            Part { id: Some("c1".into()), words, steps, counters: counters.clone(), renamed: 0, source };
        let replace: ReplaceName<'_> = &mut |kind, text| format!("{kind:?} {text}");
        part.rename(replace);
        let source = Source::Of { pod: "Pod web-0".into(), age: Duration::from_secs(1) };
        let words = vec!["Text a b".to_owned()];
        assert_eq!(
            part,
            Part { id: Some("Id c1".into()), words, steps: vec![], counters, renamed: 1, source }
        );
        let mut sources = vec![Source::Logged("x".into()), Source::Unknown];
        sources.rename(replace);
        assert_eq!(sources, [Source::Logged("Text x".into()), Source::Unknown]);
    }
}
