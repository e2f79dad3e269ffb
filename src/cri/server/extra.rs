//! The simulator and the replay of captures serve the CRI to other programs, such as crictl. This module has the RPCs
//! that these programs send but plegctl itself does not: the read-only part of the image service, and resource usage.
//! crictl needs them, because it calls the image service before nearly every command.

use prost::bytes::Bytes;

use super::ServiceError;
use super::request::{ListFilter, decode_request};
use crate::cri::codec::encoded;
use crate::cri::generated as wire;
use crate::cri::{Code, Container, ContainerState, Sandbox, SandboxState};

/// The name of the image service.
const IMAGES: &str = "runtime.v1.ImageService";

/// A request that plegctl answers but never sends.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ExtraRequest {
    /// `ImageFsInfo`: the file system that stores images.
    ImageFilesystem,
    /// `ListImages`: all images, or those with this name.
    Images(Option<String>),
    /// `ImageStatus`: one image.
    Image(String),
    /// `ListContainerStats`: the usage of containers.
    ContainersUsage(ListFilter<ContainerState>),
    /// `ListPodSandboxStats`: the usage of pods.
    SandboxesUsage(ListFilter<SandboxState>),
    /// `PodSandboxStats`: the usage of one pod.
    SandboxUsage(String),
}

impl ExtraRequest {
    /// Decodes the request at `path`; `None` if the path is not one of these RPCs.
    pub(super) fn read(path: &str, message: Bytes) -> Option<Result<Self, ServiceError>> {
        let (service, method) = path.trim_start_matches('/').split_once('/')?;
        let read = match (service, method) {
            (IMAGES, "ImageFsInfo") => Ok(Self::ImageFilesystem),
            (IMAGES, "ListImages") => decode_request::<wire::ListImagesRequest>(message).map(|request| {
                let image = request.filter.and_then(|filter| filter.image).map(|spec| spec.image);
                Self::Images(image.filter(|image| !image.is_empty()))
            }),
            (IMAGES, "ImageStatus") => decode_request::<wire::ImageStatusRequest>(message)
                .map(|request| Self::Image(request.image.unwrap_or_default().image)),
            ("runtime.v1.RuntimeService", "ListContainerStats") => {
                decode_request::<wire::ListContainerStatsRequest>(message).map(|request| {
                    let filter = request.filter.unwrap_or_default();
                    let (id, sandbox_id) = (filter.id, filter.pod_sandbox_id);
                    Self::ContainersUsage(ListFilter::new(id, sandbox_id, None, filter.label_selector))
                })
            }
            ("runtime.v1.RuntimeService", "ListPodSandboxStats") => {
                decode_request::<wire::ListPodSandboxStatsRequest>(message).map(|request| {
                    let filter = request.filter.unwrap_or_default();
                    let (id, labels) = (filter.id, filter.label_selector);
                    Self::SandboxesUsage(ListFilter::new(id, String::new(), None, labels))
                })
            }
            ("runtime.v1.RuntimeService", "PodSandboxStats") => {
                decode_request::<wire::PodSandboxStatsRequest>(message)
                    .map(|request| Self::SandboxUsage(request.pod_sandbox_id))
            }
            _ => return None,
        };
        Some(read)
    }
}

/// Creates the error that a Go server returns if it does not have the called service or method.
pub(super) fn unknown(path: &str) -> ServiceError {
    let (service, method) = path.trim_start_matches('/').split_once('/').unwrap_or((path, ""));
    let words = if service == "runtime.v1.RuntimeService" {
        format!("unknown method {method} for service {service}")
    } else {
        format!("unknown service {service}")
    };
    ServiceError::new(Code::Unimplemented, words)
}

/// An image in the runtime's storage.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct StoredImage {
    /// The digest of the image's configuration: `sha256:…`.
    pub id: String,
    /// The reference with a tag, for example `registry.example/web:v1`.
    pub tag: String,
    /// The reference with a digest, for example `registry.example/web@sha256:…`.
    pub digest: String,
    /// The size in bytes.
    pub size: u64,
}

