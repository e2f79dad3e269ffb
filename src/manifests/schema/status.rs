//! The status. The kubelet ignores the status in a static pod's file, but a wrong type in it still rejects the file.

use super::Type::{Bool, Int32, Int64, List, Object as Obj, Str, Time};
use super::container::RESOURCES;
use super::{Object, QUANTITIES, STRINGS, field, newer};

pub static POD_STATUS: Object = Object {
    name: "PodStatus",
    fields: &[
        newer(33, "observedGeneration", Int64),
        field("phase", Str),
        field("conditions", List(&Obj(&CONDITION))),
        field("message", Str),
        field("reason", Str),
        field("nominatedNodeName", Str),
        field("hostIP", Str),
        field("hostIPs", List(&Obj(&IP))),
        field("podIP", Str),
        field("podIPs", List(&Obj(&IP))),
        field("startTime", Time),
        field("initContainerStatuses", List(&Obj(&CONTAINER_STATUS))),
        field("containerStatuses", List(&Obj(&CONTAINER_STATUS))),
        field("qosClass", Str),
        field("ephemeralContainerStatuses", List(&Obj(&CONTAINER_STATUS))),
        field("resize", Str),
        field("resourceClaimStatuses", List(&Obj(&CLAIM_STATUS))),
        newer(35, "allocatedResources", QUANTITIES),
        newer(35, "resources", Obj(&RESOURCES)),
        newer(34, "extendedResourceClaimStatus", Obj(&EXTENDED_CLAIM_STATUS)),
        newer(36, "nodeAllocatableResourceClaimStatuses", List(&Obj(&NODE_CLAIM_STATUS))),
    ],
};

static EXTENDED_CLAIM_STATUS: Object = Object {
    name: "PodExtendedResourceClaimStatus",
    fields: &[field("requestMappings", List(&Obj(&EXTENDED_REQUEST))), field("resourceClaimName", Str)],
};

static EXTENDED_REQUEST: Object = Object {
    name: "ContainerExtendedResourceRequest",
    fields: &[field("containerName", Str), field("resourceName", Str), field("requestName", Str)],
};

static NODE_CLAIM_STATUS: Object = Object {
    name: "NodeAllocatableResourceClaimStatus",
    fields: &[field("resourceClaimName", Str), field("containers", STRINGS), field("resources", QUANTITIES)],
};

static CONDITION: Object = Object {
    name: "PodCondition",
    fields: &[
        field("type", Str),
        newer(33, "observedGeneration", Int64),
        field("status", Str),
        field("lastProbeTime", Time),
        field("lastTransitionTime", Time),
        field("reason", Str),
        field("message", Str),
    ],
};

static IP: Object = Object { name: "PodIP", fields: &[field("ip", Str)] };

static CLAIM_STATUS: Object =
    Object { name: "PodResourceClaimStatus", fields: &[field("name", Str), field("resourceClaimName", Str)] };

static CONTAINER_STATUS: Object = Object {
    name: "ContainerStatus",
    fields: &[
        field("name", Str),
        field("state", Obj(&CONTAINER_STATE)),
        field("lastState", Obj(&CONTAINER_STATE)),
        field("ready", Bool),
        field("restartCount", Int32),
        field("image", Str),
        field("imageID", Str),
        field("containerID", Str),
        field("started", Bool),
        field("allocatedResources", QUANTITIES),
        field("resources", Obj(&RESOURCES)),
        newer(30, "volumeMounts", List(&Obj(&MOUNT_STATUS))),
        newer(31, "user", Obj(&USER)),
        newer(31, "allocatedResourcesStatus", List(&Obj(&RESOURCE_STATUS))),
        newer(33, "stopSignal", Str),
    ],
};

static CONTAINER_STATE: Object = Object {
    name: "ContainerState",
    fields: &[
        field("waiting", Obj(&WAITING)),
        field("running", Obj(&RUNNING)),
        field("terminated", Obj(&TERMINATED)),
    ],
};

static WAITING: Object =
    Object { name: "ContainerStateWaiting", fields: &[field("reason", Str), field("message", Str)] };

static RUNNING: Object = Object { name: "ContainerStateRunning", fields: &[field("startedAt", Time)] };

static TERMINATED: Object = Object {
    name: "ContainerStateTerminated",
    fields: &[
        field("exitCode", Int32),
        field("signal", Int32),
        field("reason", Str),
        field("message", Str),
        field("startedAt", Time),
        field("finishedAt", Time),
        field("containerID", Str),
    ],
};

static MOUNT_STATUS: Object = Object {
    name: "VolumeMountStatus",
    fields: &[
        field("name", Str),
        field("mountPath", Str),
        field("readOnly", Bool),
        field("recursiveReadOnly", Str),
        newer(36, "volumeStatus", Obj(&VOLUME_STATUS)),
    ],
};

static VOLUME_STATUS: Object =
    Object { name: "VolumeStatus", fields: &[field("image", Obj(&IMAGE_VOLUME_STATUS))] };

static IMAGE_VOLUME_STATUS: Object = Object { name: "ImageVolumeStatus", fields: &[field("imageRef", Str)] };

static USER: Object = Object { name: "ContainerUser", fields: &[field("linux", Obj(&LINUX_USER))] };

static LINUX_USER: Object = Object {
    name: "LinuxContainerUser",
    fields: &[field("uid", Int64), field("gid", Int64), field("supplementalGroups", List(&Int64))],
};

static RESOURCE_STATUS: Object = Object {
    name: "ResourceStatus",
    fields: &[field("name", Str), field("resources", List(&Obj(&RESOURCE_HEALTH)))],
};

static RESOURCE_HEALTH: Object = Object {
    name: "ResourceHealth",
    fields: &[field("resourceID", Str), field("health", Str), newer(36, "message", Str)],
};
