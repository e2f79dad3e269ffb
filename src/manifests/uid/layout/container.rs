//! Containers and their nested types.

use super::PrintKind::{Bool, Int, IntOrString, List, Map, Pointer, Quantity, Str, Struct};
use super::{Layout, field, inline};

pub static APP_ARMOR_PROFILE: Layout = Layout {
    fields: &[
        field("Type", "type", "core.AppArmorProfileType", Str),
        field("LocalhostProfile", "localhostProfile", "*string", Pointer(&Str)),
    ],
};

pub static CAPABILITIES: Layout = Layout {
    fields: &[
        field("Add", "add", "[]core.Capability", List(&Str)),
        field("Drop", "drop", "[]core.Capability", List(&Str)),
    ],
};

pub static CONFIG_MAP_ENV_SOURCE: Layout = Layout {
    fields: &[
        inline("LocalObjectReference", "core.LocalObjectReference", Struct(&LOCAL_OBJECT_REFERENCE)),
        field("Optional", "optional", "*bool", Pointer(&Bool)),
    ],
};

pub static CONFIG_MAP_KEY_SELECTOR: Layout = Layout {
    fields: &[
        inline("LocalObjectReference", "core.LocalObjectReference", Struct(&LOCAL_OBJECT_REFERENCE)),
        field("Key", "key", "string", Str),
        field("Optional", "optional", "*bool", Pointer(&Bool)),
    ],
};

pub static CONTAINER: Layout = Layout {
    fields: &[
        field("Name", "name", "string", Str),
        field("Image", "image", "string", Str),
        field("Command", "command", "[]string", List(&Str)),
        field("Args", "args", "[]string", List(&Str)),
        field("WorkingDir", "workingDir", "string", Str),
        field("Ports", "ports", "[]core.ContainerPort", List(&Struct(&CONTAINER_PORT))),
        field("EnvFrom", "envFrom", "[]core.EnvFromSource", List(&Struct(&ENV_FROM_SOURCE))),
        field("Env", "env", "[]core.EnvVar", List(&Struct(&ENV_VAR))),
        field("Resources", "resources", "core.ResourceRequirements", Struct(&RESOURCE_REQUIREMENTS)),
        field(
            "ResizePolicy",
            "resizePolicy",
            "[]core.ContainerResizePolicy",
            List(&Struct(&CONTAINER_RESIZE_POLICY)),
        ),
        field("RestartPolicy", "restartPolicy", "*core.ContainerRestartPolicy", Pointer(&Str)),
        field(
            "RestartPolicyRules",
            "restartPolicyRules",
            "[]core.ContainerRestartRule",
            List(&Struct(&CONTAINER_RESTART_RULE)),
        )
        .since(34),
        field("VolumeMounts", "volumeMounts", "[]core.VolumeMount", List(&Struct(&VOLUME_MOUNT))),
        field("VolumeDevices", "volumeDevices", "[]core.VolumeDevice", List(&Struct(&VOLUME_DEVICE))),
        field("LivenessProbe", "livenessProbe", "*core.Probe", Pointer(&Struct(&PROBE))),
        field("ReadinessProbe", "readinessProbe", "*core.Probe", Pointer(&Struct(&PROBE))),
        field("StartupProbe", "startupProbe", "*core.Probe", Pointer(&Struct(&PROBE))),
        field("Lifecycle", "lifecycle", "*core.Lifecycle", Pointer(&Struct(&LIFECYCLE))),
        field("TerminationMessagePath", "terminationMessagePath", "string", Str),
        field("TerminationMessagePolicy", "terminationMessagePolicy", "core.TerminationMessagePolicy", Str),
        field("ImagePullPolicy", "imagePullPolicy", "core.PullPolicy", Str),
        field(
            "SecurityContext",
            "securityContext",
            "*core.SecurityContext",
            Pointer(&Struct(&SECURITY_CONTEXT)),
        ),
        field("Stdin", "stdin", "bool", Bool),
        field("StdinOnce", "stdinOnce", "bool", Bool),
        field("TTY", "tty", "bool", Bool),
    ],
};

