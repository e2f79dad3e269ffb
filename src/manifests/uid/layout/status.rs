//! The status. It is empty in nearly every static pod, and printed nevertheless.

use super::PrintKind::{Bool, Int, List, Map, Pointer, Quantity, Str, Struct, Time};
use super::container::RESOURCE_REQUIREMENTS;
use super::{Layout, field};

pub static CONTAINER_EXTENDED_RESOURCE_REQUEST: Layout = Layout {
    fields: &[
        field("ContainerName", "containerName", "string", Str),
        field("ResourceName", "resourceName", "string", Str),
        field("RequestName", "requestName", "string", Str),
    ],
};

pub static CONTAINER_STATE: Layout = Layout {
    fields: &[
        field(
            "Waiting",
            "waiting",
            "*core.ContainerStateWaiting",
            Pointer(&Struct(&CONTAINER_STATE_WAITING)),
        ),
        field(
            "Running",
            "running",
            "*core.ContainerStateRunning",
            Pointer(&Struct(&CONTAINER_STATE_RUNNING)),
        ),
        field(
            "Terminated",
            "terminated",
            "*core.ContainerStateTerminated",
            Pointer(&Struct(&CONTAINER_STATE_TERMINATED)),
        ),
    ],
};

pub static CONTAINER_STATE_RUNNING: Layout =
    Layout { fields: &[field("StartedAt", "startedAt", "v1.Time", Time)] };

pub static CONTAINER_STATE_TERMINATED: Layout = Layout {
    fields: &[
        field("ExitCode", "exitCode", "int32", Int),
        field("Signal", "signal", "int32", Int),
        field("Reason", "reason", "string", Str),
        field("Message", "message", "string", Str),
        field("StartedAt", "startedAt", "v1.Time", Time),
        field("FinishedAt", "finishedAt", "v1.Time", Time),
        field("ContainerID", "containerID", "string", Str),
    ],
};

pub static CONTAINER_STATE_WAITING: Layout = Layout {
    fields: &[field("Reason", "reason", "string", Str), field("Message", "message", "string", Str)],
};

pub static CONTAINER_STATUS: Layout = Layout {
    fields: &[
        field("Name", "name", "string", Str),
        field("State", "state", "core.ContainerState", Struct(&CONTAINER_STATE)),
        field("LastTerminationState", "lastState", "core.ContainerState", Struct(&CONTAINER_STATE)),
        field("Ready", "ready", "bool", Bool),
        field("RestartCount", "restartCount", "int32", Int),
        field("Image", "image", "string", Str),
        field("ImageID", "imageID", "string", Str),
        field("ContainerID", "containerID", "string", Str),
        field("Started", "started", "*bool", Pointer(&Bool)),
        field("AllocatedResources", "allocatedResources", "core.ResourceList", Map(&Quantity)),
        field(
            "Resources",
            "resources",
            "*core.ResourceRequirements",
            Pointer(&Struct(&RESOURCE_REQUIREMENTS)),
        ),
        field(
            "VolumeMounts",
            "volumeMounts",
            "[]core.VolumeMountStatus",
            List(&Struct(&VOLUME_MOUNT_STATUS)),
        )
        .since(30),
        field("User", "user", "*core.ContainerUser", Pointer(&Struct(&CONTAINER_USER))).since(31),
        field(
            "AllocatedResourcesStatus",
            "allocatedResourcesStatus",
            "[]core.ResourceStatus",
            List(&Struct(&RESOURCE_STATUS)),
        )
        .since(31),
        field("StopSignal", "stopSignal", "*core.Signal", Pointer(&Str)).since(33),
    ],
};

pub static CONTAINER_USER: Layout = Layout {
    fields: &[field("Linux", "linux", "*core.LinuxContainerUser", Pointer(&Struct(&LINUX_CONTAINER_USER)))],
};

pub static HOST_IP: Layout = Layout { fields: &[field("IP", "ip", "string", Str)] };

pub static IMAGE_VOLUME_STATUS: Layout = Layout { fields: &[field("ImageRef", "imageRef", "string", Str)] };

pub static LINUX_CONTAINER_USER: Layout = Layout {
    fields: &[
        field("UID", "uid", "int64", Int),
        field("GID", "gid", "int64", Int),
        field("SupplementalGroups", "supplementalGroups", "[]int64", List(&Int)),
    ],
};

pub static NODE_ALLOCATABLE_RESOURCE_CLAIM_STATUS: Layout = Layout {
    fields: &[
        field("ResourceClaimName", "resourceClaimName", "string", Str),
        field("Containers", "containers", "[]string", List(&Str)),
        field("Resources", "resources", "map[core.ResourceName]resource.Quantity", Map(&Quantity)),
    ],
};

pub static POD_CONDITION: Layout = Layout {
    fields: &[
        field("Type", "type", "core.PodConditionType", Str),
        field("ObservedGeneration", "observedGeneration", "int64", Int).since(33),
        field("Status", "status", "core.ConditionStatus", Str),
        field("LastProbeTime", "lastProbeTime", "v1.Time", Time),
        field("LastTransitionTime", "lastTransitionTime", "v1.Time", Time),
        field("Reason", "reason", "string", Str),
        field("Message", "message", "string", Str),
    ],
};

