//! Estimates how much memory a message needs before it is decoded, and refuses a message that would need far more memory
//! than its bytes justify.
//!
//! An empty entry of a list has two encoded bytes, but several hundred bytes in memory, so 8 MiB of empty entries would need
//! gigabytes. The messages of real runtimes need about four times their bytes; the tests below check this with typical
//! messages.

use std::mem::size_of;

use prost::bytes::{Buf, Bytes};
use prost::encoding::{DecodeContext, WireType, decode_key, decode_varint, skip_field};

use super::generated as wire;
use crate::report::bytes::bytes;

/// The reason why a message is not decoded.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum MessageError {
    /// The bytes are not a valid message.
    #[error("{0}")]
    Undecodable(String),
    /// The message would need far more memory than its bytes justify.
    #[error("{0}")]
    Implausible(String),
}

impl From<prost::DecodeError> for MessageError {
    fn from(why: prost::DecodeError) -> Self {
        Self::Undecodable(why.to_string())
    }
}

/// The memory that each byte of an answer may need.
const MEMORY_PER_BYTE: u64 = 5;

/// The additional memory of any list. On small nodes names are short, so each byte needs more memory.
const BASE_LIST_MEMORY: u64 = 12 * 1024 * 1024;

/// The additional memory of any other message.
const BASE_MESSAGE_MEMORY: u64 = 64 * 1024;

/// The memory of a string in addition to its bytes.
const STRING_OVERHEAD: u64 = 16;

/// The memory that a list entry needs later, for its PLEG record, its place in the pod and its status call.
const ENTRY_OVERHEAD: u64 = 1024;

/// The number of the field with the id, name, key or path, in every message that has strings.
const NAME_FIELD: u32 = 1;

/// The maximum length of a name. Names are copied more often than other strings: into requests, findings and tables.
const MAX_NAME_LEN: u64 = 16 * 1024;

/// The memory layout of a message: the size of its struct, and the numbers of the fields that are messages. All other
/// length-delimited fields are strings.
#[derive(Debug)]
pub struct MessageShape {
    size: usize,
    parts: &'static [(u32, &'static MessageShape)],
}

impl MessageShape {
    const fn new<M>(parts: &'static [(u32, &'static Self)]) -> Self {
        Self { size: size_of::<M>(), parts }
    }

    /// Whether the field with this number has the pairs of a map.
    pub fn is_map(&self, field: u64) -> bool {
        self.parts
            .iter()
            .any(|(number, part)| u64::from(*number) == field && std::ptr::eq(*part, &raw const PAIR))
    }
}

/// A message with a known [`MessageShape`].
pub trait HasShape {
    /// The shape of this message.
    const SHAPE: &'static MessageShape;
}