pub static CONTAINER_PORT: Layout = Layout {
    fields: &[
        field("Name", "name", "string", Str),
        field("HostPort", "hostPort", "int32", Int),
        field("ContainerPort", "containerPort", "int32", Int),
        field("Protocol", "protocol", "core.Protocol", Str),
        field("HostIP", "hostIP", "string", Str),
    ],
};

pub static CONTAINER_RESIZE_POLICY: Layout = Layout {
    fields: &[
        field("ResourceName", "resourceName", "core.ResourceName", Str),
        field("RestartPolicy", "restartPolicy", "core.ResourceResizeRestartPolicy", Str),
    ],
};

pub static CONTAINER_RESTART_RULE: Layout = Layout {
    fields: &[
        field("Action", "action", "core.ContainerRestartRuleAction", Str),
        field(
            "ExitCodes",
            "exitCodes",
            "*core.ContainerRestartRuleOnExitCodes",
            Pointer(&Struct(&CONTAINER_RESTART_RULE_ON_EXIT_CODES)),
        ),
    ],
};

pub static CONTAINER_RESTART_RULE_ON_EXIT_CODES: Layout = Layout {
    fields: &[
        field("Operator", "operator", "core.ContainerRestartRuleOnExitCodesOperator", Str),
        field("Values", "values", "[]int32", List(&Int)),
    ],
};

pub static ENV_FROM_SOURCE: Layout = Layout {
    fields: &[
        field("Prefix", "prefix", "string", Str),
        field(
            "ConfigMapRef",
            "configMapRef",
            "*core.ConfigMapEnvSource",
            Pointer(&Struct(&CONFIG_MAP_ENV_SOURCE)),
        ),
        field("SecretRef", "secretRef", "*core.SecretEnvSource", Pointer(&Struct(&SECRET_ENV_SOURCE))),
    ],
};

pub static ENV_VAR: Layout = Layout {
    fields: &[
        field("Name", "name", "string", Str),
        field("Value", "value", "string", Str),
        field("ValueFrom", "valueFrom", "*core.EnvVarSource", Pointer(&Struct(&ENV_VAR_SOURCE))),
    ],
};

pub static ENV_VAR_SOURCE: Layout = Layout {
    fields: &[
        field("FieldRef", "fieldRef", "*core.ObjectFieldSelector", Pointer(&Struct(&OBJECT_FIELD_SELECTOR))),
        field(
            "ResourceFieldRef",
            "resourceFieldRef",
            "*core.ResourceFieldSelector",
            Pointer(&Struct(&RESOURCE_FIELD_SELECTOR)),
        ),
        field(
            "ConfigMapKeyRef",
            "configMapKeyRef",
            "*core.ConfigMapKeySelector",
            Pointer(&Struct(&CONFIG_MAP_KEY_SELECTOR)),
        ),
        field(
            "SecretKeyRef",
            "secretKeyRef",
            "*core.SecretKeySelector",
            Pointer(&Struct(&SECRET_KEY_SELECTOR)),
        ),
        field("FileKeyRef", "fileKeyRef", "*core.FileKeySelector", Pointer(&Struct(&FILE_KEY_SELECTOR)))
            .since(34),
    ],
};

pub static EPHEMERAL_CONTAINER: Layout = Layout {
    fields: &[
        inline(
            "EphemeralContainerCommon",
            "core.EphemeralContainerCommon",
            Struct(&EPHEMERAL_CONTAINER_COMMON),
        ),
        field("TargetContainerName", "targetContainerName", "string", Str),
    ],
};

