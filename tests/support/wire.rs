//! The messages of the CRI as the product's own proto has them, and the codec that leaves them as bytes.
//!
//! The fake speaks in bytes so that a big node is encoded once, and so that it can also say what no message says.

use plegctl::cri::Rpc;
use prost::bytes::{Buf, BufMut, Bytes};
use tonic::Status;
use tonic::codec::{Codec, DecodeBuf, Decoder, EncodeBuf, Encoder};

#[expect(missing_docs, reason = "generated from proto/cri.proto, which has the comments")]
#[expect(clippy::pedantic, reason = "generated")]
mod generated {
    include!("../../src/cri/generated/runtime.v1.rs");
}

pub use generated::*;

/// Every RPC that the fake knows.
pub const RPCS: [Rpc; 11] = [
    Rpc::Version,
    Rpc::Status,
    Rpc::RuntimeConfig,
    Rpc::ListPodSandbox,
    Rpc::PodSandboxStatus,
    Rpc::ListContainers,
    Rpc::ContainerStatus,
    Rpc::GetContainerEvents,
    Rpc::StreamPodSandboxes,
    Rpc::StreamContainers,
    Rpc::ContainerStats,
];

/// A label or an annotation.
pub fn pair(key: &str, value: &str) -> Pair {
    Pair { key: key.to_owned(), value: value.to_owned() }
}

/// Messages go in and out as they are on the wire.
#[derive(Clone, Copy, Debug, Default)]
pub struct RawCodec;

impl Codec for RawCodec {
    type Encode = Bytes;
    type Decode = Bytes;
    type Encoder = Self;
    type Decoder = Self;

    fn encoder(&mut self) -> Self {
        Self
    }

    fn decoder(&mut self) -> Self {
        Self
    }
}

impl Encoder for RawCodec {
    type Item = Bytes;
    type Error = Status;

    fn encode(&mut self, item: Bytes, buffer: &mut EncodeBuf<'_>) -> Result<(), Status> {
        buffer.put(item);
        Ok(())
    }
}

impl Decoder for RawCodec {
    type Item = Bytes;
    type Error = Status;

    fn decode(&mut self, buffer: &mut DecodeBuf<'_>) -> Result<Option<Bytes>, Status> {
        Ok(Some(buffer.copy_to_bytes(buffer.remaining())))
    }
}
