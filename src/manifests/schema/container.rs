//! Containers and their nested types.

use super::Type::{Bool, Int32, Int64, IntOrString, List, Object as Obj, Str};
use super::{Object, QUANTITIES, STRINGS, field, newer};

pub static CONTAINER: Object = Object {
    name: "Container",
    fields: &[
        field("name", Str),
        field("image", Str),
        field("command", STRINGS),
        field("args", STRINGS),
        field("workingDir", Str),
        field("ports", List(&Obj(&CONTAINER_PORT))),
        field("envFrom", List(&Obj(&ENV_FROM))),
        field("env", List(&Obj(&ENV_VAR))),
        field("resources", Obj(&RESOURCES)),
        field("resizePolicy", List(&Obj(&RESIZE_POLICY))),
        field("restartPolicy", Str),
        newer(34, "restartPolicyRules", List(&Obj(&RESTART_RULE))).behind("ContainerRestartRules", 35),
        field("volumeMounts", List(&Obj(&VOLUME_MOUNT))),
        field("volumeDevices", List(&Obj(&VOLUME_DEVICE))),
        field("livenessProbe", Obj(&PROBE)),
        field("readinessProbe", Obj(&PROBE)),
        field("startupProbe", Obj(&PROBE)),
        field("lifecycle", Obj(&LIFECYCLE)),
        field("terminationMessagePath", Str),
        field("terminationMessagePolicy", Str),
        field("imagePullPolicy", Str),
        field("securityContext", Obj(&SECURITY_CONTEXT)),
        field("stdin", Bool),
        field("stdinOnce", Bool),
        field("tty", Bool),
    ],
};

/// The additional fields of an ephemeral container.
pub static EPHEMERAL_CONTAINER: Object =
    Object { name: "EphemeralContainer", fields: &[field("targetContainerName", Str)] };

static CONTAINER_PORT: Object = Object {
    name: "ContainerPort",
    fields: &[
        field("name", Str),
        field("hostPort", Int32),
        field("containerPort", Int32),
        field("protocol", Str),
        field("hostIP", Str),
    ],
};

static ENV_FROM: Object = Object {
    name: "EnvFromSource",
    fields: &[
        field("prefix", Str),
        field("configMapRef", Obj(&OPTIONAL_REFERENCE)),
        field("secretRef", Obj(&OPTIONAL_REFERENCE)),
    ],
};

static OPTIONAL_REFERENCE: Object =
    Object { name: "OptionalReference", fields: &[field("name", Str), field("optional", Bool)] };

static ENV_VAR: Object = Object {
    name: "EnvVar",
    fields: &[field("name", Str), field("value", Str), field("valueFrom", Obj(&ENV_VAR_SOURCE))],
};

static ENV_VAR_SOURCE: Object = Object {
    name: "EnvVarSource",
    fields: &[
        field("fieldRef", Obj(&FIELD_REF)),
        field("resourceFieldRef", Obj(&RESOURCE_FIELD_REF)),
        field("configMapKeyRef", Obj(&KEY_REF)),
        field("secretKeyRef", Obj(&KEY_REF)),
        newer(34, "fileKeyRef", Obj(&FILE_KEY_REF)).behind("EnvFiles", 35),
    ],
};

pub static FIELD_REF: Object =
    Object { name: "ObjectFieldSelector", fields: &[field("apiVersion", Str), field("fieldPath", Str)] };

pub static RESOURCE_FIELD_REF: Object = Object {
    name: "ResourceFieldSelector",
    fields: &[field("containerName", Str), field("resource", Str), field("divisor", super::Type::Quantity)],
};

static KEY_REF: Object =
    Object { name: "KeySelector", fields: &[field("name", Str), field("key", Str), field("optional", Bool)] };

static FILE_KEY_REF: Object = Object {
    name: "FileKeySelector",
    fields: &[field("volumeName", Str), field("path", Str), field("key", Str), field("optional", Bool)],
};

pub static RESOURCES: Object = Object {
    name: "ResourceRequirements",
    fields: &[
        field("limits", QUANTITIES),
        field("requests", QUANTITIES),
        field("claims", List(&Obj(&RESOURCE_CLAIM))),
    ],
};

pub static RESOURCE_CLAIM: Object =
    Object { name: "ResourceClaim", fields: &[field("name", Str), newer(31, "request", Str)] };

static RESIZE_POLICY: Object = Object {
    name: "ContainerResizePolicy",
    fields: &[field("resourceName", Str), field("restartPolicy", Str)],
};