pub static EPHEMERAL_CONTAINER_COMMON: Layout = Layout {
    fields: &[
        field("Name", "name", "string", Str),
        field("Image", "image", "string", Str),
        field("Command", "command", "[]string", List(&Str)),
        field("Args", "args", "[]string", List(&Str)),
        field("WorkingDir", "workingDir", "string", Str),
        field("Ports", "ports", "[]core.ContainerPort", List(&Struct(&CONTAINER_PORT))),
        field("EnvFrom", "envFrom", "[]core.EnvFromSource", List(&Struct(&ENV_FROM_SOURCE))),
        field("Env", "env", "[]core.EnvVar", List(&Struct(&ENV_VAR))),
        field("Resources", "resources", "core.ResourceRequirements", Struct(&RESOURCE_REQUIREMENTS)),
        field(
            "ResizePolicy",
            "resizePolicy",
            "[]core.ContainerResizePolicy",
            List(&Struct(&CONTAINER_RESIZE_POLICY)),
        ),
        field("RestartPolicy", "restartPolicy", "*core.ContainerRestartPolicy", Pointer(&Str)),
        field(
            "RestartPolicyRules",
            "restartPolicyRules",
            "[]core.ContainerRestartRule",
            List(&Struct(&CONTAINER_RESTART_RULE)),
        )
        .since(34),
        field("VolumeMounts", "volumeMounts", "[]core.VolumeMount", List(&Struct(&VOLUME_MOUNT))),
        field("VolumeDevices", "volumeDevices", "[]core.VolumeDevice", List(&Struct(&VOLUME_DEVICE))),
        field("LivenessProbe", "livenessProbe", "*core.Probe", Pointer(&Struct(&PROBE))),
        field("ReadinessProbe", "readinessProbe", "*core.Probe", Pointer(&Struct(&PROBE))),
        field("StartupProbe", "startupProbe", "*core.Probe", Pointer(&Struct(&PROBE))),
        field("Lifecycle", "lifecycle", "*core.Lifecycle", Pointer(&Struct(&LIFECYCLE))),
        field("TerminationMessagePath", "terminationMessagePath", "string", Str),
        field("TerminationMessagePolicy", "terminationMessagePolicy", "core.TerminationMessagePolicy", Str),
        field("ImagePullPolicy", "imagePullPolicy", "core.PullPolicy", Str),
        field(
            "SecurityContext",
            "securityContext",
            "*core.SecurityContext",
            Pointer(&Struct(&SECURITY_CONTEXT)),
        ),
        field("Stdin", "stdin", "bool", Bool),
        field("StdinOnce", "stdinOnce", "bool", Bool),
        field("TTY", "tty", "bool", Bool),
    ],
};

pub static EXEC_ACTION: Layout = Layout { fields: &[field("Command", "command", "[]string", List(&Str))] };

pub static FILE_KEY_SELECTOR: Layout = Layout {
    fields: &[
        field("VolumeName", "volumeName", "string", Str),
        field("Path", "path", "string", Str),
        field("Key", "key", "string", Str),
        field("Optional", "optional", "*bool", Pointer(&Bool)),
    ],
};

pub static GRPC_ACTION: Layout = Layout {
    fields: &[field("Port", "port", "int32", Int), field("Service", "service", "*string", Pointer(&Str))],
};

pub static HTTP_GET_ACTION: Layout = Layout {
    fields: &[
        field("Path", "path", "string", Str),
        field("Port", "port", "intstr.IntOrString", IntOrString),
        field("Host", "host", "string", Str),
        field("Scheme", "scheme", "core.URIScheme", Str),
        field("HTTPHeaders", "httpHeaders", "[]core.HTTPHeader", List(&Struct(&HTTP_HEADER))),
    ],
};

pub static HTTP_HEADER: Layout =
    Layout { fields: &[field("Name", "name", "string", Str), field("Value", "value", "string", Str)] };

