//! How much memory a message will take, told from its bytes before anything is made of them.
//!
//! Two bytes on the wire are an empty entry of a list, and some hundred bytes in memory: 8 MiB of nothing would be
//! gigabytes. So each message is weighed first, and refused when it is out of proportion to what came over the wire. What
//! runtimes send weighs some four times its bytes; the tests below hold real shapes against the bound.

use std::mem::size_of;

use prost::bytes::{Buf, Bytes};
use prost::encoding::{DecodeContext, WireType, decode_key, decode_varint, skip_field};

use super::generated as wire;
use crate::report::bytes::bytes;

/// Why bytes are no answer.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Fault {
    /// They are not the message that they should be.
    #[error("{0}")]
    Undecodable(String),
    /// They would take far more memory than they have bytes.
    #[error("{0}")]
    Implausible(String),
}

impl From<prost::DecodeError> for Fault {
    fn from(why: prost::DecodeError) -> Self {
        Self::Undecodable(why.to_string())
    }
}

/// Memory that a byte of an answer may cost.
const PER_BYTE: u64 = 5;

/// Memory that a list may cost however few its bytes are: small nodes have short names.
const FREE_LIST: u64 = 12 * 1024 * 1024;

/// The same for any other message.
const FREE_MESSAGE: u64 = 64 * 1024;

/// What a text costs beyond its bytes: the allocator's own.
const TEXT: u64 = 16;

/// What an entry of a list costs later: its record, its place in the pod, its status call in a diagnosis.
const ENTRY: u64 = 1024;

/// The field that is an id, a name, a key or a path in every message that has text in it.
const NAME: u32 = 1;

/// No name is longer. Names are copied more often than other text: into requests, findings and tables.
const LONGEST_NAME: u64 = 16 * 1024;

/// A message as the allocator sees it: its own size, and which of its fields are messages too. Every other field that
/// has a length is text.
#[derive(Debug)]
pub struct Shape {
    size: usize,
    parts: &'static [(u32, &'static Shape)],
}

impl Shape {
    const fn new<M>(parts: &'static [(u32, &'static Self)]) -> Self {
        Self { size: size_of::<M>(), parts }
    }
}

/// A message that can be weighed.
pub trait Weighed {
    /// Its shape.
    const SHAPE: &'static Shape;
}

macro_rules! shapes {
    ($($name:ident = $message:ident { $($field:literal: $part:ident),* })+) => {
        $(static $name: Shape = Shape::new::<wire::$message>(&[$(($field, &$part)),*]);
        impl Weighed for wire::$message {
            const SHAPE: &'static Shape = &$name;
        })+

        /// Every shape under the name of its message.
        #[cfg(test)]
        static ALL: &[(&str, &Shape)] = &[$((stringify!($message), &$name)),+];
    };
}

shapes! {
    PAIR = Pair {}
    VERSION = VersionResponse {}
    CONDITION = RuntimeCondition {}
    RUNTIME_STATUS = RuntimeStatus { 1: CONDITION }
    STATUS = StatusResponse { 1: RUNTIME_STATUS }
    LINUX = LinuxRuntimeConfiguration {}
    CONFIG = RuntimeConfigResponse { 1: LINUX }
    SANDBOX_METADATA = PodSandboxMetadata {}
    SANDBOX = PodSandbox { 2: SANDBOX_METADATA, 5: PAIR, 6: PAIR }
    POD_IP = PodIp {}
    NETWORK = PodSandboxNetworkStatus { 2: POD_IP }
    OPTION = NamespaceOption {}
    NAMESPACE = Namespace { 2: OPTION }
    LINUX_SANDBOX = LinuxPodSandboxStatus { 1: NAMESPACE }
    SANDBOX_STATUS = PodSandboxStatus { 2: SANDBOX_METADATA, 5: NETWORK, 6: LINUX_SANDBOX, 7: PAIR, 8: PAIR }
    SANDBOX_ANSWER = PodSandboxStatusResponse { 1: SANDBOX_STATUS, 3: CONTAINER_STATUS }
    CONTAINER_METADATA = ContainerMetadata {}
    IMAGE = ImageSpec {}
    CONTAINER = Container { 3: CONTAINER_METADATA, 4: IMAGE, 8: PAIR, 9: PAIR }
    MOUNT = Mount {}
    CONTAINER_STATUS = ContainerStatus { 2: CONTAINER_METADATA, 8: IMAGE, 12: PAIR, 13: PAIR, 14: MOUNT }
    CONTAINER_ANSWER = ContainerStatusResponse { 1: CONTAINER_STATUS }
    STATS = ContainerStatsResponse {}
    EVENT = ContainerEventResponse { 4: SANDBOX_STATUS, 5: CONTAINER_STATUS }
    SANDBOX_LIST = ListPodSandboxResponse { 1: SANDBOX }
    CONTAINER_LIST = ListContainersResponse { 1: CONTAINER }
}

