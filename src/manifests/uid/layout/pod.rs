//! The Pod itself and its spec.

use super::PrintKind::{Bool, Int, List, Map, Pointer, Quantity, Str, Struct};
use super::container::{
    APP_ARMOR_PROFILE, CONTAINER, EPHEMERAL_CONTAINER, LOCAL_OBJECT_REFERENCE, RESOURCE_REQUIREMENTS,
    SECCOMP_PROFILE, SELINUX_OPTIONS, WINDOWS_SECURITY_CONTEXT_OPTIONS,
};
use super::meta::{LABEL_SELECTOR, OBJECT_META, TYPE_META};
use super::status::POD_STATUS;
use super::volume::VOLUME;
use super::{Layout, blank, field};

pub static AFFINITY: Layout = Layout {
    fields: &[
        field("NodeAffinity", "nodeAffinity", "*core.NodeAffinity", Pointer(&Struct(&NODE_AFFINITY))),
        field("PodAffinity", "podAffinity", "*core.PodAffinity", Pointer(&Struct(&POD_AFFINITY))),
        field(
            "PodAntiAffinity",
            "podAntiAffinity",
            "*core.PodAntiAffinity",
            Pointer(&Struct(&POD_ANTI_AFFINITY)),
        ),
    ],
};

pub static CLAIM_SOURCE: Layout = Layout {
    fields: &[
        field("ResourceClaimName", "resourceClaimName", "*string", Pointer(&Str)),
        field("ResourceClaimTemplateName", "resourceClaimTemplateName", "*string", Pointer(&Str)),
    ],
};

pub static HOST_ALIAS: Layout = Layout {
    fields: &[field("IP", "ip", "string", Str), field("Hostnames", "hostnames", "[]string", List(&Str))],
};

pub static NODE_AFFINITY: Layout = Layout {
    fields: &[
        field(
            "RequiredDuringSchedulingIgnoredDuringExecution",
            "requiredDuringSchedulingIgnoredDuringExecution",
            "*core.NodeSelector",
            Pointer(&Struct(&NODE_SELECTOR)),
        ),
        field(
            "PreferredDuringSchedulingIgnoredDuringExecution",
            "preferredDuringSchedulingIgnoredDuringExecution",
            "[]core.PreferredSchedulingTerm",
            List(&Struct(&PREFERRED_SCHEDULING_TERM)),
        ),
    ],
};

pub static NODE_SELECTOR: Layout = Layout {
    fields: &[field(
        "NodeSelectorTerms",
        "nodeSelectorTerms",
        "[]core.NodeSelectorTerm",
        List(&Struct(&NODE_SELECTOR_TERM)),
    )],
};

pub static NODE_SELECTOR_REQUIREMENT: Layout = Layout {
    fields: &[
        field("Key", "key", "string", Str),
        field("Operator", "operator", "core.NodeSelectorOperator", Str),
        field("Values", "values", "[]string", List(&Str)),
    ],
};

pub static NODE_SELECTOR_TERM: Layout = Layout {
    fields: &[
        field(
            "MatchExpressions",
            "matchExpressions",
            "[]core.NodeSelectorRequirement",
            List(&Struct(&NODE_SELECTOR_REQUIREMENT)),
        ),
        field(
            "MatchFields",
            "matchFields",
            "[]core.NodeSelectorRequirement",
            List(&Struct(&NODE_SELECTOR_REQUIREMENT)),
        ),
    ],
};

pub static POD: Layout = Layout {
    fields: &[
        blank("TypeMeta", "v1.TypeMeta", Struct(&TYPE_META)),
        field("ObjectMeta", "metadata", "v1.ObjectMeta", Struct(&OBJECT_META)),
        field("Spec", "spec", "core.PodSpec", Struct(&POD_SPEC)),
        field("Status", "status", "core.PodStatus", Struct(&POD_STATUS)),
    ],
};