pub static LIFECYCLE: Layout = Layout {
    fields: &[
        field("PostStart", "postStart", "*core.LifecycleHandler", Pointer(&Struct(&LIFECYCLE_HANDLER))),
        field("PreStop", "preStop", "*core.LifecycleHandler", Pointer(&Struct(&LIFECYCLE_HANDLER))),
        field("StopSignal", "stopSignal", "*core.Signal", Pointer(&Str)).since(33),
    ],
};

pub static LIFECYCLE_HANDLER: Layout = Layout {
    fields: &[
        field("Exec", "exec", "*core.ExecAction", Pointer(&Struct(&EXEC_ACTION))),
        field("HTTPGet", "httpGet", "*core.HTTPGetAction", Pointer(&Struct(&HTTP_GET_ACTION))),
        field("TCPSocket", "tcpSocket", "*core.TCPSocketAction", Pointer(&Struct(&TCP_SOCKET_ACTION))),
        field("Sleep", "sleep", "*core.SleepAction", Pointer(&Struct(&SLEEP_ACTION))).since(29),
    ],
};

pub static LOCAL_OBJECT_REFERENCE: Layout = Layout { fields: &[field("Name", "name", "string", Str)] };

pub static OBJECT_FIELD_SELECTOR: Layout = Layout {
    fields: &[
        field("APIVersion", "apiVersion", "string", Str),
        field("FieldPath", "fieldPath", "string", Str),
    ],
};

pub static PROBE: Layout = Layout {
    fields: &[
        inline("ProbeHandler", "core.ProbeHandler", Struct(&PROBE_HANDLER)),
        field("InitialDelaySeconds", "initialDelaySeconds", "int32", Int),
        field("TimeoutSeconds", "timeoutSeconds", "int32", Int),
        field("PeriodSeconds", "periodSeconds", "int32", Int),
        field("SuccessThreshold", "successThreshold", "int32", Int),
        field("FailureThreshold", "failureThreshold", "int32", Int),
        field("TerminationGracePeriodSeconds", "terminationGracePeriodSeconds", "*int64", Pointer(&Int)),
    ],
};

pub static PROBE_HANDLER: Layout = Layout {
    fields: &[
        field("Exec", "exec", "*core.ExecAction", Pointer(&Struct(&EXEC_ACTION))),
        field("HTTPGet", "httpGet", "*core.HTTPGetAction", Pointer(&Struct(&HTTP_GET_ACTION))),
        field("TCPSocket", "tcpSocket", "*core.TCPSocketAction", Pointer(&Struct(&TCP_SOCKET_ACTION))),
        field("GRPC", "grpc", "*core.GRPCAction", Pointer(&Struct(&GRPC_ACTION))),
    ],
};

pub static RESOURCE_CLAIM: Layout = Layout {
    fields: &[field("Name", "name", "string", Str), field("Request", "request", "string", Str).since(31)],
};

pub static RESOURCE_FIELD_SELECTOR: Layout = Layout {
    fields: &[
        field("ContainerName", "containerName", "string", Str),
        field("Resource", "resource", "string", Str),
        field("Divisor", "divisor", "resource.Quantity", Quantity),
    ],
};

pub static RESOURCE_REQUIREMENTS: Layout = Layout {
    fields: &[
        field("Limits", "limits", "core.ResourceList", Map(&Quantity)),
        field("Requests", "requests", "core.ResourceList", Map(&Quantity)),
        field("Claims", "claims", "[]core.ResourceClaim", List(&Struct(&RESOURCE_CLAIM))),
    ],
};

pub static SELINUX_OPTIONS: Layout = Layout {
    fields: &[
        field("User", "user", "string", Str),
        field("Role", "role", "string", Str),
        field("Type", "type", "string", Str),
        field("Level", "level", "string", Str),
    ],
};

pub static SECCOMP_PROFILE: Layout = Layout {
    fields: &[
        field("Type", "type", "core.SeccompProfileType", Str),
        field("LocalhostProfile", "localhostProfile", "*string", Pointer(&Str)),
    ],
};