/// The resource usage of a container or a pod.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Usage {
    /// The time of the measurement, in nanoseconds since the Unix epoch.
    pub at: i64,
    /// The processor time since the start, in nanoseconds.
    pub processor: u64,
    /// The processor time per second, in nanoseconds.
    pub rate: u64,
    /// The memory in bytes.
    pub memory: u64,
    /// The number of bytes written to the container's own layer.
    pub written: u64,
}

const fn number(value: u64) -> wire::UInt64Value {
    wire::UInt64Value { value }
}

impl Usage {
    /// Returns the sum of two usages.
    #[must_use]
    pub fn plus(self, other: Self) -> Self {
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
            ..Self::default()
        }
    }
}

fn filesystem(at: i64, mountpoint: &str, used: u64) -> wire::FilesystemUsage {
    wire::FilesystemUsage {
        timestamp: at,
        fs_id: Some(wire::FilesystemIdentifier { mountpoint: mountpoint.to_owned() }),
        used_bytes: Some(number(used)),
        // Only the simulator has real values. It assumes that a file has 16 KiB on average.
        inodes_used: Some(number(used / 16_384)),
    }
}

/// Creates the part of an answer that describes one container.
fn container_stats(container: Container, usage: Usage, mountpoint: &str) -> wire::ContainerStats {
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

/// Containers with their usage.
pub type ContainerUsages = Vec<(Container, Usage)>;

/// Creates the part of an answer that describes one pod and its containers.
fn pod_stats((sandbox, containers): (Sandbox, ContainerUsages), mountpoint: &str) -> wire::PodSandboxStats {
    let sandbox = wire::PodSandbox::from(sandbox);
    let whole = containers.iter().map(|(_, usage)| *usage).reduce(Usage::plus).unwrap_or_default();
    let containers =
        containers.into_iter().map(|(container, usage)| container_stats(container, usage, mountpoint));
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

/// Encodes the answer to `ImageFsInfo`.
pub fn image_filesystem(at: i64, mountpoint: &str, used: u64) -> Bytes {
    let filesystem = filesystem(at, mountpoint, used);
    encoded(&wire::ImageFsInfoResponse {
        image_filesystems: vec![filesystem.clone()],
        container_filesystems: vec![filesystem],
    })
}

/// Encodes the answer to `ListImages`.
pub fn images(images: impl IntoIterator<Item = StoredImage>) -> Bytes {
    encoded(&wire::ListImagesResponse { images: images.into_iter().map(Into::into).collect() })
}

/// Encodes the answer to `ImageStatus`; a missing image is not an error.
pub fn image(image: Option<StoredImage>) -> Bytes {
    encoded(&wire::ImageStatusResponse { image: image.map(Into::into) })
}

/// Encodes the answer to `ContainerStats`. plegctl sends this request too, so it is a [`super::CallRequest`] and not an
/// [`ExtraRequest`].
pub fn usage(container: Container, usage: Usage, mountpoint: &str) -> Bytes {
    encoded(&wire::ContainerUsageResponse { stats: Some(container_stats(container, usage, mountpoint)) })
}

/// Encodes the answer to `ListContainerStats`.
pub fn usages(containers: ContainerUsages, mountpoint: &str) -> Bytes {
    let stats =
        containers.into_iter().map(|(container, usage)| container_stats(container, usage, mountpoint));
    encoded(&wire::ListContainerStatsResponse { stats: stats.collect() })
}

/// Encodes the answer to `PodSandboxStats`: the usage of one pod, which the CRI calls a pod sandbox.
pub fn pod_usage(pod: (Sandbox, ContainerUsages), mountpoint: &str) -> Bytes {
    encoded(&wire::PodSandboxStatsResponse { stats: Some(pod_stats(pod, mountpoint)) })
}

/// Encodes the answer to `ListPodSandboxStats`.
pub fn pod_usages(pods: impl IntoIterator<Item = (Sandbox, ContainerUsages)>, mountpoint: &str) -> Bytes {
    let stats = pods.into_iter().map(|pod| pod_stats(pod, mountpoint));
    encoded(&wire::ListPodSandboxStatsResponse { stats: stats.collect() })
}
