//! Decodes the bytes of messages within a memory limit. A list is decoded entry by entry into the plain types of `node`.
//!
//! Before a message is decoded, a [`DecodeBudget`] estimates the memory that it needs. Lists are decoded entry by entry, so
//! that the generated and the plain types of a whole list are never in memory together, and a deadline can stop the
//! decoding.

use prost::Message;
use prost::bytes::{Buf, BufMut, Bytes};
use prost::encoding::{DecodeContext, WireType, decode_key, decode_varint, skip_field};
use tokio::task::yield_now;
use tonic::Status;
use tonic::codec::{Codec, DecodeBuf, Decoder, EncodeBuf, Encoder};

use super::decode_budget::{DecodeBudget, HasShape, MessageError};
use super::decoded_list::ListDecoder;
use super::generated as wire;
use super::progress::AnswerProgress;

/// The codec for the gRPC library, which leaves messages as bytes.
#[derive(Clone, Copy, Debug, Default)]
pub struct RawCodec;

impl Codec for RawCodec {
    type Encode = Bytes;
    type Decode = Bytes;
    type Encoder = Self;
    type Decoder = Self;

    fn encoder(&mut self) -> Self {
        *self
    }

    fn decoder(&mut self) -> Self {
        *self
    }
}

impl Encoder for RawCodec {
    type Item = Bytes;
    type Error = Status;

    fn encode(&mut self, message: Bytes, buffer: &mut EncodeBuf<'_>) -> Result<(), Status> {
        buffer.put(message);
        Ok(())
    }
}

impl Decoder for RawCodec {
    type Item = Bytes;
    type Error = Status;

    fn decode(&mut self, buffer: &mut DecodeBuf<'_>) -> Result<Option<Bytes>, Status> {
        let size = buffer.remaining();
        Ok(Some(buffer.copy_to_bytes(size)))
    }
}

/// Encodes a message.
pub fn encoded(message: &impl Message) -> Bytes {
    message.encode_to_vec().into()
}

/// A list answer of the CRI. Its only field contains the entries.
pub trait ListResponse {
    /// The type of an entry.
    type ListItem: Message + Default + HasShape;
}

impl ListResponse for wire::ListPodSandboxResponse {
    type ListItem = wire::PodSandbox;
}

impl ListResponse for wire::StreamPodSandboxesResponse {
    type ListItem = wire::PodSandbox;
}

impl ListResponse for wire::ListContainersResponse {
    type ListItem = wire::Container;
}

impl ListResponse for wire::StreamContainersResponse {
    type ListItem = wire::Container;
}

/// The number of the field that contains the entries, in every list of the CRI.
const ENTRIES: u32 = 1;

/// The number of bytes that are decoded before other tasks may run, which needs a few milliseconds.
const SLICE_BYTES: usize = 128 * 1024;

/// The fixed cost of decoding an entry in addition to its bytes, in bytes.
const ENTRY_COST: usize = 64;

/// Decodes one message. Returns the message and its estimated memory in bytes.
pub fn decode_message<A: Message + Default + HasShape>(bytes: Bytes) -> Result<(A, u64), MessageError> {
    let mut budget = DecodeBudget::for_message();
    budget.allow_for(bytes.len());
    budget.charge(A::SHAPE, &bytes)?;
    Ok((A::decode(bytes)?, budget.charged()))
}

/// Decodes the entries of one list message, and appends them to `list`.
pub async fn decode_entries<M, T>(
    bytes: Bytes,
    budget: &mut DecodeBudget,
    list: &mut ListDecoder<T>,
    progress: &AnswerProgress,
) -> Result<(), MessageError>
where
    M: Message + Default + HasShape,
    T: From<M>,
{
    budget.allow_for(bytes.len());
    list.count_kept(bytes.len());
    let mut count = 0_usize;
    let mut left = bytes.clone();
    let mut done = 0;
    while let Some(entry) = next_entry(&mut left)? {
        list.charge::<M>(&entry, budget)?;
        count += 1;
        yield_after_slice(&mut done, &entry, progress).await;
    }
    list.reserve(count);
    let mut left = bytes;
    while let Some(entry) = next_entry(&mut left)? {
        list.add(|| M::decode(entry.clone()).map(Into::into))?;
        yield_after_slice(&mut done, &entry, progress).await;
    }
    Ok(())
}