pub static POD_AFFINITY: Layout = Layout {
    fields: &[
        field(
            "RequiredDuringSchedulingIgnoredDuringExecution",
            "requiredDuringSchedulingIgnoredDuringExecution",
            "[]core.PodAffinityTerm",
            List(&Struct(&POD_AFFINITY_TERM)),
        ),
        field(
            "PreferredDuringSchedulingIgnoredDuringExecution",
            "preferredDuringSchedulingIgnoredDuringExecution",
            "[]core.WeightedPodAffinityTerm",
            List(&Struct(&WEIGHTED_POD_AFFINITY_TERM)),
        ),
    ],
};

pub static POD_AFFINITY_TERM: Layout = Layout {
    fields: &[
        field("LabelSelector", "labelSelector", "*v1.LabelSelector", Pointer(&Struct(&LABEL_SELECTOR))),
        field("Namespaces", "namespaces", "[]string", List(&Str)),
        field("TopologyKey", "topologyKey", "string", Str),
        field(
            "NamespaceSelector",
            "namespaceSelector",
            "*v1.LabelSelector",
            Pointer(&Struct(&LABEL_SELECTOR)),
        ),
        field("MatchLabelKeys", "matchLabelKeys", "[]string", List(&Str)).since(29),
        field("MismatchLabelKeys", "mismatchLabelKeys", "[]string", List(&Str)).since(29),
    ],
};

pub static POD_ANTI_AFFINITY: Layout = Layout {
    fields: &[
        field(
            "RequiredDuringSchedulingIgnoredDuringExecution",
            "requiredDuringSchedulingIgnoredDuringExecution",
            "[]core.PodAffinityTerm",
            List(&Struct(&POD_AFFINITY_TERM)),
        ),
        field(
            "PreferredDuringSchedulingIgnoredDuringExecution",
            "preferredDuringSchedulingIgnoredDuringExecution",
            "[]core.WeightedPodAffinityTerm",
            List(&Struct(&WEIGHTED_POD_AFFINITY_TERM)),
        ),
    ],
};

pub static POD_DNS_CONFIG: Layout = Layout {
    fields: &[
        field("Nameservers", "nameservers", "[]string", List(&Str)),
        field("Searches", "searches", "[]string", List(&Str)),
        field("Options", "options", "[]core.PodDNSConfigOption", List(&Struct(&POD_DNS_CONFIG_OPTION))),
    ],
};

pub static POD_DNS_CONFIG_OPTION: Layout = Layout {
    fields: &[field("Name", "name", "string", Str), field("Value", "value", "*string", Pointer(&Str))],
};

pub static POD_OS: Layout = Layout { fields: &[field("Name", "name", "core.OSName", Str)] };

pub static POD_READINESS_GATE: Layout =
    Layout { fields: &[field("ConditionType", "conditionType", "core.PodConditionType", Str)] };

pub static POD_RESOURCE_CLAIM: Layout = Layout {
    fields: &[
        field("Name", "name", "string", Str),
        field("ResourceClaimName", "resourceClaimName", "*string", Pointer(&Str)).since(31),
        field("ResourceClaimTemplateName", "resourceClaimTemplateName", "*string", Pointer(&Str)).since(31),
        field("Source", "source", "core.ClaimSource", Struct(&CLAIM_SOURCE)).until(31),
    ],
};

pub static POD_SCHEDULING_GATE: Layout = Layout { fields: &[field("Name", "name", "string", Str)] };

pub static POD_SCHEDULING_GROUP: Layout =
    Layout { fields: &[field("PodGroupName", "podGroupName", "*string", Pointer(&Str))] };

