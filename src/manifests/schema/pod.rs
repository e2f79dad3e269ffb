//! The Pod itself and its spec.

use super::Type::{Bool, Both, Int32, Int64, List, Object as Obj, Str};
use super::container::{
    CONTAINER, EPHEMERAL_CONTAINER, LOCALHOST_PROFILE, RESOURCES, SELINUX, WINDOWS_OPTIONS,
};
use super::meta::{LABEL_SELECTOR, LOCAL_REFERENCE, OBJECT_META};
use super::status::POD_STATUS;
use super::volume::VOLUME;
use super::{Object, QUANTITIES, STRING_MAP, STRINGS, between, field, newer, older};

/// A whole Pod.
pub static POD: Object = Object {
    name: "Pod",
    fields: &[
        field("kind", Str),
        field("apiVersion", Str),
        field("metadata", Obj(&OBJECT_META)),
        field("spec", Obj(&POD_SPEC)),
        field("status", Obj(&POD_STATUS)),
    ],
};

static POD_SPEC: Object = Object {
    name: "PodSpec",
    fields: &[
        field("containers", List(&Obj(&CONTAINER))),
        field("initContainers", List(&Obj(&CONTAINER))),
        field("volumes", List(&Obj(&VOLUME))),
        field("ephemeralContainers", List(&Both(&CONTAINER, &EPHEMERAL_CONTAINER))),
        field("restartPolicy", Str),
        field("terminationGracePeriodSeconds", Int64),
        field("activeDeadlineSeconds", Int64),
        field("dnsPolicy", Str),
        field("nodeSelector", STRING_MAP),
        field("serviceAccountName", Str),
        field("serviceAccount", Str),
        field("automountServiceAccountToken", Bool),
        field("nodeName", Str),
        field("hostNetwork", Bool),
        field("hostPID", Bool),
        field("hostIPC", Bool),
        field("shareProcessNamespace", Bool),
        field("securityContext", Obj(&POD_SECURITY_CONTEXT)),
        field("imagePullSecrets", List(&Obj(&LOCAL_REFERENCE))),
        field("hostname", Str),
        field("subdomain", Str),
        field("affinity", Obj(&AFFINITY)),
        field("schedulerName", Str),
        field("tolerations", List(&Obj(&TOLERATION))),
        field("hostAliases", List(&Obj(&HOST_ALIAS))),
        field("priorityClassName", Str),
        field("priority", Int32),
        field("dnsConfig", Obj(&DNS_CONFIG)),
        field("readinessGates", List(&Obj(&READINESS_GATE))),
        field("runtimeClassName", Str),
        field("enableServiceLinks", Bool),
        field("preemptionPolicy", Str),
        field("overhead", QUANTITIES),
        field("topologySpreadConstraints", List(&Obj(&TOPOLOGY_SPREAD))),
        field("setHostnameAsFQDN", Bool),
        field("os", Obj(&POD_OS)),
        field("hostUsers", Bool),
        field("schedulingGates", List(&Obj(&SCHEDULING_GATE))),
        field("resourceClaims", List(&Obj(&POD_RESOURCE_CLAIM))),
        newer(32, "resources", Obj(&RESOURCES)).behind("PodLevelResources", 34),
        newer(34, "hostnameOverride", Str).behind("HostnameOverride", 35),
        between(35, 36, "workloadRef", Obj(&WORKLOAD_REF)),
        newer(36, "schedulingGroup", Obj(&SCHEDULING_GROUP)),
    ],
};

static POD_SECURITY_CONTEXT: Object = Object {
    name: "PodSecurityContext",
    fields: &[
        field("seLinuxOptions", Obj(&SELINUX)),
        field("windowsOptions", Obj(&WINDOWS_OPTIONS)),
        field("runAsUser", Int64),
        field("runAsGroup", Int64),
        field("runAsNonRoot", Bool),
        field("supplementalGroups", List(&Int64)),
        newer(31, "supplementalGroupsPolicy", Str).behind("SupplementalGroupsPolicy", 33),
        field("fsGroup", Int64),
        field("sysctls", List(&Obj(&SYSCTL))),
        field("fsGroupChangePolicy", Str),
        field("seccompProfile", Obj(&LOCALHOST_PROFILE)),
        newer(30, "appArmorProfile", Obj(&LOCALHOST_PROFILE)),
        newer(32, "seLinuxChangePolicy", Str).behind("SELinuxChangePolicy", 33),
    ],
};

static SYSCTL: Object = Object { name: "Sysctl", fields: &[field("name", Str), field("value", Str)] };

static AFFINITY: Object = Object {
    name: "Affinity",
    fields: &[
        field("nodeAffinity", Obj(&NODE_AFFINITY)),
        field("podAffinity", Obj(&POD_AFFINITY)),
        field("podAntiAffinity", Obj(&POD_AFFINITY)),
    ],
};