/// Lets other tasks run after each slice of [`SLICE_BYTES`], above all the timers of deadlines.
async fn yield_after_slice(done: &mut usize, entry: &Bytes, progress: &AnswerProgress) {
    *done += entry.len() + ENTRY_COST;
    if *done >= SLICE_BYTES {
        *done = 0;
        progress.still_decoding();
        yield_now().await;
    }
}

/// Splits the next entry off a list, and skips unknown fields before it.
fn next_entry(list: &mut Bytes) -> Result<Option<Bytes>, MessageError> {
    while list.has_remaining() {
        let (field, wire) = decode_key(list)?;
        if (field, wire) != (ENTRIES, WireType::LengthDelimited) {
            skip_field(wire, field, list, DecodeContext::default())?;
            continue;
        }
        let length = decode_varint(list)?;
        return match usize::try_from(length).ok().filter(|length| *length <= list.len()) {
            Some(length) => Ok(Some(list.split_to(length))),
            None => Err(MessageError::Undecodable(format!(
                "an entry of {length} bytes where {} are left",
                list.len()
            ))),
        };
    }
    Ok(None)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;
    use std::sync::Arc;

    use proptest::prelude::*;

    use super::*;
    use crate::clock::{Clock, ManualClock};
    use crate::cri::{Container, ContainerState, DecodedList, Labels};

    async fn listed_after(
        bytes: Bytes,
        earlier: Option<DecodedList<Container>>,
    ) -> Result<DecodedList<Container>, MessageError> {
        let (mut list, mut budget) = (ListDecoder::new(earlier), DecodeBudget::for_list());
        let clock: Arc<dyn Clock> = Arc::new(ManualClock::default());
        let progress = AnswerProgress::new(&clock);
        decode_entries::<wire::Container, _>(bytes, &mut budget, &mut list, &progress).await?;
        Ok(list.finish())
    }

    async fn listed(bytes: Bytes) -> Result<Vec<Container>, MessageError> {
        Ok(listed_after(bytes, None).await?.into_items())
    }

    #[tokio::test]
    async fn a_list_is_decoded_as_prost_decodes_it() {
        let containers: Vec<_> = (0..3000)
            .map(|number| wire::Container { id: format!("c{number}"), ..Default::default() })
            .collect();
        let mut bytes = wire::ListContainersResponse { containers: containers.clone() }.encode_to_vec();
        // The list has an unknown field at the beginning and at the end.
        let unknown = [0x92, 0x03, 2, b'x', b'y'];
        bytes.splice(0..0, unknown);
        bytes.extend(unknown);
        assert_eq!(listed(Bytes::new()).await, Ok(Vec::new()));
        let expected: Vec<Container> = containers.into_iter().map(Into::into).collect();
        assert_eq!(listed(bytes.into()).await.unwrap(), expected);
    }

    #[tokio::test]
    async fn a_truncated_list_is_undecodable() {
        for bytes in [&[0x0a][..], &[0x0a, 5, 1], &[0x0a, 0xff], &[0x0b], &[0x0a, 2, 0x0a, 9], &[7]] {
            let error = listed(Bytes::copy_from_slice(bytes)).await.unwrap_err();
            assert!(matches!(error, MessageError::Undecodable(_)), "{bytes:?}: {error}");
        }
    }

    fn pair((key, value): &(String, String)) -> wire::Pair {
        wire::Pair { key: key.clone(), value: value.clone() }
    }

    fn pairs() -> impl Strategy<Value = Vec<(String, String)>> {
        prop::collection::vec(("[ab]{0,2}", "[a-c]{0,2}"), 0..6)
    }

    fn container() -> impl Strategy<Value = wire::Container> {
        ("[a-d]{0,2}", 0..3, pairs(), pairs()).prop_map(|(id, state, labels, annotations)| wire::Container {
            id,
            state,
            labels: labels.iter().map(pair).collect(),
            annotations: annotations.iter().map(pair).collect(),
            ..Default::default()
        })
    }

    /// Some of these containers in another order, with other orders of labels, and some others.
    fn later(containers: Vec<wire::Container>) -> impl Strategy<Value = Vec<wire::Container>> {
        let reordered = containers.into_iter().map(|container| {
            (Just(container.clone()), Just(container.labels).prop_shuffle())
                .prop_map(|(container, labels)| wire::Container { labels, ..container })
        });
        let all = (reordered.collect::<Vec<_>>(), prop::collection::vec(container(), 0..3));
        all.prop_map(|(reordered, others)| reordered.into_iter().chain(others).collect::<Vec<_>>())
            .prop_shuffle()
    }

    fn encoded_list(containers: Vec<wire::Container>) -> Bytes {
        encoded(&wire::ListContainersResponse { containers })
    }

    /// The items with one order of labels; of pairs with the same key, the last one counts.
    fn in_one_order(items: &[Container]) -> Vec<Container> {
        let labels = |labels: &Labels| labels.iter().collect::<BTreeMap<_, _>>().into_iter().collect();
        let item = |item: &Container| Container {
            labels: labels(&item.labels),
            annotations: labels(&item.annotations),
            ..item.clone()
        };
        items.iter().map(item).collect()
    }

    fn blocking<T>(work: impl Future<Output = T>) -> T {
        tokio::runtime::Builder::new_current_thread().build().unwrap().block_on(work)
    }

    proptest! {
        #[test]
        fn list_after_another_one_is_decoded_as_if_it_came_alone(
            (first, second) in prop::collection::vec(container(), 0..12)
                .prop_flat_map(|first| (Just(first.clone()), later(first))),
        ) {
            let second = encoded_list(second);
            let alone = blocking(listed(second.clone())).unwrap();
            let last = blocking(listed_after(encoded_list(first), Some(DecodedList::default()))).unwrap();
            let after = blocking(listed_after(second, Some(last))).unwrap();
            prop_assert_eq!(in_one_order(after.items()), in_one_order(&alone));
        }
    }

    #[tokio::test]
    async fn only_changed_items_of_a_small_list_are_decoded_again() {
        let named = |number: usize, state: i32| {
            let labels = ["a", "b", "c"].map(|key| wire::Pair { key: key.into(), value: key.into() });
            wire::Container { id: format!("c{number}"), state, labels: labels.into(), ..Default::default() }
        };
        let first = encoded_list((0..9).map(|number| named(number, 1)).collect());
        let last = listed_after(first.clone(), Some(DecodedList::default())).await.unwrap();
        let addresses = |list: &[Container]| -> Vec<_> { list.iter().map(|item| item.id.as_ptr()).collect() };
        let before = addresses(last.items());
        let mut next: Vec<_> = (0..9).rev().map(|number| named(number, i32::from(number != 4))).collect();
        for item in &mut next {
            item.labels.reverse();
        }
        let after = listed_after(encoded_list(next), Some(last)).await.unwrap();
        let mut same = addresses(after.items());
        same.reverse();
        let decoded = before.iter().zip(&same).map(|(before, after)| before != after);
        assert_eq!(
            decoded.zip(0..).filter(|(is_new, _)| *is_new).map(|(_, item)| item).collect::<Vec<_>>(),
            [4]
        );
        assert_eq!(after.items()[4].state, ContainerState::Created);
        assert_eq!(after.kept().items().len(), 9);
        assert!(listed_after(first, None).await.unwrap().kept().items().is_empty(), "no list comes after it");
        let large = wire::Container { image_ref: "x".repeat(1 << 20), ..named(0, 1) };
        let large = listed_after(encoded_list(vec![large]), Some(DecodedList::default())).await.unwrap();
        assert_eq!((large.items().len(), large.kept().items().len()), (1, 0));
    }
}