pub static POD_SECURITY_CONTEXT: Layout = Layout {
    fields: &[
        field("HostNetwork", "hostNetwork", "bool", Bool),
        field("HostPID", "hostPID", "bool", Bool),
        field("HostIPC", "hostIPC", "bool", Bool),
        field("ShareProcessNamespace", "shareProcessNamespace", "*bool", Pointer(&Bool)),
        field("HostUsers", "hostUsers", "*bool", Pointer(&Bool)),
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
        field("SupplementalGroups", "supplementalGroups", "[]int64", List(&Int)),
        field(
            "SupplementalGroupsPolicy",
            "supplementalGroupsPolicy",
            "*core.SupplementalGroupsPolicy",
            Pointer(&Str),
        )
        .since(31),
        field("FSGroup", "fsGroup", "*int64", Pointer(&Int)),
        field("FSGroupChangePolicy", "fsGroupChangePolicy", "*core.PodFSGroupChangePolicy", Pointer(&Str)),
        field("Sysctls", "sysctls", "[]core.Sysctl", List(&Struct(&SYSCTL))),
        field("SeccompProfile", "seccompProfile", "*core.SeccompProfile", Pointer(&Struct(&SECCOMP_PROFILE))),
        field(
            "AppArmorProfile",
            "appArmorProfile",
            "*core.AppArmorProfile",
            Pointer(&Struct(&APP_ARMOR_PROFILE)),
        )
        .since(30),
        field("SELinuxChangePolicy", "seLinuxChangePolicy", "*core.PodSELinuxChangePolicy", Pointer(&Str))
            .since(32),
    ],
};

pub static POD_SPEC: Layout = Layout {
    fields: &[
        field("Volumes", "volumes", "[]core.Volume", List(&Struct(&VOLUME))),
        field("InitContainers", "initContainers", "[]core.Container", List(&Struct(&CONTAINER))),
        field("Containers", "containers", "[]core.Container", List(&Struct(&CONTAINER))),
        field(
            "EphemeralContainers",
            "ephemeralContainers",
            "[]core.EphemeralContainer",
            List(&Struct(&EPHEMERAL_CONTAINER)),
        ),
        field("RestartPolicy", "restartPolicy", "core.RestartPolicy", Str),
        field("TerminationGracePeriodSeconds", "terminationGracePeriodSeconds", "*int64", Pointer(&Int)),
        field("ActiveDeadlineSeconds", "activeDeadlineSeconds", "*int64", Pointer(&Int)),
        field("DNSPolicy", "dnsPolicy", "core.DNSPolicy", Str),
        field("NodeSelector", "nodeSelector", "map[string]string", Map(&Str)),
        field("ServiceAccountName", "serviceAccountName", "string", Str),
        field("AutomountServiceAccountToken", "automountServiceAccountToken", "*bool", Pointer(&Bool)),
        field("NodeName", "nodeName", "string", Str),
        field(
            "SecurityContext",
            "securityContext",
            "*core.PodSecurityContext",
            Pointer(&Struct(&POD_SECURITY_CONTEXT)),
        ),
        field(
            "ImagePullSecrets",
            "imagePullSecrets",
            "[]core.LocalObjectReference",
            List(&Struct(&LOCAL_OBJECT_REFERENCE)),
        ),
        field("Hostname", "hostname", "string", Str),
        field("Subdomain", "subdomain", "string", Str),
        field("SetHostnameAsFQDN", "setHostnameAsFQDN", "*bool", Pointer(&Bool)),
        field("Affinity", "affinity", "*core.Affinity", Pointer(&Struct(&AFFINITY))),
        field("SchedulerName", "schedulerName", "string", Str),
        field("Tolerations", "tolerations", "[]core.Toleration", List(&Struct(&TOLERATION))),
        field("HostAliases", "hostAliases", "[]core.HostAlias", List(&Struct(&HOST_ALIAS))),
        field("PriorityClassName", "priorityClassName", "string", Str),
        field("Priority", "priority", "*int32", Pointer(&Int)),
        field("PreemptionPolicy", "preemptionPolicy", "*core.PreemptionPolicy", Pointer(&Str)),
        field("DNSConfig", "dnsConfig", "*core.PodDNSConfig", Pointer(&Struct(&POD_DNS_CONFIG))),
        field(
            "ReadinessGates",
            "readinessGates",
            "[]core.PodReadinessGate",
            List(&Struct(&POD_READINESS_GATE)),
        ),
        field("RuntimeClassName", "runtimeClassName", "*string", Pointer(&Str)),
        field("Overhead", "overhead", "core.ResourceList", Map(&Quantity)),
        field("EnableServiceLinks", "enableServiceLinks", "*bool", Pointer(&Bool)),
        field(
            "TopologySpreadConstraints",
            "topologySpreadConstraints",
            "[]core.TopologySpreadConstraint",
            List(&Struct(&TOPOLOGY_SPREAD_CONSTRAINT)),
        ),
        field("OS", "os", "*core.PodOS", Pointer(&Struct(&POD_OS))),
        field(
            "SchedulingGates",
            "schedulingGates",
            "[]core.PodSchedulingGate",
            List(&Struct(&POD_SCHEDULING_GATE)),
        ),
        field(
            "ResourceClaims",
            "resourceClaims",
            "[]core.PodResourceClaim",
            List(&Struct(&POD_RESOURCE_CLAIM)),
        ),
        field(
            "Resources",
            "resources",
            "*core.ResourceRequirements",
            Pointer(&Struct(&RESOURCE_REQUIREMENTS)),
        )
        .since(32),
        field("HostnameOverride", "hostnameOverride", "*string", Pointer(&Str)).since(34),
        field(
            "SchedulingGroup",
            "schedulingGroup",
            "*core.PodSchedulingGroup",
            Pointer(&Struct(&POD_SCHEDULING_GROUP)),
        )
        .since(36),
        field("WorkloadRef", "workloadRef", "*core.WorkloadReference", Pointer(&Struct(&WORKLOAD_REFERENCE)))
            .since(35)
            .until(36),
    ],
};

