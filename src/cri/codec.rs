//! Messages as bytes, and from bytes into plain node types within a bound.
//!
//! The gRPC library hands over bytes. They are weighed before anything is made of them, and a list is decoded an entry at
//! a time: what the wire has and what is kept of it are never both in memory, and a deadline can end it half-way.

use prost::Message;
use prost::bytes::{Buf, BufMut, Bytes};
use prost::encoding::{DecodeContext, WireType, decode_key, decode_varint, skip_field};
use tokio::task::yield_now;
use tonic::Status;
use tonic::codec::{Codec, DecodeBuf, Decoder, EncodeBuf, Encoder};

use super::arrival::Arrival;
use super::generated as wire;
use super::weight::{Fault, Scale, Weighed};

/// Messages as they are on the wire.
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

/// A list of the CRI: it has one field, and that are its entries.
pub trait Listing {
    /// One of them.
    type Entry: Message + Default + Weighed;
}

impl Listing for wire::ListPodSandboxResponse {
    type Entry = wire::PodSandbox;
}

impl Listing for wire::StreamPodSandboxesResponse {
    type Entry = wire::PodSandbox;
}

impl Listing for wire::ListContainersResponse {
    type Entry = wire::Container;
}

impl Listing for wire::StreamContainersResponse {
    type Entry = wire::Container;
}

/// The field that holds the entries, in every list of the CRI.
const ENTRIES: u32 = 1;

/// How many bytes are handled between two looks at the time: a millisecond's work, or a few.
const SLICE: usize = 128 * 1024;

/// What an entry costs beside its bytes, in bytes.
const OF_ENTRY: usize = 64;

/// One message.
pub fn message<A: Message + Default + Weighed>(bytes: Bytes) -> Result<(A, u64), Fault> {
    let mut scale = Scale::of_message();
    scale.grant(bytes.len());
    scale.put(A::SHAPE, &bytes)?;
    Ok((A::decode(bytes)?, scale.weight()))
}

/// The entries of one message of a list, after those that are there already.
pub async fn entries<L, T>(
    bytes: Bytes,
    scale: &mut Scale,
    into: &mut Vec<T>,
    arrival: &Arrival,
) -> Result<(), Fault>
where
    L: Listing,
    T: From<L::Entry>,
{
    scale.grant(bytes.len());
    let mut count = 0_usize;
    let mut left = bytes.clone();
    let mut done = 0;
    while let Some(entry) = next_entry(&mut left)? {
        scale.put_entry(L::Entry::SHAPE, &entry)?;
        count += 1;
        rest(&mut done, &entry, arrival).await;
    }
    // Exactly: growing by doubling would hold three times as much for a moment.
    into.reserve_exact(count);
    let mut left = bytes;
    while let Some(entry) = next_entry(&mut left)? {
        into.push(L::Entry::decode(entry.clone())?.into());
        rest(&mut done, &entry, arrival).await;
    }
    Ok(())
}

/// Lets others do something, deadlines above all, after each slice.
async fn rest(done: &mut usize, entry: &Bytes, arrival: &Arrival) {
    *done += entry.len() + OF_ENTRY;
    if *done >= SLICE {
        *done = 0;
        arrival.goes_on();
        yield_now().await;
    }
}

/// Takes the next entry from the bytes of a list, and what else is before it.
fn next_entry(list: &mut Bytes) -> Result<Option<Bytes>, Fault> {
    while list.has_remaining() {
        let (field, wire) = decode_key(list)?;
        if (field, wire) != (ENTRIES, WireType::LengthDelimited) {
            skip_field(wire, field, list, DecodeContext::default())?;
            continue;
        }
        let length = decode_varint(list)?;
        return match usize::try_from(length).ok().filter(|length| *length <= list.len()) {
            Some(length) => Ok(Some(list.split_to(length))),
            None => {
                Err(Fault::Undecodable(format!("an entry of {length} bytes where {} are left", list.len())))
            }
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

    async fn listed(bytes: Bytes) -> Result<Vec<Container>, Fault> {
        let mut all = Vec::new();
        let mut scale = Scale::of_list();
        let clock: Arc<dyn Clock> = Arc::new(ManualClock::default());
        let arrival = Arrival::awaited(&clock);
        entries::<wire::ListContainersResponse, Container>(bytes, &mut scale, &mut all, &arrival).await?;
        Ok(all)
    }

    #[tokio::test]
    async fn a_list_comes_out_as_prost_would_decode_it() {
        let containers: Vec<_> = (0..3000)
            .map(|number| wire::Container { id: format!("c{number}"), ..Default::default() })
            .collect();
        let mut bytes = wire::ListContainersResponse { containers: containers.clone() }.encode_to_vec();
        // A field that nobody knows, in the middle and at the end.
        let unknown = [0x92, 0x03, 2, b'x', b'y'];
        bytes.splice(0..0, unknown);
        bytes.extend(unknown);
        assert_eq!(listed(Bytes::new()).await, Ok(Vec::new()));
        let expected: Vec<Container> = containers.into_iter().map(Into::into).collect();
        assert_eq!(listed(bytes.into()).await.unwrap(), expected);
    }

    #[tokio::test]
    async fn what_is_cut_off_is_undecodable() {
        for bytes in [&[0x0a][..], &[0x0a, 5, 1], &[0x0a, 0xff], &[0x0b], &[0x0a, 2, 0x0a, 9], &[7]] {
            let fault = listed(Bytes::copy_from_slice(bytes)).await.unwrap_err();
            assert!(matches!(fault, Fault::Undecodable(_)), "{bytes:?}: {fault}");
        }
    }
}