/// Decodes a message that somebody kept; `None` if it is none, or would take far more memory than it has bytes.
pub fn decoded<M: Weighed + prost::Message + Default>(message: &Bytes) -> Option<M> {
    let mut scale = Scale::of_list();
    scale.grant(message.len());
    scale.put(M::SHAPE, message).ok()?;
    M::decode(message.clone()).ok()
}

/// Weighs what comes in against what it may weigh.
#[derive(Debug)]
pub struct Scale {
    allowed: u64,
    weight: u64,
    bytes: u64,
    entries: u64,
}

impl Scale {
    /// For a list, in however many messages.
    pub const fn of_list() -> Self {
        Self::with(FREE_LIST)
    }

    /// For any other message.
    pub const fn of_message() -> Self {
        Self::with(FREE_MESSAGE)
    }

    const fn with(allowed: u64) -> Self {
        Self { allowed, weight: 0, bytes: 0, entries: 0 }
    }

    /// So many more bytes have come in.
    pub fn grant(&mut self, bytes: usize) {
        let bytes = u64::try_from(bytes).unwrap_or(u64::MAX);
        self.bytes = self.bytes.saturating_add(bytes);
        self.allowed = self.allowed.saturating_add(bytes.saturating_mul(PER_BYTE));
    }

    /// What is on it.
    pub const fn weight(&self) -> u64 {
        self.weight
    }

    /// Puts an entry of a list on it.
    pub fn put_entry(&mut self, shape: &Shape, bytes: &[u8]) -> Result<(), Fault> {
        self.entries += 1;
        self.add(ENTRY)?;
        self.put(shape, bytes)
    }

    /// Puts a message on it.
    pub fn put(&mut self, shape: &Shape, mut bytes: &[u8]) -> Result<(), Fault> {
        self.add(u64::try_from(shape.size).unwrap_or(u64::MAX))?;
        while bytes.has_remaining() {
            let (field, kind) = decode_key(&mut bytes)?;
            if kind != WireType::LengthDelimited {
                skip_field(kind, field, &mut bytes, DecodeContext::default())?;
                continue;
            }
            let length = decode_varint(&mut bytes)?;
            let content = usize::try_from(length).ok().and_then(|length| bytes.split_at_checked(length));
            let Some((content, left)) = content else {
                return Err(Fault::Undecodable(format!(
                    "a field of {length} bytes where {} are left",
                    bytes.len()
                )));
            };
            bytes = left;
            match shape.parts.iter().find(|(number, _)| *number == field) {
                Some((_, part)) => self.put(part, content)?,
                None if field == NAME && length > LONGEST_NAME => {
                    return Err(Fault::Implausible(format!("it has a name of {length} bytes")));
                }
                None => self.add(length.saturating_add(TEXT))?,
            }
        }
        Ok(())
    }

