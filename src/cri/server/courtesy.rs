//! What plegctl answers and never asks: the read-only part of the image service, and usage. crictl asks the image service
//! before nearly everything, so that without these it gets no further.

use prost::Message;
use prost::bytes::Bytes;

use super::Refusal;
use super::question::{Wanted, decoded, selectors};
use crate::cri::generated as wire;
use crate::cri::{Code, Container, ContainerState, Filter, Sandbox, SandboxState};

/// The service that images are asked of.
const IMAGES: &str = "runtime.v1.ImageService";

/// A question that plegctl answers and never asks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Courtesy {
    /// `ImageFsInfo`: where images are kept.
    ImageFilesystem,
    /// `ListImages`: every image, or those of this name.
    Images(Option<String>),
    /// `ImageStatus`: one image.
    Image(String),
    /// `ListContainerStats`: what containers use.
    ContainersUsage(Wanted<ContainerState>),
    /// `ListPodSandboxStats`: what pods use.
    SandboxesUsage(Wanted<SandboxState>),
    /// `PodSandboxStats`: what one pod uses.
    SandboxUsage(String),
}

impl Courtesy {
    /// The question that is asked at `path`; `None` if it is none of these.
    pub(super) fn read(path: &str, message: Bytes) -> Option<Result<Self, Refusal>> {
        let (service, method) = path.trim_start_matches('/').split_once('/')?;
        let read = match (service, method) {
            (IMAGES, "ImageFsInfo") => Ok(Self::ImageFilesystem),
            (IMAGES, "ListImages") => decoded::<wire::ListImagesRequest>(message).map(|request| {
                let image = request.filter.and_then(|filter| filter.image).map(|spec| spec.image);
                Self::Images(image.filter(|image| !image.is_empty()))
            }),
            (IMAGES, "ImageStatus") => decoded::<wire::ImageStatusRequest>(message)
                .map(|request| Self::Image(request.image.unwrap_or_default().image)),
            ("runtime.v1.RuntimeService", "ListContainerStats") => {
                decoded::<wire::ListContainerStatsRequest>(message).map(|request| {
                    let filter = request.filter.unwrap_or_default();
                    let labels = selectors(filter.label_selector);
                    Self::ContainersUsage(Wanted {
                        id: filter.id,
                        sandbox_id: filter.pod_sandbox_id,
                        filter: Filter { state: None, labels },
                    })
                })
            }
            ("runtime.v1.RuntimeService", "ListPodSandboxStats") => {
                decoded::<wire::ListPodSandboxStatsRequest>(message).map(|request| {
                    let filter = request.filter.unwrap_or_default();
                    let labels = selectors(filter.label_selector);
                    Self::SandboxesUsage(Wanted {
                        id: filter.id,
                        sandbox_id: String::new(),
                        filter: Filter { state: None, labels },
                    })
                })
            }
            ("runtime.v1.RuntimeService", "PodSandboxStats") => {
                decoded::<wire::PodSandboxStatsRequest>(message)
                    .map(|request| Self::SandboxUsage(request.pod_sandbox_id))
            }
            _ => return None,
        };
        Some(read)
    }
}

/// What a Go server says of a service or a method that it was not built with.
pub(super) fn unknown(path: &str) -> Refusal {
    let (service, method) = path.trim_start_matches('/').split_once('/').unwrap_or((path, ""));
    let words = if service == "runtime.v1.RuntimeService" {
        format!("unknown method {method} for service {service}")
    } else {
        format!("unknown service {service}")
    };
    Refusal::new(Code::Unimplemented, words)
}

/// An image that the runtime has.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct StoredImage {
    /// `sha256:…` of its configuration.
    pub id: String,
    /// `registry.example/web:v1`
    pub tag: String,
    /// `registry.example/web@sha256:…`
    pub digest: String,
    /// Bytes.
    pub size: u64,
}

/// What something uses.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Usage {
    /// When that was measured, in nanoseconds since the Unix epoch.
    pub at: i64,
    /// Processor time since the start, in nanoseconds.
    pub processor: u64,
    /// Processor time a second, in nanoseconds.
    pub rate: u64,
    /// Bytes of memory.
    pub memory: u64,
    /// Bytes written to its own layer.
    pub written: u64,
}

const fn number(value: u64) -> wire::UInt64Value {
    wire::UInt64Value { value }
}

impl Usage {
    /// Both together.
    #[must_use]
    pub fn and(self, other: Self) -> Self {
        Self {
            at: self.at.max(other.at),
            processor: self.processor.saturating_add(other.processor),
            rate: self.rate.saturating_add(other.rate),
            memory: self.memory.saturating_add(other.memory),
            written: self.written.saturating_add(other.written),
        }
    }