macro_rules! shapes {
    ($($name:ident = $message:ident { $($field:literal: $part:ident),* })+) => {
        $(static $name: MessageShape = MessageShape::new::<wire::$message>(&[$(($field, &$part)),*]);
        impl HasShape for wire::$message {
            const SHAPE: &'static MessageShape = &$name;
        })+

        /// Every shape under the name of its message.
        #[cfg(test)]
        pub(super) static ALL: &[(&str, &MessageShape)] = &[$((stringify!($message), &$name)),+];
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

/// The shapes of the messages of the kubelet's Pods API. Some of them have the same name as a
/// message of the CRI but another shape, so they have a module of their own.
mod pods_api {
    use super::{HasShape, MessageShape};
    use crate::cri::generated::pods as wire;

    shapes! {
        PAIR = Pair {}
        TIME = Time {}
        OWNER = OwnerReference {}
        METADATA = ObjectMeta { 8: TIME, 9: TIME, 11: PAIR, 12: PAIR, 13: OWNER }
        HANDLER = LifecycleHandler {}
        LIFECYCLE = Lifecycle { 1: HANDLER, 2: HANDLER }
        CONTAINER = Container { 12: LIFECYCLE }
        NFS = NfsVolumeSource {}
        CLAIM = PersistentVolumeClaimVolumeSource {}
        CSI = CsiVolumeSource {}
        SOURCE = VolumeSource { 7: NFS, 10: CLAIM, 28: CSI }
        VOLUME = Volume { 2: SOURCE }
        SPEC = PodSpec { 1: VOLUME, 2: CONTAINER, 20: CONTAINER }
        CONDITION = PodCondition { 4: TIME }
        WAITING = ContainerStateWaiting {}
        RUNNING = ContainerStateRunning { 1: TIME }
        TERMINATED = ContainerStateTerminated { 5: TIME, 6: TIME }
        STATE = ContainerState { 1: WAITING, 2: RUNNING, 3: TERMINATED }
        CONTAINER_STATUS = ContainerStatus { 2: STATE, 3: STATE }
        STATUS = PodStatus { 2: CONDITION, 7: TIME, 8: CONTAINER_STATUS, 10: CONTAINER_STATUS }
        POD = Pod { 1: METADATA, 2: SPEC, 3: STATUS }
        POD_LIST = ListPodsResponse { 1: POD }
    }
}

/// Decodes a stored message; `None` if the message is not valid or would need far more memory than its bytes justify.
pub fn decode_within_budget<M: HasShape + prost::Message + Default>(message: &Bytes) -> Option<M> {
    let mut budget = DecodeBudget::for_list();
    budget.allow_for(message.len());
    budget.charge(M::SHAPE, message).ok()?;
    M::decode(message.clone()).ok()
}

/// Compares the estimated memory of a message with the memory that its size allows.
#[derive(Debug)]
pub struct DecodeBudget {
    allowed: u64,
    charged: u64,
    bytes: u64,
    entries: u64,
}

impl DecodeBudget {
    /// Creates the budget of a list, in one message or several.
    pub const fn for_list() -> Self {
        Self::with(BASE_LIST_MEMORY)
    }

    /// Creates the budget of any other message.
    pub const fn for_message() -> Self {
        Self::with(BASE_MESSAGE_MEMORY)
    }

    const fn with(allowed: u64) -> Self {
        Self { allowed, charged: 0, bytes: 0, entries: 0 }
    }

    /// Increases the budget for received bytes.
    pub fn allow_for(&mut self, bytes: usize) {
        let bytes = u64::try_from(bytes).unwrap_or(u64::MAX);
        self.bytes = self.bytes.saturating_add(bytes);
        self.allowed = self.allowed.saturating_add(bytes.saturating_mul(MEMORY_PER_BYTE));
    }

    /// Returns the memory that has been charged.
    pub const fn charged(&self) -> u64 {
        self.charged
    }

    /// Charges an entry of a list. Returns the charged memory.
    pub fn charge_entry(&mut self, shape: &MessageShape, bytes: &[u8]) -> Result<u64, MessageError> {
        let before = self.charged;
        self.charge_again(ENTRY_OVERHEAD)?;
        self.charge(shape, bytes)?;
        Ok(self.charged - before)
    }

    /// Charges an entry of a list, whose memory is known.
    pub fn charge_again(&mut self, memory: u64) -> Result<(), MessageError> {
        self.entries += 1;
        self.charge_memory(memory)
    }

    /// Charges a message with all its fields.
    pub fn charge(&mut self, shape: &MessageShape, mut bytes: &[u8]) -> Result<(), MessageError> {
        self.charge_memory(u64::try_from(shape.size).unwrap_or(u64::MAX))?;
        while bytes.has_remaining() {
            let (field, kind) = decode_key(&mut bytes)?;
            if kind != WireType::LengthDelimited {
                skip_field(kind, field, &mut bytes, DecodeContext::default())?;
                continue;
            }
            let length = decode_varint(&mut bytes)?;
            let content = usize::try_from(length).ok().and_then(|length| bytes.split_at_checked(length));
            let Some((content, left)) = content else {
                return Err(MessageError::Undecodable(format!(
                    "a field of {length} bytes where {} are left",
                    bytes.len()
                )));
            };
            bytes = left;
            match shape.parts.iter().find(|(number, _)| *number == field) {
                Some((_, part)) => self.charge(part, content)?,
                None if field == NAME_FIELD && length > MAX_NAME_LEN => {
                    return Err(MessageError::Implausible(format!("it has a name of {length} bytes")));
                }
                None => self.charge_memory(length.saturating_add(STRING_OVERHEAD))?,
            }
        }
        Ok(())
    }

    /// Charges memory, and fails if the budget is exceeded.
    fn charge_memory(&mut self, memory: u64) -> Result<(), MessageError> {
        self.charged = self.charged.saturating_add(memory);
        if self.charged <= self.allowed {
            return Ok(());
        }
        let entries = match self.entries {
            0 => String::new(),
            entries => format!(", as {entries} entries and more"),
        };
        Err(MessageError::Implausible(format!(
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

    /// Returns a container of a simple pod, as containerd lists it.
    fn typical_container() -> wire::Container {
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

    fn memory_of<M: Message + HasShape>(message: &M) -> (u64, u64) {
        let bytes = message.encode_to_vec();
        let mut budget = DecodeBudget { allowed: u64::MAX, ..DecodeBudget::for_list() };
        budget.charge_entry(M::SHAPE, &bytes).unwrap();
        (budget.charged(), u64::try_from(bytes.len()).unwrap())
    }

    #[test]
    fn lists_of_real_runtimes_stay_within_the_budget() {
        let container = memory_of(&typical_container());
        let sandbox = memory_of(&wire::PodSandbox {
            id: "e".repeat(64),
            metadata: Some(wire::PodSandboxMetadata {
                name: "web-5d4f8c7b6d-x2x4z".into(),
                uid: "3f2504e0-4f89-11d3-9a0c-0305e82c3301".into(),
                namespace: "default".into(),
                attempt: 1,
            }),
            state: 0,
            created_at: 1_790_000_000_000_000_000,
            labels: typical_container().labels,
            annotations: vec![pair("kubernetes.io/config.seen", "2026-11-21T20:41:13.123456789Z")],
        });
        // A container that was created with crictl has no labels.
        let bare = memory_of(&wire::Container {
            labels: Vec::new(),
            annotations: Vec::new(),
            ..typical_container()
        });
        // More than any node has.
        let many = 20_000;
        for (memory, bytes) in [container, sandbox, bare] {
            assert!(
                many * memory < BASE_LIST_MEMORY + many * MEMORY_PER_BYTE * bytes,
                "{memory} for {bytes}"
            );
        }
    }

    #[test]
    fn many_empty_entries_are_refused() {
        let mut budget = DecodeBudget::for_list();
        budget.allow_for(8 << 20);
        let refused = (0..4 << 20).find_map(|_| budget.charge_entry(&CONTAINER, b"").err());
        let Some(MessageError::Implausible(why)) = refused else { panic!("{refused:?}") };
        assert!(why.starts_with("its 8.0 MiB would take more than 52.0 MiB of memory, as "), "{why}");
    }

    #[test]
    fn a_very_long_name_is_refused_and_a_long_annotation_is_not() {
        let mut budget = DecodeBudget::for_list();
        let long = "x".repeat(20_000);
        let named = wire::Container { id: long.clone(), ..Default::default() }.encode_to_vec();
        let why = budget.charge_entry(&CONTAINER, &named).unwrap_err();
        assert_eq!(why, MessageError::Implausible("it has a name of 20000 bytes".into()));
        let annotated = wire::Container { annotations: vec![pair("a", &long)], ..Default::default() };
        budget.charge_entry(&CONTAINER, &annotated.encode_to_vec()).unwrap();
    }

    #[test]
    fn stored_list_with_many_empty_entries_is_not_decoded() {
        let nothing = Bytes::from([0x0A, 0].repeat(1 << 20));
        assert_eq!(decode_within_budget::<wire::ListContainersResponse>(&nothing), None);
        let list = wire::ListContainersResponse { containers: vec![typical_container(); 100] };
        assert_eq!(decode_within_budget(&list.encode_to_vec().into()), Some(list));
    }

    #[test]
    fn many_empty_nested_messages_are_refused() {
        // Empty pairs in one container, and empty mounts in one status.
        let pairs: Vec<u8> = [0x42, 0].repeat(1 << 20);
        let mut budget = DecodeBudget::for_list();
        budget.allow_for(pairs.len());
        assert!(matches!(budget.charge_entry(&CONTAINER, &pairs), Err(MessageError::Implausible(_))));
        let status =
            wire::ContainerStatus { mounts: vec![wire::Mount::default(); 1 << 16], ..Default::default() };
        let answer = wire::ContainerStatusResponse { status: Some(status) }.encode_to_vec();
        let mut budget = DecodeBudget::for_message();
        budget.allow_for(answer.len());
        assert!(matches!(budget.charge(&CONTAINER_ANSWER, &answer), Err(MessageError::Implausible(_))));
    }

    /// The table of shapes above must have every field whose type is a message in the proto file.
    #[test]
    fn every_nested_message_is_in_the_table() {
        assert!(checked_fields(include_str!("../../proto/cri.proto"), ALL) > 25);
        assert!(checked_fields(include_str!("../../proto/pods.proto"), pods_api::ALL) > 25);
    }

    /// Checks the fields of a proto file whose type is a message, and returns how many there are.
    fn checked_fields(proto: &str, shapes: &[(&str, &'static MessageShape)]) -> usize {
        let shape_called = |name: &str| {
            shapes.iter().find(|(known, _)| known.eq_ignore_ascii_case(name)).map(|(_, shape)| *shape)
        };
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
        let count = wanted.len();
        for (outer, number, inner) in wanted {
            let part = outer.parts.iter().find(|(field, _)| *field == number);
            assert!(part.is_some_and(|(_, part)| std::ptr::eq(*part, inner)), "{outer:?} {number}");
        }
        count
    }
}