pub static POD_EXTENDED_RESOURCE_CLAIM_STATUS: Layout = Layout {
    fields: &[
        field(
            "RequestMappings",
            "requestMappings",
            "[]core.ContainerExtendedResourceRequest",
            List(&Struct(&CONTAINER_EXTENDED_RESOURCE_REQUEST)),
        ),
        field("ResourceClaimName", "resourceClaimName", "string", Str),
    ],
};

pub static POD_IP: Layout = Layout { fields: &[field("IP", "ip", "string", Str)] };

pub static POD_RESOURCE_CLAIM_STATUS: Layout = Layout {
    fields: &[
        field("Name", "name", "string", Str),
        field("ResourceClaimName", "resourceClaimName", "*string", Pointer(&Str)),
    ],
};

pub static POD_STATUS: Layout = Layout {
    fields: &[
        field("ObservedGeneration", "observedGeneration", "int64", Int).since(33),
        field("Phase", "phase", "core.PodPhase", Str),
        field("Conditions", "conditions", "[]core.PodCondition", List(&Struct(&POD_CONDITION))),
        field("Message", "message", "string", Str),
        field("Reason", "reason", "string", Str),
        field("NominatedNodeName", "nominatedNodeName", "string", Str),
        field("HostIP", "hostIP", "string", Str),
        field("HostIPs", "hostIPs", "[]core.HostIP", List(&Struct(&HOST_IP))),
        field("PodIPs", "podIPs", "[]core.PodIP", List(&Struct(&POD_IP))),
        field("StartTime", "startTime", "*v1.Time", Pointer(&Time)),
        field("QOSClass", "qosClass", "core.PodQOSClass", Str),
        field(
            "InitContainerStatuses",
            "initContainerStatuses",
            "[]core.ContainerStatus",
            List(&Struct(&CONTAINER_STATUS)),
        ),
        field(
            "ContainerStatuses",
            "containerStatuses",
            "[]core.ContainerStatus",
            List(&Struct(&CONTAINER_STATUS)),
        ),
        field(
            "EphemeralContainerStatuses",
            "ephemeralContainerStatuses",
            "[]core.ContainerStatus",
            List(&Struct(&CONTAINER_STATUS)),
        ),
        field("Resize", "resize", "core.PodResizeStatus", Str),
        field(
            "ResourceClaimStatuses",
            "resourceClaimStatuses",
            "[]core.PodResourceClaimStatus",
            List(&Struct(&POD_RESOURCE_CLAIM_STATUS)),
        ),
        field(
            "ExtendedResourceClaimStatus",
            "extendedResourceClaimStatus",
            "*core.PodExtendedResourceClaimStatus",
            Pointer(&Struct(&POD_EXTENDED_RESOURCE_CLAIM_STATUS)),
        )
        .since(34),
        field("AllocatedResources", "allocatedResources", "core.ResourceList", Map(&Quantity)).since(35),
        field(
            "Resources",
            "resources",
            "*core.ResourceRequirements",
            Pointer(&Struct(&RESOURCE_REQUIREMENTS)),
        )
        .since(35),
        field(
            "NodeAllocatableResourceClaimStatuses",
            "nodeAllocatableResourceClaimStatuses",
            "[]core.NodeAllocatableResourceClaimStatus",
            List(&Struct(&NODE_ALLOCATABLE_RESOURCE_CLAIM_STATUS)),
        )
        .since(36),
    ],
};

pub static RESOURCE_HEALTH: Layout = Layout {
    fields: &[
        field("ResourceID", "resourceID", "core.ResourceID", Str),
        field("Health", "health", "core.ResourceHealthStatus", Str),
        field("Message", "message", "*string", Pointer(&Str)).since(36),
    ],
};

pub static RESOURCE_STATUS: Layout = Layout {
    fields: &[
        field("Name", "name", "core.ResourceName", Str),
        field("Resources", "resources", "[]core.ResourceHealth", List(&Struct(&RESOURCE_HEALTH))),
    ],
};

pub static VOLUME_MOUNT_STATUS: Layout = Layout {
    fields: &[
        field("Name", "name", "string", Str),
        field("MountPath", "mountPath", "string", Str),
        field("ReadOnly", "readOnly", "bool", Bool),
        field("RecursiveReadOnly", "recursiveReadOnly", "*core.RecursiveReadOnlyMode", Pointer(&Str)),
        field("VolumeStatus", "volumeStatus", "*core.VolumeStatus", Pointer(&Struct(&VOLUME_STATUS)))
            .since(36),
    ],
};

pub static VOLUME_STATUS: Layout = Layout {
    fields: &[field("Image", "image", "*core.ImageVolumeStatus", Pointer(&Struct(&IMAGE_VOLUME_STATUS)))],
};