static RESTART_RULE: Object = Object {
    name: "ContainerRestartRule",
    fields: &[field("action", Str), field("exitCodes", Obj(&EXIT_CODES))],
};

static EXIT_CODES: Object = Object {
    name: "ContainerRestartRuleOnExitCodes",
    fields: &[field("operator", Str), field("values", List(&Int32))],
};

static VOLUME_MOUNT: Object = Object {
    name: "VolumeMount",
    fields: &[
        field("name", Str),
        field("readOnly", Bool),
        newer(30, "recursiveReadOnly", Str).behind("RecursiveReadOnlyMounts", 31),
        field("mountPath", Str),
        field("subPath", Str),
        field("mountPropagation", Str),
        field("subPathExpr", Str),
    ],
};

static VOLUME_DEVICE: Object =
    Object { name: "VolumeDevice", fields: &[field("name", Str), field("devicePath", Str)] };

static PROBE: Object = Object {
    name: "Probe",
    fields: &[
        field("exec", Obj(&EXEC)),
        field("httpGet", Obj(&HTTP_GET)),
        field("tcpSocket", Obj(&TCP_SOCKET)),
        field("grpc", Obj(&GRPC)),
        field("initialDelaySeconds", Int32),
        field("timeoutSeconds", Int32),
        field("periodSeconds", Int32),
        field("successThreshold", Int32),
        field("failureThreshold", Int32),
        field("terminationGracePeriodSeconds", Int64),
    ],
};

static EXEC: Object = Object { name: "ExecAction", fields: &[field("command", STRINGS)] };

static HTTP_GET: Object = Object {
    name: "HTTPGetAction",
    fields: &[
        field("path", Str),
        field("port", IntOrString),
        field("host", Str),
        field("scheme", Str),
        field("httpHeaders", List(&Obj(&HTTP_HEADER))),
    ],
};

static HTTP_HEADER: Object =
    Object { name: "HTTPHeader", fields: &[field("name", Str), field("value", Str)] };

static TCP_SOCKET: Object =
    Object { name: "TCPSocketAction", fields: &[field("port", IntOrString), field("host", Str)] };

static GRPC: Object = Object { name: "GRPCAction", fields: &[field("port", Int32), field("service", Str)] };

static LIFECYCLE: Object = Object {
    name: "Lifecycle",
    fields: &[
        field("postStart", Obj(&LIFECYCLE_HANDLER)),
        field("preStop", Obj(&LIFECYCLE_HANDLER)),
        newer(33, "stopSignal", Str),
    ],
};

static LIFECYCLE_HANDLER: Object = Object {
    name: "LifecycleHandler",
    fields: &[
        field("exec", Obj(&EXEC)),
        field("httpGet", Obj(&HTTP_GET)),
        field("tcpSocket", Obj(&TCP_SOCKET)),
        newer(29, "sleep", Obj(&SLEEP)).behind("PodLifecycleSleepAction", 30),
    ],
};

static SLEEP: Object = Object { name: "SleepAction", fields: &[field("seconds", Int64)] };

static SECURITY_CONTEXT: Object = Object {
    name: "SecurityContext",
    fields: &[
        field("capabilities", Obj(&CAPABILITIES)),
        field("privileged", Bool),
        field("seLinuxOptions", Obj(&SELINUX)),
        field("windowsOptions", Obj(&WINDOWS_OPTIONS)),
        field("runAsUser", Int64),
        field("runAsGroup", Int64),
        field("runAsNonRoot", Bool),
        field("readOnlyRootFilesystem", Bool),
        field("allowPrivilegeEscalation", Bool),
        field("procMount", Str),
        field("seccompProfile", Obj(&LOCALHOST_PROFILE)),
        newer(30, "appArmorProfile", Obj(&LOCALHOST_PROFILE)),
    ],
};

static CAPABILITIES: Object =
    Object { name: "Capabilities", fields: &[field("add", STRINGS), field("drop", STRINGS)] };

pub static SELINUX: Object = Object {
    name: "SELinuxOptions",
    fields: &[field("user", Str), field("role", Str), field("type", Str), field("level", Str)],
};

pub static WINDOWS_OPTIONS: Object = Object {
    name: "WindowsSecurityContextOptions",
    fields: &[
        field("gmsaCredentialSpecName", Str),
        field("gmsaCredentialSpec", Str),
        field("runAsUserName", Str),
        field("hostProcess", Bool),
    ],
};

/// Seccomp and `AppArmor` profiles have the same two fields.
pub static LOCALHOST_PROFILE: Object =
    Object { name: "SecurityProfile", fields: &[field("type", Str), field("localhostProfile", Str)] };