    fn cpu(self) -> wire::CpuUsage {
        wire::CpuUsage {
            timestamp: self.at,
            usage_core_nano_seconds: Some(number(self.processor)),
            usage_nano_cores: Some(number(self.rate)),
        }
    }

    fn memory(self) -> wire::MemoryUsage {
        wire::MemoryUsage {
            timestamp: self.at,
            working_set_bytes: Some(number(self.memory)),
            usage_bytes: Some(number(self.memory)),
            rss_bytes: Some(number(self.memory)),
        }
    }
}

impl From<StoredImage> for wire::Image {
    fn from(image: StoredImage) -> Self {
        Self {
            id: image.id,
            repo_tags: vec![image.tag],
            repo_digests: vec![image.digest],
            size: image.size,
            username: String::new(),
            pinned: false,
        }
    }
}

fn filesystem(at: i64, mountpoint: &str, used: u64) -> wire::FilesystemUsage {
    wire::FilesystemUsage {
        timestamp: at,
        fs_id: Some(wire::FilesystemIdentifier { mountpoint: mountpoint.to_owned() }),
        used_bytes: Some(number(used)),
        // As much as a file system of such files has.
        inodes_used: Some(number(used / 16_384)),
    }
}

fn container_usage(container: Container, usage: Usage, mountpoint: &str) -> wire::ContainerStats {
    let container = wire::Container::from(container);
    wire::ContainerStats {
        attributes: Some(wire::ContainerAttributes {
            id: container.id,
            metadata: container.metadata,
            labels: container.labels,
            annotations: container.annotations,
        }),
        cpu: Some(usage.cpu()),
        memory: Some(usage.memory()),
        writable_layer: Some(filesystem(usage.at, mountpoint, usage.written)),
    }
}

/// Containers and what they use.
pub type Used = Vec<(Container, Usage)>;

fn sandbox_usage((sandbox, containers): (Sandbox, Used), mountpoint: &str) -> wire::PodSandboxStats {
    let sandbox = wire::PodSandbox::from(sandbox);
    let whole = containers.iter().map(|(_, usage)| *usage).reduce(Usage::and).unwrap_or_default();
    let containers =
        containers.into_iter().map(|(container, usage)| container_usage(container, usage, mountpoint));
    wire::PodSandboxStats {
        attributes: Some(wire::PodSandboxAttributes {
            id: sandbox.id,
            metadata: sandbox.metadata,
            labels: sandbox.labels,
            annotations: sandbox.annotations,
        }),
        linux: Some(wire::LinuxPodSandboxStats {
            cpu: Some(whole.cpu()),
            memory: Some(whole.memory()),
            containers: containers.collect(),
        }),
    }
}

fn encoded(message: &impl Message) -> Bytes {
    message.encode_to_vec().into()
}

/// Answer to `ImageFsInfo`.
pub fn image_filesystem(at: i64, mountpoint: &str, used: u64) -> Bytes {
    let filesystem = filesystem(at, mountpoint, used);
    encoded(&wire::ImageFsInfoResponse {
        image_filesystems: vec![filesystem.clone()],
        container_filesystems: vec![filesystem],
    })
}

/// Answer to `ListImages`.
pub fn images(images: impl IntoIterator<Item = StoredImage>) -> Bytes {
    encoded(&wire::ListImagesResponse { images: images.into_iter().map(Into::into).collect() })
}

/// Answer to `ImageStatus`; an image that is not there is no error.
pub fn image(image: Option<StoredImage>) -> Bytes {
    encoded(&wire::ImageStatusResponse { image: image.map(Into::into) })
}

/// Answer to `ContainerStats`.
pub fn usage(container: Container, usage: Usage, mountpoint: &str) -> Bytes {
    encoded(&wire::ContainerUsageResponse { stats: Some(container_usage(container, usage, mountpoint)) })
}

/// Answer to `ListContainerStats`.
pub fn usages(containers: Used, mountpoint: &str) -> Bytes {
    let stats =
        containers.into_iter().map(|(container, usage)| container_usage(container, usage, mountpoint));
    encoded(&wire::ListContainerStatsResponse { stats: stats.collect() })
}

/// Answer to `PodSandboxStats`.
pub fn pod_usage(pod: (Sandbox, Used), mountpoint: &str) -> Bytes {
    encoded(&wire::PodSandboxStatsResponse { stats: Some(sandbox_usage(pod, mountpoint)) })
}

/// Answer to `ListPodSandboxStats`.
pub fn pod_usages(pods: impl IntoIterator<Item = (Sandbox, Used)>, mountpoint: &str) -> Bytes {
    let stats = pods.into_iter().map(|pod| sandbox_usage(pod, mountpoint));
    encoded(&wire::ListPodSandboxStatsResponse { stats: stats.collect() })
}