pub static SECRET_ENV_SOURCE: Layout = Layout {
    fields: &[
        inline("LocalObjectReference", "core.LocalObjectReference", Struct(&LOCAL_OBJECT_REFERENCE)),
        field("Optional", "optional", "*bool", Pointer(&Bool)),
    ],
};

pub static SECRET_KEY_SELECTOR: Layout = Layout {
    fields: &[
        inline("LocalObjectReference", "core.LocalObjectReference", Struct(&LOCAL_OBJECT_REFERENCE)),
        field("Key", "key", "string", Str),
        field("Optional", "optional", "*bool", Pointer(&Bool)),
    ],
};

pub static SECURITY_CONTEXT: Layout = Layout {
    fields: &[
        field("Capabilities", "capabilities", "*core.Capabilities", Pointer(&Struct(&CAPABILITIES))),
        field("Privileged", "privileged", "*bool", Pointer(&Bool)),
        field("SELinuxOptions", "seLinuxOptions", "*core.SELinuxOptions", Pointer(&Struct(&SELINUX_OPTIONS))),
        field(
            "WindowsOptions",
            "windowsOptions",
            "*core.WindowsSecurityContextOptions",
            Pointer(&Struct(&WINDOWS_SECURITY_CONTEXT_OPTIONS)),
        ),
        field("RunAsUser", "runAsUser", "*int64", Pointer(&Int)),
        field("RunAsGroup", "runAsGroup", "*int64", Pointer(&Int)),
        field("RunAsNonRoot", "runAsNonRoot", "*bool", Pointer(&Bool)),
        field("ReadOnlyRootFilesystem", "readOnlyRootFilesystem", "*bool", Pointer(&Bool)),
        field("AllowPrivilegeEscalation", "allowPrivilegeEscalation", "*bool", Pointer(&Bool)),
        field("ProcMount", "procMount", "*core.ProcMountType", Pointer(&Str)),
        field("SeccompProfile", "seccompProfile", "*core.SeccompProfile", Pointer(&Struct(&SECCOMP_PROFILE))),
        field(
            "AppArmorProfile",
            "appArmorProfile",
            "*core.AppArmorProfile",
            Pointer(&Struct(&APP_ARMOR_PROFILE)),
        )
        .since(30),
    ],
};

pub static SLEEP_ACTION: Layout = Layout { fields: &[field("Seconds", "seconds", "int64", Int)] };

pub static TCP_SOCKET_ACTION: Layout = Layout {
    fields: &[field("Port", "port", "intstr.IntOrString", IntOrString), field("Host", "host", "string", Str)],
};

pub static VOLUME_DEVICE: Layout = Layout {
    fields: &[field("Name", "name", "string", Str), field("DevicePath", "devicePath", "string", Str)],
};

pub static VOLUME_MOUNT: Layout = Layout {
    fields: &[
        field("Name", "name", "string", Str),
        field("ReadOnly", "readOnly", "bool", Bool),
        field("RecursiveReadOnly", "recursiveReadOnly", "*core.RecursiveReadOnlyMode", Pointer(&Str))
            .since(30),
        field("MountPath", "mountPath", "string", Str),
        field("SubPath", "subPath", "string", Str),
        field("MountPropagation", "mountPropagation", "*core.MountPropagationMode", Pointer(&Str)),
        field("SubPathExpr", "subPathExpr", "string", Str),
    ],
};

pub static WINDOWS_SECURITY_CONTEXT_OPTIONS: Layout = Layout {
    fields: &[
        field("GMSACredentialSpecName", "gmsaCredentialSpecName", "*string", Pointer(&Str)),
        field("GMSACredentialSpec", "gmsaCredentialSpec", "*string", Pointer(&Str)),
        field("RunAsUserName", "runAsUserName", "*string", Pointer(&Str)),
        field("HostProcess", "hostProcess", "*bool", Pointer(&Bool)),
    ],
};
