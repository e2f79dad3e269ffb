//! The gRPC codecs: prost messages, each counted as it is decoded, and messages left as they are on the wire.
//!
//! Counting here means that the size is that of the bytes that came in, not of a message encoded once more.

use std::marker::PhantomData;

use prost::Message;
use prost::bytes::{Buf, BufMut, Bytes};
use tonic::Status;
use tonic::codec::{Codec, DecodeBuf, Decoder, EncodeBuf, Encoder};

/// A decoded message and the bytes it took on the wire, without gRPC's five-byte frame.
#[derive(Debug)]
pub struct Counted<M> {
    /// The message.
    pub message: M,
    /// Its size.
    pub bytes: u64,
}

/// Encodes `Request`, decodes `Response` and counts it.
#[derive(Debug)]
pub struct CountingCodec<Request, Response>(PhantomData<(Request, Response)>);

impl<Request, Response> Default for CountingCodec<Request, Response> {
    fn default() -> Self {
        Self(PhantomData)
    }
}

impl<Request, Response> Codec for CountingCodec<Request, Response>
where
    Request: Message + Send + 'static,
    Response: Message + Default + Send + 'static,
{
    type Encode = Request;
    type Decode = Counted<Response>;
    type Encoder = ProstEncoder<Request>;
    type Decoder = CountingDecoder<Response>;

    fn encoder(&mut self) -> Self::Encoder {
        ProstEncoder(PhantomData)
    }

    fn decoder(&mut self) -> Self::Decoder {
        CountingDecoder(PhantomData)
    }
}

#[derive(Debug)]
pub struct ProstEncoder<Request>(PhantomData<Request>);

impl<Request: Message> Encoder for ProstEncoder<Request> {
    type Item = Request;
    type Error = Status;

    fn encode(&mut self, item: Request, buffer: &mut EncodeBuf<'_>) -> Result<(), Status> {
        item.encode(buffer).map_err(|why| Status::internal(format!("cannot encode the request: {why}")))
    }
}

#[derive(Debug)]
pub struct CountingDecoder<Response>(PhantomData<Response>);

/// Starts the message of the status that stands for an undecodable answer.
pub const UNDECODABLE: &str = "undecodable answer: ";

impl<Response: Message + Default> Decoder for CountingDecoder<Response> {
    type Item = Counted<Response>;
    type Error = Status;

    fn decode(&mut self, buffer: &mut DecodeBuf<'_>) -> Result<Option<Counted<Response>>, Status> {
        let bytes = u64::try_from(buffer.remaining()).unwrap_or(u64::MAX);
        let message =
            Response::decode(buffer).map_err(|why| Status::internal(format!("{UNDECODABLE}{why}")))?;
        Ok(Some(Counted { message, bytes }))
    }
}

/// Messages as they are on the wire, in and out. The server's codec, and that of whoever measures or tests a runtime
/// without decoding it.
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
