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

/// Decodes the entries of one list message, and appends them to `into`.
pub async fn decode_entries<L, T>(
    bytes: Bytes,
    budget: &mut DecodeBudget,
    into: &mut Vec<T>,
    progress: &AnswerProgress,
) -> Result<(), MessageError>
where
    L: ListResponse,
    T: From<L::ListItem>,
{
    budget.allow_for(bytes.len());
    let mut count = 0_usize;
    let mut left = bytes.clone();
    let mut done = 0;
    while let Some(entry) = next_entry(&mut left)? {
        budget.charge_entry(L::ListItem::SHAPE, &entry)?;
        count += 1;
        yield_after_slice(&mut done, &entry, progress).await;
    }
    // The exact size is reserved, because growing by doubling would need three times the memory for a moment.
    into.reserve_exact(count);
    let mut left = bytes;
    while let Some(entry) = next_entry(&mut left)? {
        into.push(L::ListItem::decode(entry.clone())?.into());
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
    use std::sync::Arc;

    use super::*;
    use crate::clock::{Clock, ManualClock};
    use crate::cri::Container;

    async fn listed(bytes: Bytes) -> Result<Vec<Container>, MessageError> {
        let mut all = Vec::new();
        let mut budget = DecodeBudget::for_list();
        let clock: Arc<dyn Clock> = Arc::new(ManualClock::default());
        let progress = AnswerProgress::new(&clock);
        decode_entries::<wire::ListContainersResponse, Container>(bytes, &mut budget, &mut all, &progress)
            .await?;
        Ok(all)
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
}