static NODE_AFFINITY: Object = Object {
    name: "NodeAffinity",
    fields: &[
        field("requiredDuringSchedulingIgnoredDuringExecution", Obj(&NODE_SELECTOR)),
        field("preferredDuringSchedulingIgnoredDuringExecution", List(&Obj(&PREFERRED_TERM))),
    ],
};

static NODE_SELECTOR: Object =
    Object { name: "NodeSelector", fields: &[field("nodeSelectorTerms", List(&Obj(&NODE_SELECTOR_TERM)))] };

static NODE_SELECTOR_TERM: Object = Object {
    name: "NodeSelectorTerm",
    fields: &[
        field("matchExpressions", List(&Obj(&NODE_REQUIREMENT))),
        field("matchFields", List(&Obj(&NODE_REQUIREMENT))),
    ],
};

static NODE_REQUIREMENT: Object = Object {
    name: "NodeSelectorRequirement",
    fields: &[field("key", Str), field("operator", Str), field("values", STRINGS)],
};

static PREFERRED_TERM: Object = Object {
    name: "PreferredSchedulingTerm",
    fields: &[field("weight", Int32), field("preference", Obj(&NODE_SELECTOR_TERM))],
};

static POD_AFFINITY: Object = Object {
    name: "PodAffinity",
    fields: &[
        field("requiredDuringSchedulingIgnoredDuringExecution", List(&Obj(&POD_AFFINITY_TERM))),
        field("preferredDuringSchedulingIgnoredDuringExecution", List(&Obj(&WEIGHTED_TERM))),
    ],
};

static POD_AFFINITY_TERM: Object = Object {
    name: "PodAffinityTerm",
    fields: &[
        field("labelSelector", Obj(&LABEL_SELECTOR)),
        field("namespaces", STRINGS),
        field("topologyKey", Str),
        field("namespaceSelector", Obj(&LABEL_SELECTOR)),
        newer(29, "matchLabelKeys", STRINGS),
        newer(29, "mismatchLabelKeys", STRINGS),
    ],
};

static WEIGHTED_TERM: Object = Object {
    name: "WeightedPodAffinityTerm",
    fields: &[field("weight", Int32), field("podAffinityTerm", Obj(&POD_AFFINITY_TERM))],
};

static TOLERATION: Object = Object {
    name: "Toleration",
    fields: &[
        field("key", Str),
        field("operator", Str),
        field("value", Str),
        field("effect", Str),
        field("tolerationSeconds", Int64),
    ],
};

static HOST_ALIAS: Object =
    Object { name: "HostAlias", fields: &[field("ip", Str), field("hostnames", STRINGS)] };

static DNS_CONFIG: Object = Object {
    name: "PodDNSConfig",
    fields: &[
        field("nameservers", STRINGS),
        field("searches", STRINGS),
        field("options", List(&Obj(&DNS_OPTION))),
    ],
};

static DNS_OPTION: Object =
    Object { name: "PodDNSConfigOption", fields: &[field("name", Str), field("value", Str)] };

static READINESS_GATE: Object = Object { name: "PodReadinessGate", fields: &[field("conditionType", Str)] };

static TOPOLOGY_SPREAD: Object = Object {
    name: "TopologySpreadConstraint",
    fields: &[
        field("maxSkew", Int32),
        field("topologyKey", Str),
        field("whenUnsatisfiable", Str),
        field("labelSelector", Obj(&LABEL_SELECTOR)),
        field("minDomains", Int32),
        field("nodeAffinityPolicy", Str),
        field("nodeTaintsPolicy", Str),
        field("matchLabelKeys", STRINGS),
    ],
};

static POD_OS: Object = Object { name: "PodOS", fields: &[field("name", Str)] };

static SCHEDULING_GATE: Object = Object { name: "PodSchedulingGate", fields: &[field("name", Str)] };

static POD_RESOURCE_CLAIM: Object = Object {
    name: "PodResourceClaim",
    fields: &[
        field("name", Str),
        older(31, "source", Obj(&CLAIM_SOURCE)),
        newer(31, "resourceClaimName", Str),
        newer(31, "resourceClaimTemplateName", Str),
    ],
};

static CLAIM_SOURCE: Object = Object {
    name: "ClaimSource",
    fields: &[field("resourceClaimName", Str), field("resourceClaimTemplateName", Str)],
};

static WORKLOAD_REF: Object = Object {
    name: "WorkloadReference",
    fields: &[field("name", Str), field("podGroup", Str), field("podGroupReplicaKey", Str)],
};

static SCHEDULING_GROUP: Object =
    Object { name: "PodSchedulingGroup", fields: &[field("podGroupName", Str)] };
