//! RPCs that plegctl serves but never sends: the read-only part of the image service, and usage. crictl calls the
//! image service before nearly every command, so it needs these.

use prost::Message;
use prost::bytes::Bytes;

use super::ServiceError;
use super::request::{ListFilter, decoded, selectors};
use crate::cri::generated as wire;
use crate::cri::{Code, Container, ContainerState, Filter, Sandbox, SandboxState};

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
            (IMAGES, "ListImages") => decoded::<wire::ListImagesRequest>(message).map(|request| {
                let image = request.filter.and_then(|filter| filter.image).map(|spec| spec.image);
                Self::Images(image.filter(|image| !image.is_empty()))
            }),
            (IMAGES, "ImageStatus") => decoded::<wire::ImageStatusRequest>(message)
                .map(|request| Self::Image(request.image.unwrap_or_default().image)),
            ("runtime.v1.RuntimeService", "ListContainerStats") => {
                decoded::<wire::ListContainerStatsRequest>(message).map(|request| {
                    let filter = request.filter.unwrap_or_default();
                    let (id, sandbox_id) = (filter.id, filter.pod_sandbox_id);
                    Self::ContainersUsage(usage_filter(id, sandbox_id, filter.label_selector))
                })
            }
            ("runtime.v1.RuntimeService", "ListPodSandboxStats") => {
                decoded::<wire::ListPodSandboxStatsRequest>(message).map(|request| {
                    let filter = request.filter.unwrap_or_default();
                    Self::SandboxesUsage(usage_filter(filter.id, String::new(), filter.label_selector))
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

/// The filter of a request for the resource usage of sandboxes or containers.
fn usage_filter<S>(id: String, sandbox_id: String, labels: Vec<wire::Pair>) -> ListFilter<S> {
    ListFilter { id, sandbox_id, filter: Filter { state: None, labels: selectors(labels) } }
}

/// The error of a Go server for a service or a method that it does not have.
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
    /// `sha256:…` of the image's configuration.
    pub id: String,
    /// `registry.example/web:v1`
    pub tag: String,
    /// `registry.example/web@sha256:…`
    pub digest: String,
    /// Size in bytes.
    pub size: u64,
}

/// The usage of a container or a pod.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Usage {
    /// When it was measured, in nanoseconds since the Unix epoch.
    pub at: i64,
    /// Processor time since the start, in nanoseconds.
    pub processor: u64,
    /// Processor time per second, in nanoseconds.
    pub rate: u64,
    /// Bytes of memory.
    pub memory: u64,
    /// Bytes written to the container's own layer.
    pub written: u64,
}

const fn number(value: u64) -> wire::UInt64Value {
    wire::UInt64Value { value }
}

impl Usage {
    /// The sum of two usages.
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
        // A file system with files of 16 KiB has about this many inodes.
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

/// Containers with their usage.
pub type ContainerUsages = Vec<(Container, Usage)>;

fn sandbox_usage(
    (sandbox, containers): (Sandbox, ContainerUsages),
    mountpoint: &str,
) -> wire::PodSandboxStats {
    let sandbox = wire::PodSandbox::from(sandbox);
    let whole = containers.iter().map(|(_, usage)| *usage).reduce(Usage::plus).unwrap_or_default();
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

/// Answer to `ImageStatus`; a missing image is not an error.
pub fn image(image: Option<StoredImage>) -> Bytes {
    encoded(&wire::ImageStatusResponse { image: image.map(Into::into) })
}

/// Answer to `ContainerStats`.
pub fn usage(container: Container, usage: Usage, mountpoint: &str) -> Bytes {
    encoded(&wire::ContainerUsageResponse { stats: Some(container_usage(container, usage, mountpoint)) })
}

/// Answer to `ListContainerStats`.
pub fn usages(containers: ContainerUsages, mountpoint: &str) -> Bytes {
    let stats =
        containers.into_iter().map(|(container, usage)| container_usage(container, usage, mountpoint));
    encoded(&wire::ListContainerStatsResponse { stats: stats.collect() })
}

/// Answer to `PodSandboxStats`.
pub fn pod_usage(pod: (Sandbox, ContainerUsages), mountpoint: &str) -> Bytes {
    encoded(&wire::PodSandboxStatsResponse { stats: Some(sandbox_usage(pod, mountpoint)) })
}

/// Answer to `ListPodSandboxStats`.
pub fn pod_usages(pods: impl IntoIterator<Item = (Sandbox, ContainerUsages)>, mountpoint: &str) -> Bytes {
    let stats = pods.into_iter().map(|pod| sandbox_usage(pod, mountpoint));
    encoded(&wire::ListPodSandboxStatsResponse { stats: stats.collect() })
}