pub static PREFERRED_SCHEDULING_TERM: Layout = Layout {
    fields: &[
        field("Weight", "weight", "int32", Int),
        field("Preference", "preference", "core.NodeSelectorTerm", Struct(&NODE_SELECTOR_TERM)),
    ],
};

pub static SYSCTL: Layout =
    Layout { fields: &[field("Name", "name", "string", Str), field("Value", "value", "string", Str)] };

pub static TOLERATION: Layout = Layout {
    fields: &[
        field("Key", "key", "string", Str),
        field("Operator", "operator", "core.TolerationOperator", Str),
        field("Value", "value", "string", Str),
        field("Effect", "effect", "core.TaintEffect", Str),
        field("TolerationSeconds", "tolerationSeconds", "*int64", Pointer(&Int)),
    ],
};

pub static TOPOLOGY_SPREAD_CONSTRAINT: Layout = Layout {
    fields: &[
        field("MaxSkew", "maxSkew", "int32", Int),
        field("TopologyKey", "topologyKey", "string", Str),
        field("WhenUnsatisfiable", "whenUnsatisfiable", "core.UnsatisfiableConstraintAction", Str),
        field("LabelSelector", "labelSelector", "*v1.LabelSelector", Pointer(&Struct(&LABEL_SELECTOR))),
        field("MinDomains", "minDomains", "*int32", Pointer(&Int)),
        field("NodeAffinityPolicy", "nodeAffinityPolicy", "*core.NodeInclusionPolicy", Pointer(&Str)),
        field("NodeTaintsPolicy", "nodeTaintsPolicy", "*core.NodeInclusionPolicy", Pointer(&Str)),
        field("MatchLabelKeys", "matchLabelKeys", "[]string", List(&Str)),
    ],
};

pub static WEIGHTED_POD_AFFINITY_TERM: Layout = Layout {
    fields: &[
        field("Weight", "weight", "int32", Int),
        field("PodAffinityTerm", "podAffinityTerm", "core.PodAffinityTerm", Struct(&POD_AFFINITY_TERM)),
    ],
};

pub static WORKLOAD_REFERENCE: Layout = Layout {
    fields: &[
        field("Name", "name", "string", Str),
        field("PodGroup", "podGroup", "string", Str),
        field("PodGroupReplicaKey", "podGroupReplicaKey", "string", Str),
    ],
};