    fn add(&mut self, weight: u64) -> Result<(), Fault> {
        self.weight = self.weight.saturating_add(weight);
        if self.weight <= self.allowed {
            return Ok(());
        }
        let entries = match self.entries {
            0 => String::new(),
            entries => format!(", as {entries} entries and more"),
        };
        Err(Fault::Implausible(format!(
            "its {} would take more than {} of memory{entries}",
            bytes(self.bytes),
            bytes(self.allowed)
        )))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use prost::Message;

    fn pair(key: &str, value: &str) -> wire::Pair {
        wire::Pair { key: key.into(), value: value.into() }
    }

    /// A container of a bare pod, as containerd lists it.
    fn plain() -> wire::Container {
        wire::Container {
            id: "d".repeat(64),
            pod_sandbox_id: "e".repeat(64),
            metadata: Some(wire::ContainerMetadata { name: "app".into(), attempt: 0 }),
            image: Some(wire::ImageSpec {
                image: format!("sha256:{}", "a".repeat(64)),
                user_specified_image: String::new(),
            }),
            image_ref: format!("sha256:{}", "a".repeat(64)),
            state: 1,
            created_at: 1_790_000_000_000_000_000,
            labels: vec![
                pair("io.kubernetes.container.name", "app"),
                pair("io.kubernetes.pod.name", "web-5d4f8c7b6d-x2x4z"),
                pair("io.kubernetes.pod.namespace", "default"),
                pair("io.kubernetes.pod.uid", "3f2504e0-4f89-11d3-9a0c-0305e82c3301"),
            ],
            annotations: vec![
                pair("io.kubernetes.container.hash", "5d4f8c7b"),
                pair("io.kubernetes.container.restartCount", "0"),
                pair("io.kubernetes.container.terminationMessagePath", "/dev/termination-log"),
                pair("io.kubernetes.container.terminationMessagePolicy", "File"),
                pair("io.kubernetes.pod.terminationGracePeriod", "30"),
            ],
        }
    }

    fn weight_of<M: Message + Weighed>(message: &M) -> (u64, u64) {
        let bytes = message.encode_to_vec();
        let mut scale = Scale { allowed: u64::MAX, ..Scale::of_list() };
        scale.put_entry(M::SHAPE, &bytes).unwrap();
        (scale.weight(), u64::try_from(bytes.len()).unwrap())
    }

    #[test]
    fn what_runtimes_list_weighs_less_than_it_may() {
        let container = weight_of(&plain());
        let sandbox = weight_of(&wire::PodSandbox {
            id: "e".repeat(64),
            metadata: Some(wire::PodSandboxMetadata {
                name: "web-5d4f8c7b6d-x2x4z".into(),
                uid: "3f2504e0-4f89-11d3-9a0c-0305e82c3301".into(),
                namespace: "default".into(),
                attempt: 1,
            }),
            state: 0,
            created_at: 1_790_000_000_000_000_000,
            labels: plain().labels,
            annotations: vec![pair("kubernetes.io/config.seen", "2026-11-21T20:41:13.123456789Z")],
        });
        // Made by hand with crictl, with no label on it.
        let bare = weight_of(&wire::Container { labels: Vec::new(), annotations: Vec::new(), ..plain() });
        // More than any node has.
        let many = 20_000;
        for (weight, bytes) in [container, sandbox, bare] {
            assert!(many * weight < FREE_LIST + many * PER_BYTE * bytes, "{weight} for {bytes}");
        }
    }

    #[test]
    fn entries_of_nothing_are_refused() {
        let mut scale = Scale::of_list();
        scale.grant(8 << 20);
        let refused = (0..4 << 20).find_map(|_| scale.put_entry(&CONTAINER, b"").err());
        let Some(Fault::Implausible(why)) = refused else { panic!("{refused:?}") };
        assert!(why.starts_with("its 8.0 MiB would take more than 52.0 MiB of memory, as "), "{why}");
    }

    #[test]
    fn a_name_of_many_bytes_is_refused_and_an_annotation_is_not() {
        let mut scale = Scale::of_list();
        let long = "x".repeat(20_000);
        let named = wire::Container { id: long.clone(), ..Default::default() }.encode_to_vec();
        let why = scale.put_entry(&CONTAINER, &named).unwrap_err();
        assert_eq!(why, Fault::Implausible("it has a name of 20000 bytes".into()));
        let annotated = wire::Container { annotations: vec![pair("a", &long)], ..Default::default() };
        scale.put_entry(&CONTAINER, &annotated.encode_to_vec()).unwrap();
    }

    #[test]
    fn kept_list_of_nothing_is_not_decoded() {
        let nothing = Bytes::from([0x0A, 0].repeat(1 << 20));
        assert_eq!(decoded::<wire::ListContainersResponse>(&nothing), None);
        let list = wire::ListContainersResponse { containers: vec![plain(); 100] };
        assert_eq!(decoded(&list.encode_to_vec().into()), Some(list));
    }

    #[test]
    fn parts_of_nothing_are_refused_however_deep() {
        // Empty pairs in one container, and empty mounts in one status.
        let pairs: Vec<u8> = [0x42, 0].repeat(1 << 20);
        let mut scale = Scale::of_list();
        scale.grant(pairs.len());
        assert!(matches!(scale.put_entry(&CONTAINER, &pairs), Err(Fault::Implausible(_))));
        let status =
            wire::ContainerStatus { mounts: vec![wire::Mount::default(); 1 << 16], ..Default::default() };
        let answer = wire::ContainerStatusResponse { status: Some(status) }.encode_to_vec();
        let mut scale = Scale::of_message();
        scale.grant(answer.len());
        assert!(matches!(scale.put(&CONTAINER_ANSWER, &answer), Err(Fault::Implausible(_))));
    }

    /// The table above is only as good as it is complete: the proto says which fields are messages.
    #[test]
    fn every_message_inside_a_message_is_in_the_table() {
        let proto = include_str!("../../proto/cri.proto");
        let mut message = None;
        let mut wanted = Vec::new();
        for line in proto.lines().map(str::trim) {
            let words: Vec<&str> = line.trim_end_matches(';').split_whitespace().collect();
            match words.as_slice() {
                ["message", name, ..] => message = shape_called(name),
                ["repeated", kind, _, "=", number] | [kind, _, "=", number] => {
                    if let (Some(outer), Some(inner)) = (message, shape_called(kind)) {
                        wanted.push((outer, number.parse::<u32>().unwrap(), inner));
                    }
                }
                _ => {}
            }
        }
        assert!(wanted.len() > 25, "{}", wanted.len());
        for (outer, number, inner) in wanted {
            let part = outer.parts.iter().find(|(field, _)| *field == number);
            assert!(part.is_some_and(|(_, part)| std::ptr::eq(*part, inner)), "{outer:?} {number}");
        }
    }

    fn shape_called(name: &str) -> Option<&'static Shape> {
        ALL.iter().find(|(known, _)| known.eq_ignore_ascii_case(name)).map(|(_, shape)| *shape)
    }
}
